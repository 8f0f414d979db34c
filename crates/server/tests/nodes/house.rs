//! Several real nodes on a Postgres and a Redis of their own, and an event with seats to fight over.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rowlock_dev::address;
use rowlock_dev::postgres::Postgres;
use rowlock_dev::process::{Process, Start};
use rowlock_dev::redis::{Redis, RedisCluster, Sentinels};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{self, Client, seat, text};

/// How long a test waits for something that is certain to come.
const PATIENCE: Duration = Duration::from_secs(10);

pub const SECRET: &str = "a secret that all the nodes of a test share";

/// What is behind the nodes.
pub enum Warm {
    None,
    Single(Redis),
    Cluster(RedisCluster),
    Sentinel(Box<Sentinels>),
    Redlock(Vec<Redis>),
}

impl Warm {
    pub fn single() -> Self {
        Warm::Single(Redis::start().unwrap())
    }

    pub fn redlock() -> Self {
        Warm::Redlock((0..3).map(|_| Redis::start().unwrap()).collect())
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let urls = |urls: Vec<String>| ("ROWLOCK__REDIS__URLS", urls.join(","));
        let mode = |mode: &str| ("ROWLOCK__REDIS__MODE", mode.to_owned());
        match self {
            Warm::None => Vec::new(),
            Warm::Single(redis) => vec![urls(vec![redis.url()])],
            Warm::Cluster(cluster) => vec![urls(cluster.urls()), mode("cluster")],
            Warm::Sentinel(sentinels) => vec![
                urls(sentinels.urls()),
                mode("sentinel"),
                ("ROWLOCK__REDIS__MASTER", Sentinels::MASTER.to_owned()),
            ],
            Warm::Redlock(servers) => {
                vec![urls(servers.iter().map(Redis::url).collect()), mode("redlock")]
            }
        }
    }
}

pub struct Node {
    process: Mutex<Option<Process>>,
    start: Start,
    pub client: Client,
}

impl Node {
    pub fn process<T>(&self, with: impl FnOnce(&Process) -> T) -> T {
        with(self.process.lock().unwrap().as_ref().expect("the node runs"))
    }

    pub fn kill(&self) {
        self.process.lock().unwrap().take().expect("the node runs").kill();
    }

    pub fn start_again(&self) {
        *self.process.lock().unwrap() = Some(started(&self.start));
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.start.log).unwrap_or_default()
    }
}

fn started(start: &Start) -> Process {
    let process = Process::start(start).unwrap();
    process.until_ready(support::START_LIMIT, || process.said().contains("listening on")).unwrap();
    process
}

pub struct House {
    // The nodes go first, so that they do not complain about what is gone.
    pub nodes: Vec<Node>,
    pub warm: Warm,
    pub postgres: Postgres,
    pub truth: String,
    pub event: String,
    _folder: TempDir,
}

/// What an event is made with.
pub struct Setup {
    pub nodes: usize,
    pub seats: u32,
    pub ttl_seconds: u32,
    /// Further settings of all nodes.
    pub settings: Vec<(&'static str, String)>,
    /// The environment of single nodes.
    pub environment: Vec<(usize, &'static str, String)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { nodes: 3, seats: 200, ttl_seconds: 900, settings: Vec::new(), environment: Vec::new() }
    }
}

impl House {
    pub async fn new(warm: Warm, setup: Setup) -> Self {
        let postgres = Postgres::start().unwrap();
        let truth = postgres.url();
        Self::on(postgres, truth, warm, setup).await
    }

    pub async fn on(postgres: Postgres, truth: String, warm: Warm, setup: Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (_, key) = support::create_org(&folder.path().join("org"), &["--truth", &truth]);
        let nodes = (0..setup.nodes).map(|i| node(i, folder.path(), &truth, &warm, &setup, &key)).collect();
        let mut house = Self { nodes, warm, postgres, truth, event: String::new(), _folder: folder };
        house.event = house.new_event(setup.seats, setup.ttl_seconds).await;
        house
    }

    /// Where the nodes find their truth from their next start on.
    pub fn move_to(&mut self, truth: String) {
        for node in &mut self.nodes {
            node.start.environment.retain(|(name, _)| name != "ROWLOCK__STORE__TRUTH");
            node.start.environment.push(("ROWLOCK__STORE__TRUTH".into(), truth.clone()));
        }
        self.truth = truth;
    }

    pub async fn new_event(&self, seats: u32, ttl_seconds: u32) -> String {
        let client = &self.nodes[0].client;
        let event = json!({
            "name": "Play", "currency": "EUR", "tiers": [{"code": "seat", "price": 4500}],
            "policy": {"ttl_seconds": ttl_seconds},
        });
        let (status, made) = client.post("", "/api/admin/events", event).await.unwrap();
        assert_eq!(status, 201, "{made}");
        let event = made["event_id"].as_str().unwrap().to_owned();
        let section = json!({"sections": [{
            "block": "stalls", "rows": ["A"], "numbers": {"from": 1, "to": seats}, "tier": "seat",
        }]});
        let (status, made) =
            client.post("", &format!("/api/admin/events/{event}/seats"), section).await.unwrap();
        assert_eq!(status, 201, "{made}");
        event
    }

    pub fn client(&self, i: usize) -> &Client {
        &self.nodes[i % self.nodes.len()].client
    }

