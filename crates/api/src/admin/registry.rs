//! How an event looks in each tier, and bringing the tiers to agree.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rowlock_core::EventId;
use rowlock_registry::reconcile::{Comparison, Difference, Place, Repairs};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::error::Problem;
use crate::extract::{ADMIN, Allowed, NoQuery, Nothing, Posted, Segment};
use crate::json;

/// Differences that are listed. All of them are counted.
const MAX_LISTED: usize = 100;

/// What a tier knows of an event.
#[derive(Serialize, ToSchema)]
pub struct TierState {
    /// Seats that are held. Absent when the tier does not have the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    held_seats: Option<usize>,
    /// The journal sequence that this is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    sequence: Option<u64>,
}

/// A seat or an area at which a tier differs from the truth. Without either: the tier is behind as a whole.
#[derive(Serialize, ToSchema)]
pub struct TierDifference {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    seat_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    area_id: Option<Uuid>,
    /// `claim_without_hold`, `hold_without_claim`, `warm_copy` or `hot`.
    #[schema(example = "claim_without_hold")]
    what: &'static str,
}

#[derive(Serialize, ToSchema)]
pub struct RegistryView {
    event_id: Uuid,
    /// Whether all tiers could be asked and show the same.
    agree: bool,
    /// Whether Redis could be asked. If not, `warm` is empty, and its differences are not known.
    complete: bool,
    /// This process.
    hot: TierState,
    /// Redis.
    warm: TierState,
    truth: TierState,
    /// How many differences there are.
    difference_count: usize,
    /// The first 100 of them.
    differences: Vec<TierDifference>,
}

/// What was repaired.
#[derive(Serialize, ToSchema)]
pub struct ReconcileView {
    event_id: Uuid,
    /// Claims in Redis without a hold in the truth.
    claims_removed: usize,
    /// Holds in the truth whose claim was missing in Redis.
    claims_restored: usize,
    /// Holds past their time that nobody had ended.
    holds_expired: usize,
    /// 1 when the copy of the event in Redis was written anew.
    copies_rebuilt: usize,
    /// 1 when this process loads the event again.
    hot_reloaded: usize,
}

/// How the event looks in memory, in Redis and in the truth, and where they differ.
///
/// A difference is only reported when it lasts: what is on its way between the tiers is none.
#[utoipa::path(
    get,
    path = "/api/admin/events/{event_id}/registry",
    tag = "admin",
    params(("event_id" = Uuid, Path, description = "The id of the event.")),
    responses((status = 200, description = "The tiers.", body = RegistryView)),
    extensions(("x-scopes" = json!(["admin"])), ("x-problems" = json!(["unknown_event"]))),
)]
pub async fn get_registry(
    State(app): State<App>,
    Allowed(caller): Allowed<ADMIN>,
    Segment(event): Segment<EventId>,
    _: NoQuery,
) -> Result<Response, Problem> {
    let found = app.engine.compare(caller.org, event).await?;
    Ok(json::respond(StatusCode::OK, &view(event, &found)))
}

/// Brings memory and Redis to agree with the truth, while sales go on.
///
/// Doing it again is harmless, so a given `Idempotency-Key` means nothing: each request looks and repairs.
#[utoipa::path(
    post,
    path = "/api/admin/events/{event_id}/registry/reconcile",
    tag = "admin",
    params(("event_id" = Uuid, Path, description = "The id of the event.")),
    request_body(content = Option<Nothing>, description = "Nothing, or an empty object."),
    responses((status = 200, description = "What was repaired.", body = ReconcileView)),
    extensions(
        ("x-scopes" = json!(["admin"])),
        ("x-problems" = json!(["unknown_event"])),
        ("x-keeps-no-answer" = json!(true)),
    ),
)]
pub async fn reconcile(
    State(app): State<App>,
    Allowed(caller): Allowed<ADMIN>,
    Segment(event): Segment<EventId>,
    _: Posted<Nothing>,
) -> Result<Response, Problem> {
    let Repairs { claims_removed, claims_restored, holds_expired, copies_rebuilt, hot_reloaded } =
        app.engine.reconcile(caller.org, event).await?;
    let event_id = event.uuid();
    let view = ReconcileView {
        event_id,
        claims_removed,
        claims_restored,
        holds_expired,
        copies_rebuilt,
        hot_reloaded,
    };
    Ok(json::respond(StatusCode::OK, &view))
}

fn view(event: EventId, found: &Comparison) -> RegistryView {
    let tier = |held_seats, sequence| TierState { held_seats, sequence };
    let differences = found.differences.iter().take(MAX_LISTED).map(|(place, what)| TierDifference {
        seat_id: if let Place::Seat(seat) = place { Some(seat.uuid()) } else { None },
        area_id: if let Place::Area(area) = place { Some(area.uuid()) } else { None },
        what: match what {
            Difference::ClaimWithoutHold => "claim_without_hold",
            Difference::HoldWithoutClaim => "hold_without_claim",
            Difference::Copy => "warm_copy",
            Difference::Hot => "hot",
        },
    });
    RegistryView {
        event_id: event.uuid(),
        agree: found.agrees(),
        complete: found.complete,
        hot: tier(found.hot_holds, found.hot_sequence),
        warm: tier(found.warm_holds, found.warm_sequence),
        truth: tier(Some(found.truth_holds), Some(found.truth_sequence)),
        difference_count: found.differences.len(),
        differences: differences.collect(),
    }
}
