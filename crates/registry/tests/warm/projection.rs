//! The copy of an event in Redis follows the facts of a real store, in whatever order they come.

use std::sync::Arc;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rowlock_core::{BookingId, CartToken, Command, Fact, HoldId, Outcome, Request, SeatId, Stream, Time};
use rowlock_registry::warm::{Applied, Batch, Claim, Claimed, Warm, WarmArea, WarmEvent, WarmHeld};
use rowlock_truth::Truth;
use rowlock_truth::conformance::stage::{Setup, Stage, furnish, name, new_event, section};
use rowlock_truth::read::EventSnapshot;
use rowlock_truth::sqlite::{SqliteOptions, SqliteTruth};
use tempfile::TempDir;

use super::support::{claimed, one, taken};

/// A store, and the facts of the event from the first one on.
pub struct Book {
    pub stage: Stage,
    pub facts: Vec<(u64, Fact)>,
    holds: Vec<(HoldId, String)>,
    bookings: Vec<BookingId>,
    _folder: TempDir,
}

impl Book {
    pub async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let truth = SqliteTruth::open(folder.path(), SqliteOptions::default()).unwrap();
        let truth: Arc<dyn Truth> = Arc::new(truth);
        let setup = Setup { rows: 13, ..Setup::default() };
        let mut stage = Stage::new(Arc::clone(&truth), Setup::default()).await;
        let created = stage.one(new_event(stage.org, "another", setup.policy.clone())).await.unwrap();
        let Fact::EventCreated(event) = &created.facts[0].1 else { panic!("{:?}", created.facts) };
        stage.event = event.id;
        let mut book = Self { stage, facts: created.facts, holds: vec![], bookings: vec![], _folder: folder };
        for request in furnish(book.stage.org, book.stage.event, &setup) {
            book.commit(vec![request]).await;
        }
        let areas = book.facts.iter().filter_map(|(_, fact)| match fact {
            Fact::AreaCreated(area) => Some(area.id),
            _ => None,
        });
        book.stage.areas = areas.collect();
        book
    }

    /// The facts that came of it.
    pub async fn commit(&mut self, requests: Vec<Request>) -> Vec<(u64, Fact)> {
        let mut new = Vec::new();
        for committed in self.stage.truth.commit(requests).await.into_iter().flatten() {
            match &committed.outcome {
                Outcome::Hold(made) => self.holds.push((made.hold.id, made.hold.user.to_string())),
                Outcome::Booking(made) => self.bookings.push(made.booking.id),
                _ => {}
            }
            let of_event = |fact: &Fact| fact.stream() == Stream::Event(self.stage.event);
            new.extend(committed.facts.into_iter().filter(|(_, fact)| of_event(fact)));
        }
        new.sort_by_key(|(sequence, _)| *sequence);
        self.facts.extend(new.iter().cloned());
        new
    }

    /// Something that somebody might do.
    pub fn any(&self, random: &mut StdRng) -> Request {
        let stage = &self.stage;
        let who = format!("buyer:{}", random.random_range(0..6));
        let mut seats: Vec<u32> =
            (0..random.random_range(1..4)).map(|_| random.random_range(0..134)).collect();
        seats.sort_unstable();
        seats.dedup();
        let hold = self.holds.choose(random).cloned();
        let event = stage.event;
        match (random.random_range(0..20), hold) {
            (0, _) => stage.request(Command::BlockSeats { event, seats: stage.seats(&seats) }),
            (1, _) => stage.request(Command::UnblockSeats { event, seats: stage.seats(&seats) }),
            (2, _) => {
                let sections = vec![section("more", 0..1, random.random_range(1..20))];
                stage.request(Command::CreateSeats { event, sections })
            }
            (3, _) => {
                let name_of = name(&format!("area {}", random.random_range(0..50)));
                stage.request(Command::CreateArea { event, name: name_of, tier: name("floor"), capacity: 50 })
            }
            (4, _) if !self.bookings.is_empty() => {
                stage.cancel(*self.bookings.choose(random).expect("there are some"))
            }
            (5, _) => {
                let places = stage.places(&who, &seats, &[]);
                stage.request(Command::Book { places, payment_reference: None })
            }
            (6 | 7, Some((hold, who))) => stage.confirm(&who, hold),
            (8, Some((hold, who))) => stage.checkout(&who, hold),
            (9, Some((hold, who))) => stage.heartbeat(&who, hold),
            (10, Some((hold, who))) => stage.release(&who, hold, &[]),
            (11 | 12, Some((hold, who))) => stage.release(&who, hold, &seats[..1]),
            (13, _) => stage.hold_area(&who, random.random_range(1..3)),
            _ => stage.hold(&who, &seats),
        }
    }

    pub async fn stored(&self) -> WarmEvent {
        warm_event(self.stage.truth.event(self.stage.event).await.unwrap().unwrap())
    }

    pub fn now(&self) -> Time {
        self.stage.truth.now()
    }

    pub async fn apply(&self, warm: &Warm, facts: &[(u64, Fact)]) -> Applied {
        let facts = facts.iter().map(|(sequence, fact)| (*sequence, fact)).collect();
        let batch = Batch { org: self.stage.org, stream: Stream::Event(self.stage.event), facts };
        warm.apply(self.now(), &[batch]).await.unwrap()[0]
    }

    pub async fn loaded(&self, warm: &Warm) -> Option<WarmEvent> {
        warm.load(self.stage.org, self.stage.event).await.unwrap()
    }

    pub async fn claim(&self, warm: &Warm, who: &str, seat: u32) -> Claimed {
        let (org, event, seats) = (self.stage.org, self.stage.event, [self.stage.seat(seat)]);
        let (user, cart) = (super::support::user(who), CartToken::unnamed());
        warm.claim(&Claim { org, event, user: &user, cart: &cart, seats: &seats }).await
    }

    /// Every claim is that of the hold that has the seat, and no other seat is claimed.
    pub async fn assert_claims(&self, warm: &Warm) {
        let stored = self.stored().await;
        let seats: Vec<SeatId> = (0..stored.seats).map(|ordinal| self.stage.seat(ordinal)).collect();
        let owners = warm.owners(self.stage.org, self.stage.event, &seats).await.unwrap();
        let mut expected = vec![None; seats.len()];
        for held in stored.held {
            expected[held.ordinal as usize] = Some((held.hold, held.user, held.until));
        }
        for (ordinal, (owner, expected)) in owners.into_iter().zip(expected).enumerate() {
            let owner =
                owner.map(|owner| (owner.hold.unwrap(), owner.user.unwrap(), owner.expires_at.unwrap()));
            assert_eq!(owner, expected, "seat {ordinal}");
        }
    }
}

