//! The settings of the warm tier.

use std::path::PathBuf;
use std::time::Duration;

use crate::breaker::BreakerOptions;
use crate::chance::Chance;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmMode {
    /// One server.
    Single,
    /// A Redis Cluster. The URLs are of some of its nodes.
    Cluster,
    /// A master that sentinels watch. The URLs are of the sentinels, and a user and a password in the first of them are for
    /// all of these. Those for the master and its replicas stand before its name: `user:password@name`.
    Sentinel { master: String },
    /// Servers that know nothing of each other. A majority of them decides.
    Redlock,
}

#[derive(Clone, Debug)]
pub struct WarmOptions {
    /// `redis://…`, or `rediss://…` for TLS.
    pub urls: Vec<String>,
    pub mode: WarmMode,
    /// With TLS: certificates (PEM) to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// What all keys begin with.
    pub prefix: String,
    /// How long a call takes at most that a request waits for.
    pub call_timeout: Duration,
    /// The same for what no request waits for: following commits, loading, rebuilding.
    pub bulk_timeout: Duration,
    pub connect_timeout: Duration,
    /// How long a claim lives that no commit has confirmed.
    pub pending: Duration,
    /// How much longer than its hold a confirmed claim lives.
    pub grace: Duration,
    /// How long an event stays in Redis after its last change.
    pub keep: Duration,
    pub breaker: BreakerOptions,
    pub chance: Chance,
}

impl Default for WarmOptions {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            mode: WarmMode::Single,
            ca_file: None,
            prefix: "rowlock".into(),
            call_timeout: Duration::from_millis(50),
            bulk_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(1),
            pending: Duration::from_secs(5),
            grace: Duration::from_secs(60),
            keep: Duration::from_secs(24 * 60 * 60),
            breaker: BreakerOptions::default(),
            chance: Chance::default(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WarmError {
    #[error("the warm tier needs {0}")]
    Options(&'static str),
    #[error("the certificates in {} can't be used: {why}", path.display())]
    Certificate { path: PathBuf, why: String },
    #[error("{url} is no address of a Redis: {why}")]
    Url { url: String, why: String },
    #[error(
        "the Redis {server} may evict claims: its maxmemory-policy is {policy}. Set it with \
         `CONFIG SET maxmemory-policy noeviction`, and in redis.conf (or in the parameters of the managed service), so \
         that it stays after a restart"
    )]
    Evicts { server: String, policy: String },
}
