//! The connections that write, and what is done when a batch or a connection fails.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowlock_core::{AreaId, Command, EventId, Refusal, Request, SeatId};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::belief::{self, Sent};
use super::clock::DatabaseClock;
use super::commit::{self, Attempted, Failed, LostRows, Results, Safeguards, Transaction, Unknown, within};
use super::connect::Target;
use super::fault::{StoreError, Stored};
use super::load::Waiting;
use super::session::{Backend, Session, Wire};
use super::sql;
use crate::{Belief, Beliefs, Committed, Failure, demand};

/// Times that a batch is tried again when somebody else was quicker, before it is taken apart.
const MAX_STALE_RETRIES: usize = 4;
/// How long a batch waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it is tried to find out what became of a batch.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a batch is taken apart. All others of the lane wait meanwhile.
const APART_TIMEOUT: Duration = Duration::from_secs(4);
/// The same when somebody keeps a row locked, for those who want none of it: that has been waited for already.
const APART_FROM_LOCKED_TIMEOUT: Duration = Duration::from_secs(1);
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// When a seat that somebody has locked is tried again, in degraded mode.
const LOCKED_RETRIES: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(20), Duration::from_millis(40)];

pub(super) struct Lanes {
    target: Target,
    clock: Arc<DatabaseClock>,
    free: Mutex<Vec<Session>>,
    permits: Arc<Permits>,
    safeguards: Safeguards,
    /// Set while the warm tier is away: then nobody sorts out who comes first before rows are locked.
    degraded: AtomicBool,
    kept: AtomicU64,
    wrong: AtomicU64,
}

impl Lanes {
    pub fn new(target: Target, clock: Arc<DatabaseClock>, lanes: usize, safeguards: Safeguards) -> Self {
        Self {
            target,
            clock,
            free: Mutex::default(),
            permits: Arc::new(Permits::new(lanes)),
            safeguards,
            degraded: AtomicBool::new(false),
            kept: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }
    }

    pub fn beliefs(&self) -> Beliefs {
        Beliefs { kept: self.kept.load(Ordering::Relaxed), wrong: self.wrong.load(Ordering::Relaxed) }
    }

    pub fn set_degraded(&self, degraded: bool) {
        self.degraded.store(degraded, Ordering::Relaxed);
    }

    fn waiting(&self) -> Waiting {
        if self.degraded.load(Ordering::Relaxed) { Waiting::Skip } else { Waiting::Wait }
    }

    /// Commits a batch, in portions when its commands want too many seats to choose for one transaction.
    pub async fn commit(&self, batch: Vec<Request>) -> Results {
        let mut results = Vec::with_capacity(batch.len());
        for portion in demand::portions(&batch) {
            results.extend(self.commit_portion(portion).await);
        }
        results
    }

    /// Commits a batch on what is believed of it, and if that is not so, like any other.
    pub async fn commit_believing(&self, batch: Vec<Request>, beliefs: Vec<Belief>) -> Results {
        match self.commit_on_belief(&batch, &beliefs).await {
            Some(results) => results,
            None => self.commit(batch).await,
        }
    }

    /// `None`: nothing was done.
    async fn commit_on_belief(&self, batch: &[Request], beliefs: &[Belief]) -> Option<Results> {
        if self.waiting() != Waiting::Wait {
            return None;
        }
        // Who goes behind a batch of the same event shares its connection, and its place among the connections.
        let events: FxHashSet<EventId> = batch.iter().filter_map(|request| request.command.event()).collect();
        let (mut session, permit) = match self.take_behind(&events) {
            Some(behind) => behind,
            None => {
                let permit = Arc::new(self.permits.try_acquire_for_buyers()?);
                (self.take().await.ok()?, permit)
            }
        };
        session.permit = Arc::downgrade(&permit);
        let sent = belief::send(&mut session, batch, beliefs, &self.clock, self.safeguards).await;
        let tried = match sent {
            Ok(Some(sent)) => {
                // From here on the next batch can be sent behind it.
                self.give_back(session);
                self.finish_sent(sent).await
            }
            Ok(None) => {
                self.give_back(session);
                return None;
            }
            Err(failed) => self.finish(session, Err(failed)).await,
        };
        match tried {
            Ok(answers) => {
                self.kept.fetch_add(1, Ordering::Relaxed);
                Some(answers.into_iter().flatten().collect())
            }
            // What may have been done must not be done again.
            Err(failed @ (Failed::Unknown(_) | Failed::Unsettled(_))) => {
                let failure = failed.failure();
                tracing::error!(%failure, commands = batch.len(), "a batch could not be committed");
                Some(batch.iter().map(|_| Err(failure.clone())).collect())
            }
            Err(failed) => {
                self.wrong.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(why = %failed.failure(), commands = batch.len(), "what was believed of a batch is not so");
                None
            }
        }
    }

