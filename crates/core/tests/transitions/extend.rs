//! More time: checkout once, heartbeats up to the limit, and only for the owner of a live hold.

use rowlock_core::fact::HoldMoved;
use rowlock_core::policy::Policy;
use rowlock_core::seat::SeatState;
use rowlock_core::{Command, Fact, HoldId, Refusal};

use crate::support::START;
use crate::support::stage::{Stage, checkout, confirm, expire, heartbeat, hold_in, release};

#[test]
fn checkout_adds_time_once() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0, 1], 1);
    stage.world.wait_seconds(60);
    let done = stage.run(checkout(hold.id, "ann"));
    let (now, until) = (stage.now(), hold.expires_at.plus_seconds(300));
    let outcome = hold_in(&done);
    assert_eq!(
        (outcome.changed, outcome.hold.expires_at, outcome.hold.checkout_at),
        (true, until, Some(now))
    );
    let moved = HoldMoved {
        hold: hold.id,
        event: stage.event,
        user: hold.user.clone(),
        seats: hold.seats.clone(),
        previous_expires_at: hold.expires_at,
        expires_at: until,
        checkout_at: Some(now),
    };
    assert_eq!(done.facts.as_slice(), [Fact::HoldExtended(moved)]);
    assert_eq!(stage.state(1), SeatState::Held { hold: hold.id, until });
    stage.world.wait_seconds(60);
    let again = hold_in(&stage.idle(checkout(hold.id, "ann")));
    assert_eq!((again.changed, again.hold), (false, outcome.hold));
}

#[test]
fn heartbeats_add_time_up_to_the_limit_and_then_no_more() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0);
    let mut until = hold.expires_at;
    // 15 minutes to 30 in steps of 2: the eighth is cut short.
    for beat in 1..=8 {
        let done = stage.run(heartbeat(hold.id, "ann"));
        let [Fact::HoldExtended(moved)] = done.facts.as_slice() else { panic!("{:?}", done.facts) };
        assert_eq!((moved.previous_expires_at, moved.checkout_at), (until, None));
        until = until.plus_seconds(120).min(hold.max_expires_at);
        assert_eq!((moved.expires_at, hold_in(&done).hold.expires_at), (until, until));
        assert_eq!(until == hold.max_expires_at, beat == 8);
    }
    let refusal = stage.refused(heartbeat(hold.id, "ann"));
    let max_expires_at = START.plus_seconds(1800);
    assert_eq!(refusal, Refusal::ExtensionExhausted { hold: hold.id, max_expires_at });
    // At the limit it is over like any other.
    stage.world.now = max_expires_at;
    let refusal = stage.refused(heartbeat(hold.id, "ann"));
    assert_eq!(refusal, Refusal::HoldExpired { hold: hold.id, expired_at: max_expires_at });
}

#[test]
fn where_heartbeats_add_nothing_there_are_none() {
    let mut stage = Stage::with(Policy { heartbeat_seconds: 0, ..Policy::default() });
    let hold = stage.hold("ann", "cart", &[0], 0);
    let refusal = stage.refused(heartbeat(hold.id, "ann"));
    let max_expires_at = hold.max_expires_at;
    assert_eq!(refusal, Refusal::ExtensionExhausted { hold: hold.id, max_expires_at });
}

#[test]
fn checkout_at_the_limit_is_noted_and_moves_nothing() {
    let policy = Policy { ttl_seconds: 60, max_hold_seconds: 60, ..Policy::default() };
    let mut stage = Stage::with(policy);
    let hold = stage.hold("ann", "cart", &[0], 0);
    let done = hold_in(&stage.run(checkout(hold.id, "ann")));
    assert_eq!((done.hold.expires_at, done.hold.checkout_at), (hold.expires_at, Some(START)));
    let refusal = stage.refused(heartbeat(hold.id, "ann"));
    let max_expires_at = hold.expires_at;
    assert_eq!(refusal, Refusal::ExtensionExhausted { hold: hold.id, max_expires_at });
}

#[test]
fn checkout_never_goes_past_the_limit() {
    let policy = Policy { ttl_seconds: 60, max_hold_seconds: 90, ..Policy::default() };
    let mut stage = Stage::with(policy);
    let hold = stage.hold("ann", "cart", &[0], 0);
    let done = hold_in(&stage.run(checkout(hold.id, "ann")));
    assert_eq!(done.hold.expires_at, hold.max_expires_at);
}

#[test]
fn what_is_added_after_an_extension_ends_with_the_rest() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0);
    stage.run(checkout(hold.id, "ann"));
    let grown = stage.hold("ann", "cart", &[1], 0);
    assert_eq!(grown.expires_at, hold.expires_at.plus_seconds(300));
    assert_eq!(stage.state(1), SeatState::Held { hold: hold.id, until: grown.expires_at });
    assert_eq!(grown.checkout_at, Some(START));
}

/// All three verbs that need a live hold refuse in the same way.
#[test]
fn only_the_owner_of_a_live_hold_extends_or_confirms() {
    let verbs: [fn(HoldId, &str) -> Command; 3] = [checkout, heartbeat, confirm];
    for verb in verbs {
        let mut stage = Stage::new();
        let nobodys = HoldId::from_uuid(uuid::Uuid::nil());
        assert_eq!(stage.refused(verb(nobodys, "ann")), Refusal::UnknownHold { hold: nobodys });

        let live = stage.hold("ann", "live", &[0], 0);
        assert_eq!(stage.refused(verb(live.id, "bob")), Refusal::NotOwner);

        let released = stage.hold("ann", "released", &[1], 0);
        stage.run(release(released.id, "ann", vec![]));
        assert_eq!(stage.refused(verb(released.id, "ann")), Refusal::HoldReleased { hold: released.id });

        let dead = stage.hold("ann", "dead", &[2], 0);
        let expired = Refusal::HoldExpired { hold: dead.id, expired_at: dead.expires_at };
        stage.world.now = dead.expires_at;
        assert_eq!(stage.refused(verb(dead.id, "ann")), expired);
        stage.run(expire(dead.id));
        assert_eq!(stage.refused(verb(dead.id, "ann")), expired);
        assert_eq!(stage.refused(verb(dead.id, "bob")), Refusal::NotOwner);
    }
}

#[test]
fn a_confirmed_hold_is_not_extended() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0).id;
    let booking = stage.confirm(hold, "ann").id;
    for verb in [checkout, heartbeat] {
        assert_eq!(stage.refused(verb(hold, "ann")), Refusal::HoldConfirmed { hold, booking });
    }
}

#[test]
fn the_last_millisecond_still_counts() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0);
    stage.world.now = hold.expires_at.plus_millis(-1);
    let done = hold_in(&stage.run(heartbeat(hold.id, "ann")));
    // From the old expiry, not from now.
    assert_eq!(done.hold.expires_at, hold.expires_at.plus_seconds(120));
    stage.world.now = hold.expires_at;
    stage.run(heartbeat(hold.id, "ann"));
}
