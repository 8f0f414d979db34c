//! Moving the log into the file, away from the writer's path.
//!
//! A thread of its own copies what is committed while the writer goes on. It can never quite catch up with a busy
//! writer, and only a log that was copied whole starts over, so when the log has grown large and little is left to
//! copy, the writer is asked to copy that little between two batches.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::open::{Folder, OpenError};

/// Size of the log at which copying is worth a sync of the file.
const COPY_AT_BYTES: u64 = 32 << 20;
/// Size of the log at which the writer is asked to help it start over.
const RESTART_AT_BYTES: u64 = 128 << 20;
/// What may be left to copy for that: few enough pages that no request notices.
const LEFT_FOR_WRITER_PAGES: i64 = 2_000;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A wish that the writer grants between two batches.
#[derive(Clone, Default)]
pub(super) struct Wish(Arc<AtomicBool>);

impl Wish {
    pub fn grant(&self, db: &Connection) {
        if self.0.swap(false, Ordering::AcqRel)
            && let Err(error) = copy_log(db)
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
        let wal: PathBuf = folder.wal_file();
        let wish = Wish::default();
        let stop: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let (its_wish, its_stop) = (wish.clone(), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("rowlock-checkpoint".into())
            .spawn(move || {
                while !stopped(&its_stop) {
                    look(&db, &wal, &its_wish);
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

fn look(db: &Connection, wal: &Path, wish: &Wish) {
    let size = std::fs::metadata(wal).map_or(0, |file| file.len());
    if size < COPY_AT_BYTES {
        return;
    }
    match copy_log(db) {
        Ok(left) if size >= RESTART_AT_BYTES && 0 < left && left <= LEFT_FOR_WRITER_PAGES => {
            wish.0.store(true, Ordering::Release);
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the log could not be copied"),
    }
}

/// Copies what it can without waiting for anybody. Returns the pages left.
fn copy_log(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let (log, copied): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok((log - copied).max(0))
    })
}
