//! Negative controls: with a safeguard switched off, the race for one seat must be lost, and with it on, won.
//!
//! Two truths on one folder stand for what the lock on the folder prevents. Rows loaded before the write lock are old
//! by the time they are written; then only the comparison of versions stands between two buyers and one seat.

use std::sync::Arc;

use crate::support::Sqlite;
use rowlock_core::{Command, Refusal};
use rowlock_truth::conformance::concurrency::{race, storm};
use rowlock_truth::conformance::stage::{Setup, Stage, hold_of, report};
use rowlock_truth::sqlite::{OpenError, Sabotage, SqliteTruth};
use rowlock_truth::verify::Promise;
use rowlock_truth::{Failure, Truth};

const HOLDERS: usize = 1_000;

/// Seats that are raced for until the race is lost, at most.
const ROUNDS: u32 = 40;

struct Race {
    backend: Sqlite,
    stage: Stage,
    truths: [Arc<dyn Truth>; 2],
}

impl Race {
    async fn new(sabotage: Sabotage) -> Self {
        let backend = Sqlite::sabotaged(Sabotage { share_folder: true, ..sabotage });
        let truths = [backend.truth(), backend.truth()];
        let setup = Setup { areas: vec![60], ..Setup::default() };
        let stage = Stage::new(Arc::clone(&truths[0]), setup).await;
        Self { backend, stage, truths }
    }

    /// How many hold the seat when a thousand have asked for it.
    async fn winners(&self, seat: u32) -> usize {
        race(&self.stage, &self.truths, seat, HOLDERS).await.len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_comparison_a_seat_is_held_twice_and_verify_says_so() {
    let sabotage = Sabotage { load_before_lock: true, no_compare_and_set: true, ..Sabotage::default() };
    let race = Race::new(sabotage).await;
    for seat in 0..ROUNDS {
        if race.winners(seat).await == 1 {
            continue;
        }
        let violations = report(&*race.stage.truth).await.violations;
        let sold_twice =
            violations.iter().any(|v| v.promise == Promise::S && v.what.contains("both list seat"));
        assert!(sold_twice, "two holders, and verify finds nothing: {violations:?}");
        return;
    }
    panic!("the comparison of versions is switched off and the suite does not notice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_comparison_old_rows_do_no_harm() {
    let race = Race::new(Sabotage { load_before_lock: true, ..Sabotage::default() }).await;
    for seat in 0..4 {
        assert_eq!(race.winners(seat).await, 1, "seat {seat}");
    }
    race.stage.assert_clean().await;
}

/// Every hold changes the area's row, so nearly every batch is written with an old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_comparison_old_counters_do_no_harm() {
    let race = Race::new(Sabotage { load_before_lock: true, ..Sabotage::default() }).await;
    let requests = (0..200).map(|i| race.stage.hold_area(&format!("buyer-{i}"), 1 + i % 3)).collect();
    let answers = storm(&race.truths, requests).await;
    let held: u32 = answers.iter().flatten().map(|committed| hold_of(committed).places()).sum();
    assert_eq!(race.stage.area().await, (held, 0), "what was answered is what is stored");
    for answer in &answers {
        // A command that somebody was quicker than every time has failed, which is allowed; it must not be half there.
        let known =
            matches!(answer, Ok(_) | Err(Failure::Refused(Refusal::AreaFull { .. }) | Failure::Broken(_)));
        assert!(known, "{answer:?}");
    }
    race.stage.assert_clean().await;
}

/// The same without the comparison: the counter forgets holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_comparison_counters_are_wrong() {
    let sabotage = Sabotage { load_before_lock: true, no_compare_and_set: true, ..Sabotage::default() };
    let race = Race::new(sabotage).await;
    for round in 0..ROUNDS {
        let requests = (0..40).map(|i| race.stage.hold_area(&format!("buyer-{round}-{i}"), 1)).collect();
        storm(&race.truths, requests).await;
        let violations = report(&*race.stage.truth).await.violations;
        if violations.iter().any(|violation| violation.what.contains("places held")) {
            return;
        }
    }
    panic!("the comparison of versions is switched off and verify does not notice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_write_lock_alone_is_enough_too() {
    let race = Race::new(Sabotage::default()).await;
    for seat in 0..4 {
        assert_eq!(race.winners(seat).await, 1, "seat {seat}");
    }
    // In turn, so that each remembers a journal that the other has written on since.
    for seat in 10..20 {
        let stage = Stage { truth: Arc::clone(&race.truths[seat as usize % 2]), ..race.stage.clone() };
        stage.held(stage.hold(&format!("buyer-{seat}"), &[seat])).await;
    }
    race.stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_nothing_switched_off_a_folder_has_one_truth_and_the_race_is_won() {
    let backend = Sqlite::new();
    let truth = backend.truth();
    let second = SqliteTruth::open(backend.folder(), backend.options());
    assert!(matches!(second.err(), Some(OpenError::InUse { .. })));
    let stage = Stage::new(Arc::clone(&truth), Setup::default()).await;
    assert_eq!(race(&stage, &[truth], 0, HOLDERS).await.len(), 1);
    stage.assert_clean().await;
}

/// Rows that are always old: the command fails after a bounded number of tries, and its neighbours are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_whose_rows_never_stay_still_fails_alone() {
    let race = Race::new(Sabotage::default()).await;
    let stage = &race.stage;
    race.backend.sql(
        "CREATE TRIGGER restless BEFORE UPDATE ON seats WHEN NEW.ordinal = 1 BEGIN SELECT RAISE(IGNORE); END",
    );
    let places = stage.places("bob", &[1], &[]);
    let book = Command::Book { places, payment_reference: None };
    let answers =
        stage.truth.commit(vec![stage.hold("ann", &[0]), stage.request(book), stage.hold("cid", &[2])]).await;
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    match &answers[1] {
        Err(Failure::Broken(why)) => assert!(why.contains("changed by somebody else"), "{why}"),
        other => panic!("not broken: {other:?}"),
    }
    assert_eq!(&stage.map().await[..3], "h.h");
    stage.assert_clean().await;
}
