//! The active holds of every cart and user, in the writer's memory.
//!
//! A cart has one active hold. An index on disk would keep that too, but it is in no order that holds are made in, so
//! it would dirty one more page with every hold: a third of what a hold costs. The writer is alone with its file, so
//! its memory of the active holds is exact. `verify` checks the rule on the stored rows. Who asks for the holds of a user asks
//! the writer for their ids, for the same reason.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::{CartToken, HoldId, OrgId, UserId};
use rustc_hash::FxHashMap;
use siphasher::sip::SipHasher13;

pub(super) struct Carts {
    /// Its key is random, so that nobody can choose names that collide.
    hasher: SipHasher13,
    /// A tree, because a map that is hashed stands still for as long as it takes to move all of it when it grows.
    holds: BTreeMap<CartName, HoldId>,
    /// The active holds of each user in events that limit their users, so few each.
    limited: FxHashMap<u64, Vec<HoldId>>,
}

/// A user of an org, and a cart of that user in an event: a keyed hash of each. A million carts fit in some tens of
/// megabytes. Whoever finds a hold here compares the names in its row.
type CartName = (u64, u64);

impl Default for Carts {
    fn default() -> Self {
        let hasher = SipHasher13::new_with_key(&rand::random());
        Self { hasher, holds: BTreeMap::new(), limited: FxHashMap::default() }
    }
}

impl Carts {
    /// All active holds at once: the tree sorts them and is built as a whole.
    pub fn set(&mut self, holds: Vec<(CartName, HoldId)>) {
        self.holds = holds.into_iter().collect();
    }

    pub fn hold_of(&self, org: OrgId, user: &UserId, event_key: i64, cart: &CartToken) -> Option<HoldId> {
        self.holds.get(&self.name(org, user, event_key, cart)).copied()
    }

    /// Active holds of a user, by id, and perhaps some of others.
    pub fn holds_of_user(
        &self,
        org: OrgId,
        user: &UserId,
        after: Option<HoldId>,
        limit: usize,
    ) -> Vec<HoldId> {
        let user = self.digest((org, user));
        let of_user = self.holds.range((user, 0)..=(user, u64::MAX)).map(|(_, id)| *id);
        let mut found: Vec<HoldId> = of_user.filter(|id| after.is_none_or(|after| *id > after)).collect();
        found.sort_unstable();
        found.truncate(limit);
        found
    }

    /// The active holds of a user in an event that limits its users.
    pub fn holds_of(&self, event_key: i64, user: &UserId) -> &[HoldId] {
        self.limited.get(&self.digest((event_key, user))).map_or(&[], Vec::as_slice)
    }

    /// Follows a hold that was committed. `limited`: its event limits its users.
    pub fn follow(&mut self, hold: &Hold, event_key: i64, limited: bool) {
        let name = self.name(hold.org, &hold.user, event_key, &hold.cart);
        if hold.status == HoldStatus::Active {
            self.holds.insert(name, hold.id);
            if limited {
                self.add_limited(hold.id, event_key, &hold.user);
            }
            return;
        }
        if self.holds.get(&name) == Some(&hold.id) {
            self.holds.remove(&name);
        }
        let user = self.digest((event_key, &hold.user));
        if let Some(holds) = self.limited.get_mut(&user) {
            holds.retain(|id| *id != hold.id);
            if holds.is_empty() {
                self.limited.remove(&user);
            }
        }
    }

    pub fn add_limited(&mut self, id: HoldId, event_key: i64, user: &UserId) {
        let holds = self.limited.entry(self.digest((event_key, user))).or_default();
        if !holds.contains(&id) {
            holds.push(id);
        }
    }

    pub fn name(&self, org: OrgId, user: &UserId, event_key: i64, cart: &CartToken) -> CartName {
        (self.digest((org, user)), self.digest((event_key, cart)))
    }

    fn digest(&self, name: impl Hash) -> u64 {
        let mut hasher = self.hasher;
        name.hash(&mut hasher);
        hasher.finish()
    }
}
