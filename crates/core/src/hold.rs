//! A hold: one token, one owner, one expiry; seats and area quantities, all or nothing.

use serde::{Deserialize, Serialize};

use crate::ids::{AreaId, BookingId, EventId, HoldId, OrgId, SeatId};
use crate::money::Currency;
use crate::text::{CartToken, UserId};
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum HoldStatus {
    Active = 0,
    Converted = 1,
    Expired = 2,
    Cancelled = 3,
}

impl HoldStatus {
    pub const ALL: [HoldStatus; 4] =
        [HoldStatus::Active, HoldStatus::Converted, HoldStatus::Expired, HoldStatus::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            HoldStatus::Active => "active",
            HoldStatus::Converted => "converted",
            HoldStatus::Expired => "expired",
            HoldStatus::Cancelled => "cancelled",
        }
    }
}

/// Where a hold came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Source {
    Web = 0,
    Scanner = 1,
    OfflineSync = 2,
    #[default]
    Api = 3,
}

impl Source {
    pub const ALL: [Source; 4] = [Source::Web, Source::Scanner, Source::OfflineSync, Source::Api];

    pub const fn as_str(self) -> &'static str {
        match self {
            Source::Web => "web",
            Source::Scanner => "scanner",
            Source::OfflineSync => "offline_sync",
            Source::Api => "api",
        }
    }
}

/// A seat in a hold, at the price that was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSeat {
    pub ordinal: u32,
    pub price: i64,
}

/// Places of an area in a hold, at the price of one place that was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldArea {
    pub area: AreaId,
    pub quantity: u32,
    pub price: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub id: HoldId,
    pub org: OrgId,
    pub event: EventId,
    pub user: UserId,
    pub cart: CartToken,
    pub status: HoldStatus,
    pub source: Source,
    pub currency: Currency,
    pub seats: Vec<HeldSeat>,
    pub areas: Vec<HeldArea>,
    pub created_at: Time,
    pub expires_at: Time,
    /// No extension goes past this.
    pub max_expires_at: Time,
    pub checkout_at: Option<Time>,
    pub ended_at: Option<Time>,
    pub booking: Option<BookingId>,
}

impl Hold {
    /// Whether the hold holds anything at `now`. Past its time it does not, even if nobody has tidied it yet.
    pub fn is_live(&self, now: Time) -> bool {
        self.status == HoldStatus::Active && now < self.expires_at
    }

    /// Active by its row, but over: the next one who needs its places, or the reaper, ends it.
    pub fn is_due(&self, now: Time) -> bool {
        self.status == HoldStatus::Active && self.expires_at <= now
    }

    pub fn seat_ids(&self) -> impl Iterator<Item = SeatId> {
        self.seats.iter().map(|seat| SeatId::of(self.event, seat.ordinal))
    }

    pub fn has_seat(&self, ordinal: u32) -> bool {
        self.seats.iter().any(|seat| seat.ordinal == ordinal)
    }

    pub fn quantity_of(&self, area: AreaId) -> u32 {
        self.areas.iter().filter(|held| held.area == area).map(|held| held.quantity).sum()
    }

    /// Seats and area places together.
    pub fn places(&self) -> u32 {
        places(&self.seats, &self.areas)
    }

    pub fn total(&self) -> i64 {
        total(&self.seats, &self.areas)
    }
}

/// Seats and area places together.
pub fn places(seats: &[HeldSeat], areas: &[HeldArea]) -> u32 {
    seats.len() as u32 + areas.iter().map(|held| held.quantity).sum::<u32>()
}

/// What the places cost. The limits keep this far from overflow.
pub fn total(seats: &[HeldSeat], areas: &[HeldArea]) -> i64 {
    let seats: i64 = seats.iter().map(|seat| seat.price).sum();
    let areas: i64 = areas.iter().map(|held| held.price * i64::from(held.quantity)).sum();
    seats + areas
}
