//! Many commands in one transaction.

use rowlock_core::booking::Admits;
use rowlock_core::policy::Policy;
use rowlock_core::{Refusal, Stream};

use super::Backend;
use super::stage::{Setup, Stage, booking_of, create_org, hold_of, refusal_of};
use crate::{Failure, MAX_BATCH};

pub async fn conflicts_inside_one_batch<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let batch = vec![
        stage.hold("ann", &[0, 1]),
        stage.hold("bob", &[1, 2]),
        stage.hold("cid", &[2]),
        stage.hold_area("ann", 6),
        stage.hold_area("bob", 5),
        stage.hold_area("cid", 4),
    ];
    let mut results = stage.truth.commit(batch).await.into_iter();
    let mut next = || results.next().expect("an answer for each");
    let ann = hold_of(&next().expect("first come"));
    assert_eq!(refusal_of(next()), Refusal::SeatsTaken { seats: stage.seats(&[1]) });
    hold_of(&next().expect("bob took nothing"));
    assert_eq!(hold_of(&next().expect("a seat and places are one cart")).id, ann.id);
    let full = Refusal::AreaFull { area: stage.areas[0], requested: 5, left: 4 };
    assert_eq!(refusal_of(next()), full);
    hold_of(&next().expect("what is left"));
    assert_eq!((stage.map().await[..4].to_owned(), stage.area().await), ("hhh.".into(), (10, 0)));
    stage.assert_clean().await;
}

pub async fn later_commands_see_earlier_ones<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let hold = stage.held(stage.hold("ann", &[0, 1])).await;
    let batch = vec![
        stage.hold("ann", &[2]),
        stage.heartbeat("ann", hold.id),
        stage.release("ann", hold.id, &[0]),
        stage.hold("bob", &[0]),
        stage.confirm("ann", hold.id),
        stage.confirm("ann", hold.id),
        stage.release("ann", hold.id, &[]),
    ];
    let mut results = stage.truth.commit(batch).await;
    let after = results.pop().expect("seven answers");
    assert!(matches!(refusal_of(after), Refusal::HoldConfirmed { .. }));
    let committed: Vec<_> = results.into_iter().map(|result| result.expect("carried out")).collect();
    let booking = booking_of(&committed[4]);
    assert_eq!(booking_of(&committed[5]), booking);
    let seats: Vec<Admits> = booking.tickets.iter().map(|ticket| ticket.admits).collect();
    assert_eq!(seats, [Admits::Seat(1), Admits::Seat(2)]);
    assert_eq!(&stage.map().await[..3], "hSS");
    // Facts are numbered in the order of the commands that made them.
    let sequences: Vec<u64> =
        committed.iter().flat_map(|one| &one.facts).map(|(sequence, _)| *sequence).collect();
    assert!(sequences.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{sequences:?}");
    stage.assert_clean().await;
}

pub async fn usage_limit_inside_one_batch<B: Backend>(backend: &B) {
    let policy = Policy { seats_per_user: Some(3), ..Policy::default() };
    let stage = Stage::new(backend.open().await, Setup { policy, ..Setup::default() }).await;
    let owned = stage.held(stage.hold("ann", &[0])).await;
    stage.booked(stage.confirm("ann", owned.id)).await;
    let batch = vec![
        stage.hold("ann", &[1]),
        stage.hold_in_cart("ann", "other", &[2]),
        stage.hold_in_cart("ann", "third", &[3]),
        stage.hold("bob", &[3]),
    ];
    let mut results = stage.truth.commit(batch).await;
    hold_of(&results.pop().expect("four answers").expect("another user has places left"));
    let too_many = Refusal::TooManySeats { limit: 3, current: 3, requested: 1 };
    assert_eq!(refusal_of(results.pop().expect("three answers")), too_many);
    let first = hold_of(&results.swap_remove(0).expect("within the limit"));
    // What is given back in a batch can be taken again in it.
    let batch = vec![stage.release("ann", first.id, &[]), stage.hold_in_cart("ann", "third", &[4])];
    for result in stage.truth.commit(batch).await {
        hold_of(&result.expect("within the limit"));
    }
    assert_eq!(&stage.map().await[..5], "S.hhh");
    stage.assert_clean().await;
}

pub async fn poisonous_command_hurts_nobody_else<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    backend.poison("mallory").await;
    let batch = vec![
        stage.hold("ann", &[0]),
        stage.hold("mallory", &[1, 2]),
        stage.hold("bob", &[2]),
        stage.hold("ann", &[3]),
        stage.hold("cid", &[0]),
    ];
    let results = stage.truth.commit(batch).await;
    let ann = hold_of(results[0].as_ref().expect("a neighbour"));
    assert!(matches!(results[1], Err(Failure::Broken(_))), "{:?}", results[1]);
    hold_of(results[2].as_ref().expect("the seat was never taken"));
    assert_eq!(hold_of(results[3].as_ref().expect("a neighbour")).id, ann.id);
    assert!(matches!(results[4], Err(Failure::Refused(Refusal::SeatsTaken { .. }))));
    assert_eq!(&stage.map().await[..4], "h.hh");
    let left = stage.truth.holds_of_user(stage.org, super::stage::user("mallory"), None, 10).await;
    assert!(left.expect("a read").is_empty(), "nothing of it is left");
    // Alone it fails in the same way, and the next command is served.
    assert!(matches!(stage.one(stage.hold("mallory", &[1])).await, Err(Failure::Broken(_))));
    stage.held(stage.hold("bob", &[1])).await;
    stage.assert_clean().await;
}

pub async fn sequences_have_no_gaps<B: Backend>(backend: &B) {
    let truth = backend.open().await;
    let org = create_org(&*truth, "Many streams").await;
    let mut stages = Vec::new();
    for _ in 0..3 {
        stages.push(Stage::in_org(truth.clone(), org, Setup { rows: 10, ..Setup::default() }).await);
    }
    backend.poison("mallory").await;
    let mut facts: Vec<Vec<u64>> = vec![Vec::new(); stages.len()];
    for round in 0..25_u32 {
        let mut batch = Vec::new();
        let mut of = Vec::new();
        for i in 0..12_u32 {
            let which = ((round + i) % 3) as usize;
            let seat = (round * 4 + i / 3) % 100;
            // Some are refused, because the seat is taken or there is none, and some batches break.
            let seat = if i % 5 == 4 { 1_000 } else { seat };
            let who = if round % 6 == 5 && i == 7 { "mallory".into() } else { format!("u{round}-{i}") };
            batch.push(stages[which].hold(&who, &[seat]));
            of.push(which);
        }
        assert!(batch.len() <= MAX_BATCH);
        for (which, result) in of.into_iter().zip(truth.commit(batch).await) {
            facts[which].extend(result.iter().flat_map(|one| &one.facts).map(|(sequence, _)| *sequence));
        }
    }
    for (stage, told) in stages.iter().zip(facts) {
        let rows = truth.journal(Stream::Event(stage.event), 0, 10_000).await.expect("a read");
        let stored: Vec<u64> = rows.iter().map(|row| row.sequence).collect();
        let snapshot = truth.event(stage.event).await.expect("a read").expect("the event");
        assert_eq!(stored, (1..=snapshot.sequence).collect::<Vec<_>>());
        // What was made before the rounds was told to the stage and not here.
        assert_eq!(told, stored[stored.len() - told.len()..], "answers carry the stored sequences");
        assert!(told.len() > 20, "the rounds did something");
    }
    stages[0].assert_clean().await;
}