    async fn commit_portion(&self, batch: &[Request]) -> Results {
        let acquire = self.permits.acquire(batch.iter().all(is_housekeeping));
        let acquired = tokio::time::timeout(ACQUIRE_TIMEOUT, acquire).await;
        let Ok(Some(_permit)) = acquired else {
            let busy = Failure::Unavailable("all connections to Postgres are busy".into());
            return batch.iter().map(|_| Err(busy.clone())).collect();
        };
        let mut results: Vec<Option<Result<Committed, Failure>>> = (0..batch.len()).map(|_| None).collect();
        let mut left: Vec<usize> = (0..batch.len()).collect();
        let mut waits = LOCKED_RETRIES.iter();
        let mut waiting = self.waiting();
        loop {
            let some: Cow<'_, [Request]> = if left.len() == batch.len() {
                batch.into()
            } else {
                left.iter().map(|i| batch[*i].clone()).collect()
            };
            let answers = self.commit_some(&some, waiting).await;
            for (i, answer) in left.iter().zip(answers) {
                results[*i] = answer;
            }
            left.retain(|i| results[*i].is_none());
            if left.is_empty() {
                break;
            }
            let Some(wait) = waits.next() else { break };
            waiting = match self.waiting() {
                Waiting::Skip => {
                    tokio::time::sleep(*wait).await;
                    Waiting::Skip
                }
                // Only a block that seems full comes back when locks are waited for. Now its seats are, too.
                Waiting::Wait | Waiting::WaitForBlocks | Waiting::Briefly => Waiting::WaitForBlocks,
            };
        }
        // Only who names a seat is told that it is taken. Whoever confirms or releases what is theirs, takes any seat, or
        // repeats a key is not turned away because somebody looks at a row: they wait.
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
        results.into_iter().zip(batch).map(settle).collect()
    }

    /// Commits commands together, or apart when one of them spoils it for the others.
    async fn commit_some(
        &self,
        batch: &[Request],
        waiting: Waiting,
    ) -> Vec<Option<Result<Committed, Failure>>> {
        match self.commit_together(batch, waiting).await {
            Ok(answers) => answers,
            Err(failed) if batch.len() == 1 || !failed.is_about_some() => {
                let failure = failed.failure();
                tracing::error!(%failure, commands = batch.len(), "a batch could not be committed");
                batch.iter().map(|_| Some(Err(failure.clone()))).collect()
            }
            Err(failed) => self.commit_apart(batch, waiting, failed).await,
        }
    }

    async fn commit_together(
        &self,
        batch: &[Request],
        waiting: Waiting,
    ) -> Result<Vec<Option<Result<Committed, Failure>>>, Failed> {
        let mut retries = 0;
        loop {
            match self.attempt(batch, waiting).await {
                Err(Failed::Nothing(error)) if error.is_stale() && retries < MAX_STALE_RETRIES => {
                    retries += 1;
                    // Somebody on another node wants the same. Uneven pauses let one of the two go first.
                    let pause = rand::random_range(0..=retries as u64 * 3);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                tried => return tried,
            }
        }
    }

    /// Commits parts of the batch, and parts of those that fail, so that only who spoils it suffers: a command that
    /// breaks something, or that wants a row which somebody keeps locked.
    async fn commit_apart(
        &self,
        batch: &[Request],
        mut waiting: Waiting,
        why: Failed,
    ) -> Vec<Option<Result<Committed, Failure>>> {
        tracing::warn!(why = %why.failure(), commands = batch.len(), "committing a batch in parts");
        let mut answers: Vec<Option<Result<Committed, Failure>>> = (0..batch.len()).map(|_| None).collect();
        let mut parts = VecDeque::new();
        let mut until = Instant::now() + APART_TIMEOUT;
        let mut failed = Some(((0..batch.len()).collect::<Vec<usize>>(), why));
        loop {
            match failed.take() {
                None => {}
                Some((part, why)) if part.len() > 1 && why.is_lock_timeout() => {
                    // It was waited for once. From now on it is the others who wait, so who wants the same goes last.
                    waiting = Waiting::Briefly;
                    until = until.min(Instant::now() + APART_FROM_LOCKED_TIMEOUT);
                    parts.extend(by_rows(batch, part));
                }
                Some((mut part, why)) if part.len() > 1 && why.is_about_some() => {
                    // Who came first goes first.
                    parts.push_front(part.split_off(part.len() / 2));
                    parts.push_front(part);
                }
                Some((part, why)) => {
                    // When the store is away for some it is away for all that come after them.
                    let rest = if why.is_about_some() { VecDeque::new() } else { std::mem::take(&mut parts) };
                    let failure = why.failure();
                    tracing::error!(%failure, commands = part.len(), "commands could not be committed");
                    for i in part.into_iter().chain(rest.into_iter().flatten()) {
                        answers[i] = Some(Err(failure.clone()));
                    }
                }
            }
            let Some(part) = parts.pop_front() else { break };
            if Instant::now() >= until {
                let late = || Some(Err(Failure::Unavailable("it could not be committed in time".into())));
                part.into_iter().chain(parts.into_iter().flatten()).for_each(|i| answers[i] = late());
                break;
            }
            let some: Vec<Request> = part.iter().map(|i| batch[*i].clone()).collect();
            match self.commit_together(&some, waiting).await {
                Ok(done) => part.iter().zip(done).for_each(|(i, answer)| answers[*i] = answer),
                Err(why) => failed = Some((part, why)),
            }
        }
        if waiting == Waiting::Briefly {
            let locked = || Some(Err(Failure::Unavailable("somebody else keeps a row locked".into())));
            answers = answers.into_iter().map(|answer| answer.or_else(locked)).collect();
        }
        answers
    }

    async fn attempt(
        &self,
        batch: &[Request],
        waiting: Waiting,
    ) -> Result<Vec<Option<Result<Committed, Failure>>>, Failed> {
        let mut session = self.take().await?;
        let mut tried = commit::attempt(&mut session, batch, waiting, self.safeguards).await;
        if matches!(&tried, Err(Failed::Nothing(error)) if error.is_disconnect()) {
            // A connection that was idle while Postgres was restarted is found out by using it. Nothing was sent that
            // could have had an effect, so a new one may try the same.
            session = self.connect().await?;
            tried = commit::attempt(&mut session, batch, waiting, self.safeguards).await;
        }
        self.finish(session, tried).await
    }

    /// Finds out what is not known, and puts the connection where it belongs.
    async fn finish(
        &self,
        session: Session,
        tried: Result<Attempted, Failed>,
    ) -> Result<Vec<Option<Result<Committed, Failure>>>, Failed> {
        if let Err(Failed::Unknown(unknown)) = tried {
            let resolved = self.resolve(unknown).await;
            if matches!(resolved, Err(Failed::Unknown(_))) {
                self.set_aside(session.wire);
            }
            return resolved;
        }
        if matches!(tried, Err(Failed::Unsettled(_))) {
            self.set_aside(session.wire);
        } else if matches!(&tried, Ok(_) | Err(Failed::Panic(_)))
            || matches!(&tried, Err(Failed::Nothing(error)) if !error.is_disconnect())
        {
            self.give_back(session);
        }
        let Attempted { answers, heard } = tried?;
        self.clock.heard(heard);
        Ok(answers)
    }

    /// The same for a batch whose connection others may be using by now.
    async fn finish_sent(&self, sent: Sent) -> Result<Vec<Option<Result<Committed, Failure>>>, Failed> {
        let wire = Arc::clone(&sent.wire);
        match sent.answered().await {
            Err(Failed::Unknown(unknown)) => {
                let resolved = self.resolve(unknown).await;
                if matches!(resolved, Err(Failed::Unknown(_))) {
                    self.set_aside(wire);
                }
                resolved
            }
            tried => {
                let Attempted { answers, heard } = tried?;
                self.clock.heard(heard);
                Ok(answers)
            }
        }
    }

    /// Keeps a connection whose COMMIT is still under way, and its place among the connections, until it is over. With
    /// the standby away, each batch would otherwise leave one behind, until Postgres has none left for anybody.
    fn set_aside(&self, wire: Arc<Wire>) {
        let permits = Arc::clone(&self.permits);
        permits.owed.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            // Answered behind the COMMIT, or not at all.
            let _ = wire.simple("").await;
            drop(wire);
            if !permits.pay() {
                permits.free.add_permits(1);
            }
        });
    }

    /// Asks what became of a batch whose connection was lost during COMMIT. It may still be under way over there, for
    /// instance while it waits for a standby, so the transaction itself is asked first, and its rows afterwards: after
    /// a failover another transaction may have its number.
    async fn resolve(
        &self,
        unknown: Box<Unknown>,
    ) -> Result<Vec<Option<Result<Committed, Failure>>>, Failed> {
        tracing::warn!(why = %unknown.why, commands = unknown.executed.len(), "asking what became of a batch");
        match self.ask(&unknown).await {
            Ok(Some(sequences)) => Ok(commit::answers(unknown.executed, sequences)),
            // Known to have had no effect, so it may be tried again by whoever sent it.
            Ok(None) => Err(Failed::Nothing(StoreError::NoConnection(format!(
                "the connection was lost before the commit: {}",
                unknown.why
            )))),
            Err(error) => {
                tracing::error!(%error, "it could not be found out what became of a batch");
                Err(Failed::Unknown(unknown))
            }
        }
    }

    /// The sequences of the batch's facts, or `None` when it was not committed.
    async fn ask(&self, unknown: &Unknown) -> Stored<Option<Vec<u64>>> {
        let began = Instant::now();
        let (session, found) = within(RESOLVE_TIMEOUT, self.find(unknown)).await?;
        if found.is_empty() {
            return Ok(None);
        }
        // It is in, but it may not have reached the standby yet, and then it must not be acknowledged.
        let left = RESOLVE_TIMEOUT.saturating_sub(began.elapsed());
        let settled = within(left, session.query(sql::SETTLE, [])).await;
        if matches!(settled, Err(StoreError::TimedOut(_))) {
            self.set_aside(session.wire);
        }
        settled?;
        let sequences = unknown.ids.iter().map(|id| found.get(id).copied());
        sequences.collect::<Option<Vec<u64>>>().map(Some).ok_or(StoreError::Corrupt("half a batch"))
    }

    /// The sequences of those facts of the batch that are in, by their ids, once it is over.
    async fn find(&self, unknown: &Unknown) -> Stored<(Session, FxHashMap<Uuid, u64>)> {
        let session = loop {
            match Session::connect(&self.target).await {
                Ok(session) => break session,
                Err(_) => tokio::time::sleep(ASK_AGAIN).await,
            }
        };
        self.await_end(&session, &unknown.transaction).await?;
        let mut found: FxHashMap<Uuid, u64> = FxHashMap::default();
        for LostRows { stream, after, ids } in &unknown.rows {
            for row in session.query(sql::FIND_FACTS, [stream, after, ids]).await? {
                found.insert(super::codec::uuid(&row, 0)?, super::codec::number(&row, 1)?);
            }
        }
        Ok((session, found))
    }

    /// Waits until a transaction is over, however it ended.
    async fn await_end(&self, session: &Session, transaction: &Transaction) -> Stored<()> {
        loop {
            let number = match transaction {
                Transaction::Number(number) => number,
                // It may still be on its way. When its backend is gone, nobody takes it in any more.
                Transaction::Backend(Backend { pid, started }) => {
                    if session.query(sql::END_BACKEND, [pid, started]).await?.is_empty() {
                        return Ok(());
                    }
                    tokio::time::sleep(ASK_AGAIN).await;
                    continue;
                }
            };
            let status: Option<String> = match session.query(sql::TRANSACTION_STATUS, [number]).await {
                Ok(rows) => rows.first().map(|row| row.try_get(0)).transpose()?.flatten(),
                // «In the future»: this server, once a standby, never saw it, so it can't be under way here.
                Err(StoreError::Postgres(error))
                    if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) =>
                {
                    None
                }
                Err(error) => return Err(error),
            };
            if status.as_deref() != Some("in progress") {
                return Ok(());
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    pub async fn sweep_records(&self, limit: usize) -> Stored<usize> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let session = self.take().await?;
        // What a standby that is away would bring back is over all the same: nobody waits for it.
        let sweep = async {
            session.simple("BEGIN; SET LOCAL synchronous_commit = local").await?;
            let swept = session.query(sql::SWEEP_RECORDS, [&limit]).await?;
            session.simple("COMMIT").await?;
            Ok(swept.len())
        };
        let swept = within(RESOLVE_TIMEOUT, sweep).await?;
        self.give_back(session);
        Ok(swept)
    }

    async fn take(&self) -> Stored<Session> {
        let idle = {
            let mut free = self.free.lock();
            free.retain(|session| session.is_usable());
            let idle = free.iter().rposition(|session| session.under_way() == 0);
            idle.map(|at| free.swap_remove(at))
        };
        match idle {
            Some(session) => Ok(session),
            None => self.connect().await,
        }
    }

    /// A session that has one batch under way, about one of these events, and that batch's place.
    fn take_behind(&self, events: &FxHashSet<EventId>) -> Option<(Session, Arc<Permit>)> {
        let mut free = self.free.lock();
        let is_it = |session: &Session| {
            let is_about = session.sold.is_some_and(|sold| events.contains(&sold));
            is_about && session.under_way() == 1 && session.is_usable()
        };
        let at = free.iter().position(is_it)?;
        let permit = free[at].permit.upgrade()?;
        Some((free.swap_remove(at), permit))
    }

    /// Whatever Postgres says to that (a password that was changed, too many of us), no command is to blame.
    async fn connect(&self) -> Stored<Session> {
        Session::connect(&self.target).await.map_err(|error| StoreError::NoConnection(error.to_string()))
    }

    fn give_back(&self, mut session: Session) {
        session.trim();
        if session.is_usable() && !self.permits.free.is_closed() {
            self.free.lock().push(session);
        }
    }

    /// Takes no more batches and lets the connections go.
    pub fn close(&self) {
        self.permits.free.close();
        self.free.lock().clear();
    }
}

