//! The tasks that run for as long as the engine does.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Default)]
pub(crate) struct Tasks {
    running: Mutex<Vec<JoinHandle<()>>>,
    /// A task has panicked. Without it the process only looks alive: a lane refuses all of its events, or no hold ends.
    broken: watch::Sender<bool>,
}

impl Tasks {
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let broken = self.broken.clone();
        self.running.lock().push(tokio::spawn(async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                tracing::error!(task = name, "a task of the engine ended badly");
                broken.send_replace(true);
            }
        }));
    }

    /// Waits for all of them to end.
    pub async fn end(&self) {
        let running: Vec<_> = self.running.lock().drain(..).collect();
        for task in running {
            let _ = task.await;
        }
    }

    /// Waits until one of them ends badly.
    pub async fn broken(&self) {
        let _ = self.broken.subscribe().wait_for(|broken| *broken).await;
    }

    pub fn is_broken(&self) -> bool {
        *self.broken.borrow()
    }
}