/// What Redis should have of an event.
fn warm_event(stored: EventSnapshot) -> WarmEvent {
    use rowlock_core::seat::SeatState;
    let words = stored.seats.len().div_ceil(64);
    let (mut free, mut sold, mut held) = (vec![0_u64; words], vec![0_u64; words], Vec::new());
    for (i, seat) in stored.seats.iter().enumerate() {
        let bit = 1 << (i % 64);
        match seat.state {
            SeatState::Available => free[i / 64] |= bit,
            SeatState::Sold { .. } => sold[i / 64] |= bit,
            SeatState::Held { hold, until } => {
                let user = seat.user.clone().expect("a held seat has a user");
                held.push(WarmHeld { ordinal: i as u32, hold, user, until });
            }
            SeatState::Blocked => {}
        }
    }
    let area = |area: &rowlock_core::area::Area| WarmArea { area: area.id, held: area.held, sold: area.sold };
    let mut areas: Vec<WarmArea> = stored.areas.iter().map(area).collect();
    areas.sort_by_key(|area| area.area);
    let (event, sequence) = (stored.row.event.id, stored.sequence);
    WarmEvent { event, sequence, seats: stored.seats.len() as u32, free, sold, held, areas }
}

#[tokio::test]
async fn it_follows_everything_that_can_happen() {
    let (_servers, warm) = one().await;
    let mut book = Book::new().await;
    book.apply(&warm, &book.facts).await;
    assert_eq!(book.loaded(&warm).await, Some(book.stored().await), "from the first fact on");
    let mut random = StdRng::seed_from_u64(7);
    for round in 0..120 {
        let requests = (0..random.random_range(1..8)).map(|_| book.any(&mut random)).collect();
        let new = book.commit(requests).await;
        let applied = book.apply(&warm, &new).await;
        let stored = book.stored().await;
        assert_eq!(applied, Applied::Current(stored.sequence), "round {round}");
        assert_eq!(book.loaded(&warm).await, Some(stored), "round {round}");
        book.assert_claims(&warm).await;
    }
    let kinds: std::collections::HashSet<&str> = book.facts.iter().map(|(_, fact)| fact.kind()).collect();
    assert!(kinds.len() >= 12, "the test has seen too little: {kinds:?}");
}

