//! Holds over HTTP on Postgres and Redis, compared with the flow that people build themselves.
//!
//! Each run has a database and a Redis with nothing in them, servers of its own, one event, and a second of load that
//! is not counted, after which Postgres gathers its statistics. The peers take turns, so that noise hits all alike. After each run the benchmark looks at what is
//! stored: a peer that answers quickly and stores something else has not been measured.

mod report;

use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use rowlock_core::{EventId, SeatId};
use serde::Serialize;
use tokio_postgres::Client;

use self::report::Report;
use crate::literal::{self, Literal};
use crate::meter::{Counts, Meter};
use crate::servers::{self, Fallible, Node, Servers, progress};
use crate::serving::{self, HOLD, Serving};
use crate::setup::{SCATTER, Stage};
use crate::wrk::{self, Load, Run, Target};

#[derive(clap::Args)]
pub struct Arguments {
    /// Connections that wrk keeps open, for two nodes half of them to each.
    #[arg(long, default_value_t = 256)]
    connections: u32,
    /// Seconds that each peer is under load in a round.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rounds. In each, every peer has its turn.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seats far apart instead of neighbours.
    #[arg(long)]
    scattered: bool,
    /// Connections in the pool of the literal flow. Without it, the best of 10, 20 and 40 is found first.
    #[arg(long)]
    pool: Option<usize>,
    /// Let the literal flow send the writes of a transaction at once.
    #[arg(long)]
    pipelined: bool,
    /// Leave the statistics of Postgres as they were before the first hold, as they are on the first day: its plans are
    /// then made for tables with nothing in them.
    #[arg(long)]
    cold: bool,
    /// Options for Rowlock's connections to Postgres, to try them: «-c plan_cache_mode=force_custom_plan».
    #[arg(long, allow_hyphen_values = true)]
    session: Option<String>,
    /// Run only this peer, for a profile: literal, one or two.
    #[arg(long)]
    only: Option<Peer>,
    /// Write everything that was measured into this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Exit with 1 when a goal is missed.
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    Literal,
    One,
    Two,
}

impl Peer {
    const ALL: [Peer; 3] = [Peer::Literal, Peer::One, Peer::Two];

    fn name(self) -> &'static str {
        match self {
            Peer::Literal => "literal",
            Peer::One => "one node",
            Peer::Two => "two nodes",
        }
    }
}

/// A run, and what was found afterwards.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    pub peer: Peer,
    pub round: u32,
    pub run: Run,
    /// Holds stored, those of the uncounted load included.
    pub holds: u64,
    /// Of Rowlock's engines.
    pub counts: Option<Counts>,
    /// What was not as it should be.
    pub problems: Vec<String>,
}

const WARM_UP: Duration = Duration::from_secs(1);
const TUNE: Duration = Duration::from_secs(2);
const POOLS: [usize; 3] = [10, 20, 40];
/// Seats for each second of load: more than any peer takes.
const SEATS_PER_SECOND: u64 = 40_000;
const MAX_SEATS: u64 = 240_000;
/// Answers that may be something else than a hold.
const FEW: u64 = 5;
/// How long what was on its way at the end of the load has to arrive.
const ARRIVE: Duration = Duration::from_millis(500);
const TRIES: u32 = 10;

pub async fn run(arguments: Arguments) -> Fallible<bool> {
    let meter = Meter::start()?;
    let mut bench = Bench {
        servers: Servers::start()?,
        meter,
        dir: tempfile::tempdir()?,
        connections: arguments.connections,
        cold: arguments.cold,
        session: arguments.session.clone().unwrap_or_default(),
        stride: if arguments.scattered { SCATTER } else { 1 },
        literal: literal::Options { pool: POOLS[1], pipelined: arguments.pipelined },
    };
    let chosen = |peer: &Peer| arguments.only.is_none_or(|only| only == *peer);
    match arguments.pool {
        Some(pool) => bench.literal.pool = pool,
        None if chosen(&Peer::Literal) => bench.tune().await?,
        None => {}
    }
    let duration = Duration::from_secs(arguments.seconds.max(1));
    let mut report = Report::new(&bench, duration);
    report::headings();
    for round in 1..=arguments.rounds {
        for peer in Peer::ALL.into_iter().filter(chosen) {
            let measured = bench.measure(peer, round, duration).await?;
            report::line(&measured);
            report.runs.push(measured);
        }
    }
    let reached = report.finish();
    if let Some(file) = &arguments.json {
        std::fs::write(file, serde_json::to_vec_pretty(&report)?)?;
    }
    Ok(report.is_sound() && (reached || !arguments.check))
}

