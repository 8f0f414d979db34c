//! `verify` on many rows: its time grows with them, not with their square.
//!
//! `ROWLOCK_TEST_HOLDS=1000000 cargo test --release -p rowlock-truth --test scale -- --nocapture` says how long it takes.

use std::time::Instant;

use crate::support::Sqlite;
use rowlock_core::{Command, Request};
use rowlock_truth::conformance::stage::{Setup, Stage, create_org, hold_of, keyed, report, section};
use rowlock_truth::{Committed, Failure, MAX_BATCH, Truth};

const SEATS_PER_EVENT: u32 = 100_000;

fn holds() -> u32 {
    std::env::var("ROWLOCK_TEST_HOLDS").map_or(20_000, |holds| holds.parse().expect("a number of holds"))
}

async fn commit_all(truth: &dyn Truth, requests: Vec<Request>) -> Vec<Result<Committed, Failure>> {
    let mut answers = Vec::new();
    let mut requests = requests.into_iter().peekable();
    while requests.peek().is_some() {
        answers.extend(truth.commit(requests.by_ref().take(MAX_BATCH).collect()).await);
    }
    answers
}

/// Holds so many seats, each by another user and with a key; confirms a third of them and releases a third.
async fn fill(stage: &Stage, seats: u32) {
    let create = Command::CreateSeats { event: stage.event, sections: vec![section("block", 0..1_000, 100)] };
    stage.one(stage.request(create)).await.expect("seats");
    let who = |seat: u32| format!("buyer-{seat}");
    let hold = |seat: u32| keyed(stage.hold(&who(seat), &[seat]), &format!("{}-{seat}", stage.event), 1);
    let held = commit_all(&*stage.truth, (0..seats).map(hold).collect()).await;
    let next = held.iter().zip(0..).filter_map(|(held, seat)| {
        let hold = hold_of(held.as_ref().expect("a hold")).id;
        match seat % 3 {
            0 => Some(stage.confirm(&who(seat), hold)),
            1 => Some(stage.release(&who(seat), hold, &[])),
            _ => None,
        }
    });
    for done in commit_all(&*stage.truth, next.collect()).await {
        done.expect("ended");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_are_checked_in_good_time() {
    let backend = Sqlite::new();
    let truth = backend.truth();
    let org = create_org(&*truth, "Large").await;
    let mut left = holds();
    let began = Instant::now();
    while left > 0 {
        let some = left.min(SEATS_PER_EVENT);
        let stage =
            Stage::in_org(truth.clone(), org, Setup { rows: 0, areas: vec![], ..Setup::default() }).await;
        fill(&stage, some).await;
        left -= some;
    }
    println!("{} holds made in {:?}", holds(), began.elapsed());
    let began = Instant::now();
    let report = report(&*truth).await;
    println!("checked in {:?}: {:?}", began.elapsed(), report.counted);
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    let counted = report.counted.iter().find(|(table, _)| *table == "holds").expect("counted").1;
    assert_eq!(counted, u64::from(holds()));
}
