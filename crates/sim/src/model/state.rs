//! One moment of the whole system, small enough to keep millions of them.
//!
//! Time is relative: a hold does not say when it ends, but how many ticks of the truth's clock it has left. So two
//! moments that differ only in what the clock shows are one. Versions are relative too: a transaction knows whether a
//! row that it read was written since, which is all that comparing versions can tell.

use std::hash::{Hash, Hasher};

pub const MAX_CLIENTS: usize = 3;
pub const MAX_SEATS: usize = 2;
pub const MAX_NODES: usize = 2;
/// Requests of one client that are under way at a time: one, and a late or repeated one.
pub const SLOTS: usize = 2;
/// Facts of the journal that are kept, because somebody has not heard of them.
pub const MAX_JOURNAL: usize = 6;

/// A set of seats or of clients, one bit each.
pub type Set = u8;

pub fn has(set: Set, member: usize) -> bool {
    set >> member & 1 == 1
}

/// A seat's row, and what a node believes it to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seat {
    #[default]
    Free,
    Held(u8),
    Sold(u8),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    #[default]
    None,
    Active,
    Expired,
    Released,
    Sold,
}

/// The row of a client's newest hold. Earlier ones have ended, and nothing but their number is asked for again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    pub status: Status,
    /// Which hold of this client it is, from 1.
    pub nth: u8,
    /// Ticks until its end. 0: it is over, tidied or not.
    pub left: u8,
    pub extended: bool,
}

impl Hold {
    pub fn is_live(&self) -> bool {
        self.status == Status::Active && self.left > 0
    }
}

/// What Redis has of a seat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Claim {
    #[default]
    None,
    /// A client's request is on its way to the truth.
    Pending(u8),
    /// A commit was announced: the client's nth hold has the seat.
    Promoted(u8, u8),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fact {
    #[default]
    Created,
    Extended,
    Ended,
    Sold,
}

/// A row of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub fact: Fact,
    pub client: u8,
    pub nth: u8,
    /// Nobody will announce it any more: its node is gone, or the message is.
    pub lost: bool,
}

/// The end of the journal: what Redis and the other nodes have not heard of yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    pub entries: [Entry; MAX_JOURNAL],
    pub len: u8,
    /// Numbers that were handed out and not written yet. Only with a broken order of steps.
    pub reserved: u8,
}

impl Journal {
    pub fn entries(&self) -> &[Entry] {
        &self.entries[..usize::from(self.len)]
    }

    /// Removes the first facts, of which everybody has heard.
    pub fn forget(&mut self, count: usize) {
        let len = usize::from(self.len);
        self.entries.copy_within(count..len, 0);
        self.entries[len - count..len].fill(Entry::default());
        self.len -= count as u8;
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Clients whose holds its reaper does not know any more. Only with a broken reaper.
    pub forgotten: Set,
    /// Only without locks: with them, what a reaper does between reading and writing changes nothing for anybody.
    pub reaper: Option<Reaping>,
}

/// The reaper's transaction: its row is read and decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaping {
    pub client: u8,
    pub stale: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verb {
    #[default]
    Hold,
    Extend,
    Confirm,
    Release,
}

/// Where a request is. Between any two of these its node may crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// On its way to the truth, for as long as it takes. A hold has passed Redis.
    #[default]
    Down,
    /// Decided on what its node believes and sent whole, commit included. Nothing is locked: what was believed is compared
    /// when it arrives.
    Sent,
    /// The same, and nobody waits for it any more: its node has crashed.
    Adrift,
    /// Its rows are read, locked and decided on.
    Loaded,
    /// The truth has it. The answer is on its way, first to the node and then to the client.
    Committed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub verb: Verb,
    /// Whose hold it is about, and which.
    pub target: u8,
    pub nth: u8,
    /// The node that decides, where it matters which: only with a broken clock.
    pub node: u8,
    pub phase: Phase,
    /// Seats whose pending claims are this request's.
    pub claimed: Set,
    /// Ticks that the hold has left, as decided and as answered.
    pub left: u8,
    /// What to write: nothing, because it is so already, or the verb's effect.
    pub writes: bool,
    /// Holds past their time that end to make room.
    pub ends: Set,
    /// A row that was read has changed since.
    pub stale: bool,
    /// Only with a broken order of steps: its number in the journal, counted from the end.
    pub number: u8,
}

