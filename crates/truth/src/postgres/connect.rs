//! Connections: where to, how safely, and with which limits of time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault::{StoreError, Stored};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// After this long without a sign of life a connection counts as lost.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// The limits that Postgres itself keeps for a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionLimits {
    pub statement: Duration,
    pub lock: Duration,
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
        "the settings of this session do not reach Postgres: {0}. A pooler such as pgbouncer stands in between and \
         shares connections by transaction. Rowlock has prepared statements, time limits and notifications, which need \
         a connection of their own: connect to Postgres itself, or to a pool with pool_mode = session"
    )]
    Pooled(String),
    #[error("the tables were made by a newer version of rowlock (schema {found}, this one knows {known})")]
    NewerSchema { found: i32, known: i32 },
    #[error(
        "the tables are of an older version of rowlock (schema {found}, this one needs {known}): run `rowlock migrate`"
    )]
    OlderSchema { found: i32, known: i32 },
    #[error("the tables can't be made: {0}")]
    Migration(String),
}

/// Where Postgres is, and how to speak to it.
#[derive(Clone)]
pub(super) struct Target {
    config: Config,
    tls: MakeRustlsConnect,
}

impl Target {
    /// `ca_file`: certificates to trust instead of the system's.
    pub fn new(url: &str, ca_file: Option<&PathBuf>) -> Result<Self, PostgresError> {
        // The URL may have a password in it: errors must not repeat it.
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let why =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
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
        let connect_timeout = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        config
            .application_name("rowlock")
            .connect_timeout(connect_timeout)
            .tcp_user_timeout(SILENCE_TIMEOUT)
            .keepalives(true)
            .keepalives_idle(SILENCE_TIMEOUT)
            .keepalives_interval(Duration::from_secs(1))
            .keepalives_retries(3)
            // With several hosts: the one that takes writes.
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        Ok(Self { config, tls })
    }

    pub async fn connect(&self, limits: SessionLimits) -> Stored<Client> {
        self.connect_hearing(limits, |_| {}).await
    }

    /// `hear` is called with every notification.
    pub async fn connect_hearing(
        &self,
        limits: SessionLimits,
        hear: impl Fn(tokio_postgres::Notification) + Send + 'static,
    ) -> Stored<Client> {
        let mut config = self.config.clone();
        config.options(options(self.config.get_options(), limits));
        // Each host has its own limit in there; this is for all of them together, names and all.
        let within = CONNECT_TIMEOUT * (config.get_hosts().len() as u32 + 1);
        let connecting = tokio::time::timeout(within, config.connect(self.tls.clone()));
        let (client, mut connection) =
            connecting.await.map_err(|_| StoreError::TimedOut(within.as_millis()))??;
        tokio::spawn(async move {
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
        });
        Ok(client)
    }

    /// The configuration and TLS for a pool that makes its own connections.
    pub fn for_pool(&self, limits: SessionLimits) -> (Config, MakeRustlsConnect) {
        let mut config = self.config.clone();
        config.options(options(self.config.get_options(), limits));
        (config, self.tls.clone())
    }
}

/// Plans are made for each batch: one that was made while a table was nearly empty stays with its connection, and reads
/// all of the table when it has grown.
fn options(given: Option<&str>, limits: SessionLimits) -> String {
    format!(
        "{} -c statement_timeout={} -c lock_timeout={} -c idle_in_transaction_session_timeout={} \
         -c synchronous_commit=on -c plan_cache_mode=force_custom_plan",
        given.unwrap_or_default(),
        limits.statement.as_millis(),
        limits.lock.as_millis(),
        IDLE_IN_TRANSACTION.as_millis(),
    )
}

/// Refuses what Rowlock can't work with, in words that say what to do.
pub(super) async fn check(client: &Client, limits: SessionLimits) -> Result<(), PostgresError> {
    let unreachable =
        |error: tokio_postgres::Error| PostgresError::Unreachable(StoreError::from(error).to_string());
    let sql = "SELECT current_setting('server_version_num')::int, current_setting('lock_timeout'),
                   (SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout')";
    let rows = client.query(sql, &[]).await.map_err(unreachable)?;
    let version: i32 = rows[0].get(0);
    if version < 130_000 {
        return Err(PostgresError::Old { found: version / 10_000 });
    }
    if rows[0].get::<_, i64>(2) != limits.lock.as_millis() as i64 {
        let found: &str = rows[0].get(1);
        return Err(PostgresError::Pooled(format!("lock_timeout is {found}")));
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
