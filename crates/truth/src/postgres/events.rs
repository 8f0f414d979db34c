//! What a connection remembers of events: only what never changes.

use std::sync::Arc;

use rowlock_core::EventId;
use rowlock_core::slice::EventRow;
use rustc_hash::FxHashMap;

/// Events remembered at most.
const MAX_EVENTS: usize = 4096;

/// Events with their keys. The rows have no blocks, areas or seats in them: other nodes may add some at any time.
#[derive(Default)]
pub(super) struct Events {
    rows: FxHashMap<EventId, (i64, Arc<EventRow>)>,
    ids: FxHashMap<i64, EventId>,
}

impl Events {
    pub fn get(&self, id: EventId) -> Option<(i64, &Arc<EventRow>)> {
        self.rows.get(&id).map(|(key, row)| (*key, row))
    }

    pub fn key(&self, id: EventId) -> Option<i64> {
        self.rows.get(&id).map(|(key, _)| *key)
    }

    pub fn by_key(&self, key: i64) -> Option<&Arc<EventRow>> {
        let id = self.ids.get(&key)?;
        self.rows.get(id).map(|(_, row)| row)
    }

    pub fn put(&mut self, key: i64, row: EventRow) {
        self.ids.insert(key, row.event.id);
        self.rows.insert(row.event.id, (key, Arc::new(row)));
    }

    /// Called between batches: a batch finds to its end the events that it has looked up.
    pub fn trim(&mut self) {
        if self.rows.len() > MAX_EVENTS {
            self.rows.clear();
            self.ids.clear();
        }
    }
}
