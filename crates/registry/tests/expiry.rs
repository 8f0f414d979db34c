//! Holds end on time, once, and their seats are seen to be free.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{House, eventually, hold_of, no_sweep};
use rowlock_core::Outcome;
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::policy::Policy;
use rowlock_core::seat::SeatStatus;
use rowlock_registry::EngineOptions;
use rowlock_registry::reconcile::Repairs;
use rowlock_truth::Truth;
use rowlock_truth::conformance::stage::Setup;

/// The promise: a seat is shown free at most this long after its hold ended.
const SHOWN_FREE_WITHIN_MILLIS: i64 = 1_000;

/// Waits until the seat is shown free and checks that it was neither too early nor too late.
async fn freed_on_time(house: &House, seat: u32, hold: &Hold) {
    eventually("the seat is free", async || house.status(seat).await == SeatStatus::Available).await;
    let seen = house.engine.now();
    assert!(hold.expires_at <= seen, "it was freed before its end");
    let late = seen.millis_since(hold.expires_at);
    println!("shown free {late} ms after its end");
    assert!(late <= SHOWN_FREE_WITHIN_MILLIS, "it was freed {late} ms after its end");
}

async fn ended_once(house: &House, hold: &Hold) {
    assert_eq!(house.stage.stored(hold.id).await.status, HoldStatus::Expired);
    assert_eq!(house.stage.kinds("SEAT-HOLD-EXPIRED").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reaper_ends_a_hold_within_a_second_and_once() {
    let house = House::new(Setup::brief()).await;
    let places = house.stage.places("ann", &[0], &[(house.stage.areas[0], 3)]);
    let hold = house.held(house.stage.request(rowlock_core::Command::Hold(places))).await;
    assert_eq!(house.status(0).await, SeatStatus::Held);
    assert_eq!(house.live().await.read().areas()[0].held, 3);
    freed_on_time(&house, 0, &hold).await;
    ended_once(&house, &hold).await;
    assert_eq!(house.live().await.read().areas()[0].held, 0);
    house.close().await;
}

/// More than one run of the reaper takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_holds_that_end_together_are_all_freed_in_time() {
    let house = House::new(Setup { rows: 60, ..Setup::brief() }).await;
    let holds =
        (0..600).map(|seat| house.engine.execute(house.stage.hold(&format!("buyer-{seat}"), &[seat])));
    let holds: Vec<Hold> = futures::future::join_all(holds).await.into_iter().map(hold_of).collect();
    let last = holds.iter().max_by_key(|hold| hold.expires_at).expect("600 holds");
    eventually("all are free", async || house.live().await.read().counts().available == 600).await;
    let late = house.engine.now().millis_since(last.expires_at);
    println!("600 holds shown free {late} ms after the last one's end");
    assert!(late <= SHOWN_FREE_WITHIN_MILLIS, "{late} ms");
    assert_eq!(house.stage.kinds("SEAT-HOLD-EXPIRED").await, 600);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_moves_the_end() {
    let policy = Policy { ttl_seconds: 1, checkout_extension_seconds: 3, ..Policy::default() };
    let house = House::new(Setup { policy, ..Setup::default() }).await;
    let hold = house.held(house.stage.hold("ann", &[0])).await;
    let moved = house.held(house.stage.checkout("ann", hold.id)).await;
    assert_eq!(moved.expires_at, hold.expires_at.plus_seconds(3));
    assert_eq!(house.live().await.read().seat(0).held_until, Some(moved.expires_at));
    house.stage.wait_until(hold.expires_at.plus_millis(300)).await;
    assert_eq!(house.status(0).await, SeatStatus::Held, "its first end has passed");
    assert_eq!(house.stage.stored(hold.id).await.status, HoldStatus::Active);
    freed_on_time(&house, 0, &moved).await;
    ended_once(&house, &hold).await;
    house.close().await;
}

/// Another node has extended the hold. The truth says so when it is asked to end it, and is not asked again before the new end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_was_moved_elsewhere_is_asked_for_once() {
    let policy = Policy { ttl_seconds: 1, checkout_extension_seconds: 3, ..Policy::default() };
    let house = House::new(Setup { policy, ..Setup::default() }).await;
    let hold = house.held(house.stage.hold("ann", &[0])).await;
    let moved = house.stage.held(house.stage.checkout("ann", hold.id)).await;
    let asked = house.truth.batches().len();
    house.stage.wait_until(moved.expires_at.plus_millis(-500)).await;
    assert_eq!(house.truth.batches().len(), asked + 1, "the reaper, at the first end");
    freed_on_time(&house, 0, &moved).await;
    ended_once(&house, &hold).await;
    house.close().await;
}

/// The set learns of holds from committed facts. One that came past the engine is not in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_the_set_does_not_know_is_found_by_the_sweep() {
    let options = EngineOptions { sweep_every: Duration::from_millis(50), ..EngineOptions::default() };
    let house = House::with(Setup::brief(), options).await;
    let hold = house.stage.held(house.stage.hold("ann", &[0])).await;
    assert_eq!(house.status(0).await, SeatStatus::Held);
    freed_on_time(&house, 0, &hold).await;
    ended_once(&house, &hold).await;
    house.close().await;
}

