//! The lane: whatever has queued up is one batch, it is bounded, and it ends in order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{House, eventually, hold_of, no_sweep};
use futures::future::join_all;
use rowlock_core::seat::SeatStatus;
use rowlock_core::{Command, Request};
use rowlock_registry::{EngineOptions, Failure, Reply};
use rowlock_truth::conformance::stage::{Setup, section};
use rowlock_truth::{MAX_BATCH, Truth};
use tokio::task::JoinHandle;
use tokio::time::timeout;

type Pending = Vec<JoinHandle<Result<Reply, Failure>>>;

fn send(house: &House, requests: impl IntoIterator<Item = Request>) -> Pending {
    let send = |request| {
        let engine = house.engine.clone();
        tokio::spawn(async move { engine.execute(request).await })
    };
    requests.into_iter().map(send).collect()
}

async fn answers(pending: Pending) -> Vec<Result<Reply, Failure>> {
    join_all(pending).await.into_iter().map(|answer| answer.expect("no panic")).collect()
}

/// Holds of different seats by different users.
fn holds(house: &House, seats: std::ops::Range<u32>) -> Vec<Request> {
    seats.map(|seat| house.stage.hold(&format!("buyer-{seat}"), &[seat])).collect()
}

/// A house with one command at the truth's gate and so many waiting behind it.
async fn queue_up(house: &House, seats: std::ops::Range<u32>) -> Pending {
    house.live().await;
    house.truth.commits.shut();
    let mut requests = holds(house, seats);
    let first = requests.remove(0);
    let mut pending = send(house, [first]);
    house.truth.commits.reached(1).await;
    let waiting = requests.len();
    pending.extend(send(house, requests));
    eventually("the queue", async || house.engine.lane_depth().0 == waiting).await;
    pending
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_queues_up_during_a_commit_is_one_batch() {
    let house = House::new(Setup { rows: 120, ..Setup::default() }).await;
    let pending = queue_up(&house, 0..1_200).await;
    assert_eq!(house.truth.batches(), [1], "an idle lane commits a single command at once");
    house.truth.commits.open();
    for answer in answers(pending).await {
        hold_of(answer);
    }
    assert_eq!(house.truth.batches(), [1, MAX_BATCH, MAX_BATCH, 1_199 - 2 * MAX_BATCH]);
    assert_eq!(house.live().await.read().counts().held, 1_200);
    house.close().await;
}

/// On one thread, so that those who are sent together wait together.
#[tokio::test]
async fn what_is_believed_is_sent_behind_what_is_under_way() {
    let house = House::believing(Setup { rows: 10, ..Setup::default() }).await;
    house.live().await;
    house.truth.commits.shut();
    let mut pending = send(&house, holds(&house, 0..8));
    house.truth.commits.reached(1).await;
    pending.extend(send(&house, holds(&house, 8..11)));
    eventually("the queue", async || house.engine.lane_depth().0 == 3).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(house.engine.lane_depth().0, 3, "they still wait, wherever they are");
    assert_eq!(house.truth.batches(), [8], "so few wait until the batch before is done");
    pending.extend(send(&house, holds(&house, 11..16)));
    house.truth.commits.reached(2).await;
    assert_eq!(house.truth.batches(), [8, 8], "as many as are under way need not wait");
    pending.extend(send(&house, holds(&house, 16..60)));
    eventually("the queue", async || house.engine.lane_depth().0 == 44).await;
    assert_eq!(house.truth.batches(), [8, 8], "no third batch");
    house.truth.commits.open();
    for answer in answers(pending).await {
        hold_of(answer);
    }
    assert_eq!(house.live().await.read().counts().held, 60);
    house.close().await;
}

#[tokio::test]
async fn stopping_waits_for_all_that_is_under_way() {
    let house = House::believing(Setup { rows: 10, ..Setup::default() }).await;
    house.live().await;
    house.truth.commits.shut();
    let mut pending = send(&house, holds(&house, 0..4));
    house.truth.commits.reached(1).await;
    pending.extend(send(&house, holds(&house, 4..8)));
    house.truth.commits.reached(2).await;
    pending.extend(send(&house, holds(&house, 8..10)));
    eventually("the queue", async || house.engine.lane_depth().0 == 2).await;
    let engine = house.engine.clone();
    let stopping = tokio::spawn(async move { engine.stop().await });
    // Nobody new is let in, and that is heard although batches are under way.
    eventually("the end", async || {
        let late = house.engine.execute(house.stage.hold("late", &[90]));
        matches!(timeout(Duration::from_millis(20), late).await, Ok(Err(Failure::Stopping)))
    })
    .await;
    house.truth.commits.open();
    for answer in answers(pending).await {
        hold_of(answer);
    }
    stopping.await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_are_fewer_commits() {
    let house = House::new(Setup { rows: 50, ..Setup::default() }).await;
    for answer in answers(send(&house, holds(&house, 0..500))).await {
        hold_of(answer);
    }
    let batches = house.truth.batches();
    assert_eq!(batches.iter().sum::<usize>(), 500);
    println!("500 concurrent holds in {} commits", batches.len());
    assert!(batches.len() < 250, "{batches:?}");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_lane_says_so_at_once_and_loses_nothing() {
    let house = House::with(Setup::default(), EngineOptions { lane_capacity: 4, ..no_sweep() }).await;
    let pending = queue_up(&house, 0..5).await;
    assert_eq!(house.engine.lane_depth(), (4, 4));
    // The gate is shut: whoever is answered now did not wait for it.
    for seat in 10..20 {
        let full = house.engine.execute(house.stage.hold("late", &[seat])).await;
        assert!(matches!(full, Err(Failure::Busy)), "{full:?}");
    }
    house.truth.commits.open();
    for answer in answers(pending).await {
        hold_of(answer);
    }
    let counts = house.live().await.read().counts();
    assert_eq!((counts.held, house.truth.batches()), (5, vec![1, 4]), "those refused did nothing");
    house.held(house.stage.hold("late", &[10])).await;
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_finishes_what_was_accepted() {
    let house = House::new(Setup::default()).await;
    let pending = queue_up(&house, 0..11).await;
    let stopping = tokio::spawn({
        let engine = house.engine.clone();
        async move { engine.stop().await }
    });
    eventually("the stop", async || house.engine.is_stopping()).await;
    assert!(matches!(house.engine.ready().await, Err(Failure::Stopping)));
    assert!(!stopping.is_finished(), "it waits for the lane");
    house.truth.commits.open();
    let made: Vec<_> = answers(pending).await.into_iter().map(hold_of).collect();
    stopping.await.expect("no panic");
    let late = house.engine.execute(house.stage.hold("late", &[20])).await;
    assert!(matches!(late, Err(Failure::Stopping)), "{late:?}");

    let house = house.restart(no_sweep()).await;
    for hold in made {
        assert_eq!(house.stage.stored(hold.id).await, hold);
    }
    house.close().await;
}

/// Buyers who never pause: there is always something in the queue when the lane looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_that_is_never_empty_stops_all_the_same() {
    let house = House::new(Setup { rows: 100, ..Setup::default() }).await;
    let buyers: Vec<_> = (0..64_u32)
        .map(|buyer| {
            let (engine, stage) = (house.engine.clone(), house.stage.clone());
            tokio::spawn(async move {
                let who = format!("buyer-{buyer}");
                let mut accepted = 0;
                loop {
                    let held = match engine.execute(stage.hold(&who, &[buyer])).await {
                        Ok(reply) => hold_of(Ok(reply)).id,
                        Err(Failure::Stopping) => return accepted,
                        Err(other) => panic!("{other}"),
                    };
                    accepted += 1;
                    match engine.execute(stage.release(&who, held, &[])).await {
                        Ok(_) => accepted += 1,
                        Err(Failure::Stopping) => return accepted,
                        Err(other) => panic!("{other}"),
                    }
                }
            })
        })
        .collect();
    eventually("load", async || house.truth.batches().len() > 20).await;
    tokio::time::timeout(Duration::from_secs(30), house.engine.stop()).await.expect("it stops under load");
    let accepted: usize = join_all(buyers).await.into_iter().map(|buyer| buyer.expect("no panic")).sum();
    let house = house.restart(no_sweep()).await;
    let told = house.stage.kinds("SEAT-HOLD-CREATED").await + house.stage.kinds("SEAT-HOLD-CANCELLED").await;
    assert_eq!(told, accepted, "what was answered is stored, and nothing else");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_told_of_a_change_can_see_it() {
    let house = House::new(Setup { rows: 10, ..Setup::default() }).await;
    let live = house.live().await;
    let buyers: Vec<_> = (0..4_u32)
        .map(|buyer| {
            let (engine, stage, live) = (house.engine.clone(), house.stage.clone(), Arc::clone(&live));
            tokio::spawn(async move {
                let who = format!("buyer-{buyer}");
                for round in 0..25 {
                    let seat = buyer * 25 + round;
                    let hold = hold_of(engine.execute(stage.hold(&who, &[seat])).await);
                    assert_eq!(live.read().seat(seat).status, SeatStatus::Held);
                    assert_eq!(live.read().seat(seat).held_until, Some(hold.expires_at));
                    engine.execute(stage.confirm(&who, hold.id)).await.expect("a booking");
                    assert_eq!(live.read().seat(seat).status, SeatStatus::Sold);
                }
            })
        })
        .collect();
    for buyer in join_all(buyers).await {
        buyer.expect("no panic");
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_told_to_all_and_changes_nothing() {
    let house = House::new(Setup::default()).await;
    house.live().await;
    house.truth.outages.store(1, std::sync::atomic::Ordering::Relaxed);
    let down = house.engine.execute(house.stage.hold("ann", &[0])).await;
    assert!(matches!(down, Err(Failure::Unavailable(_))), "{down:?}");
    assert_eq!(house.status(0).await, SeatStatus::Available);
    house.held(house.stage.hold("bob", &[0])).await;
    house.truth.ping().await.expect("it is back");
    house.close().await;
}

/// A lane that has panicked would refuse its events for ever in a process that looks alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_ends_badly_is_told() {
    let house = House::new(Setup::default()).await;
    hold_of(house.engine.execute(house.stage.hold("ann", &[0])).await);
    assert!(!house.engine.is_broken());
    house.truth.is_defective.store(true, Ordering::Relaxed);
    let answer = house.engine.execute(house.stage.hold("bob", &[1])).await;
    assert!(matches!(answer, Err(Failure::Stopping)), "{answer:?}");
    timeout(Duration::from_secs(5), house.engine.broken()).await.expect("it is told");
    assert!(house.engine.is_broken());
    house.close().await;
}

/// Who has gone while their command was waiting gets no seat that nobody knows of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_gone_while_waiting_gets_nothing() {
    let house = House::new(Setup::default()).await;
    let mut pending = queue_up(&house, 0..4).await;
    let gone = pending.remove(2);
    gone.abort();
    assert!(gone.await.expect_err("it was given up").is_cancelled());
    house.truth.commits.open();
    for answer in answers(pending).await {
        hold_of(answer);
    }
    assert_eq!(&house.stage.map().await[..4], "hh.h");
    assert_eq!(house.truth.batches(), [1, 2]);
    house.close().await;
}

#[tokio::test]
async fn nobody_waits_for_those_who_have_gone() {
    let house = House::new(Setup { rows: 10, ..Setup::default() }).await;
    let mut pending = queue_up(&house, 0..4).await;
    let first = pending.remove(0);
    for waiting in pending {
        waiting.abort();
        assert!(waiting.await.is_err(), "it has gone");
    }
    house.truth.commits.open();
    // Answers wait until the next batch is sent, and there is none.
    let answer = timeout(Duration::from_secs(10), first).await.expect("it is answered");
    hold_of(answer.expect("no panic"));
    house.close().await;
}

/// Each may keep the truth busy for a second. Buyers come between two of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_seats_are_made_one_request_after_another() {
    let house = House::new(Setup::default()).await;
    house.live().await;
    let more = |number: usize| {
        let sections = vec![section(&format!("new {number}"), 0..1, 5)];
        house.stage.request(Command::CreateSeats { event: house.stage.event, sections })
    };
    house.truth.forget();
    house.truth.commits.shut();
    let creating = send(&house, (0..100).map(more));
    house.truth.commits.reached(1).await;
    let refused = |all: &Pending| all.iter().filter(|one| one.is_finished()).count();
    eventually("those who find no place are told at once", async || refused(&creating) == 100 - 64).await;
    let buying = send(&house, holds(&house, 0..10));
    house.truth.commits.open();
    let created = answers(creating).await;
    assert_eq!(created.iter().filter(|answer| answer.is_ok()).count(), 64);
    assert!(created.iter().all(|answer| matches!(answer, Ok(_) | Err(Failure::Busy))));
    assert!(answers(buying).await.iter().all(Result::is_ok));
    let batches = house.truth.batches();
    assert!(batches.len() >= 64, "two of them were in one batch: {batches:?}");
    house.close().await;
}
