//! A world for tests: rows that last, as a store keeps them, and the one way to change them, as a store does it.
//!
//! Every batch loads the rows that its requests name, decides them through `rowlock_core::execute` and writes back
//! what changed with a check of each row's version.

pub mod fault;
pub mod invariants;
pub mod load;
pub mod rows;
pub mod stage;

use std::sync::Arc;

use rowlock_core::decide::Executed;
use rowlock_core::{Actor, Command, Fact, IdSource, OrgId, Refusal, Request, Time, execute};
use uuid::Uuid;

pub use fault::Fault;
pub use rows::{Conflict, Rows};

/// When every test begins: a moment with nothing special about it.
pub const START: Time = Time::from_millis(1_700_000_000_000);

pub struct World {
    pub rows: Rows,
    /// Every fact that was committed, in order.
    pub journal: Vec<Fact>,
    pub now: Time,
    pub fault: Fault,
    /// The rows before the last batch, for the fault that reads them.
    before: Option<Rows>,
    ids: Counter,
}

impl World {
    pub fn new() -> Self {
        Self::broken(Fault::None)
    }

    /// A world whose store has a deliberate fault.
    pub fn broken(fault: Fault) -> Self {
        let (rows, journal) = (Rows::default(), Vec::new());
        Self { rows, journal, now: START, fault, before: None, ids: Counter(0) }
    }

    /// One transaction: load, decide one after another, write. A conflict writes nothing.
    pub fn batch(&mut self, requests: &[Request]) -> Result<Vec<Result<Executed, Refusal>>, Conflict> {
        let seats = self.fault.rows_to_read(&self.rows, self.before.as_ref());
        let mut slice = load::load(&self.rows, seats, requests, self.now, self.fault);
        let answers: Vec<_> =
            requests.iter().map(|request| execute(&mut slice, request, self.now, &mut self.ids)).collect();
        if self.fault.reads_stale() {
            self.before = Some(self.rows.clone());
        }
        self.rows.write(&slice, self.fault)?;
        let facts = answers.iter().flatten().flat_map(|done| done.facts.iter());
        self.journal.extend(facts.filter(|fact| !self.fault.drops(fact)).cloned());
        Ok(answers)
    }

    pub fn send(&mut self, request: Request) -> Result<Executed, Refusal> {
        let mut answers = self.batch(&[request]).expect("nobody else writes here");
        answers.pop().expect("one request has one answer")
    }

    pub fn ask(&mut self, org: OrgId, command: Command) -> Result<Executed, Refusal> {
        self.send(request(org, command))
    }

    pub fn wait_millis(&mut self, millis: i64) {
        self.now = self.now.plus_millis(millis);
    }

    pub fn wait_seconds(&mut self, seconds: u32) {
        self.now = self.now.plus_seconds(seconds);
    }
}

pub fn request(org: OrgId, command: Command) -> Request {
    Request { org, actor: Actor::System, request_id: Arc::from("test"), idempotency: None, command }
}

/// Ids that count up, the same in every run.
pub struct Counter(pub u32);

impl IdSource for Counter {
    fn next(&mut self, now: Time) -> Uuid {
        self.0 += 1;
        let [a, b, c, d] = self.0.to_be_bytes();
        // The last four bytes of an event's id give way to the ordinals of its seats, and a few bits to the
        // version, so the number stands before them too.
        let bytes = [0, a, 0, b, c, d, a, b, c, d];
        let millis = u64::try_from(now.millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
    }
}
