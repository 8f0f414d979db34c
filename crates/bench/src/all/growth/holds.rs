//! Every operation while more and more holds are active.
//!
//! There is a server for each number of holds. They take short turns, operation by operation, so that whatever else the
//! machine does slows all of them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::try_join_all;
use jiff::Timestamp;
use rowlock_core::EventId;
use rowlock_core::org::Scope;
use tokio::time::{sleep, timeout};

use super::super::Suite;
use super::super::checkout::{Holders, LONG, Operation, Owned, step};
use super::super::field::{Peer, Server, Times as HoldTimes};
use super::super::maps::Same;
use super::super::report::WithHolds;
use super::super::usage;
use crate::client::{self, Connection, HoldRequest, Load, Pace, Run, Seats, micros, text_in};
use crate::servers::Fallible;
use crate::serving::HOLD;

/// At a gentle rate these are enough, and opening them takes no part of a short turn.
const CONNECTIONS: u32 = 16;
/// Of the event whose map is read: the same however many holds there are elsewhere.
const MAP_SEATS: u32 = 1_000;
/// Of the user who is looked up: so many holds, in that event.
const USER: &str = "keeper";
const USER_HOLDS: u32 = 5;
/// Holds that end by themselves in one turn, in fewer turns because these are long, how long they last, and how often somebody
/// looks whether they are shown free.
const BRIEF_SEATS: u32 = 64;
const BRIEF_TURNS: u32 = 3;
const BRIEF: HoldTimes = HoldTimes { ttl: 1, checkout: 0, heartbeat: 0, most: 1 };
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// So that holds of one server end when those of another do not.
const APART: Duration = Duration::from_millis(150);
/// Long after the second in which a seat must be shown free.
const NEVER: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq)]
enum What {
    Hold,
    To(Operation),
    Expire,
    Map,
    Occupancy,
    HoldsOfUser,
}

/// In this order: what ends a hold comes behind what needs it.
const OPERATIONS: [What; 11] = [
    What::Hold,
    What::To(Operation::Read),
    What::To(Operation::Checkout),
    What::To(Operation::Heartbeat),
    What::To(Operation::Confirm),
    What::To(Operation::Cancel),
    What::To(Operation::Release),
    What::Expire,
    What::Map,
    What::Occupancy,
    What::HoldsOfUser,
];

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Hold => "hold",
            What::To(operation) => operation.name(),
            What::Expire => "shown free after its end",
            What::Map => "seat map",
            What::Occupancy => "occupancy",
            What::HoldsOfUser => "holds of a user",
        }
    }
}

/// A server with so many active holds.
struct Crowded<'a> {
    count: u32,
    /// Before the first operation.
    made: u32,
    server: &'a Server<'a>,
    holders: Holders,
    /// From all over its holds: those that are bought, and those that are released.
    bought: Vec<Owned>,
    released: Vec<Owned>,
    /// All but the one with the brief holds.
    events: Vec<EventId>,
    map: EventId,
    brief: EventId,
    /// Of each operation.
    runs: Vec<Run>,
}

impl Suite {
    pub(super) async fn with_holds(&mut self) -> Fallible<Vec<WithHolds>> {
        let (all, wrong) = self.crowded().await?;
        self.note("growing active holds", wrong);
        Ok(all)
    }

    async fn crowded(&self) -> Fallible<(Vec<WithHolds>, Vec<String>)> {
        let growth = &self.sizes.growth;
        let mut servers = Vec::new();
        for _ in growth.holds {
            servers.push(self.field.start(Peer::Embedded).await?);
        }
        let mut all = Vec::new();
        for (server, count) in servers.iter().zip(growth.holds) {
            self.progress.step(format!("growth: {count} active holds"));
            all.push(self.fill(server, *count).await?);
        }
        self.progress.step("growth: all operations with active holds".to_owned());
        for (number, what) in OPERATIONS.into_iter().enumerate() {
            for turn in 0..self.turns(what) {
                let runs = match what {
                    // Most of it is waiting, which all can do at once.
                    What::Expire => {
                        try_join_all(all.iter().zip(0..).map(|(with, i)| with.expire(APART * i))).await?
                    }
                    _ => {
                        let mut runs = Vec::new();
                        for with in &mut all {
                            runs.push(self.operate(with, what, turn as usize).await?);
                        }
                        runs
                    }
                };
                all.iter_mut().zip(&runs).for_each(|(with, run)| with.runs[number].follow(run));
            }
        }
        let mut wrong = Vec::new();
        for with in &all {
            wrong.extend(self.wrong(with));
            let found = with.server.audit(&with.events, with.active()).await?;
            wrong.extend(found.into_iter().map(|what| format!("with {}, {what}", with.count)));
        }
        Ok((all.iter().map(Crowded::result).collect(), wrong))
    }

