//! The data folder: who may have it, and what is left in it.

use std::sync::Arc;

use crate::support::Sqlite;
use rowlock_truth::conformance::stage::{Setup, Stage, assert_clean};
use rowlock_truth::sqlite::{OpenError, SqliteTruth};
use rowlock_truth::{Failure, Truth};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_lets_go_of_the_folder_and_ends_all_service() {
    let backend = Sqlite::new();
    let stage = Stage::new(backend.truth(), Setup::default()).await;
    let hold = stage.held(stage.hold("ann", &[0])).await;
    stage.truth.close().await;
    // The old handle still lives here.
    let next = backend.truth();
    assert_eq!(next.hold(hold.id).await.expect("a read"), Some(hold.clone()));
    assert!(matches!(stage.one(stage.hold("bob", &[1])).await, Err(Failure::Unavailable(_))));
    assert!(matches!(stage.truth.hold(hold.id).await, Err(Failure::Unavailable(_))));
    assert!(matches!(stage.truth.ping().await, Err(Failure::Unavailable(_))));
    stage.truth.close().await;
}

/// A log is found damaged by nobody: its end is wherever it can't be read any further.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_in_the_log_of_a_truth_that_was_closed() {
    let backend = Sqlite::new();
    let stage = Stage::new(backend.truth(), Setup::default()).await;
    let hold = stage.held(stage.hold("ann", &[0])).await;
    let log = backend.folder().join("rowlock.sqlite-wal");
    assert!(log.exists());
    // Connections that have read have a part in the log, and can't copy it.
    let reads = (0..64).map(|_| stage.truth.event(stage.event));
    futures::future::join_all(reads).await;
    stage.truth.close().await;
    assert!(!log.exists(), "the last connection has copied it");
    assert_eq!(backend.truth().hold(hold.id).await.expect("a read"), Some(hold));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_without_its_file_is_not_overwritten() {
    let backend = Sqlite::new();
    let stage = Stage::new(backend.truth(), Setup::default()).await;
    stage.held(stage.hold("ann", &[0])).await;
    let (file, log) = (backend.folder().join("rowlock.sqlite"), backend.folder().join("rowlock.sqlite-wal"));
    let elsewhere = tempfile::tempdir().unwrap();
    let lost = elsewhere.path().join("rowlock.sqlite-wal");
    std::fs::copy(&log, &lost).unwrap();
    let before = std::fs::read(&lost).unwrap();
    let open = || SqliteTruth::open(elsewhere.path(), backend.options()).err();
    assert!(matches!(open(), Some(OpenError::Lost { .. })));
    std::fs::write(elsewhere.path().join("rowlock.sqlite"), "").unwrap();
    assert!(matches!(open(), Some(OpenError::Lost { .. })), "an empty file is none");
    assert!(std::fs::read(&lost).unwrap() == before, "it is as it was");
    // With its file it is what it was.
    std::fs::copy(&file, elsewhere.path().join("rowlock.sqlite")).unwrap();
    assert!(open().is_none());
    stage.truth.close().await;
}

