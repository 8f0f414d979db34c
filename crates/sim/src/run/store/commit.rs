//! The client's side of a transaction: attempts, repetitions, and what is done when the answer to a COMMIT is lost.
//!
//! It does as the store for Postgres does, step by step; only the wire and the rows are simulated.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rowlock_core::decide::Executed;
use rowlock_core::seat::{Seat, SeatState};
use rowlock_core::{Command, Refusal, Request, SeatId, Time, execute};
use rowlock_truth::{Committed, Failure};
use tokio::time::{sleep, timeout};

use super::handle::SimTruth;
use super::load::Waiting;
use super::locks::Transaction;
use super::tables::Writes;
use super::{Loaded, Status, Store, StoreError, bend};
use crate::run::broken::Broken;
use crate::run::net::{Lost, Place};

const MAX_STALE_RETRIES: u64 = 4;
const LOAD_TIMEOUT: Duration = Duration::from_secs(4);
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(20);
const LOCKED_RETRIES: [u64; 3] = [10, 20, 40];

pub(super) type Answers = Vec<Option<Result<Committed, Failure>>>;

/// The sequences of what was written, and the store's time if it was not known before.
pub(super) type Written = (Vec<u64>, Option<Time>);

/// Why an attempt failed, and what is known of it.
pub(super) enum Failed {
    /// Nothing of the batch is stored.
    Nothing(StoreError),
    /// Nothing of the batch is stored, and the store can't be reached.
    Away(&'static str),
    /// It may be stored or not.
    Unknown,
    /// A rule of the kernel was broken, which is an assertion about this batch.
    Panic,
}

impl SimTruth {
    pub(super) async fn commit_batch(&self, batch: Vec<Request>) -> Vec<Result<Committed, Failure>> {
        let mut results: Answers = (0..batch.len()).map(|_| None).collect();
        let mut left: Vec<usize> = (0..batch.len()).collect();
        let mut waiting = self.waiting();
        for wait in LOCKED_RETRIES.into_iter().map(Some).chain([None]) {
            let some: Vec<Request> = left.iter().map(|i| batch[*i].clone()).collect();
            for (i, answer) in left.iter().zip(self.commit_some(&some, waiting).await) {
                results[*i] = answer;
            }
            left.retain(|i| results[*i].is_none());
            let Some(wait) = wait.filter(|_| !left.is_empty()) else { break };
            waiting = match self.waiting() {
                Waiting::Skip => {
                    sleep(Duration::from_millis(wait)).await;
                    Waiting::Skip
                }
                Waiting::Wait | Waiting::WaitForBlocks => Waiting::WaitForBlocks,
            };
        }
        // Only who names a seat is told that it is taken.
        left.retain(|i| {
            let places = batch[*i].command.places();
            batch[*i].idempotency.is_some() || places.is_none_or(|places| places.seats.is_empty())
        });
        if !left.is_empty() {
            let some: Vec<Request> = left.iter().map(|i| batch[*i].clone()).collect();
            for (i, answer) in left.iter().zip(self.commit_some(&some, Waiting::WaitForBlocks).await) {
                results[*i] = answer;
            }
        }
        let settle =
            |(answer, request): (Option<_>, &Request)| answer.unwrap_or_else(|| Err(locked(request)));
        results.into_iter().zip(&batch).map(settle).collect()
    }

    pub(super) fn waiting(&self) -> Waiting {
        if self.degraded.load(Ordering::Relaxed) { Waiting::Skip } else { Waiting::Wait }
    }

