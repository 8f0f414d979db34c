//! Writing: the rows that changed, each against the version it was read with, then the journal, then COMMIT. All of it
//! is sent at once; the server works it off while we wait for one answer.

use std::sync::Arc;

use futures::future::try_join_all;
use futures::try_join;
use rowlock_core::fact::SectionsAdded;
use rowlock_core::limits::IDEMPOTENCY_TTL_MILLIS;
use rowlock_core::slice::{EventRow, Row as SliceRow};
use rowlock_core::{Fact, IdSource, Request, SeatId, Stream, Time};
use rustc_hash::FxHashMap;
use tokio_postgres::Row;
use uuid::Uuid;

use super::codec;
use super::fault::{StoreError, Stored};
use super::load::Loaded;
use super::rows::{Areas, Bookings, Holds, Records, Seats, Tickets, int, key_of};
use super::session::{Param, Session, Wire};
use super::sql;
use crate::columns;

/// The statement timeout must not end the wait for a standby: then COMMIT would succeed without it.
pub(super) const COMMIT: &str = "SET LOCAL statement_timeout = 0; COMMIT";

/// Seats of one command that are sent together with those of others. Rows are in memory until they are answered, so a batch of many
/// large houses goes one after another.
const MAX_SEATS_TOGETHER: u32 = 256;

/// The journal rows of a batch, with ids that tell whether they arrived.
pub(super) struct Appending {
    pub streams: Vec<Uuid>,
    counts: Vec<i64>,
    pub stream: Vec<Uuid>,
    /// Which of the streams it is, from 1 on.
    place: Vec<i32>,
    nth: Vec<i64>,
    pub ids: Vec<Uuid>,
    kinds: Vec<&'static str>,
    actors: Vec<String>,
    requests: Vec<String>,
    data: Vec<String>,
    fresh: Vec<Uuid>,
}

impl Appending {
    pub fn new(facts: &[(&Request, &Fact)], now: Time, ids: &mut dyn IdSource) -> Stored<Self> {
        let mut counts: std::collections::BTreeMap<Uuid, i64> = std::collections::BTreeMap::new();
        let mut rows = Self {
            streams: Vec::new(),
            counts: Vec::new(),
            stream: Vec::with_capacity(facts.len()),
            place: Vec::new(),
            nth: Vec::with_capacity(facts.len()),
            ids: Vec::with_capacity(facts.len()),
            kinds: Vec::with_capacity(facts.len()),
            actors: Vec::with_capacity(facts.len()),
            requests: Vec::with_capacity(facts.len()),
            data: Vec::with_capacity(facts.len()),
            fresh: Vec::new(),
        };
        for (request, fact) in facts {
            let stream = stream_id(fact.stream());
            let nth = counts.entry(stream).or_default();
            *nth += 1;
            rows.stream.push(stream);
            rows.nth.push(*nth);
            rows.ids.push(ids.next(now));
            rows.kinds.push(fact.kind());
            rows.actors.push(request.actor.to_string());
            rows.requests.push(request.request_id.to_string());
            rows.data.push(rowlock_json::to_string(fact, 512).map_err(|_| StoreError::Corrupt("a fact"))?);
            if matches!(fact, Fact::OrgCreated(_) | Fact::EventCreated(_)) {
                rows.fresh.push(stream);
            }
        }
        (rows.streams, rows.counts) = counts.into_iter().unzip();
        // They are in order.
        let place = |stream| rows.streams.partition_point(|other| other <= stream) as i32;
        rows.place = rows.stream.iter().map(place).collect();
        Ok(rows)
    }

    /// The sequence of each fact, given what [`append`] says came before in each stream.
    pub fn sequences(&self, before: &[Row]) -> Stored<Vec<u64>> {
        let mut heads: FxHashMap<Uuid, i64> = FxHashMap::default();
        for row in before {
            heads.insert(codec::uuid(row, 0)?, row.try_get(1)?);
        }
        let place = |(stream, nth): (&Uuid, &i64)| {
            let before = heads.get(stream).ok_or(StoreError::Corrupt("a stream"))?;
            u64::try_from(before + nth).map_err(|_| StoreError::Corrupt("a sequence"))
        };
        self.stream.iter().zip(&self.nth).map(place).collect()
    }