/// Who has gone does not keep those behind it waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_nobody_waits_for_is_not_done() {
    let backend = Sqlite::new();
    let stage = Stage::new(backend.truth(), Setup { rows: 1_000, ..Setup::default() }).await;
    let began = std::time::Instant::now();
    stage.truth.event(stage.event).await.expect("a read").expect("the event");
    let one = began.elapsed();
    let gone: Vec<_> = (0..2_000).map(|_| stage.truth.event(stage.event)).collect();
    drop(gone);
    let began = std::time::Instant::now();
    stage.truth.event(stage.event).await.expect("a read").expect("the event");
    // Two readers would need a thousand times as long for all of them.
    assert!(began.elapsed() < one * 300, "{:?} after {one:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truth_dropped_without_closing_loses_nothing() {
    let backend = Sqlite::new();
    let stage = Stage::new(backend.truth(), Setup::default()).await;
    let hold = stage.held(stage.hold("ann", &[0])).await;
    let (org, event) = (stage.org, stage.event);
    drop(stage);
    let stage = Stage { truth: backend.truth(), org, event, areas: vec![] };
    assert_eq!(stage.stored(hold.id).await, hold);
    stage.booked(stage.confirm("ann", hold.id)).await;
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_beside_a_writer_sees_what_is_committed_and_writes_nothing() {
    let backend = Sqlite::new();
    let stage = Stage::new(backend.truth(), Setup::default()).await;
    let reader = SqliteTruth::open_read_only(backend.folder()).expect("a second one may read");
    let hold = stage.held(stage.hold("ann", &[0])).await;
    assert_eq!(reader.hold(hold.id).await.expect("a read"), Some(hold));
    let reader = Stage { truth: Arc::new(reader), ..stage.clone() };
    assert!(matches!(reader.one(reader.hold("bob", &[1])).await, Err(Failure::Unavailable(_))));
    reader.assert_clean().await;
    // And when nobody writes any more.
    stage.truth.close().await;
    drop(stage);
    let alone = SqliteTruth::open_read_only(backend.folder()).expect("nobody has it");
    assert_clean(&alone).await;
}

#[test]
fn a_folder_without_data_can_not_be_read() {
    let backend = Sqlite::new();
    let opened = SqliteTruth::open_read_only(backend.folder());
    assert!(matches!(opened.err(), Some(OpenError::Missing { .. })));
}

#[tokio::test]
async fn data_of_a_newer_version_is_left_alone() {
    let backend = Sqlite::new();
    backend.truth().close().await;
    backend.sql("PRAGMA user_version = 99");
    let opened = SqliteTruth::open(backend.folder(), backend.options());
    assert!(matches!(opened.err(), Some(OpenError::NewerSchema { found: 99, .. })));
}

/// A seat's row is overwritten where it lies, whatever happens to the seat: one that grew would split its page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rows_of_seats_keep_their_size() {
    const SEATS: u32 = 400;
    let backend = Sqlite::new();
    let stage = Stage::new(backend.truth(), Setup { rows: SEATS as usize / 10, ..Setup::default() }).await;
    let size = || {
        let sql = "SELECT count(*), sum(payload) FROM dbstat WHERE name = 'seats' AND pagetype = 'leaf'";
        backend.database().query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("the pages")
    };
    let before: (u32, u32) = size();
    assert!(before.0 > 5, "{before:?}");
    for round in 0..150 {
        let user = format!("user-{round}");
        let hold = stage.held(stage.hold(&user, &[7, 8, 9])).await;
        assert_eq!(size(), before, "held for the {round}. time");
        stage.held(stage.release(&user, hold.id, &[7])).await;
        let booking = stage.booked(stage.confirm(&user, hold.id)).await;
        assert_eq!(size(), before, "sold for the {round}. time");
        stage.booked(stage.cancel(booking.id)).await;
        assert_eq!(size(), before, "free for the {round}. time");
    }
    let seats: Vec<u32> = (0..SEATS).collect();
    for some in seats.chunks(20) {
        stage.held(stage.hold("all", some)).await;
    }
    assert_eq!(size(), before);
}

/// Commits overwrite a log that is there already, because to make it longer costs as much again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_does_not_grow_with_the_first_commits() {
    let backend = Sqlite::new();
    let stage = Stage::new(backend.truth(), Setup::default()).await;
    let log = backend.folder().join("rowlock.sqlite-wal");
    let long = log.metadata().expect("a log").len();
    assert!(long > 64 << 20, "{long} bytes");
    let hold = stage.held(stage.hold("ann", &[0])).await;
    assert_eq!(log.metadata().expect("a log").len(), long);
    let begins_as_a_log = || std::fs::read(&log).expect("a log")[..2] == [0x37, 0x7f];
    assert!(begins_as_a_log(), "the hold is in it");

    // What a process leaves that is killed: the log is read, not made anew.
    let left = Sqlite::new();
    for file in ["rowlock.sqlite", "rowlock.sqlite-wal"] {
        std::fs::copy(backend.folder().join(file), left.folder().join(file)).expect("a copy");
    }
    let next = Stage { truth: left.truth(), ..stage.clone() };
    assert_eq!(next.stored(hold.id).await, hold);
    next.assert_clean().await;
}
