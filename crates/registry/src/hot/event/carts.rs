//! Which carts have a hold, as far as this process has seen it made.

use std::hash::{Hash, Hasher};

use rowlock_core::{CartToken, UserId};
use rustc_hash::{FxHashSet, FxHasher};

/// An event remembers so many carts at least, and else one a seat.
const LEAST_CARTS: usize = 1_000;

/// Carts that have a hold, or whose hold became a booking, as short digests: a million of them are a few megabytes.
///
/// It may be wrong both ways. Holds that were made before the event was loaded are missing, and two carts may look alike. Whoever
/// goes by it compares.
#[derive(Clone, Debug, Default)]
pub(super) struct Carts(FxHashSet<u32>);

impl Carts {
    /// Whether nothing speaks against it that the cart has no hold. Where users are limited, their other carts count too.
    pub fn is_new(&self, user: &UserId, cart: &CartToken, limit: Option<u32>) -> bool {
        !self.0.contains(&digest(user, cart, limit))
    }

    pub fn add(&mut self, user: &UserId, cart: &CartToken, limit: Option<u32>, seats: usize) {
        if self.0.len() >= seats.max(LEAST_CARTS) {
            self.0.clear();
        }
        self.0.insert(digest(user, cart, limit));
    }

    pub fn remove(&mut self, user: &UserId, cart: &CartToken, limit: Option<u32>) {
        // A user who is limited may have another cart or a booking.
        if limit.is_none() {
            self.0.remove(&digest(user, cart, limit));
        }
    }

    pub fn bytes(&self) -> usize {
        // The table's entries, and a byte of its own for each.
        self.0.capacity() * 8 / 7 * (size_of::<u32>() + 1)
    }
}

fn digest(user: &UserId, cart: &CartToken, limit: Option<u32>) -> u32 {
    let mut hasher = FxHasher::default();
    user.hash(&mut hasher);
    if limit.is_none() {
        cart.hash(&mut hasher);
    }
    (hasher.finish() >> 32) as u32
}
