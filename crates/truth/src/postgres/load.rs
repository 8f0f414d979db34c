//! Loading the slice: locking the rows that a batch names, and finding those that stand in its way.

pub(super) mod blocks;
mod named;

use std::sync::Arc;
use std::time::Instant;

use futures::future::try_join_all;
use futures::try_join;
use rowlock_core::booking::Booking;
use rowlock_core::command::NewSection;
use rowlock_core::event::Block;
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::limits::MAX_ROWS_PER_SECTION;
use rowlock_core::slice::{EventRow, RecordKey, Slice, TakenPlace};
use rowlock_core::text::Row as SeatRow;
use rowlock_core::{AreaId, BlockId, BookingId, Command, EventId, HoldId, Request, SeatId, Time, UserId};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio_postgres::Row;
use uuid::Uuid;

use self::named::{Carts, Keys};
use super::clock::Reading;
use super::codec;
use super::fault::{StoreError, Stored};
use super::plan::{Plan, uuids};
use super::session::Session;
use super::sql;
use crate::columns;
use crate::demand;

/// Holds past their time that one batch ends at most to make room in an area.
const MAX_ENDED_FOR_ROOM: u32 = 4_096;

/// What a batch is decided on.
pub(super) struct Loaded {
    pub slice: Slice,
    /// The clock of Postgres, read when all locks were taken.
    pub now: Time,
    pub heard: Reading,
    /// Whether commits wait for a standby.
    pub replicated: bool,
    /// Postgres' number of the transaction.
    pub transaction: String,
    /// Seats that somebody else has locked right now, when the batch does not wait for locks.
    pub skipped: FxHashSet<SeatId>,
    /// How many blocks an event had that gets new ones.
    pub blocks: FxHashMap<EventId, usize>,
}

/// Whether rows that somebody else has locked are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Wait,
    /// So are free seats of a block that somebody else may be choosing from.
    WaitForBlocks,
    /// Seats that are locked are left out.
    Skip,
    /// The same, and other rows are hardly waited for.
    Briefly,
}

impl Waiting {
    fn skips_seats(self) -> bool {
        matches!(self, Waiting::Skip | Waiting::Briefly)
    }

    fn begin(self) -> &'static str {
        if self == Waiting::Briefly { "BEGIN; SET LOCAL lock_timeout = '50ms'" } else { "BEGIN" }
    }
}

pub(super) enum Attempt {
    Loaded(Box<Loaded>),
    /// The plan has grown: begin again.
    Again,
}

/// Looks up what must be known before anything is locked: the events of a batch, and what is in the holds and
/// bookings that it names.
pub(super) async fn plan(session: &mut Session, batch: &[Request], waiting: Waiting) -> Stored<Plan> {
    let named: Vec<EventId> = batch.iter().filter_map(|request| request.command.event()).collect();
    know_events(session, &named).await?;
    let mut plan = Plan::named(batch, &session.events);
    if waiting == Waiting::WaitForBlocks {
        blocks::plan(session, batch, &mut plan).await?;
    }
    if !plan.holds.is_empty() {
        let ids = uuids(&plan.holds);
        let rows = session.query(sql::HOLDS, [&ids]).await?;
        for (hold, _) in holds(session, &rows).await? {
            // Whoever ends what is over does it for all.
            let names = |request: &Request| {
                request.command.hold() == Some(hold.id)
                    && (request.org == hold.org || matches!(request.command, Command::Expire { .. }))
            };
            if !batch.iter().any(names) {
                plan.holds.remove(&hold.id);
            } else if hold.status == HoldStatus::Active {
                let (key, row) =
                    session.events.get(hold.event).ok_or(StoreError::Corrupt("the event of a hold"))?;
                plan.add_hold(&hold, key);
                plan.add_owner(&hold, key, &row.event, batch);
            }
        }
        for request in batch {
            let Command::Release { hold, seats, .. } = &request.command else { continue };
            if !plan.holds.contains(hold) {
                continue;
            }
            let held = rows.iter().find(|row| codec::uuid(row, 0).is_ok_and(|id| id == hold.uuid()));
            let key = held.map(codec::event_key_of_hold).transpose()?;
            let event = key.and_then(|key| session.events.by_key(key)).map(|row| row.event.id);
            if let Some(event) = event {
                plan.add_seats(&session.events, event, seats);
            }
        }
    }
    if !plan.bookings.is_empty() {
        let ids: Vec<BookingId> = plan.bookings.iter().copied().collect();
        for (booking, _) in bookings(session, &ids, sql::BOOKINGS).await? {
            let names = |request: &Request| {
                matches!(request.command, Command::CancelBooking { booking: named, .. } if named == booking.id)
                    && request.org == booking.org
            };
            if !batch.iter().any(names) {
                plan.bookings.remove(&booking.id);
                continue;
            }
            let key =
                session.events.key(booking.event).ok_or(StoreError::Corrupt("the event of a booking"))?;
            plan.add_booking(&booking, key);
        }
    }
    Ok(plan)
}

