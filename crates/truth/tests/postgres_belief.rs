//! Holds that are committed on belief: what is so is written at once, and what is not so is noticed.

use std::sync::Arc;
use std::time::Duration;

use crate::support::postgres::PostgresBackend;
use rowlock_core::{Command, Refusal, Request};
use rowlock_dev::wait_until;
use rowlock_truth::conformance::concurrency::race;
use rowlock_truth::conformance::stage::{
    Setup, Stage, booking_of, changed, hold_of, keyed, refusal_of, report, user,
};
use rowlock_truth::postgres::{PostgresOptions, PostgresTruth, Sabotage};
use rowlock_truth::verify::Promise;
use rowlock_truth::{Belief, Beliefs, Committed, Failure, Truth};

const GULLIBLE: Sabotage =
    Sabotage { no_locks: false, no_compare_and_set: false, pause: Duration::ZERO, gullible: true };

/// Holds on the belief that seats are free and of this tier, and the cart new.
async fn believing(truth: &dyn Truth, request: Request, tier: u8) -> Result<Committed, Failure> {
    let seats = request.command.places().map_or(0, |places| places.seats.len());
    let mut answers = truth.commit_believing(vec![request], vec![Belief { tiers: vec![tier; seats] }]).await;
    answers.pop().expect("an answer")
}

fn counted(truth: &dyn Truth) -> (u64, u64) {
    let Beliefs { kept, wrong } = truth.beliefs();
    (kept, wrong)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_so_is_written_at_once() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    let batch = vec![stage.hold("ann", &[0, 1]), stage.hold("bob", &[2])];
    let beliefs = [2, 1].map(|seats| Belief { tiers: vec![0; seats] }).to_vec();
    let answers = stage.truth.commit_believing(batch, beliefs).await;
    let held: Vec<Committed> = answers.into_iter().map(|answer| answer.expect("a hold")).collect();
    for committed in &held {
        assert_eq!(stage.stored(hold_of(committed).id).await, hold_of(committed));
    }
    assert_eq!(held[1].facts[0].0, held[0].facts[0].0 + 1, "the next sequence");
    // It goes on like any other hold.
    booking_of(&stage.one(stage.confirm("ann", hold_of(&held[0]).id)).await.expect("a booking"));
    assert_eq!(counted(&*stage.truth), (1, 0));
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_so_is_noticed() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    let truth = &*stage.truth;
    let held = stage.held(stage.hold("ann", &[0])).await;
    let block = Command::BlockSeats { event: stage.event, seats: stage.seats(&[5]) };
    stage.one(stage.request(block)).await.expect("it can be blocked");

    let taken = believing(truth, stage.hold("bob", &[0]), 0).await;
    assert_eq!(refusal_of(taken), Refusal::SeatsTaken { seats: stage.seats(&[0]) });
    let blocked = believing(truth, stage.hold("bob", &[5]), 0).await;
    assert_eq!(refusal_of(blocked), Refusal::SeatsBlocked { seats: stage.seats(&[5]) });
    // Another tier has another price, or none.
    let priced = believing(truth, stage.hold("bob", &[1]), 0).await.expect("it is free");
    let mistaken = believing(truth, stage.hold("cid", &[2]), 1).await.expect("it is free");
    assert_eq!(hold_of(&mistaken).seats[0].price, hold_of(&priced).seats[0].price);
    // A cart that has a hold gets more.
    let grown = hold_of(&believing(truth, stage.hold("ann", &[3]), 0).await.expect("it is free"));
    assert_eq!((grown.id, grown.seats.len()), (held.id, 2));
    // A key that was used is answered again.
    let first = keyed(stage.hold("dan", &[6]), "key", 1);
    let made = hold_of(&believing(truth, first.clone(), 0).await.expect("it is free"));
    let again = believing(truth, first, 0).await.expect("it is recorded");
    assert_eq!((again.replayed, hold_of(&again).id), (true, made.id));
    let other = believing(truth, keyed(stage.hold("dan", &[7]), "key", 2), 0).await;
    assert_eq!(refusal_of(other), Refusal::KeyReused);
    // Bob's and Dan's first were so.
    assert_eq!(counted(truth), (2, 6));
    stage.assert_clean().await;
}

/// Who is refused writes nothing that could be compared, so the batch must be looked at before anybody is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_refused_on_belief() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    let recorded = keyed(stage.hold("bob", &[0]), "key", 1);
    let made = stage.held(recorded.clone()).await;
    stage.one(stage.release("bob", made.id, &[])).await.expect("it is his");
    let beliefs = vec![Belief { tiers: vec![0] }; 3];
    let batch = vec![stage.hold("ann", &[0]), recorded, stage.hold("cid", &[0])];
    let mut answers = stage.truth.commit_believing(batch, beliefs).await;
    assert_eq!(refusal_of(answers.pop().unwrap()), Refusal::SeatsTaken { seats: stage.seats(&[0]) });
    let again = answers.pop().unwrap().expect("it is recorded");
    assert_eq!((again.replayed, hold_of(&again).id), (true, made.id));
    assert_eq!(hold_of(answers[0].as_ref().expect("it is free")).user, user("ann"));
    assert_eq!(counted(&*stage.truth), (0, 0));
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_has_places_is_counted() {
    let backend = PostgresBackend::new();
    let mut setup = Setup::default();
    setup.policy.seats_per_user = Some(2);
    let stage = Stage::new(backend.truth().await, setup).await;
    let truth = &*stage.truth;
    let in_cart = |cart: &str, seats: &[u32]| stage.hold_in_cart("ann", cart, seats);
    believing(truth, in_cart("one", &[0, 1]), 0).await.expect("two are allowed");
    let third = believing(truth, in_cart("two", &[2]), 0).await;
    assert_eq!(refusal_of(third), Refusal::TooManySeats { limit: 2, current: 2, requested: 1 });
    assert_eq!(counted(truth), (1, 1));
    stage.assert_clean().await;
}

