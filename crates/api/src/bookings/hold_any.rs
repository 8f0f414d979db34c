//! `POST /api/bookings/hold-any`: for who wants to sit together more than to choose.

use axum::extract::State;
use axum::response::Response;
use rowlock_core::Command;

use super::HoldAny;
use super::hold_seats::hold;
use super::view::HoldView;
use crate::app::App;
use crate::error::Problem;
use crate::extract::{Allowed, HOLD, Posted};

/// Holds any free seats of a block, side by side if possible.
///
/// `quantity` is how many seats of the block the cart shall hold. Those that it holds already count, so the same request
/// sent again answers 200 with the same hold.
#[utoipa::path(
    post,
    path = "/api/bookings/hold-any",
    tag = "bookings",
    request_body = HoldAny,
    responses(
        (status = 201, description = "Held.", body = HoldView),
        (status = 200, description = "The cart held as many already.", body = HoldView),
    ),
    extensions(
        ("x-scopes" = json!(["hold"])),
        ("x-problems" = json!([
            "user_required", "unknown_event", "unknown_block", "block_full", "too_many_seats", "sales_not_open"
        ])),
    ),
)]
pub async fn hold_any(
    State(app): State<App>,
    Allowed(caller): Allowed<HOLD>,
    posted: Posted<HoldAny>,
) -> Result<Response, Problem> {
    let places = posted.body.places(caller.user()?);
    hold(&app, caller.request(Command::Hold(places), posted.idempotency)).await
}
