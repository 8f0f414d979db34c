//! What only a shared truth can get wrong: several nodes, lost connections, clocks, and controls that show that the
//! suite would notice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::postgres::PostgresBackend;
use rowlock_core::{Command, HoldId, Refusal, Request, Stream};
use rowlock_dev::postgres::Postgres;
use rowlock_dev::wait_until;
use rowlock_truth::conformance::any;
use rowlock_truth::conformance::concurrency::{race, storm};
use rowlock_truth::conformance::stage::{Setup, Stage, hold_of, keyed, report, section};
use rowlock_truth::postgres::{PostgresError, PostgresOptions, PostgresTruth, Sabotage};
use rowlock_truth::verify::Promise;
use rowlock_truth::{Failure, Truth};

const HOLDERS: usize = 1_000;

/// What was read is old when it is used, and nobody compares.
const UNGUARDED: Sabotage =
    Sabotage { no_locks: true, no_compare_and_set: true, pause: Duration::from_millis(2), gullible: false };

async fn nodes(backend: &PostgresBackend, count: usize) -> Vec<Arc<dyn Truth>> {
    // All at once: the first migrates, the others wait for it.
    futures::future::join_all((0..count).map(|_| backend.truth())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_holders_on_three_nodes_and_one_wins() {
    let backend = PostgresBackend::new();
    let nodes = nodes(&backend, 3).await;
    let stage = Stage::new(Arc::clone(&nodes[0]), Setup::default()).await;
    for (seat, degraded) in [(0, false), (1, true)] {
        nodes.iter().for_each(|node| node.set_degraded(degraded));
        assert_eq!(race(&stage, &nodes, seat, HOLDERS).await.len(), 1, "degraded: {degraded}");
    }
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_locks_and_comparison_a_seat_is_held_twice_and_verify_says_so() {
    let backend = PostgresBackend::sabotaged(UNGUARDED);
    let nodes = nodes(&backend, 2).await;
    let stage = Stage::new(Arc::clone(&nodes[0]), Setup::default()).await;
    for seat in 0..40 {
        if race(&stage, &nodes, seat, 200).await.len() == 1 {
            continue;
        }
        let violations = report(&*stage.truth).await.violations;
        let sold_twice =
            violations.iter().any(|v| v.promise == Promise::S && v.what.contains("both list seat"));
        assert!(sold_twice, "two holders, and verify finds nothing: {violations:?}");
        return;
    }
    panic!("locks and comparison are switched off and the suite does not notice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_locks_the_comparison_alone_is_enough() {
    let backend = PostgresBackend::sabotaged(Sabotage { no_compare_and_set: false, ..UNGUARDED });
    let nodes = nodes(&backend, 2).await;
    let stage = Stage::new(Arc::clone(&nodes[0]), Setup::default()).await;
    for seat in 0..4 {
        assert_eq!(race(&stage, &nodes, seat, 200).await.len(), 1, "seat {seat}");
    }
    stage.assert_clean().await;
}

/// Three nodes hold the same seats in opposite orders. Nobody waits in a circle, and somebody gets each pair.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opposite_orders_do_not_deadlock() {
    let backend = PostgresBackend::new();
    let nodes = nodes(&backend, 3).await;
    let stage = Stage::new(Arc::clone(&nodes[0]), Setup::default()).await;
    let requests = (0..300)
        .map(|i| {
            let (a, b) = (i % 20, (i * 7 + 1) % 20);
            let seats = if a == b {
                vec![a]
            } else if i % 2 == 0 {
                vec![a, b]
            } else {
                vec![b, a]
            };
            stage.hold(&format!("buyer-{i}"), &seats)
        })
        .collect();
    for answer in storm(&nodes, requests).await {
        assert!(matches!(answer, Ok(_) | Err(Failure::Refused(Refusal::SeatsTaken { .. }))), "{answer:?}");
    }
    assert!(!backend.server.said().contains("deadlock"), "{}", backend.server.said());
    stage.assert_clean().await;
}

/// One user, three nodes, a limit of four: the limit is about rows that do not exist yet when it is checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_per_user_holds_across_nodes() {
    let backend = PostgresBackend::new();
    let nodes = nodes(&backend, 3).await;
    let mut setup = Setup::default();
    setup.policy.seats_per_user = Some(4);
    let stage = Stage::new(Arc::clone(&nodes[0]), setup).await;
    let requests = (0..30).map(|i| stage.hold_in_cart("ann", &format!("cart-{i}"), &[i])).collect();
    let held = storm(&nodes, requests).await.into_iter().filter(Result::is_ok).count();
    assert_eq!(held, 4);
    stage.assert_clean().await;
}

/// A hold that is bought or prolonged in its last moment counts for its user, also while it is past its time and what becomes of it
/// is not committed yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_bought_at_the_last_moment_counts_for_its_user() {
    let backend = PostgresBackend::new();
    let mut setup = Setup::default();
    setup.policy.seats_per_user = Some(2);
    setup.policy.ttl_seconds = 2;
    let there = Stage::new(backend.truth().await, setup).await;
    // Decides, and writes a while later.
    let sabotage = Sabotage { pause: Duration::from_millis(1_600), ..Sabotage::default() };
    let slow = PostgresTruth::open(PostgresOptions { sabotage, ..backend.options() }).await.unwrap();
    let here = Stage { truth: Arc::new(slow), ..there.clone() };
    let commands: [fn(&Stage, HoldId) -> Request; 2] =
        [|stage, hold| stage.confirm("ann", hold), |stage, hold| stage.checkout("bob", hold)];
    for (i, command) in commands.into_iter().enumerate() {
        let (user, seat) = (["ann", "bob"][i], 4 * i as u32);
        let hold = there.held(there.hold(user, &[seat, seat + 1])).await;
        let left = || (hold.expires_at.millis() - there.truth.now().millis()).max(0) as u64;
        tokio::time::sleep(Duration::from_millis(left().saturating_sub(900))).await;
        let first = tokio::spawn({
            let (here, request) = (here.clone(), command(&here, hold.id));
            async move { here.one(request).await }
        });
        tokio::time::sleep(Duration::from_millis(left() + 20)).await;
        assert!(!first.is_finished(), "it is not committed yet");
        let second = there.one(there.hold_in_cart(user, "other", &[seat + 2, seat + 3])).await;
        let first = first.await.unwrap();
        assert!(first.is_ok(), "it was in time: {first:?}");
        let refused = matches!(second, Err(Failure::Refused(Refusal::TooManySeats { current: 2, .. })));
        assert!(refused, "four places of two: {second:?}");
    }
    there.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_cart_is_one_hold_across_nodes() {
    let backend = PostgresBackend::new();
    let nodes = nodes(&backend, 3).await;
    let stage = Stage::new(Arc::clone(&nodes[0]), Setup::default()).await;
    let requests = (0..30).map(|i| stage.hold_in_cart("ann", "cart", &[i])).collect();
    let holds: std::collections::BTreeSet<_> = storm(&nodes, requests)
        .await
        .into_iter()
        .map(|answer| hold_of(&answer.expect("a hold")).id)
        .collect();
    assert_eq!(holds.len(), 1);
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_on_two_nodes_has_one_effect() {
    let backend = PostgresBackend::new();
    let nodes = nodes(&backend, 2).await;
    let stage = Stage::new(Arc::clone(&nodes[0]), Setup::default()).await;
    for round in 0..20 {
        let book = || {
            let places = stage.places("ann", &[round], &[]);
            keyed(
                stage.request(Command::Book { places, payment_reference: None }),
                &format!("key-{round}"),
                1,
            )
        };
        let answers = storm(&nodes, (0..8).map(|_| book()).collect()).await;
        let replayed = answers.iter().filter(|answer| answer.as_ref().expect("a booking").replayed).count();
        assert_eq!(replayed, 7);
    }
    assert_eq!(stage.kinds("BOOKING-CONFIRMED").await, 20);
    stage.assert_clean().await;
}

/// Expiry and confirm in the same instant, on two nodes, thousands of times: one of them wins, and the seat is never both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expiry_and_confirm_at_once_have_one_winner() {
    const ROUNDS: u32 = 6;
    const PAIRS: u32 = 400;
    let backend = PostgresBackend::new();
    let nodes = nodes(&backend, 2).await;
    let rows = (ROUNDS * PAIRS / 10) as usize;
    let stage = Stage::new(Arc::clone(&nodes[0]), Setup { rows, ..Setup::brief() }).await;
    let (mut confirmed, mut expired) = (0, 0);
    for round in 0..ROUNDS {
        let seats = round * PAIRS..(round + 1) * PAIRS;
        let holds = seats.map(|seat| stage.hold(&format!("buyer-{seat}"), &[seat])).collect();
        let holds = stage.truth.commit(holds).await;
        let holds: Vec<_> = holds.into_iter().map(|held| hold_of(&held.expect("a hold"))).collect();
        // One pair after another, from before their end until after it.
        let ends = holds[0].expires_at;
        let mut tasks = Vec::new();
        for (i, hold) in holds.into_iter().enumerate() {
            let (stage, nodes) = (stage.clone(), nodes.clone());
            tasks.push(tokio::spawn(async move {
                let (confirm, expire) = (stage.confirm(hold.user.as_str(), hold.id), stage.expire(hold.id));
                stage.wait_until(ends.plus_millis(3 * (i as i64 - i64::from(PAIRS) / 2))).await;
                let (confirmed, expired) =
                    tokio::join!(nodes[i % 2].commit(vec![confirm]), nodes[(i + 1) % 2].commit(vec![expire]));
                (confirmed[0].is_ok(), expired[0].as_ref().is_ok_and(|done| !done.facts.is_empty()))
            }));
        }
        for task in tasks {
            let (sold, ended) = task.await.expect("no panic");
            assert!(!(sold && ended), "a hold was confirmed and expired");
            confirmed += u32::from(sold);
            expired += u32::from(ended);
        }
    }
    assert!(confirmed > 0 && expired > 0, "{confirmed} confirmed, {expired} expired");
    stage.assert_clean().await;
}

/// Postgres goes away in the middle of batches and comes back: each batch is whole or absent, and the nodes go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_stops_at_once_loses_nothing_acknowledged() {
    let backend = PostgresBackend::new();
    let nodes = nodes(&backend, 2).await;
    let stage = Stage::new(Arc::clone(&nodes[0]), Setup { rows: 200, ..Setup::default() }).await;
    let mut next = 0;
    for _ in 0..3 {
        let requests: Vec<_> = (next..next + 400).map(|i| stage.hold(&format!("buyer-{i}"), &[i])).collect();
        next += 400;
        let hold_rows = || backend.server.sql("SELECT count(*) FROM holds").ok().and_then(|n| n.parse().ok());
        let before: u32 = hold_rows().expect("a count");
        let storming = tokio::spawn({
            let nodes = nodes.clone();
            async move { storm(&nodes, requests).await }
        });
        assert!(wait_until(Duration::from_secs(30), || hold_rows().is_some_and(|n: u32| n > before + 20)));
        backend.server.stop_at_once();
        backend.server.start_again().expect("Postgres starts again");
        for answer in storming.await.expect("no panic") {
            match answer {
                Ok(committed) => {
                    let hold = hold_of(&committed);
                    assert_eq!(stage.stored(hold.id).await.seats, hold.seats);
                }
                Err(Failure::Unavailable(_)) => {}
                Err(other) => panic!("not a clear answer: {other}"),
            }
        }
        stage.held(stage.hold("afterwards", &[1_999 - next / 400])).await;
        stage.assert_clean().await;
    }
}

/// The answer to a COMMIT is lost, and the commit is not: whoever waits for it is told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_found() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    // The session that will be lost has written here before.
    stage.held(stage.hold("ann", &[0])).await;
    backend.wait_for_a_standby_called("nobody");
    let holding = tokio::spawn({
        let stage = stage.clone();
        async move { stage.one(stage.hold("bob", &[1])).await }
    });
    let waiting = || backend.waiting_for_a_standby();
    // It is committed here and waits for the standby.
    assert!(wait_until(Duration::from_secs(5), || !waiting().is_empty()));
    let lost = waiting();
    backend.sql(&format!("SELECT pg_terminate_backend({lost})"));
    // It has been found, and whether the standby has it is what is waited for now.
    assert!(wait_until(Duration::from_secs(5), || !waiting().is_empty() && waiting() != lost));
    backend.wait_for_a_standby_called("");
    let committed = holding.await.expect("no panic").expect("the hold is there");
    let hold = hold_of(&committed);
    assert_eq!(stage.stored(hold.id).await, hold);
    let rows = stage.truth.journal(Stream::Event(stage.event), 0, 1_000).await.expect("the journal");
    assert_eq!(rows.last().map(|row| row.sequence), Some(committed.facts[0].0));
    stage.assert_clean().await;
}

