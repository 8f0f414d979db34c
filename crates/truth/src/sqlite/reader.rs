//! A few threads that read, each with a connection of its own. The writer never waits for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::codec::Stored;
use super::open::{Folder, OpenError};
use crate::{Answer, Failure, ReadResult};

/// Reads that may wait for a thread. One more is told that the store is busy.
const MAX_WAITING: usize = 4096;

type Job = Box<dyn FnOnce(&Connection) + Send>;

pub(super) struct Readers {
    jobs: Mutex<Option<mpsc::SyncSender<Job>>>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

impl Readers {
    pub fn start(folder: &Folder, count: usize) -> Result<Self, OpenError> {
        let (jobs, queue) = mpsc::sync_channel::<Job>(MAX_WAITING);
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::new();
        for number in 0..count.max(1) {
            let db = folder.connect_reader()?;
            let queue = Arc::clone(&queue);
            let thread = thread::Builder::new()
                .name(format!("rowlock-reader-{number}"))
                .spawn(move || {
                    loop {
                        let job = queue.lock().recv();
                        match job {
                            // A read that panics is answered as broken; the thread goes on with the next.
                            Ok(job) => {
                                let _ = catch_unwind(AssertUnwindSafe(|| job(&db)));
                            }
                            Err(mpsc::RecvError) => return,
                        }
                    }
                })
                .expect("a thread can be started");
            threads.push(thread);
        }
        Ok(Self { jobs: Mutex::new(Some(jobs)), threads: Mutex::new(threads) })
    }

    pub fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Stored<T> + Send + 'static,
    ) -> Answer<'_, ReadResult<T>> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |db| {
            // Whoever asked may have gone while this waited, and others wait behind it.
            if answer.is_closed() {
                return;
            }
            let _ = answer.send(read(db).map_err(Failure::from));
        });
        let sent = self.jobs.lock().as_ref().is_some_and(|jobs| jobs.try_send(job).is_ok());
        Box::pin(async move {
            if !sent {
                return Err(Failure::Unavailable("too many reads are waiting".into()));
            }
            answered.await.unwrap_or_else(|_| Err(Failure::Broken("a read failed".into())))
        })
    }

    pub fn stop(&self) {
        self.jobs.lock().take();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a reader ended badly");
            }
        }
    }
}
