//! What has happened. Facts are the only thing that changes rows, the hot tier and everybody who listens.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::area::Area;
use crate::booking::Booking;
use crate::event::{Block, Event};
use crate::hold::{HeldArea, HeldSeat, Hold};
use crate::ids::{BookingId, EventId, HoldId, KeyId, OrgId, SeatId};
use crate::org::{ApiKey, Org};
use crate::seat::Section;
use crate::text::{CartToken, UserId};
use crate::time::Time;

/// The journal is a set of streams, each with its own gapless sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    Org(OrgId),
    Event(EventId),
}

impl Stream {
    pub fn bytes(&self) -> &[u8; 16] {
        match self {
            Stream::Org(org) => org.as_bytes(),
            Stream::Event(event) => event.as_bytes(),
        }
    }
}

/// Written as the data of its journal row, whose kind says which of these it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Fact {
    OrgCreated(Org),
    ApiKeyCreated(ApiKey),
    ApiKeyRevoked(KeyRevoked),
    EventCreated(Event),
    BlockCreated(Block),
    SeatsCreated(SectionsAdded),
    AreaCreated(Area),
    SeatsBlocked(SeatsMarked),
    SeatsUnblocked(SeatsMarked),
    HoldCreated(Arc<Hold>),
    /// More places in a cart that had a hold already.
    HoldGrew(HoldPart),
    HoldExtended(HoldMoved),
    HoldConfirmed(HoldSold),
    /// Places given back by their owner. `ended`: all of them.
    HoldReleased(HoldPart),
    HoldExpired(HoldPart),
    BookingConfirmed(Booking),
    BookingCancelled(Booking),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyRevoked {
    pub org: OrgId,
    pub key: KeyId,
    pub revoked_at: Time,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SectionsAdded {
    pub event: EventId,
    pub first_ordinal: u32,
    pub count: u32,
    pub sections: Vec<Section>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeatsMarked {
    pub event: EventId,
    pub seats: Vec<SeatId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoldPart {
    pub hold: HoldId,
    pub event: EventId,
    pub user: UserId,
    pub cart: CartToken,
    pub seats: Vec<HeldSeat>,
    pub areas: Vec<HeldArea>,
    pub expires_at: Time,
    /// Whether the hold is over with this.
    pub ended: bool,
    pub at: Time,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoldMoved {
    pub hold: HoldId,
    pub event: EventId,
    pub user: UserId,
    pub seats: Vec<HeldSeat>,
    pub previous_expires_at: Time,
    pub expires_at: Time,
    /// Set when this was the start of checkout.
    pub checkout_at: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoldSold {
    pub hold: HoldId,
    pub event: EventId,
    pub user: UserId,
    pub booking: BookingId,
    pub expires_at: Time,
    pub at: Time,
}

impl Fact {
    /// The type under which the journal and its readers know the fact.
    pub const fn kind(&self) -> &'static str {
        match self {
            Fact::OrgCreated(_) => "ORG-CREATED",
            Fact::ApiKeyCreated(_) => "API-KEY-CREATED",
            Fact::ApiKeyRevoked(_) => "API-KEY-REVOKED",
            Fact::EventCreated(_) => "EVENT-CREATED",
            Fact::BlockCreated(_) => "BLOCK-CREATED",
            Fact::SeatsCreated(_) => "SEATS-CREATED",
            Fact::AreaCreated(_) => "AREA-CREATED",
            Fact::SeatsBlocked(_) => "SEAT-BLOCKED",
            Fact::SeatsUnblocked(_) => "SEAT-UNBLOCKED",
            Fact::HoldCreated(_) | Fact::HoldGrew(_) => "SEAT-HOLD-CREATED",
            Fact::HoldExtended(_) => "SEAT-HOLD-EXTENDED",
            Fact::HoldConfirmed(_) => "SEAT-HOLD-CONFIRMED",
            Fact::HoldReleased(_) => "SEAT-HOLD-CANCELLED",
            Fact::HoldExpired(_) => "SEAT-HOLD-EXPIRED",
            Fact::BookingConfirmed(_) => "BOOKING-CONFIRMED",
            Fact::BookingCancelled(_) => "BOOKING-CANCELLED",
        }
    }

    pub fn stream(&self) -> Stream {
        match self {
            Fact::OrgCreated(org) => Stream::Org(org.id),
            Fact::ApiKeyCreated(key) => Stream::Org(key.org),
            Fact::ApiKeyRevoked(revoked) => Stream::Org(revoked.org),
            Fact::EventCreated(event) => Stream::Event(event.id),
            Fact::BlockCreated(block) => Stream::Event(block.event),
            Fact::SeatsCreated(added) => Stream::Event(added.event),
            Fact::AreaCreated(area) => Stream::Event(area.event),
            Fact::SeatsBlocked(marked) | Fact::SeatsUnblocked(marked) => Stream::Event(marked.event),
            Fact::HoldCreated(hold) => Stream::Event(hold.event),
            Fact::HoldGrew(part) | Fact::HoldReleased(part) | Fact::HoldExpired(part) => {
                Stream::Event(part.event)
            }
            Fact::HoldExtended(moved) => Stream::Event(moved.event),
            Fact::HoldConfirmed(sold) => Stream::Event(sold.event),
            Fact::BookingConfirmed(booking) | Fact::BookingCancelled(booking) => Stream::Event(booking.event),
        }
    }
}
