//! The random numbers of a run. All of them come from its seed.

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use rowlock_core::{IdSource, Time};
use uuid::Uuid;

/// Cheap to clone: all clones draw from one source.
#[derive(Clone)]
pub struct Dice {
    random: Arc<Mutex<StdRng>>,
}

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self { random: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))) }
    }

    /// Dice of their own for a part of the run, so that what one part draws does not move the others.
    pub fn fork(&self) -> Self {
        Self::new(self.number())
    }

    pub fn number(&self) -> u64 {
        self.random.lock().next_u64()
    }

    pub fn between(&self, range: RangeInclusive<u64>) -> u64 {
        self.random.lock().random_range(range)
    }

    /// `true` so many times in a thousand.
    pub fn permille(&self, times: u32) -> bool {
        self.random.lock().random_range(0..1000) < times
    }

    pub fn index(&self, length: usize) -> usize {
        self.random.lock().random_range(0..length)
    }

    pub fn pick<'t, T>(&self, list: &'t [T]) -> &'t T {
        &list[self.index(list.len())]
    }
}

/// Ids as the stores make them, from a seed: 48 bits of time and 74 of chance, the last 32 of them zero as those of seats
/// need them.
pub struct Ids {
    dice: Dice,
}

impl Ids {
    pub fn new(dice: Dice) -> Self {
        Self { dice }
    }
}

impl IdSource for Ids {
    fn next(&mut self, now: Time) -> Uuid {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.dice.number().to_be_bytes());
        bytes[8..].copy_from_slice(&self.dice.number().to_be_bytes()[..2]);
        uuid::Builder::from_unix_timestamp_millis(now.millis().max(0) as u64, &bytes).into_uuid()
    }
}