    fn turns(&self, what: What) -> u32 {
        let turns = self.sizes.growth.operation_turns;
        if let What::Expire = what { turns.min(BRIEF_TURNS) } else { turns }
    }

    fn operations_a_turn(&self) -> usize {
        let growth = &self.sizes.growth;
        (growth.operations_per_second * growth.operation_turn.as_secs_f64()).round() as usize
    }

    /// So many are active to the end: as many more are made as are ended.
    async fn fill<'a>(&self, server: &'a Server<'a>, count: u32) -> Fallible<Crowded<'a>> {
        let each = self.operations_a_turn() * self.sizes.growth.operation_turns as usize;
        let made = count + each as u32;
        let seats = server.seats(made + each as u32).await?;
        let each_event = seats[0].1;
        let mut events: Vec<EventId> = seats.into_iter().map(|(event, _)| event).collect();
        let seats = Arc::new(Seats::of(events.clone(), each_event, 1));
        let mut holders = Holders::new(self.sizes.connections, server, seats);
        let filled = holders.hold(made.into(), &self.load(server, LONG, Pace::Closed)).await?;
        if filled.done != u64::from(made) {
            return Err(format!("{} of {made} holds were made", filled.done).into());
        }
        let (bought, released) = halves(&holders.holds(), each);
        let map = server.events(1, MAP_SEATS, HoldTimes::default()).await?[0];
        let mut request = HoldRequest::new(HOLD, &server.token(USER));
        for ordinal in 0..USER_HOLDS {
            let (status, _) = server.call(request.patch(map, ordinal, ordinal.into())).await?;
            if status != 201 {
                return Err(format!("a hold of the user who is looked up was answered {status}").into());
            }
        }
        events.push(map);
        let brief = server.events(1, BRIEF_SEATS, BRIEF).await?[0];
        let runs = OPERATIONS.iter().map(|_| Run::new()).collect();
        Ok(Crowded { count, made, server, holders, bought, released, events, map, brief, runs })
    }

    async fn operate(&self, with: &mut Crowded<'_>, what: What, turn: usize) -> Fallible<Run> {
        let growth = &self.sizes.growth;
        let pace = Pace::Open { per_second: growth.operations_per_second };
        let load = Load { connections: CONNECTIONS, ..self.load(with.server, growth.operation_turn, pace) };
        let count = self.operations_a_turn();
        let part =
            |all: &[Owned]| -> Vec<Owned> { all.iter().skip(turn * count).take(count).cloned().collect() };
        match what {
            What::Hold => with.holders.hold(count as u64, &load).await,
            What::To(operation) => {
                let all = match operation {
                    Operation::Cancel => part(&with.holders.bookings()),
                    Operation::Release => part(&with.released),
                    _ => part(&with.bought),
                };
                with.holders.each(operation, all, &load).await
            }
            What::Expire => with.expire(Duration::ZERO).await,
            What::Map => with.read(&format!("/api/events/{}/seats?form=compact", with.map), &load).await,
            What::Occupancy => with.read(&format!("/api/events/{}/occupancy", with.map), &load).await,
            What::HoldsOfUser => {
                // Operators are few: one question after another.
                let load = Load { connections: 1, pace: Pace::Closed, ..load };
                with.read(&format!("/api/admin/users/{USER}/holds"), &load).await
            }
        }
    }

