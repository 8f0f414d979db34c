//! A batch is one transaction: all of it is durable, or none of it happened.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rowlock_core::decide::Executed;
use rowlock_core::{Fact, Refusal, Request, execute};
use uuid::Uuid;

use super::clock::Reading;
use super::fault::{StoreError, Stored};
use super::load::{self, Attempt, Loaded, Waiting, blocks};
use super::session::{Backend, Session, Wire};
use super::skipped;
use super::store::{self, Appending};
use crate::{Committed, Failure};

pub(super) type Results = Vec<Result<Committed, Failure>>;

/// Times that a batch begins again because rows had changed or more of them were needed.
const MAX_ATTEMPTS: usize = 8;
/// Waiting for locks is bounded by Postgres; this is for a Postgres that does not answer.
pub(super) const LOAD_TIMEOUT: Duration = Duration::from_secs(4);
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// A batch may say yes to what an earlier one wrote: a repeated key, a second confirm. If that one has not reached the
/// standby, this must not be acknowledged either. A commit with something of its own to write waits for all before it.
const SETTLE_AND_COMMIT: &str =
    "SELECT pg_logical_emit_message(true, 'rowlock', 'settled'); SET LOCAL statement_timeout = 0; COMMIT";

/// What came of one attempt.
pub(super) struct Attempted {
    /// An answer for each command; `None` for those that met a seat, or missed one, that somebody had locked.
    pub answers: Vec<Option<Result<Committed, Failure>>>,
    /// What the clock of Postgres said.
    pub heard: Reading,
}

/// Why an attempt failed, and what is known of it.
pub(super) enum Failed {
    /// Nothing of the batch is stored.
    Nothing(StoreError),
    /// The connection was lost while committing.
    Unknown(Box<Unknown>),
    /// It changed nothing, and what it says yes to has not reached the standby in time. The connection still waits for that.
    Unsettled(StoreError),
    /// A rule of the kernel was broken, which is an assertion about this batch.
    Panic(String),
}

/// A batch that may have been committed.
pub(super) struct Unknown {
    pub transaction: Transaction,
    pub rows: Vec<LostRows>,
    /// In the order of the facts.
    pub ids: Vec<Uuid>,
    pub executed: Vec<Option<Result<Executed, Refusal>>>,
    pub why: StoreError,
}

/// What a transaction is known by to those who ask what became of it.
pub(super) enum Transaction {
    Number(String),
    /// Its number had not come back when the connection was lost. It may not even have arrived.
    Backend(Backend),
}

/// The journal rows of such a batch in one stream.
pub(super) struct LostRows {
    pub stream: Uuid,
    /// They have higher sequences than this, so nobody need read a long stream from its beginning.
    pub after: i64,
    pub ids: Vec<Uuid>,
}

impl Failed {
    pub fn is_lock_timeout(&self) -> bool {
        matches!(self, Failed::Nothing(error) if error.is_lock_timeout())
    }

    /// Whether some of the commands may be to blame, so that the others would get through without them.
    pub fn is_about_some(&self) -> bool {
        match self {
            Failed::Nothing(error) => error.is_lock_timeout() || !error.is_outage(),
            Failed::Panic(_) => true,
            Failed::Unknown(_) | Failed::Unsettled(_) => false,
        }
    }

    /// What the commands are answered with.
    pub fn failure(&self) -> Failure {
        match self {
            Failed::Nothing(error) | Failed::Unsettled(error) => error.failure(),
            Failed::Panic(why) => Failure::Broken(why.clone()),
            Failed::Unknown(unknown) => StoreError::Unknown(unknown.why.to_string()).failure(),
        }
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Failed::Nothing(error)
    }
}

/// What a test can switch off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Safeguards {
    pub lock: bool,
    pub compare: bool,
    pub pause: Duration,
}

