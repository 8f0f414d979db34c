//! Writing: the rows that changed, each against the version it was read with, then the journal.

use std::sync::Arc;

use rowlock_core::booking::{Admits, Booking};
use rowlock_core::hold::Hold;
use rowlock_core::limits::IDEMPOTENCY_TTL_MILLIS;
use rowlock_core::seat::{Seat, SeatState};
use rowlock_core::slice::{EventRow, Row, Slice};
use rowlock_core::{EventId, Fact, IdSource, Request, SeatId, Stream, Time};
use rusqlite::{Connection, OptionalExtension, Statement};
use rustc_hash::FxHashMap;

use super::append::Append;
use super::codec::{self, StoreError, Stored};
use super::load::EventCache;
use super::seats::{self, Seats};
use crate::columns;

pub(super) struct Store<'c> {
    db: &'c Connection,
    seat: Statement<'c>,
    holds: Append<'c>,
    journal: Append<'c>,
    sequence: Statement<'c>,
    /// Key and newest sequence of each stream. Only the writer appends, so its memory of them is exact.
    streams: FxHashMap<Stream, (i64, u64)>,
    compare: bool,
}

/// Streams that the writer remembers at most.
const MAX_CACHED_STREAMS: usize = 8192;

const SET_SEAT: &str = "UPDATE seats SET status = ?1, version = version + 1, ticket_id = ?2, room = ?3 \
     WHERE key = ?4 AND version = ?5";

/// Bytes that the columns of a seat that change take together, with those of `room`: an id and a version, and those of the time that
/// was among them before holds alone said who holds a seat, so that rows from then keep their size too.
const ROOM: usize = 16 + 3 + 6;

impl<'c> Store<'c> {
    /// `compare: false` is for the test that shows what the version is good for.
    pub fn new(db: &'c Connection, compare: bool) -> Stored<Self> {
        let set_seat =
            if compare { SET_SEAT.to_owned() } else { SET_SEAT.replace("version = ?5", "?5 >= 0") };
        Ok(Self {
            db,
            seat: db.prepare(&set_seat)?,
            // What fails is rolled back with its batch, so SQLite need not be able to undo the statement alone: OR FAIL.
            holds: Append::prepare(
                db,
                "INSERT OR FAIL INTO holds (id, event_key, user_id, cart_token, status, version, source, places, seats, areas,
                     created_at, expires_at, max_expires_at, checkout_at, ended_at, booking_id)",
                "(?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?,
            journal: Append::prepare(
                db,
                "INSERT OR FAIL INTO journal (key, id, kind, at, actor, request_id, data)",
                "(?, ?, ?, ?, ?, ?, ?)",
            )?,
            sequence: db.prepare("UPDATE streams SET seq = ?2 WHERE key = ?1")?,
            streams: FxHashMap::default(),
            compare,
        })
    }

    /// Forgets what a transaction that did not commit may have put in memory.
    pub fn forget(&mut self) {
        self.streams.clear();
    }

    pub fn write(&mut self, slice: &Slice, events: &mut EventCache, seats: &Seats, now: Time) -> Stored<()> {
        self.write_orgs(slice)?;
        for row in slice.changed_events() {
            self.write_event(row, events)?;
        }
        for added in slice.new_sections() {
            self.write_sections(added, events)?;
        }
        for (id, row) in slice.changed_seats() {
            let key = events.seat_key(slice, id).ok_or(StoreError::Corrupt("the event of a seat"))?;
            if seats.must_write(key, row.value.state) {
                self.write_seat(key, row)?;
            }
        }
        self.write_areas(slice, events)?;
        // Holds that end make room in their carts before new ones come.
        for row in slice.changed_holds() {
            if let Some(version) = row.version {
                self.update_hold(&row.value, version)?;
            }
        }
        // In the order of their ids, which is the order on disk: pages fill up one after another.
        let mut fresh: Vec<&Hold> =
            slice.changed_holds().filter(|row| row.version.is_none()).map(|row| &*row.value).collect();
        fresh.sort_unstable_by_key(|hold| hold.id);
        self.add_holds(&fresh, events)?;
        for row in slice.changed_bookings() {
            match row.version {
                None => self.insert_booking(&row.value, events)?,
                Some(version) => self.update_booking(&row.value, version)?,
            }
        }
        self.write_records(slice, now)
    }

