//! The active holds of every cart and user, in the writer's memory.
//!
//! A cart has one active hold. An index on disk would keep that too, but it is in no order that holds are made in, so
//! it would dirty one more page with every hold: a third of what a hold costs. The writer is alone with its file, so
//! its memory of the active holds is exact. `verify` checks the rule on the stored rows. Who asks for the holds of a user asks
//! the writer for their ids, for the same reason.

use std::hash::{Hash, Hasher};

use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::{CartToken, HoldId, OrgId, UserId};
use rustc_hash::FxHashMap;
use siphasher::sip::SipHasher13;

pub(super) struct Carts {
    /// Its key is random, so that nobody can choose names that collide.
    hasher: SipHasher13,
    /// One table of all of them would stand still for as long as it takes to move them when it grows, and in a tree of so many
    /// every step of the way is a miss of the processor's cache. So there are many small tables.
    shards: Box<[FxHashMap<CartName, HoldId>]>,
    /// The active holds of each user in events that limit their users, so few each.
    limited: FxHashMap<u64, Vec<HoldId>>,
}

/// A user's carts are in the shards of one group, to be found when somebody asks for them: of a million carts, 4,000 are looked at.
const GROUPS: usize = 1 << 8;
/// A group has several shards, because all carts may be of one user.
const SHARDS_PER_GROUP: usize = 1 << 6;

/// A user of an org, and a cart of that user in an event: a keyed hash of each. A million carts fit in some tens of
/// megabytes. Whoever finds a hold here compares the names in its row.
type CartName = (u64, u64);

impl Default for Carts {
    fn default() -> Self {
        let hasher = SipHasher13::new_with_key(&rand::random());
        let shards = std::iter::repeat_with(FxHashMap::default).take(GROUPS * SHARDS_PER_GROUP).collect();
        Self { hasher, shards, limited: FxHashMap::default() }
    }
}

impl Carts {
    pub fn add(&mut self, name: CartName, hold: HoldId) {
        self.shards[shard(name)].insert(name, hold);
    }

    pub fn hold_of(&self, org: OrgId, user: &UserId, event_key: i64, cart: &CartToken) -> Option<HoldId> {
        let name = self.name(org, user, event_key, cart);
        self.shards[shard(name)].get(&name).copied()
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
        let first = shard((user, 0));
        let group = self.shards[first..first + SHARDS_PER_GROUP].iter().flatten();
        let of_user = group.filter(|((owner, _), _)| *owner == user).map(|(_, id)| *id);
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
            self.add(name, hold.id);
            if limited {
                self.add_limited(hold.id, event_key, &hold.user);
            }
            return;
        }
        let shard = &mut self.shards[shard(name)];
        if shard.get(&name) == Some(&hold.id) {
            shard.remove(&name);
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

/// Where a cart is. Digests have as much chance in their first bits as in any.
fn shard((user, cart): CartName) -> usize {
    let first = |digest: u64, of: usize| (digest >> (u64::BITS - of.ilog2())) as usize;
    first(user, GROUPS) * SHARDS_PER_GROUP + first(cart, SHARDS_PER_GROUP)
}

#[cfg(test)]
mod tests {
    use rowlock_core::hold::Source;
    use rowlock_core::{EventId, Time};
    use uuid::Uuid;

    use super::*;

    const ORG: OrgId = OrgId::from_uuid(Uuid::nil());

    fn hold(number: u128, user: &str, cart: &str) -> Hold {
        Hold {
            id: HoldId::from_uuid(Uuid::from_u128(number)),
            org: ORG,
            event: EventId::from_uuid(Uuid::nil()),
            user: UserId::new(user).unwrap(),
            cart: CartToken::new(cart).unwrap(),
            status: HoldStatus::Active,
            source: Source::Web,
            currency: "EUR".parse().unwrap(),
            seats: Vec::new(),
            areas: Vec::new(),
            created_at: Time::from_millis(0),
            expires_at: Time::from_millis(1),
            max_expires_at: Time::from_millis(1),
            checkout_at: None,
            ended_at: None,
            booking: None,
        }
    }

    /// Users with few carts and one with very many: all of them are found, and each user's are their own.
    #[test]
    fn carts_and_the_holds_of_users_are_found() {
        let mut carts = Carts::default();
        let few = (0..3_000).map(|n| hold(n, &format!("user-{}", n % 1_000), &format!("cart-{n}")));
        let many = (3_000..6_000).map(|n| hold(n, "office", &format!("cart-{n}")));
        let holds: Vec<Hold> = few.chain(many).collect();
        holds.iter().rev().for_each(|hold| carts.follow(hold, 1, false));
        for hold in &holds {
            assert_eq!(carts.hold_of(ORG, &hold.user, 1, &hold.cart), Some(hold.id));
            assert_eq!(carts.hold_of(ORG, &hold.user, 2, &hold.cart), None, "another event");
        }
        let ids = |user: &str, after: Option<u128>, limit: usize| -> Vec<u128> {
            let after = after.map(|number| HoldId::from_uuid(Uuid::from_u128(number)));
            let found = carts.holds_of_user(ORG, &UserId::new(user).unwrap(), after, limit);
            found.iter().map(|id| id.uuid().as_u128()).collect()
        };
        assert_eq!(ids("user-7", None, 10), [7, 1_007, 2_007]);
        assert_eq!(ids("user-7", Some(7), 1), [1_007]);
        assert_eq!(ids("office", None, usize::MAX), (3_000..6_000).collect::<Vec<_>>());
        assert!(ids("nobody", None, 10).is_empty());
    }

    #[test]
    fn a_hold_that_ends_leaves_its_cart_unless_another_has_it() {
        let mut carts = Carts::default();
        let (mut first, second) = (hold(1, "ann", "one"), hold(2, "ann", "one"));
        carts.follow(&first, 1, true);
        carts.follow(&second, 1, true);
        first.status = HoldStatus::Expired;
        carts.follow(&first, 1, true);
        assert_eq!(carts.hold_of(ORG, &second.user, 1, &second.cart), Some(second.id));
        assert_eq!(carts.holds_of(1, &second.user), [second.id]);
        let second = Hold { status: HoldStatus::Cancelled, ..second };
        carts.follow(&second, 1, true);
        assert_eq!(carts.hold_of(ORG, &second.user, 1, &second.cart), None);
        assert!(carts.holds_of(1, &second.user).is_empty());
        assert!(carts.holds_of_user(ORG, &second.user, None, 10).is_empty());
    }
}