pub(super) async fn attempt(
    session: &mut Session,
    batch: &[Request],
    waiting: Waiting,
    safeguards: Safeguards,
) -> Result<Attempted, Failed> {
    let loaded = within(LOAD_TIMEOUT, load_all(session, batch, waiting)).await;
    let mut loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return Err(leave(session, error.into()).await),
    };
    if !safeguards.lock {
        // For the test that shows what locks are good for: what was read is old when it is used.
        session.simple("ROLLBACK; BEGIN").await?;
    }
    if !safeguards.pause.is_zero() {
        tokio::time::sleep(safeguards.pause).await;
    }
    let decided = catch_unwind(AssertUnwindSafe(|| decide(session, &mut loaded, batch)));
    let mut executed = match decided {
        Ok(executed) => executed,
        Err(panic) => return Err(leave(session, Failed::Panic(crate::panic_text(&*panic))).await),
    };
    let doubted = blocks::doubt(session, &loaded.slice, batch, &mut executed);
    if let Err(error) = within(LOAD_TIMEOUT, doubted).await {
        return Err(leave(session, error.into()).await);
    }
    let facts = facts(batch, &executed);
    let (now, heard) = (loaded.now, loaded.heard);
    if facts.is_empty() && loaded.slice.fresh_records().next().is_none() {
        let says_yes = executed.iter().flatten().any(Result::is_ok);
        let settles = says_yes && loaded.replicated;
        let end = if settles { SETTLE_AND_COMMIT } else { "ROLLBACK" };
        let ended = within(WRITE_TIMEOUT, session.simple(end)).await;
        return match ended.and_then(|()| session.is_of_now()) {
            Ok(()) => Ok(Attempted { answers: answers(executed, Vec::new()), heard }),
            Err(error @ StoreError::TimedOut(_)) if settles => Err(Failed::Unsettled(error)),
            Err(error) => Err(error.into()),
        };
    }
    let appending = match Appending::new(&facts, now, &mut session.ids) {
        Ok(appending) => appending,
        Err(error) => return Err(leave(session, error.into()).await),
    };
    let written = within(WRITE_TIMEOUT, store::write(session, &loaded, &appending, safeguards.compare)).await;
    match written.and_then(|sequences| session.is_of_now().map(|()| sequences)) {
        Ok(sequences) => {
            appending.note(session, &sequences);
            Ok(Attempted { answers: answers(executed, sequences), heard })
        }
        Err(why) if why.is_disconnect() => {
            let transaction = Transaction::Number(loaded.transaction.clone());
            Err(unknown(session, transaction, &appending, executed, why))
        }
        Err(error) => Err(leave(session, error.into()).await),
    }
}

pub(super) fn facts<'a>(
    batch: &'a [Request],
    executed: &'a [Option<Result<Executed, Refusal>>],
) -> Vec<(&'a Request, &'a Fact)> {
    batch
        .iter()
        .zip(executed)
        .filter_map(|(request, executed)| Some((request, executed.as_ref()?.as_ref().ok()?)))
        .flat_map(|(request, executed)| executed.facts.iter().map(move |fact| (request, fact)))
        .collect()
}

/// A batch whose connection was lost while it was being committed.
pub(super) fn unknown(
    wire: &Wire,
    transaction: Transaction,
    appending: &Appending,
    executed: Vec<Option<Result<Executed, Refusal>>>,
    why: StoreError,
) -> Failed {
    let after = |stream| i64::try_from(wire.written_before(stream)).unwrap_or(0);
    let rows = appending.by_stream().map(|(stream, ids)| LostRows { stream, after: after(stream), ids });
    Failed::Unknown(Box::new(Unknown {
        transaction,
        rows: rows.collect(),
        ids: appending.ids.clone(),
        executed,
        why,
    }))
}

/// Ends the transaction, if it is still there. What failed matters more than how this goes.
pub(super) async fn leave(session: &Session, failed: Failed) -> Failed {
    // A connection that does not answer is thrown away, and the transaction with it.
    let is_lost = matches!(&failed, Failed::Nothing(error) if error.is_disconnect());
    if !is_lost {
        let _ = within(LOAD_TIMEOUT, session.simple("ROLLBACK")).await;
    }
    failed
}

async fn load_all(session: &mut Session, batch: &[Request], waiting: Waiting) -> Stored<Box<Loaded>> {
    let mut plan = load::plan(session, batch, waiting).await?;
    for _ in 0..MAX_ATTEMPTS {
        match load::load(session, batch, &mut plan, waiting).await? {
            Attempt::Loaded(loaded) => return Ok(loaded),
            Attempt::Again => session.simple("ROLLBACK").await?,
        }
    }
    Err(StoreError::Stale("hold"))
}

fn decide(
    session: &mut Session,
    loaded: &mut Loaded,
    batch: &[Request],
) -> Vec<Option<Result<Executed, Refusal>>> {
    batch
        .iter()
        .map(|request| {
            // What is recorded is answered from the record, whoever has the seats locked.
            if !loaded.slice.has_record(request) && skipped::meets(loaded, request) {
                return None;
            }
            Some(execute(&mut loaded.slice, request, loaded.now, &mut session.ids))
        })
        .collect()
}

/// Pairs each command's facts with the sequences they got.
pub(super) fn answers(
    executed: Vec<Option<Result<Executed, Refusal>>>,
    sequences: Vec<u64>,
) -> Vec<Option<Result<Committed, Failure>>> {
    let mut sequences = sequences.into_iter();
    let mut answer = |executed: Result<Executed, Refusal>| {
        let Executed { facts, outcome, replayed } = executed?;
        let facts = facts
            .into_iter()
            .map(|fact| (sequences.next().expect("every fact has a sequence"), fact))
            .collect();
        Ok(Committed { outcome, replayed, facts })
    };
    executed.into_iter().map(|executed| executed.map(&mut answer)).collect()
}

pub(super) async fn within<T>(limit: Duration, work: impl Future<Output = Stored<T>>) -> Stored<T> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::TimedOut(limit.as_millis())),
    }
}
