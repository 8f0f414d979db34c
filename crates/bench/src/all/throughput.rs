//! Distinct seats as fast as they go: all peers in turn, round after round, and what that costs.

use std::sync::Arc;
use std::time::Duration;

use rowlock_core::EventId;

use super::Suite;
use super::field::{Cpu, Memory, Peer, Server};
use super::report::{Client, Cost, Rate, Ratio, Throughput, Turn};
use super::usage::Syncs;
use crate::client::{self, HoldRequest, Load, Pace, Requests, Run, Seats, drive, token_in};
use crate::servers::{self, Fallible};
use crate::stats::Spread;

/// What is divided by what.
const RATIOS: [(Peer, Peer); 8] = [
    (Peer::Embedded, Peer::Empty),
    (Peer::Embedded, Peer::Bare),
    (Peer::Refusals, Peer::Empty),
    (Peer::Node, Peer::Literal),
    (Peer::Node, Peer::Locked),
    (Peer::Embedded, Peer::Literal),
    (Peer::Literal, Peer::Locked),
    (Peer::Empty, Peer::Bare),
];

/// Fresh seats, one a request.
pub struct HoldSeats {
    request: HoldRequest,
    seats: Arc<Seats>,
    first: u64,
    end: u64,
    /// Begin again when there are no more: for those who do not take any.
    endless: bool,
}

impl HoldSeats {
    pub fn boxed(
        server: &Server<'_>,
        connection: u32,
        seats: &Arc<Seats>,
        first: u64,
        end: u64,
    ) -> Box<dyn Requests> {
        let token = server.token(&format!("buyer-{connection}"));
        let request = HoldRequest::new(server.peer.path(), &token);
        let endless = !server.peer.holds();
        Box::new(Self { request, seats: Arc::clone(seats), first, end: end.min(seats.count()), endless })
    }
}

impl Requests for HoldSeats {
    fn next(&mut self, number: u64) -> Option<&[u8]> {
        let mut place = self.first + number;
        if self.endless {
            place %= self.seats.count();
        } else if place >= self.end {
            return None;
        }
        let (event, ordinal) = self.seats.get(place)?;
        Some(self.request.patch(event, ordinal, self.first + number))
    }
}

/// A server with seats, ready to be put under load.
pub struct Ready<'a> {
    pub server: Server<'a>,
    pub seats: Arc<Seats>,
    pub events: Vec<EventId>,
}

impl Suite {
    pub fn load(&self, server: &Server<'_>, duration: Duration, pace: Pace) -> Load {
        Load {
            addresses: vec![server.address],
            connections: self.sizes.connections,
            threads: self.field.threads,
            duration,
            pace,
        }
    }

    pub async fn throughput(&mut self) -> Fallible<Throughput> {
        self.tune().await?;
        let mut turns = Vec::new();
        for round in 1..=self.sizes.rounds {
            for peer in self.peers(&Peer::ALL) {
                self.progress.step(format!("throughput, round {round}: {}", peer.title()));
                turns.push(self.turn(peer, round, self.sizes.turn).await?);
            }
        }
        let rates = self.peers(&Peer::ALL).into_iter().filter_map(|peer| {
            Some(Rate { peer, per_second: Spread::of(of(&turns, peer).map(|turn| turn.per_second))? })
        });
        let rates = rates.collect();
        let ratios = RATIOS.iter().filter_map(|(over, under)| ratio(&turns, *over, *under)).collect();
        Ok(Throughput { turns, rates, ratios })
    }

    /// Finds the pool that is best for those who wait for the database with every request.
    async fn tune(&mut self) -> Fallible<()> {
        if self.field.servers.is_none() {
            return Ok(());
        }
        let mut best = (0.0, self.sizes.pools[0]);
        for pool in self.sizes.pools {
            self.progress.step(format!("trying a pool of {pool}"));
            self.field.set_pool(*pool);
            let turn = self.turn(Peer::Literal, 0, self.sizes.tuning).await?;
            if turn.per_second > best.0 {
                best = (turn.per_second, *pool);
            }
        }
        self.field.set_pool(best.1);
        Ok(())
    }