#[tokio::test]
async fn facts_that_come_in_disorder_or_twice_end_up_in_order() {
    let (_servers, warm) = one().await;
    let mut book = Book::new().await;
    book.apply(&warm, &book.facts).await;
    let mut random = StdRng::seed_from_u64(11);
    for round in 0..40 {
        // As many nodes commit at once: each batch is in order, but not the batches.
        let mut batches = Vec::new();
        for _ in 0..8 {
            let requests = (0..random.random_range(1..5)).map(|_| book.any(&mut random)).collect();
            batches.push(book.commit(requests).await);
        }
        batches.push(batches[3].clone());
        batches.retain(|batch| !batch.is_empty());
        batches.shuffle(&mut random);
        join_all(batches.iter().map(|batch| book.apply(&warm, batch))).await;
        assert_eq!(book.loaded(&warm).await, Some(book.stored().await), "round {round}");
        book.assert_claims(&warm).await;
    }
}

#[tokio::test]
async fn a_gap_stops_the_copy_but_not_the_claims() {
    let (_servers, warm) = one().await;
    let mut book = Book::new().await;
    book.apply(&warm, &book.facts).await;
    let before = book.stored().await;
    let missing = book.commit(vec![book.stage.hold("ada", &[1])]).await;
    let later = book.commit(vec![book.stage.hold("bob", &[2])]).await;
    assert_eq!(book.apply(&warm, &later).await, Applied::Waiting(before.sequence));
    assert_eq!(book.loaded(&warm).await, Some(before), "as of its sequence, wholly");
    let owner = warm.owners(book.stage.org, book.stage.event, &[book.stage.seat(2)]).await.unwrap();
    assert!(owner[0].as_ref().is_some_and(|owner| !owner.pending && owner.hold.is_some()));
    assert!(matches!(book.apply(&warm, &missing).await, Applied::Current(_)));
    assert_eq!(book.loaded(&warm).await, Some(book.stored().await));
    book.assert_claims(&warm).await;
}

#[tokio::test]
async fn a_gap_that_nobody_fills_ends_the_copy() {
    let (servers, warm) = one().await;
    let mut book = Book::new().await;
    book.apply(&warm, &book.facts).await;
    let last = book.facts.last().unwrap().0;
    let fact = book.commit(vec![book.stage.hold("ada", &[1])]).await.remove(0).1;
    for first in (0..16_384).step_by(2_048) {
        let facts: Vec<_> = (0..2_048).map(|i| (last + 2 + first + i, fact.clone())).collect();
        assert_eq!(book.apply(&warm, &facts).await, Applied::Waiting(last));
    }
    let applied = book.apply(&warm, &[(last + 2 + 16_384, fact)]).await;
    assert_eq!(applied, Applied::Missing);
    assert_eq!(book.loaded(&warm).await, None);
    assert_eq!(servers.redis().cli(&["KEYS", "*ahead"]).unwrap(), "");
}

#[tokio::test]
async fn a_release_by_the_wrong_hold_leaves_the_claim() {
    let (_servers, warm) = one().await;
    let mut book = Book::new().await;
    book.apply(&warm, &book.facts).await;
    let held = book.stage.held(book.stage.hold("ada", &[1])).await;
    let released = book.commit(vec![book.stage.release("ada", held.id, &[])]).await;
    let taken = book.commit(vec![book.stage.hold("bob", &[1])]).await;
    // The release is late: the seat has a new owner in Redis.
    book.apply(&warm, &taken).await;
    book.apply(&warm, &released).await;
    let owner = warm.owners(book.stage.org, book.stage.event, &[book.stage.seat(1)]).await.unwrap();
    assert_eq!(owner[0].as_ref().and_then(|owner| owner.user.clone()), Some(super::support::user("bob")));
}

#[tokio::test]
async fn a_commit_confirms_a_claim_and_then_only_a_fact_ends_it() {
    let (_servers, warm) = one().await;
    let mut book = Book::new().await;
    book.apply(&warm, &book.facts).await;
    let receipt = claimed(book.claim(&warm, "ada", 1).await);
    let new = book.commit(vec![book.stage.hold("ada", &[1])]).await;
    // A claim that is pending gives way to what was committed.
    let rival = claimed(book.claim(&warm, "bob", 2).await);
    let also = book.commit(vec![book.stage.hold("ada", &[2])]).await;
    book.apply(&warm, &[new, also].concat()).await;
    warm.release_all(&[receipt, rival]).await.unwrap();
    let hold = book.stored().await.held[0].hold;
    for seat in [1, 2] {
        let owner = taken(book.claim(&warm, "bob", seat).await).remove(0).1;
        assert_eq!((owner.hold, owner.pending), (Some(hold), false), "seat {seat}");
        assert!(claimed(book.claim(&warm, "ada", seat).await).seats.is_empty(), "it is hers already");
    }
    let new = book.commit(vec![book.stage.release("ada", hold, &[])]).await;
    book.apply(&warm, &new).await;
    claimed(book.claim(&warm, "bob", 1).await);
}
