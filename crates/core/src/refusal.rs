//! Why a command is refused. A closed list: every layer above matches all of it.

use crate::ids::{AreaId, BlockId, BookingId, EventId, HoldId, KeyId, OrgId, SeatId};
use crate::text::Name;
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("there is no org {org}")]
    UnknownOrg { org: OrgId },
    #[error("there is no API key {key}")]
    UnknownKey { key: KeyId },
    #[error("there is no event {event}")]
    UnknownEvent { event: EventId },
    #[error("there is no block {block} in this event")]
    UnknownBlock { block: BlockId },
    #[error("there is no tier {tier} in this event")]
    UnknownTier { tier: Name },
    #[error("{} not exist in this event", of_named(seats, "does", "do"))]
    UnknownSeats { seats: Vec<SeatId> },
    #[error("there is no area {area} in this event")]
    UnknownArea { area: AreaId },
    #[error("there is no hold {hold}")]
    UnknownHold { hold: HoldId },
    #[error("there is no booking {booking}")]
    UnknownBooking { booking: BookingId },
    #[error("{} taken", of_named(seats, "is", "are"))]
    SeatsTaken { seats: Vec<SeatId> },
    #[error("{} blocked by the organizer", of_named(seats, "is", "are"))]
    SeatsBlocked { seats: Vec<SeatId> },
    #[error("the block has {left} free seats left, {requested} more were asked for")]
    BlockFull { block: BlockId, requested: u32, left: u32 },
    #[error("the area has {left} places left, {requested} were asked for")]
    AreaFull { area: AreaId, requested: u32, left: u32 },
    #[error("it belongs to another user")]
    NotOwner,
    #[error("the hold {hold} has expired")]
    HoldExpired { hold: HoldId, expired_at: Time },
    #[error("the hold {hold} is confirmed already")]
    HoldConfirmed { hold: HoldId, booking: BookingId },
    #[error("the hold {hold} is released already")]
    HoldReleased { hold: HoldId },
    #[error("the hold {hold} has been extended as far as it can be")]
    ExtensionExhausted { hold: HoldId, max_expires_at: Time },
    #[error("{requested} more places would pass the limit of {limit}; there are {current} already")]
    TooManySeats { limit: u32, current: u32, requested: u32 },
    #[error("the event is not on sale now")]
    SalesNotOpen { opens_at: Option<Time>, closes_at: Option<Time> },
    #[error("the booking {booking} is cancelled")]
    AlreadyCancelled { booking: BookingId },
    #[error("the name {name} is in use already")]
    NameTaken { name: Name },
    #[error("the place {place} would be two seats")]
    PlaceTaken { place: String },
    #[error("the event would have more than {limit} {what}")]
    EventFull { what: &'static str, limit: u32 },
    #[error("{field} {rule}")]
    Invalid { field: &'static str, rule: String },
    #[error("the idempotency key was used for another request before")]
    KeyReused,
}

/// How many of the seats that were named, with the verb that fits the number.
fn of_named(seats: &[SeatId], one: &str, many: &str) -> String {
    format!("{} of the seats named {}", seats.len(), if seats.len() == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seat_is_spoken_of_as_one() {
        let seats = |count: u32| {
            let event = EventId::from_uuid(uuid::Uuid::from_u128(7));
            (0..count).map(|ordinal| SeatId::of(event, ordinal)).collect::<Vec<_>>()
        };
        let taken = |count| Refusal::SeatsTaken { seats: seats(count) }.to_string();
        assert_eq!(taken(1), "1 of the seats named is taken");
        assert_eq!(taken(2), "2 of the seats named are taken");
        let unknown = |count| Refusal::UnknownSeats { seats: seats(count) }.to_string();
        assert_eq!(unknown(1), "1 of the seats named does not exist in this event");
        assert_eq!(unknown(2), "2 of the seats named do not exist in this event");
        let blocked = |count| Refusal::SeatsBlocked { seats: seats(count) }.to_string();
        assert_eq!(blocked(1), "1 of the seats named is blocked by the organizer");
        assert_eq!(blocked(2), "2 of the seats named are blocked by the organizer");
    }
}
