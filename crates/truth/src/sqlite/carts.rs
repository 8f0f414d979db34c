//! The active hold of every cart, in the writer's memory.
//!
//! A cart has one active hold. An index on disk would keep that too, but it is in no order that holds are made in, so
//! it would dirty one more page with every hold: a third of what a hold costs. The writer is alone with its file, so
//! its memory of the active holds is exact. `verify` checks the rule on the stored rows.

use std::hash::Hash;

use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::{CartToken, HoldId, UserId};
use rusqlite::Connection;
use rustc_hash::FxHashMap;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::codec::{self, StoreError, Stored};

pub(super) struct Carts {
    /// Its key is random, so that nobody can choose names that collide.
    hasher: SipHasher13,
    holds: FxHashMap<Digest, HoldId>,
    /// The active holds of each user in events that limit their users, so few each.
    of_user: FxHashMap<Digest, Vec<HoldId>>,
}

/// 128 bits of a keyed hash stand for the names: a million carts fit in some tens of megabytes. Whoever finds a hold
/// here compares the names in its row.
type Digest = u128;

impl Carts {
    pub fn load(db: &Connection) -> Stored<Self> {
        let hasher = SipHasher13::new_with_key(&rand::random());
        let mut carts = Self { hasher, holds: FxHashMap::default(), of_user: FxHashMap::default() };
        let mut statement = db.prepare(
            "SELECT h.id, h.event_key, h.user_id, h.cart_token, e.policy ->> 'seats_per_user' IS NOT NULL
             FROM holds h INDEXED BY holds_active JOIN events e ON e.key = h.event_key WHERE h.status = 0",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let user = UserId::new(codec::text(row, 2)?).map_err(|_| StoreError::Corrupt("a user"))?;
            let cart = CartToken::new(codec::text(row, 3)?).map_err(|_| StoreError::Corrupt("a cart"))?;
            carts.add(HoldId::from_uuid(codec::uuid(row, 0)?), row.get(1)?, &user, &cart, row.get(4)?);
        }
        Ok(carts)
    }

    pub fn hold_of(&self, event_key: i64, user: &UserId, cart: &CartToken) -> Option<HoldId> {
        self.holds.get(&self.digest((event_key, user, cart))).copied()
    }

    /// The active holds of a user in an event that limits its users.
    pub fn holds_of(&self, event_key: i64, user: &UserId) -> &[HoldId] {
        self.of_user.get(&self.digest((event_key, user))).map_or(&[], Vec::as_slice)
    }

    /// Follows a hold that was committed. `limited`: its event limits its users.
    pub fn follow(&mut self, hold: &Hold, event_key: i64, limited: bool) {
        if hold.status == HoldStatus::Active {
            self.add(hold.id, event_key, &hold.user, &hold.cart, limited);
            return;
        }
        let cart = self.digest((event_key, &hold.user, &hold.cart));
        if self.holds.get(&cart) == Some(&hold.id) {
            self.holds.remove(&cart);
        }
        let user = self.digest((event_key, &hold.user));
        if let Some(holds) = self.of_user.get_mut(&user) {
            holds.retain(|id| *id != hold.id);
            if holds.is_empty() {
                self.of_user.remove(&user);
            }
        }
    }

    fn add(&mut self, id: HoldId, event_key: i64, user: &UserId, cart: &CartToken, limited: bool) {
        self.holds.insert(self.digest((event_key, user, cart)), id);
        if limited {
            let holds = self.of_user.entry(self.digest((event_key, user))).or_default();
            if !holds.contains(&id) {
                holds.push(id);
            }
        }
    }

    fn digest(&self, name: impl Hash) -> Digest {
        let mut hasher = self.hasher;
        name.hash(&mut hasher);
        hasher.finish128().as_u128()
    }
}
