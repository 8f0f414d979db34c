//! What `rowlock verify` finds. The checks themselves are SQL, so each store has its own.

use std::fmt;
use std::sync::Arc;

/// Called with the name of a check and how many of all checks are done.
pub type Progress = Arc<dyn Fn(&'static str, usize, usize) + Send + Sync>;

#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Rows looked at, by table, for a reader who wants to know what a clean report means.
    pub counted: Vec<(&'static str, u64)>,
    pub violations: Vec<Violation>,
}

/// A promise broken by the stored data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub promise: Promise,
    pub what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// A seat has at most one owner; an area never exceeds its capacity.
    S,
    /// Every hold that is not confirmed is released, once.
    E,
    /// The journal is complete and in order.
    O,
    /// One effect per idempotency key.
    X,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.what)
    }
}
