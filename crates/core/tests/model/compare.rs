//! Whether the kernel's answer and rows are those that the model foresaw.

use rowlock_core::decide::Executed;
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::seat::SeatState;
use rowlock_core::{AreaId, BookingId, HoldId, Outcome, Refusal, SeatId, Time};

use super::ops::{AREAS, EVENTS, SEATS};
use super::play::Names;
use super::rules::{End, Model, No, Owner, Yes};
use crate::support::Rows;

pub fn answer(
    expected: &Result<Yes, No>,
    answer: &Result<Executed, Refusal>,
    model: &Model,
    names: &mut Names,
) -> Result<(), String> {
    let differ = || format!("expected {expected:?}, got {answer:?}");
    match (expected, answer) {
        (Err(no), Err(refusal)) if *no == names.refusal(refusal) => Ok(()),
        (Ok(yes), Ok(done)) if !done.replayed => {
            names.learn(&done.outcome);
            if foreseen(yes, &done.outcome, model, names) { Ok(()) } else { Err(differ()) }
        }
        _ => Err(differ()),
    }
}

fn foreseen(yes: &Yes, outcome: &Outcome, model: &Model, names: &Names) -> bool {
    match (yes, outcome) {
        (Yes::Hold { hold, changed, elsewhere }, Outcome::Hold(got)) => {
            let reported = got.elsewhere.iter().map(|other| (seat(other.seat), names.index_of(other.hold)));
            changed.is_none_or(|changed| changed == got.changed)
                && reported.eq(elsewhere.iter().copied())
                && names.index_of(got.hold.id) == *hold
                && same_hold(&model.holds[*hold], &got.hold, model, names)
        }
        (Yes::Booking { booking, changed }, Outcome::Booking(got)) => {
            let hold = &model.holds[model.sales[*booking].hold];
            *changed == got.changed
                && names.booking(got.booking.id) == *booking
                && names.index_of(got.booking.hold) == model.sales[*booking].hold
                && got.booking.tickets.len() == hold.seats.len() + hold.areas.iter().sum::<u32>() as usize
                && got.booking.cancelled_at.is_some() == model.sales[*booking].cancelled
        }
        (Yes::Marked(seats), Outcome::Blocking(got)) => {
            got.seats.iter().map(|id| seat(*id)).eq(seats.clone())
        }
        _ => false,
    }
}

fn same_hold(model_hold: &super::rules::Hold, got: &Hold, model: &Model, names: &Names) -> bool {
    let mut seats: Vec<u32> = got.seats.iter().map(|seat| seat.ordinal).collect();
    let mut foreseen: Vec<u32> = model_hold.seats.iter().map(|seat| u32::from(*seat)).collect();
    seats.sort_unstable();
    foreseen.sort_unstable();
    let areas = &names.areas[usize::from(model_hold.event)];
    let is_live = got.is_live(Time::from_millis(model.now));
    let same_end = match model_hold.end {
        End::Open => is_live == model.is_live(model_hold) && got.booking.is_none(),
        End::Released => got.status == HoldStatus::Cancelled,
        End::Sold(sale) => got.status == HoldStatus::Converted && got.booking == Some(names.bookings[sale]),
    };
    seats == foreseen
        && (0..AREAS as usize).all(|n| got.quantity_of(areas[n]) == model_hold.areas[n])
        && got.expires_at.millis() == model_hold.expires
        && got.max_expires_at.millis() == model_hold.longest
        && got.checkout_at.is_some() == model_hold.in_checkout
        && same_end
}

/// Every seat and area, as somebody who asks now would see it.
pub fn state(rows: &Rows, model: &Model, names: &Names) -> Result<(), String> {
    let now = Time::from_millis(model.now);
    for event in 0..EVENTS {
        let id = names.events[usize::from(event)];
        for seat in 0..SEATS {
            let row = rows.seats[&SeatId::of(id, u32::from(seat))].value.state;
            let owner = match row {
                SeatState::Available => Owner::Nobody,
                SeatState::Held { until, .. } if until <= now => Owner::Nobody,
                SeatState::Held { hold, .. } => Owner::Holder(names.index_of(hold)),
                SeatState::Blocked => Owner::Organizer,
                SeatState::Sold { ticket } => {
                    let has = |id: &BookingId| rows.bookings[id].value.tickets.iter().any(|t| t.id == ticket);
                    Owner::Buyer(names.bookings.iter().position(has).unwrap_or(usize::MAX))
                }
            };
            let foreseen = model.owner(event, seat);
            if owner != foreseen {
                return Err(format!("seat {seat} of event {event}: expected {foreseen:?}, is {row:?}"));
            }
        }
        for (n, area) in (0..AREAS).zip(&names.areas[usize::from(event)]) {
            let live = rows.active_holds().filter(|hold| hold.is_live(now));
            let counts = (live.map(|hold| hold.quantity_of(*area)).sum(), rows.areas[area].value.sold);
            let foreseen = model.in_area(event, n);
            if counts != foreseen {
                return Err(format!("area {n} of event {event}: expected {foreseen:?}, is {counts:?}"));
            }
        }
    }
    Ok(())
}

