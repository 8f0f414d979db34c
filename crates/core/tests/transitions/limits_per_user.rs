//! Seats per user: what one holds and owns in an event together.

use rowlock_core::Refusal;
use rowlock_core::policy::Policy;

use crate::support::request;
use crate::support::stage::{Stage, cancel, expire, hold_in, release};

fn stage(limit: u32) -> Stage {
    Stage::with(Policy { seats_per_user: Some(limit), ..Policy::default() })
}

fn too_many(limit: u32, current: u32, requested: u32) -> Refusal {
    Refusal::TooManySeats { limit, current, requested }
}

#[test]
fn seats_and_area_places_of_all_carts_count() {
    let mut stage = stage(4);
    stage.hold("ann", "red", &[0], 1);
    stage.hold("ann", "blue", &[1], 0);
    assert_eq!(stage.refused(stage.to_hold("ann", "green", &[2], 1)), too_many(4, 3, 2));
    assert_eq!(stage.refused(stage.to_hold("ann", "red", &[2, 3], 1)), too_many(4, 3, 2));
    stage.hold("ann", "red", &[2], 1);
    assert_eq!(stage.refused(stage.to_book("ann", &[4], 0)), too_many(4, 4, 1));
    // Everybody has their own.
    stage.hold("bob", "red", &[4, 5], 2);
}

#[test]
fn a_single_request_may_be_too_much() {
    let mut stage = stage(2);
    assert_eq!(stage.refused(stage.to_hold("ann", "cart", &[0, 1], 1)), too_many(2, 0, 3));
    assert_eq!(stage.refused(stage.to_book("ann", &[], 3)), too_many(2, 0, 3));
}

#[test]
fn at_the_limit_what_one_holds_can_still_be_asked_for() {
    let mut stage = stage(2);
    stage.hold("ann", "cart", &[0], 1);
    stage.idle(stage.to_hold("ann", "cart", &[0], 1));
    // So can what one holds in another cart.
    let other = hold_in(&stage.idle(stage.to_hold("ann", "other", &[0], 0)));
    assert_eq!(other.elsewhere.len(), 1);
}

#[test]
fn bookings_count_until_they_are_cancelled() {
    let mut stage = stage(2);
    let hold = stage.hold("ann", "cart", &[0], 1);
    let booking = stage.confirm(hold.id, "ann");
    assert_eq!(stage.refused(stage.to_hold("ann", "cart", &[1], 0)), too_many(2, 2, 1));
    stage.run(cancel(booking.id, None));
    stage.hold("ann", "cart", &[1], 1);
}

#[test]
fn what_is_given_back_counts_no_more() {
    let mut stage = stage(2);
    let hold = stage.hold("ann", "cart", &[0, 1], 0);
    stage.run(release(hold.id, "ann", stage.seat_ids(&[0])));
    stage.hold("ann", "cart", &[2], 0);
    stage.run(release(hold.id, "ann", vec![]));
    stage.hold("ann", "cart", &[3, 4], 0);
}

#[test]
fn a_hold_past_its_time_counts_no_more_whether_tidied_or_not() {
    let mut stage = stage(2);
    let old = stage.hold("ann", "red", &[0, 1], 0);
    stage.world.now = old.expires_at.plus_millis(-1);
    assert_eq!(stage.refused(stage.to_hold("ann", "blue", &[2], 0)), too_many(2, 2, 1));
    stage.world.now = old.expires_at;
    // Not in the way of these seats, so it is still untidied afterwards, and counts for nothing.
    stage.hold("ann", "blue", &[2], 0);
    stage.hold("ann", "blue", &[3], 0);
    assert_eq!(stage.refused(stage.to_hold("ann", "blue", &[4], 0)), too_many(2, 2, 1));
    stage.run(expire(old.id));
    assert_eq!(stage.refused(stage.to_hold("ann", "blue", &[4], 0)), too_many(2, 2, 1));
}

/// Usage is loaded once a batch and kept by the facts of the batch.
#[test]
fn commands_of_one_batch_count_each_other() {
    let mut stage = stage(3);
    let old = stage.hold("ann", "old", &[0, 1], 0);
    stage.world.now = old.expires_at;
    let booking = stage.book("ann", &[2], 0);
    let commands = [
        stage.to_hold("ann", "red", &[0, 3], 0), // takes over, and is at the limit with the booking
        stage.to_hold("ann", "blue", &[4], 0),   // refused
        cancel(booking.id, None),                // makes room for one
        stage.to_hold("ann", "blue", &[4], 0),
        stage.to_hold("ann", "blue", &[5], 0), // refused again
    ];
    let requests = commands.map(|command| request(stage.org, command));
    let answers = stage.world.batch(&requests).expect("no conflict");
    let refusals: Vec<Option<&Refusal>> = answers.iter().map(|answer| answer.as_ref().err()).collect();
    let refusal = too_many(3, 3, 1);
    assert_eq!(refusals, [None, Some(&refusal), None, None, Some(&refusal)]);
}
