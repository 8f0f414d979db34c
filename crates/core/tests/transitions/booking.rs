//! Confirming, booking in one step, and cancelling.

use rowlock_core::booking::{Admits, BookingStatus};
use rowlock_core::fact::HoldSold;
use rowlock_core::hold::{HoldStatus, Source};
use rowlock_core::seat::SeatState;
use rowlock_core::{BookingId, Command, Fact, PaymentReference, Refusal};

use crate::support::stage::{
    FLOOR_PLACES, GOLD, SILVER, Stage, booking_in, cancel, checkout, confirm, hold_in, kinds, user,
};

#[test]
fn a_confirmed_hold_is_a_booking_with_a_ticket_a_place() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0, 8], 2);
    stage.world.wait_seconds(7);
    let payment_reference = Some(PaymentReference::new("pi_123").expect("a reference"));
    let command =
        Command::Confirm { hold: hold.id, user: user("ann"), payment_reference: payment_reference.clone() };
    let done = stage.run(command);
    let booking = booking_in(&done).booking;
    assert!(booking_in(&done).changed);
    assert_eq!((booking.org, booking.event, booking.hold), (stage.org, stage.event, hold.id));
    assert_eq!((booking.user.as_str(), booking.status), ("ann", BookingStatus::Confirmed));
    assert_eq!((booking.source, booking.currency), (Source::Web, hold.currency));
    assert_eq!((booking.created_at, booking.cancelled_at), (stage.now(), None));
    assert_eq!(booking.payment_reference, payment_reference);
    let tickets: Vec<(Admits, i64)> = booking.tickets.iter().map(|t| (t.admits, t.price)).collect();
    let floor = (Admits::Area(stage.floor), SILVER);
    assert_eq!(tickets, [(Admits::Seat(0), GOLD), (Admits::Seat(8), SILVER), floor, floor]);
    assert_eq!(booking.total(), hold.total());
    let mut ids: Vec<_> = booking.tickets.iter().map(|ticket| ticket.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);

    let sold = HoldSold {
        hold: hold.id,
        event: stage.event,
        user: user("ann"),
        booking: booking.id,
        expires_at: hold.expires_at,
        at: stage.now(),
    };
    assert_eq!(done.facts.as_slice(), [Fact::HoldConfirmed(sold), Fact::BookingConfirmed(booking.clone())]);
    let row = stage.hold_row(hold.id);
    assert_eq!((row.status, row.booking), (HoldStatus::Converted, Some(booking.id)));
    assert_eq!(row.ended_at, Some(stage.now()));
    assert_eq!(stage.state(0), SeatState::Sold { ticket: booking.tickets[0].id });
    assert_eq!(stage.floor_counts(), (0, 2));
    assert_eq!(stage.booking_row(booking.id), &booking);
}

#[test]
fn confirming_twice_is_the_same_booking_even_after_the_holds_time() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0);
    let booking = stage.confirm(hold.id, "ann");
    for _ in 0..2 {
        let again = booking_in(&stage.idle(confirm(hold.id, "ann")));
        assert_eq!((again.changed, again.booking), (false, booking.clone()));
        stage.world.now = hold.max_expires_at.plus_seconds(1);
    }
    assert_eq!(stage.refused(confirm(hold.id, "bob")), Refusal::NotOwner);
}

#[test]
fn a_hold_in_checkout_is_confirmed_within_its_added_time() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0);
    stage.run(checkout(hold.id, "ann"));
    stage.world.now = hold.expires_at.plus_seconds(299);
    stage.confirm(hold.id, "ann");
}

#[test]
fn confirming_after_the_booking_was_cancelled_is_refused() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0).id;
    let booking = stage.confirm(hold, "ann").id;
    stage.run(cancel(booking, None));
    assert_eq!(stage.refused(confirm(hold, "ann")), Refusal::AlreadyCancelled { booking });
}

#[test]
fn what_was_given_back_is_not_in_the_booking() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0, 1], 0).id;
    stage.run(crate::support::stage::release(hold, "ann", stage.seat_ids(&[0])));
    let booking = stage.confirm(hold, "ann");
    assert_eq!(booking.tickets.iter().map(|t| t.admits).collect::<Vec<_>>(), [Admits::Seat(1)]);
    assert_eq!(stage.state(0), SeatState::Available);
}

