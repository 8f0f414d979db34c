//! Moving the log into the file, away from the writer's path.
//!
//! A thread of its own copies what is committed while the writer goes on. It can never quite catch up with a busy
//! writer, and only a log that was copied whole starts over, so when the log has grown large and little is left to
//! copy, the writer is asked to copy that little between two batches.
//!
//! A log that starts over keeps its file: to overwrite is cheaper to sync than to append, because the file's size does
//! not have to be made durable as well.
//!
//! What is copied is synced here each time. SQLite does that only when it has copied the whole log, which is when the writer
//! does the rest, and that writer would then wait for everything since the last time; or the kernel writes it all at once
//! when it is half a minute old, and every commit meanwhile waits behind it.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::open::{Folder, OpenError};

/// Pages that are worth copying, and a sync of the file.
const COPY_AT_PAGES: i64 = 4_096;
/// Length of the log, in pages, at which the writer is asked to help it start over.
const RESTART_AT_PAGES: i64 = 12_288;
/// How long the log becomes when all goes well: a header, and pages with a header each, those and what comes in while they
/// are copied.
pub(super) const USUAL_LOG_BYTES: usize = 32 + (RESTART_AT_PAGES as usize + 6_144) * (24 + 4_096);
/// What may be left to copy for that: so few that no request notices.
const LEFT_FOR_WRITER_PAGES: i64 = 400;
/// Each time that the copier goes over the log there is less left of it. A writer that is quicker than the disk must help
/// all the same: it waits then, and the log does not grow without end.
const MAX_ROUNDS: usize = 5;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A wish that the writer grants between two batches.
#[derive(Clone, Default)]
pub(super) struct Wish(Arc<AtomicBool>);

impl Wish {
    pub fn grant(&self, db: &Connection) {
        if !self.0.swap(false, Ordering::AcqRel) {
            return;
        }
        let began = Instant::now();
        match checkpoint(db, "PASSIVE") {
            Ok(_) => copied(began, "the writer copied the rest of the log"),
            Err(error) => failed(&error.into()),
        }
    }
}

pub(super) struct Checkpointer {
    wish: Wish,
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    /// Closing it takes away the locks that this process has on the file, so that comes last.
    _file: Arc<File>,
}

impl Checkpointer {
    pub fn start(folder: &Folder) -> Result<Self, OpenError> {
        let copier = Copier { db: folder.connect_checkpointer()?, file: Arc::new(folder.open_file()?) };
        let file = Arc::clone(&copier.file);
        let wish = Wish::default();
        let stop: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let (its_wish, its_stop) = (wish.clone(), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("rowlock-checkpoint".into())
            .spawn(move || {
                while !stopped(&its_stop) {
                    if let Err(error) = copier.copy(&its_wish) {
                        failed(&error);
                    }
                }
            })
            .expect("a thread can be started");
        Ok(Self { wish, stop, thread: Mutex::new(Some(thread)), _file: file })
    }

    pub fn wish(&self) -> Wish {
        self.wish.clone()
    }

    pub fn stop(&self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpointer ended badly");
        }
    }
}

impl Drop for Checkpointer {
    /// A truth that is dropped without being closed must not leave a thread in its folder.
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for the next look, or says at once that it is over.
fn stopped(stop: &(Mutex<bool>, Condvar)) -> bool {
    let mut stopped = stop.0.lock();
    if !*stopped {
        stop.1.wait_for(&mut stopped, LOOK_EVERY);
    }
    *stopped
}

struct Copier {
    db: Connection,
    /// What `db` writes to.
    file: Arc<File>,
}

impl Copier {
    fn copy(&self, wish: &Wish) -> Result<(), CopyError> {
        let mut log = checkpoint(&self.db, "NOOP")?;
        if log.left < COPY_AT_PAGES {
            return Ok(());
        }
        let began = Instant::now();
        for _ in 0..MAX_ROUNDS {
            checkpoint(&self.db, "PASSIVE")?;
            self.file.sync_data()?;
            // Looked at anew, because copying speaks of the log as it was when it began.
            log = checkpoint(&self.db, "NOOP")?;
            if log.pages < RESTART_AT_PAGES || log.left <= LEFT_FOR_WRITER_PAGES {
                break;
            }
        }
        copied(began, "the log was copied");
        // Also when nothing is left: what the writer is about to commit makes the log longer again.
        if log.pages >= RESTART_AT_PAGES {
            wish.0.store(true, Ordering::Release);
        }
        Ok(())
    }
}

/// After a sync that failed nobody knows which of the copied pages are on disk, and the system says so only once: the next sync
/// succeeds. The log still has them all, but by its account they were copied, so it would start over, and even closing the store
/// would remove it. Whoever opens the store after a process that ended without closing it copies the whole log again.
fn failed(error: &CopyError) {
    let is_sync = match error {
        CopyError::Sync(_) => true,
        CopyError::Database(error) => {
            error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_FSYNC)
        }
    };
    if is_sync {
        super::give_up(&format!("the file of the store could not be synced: {error}"));
    }
    tracing::warn!(%error, "the log could not be copied");
}

/// For whoever looks for the cause of a slow commit: `rowlock-bench stalls` lays these over the holds that took long.
fn copied(began: Instant, what: &str) {
    tracing::debug!(micros = began.elapsed().as_micros() as u64, "{what}");
}

#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    #[error("the file can't be synced: {0}")]
    Sync(#[from] std::io::Error),
}

struct Log {
    pages: i64,
    /// Those that were not copied yet.
    left: i64,
}

/// `PASSIVE` copies what it can without waiting for anybody, `NOOP` only looks.
fn checkpoint(db: &Connection, mode: &str) -> rusqlite::Result<Log> {
    db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        let (pages, copied): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(Log { pages, left: (pages - copied).max(0) })
    })
}
