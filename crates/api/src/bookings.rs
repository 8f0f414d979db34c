//! `/api/bookings`: holding, extending, releasing, confirming, cancelling.

pub mod booking;
pub mod hold;
pub mod hold_any;
pub mod hold_seats;
pub mod view;

use rowlock_core::command::Places;
use rowlock_core::{CartToken, SeatId, UserId};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::list::{List, Object};
use crate::wire::{
    AreaIdText, BlockIdText, CartText, EventIdText, IdText, PaymentText, Quantity, SeatQuantity, SourceWord,
};
use rowlock_core::limits::{MAX_AREAS_PER_REQUEST, MAX_SEATS_PER_REQUEST};

pub type SeatIds = List<IdText<SeatId>, 0, MAX_SEATS_PER_REQUEST>;
pub type AreaLines = List<Object<AreaLine>, 0, MAX_AREAS_PER_REQUEST>;

/// How many places of an area. A cart that holds: so many in all, those that it has already included, and never fewer than it has.
/// A box office sells: so many more.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AreaLine {
    #[schema(inline)]
    area_id: AreaIdText,
    #[schema(inline)]
    quantity: Quantity,
}

/// What to hold. At least one seat or area.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldSeats {
    #[schema(inline)]
    event_id: EventIdText,
    #[serde(default)]
    #[schema(inline, required = false)]
    seat_ids: SeatIds,
    /// Each area once.
    #[serde(default)]
    #[schema(inline, required = false)]
    areas: AreaLines,
    /// One cart is one hold. Who leaves it out has one cart.
    cart_token: Option<CartText>,
    /// Where the request comes from.
    source: Option<SourceWord>,
}

/// How many seats of a block to hold.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldAny {
    #[schema(inline)]
    event_id: EventIdText,
    #[schema(inline)]
    block_id: BlockIdText,
    /// How many seats of the block the cart shall hold, those that it holds already included.
    #[schema(inline)]
    quantity: SeatQuantity,
    /// One cart is one hold. Who leaves it out has one cart.
    cart_token: Option<CartText>,
    /// Where the request comes from.
    source: Option<SourceWord>,
}

/// What to sell at once. At least one seat or area.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Book {
    #[schema(inline)]
    event_id: EventIdText,
    #[serde(default)]
    #[schema(inline, required = false)]
    seat_ids: SeatIds,
    /// Each area once.
    #[serde(default)]
    #[schema(inline, required = false)]
    areas: AreaLines,
    source: Option<SourceWord>,
    payment_reference: Option<PaymentText>,
}

impl HoldSeats {
    fn places(self, user: &UserId) -> Places {
        Places {
            event: self.event_id.0,
            user: user.clone(),
            cart: self.cart_token.map_or_else(CartToken::unnamed, |cart| cart.0),
            source: self.source.map(|source| source.0).unwrap_or_default(),
            seats: self.seat_ids.0.into_iter().map(|seat| seat.0).collect(),
            blocks: Vec::new(),
            areas: self.areas.0.into_iter().map(|line| (line.0.area_id.0, line.0.quantity.0)).collect(),
        }
    }
}

impl HoldAny {
    fn places(self, user: &UserId) -> Places {
        let Self { event_id, block_id, quantity, cart_token, source } = self;
        let (seat_ids, areas) = Default::default();
        let wish = HoldSeats { event_id, seat_ids, areas, cart_token, source };
        Places { blocks: vec![(block_id.0, quantity.0)], ..wish.places(user) }
    }
}

impl Book {
    fn places(self, user: &UserId) -> Places {
        let Self { event_id, seat_ids, areas, source, .. } = self;
        HoldSeats { event_id, seat_ids, areas, cart_token: None, source }.places(user)
    }
}
