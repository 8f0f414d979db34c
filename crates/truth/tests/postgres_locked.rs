//! Rows that somebody else keeps locked: another node, one that is frozen, or an operator at a prompt.

use std::time::{Duration, Instant};

use crate::support::postgres::PostgresBackend;
use rowlock_core::{Command, Refusal, Request};
use rowlock_dev::wait_until;
use rowlock_truth::Failure;
use rowlock_truth::conformance::stage::{Setup, Stage, name};

const FIRST_SEAT: &str = "BEGIN; SELECT 1 FROM seats ORDER BY key LIMIT 1 FOR UPDATE";
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

async fn somebody(backend: &PostgresBackend) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(&backend.server.url(), tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// Whoever wants a row that stays locked is told so. Their neighbours in the batch, of this event and of others, are not
/// hurt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_wants_a_locked_row_suffers() {
    let backend = PostgresBackend::new();
    let truth = backend.truth().await;
    let stage = Stage::new(truth.clone(), Setup { areas: vec![1_000], ..Setup::default() }).await;
    let neighbour = Stage::new(truth, Setup::default()).await;
    let other = somebody(&backend).await;
    let ann = stage.held(stage.hold("ann", &[0])).await;
    let bob = stage.held(stage.hold("bob", &[1])).await;
    let sold = stage.booked(stage.confirm("bob", bob.id)).await;
    let area = stage.areas[0].uuid();
    let locks = [
        format!("SELECT 1 FROM areas WHERE id = '{area}' FOR UPDATE"),
        format!("SELECT 1 FROM holds WHERE id = '{}' FOR UPDATE", ann.id.uuid()),
        format!("SELECT 1 FROM bookings WHERE id = '{}' FOR UPDATE", sold.id.uuid()),
    ];
    for (n, lock) in locks.into_iter().enumerate() {
        other.batch_execute(&format!("BEGIN; {lock}")).await.expect("a lock");
        let in_area = (0..20).map(|i| stage.hold_area(&format!("{n}-stands-{i}"), 1));
        let on_seats = (0..10).map(|i| stage.hold(&format!("{n}-sits-{i}"), &[10 * (n as u32 + 1) + i]));
        let elsewhere = (0..5).map(|i| neighbour.hold(&format!("{n}-away-{i}"), &[5 * n as u32 + i]));
        let mut batch = vec![stage.heartbeat("ann", ann.id), stage.cancel(sold.id)];
        batch.extend(in_area.chain(on_seats).chain(elsewhere));
        let began = Instant::now();
        let answers = stage.truth.commit(batch).await;
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        let mut failed = Vec::new();
        for (i, answer) in answers.iter().enumerate() {
            match answer {
                Ok(_) => {}
                Err(Failure::Unavailable(_)) => failed.push(i),
                Err(other) => panic!("command {i}: {other}"),
            }
        }
        let wanted: Vec<usize> = [(2..22).collect(), vec![0], vec![1]][n].clone();
        assert_eq!(failed, wanted, "lock {n}");
        other.batch_execute("ROLLBACK").await.expect("the lock is let go");
    }
    stage.held(stage.hold_area("late", 1)).await;
    stage.assert_clean().await;
}

/// A node that is frozen in the middle of a transaction keeps others waiting for 2 s at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_node_lets_go() {
    let backend = PostgresBackend::new();
    let truth = backend.truth().await;
    let stage = Stage::new(truth, Setup::default()).await;
    // What a node does when it is stopped between loading and writing, with the same limits.
    let (frozen, connection) = tokio_postgres::connect(
        &format!("{}?options=-c%20idle_in_transaction_session_timeout%3D2000", backend.server.url()),
        tokio_postgres::NoTls,
    )
    .await
    .expect("a connection");
    tokio::spawn(connection);
    frozen.batch_execute(FIRST_SEAT).await.expect("a lock");
    let began = Instant::now();
    let answer = stage.one(stage.hold("ann", &[0])).await;
    assert!(began.elapsed() < Duration::from_millis(3_000), "{:?}", began.elapsed());
    // Either the lock came free just in time, or the answer is a clear «not now».
    assert!(matches!(answer, Ok(_) | Err(Failure::Unavailable(_))), "{answer:?}");
    stage.held(stage.hold("ann", &[0])).await;
}

