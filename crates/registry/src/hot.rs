//! The hot tier: what this process knows of every live event.
//!
//! It is loaded from the warm tier or the truth on first use and kept current by the facts of committed batches, in sequence. It can
//! refuse early and draw maps; it never grants anything.

mod cache;
mod event;
mod layout;
pub(crate) mod stored;

pub use cache::{HotTier, LEAST_WEIGHT};
pub use event::{AreaCounts, Counts, HotEvent, SeatView};
pub use layout::Layout;

use parking_lot::{RwLock, RwLockReadGuard};
use rowlock_core::{EventId, OrgId};

/// An event in memory. Readers share it; only the lane of committed facts changes it.
#[derive(Debug)]
pub struct LiveEvent {
    org: OrgId,
    id: EventId,
    inner: RwLock<HotEvent>,
}

impl LiveEvent {
    pub fn new(event: HotEvent) -> Self {
        Self { org: event.event().org, id: event.event().id, inner: RwLock::new(event) }
    }

    pub fn org(&self) -> OrgId {
        self.org
    }

    pub fn id(&self) -> EventId {
        self.id
    }

    pub fn read(&self) -> RwLockReadGuard<'_, HotEvent> {
        self.inner.read()
    }

    pub(crate) fn write(&self) -> parking_lot::RwLockWriteGuard<'_, HotEvent> {
        self.inner.write()
    }
}
