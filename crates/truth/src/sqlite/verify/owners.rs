//! Promise S: a seat has one owner and both sides say so; an area is as full as what was taken of it.

use rowlock_core::hold::HoldStatus;
use rowlock_core::seat::SeatStatus;
use rowlock_core::{AreaId, BookingId, HoldId, TicketId};
use rusqlite::{Connection, OptionalExtension, Row};

use super::{Place, Survey, told};
use crate::sqlite::codec::{self, StoreError, Stored};
use crate::verify::Promise;

pub(super) fn tickets(db: &Connection, survey: &mut Survey) -> Stored<()> {
    let mut statement =
        db.prepare("SELECT id, booking_id, event_key, ordinal, area_id, price FROM tickets")?;
    let mut rows = statement.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        ticket(row, survey)?;
        count += 1;
    }
    survey.counted.push(("tickets", count));
    let mut wrong: Vec<String> = survey
        .bookings
        .iter()
        .filter(|(_, booking)| booking.tickets != booking.places)
        .map(|(id, booking)| {
            format!("booking {id} is of {} places and has {} tickets", booking.places, booking.tickets)
        })
        .collect();
    wrong.sort_unstable();
    for what in wrong {
        survey.violation(Promise::S, "bookings with other tickets than places", what);
    }
    Ok(())
}

fn ticket(row: &Row, survey: &mut Survey) -> Stored<()> {
    let (id, of) = (TicketId::from_uuid(codec::uuid(row, 0)?), BookingId::from_uuid(codec::uuid(row, 1)?));
    let event_key: i64 = row.get(2)?;
    let Some(booking) = survey.bookings.get_mut(&of) else {
        let what = format!("ticket {id} is of booking {of}, which does not exist");
        survey.violation(Promise::S, "tickets without a booking", what);
        return Ok(());
    };
    booking.tickets += 1;
    let (ordinal, area) = (row.get(3)?, codec::optional_uuid(row, 4)?);
    booking.told = booking.told.wrapping_add(told::ticket(id.uuid(), ordinal, area, row.get(5)?));
    let (cancelled, strange) = (booking.cancelled, booking.event_key != event_key);
    if strange {
        let what = format!("ticket {id} is for another event than its booking {of}");
        survey.violation(Promise::S, "tickets of another event", what);
    }
    if cancelled {
        return Ok(());
    }
    match (ordinal, area) {
        (Some(ordinal), _) => {
            let place = (event_key, ordinal);
            if let Some(other) = survey.tickets.insert(place, id) {
                let what =
                    format!("tickets {other} and {id} are both valid for seat {}", survey.seat_name(place));
                survey.violation(Promise::S, "seats with two tickets", what);
            }
        }
        (None, Some(area)) => survey.areas.entry(AreaId::from_uuid(area)).or_default().sold += 1,
        (None, None) => return Err(StoreError::Corrupt("a ticket")),
    }
    Ok(())
}

pub(super) fn seats(db: &Connection, survey: &mut Survey) -> Stored<()> {
    let sql = "SELECT event_key, ordinal, status, held_until, hold_id, ticket_id, tier, block FROM seats
               ORDER BY key";
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut count = 0;
    let mut event: Option<(i64, u32)> = None;
    let mut complete = rustc_hash::FxHashSet::default();
    while let Some(row) = rows.next()? {
        count += 1;
        let place: Place = (row.get(0)?, row.get(1)?);
        match &mut event {
            Some((key, next)) if *key == place.0 => {
                dense(survey, place, *next);
                *next = place.1 + 1;
            }
            _ => {
                if let Some((key, seats)) = event.replace((place.0, place.1 + 1)) {
                    complete.insert(key);
                    whole(survey, key, seats);
                }
                dense(survey, place, 0);
            }
        }
        seat(db, row, place, survey)?;
    }
    if let Some((key, seats)) = event {
        complete.insert(key);
        whole(survey, key, seats);
    }
    let empty: Vec<i64> = survey.events.keys().filter(|key| !complete.contains(key)).copied().collect();
    empty.into_iter().for_each(|key| whole(survey, key, 0));
    survey.counted.push(("seats", count));
    unmatched(survey);
    Ok(())
}

fn dense(survey: &mut Survey, place: Place, expected: u32) {
    if place.1 != expected {
        let what = format!("seat {} comes where ordinal {expected} should", survey.seat_name(place));
        survey.violation(Promise::S, "gaps between seats", what);
    }
}

/// The event has as many seats as it says.
fn whole(survey: &mut Survey, event_key: i64, seats: u32) {
    let what = match survey.events.get(&event_key) {
        Some(event) if event.seat_count == seats => return,
        Some(event) => format!("event {} is of {} seats and has {seats}", event.id, event.seat_count),
        None => format!("{seats} seats are of the unknown event {event_key}"),
    };
    survey.violation(Promise::S, "events with other seats than they say", what);
}

