//! The one thread that writes. A batch is one transaction: all of it is durable, or none of it happened.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;
use rowlock_core::decide::Executed;
use rowlock_core::{Fact, HoldId, OrgId, Refusal, Request, Slice, UserId, execute};
use rusqlite::{Connection, Statement};
use tokio::sync::{oneshot, watch};

use super::SqliteOptions;
use super::checkpoint::Wish;
use super::codec::{StoreError, Stored};
use super::load::Loader;
use super::open::OpenError;
use super::store::Store;
use crate::clock::Clock;
use crate::demand;
use crate::id_source::TimeOrderedIds;
use crate::{Committed, Failure};

type Results = Vec<Result<Committed, Failure>>;

enum Work {
    /// The batch comes back with its results: what was allocated by another thread is best freed there.
    Commit(Vec<Request>, oneshot::Sender<(Results, Vec<Request>)>),
    SweepRecords(usize, oneshot::Sender<Result<usize, Failure>>),
    HoldsOfUser(UserHolds, oneshot::Sender<Vec<HoldId>>),
    Ping,
    Close,
}

/// Whose active holds are wanted, from where on, and how many.
pub(super) struct UserHolds {
    pub org: OrgId,
    pub user: UserId,
    pub after: Option<HoldId>,
    pub limit: usize,
}

/// Times that a command alone is tried again after somebody else changed its rows under it.
const MAX_STALE_RETRIES: usize = 8;

/// The handle of the writing thread.
pub(super) struct Writer {
    work: mpsc::Sender<Work>,
    /// Whether a ping is in the queue, and how many have been answered. One is enough for all who ask: anybody may, and while
    /// the disk stands still they would fill the queue.
    has_ping: Arc<AtomicBool>,
    pinged: watch::Receiver<u64>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Writer {
    /// Waits until the thread is ready for work, or has found that it can't be.
    pub fn start(
        db: Connection,
        clock: Arc<Clock>,
        wish: Wish,
        options: &SqliteOptions,
    ) -> Result<Self, OpenError> {
        let (work, queue) = mpsc::channel();
        let (prepared, is_prepared) = mpsc::sync_channel(1);
        let (pings, pinged) = watch::channel(0);
        let has_ping = Arc::new(AtomicBool::new(false));
        let options = options.clone();
        let ping = {
            let has_ping = Arc::clone(&has_ping);
            move || {
                has_ping.store(false, Ordering::Relaxed);
                pings.send_modify(|answered| *answered += 1);
            }
        };
        let thread = thread::Builder::new()
            .name("rowlock-writer".into())
            .spawn(move || {
                let mut session = match Session::new(&db, &clock, &options) {
                    Ok(session) => session,
                    Err(error) => return drop(prepared.send(Err(OpenError::Contents(error.to_string())))),
                };
                let _ = prepared.send(Ok(()));
                let worked = catch_unwind(AssertUnwindSafe(|| run(&db, &mut session, &wish, &queue, &ping)));
                if worked.is_err() {
                    // Without it the process only looks alive.
                    super::give_up("the writer ended badly");
                }
            })
            .expect("a thread can be started");
        is_prepared.recv().expect("the thread says how it went")?;
        Ok(Self { work, has_ping, pinged, thread: Mutex::new(Some(thread)) })
    }

    pub async fn commit(&self, batch: Vec<Request>) -> Result<Results, Failure> {
        let (results, _batch) = self.ask(|answer| Work::Commit(batch, answer)).await?;
        Ok(results)
    }

    pub async fn sweep_records(&self, limit: usize) -> Result<usize, Failure> {
        self.ask(|answer| Work::SweepRecords(limit, answer)).await?
    }

    pub async fn holds_of_user(&self, wanted: UserHolds) -> Result<Vec<HoldId>, Failure> {
        self.ask(|answer| Work::HoldsOfUser(wanted, answer)).await
    }

    pub async fn ping(&self) -> Result<(), Failure> {
        let mut pinged = self.pinged.clone();
        pinged.mark_unchanged();
        if !self.has_ping.swap(true, Ordering::Relaxed) {
            self.work.send(Work::Ping).map_err(|_| gone())?;
        }
        pinged.changed().await.map_err(|_| gone())
    }

    async fn ask<T>(&self, work: impl FnOnce(oneshot::Sender<T>) -> Work) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel();
        self.work.send(work(answer)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }

    /// Lets the thread finish its queue and waits for it.
    pub async fn close(&self) {
        let _ = self.work.send(Work::Close);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the writer ended badly");
            }
        }
    }
}

impl Drop for Writer {
    /// A truth that is dropped without being closed keeps its folder locked until the last write is done.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.lock().take() {
            let _ = self.work.send(Work::Close);
            let _ = thread.join();
        }
    }
}

fn gone() -> Failure {
    Failure::Unavailable("the writer has stopped".into())
}

