//! An event: something with seats and areas for sale.

use serde::{Deserialize, Serialize};

use crate::ids::{BlockId, EventId, OrgId};
use crate::limits::{MAX_PRICE_MINOR, MAX_TIERS_PER_EVENT};
use crate::money::Currency;
use crate::policy::Policy;
use crate::text::Name;
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub id: EventId,
    pub org: OrgId,
    pub name: Name,
    pub currency: Currency,
    pub tiers: Vec<Tier>,
    pub policy: Policy,
    pub created_at: Time,
}

/// A price level. Seats and areas name one by its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    pub code: Name,
    pub price: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub id: BlockId,
    pub event: EventId,
    pub name: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTiers {
    #[error("must have between 1 and {MAX_TIERS_PER_EVENT} tiers")]
    Count,
    #[error("must have prices between 0 and {MAX_PRICE_MINOR}")]
    Price,
    #[error("must have different codes")]
    Duplicate,
}

pub fn check_tiers(tiers: &[Tier]) -> Result<(), InvalidTiers> {
    if tiers.is_empty() || tiers.len() > MAX_TIERS_PER_EVENT {
        return Err(InvalidTiers::Count);
    }
    for (i, tier) in tiers.iter().enumerate() {
        if !(0..=MAX_PRICE_MINOR).contains(&tier.price) {
            return Err(InvalidTiers::Price);
        }
        if tiers[..i].iter().any(|other| other.code == tier.code) {
            return Err(InvalidTiers::Duplicate);
        }
    }
    Ok(())
}

impl Event {
    /// The index of a tier by its code.
    pub fn tier(&self, code: &str) -> Option<u8> {
        self.tiers.iter().position(|tier| tier.code.as_str() == code).map(|index| index as u8)
    }

    pub fn price(&self, tier: u8) -> i64 {
        self.tiers[usize::from(tier)].price
    }
}
