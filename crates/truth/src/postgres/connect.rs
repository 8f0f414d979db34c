//! Connections: where to, how safely, and with which limits of time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Connect, Hook, HookError};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Notification};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault::{StoreError, Stored};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the other hosts are waited for when one takes writes.
const OTHER_HOSTS: Duration = Duration::from_millis(300);
/// The names of the files of the log begin with it.
const TIMELINE: &str = "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint";
const UNKNOWN: u32 = 0;
/// After this long without a sign of life a connection counts as lost.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// What Postgres itself is told about a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionSettings {
    /// One statement may take this long. Zero is for ever.
    pub statement: Duration,
    /// It may wait this long for a lock.
    pub lock: Duration,
    pub plans: Plans,
}

/// When Postgres thinks about how to carry out a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plans {
    /// Each time, by what it knows of its tables.
    Fresh,
    /// Once. That saves half of what it does for a small batch, and a plan that was made for an empty table is used when it
    /// is large. So every way is closed that reads more than what an index leads to, and the statements are such that there
    /// is one way left: see [`super::sql`]. Where there is none, the plan looks so dear that it would be compiled.
    Kept,
}

impl Plans {
    fn options(self) -> &'static str {
        match self {
            Plans::Fresh => "-c plan_cache_mode=force_custom_plan",
            Plans::Kept => {
                "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off \
                 -c enable_hashjoin=off -c enable_mergejoin=off -c enable_material=off -c jit=off"
            }
        }
    }
}

/// A frozen node keeps its locks no longer than this.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    #[error("the address of Postgres can't be understood: {0}")]
    Address(String),
    #[error("the certificate {} can't be used: {why}", path.display())]
    Certificate { path: PathBuf, why: String },
    #[error("Postgres can't be reached: {0}")]
    Unreachable(String),
    #[error("Postgres {found} is too old, at least 13 is needed")]
    Old { found: i32 },
    #[error(
        "the settings of this session do not reach Postgres: {0}. A pooler such as pgbouncer stands in between. Rowlock \
         has prepared statements, time limits and notifications, which need a connection of their own: connect to \
         Postgres itself"
    )]
    Pooled(String),
    #[error(
        "the database has the encoding {found}, which does not have all characters: create it with ENCODING 'UTF8'"
    )]
    Encoding { found: String },
    #[error("the tables were made by a newer version of rowlock (schema {found}, this one knows {known})")]
    NewerSchema { found: i32, known: i32 },
    #[error(
        "the tables are of an older version of rowlock (schema {found}, this one needs {known}): run `rowlock migrate`"
    )]
    OlderSchema { found: i32, known: i32 },
    #[error("the tables can't be read: {0}")]
    Tables(String),
    #[error("the tables can't be made: {0}")]
    Migration(String),
}

/// Where Postgres is, and how to speak to it.
#[derive(Clone)]
pub(super) struct Target {
    /// One for each host.
    hosts: Vec<Config>,
    tls: MakeRustlsConnect,
    newest: Arc<Mutex<Newest>>,
}

/// The newest timeline that was seen. Whoever is promoted begins a new one.
#[derive(Default)]
struct Newest {
    timeline: u32,
    /// When it was seen to be newer than the one before.
    since: Option<std::time::Instant>,
}

pub(super) type Hear = Arc<dyn Fn(Notification) + Send + Sync>;

/// A session with a server that takes writes.
struct Opened {
    client: Client,
    driver: JoinHandle<()>,
    timeline: u32,
}

