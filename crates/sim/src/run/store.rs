//! The simulated store: rows in memory, transactions that take time, row locks, a journal.
//!
//! Everything here is the server's side. What a node knows of it goes through the network: see [`handle`].

mod belief;
mod commit;
mod handle;
mod load;
mod locks;
mod read;
pub mod tables;
mod verify;
pub use verify::verify;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rowlock_core::seat::SeatState;
use rowlock_core::slice::Slice;
use rowlock_core::{BlockId, Command, Request, SeatId, Stream, Time};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::broken::Broken;
use super::clock::Clock;
use super::dice::Dice;
use super::faults::Fault;
use super::history::History;
use super::net::Life;
use load::Waiting;
use locks::{Locks, RowKey, Transaction};
use tables::{Tables, Writes};

pub use handle::SimTruth;

/// How long a statement waits for locks.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a transaction may do nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Times that a batch begins again because more rows were needed.
const MAX_ATTEMPTS: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// Somebody was quicker: reading again mends it.
    Stale,
    LockTimeout,
    /// The session is over.
    Gone,
    /// The storage itself fails for one of the commands.
    Poisoned,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    InProgress,
    Committed(Vec<u64>),
    Aborted,
}

struct Session {
    life: Arc<Life>,
    status: Status,
    /// Its COMMIT has come in: losing the connection does not end it any more.
    committing: bool,
}

/// What a batch is decided on.
pub struct Loaded {
    pub slice: Slice,
    pub now: Time,
    /// Requests that met a seat which somebody has locked.
    pub skipped: Vec<bool>,
    /// Blocks with free seats that somebody else has locked.
    pub open: BTreeSet<BlockId>,
}

pub struct Store {
    pub clock: Clock,
    broken: Option<Broken>,
    armed: AtomicBool,
    dice: Dice,
    history: History,
    pub tables: Mutex<Tables>,
    locks: Locks,
    sessions: Mutex<BTreeMap<Transaction, Session>>,
    listeners: Mutex<Vec<mpsc::Sender<Vec<Stream>>>>,
    /// It restarts in the middle of the next commit.
    fuse: AtomicBool,
}

