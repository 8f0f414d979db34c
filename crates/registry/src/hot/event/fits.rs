//! Whether a fact can be one of this event's. What comes over Redis may be anything, and what is applied must not leave
//! an event that can't be: nothing here may panic later because of it.

use rowlock_core::booking::{Admits, Booking};
use rowlock_core::fact::{Fact, SectionsAdded};
use rowlock_core::hold::{HeldArea, HeldSeat};
use rowlock_core::limits::{MAX_AREAS_PER_EVENT, MAX_BLOCKS_PER_EVENT, MAX_SEATS_PER_EVENT};
use rowlock_core::{AreaId, Stream};

use super::{AreaCounts, HotEvent};

impl HotEvent {
    pub(super) fn fits(&self, fact: &Fact) -> bool {
        if fact.stream() != Stream::Event(self.event.id) {
            return false;
        }
        match fact {
            Fact::HoldCreated(hold) => self.can_take(&hold.seats, &hold.areas),
            Fact::HoldGrew(part) => self.can_take(&part.seats, &part.areas),
            Fact::HoldExtended(moved) => self.has_seats(&moved.seats),
            Fact::HoldReleased(part) | Fact::HoldExpired(part) => {
                let lines = part.areas.iter().map(|line| (line.area, line.quantity));
                self.has_seats(&part.seats) && self.areas_allow(lines, |area| area.held)
            }
            Fact::BookingConfirmed(booking) => self.admits(booking, |area| area.held),
            Fact::BookingCancelled(booking) => self.admits(booking, |area| area.sold),
            Fact::SeatsBlocked(marked) | Fact::SeatsUnblocked(marked) => {
                marked.seats.iter().all(|seat| self.ordinal(*seat).is_some())
            }
            Fact::BlockCreated(block) => {
                let blocks = &self.layout.blocks;
                blocks.len() < MAX_BLOCKS_PER_EVENT && blocks.iter().all(|known| known.id != block.id)
            }
            Fact::SeatsCreated(added) => self.can_add(added),
            Fact::AreaCreated(area) => {
                self.areas.len() < MAX_AREAS_PER_EVENT && self.area(area.id).is_none() && self.is_sound(area)
            }
            Fact::HoldConfirmed(_) | Fact::EventCreated(_) => true,
            // Of an org, not of an event.
            Fact::OrgCreated(_) | Fact::ApiKeyCreated(_) | Fact::ApiKeyRevoked(_) => false,
        }
    }

    fn can_take(&self, seats: &[HeldSeat], areas: &[HeldArea]) -> bool {
        let lines = areas.iter().map(|line| (line.area, line.quantity));
        self.has_seats(seats) && self.areas_allow(lines, AreaCounts::available)
    }

    fn has_seats(&self, seats: &[HeldSeat]) -> bool {
        seats.iter().all(|seat| seat.ordinal < self.seat_count())
    }

    fn admits(&self, booking: &Booking, left: fn(&AreaCounts) -> u32) -> bool {
        let seats = booking.tickets.iter().all(|ticket| match ticket.admits {
            Admits::Seat(ordinal) => ordinal < self.seat_count(),
            Admits::Area(_) => true,
        });
        let lines = booking.tickets.iter().filter_map(|ticket| match ticket.admits {
            Admits::Seat(_) => None,
            Admits::Area(area) => Some((area, 1)),
        });
        seats && self.areas_allow(lines, left)
    }

    /// Whether all the areas are known and each has so much of what is to be taken from it.
    fn areas_allow(&self, lines: impl Iterator<Item = (AreaId, u32)>, left: fn(&AreaCounts) -> u32) -> bool {
        let mut sums: Vec<(AreaId, u64)> = Vec::new();
        for (area, quantity) in lines {
            match sums.iter_mut().find(|(known, _)| *known == area) {
                Some((_, sum)) => *sum += u64::from(quantity),
                None => sums.push((area, u64::from(quantity))),
            }
        }
        sums.iter().all(|(area, sum)| self.area(*area).is_some_and(|area| *sum <= u64::from(left(area))))
    }

    fn can_add(&self, added: &SectionsAdded) -> bool {
        let knows = |block| self.layout.blocks.iter().any(|known| known.id == block);
        let mut count = 0_u64;
        for section in &added.sections {
            let Ok(seats) = section.check() else { return false };
            if !knows(section.block) || usize::from(section.tier) >= self.event.tiers.len() {
                return false;
            }
            count += u64::from(seats);
        }
        added.first_ordinal == self.seat_count()
            && count == u64::from(added.count)
            && u64::from(self.seat_count()) + count <= u64::from(MAX_SEATS_PER_EVENT)
    }

    fn is_sound(&self, area: &AreaCounts) -> bool {
        usize::from(area.tier) < self.event.tiers.len()
            && u64::from(area.held) + u64::from(area.sold) <= u64::from(area.capacity)
    }
}
