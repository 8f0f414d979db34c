//! The connections that write, and what is done when a batch or a connection fails.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rowlock_core::{Refusal, Request, SeatId};
use rustc_hash::FxHashMap;
use tokio::sync::Semaphore;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::clock::DatabaseClock;
use super::commit::{self, Attempted, Failed, LostRows, Results, Safeguards, Unknown, within};
use super::connect::Target;
use super::fault::{StoreError, Stored};
use super::load::Waiting;
use super::session::Session;
use super::sql;
use crate::{Committed, Failure, demand};

/// Times that a batch is tried again when somebody else was quicker, before its commands are tried one by one.
const MAX_STALE_RETRIES: usize = 4;
/// How long a batch waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it is tried to find out what became of a batch.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// When a seat that somebody has locked is tried again, in degraded mode.
const LOCKED_RETRIES: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(20), Duration::from_millis(40)];

pub(super) struct Lanes {
    target: Target,
    clock: Arc<DatabaseClock>,
    free: Mutex<Vec<Session>>,
    permits: Arc<Semaphore>,
    safeguards: Safeguards,
    /// Set while the warm tier is away: then nobody sorts out who comes first before rows are locked.
    degraded: AtomicBool,
}

impl Lanes {
    pub fn new(target: Target, clock: Arc<DatabaseClock>, lanes: usize, safeguards: Safeguards) -> Self {
        Self {
            target,
            clock,
            free: Mutex::default(),
            permits: Arc::new(Semaphore::new(lanes)),
            safeguards,
            degraded: AtomicBool::new(false),
        }
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

    async fn commit_portion(&self, batch: &[Request]) -> Results {
        let acquired = tokio::time::timeout(ACQUIRE_TIMEOUT, self.permits.acquire()).await;
        let Ok(Ok(_permit)) = acquired else {
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
                Waiting::Wait | Waiting::WaitForBlocks => Waiting::WaitForBlocks,
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

    /// Commits commands together, or one by one when one of them spoils it for the others.
    async fn commit_some(
        &self,
        batch: &[Request],
        waiting: Waiting,
    ) -> Vec<Option<Result<Committed, Failure>>> {
        let mut retries = 0;
        let failed = loop {
            match self.attempt(batch, waiting).await {
                Ok(answers) => return answers,
                Err(Failed::Nothing(error)) if error.is_stale() && retries < MAX_STALE_RETRIES => {
                    retries += 1;
                    // Somebody on another node wants the same. Uneven pauses let one of the two go first.
                    let pause = rand::random_range(0..=retries as u64 * 3);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                Err(failed) => break failed,
            }
        };
        if let Failed::Nothing(error) = &failed
            && error.is_lock_timeout()
            && batch.len() > 1
        {
            return self.leave_out_locked(batch, error).await;
        }
        let (why, failure) = match failed {
            Failed::Nothing(error) if error.is_outage() || batch.len() == 1 => {
                (error.to_string(), error.into())
            }
            Failed::Panic(why) if batch.len() == 1 => (why.clone(), Failure::Broken(why)),
            Failed::Unknown(unknown) => {
                (unknown.why.to_string(), StoreError::Unknown(unknown.why.to_string()).into())
            }
            Failed::Nothing(_) | Failed::Panic(_) => {
                tracing::warn!(commands = batch.len(), "committing a batch one by one");
                let mut answers = Vec::with_capacity(batch.len());
                for request in batch {
                    // When the store is away for one it is away for all that come after it.
                    if let Some(Some(Err(away @ Failure::Unavailable(_)))) = answers.last() {
                        let away = away.clone();
                        answers.push(Some(Err(away)));
                        continue;
                    }
                    answers.extend(Box::pin(self.commit_some(std::slice::from_ref(request), waiting)).await);
                }
                return answers;
            }
        };
        tracing::error!(error = why, commands = batch.len(), "a batch could not be committed");
        batch.iter().map(|_| Some(Err(failure.clone()))).collect()
    }

    /// Somebody keeps a row locked that some of the commands want: the others must not suffer for it.
    async fn leave_out_locked(
        &self,
        batch: &[Request],
        error: &StoreError,
    ) -> Vec<Option<Result<Committed, Failure>>> {
        tracing::warn!(%error, commands = batch.len(), "leaving out what somebody else keeps locked");
        let locked = || Some(Err(Failure::Unavailable("somebody else keeps a row locked".into())));
        match self.attempt(batch, Waiting::Skip).await {
            Ok(answers) => answers.into_iter().map(|answer| answer.or_else(locked)).collect(),
            Err(_) => batch.iter().map(|_| locked()).collect(),
        }
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
            session = Session::connect(&self.target).await?;
            tried = commit::attempt(&mut session, batch, waiting, self.safeguards).await;
        }
        if let Err(Failed::Unknown(unknown)) = tried {
            let resolved = self.resolve(unknown).await;
            if matches!(resolved, Err(Failed::Unknown(_))) {
                self.set_aside(session);
            }
            return resolved;
        }
        if matches!(&tried, Ok(_) | Err(Failed::Panic(_)))
            || matches!(&tried, Err(Failed::Nothing(error)) if !error.is_disconnect())
        {
            self.give_back(session);
        }
        let Attempted { answers, heard: (now, at) } = tried?;
        self.clock.heard(now, at);
        Ok(answers)
    }

    /// Keeps a connection whose COMMIT is still under way, and its place among the connections, until it is over. With
    /// the standby away, each batch would otherwise leave one behind, until Postgres has none left for anybody.
    fn set_aside(&self, session: Session) {
        let permits = Arc::clone(&self.permits);
        tokio::spawn(async move {
            // The batch itself still has its permit, so this one gets the next that comes free.
            let place = async {
                let _permit = permits.acquire().await;
                std::future::pending().await
            };
            // Answered behind the COMMIT, or not at all.
            tokio::select! {
                _ = session.simple("") => {}
                () = place => {}
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
        match within(RESOLVE_TIMEOUT, self.ask(&unknown)).await {
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
        let session = loop {
            match Session::connect(&self.target).await {
                Ok(session) => break session,
                Err(_) => tokio::time::sleep(ASK_AGAIN).await,
            }
        };
        loop {
            let status: Option<String> =
                match session.query(sql::TRANSACTION_STATUS, [&unknown.transaction]).await {
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
                break;
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
        let mut found: FxHashMap<Uuid, u64> = FxHashMap::default();
        for LostRows { stream, after, ids } in &unknown.rows {
            for row in session.query(sql::FIND_FACTS, [stream, after, ids]).await? {
                found.insert(super::codec::uuid(&row, 0)?, super::codec::number(&row, 1)?);
            }
        }
        if found.is_empty() {
            return Ok(None);
        }
        // It is in, but it may not have reached the standby yet, and then it must not be acknowledged.
        session.query(sql::SETTLE, []).await?;
        let sequences = unknown.ids.iter().map(|id| found.get(id).copied());
        sequences.collect::<Option<Vec<u64>>>().map(Some).ok_or(StoreError::Corrupt("half a batch"))
    }

    pub async fn sweep_records(&self, limit: usize) -> Stored<usize> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let session = self.take().await?;
        let swept = async { Ok(session.client.execute(sql::SWEEP_RECORDS, &[&limit]).await?) };
        let swept = within(RESOLVE_TIMEOUT, swept).await?;
        self.give_back(session);
        Ok(swept as usize)
    }

    async fn take(&self) -> Stored<Session> {
        loop {
            let idle = self.free.lock().pop();
            match idle {
                Some(session) if session.client.is_closed() => {}
                Some(session) => return Ok(session),
                None => return Session::connect(&self.target).await,
            }
        }
    }

    fn give_back(&self, mut session: Session) {
        session.trim();
        if !session.client.is_closed() && !self.permits.is_closed() {
            self.free.lock().push(session);
        }
    }

    /// Takes no more batches and lets the connections go.
    pub fn close(&self) {
        self.permits.close();
        self.free.lock().clear();
    }
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
