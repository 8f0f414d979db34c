//! Loading the slice: the rows that a batch names, and those that stand in its way.

mod blocks;

use std::sync::Arc;

use rowlock_core::booking::{Admits, BookingStatus};
use rowlock_core::command::{NewSection, Places};
use rowlock_core::event::Block;
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::limits::MAX_ROWS_PER_SECTION;
use rowlock_core::seat::{Seat, SeatState, SeatStatus};
use rowlock_core::slice::{EventRow, RecordKey, Slice, TakenPlace};
use rowlock_core::{AreaId, BlockId, BookingId, Command, EventId, HoldId, Request, SeatId, Time, UserId};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Statement};
use rustc_hash::FxHashMap;

use super::codec::{
    self, AREA_COLUMNS, BOOKING_COLUMNS, EVENT_COLUMNS, EventRef, HOLD_COLUMNS, KEY_COLUMNS, ORG_COLUMNS,
    SEAT_COLUMNS, StoreError, Stored, TICKET_COLUMNS,
};
use super::memory::Memory;
use super::seats::READ_PIECE;
use crate::demand;

/// Events that the writer remembers at most.
const MAX_CACHED_EVENTS: usize = 4096;

/// The statements that every hold runs, prepared once; the others come from the connection's cache.
pub(super) struct Loader<'c> {
    db: &'c Connection,
    seats: Statement<'c>,
    hold: Statement<'c>,
    record: Statement<'c>,
    pub events: EventCache,
    pub memory: Memory,
}

/// Events as they are stored. Only the writer changes them, so its memory of them is exact.
#[derive(Default)]
pub(super) struct EventCache {
    rows: FxHashMap<EventId, (i64, Arc<EventRow>)>,
    ids: FxHashMap<i64, EventId>,
}

impl EventCache {
    pub fn key(&self, id: EventId) -> Option<i64> {
        self.rows.get(&id).map(|(key, _)| *key)
    }

    pub fn row(&self, id: EventId) -> Option<&Arc<EventRow>> {
        self.rows.get(&id).map(|(_, row)| row)
    }

    pub fn put(&mut self, key: i64, row: Arc<EventRow>) {
        self.ids.insert(key, row.event.id);
        self.rows.insert(row.event.id, (key, row));
    }

    /// The key of a seat whose event is in the slice.
    pub fn seat_key(&self, slice: &Slice, id: SeatId) -> Option<i64> {
        let event = slice.events().find(|event| id.ordinal_in(*event).is_some())?;
        Some(codec::seat_key(self.key(event)?, id.raw_ordinal()))
    }

    /// Called between batches: a batch must find to its end the events that it has loaded.
    pub fn trim(&mut self) {
        if self.rows.len() > MAX_CACHED_EVENTS {
            self.clear();
        }
    }

    pub fn clear(&mut self) {
        self.rows.clear();
        self.ids.clear();
    }
}

impl<'c> Loader<'c> {
    pub fn new(db: &'c Connection) -> Stored<Self> {
        let prepare = |sql: &str| db.prepare(sql);
        Ok(Self {
            db,
            seats: prepare(READ_PIECE)?,
            hold: prepare(&format!("SELECT {HOLD_COLUMNS} FROM holds h WHERE id = ?1"))?,
            record: prepare(
                "SELECT fingerprint, outcome FROM idempotency_records
                 WHERE org_id = ?1 AND actor = ?2 AND key = ?3 AND expires_at > ?4",
            )?,
            events: EventCache::default(),
            memory: Memory::load(db)?,
        })
    }

    /// Fills an empty slice with what a batch names.
    pub fn fill(&mut self, mut slice: Slice, batch: &[Request], now: Time) -> Stored<Slice> {
        for request in batch {
            self.load_record(&mut slice, request, now)?;
            self.load_command(&mut slice, request, now)?;
        }
        self.load_blocks(&mut slice, batch, now)?;
        self.load_area_holds(&mut slice, batch, now)?;
        self.load_spots(&mut slice, batch, now)?;
        Ok(slice)
    }

