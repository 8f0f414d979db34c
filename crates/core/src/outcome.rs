//! The answer to a command that was not refused. It is what an idempotency record keeps.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::area::Area;
use crate::booking::Booking;
use crate::event::{Block, Event};
use crate::hold::Hold;
use crate::ids::{EventId, HoldId, SeatId};
use crate::org::{ApiKey, Org};
use crate::text::CartToken;
use crate::time::Time;

///
/// What is rare and large is boxed, so that the answer to a hold is small: it goes from hand to hand on its way to who asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    Org(Org),
    ApiKey(Box<ApiKey>),
    Event(Box<Event>),
    Block(Block),
    Seats(SeatsCreated),
    Area(Box<Area>),
    Blocking(SeatsChanged),
    Hold(HoldOutcome),
    Booking(Box<BookingOutcome>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeatsCreated {
    pub event: EventId,
    pub first_ordinal: u32,
    pub count: u32,
    pub blocks: Vec<Block>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeatsChanged {
    pub event: EventId,
    /// The seats that this command changed. Those that were so already are not here.
    pub seats: Vec<SeatId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoldOutcome {
    pub hold: Arc<Hold>,
    /// Whether this command changed anything.
    pub changed: bool,
    /// Seats asked for that the same user holds in another cart. They stay there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<HeldElsewhere>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldElsewhere {
    pub seat: SeatId,
    pub hold: HoldId,
    pub cart: CartToken,
    pub expires_at: Time,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BookingOutcome {
    pub booking: Booking,
    pub changed: bool,
}
