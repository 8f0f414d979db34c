//! Promise O: the rows say what the journal tells. Whose a hold is, what is in it, for how much and until when; what was sold
//! to whom; which seats are blocked; how an event was made.
//!
//! Each row adds a number that stands for what it says, and each fact takes away the number of what it tells. Nothing is
//! left when they agree. To keep all the words of all the holds that ever were would be too much.

use std::hash::{DefaultHasher, Hash, Hasher};

use rowlock_core::booking::{Admits, Booking};
use rowlock_core::event::{Block, Event};
use rowlock_core::hold::{HeldArea, HeldSeat, Hold};
use rowlock_core::{EventId, Fact, SeatId, Time};
use rusqlite::Connection;
use rustc_hash::FxHashSet;
use uuid::Uuid;

use super::{Place, Survey};
use crate::sqlite::codec::{self, Stored};
use crate::verify::Promise;

/// A number that stands for a value.
pub(super) fn mark(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Whose a hold is, and since when.
#[derive(Hash)]
pub(super) struct Owner<'t> {
    pub event: EventId,
    pub user: &'t str,
    pub cart: &'t str,
    pub source: u8,
    pub created_at: Time,
    pub max_expires_at: Time,
}

pub(super) fn hold(owner: &Owner, seats: &[HeldSeat], areas: &[HeldArea], expires_at: Time) -> u64 {
    mark(owner).wrapping_add(places(seats, areas)).wrapping_add(end(expires_at))
}

/// Places that are added to a hold one after another stand for the same as all at once.
fn places(seats: &[HeldSeat], areas: &[HeldArea]) -> u64 {
    let seats = seats.iter().map(|seat| mark((seat.ordinal, seat.price)));
    let areas = areas.iter().map(|held| mark((held.area, held.price)).wrapping_mul(held.quantity.into()));
    seats.chain(areas).fold(0, u64::wrapping_add)
}

/// An end that was moved stands for the last one.
fn end(at: Time) -> u64 {
    at.millis().wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) as u64
}

/// Who a booking is for, and what was paid.
#[derive(Hash)]
pub(super) struct Buyer<'t> {
    pub event: EventId,
    pub hold: Uuid,
    pub user: &'t str,
    pub source: u8,
    pub payment_reference: Option<&'t str>,
    pub created_at: Time,
}

pub(super) fn ticket(id: Uuid, ordinal: Option<u32>, area: Option<Uuid>, price: i64) -> u64 {
    mark((id, ordinal, area, price))
}

fn booking(booking: &Booking) -> u64 {
    let buyer = Buyer {
        event: booking.event,
        hold: booking.hold.uuid(),
        user: booking.user.as_str(),
        source: booking.source as u8,
        payment_reference: booking.payment_reference.as_ref().map(|reference| reference.as_str()),
        created_at: booking.created_at,
    };
    let tickets = booking.tickets.iter().map(|sold| match sold.admits {
        Admits::Seat(ordinal) => ticket(sold.id.uuid(), Some(ordinal), None, sold.price),
        Admits::Area(area) => ticket(sold.id.uuid(), None, Some(area.uuid()), sold.price),
    });
    tickets.fold(mark(buyer), u64::wrapping_add)
}

fn created(hold_told: &Hold) -> u64 {
    let owner = Owner {
        event: hold_told.event,
        user: hold_told.user.as_str(),
        cart: hold_told.cart.as_str(),
        source: hold_told.source as u8,
        created_at: hold_told.created_at,
        max_expires_at: hold_told.max_expires_at,
    };
    hold(&owner, &hold_told.seats, &hold_told.areas, hold_told.expires_at)
}

pub(super) fn event(event: &Event) -> u64 {
    mark(serde_json::to_string(event).expect("an event is JSON"))
}

/// The blocks and areas of events as their rows have them.
pub(super) fn parts(db: &Connection, survey: &mut Survey) -> Stored<()> {
    let mut statement = db.prepare("SELECT event_key, id, name FROM blocks")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let key: i64 = row.get(0)?;
        let Some(of) = survey.events.get_mut(&key) else { continue };
        of.blocks += 1;
        of.told = of.told.wrapping_add(mark(("block", codec::uuid(row, 1)?, codec::text(row, 2)?)));
    }
    let mut statement = db.prepare("SELECT event_key, id, name, tier, capacity FROM areas")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (key, tier, capacity): (i64, u8, u32) = (row.get(0)?, row.get(3)?, row.get(4)?);
        let Some(of) = survey.events.get_mut(&key) else { continue };
        let area = mark(("area", codec::uuid(row, 1)?, codec::text(row, 2)?, tier, capacity));
        of.told = of.told.wrapping_add(area);
    }
    Ok(())
}