fn run(
    db: &Connection,
    session: &mut Session<'_>,
    wish: &Wish,
    queue: &mpsc::Receiver<Work>,
    ping: &dyn Fn(),
) {
    while let Ok(work) = queue.recv() {
        match work {
            Work::Commit(batch, answer) => {
                let results = session.commit_portions(&batch);
                let _ = answer.send((results, batch));
                session.follow();
            }
            Work::SweepRecords(limit, answer) => {
                let _ = answer.send(session.sweep_records(limit).map_err(Failure::from));
            }
            // Whoever asks again and again, and does not wait, must not keep the writer busy.
            Work::HoldsOfUser(_, answer) if answer.is_closed() => {}
            Work::HoldsOfUser(UserHolds { org, user, after, limit }, answer) => {
                let _ = answer.send(session.loader.memory.carts.holds_of_user(org, &user, after, limit));
            }
            Work::Ping => ping(),
            Work::Close => return,
        }
        wish.grant(db);
    }
}

/// What the thread works with: prepared statements and exact memories of small rows.
struct Session<'c> {
    db: &'c Connection,
    clock: &'c Clock,
    loader: Loader<'c>,
    store: Store<'c>,
    ids: TimeOrderedIds,
    /// A number that is another one when another connection has written, and what it was when memory was read. `None`: memory
    /// is not to be trusted.
    data_version: Statement<'c>,
    remembered_at: Option<i64>,
    /// What was committed last and is not remembered yet. Whoever waits for it is answered first.
    committed: Option<Slice>,
    /// An empty slice with room for the next batch.
    empty: Slice,
    compare: bool,
    load_before_lock: bool,
}

impl<'c> Session<'c> {
    fn new(db: &'c Connection, clock: &'c Clock, options: &SqliteOptions) -> Stored<Self> {
        #[cfg(feature = "conformance")]
        let (compare, load_before_lock) =
            (!options.sabotage.no_compare_and_set, options.sabotage.load_before_lock);
        #[cfg(not(feature = "conformance"))]
        let (compare, load_before_lock) = (true, false);
        let _ = options;
        db.set_prepared_statement_cache_capacity(64);
        let mut data_version = db.prepare("PRAGMA data_version")?;
        // Before memory is read: who writes in between is noticed.
        let remembered_at = Some(data_version.query_row([], |row| row.get(0))?);
        Ok(Self {
            db,
            clock,
            loader: Loader::new(db)?,
            store: Store::new(db, compare)?,
            ids: TimeOrderedIds::default(),
            data_version,
            remembered_at,
            committed: None,
            empty: Slice::default(),
            compare,
            load_before_lock,
        })
    }

    /// Commits a batch, in portions when its commands want too many seats to choose for one transaction.
    fn commit_portions(&mut self, batch: &[Request]) -> Results {
        demand::portions(batch).flat_map(|portion| self.commit(portion)).collect()
    }

    /// Commits a batch whole. If that fails for one command's sake, each is tried alone, so that only it suffers.
    fn commit(&mut self, batch: &[Request]) -> Results {
        let error = match self.attempt(batch) {
            Ok(results) => return results,
            Err(error) => error,
        };
        if batch.len() == 1 {
            return self.commit_again(batch, error);
        }
        if error.is_outage() {
            return refuse_all(batch, &error);
        }
        tracing::warn!(error = %error.what(), commands = batch.len(), "committing a batch one by one");
        batch.iter().flat_map(|request| self.commit(std::slice::from_ref(request))).collect()
    }

    /// Tries a command again for as long as all that is wrong is that its rows were old. Reading them again mends that,
    /// unless somebody keeps changing them, and then it must end all the same.
    fn commit_again(&mut self, alone: &[Request], mut error: AttemptError) -> Results {
        for _ in 0..MAX_STALE_RETRIES {
            if !error.is_stale() {
                break;
            }
            match self.attempt(alone) {
                Ok(results) => return results,
                Err(next) => error = next,
            }
        }
        refuse_all(alone, &error)
    }

    fn attempt(&mut self, batch: &[Request]) -> Result<Results, AttemptError> {
        // A panic in the kernel is an assertion about this batch: it must not take the thread with it.
        let attempt = catch_unwind(AssertUnwindSafe(|| self.transaction(batch)));
        let error = match attempt {
            Ok(Ok(results)) => return Ok(results),
            Ok(Err(error)) => AttemptError::Store(error),
            Err(panic) => AttemptError::Panic(crate::panic_text(&*panic)),
        };
        if !self.db.is_autocommit()
            && let Err(error) = self.db.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
        self.loader.events.clear();
        self.store.forget();
        // Rows may not be as they are remembered, a COMMIT that reports an error may have happened all the same, and a panic may
        // have left memory half changed.
        if error.is_stale() || error.is_outage() || matches!(error, AttemptError::Panic(_)) {
            self.remembered_at = None;
        }
        Err(error)
    }

