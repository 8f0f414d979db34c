//! A hold past its time is not a hold, even if nobody has tidied it yet: whoever needs its places ends it.

use rowlock_core::fact::HoldPart;
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::outcome::SeatsChanged;
use rowlock_core::seat::SeatState;
use rowlock_core::{Fact, Outcome, Refusal, Time};

use crate::support::stage::{FLOOR_PLACES, Stage, booking_in, confirm, expire, hold_in, kinds};

const TTL: u32 = 900;

fn end_of(hold: &Hold, at: Time) -> Fact {
    Fact::HoldExpired(HoldPart {
        hold: hold.id,
        event: hold.event,
        user: hold.user.clone(),
        cart: hold.cart.clone(),
        seats: hold.seats.clone(),
        areas: hold.areas.clone(),
        expires_at: hold.expires_at,
        ended: true,
        at,
    })
}

#[test]
fn a_hold_lives_until_the_millisecond_before_its_expiry() {
    let mut stage = Stage::new();
    let old = stage.hold("ann", "cart", &[0], 0);
    stage.world.now = old.expires_at.plus_millis(-1);
    let refusal = stage.refused(stage.to_hold("bob", "cart", &[0], 0));
    assert_eq!(refusal, Refusal::SeatsTaken { seats: stage.seat_ids(&[0]) });
    stage.world.now = old.expires_at;
    let new = stage.hold("bob", "cart", &[0], 0);
    assert_eq!(stage.state(0), SeatState::Held { hold: new.id, until: new.expires_at });
}

#[test]
fn the_end_of_the_old_hold_is_recorded_once_before_the_new_one() {
    let mut stage = Stage::new();
    let old = stage.hold("ann", "cart", &[0, 1, 2], 2);
    stage.world.wait_seconds(TTL);
    // Two of its seats are wanted; it ends once, and its third seat is free as well.
    let done = stage.run(stage.to_hold("bob", "cart", &[0, 1], 0));
    let new = hold_in(&done).hold;
    let now = stage.now();
    assert_eq!(done.facts.as_slice(), [end_of(&old, now), Fact::HoldCreated(new.clone())]);
    let row = stage.hold_row(old.id);
    assert_eq!((row.status, row.ended_at), (HoldStatus::Expired, Some(now)));
    // What it held stays in the row: it is the history.
    assert_eq!((&row.seats, &row.areas), (&old.seats, &old.areas));
    assert_eq!((stage.state(2), stage.floor_counts()), (SeatState::Available, (0, 0)));
    // Nobody ends it a second time.
    stage.idle(expire(old.id));
    assert_eq!(kinds(&stage.run(stage.to_hold("cat", "cart", &[2], 0))), ["SEAT-HOLD-CREATED"]);
}

#[test]
fn several_old_holds_may_end_for_one_new_one() {
    let mut stage = Stage::new();
    let old = [stage.hold("ann", "cart", &[0], 0), stage.hold("bob", "cart", &[1], 1)];
    stage.world.wait_seconds(TTL);
    let done = stage.run(stage.to_hold("cat", "cart", &[1, 0, 2], 0));
    let now = stage.now();
    assert_eq!(done.facts[..2], [end_of(&old[0], now), end_of(&old[1], now)]);
    assert_eq!(done.facts.len(), 3);
}

/// Whether the cart wants a seat of the dead hold or another: it has one active hold either way.
#[test]
fn ones_own_dead_hold_ends_before_the_cart_begins_anew() {
    for (seat, floor) in [(0, 1), (5, 0)] {
        let mut stage = Stage::new();
        let old = stage.hold("ann", "cart", &[0], 1);
        stage.world.wait_seconds(TTL);
        let done = stage.run(stage.to_hold("ann", "cart", &[seat], floor));
        assert_eq!(done.facts[0], end_of(&old, stage.now()));
        assert_eq!(done.facts.len(), 2);
        let new = hold_in(&done).hold;
        assert_ne!(new.id, old.id);
        assert_eq!(new.expires_at, stage.now().plus_seconds(TTL));
    }
}

#[test]
fn a_growing_cart_takes_over_too() {
    let mut stage = Stage::new();
    let old = stage.hold("ann", "cart", &[0], 0);
    stage.world.wait_seconds(10);
    let mine = stage.hold("bob", "cart", &[1], 0);
    stage.world.now = old.expires_at;
    let done = stage.run(stage.to_hold("bob", "cart", &[0], 0));
    assert_eq!(done.facts[0], end_of(&old, stage.now()));
    assert!(matches!(&done.facts[1], Fact::HoldGrew(part) if part.hold == mine.id));
    assert_eq!(stage.state(0), SeatState::Held { hold: mine.id, until: mine.expires_at });
}

#[test]
fn dead_holds_make_room_in_an_area_oldest_first_and_no_more_than_needed() {
    let mut stage = Stage::new();
    let first = stage.hold("ann", "cart", &[0], 4);
    stage.world.wait_seconds(1);
    let second = stage.hold("bob", "cart", &[], 4);
    stage.world.wait_seconds(TTL);
    // Two are free without ending anybody.
    assert_eq!(kinds(&stage.run(stage.to_hold("cat", "cart", &[], 2))), ["SEAT-HOLD-CREATED"]);
    let done = stage.run(stage.to_hold("dan", "cart", &[], 3));
    assert_eq!(done.facts[0], end_of(&first, stage.now()));
    assert_eq!((done.facts.len(), stage.floor_counts()), (2, (9, 0)));
    assert_eq!(stage.hold_row(second.id).status, HoldStatus::Active);
    // The places of the dead count as left.
    let refusal = stage.refused(stage.to_hold("eve", "cart", &[], 6));
    assert_eq!(refusal, Refusal::AreaFull { area: stage.floor, requested: 6, left: 5 });
    let done = stage.run(stage.to_hold("eve", "cart", &[], 5));
    assert_eq!(done.facts[0], end_of(&second, stage.now()));
    assert_eq!(stage.floor_counts(), (FLOOR_PLACES, 0));
}

