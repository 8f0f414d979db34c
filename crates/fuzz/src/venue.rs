//! The venue that every input meets: the same ids each time, so that inputs can name what there is.

use rowlock_core::command::{NewSection, Places};
use rowlock_core::hold::Source;
use rowlock_core::seat::{SeatPlace, SeatState};
use rowlock_core::text::Row;
use rowlock_core::{AreaId, BlockId, BookingId, Command, EventId, HoldId, OrgId, SeatId};
use rowlock_truth::read::{EventSnapshot, SeatSnapshot};

use crate::support::World;
use crate::support::stage::{Stage, cart, expire, section, user};

/// One org, one event of twelve seats and two areas. Ann holds seat 0 and two places on the floor, Bob has bought seat 2
/// and a place on the floor, seat 3 is off sale, and a hold of Carl has been released.
pub struct Venue {
    pub world: World,
    pub org: OrgId,
    pub event: EventId,
    pub block: BlockId,
    pub floor: AreaId,
    pub hold: HoldId,
    pub released: HoldId,
    pub booking: BookingId,
}

impl Venue {
    pub fn new() -> Self {
        let mut stage = Stage::new();
        let hold = stage.hold("ann", "default", &[0], 2).id;
        let booking = stage.book("bob", &[2], 1).id;
        stage.block(&[3]);
        let released = stage.hold("carl", "default", &[5], 0).id;
        stage.run(Command::Release { hold: released, user: user("carl"), seats: vec![] });
        // Something that does nothing, so that this way is known to work.
        stage.idle(expire(hold));
        let block = stage.world.rows.events[&stage.event].blocks[0].id;
        let Stage { world, org, event, floor, .. } = stage;
        Self { world, org, event, block, floor, hold, released, booking }
    }

    pub fn seat(&self, ordinal: u32) -> SeatId {
        SeatId::of(self.event, ordinal)
    }

    pub fn places(&self, who: &str, which: &str, seats: Vec<SeatId>) -> Places {
        let (user, cart) = (user(who), cart(which));
        Places { event: self.event, user, cart, source: Source::Web, seats, blocks: vec![], areas: vec![] }
    }

    pub fn section(&self, row: &str, seats: u32) -> NewSection {
        section("Stalls", "gold", row, seats)
    }

    /// The event as a truth shows it to the fast tiers.
    pub fn snapshot(&self) -> EventSnapshot {
        let rows = &self.world.rows;
        let row = (*rows.events[&self.event]).clone();
        let areas = row.areas.iter().map(|(id, _)| rows.areas[id].value.clone()).collect();
        let seats = rows.seats.iter().map(|(id, stored)| {
            let (block, line, number) = &rows.spots[id];
            let (x, y) = (*number as f32, 0.0);
            let row = Row::new(line).expect("a row");
            let place = SeatPlace { block: *block, row, number: *number, tier: stored.value.tier, x, y };
            let state = stored.value.state;
            let user = match state {
                SeatState::Held { hold, .. } => Some(rows.holds[&hold].value.user.clone()),
                _ => None,
            };
            SeatSnapshot { place, state, user }
        });
        let seats = seats.collect();
        EventSnapshot { row, areas, seats, sequence: 7 }
    }
}
