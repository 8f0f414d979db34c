//! The processes: Postgres, Redis and nodes, with a proxy on every way between them, and an event to fight over.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use parking_lot::Mutex;
use rowlock_dev::address;
use rowlock_dev::postgres::Postgres;
use rowlock_dev::process::{Process, Start};
use rowlock_dev::redis::Redis;
use serde_json::{Value, json};

use super::Failed;
use super::proxy::{Mode, Proxy};
use super::schedule::Link;

const SECRET: &str = "a secret that all nodes of the torture share";
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a node that is asked to stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// Seats that buyers name.
pub const STALLS: u32 = 16;
/// Seats that buyers get without naming them, and name too.
pub const CIRCLE: u32 = 8;
pub const SEATS: u32 = STALLS + CIRCLE;
pub const AREA_CAPACITY: u32 = 6;
pub const TTL_SECONDS: u32 = 6;
pub const CHECKOUT_SECONDS: u32 = 3;
pub const HEARTBEAT_SECONDS: u32 = 2;
pub const MAX_HOLD_SECONDS: u32 = 15;

pub struct Node {
    process: Mutex<Option<Process>>,
    start: Start,
    folder: PathBuf,
    number: usize,
    incarnation: AtomicU32,
    /// What faketime adds to the clock.
    skew: Mutex<Option<i32>>,
    pub clients: Proxy,
    redis: Proxy,
    postgres: Proxy,
}