/// Begins a transaction, locks what is planned, and reads it.
pub(super) async fn load(
    session: &mut Session,
    batch: &[Request],
    plan: &mut Plan,
    waiting: Waiting,
) -> Stored<Attempt> {
    let lock_seats = if waiting.skips_seats() { sql::SKIP_SEATS } else { sql::LOCK_SEATS };
    session
        .prepare(&[
            sql::LOCK_USERS,
            sql::LOCK_EVENTS,
            lock_seats,
            sql::CHOOSE_SEATS,
            sql::LOCK_AREAS,
            sql::LOCK_HOLDS,
            sql::LOCK_BOOKINGS,
            sql::RECORDS,
            sql::USAGE,
            sql::CLOCK,
        ])
        .await?;
    let users: Vec<String> = plan.users.iter().map(|(event, user)| format!("{event}:{user}")).collect();
    let (events, bookings_wanted) = (uuids(&plan.events), uuids(&plan.bookings));
    let (areas, areas_of): (Vec<Uuid>, Vec<i64>) =
        plan.areas.iter().map(|(area, event)| (area.uuid(), *event)).unzip();
    let seats: Vec<i64> = plan.seats.iter().copied().collect();
    let holds_wanted = uuids(&plan.holds);
    let carts = Carts::new(plan);
    let usage: (Vec<i64>, Vec<&str>) = plan.users.iter().map(|(event, user)| (*event, user.as_str())).unzip();
    let keys = Keys::new(batch);
    let any = blocks::Columns::of(session, batch);

    // All of it in one message to the server.
    let sent = Instant::now();
    let (_, _, _, seats, chosen, areas, held, booked, records, used, clock) = try_join!(
        session.simple(waiting.begin()),
        session.query_if(!users.is_empty(), sql::LOCK_USERS, [&users]),
        session.query_if(!events.is_empty(), sql::LOCK_EVENTS, [&events]),
        session.query_if(!seats.is_empty(), lock_seats, [&seats]),
        session.query_if(!any.is_empty(), sql::CHOOSE_SEATS, [&any.blocks, &any.events, &any.seats]),
        session.query_if(!areas.is_empty(), sql::LOCK_AREAS, [&areas, &areas_of]),
        session.query_if(
            !holds_wanted.is_empty() || !plan.carts.is_empty(),
            sql::LOCK_HOLDS,
            [&holds_wanted, &carts.events, &carts.users, &carts.carts],
        ),
        session.query_if(!bookings_wanted.is_empty(), sql::LOCK_BOOKINGS, [&bookings_wanted]),
        session.query_if(!keys.keys.is_empty(), sql::RECORDS, [&keys.orgs, &keys.actors, &keys.keys]),
        session.query_if(!users.is_empty(), sql::USAGE, [&usage.0, &usage.1]),
        session.query(sql::CLOCK, []),
    )?;
    let clock = clock.first().ok_or(StoreError::Corrupt("the clock"))?;
    let now = codec::time(clock, 0)?;
    let mut loaded = Loaded {
        slice: Slice::default(),
        now,
        heard: Reading { time: now, sent, received: Instant::now() },
        replicated: clock.try_get(2)?,
        transaction: codec::text(clock, 1)?.to_owned(),
        skipped: FxHashSet::default(),
        blocks: FxHashMap::default(),
    };
    let slice = &mut loaded.slice;
    load_records(slice, batch, &records)?;
    load_organizations(session, slice, batch).await?;
    load_events(session, slice, batch, plan, &mut loaded.blocks).await?;
    load_seats(session, slice, &seats)?;
    blocks::load(session, slice, &chosen)?;
    load_areas(session, slice, &areas)?;
    for (hold, version) in holds(session, &held).await? {
        load_hold(session, slice, hold, version)?;
    }
    if !booked.is_empty() {
        let ids: Vec<BookingId> = plan.bookings.iter().copied().collect();
        for (booking, version) in bookings(session, &ids, sql::BOOKINGS).await? {
            load_booking(session, slice, booking, version)?;
        }
    }
    for row in &used {
        let event = session.events.by_key(row.try_get(0)?).ok_or(StoreError::Corrupt("an event"))?.event.id;
        let user = UserId::new(codec::text(row, 1)?).map_err(|_| StoreError::Corrupt("a user"))?;
        slice.load_usage(event, user, codec::number(row, 2)?);
    }
    if waiting.skips_seats() {
        find_skipped(session, plan, &mut loaded).await?;
    }
    if complete(session, &mut loaded, batch, plan).await? {
        blocks::load_spots(session, &mut loaded, batch).await?;
        if waiting == Waiting::Briefly {
            // All that could be locked by somebody for long is locked. What is left is the queue of those who commit.
            session.simple("SET LOCAL lock_timeout TO DEFAULT").await?;
        }
        Ok(Attempt::Loaded(Box::new(loaded)))
    } else {
        Ok(Attempt::Again)
    }
}

