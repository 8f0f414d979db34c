//! Promise X: a recorded answer is about something that exists, and a key has one.

use rowlock_core::Outcome;
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::Survey;
use crate::sqlite::codec::{self, Stored};
use crate::verify::Promise;

pub(super) fn records(db: &Connection, survey: &mut Survey) -> Stored<()> {
    let sql = "SELECT org_id, actor, key, fingerprint, outcome FROM idempotency_records
               ORDER BY org_id, actor, key";
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut before: Option<(Uuid, String, String)> = None;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += 1;
        let key = (codec::uuid(row, 0)?, row.get(1)?, row.get(2)?);
        let name = format!("the record of key {:?} of {} in org {}", key.2, key.1, key.0);
        record(db, row, &name, survey)?;
        if before.as_ref() == Some(&key) {
            survey.violation(Promise::X, "keys with two records", format!("{name} is there twice"));
        }
        before = Some(key);
    }
    survey.counted.push(("idempotency records", count));
    Ok(())
}

fn record(db: &Connection, row: &Row, name: &str, survey: &mut Survey) -> Stored<()> {
    if row.get_ref(3)?.as_blob().map_or(0, <[u8]>::len) != 16 {
        let what = format!("{name} has a fingerprint that is none");
        survey.violation(Promise::X, "fingerprints", what);
    }
    let Ok(outcome) = serde_json::from_str::<Outcome>(codec::text(row, 4)?) else {
        survey.violation(Promise::X, "unreadable answers", format!("{name} can't be read"));
        return Ok(());
    };
    let (noun, id) = subject(&outcome);
    let exists = match &outcome {
        Outcome::Hold(answer) => survey.holds.contains_key(&answer.hold.id),
        Outcome::Booking(answer) => survey.bookings.contains_key(&answer.booking.id),
        _ => is_stored(db, noun, id)?,
    };
    if !exists {
        let what = format!("{name} tells of {noun} {id}, which does not exist");
        survey.violation(Promise::X, "answers about nothing", what);
    }
    Ok(())
}

/// What an answer is about.
fn subject(outcome: &Outcome) -> (&'static str, Uuid) {
    match outcome {
        Outcome::Org(org) => ("org", org.id.uuid()),
        Outcome::ApiKey(key) => ("API key", key.id.uuid()),
        Outcome::Event(event) => ("event", event.id.uuid()),
        Outcome::Block(block) => ("block", block.id.uuid()),
        Outcome::Seats(created) => ("event", created.event.uuid()),
        Outcome::Area(area) => ("area", area.id.uuid()),
        Outcome::Blocking(changed) => ("event", changed.event.uuid()),
        Outcome::Hold(answer) => ("hold", answer.hold.id.uuid()),
        Outcome::Booking(answer) => ("booking", answer.booking.id.uuid()),
    }
}

/// For the few answers about things that are not kept in memory.
fn is_stored(db: &Connection, noun: &str, id: Uuid) -> Stored<bool> {
    let sql = match noun {
        "org" => "SELECT count(*) FROM organizations WHERE id = ?1",
        "API key" => "SELECT count(*) FROM api_keys WHERE id = ?1",
        "block" => "SELECT count(*) FROM blocks WHERE id = ?1",
        "area" => "SELECT count(*) FROM areas WHERE id = ?1",
        _ => "SELECT count(*) FROM events WHERE id = ?1",
    };
    Ok(db.prepare_cached(sql)?.query_row([id.as_bytes()], |row| row.get::<_, i64>(0))? > 0)
}
