//! `GET /api/events/{event_id}`: what is sold, when and for how much.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rowlock_core::EventId;
use rowlock_core::event::Event;
use rowlock_core::policy::Policy;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::error::Problem;
use crate::extract::{Allowed, NoQuery, READ, Segment};
use crate::json;
use crate::wire::Timestamp;

/// A price level.
#[derive(Serialize, ToSchema)]
#[schema(as = Tier)]
pub struct TierView<'a> {
    code: &'a str,
    /// Minor units of the event's currency.
    price: i64,
}

/// How long and how much one may hold.
#[derive(Serialize, ToSchema)]
#[schema(as = Policy)]
pub struct PolicyView {
    /// How long a fresh hold lasts.
    ttl_seconds: u32,
    /// What starting checkout adds, once.
    checkout_extension_seconds: u32,
    /// What each heartbeat adds.
    heartbeat_seconds: u32,
    /// How long after its creation a hold ends, whatever extended it.
    max_hold_seconds: u32,
    /// Places that one user may hold and own together. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    seats_per_user: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    sales_open_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    sales_close_at: Option<Timestamp>,
}

/// A section of seats.
#[derive(Serialize, ToSchema)]
#[schema(as = Block)]
pub struct BlockView<'a> {
    pub block_id: Uuid,
    pub name: &'a str,
}

/// General admission.
#[derive(Serialize, ToSchema)]
#[schema(as = Area)]
pub struct AreaView<'a> {
    pub area_id: Uuid,
    pub name: &'a str,
    /// The code of its price tier.
    pub tier: &'a str,
    /// Of one place, in minor units of the event's currency.
    pub price: i64,
    pub capacity: u32,
}

/// An event with its blocks and areas.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub struct EventView<'a> {
    event_id: Uuid,
    name: &'a str,
    #[schema(min_length = 3, max_length = 3)]
    currency: &'a str,
    tiers: Vec<TierView<'a>>,
    policy: PolicyView,
    blocks: Vec<BlockView<'a>>,
    areas: Vec<AreaView<'a>>,
    seat_count: u32,
    /// Whether the sales window is open now.
    on_sale: bool,
    created_at: Timestamp,
}

impl PolicyView {
    pub fn new(policy: &Policy) -> Self {
        Self {
            ttl_seconds: policy.ttl_seconds,
            checkout_extension_seconds: policy.checkout_extension_seconds,
            heartbeat_seconds: policy.heartbeat_seconds,
            max_hold_seconds: policy.max_hold_seconds,
            seats_per_user: policy.seats_per_user,
            sales_open_at: policy.sales_open_at.map(Timestamp),
            sales_close_at: policy.sales_close_at.map(Timestamp),
        }
    }
}

pub fn tiers(event: &Event) -> Vec<TierView<'_>> {
    event.tiers.iter().map(|tier| TierView { code: tier.code.as_str(), price: tier.price }).collect()
}

/// The code of a tier by its index.
pub fn tier_code(event: &Event, tier: u8) -> &str {
    event.tiers.get(usize::from(tier)).map_or("", |tier| tier.code.as_str())
}

/// The event.
#[utoipa::path(
    get,
    path = "/api/events/{event_id}",
    tag = "events",
    params(("event_id" = Uuid, Path, description = "The id of the event.")),
    responses((status = 200, description = "The event.", body = EventView)),
    extensions(("x-scopes" = json!(["read"])), ("x-problems" = json!(["unknown_event"]))),
)]
pub async fn get_event(
    State(app): State<App>,
    Allowed(caller): Allowed<READ>,
    Segment(id): Segment<EventId>,
    _: NoQuery,
) -> Result<Response, Problem> {
    let live = app.engine.event(caller.org, id).await?;
    let hot = live.read();
    let event = hot.event();
    let blocks = hot.layout().blocks.iter();
    let areas = hot.areas().iter().map(|area| AreaView {
        area_id: area.id.uuid(),
        name: area.name.as_str(),
        tier: tier_code(event, area.tier),
        price: event.price(area.tier),
        capacity: area.capacity,
    });
    let view = EventView {
        event_id: id.uuid(),
        name: event.name.as_str(),
        currency: event.currency.as_str(),
        tiers: tiers(event),
        policy: PolicyView::new(&event.policy),
        blocks: blocks
            .map(|block| BlockView { block_id: block.id.uuid(), name: block.name.as_str() })
            .collect(),
        areas: areas.collect(),
        seat_count: hot.seat_count(),
        on_sale: event.policy.sells_at(app.engine.now()),
        created_at: Timestamp(event.created_at),
    };
    Ok(json::respond(StatusCode::OK, &view))
}
