//! Between kernel types and columns.

use rowlock_core::area::Area;
use rowlock_core::booking::{Admits, Booking, BookingStatus, Ticket};
use rowlock_core::event::Event;
use rowlock_core::hold::{Hold, HoldStatus, Source};
use rowlock_core::money::Currency;
use rowlock_core::org::{ApiKey, Org};
use rowlock_core::seat::{Seat, SeatState, SeatStatus};
use rowlock_core::{
    AreaId, BookingId, CartToken, EventId, HoldId, KeyId, Name, OrgId, PaymentReference, TicketId, Time,
    UserId,
};
use rusqlite::Row;
use uuid::Uuid;

use crate::Failure;
use crate::columns::{self, Corrupt};

#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// A row had another version than the one it was read with.
    #[error("a {0} was changed by somebody else between load and write")]
    Stale(&'static str),
    #[error("{0} can't be read")]
    Corrupt(&'static str),
}

impl From<Corrupt> for StoreError {
    fn from(Corrupt(what): Corrupt) -> Self {
        StoreError::Corrupt(what)
    }
}

impl StoreError {
    /// For an insert whose key was free when it was looked up: if it is not now, somebody else was quicker.
    pub fn of_insert(self, what: &'static str) -> Self {
        use rusqlite::ffi::{SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE};
        let StoreError::Sqlite(error) = &self else { return self };
        match error.sqlite_error().map(|error| error.extended_code) {
            Some(SQLITE_CONSTRAINT_PRIMARYKEY | SQLITE_CONSTRAINT_UNIQUE) => StoreError::Stale(what),
            _ => self,
        }
    }

    /// Whether the store as a whole is in trouble, so that trying commands one by one can't help.
    pub fn is_outage(&self) -> bool {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase, OutOfMemory,
            PermissionDenied, ReadOnly, SystemIoFailure,
        };
        let StoreError::Sqlite(error) = self else { return false };
        matches!(
            error.sqlite_error_code(),
            Some(
                CannotOpen
                    | DatabaseBusy
                    | DatabaseCorrupt
                    | DatabaseLocked
                    | DiskFull
                    | NotADatabase
                    | OutOfMemory
                    | PermissionDenied
                    | ReadOnly
                    | SystemIoFailure
            )
        )
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        if error.is_outage() {
            Failure::Unavailable(error.to_string())
        } else {
            Failure::Broken(error.to_string())
        }
    }
}

pub(super) type Stored<T> = Result<T, StoreError>;

pub(super) fn uuid(row: &Row, column: usize) -> Stored<Uuid> {
    let blob = row.get_ref(column)?.as_blob().map_err(|_| StoreError::Corrupt("an id"))?;
    Uuid::from_slice(blob).map_err(|_| StoreError::Corrupt("an id"))
}

pub(super) fn optional_uuid(row: &Row, column: usize) -> Stored<Option<Uuid>> {
    match row.get_ref(column)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => uuid(row, column).map(Some),
    }
}

pub(super) fn time(row: &Row, column: usize) -> Stored<Time> {
    Ok(Time::from_millis(row.get(column)?))
}

pub(super) fn optional_time(row: &Row, column: usize) -> Stored<Option<Time>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Time::from_millis))
}

pub(super) fn text<'r>(row: &'r Row, column: usize) -> Stored<&'r str> {
    row.get_ref(column)?.as_str().map_err(|_| StoreError::Corrupt("a text"))
}

fn variant<T: Copy>(all: &[T], row: &Row, column: usize) -> Stored<T> {
    all.get(row.get::<_, usize>(column)?).copied().ok_or(StoreError::Corrupt("a status"))
}

pub(super) fn name(row: &Row, column: usize) -> Stored<Name> {
    Name::new(text(row, column)?).map_err(|_| StoreError::Corrupt("a name"))
}

pub(super) fn user(row: &Row, column: usize) -> Stored<UserId> {
    UserId::new(text(row, column)?).map_err(|_| StoreError::Corrupt("a user"))
}