/// As many as another node may leave behind: they don't wait for one sweep after another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_sweep_finds_more_than_one_run_ends() {
    let sweep_every = Duration::from_millis(1_500);
    let options = EngineOptions { sweep_every, ..EngineOptions::default() };
    let house = House::with(Setup { rows: 60, ..Setup::brief() }, options).await;
    let wanted = (0..600).map(|seat| house.stage.hold(&format!("buyer-{seat}"), &[seat]));
    let mut ends = Vec::new();
    for requests in wanted.collect::<Vec<_>>().chunks(300) {
        for made in house.stage.truth.commit(requests.to_vec()).await {
            let Outcome::Hold(held) = made.expect("a hold").outcome else { panic!("not a hold") };
            ends.push(held.hold.expires_at);
        }
    }
    eventually("all are free", async || house.live().await.read().counts().available == 600).await;
    let late = house.engine.now().millis_since(*ends.iter().max().expect("600 holds"));
    assert!(late <= sweep_every.as_millis() as i64 + SHOWN_FREE_WITHIN_MILLIS, "{late} ms");
    house.close().await;
}

/// A truth that does not answer the sweep keeps the reaper from nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_end_on_time_while_the_sweep_waits() {
    let often = EngineOptions { sweep_every: Duration::from_millis(20), ..EngineOptions::default() };
    let house = House::with(Setup::brief(), often).await;
    house.truth.sweeps.shut();
    house.truth.sweeps.reached(1).await;
    let hold = house.held(house.stage.hold("ann", &[0])).await;
    freed_on_time(&house, 0, &hold).await;
    ended_once(&house, &hold).await;
    house.truth.sweeps.open();
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_sweep_such_a_hold_stays() {
    let house = House::new(Setup::brief()).await;
    let hold = house.stage.held(house.stage.hold("ann", &[0])).await;
    house.stage.wait_until(hold.expires_at.plus_millis(300)).await;
    assert_eq!(
        house.stage.stored(hold.id).await.status,
        HoldStatus::Active,
        "so the test above shows the sweep"
    );
    house.close().await;
}

/// Nor does the reaper know of it. Comparing the tiers finds it, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn such_a_hold_is_ended_by_reconciling_and_counted() {
    let house = House::new(Setup::brief()).await;
    let (org, event) = (house.stage.org, house.stage.event);
    let hold = house.stage.held(house.stage.hold("ann", &[0, 1])).await;
    assert_eq!(house.status(0).await, SeatStatus::Held);
    // The reaper has a second for what it knows.
    house.stage.wait_until(hold.expires_at.plus_millis(1_000)).await;
    let ended = Repairs { holds_expired: 1, ..Repairs::default() };
    assert_eq!(house.engine.reconcile(org, event).await.expect("repairs"), ended);
    assert_eq!(house.live().await.read().counts().held, 0);
    ended_once(&house, &hold).await;
    // Once is enough.
    assert_eq!(house.engine.reconcile(org, event).await.expect("repairs"), Repairs::default());
    house.close().await;
}

