//! Deliberate faults of the test store. They show that the tests can fail.

use rowlock_core::Fact;
use rowlock_core::Time;
use rowlock_core::hold::Hold;

use super::rows::Rows;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Seats are read as they were one batch ago. The check of versions must refuse to write that.
    StaleSeats,
    /// The same, and the versions are not looked at.
    StaleSeatsUnchecked,
    /// A hold past its time is given one more moment.
    DueIsLive,
    /// Whoever takes over from a hold past its time does not record its end.
    DropsExpiry,
    /// The places that a user has already are not counted.
    ForgetsUsage,
    /// Idempotency records are not found again.
    ForgetsRecords,
}

impl Fault {
    pub fn reads_stale(self) -> bool {
        matches!(self, Fault::StaleSeats | Fault::StaleSeatsUnchecked)
    }

    pub fn checks_versions(self) -> bool {
        self != Fault::StaleSeatsUnchecked
    }

    /// The rows that seats are read from.
    pub fn rows_to_read<'r>(self, now: &'r Rows, before: Option<&'r Rows>) -> &'r Rows {
        before.filter(|_| self.reads_stale()).unwrap_or(now)
    }

    pub fn drops(self, fact: &Fact) -> bool {
        self == Fault::DropsExpiry && matches!(fact, Fact::HoldExpired(_))
    }

    pub fn seen_until(self, until: Time, now: Time) -> Time {
        if self == Fault::DueIsLive { until.max(now.plus_millis(1)) } else { until }
    }

    pub fn seen_hold(self, hold: &Hold, now: Time) -> Hold {
        let mut hold = hold.clone();
        if self == Fault::DueIsLive && hold.is_due(now) {
            hold.expires_at = now.plus_millis(1);
            hold.max_expires_at = hold.max_expires_at.max(hold.expires_at);
        }
        hold
    }
}
