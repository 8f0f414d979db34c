//! Taking seats off sale and putting them back.

use rowlock_core::outcome::SeatsChanged;
use rowlock_core::seat::SeatState;
use rowlock_core::{Command, EventId, Fact, Outcome, Refusal};

use crate::support::stage::Stage;

fn changed(stage: &Stage, seats: &[u32]) -> Outcome {
    Outcome::Blocking(SeatsChanged { event: stage.event, seats: stage.seat_ids(seats) })
}

fn to_block(stage: &Stage, seats: &[u32]) -> Command {
    Command::BlockSeats { event: stage.event, seats: stage.seat_ids(seats) }
}

fn to_unblock(stage: &Stage, seats: &[u32]) -> Command {
    Command::UnblockSeats { event: stage.event, seats: stage.seat_ids(seats) }
}

#[test]
fn blocking_takes_free_seats_off_sale_and_tells_which_it_changed() {
    let mut stage = Stage::new();
    let done = stage.block(&[3, 1]);
    assert_eq!(done.outcome, changed(&stage, &[3, 1]));
    assert!(
        matches!(&done.facts[..], [Fact::SeatsBlocked(marked)] if marked.seats == stage.seat_ids(&[3, 1]))
    );
    let done = stage.block(&[1, 2]);
    assert_eq!(done.outcome, changed(&stage, &[2]));
    assert!(matches!(&done.facts[..], [Fact::SeatsBlocked(marked)] if marked.seats == stage.seat_ids(&[2])));
    assert_eq!([1, 2, 3].map(|seat| stage.state(seat)), [SeatState::Blocked; 3]);
    let command = to_block(&stage, &[1, 2, 3]);
    assert_eq!(stage.idle(command).outcome, changed(&stage, &[]));
}

#[test]
fn unblocking_puts_blocked_seats_back_and_leaves_the_others() {
    let mut stage = Stage::new();
    stage.block(&[1, 2]);
    let hold = stage.hold("ann", "cart", &[0], 0);
    let booking = stage.book("bob", &[4], 0);
    let done = stage.unblock(&[0, 1, 3, 4]);
    assert_eq!(done.outcome, changed(&stage, &[1]));
    assert!(
        matches!(&done.facts[..], [Fact::SeatsUnblocked(marked)] if marked.seats == stage.seat_ids(&[1]))
    );
    assert_eq!(stage.state(0), SeatState::Held { hold: hold.id, until: hold.expires_at });
    assert_eq!(stage.state(4), SeatState::Sold { ticket: booking.tickets[0].id });
    assert_eq!([1, 2].map(|seat| stage.state(seat)), [SeatState::Available, SeatState::Blocked]);
    let command = to_unblock(&stage, &[0, 1, 3, 4]);
    assert_eq!(stage.idle(command).outcome, changed(&stage, &[]));
    stage.hold("ann", "cart", &[1], 0);
}

#[test]
fn held_and_sold_seats_are_not_blocked() {
    let mut stage = Stage::new();
    stage.hold("ann", "cart", &[0], 0);
    stage.book("bob", &[1], 0);
    let command = to_block(&stage, &[2, 1, 0]);
    assert_eq!(stage.refused(command), Refusal::SeatsTaken { seats: stage.seat_ids(&[1, 0]) });
}

#[test]
fn unknown_seats_and_events_are_refused() {
    let mut stage = Stage::new();
    for command in [to_block, to_unblock] {
        let command = command(&stage, &[0, 12, 13]);
        assert_eq!(stage.refused(command), Refusal::UnknownSeats { seats: stage.seat_ids(&[12, 13]) });
    }
    let event = EventId::from_uuid(uuid::Uuid::nil());
    let block = Command::BlockSeats { event, seats: stage.seat_ids(&[0]) };
    let unblock = Command::UnblockSeats { event, seats: stage.seat_ids(&[0]) };
    for command in [block, unblock] {
        assert_eq!(stage.refused(command), Refusal::UnknownEvent { event });
    }
}

/// A fact that names a seat twice would be counted twice by everybody who counts seats.
#[test]
fn a_seat_is_not_named_twice() {
    let mut stage = Stage::new();
    stage.block(&[5]);
    let rule = "must not name a seat twice".to_owned();
    for command in [to_block(&stage, &[1, 2, 1]), to_unblock(&stage, &[5, 5])] {
        assert_eq!(stage.refused(command), Refusal::Invalid { field: "seat_ids", rule: rule.clone() });
    }
}
