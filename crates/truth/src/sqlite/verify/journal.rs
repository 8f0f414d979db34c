//! Promises O and E: each stream counts 1, 2, 3 … up to what it says, and each hold begins and ends in it once.

use rowlock_core::hold::HoldStatus;
use rowlock_core::{BookingId, HoldId};
use rusqlite::Connection;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use uuid::Uuid;

use super::{Survey, told};
use crate::columns;
use crate::sqlite::codec::{self, Stored};
use crate::verify::Promise;

/// What a fact says it is about.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Mention {
    id: Option<Uuid>,
    hold: Option<Uuid>,
    event: Option<Uuid>,
    org: Option<Uuid>,
    ended: bool,
}

struct StreamSeen {
    id: Uuid,
    sequence: u64,
    /// Of the rows read so far.
    last: u64,
}

pub(super) fn journal(db: &Connection, survey: &mut Survey) -> Stored<()> {
    let mut streams = streams(db, survey)?;
    let events: FxHashMap<Uuid, i64> =
        survey.events.iter().map(|(key, event)| (event.id.uuid(), *key)).collect();
    let mut statement = db.prepare("SELECT stream_key, seq, kind, data FROM journal ORDER BY key")?;
    let mut rows = statement.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += 1;
        let (key, sequence): (i64, u64) = (row.get(0)?, row.get(1)?);
        let Some(stream) = streams.get_mut(&key) else {
            let what = format!("the journal has a row {sequence} of the unknown stream {key}");
            survey.violation(Promise::O, "rows without a stream", what);
            continue;
        };
        let (id, expected) = (stream.id, stream.last + 1);
        stream.last = sequence;
        if sequence != expected {
            let what = format!("the journal of {id} goes on with {sequence} where {expected} should come");
            survey.violation(Promise::O, "gaps in the journal", what);
        }
        let (kind, data) = (codec::text(row, 2)?, codec::text(row, 3)?);
        let told = columns::fact(kind, data);
        if let Ok(told) = &told {
            told::fact(survey, events.get(&id).copied(), told);
        }
        match serde_json::from_str::<Mention>(data) {
            Ok(mention) if told != Err(columns::Corrupt(columns::FACT)) => {
                fact(survey, kind, &mention, id, sequence);
            }
            _ => {
                let what = format!("row {sequence} in the journal of {id} can't be read");
                survey.violation(Promise::O, "unreadable journal rows", what);
            }
        }
    }
    survey.counted.push(("journal rows", count));
    lengths(survey, streams);
    lives(survey);
    booking_facts(survey);
    told::rest(survey);
    Ok(())
}

fn streams(db: &Connection, survey: &mut Survey) -> Stored<FxHashMap<i64, StreamSeen>> {
    let mut owners: FxHashSet<Uuid> = survey.events.values().map(|event| event.id.uuid()).collect();
    let mut statement = db.prepare("SELECT id FROM organizations")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        owners.insert(codec::uuid(row, 0)?);
    }
    let mut statement = db.prepare("SELECT key, id, seq FROM streams")?;
    let mut rows = statement.query([])?;
    let mut streams = FxHashMap::default();
    while let Some(row) = rows.next()? {
        let stream = StreamSeen { id: codec::uuid(row, 1)?, sequence: row.get(2)?, last: 0 };
        if !owners.remove(&stream.id) {
            let what = format!("there is a journal of {}, which is no event or org", stream.id);
            survey.violation(Promise::O, "streams of nobody", what);
        }
        streams.insert(row.get(0)?, stream);
    }
    let mut silent: Vec<Uuid> = owners.into_iter().collect();
    silent.sort_unstable();
    for id in silent {
        survey.violation(Promise::O, "missing journals", format!("{id} has no journal"));
    }
    Ok(streams)
}

fn fact(survey: &mut Survey, kind: &str, mention: &Mention, stream: Uuid, sequence: u64) {
    let belongs_to = match kind {
        "ORG-CREATED" | "EVENT-CREATED" => mention.id,
        "API-KEY-CREATED" | "API-KEY-REVOKED" => mention.org,
        _ => mention.event,
    };
    if belongs_to != Some(stream) {
        let what = format!("row {sequence} in the journal of {stream} belongs to another");
        survey.violation(Promise::O, "rows in the wrong stream", what);
    }
    match kind {
        // A cart that grew has the same type as a new one, and names its hold another way.
        "SEAT-HOLD-CREATED" if mention.hold.is_none() => begins(survey, mention.id),
        "SEAT-HOLD-CONFIRMED" => ends(survey, mention.hold, HoldStatus::Converted),
        "SEAT-HOLD-EXPIRED" => ends(survey, mention.hold, HoldStatus::Expired),
        "SEAT-HOLD-CANCELLED" if mention.ended => ends(survey, mention.hold, HoldStatus::Cancelled),
        "SEAT-HOLD-CREATED" | "SEAT-HOLD-CANCELLED" | "SEAT-HOLD-EXTENDED" => named(survey, mention.hold),
        "BOOKING-CONFIRMED" | "BOOKING-CANCELLED" => booking(survey, kind, mention.id),
        _ => {}
    }
}