impl Node {
    async fn new(
        number: usize,
        server: &Path,
        folder: &Path,
        postgres: &Postgres,
        redis: &Redis,
    ) -> Result<Self, Failed> {
        let listen = address::free()?;
        let any = SocketAddr::new(IpAddr::V4(address::own_ip()), 0);
        let clients = Proxy::start(any, listen).await?;
        let to_redis = Proxy::start(any, redis.address()).await?;
        let to_postgres = Proxy::start(any, postgres.address()).await?;
        let truth = format!("postgres://{}@{}/postgres", rowlock_dev::postgres::USER, to_postgres.address());
        let data = folder.join(format!("node-{number}"));
        let start = Start::new(server, folder.join("unused.log"))
            .arguments(["serve", "--log-level", "info", "--listen", &listen.to_string()])
            .arguments(["--data".to_owned(), data.display().to_string()])
            .environment("ROWLOCK__STORE__TRUTH", truth)
            .environment("ROWLOCK__REDIS__URLS", format!("redis://{}", to_redis.address()))
            .environment("ROWLOCK__AUTH__JWT_SECRET", SECRET)
            .environment("ROWLOCK__REDIS__BREAKER_PROBE_SECONDS", "1")
            .environment("ROWLOCK__ENGINE__RECONCILE_SECONDS", "15");
        let node = Self {
            process: Mutex::new(None),
            start,
            folder: folder.to_owned(),
            number,
            incarnation: AtomicU32::new(0),
            skew: Mutex::new(None),
            clients,
            redis: to_redis,
            postgres: to_postgres,
        };
        node.start()?;
        Ok(node)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.clients.address())
    }

    pub fn cut(&self, link: Link, mode: Mode) {
        match link {
            Link::Clients => self.clients.set(mode),
            Link::Redis => self.redis.set(mode),
            Link::Postgres => self.postgres.set(mode),
        }
    }

    /// Starts it, and tries again while what it needs is away. Blocks.
    pub fn start(&self) -> Result<(), Failed> {
        let end = std::time::Instant::now() + START_LIMIT;
        loop {
            let mut start = self.start.clone();
            let incarnation = self.incarnation.fetch_add(1, Ordering::Relaxed);
            start.log = self.folder.join(format!("node-{}.{incarnation}.log", self.number));
            if let Some(seconds) = *self.skew.lock() {
                start = start
                    .environment("LD_PRELOAD", faketime().ok_or("faketime is not installed")?)
                    .environment("FAKETIME", format!("{seconds:+}"))
                    .environment("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            }
            let process = Process::start(&start)?;
            match process.until_ready(START_LIMIT, || process.said().contains("listening on")) {
                Ok(()) => {
                    *self.process.lock() = Some(process);
                    return Ok(());
                }
                Err(error) if std::time::Instant::now() >= end => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    pub fn set_skew(&self, seconds: Option<i32>) {
        *self.skew.lock() = seconds;
    }

    /// Whether it runs, as far as nobody has killed it.
    pub fn has_died(&self) -> bool {
        self.process.lock().as_ref().is_some_and(|process| !process.is_running())
    }

    /// Ends it behind everybody's back.
    pub fn die(&self) {
        if let Some(process) = self.process.lock().as_ref() {
            process.signal(Signal::SIGKILL);
        }
    }

    pub fn kill(&self) {
        if let Some(process) = self.process.lock().take() {
            process.kill();
        }
    }

    pub fn pause(&self) {
        if let Some(process) = self.process.lock().as_ref() {
            process.pause();
        }
    }

    pub fn resume(&self) {
        if let Some(process) = self.process.lock().as_ref() {
            process.resume();
        }
    }

    /// Asks it to stop. `Err` says how it went wrong. Blocks.
    pub fn stop(&self) -> Result<(), String> {
        let Some(process) = self.process.lock().take() else { return Ok(()) };
        match process.end(Signal::SIGTERM, STOP_LIMIT) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("node {} was asked to stop and ended with {status}", self.number)),
            None => Err(format!("node {} was asked to stop and did not", self.number)),
        }
    }

    /// Lines of its logs in which it says that it panicked.
    pub fn panics(&self) -> Vec<String> {
        let logs = (0..self.incarnation.load(Ordering::Relaxed))
            .map(|incarnation| self.folder.join(format!("node-{}.{incarnation}.log", self.number)));
        let texts = logs.filter_map(|log| std::fs::read_to_string(log).ok());
        let found = |text: String| {
            text.lines().filter(|line| line.contains("panicked")).map(str::to_owned).collect::<Vec<_>>()
        };
        texts.flat_map(found).collect()
    }
}

fn faketime() -> Option<String> {
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"]
        .iter()
        .map(|folder| format!("{folder}/faketime/libfaketime.so.1"))
        .find(|path| Path::new(path).exists())
}

pub struct House {
    // The nodes go first, so that they do not complain about what is gone.
    pub nodes: Vec<Node>,
    pub redis: Redis,
    pub postgres: Postgres,
    pub admin: Admin,
    pub event: String,
    pub area: String,
    pub circle: String,
    org: String,
    server: PathBuf,
    folder: PathBuf,
}

impl House {
    pub async fn new(server: &Path, folder: &Path, nodes: usize) -> Result<Self, Failed> {
        let postgres = Postgres::start()?;
        let redis = Redis::start()?;
        let data = folder.join("org").display().to_string();
        let made = run(server, &["org", "create", "--data", &data, "--truth", &postgres.url(), "Opera"])?;
        let after = |word: &str| {
            let line = made.lines().find(|line| line.starts_with(word)).unwrap_or_default();
            line.split_whitespace().nth(word.split_whitespace().count()).unwrap_or_default().to_owned()
        };
        let (org, key) = (after("org"), after("api key"));
        let mut all = Vec::new();
        for number in 0..nodes {
            all.push(Node::new(number, server, folder, &postgres, &redis).await?);
        }
        let admin = Admin::new(&key, all.iter().map(Node::url).collect())?;
        let (_, health) = admin.get(0, "/readyz?verbose").await?;
        if health["truth"]["durability"] != "disk" {
            return Err(Failed(format!("commits do not reach the disk: {health}")));
        }
        let (event, area, circle) = admin.create_event().await?;
        let (server, folder) = (server.to_owned(), folder.to_owned());
        Ok(Self { nodes: all, redis, postgres, admin, event, area, circle, org, server, folder })
    }

    /// A token of one user. Blocks.
    pub fn token(&self, user: &str) -> Result<String, Failed> {
        let data = self.folder.join("org").display().to_string();
        let truth = self.postgres.url();
        let who = ["token", "--data", &data, "--truth", &truth, "--org", &self.org, "--user", user];
        let may = ["--scope", "read", "--scope", "hold", "--scope", "cancel", "--ttl-seconds", "86400"];
        Ok(run(&self.server, &[who.as_slice(), &may].concat())?.trim().to_owned())
    }

    /// What `rowlock verify` prints when it finds something. Blocks.
    pub fn verify(&self) -> Result<(), String> {
        run(&self.server, &["verify", "--truth", &self.postgres.url()])
            .map(drop)
            .map_err(|failed| failed.to_string())
    }
}

/// Runs a command of the binary and returns what it prints. Blocks.
fn run(server: &Path, arguments: &[&str]) -> Result<String, Failed> {
    let mut command = Command::new(server);
    let output = command.args(arguments).env("ROWLOCK__AUTH__JWT_SECRET", SECRET).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(Failed(format!("rowlock {} ended with {}: {said}{why}", arguments[0], output.status)))
}

/// A client with the org's key, for setting up and for looking afterwards.
#[derive(Clone)]
pub struct Admin {
    http: reqwest::Client,
    pub key: String,
    urls: Vec<String>,
}

impl Admin {
    fn new(key: &str, urls: Vec<String>) -> Result<Self, Failed> {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(30)).build()?;
        Ok(Self { http, key: key.to_owned(), urls })
    }

    pub async fn get(&self, node: usize, path: &str) -> Result<(u16, Value), reqwest::Error> {
        let request = self.http.get(format!("{}{path}", self.urls[node % self.urls.len()]));
        let answer = request.bearer_auth(&self.key).send().await?;
        let status = answer.status().as_u16();
        Ok((status, serde_json::from_slice(&answer.bytes().await?).unwrap_or_default()))
    }

    async fn create(&self, path: &str, body: Value) -> Result<Value, Failed> {
        let request = self.http.post(format!("{}{path}", self.urls[0])).bearer_auth(&self.key).json(&body);
        let answer = request.send().await?;
        let status = answer.status();
        let made: Value = answer.json().await?;
        if status.as_u16() == 201 { Ok(made) } else { Err(Failed(format!("{path}: {status} {made}"))) }
    }

    /// Returns the ids of the event, of its area and of the block that buyers take any seats of.
    async fn create_event(&self) -> Result<(String, String, String), Failed> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let event = json!({
            "name": "Torture", "currency": "EUR", "tiers": [{"code": "seat", "price": 4500}],
            "policy": {
                "ttl_seconds": TTL_SECONDS, "checkout_extension_seconds": CHECKOUT_SECONDS,
                "heartbeat_seconds": HEARTBEAT_SECONDS, "max_hold_seconds": MAX_HOLD_SECONDS,
            },
        });
        let event = text(&self.create("/api/admin/events", event).await?["event_id"]);
        let section = |block: &str, from: u32, to: u32| json!({"block": block, "rows": ["A"], "numbers": {"from": from, "to": to}, "tier": "seat"});
        let sections = json!({"sections": [section("stalls", 1, STALLS), section("circle", 1, CIRCLE)]});
        self.create(&format!("/api/admin/events/{event}/seats"), sections).await?;
        let area = json!({"name": "standing", "tier": "seat", "capacity": AREA_CAPACITY});
        let area = self.create(&format!("/api/admin/events/{event}/areas"), area).await?;
        let (_, seen) = self.get(0, &format!("/api/events/{event}")).await?;
        let blocks = seen["blocks"].as_array().cloned().unwrap_or_default();
        let circle = blocks.iter().find(|block| block["name"] == "circle").ok_or("there is no circle")?;
        Ok((event, text(&area["area_id"]), text(&circle["block_id"])))
    }
}