    /// Commits commands together, or one by one when one of them spoils it for the others.
    async fn commit_some(&self, batch: &[Request], waiting: Waiting) -> Answers {
        let mut retries = 0;
        let failed = loop {
            match self.attempt(batch, waiting).await {
                Ok(answers) => return answers,
                Err(Failed::Nothing(StoreError::Stale)) if retries < MAX_STALE_RETRIES => {
                    retries += 1;
                    sleep(Duration::from_millis(self.dice.between(0..=retries * 3))).await;
                }
                Err(failed) => break failed,
            }
        };
        let failure = match failed {
            Failed::Away(why) => Failure::Unavailable(why.into()),
            Failed::Unknown => nobody_can_say(),
            Failed::Nothing(StoreError::LockTimeout) if batch.len() > 1 => {
                return self.leave_out_locked(batch).await;
            }
            Failed::Nothing(StoreError::LockTimeout) => {
                Failure::Unavailable("somebody else keeps a row locked".into())
            }
            Failed::Nothing(StoreError::Gone) => Failure::Unavailable("the session was ended".into()),
            Failed::Nothing(_) | Failed::Panic if batch.len() > 1 => {
                return self.one_by_one(batch, waiting).await;
            }
            Failed::Nothing(error) => Failure::Broken(format!("{error:?}")),
            Failed::Panic => Failure::Broken("a rule of the kernel was broken".into()),
        };
        batch.iter().map(|_| Some(Err(failure.clone()))).collect()
    }

    async fn one_by_one(&self, batch: &[Request], waiting: Waiting) -> Answers {
        let mut answers: Answers = Vec::with_capacity(batch.len());
        for request in batch {
            if let Some(Some(Err(away @ Failure::Unavailable(_)))) = answers.last() {
                let away = away.clone();
                answers.push(Some(Err(away)));
                continue;
            }
            answers.extend(Box::pin(self.commit_some(std::slice::from_ref(request), waiting)).await);
        }
        answers
    }

    async fn leave_out_locked(&self, batch: &[Request]) -> Answers {
        let locked = || Some(Err(Failure::Unavailable("somebody else keeps a row locked".into())));
        match self.attempt(batch, Waiting::Skip).await {
            Ok(answers) => answers.into_iter().map(|answer| answer.or_else(locked)).collect(),
            Err(_) => batch.iter().map(|_| locked()).collect(),
        }
    }

    async fn attempt(&self, batch: &[Request], waiting: Waiting) -> Result<Answers, Failed> {
        let batch: Arc<[Request]> = batch.into();
        // A connection that was idle while the store was away is found out by using it: a new one may try the same.
        let (transaction, mut loaded) = match self.load(&batch, waiting).await {
            Err(Failed::Away(_)) => self.load(&batch, waiting).await?,
            other => other?,
        };
        self.hear_clock(&mut loaded);
        let decided = catch_unwind(AssertUnwindSafe(|| self.decide(&mut loaded, &batch)));
        let Ok(mut executed) = decided else {
            self.roll_back(transaction).await;
            return Err(Failed::Panic);
        };
        for answer in &mut executed {
            let full =
                matches!(answer, Some(Err(Refusal::BlockFull { block, .. })) if loaded.open.contains(block));
            if full {
                *answer = None;
            }
        }
        let mut writes = self.writes(&loaded, &batch, &executed);
        if writes.is_empty() {
            self.roll_back(transaction).await;
            return Ok(answers(executed, Vec::new()));
        }
        self.take_early(&mut writes);
        let write = Arc::clone(&self.store).write(transaction, writes);
        let write = async { Ok((write.await?, None)) };
        self.send(transaction, write, executed, &batch, waiting).await
    }

    /// What is to be written when this is what was decided.
    pub(super) fn writes(
        &self,
        loaded: &Loaded,
        batch: &[Request],
        executed: &[Option<Result<Executed, Refusal>>],
    ) -> Writes {
        let facts = batch
            .iter()
            .zip(executed)
            .filter_map(|(request, executed)| Some((request, &executed.as_ref()?.as_ref().ok()?.facts)));
        let facts = facts.flat_map(|(request, facts)| {
            let named = (request.actor.to_string(), request.request_id.to_string());
            facts.iter().map(move |fact| (fact.clone(), named.0.clone(), named.1.clone()))
        });
        let mut writes = Writes::of(&loaded.slice, loaded.now, facts.collect(), &mut *self.ids.lock());
        if self.store.broken() == Some(Broken::NoRecord) {
            writes.records.clear();
        }
        writes
    }

