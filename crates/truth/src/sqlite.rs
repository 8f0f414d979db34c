//! The embedded truth: one SQLite file in a data folder.
//!
//! One thread writes ([`writer`]), a few read ([`reader`]), one moves the log into the file ([`checkpoint`]). In WAL
//! mode none of them waits for another, and every commit is synced before anybody hears of it.

mod append;
mod carts;
mod checkpoint;
mod codec;
mod load;
mod memory;
mod open;
mod queries;
mod reader;
mod seats;
mod store;
mod verify;
mod writer;

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rowlock_core::booking::Booking;
use rowlock_core::hold::Hold;
use rowlock_core::org::{ApiKey, Org};
use rowlock_core::seat::SeatState;
use rowlock_core::{BookingId, EventId, HoldId, KeyId, OrgId, Request, SeatId, Stream, Time, UserId};

use self::checkpoint::Checkpointer;
use self::open::Folder;
pub use self::open::OpenError;
use self::reader::Readers;
use self::verify::RowsOf;
use self::writer::{UserHolds, Writer};
use crate::clock::Clock;
use crate::read::{ActiveHold, EventPage, EventShape, EventSnapshot, JournalRow};
use crate::verify::{Progress, Report};
use crate::{Answer, Committed, Failure, ReadResult, Truth};

#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Threads that read.
    pub readers: usize,
    /// Page cache of the writer.
    pub cache_mebibytes: u32,
    /// Whether the log is copied into the file while the store is open. Without it the log only grows, which is good for
    /// nothing but to measure what copying costs.
    pub checkpoints: bool,
    /// Length that the log is made with. Commits that make it longer take longer.
    pub log_bytes: usize,
    #[cfg(feature = "conformance")]
    pub sabotage: Sabotage,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            readers: 2,
            cache_mebibytes: 16,
            checkpoints: true,
            log_bytes: checkpoint::USUAL_LOG_BYTES,
            #[cfg(feature = "conformance")]
            sabotage: Sabotage::default(),
        }
    }
}

/// Safeguards that a test can switch off, to show that the suite notices.
#[cfg(feature = "conformance")]
#[derive(Clone, Debug, Default)]
pub struct Sabotage {
    /// Several truths may open one folder.
    pub share_folder: bool,
    /// Rows are loaded before the write lock is taken, so they can be stale when they are written.
    pub load_before_lock: bool,
    /// Rows are written whatever version they have.
    pub no_compare_and_set: bool,
}

pub struct SqliteTruth {
    clock: Arc<Clock>,
    /// `None` when opened for reading only.
    writer: Option<Writer>,
    readers: Readers,
    /// Behind those with connections: it is dropped after them.
    checkpointer: Option<Checkpointer>,
    /// Locked until the truth is closed: one process a folder.
    folder: Mutex<Option<Folder>>,
    /// Whoever puts an older copy of the folder in its place has to stop the process, so another process is another history.
    history: u64,
}

impl SqliteTruth {
    /// Opens the folder, creating and migrating what is missing. Blocks while it does.
    pub fn open(dir: &Path, options: SqliteOptions) -> Result<Self, OpenError> {
        let folder = Folder::lock(dir, &options)?;
        folder.prepare(&options)?;
        let connection = folder.connect_writer(&options)?;
        let clock = Arc::new(Clock::default());
        let readers = Readers::start(&folder, options.readers)?;
        let checkpointer = options.checkpoints.then(|| Checkpointer::start(&folder)).transpose()?;
        let wish = checkpointer.as_ref().map(Checkpointer::wish).unwrap_or_default();
        let writer = Writer::start(connection, Arc::clone(&clock), wish, &options)?;
        Ok(Self {
            clock,
            writer: Some(writer),
            readers,
            checkpointer,
            folder: Mutex::new(Some(folder)),
            history: rand::random(),
        })
    }

    /// Opens the folder for reading, also while a server has it.
    pub fn open_read_only(dir: &Path) -> Result<Self, OpenError> {
        let folder = Folder::existing(dir)?;
        let readers = Readers::start(&folder, 1)?;
        Ok(Self {
            clock: Arc::default(),
            writer: None,
            readers,
            checkpointer: None,
            folder: Mutex::default(),
            history: rand::random(),
        })
    }

    fn writer(&self) -> Result<&Writer, Failure> {
        self.writer.as_ref().ok_or_else(|| Failure::Unavailable("opened for reading only".into()))
    }
}

/// Ends the process where going on would be wrong and stopping in good order is not possible. Nothing that was acknowledged is lost by it.
fn give_up(why: &str) -> ! {
    tracing::error!("{why}: ending this process, so that a new one begins with what is on disk");
    std::process::abort()
}

/// A copy of some store's rows in the tables of this one, so that there is one set of checks for all stores.
pub(crate) struct Copy {
    db: rusqlite::Connection,
}

impl Copy {
    pub fn new(file: &Path) -> Result<Self, OpenError> {
        Ok(Self { db: open::scratch(file)? })
    }

    /// Adds rows to a table, all of its columns in the order of the schema.
    pub fn add(
        &mut self,
        table: &str,
        columns: &str,
        rows: &[Vec<rusqlite::types::Value>],
    ) -> ReadResult<()> {
        let failed = |error: rusqlite::Error| Failure::Broken(format!("the copy of {table}: {error}"));
        let width = rows.first().map_or(0, Vec::len);
        let marks = vec!["?"; width].join(", ");
        let transaction = self.db.transaction().map_err(failed)?;
        let sql = format!("INSERT INTO {table} ({columns}) VALUES ({marks})");
        let mut statement = transaction.prepare(&sql).map_err(failed)?;
        for row in rows {
            statement.execute(rusqlite::params_from_iter(row)).map_err(failed)?;
        }
        drop(statement);
        transaction.commit().map_err(failed)
    }

