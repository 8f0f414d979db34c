//! Many at once.

use std::sync::Arc;

use futures::future::join_all;
use rowlock_core::{HoldId, Refusal, Request};

use super::Backend;
use super::stage::{Setup, Stage, hold_of};
use crate::{Committed, Failure, Truth};

/// Sends requests to the truths in turn, in batches of different sizes, all at the same time.
pub async fn storm(truths: &[Arc<dyn Truth>], requests: Vec<Request>) -> Vec<Result<Committed, Failure>> {
    let mut tasks = Vec::new();
    let mut requests = requests.into_iter().peekable();
    for size in [1, 2, 1, 7, 1, 16].into_iter().cycle() {
        if requests.peek().is_none() {
            break;
        }
        let batch: Vec<Request> = requests.by_ref().take(size).collect();
        let truth = Arc::clone(&truths[tasks.len() % truths.len()]);
        tasks.push(tokio::spawn(async move { truth.commit(batch).await }));
    }
    join_all(tasks).await.into_iter().flat_map(|answers| answers.expect("no task panics")).collect()
}

/// Who got the seat, of so many who want it. Panics on an answer that is neither yes nor «taken».
pub async fn race(stage: &Stage, truths: &[Arc<dyn Truth>], seat: u32, holders: usize) -> Vec<HoldId> {
    let requests = (0..holders).map(|i| stage.hold(&format!("buyer-{seat}-{i}"), &[seat])).collect();
    let mut winners = Vec::new();
    for answer in storm(truths, requests).await {
        match answer {
            Ok(committed) => winners.push(hold_of(&committed).id),
            Err(Failure::Refused(Refusal::SeatsTaken { .. })) => {}
            Err(other) => panic!("neither a hold nor a conflict: {other}"),
        }
    }
    winners
}

pub async fn thousand_holders_of_one_seat<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let truths = [Arc::clone(&stage.truth)];
    let winners = race(&stage, &truths, 7, 1_000).await;
    assert_eq!(winners.len(), 1, "one seat has one holder");
    assert_eq!(stage.stored(winners[0]).await.seats[0].ordinal, 7);
    assert_eq!(stage.kinds("SEAT-HOLD-CREATED").await, 1);
    stage.assert_clean().await;
}

pub async fn area_is_sold_to_its_last_place<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup { areas: vec![50], ..Setup::default() }).await;
    let requests = (0..300).map(|i| stage.hold_area(&format!("buyer-{i}"), 1 + i % 3)).collect();
    let answers = storm(&[Arc::clone(&stage.truth)], requests).await;
    let held: u32 = answers.iter().flatten().map(|committed| hold_of(committed).places()).sum();
    for answer in answers {
        assert!(matches!(answer, Ok(_) | Err(Failure::Refused(Refusal::AreaFull { .. }))), "{answer:?}");
    }
    // Somebody asked for one place as long as there was one.
    assert_eq!((held, stage.area().await), (50, (50, 0)));
    stage.assert_clean().await;
}
