//! The clock of Postgres, as well as this node knows it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowlock_core::Time;

/// How long what was heard is relied on alone. In that time two clocks drift apart by less than a millisecond.
const WINDOW: Duration = Duration::from_secs(5);
/// How uncertain the time may be for holds to be made by it.
const SURE_MICROS: i64 = 20_000;

/// An answer to the question what time it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub time: Time,
    /// When it was asked for, or earlier, and when it came back.
    pub sent: Instant,
    pub received: Instant,
}

/// What Postgres said lately, and how long ago that was. This node's own wall clock has no part in it. It serves
/// estimates, and holds that are made without reading first, whose time Postgres compares with its own.
///
/// An answer was true somewhere between question and receipt. So each says how far Postgres' clock is ahead of this node's
/// monotonic one, at least and at most, and the best of all answers count: one that was long on its way changes nothing.
pub(super) struct DatabaseClock {
    began: Instant,
    known: Mutex<Known>,
}

struct Known {
    now: Bounds,
    before: Bounds,
    since: Instant,
}

/// How far Postgres' clock is ahead, in microseconds.
#[derive(Clone, Copy)]
struct Bounds {
    least: i64,
    most: i64,
}

impl Bounds {
    fn and(self, other: Self) -> Self {
        Self { least: self.least.max(other.least), most: self.most.min(other.most) }
    }
}

impl DatabaseClock {
    pub fn new(heard: Reading) -> Self {
        let bounds = bounds(heard.sent, heard);
        let known = Known { now: bounds, before: bounds, since: heard.received };
        Self { began: heard.sent, known: Mutex::new(known) }
    }

    /// Not later than it is.
    pub fn now(&self) -> Time {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> Time {
        Time::from_millis((micros(self.began, now) + self.best().least).div_euclid(1000))
    }

    /// Whether it is known well enough.
    pub fn is_sure(&self) -> bool {
        let best = self.best();
        best.most - best.least <= SURE_MICROS
    }

    pub fn heard(&self, heard: Reading) {
        let new = bounds(self.began, heard);
        let mut known = self.known.lock();
        if heard.received < known.since {
            return;
        }
        let both = known.now.and(known.before).and(new);
        if both.least > both.most {
            // It can't be the same clock: it was set, or it is another server's.
            *known = Known { now: new, before: new, since: heard.received };
        } else if heard.received - known.since > WINDOW {
            *known = Known { now: new, before: known.now, since: heard.received };
        } else {
            known.now = known.now.and(new);
        }
    }

    fn best(&self) -> Bounds {
        let known = self.known.lock();
        known.now.and(known.before)
    }
}

fn bounds(began: Instant, heard: Reading) -> Bounds {
    // It was said in whole milliseconds: it may have been almost one later.
    let least = heard.time.millis() * 1000;
    Bounds { least: least - micros(began, heard.received), most: least + 1000 - micros(began, heard.sent) }
}

/// From one to the other, which may be the earlier one.
fn micros(from: Instant, to: Instant) -> i64 {
    match to.checked_duration_since(from) {
        Some(later) => later.as_micros() as i64,
        None => -((from - to).as_micros() as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that reads 1,000,000 ms when this test's reads 0.
    struct Test {
        zero: Instant,
        clock: DatabaseClock,
    }

    impl Test {
        fn new(took: u64) -> Self {
            let zero = Instant::now();
            let first = heard(zero, 0, took, 1_000_000 + took as i64 / 2);
            Self { zero, clock: DatabaseClock::new(first) }
        }

        /// What Postgres said, to a question of that moment, whose answer took so long.
        fn hear(&self, sent: u64, took: u64, said: i64) {
            self.clock.heard(heard(self.zero, sent, took, said));
        }

        fn at(&self, millis: u64) -> i64 {
            self.clock.at(self.zero + Duration::from_millis(millis)).millis()
        }
    }

    fn heard(zero: Instant, sent: u64, took: u64, said: i64) -> Reading {
        let sent = zero + Duration::from_millis(sent);
        Reading { time: Time::from_millis(said), sent, received: sent + Duration::from_millis(took) }
    }

    #[test]
    fn an_answer_that_was_long_on_its_way_changes_nothing() {
        let test = Test::new(2);
        assert_eq!(test.at(100), 1_000_099);
        test.hear(1_000, 300, 1_001_010);
        assert_eq!(test.at(2_000), 1_001_999);
        assert!(test.clock.is_sure());
        // Not even when all are, for a while.
        test.hear(6_000, 300, 1_006_010);
        assert_eq!(test.at(7_000), 1_006_999);
    }

    #[test]
    fn a_better_answer_is_better() {
        let test = Test::new(40);
        assert!(!test.clock.is_sure());
        assert_eq!(test.at(100), 1_000_080);
        test.hear(1_000, 0, 1_001_000);
        assert_eq!(test.at(2_000), 1_002_000);
        assert!(test.clock.is_sure());
    }

    #[test]
    fn a_clock_that_was_set_is_believed_at_once() {
        let test = Test::new(2);
        test.hear(1_000, 2, 1_301_001);
        assert_eq!(test.at(2_000), 1_301_999);
        test.hear(3_000, 2, 1_002_900);
        assert_eq!(test.at(4_000), 1_003_898);
        // An answer from before it was set, by another connection.
        test.hear(2_900, 2, 1_302_901);
        assert_eq!(test.at(4_000), 1_003_898);
    }

    #[test]
    fn clocks_may_drift_apart() {
        let test = Test::new(2);
        // Postgres' clock loses a millisecond in ten seconds.
        for seconds in (1..100).step_by(2) {
            test.hear(seconds * 1_000, 0, 1_000_000 + seconds as i64 * 1_000 - seconds as i64 / 10);
        }
        let late = test.at(99_000) - (1_099_000 - 9);
        assert!((0..=2).contains(&late), "{late}");
    }
}