#[test]
fn a_live_hold_makes_no_room() {
    let mut stage = Stage::new();
    let old = stage.hold("ann", "cart", &[], FLOOR_PLACES);
    stage.world.now = old.expires_at.plus_millis(-1);
    let refusal = stage.refused(stage.to_hold("bob", "cart", &[], 1));
    assert_eq!(refusal, Refusal::AreaFull { area: stage.floor, requested: 1, left: 0 });
    stage.world.wait_millis(1);
    stage.hold("bob", "cart", &[], FLOOR_PLACES);
}

/// A dead hold met through two of its seats gives its area places back once, not twice.
#[test]
fn a_dead_hold_met_twice_makes_room_once() {
    let mut stage = Stage::new();
    stage.hold("ann", "cart", &[0, 1], 6);
    stage.world.wait_seconds(TTL);
    let refusal = stage.refused(stage.to_hold("bob", "cart", &[0, 1], FLOOR_PLACES + 1));
    let left = FLOOR_PLACES;
    assert_eq!(refusal, Refusal::AreaFull { area: stage.floor, requested: left + 1, left });
    stage.hold("bob", "cart", &[0, 1], FLOOR_PLACES);
    assert_eq!(stage.floor_counts(), (FLOOR_PLACES, 0));
}

#[test]
fn a_box_office_takes_over_too() {
    let mut stage = Stage::new();
    let old = stage.hold("ann", "cart", &[0], FLOOR_PLACES);
    stage.world.wait_seconds(TTL);
    let done = stage.run(stage.to_book("bob", &[0], 1));
    assert_eq!(done.facts[0], end_of(&old, stage.now()));
    assert_eq!(kinds(&done)[1..], ["SEAT-HOLD-CREATED", "SEAT-HOLD-CONFIRMED", "BOOKING-CONFIRMED"]);
    assert_eq!((booking_in(&done).booking.tickets.len(), stage.floor_counts()), (2, (0, 1)));
}

#[test]
fn so_does_the_organizer_who_blocks() {
    let mut stage = Stage::new();
    let old = stage.hold("ann", "cart", &[0, 1, 2], 1);
    stage.world.wait_seconds(TTL);
    let done = stage.block(&[1, 0]);
    assert_eq!(done.facts[0], end_of(&old, stage.now()));
    assert_eq!(kinds(&done), ["SEAT-HOLD-EXPIRED", "SEAT-BLOCKED"]);
    let seats = stage.seat_ids(&[1, 0]);
    assert_eq!(done.outcome, Outcome::Blocking(SeatsChanged { event: stage.event, seats }));
    assert_eq!([0, 2].map(|seat| stage.state(seat)), [SeatState::Blocked, SeatState::Available]);
}

#[test]
fn a_refused_takeover_ends_nobody() {
    let mut stage = Stage::new();
    stage.hold("ann", "cart", &[0], 0);
    stage.world.wait_seconds(TTL);
    stage.hold("bob", "cart", &[1], 0);
    let refusal = stage.refused(stage.to_hold("cat", "cart", &[0, 1], 0));
    assert_eq!(refusal, Refusal::SeatsTaken { seats: stage.seat_ids(&[1]) });
}

#[test]
fn expiring_before_its_time_does_nothing() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 1);
    stage.world.now = hold.expires_at.plus_millis(-1);
    let done = hold_in(&stage.idle(expire(hold.id)));
    assert_eq!((&*done.hold, done.changed), (&hold, false));
}

#[test]
fn expiring_at_its_time_ends_it_once() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 1);
    stage.world.now = hold.expires_at;
    let done = stage.run(expire(hold.id));
    assert_eq!(done.facts.as_slice(), [end_of(&hold, stage.now())]);
    assert_eq!((hold_in(&done).hold.status, hold_in(&done).changed), (HoldStatus::Expired, true));
    assert_eq!((stage.state(0), stage.floor_counts()), (SeatState::Available, (0, 0)));
    let again = hold_in(&stage.idle(expire(hold.id)));
    assert_eq!((again.hold.status, again.changed), (HoldStatus::Expired, false));
}

#[test]
fn expiring_what_is_sold_or_released_or_unknown_does_nothing() {
    let mut stage = Stage::new();
    let sold = stage.hold("ann", "cart", &[0], 0);
    stage.run(confirm(sold.id, "ann"));
    let released = stage.hold("ann", "cart", &[1], 0);
    stage.run(crate::support::stage::release(released.id, "ann", vec![]));
    stage.world.wait_seconds(TTL * 10);
    assert_eq!(hold_in(&stage.idle(expire(sold.id))).hold.status, HoldStatus::Converted);
    assert_eq!(hold_in(&stage.idle(expire(released.id))).hold.status, HoldStatus::Cancelled);
    let hold = rowlock_core::HoldId::from_uuid(uuid::Uuid::nil());
    assert_eq!(stage.refused(expire(hold)), Refusal::UnknownHold { hold });
}
