//! Virtual time. It is the store's, and the only one that decides.

use rowlock_core::Time;
use tokio::time::Instant;

/// When every run begins: somewhere in 2026.
const EPOCH_MILLIS: i64 = 1_780_000_000_000;

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub fn now(&self) -> Time {
        Time::from_millis(EPOCH_MILLIS + self.millis() as i64)
    }

    /// Since the beginning.
    pub fn millis(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }
}

/// How long after the beginning of the run a time is, in ms.
pub fn since_start(time: Time) -> i64 {
    time.millis() - EPOCH_MILLIS
}
