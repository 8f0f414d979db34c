//! Holds and bookings as JSON.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode};
use rowlock_core::booking::{Admits, Booking};
use rowlock_core::hold::Hold;
use rowlock_core::outcome::HeldElsewhere;
use rowlock_core::{AreaId, EventId, Name, OrgId, SeatId, Time};
use rowlock_registry::hot::{Layout, LiveEvent};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::Shared;
use crate::error::Problem;
use crate::json;
use crate::wire::{BookingStatusWord, HoldStatusWord, Money, SourceWord, Text, Timestamp};

pub const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What is printed on a seat: row and number.
struct Label<'a>(&'a str, u32);

impl Serialize for Label<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Put together by hand: every seat of every hold has one.
        let mut label = String::with_capacity(self.0.len() + 11);
        label.push_str(self.0);
        label.push('-');
        label.push_str(itoa::Buffer::new().format(self.1));
        serializer.serialize_str(&label)
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = HeldSeat)]
pub struct HeldSeatView<'a> {
    seat_id: Uuid,
    /// Row and number.
    #[schema(value_type = String)]
    label: Label<'a>,
    /// The name of its block.
    block: &'a str,
    row: &'a str,
    number: u32,
    /// What was shown when the hold was made, in minor units of the total's currency.
    price: i64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = HeldArea)]
pub struct HeldAreaView<'a> {
    area_id: Uuid,
    name: &'a str,
    quantity: u32,
    /// Of one place, as it was shown when the hold was made.
    price: i64,
}

/// A seat that the same user holds in another cart. It stays there.
#[derive(Serialize, ToSchema)]
#[schema(as = HeldElsewhere)]
pub struct ElsewhereView<'a> {
    seat_id: Uuid,
    hold_token: Uuid,
    cart_token: &'a str,
    expires_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Hold)]
pub struct HoldView<'a> {
    hold_token: Uuid,
    event_id: Uuid,
    user_id: &'a str,
    cart_token: &'a str,
    #[schema(inline)]
    status: HoldStatusWord,
    #[schema(inline)]
    source: SourceWord,
    seats: Vec<HeldSeatView<'a>>,
    areas: Vec<HeldAreaView<'a>>,
    total: Money<'a>,
    created_at: Timestamp,
    expires_at: Timestamp,
    /// No extension goes past this.
    max_expires_at: Timestamp,
    /// When checkout was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    checkout_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    ended_at: Option<Timestamp>,
    /// What the hold became, when it is converted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    booking_id: Option<Uuid>,
    /// Whole seconds until it expires. Only when the hold was asked for by its token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    seconds_left: Option<i64>,
    /// Seats asked for that this user holds in another cart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    already_held: Vec<ElsewhereView<'a>>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Ticket)]
pub struct TicketView<'a> {
    ticket_id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    seat_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    area_id: Option<Uuid>,
    /// Row and number of the seat, or the name of the area.
    label: String,
    /// Where the seat is: this, `row` and `number` are absent for a place of an area.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    block: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    row: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    number: Option<u32>,
    price: i64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Booking)]
pub struct BookingView<'a> {
    booking_id: Uuid,
    /// For people to read out. Ten letters and digits with a hyphen in the middle, such as `X9H6D-9KYWX`.
    reference: String,
    #[schema(inline)]
    status: BookingStatusWord,
    hold_token: Uuid,
    user_id: &'a str,
    event_id: Uuid,
    #[schema(inline)]
    source: SourceWord,
    tickets: Vec<TicketView<'a>>,
    total: Money<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    payment_reference: Option<&'a str>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cancelled_at: Option<Timestamp>,
}

/// What an event's places are called.
pub struct Names {
    layout: Arc<Layout>,
    areas: Vec<(AreaId, Name)>,
}

impl Names {
    pub async fn of_hold(app: &Shared, hold: &Hold) -> Result<Self, Problem> {
        let seats = hold.seats.iter().map(|seat| seat.ordinal);
        let areas = hold.areas.iter().map(|held| held.area);
        Self::of(app, hold.org, hold.event, seats, areas).await
    }

    async fn of_booking(app: &Shared, booking: &Booking) -> Result<Self, Problem> {
        let admits = booking.tickets.iter().map(|ticket| ticket.admits);
        let seats = admits.clone().filter_map(|admits| match admits {
            Admits::Seat(ordinal) => Some(ordinal),
            Admits::Area(_) => None,
        });
        let areas = admits.filter_map(|admits| match admits {
            Admits::Seat(_) => None,
            Admits::Area(area) => Some(area),
        });
        Self::of(app, booking.org, booking.event, seats, areas).await
    }

    async fn of(
        app: &Shared,
        org: OrgId,
        event: EventId,
        seats: impl Iterator<Item = u32> + Clone,
        areas: impl Iterator<Item = AreaId> + Clone,
    ) -> Result<Self, Problem> {
        let with_areas = areas.clone().next().is_some();
        let mut has_all = |names: &Self| {
            let is_known = |area: AreaId| names.areas.iter().any(|(known, _)| *known == area);
            seats.clone().all(|ordinal| (ordinal as usize) < names.layout.len())
                && areas.clone().all(is_known)
        };
        let loaded = app.engine.loaded(org, event).map(|live| Self::read(&live, with_areas));
        if let Some(names) = loaded.filter(&mut has_all) {
            return Ok(names);
        }
        // Boxed, because it is rare and large.
        Box::pin(async move {
            let names = Self::known(app, org, event, with_areas).await?;
            if has_all(&names) {
                return Ok(names);
            }
            // Another node has made them, and this one has not heard of it.
            app.engine.catch_up(event).await;
            Self::known(app, org, event, true).await
        })
        .await
    }

