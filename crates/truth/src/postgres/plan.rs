//! Which rows a batch needs locked.
//!
//! Everybody locks in one order: users, events, seats, areas, holds, bookings, and each of these sorted. So two
//! batches that want the same rows wait for each other and never in a circle. A row that turns out to be needed only
//! when others were read (the rest of a hold whose time is over) can't be locked behind them: the batch lets go of
//! everything, and begins again with a larger plan. Seats of a block that a command takes any of are locked right behind
//! the other seats, in whatever order: those that somebody else has are skipped, and who never waits is in no circle.

use std::collections::BTreeSet;

use rowlock_core::booking::{Admits, Booking, BookingStatus};
use rowlock_core::event::Event;
use rowlock_core::hold::Hold;
use rowlock_core::{AreaId, BookingId, CartToken, Command, EventId, HoldId, Request, SeatId, UserId};
use uuid::Uuid;

use super::codec;
use super::events::Events;

#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Users whose places in an event are counted against its limit.
    pub users: BTreeSet<(i64, UserId)>,
    /// Events that get new blocks, seats or areas.
    pub events: BTreeSet<EventId>,
    pub seats: BTreeSet<i64>,
    /// With the events that they are said to be of.
    pub areas: BTreeSet<(AreaId, i64)>,
    pub holds: BTreeSet<HoldId>,
    pub bookings: BTreeSet<BookingId>,
    /// Carts that may have a hold, by event, user and cart.
    pub carts: Vec<(i64, UserId, CartToken)>,
}

impl Plan {
    /// What the commands themselves name. Their events have been looked up before. Rows of another org are left alone: whoever
    /// names them must not make others wait, nor see that somebody does.
    pub fn named(batch: &[Request], events: &Events) -> Self {
        let mut plan = Self::default();
        for request in batch {
            let found = request.command.event().and_then(|event| events.get(event));
            if found.is_some_and(|(_, row)| row.event.org != request.org) {
                continue;
            }
            match &request.command {
                Command::CreateBlock { event, .. }
                | Command::CreateSeats { event, .. }
                | Command::CreateArea { event, .. } => {
                    plan.events.insert(*event);
                }
                Command::BlockSeats { event, seats } | Command::UnblockSeats { event, seats } => {
                    plan.add_seats(events, *event, seats);
                }
                Command::Hold(places) | Command::Book { places, .. } => {
                    plan.add_seats(events, places.event, &places.seats);
                    let Some((key, row)) = found else { continue };
                    plan.areas.extend(places.areas.iter().map(|(area, _)| (*area, key)));
                    if row.event.policy.seats_per_user.is_some() {
                        plan.users.insert((key, places.user.clone()));
                    }
                    if matches!(request.command, Command::Hold(_)) {
                        plan.carts.push((key, places.user.clone(), places.cart.clone()));
                    }
                }
                Command::CancelBooking { booking, .. } => {
                    plan.bookings.insert(*booking);
                }
                _ => {}
            }
            plan.holds.extend(request.command.hold());
        }
        plan
    }

    /// The seats of an event, by what they are called. Ids that are no seats of it have no rows.
    pub fn add_seats(&mut self, events: &Events, event: EventId, seats: &[SeatId]) {
        let Some((key, _)) = events.get(event) else { return };
        let ordinals = seats.iter().filter_map(|seat| seat.ordinal_in(event));
        self.seats.extend(ordinals.filter_map(|ordinal| codec::seat_key(key, ordinal)));
    }

    /// A hold with all that ending, moving or selling it touches. `true`: some of it was not planned for.
    pub fn add_hold(&mut self, hold: &Hold, event_key: i64) -> bool {
        let mut grew = self.holds.insert(hold.id);
        for seat in &hold.seats {
            grew |= codec::seat_key(event_key, seat.ordinal).is_some_and(|key| self.seats.insert(key));
        }
        for held in &hold.areas {
            grew |= self.areas.insert((held.area, event_key));
        }
        grew
    }

    /// The owner of a hold that is bought or prolonged, where the event limits its users: whoever counts their places meanwhile
    /// must wait. The hold may be past its time by then, and what becomes of it is not there yet. `true`: it was not planned for.
    pub fn add_owner(&mut self, hold: &Hold, event_key: i64, event: &Event, batch: &[Request]) -> bool {
        let lasts_longer = |request: &Request| match request.command {
            Command::Confirm { hold: named, .. }
            | Command::StartCheckout { hold: named, .. }
            | Command::Heartbeat { hold: named, .. } => named == hold.id,
            _ => false,
        };
        event.policy.seats_per_user.is_some()
            && batch.iter().any(lasts_longer)
            && self.users.insert((event_key, hold.user.clone()))
    }

    pub fn add_booking(&mut self, booking: &Booking, event_key: i64) -> bool {
        let mut grew = self.bookings.insert(booking.id);
        // The places of one that is cancelled are somebody else's by now.
        for ticket in booking.tickets.iter().filter(|_| booking.status == BookingStatus::Confirmed) {
            grew |= match ticket.admits {
                Admits::Seat(ordinal) => {
                    codec::seat_key(event_key, ordinal).is_some_and(|key| self.seats.insert(key))
                }
                Admits::Area(area) => self.areas.insert((area, event_key)),
            };
        }
        grew
    }
}

pub(super) fn uuids<'i, T: Copy + Into<Uuid> + 'i>(ids: impl IntoIterator<Item = &'i T>) -> Vec<Uuid> {
    ids.into_iter().map(|id| (*id).into()).collect()
}
