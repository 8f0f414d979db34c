//! Where the random numbers of this crate come from: the system, or a seed where a run must be repeatable.

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use uuid::Uuid;

/// Cheap to clone: all clones draw from one source.
#[derive(Clone, Debug)]
pub struct Chance {
    random: Arc<Mutex<StdRng>>,
}

impl Default for Chance {
    fn default() -> Self {
        Self { random: Arc::new(Mutex::new(StdRng::from_os_rng())) }
    }
}

impl Chance {
    /// The same numbers for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self { random: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))) }
    }

    pub(crate) fn uuid(&self) -> Uuid {
        uuid::Builder::from_random_bytes(self.random.lock().random()).into_uuid()
    }

    pub(crate) fn between(&self, range: RangeInclusive<u64>) -> u64 {
        self.random.lock().random_range(range)
    }

    pub(crate) fn fraction(&self, range: std::ops::Range<f64>) -> f64 {
        self.random.lock().random_range(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_the_system_does_not() {
        let (a, b) = (Chance::seeded(7), Chance::seeded(7));
        assert_eq!((a.uuid(), a.between(0..=1_000)), (b.uuid(), b.between(0..=1_000)));
        assert_ne!(Chance::default().uuid(), Chance::default().uuid());
        assert_eq!(a.uuid().get_version_num(), 4);
    }
}