fn seat(db: &Connection, row: &Row, place: Place, survey: &mut Survey) -> Stored<()> {
    let (status, tier, block): (usize, usize, usize) = (row.get(2)?, row.get(6)?, row.get(7)?);
    let of = survey.events.get(&place.0);
    if of.is_some_and(|event| tier >= event.tiers || block >= event.blocks) {
        let what =
            format!("seat {} is of a tier or a block that its event does not have", survey.seat_name(place));
        survey.violation(Promise::S, "seats without a tier or a block", what);
    }
    match SeatStatus::ALL.get(status) {
        Some(SeatStatus::Held) => held(row, place, survey),
        Some(SeatStatus::Sold) => sold(db, row, place, survey),
        Some(SeatStatus::Available) => {
            if !survey.seats_say_who {
                survey.claims.remove(&place);
            }
            Ok(())
        }
        Some(SeatStatus::Blocked) => {
            survey.blocked.insert(place);
            Ok(())
        }
        None => {
            let what = format!("seat {} has the unknown status {status}", survey.seat_name(place));
            survey.violation(Promise::S, "seats of unknown status", what);
            Ok(())
        }
    }
}

fn held(row: &Row, place: Place, survey: &mut Survey) -> Stored<()> {
    let (until, hold) = (codec::optional_time(row, 3)?, codec::optional_uuid(row, 4)?);
    let hold = hold.map(HoldId::from_uuid);
    if !survey.seats_say_who {
        let what = format!("seat {} is held by its row, where nobody looks for it", survey.seat_name(place));
        survey.violation(Promise::S, "held seats", what);
        return Ok(());
    }
    let claim = survey.claims.get(&place).filter(|claim| Some(claim.hold) == hold).copied();
    let fault = match (claim, hold.and_then(|hold| survey.holds.get(&hold))) {
        (Some(claim), _) => {
            survey.claims.remove(&place);
            if Some(claim.until) == until {
                return Ok(());
            }
            "which ends at another time"
        }
        (None, None) => "which does not exist",
        (None, Some(seen)) if seen.status != HoldStatus::Active as u8 => "which is not active",
        (None, Some(_)) => "which does not list it",
    };
    let hold = hold.map_or("nobody".into(), |hold| hold.to_string());
    let what = format!("seat {} is held by {hold}, {fault}", survey.seat_name(place));
    survey.violation(Promise::S, "held seats", what);
    Ok(())
}

fn sold(db: &Connection, row: &Row, place: Place, survey: &mut Survey) -> Stored<()> {
    let ticket = codec::optional_uuid(row, 5)?.map(TicketId::from_uuid);
    if ticket.is_some() && survey.tickets.get(&place) == ticket.as_ref() {
        survey.tickets.remove(&place);
        return Ok(());
    }
    let sql = "SELECT event_key, ordinal FROM tickets WHERE id = ?1";
    let of: Option<(i64, Option<u32>)> = match ticket {
        Some(ticket) => db
            .prepare_cached(sql)?
            .query_row([ticket.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?,
        None => None,
    };
    let fault = match of {
        None => "which does not exist",
        Some((key, Some(ordinal))) if (key, ordinal) == place => "which is not valid",
        Some(_) => "which is for another place",
    };
    let ticket = ticket.map_or("nothing".into(), |ticket| ticket.to_string());
    let what = format!("seat {} is sold with ticket {ticket}, {fault}", survey.seat_name(place));
    survey.violation(Promise::S, "sold seats", what);
    Ok(())
}

/// What holds and tickets claim and no seat confirmed.
fn unmatched(survey: &mut Survey) {
    let mut claims: Vec<_> = std::mem::take(&mut survey.claims).into_iter().collect();
    claims.sort_unstable_by_key(|(place, _)| *place);
    for (place, claim) in claims {
        let what =
            format!("hold {} lists seat {}, which it does not hold", claim.hold, survey.seat_name(place));
        survey.violation(Promise::S, "seats listed but not held", what);
    }
    let mut tickets: Vec<_> = std::mem::take(&mut survey.tickets).into_iter().collect();
    tickets.sort_unstable();
    for (place, ticket) in tickets {
        let what = format!("ticket {ticket} is valid for seat {}, not sold to it", survey.seat_name(place));
        survey.violation(Promise::S, "tickets without their seat", what);
    }
}

pub(super) fn areas(db: &Connection, survey: &mut Survey) -> Stored<()> {
    let mut statement = db.prepare("SELECT id, capacity, held, sold FROM areas ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut uses = std::mem::take(&mut survey.areas);
    while let Some(row) = rows.next()? {
        let id = AreaId::from_uuid(codec::uuid(row, 0)?);
        // Signed, because a broken counter can be below nothing.
        let (capacity, held, sold): (i64, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let taken = uses.remove(&id).unwrap_or_default();
        for (word, counted, listed) in [("held", held, taken.held), ("sold", sold, taken.sold)] {
            if u64::try_from(counted) != Ok(listed) {
                let what = format!("area {id} counts {counted} places {word}, and {listed} are");
                survey.violation(Promise::S, "miscounted areas", what);
            }
        }
        if held + sold > capacity || (taken.held + taken.sold) as i64 > capacity {
            let what = format!("area {id} has {capacity} places and more are taken");
            survey.violation(Promise::S, "areas over capacity", what);
        }
    }
    let mut unknown: Vec<AreaId> = uses.into_keys().collect();
    unknown.sort_unstable();
    for id in unknown {
        let what = format!("places are taken of area {id}, which does not exist");
        survey.violation(Promise::S, "unknown areas", what);
    }
    Ok(())
}
