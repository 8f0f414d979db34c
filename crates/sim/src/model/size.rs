//! How large a world is explored.

use super::state::{MAX_CLIENTS, Set};

/// Ticks that a hold lasts.
pub const TTL: u8 = 1;
/// Ticks that starting checkout adds, once.
pub const EXTENSION: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub clients: usize,
    pub seats: usize,
    pub nodes: usize,
    /// Requests that each client may send, repetitions included.
    pub sends: [u8; MAX_CLIENTS],
    /// Things that may go wrong in one run, of any kind: a message or an answer lost, a crash, a key or all of Redis
    /// lost, an announcement lost, a connection to the truth cut, a stranger's request, a reconciliation at a bad moment.
    pub faults: u8,
    /// Facts that somebody may not have heard of yet. Before there are more, everybody looks at the journal.
    pub behind: u8,
}

impl Size {
    /// What `make test` explores.
    pub fn small() -> Self {
        Self { clients: 2, seats: 2, nodes: 2, sends: [2, 2, 2], faults: 1, behind: 2 }
    }

    pub fn full() -> Self {
        Self { clients: 3, seats: 2, nodes: 2, sends: [2, 2, 2], faults: 1, behind: 2 }
    }

    /// The seats that a client wants, always the same. The first wants all of them, the others one each.
    pub fn wants(&self, client: usize) -> Set {
        match (self.seats, client) {
            (1, _) => 0b01,
            (_, 0) => 0b11,
            (_, 1) => 0b01,
            _ => 0b10,
        }
    }

    /// Whether a client sends an idempotency key with its hold. Those without one are refused early.
    pub fn has_key(&self, client: usize) -> bool {
        client == 0
    }
}
