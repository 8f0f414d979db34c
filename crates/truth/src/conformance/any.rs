//! Any seats of a block: as many holds as there are seats for, and each seat once.

use std::collections::BTreeSet;
use std::sync::Arc;

use rowlock_core::command::Places;
use rowlock_core::hold::Hold;
use rowlock_core::limits::MAX_SEATS_PER_HOLD;
use rowlock_core::{BlockId, Command, Refusal};
use uuid::Uuid;

use super::Backend;
use super::concurrency::storm;
use super::stage::{Setup, Stage, changed, hold_of, keyed, refusal_of};
use crate::{Committed, Failure, Truth};

fn ordinals(hold: &Hold) -> Vec<u32> {
    hold.seats.iter().map(|seat| seat.ordinal).collect()
}

pub async fn any_seats_are_side_by_side<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let block = stage.block(0).await;
    stage.held(stage.hold("ann", &[1, 4])).await;
    assert_eq!(ordinals(&stage.held(stage.hold_any("bob", block, 3)).await), [5, 6, 7]);
    assert_eq!(ordinals(&stage.held(stage.hold_any("cat", block, 2)).await), [2, 3]);
    assert_eq!(ordinals(&stage.held(stage.hold_any("dan", block, 3)).await), [10, 11, 12]);
    // The other block has its own seats.
    let right = stage.block(1).await;
    assert_eq!(ordinals(&stage.held(stage.hold_any("dan", right, 2)).await), [10, 11, 12, 20, 21]);
    stage.assert_clean().await;
}

pub async fn any_seats_asked_for_again_are_the_same<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let (left, right) = (stage.block(0).await, stage.block(1).await);
    let first = stage.held(stage.hold_any("ann", left, 2)).await;
    let again = stage.one(stage.hold_any("ann", left, 2)).await.expect("the same hold");
    assert_eq!((hold_of(&again), changed(&again), again.facts.len()), (first.clone(), false, 0));
    // Seats that were named count, those of another block do not.
    stage.held(stage.hold("ann", &[9, 30])).await;
    assert!(!changed(&stage.one(stage.hold_any("ann", left, 3)).await.expect("a hold")));
    let more = stage.one(stage.hold_any("ann", right, 2)).await.expect("a hold");
    assert!(changed(&more));
    assert_eq!((hold_of(&more).id, ordinals(&hold_of(&more))), (first.id, vec![0, 1, 9, 30, 20]));

    // The same in one batch, where the cart's seats are not stored yet.
    let batch = vec![
        stage.hold("bob", &[8]),
        stage.hold_any("bob", left, 3),
        stage.hold_any("bob", left, 3),
        stage.hold_any("bob", left, 2),
    ];
    let answers: Vec<Committed> =
        stage.truth.commit(batch).await.into_iter().map(|answer| answer.expect("a hold")).collect();
    assert_eq!(answers.iter().map(changed).collect::<Vec<_>>(), [true, true, false, false]);
    assert_eq!(ordinals(&hold_of(&answers[1])), [8, 2, 3]);
    let key = || keyed(stage.hold_any("cat", left, 2), "key", 1);
    let (one, two) = (stage.one(key()).await.expect("a hold"), stage.one(key()).await.expect("a hold"));
    assert!(!one.replayed && two.replayed && hold_of(&one) == hold_of(&two));
    stage.assert_clean().await;
}

pub async fn full_block_says_what_is_left<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let block = stage.block(0).await;
    let blocked = Command::BlockSeats { event: stage.event, seats: stage.seats(&[0]) };
    stage.one(stage.request(blocked)).await.expect("a blocked seat");
    let held = stage.held(stage.hold_any("ann", block, 17)).await;
    stage.booked(stage.confirm("ann", held.id)).await;
    let refusal = stage.refused(stage.hold_any("bob", block, 3)).await;
    assert_eq!(refusal, Refusal::BlockFull { block, requested: 3, left: 2 });
    stage.held(stage.hold_any("bob", block, 2)).await;
    let refusal = stage.refused(stage.hold_any("bob", block, 3)).await;
    assert_eq!(refusal, Refusal::BlockFull { block, requested: 1, left: 0 });

    let unknown = BlockId::from_uuid(Uuid::from_u128(7));
    let refusal = stage.refused(stage.hold_any("bob", unknown, 1)).await;
    assert_eq!(refusal, Refusal::UnknownBlock { block: unknown });
    // A block of another event is as unknown as one that does not exist.
    let other = Stage::in_org(Arc::clone(&stage.truth), stage.org, Setup::default()).await;
    let refusal = other.refused(other.hold_any("bob", block, 1)).await;
    assert_eq!(refusal, Refusal::UnknownBlock { block });
    for quantity in [0, MAX_SEATS_PER_HOLD as u32 + 1] {
        let refusal = stage.refused(stage.hold_any("cat", block, quantity)).await;
        assert!(matches!(refusal, Refusal::Invalid { field: "quantity", .. }), "{refusal:?}");
    }
    stage.assert_clean().await;
}

pub async fn expired_seats_of_a_block_are_taken_over<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::brief()).await;
    let block = stage.block(0).await;
    // Some seats of each hold are in the other block, and some places in an area: they come free as well.
    let mut last = None;
    for i in 0..10 {
        let places = stage.places(&format!("early-{i}"), &[i * 2, i * 2 + 1, 20 + i], &[(stage.areas[0], 1)]);
        last = Some(stage.held(stage.request(Command::Hold(places))).await);
    }
    let last = last.expect("a hold");
    stage.wait_until(last.expires_at).await;
    let batch = (0..5).map(|i| stage.hold_any(&format!("late-{i}"), block, 4)).collect();
    let holds: Vec<Hold> =
        stage.truth.commit(batch).await.into_iter().map(|answer| hold_of(&answer.expect("a hold"))).collect();
    let seats: BTreeSet<u32> = holds.iter().flat_map(ordinals).collect();
    assert_eq!(seats, (0..20).collect());
    assert_eq!(stage.kinds("SEAT-HOLD-EXPIRED").await, 10);
    assert_eq!(stage.area().await, (0, 0));
    stage.assert_clean().await;
}

