//! The active holds of every cart and user, in the writer's memory.
//!
//! A cart has one active hold. An index on disk would keep that too, but it is in no order that holds are made in, so
//! it would dirty one more page with every hold: a third of what a hold costs. The writer is alone with its file, so
//! its memory of the active holds is exact. `verify` checks the rule on the stored rows. Who asks for the holds of a user asks
//! the writer for their ids, for the same reason.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::ops::Bound;

use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::{CartToken, HoldId, OrgId, UserId};
use rusqlite::Connection;
use rustc_hash::FxHashMap;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::codec::{self, StoreError, Stored};

pub(super) struct Carts {
    /// Its key is random, so that nobody can choose names that collide.
    hasher: SipHasher13,
    holds: FxHashMap<Digest, HoldId>,
    /// The active holds of each user in events that limit their users, so few each.
    limited: FxHashMap<Digest, Vec<HoldId>>,
    /// Those of all users, of which some have very many.
    of_users: BTreeSet<(u64, HoldId)>,
}

/// 128 bits of a keyed hash stand for the names: a million carts fit in some tens of megabytes. Whoever finds a hold
/// here compares the names in its row.
type Digest = u128;

impl Carts {
    pub fn load(db: &Connection) -> Stored<Self> {
        let hasher = SipHasher13::new_with_key(&rand::random());
        let mut carts = Self {
            hasher,
            holds: FxHashMap::default(),
            limited: FxHashMap::default(),
            of_users: BTreeSet::new(),
        };
        let mut of_users = Vec::new();
        let mut statement = db.prepare(
            "SELECT h.id, h.event_key, h.user_id, h.cart_token, e.policy ->> 'seats_per_user' IS NOT NULL, e.org_id
             FROM holds h INDEXED BY holds_active JOIN events e ON e.key = h.event_key WHERE h.status = 0",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let user = UserId::new(codec::text(row, 2)?).map_err(|_| StoreError::Corrupt("a user"))?;
            let cart = CartToken::new(codec::text(row, 3)?).map_err(|_| StoreError::Corrupt("a cart"))?;
            let id = HoldId::from_uuid(codec::uuid(row, 0)?);
            carts.add(id, row.get(1)?, &user, &cart, row.get(4)?);
            of_users.push((carts.of_user(OrgId::from_uuid(codec::uuid(row, 5)?), &user), id));
        }
        // At once: the set sorts them and is built as a whole.
        carts.of_users = of_users.into_iter().collect();
        Ok(carts)
    }

    pub fn hold_of(&self, event_key: i64, user: &UserId, cart: &CartToken) -> Option<HoldId> {
        self.holds.get(&self.digest((event_key, user, cart))).copied()
    }

    /// Active holds of a user, by id, and perhaps some of others.
    pub fn holds_of_user(
        &self,
        org: OrgId,
        user: &UserId,
        after: Option<HoldId>,
        limit: usize,
    ) -> Vec<HoldId> {
        let user = self.of_user(org, user);
        let from = match after {
            Some(after) => Bound::Excluded((user, after)),
            None => Bound::Included((user, HoldId::from_uuid(uuid::Uuid::nil()))),
        };
        let up_to = Bound::Included((user, HoldId::from_uuid(uuid::Uuid::max())));
        self.of_users.range((from, up_to)).take(limit).map(|(_, id)| *id).collect()
    }

    /// The active holds of a user in an event that limits its users.
    pub fn holds_of(&self, event_key: i64, user: &UserId) -> &[HoldId] {
        self.limited.get(&self.digest((event_key, user))).map_or(&[], Vec::as_slice)
    }

    /// Follows a hold that was committed. `limited`: its event limits its users.
    pub fn follow(&mut self, hold: &Hold, event_key: i64, limited: bool) {
        let of_user = self.of_user(hold.org, &hold.user);
        if hold.status == HoldStatus::Active {
            self.of_users.insert((of_user, hold.id));
            self.add(hold.id, event_key, &hold.user, &hold.cart, limited);
            return;
        }
        self.of_users.remove(&(of_user, hold.id));
        let cart = self.digest((event_key, &hold.user, &hold.cart));
        if self.holds.get(&cart) == Some(&hold.id) {
            self.holds.remove(&cart);
        }
        let user = self.digest((event_key, &hold.user));
        if let Some(holds) = self.limited.get_mut(&user) {
            holds.retain(|id| *id != hold.id);
            if holds.is_empty() {
                self.limited.remove(&user);
            }
        }
    }

    fn add(&mut self, id: HoldId, event_key: i64, user: &UserId, cart: &CartToken, limited: bool) {
        self.holds.insert(self.digest((event_key, user, cart)), id);
        if limited {
            let holds = self.limited.entry(self.digest((event_key, user))).or_default();
            if !holds.contains(&id) {
                holds.push(id);
            }
        }
    }

    fn of_user(&self, org: OrgId, user: &UserId) -> u64 {
        self.digest((org, user)) as u64
    }

    fn digest(&self, name: impl Hash) -> Digest {
        let mut hasher = self.hasher;
        name.hash(&mut hasher);
        hasher.finish128().as_u128()
    }
}