pub(super) const ORG_COLUMNS: &str = "id, name, created_at";

pub(super) fn org(row: &Row) -> Stored<Org> {
    Ok(Org { id: OrgId::from_uuid(uuid(row, 0)?), name: name(row, 1)?, created_at: time(row, 2)? })
}

pub(super) const KEY_COLUMNS: &str = "id, org_id, name, scopes, secret_hash, created_at, revoked_at";

pub(super) fn api_key(row: &Row) -> Stored<ApiKey> {
    Ok(ApiKey {
        id: KeyId::from_uuid(uuid(row, 0)?),
        org: OrgId::from_uuid(uuid(row, 1)?),
        name: name(row, 2)?,
        scopes: columns::scopes(text(row, 3)?)?,
        secret_hash: row.get(4)?,
        created_at: time(row, 5)?,
        revoked_at: optional_time(row, 6)?,
    })
}

pub(super) const EVENT_COLUMNS: &str =
    "key, id, org_id, name, currency, tiers, policy, seat_count, created_at";

/// The event, its key and its number of seats.
pub(super) fn event(row: &Row) -> Stored<(Event, i64, u32)> {
    let event = Event {
        id: EventId::from_uuid(uuid(row, 1)?),
        org: OrgId::from_uuid(uuid(row, 2)?),
        name: name(row, 3)?,
        currency: currency(row, 4)?,
        tiers: serde_json::from_str(text(row, 5)?).map_err(|_| StoreError::Corrupt("a tier"))?,
        policy: serde_json::from_str(text(row, 6)?).map_err(|_| StoreError::Corrupt("a policy"))?,
        created_at: time(row, 8)?,
    };
    Ok((event, row.get(0)?, row.get(7)?))
}

fn currency(row: &Row, column: usize) -> Stored<Currency> {
    text(row, column)?.parse().map_err(|_| StoreError::Corrupt("a currency"))
}

pub(super) const AREA_COLUMNS: &str = "id, name, tier, capacity, held, sold, version";

pub(super) fn area(row: &Row, event: EventId) -> Stored<(Area, u64)> {
    let area = Area {
        id: AreaId::from_uuid(uuid(row, 0)?),
        event,
        name: name(row, 1)?,
        tier: row.get(2)?,
        capacity: row.get(3)?,
        held: row.get(4)?,
        sold: row.get(5)?,
    };
    Ok((area, row.get(6)?))
}

const ORDINAL_BITS: u32 = 24;
const _: () = assert!(rowlock_core::limits::MAX_SEATS_PER_EVENT < 1 << ORDINAL_BITS);

/// The key of a seat's row.
///
/// # Panics
/// When the ordinal does not fit: the key would be that of a seat of another event.
pub(super) const fn seat_key(event_key: i64, ordinal: u32) -> i64 {
    assert!(ordinal < 1 << ORDINAL_BITS, "an ordinal is smaller than the room for it");
    (event_key << ORDINAL_BITS) | ordinal as i64
}

/// The ordinal of a seat's key.
pub(super) const fn ordinal(seat_key: i64) -> u32 {
    (seat_key & ((1 << ORDINAL_BITS) - 1)) as u32
}

/// The key of a journal row. The first of the next stream is the end of this one.
pub(super) const fn journal_key(stream_key: i64, sequence: u64) -> i64 {
    (stream_key << 40) | sequence as i64
}

pub(super) const SEAT_COLUMNS: &str = "s.status, s.ticket_id, s.tier";

/// A seat as its row has it, which does not say who holds it.
pub(super) fn seat(row: &Row) -> Stored<Seat> {
    let state = match stored_status(row, 0)? {
        SeatStatus::Sold => SeatState::Sold { ticket: TicketId::from_uuid(uuid(row, 1)?) },
        SeatStatus::Blocked => SeatState::Blocked,
        SeatStatus::Available | SeatStatus::Held => SeatState::Available,
    };
    Ok(Seat { state, tier: row.get(2)? })
}

