//! Between kernel types and columns, in the order in which [`super::sql`] selects them.

use rowlock_core::area::Area;
use rowlock_core::booking::{Admits, Booking, BookingStatus, Ticket};
use rowlock_core::event::Event;
use rowlock_core::hold::{Hold, HoldStatus, Source};
use rowlock_core::org::{ApiKey, Org};
use rowlock_core::seat::{Seat, SeatState, SeatStatus};
use rowlock_core::{
    AreaId, BookingId, CartToken, EventId, HoldId, KeyId, Name, OrgId, PaymentReference, TicketId, Time,
    UserId,
};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use super::fault::{StoreError, Stored};
use crate::columns;

fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Stored<T> {
    Ok(row.try_get(column)?)
}

pub(super) fn number<T: TryFrom<i64>>(row: &Row, column: usize) -> Stored<T> {
    T::try_from(get(row, column)?).map_err(|_| StoreError::Corrupt("a number"))
}

pub(super) fn small<T: TryFrom<i32>>(row: &Row, column: usize) -> Stored<T> {
    T::try_from(get(row, column)?).map_err(|_| StoreError::Corrupt("a number"))
}

pub(super) fn tiny<T: TryFrom<i16>>(row: &Row, column: usize) -> Stored<T> {
    T::try_from(get(row, column)?).map_err(|_| StoreError::Corrupt("a number"))
}

pub(super) fn uuid(row: &Row, column: usize) -> Stored<Uuid> {
    get(row, column)
}

pub(super) fn time(row: &Row, column: usize) -> Stored<Time> {
    Ok(Time::from_millis(get(row, column)?))
}

fn optional_time(row: &Row, column: usize) -> Stored<Option<Time>> {
    Ok(get::<Option<i64>>(row, column)?.map(Time::from_millis))
}

pub(super) fn text(row: &Row, column: usize) -> Stored<&str> {
    get(row, column)
}

fn variant<T: Copy>(all: &[T], row: &Row, column: usize) -> Stored<T> {
    all.get(tiny::<usize>(row, column)?).copied().ok_or(StoreError::Corrupt("a status"))
}

pub(super) fn name(row: &Row, column: usize) -> Stored<Name> {
    Name::new(text(row, column)?).map_err(|_| StoreError::Corrupt("a name"))
}

pub(super) fn user(row: &Row, column: usize) -> Stored<UserId> {
    UserId::new(text(row, column)?).map_err(|_| StoreError::Corrupt("a user"))
}

pub(super) fn org(row: &Row) -> Stored<Org> {
    Ok(Org { id: OrgId::from_uuid(uuid(row, 0)?), name: name(row, 1)?, created_at: time(row, 2)? })
}

pub(super) fn api_key(row: &Row) -> Stored<ApiKey> {
    Ok(ApiKey {
        id: KeyId::from_uuid(uuid(row, 0)?),
        org: OrgId::from_uuid(uuid(row, 1)?),
        name: name(row, 2)?,
        scopes: columns::scopes(text(row, 3)?)?,
        secret_hash: get::<&[u8]>(row, 4)?.try_into().map_err(|_| StoreError::Corrupt("a digest"))?,
        created_at: time(row, 5)?,
        revoked_at: optional_time(row, 6)?,
    })
}

/// Where further columns begin when they are selected behind `event_columns!`.
pub(super) const AFTER_EVENT: usize = 9;

/// The event, its key and its number of seats.
pub(super) fn event(row: &Row) -> Stored<(Event, i64, u32)> {
    Ok((event_at(row, 0)?, get(row, 0)?, small(row, 7)?))
}

/// The event whose columns begin at `first`.
pub(super) fn event_at(row: &Row, first: usize) -> Stored<Event> {
    Ok(Event {
        id: EventId::from_uuid(uuid(row, first + 1)?),
        org: OrgId::from_uuid(uuid(row, first + 2)?),
        name: name(row, first + 3)?,
        currency: text(row, first + 4)?.parse().map_err(|_| StoreError::Corrupt("a currency"))?,
        tiers: columns::json(text(row, first + 5)?, "a tier")?,
        policy: columns::json(text(row, first + 6)?, "a policy")?,
        created_at: time(row, first + 8)?,
    })
}