/// Postgres' clock jumps, and nobody talks to this node. It must hear of it when it looks for holds to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_for_due_holds_hears_a_clock_that_has_jumped() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    let hold = stage.held(stage.hold("ann", &[0])).await;
    backend.sql(
        "CREATE OR REPLACE FUNCTION rowlock_now() RETURNS bigint LANGUAGE sql VOLATILE AS
             'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + 3600000'",
    );
    assert_eq!(stage.truth.due_holds(10).await.expect("a read").len(), 1);
    assert!(stage.truth.now() >= hold.expires_at, "to this node it is {:?}", stage.truth.now());
}

/// Both the row of a seat and its hold say who holds it, and must say the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seats_that_say_otherwise_than_their_holds_are_found() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    for (seat, who) in ["ann", "bob", "cid", "dan", "eve"].into_iter().enumerate() {
        stage.held(stage.hold(who, &[seat as u32])).await;
    }
    stage.assert_clean().await;
    backend.sql(
        "DELETE FROM holds WHERE user_id = 'ann';
         UPDATE holds SET status = 3, ended_at = 1 WHERE user_id = 'bob';
         UPDATE holds SET seats = '[]', places = 0 WHERE user_id = 'cid';
         UPDATE seats SET held_until = held_until + 1 WHERE key & 16777215 = 3;
         UPDATE seats SET status = 0, hold_id = NULL, held_until = NULL WHERE key & 16777215 = 4",
    );
    let violations = report(&*stage.truth).await.violations;
    for said in [
        "which does not exist",
        "which is not active",
        "which does not list it",
        "which ends at another time",
        "which it does not hold",
    ] {
        let is_it = |what: &str| what.contains("seat") && what.ends_with(said);
        let found = violations.iter().filter(|v| v.promise == Promise::S && is_it(&v.what)).count();
        assert_eq!(found, 1, "{said}: {violations:#?}");
    }
}

