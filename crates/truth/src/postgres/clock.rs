//! The clock of Postgres, as well as this node knows it.

use std::time::Instant;

use parking_lot::Mutex;
use rowlock_core::Time;

/// What Postgres said last, and how long ago that was. This node's own wall clock has no part in it. It serves
/// estimates: what is shown, and when to look for expired holds. What is decided is decided by Postgres itself.
pub(super) struct DatabaseClock {
    heard: Mutex<(Time, Instant)>,
}

impl DatabaseClock {
    pub fn new(now: Time) -> Self {
        Self { heard: Mutex::new((now, Instant::now())) }
    }

    pub fn now(&self) -> Time {
        let (time, at) = *self.heard.lock();
        time.plus_millis(at.elapsed().as_millis() as i64)
    }

    /// Postgres said that it was this time, at that moment. What was said earlier than what is known is old.
    pub fn heard(&self, time: Time, at: Instant) {
        let mut heard = self.heard.lock();
        if at >= heard.1 {
            *heard = (time, at);
        }
    }
}