    /// A fresh server with enough seats for that long.
    pub async fn ready(&self, peer: Peer, seconds: f64) -> Fallible<Ready<'_>> {
        let server = self.field.start(peer).await?;
        let total = (f64::from(self.sizes.seats_per_second) * seconds * peer.share()).max(1_000.0) as u32;
        let events = server.seats(total).await?;
        // Refusals are all of the same seat.
        let each = if peer == Peer::Refusals { 1 } else { events[0].1 };
        let events: Vec<EventId> = events.into_iter().map(|(event, _)| event).collect();
        Ok(Ready { server, seats: Arc::new(Seats::of(events.clone(), each, 1)), events })
    }

    async fn turn(&mut self, peer: Peer, round: u32, length: Duration) -> Fallible<Turn> {
        let (result, problems) = {
            let ready = self.ready(peer, (self.sizes.warm_up + self.sizes.turn).as_secs_f64()).await?;
            if peer == Peer::Refusals {
                sell_first(&ready).await?;
            }
            let reserved = self.warm_up(&ready).await?;
            let before = ready.server.cpu();
            let run = self.closed(&ready, length, reserved.1).await?;
            let cpu = ready.server.cpu().since(before);
            let mut problems = check(&ready, &[&reserved.0, &run]).await?;
            if round == 1 {
                problems.extend(ready.server.violations().await?);
            }
            let per_second = if peer == Peer::Refusals { run.answers_per_second() } else { run.per_second() };
            let result = Turn {
                peer,
                round,
                per_second,
                answers: run.answers(),
                seconds: run.elapsed.as_secs_f64(),
                p50_ms: run.percentile(50.0),
                p99_ms: run.percentile(99.0),
                cpu,
                memory: ready.server.memory(),
            };
            (result, problems)
        };
        self.problems
            .extend(problems.into_iter().map(|what| format!("round {round}, {}: {what}", peer.title())));
        Ok(result)
    }

    /// Load that is not counted. Returns it, and the first seat that it left.
    async fn warm_up(&self, ready: &Ready<'_>) -> Fallible<(Run, u64)> {
        let (warm_up, turn) = (self.sizes.warm_up.as_secs_f64(), self.sizes.turn.as_secs_f64());
        let reserved = (ready.seats.count() as f64 * warm_up / (warm_up + turn)) as u64;
        let load = self.load(&ready.server, self.sizes.warm_up, Pace::Closed);
        let make = |i| HoldSeats::boxed(&ready.server, i, &ready.seats, 0, reserved);
        let run = drive(&load, make).await?;
        ready.server.settle().await?;
        Ok((run, reserved))
    }

    async fn closed(&self, ready: &Ready<'_>, duration: Duration, first: u64) -> Fallible<Run> {
        let load = self.load(&ready.server, duration, Pace::Closed);
        let make = |i| HoldSeats::boxed(&ready.server, i, &ready.seats, first, u64::MAX);
        Ok(drive(&load, make).await?)
    }

    /// Processor time from the turns, and syncs counted in a turn of their own: counting them costs a little.
    pub async fn cost(&mut self, turns: &[Turn]) -> Fallible<Vec<Cost>> {
        let (mut costs, mut problems) = (Vec::new(), Vec::new());
        for peer in self.peers(&[Peer::Embedded, Peer::Node, Peer::Literal, Peer::Locked]) {
            self.progress.step(format!("cost: {}", peer.title()));
            let (syncs, syncs_counted, rate) = self.syncs(peer, &mut problems).await?;
            let median = |part: fn(&Cpu) -> f64| {
                let each = of(turns, peer).map(|turn| part(&turn.cpu) * 1e3 / turn.answers.max(1) as f64);
                Spread::of(each).map_or(0.0, |spread| spread.median)
            };
            let most =
                |part: fn(&Memory) -> u64| of(turns, peer).map(|turn| part(&turn.memory)).max().unwrap_or(0);
            costs.push(Cost {
                peer,
                cpu_seconds_per_thousand: Cpu {
                    server: median(|cpu| cpu.server),
                    postgres: median(|cpu| cpu.postgres),
                    redis: median(|cpu| cpu.redis),
                    client: median(|cpu| cpu.client),
                },
                syncs_per_thousand: syncs,
                syncs_counted,
                syncs_at_per_second: rate,
                memory: Memory {
                    server: most(|memory| memory.server),
                    postgres: most(|memory| memory.postgres),
                    redis: most(|memory| memory.redis),
                },
            });
        }
        self.problems.extend(problems);
        Ok(costs)
    }

    async fn syncs(&self, peer: Peer, problems: &mut Vec<String>) -> Fallible<(Option<f64>, String, f64)> {
        let turn = self.sizes.turn / 2;
        let ready = self.ready(peer, (self.sizes.warm_up + self.sizes.turn).as_secs_f64()).await?;
        let (reserved, first) = self.warm_up(&ready).await?;
        let counted = self.engine_syncs(&ready).await?;
        let perf = Syncs::count(|| ready.server.pids(), self.field.folder());
        let run = self.closed(&ready, turn, first).await?;
        let thousands = run.done.max(1) as f64 / 1e3;
        let syncs = perf.and_then(Syncs::stop);
        let after = self.engine_syncs(&ready).await?;
        let wrong = check(&ready, &[&reserved, &run]).await?;
        problems.extend(wrong.into_iter().map(|what| format!("cost, {}: {what}", peer.title())));
        if let Some(syncs) = syncs {
            let how = "by the kernel: perf stat on fsync and fdatasync of all its processes";
            return Ok((Some(syncs as f64 / thousands), how.into(), run.per_second()));
        }
        Ok((Some((after.0 - counted.0) / thousands), after.1, run.per_second()))
    }

    /// What the store itself counts, for where perf is not allowed.
    async fn engine_syncs(&self, ready: &Ready<'_>) -> Fallible<(f64, String)> {
        if let (true, Some(servers)) = (ready.server.peer.needs_servers(), &self.field.servers) {
            let client = servers::connect(&servers.postgres().url()).await?;
            client.batch_execute("SELECT pg_stat_force_next_flush()").await?;
            let syncs = servers::count(&client, "SELECT wal_sync FROM pg_stat_wal").await;
            return Ok((syncs.unwrap_or(0) as f64, "by Postgres: wal_sync in pg_stat_wal".into()));
        }
        let (_, text) =
            ready.server.call(&client::get("/metrics", &ready.server.token("bench"), &[])).await?;
        let commits = crate::meter::sum(&String::from_utf8_lossy(&text), "rowlock_batch_size_count");
        Ok((commits, "by the engine: committed batches, each of which syncs at least once".into()))
    }
}