    /// As this node knows them, whatever others may have added.
    pub async fn known(app: &Shared, org: OrgId, event: EventId, areas: bool) -> Result<Self, Problem> {
        Ok(Self::read(&*app.engine.event(org, event).await?, areas))
    }

    fn read(live: &LiveEvent, areas: bool) -> Self {
        let event = live.read();
        let name = |area: &rowlock_core::area::Area| (area.id, area.name.clone());
        let areas = if areas { event.areas().iter().map(name).collect() } else { Vec::new() };
        Self { layout: Arc::clone(event.layout()), areas }
    }

    fn seat(&self, ordinal: u32) -> (&str, &str, u32) {
        // It should be there; still, a map must not cost a booking.
        if ordinal as usize >= self.layout.len() {
            return ("", "", 0);
        }
        (self.layout.block(ordinal).name.as_str(), self.layout.row(ordinal), self.layout.number(ordinal))
    }

    fn area(&self, id: AreaId) -> &str {
        self.areas.iter().find(|(area, _)| *area == id).map_or("", |(_, name)| name.as_str())
    }
}

impl<'a> HoldView<'a> {
    pub fn new(hold: &'a Hold, names: &'a Names, elsewhere: &'a [HeldElsewhere]) -> Self {
        let seats = hold.seats.iter().map(|seat| {
            let (block, row, number) = names.seat(seat.ordinal);
            HeldSeatView {
                seat_id: SeatId::of(hold.event, seat.ordinal).uuid(),
                label: Label(row, number),
                block,
                row,
                number,
                price: seat.price,
            }
        });
        let areas = hold.areas.iter().map(|held| HeldAreaView {
            area_id: held.area.uuid(),
            name: names.area(held.area),
            quantity: held.quantity,
            price: held.price,
        });
        let already_held = elsewhere.iter().map(|other| ElsewhereView {
            seat_id: other.seat.uuid(),
            hold_token: other.hold.uuid(),
            cart_token: other.cart.as_str(),
            expires_at: Timestamp(other.expires_at),
        });
        Self {
            hold_token: hold.id.uuid(),
            event_id: hold.event.uuid(),
            user_id: hold.user.as_str(),
            cart_token: hold.cart.as_str(),
            status: Text(hold.status),
            source: Text(hold.source),
            seats: seats.collect(),
            areas: areas.collect(),
            total: Money { amount: hold.total(), currency: hold.currency.as_str() },
            created_at: Timestamp(hold.created_at),
            expires_at: Timestamp(hold.expires_at),
            max_expires_at: Timestamp(hold.max_expires_at),
            checkout_at: hold.checkout_at.map(Timestamp),
            ended_at: hold.ended_at.map(Timestamp),
            booking_id: hold.booking.map(|booking| booking.uuid()),
            seconds_left: None,
            already_held: already_held.collect(),
        }
    }

    pub fn at(mut self, hold: &Hold, now: Time) -> Self {
        let left = if hold.is_live(now) { hold.expires_at.millis_since(now) / 1000 } else { 0 };
        self.seconds_left = Some(left);
        self
    }
}

/// The hold, with the answer's status.
pub async fn hold_response(
    app: &Shared,
    status: StatusCode,
    hold: &Hold,
    elsewhere: &[HeldElsewhere],
) -> Result<Response, Problem> {
    let names = Names::of_hold(app, hold).await?;
    Ok(json::respond(status, &HoldView::new(hold, &names, elsewhere)))
}

/// The booking, with the answer's status.
pub async fn booking_response(
    app: &Shared,
    status: StatusCode,
    booking: &Booking,
) -> Result<Response, Problem> {
    let names = Names::of_booking(app, booking).await?;
    let tickets = booking.tickets.iter().map(|ticket| {
        let (ticket_id, price) = (ticket.id.uuid(), ticket.price);
        match ticket.admits {
            Admits::Seat(ordinal) => {
                let (block, row, number) = names.seat(ordinal);
                TicketView {
                    ticket_id,
                    seat_id: Some(SeatId::of(booking.event, ordinal).uuid()),
                    area_id: None,
                    label: rowlock_core::seat::label(row, number),
                    block: Some(block),
                    row: Some(row),
                    number: Some(number),
                    price,
                }
            }
            Admits::Area(area) => TicketView {
                ticket_id,
                seat_id: None,
                area_id: Some(area.uuid()),
                label: names.area(area).to_owned(),
                block: None,
                row: None,
                number: None,
                price,
            },
        }
    });
    let view = BookingView {
        booking_id: booking.id.uuid(),
        reference: booking.reference(),
        status: Text(booking.status),
        hold_token: booking.hold.uuid(),
        user_id: booking.user.as_str(),
        event_id: booking.event.uuid(),
        source: Text(booking.source),
        tickets: tickets.collect(),
        total: Money { amount: booking.total(), currency: booking.currency.as_str() },
        payment_reference: booking.payment_reference.as_ref().map(|reference| reference.as_str()),
        created_at: Timestamp(booking.created_at),
        cancelled_at: booking.cancelled_at.map(Timestamp),
    };
    Ok(json::respond(status, &view))
}

/// Says so when the answer is the recorded one of an earlier request.
pub fn mark_replayed(mut response: Response, replayed: bool) -> Response {
    if replayed {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// 201 for what changed something, 200 for what was so already.
pub fn created_if(changed: bool) -> StatusCode {
    if changed { StatusCode::CREATED } else { StatusCode::OK }
}
