//! Holds that go all the way: held, checkout started, extended, read, confirmed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Suite;
use super::field::{Occupancy, Peer, Server, Times as HoldTimes};
use super::report::{Checkout, Step, Times};
use crate::client::{self, Answer, HoldRequest, Pace, Requests, Run, Seats, drive, token_in};
use crate::servers::Fallible;
use crate::serving::HOLD;

/// The holds of one connection's user.
type Holds = Arc<Mutex<Vec<String>>>;

/// Holds seats and keeps the tokens.
struct Take {
    request: HoldRequest,
    seats: Arc<Seats>,
    first: u64,
    end: u64,
    holds: Holds,
}

impl Requests for Take {
    fn next(&mut self, number: u64) -> Option<&[u8]> {
        let place = self.first + number;
        let (event, ordinal) = self.seats.get(place).filter(|_| place < self.end)?;
        Some(self.request.patch(event, ordinal, place))
    }

    fn heard(&mut self, answer: &Answer<'_>) {
        if let Some(token) = token_in(answer.body).filter(|_| answer.status == 201) {
            self.holds.lock().expect("nobody panics with it").push(token);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    Read,
    Checkout,
    Heartbeat,
    Confirm,
}

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read a hold",
            Operation::Checkout => "start checkout",
            Operation::Heartbeat => "heartbeat",
            Operation::Confirm => "confirm",
        }
    }

    fn request(self, hold: &str, token: &str) -> Vec<u8> {
        match self {
            Operation::Read => client::get(&format!("/api/bookings/hold/{hold}"), token, &[]),
            Operation::Checkout => client::post(&format!("/api/bookings/hold/{hold}/checkout"), token, "{}"),
            Operation::Heartbeat => {
                client::post(&format!("/api/bookings/hold/{hold}/heartbeat"), token, "{}")
            }
            Operation::Confirm => client::post(&format!("/api/bookings/{hold}/confirm"), token, "{}"),
        }
    }
}

/// Does the same to every hold of its user.
struct Each {
    operation: Operation,
    token: String,
    holds: Vec<String>,
    next: usize,
    /// Start over at the end, for what can be done again.
    endless: bool,
    request: Vec<u8>,
}

impl Requests for Each {
    fn next(&mut self, _: u64) -> Option<&[u8]> {
        if self.endless && !self.holds.is_empty() {
            self.next %= self.holds.len();
        }
        let hold = self.holds.get(self.next)?;
        self.next += 1;
        self.request = self.operation.request(hold, &self.token);
        Some(&self.request)
    }
}

/// Users with holds, one user a connection.
pub struct Holders<'a, 'b> {
    pub suite: &'a Suite,
    pub server: &'a Server<'b>,
    pub seats: Arc<Seats>,
    holds: Vec<Holds>,
    taken: u64,
}

const LONG: Duration = Duration::from_secs(120);

impl<'a, 'b> Holders<'a, 'b> {
    pub fn new(suite: &'a Suite, server: &'a Server<'b>, seats: Arc<Seats>) -> Self {
        let holds = (0..suite.sizes.connections).map(|_| Holds::default()).collect();
        Self { suite, server, seats, holds, taken: 0 }
    }

    /// Holds this many seats more.
    pub async fn hold(&mut self, count: u64, pace: Pace, duration: Duration) -> Fallible<Run> {
        let load = self.suite.load(self.server, duration, pace);
        let (first, end) = (self.taken, self.taken + count);
        let run = drive(&load, |i| {
            Box::new(Take {
                request: HoldRequest::new(HOLD, &self.server.token(&format!("buyer-{i}"))),
                seats: Arc::clone(&self.seats),
                first,
                end,
                holds: Arc::clone(&self.holds[i as usize]),
            })
        })
        .await?;
        self.taken = end;
        Ok(run)
    }

    /// As fast as it goes, whatever it takes.
    pub async fn fill(&mut self, count: u64) -> Fallible<Run> {
        self.hold(count, Pace::Closed, LONG).await
    }

    pub async fn each(&self, operation: Operation, pace: Pace, duration: Duration) -> Fallible<Run> {
        let load = self.suite.load(self.server, duration, pace);
        let run = drive(&load, |i| {
            Box::new(Each {
                operation,
                token: self.server.token(&format!("buyer-{i}")),
                holds: self.holds[i as usize].lock().expect("nobody panics with it").clone(),
                next: 0,
                endless: operation == Operation::Read,
                request: Vec::new(),
            })
        })
        .await?;
        Ok(run)
    }
}

pub fn step(name: &str, run: &Run) -> Step {
    Step { name: name.into(), per_second: run.per_second(), times: Times::of(run) }
}

impl Suite {
    pub async fn checkout(&mut self) -> Fallible<Vec<Checkout>> {
        let mut all = Vec::new();
        for peer in self.peers(&[Peer::Embedded, Peer::Node]) {
            self.progress.step(format!("extend and confirm: {}", peer.title()));
            let (checkout, wrong) = self.checkout_of(peer).await?;
            self.problems.extend(wrong.into_iter().map(|what| format!("checkout, {}: {what}", peer.title())));
            all.push(checkout);
        }
        Ok(all)
    }

    async fn checkout_of(&self, peer: Peer) -> Fallible<(Checkout, Vec<String>)> {
        let server = self.field.start(peer).await?;
        let count = self.sizes.checkouts;
        let events = server.events(1, count, HoldTimes::default()).await?;
        let mut holders = Holders::new(self, &server, Arc::new(Seats::of(events.clone(), count, 1)));
        let mut wrong = Vec::new();
        let held = holders.fill(count.into()).await?;
        let mut steps = vec![step("hold", &held)];
        for operation in [Operation::Checkout, Operation::Heartbeat, Operation::Confirm] {
            let run = holders.each(operation, Pace::Closed, LONG).await?;
            if run.done != u64::from(count) {
                wrong.push(format!("{} of {count} succeeded: {}", run.done, operation.name()));
            }
            steps.push(step(operation.name(), &run));
        }
        let occupancy = server.occupancy(events[0]).await?;
        let count = u64::from(count);
        if occupancy != (Occupancy { available: 0, held: 0, sold: count, total: count }) {
            wrong.push(format!("not all seats are sold: {occupancy:?}"));
        }
        wrong.extend(server.violations().await?);
        Ok((Checkout { peer, holds: held.done, steps, occupancy }, wrong))
    }
}