/// Cancelled bookings are looked at again while somebody takes any seat, and theirs are held by others who are past their time.
pub async fn who_gave_a_seat_back_does_not_stand_in_its_way<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::brief()).await;
    let block = stage.block(0).await;
    let held = stage.held(stage.hold("ann", &[0, 1])).await;
    let booking = stage.booked(stage.confirm("ann", held.id)).await;
    stage.one(stage.cancel(booking.id)).await.expect("cancelled");
    let last = stage.held(stage.hold("bob", &[0, 1])).await;
    stage.wait_until(last.expires_at).await;
    let batch = vec![
        stage.cancel(booking.id),
        stage.confirm("ann", held.id),
        stage.hold_any("cat", block, 2),
        stage.hold_any("dan", block, 2),
    ];
    let answers = stage.truth.commit(batch).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(Failure::Refused(_)))), "{answers:?}");
    assert_eq!(answers.iter().skip(2).filter(|answer| answer.is_ok()).count(), 2, "{answers:?}");
    stage.assert_clean().await;
}

/// Commands that choose and commands that name, in one batch: nobody is told «full» while there is a seat.
pub async fn choosing_and_naming_in_one_batch<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let block = stage.block(0).await;
    let mut batch: Vec<_> = (0..10).map(|i| stage.hold(&format!("namer-{i}"), &[i])).collect();
    batch.extend((0..5).map(|i| stage.hold_any(&format!("chooser-{i}"), block, 2)));
    batch.push(stage.hold_any("late", block, 1));
    let mut answers = stage.truth.commit(batch).await;
    let late = refusal_of(answers.pop().expect("an answer"));
    assert_eq!(late, Refusal::BlockFull { block, requested: 1, left: 0 });
    let seats: Vec<u32> = answers.into_iter().flat_map(|a| ordinals(&hold_of(&a.expect("a hold")))).collect();
    assert_eq!(seats.iter().copied().collect::<BTreeSet<_>>(), (0..20).collect());
    assert_eq!(seats.len(), 20);
    stage.assert_clean().await;
}

/// More than one transaction may choose: the batch is committed in portions, in its order.
pub async fn a_batch_that_wants_very_many_seats<B: Backend>(backend: &B) {
    let setup = Setup { rows: 1_200, ..Setup::default() };
    let stage = Stage::new(backend.open().await, setup).await;
    let block = stage.block(0).await;
    let batch = (0..13).map(|i| stage.hold_any(&format!("agency-{i}"), block, 500)).collect();
    let answers = stage.truth.commit(batch).await;
    for (i, answer) in answers.into_iter().enumerate() {
        match i {
            0..12 => assert_eq!(ordinals(&hold_of(&answer.expect("a hold"))).len(), 500),
            _ => assert_eq!(refusal_of(answer), Refusal::BlockFull { block, requested: 500, left: 0 }),
        }
    }
    stage.assert_clean().await;
}

pub async fn block_is_allocated_to_its_last_seat<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup { rows: 10, ..Setup::default() }).await;
    let block = stage.block(0).await;
    allocate(&stage, &[Arc::clone(&stage.truth)], block, 50).await;
}

/// Twice as many buyers as there are pairs in a block of so many seats: all pairs are held, and each seat once.
pub async fn allocate(stage: &Stage, nodes: &[Arc<dyn Truth>], block: BlockId, seats: usize) {
    let holds = buy_pairs(stage, nodes, block, seats).await;
    assert_eq!(holds.len(), seats / 2);
    assert_eq!(given_twice(&holds), [] as [u32; 0]);
    stage.assert_clean().await;
}

/// So many buyers, each asking some node for two seats of the block at the same time.
pub async fn buy_pairs(stage: &Stage, nodes: &[Arc<dyn Truth>], block: BlockId, buyers: usize) -> Vec<Hold> {
    let requests = (0..buyers).map(|i| stage.hold_any(&format!("buyer-{i}"), block, 2)).collect();
    let mut holds = Vec::new();
    for answer in storm(nodes, requests).await {
        match answer {
            Ok(committed) => holds.push(hold_of(&committed)),
            Err(Failure::Refused(Refusal::BlockFull { left: 0..2, .. })) => {}
            Err(other) => panic!("not a clear answer: {other}"),
        }
    }
    holds
}

pub fn given_twice(holds: &[Hold]) -> Vec<u32> {
    let mut seen = BTreeSet::new();
    holds.iter().flat_map(ordinals).filter(|ordinal| !seen.insert(*ordinal)).collect()
}

impl Stage {
    /// The id of a block: 0 is the left one.
    pub async fn block(&self, position: usize) -> BlockId {
        let snapshot = self.truth.event(self.event).await.expect("a read").expect("the event is stored");
        snapshot.row.blocks[position].id
    }

    pub fn hold_any(&self, who: &str, block: BlockId, quantity: u32) -> rowlock_core::Request {
        let blocks = vec![(block, quantity)];
        self.request(Command::Hold(Places { blocks, ..self.places(who, &[], &[]) }))
    }
}
