//! Batches on belief that are sent behind one another, on one connection, without waiting for the first one's answer.

use std::time::Duration;

use crate::support::postgres::PostgresBackend;
use futures::join;
use rowlock_core::{Refusal, Request};
use rowlock_dev::wait_until;
use rowlock_truth::conformance::stage::{Setup, Stage, changed, hold_of, refusal_of};
use rowlock_truth::{Belief, Beliefs, Committed, Failure};

async fn believing(stage: &Stage, request: Request) -> Result<Committed, Failure> {
    let seats = request.command.places().map_or(0, |places| places.seats.len());
    let belief = Belief { tiers: vec![0; seats] };
    stage.truth.commit_believing(vec![request], vec![belief]).await.pop().expect("an answer")
}

fn counted(stage: &Stage) -> (u64, u64) {
    let Beliefs { kept, wrong } = stage.truth.beliefs();
    (kept, wrong)
}

/// A stage whose writing connection has all its statements, so that a batch is sent as soon as it is asked for.
async fn warmed_up(backend: &PostgresBackend) -> Stage {
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    believing(&stage, stage.hold("first", &[9])).await.expect("it is free");
    stage
}

/// Connections that have written something and are not done with it.
fn writers(backend: &PostgresBackend) -> usize {
    let writers = "SELECT pid FROM pg_stat_activity
                   WHERE application_name = 'rowlock' AND backend_xid IS NOT NULL";
    backend.sql(writers).lines().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_are_under_way_on_one_connection() {
    let backend = PostgresBackend::new();
    let stage = warmed_up(&backend).await;
    backend.wait_for_a_standby_called("nobody");
    let begin = |request: Request| {
        let stage = stage.clone();
        tokio::spawn(async move { believing(&stage, request).await })
    };
    let first = begin(stage.hold("ann", &[0]));
    assert!(wait_until(Duration::from_secs(5), || !backend.waiting_for_a_standby().is_empty()));
    let before = writers(&backend);
    let second = begin(stage.hold("bob", &[1]));
    // It stands behind the first one's COMMIT, so nothing of it can be seen over there.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(writers(&backend), before, "no other connection was taken for it");
    assert!(!first.is_finished() && !second.is_finished());
    backend.wait_for_a_standby_called("");
    let first = first.await.expect("no panic").expect("a hold");
    let second = second.await.expect("no panic").expect("a hold");
    // By then its time may be too old to be believed, and it is done in another way.
    assert_eq!(second.facts[0].0, first.facts[0].0 + 1, "the next sequence");
    stage.assert_clean().await;
}

/// The first ends its own transaction when what was believed is not so. What comes behind it must begin another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_so_does_not_spoil_what_is_behind_it() {
    let backend = PostgresBackend::new();
    let stage = warmed_up(&backend).await;
    for round in 0..4 {
        // The seat of whoever was first, and a free one, asked for in the same instant.
        let wrong = stage.hold(&format!("late-{round}"), &[9]);
        let right = stage.hold(&format!("ann-{round}"), &[round]);
        let (taken, held) = join!(believing(&stage, wrong), believing(&stage, right));
        assert_eq!(refusal_of(taken), Refusal::SeatsTaken { seats: stage.seats(&[9]) });
        let hold = hold_of(&held.expect("it is free"));
        assert_eq!(stage.stored(hold.id).await, hold);
    }
    assert_eq!(counted(&stage), (1 + 4, 4));
    stage.assert_clean().await;
}

/// The connection is lost when the first is committed and not answered, and the second has not begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_asked_about_when_their_connection_is_lost() {
    let backend = PostgresBackend::new();
    let stage = warmed_up(&backend).await;
    backend.wait_for_a_standby_called("nobody");
    let both = tokio::spawn({
        let stage = stage.clone();
        async move {
            let (ann, bob) = (stage.hold("ann", &[0]), stage.hold("bob", &[1]));
            join!(believing(&stage, ann), believing(&stage, bob))
        }
    });
    let waiting = || backend.waiting_for_a_standby();
    assert!(wait_until(Duration::from_secs(5), || !waiting().is_empty()));
    let lost = waiting();
    backend.sql(&format!("SELECT pg_terminate_backend({lost})"));
    backend.wait_for_a_standby_called("");
    let (first, second) = both.await.expect("no panic");
    for held in [first, second] {
        let held = held.expect("found, or made in another way");
        assert!(changed(&held), "nobody is told that they had it before");
        let hold = hold_of(&held);
        assert_eq!(stage.stored(hold.id).await, hold);
    }
    assert_eq!(stage.kinds("SEAT-HOLD-CREATED").await, 3);
    stage.assert_clean().await;
}
