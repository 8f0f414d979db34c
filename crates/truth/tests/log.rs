//! SQLite's log under a writer that is never idle: it starts over all the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::support::Sqlite;
use futures::future::join_all;
use rowlock_core::limits::MAX_SEATS_PER_REQUEST;
use rowlock_core::{Command, Outcome, Request};
use rowlock_truth::conformance::stage::{Setup, Stage, section};

const SEATS: u32 = 100_000;
/// More than a page has, so that every seat of a request is a page of its own in the log.
const SEATS_APART: u32 = 100;
const PAGE_BYTES: u64 = 4_096;
/// Requests that are on their way at any time. With one, the writer waits for the next, and a log that was copied meanwhile
/// starts over by itself.
const LANES: u32 = 3;
const WRITTEN_BYTES: u64 = 400 << 20;
const LONGEST_BYTES: u64 = 200 << 20;

/// The lane's next seats off sale, and once it has been through all of them, back on sale.
fn change(stage: &Stage, lane: u32, turn: usize) -> Request {
    let seats: Vec<u32> = (lane..SEATS).step_by(SEATS_APART as usize).collect();
    let parts: Vec<&[u32]> = seats.chunks(MAX_SEATS_PER_REQUEST).collect();
    let (event, seats) = (stage.event, stage.seats(parts[turn % parts.len()]));
    let is_back = turn / parts.len() % 2 == 1;
    stage.request(match is_back {
        false => Command::BlockSeats { event, seats },
        true => Command::UnblockSeats { event, seats },
    })
}

/// Only a log that was copied whole starts over, and this writer adds to it while it is copied. So it must be asked to help.
///
/// The log may have 48 MiB then, what comes in until the copier looks, and what comes in during five rounds of copying. A
/// round is short on any disk: the same thousand pages change again and again, the copier writes each of them once and syncs
/// once, and the writer syncs every hundred. A disk that is slow for one of them is slow for the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_of_a_busy_writer_starts_over() {
    let backend = Sqlite::new();
    let log = backend.folder().join("rowlock.sqlite-wal");
    let stage = Stage::new(backend.truth(), Setup { rows: 0, areas: vec![], ..Setup::default() }).await;
    let create = Command::CreateSeats { event: stage.event, sections: vec![section("block", 0..1_000, 100)] };
    stage.one(stage.request(create)).await.expect("seats");

    // Less than was written: the journal is in the log as well.
    let written = AtomicU64::new(0);
    let longest = AtomicU64::new(0);
    let began = Instant::now();
    let run = async |lane: u32| {
        let mut turn = 0;
        while written.load(Ordering::Relaxed) < WRITTEN_BYTES {
            let done = stage.one(change(&stage, lane, turn)).await.expect("a change");
            let Outcome::Blocking(changed) = done.outcome else { panic!("not about seats: {done:?}") };
            written.fetch_add(changed.seats.len() as u64 * PAGE_BYTES, Ordering::Relaxed);
            longest.fetch_max(log.metadata().expect("a log").len(), Ordering::Relaxed);
            turn += 1;
        }
    };
    join_all((0..LANES).map(run)).await;
    let (written, longest) = (written.into_inner(), longest.into_inner());
    println!("{written} bytes written in {:?}, the log had {longest} at most", began.elapsed());
    assert!(longest < LONGEST_BYTES, "of {written} bytes, {longest} were in the log at once");
}
