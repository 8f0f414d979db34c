//! Primaries that were replaced by their standby and do not know it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::postgres::PostgresBackend;
use rowlock_core::Refusal;
use rowlock_dev::postgres::{self, Postgres};
use rowlock_dev::wait_until;
use rowlock_truth::conformance::stage::{Setup, Stage};
use rowlock_truth::postgres::{PostgresOptions, PostgresTruth, Sabotage};
use rowlock_truth::{Failure, Truth};

fn holds(server: &Postgres) -> String {
    server.sql("SELECT count(*) FROM holds").unwrap_or_default()
}

async fn open(backend: &PostgresBackend, new: &Postgres, sabotage: Sabotage) -> Arc<PostgresTruth> {
    let url =
        format!("postgres://{}@{},{}/postgres", postgres::USER, backend.server.address(), new.address());
    let options = PostgresOptions { url, sabotage, ..backend.options() };
    Arc::new(PostgresTruth::open(options).await.expect("a primary"))
}

/// Promotes the standby while the primary goes on, and has the node see it: by a connection that it makes meanwhile.
async fn promote_and_show(truth: &dyn Truth, new: &Postgres) {
    let before = truth.history();
    new.promote().expect("a new primary");
    let _listening = truth.listen();
    let end = Instant::now() + Duration::from_secs(20);
    while truth.history() == before {
        assert!(Instant::now() < end, "the node sees the new primary");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The old primary was not stopped, and the node's connections to it are as good as ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_primary_that_was_replaced_are_left() {
    let backend = PostgresBackend::new();
    let new = backend.server.standby().expect("a standby");
    let truth = open(&backend, &new, Sabotage::default()).await;
    let stage = Stage::new(truth.clone(), Setup::default()).await;
    stage.held(stage.hold("ann", &[0])).await;
    assert!(wait_until(Duration::from_secs(10), || holds(&new) == "1"), "the standby follows");
    promote_and_show(&*truth, &new).await;
    let bobs = stage.held(stage.hold("bob", &[1])).await;
    assert_eq!((holds(&backend.server).as_str(), holds(&new).as_str()), ("1", "2"), "it is on the new one");
    // Readers that had been used before.
    assert_eq!(stage.stored(bobs.id).await.id, bobs.id);
}

/// What is committed there when the node knows better is not acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_a_replaced_primary_takes_is_not_acknowledged() {
    let backend = PostgresBackend::new();
    let new = backend.server.standby().expect("a standby");
    let pause = Duration::from_millis(1_500);
    let truth = open(&backend, &new, Sabotage { pause, ..Sabotage::default() }).await;
    let stage = Stage::new(truth.clone(), Setup::default()).await;
    stage.held(stage.hold("ann", &[0])).await;
    assert!(wait_until(Duration::from_secs(10), || holds(&new) == "1"), "the standby follows");
    let buyer = {
        let stage = stage.clone();
        tokio::spawn(async move { stage.one(stage.hold("bob", &[1])).await })
    };
    let begun = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'";
    assert!(wait_until(Duration::from_secs(5), || backend.sql(begun) == "1"), "he is in the middle of it");
    promote_and_show(&*truth, &new).await;
    let answer = buyer.await.expect("no panic");
    assert!(matches!(answer, Err(Failure::Unavailable(_))), "{answer:?}");
    assert_eq!((holds(&backend.server).as_str(), holds(&new).as_str()), ("2", "1"), "the old one has it");
}

/// A primary that comes back after its standby was promoted takes writes, too. What it would sell is sold already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_was_replaced_is_left_alone() {
    let backend = PostgresBackend::new();
    let old = &backend.server;
    let new = old.standby().expect("a standby");
    let stage = Stage::new(open(&backend, &new, Sabotage::default()).await, Setup::default()).await;
    stage.held(stage.hold("ann", &[0])).await;
    assert!(wait_until(Duration::from_secs(10), || holds(&new) == "1"), "the standby follows");
    old.stop_at_once();
    new.promote().expect("a new primary");
    assert!(held_at_last(&stage, "bob", 1).await, "the node finds it");
    old.start_again().expect("the old one is back");
    // Both take writes now, and the old one is named first.
    let next = Stage { truth: open(&backend, &new, Sabotage::default()).await, ..stage.clone() };
    for node in [&stage, &next] {
        let answer = node.one(node.hold("eve", &[1])).await;
        assert!(
            matches!(answer, Err(Failure::Refused(Refusal::SeatsTaken { .. }))),
            "bob has it: {answer:?}"
        );
    }
    new.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rowlock'")
        .expect("connections end");
    assert!(held_at_last(&stage, "eve", 2).await, "a new connection goes to the new one, too");
    // And when that can't be reached, nobody goes back.
    new.stop_at_once();
    for _ in 0..3 {
        assert!(matches!(stage.one(stage.hold("joe", &[1])).await, Err(Failure::Unavailable(_))));
    }
    assert_eq!(holds(old), "1", "nothing was sold there");
}

async fn held_at_last(stage: &Stage, who: &str, seat: u32) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        match stage.one(stage.hold(who, &[seat])).await {
            Ok(_) => return true,
            Err(Failure::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(other) => panic!("{other}"),
        }
    }
    false
}
