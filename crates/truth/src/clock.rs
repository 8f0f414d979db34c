//! The process clock, for stores that have none of their own.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use rowlock_core::Time;

/// Wall time that never goes back while the process lives, and never stands still either: when the wall clock is set
/// back, time goes on from where it was, so that holds made from then on still end.
#[derive(Debug)]
pub struct Clock {
    latest: Mutex<(i64, Instant)>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { latest: Mutex::new((0, Instant::now())) }
    }
}

impl Clock {
    pub fn now(&self) -> Time {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let mut latest = self.latest.lock();
        let now = Instant::now();
        let at_least = latest.0 + now.saturating_duration_since(latest.1).as_millis() as i64;
        if wall >= at_least {
            *latest = (wall, now);
        }
        Time::from_millis(wall.max(at_least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back() {
        let clock = Clock::default();
        let ahead = clock.now().plus_seconds(3600);
        *clock.latest.lock() = (ahead.millis(), Instant::now());
        assert!(clock.now() >= ahead);
    }

    #[test]
    fn it_goes_on_after_the_wall_clock_was_set_back() {
        let clock = Clock::default();
        let ahead = clock.now().plus_seconds(3600);
        let a_while_ago = Instant::now().checked_sub(std::time::Duration::from_secs(2)).unwrap();
        *clock.latest.lock() = (ahead.millis(), a_while_ago);
        assert!(clock.now() >= ahead.plus_seconds(2));
    }
}