/// How many connections may write at a time.
struct Permits {
    free: Arc<Semaphore>,
    /// One less: a lane whose batches on belief were wrong has two of them to commit, and must not take the place that is left to
    /// housekeeping.
    for_buyers: Arc<Semaphore>,
    /// Connections that were set aside and have no permit yet. They take those of the batches that end next, before anybody
    /// who waits: the first is their own.
    owed: AtomicUsize,
}

impl Permits {
    fn new(lanes: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(lanes)),
            for_buyers: Arc::new(Semaphore::new((lanes - 1).max(1))),
            owed: AtomicUsize::new(0),
        }
    }

    async fn acquire(self: &Arc<Self>, for_housekeeping: bool) -> Option<Permit> {
        let of_buyers = match for_housekeeping {
            true => None,
            false => Some(Arc::clone(&self.for_buyers).acquire_owned().await.ok()?),
        };
        let permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        Some(Permit { permits: Arc::clone(self), permit: Some(permit), _of_buyers: of_buyers })
    }

    fn try_acquire_for_buyers(self: &Arc<Self>) -> Option<Permit> {
        let of_buyers = Arc::clone(&self.for_buyers).try_acquire_owned().ok()?;
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(Permit { permits: Arc::clone(self), permit: Some(permit), _of_buyers: Some(of_buyers) })
    }

    /// Whether there was a connection without a permit, which now has one or needs none.
    fn pay(&self) -> bool {
        self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |owed| owed.checked_sub(1)).is_ok()
    }
}

