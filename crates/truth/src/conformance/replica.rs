//! An event kept current by facts alone, as everybody who listens keeps it. Written without looking at the hot tier,
//! so that one can check the other.

use rowlock_core::booking::Admits;
use rowlock_core::fact::HoldPart;
use rowlock_core::hold::{HeldArea, HeldSeat};
use rowlock_core::seat::SeatState;
use rowlock_core::{AreaId, Fact, HoldId, SeatId, Time, UserId};

use crate::read::{EventSnapshot, SeatSnapshot};

#[derive(Clone, Debug)]
pub struct Replica(pub EventSnapshot);

impl Replica {
    /// Takes the next fact of the event's stream. Older ones are known already.
    pub fn apply(&mut self, sequence: u64, fact: &Fact) {
        if sequence <= self.0.sequence {
            return;
        }
        assert_eq!(sequence, self.0.sequence + 1, "facts come without gaps");
        self.0.sequence = sequence;
        match fact {
            Fact::HoldCreated(hold) => {
                self.take(hold.id, &hold.user, hold.expires_at, &hold.seats, &hold.areas);
            }
            Fact::HoldGrew(part) => {
                self.take(part.hold, &part.user, part.expires_at, &part.seats, &part.areas);
            }
            Fact::HoldExtended(moved) => {
                self.take(moved.hold, &moved.user, moved.expires_at, &moved.seats, &[]);
            }
            Fact::HoldReleased(part) | Fact::HoldExpired(part) => self.give_back(part),
            Fact::BookingConfirmed(booking) => {
                for ticket in &booking.tickets {
                    match ticket.admits {
                        Admits::Seat(ordinal) => self.set(ordinal, SeatState::Sold { ticket: ticket.id }),
                        Admits::Area(area) => self.count(area, -1, 1),
                    }
                }
            }
            Fact::BookingCancelled(booking) => {
                for ticket in &booking.tickets {
                    match ticket.admits {
                        Admits::Seat(ordinal) => self.set(ordinal, SeatState::Available),
                        Admits::Area(area) => self.count(area, 0, -1),
                    }
                }
            }
            Fact::SeatsBlocked(marked) => self.mark(&marked.seats, SeatState::Blocked),
            Fact::SeatsUnblocked(marked) => self.mark(&marked.seats, SeatState::Available),
            Fact::BlockCreated(block) => self.0.row.blocks.push(block.clone()),
            Fact::SeatsCreated(added) => {
                let places = added.sections.iter().flat_map(|section| section.places());
                let seats =
                    places.map(|place| SeatSnapshot { place, state: SeatState::Available, user: None });
                self.0.seats.extend(seats);
                self.0.row.seat_count += added.count;
            }
            Fact::AreaCreated(area) => {
                self.0.row.areas.push((area.id, area.name.clone()));
                self.0.areas.push(area.clone());
            }
            Fact::HoldConfirmed(_) | Fact::EventCreated(_) => {}
            Fact::OrgCreated(_) | Fact::ApiKeyCreated(_) | Fact::ApiKeyRevoked(_) => {
                panic!("a fact of an org in the stream of an event: {fact:?}");
            }
        }
    }

    fn take(&mut self, hold: HoldId, user: &UserId, until: Time, seats: &[HeldSeat], areas: &[HeldArea]) {
        for seat in seats {
            self.set(seat.ordinal, SeatState::Held { hold, until });
            self.0.seats[seat.ordinal as usize].user = Some(user.clone());
        }
        for held in areas {
            self.count(held.area, i64::from(held.quantity), 0);
        }
    }

    fn give_back(&mut self, part: &HoldPart) {
        for seat in &part.seats {
            self.set(seat.ordinal, SeatState::Available);
        }
        for held in &part.areas {
            self.count(held.area, -i64::from(held.quantity), 0);
        }
    }

    fn mark(&mut self, seats: &[SeatId], state: SeatState) {
        for seat in seats {
            self.set(seat.raw_ordinal(), state);
        }
    }

    fn set(&mut self, ordinal: u32, state: SeatState) {
        let seat = &mut self.0.seats[ordinal as usize];
        (seat.state, seat.user) = (state, None);
    }

    fn count(&mut self, area: AreaId, held: i64, sold: i64) {
        let area = self.0.areas.iter_mut().find(|known| known.id == area).expect("a known area");
        let add =
            |count: u32, more: i64| u32::try_from(i64::from(count) + more).expect("no count below zero");
        (area.held, area.sold) = (add(area.held, held), add(area.sold, sold));
    }
}
