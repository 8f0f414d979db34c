//! Holds that go all the way: held, checkout started, extended, read, confirmed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rowlock_core::org::Scope;

use super::Suite;
use super::field::{Occupancy, Peer, Server, Times as HoldTimes};
use super::report::{Checkout, Step, Times};
use crate::client::{self, Answer, HoldRequest, Load, Pace, Requests, Run, Seats, drive, text_in};
use crate::servers::Fallible;
use crate::serving::HOLD;

/// A hold or a booking, and the number of its owner.
#[derive(Clone, Debug)]
pub struct Owned {
    owner: u32,
    id: String,
}

/// What all connections have made together.
type Kept = Arc<Mutex<Vec<Owned>>>;

fn keep(kept: &Kept, owner: u32, id: Option<&str>) {
    kept.lock().expect("nobody panics with it").extend(id.map(|id| Owned { owner, id: id.to_owned() }));
}

/// Holds seats and keeps the tokens.
struct Take {
    request: HoldRequest,
    seats: Arc<Seats>,
    first: u64,
    end: u64,
    user: u32,
    holds: Kept,
}

impl Requests for Take {
    fn next(&mut self, number: u64) -> Option<&[u8]> {
        let place = self.first + number;
        let (event, ordinal) = self.seats.get(place).filter(|_| place < self.end)?;
        Some(self.request.patch(event, ordinal, place))
    }

    fn heard(&mut self, answer: &Answer<'_>) {
        keep(&self.holds, self.user, text_in(answer.body, "hold_token").filter(|_| answer.status == 201));
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    Read,
    Checkout,
    Heartbeat,
    Confirm,
    /// Of a booking.
    Cancel,
    Release,
}

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read a hold",
            Operation::Checkout => "start checkout",
            Operation::Heartbeat => "heartbeat",
            Operation::Confirm => "confirm",
            Operation::Cancel => "cancel a booking",
            Operation::Release => "release",
        }
    }

    fn request(self, id: &str, token: &str) -> Vec<u8> {
        let hold = || format!("/api/bookings/hold/{id}");
        match self {
            Operation::Read => client::get(&hold(), token, &[]),
            Operation::Checkout => client::post(&format!("{}/checkout", hold()), token, "{}"),
            Operation::Heartbeat => client::post(&format!("{}/heartbeat", hold()), token, "{}"),
            Operation::Confirm => client::post(&format!("/api/bookings/{id}/confirm"), token, "{}"),
            Operation::Cancel => client::post(&format!("/api/bookings/{id}/cancel"), token, "{}"),
            Operation::Release => client::delete(&hold(), token),
        }
    }
}

/// Does the same to one after another, whichever connection is free.
struct Each {
    operation: Operation,
    tokens: Arc<[String]>,
    all: Arc<[Owned]>,
    owner: u32,
    request: Vec<u8>,
    bookings: Kept,
}

impl Requests for Each {
    fn next(&mut self, number: u64) -> Option<&[u8]> {
        let Owned { owner, id } = self.all.get(number as usize)?;
        self.owner = *owner;
        self.request = self.operation.request(id, &self.tokens[*owner as usize]);
        Some(&self.request)
    }

    fn heard(&mut self, answer: &Answer<'_>) {
        if self.operation == Operation::Confirm {
            keep(&self.bookings, self.owner, text_in(answer.body, "booking_id"));
        }
    }
}

/// Users with holds, as many as there are connections.
pub struct Holders {
    seats: Arc<Seats>,
    tokens: Arc<[String]>,
    holds: Kept,
    bookings: Kept,
    taken: u64,
}

pub const LONG: Duration = Duration::from_secs(120);

impl Holders {
    pub fn new(users: u32, server: &Server<'_>, seats: Arc<Seats>) -> Self {
        let scopes = [Scope::Read, Scope::Hold, Scope::Cancel];
        let tokens = (0..users).map(|user| server.token_for(&format!("buyer-{user}"), &scopes)).collect();
        Self { seats, tokens, holds: Kept::default(), bookings: Kept::default(), taken: 0 }
    }

    /// Holds this many seats more.
    pub async fn hold(&mut self, count: u64, load: &Load) -> Fallible<Run> {
        let (first, end) = (self.taken, self.taken + count);
        let run = drive(load, |user| {
            Box::new(Take {
                request: HoldRequest::new(HOLD, &self.tokens[user as usize]),
                seats: Arc::clone(&self.seats),
                first,
                end,
                user,
                holds: Arc::clone(&self.holds),
            })
        })
        .await?;
        self.taken = end;
        Ok(run)
    }

    pub async fn each(&self, operation: Operation, all: Vec<Owned>, load: &Load) -> Fallible<Run> {
        let all: Arc<[Owned]> = all.into();
        let run = drive(load, |_| {
            Box::new(Each {
                operation,
                tokens: Arc::clone(&self.tokens),
                all: Arc::clone(&all),
                owner: 0,
                request: Vec::new(),
                bookings: Arc::clone(&self.bookings),
            })
        })
        .await?;
        Ok(run)
    }

    pub fn holds(&self) -> Vec<Owned> {
        self.holds.lock().expect("nobody panics with it").clone()
    }

    pub fn bookings(&self) -> Vec<Owned> {
        self.bookings.lock().expect("nobody panics with it").clone()
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
        let seats = Arc::new(Seats::of(events.clone(), count, 1));
        let mut holders = Holders::new(self.sizes.connections, &server, seats);
        let load = self.load(&server, LONG, Pace::Closed);
        let mut wrong = Vec::new();
        let held = holders.hold(count.into(), &load).await?;
        let mut steps = vec![step("hold", &held)];
        for operation in [Operation::Checkout, Operation::Heartbeat, Operation::Confirm] {
            let run = holders.each(operation, holders.holds(), &load).await?;
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
        wrong.extend(server.unlike(events[0], &occupancy).await?);
        wrong.extend(server.violations().await?);
        Ok((Checkout { peer, holds: held.done, steps, occupancy }, wrong))
    }
}