    pub(super) fn take_early(&self, writes: &mut Writes) {
        if self.store.broken() == Some(Broken::SequenceEarly) {
            let streams: Vec<_> = writes.facts.iter().map(|new| new.fact.stream()).collect();
            writes.taken = Some(self.store.tables.lock().take_early(&streams));
        }
    }

    /// Sends what ends in a COMMIT, and finds out what became of it.
    pub(super) async fn send(
        &self,
        transaction: Transaction,
        write: impl Future<Output = Result<Written, StoreError>> + Send + 'static,
        executed: Vec<Option<Result<Executed, Refusal>>>,
        batch: &[Request],
        waiting: Waiting,
    ) -> Result<Answers, Failed> {
        if self.store.broken() == Some(Broken::ReplyBeforeCommit) {
            let (net, life) = (Arc::clone(&self.net), Arc::clone(&self.life));
            tokio::spawn(async move { net.call(&life, Place::Store, WRITE_TIMEOUT, write).await });
            return Ok(answers_without_facts(executed));
        }
        match self.net.call(&self.life, Place::Store, WRITE_TIMEOUT, write).await {
            Ok(Ok((sequences, now))) => {
                if let Some(now) = now {
                    self.set_clock(now);
                }
                Ok(answers(executed, sequences))
            }
            Ok(Err(StoreError::Gone)) => self.resolve(transaction, executed, batch, waiting).await,
            Ok(Err(error)) => Err(Failed::Nothing(error)),
            Err(lost) => {
                self.connection_lost(transaction, lost);
                self.resolve(transaction, executed, batch, waiting).await
            }
        }
    }

    async fn load(&self, batch: &Arc<[Request]>, waiting: Waiting) -> Result<(Transaction, Loaded), Failed> {
        let transaction = self.store.begin(&self.life);
        let load = Arc::clone(&self.store).load(transaction, Arc::clone(batch), waiting);
        match self.net.call(&self.life, Place::Store, LOAD_TIMEOUT, load).await {
            Ok(Ok(loaded)) => Ok((transaction, loaded)),
            Ok(Err(StoreError::Gone)) => Err(Failed::Away("the session was ended")),
            Ok(Err(error)) => Err(Failed::Nothing(error)),
            Err(lost) => {
                self.connection_lost(transaction, lost);
                Err(Failed::Away("the store can't be reached"))
            }
        }
    }

    /// The store notices at once, or after a while, that nobody is there any more.
    fn connection_lost(&self, transaction: Transaction, lost: Lost) {
        let (store, millis) = (
            Arc::clone(&self.store),
            match lost {
                Lost::Reset => self.dice.between(0..=20),
                Lost::Silence => self.dice.between(50..=3_000),
            },
        );
        tokio::spawn(async move {
            sleep(Duration::from_millis(millis)).await;
            store.hang_up(transaction);
        });
    }

    async fn roll_back(&self, transaction: Transaction) {
        let store = Arc::clone(&self.store);
        let roll_back = async move { store.hang_up(transaction) };
        if let Err(lost) = self.net.call(&self.life, Place::Store, WRITE_TIMEOUT, roll_back).await {
            self.connection_lost(transaction, lost);
        }
    }

    /// The store said what time it was. It is a moment old.
    fn hear_clock(&self, loaded: &mut Loaded) {
        if self.store.broken() == Some(Broken::ExpiryByNodeClock) {
            loaded.now = self.node_time();
        }
        self.set_clock(loaded.now);
    }

    fn set_clock(&self, now: Time) {
        let skew = now.millis() - self.store.clock.now().millis();
        if self.store.broken() != Some(Broken::ExpiryByNodeClock) {
            self.life.skew.store(skew, Ordering::Relaxed);
        }
    }

    pub(super) fn decide(
        &self,
        loaded: &mut Loaded,
        batch: &[Request],
    ) -> Vec<Option<Result<Executed, Refusal>>> {
        let broken = self.store.broken();
        let skipped = std::mem::take(&mut loaded.skipped);
        let mut decide = |(request, skipped): (&Request, &bool)| {
            if *skipped {
                return None;
            }
            let request = bend(broken, &loaded.slice, request);
            if let (Some(Broken::ReaperOff), Command::Expire { hold }) = (broken, &request.command) {
                return Some(Err(Refusal::UnknownHold { hold: *hold }));
            }
            if broken == Some(Broken::ClaimTrusted) && !self.degraded.load(Ordering::Relaxed) {
                self.trust_claims(loaded, &request);
            }
            Some(execute(&mut loaded.slice, &request, loaded.now, &mut *self.ids.lock()))
        };
        batch.iter().zip(&skipped).map(&mut decide).collect()
    }

