//! What the writer remembers of active holds, so that no index on disk has to be written with each of them.
//!
//! Nobody else writes to the file, so this is exact; and if somebody does, the writer sees it and reads it again.

use rowlock_core::slice::Slice;
use rowlock_core::{CartToken, HoldId, OrgId};
use rusqlite::Connection;

use super::carts::Carts;
use super::codec::{self, StoreError, Stored};
use super::load::EventCache;
use super::seats::Seats;
use crate::columns;

pub(super) struct Memory {
    pub carts: Carts,
    pub seats: Seats,
}

const ACTIVE_HOLDS: &str =
    "SELECT h.id, h.event_key, h.expires_at, h.seats, h.user_id, h.cart_token, e.org_id,
         e.policy ->> 'seats_per_user' IS NOT NULL
     FROM holds h INDEXED BY holds_active JOIN events e ON e.key = h.event_key WHERE h.status = 0";

impl Memory {
    pub fn load(db: &Connection) -> Stored<Self> {
        let mut carts = Carts::default();
        let mut seats = Seats::default();
        let mut statement = db.prepare(ACTIVE_HOLDS)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, event_key) = (HoldId::from_uuid(codec::uuid(row, 0)?), row.get(1)?);
            let until = codec::time(row, 2)?;
            for seat in columns::held_seats(codec::text(row, 3)?)? {
                seats.hold(codec::seat_key(event_key, seat.ordinal), id, until);
            }
            let user = codec::user(row, 4)?;
            let cart = CartToken::new(codec::text(row, 5)?).map_err(|_| StoreError::Corrupt("a cart"))?;
            let org = OrgId::from_uuid(codec::uuid(row, 6)?);
            carts.add(carts.name(org, &user, event_key, &cart), id);
            if row.get(7)? {
                carts.add_limited(id, event_key, &user);
            }
        }
        Ok(Self { carts, seats })
    }

    /// Takes in what a batch has committed.
    pub fn follow(&mut self, slice: &Slice, events: &EventCache) {
        for row in slice.changed_holds() {
            let hold = &row.value;
            if let (Some(key), Some(event)) = (events.key(hold.event), events.row(hold.event)) {
                self.carts.follow(hold, key, event.event.policy.seats_per_user.is_some());
            }
        }
        for (id, row) in slice.changed_seats() {
            if let Some(key) = events.seat_key(slice, id) {
                self.seats.follow(key, row.value.state);
            }
        }
        for added in slice.new_sections() {
            if let Some(key) = events.key(added.event) {
                self.seats.added(codec::seat_key(key, added.first_ordinal), added.count);
            }
        }
        self.seats.trim();
    }
}