impl Request {
    pub fn new(verb: Verb, target: u8) -> Self {
        let (nth, node, claimed, left, ends, number) = (0, 0, 0, 0, 0, 0);
        let (writes, stale) = (false, false);
        Self { verb, target, nth, node, phase: Phase::Down, claimed, left, writes, ends, stale, number }
    }

    pub fn through(self, node: u8) -> Self {
        Self { node, ..self }
    }
}

/// What a client knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    #[default]
    Idle,
    /// Has asked for a hold.
    Wants,
    /// Was told that it holds.
    Holds,
    Confirms,
    /// Was told that it has bought.
    Bought,
    Releases,
    /// Was told that it has given back.
    Released,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    pub stage: Stage,
    /// The hold it was told of.
    pub nth: u8,
    /// Ticks that it was told it has.
    pub left: u8,
    pub asked_extension: bool,
    /// Requests that it may still send, repetitions included.
    pub sends: u8,
    pub requests: [Option<Request>; SLOTS],
}

/// A difference at a seat that a reconciliation has seen and not repaired yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    pub seat: u8,
    pub claim: Claim,
    /// The live hold that the truth had.
    pub held: Option<(u8, u8)>,
}

/// What no row shows, and yet has happened: each is a broken promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrongs(pub u8);

impl Wrongs {
    /// A hold that had ended was ended again.
    pub const ENDED_TWICE: u8 = 1;
    /// Somebody else's hold was changed.
    pub const BY_STRANGER: u8 = 2;
    /// A hold past its time was sold or moved.
    pub const PAST_ITS_TIME: u8 = 4;
    /// A hold was ended before its time, and not by its owner.
    pub const BEFORE_ITS_TIME: u8 = 8;
    /// A key that had its effect had another.
    pub const KEY_TWICE: u8 = 16;
    /// A reader could see a number of the journal while the one before it was missing.
    pub const HOLE: u8 = 32;

    pub fn has(self, wrong: u8) -> bool {
        self.0 & wrong != 0
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub seats: [Seat; MAX_SEATS],
    pub holds: [Hold; MAX_CLIENTS],
    /// Clients whose key has a recorded answer: their first hold.
    pub records: Set,
    pub journal: Journal,
    pub claims: [Claim; MAX_SEATS],
    pub nodes: [Node; MAX_NODES],
    /// What a node believes that follows the others. It stands for all of them, and for every reader of the journal: they
    /// do not influence each other.
    pub follower: [Seat; MAX_SEATS],
    pub clients: [Client; MAX_CLIENTS],
    pub reconcile: Option<Difference>,
    /// Faults that may still happen.
    pub faults: u8,
    pub wrongs: Wrongs,
}

impl State {
    pub fn request(&self, client: usize, slot: usize) -> Option<&Request> {
        self.clients[client].requests[slot].as_ref()
    }

    pub fn requests(&self) -> impl Iterator<Item = (usize, usize, &Request)> {
        self.clients.iter().enumerate().flat_map(|(client, found)| {
            let slots = found.requests.iter().enumerate();
            slots.filter_map(move |(slot, request)| Some((client, slot, request.as_ref()?)))
        })
    }

    pub fn requests_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.clients.iter_mut().flat_map(|client| client.requests.iter_mut().flatten())
    }

    /// Takes a pending claim away. Whoever made it can't give it back any more: the token is gone.
    pub fn set_claim(&mut self, seat: usize, claim: Claim) {
        self.claims[seat] = claim;
        for request in self.requests_mut() {
            request.claimed &= !(1 << seat);
        }
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.packed().hash(hasher);
    }
}
