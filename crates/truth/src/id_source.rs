//! Fresh ids: UUIDs of version 7, so that rows made together lie together on disk.

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use rowlock_core::{IdSource, Time};
use uuid::Uuid;

/// 48 bits of time and 74 bits from a cryptographic generator. Ids of one source only go up: within a millisecond the
/// next one is the last one plus a random step, so that a batch appends to its tables instead of splitting pages.
#[derive(Debug)]
pub struct TimeOrderedIds {
    random: StdRng,
    last: u128,
}

impl Default for TimeOrderedIds {
    fn default() -> Self {
        Self { random: StdRng::from_os_rng(), last: 0 }
    }
}

/// The bits of a UUID that are not its version and variant, as one number, so that one can add to it.
const LOW_BITS: u32 = 62;
const STEP_BITS: u32 = 56;
/// No two ids differ in their low 32 bits alone, because there the ids of an event's seats have their ordinals.
const LEAST_STEP: u128 = 1 << 40;

fn pack(uuid: Uuid) -> u128 {
    let bits = uuid.as_u128();
    let (high, low) = (bits >> 64, bits & ((1 << LOW_BITS) - 1));
    (((high >> 16 << 12) | (high & 0xfff)) << LOW_BITS) | low
}

fn unpack(number: u128) -> Uuid {
    let (high, low) = (number >> LOW_BITS, number & ((1 << LOW_BITS) - 1));
    let high = (high >> 12 << 16) | 0x7000 | (high & 0xfff);
    Uuid::from_u128((high << 64) | (0b10 << LOW_BITS) | low)
}

impl IdSource for TimeOrderedIds {
    fn next(&mut self, now: Time) -> Uuid {
        let mut bytes = [0; 10];
        self.random.fill_bytes(&mut bytes);
        let fresh = uuid::Builder::from_unix_timestamp_millis(now.millis().max(0) as u64, &bytes).into_uuid();
        let mut number = pack(fresh);
        if number <= self.last {
            number = self.last + LEAST_STEP + u128::from(self.random.next_u64() >> (64 - STEP_BITS));
        }
        self.last = number;
        unpack(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_only_go_up_and_are_of_version_7() {
        let mut ids = TimeOrderedIds::default();
        let mut last = Uuid::nil();
        for step in 0..50_000 {
            // Even when the clock stands still or goes back.
            let now = Time::from_millis(1_700_000_000_000 + step / 1_000 - (step % 3));
            let id = ids.next(now);
            assert!(id.as_u128() >> 32 > last.as_u128() >> 32, "{id} after {last}");
            assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
            last = id;
        }
    }

    #[test]
    fn packing_loses_nothing() {
        let id = TimeOrderedIds::default().next(Time::from_millis(1_700_000_000_000));
        assert_eq!(unpack(pack(id)), id);
    }
}
