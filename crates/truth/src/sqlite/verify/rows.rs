//! The file itself, and the rows that the other checks are about.

use rowlock_core::booking::BookingStatus;
use rowlock_core::hold::{HoldStatus, places};
use rowlock_core::{BookingId, EventId, HoldId};
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::told::{self, Buyer, Owner};
use super::{BookingSeen, Claim, EventSeen, HoldSeen, Place, Survey};
use crate::columns;
use crate::sqlite::codec::{self, StoreError, Stored};
use crate::verify::Promise;

const CARTS_WITH_TWO_HOLDS: &str = "SELECT min(id), max(id) FROM holds WHERE status = 0
     GROUP BY event_key, user_id, cart_token HAVING count(*) > 1";

const HOLDS_WITHOUT_THEIR_BOOKING: &str = "SELECT h.id, h.booking_id FROM holds h
     LEFT JOIN bookings b ON b.id = h.booking_id AND b.hold_id = h.id
     WHERE h.status = 1 AND b.id IS NULL";

/// What SQLite itself finds: damaged pages, broken constraints.
pub(super) fn file(db: &Connection, survey: &mut Survey) -> Stored<()> {
    let mut statement = db.prepare("PRAGMA quick_check(101)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let said = codec::text(row, 0)?;
        if said != "ok" {
            survey.violation(Promise::O, "faults in the file", format!("the file is damaged: {said}"));
        }
    }
    Ok(())
}

pub(super) fn events(db: &Connection, survey: &mut Survey) -> Stored<()> {
    let mut statement = db.prepare(&format!("SELECT {} FROM events", codec::EVENT_COLUMNS))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (event, key, seat_count) = codec::event(row)?;
        let (tiers, told) = (event.tiers.len(), told::event(&event));
        survey.events.insert(key, EventSeen { id: event.id, seat_count, tiers, blocks: 0, told });
    }
    survey.counted.push(("events", survey.events.len() as u64));
    Ok(())
}

pub(super) fn holds(db: &Connection, survey: &mut Survey) -> Stored<()> {
    let sql = "SELECT id, event_key, status, places, seats, areas, expires_at, user_id, cart_token, source, created_at,
                      max_expires_at FROM holds";
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        hold(row, survey)?;
    }
    survey.counted.push(("holds", survey.holds.len() as u64));
    two_holds(db, survey)
}

/// A cart has one active hold, which no constraint keeps.
fn two_holds(db: &Connection, survey: &mut Survey) -> Stored<()> {
    let mut statement = db.prepare(CARTS_WITH_TWO_HOLDS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (one, other) = (codec::uuid(row, 0)?, codec::uuid(row, 1)?);
        let what = format!("holds {one} and {other} are active in one cart");
        survey.violation(Promise::S, "carts with two holds", what);
    }
    Ok(())
}

fn hold(row: &Row, survey: &mut Survey) -> Stored<()> {
    let id = HoldId::from_uuid(codec::uuid(row, 0)?);
    let (event_key, status): (i64, u8) = (row.get(1)?, row.get(2)?);
    survey.holds.insert(id, HoldSeen { status, created: 0, ended: 0, ended_as: 0, told: 0 });
    let (seats, areas) = (codec::text(row, 4)?, codec::text(row, 5)?);
    let listed = columns::held_seats(seats).and_then(|seats| Ok((seats, columns::held_areas(areas)?)));
    let Ok((seats, areas)) = listed else {
        survey.violation(Promise::S, "unreadable holds", format!("hold {id} does not say what it holds"));
        return Ok(());
    };
    let owner = Owner {
        event: survey.events.get(&event_key).map_or(EventId::from_uuid(Uuid::nil()), |event| event.id),
        user: codec::text(row, 7)?,
        cart: codec::text(row, 8)?,
        source: row.get(9)?,
        created_at: codec::time(row, 10)?,
        max_expires_at: codec::time(row, 11)?,
    };
    let told = told::hold(&owner, &seats, &areas, codec::time(row, 6)?);
    survey.holds.entry(id).and_modify(|seen| seen.told = told);
    if places(&seats, &areas) != row.get::<_, u32>(3)? {
        let what = format!("hold {id} counts other places than it lists");
        survey.violation(Promise::S, "miscounted holds", what);
    }
    if status != HoldStatus::Active as u8 {
        return Ok(());
    }
    let claim = Claim { hold: id, until: codec::time(row, 6)? };
    for seat in seats {
        let place: Place = (event_key, seat.ordinal);
        if let Some(other) = survey.claims.insert(place, claim) {
            let what = format!("holds {} and {id} both list seat {}", other.hold, survey.seat_name(place));
            survey.violation(Promise::S, "seats in two holds", what);
        }
    }
    for held in areas {
        survey.areas.entry(held.area).or_default().held += u64::from(held.quantity);
    }
    Ok(())
}

