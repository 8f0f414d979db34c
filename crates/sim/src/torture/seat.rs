//! One seat, as a sequential machine: what may happen to it, one thing after another.
//!
//! It is written from the promises alone and shares nothing with the kernel. Times are microseconds of one clock that
//! never goes back, the same that ends holds.

/// Microseconds.
pub type Time = i64;

/// How far the end of a hold may be off: the product counts in whole milliseconds.
pub const SLACK: Time = 5_000;

/// Holds, bookings and users are numbers here: the checker compares them and nothing else.
pub type Id = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    Nobody,
    Hold { hold: Id, user: Id, until: Time },
    Booking { booking: Id },
}

/// Who has the seat, and since when at the earliest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    pub owner: Owner,
    pub since: Time,
}

impl Seat {
    pub const FREE: Seat = Seat { owner: Owner::Nobody, since: Time::MIN };
}

/// What somebody was told about a seat. The first five change it, the others only say what they saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// The seat is in this hold, which ends then.
    Take {
        hold: Id,
        user: Id,
        until: Time,
    },
    /// The hold ends then, and not when it would have.
    Extend {
        hold: Id,
        until: Time,
    },
    Sell {
        hold: Id,
        booking: Id,
    },
    /// The hold gave the seat back, if it had it.
    GiveBack {
        hold: Id,
    },
    /// The booking gave the seat back, if it had it.
    Cancel {
        booking: Id,
    },
    /// Refused to this user because somebody else has it.
    SeenTaken {
        user: Id,
    },
    /// This user could have had it: it was not what stood in the way.
    SeenToBeHad {
        user: Id,
    },
    /// In this hold, whether its time is over or not.
    SeenHeld {
        hold: Id,
        until: Time,
    },
    /// The hold can still be used.
    SeenLive {
        hold: Id,
    },
    /// The hold is over, one way or another.
    SeenOver {
        hold: Id,
    },
    /// The hold was ended by somebody: it does not have the seat, whatever the time.
    SeenGone {
        hold: Id,
    },
    SeenSold {
        booking: Id,
    },
    SeenNotSold {
        booking: Id,
    },
    /// Anybody could have had it.
    SeenFree,
}

impl Act {
    pub const fn changes(self) -> bool {
        matches!(
            self,
            Act::Take { .. }
                | Act::Extend { .. }
                | Act::Sell { .. }
                | Act::GiveBack { .. }
                | Act::Cancel { .. }
        )
    }
}