impl Target {
    /// `ca_file`: certificates to trust instead of the system's.
    pub fn new(url: &str, ca_file: Option<&PathBuf>) -> Result<Self, PostgresError> {
        // The URL may have a password in it: errors must not repeat it.
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let mut why =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            if why.contains("sslmode") {
                why += ": it is disable, prefer, or require, which checks the certificate and the name";
            }
            PostgresError::Address(why)
        })?;
        if config.get_hosts().is_empty() {
            return Err(PostgresError::Address("it names no host".into()));
        }
        let chosen = url.contains("sslmode=");
        if !chosen {
            config.ssl_mode(if ca_file.is_some() { SslMode::Require } else { SslMode::Disable });
        }
        if config.get_ssl_mode() == SslMode::Disable && !config.get_hosts().iter().all(is_near) {
            tracing::warn!("the connection to Postgres is not encrypted: add sslmode=require to its address");
        }
        let tls = tls(config.get_ssl_mode(), ca_file)?;
        let hosts = (0..config.get_hosts().len()).map(|host| only(&config, host)).collect();
        Ok(Self { hosts, tls, newest: Arc::default() })
    }

    pub async fn connect(&self, settings: SessionSettings) -> Stored<Client> {
        Ok(self.connect_hearing(settings, Arc::new(|_| {})).await?.0)
    }

    /// `hear` is called with every notification. With the timeline, for [`Target::is_replaced`].
    pub async fn connect_hearing(&self, settings: SessionSettings, hear: Hear) -> Stored<(Client, u32)> {
        // Each host has its own limit for the connection; this is for names and all.
        let within = CONNECT_TIMEOUT * 2;
        let opened = tokio::time::timeout(within, self.open_newest(settings, hear)).await;
        let opened = opened.map_err(|_| StoreError::TimedOut(within.as_millis()))??;
        self.is_newest(opened.timeline).map_err(StoreError::NoConnection)?;
        Ok((opened.client, opened.timeline))
    }

    /// Asks all hosts. Of those that take writes, the one that was promoted last: a primary that has come back after its
    /// standby took over does not know that it is none any more, and what it sells is sold already.
    async fn open_newest(
        &self,
        settings: SessionSettings,
        hear: Hear,
    ) -> Result<Opened, tokio_postgres::Error> {
        let asked = self.hosts.iter().map(|host| self.open(host, settings, Arc::clone(&hear)));
        let mut asked: FuturesUnordered<_> = asked.collect();
        let mut newest: Option<Opened> = None;
        let mut failed = None;
        // Whoever is there answers at once. Those who are not must not keep the others waiting.
        let grace = tokio::time::sleep(OTHER_HOSTS);
        tokio::pin!(grace);
        loop {
            let answer = tokio::select! {
                biased;
                answer = asked.next() => answer,
                () = &mut grace, if newest.is_some() => None,
            };
            match answer {
                None => break,
                Some(Err(error)) => failed = Some(error),
                Some(Ok(opened)) => {
                    grace.as_mut().reset(Instant::now() + OTHER_HOSTS);
                    if newest.as_ref().is_none_or(|newest| newest.timeline < opened.timeline) {
                        newest = Some(opened);
                    }
                }
            }
        }
        newest.ok_or_else(|| failed.expect("there is at least one host"))
    }

    async fn open(
        &self,
        host: &Config,
        settings: SessionSettings,
        hear: Hear,
    ) -> Result<Opened, tokio_postgres::Error> {
        let mut config = host.clone();
        config.options(options(host.get_options(), settings));
        // There is no TLS on a socket of this machine.
        let (client, driver) = if matches!(host.get_hosts(), [Host::Tcp(_)]) {
            let (client, connection) = config.connect(self.tls.clone()).await?;
            (client, tokio::spawn(drive(connection, hear)))
        } else {
            let (client, connection) = config.ssl_mode(SslMode::Disable).connect(NoTls).await?;
            (client, tokio::spawn(drive(connection, hear)))
        };
        let timeline = timeline(&client).await?;
        Ok(Opened { client, driver, timeline })
    }

    /// The newest timeline that was seen.
    pub fn timeline(&self) -> u32 {
        self.newest.lock().timeline
    }

    /// Whether a newer timeline has been seen since somebody connected to this one. What its primary still takes is lost, and what it
    /// says is old.
    pub fn is_replaced(&self, timeline: u32) -> bool {
        timeline != UNKNOWN && timeline < self.timeline()
    }

    /// Refuses one that is older than what was seen before, even if no newer one can be reached.
    fn is_newest(&self, timeline: u32) -> Result<(), String> {
        if timeline == UNKNOWN {
            return Ok(());
        }
        let mut newest = self.newest.lock();
        if timeline > newest.timeline {
            let was_another = newest.timeline != UNKNOWN;
            *newest = Newest { timeline, since: was_another.then(std::time::Instant::now) };
        }
        if timeline == newest.timeline {
            return Ok(());
        }
        let newest = newest.timeline;
        Err(format!(
            "this Postgres is of timeline {timeline} and was replaced: another was promoted to {newest}"
        ))
    }

    /// What makes the connections of a pool, what looks at them then, and what does whenever one is used again.
    pub fn for_pool(&self, settings: SessionSettings) -> (PoolConnect, Hook, Hook) {
        let newest = Arc::clone(&self.newest);
        // A pool does not know the timelines of its connections. Those from before a new one was seen are few, so all of them go.
        let again = Hook::sync_fn(move |_: &mut ClientWrapper, known| match newest.lock().since {
            Some(since) if known.created <= since => Err(HookError::message("its Postgres was replaced")),
            _ => Ok(()),
        });
        let target = self.clone();
        let check = Hook::async_fn(move |client: &mut ClientWrapper, _| {
            let target = target.clone();
            Box::pin(async move {
                let timeline = timeline(client).await.map_err(HookError::Backend)?;
                target.is_newest(timeline).map_err(HookError::message)
            })
        });
        (PoolConnect { target: self.clone(), settings }, check, again)
    }
}

