//! The rows that changed, as columns: a statement takes each of them as an array.

use rowlock_core::booking::Admits;
use rowlock_core::seat::SeatState;
use rowlock_core::{EventId, Slice, Time};
use uuid::Uuid;

use super::codec;
use super::events::Events;
use super::fault::{StoreError, Stored};
use super::load::Loaded;
use crate::columns;

pub(super) fn key_of(events: &Events, event: EventId) -> Stored<i64> {
    events.key(event).ok_or(StoreError::Corrupt("the event of a row"))
}

pub(super) fn int(number: u32) -> Stored<i32> {
    i32::try_from(number).map_err(|_| StoreError::Corrupt("a number"))
}

fn long(number: u64) -> Stored<i64> {
    i64::try_from(number).map_err(|_| StoreError::Corrupt("a version"))
}

#[derive(Default)]
pub(super) struct Seats {
    pub keys: Vec<i64>,
    pub versions: Vec<i64>,
    pub statuses: Vec<i16>,
    pub until: Vec<Option<i64>>,
    pub holds: Vec<Option<Uuid>>,
    pub tickets: Vec<Option<Uuid>>,
    pub tiers: Vec<i16>,
}

impl Seats {
    pub fn new(loaded: &Loaded, events: &Events) -> Stored<Self> {
        let mut columns = Self::default();
        let mut changed: Vec<_> = loaded.slice.changed_seats().collect();
        changed.sort_unstable_by_key(|(id, _)| *id);
        for (id, row) in changed {
            let event = loaded.slice.events().find(|event| id.ordinal_in(*event).is_some());
            let key = key_of(events, event.ok_or(StoreError::Corrupt("the event of a seat"))?)?;
            let (until, hold, ticket) = match &row.value.state {
                SeatState::Held { hold, until } => (Some(until.millis()), Some(hold.uuid()), None),
                SeatState::Sold { ticket } => (None, None, Some(ticket.uuid())),
                SeatState::Available | SeatState::Blocked => (None, None, None),
            };
            columns
                .keys
                .push(codec::seat_key(key, id.raw_ordinal()).ok_or(StoreError::Corrupt("an ordinal"))?);
            columns.versions.push(long(row.version.ok_or(StoreError::Corrupt("a seat"))?)?);
            columns.statuses.push(row.value.state.status() as i16);
            columns.until.push(until);
            columns.holds.push(hold);
            columns.tickets.push(ticket);
            columns.tiers.push(row.value.tier.into());
        }
        Ok(columns)
    }
}

#[derive(Default)]
pub(super) struct Areas {
    pub ids: Vec<Uuid>,
    pub versions: Vec<i64>,
    pub held: Vec<i32>,
    pub sold: Vec<i32>,
}

impl Areas {
    pub fn new(loaded: &Loaded) -> Stored<Self> {
        let mut columns = Self::default();
        for row in loaded.slice.changed_areas() {
            let Some(version) = row.version else { continue };
            columns.ids.push(row.value.id.uuid());
            columns.versions.push(long(version)?);
            columns.held.push(int(row.value.held)?);
            columns.sold.push(int(row.value.sold)?);
        }
        Ok(columns)
    }
}

#[derive(Default)]
pub(super) struct Holds {
    pub ids: Vec<Uuid>,
    pub versions: Vec<i64>,
    pub events: Vec<i64>,
    pub users: Vec<String>,
    pub carts: Vec<String>,
    pub statuses: Vec<i16>,
    pub sources: Vec<i16>,
    pub places: Vec<i32>,
    pub seats: Vec<String>,
    pub areas: Vec<String>,
    pub created_at: Vec<i64>,
    pub expires_at: Vec<i64>,
    pub max_expires_at: Vec<i64>,
    pub checkout_at: Vec<Option<i64>>,
    pub ended_at: Vec<Option<i64>>,
    pub bookings: Vec<Option<Uuid>>,
}