/// In the first minutes of the first sale Postgres has no statistics, and takes its tables for small. An event that is
/// loaded then must not take it a step for each pair of a seat and a hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_loaded_before_there_are_statistics() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup { rows: 0, ..Setup::default() }).await;
    let sections = vec![section("stalls", 0..400, 100)];
    stage.one(stage.request(Command::CreateSeats { event: stage.event, sections })).await.expect("seats");
    backend.sql(
        "UPDATE seats SET status = 1, version = 2, hold_id = gen_random_uuid(), held_until = 9999999999999;
         INSERT INTO holds SELECT hold_id, key >> 24, 'user-' || key, 'cart', 0, 1, 0, 1, '[]', '[]', 0, held_until,
             held_until, NULL, NULL, NULL FROM seats",
    );
    let event = stage.truth.event(stage.event).await.expect("it is read in time").expect("the event");
    assert_eq!(event.seats.len(), 40_000);
    assert!(event.seats.iter().all(|seat| seat.user.is_some()));
}

/// Postgres ends a transaction in which nothing happens for too long, for instance because the machine stood still, and says
/// so to the next statement. That is the store being away for a moment, and not a command that is broken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standing_still_in_a_transaction_is_an_outage() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    let sabotage = Sabotage { pause: Duration::from_millis(1_500), ..Sabotage::default() };
    let slow = PostgresTruth::open(PostgresOptions { sabotage, ..backend.options() }).await.expect("a node");
    let hold = stage.hold("ann", &[0]);
    let holding = tokio::spawn(async move { slow.commit(vec![hold]).await });
    let mut session = String::new();
    let is_idle = "SELECT pid FROM pg_stat_activity WHERE application_name = 'rowlock' AND state = 'idle in transaction'";
    assert!(rowlock_dev::wait_until(Duration::from_secs(5), || {
        session = backend.sql(is_idle);
        !session.is_empty()
    }));
    // The next statement is sent meanwhile, and waits for a session that is past its time when it wakes up.
    let signal = |name: &str| {
        let status = std::process::Command::new("kill").args([name, &session]).status();
        assert!(status.expect("kill runs").success());
    };
    signal("-STOP");
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    signal("-CONT");
    let answers = holding.await.expect("no panic");
    assert!(matches!(answers[..], [Err(Failure::Unavailable(_))]), "{answers:?}");
    assert!(backend.server.said().contains("idle-in-transaction timeout"), "{}", backend.server.said());
    stage.held(stage.hold("bob", &[0])).await;
    stage.assert_clean().await;
}

