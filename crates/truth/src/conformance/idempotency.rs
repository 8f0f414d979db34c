//! One effect per key: the recorded answer is as durable as the effect.

use rowlock_core::limits::IDEMPOTENCY_TTL_MILLIS;
use rowlock_core::{Actor, Command, Refusal, Request};

use super::Backend;
use super::stage::{Setup, Stage, changed, create_org, hold_of, keyed, name, refusal_of, request, user};

pub async fn replay_survives_a_restart<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let hold = || keyed(stage.hold("ann", &[0]), "k1", 1);
    let first = stage.one(hold()).await.expect("a hold");
    assert!(!first.replayed);
    let id = hold_of(&first).id;
    let booking = stage.booked(keyed(stage.confirm("ann", id), "k2", 2)).await;
    stage.truth.close().await;

    let stage = Stage { truth: backend.open().await, ..stage.clone() };
    let again = stage.one(hold()).await.expect("the recorded answer");
    assert!(again.replayed && again.facts.is_empty());
    // The answer is that of then: the hold was active and has become a booking since.
    assert_eq!(again.outcome, first.outcome);
    let again = stage.one(keyed(stage.confirm("ann", id), "k2", 2)).await.expect("the recorded answer");
    assert!(again.replayed);
    assert_eq!(super::stage::booking_of(&again), booking);
    assert_eq!(stage.kinds("SEAT-HOLD-CREATED").await, 1);
    stage.assert_clean().await;
}

pub async fn other_body_is_refused<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    stage.held(keyed(stage.hold("ann", &[0]), "k", 1)).await;
    assert_eq!(stage.refused(keyed(stage.hold("ann", &[1]), "k", 2)).await, Refusal::KeyReused);
    // In one batch too, where the record is not yet written.
    let batch = vec![keyed(stage.hold("bob", &[1]), "b", 1), keyed(stage.hold("bob", &[2]), "b", 2)];
    let mut results = stage.truth.commit(batch).await;
    assert_eq!(refusal_of(results.pop().expect("two answers")), Refusal::KeyReused);
    assert_eq!(&stage.map().await[..3], "hh.");
    stage.assert_clean().await;
}

pub async fn same_key_twice_in_one_batch<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let book = || {
        let places = stage.places("ann", &[0], &[]);
        keyed(stage.request(Command::Book { places, payment_reference: None }), "once", 1)
    };
    let results = stage.truth.commit(vec![book(), book(), book()]).await;
    let committed: Vec<_> = results.into_iter().map(|result| result.expect("an answer")).collect();
    let replayed: Vec<bool> = committed.iter().map(|one| one.replayed).collect();
    assert_eq!(replayed, [false, true, true]);
    assert!(committed.iter().all(|one| one.outcome == committed[0].outcome));
    assert_eq!(stage.kinds("BOOKING-CONFIRMED").await, 1);
    stage.assert_clean().await;
}

pub async fn refusal_is_not_recorded<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let ann = stage.held(stage.hold("ann", &[0])).await;
    let taken = stage.refused(keyed(stage.hold("bob", &[0]), "k", 1)).await;
    assert_eq!(taken, Refusal::SeatsTaken { seats: stage.seats(&[0]) });
    stage.held(stage.release("ann", ann.id, &[])).await;
    // The same key may be tried again, and then it counts.
    let bob = stage.one(keyed(stage.hold("bob", &[0]), "k", 1)).await.expect("the seat is free");
    assert!(changed(&bob) && !bob.replayed);
    assert_eq!(stage.refused(keyed(stage.hold("bob", &[1]), "k", 9)).await, Refusal::KeyReused);
    stage.assert_clean().await;
}

pub async fn keys_of_others_are_other_keys<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let by = |who: &str, request: Request| Request { actor: Actor::User(user(who)), ..request };
    let ann = stage.one(by("ann", keyed(stage.hold("ann", &[0]), "k", 1))).await.expect("a hold");
    let bob = stage.one(by("bob", keyed(stage.hold("bob", &[1]), "k", 2))).await.expect("a hold");
    assert_ne!(hold_of(&ann).id, hold_of(&bob).id);
    let other = create_org(&*stage.truth, "Other").await;
    let command = Command::CreateEvent {
        name: name("Theirs"),
        currency: "EUR".parse().expect("a currency"),
        tiers: vec![rowlock_core::event::Tier { code: name("a"), price: 1 }],
        policy: Default::default(),
    };
    let theirs = by("ann", keyed(request(other, command), "k", 3));
    assert!(!stage.one(theirs).await.expect("another org's key").replayed);
    stage.assert_clean().await;
}

pub async fn old_records_are_swept<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    for i in 0..5 {
        stage.held(keyed(stage.hold("ann", &[i]), &format!("old-{i}"), 1)).await;
    }
    assert_eq!(stage.truth.sweep_records(10).await.expect("a sweep"), 0, "they are young");
    backend.age_records(IDEMPOTENCY_TTL_MILLIS).await;
    // A record past its time does not count, swept or not, and its key can be used for another request.
    let reused = stage.one(keyed(stage.hold("ann", &[7]), "old-0", 2)).await.expect("the key is free");
    assert!(!reused.replayed);
    stage.held(keyed(stage.hold("ann", &[8]), "young", 1)).await;
    assert_eq!(stage.truth.sweep_records(3).await.expect("a sweep"), 3, "no more than asked for");
    assert_eq!(stage.truth.sweep_records(10).await.expect("a sweep"), 1);
    assert_eq!(stage.truth.sweep_records(10).await.expect("a sweep"), 0);
    assert!(stage.one(keyed(stage.hold("ann", &[8]), "young", 1)).await.expect("kept").replayed);
    assert!(stage.one(keyed(stage.hold("ann", &[7]), "old-0", 2)).await.expect("kept").replayed);
    assert!(!stage.one(keyed(stage.hold("ann", &[9]), "old-3", 2)).await.expect("forgotten").replayed);
    stage.assert_clean().await;
}
