//! Confirming a hold into a booking, both at once for a box office, and cancelling.

use std::sync::Arc;

use super::extend::live_hold;
use super::{Decided, Facts, booking_of, hold, owned_hold};
use crate::booking::{Admits, Booking, BookingStatus, Ticket};
use crate::command::Places;
use crate::fact::{Fact, HoldSold};
use crate::hold::{Hold, HoldStatus};
use crate::ids::{BookingId, HoldId, IdSource, OrgId, TicketId};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::text::{PaymentReference, UserId};
use crate::time::Time;

pub(super) fn confirm(
    slice: &Slice,
    org: OrgId,
    id: HoldId,
    user: &UserId,
    payment_reference: Option<&PaymentReference>,
    now: Time,
    ids: &mut dyn IdSource,
) -> Result<Decided, Refusal> {
    let held = owned_hold(slice, org, id, user)?;
    if held.status == HoldStatus::Converted {
        let booking = booking_of(slice, org, held.booking.expect("a converted hold is booked"))?;
        return match booking.status {
            BookingStatus::Confirmed => Ok(Decided::booking(Facts::new(), booking.id)),
            BookingStatus::Cancelled => Err(Refusal::AlreadyCancelled { booking: booking.id }),
        };
    }
    let held = live_hold(slice, org, id, user, now)?;
    let mut facts = Facts::new();
    let booking = sell(held, payment_reference, now, ids, &mut facts);
    Ok(Decided::booking(facts, booking))
}

pub(super) fn book(
    slice: &Slice,
    org: OrgId,
    places: &Places,
    payment_reference: Option<&PaymentReference>,
    now: Time,
    ids: &mut dyn IdSource,
) -> Result<Decided, Refusal> {
    let (mut facts, held) = hold::fresh_hold(slice, org, places, now, ids)?;
    let held = Arc::new(held);
    facts.push(Fact::HoldCreated(Arc::clone(&held)));
    let booking = sell(&held, payment_reference, now, ids, &mut facts);
    Ok(Decided::booking(facts, booking))
}

pub(super) fn cancel(
    slice: &Slice,
    org: OrgId,
    id: BookingId,
    user: Option<&UserId>,
    now: Time,
) -> Result<Decided, Refusal> {
    let booking = booking_of(slice, org, id)?;
    if user.is_some_and(|user| *user != booking.user) {
        return Err(Refusal::NotOwner);
    }
    if booking.status == BookingStatus::Cancelled {
        return Ok(Decided::booking(Facts::new(), id));
    }
    let cancelled = Booking { status: BookingStatus::Cancelled, cancelled_at: Some(now), ..booking.clone() };
    Ok(Decided::booking(Facts::from_iter([Fact::BookingCancelled(cancelled)]), id))
}

/// Turns a hold into a booking of one ticket a place.
fn sell(
    held: &Hold,
    payment_reference: Option<&PaymentReference>,
    now: Time,
    ids: &mut dyn IdSource,
    facts: &mut Facts,
) -> BookingId {
    let seats = held.seats.iter().map(|seat| (Admits::Seat(seat.ordinal), seat.price));
    let areas = held
        .areas
        .iter()
        .flat_map(|line| std::iter::repeat_n((Admits::Area(line.area), line.price), line.quantity as usize));
    let tickets = seats
        .chain(areas)
        .map(|(admits, price)| Ticket { id: TicketId::from_uuid(ids.next(now)), admits, price })
        .collect();
    let booking = Booking {
        id: BookingId::from_uuid(ids.next(now)),
        org: held.org,
        event: held.event,
        hold: held.id,
        user: held.user.clone(),
        status: BookingStatus::Confirmed,
        source: held.source,
        currency: held.currency,
        tickets,
        payment_reference: payment_reference.cloned(),
        created_at: now,
        cancelled_at: None,
    };
    facts.push(Fact::HoldConfirmed(HoldSold {
        hold: held.id,
        event: held.event,
        user: held.user.clone(),
        booking: booking.id,
        expires_at: held.expires_at,
        at: now,
    }));
    let id = booking.id;
    facts.push(Fact::BookingConfirmed(booking));
    id
}