    fn load_command(&mut self, slice: &mut Slice, request: &Request, now: Time) -> Stored<()> {
        match &request.command {
            Command::CreateOrg { .. } => Ok(()),
            Command::CreateApiKey { .. } | Command::CreateEvent { .. } => self.load_org(slice, request),
            Command::RevokeApiKey { key } => self.load_key(slice, key.as_bytes()),
            Command::CreateBlock { event, .. } | Command::CreateArea { event, .. } => {
                self.load_event(slice, *event).map(drop)
            }
            Command::CreateSeats { event, sections } => self.load_taken_place(slice, *event, sections),
            Command::BlockSeats { event, seats } | Command::UnblockSeats { event, seats } => {
                self.load_seats(slice, *event, seats, now)
            }
            Command::Hold(places) => {
                self.load_places(slice, places, now)?;
                self.load_cart(slice, places, now)
            }
            Command::Book { places, .. } => self.load_places(slice, places, now),
            Command::Release { hold, seats, .. } => {
                self.load_hold(slice, *hold)?;
                let Some(event) = slice.hold(*hold).map(|hold| hold.event) else { return Ok(()) };
                self.load_seats(slice, event, seats, now)
            }
            Command::StartCheckout { hold, .. }
            | Command::Heartbeat { hold, .. }
            | Command::Confirm { hold, .. }
            | Command::Expire { hold } => self.load_hold(slice, *hold),
            Command::CancelBooking { booking, .. } => self.load_booking(slice, *booking),
        }
    }

    fn load_record(&mut self, slice: &mut Slice, request: &Request, now: Time) -> Stored<()> {
        let Some(key) = &request.idempotency else { return Ok(()) };
        let actor = request.actor.to_string();
        let mut rows = self.record.query((request.org.as_bytes(), &actor, &*key.key, now.millis()))?;
        if let Some(row) = rows.next()? {
            let outcome = serde_json::from_str(codec::text(row, 1)?);
            let outcome = outcome.map_err(|_| StoreError::Corrupt("a recorded answer"))?;
            let key = RecordKey { org: request.org, actor: request.actor.clone(), key: Arc::clone(&key.key) };
            slice.load_record(key, row.get(0)?, outcome);
        }
        Ok(())
    }

    fn load_org(&self, slice: &mut Slice, request: &Request) -> Stored<()> {
        let sql = format!("SELECT {ORG_COLUMNS} FROM organizations WHERE id = ?1");
        let mut statement = self.cached(&sql)?;
        let mut rows = statement.query([request.org.as_bytes()])?;
        if let Some(row) = rows.next()? {
            slice.load_org(codec::org(row)?);
        }
        Ok(())
    }

    fn load_key(&self, slice: &mut Slice, id: &[u8; 16]) -> Stored<()> {
        let mut statement = self.cached(&format!("SELECT {KEY_COLUMNS} FROM api_keys WHERE id = ?1"))?;
        let mut rows = statement.query([id])?;
        if let Some(row) = rows.next()? {
            slice.load_key(codec::api_key(row)?);
        }
        Ok(())
    }

    /// The event's key, `None` when there is no such event.
    fn load_event(&mut self, slice: &mut Slice, id: EventId) -> Stored<Option<i64>> {
        if let Some((key, row)) = self.events.rows.get(&id) {
            if slice.event_row(id).is_none() {
                slice.load_event(Arc::clone(row));
            }
            return Ok(Some(*key));
        }
        let sql = format!("SELECT {EVENT_COLUMNS} FROM events WHERE id = ?1");
        self.read_event(slice, &sql, id.as_bytes())
    }

    fn read_event(&mut self, slice: &mut Slice, sql: &str, id: impl rusqlite::ToSql) -> Stored<Option<i64>> {
        let Some((key, row)) = read_event(self.db, sql, id)? else { return Ok(None) };
        let row = Arc::new(row);
        slice.load_event(Arc::clone(&row));
        self.events.put(key, row);
        Ok(Some(key))
    }