#[tokio::test]
async fn an_address_that_can_not_be_used_is_told_without_its_password() {
    let open =
        |url: &str| PostgresTruth::open(PostgresOptions { url: url.into(), ..PostgresOptions::default() });
    for url in ["postgres://", "nonsense", "postgres://ann:secret@127.0.0.1:1/x?bad=1"] {
        let error = open(url).await.err().expect("an error");
        assert!(matches!(error, PostgresError::Address(_)), "{url}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let error = open("postgres://ann:secret@127.0.0.1:1/x").await.err().expect("an error");
    assert!(matches!(error, PostgresError::Unreachable(_)), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[tokio::test]
async fn tables_of_a_newer_version_are_left_alone() {
    let backend = PostgresBackend::new();
    backend.truth().await.close().await;
    backend.sql("UPDATE rowlock_schema SET version = 99");
    let error = PostgresTruth::open(backend.options()).await.err().expect("an error");
    assert!(matches!(error, PostgresError::NewerSchema { found: 99, .. }), "{error}");
}

#[tokio::test]
async fn the_view_of_seat_holds_reads_as_people_expect() {
    let backend = PostgresBackend::new();
    let stage = Stage::new(backend.truth().await, Setup::default()).await;
    let hold = stage.held(stage.hold("ann", &[3, 5])).await;
    let found = backend.sql(&format!(
        "SELECT seat_id, user_id, status, expires_at > now() FROM seat_holds WHERE hold_id = '{}' ORDER BY seat_id",
        hold.id
    ));
    assert_eq!(found, format!("{}|ann|active|t\n{}|ann|active|t", stage.seat(3), stage.seat(5)));
}

/// Two nodes sell one block. They skip each other's seats, and still sell the last pair.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_allocate_one_block_to_its_last_seat() {
    let backend = PostgresBackend::new();
    let nodes = nodes(&backend, 2).await;
    let stage = Stage::new(Arc::clone(&nodes[0]), Setup { rows: 40, ..Setup::default() }).await;
    any::allocate(&stage, &nodes, stage.block(0).await, 200).await;
    assert!(!backend.server.said().contains("deadlock"), "{}", backend.server.said());
}

/// The control for the test above.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_locks_and_comparison_a_seat_of_a_block_is_given_twice() {
    let backend = PostgresBackend::sabotaged(UNGUARDED);
    let nodes = nodes(&backend, 2).await;
    for _ in 0..20 {
        let stage = Stage::new(Arc::clone(&nodes[0]), Setup::default()).await;
        let holds = any::buy_pairs(&stage, &nodes, stage.block(0).await, 10).await;
        if !any::given_twice(&holds).is_empty() {
            let violations = report(&*stage.truth).await.violations;
            assert!(violations.iter().any(|violation| violation.promise == Promise::S), "{violations:?}");
            return;
        }
    }
    panic!("locks and comparison are switched off and the suite does not notice");
}

/// Two nodes take over the same holds past their time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_take_over_one_block() {
    let backend = PostgresBackend::new();
    let nodes = nodes(&backend, 2).await;
    let stage = Stage::new(Arc::clone(&nodes[0]), Setup { rows: 8, ..Setup::brief() }).await;
    let early = (0..10).map(|i| stage.hold(&format!("early-{i}"), &[i * 4, i * 4 + 1, i * 4 + 2, i * 4 + 3]));
    let mut end = stage.truth.now();
    for answer in stage.truth.commit(early.collect()).await {
        end = end.max(hold_of(&answer.expect("a hold")).expires_at);
    }
    stage.wait_until(end).await;
    any::allocate(&stage, &nodes, stage.block(0).await, 40).await;
    assert!(!backend.server.said().contains("deadlock"), "{}", backend.server.said());
}

/// With TLS, and a certificate that only the given file vouches for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_speaks_tls_and_checks_the_certificate() {
    let backend = PostgresBackend::new();
    let certificate = backend.server.speak_tls().expect("Postgres speaks TLS");
    let url = format!("{}?sslmode=require", backend.server.url());
    let open =
        |ca_file| PostgresTruth::open(PostgresOptions { url: url.clone(), ca_file, ..backend.options() });
    let error = open(None).await.err().expect("nobody vouches for the certificate");
    assert!(matches!(error, PostgresError::Unreachable(_)), "{error}");
    let stage =
        Stage::new(Arc::new(open(Some(certificate)).await.expect("a connection")), Setup::default()).await;
    stage.held(stage.hold("ann", &[0])).await;
    let encrypted = "SELECT count(*) > 0 FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
                     WHERE s.ssl AND a.application_name = 'rowlock'";
    assert_eq!(backend.sql(encrypted), "t");
}

