//! Moving the log into the file, away from the writer's path.
//!
//! A thread of its own copies what is committed while the writer goes on. It can never quite catch up with a busy
//! writer, and only a log that was copied whole starts over, so when the log has grown large and little is left to
//! copy, the writer is asked to copy that little between two batches.
//!
//! A log that starts over keeps its file: to overwrite is cheaper to sync than to append, because the file's size does
//! not have to be made durable as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::open::{Folder, OpenError};

/// Pages that are worth copying, and a sync of the file.
const COPY_AT_PAGES: i64 = 4_096;
/// Length of the log, in pages, at which the writer is asked to help it start over.
const RESTART_AT_PAGES: i64 = 16_384;
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
        if self.0.swap(false, Ordering::AcqRel)
            && let Err(error) = checkpoint(db, "PASSIVE")
        {
            tracing::warn!(%error, "the log could not be copied by the writer");
        }
    }
}

pub(super) struct Checkpointer {
    wish: Wish,
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Checkpointer {
    pub fn start(folder: &Folder) -> Result<Self, OpenError> {
        let db = folder.connect_checkpointer()?;
        let wish = Wish::default();
        let stop: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let (its_wish, its_stop) = (wish.clone(), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("rowlock-checkpoint".into())
            .spawn(move || {
                while !stopped(&its_stop) {
                    look(&db, &its_wish);
                }
            })
            .expect("a thread can be started");
        Ok(Self { wish, stop, thread: Mutex::new(Some(thread)) })
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

fn look(db: &Connection, wish: &Wish) {
    if let Err(error) = copy(db, wish) {
        tracing::warn!(%error, "the log could not be copied");
    }
}

fn copy(db: &Connection, wish: &Wish) -> rusqlite::Result<()> {
    let mut log = checkpoint(db, "NOOP")?;
    if log.left < COPY_AT_PAGES {
        return Ok(());
    }
    for _ in 0..MAX_ROUNDS {
        log = checkpoint(db, "PASSIVE")?;
        if log.pages < RESTART_AT_PAGES || log.left <= LEFT_FOR_WRITER_PAGES {
            break;
        }
    }
    if log.pages >= RESTART_AT_PAGES && log.left > 0 {
        wish.0.store(true, Ordering::Release);
    }
    Ok(())
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
