//! What becomes slower when there is more of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rowlock_core::EventId;

use super::Suite;
use super::checkout::{Holders, Operation, step};
use super::field::{Peer, Server, Times as HoldTimes};
use super::report::{Grown, Growth, Times, WithHolds};
use super::throughput::HoldSeats;
use super::usage;
use crate::client::{Load, Pace, Run, Seats, drive};
use crate::servers::Fallible;
use crate::setup::SCATTER;

/// Seats of each of many events, and of the event that many nodes sell.
const EVENT_SEATS: u32 = 2_000;
const NODES_SEATS: f64 = 0.5;
/// How long a node may take to hear of everything, and how often it is asked.
const KNOWN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

impl Suite {
    pub async fn growth(&mut self) -> Fallible<Growth> {
        let sizes = self.sizes.growth.clone();
        let mut growth = Growth::default();
        for count in sizes.seats {
            self.progress.step(format!("growth: {count} seats"));
            growth.seats.push(self.with_seats(*count).await?);
        }
        for count in sizes.events {
            self.progress.step(format!("growth: {count} events"));
            growth.events.push(self.with_events(*count).await?);
        }
        for count in sizes.holds {
            self.progress.step(format!("growth: {count} active holds"));
            growth.holds.push(self.with_holds(*count).await?);
        }
        for count in sizes.nodes.iter().filter(|_| self.field.servers.is_some()).copied().collect::<Vec<_>>()
        {
            self.progress.step(format!("growth: {count} nodes"));
            growth.nodes.push(self.with_nodes(count).await?);
        }
        Ok(growth)
    }

    /// Seats far apart, so that all of them matter.
    async fn with_seats(&mut self, count: u32) -> Fallible<Grown> {
        let (grown, wrong) = {
            let server = self.field.start(Peer::Embedded).await?;
            let events = server.seats(count).await?;
            let each = events[0].1;
            let events: Vec<EventId> = events.into_iter().map(|(event, _)| event).collect();
            let seats = Arc::new(Seats::of(events.clone(), each, SCATTER));
            self.grown(&[server], count, &seats).await?
        };
        self.note("growing seats", wrong);
        Ok(grown)
    }

    async fn with_events(&mut self, count: u32) -> Fallible<Grown> {
        let (grown, wrong) = {
            let server = self.field.start(Peer::Embedded).await?;
            let wanted = f64::from(self.sizes.seats_per_second) * self.sizes.growth.turn.as_secs_f64();
            let each = (wanted as u32 / count).clamp(EVENT_SEATS.min(wanted as u32), 240_000);
            let events = server.events(count, each, HoldTimes::default()).await?;
            let seats = Arc::new(Seats::in_turn(events, each));
            self.grown(&[server], count, &seats).await?
        };
        self.note("growing events", wrong);
        Ok(grown)
    }

    /// All nodes sell one event, and share nothing but Postgres and Redis.
    async fn with_nodes(&mut self, count: u32) -> Fallible<Grown> {
        let (grown, wrong) = {
            let mut nodes = vec![self.field.start(Peer::Node).await?];
            let each =
                f64::from(self.sizes.seats_per_second) * self.sizes.growth.turn.as_secs_f64() * NODES_SEATS;
            let each = each.max(2_000.0) as u32;
            let events = nodes[0].events(1, each, HoldTimes::default()).await?;
            for _ in 1..count {
                nodes.push(self.field.again(&nodes[0]).await?);
            }
            for node in &nodes {
                node.occupancy(events[0]).await?;
            }
            let seats = Arc::new(Seats::of(events, each, 1));
            self.grown(&nodes, count, &seats).await?
        };
        self.note("growing nodes", wrong);
        Ok(grown)
    }

    fn note(&mut self, section: &str, wrong: Option<String>) {
        self.problems.extend(wrong.map(|what| format!("{section}: {what}")));
    }

