//! The names of the keys. The org comes first and the event's id is the hash tag: all of one event is in one slot.

use rowlock_core::{EventId, OrgId, SeatId};

pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// What all the keys of an event begin with.
    pub fn base(&self, org: OrgId, event: EventId) -> String {
        format!("{}:org:{org}:event:{{{event}}}:", self.prefix)
    }

    pub fn seat(base: &str, seat: SeatId) -> String {
        format!("{base}seat:{seat}")
    }

    /// The channel on which nodes tell each other of commits.
    pub fn facts(&self) -> String {
        format!("{}:facts", self.prefix)
    }
}
