//! The reads.

use rowlock_core::booking::Booking;
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::org::{ApiKey, Org};
use rowlock_core::seat::{SeatPlace, SeatState};
use rowlock_core::text::Row as SeatRow;
use rowlock_core::{BookingId, EventId, HoldId, JournalId, KeyId, OrgId, SeatId, Stream, Time, UserId};
use rusqlite::{Connection, Params, Row};
use rustc_hash::FxHashMap;

use super::codec::{
    self, AFTER_BOOKING, AFTER_HOLD, AREA_COLUMNS, BOOKING_COLUMNS, EVENT_COLUMNS, HOLD_COLUMNS, KEY_COLUMNS,
    ORG_COLUMNS, SEAT_COLUMNS, StoreError, Stored,
};
use super::load::{read_event, tickets};
use crate::columns;
use crate::read::{ActiveHold, EventPage, EventShape, EventSnapshot, EventSummary, JournalRow, SeatSnapshot};

/// As far as a stream can go.
const MAX_SEQUENCE: u64 = (1 << 40) - 1;
/// Before every id, for the first page.
const FIRST: [u8; 16] = [0; 16];

fn all<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row) -> Stored<T>,
) -> Stored<Vec<T>> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn first<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row) -> Stored<T>,
) -> Stored<Option<T>> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}

pub(super) fn ping(db: &Connection) -> Stored<()> {
    first(db, "SELECT count(*) FROM streams WHERE key < 0", [], |_| Ok(())).map(drop)
}

pub(super) fn org(db: &Connection, id: OrgId) -> Stored<Option<Org>> {
    let sql = format!("SELECT {ORG_COLUMNS} FROM organizations WHERE id = ?1");
    first(db, &sql, [id.as_bytes()], codec::org)
}

pub(super) fn orgs(db: &Connection, after: Option<OrgId>, limit: usize) -> Stored<Vec<Org>> {
    let sql = format!("SELECT {ORG_COLUMNS} FROM organizations WHERE id > ?1 ORDER BY id LIMIT ?2");
    let after = after.map_or(FIRST, |id| *id.as_bytes());
    all(db, &sql, (after, limit), codec::org)
}

pub(super) fn api_key(db: &Connection, id: KeyId) -> Stored<Option<ApiKey>> {
    let sql = format!("SELECT {KEY_COLUMNS} FROM api_keys WHERE id = ?1");
    first(db, &sql, [id.as_bytes()], codec::api_key)
}

