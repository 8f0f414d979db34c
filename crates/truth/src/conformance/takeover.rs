//! Holds past their time that nobody has tidied: they hold nothing, whoever asks.

use rowlock_core::hold::HoldStatus;
use rowlock_core::{Command, Fact, Refusal};

use super::Backend;
use super::stage::{Setup, Stage, changed, hold_of, refusal_of};

pub async fn expired_seat_is_taken_over<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::brief()).await;
    let places = stage.places("ann", &[0, 1], &[(stage.areas[0], 4)]);
    let old = stage.held(stage.request(Command::Hold(places))).await;
    stage.wait_until(old.expires_at).await;
    assert_eq!(stage.stored(old.id).await.status, HoldStatus::Active, "nobody has tidied it");

    // One batch: the first taker ends the hold, the second finds the other seat free, the third is too late.
    let batch = vec![stage.hold("bob", &[0]), stage.hold("cid", &[1]), stage.hold("dan", &[0])];
    let mut results = stage.truth.commit(batch).await;
    let late = refusal_of(results.pop().expect("three answers"));
    assert_eq!(late, Refusal::SeatsTaken { seats: stage.seats(&[0]) });
    let cid = results.pop().expect("two answers").expect("the seat is free");
    let bob = results.pop().expect("one answer").expect("the seat is free");
    assert!(
        matches!(&bob.facts[..], [(_, Fact::HoldExpired(part)), (_, Fact::HoldCreated(_))] if part.hold == old.id)
    );
    assert_eq!(cid.facts.len(), 1, "a hold ends once");
    assert_eq!(stage.stored(old.id).await.status, HoldStatus::Expired);
    assert_eq!((stage.map().await[..3].to_owned(), stage.area().await), ("hh.".into(), (0, 0)));

    // The late reaper and the late owner change nothing.
    assert!(!changed(&stage.one(stage.expire(old.id)).await.expect("ended already")));
    let confirm = stage.refused(stage.confirm("ann", old.id)).await;
    assert!(matches!(confirm, Refusal::HoldExpired { .. }), "{confirm:?}");
    assert_eq!(stage.kinds("SEAT-HOLD-EXPIRED").await, 1);
    stage.assert_clean().await;
}

pub async fn expired_area_places_are_taken_over<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::brief()).await;
    let first = stage.held(stage.hold_area("ann", 5)).await;
    stage.wait_until(first.created_at.plus_millis(1)).await;
    let second = stage.held(stage.hold_area("bob", 5)).await;
    let full = stage.refused(stage.hold_area("cid", 1)).await;
    assert_eq!(full, Refusal::AreaFull { area: stage.areas[0], requested: 1, left: 0 });
    stage.wait_until(second.expires_at).await;

    let taken = stage.one(stage.hold_area("cid", 5)).await.expect("there is room");
    let ended: Vec<_> = taken.facts.iter().filter(|(_, fact)| matches!(fact, Fact::HoldExpired(_))).collect();
    assert_eq!(ended.len(), 1, "no more holds end than are needed");
    assert_eq!(stage.stored(first.id).await.status, HoldStatus::Expired, "the oldest makes room first");
    assert_eq!(stage.stored(second.id).await.status, HoldStatus::Active);
    assert_eq!(stage.area().await, (10, 0));
    // Two commands of one batch share what the other dead hold makes free.
    let results = stage.truth.commit(vec![stage.hold_area("dan", 3), stage.hold_area("eve", 3)]).await;
    let mut results = results.into_iter();
    hold_of(&results.next().expect("two answers").expect("there is room"));
    let full = refusal_of(results.next().expect("two answers"));
    assert_eq!(full, Refusal::AreaFull { area: stage.areas[0], requested: 3, left: 2 });
    assert_eq!(stage.area().await, (8, 0));
    assert_eq!(stage.kinds("SEAT-HOLD-EXPIRED").await, 2);
    stage.assert_clean().await;
}

pub async fn expired_cart_makes_room_for_a_new_one<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::brief()).await;
    let old = stage.held(stage.hold("ann", &[0])).await;
    stage.wait_until(old.expires_at).await;
    let extend = stage.refused(stage.heartbeat("ann", old.id)).await;
    assert!(matches!(extend, Refusal::HoldExpired { .. }), "{extend:?}");
    let new = stage.held(stage.hold("ann", &[1])).await;
    assert_ne!(new.id, old.id);
    assert_eq!(stage.stored(old.id).await.status, HoldStatus::Expired);
    assert_eq!(&stage.map().await[..2], ".h");
    stage.assert_clean().await;
}

pub async fn due_holds_are_listed_and_end_once<B: Backend>(backend: &B) {
    let truth = backend.open().await;
    let stage = Stage::new(truth.clone(), Setup::brief()).await;
    let lasting = Stage::in_org(truth.clone(), stage.org, Setup::default()).await;
    let kept = lasting.held(lasting.hold("ann", &[0])).await;
    let first = stage.held(stage.hold("ann", &[0])).await;
    stage.wait_until(first.created_at.plus_millis(1)).await;
    let second = stage.held(stage.hold("bob", &[1])).await;
    let mut active = truth.active_holds().await.expect("a read");
    active.sort_unstable_by_key(|hold| hold.id);
    let mut made = [kept.id, first.id, second.id];
    made.sort_unstable();
    assert_eq!(active.iter().map(|hold| hold.id).collect::<Vec<_>>(), made);

    assert!(!changed(&lasting.one(lasting.expire(kept.id)).await.expect("not due")), "too early");
    stage.wait_until(second.expires_at).await;
    let due = truth.due_holds(10).await.expect("a read");
    assert_eq!(due.iter().map(|hold| hold.id).collect::<Vec<_>>(), [first.id, second.id], "oldest first");
    assert_eq!(truth.due_holds(1).await.expect("a read"), due[..1]);
    let batch = vec![stage.expire(first.id), stage.expire(second.id), stage.expire(first.id)];
    let ended: Vec<bool> =
        truth.commit(batch).await.iter().map(|r| changed(r.as_ref().expect("done"))).collect();
    assert_eq!(ended, [true, true, false]);
    assert!(truth.due_holds(10).await.expect("a read").is_empty());
    assert_eq!(truth.active_holds().await.expect("a read").len(), 1);
    assert_eq!(stage.kinds("SEAT-HOLD-EXPIRED").await, 2);
    stage.assert_clean().await;
}
