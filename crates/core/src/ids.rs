//! Identifiers. Each kind is its own type, so that a hold can't be passed where a booking is meant.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a UUID of 36 characters, such as 0190a5f0-7c3e-7bbb-8a40-3d5c1f0e9a77")]
pub struct InvalidId;

/// Reads the hyphenated form only: braces, URNs and bare hex would be second names for one thing.
fn parse(text: &str) -> Result<Uuid, InvalidId> {
    if text.len() != 36 {
        return Err(InvalidId);
    }
    Uuid::try_parse(text).map_err(|_| InvalidId)
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            pub const fn uuid(self) -> Uuid {
                self.0
            }

            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Uuid {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                parse(text).map(Self)
            }
        }
    };
}

id!(OrgId);
id!(KeyId);
id!(EventId);
id!(BlockId);
id!(AreaId);
id!(
    /// A seat's id is its event's id and its ordinal, packed into one UUID (version 8). So the way from id to
    /// ordinal is arithmetic: no index on disk, no map in memory.
    SeatId);
id!(
    /// The token of a hold.
    HoldId);
id!(BookingId);
id!(TicketId);
id!(JournalId);

const ORDINAL_BITS: u32 = 32;
const ORDINAL_MASK: u128 = (1 << ORDINAL_BITS) - 1;
const VERSION_MASK: u128 = 0xf << 76;
const VERSION_8: u128 = 0x8 << 76;

impl SeatId {
    pub const fn of(event: EventId, ordinal: u32) -> Self {
        let prefix = (event.0.as_u128() & !ORDINAL_MASK & !VERSION_MASK) | VERSION_8;
        Self(Uuid::from_u128(prefix | ordinal as u128))
    }

    /// The seat's ordinal within `event`, or `None` when the id is not one of that event's.
    pub fn ordinal_in(self, event: EventId) -> Option<u32> {
        let ordinal = self.raw_ordinal();
        (Self::of(event, ordinal) == self).then_some(ordinal)
    }

    /// The ordinal for an id that is known to be a seat's.
    pub const fn raw_ordinal(self) -> u32 {
        (self.0.as_u128() & ORDINAL_MASK) as u32
    }

    /// The 28 characters that all the seat ids of an event begin with. Eight hex digits of ordinal follow.
    pub fn prefix(event: EventId) -> String {
        let mut text = Self::of(event, 0).to_string();
        text.truncate(28);
        text
    }
}

/// Where fresh ids come from. The kernel has no randomness of its own.
pub trait IdSource {
    fn next(&mut self, now: Time) -> Uuid;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(n: u128) -> EventId {
        EventId::from_uuid(uuid::Builder::from_unix_timestamp_millis(n as u64, &[n as u8; 10]).into_uuid())
    }

    #[test]
    fn a_seat_id_is_its_event_and_ordinal() {
        let (a, b) = (event(1), event(2));
        for ordinal in [0, 1, 99_999, u32::MAX] {
            let seat = SeatId::of(a, ordinal);
            assert_eq!(seat.ordinal_in(a), Some(ordinal));
            assert_eq!(seat.ordinal_in(b), None);
            assert_eq!(seat.uuid().get_version_num(), 8);
            assert_eq!(format!("{}{ordinal:08x}", SeatId::prefix(a)), seat.to_string());
        }
    }

    #[test]
    fn an_event_id_is_not_one_of_its_seat_ids() {
        let a = event(7);
        assert_eq!(SeatId::from_uuid(a.uuid()).ordinal_in(a), None);
    }

    #[test]
    fn only_the_hyphenated_form_is_read() {
        let id = event(3).to_string();
        assert!(id.parse::<EventId>().is_ok());
        assert!(id.replace('-', "").parse::<EventId>().is_err());
        assert!(format!("{{{id}}}").parse::<EventId>().is_err());
        assert!(format!("urn:uuid:{id}").parse::<EventId>().is_err());
        assert!("".parse::<EventId>().is_err());
        assert!("\0".repeat(36).parse::<EventId>().is_err());
    }
}
