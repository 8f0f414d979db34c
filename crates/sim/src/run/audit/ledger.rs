//! The journal, folded anew by rules of the auditor's own, and compared with the rows.

use std::collections::{BTreeMap, BTreeSet};

use rowlock_core::booking::{Admits, Booking};
use rowlock_core::hold::{HeldArea, HeldSeat};
use rowlock_core::seat::SeatState;
use rowlock_core::{AreaId, BookingId, EventId, Fact, HoldId, SeatId, Stream, Time};
use rowlock_truth::read::JournalRow;

use super::books::Books;
use crate::run::history::History;
use crate::run::store::tables::Tables;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Free,
    Held(HoldId),
    Sold(BookingId),
    Blocked,
}

#[derive(Debug)]
struct HoldEntry {
    expires_at: Time,
    ended: bool,
}

#[derive(Default)]
struct Ledger {
    seats: Vec<Place>,
    areas: BTreeMap<AreaId, (i64, i64, i64)>,
    holds: BTreeMap<HoldId, HoldEntry>,
    cancelled: BTreeSet<BookingId>,
}

/// O: every stream is 1, 2, 3 … and tells what the rows say; S and E: nothing in it breaks a rule.
pub fn replay(tables: &Tables, history: &History) {
    for (stream, rows) in &tables.streams {
        if !rows.iter().zip(1..).all(|(row, expected): (_, u64)| row.sequence == expected) {
            history.violation('O', format_args!("the sequences of {stream:?} have gaps or another order"));
            continue;
        }
        let Stream::Event(event) = stream else { continue };
        let mut ledger = Ledger::default();
        for row in rows {
            let Some(fact) = row.fact() else {
                history.violation('O', format_args!("{} of {stream:?} can't be read", row.sequence));
                continue;
            };
            if let Err((promise, why)) = ledger.take(&fact, row.at) {
                let (sequence, kind) = (row.sequence, &row.kind);
                history.violation(promise, format_args!("journal {event} {sequence} {kind}: {why}"));
                return;
            }
        }
        ledger.compare(*event, tables, history);
    }
}

type Rule = Result<(), (char, String)>;

impl Ledger {
    fn take(&mut self, fact: &Fact, at: Time) -> Rule {
        match fact {
            Fact::SeatsCreated(added) => {
                if added.first_ordinal as usize != self.seats.len() {
                    return Err(('O', "seats in between are missing".into()));
                }
                self.seats.extend((0..added.count).map(|_| Place::Free));
            }
            Fact::AreaCreated(area) => drop(self.areas.insert(area.id, (i64::from(area.capacity), 0, 0))),
            Fact::SeatsBlocked(marked) => {
                for seat in &marked.seats {
                    self.turn(seat.raw_ordinal(), Place::Free, Place::Blocked)?;
                }
            }
            Fact::SeatsUnblocked(marked) => {
                for seat in &marked.seats {
                    self.turn(seat.raw_ordinal(), Place::Blocked, Place::Free)?;
                }
            }
            Fact::HoldCreated(hold) => {
                let entry = HoldEntry { expires_at: hold.expires_at, ended: false };
                if self.holds.insert(hold.id, entry).is_some() {
                    return Err(('X', "the hold was made before".into()));
                }
                self.hold(hold.id, &hold.seats, &hold.areas)?;
            }
            Fact::HoldGrew(part) => {
                self.live(part.hold, part.expires_at, at)?;
                self.hold(part.hold, &part.seats, &part.areas)?;
            }
            Fact::HoldExtended(moved) => {
                self.live(moved.hold, moved.previous_expires_at, at)?;
                self.holds.get_mut(&moved.hold).expect("it lives").expires_at = moved.expires_at;
            }
            Fact::HoldReleased(part) => {
                self.live(part.hold, part.expires_at, at)?;
                self.give_back(part.hold, &part.seats, &part.areas)?;
                self.holds.get_mut(&part.hold).expect("it lives").ended = part.ended;
            }
            Fact::HoldExpired(part) => {
                self.active(part.hold, part.expires_at)?;
                if at < part.expires_at {
                    return Err(('E', format!("{} ms before its time", part.expires_at.millis_since(at))));
                }
                self.give_back(part.hold, &part.seats, &part.areas)?;
                self.holds.get_mut(&part.hold).expect("it is active").ended = true;
            }
            Fact::HoldConfirmed(sold) => {
                self.live(sold.hold, sold.expires_at, at)?;
                self.holds.get_mut(&sold.hold).expect("it lives").ended = true;
            }
            Fact::BookingConfirmed(booking) => self.sell(booking)?,
            Fact::BookingCancelled(booking) => self.cancel(booking)?,
            _ => {}
        }
        Ok(())
    }

    fn turn(&mut self, ordinal: u32, from: Place, to: Place) -> Rule {
        match self.seats.get_mut(ordinal as usize) {
            Some(place) if *place == from => {
                *place = to;
                Ok(())
            }
            Some(place) => Err(('S', format!("seat {ordinal} is {place:?} and not {from:?}"))),
            None => Err(('O', format!("there is no seat {ordinal}"))),
        }
    }

