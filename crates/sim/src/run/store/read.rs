//! The reads.

use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::org::ApiKey;
use rowlock_core::seat::SeatState;
use rowlock_core::{EventId, HoldId, KeyId, OrgId, SeatId, Stream, Time, UserId};
use rowlock_truth::read::{
    ActiveHold, EventPage, EventShape, EventSnapshot, EventSummary, JournalRow, SeatSnapshot,
};

use super::tables::{EventTable, RecordName, Tables};

impl Tables {
    pub fn heads(&self, events: &[EventId]) -> Vec<(EventId, u64)> {
        let head = |event: &EventId| {
            let rows = self.streams.get(&Stream::Event(*event))?;
            Some((*event, rows.iter().map(|row| row.sequence).max()?))
        };
        events.iter().filter_map(head).collect()
    }

    pub fn shape(&self, event: EventId) -> Option<EventShape> {
        let row = &self.events.get(&event)?.row;
        let (blocks, areas) = (row.blocks.len() as u32, row.areas.len() as u32);
        Some(EventShape { org: row.event.org, seats: row.seat_count, blocks, areas })
    }

    pub fn api_keys(&self, org: OrgId, after: Option<KeyId>, limit: usize) -> Vec<ApiKey> {
        let keys = self.keys.values().filter(|key| key.org == org && Some(key.id) > after);
        keys.take(limit).cloned().collect()
    }

    pub fn event_page(&self, org: OrgId, after: Option<EventId>, limit: usize) -> EventPage {
        let rows = self.events.values().map(|table| &table.row).filter(|row| row.event.org == org);
        let rows = rows.filter(|row| after.is_none_or(|after| row.event.id > after)).take(limit);
        let summary = |row: &std::sync::Arc<rowlock_core::slice::EventRow>| EventSummary {
            event: row.event.clone(),
            seat_count: row.seat_count,
            area_count: row.areas.len() as u32,
        };
        EventPage { events: rows.map(summary).collect() }
    }

    pub fn snapshot(&self, id: EventId) -> Option<EventSnapshot> {
        let EventTable { row, places } = self.events.get(&id)?;
        let seats = places.iter().enumerate().map(|(ordinal, place)| {
            let state = self.seats[&SeatId::of(id, ordinal as u32)].0.state;
            let user = match state {
                SeatState::Held { hold, .. } => self.holds.get(&hold).map(|(hold, _)| hold.user.clone()),
                _ => None,
            };
            SeatSnapshot { place: place.clone(), state, user }
        });
        Some(EventSnapshot {
            row: (**row).clone(),
            areas: row.areas.iter().map(|(area, _)| self.areas[area].0.clone()).collect(),
            seats: seats.collect(),
            sequence: self.heads(&[id]).first().map_or(0, |(_, head)| *head),
        })
    }

    pub fn holds_of_user(&self, org: OrgId, user: &UserId, after: Option<HoldId>, limit: usize) -> Vec<Hold> {
        let holds = self.holds.values().map(|(hold, _)| hold);
        let holds =
            holds.filter(|hold| hold.org == org && hold.user == *user && hold.status == HoldStatus::Active);
        holds.filter(|hold| after.is_none_or(|after| hold.id > after)).take(limit).cloned().collect()
    }

    pub fn journal(&self, stream: Stream, after: u64, limit: usize) -> Vec<JournalRow> {
        let Some(rows) = self.streams.get(&stream) else { return Vec::new() };
        // In the order of their sequences, which is that of the commits unless the store is broken.
        let mut rows: Vec<&JournalRow> = rows.iter().filter(|row| row.sequence > after).collect();
        rows.sort_by_key(|row| row.sequence);
        rows.into_iter().take(limit).cloned().collect()
    }

    pub fn active_holds(&self, until: Time, limit: usize) -> Vec<ActiveHold> {
        let holds = self.holds.values().map(|(hold, _)| hold);
        let holds = holds.filter(|hold| hold.status == HoldStatus::Active && hold.expires_at <= until);
        let mut found: Vec<ActiveHold> =
            holds.map(|hold| ActiveHold { id: hold.id, expires_at: hold.expires_at }).collect();
        found.sort_by_key(|hold| (hold.expires_at, hold.id));
        found.truncate(limit);
        found
    }

    pub fn sweep_records(&mut self, now: Time, limit: usize) -> usize {
        let over =
            self.records.iter().filter(|(_, record)| record.ends_at <= now).map(|(name, _)| name.clone());
        let over: Vec<RecordName> = over.take(limit).collect();
        over.iter().for_each(|name| drop(self.records.remove(name)));
        over.len()
    }
}