    fn write_orgs(&self, slice: &Slice) -> Stored<()> {
        for org in slice.changed_orgs() {
            self.db
                .prepare_cached("INSERT INTO organizations (id, name, created_at) VALUES (?1, ?2, ?3)")?
                .execute((org.id.as_bytes(), org.name.as_str(), org.created_at.millis()))?;
        }
        for row in slice.changed_keys() {
            let key = &row.value;
            if row.version.is_some() {
                let revoked = key.revoked_at.map(Time::millis);
                let mut statement =
                    self.db.prepare_cached("UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1")?;
                self.one_row(statement.execute((key.id.as_bytes(), revoked))?, "key")?;
                continue;
            }
            self.db
                .prepare_cached(
                    "INSERT INTO api_keys (id, org_id, name, scopes, secret_hash, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute((
                    key.id.as_bytes(),
                    key.org.as_bytes(),
                    key.name.as_str(),
                    columns::scopes_text(key),
                    key.secret_hash,
                    key.created_at.millis(),
                ))?;
        }
        Ok(())
    }

    fn write_event(&self, row: &Row<Arc<EventRow>>, events: &mut EventCache) -> Stored<()> {
        let event = &row.value.event;
        let (key, known_blocks) = match events.row(event.id) {
            Some(before) => {
                let key = events.key(event.id).ok_or(StoreError::Corrupt("an event"))?;
                let mut statement =
                    self.db.prepare_cached("UPDATE events SET seat_count = ?2 WHERE key = ?1")?;
                self.one_row(statement.execute((key, row.value.seat_count))?, "event")?;
                (key, before.blocks.len())
            }
            None => (self.insert_event(&row.value)?, 0),
        };
        for (position, block) in row.value.blocks.iter().enumerate().skip(known_blocks) {
            self.db
                .prepare_cached("INSERT INTO blocks (event_key, position, id, name) VALUES (?1, ?2, ?3, ?4)")?
                .execute((key, position, block.id.as_bytes(), block.name.as_str()))?;
        }
        events.put(key, Arc::clone(&row.value));
        Ok(())
    }

    fn insert_event(&self, row: &EventRow) -> Stored<i64> {
        let event = &row.event;
        let json =
            |value: Result<String, serde_json::Error>| value.map_err(|_| StoreError::Corrupt("an event"));
        self.db
            .prepare_cached(
                "INSERT INTO events (id, org_id, name, currency, tiers, policy, seat_count, seat_id_prefix, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute((
                event.id.as_bytes(),
                event.org.as_bytes(),
                event.name.as_str(),
                event.currency.as_str(),
                json(serde_json::to_string(&event.tiers))?,
                json(serde_json::to_string(&event.policy))?,
                row.seat_count,
                SeatId::prefix(event.id),
                event.created_at.millis(),
            ))?;
        Ok(self.db.last_insert_rowid())
    }

    fn write_sections(&self, added: &rowlock_core::fact::SectionsAdded, events: &EventCache) -> Stored<()> {
        let key = key_of(events, added.event)?;
        let blocks = &events.row(added.event).ok_or(StoreError::Corrupt("an event"))?.blocks;
        let mut statement = self.db.prepare_cached(
            "INSERT INTO seats (key, status, version, tier, block, row, number, x, y, room)
             VALUES (?1, 0, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        let room = room(0, 1, false);
        let mut ordinal = added.first_ordinal;
        for section in &added.sections {
            let block = blocks.iter().position(|block| block.id == section.block);
            let block = block.ok_or(StoreError::Corrupt("the block of a section"))?;
            for place in section.places() {
                let row = place.row.as_str();
                let key = codec::seat_key(key, ordinal);
                statement.execute((key, place.tier, block, row, place.number, place.x, place.y, room))?;
                ordinal += 1;
            }
        }
        Ok(())
    }

    fn write_seat(&mut self, key: i64, row: &Row<Seat>) -> Stored<()> {
        let status = seats::stored(row.value.state) as u8;
        let ticket = match &row.value.state {
            SeatState::Sold { ticket } => Some(ticket.as_bytes()),
            SeatState::Available | SeatState::Held { .. } | SeatState::Blocked => None,
        };
        let version = row.version.ok_or(StoreError::Corrupt("a seat"))?;
        let room = room(status, version + 1, ticket.is_some());
        let changed = self.seat.execute((status, ticket, room, key, version))?;
        self.one_row(changed, "seat")
    }

    fn write_areas(&self, slice: &Slice, events: &EventCache) -> Stored<()> {
        for row in slice.changed_areas() {
            let area = &row.value;
            let Some(version) = row.version else {
                let key = key_of(events, area.event)?;
                let event = events.row(area.event).ok_or(StoreError::Corrupt("an event"))?;
                let position = event.areas.iter().position(|(id, _)| *id == area.id);
                self.db
                    .prepare_cached(
                        "INSERT INTO areas (id, event_key, position, name, tier, capacity, held, sold, version)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1)",
                    )?
                    .execute((
                        area.id.as_bytes(),
                        key,
                        position,
                        area.name.as_str(),
                        area.tier,
                        area.capacity,
                        area.held,
                        area.sold,
                    ))?;
                continue;
            };
            let mut statement = self.db.prepare_cached(
                "UPDATE areas SET held = ?2, sold = ?3, version = version + 1 WHERE id = ?1 AND version = ?4",
            )?;
            let changed = statement.execute((area.id.as_bytes(), area.held, area.sold, version))?;
            self.one_row(changed, "area")?;
        }
        Ok(())
    }

    fn add_holds(&mut self, holds: &[&Hold], events: &EventCache) -> Stored<()> {
        self.holds.add(holds, |hold, values| {
            values.push(hold.id.as_bytes())?;
            values.push(key_of(events, hold.event)?)?;
            values.push(hold.user.as_str())?;
            values.push(hold.cart.as_str())?;
            values.push(hold.status as u8)?;
            values.push(hold.source as u8)?;
            values.push(hold.places())?;
            values.push(columns::seats_json(hold))?;
            values.push(columns::areas_json(hold))?;
            values.push(hold.created_at.millis())?;
            values.push(hold.expires_at.millis())?;
            values.push(hold.max_expires_at.millis())?;
            values.push(hold.checkout_at.map(Time::millis))?;
            values.push(hold.ended_at.map(Time::millis))?;
            values.push(hold.booking.map(|booking| *booking.as_bytes()))
        })
    }

    fn update_hold(&self, hold: &Hold, version: u64) -> Stored<()> {
        let mut statement = self.db.prepare_cached(
            "UPDATE holds SET status = ?2, version = version + 1, places = ?3, seats = ?4, areas = ?5, expires_at = ?6,
                 checkout_at = ?7, ended_at = ?8, booking_id = ?9
             WHERE id = ?1 AND version = ?10",
        )?;
        let changed = statement.execute((
            hold.id.as_bytes(),
            hold.status as u8,
            hold.places(),
            columns::seats_json(hold),
            columns::areas_json(hold),
            hold.expires_at.millis(),
            hold.checkout_at.map(Time::millis),
            hold.ended_at.map(Time::millis),
            hold.booking.map(|booking| *booking.as_bytes()),
            version,
        ))?;
        self.one_row(changed, "hold")
    }

    fn insert_booking(&self, booking: &Booking, events: &EventCache) -> Stored<()> {
        let key = key_of(events, booking.event)?;
        self.db
            .prepare_cached(
                "INSERT INTO bookings (id, hold_id, event_key, user_id, status, version, source, places,
                     payment_reference, created_at, cancelled_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute((
                booking.id.as_bytes(),
                booking.hold.as_bytes(),
                key,
                booking.user.as_str(),
                booking.status as u8,
                booking.source as u8,
                booking.tickets.len(),
                booking.payment_reference.as_ref().map(|reference| reference.as_str()),
                booking.created_at.millis(),
                booking.cancelled_at.map(Time::millis),
            ))?;
        let mut statement = self.db.prepare_cached(
            "INSERT INTO tickets (id, booking_id, position, event_key, ordinal, area_id, price)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        for (position, ticket) in booking.tickets.iter().enumerate() {
            let (ordinal, area) = match &ticket.admits {
                Admits::Seat(ordinal) => (Some(*ordinal), None),
                Admits::Area(area) => (None, Some(area.as_bytes())),
            };
            let (id, booking) = (ticket.id.as_bytes(), booking.id.as_bytes());
            statement.execute((id, booking, position, key, ordinal, area, ticket.price))?;
        }
        Ok(())
    }

    fn update_booking(&self, booking: &Booking, version: u64) -> Stored<()> {
        let mut statement = self.db.prepare_cached(
            "UPDATE bookings SET status = ?2, cancelled_at = ?3, version = version + 1 WHERE id = ?1 AND version = ?4",
        )?;
        let cancelled_at = booking.cancelled_at.map(Time::millis);
        let changed =
            statement.execute((booking.id.as_bytes(), booking.status as u8, cancelled_at, version))?;
        self.one_row(changed, "booking")
    }

    fn write_records(&self, slice: &Slice, now: Time) -> Stored<()> {
        for (key, record) in slice.fresh_records() {
            let outcome = serde_json::to_string(&record.outcome);
            let outcome = outcome.map_err(|_| StoreError::Corrupt("an answer"))?;
            let expires_at = now.plus_millis(IDEMPOTENCY_TTL_MILLIS).millis();
            self.db
                .prepare_cached(
                    "INSERT INTO idempotency_records (org_id, actor, key, fingerprint, outcome, expires_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                     ON CONFLICT DO UPDATE SET fingerprint = ?4, outcome = ?5, expires_at = ?6 WHERE expires_at <= ?7",
                )?
                .execute((
                    key.org.as_bytes(),
                    key.actor.to_string(),
                    &*key.key,
                    record.fingerprint,
                    outcome,
                    expires_at,
                    now.millis(),
                ))
                .map_err(StoreError::from)
                .and_then(|changed| self.one_row(changed, "idempotency record"))?;
        }
        Ok(())
    }

    /// Appends facts to their streams and returns the sequence of each. The last writes of a batch.
    pub fn append(
        &mut self,
        facts: &[(&Request, &Fact)],
        now: Time,
        ids: &mut dyn IdSource,
    ) -> Stored<Vec<u64>> {
        let mut sequences = Vec::with_capacity(facts.len());
        let mut rows = Vec::with_capacity(facts.len());
        let mut touched: Vec<Stream> = Vec::new();
        for (request, fact) in facts {
            let stream = fact.stream();
            let key = self.load_stream(stream)?;
            if !touched.contains(&stream) {
                touched.push(stream);
            }
            let entry = self.streams.get_mut(&stream).ok_or(StoreError::Corrupt("a stream"))?;
            entry.1 += 1;
            sequences.push(entry.1);
            rows.push((codec::journal_key(key, entry.1), ids.next(now), *request, *fact));
        }
        rows.sort_unstable_by_key(|(key, ..)| *key);
        let appended = self.journal.add(&rows, |(key, id, request, fact), values| {
            values.push(key)?;
            values.push(id.as_bytes())?;
            values.push(fact.kind())?;
            values.push(now.millis())?;
            values.push(request.actor.to_string())?;
            values.push(&*request.request_id)?;
            values.push(rowlock_json::to_string(fact, 512).map_err(|_| StoreError::Corrupt("a fact"))?)
        });
        appended.map_err(|error| error.of_insert("stream"))?;
        for stream in touched {
            let (key, sequence) = self.streams[&stream];
            let changed = self.sequence.execute((key, sequence))?;
            self.one_row(changed, "stream")?;
        }
        Ok(sequences)
    }

    fn load_stream(&mut self, stream: Stream) -> Stored<i64> {
        if let Some((key, _)) = self.streams.get(&stream) {
            return Ok(*key);
        }
        let id = stream.bytes();
        let known = self
            .db
            .prepare_cached("SELECT key, seq FROM streams WHERE id = ?1")?
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (key, sequence) = match known {
            Some(known) => known,
            None => {
                self.db.prepare_cached("INSERT INTO streams (id, seq) VALUES (?1, 0)")?.execute([id])?;
                (self.db.last_insert_rowid(), 0)
            }
        };
        self.streams.insert(stream, (key, sequence));
        Ok(key)
    }

    /// Called between batches.
    pub fn trim(&mut self) {
        if self.streams.len() > MAX_CACHED_STREAMS {
            self.streams.clear();
        }
    }

    fn one_row(&self, changed: usize, what: &'static str) -> Stored<()> {
        if changed == 1 || !self.compare { Ok(()) } else { Err(StoreError::Stale(what)) }
    }
}

fn key_of(events: &EventCache, event: EventId) -> Stored<i64> {
    events.key(event).ok_or(StoreError::Corrupt("the event of a row"))
}

/// What is left of [`ROOM`]. SQLite stores 0 and 1 in no byte, and other integers in as few as they need.
fn room(status: u8, version: u64, has_ticket: bool) -> &'static [u8] {
    let bytes = |number: u64| match number {
        0 | 1 => 0,
        2..0x80 => 1,
        0x80..0x8000 => 2,
        _ => 3,
    };
    let taken = bytes(status.into()) + bytes(version) + 16 * usize::from(has_ticket);
    &[0; ROOM][taken.min(ROOM)..]
}
