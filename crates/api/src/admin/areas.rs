//! Areas of an event: general admission.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rowlock_core::{Command, EventId, Outcome};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::app::{App, unexpected};
use crate::bookings::view::mark_replayed;
use crate::error::Problem;
use crate::events::{AreaView, tier_code};
use crate::extract::{ADMIN, Allowed, Posted, Segment};
use crate::json;
use crate::wire::{Capacity, NameText};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateArea {
    #[schema(inline)]
    name: NameText,
    /// The code of one of the event's tiers.
    #[schema(inline)]
    tier: NameText,
    #[schema(inline)]
    capacity: Capacity,
}

/// Creates an area.
#[utoipa::path(
    post,
    path = "/api/admin/events/{event_id}/areas",
    tag = "admin",
    params(("event_id" = Uuid, Path, description = "The id of the event.")),
    request_body = CreateArea,
    responses((status = 201, description = "Created.", body = AreaView)),
    extensions(
        ("x-scopes" = json!(["admin"])),
        ("x-problems" = json!(["unknown_event", "unknown_tier", "name_taken", "event_full"])),
    ),
)]
pub async fn create_area(
    State(app): State<App>,
    Allowed(caller): Allowed<ADMIN>,
    Segment(event): Segment<EventId>,
    posted: Posted<CreateArea>,
) -> Result<Response, Problem> {
    let CreateArea { name, tier, capacity } = posted.body;
    // If it can't be read now, nothing is created: the answer needs it.
    let live = app.engine.event(caller.org, event).await?;
    let command = Command::CreateArea { event, name: name.0, tier: tier.0, capacity: capacity.0 };
    let reply = app.execute(&caller, command, posted.idempotency).await?;
    let Outcome::Area(area) = &reply.outcome else { return Err(unexpected(&reply.outcome)) };
    let hot = live.read();
    let view = AreaView {
        area_id: area.id.uuid(),
        name: area.name.as_str(),
        tier: tier_code(hot.event(), area.tier),
        price: hot.event().price(area.tier),
        capacity: area.capacity,
    };
    Ok(mark_replayed(json::respond(StatusCode::CREATED, &view), reply.replayed))
}
