//! Fresh ids: UUIDs of version 7, so that rows made together lie together on disk.

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use rowlock_core::{IdSource, Time};
use uuid::Uuid;

/// 48 bits of time and 74 bits from a cryptographic generator.
#[derive(Debug)]
pub struct TimeOrderedIds {
    random: StdRng,
}

impl Default for TimeOrderedIds {
    fn default() -> Self {
        Self { random: StdRng::from_os_rng() }
    }
}

impl IdSource for TimeOrderedIds {
    fn next(&mut self, now: Time) -> Uuid {
        let mut bytes = [0; 10];
        self.random.fill_bytes(&mut bytes);
        uuid::Builder::from_unix_timestamp_millis(now.millis().max(0) as u64, &bytes).into_uuid()
    }
}