fn seat(id: SeatId) -> u8 {
    id.raw_ordinal() as u8
}

/// From the kernel's names back to small numbers. What has no number gets one that fits nothing.
impl Names {
    /// New holds and bookings get the next number, in the order in which they are made.
    fn learn(&mut self, outcome: &Outcome) {
        let hold = match outcome {
            Outcome::Hold(got) => got.hold.id,
            Outcome::Booking(got) => got.booking.hold,
            _ => return,
        };
        if !self.holds.contains(&hold) {
            self.holds.push(hold);
        }
        if let Outcome::Booking(got) = outcome
            && !self.bookings.contains(&got.booking.id)
        {
            self.bookings.push(got.booking.id);
        }
    }

    fn index_of(&self, id: HoldId) -> usize {
        self.holds.iter().position(|known| *known == id).unwrap_or(usize::MAX)
    }

    fn booking(&self, id: BookingId) -> usize {
        self.bookings.iter().position(|known| *known == id).unwrap_or(usize::MAX)
    }

    fn area(&self, id: AreaId) -> u8 {
        let known = self.areas.iter().find_map(|areas| areas.iter().position(|known| *known == id));
        known.map_or(AREAS, |n| n as u8)
    }

    fn refusal(&self, refusal: &Refusal) -> No {
        let numbers = |ids: &[SeatId]| ids.iter().map(|id| seat(*id)).collect();
        match refusal {
            Refusal::UnknownEvent { .. } => No::UnknownEvent,
            Refusal::UnknownSeats { seats } => No::UnknownSeats(numbers(seats)),
            Refusal::UnknownArea { area } => No::UnknownArea(self.area(*area)),
            Refusal::UnknownHold { .. } => No::UnknownHold,
            Refusal::UnknownBooking { .. } => No::UnknownBooking,
            Refusal::SeatsTaken { seats } => No::SeatsTaken(numbers(seats)),
            Refusal::SeatsBlocked { seats } => No::SeatsBlocked(numbers(seats)),
            Refusal::UnknownBlock { .. } => No::UnknownBlock,
            Refusal::BlockFull { requested, left, .. } => {
                No::BlockFull { requested: *requested, left: *left }
            }
            Refusal::AreaFull { area, requested, left } => {
                No::AreaFull { area: self.area(*area), requested: *requested, left: *left }
            }
            Refusal::NotOwner => No::NotOwner,
            Refusal::HoldExpired { expired_at, .. } => No::Expired(expired_at.millis()),
            Refusal::HoldConfirmed { booking, .. } => No::Confirmed(self.booking(*booking)),
            Refusal::HoldReleased { .. } => No::Released,
            Refusal::ExtensionExhausted { max_expires_at, .. } => No::Exhausted(max_expires_at.millis()),
            Refusal::TooManySeats { limit, current, requested } => {
                No::TooMany { limit: *limit, current: *current, requested: *requested }
            }
            Refusal::SalesNotOpen { .. } => No::NotOnSale,
            Refusal::AlreadyCancelled { booking } => No::Cancelled(self.booking(*booking)),
            Refusal::Invalid { field, .. } => No::Invalid(field),
            Refusal::KeyReused => No::KeyReused,
            Refusal::UnknownOrg { .. }
            | Refusal::UnknownKey { .. }
            | Refusal::UnknownTier { .. }
            | Refusal::NameTaken { .. }
            | Refusal::PlaceTaken { .. }
            | Refusal::EventFull { .. } => panic!("nobody creates anything here: {refusal:?}"),
        }
    }
}
