//! What Redis has missed is repaired, also when nobody has the event in memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rowlock_core::fact::SeatsMarked;
use rowlock_core::seat::SeatStatus;
use rowlock_core::{Command, EventId, Fact, Request};
use rowlock_registry::hot::LEAST_WEIGHT;
use rowlock_registry::warm::Warm;
use rowlock_registry::{Engine, EngineOptions, Failure};
use rowlock_truth::Truth;
use rowlock_truth::conformance::stage::{Setup, Stage};

use super::projection::Book;
use super::support::*;
use crate::support::{no_sweep, watched::Watched};

/// One of several nodes.
async fn node(book: &Book, warm: &Warm, options: EngineOptions) -> Engine {
    let truth = Watched::new(Arc::clone(&book.stage.truth));
    truth.is_shared.store(true, Ordering::Relaxed);
    Engine::start_with(Arc::new(truth) as Arc<dyn Truth>, Some(warm.clone()), options).await.unwrap()
}

fn block(book: &Book, seat: u32) -> Request {
    book.stage.request(Command::BlockSeats { event: book.stage.event, seats: book.stage.seats(&[seat]) })
}

/// Waits until Redis has what the truth has.
async fn until_current(warm: &Warm, book: &Book) {
    let stored = Some(book.stored().await);
    let (org, event) = (book.stage.org, book.stage.event);
    eventually("a copy as the truth is", async || warm.load(org, event).await.as_ref() == Ok(&stored)).await;
}

/// Whoever sees a copy wait for a fact has it looked at: nobody else would.
#[tokio::test]
async fn a_copy_that_missed_a_fact_is_repaired_though_nobody_has_the_event_in_memory() {
    let (_servers, warm) = one().await;
    let mut book = Book::new().await;
    // With room for one event in memory.
    let reconcile_every = Duration::from_secs(1);
    let engine =
        node(&book, &warm, EngineOptions { hot_seats: LEAST_WEIGHT, reconcile_every, ..no_sweep() }).await;
    let (org, event) = (book.stage.org, book.stage.event);
    engine.event(org, event).await.unwrap();
    until_current(&warm, &book).await;
    let other = Stage::in_org(Arc::clone(&book.stage.truth), org, Setup::default()).await;
    engine.event(org, other.event).await.unwrap();
    assert!(engine.in_memory(event).is_none(), "it had to go");
    // Another node commits, and is gone before it tells anybody.
    book.commit(vec![block(&book, 1)]).await;
    engine.execute(block(&book, 2)).await.unwrap();
    until_current(&warm, &book).await;
    assert!(engine.in_memory(event).is_none(), "nobody wanted it meanwhile");
    engine.stop().await;
}

fn shown(engine: &Engine, event: EventId, seat: u32) -> Option<SeatStatus> {
    engine.in_memory(event).map(|live| live.read().seat(seat).status)
}

/// Somebody has an event reconciled that is wrong in memory, while Redis is away. Memory is put right at once, and Redis when
/// it is back: that is done for what is in memory then.
#[tokio::test]
async fn what_a_reconciliation_drops_from_memory_is_still_repaired_in_redis() {
    let servers = Servers::one();
    let (warm, another) = (Warm::connect(watchful(&servers)).await.unwrap(), servers.connect().await);
    let mut book = Book::new().await;
    let engine = node(&book, &warm, no_sweep()).await;
    let (org, event) = (book.stage.org, book.stage.event);
    let live = engine.event(org, event).await.unwrap();
    until_current(&warm, &book).await;
    // Another node tells of something that the truth has lost, and has something else instead of.
    let next = live.read().sequence() + 1;
    let lost = [(next, Fact::SeatsBlocked(SeatsMarked { event, seats: book.stage.seats(&[1]) }))];
    eventually("the node hears of it", async || {
        book.apply(&another, &lost).await;
        live.read().sequence() == next
    })
    .await;
    book.commit(vec![block(&book, 2)]).await;
    assert_eq!(book.stored().await.sequence, next);
    assert_eq!(shown(&engine, event, 1), Some(SeatStatus::Blocked));
    servers.redis().kill();
    eventually("the node sees that Redis is away", async || {
        let _ = warm.load(org, event).await;
        !warm.is_up()
    })
    .await;
    let repaired = engine.reconcile(org, event).await;
    assert!(matches!(repaired, Err(Failure::Unavailable(_))), "{repaired:?}");
    assert_ne!(shown(&engine, event, 1), Some(SeatStatus::Blocked));
    servers.redis().start_again().unwrap();
    until_current(&warm, &book).await;
    engine.stop().await;
}