/// With the standby away, what says yes again waits for it, and so does what is swept. Neither may use up the connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_a_standby_does_not_use_up_the_connections() {
    let backend = PostgresBackend::new();
    let options = PostgresOptions { lanes: 1, ..backend.options() };
    let stage =
        Stage::new(Arc::new(PostgresTruth::open(options).await.expect("a truth")), Setup::default()).await;
    let mut confirms = Vec::new();
    for seat in 0..3 {
        let who = format!("buyer-{seat}");
        let hold = stage.held(keyed(stage.hold(&who, &[seat]), &who, 1)).await;
        stage.booked(stage.confirm(&who, hold.id)).await;
        confirms.push(stage.confirm(&who, hold.id));
    }
    backend.sql("UPDATE idempotency_records SET expires_at = 0");
    backend.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    backend.sql("SELECT pg_reload_conf()");
    assert!(wait_until(Duration::from_secs(5), || backend.sql("SHOW synchronous_standby_names") == "nobody"));
    let began = Instant::now();
    assert_eq!(stage.truth.sweep_records(100).await.expect("swept"), 3);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    for again in confirms {
        let answer = stage.one(again).await;
        assert!(matches!(answer, Err(Failure::Unavailable(_))), "{answer:?}");
    }
    // As many as may write at a time, and no more.
    assert_eq!(backend.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"), "1");
}