/// Takes away what a fact tells from what the rows say.
pub(super) fn fact(survey: &mut Survey, event_key: Option<i64>, fact: &Fact) {
    let less = |left: &mut u64, told: u64| *left = left.wrapping_sub(told);
    match fact {
        Fact::HoldCreated(hold) => {
            survey.holds.get_mut(&hold.id).into_iter().for_each(|seen| less(&mut seen.told, created(hold)));
        }
        Fact::HoldGrew(part) => {
            let more = places(&part.seats, &part.areas);
            survey.holds.get_mut(&part.hold).into_iter().for_each(|seen| less(&mut seen.told, more));
        }
        // The row of a hold that is over still says what was in it.
        Fact::HoldReleased(part) if !part.ended => {
            let back = places(&part.seats, &[]).wrapping_neg();
            survey.holds.get_mut(&part.hold).into_iter().for_each(|seen| less(&mut seen.told, back));
        }
        Fact::HoldExtended(moved) => {
            let later = end(moved.expires_at).wrapping_sub(end(moved.previous_expires_at));
            survey.holds.get_mut(&moved.hold).into_iter().for_each(|seen| less(&mut seen.told, later));
        }
        Fact::BookingConfirmed(sold) => {
            survey
                .bookings
                .get_mut(&sold.id)
                .into_iter()
                .for_each(|seen| less(&mut seen.told, booking(sold)));
        }
        fact => {
            let Some(key) = event_key else { return };
            let Some(seen) = survey.events.get_mut(&key) else { return };
            match fact {
                Fact::EventCreated(made) => less(&mut seen.told, event(made)),
                Fact::BlockCreated(Block { id, name, .. }) => {
                    less(&mut seen.told, mark(("block", id.uuid(), name.as_str())));
                }
                Fact::AreaCreated(area) => {
                    let made = mark(("area", area.id.uuid(), area.name.as_str(), area.tier, area.capacity));
                    less(&mut seen.told, made);
                }
                Fact::SeatsBlocked(marked) | Fact::SeatsUnblocked(marked) => {
                    turn(&mut survey.blocked, key, &marked.seats);
                }
                _ => {}
            }
        }
    }
}

/// A seat that is blocked now was blocked once more often than unblocked. What is left at the end is wrong.
fn turn(blocked: &mut FxHashSet<Place>, event_key: i64, seats: &[SeatId]) {
    for seat in seats {
        let place = (event_key, seat.raw_ordinal());
        if !blocked.remove(&place) {
            blocked.insert(place);
        }
    }
}

/// What is left when all rows and all facts have been seen.
pub(super) fn rest(survey: &mut Survey) {
    let holds = survey.holds.iter().filter(|(_, seen)| seen.told != 0 && seen.created == 1);
    let mut wrong: Vec<String> = holds.map(|(id, _)| format!("hold {id} is")).collect();
    let bookings = survey.bookings.iter().filter(|(_, seen)| seen.told != 0 && seen.confirmed_facts == 1);
    wrong.extend(bookings.map(|(id, _)| format!("booking {id} is, or its tickets are,")));
    let events = survey.events.values().filter(|seen| seen.told != 0);
    wrong.extend(events.map(|seen| format!("event {}, a block or an area of it is", seen.id)));
    wrong.sort_unstable();
    for who in wrong {
        let what = format!("{who} other than the journal tells");
        survey.violation(Promise::O, "rows that the journal tells otherwise", what);
    }
    let mut places: Vec<Place> = std::mem::take(&mut survey.blocked).into_iter().collect();
    places.sort_unstable();
    for place in places {
        let what = format!(
            "seat {} is blocked, or is not, and the journal tells otherwise",
            survey.seat_name(place)
        );
        survey.violation(Promise::O, "blocked seats", what);
    }
}
