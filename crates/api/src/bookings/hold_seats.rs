//! `POST /api/bookings/hold-seats`: the request that the product is about.

use axum::extract::State;
use axum::response::Response;
use rowlock_core::{Command, Outcome, Request};

use super::HoldSeats;
use super::view::{HoldView, created_if, hold_response, mark_replayed};
use crate::app::{App, unexpected};
use crate::error::Problem;
use crate::extract::{Allowed, HOLD, Posted};

/// Holds seats and places of areas, all of them or none.
///
/// One cart is one hold: more places for the same cart join its hold and do not move its expiry. Holding again what
/// the cart already holds answers 200 with the same hold. Seats that the same user holds in another cart stay there
/// and are listed in `already_held`; if there is nothing else to hold and the cart is empty, the answer is the hold that has the
/// first of them.
#[utoipa::path(
    post,
    path = "/api/bookings/hold-seats",
    tag = "bookings",
    request_body = HoldSeats,
    responses(
        (status = 201, description = "Held.", body = HoldView),
        (status = 200, description = "The user held all of it already, in this cart or in others.", body = HoldView),
    ),
    extensions(
        ("x-scopes" = json!(["hold"])),
        ("x-problems" = json!([
            "user_required", "unknown_event", "unknown_seats", "unknown_area", "seats_taken", "seats_blocked",
            "area_full", "too_many_seats", "sales_not_open"
        ])),
    ),
)]
pub fn hold_seats(
    State(app): State<App>,
    Allowed(caller): Allowed<HOLD>,
    posted: Posted<HoldSeats>,
) -> impl Future<Output = Response> {
    // Before there is a future: what was posted need not wait for the answer as well.
    let places = caller.user().map(|user| posted.body.places(user));
    let request = places.map(|places| caller.request(Command::Hold(places), posted.idempotency));
    let request_id = caller.request_id;
    async move {
        let held = match request {
            Ok(request) => hold(&app, request).await,
            Err(problem) => Err(problem),
        };
        // Written here and not by the middleware: when a sale is nearly over, most answers are refusals.
        held.unwrap_or_else(|problem| problem.render(&request_id))
    }
}

/// Holds, and answers with the hold: 201 when something was added to it.
pub(super) async fn hold(app: &App, request: Box<Request>) -> Result<Response, Problem> {
    let reply = app.engine.execute(request).await?;
    let Outcome::Hold(held) = &reply.outcome else { return Err(unexpected(&reply.outcome)) };
    let response = hold_response(app, created_if(held.changed), &held.hold, &held.elsewhere).await?;
    Ok(mark_replayed(response, reply.replayed))
}