#[test]
fn booking_is_holding_and_confirming_in_one() {
    let mut stage = Stage::new();
    let done = stage.run(stage.to_book("ann", &[0], 2));
    let booking = booking_in(&done).booking;
    assert_eq!(kinds(&done), ["SEAT-HOLD-CREATED", "SEAT-HOLD-CONFIRMED", "BOOKING-CONFIRMED"]);
    let hold = stage.hold_row(booking.hold);
    assert_eq!((hold.status, hold.booking), (HoldStatus::Converted, Some(booking.id)));
    assert_eq!(hold.cart.as_str(), format!("booked-{}", hold.id));
    assert_eq!((booking.tickets.len(), booking.total()), (3, GOLD + 2 * SILVER));
    assert_eq!(stage.floor_counts(), (0, 2));
    assert_eq!(stage.state(0), SeatState::Sold { ticket: booking.tickets[0].id });
}

#[test]
fn booking_leaves_the_users_cart_alone_and_counts_area_places_anew() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "desk", &[0], 3);
    let booking = stage.book("ann", &[1], 3);
    assert_ne!(booking.hold, hold.id);
    assert_eq!(stage.hold_row(hold.id), &hold);
    assert_eq!(stage.floor_counts(), (3, 3));
    // Booking the same places again is another booking, or refused: it cannot be told apart from a second order.
    let second = stage.book("ann", &[], 3);
    assert_ne!(second.id, booking.id);
}

#[test]
fn booking_refuses_what_anybody_holds_the_user_included() {
    let mut stage = Stage::new();
    stage.hold("ann", "cart", &[0], 0);
    stage.hold("bob", "cart", &[1], 0);
    stage.block(&[2]);
    for (seat, refusal) in [
        (0, Refusal::SeatsTaken { seats: stage.seat_ids(&[0]) }),
        (1, Refusal::SeatsTaken { seats: stage.seat_ids(&[1]) }),
        (2, Refusal::SeatsBlocked { seats: stage.seat_ids(&[2]) }),
        (12, Refusal::UnknownSeats { seats: stage.seat_ids(&[12]) }),
    ] {
        assert_eq!(stage.refused(stage.to_book("ann", &[3, seat], 0)), refusal);
    }
    let area = stage.floor;
    let refusal = stage.refused(stage.to_book("ann", &[3], FLOOR_PLACES + 1));
    assert_eq!(refusal, Refusal::AreaFull { area, requested: FLOOR_PLACES + 1, left: FLOOR_PLACES });
    let refusal = stage.refused(stage.to_book("ann", &[], 0));
    assert!(matches!(refusal, Refusal::Invalid { field: "seat_ids", .. }));
}

#[test]
fn cancelling_frees_the_places_once() {
    let mut stage = Stage::new();
    let booking = stage.book("ann", &[0, 1], 2);
    stage.world.wait_seconds(9);
    let done = stage.run(cancel(booking.id, Some("ann")));
    let cancelled = booking_in(&done).booking;
    assert_eq!((cancelled.status, cancelled.cancelled_at), (BookingStatus::Cancelled, Some(stage.now())));
    assert_eq!(cancelled.tickets, booking.tickets);
    assert_eq!(done.facts.as_slice(), [Fact::BookingCancelled(cancelled.clone())]);
    assert_eq!((stage.state(0), stage.floor_counts()), (SeatState::Available, (0, 0)));
    // Its hold stays what it was: converted.
    assert_eq!(stage.hold_row(booking.hold).status, HoldStatus::Converted);

    // The next owner keeps the seat when it is cancelled again.
    stage.hold("bob", "cart", &[0], 1);
    stage.world.wait_seconds(9);
    for by in [None, Some("ann")] {
        let again = booking_in(&stage.idle(cancel(booking.id, by)));
        assert_eq!((again.changed, &again.booking), (false, &cancelled));
    }
}

#[test]
fn the_org_or_the_owner_cancels_and_nobody_else() {
    let mut stage = Stage::new();
    let booking = stage.book("ann", &[0], 0).id;
    assert_eq!(stage.refused(cancel(booking, Some("bob"))), Refusal::NotOwner);
    stage.run(cancel(booking, None));
    assert_eq!(stage.refused(cancel(booking, Some("bob"))), Refusal::NotOwner);
    let unknown = BookingId::from_uuid(uuid::Uuid::nil());
    assert_eq!(stage.refused(cancel(unknown, None)), Refusal::UnknownBooking { booking: unknown });
}

#[test]
fn a_seat_can_be_sold_again_after_a_cancellation() {
    let mut stage = Stage::new();
    let first = stage.book("ann", &[0], 0);
    stage.run(cancel(first.id, None));
    let hold = hold_in(&stage.run(stage.to_hold("bob", "cart", &[0], 0))).hold;
    let second = stage.confirm(hold.id, "bob");
    assert_ne!(second.tickets[0].id, first.tickets[0].id);
    assert_eq!(stage.state(0), SeatState::Sold { ticket: second.tickets[0].id });
    assert_ne!(first.reference(), second.reference());
}
