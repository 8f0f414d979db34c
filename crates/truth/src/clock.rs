//! The process clock, for stores that have none of their own.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rowlock_core::Time;

/// Wall time that never goes back while the process lives.
#[derive(Debug, Default)]
pub struct Clock {
    latest: AtomicI64,
}

impl Clock {
    pub fn now(&self) -> Time {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let before = self.latest.fetch_max(wall, Ordering::Relaxed);
        Time::from_millis(wall.max(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back() {
        let clock = Clock::default();
        let ahead = clock.now().plus_seconds(3600);
        clock.latest.store(ahead.millis(), Ordering::Relaxed);
        assert_eq!(clock.now(), ahead);
    }
}
