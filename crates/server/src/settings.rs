//! Every setting, with its type and its default. `rowlock.default.toml` says the same with comments, and a test
//! compares the two.

use std::path::PathBuf;
use std::time::Duration;

use rowlock_api::{HttpLimits, RateLimits};
use rowlock_registry::EngineOptions;
use rowlock_registry::breaker::BreakerOptions;
use rowlock_registry::warm::{WarmMode, WarmOptions};
use rowlock_truth::postgres::PostgresOptions;
use rowlock_truth::sqlite::SqliteOptions;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub server: Server,
    pub store: Store,
    pub redis: Redis,
    pub engine: Engine,
    pub http: Http,
    pub rate_limits: Rates,
    pub auth: Auth,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    pub listen: String,
    pub data: String,
    pub unready_ms: u32,
    pub drain_seconds: u32,
    pub log_format: String,
    pub log_level: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    pub truth: String,
    pub ca_file: String,
    pub lanes: u32,
    pub readers: u32,
    pub cache_mebibytes: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    pub urls: Vec<String>,
    pub ca_file: String,
    pub mode: String,
    pub master: String,
    pub prefix: String,
    pub call_timeout_ms: u32,
    pub pending_ms: u32,
    pub breaker_failures: u32,
    pub breaker_probe_seconds: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    pub lane_capacity: u32,
    pub hot_seats: u32,
    pub refusal_margin_ms: u32,
    pub sweep_seconds: u32,
    pub look_ms: u32,
    pub reconcile_seconds: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    pub body_bytes: u32,
    pub request_timeout_ms: u32,
    pub header_timeout_ms: u32,
    pub write_timeout_ms: u32,
    pub json_depth: u32,
    pub max_connections: u32,
    pub trusted_proxies: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    pub per_user_per_second: u32,
    pub per_key_per_second: u32,
    pub per_address_per_second: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    pub issuer: String,
    pub audience: String,
    pub jwt_secret: String,
    pub jwks_file: String,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8080".into(),
            data: "data".into(),
            unready_ms: 500,
            drain_seconds: 10,
            log_format: "human".into(),
            log_level: "info".into(),
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        let (embedded, shared) = (SqliteOptions::default(), PostgresOptions::default());
        Self {
            truth: String::new(),
            ca_file: String::new(),
            lanes: shared.lanes as u32,
            readers: embedded.readers as u32,
            cache_mebibytes: embedded.cache_mebibytes,
        }
    }
}

impl Default for Redis {
    fn default() -> Self {
        let options = WarmOptions::default();
        Self {
            urls: Vec::new(),
            ca_file: String::new(),
            mode: "single".into(),
            master: String::new(),
            prefix: options.prefix,
            call_timeout_ms: options.call_timeout.as_millis() as u32,
            pending_ms: options.pending.as_millis() as u32,
            breaker_failures: options.breaker.failures,
            breaker_probe_seconds: options.breaker.probe_after.as_secs() as u32,
        }
    }
}

impl Default for Engine {
    fn default() -> Self {
        let options = EngineOptions::default();
        Self {
            lane_capacity: options.lane_capacity as u32,
            hot_seats: options.hot_seats as u32,
            refusal_margin_ms: options.refusal_margin.as_millis() as u32,
            sweep_seconds: options.sweep_every.as_secs() as u32,
            look_ms: options.look_every.as_millis() as u32,
            reconcile_seconds: options.reconcile_every.as_secs() as u32,
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        let limits = HttpLimits::default();
        Self {
            body_bytes: limits.body_bytes as u32,
            request_timeout_ms: limits.request_timeout.as_millis() as u32,
            header_timeout_ms: 30_000,
            write_timeout_ms: 30_000,
            json_depth: limits.json_depth as u32,
            max_connections: 10_000,
            trusted_proxies: Vec::new(),
        }
    }
}

impl Default for Rates {
    fn default() -> Self {
        let rates = RateLimits::default();
        Self {
            per_user_per_second: rates.per_user_per_second,
            per_key_per_second: rates.per_key_per_second,
            per_address_per_second: rates.per_address_per_second,
        }
    }
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            issuer: "rowlock".into(),
            audience: "rowlock".into(),
            jwt_secret: String::new(),
            jwks_file: String::new(),
        }
    }
}