/// Postgres is there and does not let the node in: nobody's command is to blame, so a batch is not taken apart for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_may_not_log_in_says_so_at_once() {
    let backend = PostgresBackend::new();
    backend.sql("CREATE ROLE shop LOGIN SUPERUSER");
    let url = format!("postgres://shop@{}/postgres", backend.server.address());
    let options = PostgresOptions { url, ..backend.options() };
    let stage =
        Stage::new(Arc::new(PostgresTruth::open(options).await.expect("a truth")), Setup::default()).await;
    backend.sql("ALTER ROLE shop NOLOGIN");
    backend.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'shop'");
    let batch = || (0..20).map(|seat| stage.hold(&format!("buyer-{seat}"), &[seat])).collect();
    for answer in stage.truth.commit(batch()).await {
        let Err(Failure::Unavailable(why)) = answer else { panic!("{answer:?}") };
        assert!(why.contains("not permitted to log in"), "{why}");
    }
    backend.sql("ALTER ROLE shop LOGIN");
    assert!(stage.truth.commit(batch()).await.iter().all(Result::is_ok));
    stage.assert_clean().await;
}

/// Whatever the role or the database has as its default.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_default_isolation_changes_nothing() {
    let backend = PostgresBackend::new();
    backend.sql("ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'");
    let nodes = nodes(&backend, 2).await;
    let stage = Stage::new(Arc::clone(&nodes[0]), Setup::default()).await;
    for seat in 0..3 {
        assert_eq!(race(&stage, &nodes, seat, 100).await.len(), 1);
    }
    stage.assert_clean().await;
}

#[tokio::test]
async fn a_socket_of_this_machine_will_do() {
    let server = Postgres::start().expect("Postgres starts");
    let folder = server.folder().display().to_string().replace('/', "%2F");
    for mode in ["", "?sslmode=prefer"] {
        let url = server.url().replace(&server.address().ip().to_string(), &folder) + mode;
        let options = PostgresOptions { url: url.clone(), ..PostgresOptions::default() };
        PostgresTruth::open(options).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    }
}