/// Somebody takes over the seats after they were read and before their hold is ended. It is over once, and was not ended here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_another_buyer_ended_first_is_not_counted_as_ended_by_reconciling() {
    let house = House::new(Setup::brief()).await;
    let (org, event) = (house.stage.org, house.stage.event);
    let hold = house.stage.held(house.stage.hold("ann", &[0])).await;
    house.stage.wait_until(hold.expires_at.plus_millis(1_000)).await;
    house.truth.forget();
    house.truth.loads.shut();
    let engine = house.engine.clone();
    let reconciling = tokio::spawn(async move { engine.reconcile(org, event).await });
    house.truth.loads.reached(1).await;
    house.stage.held(house.stage.hold("bob", &[0])).await;
    house.truth.loads.open();
    assert_eq!(reconciling.await.expect("no panic").expect("repairs"), Repairs::default());
    ended_once(&house, &hold).await;
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_buyer_need_not_wait_for_the_reaper() {
    let house = House::new(Setup::brief()).await;
    // The reaper does not know of this hold; the map does.
    let hold = house.stage.held(house.stage.hold("ann", &[0, 1])).await;
    assert_eq!(house.status(0).await, SeatStatus::Held);
    house.stage.wait_until(hold.expires_at).await;
    assert_eq!(house.status(0).await, SeatStatus::Held, "nobody has tidied");
    let taken = house.held(house.stage.hold("bob", &[0])).await;
    let live = house.live().await;
    assert_eq!(live.read().seat(0).held_until, Some(taken.expires_at));
    assert_eq!(live.read().seat(1).status, SeatStatus::Available);
    ended_once(&house, &hold).await;
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_fills_the_set_again() {
    let house =
        House::new(Setup { policy: Policy { ttl_seconds: 2, ..Policy::default() }, ..Setup::default() })
            .await;
    let hold = house.held(house.stage.hold("ann", &[0])).await;
    let house = house.restart(no_sweep()).await;
    assert!(house.engine.now() < hold.expires_at, "the sweep at the start came too early to find it");
    assert_eq!(house.status(0).await, SeatStatus::Held);
    freed_on_time(&house, 0, &hold).await;
    ended_once(&house, &hold).await;
    house.close().await;
}

/// A hold that ended while nothing ran is ended as soon as something does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_ended_during_a_downtime_is_ended_at_the_start() {
    let house = House::new(Setup::brief()).await;
    let hold = house.held(house.stage.hold("ann", &[0])).await;
    house.engine.stop().await;
    house.stage.wait_until(hold.expires_at).await;
    let house = house.restart(no_sweep()).await;
    eventually("the seat is free", async || house.status(0).await == SeatStatus::Available).await;
    ended_once(&house, &hold).await;
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_reaper_could_not_do_it_does_again() {
    let house = House::new(Setup::brief()).await;
    let hold = house.held(house.stage.hold("ann", &[0])).await;
    house.truth.outages.store(3, Ordering::Relaxed);
    eventually("the seat is free", async || house.status(0).await == SeatStatus::Available).await;
    assert_eq!(house.truth.outages.load(Ordering::Relaxed), 0, "it was told «unavailable» three times");
    ended_once(&house, &hold).await;
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_past_its_time_reads_as_expired_before_anybody_tidies() {
    let house = House::new(Setup::brief()).await;
    let hold = house.stage.held(house.stage.hold("ann", &[0])).await;
    assert_eq!(house.engine.hold(house.stage.org, hold.id).await.expect("a hold").status, HoldStatus::Active);
    house.stage.wait_until(hold.expires_at).await;
    let read = house.engine.hold(house.stage.org, hold.id).await.expect("a hold");
    assert_eq!((read.status, read.ended_at), (HoldStatus::Expired, Some(hold.expires_at)));
    let stored = Arc::clone(&house.truth).hold(hold.id).await.expect("a read").expect("the hold");
    assert_eq!(stored.status, HoldStatus::Active);
    house.close().await;
}

/// A hold that is released, confirmed or has moved is not ended by an entry that was left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_that_ended_otherwise_are_left_alone() {
    let house = House::new(Setup::brief()).await;
    let released = house.held(house.stage.hold("ann", &[0])).await;
    let confirmed = house.held(house.stage.hold("bob", &[1])).await;
    house.held(house.stage.release("ann", released.id, &[])).await;
    house.engine.execute(house.stage.confirm("bob", confirmed.id)).await.expect("a booking");
    let last = house.held(house.stage.hold("cid", &[2])).await;
    freed_on_time(&house, 2, &last).await;
    ended_once(&house, &last).await;
    assert_eq!((house.status(0).await, house.status(1).await), (SeatStatus::Available, SeatStatus::Sold));
    house.close().await;
}
