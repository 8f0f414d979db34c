//! A Postgres and a Redis of the benchmark's own, and nodes of Rowlock on them.

use std::sync::Arc;

use rowlock_dev::postgres::{Postgres, USER};
use rowlock_dev::redis::Redis;
use rowlock_registry::warm::{Warm, WarmMode, WarmOptions};
use rowlock_registry::{Engine, EngineOptions};
use rowlock_truth::Truth;
use rowlock_truth::postgres::{PostgresOptions, PostgresTruth};
use tokio_postgres::{Client, NoTls};

pub type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// As Postgres comes, where the private servers of the tests are set up differently: `fsync` and `synchronous_commit`
/// are on everywhere. More connections than it comes with, because the largest pools of two peers are open at once.
const DEFAULTS: [&str; 3] = ["shared_buffers=128MB", "autovacuum_naptime=60s", "max_connections=300"];

/// Both servers. Dropping them ends them and removes their folders.
pub struct Servers {
    postgres: Postgres,
    redis: Redis,
}

impl Servers {
    pub fn start() -> Fallible<Self> {
        progress("starting Postgres and Redis");
        Ok(Self { postgres: Postgres::start_with(&DEFAULTS)?, redis: Redis::start()? })
    }

    /// A database with nothing in it, instead of the one of that name, and nothing in Redis. Returns its URL.
    pub async fn fresh(&self, name: &str) -> Fallible<String> {
        let client = connect(&self.postgres.url()).await?;
        client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
        client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        self.empty_redis()?;
        Ok(self.database_url(name))
    }

    /// A database with nothing in it, by emptying the one of that name if there is one: to drop and to make one takes
    /// a checkpoint each.
    pub async fn emptied(&self, name: &str) -> Fallible<String> {
        let client = connect(&self.postgres.url()).await?;
        let there = client.query_opt("SELECT 1 FROM pg_database WHERE datname = $1", &[&name]).await?;
        if there.is_none() {
            client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
            return Ok(self.database_url(name));
        }
        // Whoever was killed may still have sessions that have not noticed.
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
        client.query(end, &[&name]).await?;
        let client = connect(&self.database_url(name)).await?;
        client.batch_execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await?;
        Ok(self.database_url(name))
    }

    fn database_url(&self, name: &str) -> String {
        format!("postgres://{USER}@{}/{name}", self.postgres.address())
    }

    pub fn empty_redis(&self) -> Fallible<()> {
        self.redis.cli(&["FLUSHALL", "SYNC"])?;
        Ok(())
    }

    pub fn postgres(&self) -> &Postgres {
        &self.postgres
    }

    pub fn redis(&self) -> &Redis {
        &self.redis
    }

    pub fn redis_url(&self) -> String {
        self.redis.url()
    }

    /// A node with connections of its own.
    pub async fn node(&self, database: &str) -> Fallible<Node> {
        self.node_with(database, "").await
    }

    /// With options for its connections to Postgres.
    pub async fn node_with(&self, database: &str, session: &str) -> Fallible<Node> {
        let mut url = database.to_owned();
        if !session.is_empty() {
            url.push_str("?options=");
            url.push_str(&session.replace('%', "%25").replace(' ', "%20").replace('=', "%3D"));
        }
        Node::start(url, self.redis_url()).await
    }
}

pub struct Node {
    pub engine: Engine,
    pub warm: Warm,
    pub truth: Arc<dyn Truth>,
}

impl Node {
    pub async fn start(database: String, redis: String) -> Fallible<Self> {
        let options = PostgresOptions { url: database, ..PostgresOptions::default() };
        let truth: Arc<dyn Truth> = Arc::new(PostgresTruth::open(options).await?);
        let options = WarmOptions { urls: vec![redis], mode: WarmMode::Single, ..Default::default() };
        let warm = Warm::connect(options).await?;
        let options = EngineOptions::default();
        let engine = Engine::start_with(Arc::clone(&truth), Some(warm.clone()), options).await?;
        Ok(Self { engine, warm, truth })
    }

    /// What `rowlock verify` finds.
    pub async fn violations(&self) -> Fallible<Vec<String>> {
        let report = self.truth.verify(Arc::new(|_, _, _| {})).await?;
        Ok(report.violations.iter().map(ToString::to_string).collect())
    }
}

/// Brings a database to rest, so that no peer pays for what was done before its turn.
pub async fn settle(client: &Client) -> Fallible<()> {
    client.batch_execute("VACUUM (ANALYZE)").await?;
    client.batch_execute("CHECKPOINT").await?;
    Ok(())
}

pub async fn connect(url: &str) -> Fallible<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

pub async fn count(client: &Client, sql: &str) -> Fallible<u64> {
    let count: i64 = client.query_one(sql, &[]).await?.try_get(0)?;
    Ok(u64::try_from(count)?)
}

/// A line for whoever waits. Results go to stdout.
pub fn progress(line: impl std::fmt::Display) {
    eprintln!("{line}");
}