/// In degraded mode nobody waits behind a lock: whoever has the seat locked is buying it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_degraded_mode_a_locked_seat_is_taken() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    stage.truth.set_degraded(true);
    let other = somebody(&backend).await;
    other.batch_execute(FIRST_SEAT).await.expect("a lock");
    let began = Instant::now();
    let answers = stage.truth.commit(vec![stage.hold("ann", &[0]), stage.hold("bob", &[1])]).await;
    assert!(matches!(&answers[0], Err(Failure::Refused(Refusal::SeatsTaken { .. }))), "{answers:?}");
    assert!(answers[1].is_ok(), "{answers:?}");
    assert!(began.elapsed() >= Duration::from_millis(70), "it is tried three times more");
    assert!(began.elapsed() < Duration::from_millis(1_900));
    other.batch_execute("ROLLBACK").await.expect("the lock is let go");
    stage.held(stage.hold("ann", &[0])).await;
    stage.assert_clean().await;
}

/// A named seat whose hold is over, while somebody has another seat of that hold locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_degraded_mode_the_rest_of_an_expired_hold_may_be_locked() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::brief()).await;
    let old = stage.held(stage.hold("ann", &[0, 1])).await;
    stage.wait_until(old.expires_at.plus_millis(50)).await;
    stage.truth.set_degraded(true);
    let other = somebody(&backend).await;
    other.batch_execute(FIRST_SEAT).await.expect("a lock");
    assert!(matches!(stage.refused(stage.hold("bob", &[1])).await, Refusal::SeatsTaken { .. }));
    other.batch_execute("ROLLBACK").await.expect("the lock is let go");
    stage.held(stage.hold("bob", &[1])).await;
    stage.assert_clean().await;
}

/// In degraded mode too, whoever confirms waits for a lock on their seat, instead of being turned away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_degraded_mode_a_confirm_waits_for_its_seat() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    let hold = stage.held(stage.hold("ann", &[0])).await;
    stage.truth.set_degraded(true);
    let other = somebody(&backend).await;
    other.batch_execute(FIRST_SEAT).await.expect("a lock");
    let confirming = tokio::spawn({
        let stage = stage.clone();
        async move { stage.booked(stage.confirm("ann", hold.id)).await }
    });
    assert!(wait_until(Duration::from_secs(5), || backend.sql(WAITING) == "1"));
    other.batch_execute("ROLLBACK").await.expect("the lock is let go");
    confirming.await.expect("it is confirmed");
    stage.assert_clean().await;
}

/// Releasing again is a success, also when the seat is another one's by now and they have it locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_degraded_mode_what_was_released_can_be_released_again() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    let hold = stage.held(stage.hold("ann", &[0, 1])).await;
    stage.held(stage.release("ann", hold.id, &[0])).await;
    stage.truth.set_degraded(true);
    let other = somebody(&backend).await;
    other.batch_execute(FIRST_SEAT).await.expect("a lock");
    let releasing = tokio::spawn({
        let stage = stage.clone();
        async move { stage.held(stage.release("ann", hold.id, &[0])).await }
    });
    wait_until(Duration::from_secs(5), || backend.sql(WAITING) == "1" || releasing.is_finished());
    other.batch_execute("ROLLBACK").await.expect("the lock is let go");
    assert_eq!(releasing.await.expect("it is released").seats.len(), 1);
    stage.assert_clean().await;
}