struct Bench {
    servers: Servers,
    meter: Meter,
    dir: tempfile::TempDir,
    connections: u32,
    cold: bool,
    session: String,
    stride: u64,
    literal: literal::Options,
}

/// What is put under load.
struct Scene<'a> {
    endpoints: &'a [Serving],
    token: &'a str,
    event: EventId,
    seats: u32,
}

impl Bench {
    /// Finds the pool that makes the literal flow fastest.
    async fn tune(&mut self) -> Fallible<()> {
        let mut best = (0.0, self.literal.pool);
        for pool in POOLS {
            let measured = self.literal(0, TUNE, literal::Options { pool, ..self.literal }).await?;
            progress(format!("literal with {pool} connections: {:.0}/s", measured.run.per_second));
            if measured.run.per_second > best.0 {
                best = (measured.run.per_second, pool);
            }
        }
        self.literal.pool = best.1;
        Ok(())
    }

    async fn measure(&self, peer: Peer, round: u32, duration: Duration) -> Fallible<Measured> {
        progress(format!("round {round}: {}", peer.name()));
        match peer {
            Peer::Literal => self.literal(round, duration, self.literal).await,
            Peer::One => self.rowlock(peer, 1, round, duration).await,
            Peer::Two => self.rowlock(peer, 2, round, duration).await,
        }
    }

    async fn literal(&self, round: u32, duration: Duration, options: literal::Options) -> Fallible<Measured> {
        let database = self.servers.fresh("literal").await?;
        let seats = seats(duration);
        let literal = Literal::start(&database, &self.servers.redis_url(), seats, options).await?;
        let client = servers::connect(&database).await?;
        servers::settle(&client).await?;
        let endpoints = std::slice::from_ref(&literal.serving);
        let scene = Scene { endpoints, token: "none", event: literal.event, seats };
        let (warm_up, run) = self.load(&scene, duration, &client).await?;
        let mut problems = Vec::new();
        let holds = arrived(&client, "SELECT count(*) FROM seat_holds").await?;
        problems.extend(literal.holds().await.err().map(|error| error.to_string()));
        problems.extend(self.wrong(&warm_up, &run, holds));
        literal.stop();
        Ok(Measured { peer: Peer::Literal, round, run, holds, counts: None, problems })
    }

    async fn rowlock(&self, peer: Peer, count: usize, round: u32, duration: Duration) -> Fallible<Measured> {
        let database = self.servers.fresh("rowlock").await?;
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(self.servers.node_with(&database, &self.session).await?);
        }
        let stage = Stage::on(nodes[0].engine.clone()).await;
        let seats = seats(duration);
        let event = stage.event_of(seats).await;
        let mut endpoints = Vec::new();
        for node in &nodes {
            node.engine.event(stage.org, event).await?;
            endpoints.push(serving::serve_api(&node.engine, Router::new()).await);
        }
        let client = servers::connect(&database).await?;
        servers::settle(&client).await?;
        let mut problems = Vec::new();
        // The copy of the event in Redis is written behind the scenes.
        problems.extend(
            disagreement(&nodes, &stage, event).await?.map(|what| format!("before the load: {what}")),
        );