impl Seat {
    /// The seat after `act`, which was asked for at `asked` and happens at `at`. `None`: that can't be.
    ///
    /// A hold that is used must not be over when that is decided. Whoever decides has the row locked from then on, so the
    /// decision may lie before `at`, but not before the request, nor before the seat came to be as it is.
    pub fn after(self, act: Act, asked: Time, at: Time) -> Option<Seat> {
        let decided = asked.max(self.since);
        let change = |owner| Some(Seat { owner, since: at });
        let stay = |is_so: bool| is_so.then_some(self);
        match (act, self.owner) {
            (Act::Take { hold, until, .. }, Owner::Hold { hold: has, until: end, .. }) if hold == has => {
                stay(until == end && decided < end + SLACK)
            }
            (Act::Take { hold, user, until }, Owner::Nobody) => change(Owner::Hold { hold, user, until }),
            (Act::Take { hold, user, until }, Owner::Hold { until: end, .. }) if at >= end - SLACK => {
                change(Owner::Hold { hold, user, until })
            }
            (Act::Take { .. }, _) => None,
            (Act::Extend { hold, until }, Owner::Hold { hold: has, user, until: end })
                if hold == has && decided < end + SLACK && until >= end =>
            {
                change(Owner::Hold { hold, user, until })
            }
            (Act::Extend { .. }, _) => None,
            (Act::Sell { hold, booking }, Owner::Hold { hold: has, until, .. })
                if hold == has && decided < until + SLACK =>
            {
                change(Owner::Booking { booking })
            }
            (Act::Sell { .. }, _) => None,
            (Act::GiveBack { hold }, Owner::Hold { hold: has, .. }) if hold == has => change(Owner::Nobody),
            (Act::GiveBack { .. }, _) => Some(self),
            (Act::Cancel { booking }, Owner::Booking { booking: has }) if booking == has => {
                change(Owner::Nobody)
            }
            (Act::Cancel { .. }, _) => Some(self),
            (Act::SeenTaken { user }, owner) => stay(match owner {
                Owner::Nobody => false,
                Owner::Hold { user: has, until, .. } => has != user && decided < until + SLACK,
                Owner::Booking { .. } => true,
            }),
            (Act::SeenToBeHad { user }, owner) => stay(match owner {
                Owner::Nobody => true,
                Owner::Hold { user: has, until, .. } => has == user || at >= until - SLACK,
                Owner::Booking { .. } => false,
            }),
            (Act::SeenHeld { hold, until }, owner) => stay(
                matches!(owner, Owner::Hold { hold: has, until: end, .. } if has == hold && end == until),
            ),
            (Act::SeenLive { hold }, owner) => stay(
                matches!(owner, Owner::Hold { hold: has, until, .. } if has == hold && decided < until + SLACK),
            ),
            (Act::SeenOver { hold }, owner) => stay(
                !matches!(owner, Owner::Hold { hold: has, until, .. } if has == hold && at < until - SLACK),
            ),
            (Act::SeenGone { hold }, owner) => {
                stay(!matches!(owner, Owner::Hold { hold: has, .. } if has == hold))
            }
            (Act::SeenSold { booking }, owner) => stay(owner == Owner::Booking { booking }),
            (Act::SeenNotSold { booking }, owner) => stay(owner != Owner::Booking { booking }),
            (Act::SeenFree, owner) => stay(match owner {
                Owner::Nobody => true,
                Owner::Hold { until, .. } => at >= until - SLACK,
                Owner::Booking { .. } => false,
            }),
        }
    }

    /// The earliest moment from `from` on at which `act` can happen, and the seat after it. Only the end of a hold makes
    /// possible what was not, so there are two moments to look at.
    pub fn earliest(self, act: Act, asked: Time, from: Time) -> Option<(Time, Seat)> {
        if let Some(seat) = self.after(act, asked, from) {
            return Some((from, seat));
        }
        let Owner::Hold { until, .. } = self.owner else { return None };
        let end = until - SLACK;
        if end <= from {
            return None;
        }
        self.after(act, asked, end).map(|seat| (end, seat))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Seat = Seat { owner: Owner::Hold { hold: 1, user: 1, until: 1_000_000 }, since: 0 };

    #[test]
    fn a_live_hold_keeps_others_away_until_its_end() {
        let take = Act::Take { hold: 2, user: 2, until: 2_000_000 };
        assert_eq!(HELD.after(take, 500_000, 500_000), None);
        let (at, seat) = HELD.earliest(take, 500_000, 500_000).unwrap();
        assert_eq!(at, 1_000_000 - SLACK);
        assert_eq!(seat.owner, Owner::Hold { hold: 2, user: 2, until: 2_000_000 });
    }

    #[test]
    fn a_hold_that_is_over_is_not_sold() {
        let sell = Act::Sell { hold: 1, booking: 9 };
        assert!(HELD.after(sell, 10, 10).is_some());
        assert!(HELD.after(sell, 1_000_000 + SLACK, 1_000_000 + SLACK).is_none());
        // Decided in time, committed later.
        assert!(HELD.after(sell, 10, 3_000_000).is_some());
    }

    #[test]
    fn a_sold_seat_is_nobody_elses_at_any_time() {
        let sold = Seat { owner: Owner::Booking { booking: 9 }, since: 0 };
        assert_eq!(sold.earliest(Act::Take { hold: 2, user: 2, until: 5 }, 0, i64::MAX / 2), None);
        assert!(sold.after(Act::SeenTaken { user: 1 }, 0, 0).is_some());
        assert_eq!(sold.after(Act::Cancel { booking: 9 }, 0, 7).unwrap().owner, Owner::Nobody);
        assert_eq!(sold.after(Act::Cancel { booking: 8 }, 0, 7), Some(sold));
    }
}
