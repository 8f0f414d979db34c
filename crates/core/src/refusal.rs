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
    #[error("{} of the seats named do not exist in this event", seats.len())]
    UnknownSeats { seats: Vec<SeatId> },
    #[error("there is no area {area} in this event")]
    UnknownArea { area: AreaId },
    #[error("there is no hold {hold}")]
    UnknownHold { hold: HoldId },
    #[error("there is no booking {booking}")]
    UnknownBooking { booking: BookingId },
    #[error("{} of the seats named are taken", seats.len())]
    SeatsTaken { seats: Vec<SeatId> },
    #[error("{} of the seats named are blocked by the organizer", seats.len())]
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
