//! Committing holds on what the node believes of them, without reading first.
//!
//! The node decides on its belief and sends everything at once. The store compares all of it under locks and writes, or
//! says that it is not so; then the batch goes the way of all others.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rowlock_core::seat::{Seat, SeatState};
use rowlock_core::slice::{EventRow, Slice};
use rowlock_core::{Command, EventId, Request, UserId};
use rowlock_truth::{Belief, Committed, Failure};
use tokio::time::timeout;

use super::commit::{Failed, Written, nobody_can_say};
use super::handle::SimTruth;
use super::load::Waiting;
use super::locks::{RowKey, Transaction};
use super::tables::Writes;
use super::{Loaded, Status, Store, StoreError};
use crate::run::broken::Broken;

/// How far what the node takes for the time may be from the store's.
const CLOCK_TOLERANCE_MILLIS: i64 = 250;
/// For each row. Whoever reads first knows better what to do about a row that stays locked.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// Who must have no places yet, in events that limit them.
type Users = BTreeSet<(EventId, UserId)>;

impl SimTruth {
    pub(super) async fn commit_believed(
        &self,
        batch: Vec<Request>,
        beliefs: Vec<Belief>,
    ) -> Vec<Result<Committed, Failure>> {
        match self.commit_on_belief(&batch, &beliefs).await {
            Some(results) => results,
            None => self.commit_batch(batch).await,
        }
    }

    /// `None`: nothing was done.
    async fn commit_on_belief(
        &self,
        batch: &[Request],
        beliefs: &[Belief],
    ) -> Option<Vec<Result<Committed, Failure>>> {
        if self.waiting() != Waiting::Wait {
            return None;
        }
        let events = self.know_events(batch).await?;
        let (slice, users) = believed(&events, batch, beliefs)?;
        let skipped = vec![false; batch.len()];
        let mut loaded = Loaded { slice, now: self.node_time(), skipped, open: BTreeSet::new() };
        let executed = catch_unwind(AssertUnwindSafe(|| self.decide(&mut loaded, batch))).ok()?;
        let mut writes = self.writes(&loaded, batch, &executed);
        if executed.iter().flatten().any(Result::is_err) || writes.facts.is_empty() {
            // Whom to refuse is not for belief to say: nothing of theirs would be compared.
            return None;
        }
        self.take_early(&mut writes);
        let transaction = self.store.begin(&self.life);
        let write = Arc::clone(&self.store).write_believed(transaction, writes, users);
        match self.send(transaction, write, executed, batch, Waiting::Wait).await {
            Ok(answers) => {
                self.beliefs.lock().kept += 1;
                Some(answers.into_iter().flatten().collect())
            }
            // What may have been done must not be done again.
            Err(Failed::Unknown) => Some(batch.iter().map(|_| Err(nobody_can_say())).collect()),
            Err(Failed::Nothing(_) | Failed::Away(_) | Failed::Panic) => {
                self.beliefs.lock().wrong += 1;
                None
            }
        }
    }

    /// The events of a batch, asked for once.
    async fn know_events(&self, batch: &[Request]) -> Option<BTreeMap<EventId, Arc<EventRow>>> {
        let mut events = BTreeMap::new();
        for id in batch.iter().filter_map(|request| request.command.event()) {
            let known = self.events.lock().get(&id).cloned();
            let row = match known {
                Some(row) => row,
                None => {
                    let asked = self.read(move |tables, _| Some(Arc::clone(&tables.events.get(&id)?.row)));
                    let row = asked.await.ok()??;
                    self.events.lock().insert(id, Arc::clone(&row));
                    row
                }
            };
            events.insert(id, row);
        }
        Some(events)
    }
}

