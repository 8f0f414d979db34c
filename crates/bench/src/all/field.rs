//! The peers, and how one of them is started with nothing in it.

mod stored;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rowlock_core::org::Scope;
use rowlock_core::{EventId, OrgId, Time};
use rowlock_dev::process::{Process, Start};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::usage;
use crate::client::{self, Connection};
use crate::literal;
use crate::peer::{READY, Ready};
use crate::servers::{self, Fallible, Servers};
use crate::serving::{self, EMPTY, HOLD};
use crate::setup::PRICE;

#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// An axum route that answers `{}`.
    Bare,
    /// The same behind Rowlock's middleware.
    Empty,
    Embedded,
    /// Rowlock asked for a seat that is sold.
    Refusals,
    /// Rowlock on Postgres and Redis.
    Node,
    /// `SET NX` and one transaction a hold.
    Literal,
    /// `SELECT … FOR UPDATE` alone.
    Locked,
}

impl Peer {
    pub const ALL: [Peer; 7] =
        [Peer::Bare, Peer::Empty, Peer::Embedded, Peer::Refusals, Peer::Node, Peer::Literal, Peer::Locked];

    pub fn title(self) -> &'static str {
        match self {
            Peer::Bare => "bare endpoint",
            Peer::Empty => "empty endpoint",
            Peer::Embedded => "Rowlock embedded",
            Peer::Refusals => "Rowlock refusing",
            Peer::Node => "Rowlock, Postgres + Redis",
            Peer::Literal => "SET NX + transaction",
            Peer::Locked => "SELECT … FOR UPDATE",
        }
    }

    pub fn needs_servers(self) -> bool {
        matches!(self, Peer::Node | Peer::Literal | Peer::Locked)
    }

    pub fn is_rowlock(self) -> bool {
        matches!(self, Peer::Embedded | Peer::Refusals | Peer::Node)
    }

    /// Whether a request to it takes a seat.
    pub fn holds(self) -> bool {
        !matches!(self, Peer::Bare | Peer::Empty | Peer::Refusals)
    }

    pub fn path(self) -> &'static str {
        if matches!(self, Peer::Bare | Peer::Empty) { EMPTY } else { HOLD }
    }

    /// How many seats it needs, as a part of what the fastest needs.
    pub fn share(self) -> f64 {
        match self {
            Peer::Embedded => 1.0,
            Peer::Node => 0.5,
            Peer::Literal | Peer::Locked => 0.25,
            _ => 0.0,
        }
    }
}

/// Everything that servers are started from.
pub struct Field {
    pub servers: Option<Servers>,
    folder: TempDir,
    pool: usize,
    /// Threads of the client.
    pub threads: u32,
    settle: Duration,
    /// Stored things are looked for where nobody has stored them: as if the servers had not written anything.
    forget: bool,
    started: AtomicU32,
    /// As many as there are servers alive, and one.
    alive: Arc<()>,
}

/// Seats of one event at most, and of one request that makes them.
const EVENT_SEATS: u32 = 240_000;
const CREATE_SEATS: u32 = 50_000;
const ROW: u32 = 100;
/// A run that is in a greater hurry than this does not measure anything.
const WORTH_IT: Duration = Duration::from_millis(100);
const START: Duration = Duration::from_secs(30);

impl Field {
    pub fn new(servers: Option<Servers>, threads: u32, settle: Duration, forget: bool) -> Fallible<Self> {
        let folder = tempfile::Builder::new().prefix("rowlock-bench-").tempdir()?;
        let (started, alive) = (AtomicU32::new(0), Arc::new(()));
        Ok(Self { servers, folder, pool: 20, threads, settle, forget, started, alive })
    }

    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub fn pool(&self) -> usize {
        self.pool
    }

    pub fn set_pool(&mut self, pool: usize) {
        self.pool = pool;
    }

    pub fn has(&self, peer: Peer) -> bool {
        !peer.needs_servers() || self.servers.is_some()
    }