    /// A place that new seats would take and that is a seat already, if there is one.
    fn load_taken_place(&mut self, slice: &mut Slice, event: EventId, sections: &[NewSection]) -> Stored<()> {
        let Some(key) = self.load_event(slice, event)? else { return Ok(()) };
        if demand::creates_too_many(sections) {
            return Ok(());
        }
        let blocks = &self.events.rows[&event].1.blocks;
        let mut statement = self.cached(
            "SELECT number FROM seats
             WHERE event_key = ?1 AND block = ?2 AND row = ?3 AND number BETWEEN ?4 AND ?5 LIMIT 1",
        )?;
        for new in sections {
            let Some(block) = blocks.iter().position(|block| block.name == new.block) else { continue };
            let (first, last) = (new.section.first_number, new.section.last_number);
            for row in new.section.rows.iter().take(MAX_ROWS_PER_SECTION) {
                let taken = statement.query_row((key, block, row.as_str(), first, last), |row| row.get(0));
                if let Some(number) = taken.optional()? {
                    let (block, row) = (new.block.clone(), row.clone());
                    slice.load_taken_place(event, TakenPlace { block, row, number });
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn event_by_key(&mut self, slice: &mut Slice, key: i64) -> Stored<EventRef> {
        match self.events.ids.get(&key) {
            Some(id) => self.load_event(slice, *id)?,
            None => {
                self.read_event(slice, &format!("SELECT {EVENT_COLUMNS} FROM events WHERE key = ?1"), key)?
            }
        };
        let id = self.events.ids.get(&key).ok_or(StoreError::Corrupt("the event of a row"))?;
        let event = &self.events.rows[id].1.event;
        Ok(EventRef { id: event.id, org: event.org, currency: event.currency })
    }

    fn load_places(&mut self, slice: &mut Slice, places: &Places, now: Time) -> Stored<()> {
        let Some(key) = self.load_event(slice, places.event)? else { return Ok(()) };
        self.load_seats(slice, places.event, &places.seats, now)?;
        for (area, _) in &places.areas {
            self.load_area(slice, places.event, *area)?;
        }
        let policy = &self.events.rows[&places.event].1.event.policy;
        if policy.seats_per_user.is_some() && !slice.has_usage(places.event, &places.user) {
            let used = self.usage(key, &places.user, now)?;
            slice.load_usage(places.event, places.user.clone(), used);
        }
        Ok(())
    }

    fn usage(&self, event_key: i64, user: &UserId, now: Time) -> Stored<u32> {
        let mut bookings = self.cached(
            "SELECT coalesce(sum(places), 0) FROM bookings WHERE user_id = ?1 AND event_key = ?2 AND status = 0",
        )?;
        let mut used: u32 = bookings.query_row((user.as_str(), event_key), |row| row.get(0))?;
        let mut hold = self.cached(
            "SELECT places FROM holds
             WHERE id = ?1 AND status = 0 AND expires_at > ?2 AND event_key = ?3 AND user_id = ?4",
        )?;
        for id in self.memory.carts.holds_of(event_key, user) {
            let named = (id.as_bytes(), now.millis(), event_key, user.as_str());
            let places: Option<u32> = hold.query_row(named, |row| row.get(0)).optional()?;
            used += places.unwrap_or(0);
        }
        Ok(used)
    }

    /// Seats of an event, and who stands in the way on those that are held.
    fn load_seats(&mut self, slice: &mut Slice, event: EventId, seats: &[SeatId], now: Time) -> Stored<()> {
        let Some(key) = self.load_event(slice, event)? else { return Ok(()) };
        let count = self.events.rows[&event].1.seat_count;
        for id in seats {
            // The ordinal comes from outside. Behind the event's last seat are the keys of other events.
            let Some(ordinal) = id.ordinal_in(event).filter(|ordinal| *ordinal < count) else { continue };
            self.load_seat(slice, key, *id, ordinal)?;
            if let Some(SeatState::Held { hold, until }) = slice.seat(*id).map(|seat| seat.state) {
                if slice.hold(hold).is_none() {
                    self.load_hold_row(slice, hold)?;
                }
                if until <= now {
                    self.load_contents(slice, hold)?;
                }
            }
        }
        Ok(())
    }

    fn load_seat(&mut self, slice: &mut Slice, event_key: i64, id: SeatId, ordinal: u32) -> Stored<()> {
        if slice.has_seat(id) {
            return Ok(());
        }
        let key = codec::seat_key(event_key, ordinal);
        let Some(row) = self.memory.seats.row(&mut self.seats, key)? else { return Ok(()) };
        let state = match row.status {
            SeatStatus::Available | SeatStatus::Held => self.memory.seats.state_of_available(key),
            SeatStatus::Blocked => SeatState::Blocked,
            SeatStatus::Sold => self.sold(key)?,
        };
        slice.load_seat(id, Seat { state, tier: row.tier }, row.version());
        Ok(())
    }

    fn sold(&self, key: i64) -> Stored<SeatState> {
        let mut statement = self.cached(&format!("SELECT {SEAT_COLUMNS} FROM seats s WHERE key = ?1"))?;
        let mut rows = statement.query([key])?;
        let row = rows.next()?.ok_or(StoreError::Corrupt("a seat"))?;
        Ok(codec::seat(row)?.state)
    }

    fn load_area(&self, slice: &mut Slice, event: EventId, id: AreaId) -> Stored<()> {
        if slice.area(id).is_some() {
            return Ok(());
        }
        let key = self.events.key(event).ok_or(StoreError::Corrupt("the event of an area"))?;
        let sql = format!("SELECT {AREA_COLUMNS} FROM areas WHERE id = ?1 AND event_key = ?2");
        let mut statement = self.cached(&sql)?;
        let mut rows = statement.query((id.as_bytes(), key))?;
        if let Some(row) = rows.next()? {
            let (area, version) = codec::area(row, event)?;
            slice.load_area(area, version);
        }
        Ok(())
    }

    fn load_cart(&mut self, slice: &mut Slice, places: &Places, now: Time) -> Stored<()> {
        let Some((key, row)) = self.events.rows.get(&places.event) else { return Ok(()) };
        let hold = self.memory.carts.hold_of(row.event.org, &places.user, *key, &places.cart);
        let Some(id) = hold else { return Ok(()) };
        // A hold that the batch has loaded already must keep what was loaded with it.
        if slice.hold(id).is_none() {
            self.load_hold_row(slice, id)?;
        }
        match slice.hold(id) {
            Some(hold) if hold.is_due(now) => self.load_contents(slice, id),
            _ => Ok(()),
        }
    }

    /// A hold that a command names, with what ending, moving or selling it touches.
    fn load_hold(&mut self, slice: &mut Slice, id: HoldId) -> Stored<()> {
        if slice.hold(id).is_none() {
            self.load_hold_row(slice, id)?;
        }
        let Some(hold) = slice.hold(id) else { return Ok(()) };
        let (status, booking) = (hold.status, hold.booking);
        match (status, booking) {
            (HoldStatus::Active, _) => self.load_contents(slice, id),
            (HoldStatus::Converted, Some(booking)) => self.load_booking(slice, booking),
            _ => Ok(()),
        }
    }

    fn load_hold_row(&mut self, slice: &mut Slice, id: HoldId) -> Stored<()> {
        let mut rows = self.hold.query([id.as_bytes()])?;
        let Some(row) = rows.next()? else { return Ok(()) };
        let key: i64 = row.get(codec::AFTER_HOLD - 1)?;
        // The event may have to be read first, and a row can't outlive its statement: read the hold in two steps.
        let known = self.events.ids.get(&key).map(|id| &self.events.rows[id].1.event);
        if let Some(event) = known {
            let event_ref = EventRef { id: event.id, org: event.org, currency: event.currency };
            let (hold, version) = codec::hold(row, event_ref)?;
            drop(rows);
            self.event_by_key(slice, key)?;
            slice.load_hold(hold, version);
            return Ok(());
        }
        drop(rows);
        self.event_by_key(slice, key)?;
        self.load_hold_row(slice, id)
    }

    /// The seats and areas of a hold.
    fn load_contents(&mut self, slice: &mut Slice, id: HoldId) -> Stored<()> {
        let Some(hold) = slice.hold(id) else { return Ok(()) };
        let event = hold.event;
        let seats: Vec<u32> = hold.seats.iter().map(|seat| seat.ordinal).collect();
        let areas: Vec<AreaId> = hold.areas.iter().map(|held| held.area).collect();
        let key = self.events.key(event).ok_or(StoreError::Corrupt("the event of a hold"))?;
        for ordinal in seats {
            self.load_seat(slice, key, SeatId::of(event, ordinal), ordinal)?;
        }
        for area in areas {
            self.load_area(slice, event, area)?;
        }
        Ok(())
    }

    fn load_booking(&mut self, slice: &mut Slice, id: BookingId) -> Stored<()> {
        if slice.booking(id).is_some() {
            return Ok(());
        }
        let sql = format!("SELECT {BOOKING_COLUMNS} FROM bookings b WHERE id = ?1");
        let mut statement = self.db.prepare_cached(&sql)?;
        let key: Option<i64> =
            statement.query_row([id.as_bytes()], |row| row.get(codec::AFTER_BOOKING - 1)).optional()?;
        let Some(key) = key else { return Ok(()) };
        let event = self.event_by_key(slice, key)?;
        let mut rows = statement.query([id.as_bytes()])?;
        let row = rows.next()?.ok_or(StoreError::Corrupt("a booking"))?;
        let (mut booking, version) = codec::booking(row, event)?;
        booking.tickets = tickets(self.db, id)?;
        // The places of one that is cancelled are somebody else's by now.
        let tickets = booking.tickets.iter().filter(|_| booking.status == BookingStatus::Confirmed);
        for ticket in tickets {
            match ticket.admits {
                Admits::Seat(ordinal) => {
                    self.load_seat(slice, key, SeatId::of(event.id, ordinal), ordinal)?;
                }
                Admits::Area(area) => self.load_area(slice, event.id, area)?,
            }
        }
        slice.load_booking(booking, version);
        Ok(())
    }

    /// Where a batch asks more of an area than is free, the holds past their time that could make room.
    fn load_area_holds(&mut self, slice: &mut Slice, batch: &[Request], now: Time) -> Stored<()> {
        let mut wanted: FxHashMap<(EventId, AreaId), u32> = FxHashMap::default();
        for request in batch {
            let (Command::Hold(places) | Command::Book { places, .. }) = &request.command else { continue };
            for (area, quantity) in &places.areas {
                let wanted = wanted.entry((places.event, *area)).or_default();
                *wanted = wanted.saturating_add(*quantity);
            }
        }
        for ((event, area), quantity) in wanted {
            let Some(free) = slice.area(area).map(|area| area.available()) else { continue };
            if free < quantity {
                self.load_due_holds(slice, event, area, quantity - free, now)?;
            }
        }
        Ok(())
    }

    fn load_due_holds(
        &mut self,
        slice: &mut Slice,
        event: EventId,
        area: AreaId,
        missing: u32,
        now: Time,
    ) -> Stored<()> {
        let Some(key) = self.events.key(event) else { return Ok(()) };
        let event_ref = self.event_by_key(slice, key)?;
        let sql = format!(
            "SELECT {HOLD_COLUMNS} FROM holds h
             WHERE status = 0 AND event_key = ?2 AND expires_at <= ?1 AND areas <> '[]' ORDER BY expires_at"
        );
        let mut due: Vec<(Hold, u64)> = Vec::new();
        let mut found = 0;
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query((now.millis(), key))?;
        while found < missing
            && let Some(row) = rows.next()?
        {
            let (hold, version) = codec::hold(row, event_ref)?;
            let quantity = hold.quantity_of(area);
            if quantity > 0 {
                found += quantity;
                due.push((hold, version));
            }
        }
        for (hold, version) in due {
            let id = hold.id;
            if slice.hold(id).is_none() {
                slice.load_hold(hold, version);
            }
            self.load_contents(slice, id)?;
        }
        Ok(())
    }

    /// Reads anew what is remembered of the file.
    pub fn remember(&mut self) -> Stored<()> {
        self.events.clear();
        self.memory = Memory::load(self.db)?;
        Ok(())
    }

    /// Takes in what a batch has committed.
    pub fn follow(&mut self, slice: &Slice) {
        self.memory.follow(slice, &self.events);
        self.events.trim();
    }

    fn cached(&self, sql: &str) -> Stored<CachedStatement<'c>> {
        Ok(self.db.prepare_cached(sql)?)
    }
}

/// An event with its blocks and areas, by whatever `sql` selects it.
pub(super) fn read_event(
    db: &Connection,
    sql: &str,
    id: impl rusqlite::ToSql,
) -> Stored<Option<(i64, EventRow)>> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([id])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (event, key, seat_count) = codec::event(row)?;
    let mut row = EventRow { event, seat_count, blocks: Vec::new(), areas: Vec::new() };
    let mut blocks =
        db.prepare_cached("SELECT id, name FROM blocks WHERE event_key = ?1 ORDER BY position")?;
    let mut rows = blocks.query([key])?;
    while let Some(block) = rows.next()? {
        let id = BlockId::from_uuid(codec::uuid(block, 0)?);
        row.blocks.push(Block { id, event: row.event.id, name: codec::name(block, 1)? });
    }
    let mut areas = db.prepare_cached("SELECT id, name FROM areas WHERE event_key = ?1 ORDER BY position")?;
    let mut rows = areas.query([key])?;
    while let Some(area) = rows.next()? {
        row.areas.push((AreaId::from_uuid(codec::uuid(area, 0)?), codec::name(area, 1)?));
    }
    Ok(Some((key, row)))
}

/// The tickets of a booking, in the order they were made.
pub(super) fn tickets(db: &Connection, booking: BookingId) -> Stored<Vec<rowlock_core::booking::Ticket>> {
    let sql = format!("SELECT {TICKET_COLUMNS} FROM tickets WHERE booking_id = ?1 ORDER BY position");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([booking.as_bytes()])?;
    let mut tickets = Vec::new();
    while let Some(row) = rows.next()? {
        tickets.push(codec::ticket(row)?);
    }
    Ok(tickets)
}