        let token = serving::token(&stage, "buyer");
        let scene = Scene { endpoints: &endpoints, token: &token, event, seats };
        let before = self.meter.counts();
        let (warm_up, run) = self.load(&scene, duration, &client).await?;
        let counts = self.meter.counts().since(before);
        let holds = arrived(&client, "SELECT count(*) FROM holds WHERE status = 0").await?;
        problems.extend(self.wrong(&warm_up, &run, holds));
        if counts.claims_unavailable > 0.0 {
            problems
                .push(format!("{} commands went down without a claim in Redis", counts.claims_unavailable));
        }
        if nodes.iter().any(|node| !node.warm.is_up()) {
            problems.push("the breaker of Redis is open".into());
        }
        problems.extend(disagreement(&nodes, &stage, event).await?);
        problems.extend(nodes[0].violations().await?);
        drop(endpoints);
        for node in &nodes {
            node.engine.stop().await;
        }
        Ok(Measured { peer, round, run, holds, counts: Some(counts), problems })
    }

    /// A second that is not counted, then what is.
    async fn load(&self, scene: &Scene<'_>, duration: Duration, database: &Client) -> Fallible<(Run, Run)> {
        let reserved = u64::from(scene.seats) * WARM_UP.as_secs() / (WARM_UP + duration).as_secs();
        let warm_up = self.wrk(scene, 0, reserved, WARM_UP)?;
        if !self.cold {
            servers::settle(database).await?;
        }
        let run = self.wrk(scene, reserved, u64::from(scene.seats), duration)?;
        Ok((warm_up, run))
    }

    /// Every request holds a fresh seat, from `first` up to `end` in the order of the stride.
    fn wrk(&self, scene: &Scene<'_>, first: u64, end: u64, duration: Duration) -> Fallible<Run> {
        let urls: Vec<String> = scene.endpoints.iter().map(|endpoint| endpoint.url.clone()).collect();
        let target = Target {
            urls: &urls,
            path: HOLD,
            token: scene.token,
            event: scene.event.to_string(),
            prefix: SeatId::prefix(scene.event),
            first,
            end,
            stride: self.stride,
            total: scene.seats.into(),
            fixed: false,
        };
        let load = Load { connections: self.connections, duration, processor: None };
        let run = tokio::task::block_in_place(|| wrk::run(self.dir.path(), &target, load))?;
        if run.requests + u64::from(self.connections) > end - first {
            return Err("the seats of a run ran out: take fewer seconds".into());
        }
        Ok(run)
    }

    /// What is wrong with the answers and with the number of holds.
    fn wrong(&self, warm_up: &Run, run: &Run, holds: u64) -> Vec<String> {
        let mut problems = Vec::new();
        let refused = warm_up.refused + run.refused;
        let broken = warm_up.broken + run.broken;
        if refused + broken > FEW {
            problems.push(format!("{refused} answers other than a hold, {broken} broken connections"));
        }
        let answered = warm_up.requests + run.requests - refused;
        // wrk leaves without waiting for the last answers of either load.
        let unheard = 2 * u64::from(self.connections);
        if holds < answered || holds > answered + unheard + broken {
            problems.push(format!("{answered} holds were answered and {holds} are stored"));
        }
        problems
    }
}

fn seats(duration: Duration) -> u32 {
    let seats = (WARM_UP + duration).as_secs() * SEATS_PER_SECOND;
    seats.min(MAX_SEATS) as u32
}

/// The number of rows, once it does not change any more.
async fn arrived(client: &Client, sql: &str) -> Fallible<u64> {
    let mut last = servers::count(client, sql).await?;
    loop {
        tokio::time::sleep(ARRIVE).await;
        let now = servers::count(client, sql).await?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
}

/// Whether hot, warm and truth show the same after a while, on every node. `None`: they do.
async fn disagreement(nodes: &[Node], stage: &Stage, event: EventId) -> Fallible<Option<String>> {
    for (number, node) in nodes.iter().enumerate() {
        let mut tries = 0;
        loop {
            let found = node.engine.compare(stage.org, event).await?;
            let level = found.warm_sequence == Some(found.truth_sequence);
            if found.agrees() && level {
                break;
            }
            tries += 1;
            if tries == TRIES {
                return Ok(Some(format!(
                    "node {}: {} differences between the tiers, sequences {:?} hot, {:?} warm, {} truth",
                    number + 1,
                    found.differences.len(),
                    found.hot_sequence,
                    found.warm_sequence,
                    found.truth_sequence
                )));
            }
            tokio::time::sleep(ARRIVE).await;
        }
    }
    Ok(None)
}