/// The slice as it is believed to be.
fn believed(
    events: &BTreeMap<EventId, Arc<EventRow>>,
    batch: &[Request],
    beliefs: &[Belief],
) -> Option<(Slice, Users)> {
    let (mut slice, mut users) = (Slice::default(), Users::new());
    for (request, belief) in batch.iter().zip(beliefs) {
        let Command::Hold(places) = &request.command else { return None };
        let row = events.get(&places.event)?;
        if slice.event_row(places.event).is_none() {
            slice.load_event(Arc::clone(row));
        }
        for (seat, tier) in places.seats.iter().zip(&belief.tiers) {
            if !slice.has_seat(*seat) {
                slice.load_seat(*seat, Seat { state: SeatState::Available, tier: *tier }, 0);
            }
        }
        let is_limited = row.event.policy.seats_per_user.is_some();
        if is_limited && users.insert((places.event, places.user.clone())) {
            slice.load_usage(places.event, places.user.clone(), 0);
        }
    }
    Some((slice, users))
}

impl Store {
    /// Compares what was believed, writes and commits: all of it came in one message.
    async fn write_believed(
        self: Arc<Self>,
        transaction: Transaction,
        mut writes: Writes,
        users: Users,
    ) -> Result<Written, StoreError> {
        self.takes_commit(transaction)?;
        self.work().await;
        let compare = self.broken() != Some(Broken::BeliefNotCompared);
        let compared = self.compare_believed(transaction, &mut writes, &users, compare).await;
        if !self.is_open(transaction) {
            // Rows that were locked after the end are nobody's.
            self.locks.release(transaction);
            return Err(StoreError::Gone);
        }
        if let Err(what) = compared {
            self.history.note(format_args!("store: {transaction} was believed wrongly: {what}"));
            self.history.count(&format!("belief: wrong {what}"));
            self.end(transaction, Status::Aborted);
            return Err(StoreError::Stale);
        }
        let written = self.finish(transaction, writes, compare).await;
        match written {
            Ok(_) => self.history.count("belief: kept"),
            // Carts and keys have no locks, so somebody may have been quicker.
            Err(StoreError::Stale) => self.history.count("belief: wrong in the end"),
            Err(_) => {}
        }
        Ok((written?, Some(self.clock.now())))
    }

    /// Statement by statement: each locks its rows and compares them. Says what is not as it was believed.
    async fn compare_believed(
        &self,
        transaction: Transaction,
        writes: &mut Writes,
        users: &Users,
        compare: bool,
    ) -> Result<(), &'static str> {
        let expect = |is_so: bool, what| if is_so || !compare { Ok(()) } else { Err(what) };
        let late = self.clock.now().millis() - writes.now.millis();
        expect(late.abs() <= CLOCK_TOLERANCE_MILLIS, "clock")?;
        for (event, user) in users {
            self.lock_believed(transaction, RowKey::User(*event, user.clone())).await?;
        }
        let usage = |(event, user): &(EventId, UserId)| {
            let (tables, now) = (self.tables.lock(), self.clock.now());
            tables.usage(*event, user, now)
        };
        let trusted = self.broken() == Some(Broken::BelievedUsers);
        expect(trusted || users.iter().all(|user| usage(user) == 0), "user")?;
        for (id, seat, version) in &mut writes.seats {
            self.lock_believed(transaction, RowKey::Seat(*id)).await?;
            let found = self.tables.lock().seats.get(id).copied();
            let is_so =
                |(found, _): (Seat, u64)| found.state == SeatState::Available && found.tier == seat.tier;
            expect(found.is_some_and(is_so), "seat")?;
            // It was not read, so its version is known from here on only.
            *version = found.map(|(_, version)| version);
        }
        let tables = self.tables.lock();
        expect(tables.carts_are_free(writes), "cart")?;
        expect(tables.keys_are_free(writes), "key")
    }

    async fn lock_believed(&self, transaction: Transaction, row: RowKey) -> Result<(), &'static str> {
        let locked = timeout(LOCK_TIMEOUT, self.locks.lock(transaction, &row)).await;
        locked.map_err(|_| "lock")
    }
}
