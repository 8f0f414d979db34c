//! Bookings: confirming a hold, selling in one step, looking at one, cancelling.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rowlock_core::{BookingId, Command, HoldId, Outcome, Refusal};
use rowlock_registry::Reply;
use serde::Deserialize;
use utoipa::ToSchema;

use super::Book;
use super::view::{BookingView, booking_response, created_if, mark_replayed};
use crate::app::{App, unexpected};
use crate::error::Problem;
use crate::extract::{Allowed, BOOK, BOOKING, CANCEL, HOLD, NoQuery, Nothing, Posted, Segment};
use crate::wire::PaymentText;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Confirm {
    /// What the payment provider calls the payment.
    payment_reference: Option<PaymentText>,
}

/// Turns a hold into a booking with one ticket a place.
///
/// Confirming again answers 200 with the same booking. It keeps the payment reference that it was made with.
#[utoipa::path(
    post,
    path = "/api/bookings/{hold_token}/confirm",
    tag = "bookings",
    params(("hold_token" = Uuid, Path, description = "The token of the hold.")),
    request_body(content = Option<Confirm>, description = "May be left out."),
    responses(
        (status = 201, description = "Booked.", body = BookingView),
        (status = 200, description = "It was booked already.", body = BookingView),
    ),
    extensions(
        ("x-scopes" = json!(["hold"])),
        ("x-problems" = json!([
            "user_required", "not_owner", "unknown_hold", "already_cancelled", "hold_expired", "hold_released"
        ])),
    ),
)]
pub async fn confirm(
    State(app): State<App>,
    Allowed(caller): Allowed<HOLD>,
    Segment(hold): Segment<HoldId>,
    posted: Posted<Confirm>,
) -> Result<Response, Problem> {
    let user = caller.user()?.clone();
    let payment_reference = posted.body.payment_reference.map(|reference| reference.0);
    let command = Command::Confirm { hold, user, payment_reference };
    answer(&app, app.execute(&caller, command, posted.idempotency).await?, true).await
}

/// Holds and confirms in one step, for a box office.
///
/// It sells what is free, in addition to what the user holds in a cart: such a hold is confirmed by its token.
#[utoipa::path(
    post,
    path = "/api/bookings",
    tag = "bookings",
    request_body = Book,
    responses((status = 201, description = "Booked.", body = BookingView)),
    extensions(
        ("x-scopes" = json!(["book"])),
        ("x-problems" = json!([
            "user_required", "unknown_event", "unknown_seats", "unknown_area", "seats_taken", "seats_blocked",
            "area_full", "too_many_seats", "sales_not_open"
        ])),
    ),
)]
pub async fn book(
    State(app): State<App>,
    Allowed(caller): Allowed<BOOK>,
    posted: Posted<Book>,
) -> Result<Response, Problem> {
    let user = caller.user()?;
    let payment_reference = posted.body.payment_reference.as_ref().map(|reference| reference.0.clone());
    let places = posted.body.places(user);
    // If it can't be read now, nothing is sold: who repeats a sale whose answer failed would sell twice.
    app.engine.event(caller.org, places.event).await?;
    let command = Command::Book { places, payment_reference };
    answer(&app, app.execute(&caller, command, posted.idempotency).await?, true).await
}

/// The booking.
///
/// Its owner sees it, with any of the scopes hold, book and cancel, and so does whoever has the scope admin.
#[utoipa::path(
    get,
    path = "/api/bookings/{booking_id}",
    tag = "bookings",
    params(("booking_id" = Uuid, Path, description = "The id of the booking.")),
    responses((status = 200, description = "The booking.", body = BookingView)),
    extensions(
        ("x-scopes" = json!(["hold", "book", "cancel", "admin"])),
        ("x-problems" = json!(["user_required", "not_owner", "unknown_booking"])),
    ),
)]
pub async fn get_booking(
    State(app): State<App>,
    Allowed(caller): Allowed<BOOKING>,
    Segment(id): Segment<BookingId>,
    _: NoQuery,
) -> Result<Response, Problem> {
    if !caller.is_admin() {
        caller.user()?;
    }
    let booking = app.engine.booking(caller.org, id).await?;
    if !caller.is_admin() && caller.user()? != &booking.user {
        return Err(Refusal::NotOwner.into());
    }
    booking_response(&app, StatusCode::OK, &booking).await
}

/// Cancels a booking. Its places return to sale, once.
///
/// A user cancels their own; an API key with the scope admin that names no user cancels any. Cancelling again is a
/// success.
#[utoipa::path(
    post,
    path = "/api/bookings/{booking_id}/cancel",
    tag = "bookings",
    params(("booking_id" = Uuid, Path, description = "The id of the booking.")),
    request_body(content = Option<Nothing>, description = "Nothing, or an empty object."),
    responses((status = 200, description = "The booking, cancelled.", body = BookingView)),
    extensions(
        ("x-scopes" = json!(["cancel"])),
        ("x-problems" = json!(["user_required", "not_owner", "unknown_booking"])),
    ),
)]
pub async fn cancel(
    State(app): State<App>,
    Allowed(caller): Allowed<CANCEL>,
    Segment(booking): Segment<BookingId>,
    posted: Posted<Nothing>,
) -> Result<Response, Problem> {
    if !caller.is_admin() {
        caller.user()?;
    }
    let command = Command::CancelBooking { booking, user: caller.user.clone() };
    answer(&app, app.execute(&caller, command, posted.idempotency).await?, false).await
}

async fn answer(app: &App, reply: Reply, creates: bool) -> Result<Response, Problem> {
    let Outcome::Booking(booked) = &reply.outcome else { return Err(unexpected(&reply.outcome)) };
    let status = created_if(creates && booked.changed);
    let response = booking_response(app, status, &booked.booking).await?;
    Ok(mark_replayed(response, reply.replayed))
}