/// Loads what the rows read so far lead to. `false`: some of that must be locked too, and the plan says so now.
async fn complete(
    session: &mut Session,
    loaded: &mut Loaded,
    batch: &[Request],
    plan: &mut Plan,
) -> Stored<bool> {
    let now = loaded.now;
    let slice = &mut loaded.slice;
    let mut whole = true;

    // Whoever holds a seat that is asked for. As long as the seat is locked nobody else changes that hold.
    let holders: FxHashSet<HoldId> = slice.seats().filter_map(|(_, seat)| seat.state.hold()).collect();
    let strangers: Vec<Uuid> =
        holders.into_iter().filter(|hold| slice.hold(*hold).is_none()).map(HoldId::uuid).collect();
    let rows = session.query_if(!strangers.is_empty(), sql::HOLDS, [&strangers]).await?;
    for (hold, version) in holds(session, &rows).await? {
        load_hold(session, slice, hold, version)?;
    }

    // A hold that is over, or that the batch names, may end: then all of it changes.
    let named: FxHashSet<HoldId> = batch.iter().filter_map(|request| request.command.hold()).collect();
    for hold in slice.holds() {
        if hold.is_due(now) || (hold.status == HoldStatus::Active && named.contains(&hold.id)) {
            let (key, row) =
                session.events.get(hold.event).ok_or(StoreError::Corrupt("the event of a hold"))?;
            whole &= !plan.add_hold(hold, key);
            whole &= !plan.add_owner(hold, key, &row.event, batch);
        }
    }

    // A hold that was confirmed is answered with its booking.
    let sold: Vec<BookingId> =
        slice.holds().filter(|hold| named.contains(&hold.id)).filter_map(|hold| hold.booking).collect();
    for (booking, version) in bookings(session, &sold, sql::BOOKINGS).await? {
        load_booking(session, slice, booking, version)?;
    }
    for booking in plan.bookings.clone() {
        let Some(booking) = slice.booking(booking) else { continue };
        let key = session.events.key(booking.event).ok_or(StoreError::Corrupt("the event of a booking"))?;
        whole &= !plan.add_booking(booking, key);
    }
    whole &= make_room(session, slice, batch, plan, now).await?;
    Ok(whole)
}

