//! Creating and listing events.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rowlock_core::event::{Event, Tier};
use rowlock_core::limits::MAX_TIERS_PER_EVENT;
use rowlock_core::policy::Policy;
use rowlock_core::{Command, EventId, Outcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{page, page_limit};
use crate::app::{App, unexpected};
use crate::bookings::view::mark_replayed;
use crate::error::Problem;
use crate::events::{PolicyView, TierView, tiers};
use crate::extract::{ADMIN, Allowed, Posted, Query};
use crate::json;
use crate::limits::MAX_PAGE;
use crate::list::{List, Object};
use crate::wire::{CurrencyText, Duration, Extension, NameText, Price, SeatsPerUser, Timestamp};

/// A price level.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTier {
    #[schema(inline)]
    code: NameText,
    #[schema(inline)]
    price: Price,
}

pub type NewTiers = List<Object<NewTier>, 1, MAX_TIERS_PER_EVENT>;

/// How long and how much one may hold. What is absent has its default.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPolicy {
    /// 900 unless given.
    ttl_seconds: Option<Duration>,
    /// 300 unless given.
    checkout_extension_seconds: Option<Extension>,
    /// 120 unless given.
    heartbeat_seconds: Option<Extension>,
    /// At least `ttl_seconds`. Unless given, 1800 or `ttl_seconds`, whichever is more.
    max_hold_seconds: Option<Duration>,
    /// No limit unless given.
    seats_per_user: Option<SeatsPerUser>,
    sales_open_at: Option<Timestamp>,
    /// After `sales_open_at`.
    sales_close_at: Option<Timestamp>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateEvent {
    #[schema(inline)]
    name: NameText,
    #[schema(inline)]
    currency: CurrencyText,
    /// With different codes.
    #[schema(inline)]
    tiers: NewTiers,
    #[schema(value_type = Option<NewPolicy>)]
    policy: Option<Object<NewPolicy>>,
}

impl NewPolicy {
    fn policy(&self) -> Policy {
        let default = Policy::default();
        let ttl_seconds = self.ttl_seconds.map_or(default.ttl_seconds, |seconds| seconds.0);
        let extension = |given: Option<Extension>, default| given.map_or(default, |seconds| seconds.0);
        Policy {
            ttl_seconds,
            checkout_extension_seconds: extension(
                self.checkout_extension_seconds,
                default.checkout_extension_seconds,
            ),
            heartbeat_seconds: extension(self.heartbeat_seconds, default.heartbeat_seconds),
            max_hold_seconds: self
                .max_hold_seconds
                .map_or(default.max_hold_seconds.max(ttl_seconds), |seconds| seconds.0),
            seats_per_user: self.seats_per_user.map(|seats| seats.0),
            sales_open_at: self.sales_open_at.map(|at| at.0),
            sales_close_at: self.sales_close_at.map(|at| at.0),
        }
    }
}

/// An event as it was created.
#[derive(Serialize, ToSchema)]
#[schema(as = EventCreated)]
pub struct EventCreatedView<'a> {
    event_id: Uuid,
    name: &'a str,
    #[schema(min_length = 3, max_length = 3)]
    currency: &'a str,
    tiers: Vec<TierView<'a>>,
    policy: PolicyView,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    seat_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    area_count: Option<u32>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = EventPage)]
pub struct EventPageView<'a> {
    events: Vec<EventCreatedView<'a>>,
}

impl<'a> EventCreatedView<'a> {
    fn new(event: &'a Event) -> Self {
        Self {
            event_id: event.id.uuid(),
            name: event.name.as_str(),
            currency: event.currency.as_str(),
            tiers: tiers(event),
            policy: PolicyView::new(&event.policy),
            created_at: Timestamp(event.created_at),
            seat_count: None,
            area_count: None,
        }
    }
}

/// Creates an event. Blocks, seats and areas come after it.
#[utoipa::path(
    post,
    path = "/api/admin/events",
    tag = "admin",
    request_body = CreateEvent,
    responses((status = 201, description = "Created.", body = EventCreatedView)),
    extensions(("x-scopes" = json!(["admin"])), ("x-problems" = json!(["unknown_org"]))),
)]
pub async fn create_event(
    State(app): State<App>,
    Allowed(caller): Allowed<ADMIN>,
    posted: Posted<CreateEvent>,
) -> Result<Response, Problem> {
    let CreateEvent { name, currency, tiers, policy } = posted.body;
    let tiers = tiers.0.into_iter().map(|tier| Tier { code: tier.0.code.0, price: tier.0.price.0 });
    let command = Command::CreateEvent {
        name: name.0,
        currency: currency.0,
        tiers: tiers.collect(),
        policy: policy.map(|policy| policy.0.policy()).unwrap_or_default(),
    };
    let reply = app.execute(&caller, command, posted.idempotency).await?;
    let Outcome::Event(event) = &reply.outcome else { return Err(unexpected(&reply.outcome)) };
    let response = json::respond(StatusCode::CREATED, &EventCreatedView::new(event));
    Ok(mark_replayed(response, reply.replayed))
}

/// The org's events.
#[utoipa::path(
    get,
    path = "/api/admin/events",
    tag = "admin",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Items of the page; 100 if absent."),
        ("after" = Option<Uuid>, Query, description = "The last id of the page before."),
    ),
    responses((status = 200, description = "A page of events.", body = EventPageView)),
    extensions(("x-scopes" = json!(["admin"])), ("x-problems" = json!([]))),
)]
pub async fn list_events(
    State(app): State<App>,
    Allowed(caller): Allowed<ADMIN>,
    query: Query,
) -> Result<Response, Problem> {
    let query = query.only(&["limit", "after"])?;
    let limit = page_limit(&query, MAX_PAGE)?;
    let events = app.engine.events(caller.org, query.one::<EventId>("after")?, limit).await?.events;
    let views = events.iter().map(|summary| EventCreatedView {
        seat_count: Some(summary.seat_count),
        area_count: Some(summary.area_count),
        ..EventCreatedView::new(&summary.event)
    });
    let view = EventPageView { events: views.collect() };
    let last = events.last().map(|summary| summary.event.id.to_string());
    Ok(page(&view, "/api/admin/events", limit, events.len() == limit, last))
}
