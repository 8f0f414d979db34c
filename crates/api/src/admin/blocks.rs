//! Blocks of an event. The seat generator makes those it names, so this is for empty ones and for their order.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rowlock_core::{Command, EventId, Outcome};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::app::{App, unexpected};
use crate::bookings::view::mark_replayed;
use crate::error::Problem;
use crate::events::BlockView;
use crate::extract::{ADMIN, Allowed, Posted, Segment};
use crate::json;
use crate::wire::NameText;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateBlock {
    #[schema(inline)]
    name: NameText,
}

/// Creates a block.
#[utoipa::path(
    post,
    path = "/api/admin/events/{event_id}/blocks",
    tag = "admin",
    params(("event_id" = Uuid, Path, description = "The id of the event.")),
    request_body = CreateBlock,
    responses((status = 201, description = "Created.", body = BlockView)),
    extensions(
        ("x-scopes" = json!(["admin"])),
        ("x-problems" = json!(["unknown_event", "name_taken", "event_full"])),
    ),
)]
pub async fn create_block(
    State(app): State<App>,
    Allowed(caller): Allowed<ADMIN>,
    Segment(event): Segment<EventId>,
    posted: Posted<CreateBlock>,
) -> Result<Response, Problem> {
    let command = Command::CreateBlock { event, name: posted.body.name.0 };
    let reply = app.execute(&caller, command, posted.idempotency).await?;
    let Outcome::Block(block) = &reply.outcome else { return Err(unexpected(&reply.outcome)) };
    let view = BlockView { block_id: block.id.uuid(), name: block.name.as_str() };
    Ok(mark_replayed(json::respond(StatusCode::CREATED, &view), reply.replayed))
}