    fn active(&self, id: HoldId, expires_at: Time) -> Rule {
        match self.holds.get(&id) {
            None => Err(('O', format!("nobody made hold {id}"))),
            Some(hold) if hold.ended => Err(('E', format!("hold {id} has ended already"))),
            Some(hold) if hold.expires_at != expires_at => {
                Err(('O', format!("hold {id} lasts until {:?}, not {expires_at:?}", hold.expires_at)))
            }
            Some(_) => Ok(()),
        }
    }

    fn live(&self, id: HoldId, expires_at: Time, at: Time) -> Rule {
        self.active(id, expires_at)?;
        if at >= expires_at {
            return Err(('E', format!("hold {id} was over by {} ms", at.millis_since(expires_at))));
        }
        Ok(())
    }

    fn hold(&mut self, id: HoldId, seats: &[HeldSeat], areas: &[HeldArea]) -> Rule {
        for seat in seats {
            self.turn(seat.ordinal, Place::Free, Place::Held(id))?;
        }
        areas.iter().try_for_each(|held| self.count(held.area, i64::from(held.quantity), 0))
    }

    fn give_back(&mut self, id: HoldId, seats: &[HeldSeat], areas: &[HeldArea]) -> Rule {
        for seat in seats {
            self.turn(seat.ordinal, Place::Held(id), Place::Free)?;
        }
        areas.iter().try_for_each(|held| self.count(held.area, -i64::from(held.quantity), 0))
    }

    fn count(&mut self, area: AreaId, held: i64, sold: i64) -> Rule {
        let Some(entry) = self.areas.get_mut(&area) else {
            return Err(('O', format!("there is no area {area}")));
        };
        entry.1 += held;
        entry.2 += sold;
        let (capacity, held, sold) = *entry;
        if held < 0 || sold < 0 || held + sold > capacity {
            return Err(('S', format!("area {area} of {capacity} has {held} held and {sold} sold")));
        }
        Ok(())
    }

    fn sell(&mut self, booking: &Booking) -> Rule {
        for ticket in &booking.tickets {
            match ticket.admits {
                Admits::Seat(ordinal) => {
                    self.turn(ordinal, Place::Held(booking.hold), Place::Sold(booking.id))?
                }
                Admits::Area(area) => self.count(area, -1, 1)?,
            }
        }
        Ok(())
    }

    fn cancel(&mut self, booking: &Booking) -> Rule {
        if !self.cancelled.insert(booking.id) {
            return Err(('X', format!("booking {} was cancelled before", booking.id)));
        }
        for ticket in &booking.tickets {
            match ticket.admits {
                Admits::Seat(ordinal) => self.turn(ordinal, Place::Sold(booking.id), Place::Free)?,
                Admits::Area(area) => self.count(area, 0, -1)?,
            }
        }
        Ok(())
    }

    fn compare(&self, event: EventId, tables: &Tables, history: &History) {
        for (ordinal, place) in self.seats.iter().enumerate() {
            let id = SeatId::of(event, ordinal as u32);
            let row = tables.seats.get(&id).map(|(seat, _)| seat.state);
            let same = match (place, row) {
                (Place::Free, Some(SeatState::Available)) | (Place::Blocked, Some(SeatState::Blocked)) => {
                    true
                }
                (Place::Held(hold), Some(SeatState::Held { hold: found, .. })) => *hold == found,
                (Place::Sold(booking), Some(SeatState::Sold { ticket })) => {
                    let booking = tables.bookings.get(booking).map(|(booking, _)| booking);
                    booking.is_some_and(|booking| booking.tickets.iter().any(|mine| mine.id == ticket))
                }
                _ => false,
            };
            if !same {
                history.violation(
                    'O',
                    format_args!("seat {id} is {place:?} by the journal and {row:?} by its row"),
                );
            }
        }
        for (area, (_, held, sold)) in &self.areas {
            let row = tables.areas.get(area).map(|(area, _)| (i64::from(area.held), i64::from(area.sold)));
            if row != Some((*held, *sold)) {
                history.violation(
                    'O',
                    format_args!("area {area}: {held}, {sold} by the journal, {row:?} by its row"),
                );
            }
        }
        for (id, entry) in &self.holds {
            if !entry.ended {
                history.violation('E', format_args!("hold {id} has not ended"));
            }
        }
    }
}

/// O: whoever reads a stream from its cursor on gets all of it, in order.
pub fn tails(books: &Books, tables: &Tables, history: &History) {
    for ((node, stream), tail) in &books.tails {
        let rows = tables.streams.get(stream).map_or(&[][..], Vec::as_slice);
        let key = |row: &JournalRow| (row.sequence, row.id);
        let (read, stored): (Vec<_>, Vec<_>) =
            (tail.iter().map(key).collect(), rows.iter().map(key).collect());
        if read != stored {
            let (got, all) = (read.len(), stored.len());
            history.violation(
                'O',
                format_args!("a reader of {stream:?} at node {node} got {got} of {all} rows, or others"),
            );
        }
    }
}