    /// Remembers how far the streams have come.
    pub fn note(&self, wire: &Wire, sequences: &[u64]) {
        for (stream, sequence) in self.stream.iter().zip(sequences) {
            wire.note_written(*stream, *sequence);
        }
    }

    /// The rows by stream, for whoever must find out whether they arrived.
    pub fn by_stream(&self) -> impl Iterator<Item = (Uuid, Vec<Uuid>)> {
        self.streams.iter().map(|wanted| {
            let of = self.stream.iter().zip(&self.ids).filter(|(stream, _)| *stream == wanted);
            (*wanted, of.map(|(_, id)| *id).collect())
        })
    }
}

fn stream_id(stream: Stream) -> Uuid {
    match stream {
        Stream::Org(org) => org.uuid(),
        Stream::Event(event) => event.uuid(),
    }
}

/// Writes everything and commits. Returns the sequence of each fact. When it fails the transaction is over, unless
/// the connection was lost: then nobody knows.
pub(super) async fn write(
    session: &mut Session,
    loaded: &Loaded,
    appending: &Appending,
    compare: bool,
) -> Stored<Vec<u64>> {
    let (slice, now) = (&loaded.slice, loaded.now);
    create(session, loaded).await?;
    let set_seats = if compare { sql::SET_SEATS } else { sql::SET_SEATS_WHATEVER };
    session
        .prepare(&[
            set_seats,
            sql::SET_AREAS,
            sql::SET_HOLDS,
            sql::NEW_HOLDS,
            sql::NEW_BOOKINGS,
            sql::SET_BOOKINGS,
            sql::NEW_TICKETS,
            sql::NEW_RECORDS,
            sql::NEW_STREAMS,
            sql::LOCK_STREAMS,
            sql::APPEND,
        ])
        .await?;
    let events = &session.events;
    let seats = Seats::new(loaded, events)?;
    let areas = Areas::new(loaded)?;
    let (new_holds, old_holds) = (Holds::new(loaded, events, true)?, Holds::new(loaded, events, false)?);
    let (new_bookings, old_bookings) =
        (Bookings::new(loaded, events, true)?, Bookings::new(loaded, events, false)?);
    let tickets = Tickets::new(loaded, events)?;
    let records = Records::new(slice)?;
    let rows = appending;

    let (_, _, _, _, _, _, _, _, _, _, before, ()) = try_join!(
        session.query_if(
            !seats.keys.is_empty(),
            set_seats,
            [&seats.keys, &seats.versions, &seats.statuses, &seats.until, &seats.holds, &seats.tickets],
        ),
        session.query_if(
            !areas.ids.is_empty(),
            sql::SET_AREAS,
            [&areas.ids, &areas.versions, &areas.held, &areas.sold],
        ),
        // Holds that end make room in their carts before new ones come.
        session.query_if(
            !old_holds.ids.is_empty(),
            sql::SET_HOLDS,
            [
                &old_holds.ids,
                &old_holds.versions,
                &old_holds.statuses,
                &old_holds.places,
                &old_holds.seats,
                &old_holds.areas,
                &old_holds.expires_at,
                &old_holds.checkout_at,
                &old_holds.ended_at,
                &old_holds.bookings,
            ],
        ),
        insert_holds(session, &new_holds),
        session.query_if(
            !new_bookings.ids.is_empty(),
            sql::NEW_BOOKINGS,
            [
                &new_bookings.ids,
                &new_bookings.holds,
                &new_bookings.events,
                &new_bookings.users,
                &new_bookings.statuses,
                &new_bookings.sources,
                &new_bookings.places,
                &new_bookings.references,
                &new_bookings.created_at,
                &new_bookings.cancelled_at,
            ],
        ),
        session.query_if(
            !tickets.ids.is_empty(),
            sql::NEW_TICKETS,
            [
                &tickets.ids,
                &tickets.bookings,
                &tickets.positions,
                &tickets.events,
                &tickets.ordinals,
                &tickets.areas,
                &tickets.prices,
            ],
        ),
        session.query_if(
            !old_bookings.ids.is_empty(),
            sql::SET_BOOKINGS,
            [&old_bookings.ids, &old_bookings.versions, &old_bookings.statuses, &old_bookings.cancelled_at],
        ),
        insert_records(session, &records, now),
        session.query_if(!rows.fresh.is_empty(), sql::NEW_STREAMS, [&rows.fresh]),
        // One stream needs no order.
        session.query_if(rows.streams.len() > 1, sql::LOCK_STREAMS, [&rows.streams]),
        append(session, rows, now),
        session.simple(COMMIT),
    )?;
    rows.sequences(&before)
}

