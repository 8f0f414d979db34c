//! Comparing what Redis has with the truth, and repairing it.

use rowlock_registry::warm::{Warm, WarmHeld, WarmHold};

use super::projection::Book;
use super::support::*;

async fn prepared(warm: &Warm) -> (Book, Vec<WarmHeld>) {
    let mut book = Book::new().await;
    book.apply(warm, &book.facts).await;
    for (who, seat) in [("ada", 1), ("bob", 2), ("eve", 3)] {
        let new = book.commit(vec![book.stage.hold(who, &[seat])]).await;
        book.apply(warm, &new).await;
    }
    let held = book.stored().await.held;
    (book, held)
}

async fn holds(warm: &Warm, book: &Book) -> Vec<WarmHold> {
    let mut holds = warm.holds(book.stage.org, book.stage.event).await.unwrap();
    holds.sort_by_key(|hold| hold.held.ordinal);
    holds
}

fn without_claim(holds: &[WarmHold]) -> Vec<u32> {
    holds.iter().filter(|hold| hold.owner.is_none()).map(|hold| hold.held.ordinal).collect()
}

#[tokio::test]
async fn claims_that_are_missing_are_restored_and_those_too_many_removed() {
    let (servers, warm) = one().await;
    let (book, held) = prepared(&warm).await;
    let (org, event) = (book.stage.org, book.stage.event);
    let found = holds(&warm, &book).await;
    assert_eq!(found.iter().map(|hold| hold.held.clone()).collect::<Vec<_>>(), held);
    assert_eq!(without_claim(&found), [] as [u32; 0]);
    let key = |seat| format!("rowlock:org:{org}:event:{{{event}}}:seat:{}", book.stage.seat(seat));
    servers.redis().cli(&["DEL", &key(2)]).unwrap();
    assert_eq!(without_claim(&holds(&warm, &book).await), [2]);
    let sequence = book.stored().await.sequence;
    warm.restore(org, event, sequence, book.now(), &held).await.unwrap();
    book.assert_claims(&warm).await;
    // Of these the truth knows nothing: one is removed, the other is somebody else's by now and stays.
    let mut gone = held[..2].to_vec();
    gone[1].hold = hold_id(99);
    warm.remove(org, event, &gone).await.unwrap();
    assert_eq!(without_claim(&holds(&warm, &book).await), [1]);
}

#[tokio::test]
async fn what_was_restored_late_does_not_replace_a_later_claim() {
    let (_servers, warm) = one().await;
    let (mut book, old) = prepared(&warm).await;
    let sequence = book.stored().await.sequence;
    let new = book.commit(vec![book.stage.release("ada", old[0].hold, &[])]).await;
    book.apply(&warm, &new).await;
    let new = book.commit(vec![book.stage.hold("bob", &[1])]).await;
    book.apply(&warm, &new).await;
    warm.restore(book.stage.org, book.stage.event, sequence, book.now(), &old).await.unwrap();
    book.assert_claims(&warm).await;
}

#[tokio::test]
async fn a_server_of_three_that_was_empty_shows_as_missing_and_is_repaired() {
    let servers = Servers::redlock();
    let warm = servers.connect().await;
    let (book, held) = prepared(&warm).await;
    eventually("all three", async || without_claim(&holds(&warm, &book).await).is_empty()).await;
    let Servers::Redlock(all) = &servers else { unreachable!() };
    all[1].cli(&["FLUSHALL"]).unwrap();
    assert_eq!(without_claim(&holds(&warm, &book).await), [1, 2, 3]);
    let stored = book.stored().await;
    warm.save(book.stage.org, &stored, book.now()).await.unwrap();
    eventually("all three again", async || without_claim(&holds(&warm, &book).await).is_empty()).await;
    assert_eq!(book.loaded(&warm).await.map(|event| event.held), Some(held));
}
