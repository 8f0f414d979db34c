//! The processes: nodes with a proxy on every way to them and from them, what they share, and an event to fight over.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rowlock_dev::postgres::Postgres;
use rowlock_dev::redis::Redis;
use serde_json::{Value, json};

use super::node::{self, Node};
use super::sabotage::Broken;
use super::{Failed, Options};

pub const SECRET: &str = "a secret that all nodes of the torture share";

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

/// What several nodes share.
pub struct Shared {
    pub redis: Redis,
    pub postgres: Postgres,
}

pub struct House {
    // The nodes go first, so that they do not complain about what is gone.
    pub nodes: Vec<Node>,
    /// `None`: there is one node, with a store of its own.
    pub shared: Option<Shared>,
    pub admin: Admin,
    pub event: String,
    pub area: String,
    pub circle: String,
    org: String,
    server: PathBuf,
    /// The flags that name the store.
    store: Vec<String>,
}

impl House {
    pub async fn new(server: &Path, folder: &Path, options: &Options) -> Result<Self, Failed> {
        let shared = match options.embedded {
            true => None,
            false => Some(Shared { postgres: Postgres::start()?, redis: Redis::start()? }),
        };
        let data = match &shared {
            Some(_) => folder.join("org"),
            None => node::data(folder, 0),
        };
        let mut store = vec!["--data".to_owned(), data.display().to_string()];
        if let Some(shared) = &shared {
            store.extend(["--truth".to_owned(), shared.postgres.url()]);
        }
        let made = run(server, "org", &["create"], &store, &["Opera"])?;
        let after = |word: &str| {
            let line = made.lines().find(|line| line.starts_with(word)).unwrap_or_default();
            line.split_whitespace().nth(word.split_whitespace().count()).unwrap_or_default().to_owned()
        };
        let (org, key) = (after("org"), after("api key"));
        let forgets = options.broken.contains(&Broken::Disk);
        let mut all = Vec::new();
        for number in 0..options.nodes() {
            all.push(Node::new(number, server, folder, shared.as_ref(), forgets).await?);
        }
        let admin = Admin::new(&key, all.iter().map(Node::url).collect())?;
        let (_, health) = admin.get(0, "/readyz?verbose").await?;
        if health["truth"]["durability"] != "disk" {
            return Err(Failed(format!("commits do not reach the disk: {health}")));
        }
        let (event, area, circle) = admin.create_event().await?;
        Ok(Self { nodes: all, shared, admin, event, area, circle, org, server: server.to_owned(), store })
    }

    /// For faults that there are only where nodes share something.
    pub fn shared(&self) -> &Shared {
        self.shared.as_ref().expect("only what there is can be broken")
    }

    /// A token of one user. Blocks.
    pub fn token(&self, user: &str) -> Result<String, Failed> {
        let who = ["--org", &self.org, "--user", user];
        let may = ["--scope", "read", "--scope", "hold", "--scope", "cancel", "--ttl-seconds", "86400"];
        Ok(run(&self.server, "token", &who, &self.store, &may)?.trim().to_owned())
    }

    /// What `rowlock verify` prints when it finds something. Blocks.
    pub fn verify(&self) -> Result<(), String> {
        run(&self.server, "verify", &[], &self.store, &[]).map(drop).map_err(|failed| failed.to_string())
    }
}

/// Runs a command of the binary on a store and returns what it prints. Blocks.
fn run(
    server: &Path,
    name: &str,
    before: &[&str],
    store: &[String],
    behind: &[&str],
) -> Result<String, Failed> {
    let mut command = Command::new(server);
    command.arg(name).args(before).args(store).args(behind);
    let output = command.env("ROWLOCK__AUTH__JWT_SECRET", SECRET).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(Failed(format!("rowlock {name} ended with {}: {said}{why}", output.status)))
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