/// Somebody else has seats of the block locked: who takes any others does not wait for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn choosing_does_not_wait_for_seats_that_are_locked() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    let block = stage.block(0).await;
    let other = somebody(&backend).await;
    let lock = "BEGIN; SELECT 1 FROM seats ORDER BY key LIMIT 18 FOR UPDATE";
    other.batch_execute(lock).await.expect("locks");
    let began = Instant::now();
    let hold = stage.held(stage.hold_any("ann", block, 2)).await;
    assert_eq!(hold.seats.iter().map(|seat| seat.ordinal).collect::<Vec<_>>(), [18, 19]);
    assert!(began.elapsed() < Duration::from_millis(1_900), "{:?}", began.elapsed());
    // The rest is locked and may come free, so it is waited for, and then had.
    let waiting = tokio::spawn({
        let stage = stage.clone();
        async move { stage.held(stage.hold_any("bob", block, 2)).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    other.batch_execute("ROLLBACK").await.expect("the locks are let go");
    let hold = waiting.await.expect("no panic");
    assert_eq!(hold.seats.iter().map(|seat| seat.ordinal).collect::<Vec<_>>(), [0, 1]);

    // In degraded mode too: «full» is only said when no seat is left, not when somebody looks at the last ones.
    stage.truth.set_degraded(true);
    other.batch_execute(lock).await.expect("locks");
    let waiting = tokio::spawn({
        let stage = stage.clone();
        async move { stage.held(stage.hold_any("cid", block, 2)).await }
    });
    assert!(wait_until(Duration::from_secs(5), || backend.sql(WAITING) == "1"));
    other.batch_execute("ROLLBACK").await.expect("the locks are let go");
    let hold = waiting.await.expect("no panic");
    assert_eq!(hold.seats.iter().map(|seat| seat.ordinal).collect::<Vec<_>>(), [2, 3]);
    stage.assert_clean().await;
}

/// Whoever names another organization's rows is told that there are none, and does not wait for whoever has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_locks_of_another_organization_are_not_felt() {
    let backend = PostgresBackend::new();
    let truth = backend.truth().await;
    let stage = Stage::new(truth.clone(), Setup::default()).await;
    let stranger = Stage::new(truth, Setup::default()).await;
    let hold = stage.held(stage.hold("ann", &[0])).await;
    let sold = stage.held(stage.hold("bob", &[1])).await;
    let booking = stage.booked(stage.confirm("bob", sold.id)).await;
    let other = somebody(&backend).await;
    let locks = "BEGIN; LOCK TABLE seats, areas, holds, bookings IN ROW EXCLUSIVE MODE;
        SELECT 1 FROM events FOR UPDATE; SELECT 1 FROM seats FOR UPDATE; SELECT 1 FROM areas FOR UPDATE;
        SELECT 1 FROM holds FOR UPDATE; SELECT 1 FROM bookings FOR UPDATE; SELECT 1 FROM api_keys FOR UPDATE";
    other.batch_execute(locks).await.expect("locks");
    let foreign = |mut request: Request| {
        request.org = stranger.org;
        request
    };
    let wanted = [
        foreign(stage.hold("eve", &[3])),
        foreign(stage.hold_area("eve", 1)),
        foreign(stage.release("ann", hold.id, &[])),
        foreign(stage.release("ann", hold.id, &[0])),
        foreign(stage.confirm("ann", hold.id)),
        foreign(stage.cancel(booking.id)),
        foreign(stage.request(Command::BlockSeats { event: stage.event, seats: stage.seats(&[5]) })),
        foreign(stage.request(Command::CreateBlock { event: stage.event, name: name("new") })),
        // An area of theirs, said to be of an event of one's own.
        stranger.request(Command::Hold(stranger.places("eve", &[], &[(stage.areas[0], 1)]))),
    ];
    for (i, request) in wanted.into_iter().enumerate() {
        let began = Instant::now();
        let refusal = stage.refused(request).await;
        assert!(
            began.elapsed() < Duration::from_millis(1_900),
            "command {i}: {refusal} after {:?}",
            began.elapsed()
        );
    }
    other.batch_execute("ROLLBACK").await.expect("the locks are let go");
    stage.assert_clean().await;
}

/// Nor do seats of a block, of which some belong to holds that are over and that somebody else has locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_seats_of_another_organization_are_not_looked_for() {
    let backend = PostgresBackend::new();
    let truth = backend.truth().await;
    let stage = Stage::new(truth.clone(), Setup::brief()).await;
    let stranger = Stage::new(truth, Setup::default()).await;
    let over = stage.held(stage.hold("ann", &[0])).await;
    stage.wait_until(over.expires_at.plus_millis(50)).await;
    let other = somebody(&backend).await;
    other.batch_execute("BEGIN; SELECT 1 FROM holds FOR UPDATE").await.expect("a lock");
    let mut request = stage.hold_any("eve", stage.block(0).await, 20);
    request.org = stranger.org;
    let began = Instant::now();
    assert!(matches!(stage.refused(request).await, Refusal::UnknownEvent { .. }));
    assert!(began.elapsed() < Duration::from_millis(1_900), "{:?}", began.elapsed());
    other.batch_execute("ROLLBACK").await.expect("the lock is let go");
    stage.assert_clean().await;
}
