//! The clock of Postgres, as well as this node knows it.

use std::sync::atomic::{AtomicI64, Ordering};

use rowlock_core::Time;

use crate::clock::Clock;

/// This node's clock, put right by what Postgres said last. It serves estimates: what is shown, and when to look for
/// expired holds. What is decided is decided by the clock of Postgres itself.
#[derive(Default)]
pub(super) struct DatabaseClock {
    local: Clock,
    ahead: AtomicI64,
}

impl DatabaseClock {
    pub fn now(&self) -> Time {
        self.local.now().plus_millis(self.ahead.load(Ordering::Relaxed))
    }

    /// Postgres said that it was this time a moment ago.
    pub fn heard(&self, time: Time) {
        self.ahead.store(time.millis() - self.local.now().millis(), Ordering::Relaxed);
    }
}
