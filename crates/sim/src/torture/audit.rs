//! When all is over: was every promise kept?

mod answers;
mod final_state;
mod times;

use serde::Serialize;

use super::faults::Inflicted;
use super::history::History;
use super::house::{House, SEATS};
use super::journal::{self, Entry, Replay};
use super::seat::Time;
use super::translate::translate;
use super::wgl::{self, Operation, Verdict};
use super::{Failed, Limits};

pub use final_state::settle;
pub use times::{Recovery, recoveries};

/// Places that the search for an order may visit, for one seat.
const SEARCH_LIMIT: usize = 3_000_000;

/// A promise that was broken.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// The check that found it.
    pub check: Check,
    pub what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// What was said of a seat can have happened in some order.
    Order,
    /// Acknowledged bookings and cancellations stand.
    Bookings,
    /// Holds end, and seats become free.
    Holds,
    /// The journal is complete and legal.
    Journal,
    /// Every map that was shown is the journal up to its sequence.
    Maps,
    /// The tiers agree, and all nodes show the same.
    Tiers,
    /// `rowlock verify` finds nothing.
    Verify,
    /// Requests are answered in bounded time, and the service recovers.
    Time,
    /// One key, one effect, one answer.
    Keys,
    /// Nobody was told what they should never be told.
    Answers,
    /// Nodes run until they are killed, and stop when they are asked to.
    Processes,
}

impl Violation {
    pub fn new(check: Check, what: impl Into<String>) -> Self {
        Self { check, what: what.into() }
    }
}

/// What the checks looked at.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Looked {
    pub facts: u64,
    pub seat_operations: usize,
    pub bookings: usize,
    pub holds: usize,
    pub maps: usize,
}

pub struct Audit<'h> {
    pub house: &'h House,
    pub history: &'h History,
    pub faults: &'h [Inflicted],
    pub limits: Limits,
    /// When everything was quiet.
    pub quiet_at: Time,
}

impl Audit<'_> {
    pub async fn run(&self) -> Result<(Vec<Violation>, Looked), Failed> {
        let mut found = Vec::new();
        let entries = journal::fetch(&self.house.admin, &self.house.event).await?;
        let replay = journal::replay(&entries, SEATS);
        found.extend(replay.wrong.iter().map(|what| Violation::new(Check::Journal, what)));
        let mut looked = Looked { facts: replay.last, ..Looked::default() };
        final_state::maps(self.house, &replay, &mut found).await?;
        looked.seat_operations = self.order(&entries, &replay, &mut found);
        looked.bookings = final_state::bookings(self.house, self.history, &mut found).await?;
        looked.holds = final_state::holds(self.house, self.history, &mut found).await?;
        looked.maps = answers::maps(self.history, &replay, &mut found);
        answers::expected(self.history, &mut found);
        answers::keys(self.history, &entries, &mut found);
        answers::times_of_holds(self.history, &mut found);
        times::in_time(self.history, self.faults, self.limits.answer, &mut found);
        if let Err(said) = tokio::task::block_in_place(|| self.house.verify()) {
            found.push(Violation::new(Check::Verify, said));
        }
        Ok((found, looked))
    }

    fn order(&self, entries: &[Entry], replay: &Replay, found: &mut Vec<Violation>) -> usize {
        let mut translation = translate(self.history, entries, SEATS);
        for seat in 0..SEATS {
            let sold_to = replay.sold_to.get(&seat).map(String::as_str);
            translation.say_at_last(self.quiet_at, seat, sold_to);
        }
        let mut count = 0;
        for (seat, operations) in translation.seats.iter().enumerate() {
            count += operations.len();
            // One intention may say several things of a seat, so the search gets numbers of its own.
            let numbered: Vec<Operation> =
                (0..).zip(operations).map(|(tag, operation)| Operation { tag, ..*operation }).collect();
            let show = |tags: &[u32]| {
                let lines = tags.iter().filter_map(|tag| operations.get(*tag as usize));
                lines.map(|line| format!("\n    {line:?}")).collect::<String>()
            };
            let what = match wgl::check(&numbered, SEARCH_LIMIT) {
                Verdict::Linearizable => continue,
                Verdict::Undecided => format!("seat {seat}: the search for an order was too long"),
                Verdict::Impossible { order, stuck, seat: state } => {
                    let last = show(&order[order.len().saturating_sub(6)..]);
                    let stuck = show(&stuck);
                    format!(
                        "seat {seat}: no order explains what was said.\n  it is {state:?}\n  after{last}\n  and none of these can follow{stuck}"
                    )
                }
            };
            found.push(Violation::new(Check::Order, what));
        }
        count
    }
}