    /// Whoever asks has the claims: the seats are theirs.
    fn trust_claims(&self, loaded: &mut Loaded, request: &Request) {
        let Command::Hold(places) = &request.command else { return };
        for id in &places.seats {
            let taken = |seat: &&Seat| matches!(seat.state, SeatState::Held { .. });
            let Some(seat) = loaded.slice.seat(*id).filter(taken).copied() else { continue };
            let version = self.store.tables.lock().seats.get(id).map_or(0, |(_, version)| *version);
            loaded.slice.load_seat(*id, Seat { state: SeatState::Available, ..seat }, version);
        }
    }

    /// Asks what became of a batch whose answer was lost.
    async fn resolve(
        &self,
        transaction: Transaction,
        executed: Vec<Option<Result<Executed, Refusal>>>,
        batch: &[Request],
        waiting: Waiting,
    ) -> Result<Answers, Failed> {
        self.history.count("fault: commit without an answer");
        match self.store.broken() {
            Some(Broken::AmbiguousIsSuccess) => return Ok(answers_without_facts(executed)),
            Some(Broken::AmbiguousIsRepeated) => {
                sleep(ASK_AGAIN).await;
                return Box::pin(self.attempt(batch, waiting)).await;
            }
            _ => {}
        }
        match timeout(RESOLVE_TIMEOUT, self.ask(transaction)).await {
            Ok(Some(sequences)) => Ok(answers(executed, sequences)),
            Ok(None) => Err(Failed::Away("the connection was lost before the commit")),
            Err(_) => Err(Failed::Unknown),
        }
    }

    /// The sequences of the batch's facts, or `None` when it was not committed.
    async fn ask(&self, transaction: Transaction) -> Option<Vec<u64>> {
        loop {
            let store: Arc<Store> = Arc::clone(&self.store);
            let ask = async move { store.status(transaction) };
            match self.net.call(&self.life, Place::Store, WRITE_TIMEOUT, ask).await {
                Ok(Status::Committed(sequences)) => return Some(sequences),
                Ok(Status::Aborted) => return None,
                Ok(Status::InProgress) | Err(_) => sleep(ASK_AGAIN).await,
            }
        }
    }
}

pub(super) fn nobody_can_say() -> Failure {
    Failure::Unavailable("nobody can say what became of the commit".into())
}

/// Pairs each command's facts with the sequences they got.
fn answers(executed: Vec<Option<Result<Executed, Refusal>>>, sequences: Vec<u64>) -> Answers {
    let mut sequences = sequences.into_iter();
    let mut answer = |executed: Result<Executed, Refusal>| {
        let Executed { facts, outcome, replayed } = executed?;
        let facts =
            facts.into_iter().map(|fact| (sequences.next().expect("every fact has a sequence"), fact));
        Ok(Committed { outcome, replayed, facts: facts.collect() })
    };
    executed.into_iter().map(|executed| executed.map(&mut answer)).collect()
}

fn answers_without_facts(executed: Vec<Option<Result<Executed, Refusal>>>) -> Answers {
    let answer = |executed: Result<Executed, Refusal>| {
        let Executed { outcome, replayed, .. } = executed?;
        Ok(Committed { outcome, replayed, facts: Vec::new() })
    };
    executed.into_iter().map(|executed| executed.map(answer)).collect()
}

/// The answer to a command whose seats somebody else keeps locked: whoever has them locked is buying them.
fn locked(request: &Request) -> Failure {
    let seats: Vec<SeatId> = request.command.places().map(|places| places.seats.clone()).unwrap_or_default();
    Failure::Refused(Refusal::SeatsTaken { seats })
}