/// A place among the connections. Batches that are under way on one connection share it.
pub(super) struct Permit {
    permits: Arc<Permits>,
    permit: Option<OwnedSemaphorePermit>,
    _of_buyers: Option<OwnedSemaphorePermit>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.permits.pay()
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
        }
    }
}

/// What the engine sends down its last lane.
fn is_housekeeping(request: &Request) -> bool {
    matches!(request.command, Command::Expire { .. })
}

/// Those who want the same rows as many others, apart from those who want other rows; else two halves.
fn by_rows(batch: &[Request], mut part: Vec<usize>) -> Vec<Vec<usize>> {
    part.sort_by_key(|i| wanted_by_many(&batch[*i]));
    let alike = |a: &usize, b: &usize| wanted_by_many(&batch[*a]) == wanted_by_many(&batch[*b]);
    let groups: Vec<Vec<usize>> = part.chunk_by(alike).map(<[usize]>::to_vec).collect();
    if groups.len() > 1 {
        return groups;
    }
    part.chunks(part.len().div_ceil(2)).map(<[usize]>::to_vec).collect()
}

fn wanted_by_many(request: &Request) -> (Option<EventId>, Option<AreaId>) {
    let areas = request.command.places().map(|places| places.areas.as_slice());
    (request.command.event(), areas.and_then(|areas| areas.first()).map(|(area, _)| *area))
}

/// The answer to a command whose seats somebody else keeps locked: whoever has them locked is buying them.
fn locked(request: &Request) -> Failure {
    let places = request.command.places();
    if let Some(places) = places.filter(|places| places.seats.is_empty())
        && let Some((block, requested)) = places.blocks.first().copied()
    {
        return Failure::Refused(Refusal::BlockFull { block, requested, left: 0 });
    }
    let seats: Vec<SeatId> = places.map(|places| places.seats.clone()).unwrap_or_default();
    Failure::Refused(Refusal::SeatsTaken { seats })
}
