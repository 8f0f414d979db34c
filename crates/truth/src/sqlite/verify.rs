//! Checking the promises on what is stored, all of it as of one moment.
//!
//! Every table is read once, in order, and what must agree meets in maps in memory, so that the time grows with the
//! rows and not with their square. The checks build on each other: later ones use what earlier ones have read.

mod findings;
mod journal;
mod owners;
mod records;
mod rows;
mod told;

use rowlock_core::{AreaId, BookingId, EventId, HoldId, SeatId, TicketId, Time};
use rusqlite::Connection;
use rustc_hash::{FxHashMap, FxHashSet};

use self::findings::Findings;
use super::codec::Stored;
use crate::verify::{Promise, Report};

type Check = fn(&Connection, &mut Survey) -> Stored<()>;

const CHECKS: [(&str, Check); 10] = [
    ("file", rows::file),
    ("events", rows::events),
    ("blocks and areas", told::parts),
    ("holds", rows::holds),
    ("bookings", rows::bookings),
    ("tickets", owners::tickets),
    ("seats", owners::seats),
    ("areas", owners::areas),
    ("journal", journal::journal),
    ("idempotency records", records::records),
];

/// Whose rows they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowsOf {
    /// A seat's row does not say who holds it.
    Embedded,
    /// It does, and must agree with the hold.
    Postgres,
}

pub(super) fn verify(
    db: &Connection,
    rows_of: RowsOf,
    progress: &(dyn Fn(&'static str, usize, usize) + Send + Sync),
) -> Stored<Report> {
    let transaction = db.unchecked_transaction()?;
    let mut survey = Survey { seats_say_who: rows_of == RowsOf::Postgres, ..Survey::default() };
    for (done, (name, check)) in CHECKS.iter().enumerate() {
        progress(name, done, CHECKS.len());
        // A damaged file must not keep the other checks from saying what they find.
        if let Err(error) = check(db, &mut survey) {
            let what = format!("the check of the {name} could not be finished: {error}");
            survey.findings.add(Promise::O, "checks", what);
        }
    }
    progress("done", CHECKS.len(), CHECKS.len());
    transaction.finish()?;
    Ok(Report { counted: survey.counted, violations: survey.findings.finish() })
}

/// A seat: the key of its event and its ordinal.
type Place = (i64, u32);

/// What has been read so far.
#[derive(Default)]
struct Survey {
    /// Who holds a seat is in its row too.
    seats_say_who: bool,
    findings: Findings,
    counted: Vec<(&'static str, u64)>,
    events: FxHashMap<i64, EventSeen>,
    holds: FxHashMap<HoldId, HoldSeen>,
    bookings: FxHashMap<BookingId, BookingSeen>,
    /// Seats that active holds list and that were not yet seen to be theirs.
    claims: FxHashMap<Place, Claim>,
    /// Seats of valid tickets that were not yet seen to be sold with them.
    tickets: FxHashMap<Place, TicketId>,
    areas: FxHashMap<AreaId, AreaUse>,
    blocked: FxHashSet<Place>,
}

struct EventSeen {
    id: EventId,
    seat_count: u32,
    tiers: usize,
    blocks: usize,
    /// See [`told`].
    told: u64,
}

/// Small, because there is one for every hold that ever was.
struct HoldSeen {
    status: u8,
    created: u8,
    ended: u8,
    /// The status that the last ending fact stands for.
    ended_as: u8,
    told: u64,
}

struct BookingSeen {
    event_key: i64,
    cancelled: bool,
    places: u32,
    tickets: u32,
    confirmed_facts: u8,
    cancelled_facts: u8,
    told: u64,
}

#[derive(Clone, Copy)]
struct Claim {
    hold: HoldId,
    until: Time,
}

/// What active holds and valid tickets take of an area.
#[derive(Default)]
struct AreaUse {
    held: u64,
    sold: u64,
}

impl Survey {
    fn violation(&mut self, promise: Promise, check: &'static str, what: String) {
        self.findings.add(promise, check, what);
    }

    /// The seat's id, or what is known of it when its event is missing.
    fn seat_name(&self, (event_key, ordinal): Place) -> String {
        match self.events.get(&event_key) {
            Some(event) => SeatId::of(event.id, ordinal).to_string(),
            None => format!("{ordinal} of the unknown event {event_key}"),
        }
    }
}