pub(super) fn bookings(db: &Connection, survey: &mut Survey) -> Stored<()> {
    let sql = "SELECT b.id, b.hold_id, b.event_key, b.status, b.places, h.status, h.booking_id, b.user_id, b.source,
                      b.payment_reference, b.created_at
               FROM bookings b LEFT JOIN holds h ON h.id = b.hold_id";
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        booking(row, survey)?;
    }
    survey.counted.push(("bookings", survey.bookings.len() as u64));
    let mut statement = db.prepare(HOLDS_WITHOUT_THEIR_BOOKING)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (hold, booking) = (codec::uuid(row, 0)?, codec::optional_uuid(row, 1)?.unwrap_or_default());
        let what =
            format!("hold {hold} is converted, but its booking {booking} does not exist or is another's");
        survey.violation(Promise::E, "converted holds without a booking", what);
    }
    two_bookings(db, survey)
}

fn booking(row: &Row, survey: &mut Survey) -> Stored<()> {
    let id = BookingId::from_uuid(codec::uuid(row, 0)?);
    let hold = codec::uuid(row, 1)?;
    let status = BookingStatus::ALL.get(row.get::<_, usize>(3)?).ok_or(StoreError::Corrupt("a status"))?;
    let event_key: i64 = row.get(2)?;
    let payment_reference: Option<String> = row.get(9)?;
    let buyer = Buyer {
        event: survey.events.get(&event_key).map_or(EventId::from_uuid(Uuid::nil()), |event| event.id),
        hold,
        user: codec::text(row, 7)?,
        source: row.get(8)?,
        payment_reference: payment_reference.as_deref(),
        created_at: codec::time(row, 10)?,
    };
    let seen = BookingSeen {
        event_key,
        cancelled: *status == BookingStatus::Cancelled,
        places: row.get(4)?,
        tickets: 0,
        confirmed_facts: 0,
        cancelled_facts: 0,
        told: told::mark(buyer),
    };
    survey.bookings.insert(id, seen);
    let fault = match row.get::<_, Option<u8>>(5)? {
        None => "which does not exist",
        Some(status) if status != HoldStatus::Converted as u8 => "which is not converted",
        Some(_) if codec::optional_uuid(row, 6)? != Some(id.uuid()) => "which became another booking",
        Some(_) => return Ok(()),
    };
    let what = format!("booking {id} is of hold {hold}, {fault}");
    survey.violation(Promise::E, "bookings without their hold", what);
    Ok(())
}

fn two_bookings(db: &Connection, survey: &mut Survey) -> Stored<()> {
    let sql = "SELECT hold_id, count(*) FROM bookings GROUP BY hold_id HAVING count(*) > 1";
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (hold, count): (_, u64) = (codec::uuid(row, 0)?, row.get(1)?);
        survey.violation(Promise::X, "holds with two bookings", format!("hold {hold} has {count} bookings"));
    }
    Ok(())
}