/// The status that a seat has by its row: it may be available, sold or blocked.
pub(super) fn stored_status(row: &Row, column: usize) -> Stored<SeatStatus> {
    match variant(&SeatStatus::ALL, row, column)? {
        SeatStatus::Held => Err(StoreError::Corrupt("a seat")),
        status => Ok(status),
    }
}

/// What a hold's or booking's row takes from its event's.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventRef {
    pub id: EventId,
    pub org: OrgId,
    pub currency: Currency,
}

pub(super) fn event_ref(row: &Row, first: usize) -> Stored<EventRef> {
    Ok(EventRef {
        id: EventId::from_uuid(uuid(row, first)?),
        org: OrgId::from_uuid(uuid(row, first + 1)?),
        currency: currency(row, first + 2)?,
    })
}

pub(super) const HOLD_COLUMNS: &str = "h.id, h.user_id, h.cart_token, h.status, h.version, h.source, h.seats, h.areas, \
     h.created_at, h.expires_at, h.max_expires_at, h.checkout_at, h.ended_at, h.booking_id, h.event_key";
/// Where the columns of the event begin when they are selected behind [`HOLD_COLUMNS`].
pub(super) const AFTER_HOLD: usize = 15;

pub(super) fn hold(row: &Row, event: EventRef) -> Stored<(Hold, u64)> {
    let hold = Hold {
        id: HoldId::from_uuid(uuid(row, 0)?),
        org: event.org,
        event: event.id,
        user: user(row, 1)?,
        cart: CartToken::new(text(row, 2)?).map_err(|_| StoreError::Corrupt("a cart"))?,
        status: variant(&HoldStatus::ALL, row, 3)?,
        source: variant(&Source::ALL, row, 5)?,
        currency: event.currency,
        seats: columns::held_seats(text(row, 6)?)?,
        areas: columns::held_areas(text(row, 7)?)?,
        created_at: time(row, 8)?,
        expires_at: time(row, 9)?,
        max_expires_at: time(row, 10)?,
        checkout_at: optional_time(row, 11)?,
        ended_at: optional_time(row, 12)?,
        booking: optional_uuid(row, 13)?.map(BookingId::from_uuid),
    };
    Ok((hold, row.get(4)?))
}

pub(super) const BOOKING_COLUMNS: &str = "b.id, b.hold_id, b.user_id, b.status, b.version, b.source, \
     b.payment_reference, b.created_at, b.cancelled_at, b.event_key";
pub(super) const AFTER_BOOKING: usize = 10;

/// The booking without its tickets.
pub(super) fn booking(row: &Row, event: EventRef) -> Stored<(Booking, u64)> {
    let reference: Option<String> = row.get(6)?;
    let reference = reference.map(|text| PaymentReference::new(&text)).transpose();
    let booking = Booking {
        id: BookingId::from_uuid(uuid(row, 0)?),
        org: event.org,
        event: event.id,
        hold: HoldId::from_uuid(uuid(row, 1)?),
        user: user(row, 2)?,
        status: variant(&BookingStatus::ALL, row, 3)?,
        source: variant(&Source::ALL, row, 5)?,
        currency: event.currency,
        tickets: Vec::new(),
        payment_reference: reference.map_err(|_| StoreError::Corrupt("a payment reference"))?,
        created_at: time(row, 7)?,
        cancelled_at: optional_time(row, 8)?,
    };
    Ok((booking, row.get(4)?))
}

pub(super) const TICKET_COLUMNS: &str = "id, ordinal, area_id, price";

pub(super) fn ticket(row: &Row) -> Stored<Ticket> {
    let admits = match (row.get::<_, Option<u32>>(1)?, optional_uuid(row, 2)?) {
        (Some(ordinal), None) => Admits::Seat(ordinal),
        (None, Some(area)) => Admits::Area(AreaId::from_uuid(area)),
        _ => return Err(StoreError::Corrupt("a ticket")),
    };
    Ok(Ticket { id: TicketId::from_uuid(uuid(row, 0)?), admits, price: row.get(3)? })
}