pub(super) struct PoolConnect {
    target: Target,
    settings: SessionSettings,
}

impl Connect for PoolConnect {
    fn connect(
        &self,
        _config: &Config,
    ) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), tokio_postgres::Error>> {
        Box::pin(async {
            let opened = self.target.open_newest(self.settings, Arc::new(|_| {})).await?;
            Ok((opened.client, opened.driver))
        })
    }
}

async fn drive<S, T>(mut connection: Connection<S, T>, hear: Hear)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match std::future::poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(heard))) => hear(heard),
            Some(Ok(AsyncMessage::Notice(notice))) => {
                tracing::debug!(notice = notice.message(), "Postgres says");
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return tracing::debug!(%error, "a connection to Postgres was lost"),
            None => return,
        }
    }
}

/// The timeline that a primary writes. Services that store their log in another way can't say.
async fn timeline(client: &Client) -> Result<u32, tokio_postgres::Error> {
    match client.query_one(TIMELINE, &[]).await {
        Ok(row) => Ok(row.try_get::<_, i64>(0)? as u32),
        Err(error) if error.as_db_error().is_some() => Ok(UNKNOWN),
        Err(error) => Err(error),
    }
}

/// The same, with one of the hosts.
fn only(config: &Config, host: usize) -> Config {
    let mut one = Config::new();
    match &config.get_hosts()[host] {
        Host::Tcp(name) => one.host(name),
        #[cfg(unix)]
        Host::Unix(path) => one.host_path(path),
    };
    if let Some(address) = config.get_hostaddrs().get(host) {
        one.hostaddr(*address);
    }
    // One port is for all of them.
    let ports = config.get_ports();
    if let Some(port) = ports.get(host).or(ports.first()) {
        one.port(*port);
    }
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(name) = config.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    one.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .application_name("rowlock")
        .connect_timeout(config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT))
        .tcp_user_timeout(SILENCE_TIMEOUT)
        .keepalives(true)
        .keepalives_idle(SILENCE_TIMEOUT)
        .keepalives_interval(Duration::from_secs(1))
        .keepalives_retries(3)
        .target_session_attrs(TargetSessionAttrs::ReadWrite);
    one
}

/// Others wait for locks and then see what was committed meanwhile, so it is read committed, whatever the role's default is.
fn options(given: Option<&str>, settings: SessionSettings) -> String {
    format!(
        "{} -c statement_timeout={} -c lock_timeout={} -c idle_in_transaction_session_timeout={} \
         -c synchronous_commit=on -c default_transaction_isolation=read\\ committed {}",
        given.unwrap_or_default(),
        settings.statement.as_millis(),
        settings.lock.as_millis(),
        IDLE_IN_TRANSACTION.as_millis(),
        settings.plans.options(),
    )
}

/// Refuses what Rowlock can't work with, in words that say what to do.
pub(super) async fn check(client: &Client, settings: SessionSettings) -> Result<(), PostgresError> {
    let unreachable =
        |error: tokio_postgres::Error| PostgresError::Unreachable(StoreError::from(error).to_string());
    let sql = "SELECT current_setting('server_version_num')::int, current_setting('lock_timeout'),
                   (SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'),
                   current_setting('server_encoding')";
    let rows = client.query(sql, &[]).await.map_err(unreachable)?;
    let version: i32 = rows[0].get(0);
    if version < 130_000 {
        return Err(PostgresError::Old { found: version / 10_000 });
    }
    if rows[0].get::<_, i64>(2) != settings.lock.as_millis() as i64 {
        let found: &str = rows[0].get(1);
        return Err(PostgresError::Pooled(format!("lock_timeout is {found}")));
    }
    // The other one takes bytes as they come.
    let found: &str = rows[0].get(3);
    if !["UTF8", "SQL_ASCII"].contains(&found) {
        return Err(PostgresError::Encoding { found: found.into() });
    }
    Ok(())
}

/// What the first connection says, in words for whoever starts the server.
pub(super) fn unreachable(error: &StoreError) -> PostgresError {
    let why = error.to_string();
    if why.contains("unsupported startup parameter") {
        PostgresError::Pooled(why)
    } else {
        PostgresError::Unreachable(why)
    }
}

fn is_near(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn tls(mode: SslMode, ca_file: Option<&PathBuf>) -> Result<MakeRustlsConnect, PostgresError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca_file {
        let bad = |why: String| PostgresError::Certificate { path: path.clone(), why };
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| bad(error.to_string()))?;
            roots.add(certificate).map_err(|error| bad(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(bad("there is no certificate in it".into()));
        }
    } else if mode != SslMode::Disable {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| PostgresError::Address(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