pub(super) fn area(row: &Row, event: EventId) -> Stored<(Area, u64)> {
    let area = Area {
        id: AreaId::from_uuid(uuid(row, 0)?),
        event,
        name: name(row, 1)?,
        tier: tiny(row, 2)?,
        capacity: small(row, 3)?,
        held: small(row, 4)?,
        sold: small(row, 5)?,
    };
    Ok((area, number(row, 6)?))
}

const ORDINAL_BITS: u32 = 24;
const _: () = assert!(rowlock_core::limits::MAX_SEATS_PER_EVENT < 1 << ORDINAL_BITS);

/// The key of a seat's row. `None`: no event has so many seats, and the key would be that of another event's seat.
pub(super) const fn seat_key(event_key: i64, ordinal: u32) -> Option<i64> {
    if ordinal >= 1 << ORDINAL_BITS { None } else { Some((event_key << ORDINAL_BITS) | ordinal as i64) }
}

/// The keys of all the seats of an event: from the first, up to but not including the second.
pub(super) const fn seat_keys(event_key: i64) -> (i64, i64) {
    (event_key << ORDINAL_BITS, (event_key + 1) << ORDINAL_BITS)
}

/// The event key and the ordinal of a seat's key.
pub(super) const fn place(seat_key: i64) -> (i64, u32) {
    (seat_key >> ORDINAL_BITS, (seat_key & ((1 << ORDINAL_BITS) - 1)) as u32)
}

pub(super) const AFTER_SEAT: usize = 7;

/// The seat and its version.
pub(super) fn seat(row: &Row) -> Stored<(Seat, u64)> {
    let state = match variant(&SeatStatus::ALL, row, 1)? {
        SeatStatus::Available => SeatState::Available,
        SeatStatus::Held => SeatState::Held { hold: HoldId::from_uuid(uuid(row, 4)?), until: time(row, 3)? },
        SeatStatus::Sold => SeatState::Sold { ticket: TicketId::from_uuid(uuid(row, 5)?) },
        SeatStatus::Blocked => SeatState::Blocked,
    };
    Ok((Seat { state, tier: tiny(row, 6)? }, number(row, 2)?))
}

/// Where the columns of the event begin when they are selected behind `hold_columns!`.
pub(super) const AFTER_HOLD: usize = 15;

pub(super) fn event_key_of_hold(row: &Row) -> Stored<i64> {
    get(row, AFTER_HOLD - 1)
}

pub(super) fn hold(row: &Row, event: &Event) -> Stored<(Hold, u64)> {
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
        booking: get::<Option<Uuid>>(row, 13)?.map(BookingId::from_uuid),
    };
    Ok((hold, number(row, 4)?))
}

pub(super) const AFTER_BOOKING: usize = 10;

pub(super) fn event_key_of_booking(row: &Row) -> Stored<i64> {
    get(row, AFTER_BOOKING - 1)
}

/// The booking without its tickets.
pub(super) fn booking(row: &Row, event: &Event) -> Stored<(Booking, u64)> {
    let reference: Option<&str> = get(row, 6)?;
    let reference = reference.map(PaymentReference::new).transpose();
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
    Ok((booking, number(row, 4)?))
}

/// The ticket and the booking it is of.
pub(super) fn ticket(row: &Row) -> Stored<(Ticket, BookingId)> {
    let ordinal = get::<Option<i64>>(row, 1)?.map(u32::try_from).transpose();
    let ordinal = ordinal.map_err(|_| StoreError::Corrupt("an ordinal"))?;
    let admits = match (ordinal, get::<Option<Uuid>>(row, 2)?) {
        (Some(ordinal), None) => Admits::Seat(ordinal),
        (None, Some(area)) => Admits::Area(AreaId::from_uuid(area)),
        _ => return Err(StoreError::Corrupt("a ticket")),
    };
    let ticket = Ticket { id: TicketId::from_uuid(uuid(row, 0)?), admits, price: get(row, 3)? };
    Ok((ticket, BookingId::from_uuid(uuid(row, 4)?)))
}