    /// Takes what was committed into memory. Must be done before the next batch is looked at.
    fn follow(&mut self) {
        let Some(slice) = self.committed.take() else { return };
        let followed = catch_unwind(AssertUnwindSafe(|| {
            self.loader.follow(&slice);
            self.store.trim();
        }));
        if let Err(panic) = followed {
            tracing::error!(panic = crate::panic_text(&*panic), "what was committed could not be remembered");
            self.remembered_at = None;
        }
        self.empty = slice.emptied();
    }

    fn transaction(&mut self, batch: &[Request]) -> Stored<Results> {
        self.follow();
        let stale = if self.load_before_lock { Some(self.stale_slice(batch)?) } else { None };
        self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        if self.look_around()? && stale.is_some() {
            return Err(StoreError::Stale("file"));
        }
        let now = self.clock.now();
        let mut slice = match stale {
            Some(slice) => slice,
            None => self.loader.fill(std::mem::take(&mut self.empty), batch, now)?,
        };
        let executed: Vec<Result<Executed, Refusal>> =
            batch.iter().map(|request| execute(&mut slice, request, now, &mut self.ids)).collect();
        let facts: Vec<(&Request, &Fact)> = batch
            .iter()
            .zip(&executed)
            .filter_map(|(request, executed)| Some((request, executed.as_ref().ok()?)))
            .flat_map(|(request, executed)| executed.facts.iter().map(move |fact| (request, fact)))
            .collect();
        let sequences = if facts.is_empty() && slice.fresh_records().next().is_none() {
            Vec::new()
        } else {
            self.store.write(&slice, &mut self.loader.events, &self.loader.memory.seats, now)?;
            self.store.append(&facts, now, &mut self.ids)?
        };
        self.db.prepare_cached("COMMIT")?.execute([])?;
        self.committed = Some(slice);
        Ok(answers(executed, sequences))
    }

    /// Whether another connection has written to the file since memory was read; then it is read again. The folder is locked, so
    /// this is for whoever gets around that, and costs a batch next to nothing.
    fn look_around(&mut self) -> Stored<bool> {
        let version = Some(self.data_version.query_row([], |row| row.get(0))?);
        if version == self.remembered_at || (self.remembered_at.is_some() && !self.compare) {
            return Ok(false);
        }
        if self.remembered_at.is_some() {
            tracing::warn!("somebody else has written to the data: reading the active holds again");
        }
        self.store.forget();
        self.loader.remember()?;
        self.remembered_at = version;
        Ok(true)
    }

    /// For the test that shows what the lock and the version are good for: what is read here is old when it is used.
    fn stale_slice(&mut self, batch: &[Request]) -> Stored<Slice> {
        self.store.forget();
        self.look_around()?;
        let slice = self.loader.fill(Slice::default(), batch, self.clock.now())?;
        thread::sleep(std::time::Duration::from_millis(2));
        Ok(slice)
    }

    fn sweep_records(&self, limit: usize) -> Stored<usize> {
        let mut statement = self.db.prepare_cached(
            "DELETE FROM idempotency_records WHERE (org_id, actor, key) IN
                 (SELECT org_id, actor, key FROM idempotency_records WHERE expires_at <= ?1 LIMIT ?2)",
        )?;
        Ok(statement.execute((self.clock.now().millis(), limit))?)
    }
}

fn refuse_all(batch: &[Request], error: &AttemptError) -> Results {
    tracing::error!(error = %error.what(), commands = batch.len(), "a batch could not be committed");
    batch.iter().map(|_| Err(error.failure())).collect()
}

/// Pairs each command's facts with the sequences they got.
fn answers(executed: Vec<Result<Executed, Refusal>>, sequences: Vec<u64>) -> Results {
    let mut sequences = sequences.into_iter();
    executed
        .into_iter()
        .map(|executed| {
            let Executed { facts, outcome, replayed } = executed?;
            let facts = facts
                .into_iter()
                .map(|fact| (sequences.next().expect("every fact has a sequence"), fact))
                .collect();
            Ok(Committed { outcome, replayed, facts })
        })
        .collect()
}

enum AttemptError {
    Store(StoreError),
    Panic(String),
}

impl AttemptError {
    fn is_outage(&self) -> bool {
        matches!(self, AttemptError::Store(error) if error.is_outage())
    }

    fn is_stale(&self) -> bool {
        matches!(self, AttemptError::Store(StoreError::Stale(_)))
    }

    fn what(&self) -> String {
        match self {
            AttemptError::Store(error) => error.to_string(),
            AttemptError::Panic(text) => text.clone(),
        }
    }

    fn failure(&self) -> Failure {
        if self.is_outage() { Failure::Unavailable(self.what()) } else { Failure::Broken(self.what()) }
    }
}
