//! Giving back: all, or some seats.

use rowlock_core::hold::HoldStatus;
use rowlock_core::seat::SeatState;
use rowlock_core::{Fact, HoldId, Refusal, SeatId};

use crate::support::stage::{Stage, expire, hold_in, kinds, release};

#[test]
fn releasing_gives_everything_back() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0, 1], 2);
    stage.world.wait_seconds(5);
    let done = stage.run(release(hold.id, "ann", vec![]));
    let outcome = hold_in(&done);
    assert_eq!((outcome.changed, outcome.hold.status), (true, HoldStatus::Cancelled));
    assert_eq!((outcome.hold.ended_at, outcome.hold.booking), (Some(stage.now()), None));
    // What it held stays in the row: it is the history.
    assert_eq!((&outcome.hold.seats, &outcome.hold.areas), (&hold.seats, &hold.areas));
    let [Fact::HoldReleased(part)] = done.facts.as_slice() else { panic!("{:?}", done.facts) };
    assert_eq!((&part.seats, &part.areas, part.ended), (&hold.seats, &hold.areas, true));
    assert_eq!((part.at, part.hold), (stage.now(), hold.id));
    assert_eq!(kinds(&done), ["SEAT-HOLD-CANCELLED"]);
    assert_eq!([0, 1].map(|seat| stage.state(seat)), [SeatState::Available; 2]);
    assert_eq!(stage.floor_counts(), (0, 0));
    stage.hold("bob", "cart", &[0, 1], 10);
}

#[test]
fn releasing_twice_is_a_success() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 1);
    stage.run(release(hold.id, "ann", vec![]));
    stage.hold("bob", "cart", &[0], 0);
    for seats in [vec![], stage.seat_ids(&[0])] {
        let again = hold_in(&stage.idle(release(hold.id, "ann", seats)));
        assert_eq!((again.changed, again.hold.status), (false, HoldStatus::Cancelled));
    }
}

#[test]
fn a_seat_named_twice_is_refused() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0, 1], 0);
    let refusal = stage.refused(release(hold.id, "ann", stage.seat_ids(&[0, 1, 0])));
    assert!(matches!(&refusal, Refusal::Invalid { field: "seat_id", .. }), "{refusal:?}");
}

#[test]
fn some_seats_can_be_given_back() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0, 1, 2], 1);
    let done = stage.run(release(hold.id, "ann", stage.seat_ids(&[2, 0])));
    let [Fact::HoldReleased(part)] = done.facts.as_slice() else { panic!("{:?}", done.facts) };
    assert_eq!(part.seats.iter().map(|seat| seat.ordinal).collect::<Vec<_>>(), [0, 2]);
    assert_eq!((part.areas.len(), part.ended), (0, false));
    let left = hold_in(&done).hold;
    assert_eq!((left.status, left.ended_at, left.expires_at), (HoldStatus::Active, None, hold.expires_at));
    assert_eq!(left.seat_ids().collect::<Vec<_>>(), stage.seat_ids(&[1]));
    assert_eq!((left.quantity_of(stage.floor), stage.state(0)), (1, SeatState::Available));
    // The cart may take it again.
    let again = stage.hold("ann", "cart", &[0], 0);
    assert_eq!((again.id, again.places()), (hold.id, 3));
}

#[test]
fn the_last_seat_ends_the_hold_unless_it_has_area_places() {
    let mut stage = Stage::new();
    let plain = stage.hold("ann", "plain", &[0, 1], 0);
    let part = hold_in(&stage.run(release(plain.id, "ann", stage.seat_ids(&[0])))).hold;
    assert_eq!(part.status, HoldStatus::Active);
    let done = stage.run(release(plain.id, "ann", stage.seat_ids(&[1])));
    assert_eq!(hold_in(&done).hold.status, HoldStatus::Cancelled);
    assert!(matches!(&done.facts[0], Fact::HoldReleased(part) if part.ended));

    let mixed = stage.hold("ann", "mixed", &[2], 1);
    let done = hold_in(&stage.run(release(mixed.id, "ann", stage.seat_ids(&[2])))).hold;
    assert_eq!((done.status, done.seats.len(), done.places()), (HoldStatus::Active, 0, 1));
    stage.run(release(mixed.id, "ann", vec![]));
    assert_eq!(stage.floor_counts(), (0, 0));
}

#[test]
fn seats_that_are_not_in_the_hold_are_left_alone() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0);
    let other = stage.hold("bob", "cart", &[1], 0);
    let done = hold_in(&stage.idle(release(hold.id, "ann", stage.seat_ids(&[1, 2]))));
    assert_eq!((done.changed, &*done.hold), (false, &hold));
    let done = stage.run(release(hold.id, "ann", stage.seat_ids(&[1, 0])));
    assert_eq!(hold_in(&done).hold.status, HoldStatus::Cancelled);
    assert_eq!(stage.hold_row(other.id), &other);
}

#[test]
fn releasing_what_has_expired_is_a_success_and_says_so() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0, 1], 1);
    stage.world.now = hold.expires_at;
    // Even for one seat: nothing of it is left to keep.
    let done = stage.run(release(hold.id, "ann", stage.seat_ids(&[0])));
    assert_eq!(kinds(&done), ["SEAT-HOLD-EXPIRED"]);
    assert_eq!((hold_in(&done).changed, hold_in(&done).hold.status), (true, HoldStatus::Expired));
    assert_eq!((stage.state(1), stage.floor_counts()), (SeatState::Available, (0, 0)));
    let again = hold_in(&stage.idle(release(hold.id, "ann", vec![])));
    assert_eq!((again.changed, again.hold.status), (false, HoldStatus::Expired));
}

#[test]
fn releasing_after_the_reaper_came_is_a_success_too() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0);
    stage.world.now = hold.expires_at;
    stage.run(expire(hold.id));
    let done = hold_in(&stage.idle(release(hold.id, "ann", vec![])));
    assert_eq!((done.changed, done.hold.status), (false, HoldStatus::Expired));
}

#[test]
fn what_is_confirmed_is_not_released() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0).id;
    let booking = stage.confirm(hold, "ann").id;
    let refusal = stage.refused(release(hold, "ann", vec![]));
    assert_eq!(refusal, Refusal::HoldConfirmed { hold, booking });
}

#[test]
fn only_the_owner_releases() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0).id;
    assert_eq!(stage.refused(release(hold, "bob", vec![])), Refusal::NotOwner);
    let nobodys = HoldId::from_uuid(uuid::Uuid::nil());
    assert_eq!(stage.refused(release(nobodys, "ann", vec![])), Refusal::UnknownHold { hold: nobodys });
}

#[test]
fn unknown_seats_are_all_named() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0).id;
    let strange = SeatId::from_uuid(uuid::Uuid::nil());
    let seats = vec![stage.seat(0), stage.seat(99), strange];
    let refusal = stage.refused(release(hold, "ann", seats));
    assert_eq!(refusal, Refusal::UnknownSeats { seats: vec![stage.seat(99), strange] });
}
