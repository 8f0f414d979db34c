//! What must be true of the rows and the journal at every moment: promises S (one owner) and E (one end).

use std::collections::BTreeMap;

use rowlock_core::booking::{Admits, Booking, BookingStatus};
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::seat::SeatState;
use rowlock_core::{AreaId, Fact, HoldId, SeatId, TicketId};

use super::rows::Rows;

macro_rules! must {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}

/// Checks the rows alone.
pub fn rows(rows: &Rows) -> Result<(), String> {
    let sold = tickets(rows)?;
    for (id, row) in &rows.seats {
        match row.value.state {
            SeatState::Held { hold, until } => {
                let hold = rows.holds.get(&hold).map(|row| &row.value);
                let hold = hold.ok_or_else(|| format!("seat {id} is held by nobody"))?;
                let listed = id.ordinal_in(hold.event).is_some_and(|ordinal| hold.has_seat(ordinal));
                must!(hold.status == HoldStatus::Active && listed, "seat {id} is held by a hold without it");
                must!(until == hold.expires_at, "seat {id} and its hold end at different times");
            }
            SeatState::Sold { ticket } => {
                must!(sold.seats.get(&ticket) == Some(id), "seat {id} is sold without a ticket");
            }
            SeatState::Available | SeatState::Blocked => {}
        }
    }
    for hold in rows.active_holds() {
        active_hold(rows, hold)?;
    }
    areas(rows, &sold)?;
    rows.holds.values().try_for_each(|row| ended_hold(rows, &row.value))
}

#[derive(Default)]
struct Sold {
    seats: BTreeMap<TicketId, SeatId>,
    areas: BTreeMap<AreaId, u32>,
}

/// The tickets of all confirmed bookings, each of which must have its place.
fn tickets(rows: &Rows) -> Result<Sold, String> {
    let mut sold = Sold::default();
    let bookings = rows.bookings.values().map(|row| &row.value);
    for booking in bookings.filter(|booking| booking.status == BookingStatus::Confirmed) {
        for ticket in &booking.tickets {
            match ticket.admits {
                Admits::Seat(ordinal) => {
                    let id = SeatId::of(booking.event, ordinal);
                    let owner = SeatState::Sold { ticket: ticket.id };
                    must!(rows.seats[&id].value.state == owner, "ticket {} has lost seat {id}", ticket.id);
                    must!(
                        sold.seats.insert(ticket.id, id).is_none(),
                        "ticket {} is in two bookings",
                        ticket.id
                    );
                }
                Admits::Area(area) => *sold.areas.entry(area).or_default() += 1,
            }
        }
    }
    Ok(sold)
}

fn active_hold(rows: &Rows, hold: &Hold) -> Result<(), String> {
    for id in hold.seat_ids() {
        let owner = SeatState::Held { hold: hold.id, until: hold.expires_at };
        must!(rows.seats[&id].value.state == owner, "active hold {} does not have its seat {id}", hold.id);
    }
    must!(hold.places() > 0, "active hold {} holds nothing", hold.id);
    must!(hold.expires_at <= hold.max_expires_at, "hold {} outlives its limit", hold.id);
    let in_cart = rows
        .active_holds()
        .filter(|other| other.event == hold.event && other.user == hold.user && other.cart == hold.cart);
    must!(in_cart.count() == 1, "the cart of hold {} has another hold", hold.id);
    Ok(())
}

fn areas(rows: &Rows, sold: &Sold) -> Result<(), String> {
    for (id, row) in &rows.areas {
        let area = &row.value;
        let held: u32 = rows.active_holds().map(|hold| hold.quantity_of(*id)).sum();
        must!(area.held == held, "area {id} says {} held, the holds say {held}", area.held);
        let sold = sold.areas.get(id).copied().unwrap_or(0);
        must!(area.sold == sold, "area {id} says {} sold, the bookings say {sold}", area.sold);
        must!(u64::from(held) + u64::from(sold) <= u64::from(area.capacity), "area {id} is too full");
    }
    Ok(())
}

fn ended_hold(rows: &Rows, hold: &Hold) -> Result<(), String> {
    let ended = hold.status != HoldStatus::Active;
    must!(hold.ended_at.is_some() == ended, "hold {} is unsure whether it has ended", hold.id);
    let booking = hold.booking.and_then(|id| rows.bookings.get(&id)).map(|row| &row.value);
    match hold.status {
        HoldStatus::Converted => {
            must!(booking.is_some_and(|booking| became(hold, booking)), "hold {} lost its booking", hold.id);
        }
        _ => must!(hold.booking.is_none(), "hold {} is booked and {:?}", hold.id, hold.status),
    }
    Ok(())
}

/// Whether the booking is this hold's: the same places at the same price.
fn became(hold: &Hold, booking: &Booking) -> bool {
    booking.hold == hold.id
        && booking.user == hold.user
        && booking.tickets.len() as u32 == hold.places()
        && booking.total() == hold.total()
}

/// How each hold ended, read from the journal as it grows.
#[derive(Default)]
pub struct Endings {
    ended: BTreeMap<HoldId, HoldStatus>,
    begun: BTreeMap<HoldId, ()>,
    read: usize,
}

impl Endings {
    /// Reads what is new in the journal; nothing may happen to a hold before its begin or after its end.
    pub fn follow(&mut self, journal: &[Fact]) -> Result<(), String> {
        for fact in &journal[self.read..] {
            self.read += 1;
            let (hold, end) = match fact {
                Fact::HoldCreated(hold) => {
                    must!(self.begun.insert(hold.id, ()).is_none(), "hold {} begins twice", hold.id);
                    continue;
                }
                Fact::HoldGrew(part) => (part.hold, None),
                Fact::HoldExtended(moved) => (moved.hold, None),
                Fact::HoldReleased(part) => (part.hold, part.ended.then_some(HoldStatus::Cancelled)),
                Fact::HoldExpired(part) => (part.hold, Some(HoldStatus::Expired)),
                Fact::HoldConfirmed(sold) => (sold.hold, Some(HoldStatus::Converted)),
                _ => continue,
            };
            must!(self.begun.contains_key(&hold), "{} for hold {hold} before its begin", fact.kind());
            must!(!self.ended.contains_key(&hold), "{} for hold {hold} after its end", fact.kind());
            if let Some(end) = end {
                self.ended.insert(hold, end);
            }
        }
        Ok(())
    }

    /// Every hold's row says what the journal says.
    pub fn agree(&self, rows: &Rows) -> Result<(), String> {
        must!(rows.holds.len() == self.begun.len(), "the journal and the rows count holds differently");
        for (id, row) in &rows.holds {
            let said = self.ended.get(id).copied().unwrap_or(HoldStatus::Active);
            must!(row.value.status == said, "hold {id} is {:?}, its journal says {said:?}", row.value.status);
        }
        Ok(())
    }
}
