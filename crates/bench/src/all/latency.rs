//! What a user waits, from an open loop at parts of the highest rate.

use std::sync::Arc;

use super::Suite;
use super::field::Peer;
use super::report::{LatencyOf, Point, Throughput, Times};
use super::throughput::{HoldSeats, Ready};
use crate::client::{Pace, Seats, drive};
use crate::servers::Fallible;
use crate::stats::Spread;

const PERCENTS: [u32; 4] = [25, 50, 75, 90];
/// What there is a goal for has three turns, among those of the others: a machine that stands still for a moment spoils
/// one of them.
pub const TURNS: [u32; 6] = [50, 25, 75, 50, 90, 50];
/// Whoever shares a Redis is started before the node, which alone keeps something there for longer.
const PEERS: [Peer; 6] = [Peer::Bare, Peer::Empty, Peer::Embedded, Peer::Locked, Peer::Literal, Peer::Node];
/// Before the first rate, in the part of a turn, so that nobody's first requests count.
const WARM_UP_REQUESTS: f64 = 500.0;

/// A server between its turns.
struct Paced<'a> {
    ready: Ready<'a>,
    /// Seats that were asked for.
    taken: u64,
    /// Holds that were answered.
    done: u64,
}

impl Suite {
    pub async fn latency(&mut self, throughput: &Throughput) -> Fallible<Vec<LatencyOf>> {
        let mut problems = Vec::new();
        let mut result = Vec::new();
        let mut servers = Vec::new();
        let mut turns: Vec<Vec<Point>> = Vec::new();
        for peer in self.peers(&PEERS) {
            let Some(rate) = throughput.rates.iter().find(|rate| rate.peer == peer) else { continue };
            let highest = rate.per_second.median;
            self.progress.step(format!("latency: starting {}", peer.title()));
            servers.push(self.paced(peer, highest).await?);
            result.push(LatencyOf { peer, highest_per_second: highest, points: Vec::new() });
            turns.push(Vec::new());
        }
        for percent in TURNS {
            for ((paced, latency), turns) in servers.iter_mut().zip(&result).zip(&mut turns) {
                let peer = latency.peer.title();
                self.progress.step(format!("latency at {percent} %: {peer}"));
                let (point, wrong) = self.point(paced, latency.highest_per_second, percent).await?;
                problems.extend(wrong.map(|wrong| format!("latency at {percent} %, {peer}: {wrong}")));
                turns.push(point);
            }
        }
        for Paced { ready, done, .. } in &servers {
            self.progress.step(format!("latency: what is stored, {}", ready.server.peer.title()));
            let wrong = ready.server.audit(&ready.events, *done).await?;
            problems.extend(
                wrong.into_iter().map(|wrong| format!("latency, {}: {wrong}", ready.server.peer.title())),
            );
        }
        drop(servers);
        for (latency, turns) in result.iter_mut().zip(turns) {
            latency.points = PERCENTS.iter().filter_map(|percent| middle(*percent, &turns)).collect();
        }
        self.problems.extend(problems);
        result.sort_by_key(|latency| latency.peer);
        Ok(result)
    }

    /// A server with a seat for every request of all rates.
    async fn paced(&self, peer: Peer, highest: f64) -> Fallible<Paced<'_>> {
        let server = self.field.start(peer).await?;
        let all = f64::from(TURNS.iter().sum::<u32>()) / 100.0;
        let requests = highest * all * self.sizes.latency.as_secs_f64() + WARM_UP_REQUESTS;
        let total = if peer.holds() { requests * 1.02 + 100.0 } else { 1_000.0 };
        let events = server.seats(total as u32).await?;
        let each = events[0].1;
        let events: Vec<_> = events.into_iter().map(|(event, _)| event).collect();
        let ready = Ready { server, seats: Arc::new(Seats::of(events.clone(), each, 1)), events };
        Ok(Paced { ready, taken: 0, done: 0 })
    }

    async fn point(
        &self,
        paced: &mut Paced<'_>,
        highest: f64,
        percent: u32,
    ) -> Fallible<(Point, Option<String>)> {
        let Paced { ready, taken, done } = paced;
        if *taken == 0 {
            let per_second = highest / 4.0;
            let duration = std::time::Duration::from_secs_f64(WARM_UP_REQUESTS / per_second.max(1.0));
            let load = self.load(&ready.server, duration, Pace::Open { per_second });
            let make = |i| HoldSeats::boxed(&ready.server, i, &ready.seats, 0, u64::MAX);
            *done += drive(&load, make).await?.done;
            *taken = WARM_UP_REQUESTS as u64 + 1;
            ready.server.settle().await?;
        }
        let per_second = highest * f64::from(percent) / 100.0;
        let load = self.load(&ready.server, self.sizes.latency, Pace::Open { per_second });
        let before = ready.server.cpu();
        let first = *taken;
        let make = |i| HoldSeats::boxed(&ready.server, i, &ready.seats, first, u64::MAX);
        let run = drive(&load, make).await?;
        let cpu = ready.server.cpu().since(before);
        let asked = (per_second * self.sizes.latency.as_secs_f64()).round() as u64 + 1;
        *taken += asked;
        *done += run.done;
        let bad = run.bad();
        let missing = asked.saturating_sub(run.answers() + run.unsent + run.broken);
        let wrong = (bad > 0 || missing > 1).then(|| {
            format!(
                "{} wrong answers, {} refusals, {} broken connections, {missing} not asked for want of seats",
                run.wrong, run.refused, run.broken
            )
        });
        let times = Times::of(&run);
        let point = Point {
            percent,
            per_second,
            times,
            unsent: run.unsent,
            lag_p99_ms: run.lag.value_at_percentile(99.0) as f64 / 1e3,
            cpu_seconds_per_thousand: cpu.servers() * 1e3 / run.answers().max(1) as f64,
            p99_of_turns_ms: Spread { median: times.p99_ms, least: times.p99_ms, most: times.p99_ms },
        };
        Ok((point, wrong))
    }
}

/// The turn at this rate whose p99 is the one in the middle, and how far the others are from it.
fn middle(percent: u32, turns: &[Point]) -> Option<Point> {
    let mut turns: Vec<&Point> = turns.iter().filter(|point| point.percent == percent).collect();
    turns.sort_by(|a, b| a.times.p99_ms.total_cmp(&b.times.p99_ms));
    let p99_of_turns_ms = Spread::of(turns.iter().map(|point| point.times.p99_ms))?;
    Some(Point { p99_of_turns_ms, ..turns[turns.len() / 2].clone() })
}

#[cfg(test)]
mod tests {
    use super::super::field::Peer;
    use super::super::sample;
    use super::*;

    #[test]
    fn the_turn_in_the_middle_counts() {
        let point = sample::latency(Peer::Empty).points[0].clone();
        let turn =
            |percent, p99_ms| Point { percent, times: Times { p99_ms, ..point.times }, ..point.clone() };
        let turns = [turn(25, 9.0), turn(50, 1.0), turn(25, 80.0), turn(25, 4.0)];
        let found = middle(25, &turns).unwrap();
        assert_eq!(
            (found.times.p99_ms, found.p99_of_turns_ms.least, found.p99_of_turns_ms.most),
            (9.0, 4.0, 80.0)
        );
        assert!(middle(75, &turns).is_none());
    }
}
