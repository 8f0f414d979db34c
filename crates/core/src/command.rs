//! What can be asked of the kernel.

use std::fmt;
use std::sync::Arc;

use crate::event::Tier;
use crate::hold::Source;
use crate::ids::{AreaId, BlockId, BookingId, EventId, HoldId, KeyId, OrgId, SeatId};
use crate::money::Currency;
use crate::org::Scopes;
use crate::policy::Policy;
use crate::seat::Section;
use crate::text::{CartToken, Name, PaymentReference, UserId};

/// A command with everything that is known about who sent it.
#[derive(Clone, Debug)]
pub struct Request {
    pub org: OrgId,
    pub actor: Actor,
    /// Ties the log line, the journal row and the answer together.
    pub request_id: Arc<str>,
    pub idempotency: Option<IdempotencyKey>,
    pub command: Command,
}

/// Who acts, as the journal records it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    User(UserId),
    Key(KeyId),
    System,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // In two pieces: every fact is written with it, and putting one text into another costs more than both.
            Actor::User(user) => f.write_str("user:").and_then(|()| f.write_str(user.as_str())),
            Actor::Key(key) => write!(f, "key:{key}"),
            Actor::System => f.write_str("system"),
        }
    }
}

/// The client's `Idempotency-Key` and a digest of the request it came with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    pub key: Arc<str>,
    pub fingerprint: [u8; 16],
}

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    CreateOrg {
        name: Name,
    },
    CreateApiKey {
        name: Name,
        scopes: Scopes,
        secret_hash: [u8; 32],
    },
    RevokeApiKey {
        key: KeyId,
    },
    CreateEvent {
        name: Name,
        currency: Currency,
        tiers: Vec<Tier>,
        policy: Policy,
    },
    CreateBlock {
        event: EventId,
        name: Name,
    },
    CreateSeats {
        event: EventId,
        sections: Vec<NewSection>,
    },
    CreateArea {
        event: EventId,
        name: Name,
        tier: Name,
        capacity: u32,
    },
    BlockSeats {
        event: EventId,
        seats: Vec<SeatId>,
    },
    UnblockSeats {
        event: EventId,
        seats: Vec<SeatId>,
    },
    Hold(Places),
    StartCheckout {
        hold: HoldId,
        user: UserId,
    },
    Heartbeat {
        hold: HoldId,
        user: UserId,
    },
    /// No seats named: all of the hold.
    Release {
        hold: HoldId,
        user: UserId,
        seats: Vec<SeatId>,
    },
    Confirm {
        hold: HoldId,
        user: UserId,
        payment_reference: Option<PaymentReference>,
    },
    /// Hold and confirm in one step.
    Book {
        places: Places,
        payment_reference: Option<PaymentReference>,
    },
    /// `user` is `None` when the org itself cancels.
    CancelBooking {
        booking: BookingId,
        user: Option<UserId>,
    },
    /// Ends a hold that is past its time, and does nothing to any other.
    Expire {
        hold: HoldId,
    },
}

/// What somebody wants to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    pub event: EventId,
    pub user: UserId,
    pub cart: CartToken,
    pub source: Source,
    pub seats: Vec<SeatId>,
    /// How many seats of each block the cart shall hold, whichever they are.
    pub blocks: Vec<(BlockId, u32)>,
    /// How many places of each area the cart shall hold.
    pub areas: Vec<(AreaId, u32)>,
}

/// A section as it is asked for: block and tier by name. A block that does not exist yet is created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSection {
    pub block: Name,
    pub tier: Name,
    /// Its `block` and `tier` are filled in by the kernel.
    pub section: Section,
}

impl Command {
    /// The event that a command is for, where the command itself says so.
    pub fn event(&self) -> Option<EventId> {
        match self {
            Command::CreateBlock { event, .. }
            | Command::CreateSeats { event, .. }
            | Command::CreateArea { event, .. }
            | Command::BlockSeats { event, .. }
            | Command::UnblockSeats { event, .. } => Some(*event),
            Command::Hold(places) | Command::Book { places, .. } => Some(places.event),
            _ => None,
        }
    }

    /// What a command wants for somebody.
    pub fn places(&self) -> Option<&Places> {
        match self {
            Command::Hold(places) | Command::Book { places, .. } => Some(places),
            _ => None,
        }
    }

    /// The hold that a command names.
    pub fn hold(&self) -> Option<HoldId> {
        match self {
            Command::StartCheckout { hold, .. }
            | Command::Heartbeat { hold, .. }
            | Command::Release { hold, .. }
            | Command::Confirm { hold, .. }
            | Command::Expire { hold } => Some(*hold),
            _ => None,
        }
    }
}