    pub fn seats(&self, ordinals: &[u32]) -> Vec<String> {
        ordinals.iter().map(|ordinal| seat(&self.event, *ordinal)).collect()
    }

    pub fn redis(&self) -> &Redis {
        match &self.warm {
            Warm::Single(redis) => redis,
            _ => panic!("there is not one Redis"),
        }
    }

    pub async fn hold(&self, node: usize, user: &str, seats: &[u32]) -> (u16, Value) {
        self.client(node).hold(user, &self.event, &self.seats(seats)).await.unwrap()
    }

    /// The token of a hold that must go through.
    pub async fn held(&self, node: usize, user: &str, seats: &[u32]) -> String {
        let (status, hold) = self.hold(node, user, seats).await;
        assert_eq!(status, 201, "{hold}");
        hold["hold_token"].as_str().unwrap().to_owned()
    }

    /// So many users want one seat, through all the nodes at once. Returns how many got it; nobody may hear anything
    /// but yes or no.
    pub async fn rush(&self, seat: u32, users: usize) -> usize {
        let calls = (0..users).map(|i| {
            let (client, event, seats) = (self.client(i).clone(), self.event.clone(), self.seats(&[seat]));
            tokio::spawn(
                async move { client.hold(&format!("user-{seat}-{i}"), &event, &seats).await.unwrap() },
            )
        });
        let mut winners = 0;
        for call in calls.collect::<Vec<_>>() {
            match call.await.unwrap() {
                (201, _) => winners += 1,
                (409, _) => {}
                (status, body) => panic!("{status}: {body}"),
            }
        }
        winners
    }

    /// Asks `node` again and again until it says what it should, and returns after how long.
    pub async fn until(
        &self,
        node: usize,
        within: Duration,
        path: &str,
        is_so: impl Fn(u16, &Value) -> bool,
    ) -> Duration {
        let began = Instant::now();
        loop {
            let answer = self.client(node).get("", path).await;
            if let Ok((status, body)) = &answer
                && is_so(*status, body)
            {
                return began.elapsed();
            }
            assert!(began.elapsed() < within, "{path} on node {node} never became so: {answer:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What a metric of a node adds up to, over all its labels.
    pub async fn metric(&self, node: usize, name: &str) -> f64 {
        let url = format!("{}/metrics", self.client(node).url);
        let text = reqwest::get(&url).await.unwrap().text().await.unwrap();
        let values = text.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            (series.split('{').next() == Some(name)).then(|| value.parse::<f64>().unwrap())
        });
        values.sum()
    }

    pub async fn occupancy(&self, node: usize) -> Value {
        let path = format!("/api/events/{}/occupancy", self.event);
        self.client(node).get("", &path).await.unwrap().1
    }

    /// The promises hold on the stored data, and the tiers of all nodes agree.
    pub async fn assert_well(&self) {
        for node in 0..self.nodes.len() {
            let path = format!("/api/admin/events/{}/registry", self.event);
            self.until(node, Duration::from_secs(15), &path, |status, body| {
                status == 200 && body["agree"] == true
            })
            .await;
        }
        self.assert_verified();
    }

    pub fn assert_verified(&self) {
        let output = support::run(&["verify", "--truth", &self.truth]);
        assert!(output.status.success(), "{}{}", support::stdout(&output), support::stderr(&output));
    }

    /// How often the journal of the event has a kind of fact.
    pub fn facts(&self, kind: &str) -> usize {
        let sql = format!(
            "SELECT count(*) FROM journal WHERE kind = '{kind}'
             AND stream_key = (SELECT key FROM streams WHERE id = '{}')",
            self.event
        );
        self.postgres.sql(&sql).unwrap().parse().unwrap()
    }
}

/// Waits until so many connections of the nodes wait for a lock in Postgres.
pub async fn until_waiting_for_locks(postgres: &tokio_postgres::Client, wanted: i64) {
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rowlock' AND wait_event_type = 'Lock'";
    until_so(&format!("{wanted} connections wait for a lock"), async || {
        postgres.query_one(waits, &[]).await.expect("a count").get::<_, i64>(0) == wanted
    })
    .await;
}

/// Waits until something is so. Fails when it never is.
pub async fn until_so(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "it never came: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn node(i: usize, folder: &Path, truth: &str, warm: &Warm, setup: &Setup, key: &str) -> Node {
    let address = address::free().unwrap();
    let data = folder.join(format!("node-{i}"));
    let mut start = Start::new(env!("CARGO_BIN_EXE_rowlock"), folder.join(format!("node-{i}.log")))
        .arguments(["serve", "--data", text(&data), "--listen", &address.to_string(), "--log-level", "info"])
        .environment("ROWLOCK__STORE__TRUTH", truth)
        .environment("ROWLOCK__AUTH__JWT_SECRET", SECRET)
        .environment("ROWLOCK__REDIS__BREAKER_PROBE_SECONDS", "1");
    for (name, value) in warm.settings().into_iter().chain(setup.settings.iter().cloned()) {
        start.environment.retain(|(known, _)| known != name);
        start = start.environment(name, value);
    }
    for (_, name, value) in setup.environment.iter().filter(|(of, _, _)| *of == i) {
        start = start.environment(name, value.clone());
    }
    let client = Client::new(&format!("http://{address}"), key);
    Node { process: Mutex::new(Some(started(&start))), start, client }
}
