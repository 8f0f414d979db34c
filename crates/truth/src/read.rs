//! What the reads of a truth return, where a kernel type alone does not do.

use rowlock_core::area::Area;
use rowlock_core::event::Event;
use rowlock_core::seat::{SeatPlace, SeatState};
use rowlock_core::slice::EventRow;
use rowlock_core::{Fact, HoldId, JournalId, OrgId, Time, UserId};

use crate::columns;

/// An event with all its seats and areas, as of one journal sequence.
#[derive(Clone, Debug)]
pub struct EventSnapshot {
    pub row: EventRow,
    pub areas: Vec<Area>,
    /// By ordinal, without gaps.
    pub seats: Vec<SeatSnapshot>,
    pub sequence: u64,
}

/// How much there is of an event. It only grows, so it tells whether a copy of the layout is current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventShape {
    pub org: OrgId,
    pub seats: u32,
    pub blocks: u32,
    pub areas: u32,
}

#[derive(Clone, Debug)]
pub struct SeatSnapshot {
    pub place: SeatPlace,
    pub state: SeatState,
    /// Who holds it, while it is held.
    pub user: Option<UserId>,
}

#[derive(Clone, Debug, Default)]
pub struct EventPage {
    pub events: Vec<EventSummary>,
}

#[derive(Clone, Debug)]
pub struct EventSummary {
    pub event: Event,
    pub seat_count: u32,
    pub area_count: u32,
}

#[derive(Clone, Debug)]
pub struct JournalRow {
    pub sequence: u64,
    pub id: JournalId,
    pub kind: String,
    pub at: Time,
    pub actor: String,
    pub request_id: String,
    /// JSON.
    pub data: String,
}

impl JournalRow {
    /// What the row tells. `None` when this version does not understand it.
    pub fn fact(&self) -> Option<Fact> {
        fact(&self.kind, &self.data)
    }
}

/// A fact from the kind and the data of its journal row.
pub fn fact(kind: &str, data: &str) -> Option<Fact> {
    columns::fact(kind, data).ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveHold {
    pub id: HoldId,
    pub expires_at: Time,
}