    pub fn verify(&self, progress: &Progress) -> ReadResult<Report> {
        Ok(verify::verify(&self.db, RowsOf::Postgres, &**progress)?)
    }
}

impl Truth for SqliteTruth {
    fn commit(&self, batch: Vec<Request>) -> Answer<'_, Vec<Result<Committed, Failure>>> {
        Box::pin(async move {
            let size = batch.len();
            let committed = match self.writer() {
                Ok(writer) => writer.commit(batch).await,
                Err(failure) => Err(failure),
            };
            committed.unwrap_or_else(|failure| (0..size).map(|_| Err(failure.clone())).collect())
        })
    }

    fn seat_states(
        &self,
        event: EventId,
        seats: Vec<SeatId>,
    ) -> Answer<'_, ReadResult<Vec<Option<SeatState>>>> {
        self.readers.read(move |db| queries::seat_states(db, event, &seats))
    }

    fn shape(&self, event: EventId) -> Answer<'_, ReadResult<Option<EventShape>>> {
        self.readers.read(move |db| queries::shape(db, event))
    }

    fn org(&self, id: OrgId) -> Answer<'_, ReadResult<Option<Org>>> {
        self.readers.read(move |db| queries::org(db, id))
    }

    fn orgs(&self, after: Option<OrgId>, limit: usize) -> Answer<'_, ReadResult<Vec<Org>>> {
        self.readers.read(move |db| queries::orgs(db, after, limit))
    }

    fn api_key(&self, id: KeyId) -> Answer<'_, ReadResult<Option<ApiKey>>> {
        self.readers.read(move |db| queries::api_key(db, id))
    }

    fn api_keys(
        &self,
        org: OrgId,
        after: Option<KeyId>,
        limit: usize,
    ) -> Answer<'_, ReadResult<Vec<ApiKey>>> {
        self.readers.read(move |db| queries::api_keys(db, org, after, limit))
    }

    fn events(&self, org: OrgId, after: Option<EventId>, limit: usize) -> Answer<'_, ReadResult<EventPage>> {
        self.readers.read(move |db| queries::events(db, org, after, limit))
    }

    fn event(&self, id: EventId) -> Answer<'_, ReadResult<Option<EventSnapshot>>> {
        self.readers.read(move |db| queries::event_snapshot(db, id))
    }

    fn hold(&self, id: HoldId) -> Answer<'_, ReadResult<Option<Hold>>> {
        self.readers.read(move |db| queries::hold(db, id))
    }

    fn booking(&self, id: BookingId) -> Answer<'_, ReadResult<Option<Booking>>> {
        self.readers.read(move |db| queries::booking(db, id))
    }

    fn holds_of_user(
        &self,
        org: OrgId,
        user: UserId,
        after: Option<HoldId>,
        limit: usize,
    ) -> Answer<'_, ReadResult<Vec<Hold>>> {
        Box::pin(async move {
            let (mut holds, mut after) = (Vec::new(), after);
            // Some may end meanwhile, and a page that is not full would be taken for the last one.
            while holds.len() < limit {
                let missing = limit - holds.len();
                let wanted = UserHolds { org, user: user.clone(), after, limit: missing };
                let ids = self.writer()?.holds_of_user(wanted).await?;
                let is_last = ids.len() < missing;
                after = ids.last().copied();
                let user = user.clone();
                holds.extend(self.readers.read(move |db| queries::active_of(db, &ids, org, &user)).await?);
                if is_last {
                    break;
                }
            }
            Ok(holds)
        })
    }

    fn journal(&self, stream: Stream, after: u64, limit: usize) -> Answer<'_, ReadResult<Vec<JournalRow>>> {
        self.readers.read(move |db| queries::journal(db, stream, after, limit))
    }

    fn active_holds(&self) -> Answer<'_, ReadResult<Vec<ActiveHold>>> {
        self.readers.read(move |db| queries::active_holds(db, Time::from_millis(i64::MAX), usize::MAX))
    }

    fn due_holds(&self, limit: usize) -> Answer<'_, ReadResult<Vec<ActiveHold>>> {
        let now = self.clock.now();
        self.readers.read(move |db| queries::active_holds(db, now, limit))
    }

    fn sweep_records(&self, limit: usize) -> Answer<'_, ReadResult<usize>> {
        Box::pin(async move { self.writer()?.sweep_records(limit).await })
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn history(&self) -> u64 {
        self.history
    }

    fn ping(&self) -> Answer<'_, ReadResult<()>> {
        Box::pin(async move {
            if let Some(writer) = &self.writer {
                writer.ping().await?;
            }
            self.readers.read(queries::ping).await
        })
    }

    fn verify(&self, progress: Progress) -> Answer<'_, ReadResult<Report>> {
        self.readers.read(move |db| verify::verify(db, RowsOf::Embedded, &*progress))
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            if let Some(writer) = &self.writer {
                writer.close().await;
            }
            // The last connection that closes copies the whole log into the file, so it must be one that can write.
            self.readers.stop();
            if let Some(checkpointer) = &self.checkpointer {
                checkpointer.stop();
            }
            self.folder.lock().take();
        })
    }
}