fn of(turns: &[Turn], peer: Peer) -> impl Iterator<Item = &Turn> {
    turns.iter().filter(move |turn| turn.peer == peer)
}

fn ratio(turns: &[Turn], over: Peer, under: Peer) -> Option<Ratio> {
    let pairs = of(turns, over).zip(of(turns, under));
    let spread = Spread::of(pairs.map(|(over, under)| over.per_second / under.per_second))?;
    Some(Ratio { over, under, spread })
}

pub fn client(turns: &[Turn], threads: u32, connections: u32, pool: usize) -> Client {
    let median =
        |figure: fn(&Turn) -> f64| Spread::of(of(turns, Peer::Bare).map(figure)).map_or(0.0, |s| s.median);
    let per_second = median(|turn| turn.per_second);
    let busy = median(|turn| turn.cpu.client / turn.seconds) / f64::from(threads);
    Client {
        threads,
        connections,
        pool,
        per_second,
        busy,
        ceiling_per_second: per_second / busy.max(1e-3),
        cpu_micros_per_request: median(|turn| turn.cpu.client * 1e6 / turn.answers.max(1) as f64),
    }
}

/// Somebody buys the first seat, which the others then ask for.
async fn sell_first(ready: &Ready<'_>) -> Fallible<()> {
    let (server, event) = (&ready.server, ready.events[0]);
    let token = server.token("owner");
    let mut request = HoldRequest::new(server.peer.path(), &token);
    let (status, body) = server.call(request.patch(event, 0, 0)).await?;
    let hold = token_in(&body).ok_or_else(|| format!("the first seat could not be held: {status}"))?;
    let confirm = client::post(&format!("/api/bookings/{hold}/confirm"), &token, "{}");
    match server.call(&confirm).await? {
        (201, _) => Ok(()),
        (status, _) => Err(format!("the first seat could not be sold: {status}").into()),
    }
}

/// A peer that answers quickly and stores something else has not been measured.
async fn check(ready: &Ready<'_>, runs: &[&Run]) -> Fallible<Vec<String>> {
    let mut problems = Vec::new();
    let sum = |part: fn(&Run) -> u64| runs.iter().map(|run| part(run)).sum::<u64>();
    let (done, refused) = (sum(|run| run.done), sum(|run| run.refused));
    let (wrong, broken) = (sum(|run| run.wrong), sum(|run| run.broken));
    if wrong + broken > 0 {
        problems.push(format!("{wrong} answers with a wrong status, {broken} broken connections"));
    }
    let peer = ready.server.peer;
    if peer == Peer::Refusals && done > 0 {
        problems.push(format!("{done} holds of a seat that is sold"));
    }
    if peer != Peer::Refusals && refused > 0 {
        problems.push(format!("{refused} refusals of seats that nobody had"));
    }
    problems.extend(ready.server.lost(&ready.events, done).await?);
    Ok(problems)
}