fn begins(survey: &mut Survey, hold: Option<Uuid>) {
    match hold.and_then(|id| survey.holds.get_mut(&HoldId::from_uuid(id))) {
        Some(seen) => seen.created = seen.created.saturating_add(1),
        None => unknown(survey, "hold", hold),
    }
}

fn ends(survey: &mut Survey, hold: Option<Uuid>, status: HoldStatus) {
    match hold.and_then(|id| survey.holds.get_mut(&HoldId::from_uuid(id))) {
        Some(seen) => {
            seen.ended = seen.ended.saturating_add(1);
            seen.ended_as = status as u8;
        }
        None => unknown(survey, "hold", hold),
    }
}

fn named(survey: &mut Survey, hold: Option<Uuid>) {
    if !hold.is_some_and(|id| survey.holds.contains_key(&HoldId::from_uuid(id))) {
        unknown(survey, "hold", hold);
    }
}

fn booking(survey: &mut Survey, kind: &str, booking: Option<Uuid>) {
    match booking.and_then(|id| survey.bookings.get_mut(&BookingId::from_uuid(id))) {
        Some(seen) => {
            let facts = match kind {
                "BOOKING-CONFIRMED" => &mut seen.confirmed_facts,
                _ => &mut seen.cancelled_facts,
            };
            *facts = facts.saturating_add(1);
        }
        None => unknown(survey, "booking", booking),
    }
}

fn unknown(survey: &mut Survey, noun: &str, id: Option<Uuid>) {
    let what = format!("the journal tells of {noun} {}, which does not exist", id.unwrap_or_default());
    survey.violation(Promise::O, "facts about nothing", what);
}

/// Each stream is as long as it says.
fn lengths(survey: &mut Survey, streams: FxHashMap<i64, StreamSeen>) {
    let mut streams: Vec<StreamSeen> =
        streams.into_values().filter(|stream| stream.last != stream.sequence).collect();
    streams.sort_unstable_by_key(|stream| stream.id);
    for stream in streams {
        let StreamSeen { id, sequence, last } = stream;
        let what = format!("the journal of {id} should end with {sequence} and ends with {last}");
        survey.violation(Promise::O, "journals of another length", what);
    }
}

/// Each hold was created once and has ended once, as its row says, or not at all.
fn lives(survey: &mut Survey) {
    let mut wrong: Vec<(HoldId, &'static str, Promise, String)> = Vec::new();
    for (id, seen) in &survey.holds {
        let Some(status) = HoldStatus::ALL.get(usize::from(seen.status)) else {
            let what = format!("hold {id} has the unknown status {}", seen.status);
            wrong.push((*id, "holds of unknown status", Promise::E, what));
            continue;
        };
        if seen.created != 1 {
            let what = format!("hold {id} was created {} times by the journal", seen.created);
            wrong.push((*id, "beginnings of holds", Promise::O, what));
        }
        let expected = u8::from(*status != HoldStatus::Active);
        if seen.ended != expected || (expected == 1 && seen.ended_as != seen.status) {
            let as_what = match HoldStatus::ALL.get(usize::from(seen.ended_as)) {
                Some(last) if seen.ended > 0 => format!(", at last as {}", last.as_str()),
                _ => String::new(),
            };
            let status = status.as_str();
            let what =
                format!("hold {id} is {status} and ended {} times by the journal{as_what}", seen.ended);
            wrong.push((*id, "endings of holds", Promise::E, what));
        }
    }
    wrong.sort_unstable_by_key(|(id, ..)| *id);
    for (_, kind, promise, what) in wrong {
        survey.violation(promise, kind, what);
    }
}

/// Each booking was confirmed once and cancelled once, or not at all.
fn booking_facts(survey: &mut Survey) {
    let is_wrong = |facts: (u8, u8), cancelled: bool| facts != (1, u8::from(cancelled));
    let mut wrong: Vec<(BookingId, String)> = survey
        .bookings
        .iter()
        .filter(|(_, seen)| is_wrong((seen.confirmed_facts, seen.cancelled_facts), seen.cancelled))
        .map(|(id, seen)| {
            let status = if seen.cancelled { "cancelled" } else { "confirmed" };
            let (confirmed, cancelled) = (seen.confirmed_facts, seen.cancelled_facts);
            let what = format!(
                "booking {id} is {status}, by the journal confirmed {confirmed} times and cancelled {cancelled} times"
            );
            (*id, what)
        })
        .collect();
    wrong.sort_unstable_by_key(|(id, _)| *id);
    for (_, what) in wrong {
        survey.violation(Promise::E, "lives of bookings", what);
    }
}
