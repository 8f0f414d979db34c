//! Time as the kernel sees it: milliseconds since the Unix epoch, handed in from outside.

use serde::{Deserialize, Serialize};

/// A moment. All arithmetic saturates, so no input can wrap a deadline around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(i64);

impl Time {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    pub const fn plus_seconds(self, seconds: u32) -> Self {
        Self(self.0.saturating_add(seconds as i64 * 1000))
    }

    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Milliseconds from `earlier` to this moment, 0 when it is not earlier at all.
    pub const fn millis_since(self, earlier: Time) -> i64 {
        let difference = self.0.saturating_sub(earlier.0);
        if difference < 0 { 0 } else { difference }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let end = Time::from_millis(i64::MAX);
        assert_eq!(end.plus_seconds(u32::MAX), end);
        assert_eq!(end.plus_millis(1), end);
        assert_eq!(end.millis_since(Time::from_millis(i64::MIN)), i64::MAX);
        assert_eq!(Time::from_millis(i64::MIN).millis_since(end), 0);
    }
}