/// A node that stands still after it has decided does not date its holds back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_old_is_noticed() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    let pause = Duration::from_millis(400);
    let options = PostgresOptions { sabotage: Sabotage { pause, ..GULLIBLE }, ..backend.options() };
    let slow = PostgresTruth::open(options).await.expect("a node");
    let before = stage.truth.now();
    let hold = hold_of(&believing(&slow, stage.hold("ann", &[0]), 0).await.expect("it is free"));
    assert!(hold.created_at.millis_since(before) >= 400, "{:?} after {before:?}", hold.created_at);
    assert_eq!(counted(&slow), (0, 1));
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_nothing_is_believed() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    stage.truth.set_degraded(true);
    believing(&*stage.truth, stage.hold("ann", &[0]), 0).await.expect("it is free");
    assert_eq!(counted(&*stage.truth), (0, 0));
}

async fn gullible_nodes(backend: &PostgresBackend) -> Vec<Arc<dyn Truth>> {
    futures::future::join_all((0..3).map(|_| backend.truth())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_believers_one_wins() {
    let backend = PostgresBackend::sabotaged(GULLIBLE);
    let nodes = gullible_nodes(&backend).await;
    let stage = Stage::new(Arc::clone(&nodes[0]), Setup::default()).await;
    assert_eq!(race(&stage, &nodes, 0, 1_000).await.len(), 1);
    assert!(nodes.iter().any(|node| node.beliefs().wrong > 0), "nobody has believed anything");
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_comparison_believers_hold_a_seat_twice_and_verify_says_so() {
    let backend = PostgresBackend::sabotaged(Sabotage { no_compare_and_set: true, ..GULLIBLE });
    let nodes = gullible_nodes(&backend).await;
    let stage = Stage::new(Arc::clone(&nodes[0]), Setup::default()).await;
    assert!(race(&stage, &nodes, 0, 20).await.len() > 1, "nothing is compared and the suite does not notice");
    let violations = report(&*stage.truth).await.violations;
    let sold_twice = violations.iter().any(|v| v.promise == Promise::S && v.what.contains("both list seat"));
    assert!(sold_twice, "two holders, and verify finds nothing: {violations:?}");
}

/// The answer to a COMMIT is lost, and the commit is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_believed_commit_whose_answer_is_lost_is_found() {
    let backend = PostgresBackend::sabotaged(GULLIBLE);
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    backend.wait_for_a_standby_called("nobody");
    let holding = tokio::spawn({
        let stage = stage.clone();
        async move { stage.one(stage.hold("bob", &[1])).await }
    });
    let waiting = || backend.waiting_for_a_standby();
    assert!(wait_until(Duration::from_secs(5), || !waiting().is_empty()));
    let lost = waiting();
    backend.sql(&format!("SELECT pg_terminate_backend({lost})"));
    assert!(wait_until(Duration::from_secs(5), || !waiting().is_empty() && waiting() != lost));
    backend.wait_for_a_standby_called("");
    let hold = hold_of(&holding.await.expect("no panic").expect("the hold is there"));
    assert_eq!(stage.stored(hold.id).await, hold);
    assert_eq!((stage.kinds("SEAT-HOLD-CREATED").await, counted(&*stage.truth)), (1, (1, 0)));
    stage.assert_clean().await;
}

/// The connection is given up before Postgres has said anything, and what was sent is still on its way. It must not be carried
/// out after somebody was told that it was not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_still_on_its_way_is_stopped() {
    let backend = PostgresBackend::sabotaged(GULLIBLE);
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    stage.held(stage.hold("ann", &[0])).await;
    let writers = || {
        let sessions =
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'rowlock' AND query = 'COMMIT'";
        backend.sql(sessions).lines().map(str::to_owned).collect::<Vec<String>>()
    };
    let frozen = writers();
    assert!(!frozen.is_empty());
    let signal = |name: &str| {
        let status = std::process::Command::new("kill").arg(name).args(&frozen).status();
        assert!(status.expect("kill runs").success());
    };
    signal("-STOP");
    let holding = tokio::spawn({
        let stage = stage.clone();
        async move { stage.one(stage.hold_in_cart("bob", "late", &[1])).await }
    });
    // Once somebody has asked for the end of the backend that stands still, it may go on.
    let asked = || {
        !backend.sql("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_terminate_backend%' AND pid <> pg_backend_pid()").is_empty()
    };
    assert!(wait_until(Duration::from_secs(9), asked));
    signal("-CONT");
    let hold = hold_of(&holding.await.expect("no panic").expect("the hold is made in another way"));
    assert!(wait_until(Duration::from_secs(5), || writers().iter().all(|pid| !frozen.contains(pid))));
    assert_eq!(stage.stored(hold.id).await, hold);
    assert_eq!(stage.kinds("SEAT-HOLD-CREATED").await, 2);
    assert_eq!(counted(&*stage.truth), (1, 1));
    stage.assert_clean().await;
    let again = stage.one(stage.hold_in_cart("bob", "late", &[1])).await.expect("it is bob's");
    assert!(!changed(&again));
}
