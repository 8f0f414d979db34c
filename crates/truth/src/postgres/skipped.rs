//! Commands that meet a seat which somebody else has locked, when locks are not waited for.

use rowlock_core::booking::Admits;
use rowlock_core::hold::Hold;
use rowlock_core::{Command, EventId, Request, SeatId};

use super::load::Loaded;

/// Whether deciding the command would touch a row that was left out: a seat it names, or one of a hold that would end
/// or move with it.
pub(super) fn meets(loaded: &Loaded, request: &Request) -> bool {
    if loaded.skipped.is_empty() {
        return false;
    }
    let slice = &loaded.slice;
    let left_out = |seat: &SeatId| loaded.skipped.contains(seat);
    let any_of = |hold: &Hold| hold.seats.iter().any(|seat| left_out(&SeatId::of(hold.event, seat.ordinal)));
    let holder = |seat: &SeatId| slice.seat(*seat).and_then(|seat| seat.state.hold());
    let over = |seat: &SeatId| {
        let hold = holder(seat).and_then(|hold| slice.hold(hold));
        hold.is_some_and(|hold| hold.is_due(loaded.now) && any_of(hold))
    };
    let named = |seats: &[SeatId]| seats.iter().any(|seat| left_out(seat) || over(seat));
    match &request.command {
        Command::Hold(places) | Command::Book { places, .. } => {
            let cart = slice.cart(places.event, &places.user, &places.cart);
            // A hold that is over may have to end to make room in an area.
            let makes_room = |hold: &Hold| {
                hold.is_due(loaded.now) && places.areas.iter().any(|(area, _)| hold.quantity_of(*area) > 0)
            };
            slice.holds().any(|hold| makes_room(hold) && any_of(hold))
                || named(&places.seats)
                || cart.is_some_and(|hold| hold.is_due(loaded.now) && any_of(hold))
        }
        Command::BlockSeats { seats, .. } | Command::UnblockSeats { seats, .. } => named(seats),
        Command::CancelBooking { booking, .. } => slice.booking(*booking).is_some_and(|booking| {
            let seat = |event: EventId, admits: &Admits| match admits {
                Admits::Seat(ordinal) => left_out(&SeatId::of(event, *ordinal)),
                Admits::Area(_) => false,
            };
            booking.tickets.iter().any(|ticket| seat(booking.event, &ticket.admits))
        }),
        // What is released again may be another one's by now.
        Command::Release { hold, seats, .. } => {
            seats.iter().any(left_out) || slice.hold(*hold).is_some_and(any_of)
        }
        command => command.hold().and_then(|hold| slice.hold(hold)).is_some_and(any_of),
    }
}
