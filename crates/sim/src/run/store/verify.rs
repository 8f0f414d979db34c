//! The promises, checked on the stored rows: what every store must be able to say of itself.

use std::collections::BTreeMap;

use rowlock_core::booking::{Admits, Booking, BookingStatus};
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::seat::SeatState;
use rowlock_core::{AreaId, SeatId};
use rowlock_truth::verify::{Promise, Report, Violation};

use super::tables::Tables;

pub fn verify(tables: &Tables) -> Report {
    let mut violations = Vec::new();
    let mut found = |promise: Promise, what: String| violations.push(Violation { promise, what });
    let mut owners: BTreeMap<SeatId, Vec<String>> = BTreeMap::new();
    let mut areas: BTreeMap<AreaId, (u32, u32)> = BTreeMap::new();
    for hold in active(tables) {
        for seat in hold.seat_ids() {
            owners.entry(seat).or_default().push(format!("hold {}", hold.id));
            let state = tables.seats.get(&seat).map(|(seat, _)| seat.state);
            let own = SeatState::Held { hold: hold.id, until: hold.expires_at };
            if state != Some(own) {
                found(Promise::S, format!("seat {seat} of hold {} is {state:?}", hold.id));
            }
        }
        hold.areas.iter().for_each(|held| areas.entry(held.area).or_default().0 += held.quantity);
    }
    for booking in confirmed(tables) {
        for ticket in &booking.tickets {
            match ticket.admits {
                Admits::Seat(ordinal) => {
                    let seat = SeatId::of(booking.event, ordinal);
                    owners.entry(seat).or_default().push(format!("booking {}", booking.id));
                    let state = tables.seats.get(&seat).map(|(seat, _)| seat.state);
                    if state != Some(SeatState::Sold { ticket: ticket.id }) {
                        found(Promise::S, format!("seat {seat} of booking {} is {state:?}", booking.id));
                    }
                }
                Admits::Area(area) => areas.entry(area).or_default().1 += 1,
            }
        }
    }
    for (seat, owners) in &owners {
        if owners.len() > 1 {
            found(Promise::S, format!("{} both list seat {seat}", owners.join(" and ")));
        }
    }
    for (id, (seat, _)) in &tables.seats {
        let owned = matches!(seat.state, SeatState::Held { .. } | SeatState::Sold { .. });
        if owned && !owners.contains_key(id) {
            found(Promise::E, format!("seat {id} is {:?} and nobody has it", seat.state));
        }
    }
    for (id, (area, _)) in &tables.areas {
        let counted = areas.get(id).copied().unwrap_or_default();
        if counted != (area.held, area.sold) || area.held + area.sold > area.capacity {
            let said = (area.held, area.sold);
            found(Promise::S, format!("area {id} of {} says {said:?}, and has {counted:?}", area.capacity));
        }
    }
    for (stream, rows) in &tables.streams {
        let expected = rows.iter().zip(1..).all(|(row, sequence): (_, u64)| row.sequence == sequence);
        if !expected {
            found(Promise::O, format!("the sequences of {stream:?} are not 1, 2, 3 …"));
        }
    }
    for (booking, _) in tables.bookings.values() {
        let hold = tables.holds.get(&booking.hold).map(|(hold, _)| (hold.status, hold.booking));
        if hold != Some((HoldStatus::Converted, Some(booking.id))) {
            found(Promise::X, format!("booking {} and its hold do not agree: {hold:?}", booking.id));
        }
    }
    let counted =
        [("seats", tables.seats.len()), ("holds", tables.holds.len()), ("bookings", tables.bookings.len())];
    Report { counted: counted.map(|(name, count)| (name, count as u64)).to_vec(), violations }
}

fn active(tables: &Tables) -> impl Iterator<Item = &Hold> {
    tables.holds.values().map(|(hold, _)| hold).filter(|hold| hold.status == HoldStatus::Active)
}

fn confirmed(tables: &Tables) -> impl Iterator<Item = &Booking> {
    tables
        .bookings
        .values()
        .map(|(booking, _)| booking)
        .filter(|booking| booking.status == BookingStatus::Confirmed)
}
