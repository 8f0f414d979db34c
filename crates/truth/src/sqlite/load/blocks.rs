//! Seats of a block, for commands that take any of them.

use std::collections::BTreeSet;

use rowlock_core::seat::SeatState;
use rowlock_core::slice::Slice;
use rowlock_core::{EventId, Request, SeatId, Time};

use super::{Loader, Stored, codec};
use crate::demand;

const UNSOLD_SEATS: &str =
    "SELECT key FROM seats WHERE event_key = ?1 AND block = ?2 AND status = 0 ORDER BY key";

impl Loader<'_> {
    /// As many seats that can be had as the commands of the batch can want together.
    pub(super) fn load_blocks(&mut self, slice: &mut Slice, batch: &[Request], now: Time) -> Stored<()> {
        for wanted in demand::blocks(batch) {
            let Some(key) = self.load_event(slice, wanted.event)? else { continue };
            let blocks = &self.events.rows[&wanted.event].1.blocks;
            let Some(position) = blocks.iter().position(|block| block.id == wanted.block) else { continue };
            slice.load_block(wanted.event, wanted.block);
            let free = self.free_seats(wanted.event, (key, position), wanted.seats as usize, now)?;
            self.load_seats(slice, wanted.event, &free, now)?;
        }
        Ok(())
    }

    /// Those that nobody holds come first: to take over from a hold past its time costs more rows.
    fn free_seats(
        &self,
        event: EventId,
        block: (i64, usize),
        wanted: usize,
        now: Time,
    ) -> Stored<Vec<SeatId>> {
        let (mut free, mut due) = (Vec::new(), Vec::new());
        let mut statement = self.cached(UNSOLD_SEATS)?;
        let mut rows = statement.query(block)?;
        while free.len() < wanted
            && let Some(row) = rows.next()?
        {
            let key = row.get(0)?;
            let seat = SeatId::of(event, codec::ordinal(key));
            match self.memory.seats.state_of_available(key) {
                SeatState::Held { until, .. } if until > now => {}
                SeatState::Held { .. } if due.len() < wanted => due.push(seat),
                SeatState::Held { .. } => {}
                _ => free.push(seat),
            }
        }
        free.extend(due);
        free.truncate(wanted);
        Ok(free)
    }

    /// Where the seats are that the batch may take or has in its carts. After all rows are loaded: whether a seat can be
    /// had is seen from its row.
    pub(super) fn load_spots(&mut self, slice: &mut Slice, batch: &[Request], now: Time) -> Stored<()> {
        let events: BTreeSet<EventId> = demand::blocks(batch).iter().map(|wanted| wanted.event).collect();
        for event in events {
            let Some((key, row)) = self.events.rows.get(&event) else { continue };
            let mut statement = self.cached("SELECT block, row, number FROM seats WHERE key = ?1")?;
            for seat in demand::seats_to_place(slice, batch, event) {
                let mut rows = statement.query([codec::seat_key(*key, seat.raw_ordinal())])?;
                let Some(found) = rows.next()? else { continue };
                let position: usize = found.get(0)?;
                if let Some(block) = row.blocks.get(position) {
                    slice.load_spot(seat, block.id, codec::text(found, 1)?, found.get(2)?, now);
                }
            }
        }
        Ok(())
    }
}
