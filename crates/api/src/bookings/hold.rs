//! `/api/bookings/hold/{hold_token}`: a hold until it ends.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rowlock_core::limits::MAX_SEATS_PER_REQUEST;
use rowlock_core::{Command, HoldId, IdempotencyKey, Outcome, Refusal, SeatId};

use super::view::{HoldView, Names, hold_response, mark_replayed};
use crate::app::{App, unexpected};
use crate::auth::Caller;
use crate::error::Problem;
use crate::extract::{Allowed, HOLD, HOLD_OR_ADMIN, NoBody, NoQuery, Nothing, Posted, Query, Segment};
use crate::json;

/// The hold, with the seconds it has left.
///
/// Its owner sees it, and whoever has the scope admin.
#[utoipa::path(
    get,
    path = "/api/bookings/hold/{hold_token}",
    tag = "bookings",
    params(("hold_token" = Uuid, Path, description = "The token of the hold.")),
    responses((status = 200, description = "The hold.", body = HoldView)),
    extensions(
        ("x-scopes" = json!(["hold", "admin"])),
        ("x-problems" = json!(["user_required", "not_owner", "unknown_hold"])),
    ),
)]
pub async fn get_hold(
    State(app): State<App>,
    Allowed(caller): Allowed<HOLD_OR_ADMIN>,
    Segment(token): Segment<HoldId>,
    _: NoQuery,
) -> Result<Response, Problem> {
    if !caller.is_admin() {
        caller.user()?;
    }
    let hold = app.engine.hold(caller.org, token).await?;
    if !caller.is_admin() && caller.user()? != &hold.user {
        return Err(Refusal::NotOwner.into());
    }
    let names = Names::of_hold(&app, &hold).await?;
    let view = HoldView::new(&hold, &names, &[]).at(&hold, app.engine.now());
    Ok(json::respond(StatusCode::OK, &view))
}

/// Starts checkout, which extends the hold once.
///
/// Starting it again changes nothing and is a success.
#[utoipa::path(
    post,
    path = "/api/bookings/hold/{hold_token}/checkout",
    tag = "bookings",
    params(("hold_token" = Uuid, Path, description = "The token of the hold.")),
    request_body(content = Option<Nothing>, description = "Nothing, or an empty object."),
    responses((status = 200, description = "The hold with its new expiry.", body = HoldView)),
    extensions(
        ("x-scopes" = json!(["hold"])),
        ("x-problems" = json!([
            "user_required", "not_owner", "unknown_hold", "hold_confirmed", "hold_expired", "hold_released"
        ])),
    ),
)]
pub async fn start_checkout(
    State(app): State<App>,
    Allowed(caller): Allowed<HOLD>,
    Segment(hold): Segment<HoldId>,
    posted: Posted<Nothing>,
) -> Result<Response, Problem> {
    let user = caller.user()?.clone();
    change(&app, &caller, Command::StartCheckout { hold, user }, posted.idempotency).await
}

/// Extends the hold by one step while a payment is slow.
#[utoipa::path(
    post,
    path = "/api/bookings/hold/{hold_token}/heartbeat",
    tag = "bookings",
    params(("hold_token" = Uuid, Path, description = "The token of the hold.")),
    request_body(content = Option<Nothing>, description = "Nothing, or an empty object."),
    responses((status = 200, description = "The hold with its new expiry.", body = HoldView)),
    extensions(
        ("x-scopes" = json!(["hold"])),
        ("x-problems" = json!([
            "user_required", "not_owner", "unknown_hold", "hold_confirmed", "extension_exhausted", "hold_expired",
            "hold_released"
        ])),
    ),
)]
pub async fn heartbeat(
    State(app): State<App>,
    Allowed(caller): Allowed<HOLD>,
    Segment(hold): Segment<HoldId>,
    posted: Posted<Nothing>,
) -> Result<Response, Problem> {
    let user = caller.user()?.clone();
    change(&app, &caller, Command::Heartbeat { hold, user }, posted.idempotency).await
}

/// Releases the hold, or some of its seats.
///
/// Releasing what is released or expired is a success.
#[utoipa::path(
    delete,
    path = "/api/bookings/hold/{hold_token}",
    tag = "bookings",
    params(
        ("hold_token" = Uuid, Path, description = "The token of the hold."),
        ("seat_id" = Option<Vec<Uuid>>, Query, style = Form, explode,
            description = "A seat to release; repeat it for more. Without it, everything.", max_items = 100),
    ),
    responses((status = 200, description = "The hold as it is now.", body = HoldView)),
    extensions(
        ("x-scopes" = json!(["hold"])),
        ("x-problems" = json!(["user_required", "not_owner", "unknown_hold", "unknown_seats", "hold_confirmed"])),
    ),
)]
pub async fn release(
    State(app): State<App>,
    Allowed(caller): Allowed<HOLD>,
    Segment(hold): Segment<HoldId>,
    query: Query,
    _: NoBody,
) -> Result<Response, Problem> {
    let seats: Vec<SeatId> = query.only(&["seat_id"])?.all("seat_id", MAX_SEATS_PER_REQUEST)?;
    let user = caller.user()?.clone();
    change(&app, &caller, Command::Release { hold, user, seats }, None).await
}

async fn change(
    app: &App,
    caller: &Caller,
    command: Command,
    idempotency: Option<IdempotencyKey>,
) -> Result<Response, Problem> {
    let reply = app.execute(caller, command, idempotency).await?;
    let Outcome::Hold(held) = &reply.outcome else { return Err(unexpected(&reply.outcome)) };
    let response = hold_response(app, StatusCode::OK, &held.hold, &held.elsewhere).await?;
    Ok(mark_replayed(response, reply.replayed))
}
