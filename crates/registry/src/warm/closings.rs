//! Counting how often a breaker has closed, for those who wait for it.
//!
//! Tokio's `watch` wakes those who wait for it in a random order. Here they are woken in the order in which they began to
//! wait, so that a simulated run can be repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

#[derive(Clone, Default)]
pub(super) struct Bell {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    rung: AtomicU64,
    heard: Notify,
}

/// Waits for the next time a breaker closes.
#[derive(Clone)]
pub struct Closings {
    inner: Arc<Inner>,
    seen: u64,
}

impl Bell {
    pub fn ring(&self) {
        self.inner.rung.fetch_add(1, Ordering::SeqCst);
        self.inner.heard.notify_waiters();
    }

    pub fn subscribe(&self) -> Closings {
        Closings { seen: self.inner.rung.load(Ordering::SeqCst), inner: Arc::clone(&self.inner) }
    }
}

impl Closings {
    /// Returns once a breaker has closed since the last time. Of several times this says once.
    pub async fn changed(&mut self) {
        loop {
            // Made before the look, so that a ring between the two is not missed.
            let heard = self.inner.heard.notified();
            let rung = self.inner.rung.load(Ordering::SeqCst);
            if rung != self.seen {
                self.seen = rung;
                return;
            }
            heard.await;
        }
    }

    /// Forgets what has been since the last time.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.inner.rung.load(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_rang_before_the_wait_is_heard_once() {
        let bell = Bell::default();
        let mut closings = bell.subscribe();
        bell.ring();
        bell.ring();
        closings.changed().await;
        assert!(tokio::time::timeout(Duration::from_millis(20), closings.changed()).await.is_err());
        bell.ring();
        closings.mark_unchanged();
        assert!(tokio::time::timeout(Duration::from_millis(20), closings.changed()).await.is_err());
    }
}
