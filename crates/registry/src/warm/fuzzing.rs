//! Doors for fuzzers to the code that reads what Redis says. Not in what ships: only with the feature `fuzzing`.

use std::collections::HashMap;

use rowlock_core::EventId;
use rowlock_truth::read::{EventShape, EventSnapshot};
use uuid::Uuid;

use super::snapshot::Parts;
use super::{Announced, Owner, WarmEvent, WarmHeld, announce, snapshot};
use crate::hot::stored;

/// What there is of an event in Redis, as it is read from there.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub sequence: String,
    pub counters: Vec<(String, String)>,
    pub free: Vec<u8>,
    pub sold: Vec<u8>,
    pub held: Vec<(String, f64)>,
}

/// Who a claim belongs to, and the value that would be removed.
pub fn claim(value: &[u8]) -> (Owner, Vec<u8>) {
    let owner = Owner::read(value.to_vec());
    let seen = owner.seen.clone();
    (owner, seen)
}

pub fn member(event: EventId, text: &str, score: f64) -> Option<WarmHeld> {
    snapshot::read_member(event, text, score)
}

pub fn member_text(event: EventId, held: &WarmHeld) -> String {
    snapshot::member(event, held)
}

pub fn announcement(payload: &[u8]) -> Option<Announced> {
    // Nobody's own: the facts of our own messages are not read.
    announce::read(payload, Uuid::max()).flatten()
}

pub fn event(event: EventId, found: Found) -> Option<WarmEvent> {
    let Found { sequence, counters, free, sold, held } = found;
    let occupancy: HashMap<String, String> = counters.into_iter().collect();
    Parts { occupancy, free, sold, held, sequence }.read(event).ok()
}

/// The state of an event as it would be written.
pub fn state(snapshot: &EventSnapshot) -> WarmEvent {
    stored::warm_event(snapshot)
}

pub fn layout_bytes(snapshot: &EventSnapshot) -> Vec<u8> {
    stored::layout_bytes(snapshot)
}

pub fn layout(bytes: &[u8], state: &WarmEvent, shape: EventShape) -> Option<EventSnapshot> {
    stored::from_warm(bytes, state, shape)
}
