//! A hold that is bought or prolonged in its last moment, while its user holds more through another node.
//!
//! Whoever counts the places of a user sees neither: the hold is past its time, and what became of it is not committed yet.
//! If only those who hold or book lock the user, both are done, and the user has more than the event allows.

use std::time::Duration;

use rowlock_core::policy::Policy;
use rowlock_core::{HoldId, Request};
use rowlock_sim::run::clock::Clock;
use rowlock_sim::run::dice::Dice;
use rowlock_sim::run::history::History;
use rowlock_sim::run::net::{Life, Net};
use rowlock_sim::run::store::{SimTruth, Store};
use rowlock_truth::conformance::stage::{Setup, Stage};
use tokio::time::sleep;

async fn at_the_last_moment(command: fn(&Stage, HoldId) -> Request) {
    let (clock, dice) = (Clock::start(), Dice::new(1));
    let history = History::new(clock, false);
    let net = Net::new(dice.fork(), clock, history.clone());
    let store = Store::new(dice.fork(), clock, history.clone(), None);
    let slow = Life::new(0);
    let truth = SimTruth::new(&store, &net, &slow, &dice, &history);
    let policy = Policy { ttl_seconds: 1, seats_per_user: Some(2), ..Policy::default() };
    let here = Stage::new(truth, Setup { policy, ..Setup::default() }).await;
    let there = SimTruth::new(&store, &net, &Life::new(1), &dice, &history);
    let there = Stage { truth: there, ..here.clone() };

    let hold = here.held(here.hold("ann", &[0, 1])).await;
    let left = |after: i64| (hold.expires_at.millis() + after - clock.now().millis()).max(0) as u64;
    sleep(Duration::from_millis(left(-20))).await;
    let request = command(&here, hold.id);
    let first = tokio::spawn({
        let here = here.clone();
        async move { here.one(request).await }
    });
    while store.locked_rows() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    // It is decided within the time of the hold, and written after it.
    slow.pause_until(clock.millis() + 500);
    sleep(Duration::from_millis(left(50))).await;
    let second = there.one(there.hold_in_cart("ann", "other", &[2, 3])).await;
    let first = first.await.unwrap();
    assert!(!(first.is_ok() && second.is_ok()), "four places of two: {first:?}, {second:?}");
}

#[tokio::test(start_paused = true)]
async fn a_confirm_counts_for_its_user() {
    at_the_last_moment(|stage, hold| stage.confirm("ann", hold)).await;
}

#[tokio::test(start_paused = true)]
async fn an_extension_counts_for_its_user() {
    at_the_last_moment(|stage, hold| stage.checkout("ann", hold)).await;
}