pub(super) async fn insert_holds(wire: &Wire, rows: &Holds) -> Stored<Vec<Row>> {
    let columns: [Param<'_>; 15] = [
        &rows.ids,
        &rows.events,
        &rows.users,
        &rows.carts,
        &rows.statuses,
        &rows.sources,
        &rows.places,
        &rows.seats,
        &rows.areas,
        &rows.created_at,
        &rows.expires_at,
        &rows.max_expires_at,
        &rows.checkout_at,
        &rows.ended_at,
        &rows.bookings,
    ];
    wire.query_if(!rows.ids.is_empty(), sql::NEW_HOLDS, columns).await
}

pub(super) async fn insert_records(wire: &Wire, rows: &Records, now: Time) -> Stored<Vec<Row>> {
    let expires_at = now.plus_millis(IDEMPOTENCY_TTL_MILLIS).millis();
    let at = now.millis();
    let columns: [Param<'_>; 7] =
        [&rows.orgs, &rows.actors, &rows.keys, &rows.fingerprints, &rows.outcomes, &expires_at, &at];
    wire.query_if(!rows.keys.is_empty(), sql::NEW_RECORDS, columns).await
}

/// Takes the next sequences of the streams and writes the journal. The last statement before COMMIT.
pub(super) async fn append(wire: &Wire, rows: &Appending, now: Time) -> Stored<Vec<Row>> {
    let at = now.millis();
    let columns: [Param<'_>; 10] = [
        &rows.streams,
        &rows.counts,
        &rows.place,
        &rows.nth,
        &rows.ids,
        &rows.kinds,
        &rows.actors,
        &rows.requests,
        &rows.data,
        &at,
    ];
    wire.query_if(!rows.ids.is_empty(), sql::APPEND, columns).await
}

/// What is made once: orgs, keys, events, blocks, seats, areas. Rare, so one after another; but one batch may make hundreds of
/// events, and their seats.
async fn create(session: &Session, loaded: &Loaded) -> Stored<()> {
    let slice = &loaded.slice;
    for org in slice.changed_orgs() {
        session.query(sql::NEW_ORG, [&org.id.uuid(), &org.name.as_str(), &org.created_at.millis()]).await?;
    }
    for row in slice.changed_keys() {
        let key = &row.value;
        if row.version.is_some() {
            let revoked = key.revoked_at.map(Time::millis);
            session.query(sql::REVOKE_KEY, [&key.id.uuid(), &revoked]).await?;
            continue;
        }
        let (id, org, scopes) = (key.id.uuid(), key.org.uuid(), columns::scopes_text(key));
        let (name, hash, created) = (key.name.as_str(), key.secret_hash.as_slice(), key.created_at.millis());
        session.query(sql::NEW_KEY, [&id, &org, &name, &scopes, &hash, &created]).await?;
    }
    if slice.changed_events().next().is_some() {
        let statements =
            [sql::NEW_EVENT, sql::SET_SEAT_COUNT, sql::NEW_BLOCKS, sql::NEW_SEATS, sql::NEW_AREA];
        session.prepare(&statements).await?;
    }
    try_join_all(slice.changed_events().map(|row| save_event(session, loaded, row))).await?;
    let (few, many): (Vec<_>, Vec<_>) =
        slice.new_sections().iter().partition(|added| added.count <= MAX_SEATS_TOGETHER);
    try_join_all(few.into_iter().map(|added| create_seats(session, loaded, added))).await?;
    for added in many {
        create_seats(session, loaded, added).await?;
    }
    for row in slice.changed_areas().filter(|row| row.version.is_none()) {
        let area = &row.value;
        let key = key_of(&session.events, area.event)?;
        let event = slice.event_row(area.event).ok_or(StoreError::Corrupt("the event of an area"))?;
        let position = event.areas.iter().position(|(id, _)| *id == area.id).unwrap_or_default() as i32;
        let (id, name, tier) = (area.id.uuid(), area.name.as_str(), i16::from(area.tier));
        let (capacity, held, sold) = (int(area.capacity)?, int(area.held)?, int(area.sold)?);
        session.query(sql::NEW_AREA, [&id, &key, &position, &name, &tier, &capacity, &held, &sold]).await?;
    }
    Ok(())
}

async fn save_event(session: &Session, loaded: &Loaded, row: &SliceRow<Arc<EventRow>>) -> Stored<()> {
    let key = match row.version {
        Some(_) => {
            let key = key_of(&session.events, row.value.event.id)?;
            session.query(sql::SET_SEAT_COUNT, [&key, &int(row.value.seat_count)?]).await?;
            key
        }
        None => create_event(session, &row.value).await?,
    };
    let known = loaded.blocks.get(&row.value.event.id).copied().unwrap_or(0);
    let blocks = row.value.blocks.iter().enumerate().skip(known);
    let (positions, (ids, names)): (Vec<i32>, (Vec<Uuid>, Vec<&str>)) =
        blocks.map(|(i, block)| (i as i32, (block.id.uuid(), block.name.as_str()))).unzip();
    if !ids.is_empty() {
        session.query(sql::NEW_BLOCKS, [&key, &positions, &ids, &names]).await?;
    }
    Ok(())
}

async fn create_event(session: &Session, row: &EventRow) -> Stored<i64> {
    let event = &row.event;
    let json = |text: Result<String, serde_json::Error>| text.map_err(|_| StoreError::Corrupt("an event"));
    let (tiers, policy) =
        (json(serde_json::to_string(&event.tiers))?, json(serde_json::to_string(&event.policy))?);
    let (id, org, seats) = (event.id.uuid(), event.org.uuid(), int(row.seat_count)?);
    let (name, currency, created) = (event.name.as_str(), event.currency.as_str(), event.created_at.millis());
    let prefix = SeatId::prefix(event.id);
    let rows = session
        .query(sql::NEW_EVENT, [&id, &org, &name, &currency, &tiers, &policy, &seats, &prefix, &created])
        .await?;
    let key = rows.first().ok_or(StoreError::Corrupt("the key of an event"))?.try_get(0)?;
    Ok(key)
}

async fn create_seats(session: &Session, loaded: &Loaded, added: &SectionsAdded) -> Stored<()> {
    let key = key_of(&session.events, added.event)?;
    let event = loaded.slice.event_row(added.event).ok_or(StoreError::Corrupt("an event"))?;
    let (mut keys, mut tiers, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
    let (mut rows, mut numbers, mut xs, mut ys) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut ordinal = added.first_ordinal;
    for section in &added.sections {
        let block = event.blocks.iter().position(|block| block.id == section.block);
        let block = block.ok_or(StoreError::Corrupt("the block of a section"))? as i32;
        for place in section.places() {
            keys.push(codec::seat_key(key, ordinal).ok_or(StoreError::Corrupt("an ordinal"))?);
            tiers.push(i16::from(place.tier));
            blocks.push(block);
            rows.push(place.row.as_str().to_owned());
            numbers.push(i64::from(place.number));
            xs.push(place.x);
            ys.push(place.y);
            ordinal += 1;
        }
    }
    session.query(sql::NEW_SEATS, [&keys, &tiers, &blocks, &rows, &numbers, &xs, &ys]).await?;
    Ok(())
}