/// Bytes that an HS256 secret needs: as many as its digest has.
pub const MIN_SECRET_BYTES: usize = 32;

const REDIS_MODES: [&str; 4] = ["single", "cluster", "sentinel", "redlock"];
const LOG_FORMATS: [&str; 2] = ["human", "json"];

/// A word alone must be a level: as a filter, a slip such as `warning` is the name of a module that does not exist, and
/// nothing is logged any more.
fn is_log_filter(text: &str) -> bool {
    let is_sound = |part: &str| part.contains(['=', '[']) || part.parse::<LevelFilter>().is_ok();
    text.split(',').all(|part| is_sound(part.trim())) && EnvFilter::try_new(text).is_ok()
}

impl Settings {
    /// What the types alone don't say. Answers with the key of the setting and the rule it breaks.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        self.check_numbers()?;
        let wrong = |key, rule: &str| Err((key, rule.to_owned()));
        if !LOG_FORMATS.contains(&self.server.log_format.as_str()) {
            return wrong("server.log_format", "must be human or json");
        }
        if !is_log_filter(&self.server.log_level) {
            return wrong(
                "server.log_level",
                "must be a level such as info, or a filter such as info,rowlock=debug",
            );
        }
        for (key, text) in [
            ("server.listen", &self.server.listen),
            ("server.data", &self.server.data),
            ("auth.issuer", &self.auth.issuer),
            ("auth.audience", &self.auth.audience),
        ] {
            if text.trim().is_empty() {
                return wrong(key, "must not be empty or blank");
            }
        }
        let truth = &self.store.truth;
        if !truth.is_empty()
            && !["postgres://", "postgresql://"].iter().any(|scheme| truth.starts_with(scheme))
        {
            return wrong("store.truth", "must be empty or begin with postgres://");
        }
        self.check_redis()?;
        let secret = self.auth.jwt_secret.len();
        if secret != 0 && secret < MIN_SECRET_BYTES {
            return wrong("auth.jwt_secret", "must have at least 32 bytes, or be empty");
        }
        Ok(())
    }

    fn check_redis(&self) -> Result<(), (&'static str, String)> {
        let (redis, wrong) = (&self.redis, |key, rule: &str| Err((key, rule.to_owned())));
        if !REDIS_MODES.contains(&redis.mode.as_str()) {
            return wrong("redis.mode", "must be single, cluster, sentinel or redlock");
        }
        if !redis.urls.is_empty() && self.store.truth.is_empty() {
            return wrong(
                "redis.urls",
                "must be empty when the truth is in the data folder: there is one process, and it needs no Redis",
            );
        }
        if redis.mode != "single" && redis.urls.is_empty() {
            return wrong(
                "redis.urls",
                "must be given when redis.mode is: without it there is no Redis at all",
            );
        }
        if redis.mode == "single" && redis.urls.len() > 1 {
            return wrong("redis.urls", "must be one when redis.mode is single");
        }
        if redis.mode == "redlock" && redis.urls.len() < 3 {
            return wrong(
                "redis.urls",
                "must be at least three when redis.mode is redlock: a majority decides",
            );
        }
        if (1..redis.urls.len()).any(|i| redis.urls[..i].contains(&redis.urls[i])) {
            return wrong("redis.urls", "must be different servers");
        }
        // What may stand before the name is a login.
        if redis.mode == "sentinel" && redis.master.rsplit('@').next().is_none_or(str::is_empty) {
            return wrong("redis.master", "must name the master that the sentinels watch");
        }
        if redis.prefix.is_empty()
            || !redis.prefix.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        {
            return wrong("redis.prefix", "must be letters, digits, - and _");
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), (&'static str, String)> {
        let (http, engine) = (&self.http, &self.engine);
        for (key, value, least, most) in [
            ("server.unready_ms", self.server.unready_ms, 0, 3_600_000),
            ("server.drain_seconds", self.server.drain_seconds, 0, 3600),
            ("store.lanes", self.store.lanes, 2, 64),
            ("store.readers", self.store.readers, 1, 64),
            ("store.cache_mebibytes", self.store.cache_mebibytes, 1, 65_536),
            ("engine.lane_capacity", engine.lane_capacity, 1, 1_000_000),
            ("engine.hot_seats", engine.hot_seats, 1_000, 1_000_000_000),
            ("engine.refusal_margin_ms", engine.refusal_margin_ms, 0, 60_000),
            ("engine.sweep_seconds", engine.sweep_seconds, 1, 3600),
            ("engine.look_ms", engine.look_ms, 10, 60_000),
            ("engine.reconcile_seconds", engine.reconcile_seconds, 1, 86_400),
            ("redis.call_timeout_ms", self.redis.call_timeout_ms, 1, 10_000),
            ("redis.pending_ms", self.redis.pending_ms, 100, 60_000),
            ("redis.breaker_failures", self.redis.breaker_failures, 1, 1_000),
            ("redis.breaker_probe_seconds", self.redis.breaker_probe_seconds, 1, 3600),
            ("http.body_bytes", http.body_bytes, 1024, 64 * 1024 * 1024),
            ("http.request_timeout_ms", http.request_timeout_ms, 100, 600_000),
            ("http.header_timeout_ms", http.header_timeout_ms, 100, 600_000),
            ("http.write_timeout_ms", http.write_timeout_ms, 100, 600_000),
            ("http.json_depth", http.json_depth, 4, 128),
            ("http.max_connections", http.max_connections, 1, 1_000_000),
        ] {
            if value < least || value > most {
                return Err((key, format!("must be between {least} and {most}")));
            }
        }
        Ok(())
    }

    pub fn engine_options(&self) -> EngineOptions {
        EngineOptions {
            lane_capacity: self.engine.lane_capacity as usize,
            hot_seats: self.engine.hot_seats.into(),
            refusal_margin: Duration::from_millis(self.engine.refusal_margin_ms.into()),
            sweep_every: Duration::from_secs(self.engine.sweep_seconds.into()),
            look_every: Duration::from_millis(self.engine.look_ms.into()),
            reconcile_every: Duration::from_secs(self.engine.reconcile_seconds.into()),
            ..EngineOptions::default()
        }
    }

    pub fn store_options(&self) -> SqliteOptions {
        SqliteOptions {
            readers: self.store.readers as usize,
            cache_mebibytes: self.store.cache_mebibytes,
            ..SqliteOptions::default()
        }
    }

    /// Postgres, if the truth is there and not in the data folder.
    // The store has more options when it is built for its own tests.
    #[allow(clippy::needless_update)]
    pub fn postgres(&self) -> Option<PostgresOptions> {
        let store = &self.store;
        let url = Some(store.truth.clone()).filter(|url| !url.is_empty())?;
        Some(PostgresOptions {
            url,
            ca_file: path(&store.ca_file),
            lanes: store.lanes as usize,
            readers: store.readers as usize,
            ..PostgresOptions::default()
        })
    }

    /// The warm tier, if there is one.
    pub fn warm(&self) -> Option<WarmOptions> {
        let redis = &self.redis;
        if redis.urls.is_empty() {
            return None;
        }
        let mode = match redis.mode.as_str() {
            "cluster" => WarmMode::Cluster,
            "sentinel" => WarmMode::Sentinel { master: redis.master.clone() },
            "redlock" => WarmMode::Redlock,
            _ => WarmMode::Single,
        };
        Some(WarmOptions {
            urls: redis.urls.clone(),
            ca_file: path(&redis.ca_file),
            mode,
            prefix: redis.prefix.clone(),
            call_timeout: Duration::from_millis(redis.call_timeout_ms.into()),
            pending: Duration::from_millis(redis.pending_ms.into()),
            breaker: BreakerOptions {
                failures: redis.breaker_failures,
                probe_after: Duration::from_secs(redis.breaker_probe_seconds.into()),
            },
            ..WarmOptions::default()
        })
    }

    pub fn http_limits(&self) -> HttpLimits {
        HttpLimits {
            body_bytes: self.http.body_bytes as usize,
            request_timeout: Duration::from_millis(self.http.request_timeout_ms.into()),
            json_depth: self.http.json_depth as usize,
        }
    }

    pub fn rate_limits(&self) -> RateLimits {
        RateLimits {
            per_user_per_second: self.rate_limits.per_user_per_second,
            per_key_per_second: self.rate_limits.per_key_per_second,
            per_address_per_second: self.rate_limits.per_address_per_second,
        }
    }
}

/// What is empty is not there.
fn path(text: &str) -> Option<PathBuf> {
    Some(text).filter(|text| !text.is_empty()).map(PathBuf::from)
}