    async fn grown(
        &self,
        servers: &[Server<'_>],
        count: u32,
        seats: &Arc<Seats>,
    ) -> Fallible<(Grown, Option<String>)> {
        let (turn, per_second) = (self.sizes.growth.turn, self.sizes.growth.operations_per_second);
        let load = |pace| Load {
            addresses: servers.iter().map(|server| server.address).collect(),
            ..self.load(&servers[0], turn, pace)
        };
        let gentle = (per_second * turn.as_secs_f64()).round() as u64;
        let make = |first: u64| move |i| HoldSeats::boxed(&servers[0], i, seats, first, u64::MAX);
        let waits = drive(&load(Pace::Open { per_second }), make(0)).await?;
        let rate = drive(&load(Pace::Closed), make(gentle + 1)).await?;
        let (bad, done) = (waits.bad() + rate.bad(), waits.done + rate.done);
        let mut stored = servers[0].stored(seats.events()).await?;
        // What other nodes have sold, a node may know a little later.
        let last = Instant::now() + KNOWN;
        while stored < done && Instant::now() < last {
            tokio::time::sleep(POLL).await;
            stored = servers[0].stored(seats.events()).await?;
        }
        let wrong = (bad > 0 || stored != done)
            .then(|| format!("with {count}, {bad} bad answers, {done} holds answered, {stored} stored"));
        let grown = Grown {
            count,
            per_second: rate.per_second(),
            times: Times::of(&waits),
            memory_bytes: servers.iter().map(|server| usage::peak_memory(server.pid())).sum(),
        };
        Ok((grown, wrong))
    }

    /// Every operation at a gentle rate, while so many holds are active.
    async fn with_holds(&mut self, count: u32) -> Fallible<WithHolds> {
        let (result, wrong) = {
            let server = self.field.start(Peer::Embedded).await?;
            let (per_second, turn) = (self.sizes.growth.operations_per_second, self.sizes.growth.turn);
            // A hold is extended and confirmed once, so there must be enough of them: each connection has its own.
            let least = self.sizes.connections
                * ((per_second * turn.as_secs_f64()) as u32 / self.sizes.connections + 2);
            let more = (per_second * turn.as_secs_f64()).ceil() as u32 + 1;
            let events = server.seats(count.max(least) + more).await?;
            let each = events[0].1;
            let events: Vec<EventId> = events.into_iter().map(|(event, _)| event).collect();
            let mut holders = Holders::new(self, &server, Arc::new(Seats::of(events, each, 1)));
            let filled = holders.fill(count.into()).await?;
            server.settle().await?;
            let pace = Pace::Open { per_second };
            let mut runs: Vec<(&str, Run)> = Vec::new();
            runs.push(("hold", holders.hold(more.into(), pace, turn).await?));
            for operation in [Operation::Read, Operation::Heartbeat, Operation::Confirm] {
                runs.push((operation.name(), holders.each(operation, pace, turn).await?));
            }
            let bad: u64 = runs.iter().map(|(_, run)| run.bad()).sum();
            let wrong = (bad > 0 || filled.done != u64::from(count))
                .then(|| format!("{bad} bad answers; {} of {count} holds were made", filled.done));
            let operations = runs.iter().map(|(name, run)| step(name, run)).collect();
            (WithHolds { count, operations, memory_bytes: usage::peak_memory(server.pid()) }, wrong)
        };
        self.note(&format!("{count} active holds"), wrong);
        Ok(result)
    }
}

/// How much slower the slowest operation became from the fewest to the most holds, by its median.
pub fn slower(holds: &[WithHolds]) -> Option<f64> {
    let (first, last) = (holds.first()?, holds.last()?);
    if first.count == last.count {
        return None;
    }
    let ratio = |name: &str, times: &Times| {
        let before = first.operations.iter().find(|step| step.name == name)?;
        Some(times.p50_ms / before.times.p50_ms.max(0.001))
    };
    last.operations.iter().filter_map(|step| ratio(&step.name, &step.times)).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::report::Step;
    use super::*;

    fn with(count: u32, hold: f64, read: f64) -> WithHolds {
        let step = |name: &str, p50_ms| Step {
            name: name.into(),
            per_second: 1.0,
            times: Times { p50_ms, ..Times::default() },
        };
        WithHolds { count, operations: vec![step("hold", hold), step("read", read)], memory_bytes: 0 }
    }

    #[test]
    fn the_slowest_operation_counts() {
        assert_eq!(slower(&[with(10, 1.0, 2.0), with(20, 9.0, 9.0), with(30, 1.2, 4.0)]), Some(2.0));
        assert_eq!(slower(&[with(10, 1.0, 2.0)]), None);
        assert_eq!(slower(&[]), None);
    }
}