    fn wrong(&self, with: &Crowded<'_>) -> Vec<String> {
        let mut wrong = Vec::new();
        for (what, run) in OPERATIONS.iter().zip(&with.runs) {
            let turns = u64::from(self.turns(*what));
            let wanted = match what {
                What::HoldsOfUser => 1,
                What::Expire => turns * u64::from(BRIEF_SEATS),
                _ => turns * self.operations_a_turn() as u64,
            };
            if run.bad() > 0 || run.done + run.unsent < wanted {
                let (count, name, done, bad) = (with.count, what.name(), run.done, run.bad());
                wrong.push(format!("with {count}, {name}: {done} of {wanted}, {bad} bad answers"));
            }
        }
        wrong
    }
}

impl Crowded<'_> {
    async fn read(&self, path: &str, load: &Load) -> Fallible<Run> {
        let token = self.server.token_for(USER, &[Scope::Read, Scope::Admin]);
        let request = client::get(path, &token, &["accept-encoding: gzip"]);
        Ok(client::drive(load, |_| Box::new(Same(request.clone()))).await?)
    }

    /// How long after their ends the map shows the seats of holds free that nobody has touched.
    async fn expire(&self, after: Duration) -> Fallible<Run> {
        sleep(after).await;
        let token = self.server.token("dawdler");
        let mut connection = Connection::open(self.server.address).await?;
        let mut request = HoldRequest::new(HOLD, &token);
        let mut ends = Vec::new();
        for seat in 0..BRIEF_SEATS {
            let answer = connection.send(request.patch(self.brief, seat, seat.into())).await?;
            let end = text_in(answer.body, "expires_at").ok_or("a brief hold was not made")?;
            ends.push(Some(SystemTime::from(end.parse::<Timestamp>()?)));
        }
        let first = ends[0].and_then(|end| end.duration_since(SystemTime::now()).ok());
        sleep(first.unwrap_or_default()).await;
        let look = client::get(&format!("/api/events/{}/seats?form=status", self.brief), &token, &[]);
        let mut run = Run::new();
        let all_are_free = async {
            while ends.iter().any(Option::is_some) {
                let answer = connection.send(&look).await?;
                let now = SystemTime::now();
                let letters = text_in(answer.body, "status").unwrap_or_default().bytes();
                for (end, _) in ends.iter_mut().zip(letters).filter(|(_, letter)| *letter == b'a') {
                    if let Some(end) = end.take() {
                        run.done += 1;
                        run.latency.saturating_record(micros(now.duration_since(end).unwrap_or_default()));
                    }
                }
                sleep(LOOK_EVERY).await;
            }
            Ok::<(), std::io::Error>(())
        };
        // Those that are missing then are missed by whoever counts them.
        timeout(NEVER, all_are_free).await.unwrap_or(Ok(()))?;
        Ok(run)
    }

    /// Holds that are left by the answers. The brief ones are over.
    fn active(&self) -> u64 {
        let of = |wanted: What| {
            let runs = OPERATIONS.iter().zip(&self.runs).filter(|(what, _)| **what == wanted);
            runs.map(|(_, run)| run.done).sum::<u64>()
        };
        let ended = of(What::To(Operation::Confirm)) + of(What::To(Operation::Release));
        u64::from(self.made + USER_HOLDS) + of(What::Hold) - ended
    }

    fn result(&self) -> WithHolds {
        WithHolds {
            count: self.count,
            operations: OPERATIONS.iter().zip(&self.runs).map(|(what, run)| step(what.name(), run)).collect(),
            memory_bytes: usage::peak_memory(self.server.pid()),
        }
    }
}

/// Twice so many from all over the list, in turn for the one and for the other.
fn halves<T: Clone>(all: &[T], each: usize) -> (Vec<T>, Vec<T>) {
    let pick = |number: usize| all[number * all.len() / (2 * each)].clone();
    ((0..each).map(|n| pick(2 * n)).collect(), (0..each).map(|n| pick(2 * n + 1)).collect())
}

#[cfg(test)]
mod tests {
    use super::halves;

    #[test]
    fn both_halves_are_from_all_over_and_share_nothing() {
        let all: Vec<u32> = (0..100).collect();
        assert_eq!(halves(&all, 2), (vec![0, 50], vec![25, 75]));
        let (mut one, other) = halves(&all, 50);
        one.extend(other);
        one.sort_unstable();
        assert_eq!(one, all);
    }
}