    /// A server with an empty store.
    pub async fn start(&self, peer: Peer) -> Fallible<Server<'_>> {
        let store = self.store(peer, "").await?;
        if let (true, Some(servers), 1) =
            (peer.needs_servers(), &self.servers, Arc::strong_count(&self.alive))
        {
            servers.empty_redis()?;
        }
        let seen = if self.forget { self.untouched(peer).await? } else { store.clone() };
        self.run(peer, store, seen, None).await
    }

    /// An empty place for what a peer stores, by the peer's name and more.
    async fn store(&self, peer: Peer, more: &str) -> Fallible<Store> {
        let mut store = Store { database: None, data: None };
        if peer.needs_servers() {
            let servers = self.servers.as_ref().ok_or("Postgres and Redis are not there")?;
            let name = format!("{peer:?}{more}").to_lowercase();
            store.database = Some(servers.emptied(&name).await?);
        } else if peer != Peer::Bare {
            let number = self.started.fetch_add(1, Ordering::Relaxed);
            let data = self.folder().join(format!("data-{number}"));
            std::fs::create_dir(&data)?;
            store.data = Some(data);
        }
        Ok(store)
    }

    /// Another node on the same store; for the embedded one, the same again after it has ended.
    pub async fn again(&self, server: &Server<'_>) -> Fallible<Server<'_>> {
        self.run(server.peer, server.store.clone(), server.seen.clone(), server.org).await
    }

    async fn run(&self, peer: Peer, store: Store, seen: Store, org: Option<OrgId>) -> Fallible<Server<'_>> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let log = self.folder().join(format!("server-{number}.log"));
        let mut arguments = vec!["peer".to_owned()];
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
        let redis = self.servers.as_ref().map(Servers::redis_url).unwrap_or_default();
        match (peer, &store.database, &store.data) {
            (Peer::Node, Some(database), _) => add(&["node", "--database", database, "--redis", &redis]),
            (Peer::Literal, Some(database), _) => {
                add(&[
                    "literal",
                    "--database",
                    database,
                    "--redis",
                    &redis,
                    "--pool",
                    &self.pool.to_string(),
                ]);
            }
            (Peer::Locked, Some(database), _) => {
                add(&["literal", "--database", database, "--pool", &self.pool.to_string()]);
            }
            (_, _, Some(data)) => add(&["embedded", "--data", &data.display().to_string()]),
            _ => add(&["bare"]),
        }
        if let Some(org) = org {
            add(&["--org", &org.to_string()]);
        }
        if matches!(peer, Peer::Literal | Peer::Locked) {
            // The tables are there before the first connection of the pool.
            let database = store.database.as_deref().unwrap_or_default();
            literal::prepare(database, 0, 0).await?;
        }
        let start = Start::new(std::env::current_exe()?, log).arguments(arguments);
        let process = Process::start(&start)?;
        let mut ready = None;
        process.until_ready(START, || {
            let said = process.said();
            let line = said.lines().find_map(|line| line.strip_prefix(READY));
            ready = line.and_then(|line| serde_json::from_str::<Ready>(line).ok());
            ready.is_some()
        })?;
        let Ready { address, org } = ready.ok_or("a server did not say where it is")?;
        let alive = Arc::clone(&self.alive);
        Ok(Server { field: self, peer, process, address, org, store, seen, _alive: alive })
    }
}

#[derive(Clone)]
struct Store {
    database: Option<String>,
    data: Option<PathBuf>,
}

/// A server under test. Dropping it ends it.
pub struct Server<'a> {
    field: &'a Field,
    pub peer: Peer,
    process: Process,
    pub address: SocketAddr,
    org: Option<OrgId>,
    store: Store,
    /// Where it is looked what is stored: the same store, except in a control.
    seen: Store,
    _alive: Arc<()>,
}

/// Seconds of processor time.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Cpu {
    pub server: f64,
    pub postgres: f64,
    pub redis: f64,
    pub client: f64,
}

impl Cpu {
    pub fn since(self, before: Cpu) -> Cpu {
        Cpu {
            server: self.server - before.server,
            postgres: self.postgres - before.postgres,
            redis: self.redis - before.redis,
            client: self.client - before.client,
        }
    }

    /// Of all servers, without the client.
    pub fn servers(self) -> f64 {
        self.server + self.postgres + self.redis
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Memory {
    pub server: u64,
    pub postgres: u64,
    pub redis: u64,
}

/// Places by status.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Occupancy {
    pub available: u64,
    pub held: u64,
    pub sold: u64,
    pub total: u64,
}

/// How long a hold lasts, in seconds: as it comes, and during a sale in a hurry.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub ttl: u32,
    pub checkout: u32,
    pub heartbeat: u32,
    pub most: u32,
}

impl Default for Times {
    fn default() -> Self {
        Self { ttl: 3600, checkout: 300, heartbeat: 120, most: 7200 }
    }
}

