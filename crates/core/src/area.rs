//! General admission: a capacity instead of seats.

use serde::{Deserialize, Serialize};

use crate::ids::{AreaId, EventId};
use crate::text::Name;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    pub id: AreaId,
    pub event: EventId,
    pub name: Name,
    pub tier: u8,
    pub capacity: u32,
    /// Places in active holds. Holds past their time count until somebody ends them.
    pub held: u32,
    pub sold: u32,
}

impl Area {
    pub fn available(&self) -> u32 {
        self.capacity.saturating_sub(self.held).saturating_sub(self.sold)
    }
}