impl Store {
    pub fn new(dice: Dice, clock: Clock, history: History, broken: Option<Broken>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            broken,
            armed: AtomicBool::new(false),
            dice,
            history,
            tables: Mutex::default(),
            locks: Locks::default(),
            sessions: Mutex::default(),
            listeners: Mutex::default(),
            fuse: AtomicBool::new(false),
        })
    }

    /// From now on what is broken is broken.
    pub fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
    }

    fn broken(&self) -> Option<Broken> {
        self.broken.filter(|_| self.armed.load(Ordering::Relaxed))
    }

    fn begin(&self, life: &Arc<Life>) -> Transaction {
        let mut sessions = self.sessions.lock();
        let number = sessions.last_key_value().map_or(1, |(last, _)| last + 1);
        let session = Session { life: Arc::clone(life), status: Status::InProgress, committing: false };
        sessions.insert(number, session);
        number
    }

    fn status(&self, transaction: Transaction) -> Status {
        self.sessions.lock().get(&transaction).map_or(Status::Aborted, |session| session.status.clone())
    }

    fn is_open(&self, transaction: Transaction) -> bool {
        self.status(transaction) == Status::InProgress
    }

    fn end(&self, transaction: Transaction, status: Status) {
        if let Some(session) = self.sessions.lock().get_mut(&transaction) {
            session.status = status;
        }
        self.locks.release(transaction);
    }

    /// The store notices that the other end of a connection is gone.
    fn hang_up(&self, transaction: Transaction) {
        let ends = {
            let sessions = self.sessions.lock();
            sessions.get(&transaction).is_some_and(|s| s.status == Status::InProgress && !s.committing)
        };
        if ends {
            self.end(transaction, Status::Aborted);
        }
    }

    /// Connections of a node that died are closed by its machine.
    pub fn node_died(&self, life: &Arc<Life>) {
        let open: Vec<Transaction> = {
            let sessions = self.sessions.lock();
            sessions.iter().filter(|(_, s)| Arc::ptr_eq(&s.life, life)).map(|(number, _)| *number).collect()
        };
        open.into_iter().for_each(|transaction| self.hang_up(transaction));
    }

    /// Ends all transactions. What is committed stays.
    pub fn restart(&self) {
        let open: Vec<Transaction> = {
            let sessions = self.sessions.lock();
            let open = sessions.iter().filter(|(_, session)| session.status == Status::InProgress);
            open.map(|(number, _)| *number).collect()
        };
        open.into_iter().for_each(|transaction| self.end(transaction, Status::Aborted));
        self.listeners.lock().clear();
    }

    pub fn restart_at_commit(&self, restart: bool) {
        self.fuse.store(restart, Ordering::Relaxed);
    }

    async fn work(&self) {
        sleep(Duration::from_millis(self.dice.between(0..=2))).await;
    }

    fn closes_when_idle(self: &Arc<Self>, transaction: Transaction) {
        let store = Arc::clone(self);
        tokio::spawn(async move {
            sleep(IDLE_TIMEOUT).await;
            store.hang_up(transaction);
        });
    }

    /// Locks what a batch needs and reads it.
    async fn load(
        self: Arc<Self>,
        transaction: Transaction,
        batch: Arc<[Request]>,
        waiting: Waiting,
    ) -> Result<Loaded, StoreError> {
        self.work().await;
        self.closes_when_idle(transaction);
        if self.broken() == Some(Broken::NoLocksNoCompare) {
            let loaded = self.read(transaction, &batch, BTreeSet::new(), waiting).ok_or(StoreError::Stale);
            self.work().await;
            return loaded;
        }
        let mut wanted = self.wanted(&batch, waiting);
        for _ in 0..MAX_ATTEMPTS {
            let Some(skipped) = self.lock_all(transaction, &wanted, waiting).await else {
                self.end(transaction, Status::Aborted);
                return Err(StoreError::LockTimeout);
            };
            if !self.is_open(transaction) {
                self.locks.release(transaction);
                return Err(StoreError::Gone);
            }
            if let Some(loaded) = self.read(transaction, &batch, skipped, waiting) {
                return Ok(loaded);
            }
            // Rows that turn out to be needed can't be locked behind the others: begin again with more.
            self.locks.release(transaction);
            wanted.extend(self.wanted(&batch, waiting));
        }
        self.end(transaction, Status::Aborted);
        Err(StoreError::Stale)
    }

    fn wanted(&self, batch: &[Request], waiting: Waiting) -> BTreeSet<RowKey> {
        let (tables, now) = (self.tables.lock(), self.clock.now());
        batch.iter().flat_map(|request| load::needed(&tables, request, now, waiting, self.broken())).collect()
    }

    /// Returns the seats that were left out, or nothing when it took too long.
    async fn lock_all(
        &self,
        transaction: Transaction,
        wanted: &BTreeSet<RowKey>,
        waiting: Waiting,
    ) -> Option<BTreeSet<SeatId>> {
        let mut skipped = BTreeSet::new();
        for row in wanted {
            match row {
                RowKey::Seat(seat) if waiting == Waiting::Skip => {
                    if !self.locks.try_lock(transaction, row) {
                        skipped.insert(*seat);
                    }
                }
                _ => timeout(LOCK_TIMEOUT, self.locks.lock(transaction, row)).await.ok()?,
            }
        }
        self.work().await;
        Some(skipped)
    }

    /// Reads what was locked. `None`: more is needed than that.
    fn read(
        &self,
        transaction: Transaction,
        batch: &[Request],
        skipped: BTreeSet<SeatId>,
        waiting: Waiting,
    ) -> Option<Loaded> {
        let (tables, now) = (self.tables.lock(), self.clock.now());
        let unlocked = self.broken() == Some(Broken::NoLocksNoCompare);
        let mut rows = BTreeSet::new();
        let mut meets = Vec::with_capacity(batch.len());
        for request in batch {
            let needed = load::needed(&tables, request, now, waiting, self.broken());
            meets.push(needed.iter().any(|row| matches!(row, RowKey::Seat(seat) if skipped.contains(seat))));
            for row in needed {
                let left_out = matches!(&row, RowKey::Seat(seat) if skipped.contains(seat));
                if left_out {
                    continue;
                }
                if !unlocked && !self.is_locked(transaction, &row) {
                    return None;
                }
                rows.insert(row);
            }
        }
        let open = self.choose(&tables, transaction, batch, &mut rows, now, unlocked);
        let slice = load::slice(&tables, batch, &rows, now, self.broken());
        let has_record = |request: &Request| slice.has_record(request);
        let skipped = batch.iter().zip(meets).map(|(request, meets)| meets && !has_record(request)).collect();
        Some(Loaded { slice, now, skipped, open })
    }

    fn is_locked(&self, transaction: Transaction, row: &RowKey) -> bool {
        self.locks.is_owner(transaction, row)
    }

    /// Locks free seats of blocks that nobody else has. Returns the blocks that have others.
    fn choose(
        &self,
        tables: &Tables,
        transaction: Transaction,
        batch: &[Request],
        rows: &mut BTreeSet<RowKey>,
        now: Time,
        unlocked: bool,
    ) -> BTreeSet<BlockId> {
        let mut open = BTreeSet::new();
        for places in batch.iter().filter_map(|request| request.command.places()) {
            for (block, _) in &places.blocks {
                for (seat, row) in load::free_seats(tables, places.event, *block, now) {
                    let key = RowKey::Seat(seat);
                    let is_free = row.state == SeatState::Available;
                    if rows.contains(&key) {
                        continue;
                    }
                    if is_free && (unlocked || self.locks.try_lock(transaction, &key)) {
                        rows.insert(key);
                    } else {
                        open.insert(*block);
                    }
                }
            }
        }
        open
    }

    /// Writes and commits. What is said here is durable.
    async fn write(
        self: Arc<Self>,
        transaction: Transaction,
        writes: Writes,
    ) -> Result<Vec<u64>, StoreError> {
        self.takes_commit(transaction)?;
        let compare = self.broken() != Some(Broken::NoLocksNoCompare);
        self.finish(transaction, writes, compare).await
    }

    /// The COMMIT is here: whether anybody still waits for it does not matter any more.
    fn takes_commit(&self, transaction: Transaction) -> Result<(), StoreError> {
        match self.sessions.lock().get_mut(&transaction) {
            Some(session) if session.status == Status::InProgress => session.committing = true,
            _ => return Err(StoreError::Gone),
        }
        Ok(())
    }

    async fn finish(
        &self,
        transaction: Transaction,
        writes: Writes,
        compare: bool,
    ) -> Result<Vec<u64>, StoreError> {
        self.work().await;
        if self.fuse.swap(false, Ordering::Relaxed) {
            self.restart();
            self.history.count(&Fault::StoreRestartAtCommit.name());
        }
        self.work().await;
        if !self.is_open(transaction) {
            if self.broken() == Some(Broken::TornCommit) {
                self.tables.lock().write_rows(&writes);
            }
            return Err(StoreError::Gone);
        }
        let committed = self.tables.lock().commit(writes, compare);
        match &committed {
            Ok(sequences) => {
                self.history.note(format_args!("store: {transaction} committed {sequences:?}"));
                self.end(transaction, Status::Committed(sequences.clone()));
            }
            Err(error) => {
                self.history.note(format_args!("store: {transaction} failed: {error:?}"));
                self.end(transaction, Status::Aborted);
            }
        }
        committed
    }

    /// Locks that somebody still has. None, when nobody is at work.
    pub fn locked_rows(&self) -> usize {
        self.locks.count()
    }
}

/// What the broken store client does to a request before it is decided.
fn bend(broken: Option<Broken>, slice: &Slice, request: &Request) -> Request {
    let mut bent = request.clone();
    match (broken, &mut bent.command) {
        (Some(Broken::ReleaseWithoutOwner), Command::Release { hold, user, .. }) => {
            if let Some(hold) = slice.hold(*hold) {
                *user = hold.user.clone();
            }
        }
        (Some(Broken::NoTenants), command) => {
            let of_hold = command.hold().and_then(|hold| slice.hold(hold)).map(|hold| hold.org);
            let of_event = command.event().and_then(|event| slice.event_row(event)).map(|row| row.event.org);
            if let Some(org) = of_hold.or(of_event) {
                bent.org = org;
            }
        }
        _ => {}
    }
    bent
}