impl Server<'_> {
    /// Events with so many seats in all, whose seats nobody has, loaded and at rest.
    pub async fn seats(&self, total: u32) -> Fallible<Vec<(EventId, u32)>> {
        let events = total.div_ceil(EVENT_SEATS).max(1);
        let each = total.div_ceil(events);
        Ok(self
            .events(events, each, Times::default())
            .await?
            .into_iter()
            .map(|event| (event, each))
            .collect())
    }

    pub async fn events(&self, count: u32, seats: u32, times: Times) -> Fallible<Vec<EventId>> {
        let mut events = Vec::new();
        match (self.peer.is_rowlock(), &self.store.database) {
            (true, _) => {
                for _ in 0..count {
                    events.push(self.event(seats, times).await?);
                }
            }
            (false, Some(database)) => events = literal::prepare(database, count, seats).await?,
            (false, None) => events.push(EventId::from_uuid(uuid::Uuid::new_v4())),
        }
        self.settle().await?;
        Ok(events)
    }

    async fn event(&self, seats: u32, times: Times) -> Fallible<EventId> {
        let event = json!({
            "name": "Sale",
            "currency": "EUR",
            "tiers": [{ "code": "standard", "price": PRICE }],
            "policy": {
                "ttl_seconds": times.ttl,
                "checkout_extension_seconds": times.checkout,
                "heartbeat_seconds": times.heartbeat,
                "max_hold_seconds": times.most,
            },
        });
        let made = self.admin("/api/admin/events", &event).await?;
        let event: EventId = text(&made, "event_id")?.parse()?;
        for (part, first) in (0..seats).step_by(CREATE_SEATS as usize).enumerate() {
            let sections = json!({ "sections": sections(part, CREATE_SEATS.min(seats - first)) });
            self.admin(&format!("/api/admin/events/{event}/seats"), &sections).await?;
        }
        self.occupancy(event).await?;
        Ok(event)
    }

    /// An area of an event, by its id.
    pub async fn area(&self, event: EventId, name: &str, capacity: u32) -> Fallible<String> {
        let area = json!({ "name": name, "tier": "standard", "capacity": capacity });
        let made = self.admin(&format!("/api/admin/events/{event}/areas"), &area).await?;
        Ok(text(&made, "area_id")?.to_owned())
    }

    /// No peer pays for what was done before its turn.
    pub async fn settle(&self) -> Fallible<()> {
        if let Some(database) = self.store.database.as_ref().filter(|_| self.field.settle >= WORTH_IT) {
            servers::settle(&servers::connect(database).await?).await?;
        }
        tokio::time::sleep(self.field.settle).await;
        Ok(())
    }

    pub fn token(&self, user: &str) -> String {
        self.token_for(user, &[Scope::Read, Scope::Hold])
    }

    pub fn token_for(&self, user: &str, scopes: &[Scope]) -> String {
        match self.org {
            Some(org) => serving::sign(org, user, scopes, now()),
            // As many bytes as those of Rowlock have, roughly: nobody reads them.
            None => "x".repeat(320),
        }
    }

    async fn admin(&self, path: &str, body: &Value) -> Fallible<Value> {
        let token = self.token_for("bench", &[Scope::Read, Scope::Admin]);
        let (status, body) = self.call(&client::post(path, &token, &body.to_string())).await?;
        if status != 201 {
            return Err(format!("{path} answered {status}: {}", String::from_utf8_lossy(&body)).into());
        }
        Ok(serde_json::from_slice(&body)?)
    }

    pub async fn call(&self, request: &[u8]) -> Fallible<(u16, Vec<u8>)> {
        let mut connection = Connection::open(self.address).await?;
        let answer = connection.send(request).await?;
        Ok((answer.status, answer.body.to_vec()))
    }

    pub async fn occupancy(&self, event: EventId) -> Fallible<Occupancy> {
        let request = client::get(&format!("/api/events/{event}/occupancy"), &self.token("bench"), &[]);
        let (status, body) = self.call(&request).await?;
        if status != 200 {
            return Err(format!("the occupancy of {event} answered {status}").into());
        }
        Ok(serde_json::from_slice(&body)?)
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Of everything that works for this peer.
    pub fn pids(&self) -> Vec<u32> {
        let mut pids = vec![self.pid()];
        if let Some(servers) = self.field.servers.as_ref().filter(|_| self.store.database.is_some()) {
            pids.extend(servers.postgres().pids());
        }
        pids
    }

    pub fn cpu(&self) -> Cpu {
        let mut cpu = Cpu {
            server: usage::cpu_seconds(self.pid()),
            client: usage::cpu_seconds(std::process::id()),
            ..Cpu::default()
        };
        if let Some(servers) = self.field.servers.as_ref().filter(|_| self.store.database.is_some()) {
            cpu.postgres = servers.postgres().pids().into_iter().map(usage::cpu_seconds).sum();
            cpu.redis = servers.redis().pid().map_or(0.0, usage::cpu_seconds);
        }
        cpu
    }

    /// At most until now; of Postgres, now.
    pub fn memory(&self) -> Memory {
        let mut memory = Memory { server: usage::peak_memory(self.pid()), ..Memory::default() };
        if let Some(servers) = self.field.servers.as_ref().filter(|_| self.store.database.is_some()) {
            memory.postgres = servers.postgres().pids().into_iter().map(usage::own_memory).sum();
            memory.redis = servers.redis().pid().map_or(0, usage::peak_memory);
        }
        memory
    }

    /// Ends it, to start it again on what it has stored.
    pub fn kill(&self) {
        self.process.kill();
    }
}

fn sections(part: usize, seats: u32) -> Vec<Value> {
    let section = |block: String, rows: u32, numbers: u32| {
        json!({
            "block": block,
            "tier": "standard",
            "rows": { "from": 1, "to": rows },
            "numbers": { "from": 1, "to": numbers },
        })
    };
    let mut sections = Vec::new();
    if seats >= ROW {
        sections.push(section(format!("Block {part}"), seats / ROW, ROW));
    }
    if !seats.is_multiple_of(ROW) {
        sections.push(section(format!("End of {part}"), 1, seats % ROW));
    }
    sections
}

fn text<'a>(value: &'a Value, name: &str) -> Fallible<&'a str> {
    Ok(value.get(name).and_then(Value::as_str).ok_or_else(|| format!("there is no {name} in {value}"))?)
}

pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(since.as_millis() as i64)
}