impl Holds {
    pub fn new(loaded: &Loaded, events: &Events, fresh: bool) -> Stored<Self> {
        let mut columns = Self::default();
        let mut changed: Vec<_> =
            loaded.slice.changed_holds().filter(|row| row.version.is_none() == fresh).collect();
        changed.sort_unstable_by_key(|row| row.value.id);
        for row in changed {
            let hold = &row.value;
            columns.ids.push(hold.id.uuid());
            columns.versions.push(long(row.version.unwrap_or(0))?);
            columns.events.push(key_of(events, hold.event)?);
            columns.users.push(hold.user.as_str().to_owned());
            columns.carts.push(hold.cart.as_str().to_owned());
            columns.statuses.push(hold.status as i16);
            columns.sources.push(hold.source as i16);
            columns.places.push(int(hold.places())?);
            columns.seats.push(columns::seats_json(hold));
            columns.areas.push(columns::areas_json(hold));
            columns.created_at.push(hold.created_at.millis());
            columns.expires_at.push(hold.expires_at.millis());
            columns.max_expires_at.push(hold.max_expires_at.millis());
            columns.checkout_at.push(hold.checkout_at.map(Time::millis));
            columns.ended_at.push(hold.ended_at.map(Time::millis));
            columns.bookings.push(hold.booking.map(|booking| booking.uuid()));
        }
        Ok(columns)
    }
}

#[derive(Default)]
pub(super) struct Bookings {
    pub ids: Vec<Uuid>,
    pub versions: Vec<i64>,
    pub holds: Vec<Uuid>,
    pub events: Vec<i64>,
    pub users: Vec<String>,
    pub statuses: Vec<i16>,
    pub sources: Vec<i16>,
    pub places: Vec<i32>,
    pub references: Vec<Option<String>>,
    pub created_at: Vec<i64>,
    pub cancelled_at: Vec<Option<i64>>,
}

impl Bookings {
    pub fn new(loaded: &Loaded, events: &Events, fresh: bool) -> Stored<Self> {
        let mut columns = Self::default();
        for row in loaded.slice.changed_bookings().filter(|row| row.version.is_none() == fresh) {
            let booking = &row.value;
            columns.ids.push(booking.id.uuid());
            columns.versions.push(long(row.version.unwrap_or(0))?);
            columns.holds.push(booking.hold.uuid());
            columns.events.push(key_of(events, booking.event)?);
            columns.users.push(booking.user.as_str().to_owned());
            columns.statuses.push(booking.status as i16);
            columns.sources.push(booking.source as i16);
            columns.places.push(booking.tickets.len() as i32);
            columns.references.push(booking.payment_reference.as_ref().map(|text| text.as_str().to_owned()));
            columns.created_at.push(booking.created_at.millis());
            columns.cancelled_at.push(booking.cancelled_at.map(Time::millis));
        }
        Ok(columns)
    }
}

#[derive(Default)]
pub(super) struct Tickets {
    pub ids: Vec<Uuid>,
    pub bookings: Vec<Uuid>,
    pub positions: Vec<i32>,
    pub events: Vec<i64>,
    pub ordinals: Vec<Option<i64>>,
    pub areas: Vec<Option<Uuid>>,
    pub prices: Vec<i64>,
}

impl Tickets {
    pub fn new(loaded: &Loaded, events: &Events) -> Stored<Self> {
        let mut columns = Self::default();
        for row in loaded.slice.changed_bookings().filter(|row| row.version.is_none()) {
            let key = key_of(events, row.value.event)?;
            for (position, ticket) in row.value.tickets.iter().enumerate() {
                let (ordinal, area) = match &ticket.admits {
                    Admits::Seat(ordinal) => (Some(i64::from(*ordinal)), None),
                    Admits::Area(area) => (None, Some(area.uuid())),
                };
                columns.ids.push(ticket.id.uuid());
                columns.bookings.push(row.value.id.uuid());
                columns.positions.push(position as i32);
                columns.events.push(key);
                columns.ordinals.push(ordinal);
                columns.areas.push(area);
                columns.prices.push(ticket.price);
            }
        }
        Ok(columns)
    }
}

#[derive(Default)]
pub(super) struct Records {
    pub orgs: Vec<Uuid>,
    pub actors: Vec<String>,
    pub keys: Vec<String>,
    pub fingerprints: Vec<Vec<u8>>,
    pub outcomes: Vec<String>,
}

impl Records {
    pub fn new(slice: &Slice) -> Stored<Self> {
        let mut columns = Self::default();
        for (key, record) in slice.fresh_records() {
            let outcome = serde_json::to_string(&record.outcome);
            columns.orgs.push(key.org.uuid());
            columns.actors.push(key.actor.to_string());
            columns.keys.push(key.key.to_string());
            columns.fingerprints.push(record.fingerprint.to_vec());
            columns.outcomes.push(outcome.map_err(|_| StoreError::Corrupt("an answer"))?);
        }
        Ok(columns)
    }
}