/// Where a batch asks more of an area than is free, the holds past their time that could make room.
async fn make_room(
    session: &mut Session,
    slice: &mut Slice,
    batch: &[Request],
    plan: &mut Plan,
    now: Time,
) -> Stored<bool> {
    let mut wanted: FxHashMap<(EventId, AreaId), u32> = FxHashMap::default();
    for request in batch {
        let (Command::Hold(places) | Command::Book { places, .. }) = &request.command else { continue };
        for (area, quantity) in &places.areas {
            let wanted = wanted.entry((places.event, *area)).or_default();
            *wanted = wanted.saturating_add(*quantity);
        }
    }
    let mut whole = true;
    for ((event, area), quantity) in wanted {
        let Some(free) = slice.area(area).map(|area| area.available()) else { continue };
        let Some(key) = session.events.key(event).filter(|_| free < quantity) else { continue };
        let mut missing = quantity - free;
        // Each has a place at least.
        let most = i64::from(missing.min(MAX_ENDED_FOR_ROOM));
        let area_text = area.uuid().to_string();
        let rows = session.query(sql::DUE_HOLDS_OF_AREAS, [&key, &now.millis(), &area_text, &most]).await?;
        for (hold, version) in holds(session, &rows).await? {
            let places = hold.quantity_of(area);
            if places == 0 || missing == 0 {
                continue;
            }
            missing = missing.saturating_sub(places);
            whole &= !plan.add_hold(&hold, key);
            load_hold(session, slice, hold, version)?;
        }
    }
    Ok(whole)
}

/// Seats that exist and did not come back because somebody has them locked.
async fn find_skipped(session: &Session, plan: &Plan, loaded: &mut Loaded) -> Stored<()> {
    let slice = &loaded.slice;
    let missing: Vec<i64> = plan
        .seats
        .iter()
        .filter(|key| seat_id(session, **key).is_ok_and(|seat| !slice.has_seat(seat)))
        .copied()
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    for row in session.query(sql::EXISTING_SEATS, [&missing]).await? {
        loaded.skipped.insert(seat_id(session, row.try_get(0)?)?);
    }
    Ok(())
}

fn seat_id(session: &Session, key: i64) -> Stored<SeatId> {
    let (event_key, ordinal) = codec::place(key);
    let event = session.events.by_key(event_key).ok_or(StoreError::Corrupt("the event of a seat"))?;
    Ok(SeatId::of(event.event.id, ordinal))
}

fn load_seats(session: &Session, slice: &mut Slice, rows: &[Row]) -> Stored<()> {
    for row in rows {
        let (seat, version) = codec::seat(row)?;
        slice.load_seat(seat_id(session, row.try_get(0)?)?, seat, version);
    }
    Ok(())
}

fn load_areas(session: &Session, slice: &mut Slice, rows: &[Row]) -> Stored<()> {
    for row in rows {
        // An area of an event that the batch has nothing to do with is nobody's here.
        if let Some(event) = session.events.by_key(row.try_get(7)?) {
            let (area, version) = codec::area(row, event.event.id)?;
            slice.load_area(area, version);
        }
    }
    Ok(())
}

/// A hold that is in the slice already was locked, and is newer than what was read without a lock.
fn load_hold(session: &Session, slice: &mut Slice, hold: Hold, version: u64) -> Stored<()> {
    if slice.hold(hold.id).is_some() {
        return Ok(());
    }
    load_event_of(session, slice, hold.event)?;
    slice.load_hold(hold, version);
    Ok(())
}

fn load_booking(session: &Session, slice: &mut Slice, booking: Booking, version: u64) -> Stored<()> {
    if slice.booking(booking.id).is_none() {
        load_event_of(session, slice, booking.event)?;
        slice.load_booking(booking, version);
    }
    Ok(())
}

fn load_event_of(session: &Session, slice: &mut Slice, event: EventId) -> Stored<()> {
    if slice.event_row(event).is_none() {
        let (_, row) = session.events.get(event).ok_or(StoreError::Corrupt("the event of a row"))?;
        slice.load_event(Arc::clone(row));
    }
    Ok(())
}