pub(super) fn api_keys(
    db: &Connection,
    org: OrgId,
    after: Option<KeyId>,
    limit: usize,
) -> Stored<Vec<ApiKey>> {
    let sql =
        format!("SELECT {KEY_COLUMNS} FROM api_keys WHERE org_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
    let after = after.map_or(FIRST, |id| *id.as_bytes());
    all(db, &sql, (org.as_bytes(), after, limit), codec::api_key)
}

pub(super) fn events(db: &Connection, org: OrgId, after: Option<EventId>, limit: usize) -> Stored<EventPage> {
    let sql = format!(
        "SELECT {EVENT_COLUMNS}, (SELECT count(*) FROM areas WHERE event_key = key)
         FROM events WHERE org_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
    );
    let after = after.map_or(FIRST, |id| *id.as_bytes());
    let events = all(db, &sql, (org.as_bytes(), after, limit), |row| {
        let (event, _, seat_count) = codec::event(row)?;
        Ok(EventSummary { event, seat_count, area_count: row.get(9)? })
    })?;
    Ok(EventPage { events })
}

/// Everything of an event as of one moment: all the reads see the same commit.
pub(super) fn event_snapshot(db: &Connection, id: EventId) -> Stored<Option<EventSnapshot>> {
    let transaction = db.unchecked_transaction()?;
    let sql = format!("SELECT {EVENT_COLUMNS} FROM events WHERE id = ?1");
    let Some((key, row)) = read_event(db, &sql, id.as_bytes())? else { return Ok(None) };
    let sequence =
        first(db, "SELECT seq FROM streams WHERE id = ?1", [id.as_bytes()], |row| Ok(row.get(0)?))?;
    let sql = format!("SELECT {AREA_COLUMNS} FROM areas WHERE event_key = ?1 ORDER BY position");
    let areas = all(db, &sql, [key], |row| Ok(codec::area(row, id)?.0))?;
    let mut held = held_seats(db, key)?;
    let sql = format!(
        "SELECT {SEAT_COLUMNS}, s.block, s.row, s.number, s.x, s.y, s.ordinal
         FROM seats s WHERE s.key >= ?1 AND s.key < ?2 ORDER BY s.key"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query((codec::seat_key(key, 0), codec::seat_key(key + 1, 0)))?;
    let mut seats: Vec<SeatSnapshot> = Vec::with_capacity(row.seat_count as usize);
    while let Some(seat) = rows.next()? {
        let block = row.blocks.get(seat.get::<_, usize>(3)?).ok_or(StoreError::Corrupt("a block"))?.id;
        let name = codec::text(seat, 4)?;
        // Neighbours share a row: one allocation serves all of them.
        let seat_row = match seats.last() {
            Some(last) if last.place.row.as_str() == name => last.place.row.clone(),
            _ => SeatRow::new(name).map_err(|_| StoreError::Corrupt("a row"))?,
        };
        let (number, x, y) = (seat.get(5)?, seat.get(6)?, seat.get(7)?);
        let value = codec::seat(seat)?;
        let place = SeatPlace { block, row: seat_row, number, tier: value.tier, x, y };
        let (state, user) = match (value.state, held.remove(&seat.get(8)?)) {
            (SeatState::Available, Some((held, user))) => (held, Some(user)),
            (state, _) => (state, None),
        };
        seats.push(SeatSnapshot { place, state, user });
    }
    drop(rows);
    drop(statement);
    transaction.finish()?;
    Ok(Some(EventSnapshot { row, areas, seats, sequence: sequence.unwrap_or(0) }))
}

/// The seats of an event that are held, by ordinal, and who holds them.
fn held_seats(db: &Connection, event_key: i64) -> Stored<FxHashMap<u32, (SeatState, UserId)>> {
    let mut statement = db.prepare_cached(
        "SELECT id, expires_at, user_id, seats FROM holds INDEXED BY holds_active
         WHERE status = 0 AND event_key = ?1",
    )?;
    let mut rows = statement.query([event_key])?;
    let mut held = FxHashMap::default();
    while let Some(row) = rows.next()? {
        let (hold, until) = (HoldId::from_uuid(codec::uuid(row, 0)?), codec::time(row, 1)?);
        let user = codec::user(row, 2)?;
        for seat in columns::held_seats(codec::text(row, 3)?)? {
            held.insert(seat.ordinal, (SeatState::Held { hold, until }, user.clone()));
        }
    }
    Ok(held)
}

pub(super) fn seat_states(
    db: &Connection,
    event: EventId,
    seats: &[SeatId],
) -> Stored<Vec<Option<SeatState>>> {
    let transaction = db.unchecked_transaction()?;
    let sql = "SELECT key, seat_count FROM events WHERE id = ?1";
    let found = first(db, sql, [event.as_bytes()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?)))?;
    let Some((key, count)) = found else { return Ok(vec![None; seats.len()]) };
    let held = held_seats(db, key)?;
    let sql = format!("SELECT {SEAT_COLUMNS} FROM seats s WHERE s.key = ?1");
    let state = |seat: &SeatId| {
        let Some(ordinal) = seat.ordinal_in(event).filter(|ordinal| *ordinal < count) else {
            return Ok(None);
        };
        let stored = first(db, &sql, [codec::seat_key(key, ordinal)], |row| Ok(codec::seat(row)?.state))?;
        Ok(match (stored, held.get(&ordinal)) {
            (Some(SeatState::Available), Some((held, _))) => Some(*held),
            (stored, _) => stored,
        })
    };
    let states = seats.iter().map(state).collect();
    transaction.finish()?;
    states
}

pub(super) fn shape(db: &Connection, event: EventId) -> Stored<Option<EventShape>> {
    let sql = "SELECT org_id, seat_count, (SELECT count(*) FROM blocks WHERE event_key = key),
                   (SELECT count(*) FROM areas WHERE event_key = key) FROM events WHERE id = ?1";
    first(db, sql, [event.as_bytes()], |row| {
        let org = OrgId::from_uuid(codec::uuid(row, 0)?);
        Ok(EventShape { org, seats: row.get(1)?, blocks: row.get(2)?, areas: row.get(3)? })
    })
}

pub(super) fn hold(db: &Connection, id: HoldId) -> Stored<Option<Hold>> {
    let sql = format!(
        "SELECT {HOLD_COLUMNS}, e.id, e.org_id, e.currency
         FROM holds h JOIN events e ON e.key = h.event_key WHERE h.id = ?1"
    );
    first(db, &sql, [id.as_bytes()], hold_row)
}

fn hold_row(row: &Row) -> Stored<Hold> {
    Ok(codec::hold(row, codec::event_ref(row, AFTER_HOLD)?)?.0)
}

/// Those of the holds that are still active and this user's.
pub(super) fn active_of(db: &Connection, ids: &[HoldId], org: OrgId, user: &UserId) -> Stored<Vec<Hold>> {
    let mut found = Vec::new();
    for id in ids {
        found.extend(hold(db, *id)?);
    }
    found.retain(|hold| hold.status == HoldStatus::Active && hold.org == org && hold.user == *user);
    Ok(found)
}

pub(super) fn booking(db: &Connection, id: BookingId) -> Stored<Option<Booking>> {
    let transaction = db.unchecked_transaction()?;
    let sql = format!(
        "SELECT {BOOKING_COLUMNS}, e.id, e.org_id, e.currency
         FROM bookings b JOIN events e ON e.key = b.event_key WHERE b.id = ?1"
    );
    let booking = first(db, &sql, [id.as_bytes()], |row| {
        Ok(codec::booking(row, codec::event_ref(row, AFTER_BOOKING)?)?.0)
    })?;
    let Some(mut booking) = booking else { return Ok(None) };
    booking.tickets = tickets(db, id)?;
    transaction.finish()?;
    Ok(Some(booking))
}

pub(super) fn journal(db: &Connection, stream: Stream, after: u64, limit: usize) -> Stored<Vec<JournalRow>> {
    let key = first(db, "SELECT key FROM streams WHERE id = ?1", [stream.bytes()], |row| Ok(row.get(0)?))?;
    let Some(key) = key else { return Ok(Vec::new()) };
    let sql = "SELECT seq, id, kind, at, actor, request_id, data
               FROM journal WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT ?3";
    let (after, end) = (codec::journal_key(key, after.min(MAX_SEQUENCE)), codec::journal_key(key + 1, 0));
    all(db, sql, (after, end, limit), |row| {
        Ok(JournalRow {
            sequence: row.get(0)?,
            id: JournalId::from_uuid(codec::uuid(row, 1)?),
            kind: row.get(2)?,
            at: codec::time(row, 3)?,
            actor: row.get(4)?,
            request_id: row.get(5)?,
            data: row.get(6)?,
        })
    })
}

/// From one event with active holds to the next, each by a look into the index, and in each to those that are due.
const ACTIVE_HOLDS: &str = "WITH RECURSIVE selling (key) AS (
         SELECT min(event_key) FROM holds INDEXED BY holds_active WHERE status = 0
         UNION ALL
         SELECT (SELECT min(event_key) FROM holds INDEXED BY holds_active WHERE status = 0 AND event_key > selling.key)
         FROM selling WHERE selling.key IS NOT NULL
     )
     SELECT h.id, h.expires_at FROM selling CROSS JOIN holds h INDEXED BY holds_active
         ON h.status = 0 AND h.event_key = selling.key AND h.expires_at <= ?1
     ORDER BY h.expires_at LIMIT ?2";

/// Holds that are active by their row and end at `until` or before.
pub(super) fn active_holds(db: &Connection, until: Time, limit: usize) -> Stored<Vec<ActiveHold>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    all(db, ACTIVE_HOLDS, (until.millis(), limit), |row| {
        Ok(ActiveHold { id: HoldId::from_uuid(codec::uuid(row, 0)?), expires_at: codec::time(row, 1)? })
    })
}
