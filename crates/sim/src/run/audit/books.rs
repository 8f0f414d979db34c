//! What was asked, and what was answered.

use std::collections::BTreeMap;

use rowlock_core::outcome::{BookingOutcome, HoldOutcome, SeatsChanged};
use rowlock_core::{Command, Outcome, Refusal, Request, SeatId, Stream, Time};
use rowlock_registry::{Failure, Reply};
use rowlock_truth::read::JournalRow;

/// What came of a request, as whoever sent it knows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Held(HoldOutcome),
    Booked(BookingOutcome),
    Marked(SeatsChanged),
    Other,
    Refused(Refusal),
    /// It may have had its effect, may have it later, or never.
    Unknown(String),
}

impl Said {
    pub fn of(answer: Result<Reply, Failure>) -> (Self, bool) {
        match answer {
            Ok(reply) => {
                let replayed = reply.replayed;
                let said = match reply.outcome {
                    Outcome::Hold(outcome) => Said::Held(outcome),
                    Outcome::Booking(outcome) => Said::Booked(*outcome),
                    Outcome::Blocking(outcome) => Said::Marked(outcome),
                    _ => Said::Other,
                };
                (said, replayed)
            }
            Err(Failure::Refused(refusal)) => (Said::Refused(refusal), false),
            Err(other) => (Said::Unknown(other.to_string()), false),
        }
    }

    pub fn is_yes(&self) -> bool {
        matches!(self, Said::Held(_) | Said::Booked(_) | Said::Marked(_) | Said::Other)
    }

    pub fn word(&self) -> &'static str {
        match self {
            Said::Refused(_) => "refused",
            Said::Unknown(_) => "unknown",
            _ => "done",
        }
    }
}

/// One request and its answer. Requests of one operation repeat each other.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub operation: u64,
    pub request: Request,
    pub asked: Time,
    pub answered: Time,
    pub said: Said,
    pub replayed: bool,
}

impl Attempt {
    /// Whether it may have had an effect.
    pub fn may_count(&self) -> bool {
        !matches!(self.said, Said::Refused(_))
    }

    /// Whether the hold may not have the seat any more because of it: given back, or sold.
    pub fn frees(&self, hold: rowlock_core::HoldId, seat: Option<SeatId>) -> bool {
        match &self.request.command {
            Command::Release { hold: named, seats, .. } => {
                *named == hold
                    && self.may_count()
                    && (seats.is_empty() || seat.is_some_and(|seat| seats.contains(&seat)))
            }
            Command::Confirm { hold: named, .. } => *named == hold && self.may_count(),
            _ => false,
        }
    }
}

/// The rows that one reader of a stream has got, in the order it got them.
pub type Tail = Vec<JournalRow>;

#[derive(Default)]
pub struct Books {
    pub attempts: Vec<Attempt>,
    /// By node and stream.
    pub tails: BTreeMap<(usize, Stream), Tail>,
}