fn load_records(slice: &mut Slice, batch: &[Request], rows: &[Row]) -> Stored<()> {
    for row in rows {
        let (org, actor, key) = (codec::uuid(row, 0)?, codec::text(row, 1)?, codec::text(row, 2)?);
        let request = batch.iter().find(|request| {
            request.org.uuid() == org
                && request.idempotency.as_ref().is_some_and(|idempotency| *idempotency.key == *key)
                && request.actor.to_string() == actor
        });
        let Some(request) = request else { continue };
        let fingerprint: &[u8] = row.try_get(3)?;
        let fingerprint = fingerprint.try_into().map_err(|_| StoreError::Corrupt("a fingerprint"))?;
        let outcome = columns::json(codec::text(row, 4)?, "a recorded answer")?;
        let key = RecordKey { org: request.org, actor: request.actor.clone(), key: key.into() };
        slice.load_record(key, fingerprint, outcome);
    }
    Ok(())
}

async fn load_organizations(session: &Session, slice: &mut Slice, batch: &[Request]) -> Stored<()> {
    for request in batch {
        match &request.command {
            Command::CreateApiKey { .. } | Command::CreateEvent { .. } => {
                for row in session.query(sql::ORG, [&request.org.uuid()]).await? {
                    slice.load_org(codec::org(&row)?);
                }
            }
            Command::RevokeApiKey { key } => {
                for row in session.query(sql::LOCK_KEY, [&key.uuid(), &request.org.uuid()]).await? {
                    slice.load_key(codec::api_key(&row)?);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The events of the batch: whole where something is created in them, else as they are remembered.
async fn load_events(
    session: &Session,
    slice: &mut Slice,
    batch: &[Request],
    plan: &Plan,
    blocks: &mut FxHashMap<EventId, usize>,
) -> Stored<()> {
    if !plan.events.is_empty() {
        session.prepare(&[sql::SEAT_COUNT, sql::BLOCKS, sql::AREA_NAMES, sql::TAKEN_PLACE]).await?;
    }
    // All of them at once: a batch may make seats in hundreds of events.
    let known = plan.events.iter().filter_map(|event| session.events.get(*event));
    let whole = try_join_all(known.map(|(key, row)| whole_event(session, row, key))).await?;
    let mut whole: FxHashMap<EventId, EventRow> = whole.into_iter().map(|row| (row.event.id, row)).collect();
    for event in batch.iter().filter_map(|request| request.command.event()) {
        let Some((_, known)) = session.events.get(event) else { continue };
        if slice.event_row(event).is_none() {
            let row = match whole.remove(&event) {
                Some(whole) => {
                    blocks.insert(event, whole.blocks.len());
                    Arc::new(whole)
                }
                None => Arc::clone(known),
            };
            slice.load_event(row);
        }
    }
    let read: &Slice = slice;
    let taken = batch.iter().filter_map(|request| match &request.command {
        Command::CreateSeats { event, sections } => Some(taken_place(session, read, *event, sections)),
        _ => None,
    });
    for (event, place) in try_join_all(taken).await?.into_iter().flatten() {
        slice.load_taken_place(event, place);
    }
    Ok(())
}

/// The event as it is now, which is how it stays while it is locked.
async fn whole_event(session: &Session, row: &EventRow, key: i64) -> Stored<EventRow> {
    let (count, blocks, areas) = try_join!(
        session.query(sql::SEAT_COUNT, [&key]),
        session.query(sql::BLOCKS, [&key]),
        session.query(sql::AREA_NAMES, [&key]),
    )?;
    let mut whole = EventRow { seat_count: 0, blocks: Vec::new(), areas: Vec::new(), ..row.clone() };
    for row in &count {
        whole.seat_count = codec::small(row, 0)?;
    }
    for row in &blocks {
        let id = BlockId::from_uuid(codec::uuid(row, 0)?);
        whole.blocks.push(Block { id, event: whole.event.id, name: codec::name(row, 1)? });
    }
    for row in &areas {
        whole.areas.push((AreaId::from_uuid(codec::uuid(row, 0)?), codec::name(row, 1)?));
    }
    Ok(whole)
}

/// A place that new seats would take and that is a seat already, if there is one.
async fn taken_place(
    session: &Session,
    slice: &Slice,
    event: EventId,
    sections: &[NewSection],
) -> Stored<Option<(EventId, TakenPlace)>> {
    let (Some((key, _)), Some(row)) = (session.events.get(event), slice.event_row(event)) else {
        return Ok(None);
    };
    if demand::creates_too_many(sections) {
        return Ok(None);
    }
    for new in sections {
        let Some(block) = row.blocks.iter().position(|block| block.name == new.block) else { continue };
        let (first, last) = (i64::from(new.section.first_number), i64::from(new.section.last_number));
        let rows: Vec<&str> =
            new.section.rows.iter().take(MAX_ROWS_PER_SECTION).map(|row| row.as_str()).collect();
        let taken = session.query(sql::TAKEN_PLACE, [&key, &(block as i32), &rows, &first, &last]).await?;
        if let Some(taken) = taken.first() {
            let row = SeatRow::new(codec::text(taken, 0)?).map_err(|_| StoreError::Corrupt("a row"))?;
            let (block, number) = (new.block.clone(), codec::number(taken, 1)?);
            return Ok(Some((event, TakenPlace { block, row, number })));
        }
    }
    Ok(None)
}

/// Makes sure that events can be found by their ids.
pub(super) async fn know_events(session: &mut Session, ids: &[EventId]) -> Stored<()> {
    let unknown: Vec<Uuid> =
        ids.iter().filter(|id| session.events.get(**id).is_none()).map(|id| id.uuid()).collect();
    let rows = session.query_if(!unknown.is_empty(), sql::EVENTS, [&unknown]).await?;
    remember(session, &rows)
}

/// Makes sure that events can be found by their keys.
async fn know_event_keys(session: &mut Session, keys: impl Iterator<Item = Stored<i64>>) -> Stored<()> {
    let mut unknown = Vec::new();
    for key in keys {
        let key = key?;
        if session.events.by_key(key).is_none() && !unknown.contains(&key) {
            unknown.push(key);
        }
    }
    let rows = session.query_if(!unknown.is_empty(), sql::EVENTS_BY_KEY, [&unknown]).await?;
    remember(session, &rows)
}

fn remember(session: &mut Session, rows: &[Row]) -> Stored<()> {
    for row in rows {
        let (event, key, seat_count) = codec::event(row)?;
        session.events.put(key, EventRow { event, seat_count, blocks: Vec::new(), areas: Vec::new() });
    }
    Ok(())
}

pub(super) async fn holds(session: &mut Session, rows: &[Row]) -> Stored<Vec<(Hold, u64)>> {
    know_event_keys(session, rows.iter().map(codec::event_key_of_hold)).await?;
    rows.iter()
        .map(|row| {
            let event = session.events.by_key(codec::event_key_of_hold(row)?);
            codec::hold(row, &event.ok_or(StoreError::Corrupt("the event of a hold"))?.event)
        })
        .collect()
}

/// Bookings with their tickets.
async fn bookings(
    session: &mut Session,
    ids: &[BookingId],
    statement: &'static str,
) -> Stored<Vec<(Booking, u64)>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids = uuids(ids);
    let (rows, tickets) = try_join!(session.query(statement, [&ids]), session.query(sql::TICKETS, [&ids]))?;
    know_event_keys(session, rows.iter().map(codec::event_key_of_booking)).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let event = session.events.by_key(codec::event_key_of_booking(row)?);
        let event = event.ok_or(StoreError::Corrupt("the event of a booking"))?;
        found.push(codec::booking(row, &event.event)?);
    }
    for row in &tickets {
        let (ticket, booking) = codec::ticket(row)?;
        if let Some((of, _)) = found.iter_mut().find(|(found, _)| found.id == booking) {
            of.tickets.push(ticket);
        }
    }
    Ok(found)
}
