//! What becomes slower when there is more of it.

mod holds;

use std::sync::Arc;

use rowlock_core::EventId;

use super::Suite;
use super::field::{Peer, Server, Times as HoldTimes};
use super::report::{Grown, Growth, Step, Times, WithHolds};
use super::throughput::HoldSeats;
use super::usage;
use crate::client::{Load, Pace, Seats, drive};
use crate::servers::Fallible;
use crate::setup::SCATTER;

/// Seats of each of many events, and of the event that many nodes sell.
const EVENT_SEATS: u32 = 2_000;
const NODES_SEATS: f64 = 0.5;

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
        growth.holds = self.with_holds().await?;
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

    fn note(&mut self, section: &str, wrong: Vec<String>) {
        self.problems.extend(wrong.into_iter().map(|what| format!("{section}: {what}")));
    }

    async fn grown(
        &self,
        servers: &[Server<'_>],
        count: u32,
        seats: &Arc<Seats>,
    ) -> Fallible<(Grown, Vec<String>)> {
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
        let mut wrong = servers[0].audit(seats.events(), done).await?;
        if bad > 0 || done == 0 {
            wrong.push(format!("{bad} bad answers, {done} holds answered"));
        }
        let wrong = wrong.into_iter().map(|what| format!("with {count}, {what}")).collect();
        let grown = Grown {
            count,
            per_second: rate.per_second(),
            times: Times::of(&waits),
            memory_bytes: servers.iter().map(|server| usage::peak_memory(server.pid())).sum(),
        };
        Ok((grown, wrong))
    }
}

/// Which operation became slower by most from the fewest to the most holds, and by how much, by its median.
pub fn slower(holds: &[WithHolds]) -> Option<(&str, f64)> {
    let (first, last) = (holds.first()?, holds.last()?);
    if first.count == last.count {
        return None;
    }
    let times =
        last.operations.iter().filter_map(|step| Some((step.name.as_str(), times_as_slow(first, step)?)));
    times.max_by(|one, other| one.1.total_cmp(&other.1))
}

/// The median of an operation, as a multiple of what it was with other holds.
pub fn times_as_slow(with: &WithHolds, step: &Step) -> Option<f64> {
    let before = with.operations.iter().find(|before| before.name == step.name)?;
    Some(step.times.p50_ms / before.times.p50_ms.max(0.001))
}

#[cfg(test)]
mod tests {
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
        let holds = [with(10, 1.0, 2.0), with(20, 9.0, 9.0), with(30, 1.2, 4.0)];
        assert_eq!(slower(&holds), Some(("read", 2.0)));
        assert_eq!(slower(&[with(10, 1.0, 2.0)]), None);
        assert_eq!(slower(&[]), None);
    }
}
