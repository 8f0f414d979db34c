//! A connection, made in the background and kept.
//!
//! Whoever needs it waits for it within a limit of their own, but nobody's limit ends the connecting: a caller in a
//! hurry must not keep a slow connection from ever being made.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{BoxStream, StreamExt};
use parking_lot::Mutex;
use redis::TlsMode;
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, RedisError, RedisResult, TlsCertificates, Value,
};
use tokio::sync::{Notify, mpsc};

use super::options::{WarmError, WarmMode, WarmOptions};
use super::wire::{Wire, WireConnection};
use super::{policy, scripts};

/// How long a connection may say nothing, not even that it lives, before it is given up.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);
/// Commands that may wait to be written to one connection.
const WRITE_QUEUE: usize = 8192;
/// How often a command follows redirects within a cluster.
const REDIRECTS: u32 = 4;
const BEGIN_CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

#[derive(Clone)]
pub(super) enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
    Wire(Arc<dyn WireConnection>),
}

impl Connection {
    /// Sends the commands together. Each has its own answer; an error of the connection is everybody's.
    pub async fn send(&mut self, commands: &[&Cmd]) -> RedisResult<Vec<RedisResult<Value>>> {
        match self {
            Connection::One(connection) => match commands {
                [command] => Ok(vec![command.query_async(connection).await]),
                _ => {
                    let mut pipeline = Pipeline::with_capacity(commands.len());
                    for command in commands {
                        pipeline.add_command((*command).clone());
                    }
                    pipeline.ignore_errors().query_async(connection).await
                }
            },
            Connection::Wire(connection) => connection.send(commands).await,
            // A pipeline of a cluster goes to one slot. Sent side by side, commands find their own nodes.
            Connection::Cluster(connection) => {
                let send = |command: &&Cmd| {
                    let (command, mut connection) = ((*command).clone(), connection.clone());
                    async move { command.query_async(&mut connection).await }
                };
                Ok(join_all(commands.iter().map(send)).await)
            }
        }
    }
}

/// How to get a connection.
#[derive(Clone)]
pub(super) struct Connector {
    way: Way,
    name: String,
    /// With TLS: what to trust instead of what the system trusts.
    certificates: Option<TlsCertificates>,
    connect_timeout: Duration,
    /// For the client itself. Ours are shorter; this one only frees what we have given up on.
    response_timeout: Duration,
}

#[derive(Clone)]
enum Way {
    One(ConnectionInfo),
    Cluster(Vec<ConnectionInfo>),
    Sentinel { sentinels: Vec<ConnectionInfo>, master: String, login: Box<RedisConnectionInfo> },
    Wire(Arc<dyn Wire>),
}

#[derive(Clone, Debug)]
pub(super) enum NoConnection {
    Unreachable(String),
    Evicts(WarmError),
}

impl std::fmt::Display for NoConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoConnection::Unreachable(why) => f.write_str(why),
            NoConnection::Evicts(error) => error.fmt(f),
        }
    }
}

impl From<RedisError> for NoConnection {
    fn from(error: RedisError) -> Self {
        NoConnection::Unreachable(error.to_string())
    }
}

/// A connector for each of the servers that have a breaker of their own.
pub(super) fn connectors(options: &WarmOptions) -> Result<Vec<Connector>, WarmError> {
    let infos = options.urls.iter().map(|url| info(url)).collect::<Result<Vec<_>, _>>()?;
    let speaks_tls = infos.iter().filter(|info| is_tls(info)).count();
    if speaks_tls > 0 && speaks_tls < infos.len() {
        return Err(WarmError::Options("TLS (rediss://) to all of its servers, or to none"));
    }
    let certificates = options.ca_file.as_ref().map(|path| certificates(path)).transpose()?;
    if certificates.is_some() && speaks_tls == 0 {
        return Err(WarmError::Options("URLs that begin with rediss:// to have a use for certificates"));
    }
    let new = |way, name: String| Connector {
        way,
        name,
        certificates: certificates.clone(),
        connect_timeout: options.connect_timeout,
        response_timeout: options.bulk_timeout.max(options.call_timeout) * 2,
    };
    let names = || infos.iter().map(|info| info.addr().to_string()).collect::<Vec<_>>().join(",");
    match (&options.mode, &infos[..]) {
        (_, []) => Err(WarmError::Options("the URL of a Redis")),
        (WarmMode::Single, [one]) => Ok(vec![new(Way::One(one.clone()), names())]),
        (WarmMode::Single, _) => {
            Err(WarmError::Options("one URL only, or another mode: cluster, sentinel or redlock"))
        }
        (WarmMode::Cluster, all) => Ok(vec![new(Way::Cluster(all.to_vec()), names())]),
        (WarmMode::Sentinel { master }, all) => {
            let (login, name) = login_and_name(master)?;
            let name_of_all = format!("{name} of {}", names());
            // A sentinel has no databases: the number in its URL is for the server that it leads to.
            let first = all[0].redis_settings();
            let login = Box::new(login.set_db(first.db()).set_protocol(first.protocol()));
            Ok(vec![new(Way::Sentinel { sentinels: all.to_vec(), master: name, login }, name_of_all)])
        }
        (WarmMode::Redlock, all) if all.len() >= 3 && all.len() % 2 == 1 => {
            Ok(all.iter().map(|one| new(Way::One(one.clone()), one.addr().to_string())).collect())
        }
        (WarmMode::Redlock, _) => {
            Err(WarmError::Options("an odd number of servers for Redlock, three or more"))
        }
    }
}

fn info(url: &str) -> Result<ConnectionInfo, WarmError> {
    let info = url.into_connection_info().map_err(|error| WarmError::Url {
        // What comes before an @ may be a password.
        url: url.rsplit('@').next().unwrap_or_default().to_owned(),
        why: error.to_string(),
    })?;
    Ok(info.set_tcp_settings(tcp()))
}

/// What is in `user:password@name`, and in a name alone.
fn login_and_name(master: &str) -> Result<(RedisConnectionInfo, String), WarmError> {
    let Some((login, name)) = master.rsplit_once('@') else {
        return Ok((RedisConnectionInfo::default(), master.to_owned()));
    };
    // The same rules as in a URL, so that a password with an @ in it can be written. The name need not look like a host.
    let info = info(&format!("redis://{login}@master"))?;
    Ok((info.redis_settings().clone(), name.to_owned()))
}

fn is_tls(info: &ConnectionInfo) -> bool {
    matches!(info.addr(), ConnectionAddr::TcpTls { .. })
}

fn certificates(path: &Path) -> Result<TlsCertificates, WarmError> {
    let bad = |why: String| WarmError::Certificate { path: path.to_owned(), why };
    let root_cert = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    // The client reads it only when it connects, and then says of a file without any that nobody can be trusted.
    if !root_cert.windows(BEGIN_CERTIFICATE.len()).any(|text| text == BEGIN_CERTIFICATE) {
        return Err(bad("there is no certificate in it".into()));
    }
    Ok(TlsCertificates { client_tls: None, root_cert: Some(root_cert) })
}

/// Who only listens would never notice that the other side has gone without a word.
fn tcp() -> TcpSettings {
    let keepalive =
        TcpKeepalive::new().with_time(SILENCE_TIMEOUT).with_interval(Duration::from_secs(1)).with_retries(3);
    TcpSettings::default().set_nodelay(true).set_keepalive(keepalive).set_user_timeout(SILENCE_TIMEOUT)
}

impl Connector {
    pub fn over(wire: Arc<dyn Wire>, options: &WarmOptions) -> Self {
        let (connect_timeout, response_timeout) = (options.connect_timeout, options.bulk_timeout);
        Self {
            name: wire.name(),
            way: Way::Wire(wire),
            certificates: None,
            connect_timeout,
            response_timeout,
        }
    }

    /// The address, without what is secret in it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connects, makes sure that claims are safe there, and brings the scripts along: the first request after an
    /// outage has no time for that.
    pub async fn connect(&self) -> Result<Connection, NoConnection> {
        let late = |_| NoConnection::Unreachable("connecting took too long".into());
        // Sentinels are asked one after another, and some of them may be gone.
        let turns =
            if let Way::Sentinel { sentinels, .. } = &self.way { sentinels.len() as u32 + 1 } else { 1 };
        let limit = self.connect_timeout * turns;
        let mut connection = tokio::time::timeout(limit, self.open()).await.map_err(late)??;
        let policies = policy::policies(&mut connection);
        let policies = tokio::time::timeout(self.connect_timeout, policies).await.map_err(late)??;
        if let Some(policy) = policies.into_iter().find(|policy| policy != policy::SAFE) {
            return Err(NoConnection::Evicts(WarmError::Evicts { server: self.name.clone(), policy }));
        }
        let scripts = scripts::load_all();
        let scripts: Vec<&Cmd> = scripts.iter().collect();
        let loaded =
            tokio::time::timeout(self.connect_timeout, connection.send(&scripts)).await.map_err(late)??;
        loaded.into_iter().collect::<RedisResult<Vec<Value>>>()?;
        Ok(connection)
    }

    async fn open(&self) -> RedisResult<Connection> {
        match &self.way {
            Way::Cluster(infos) => {
                let mut client = ClusterClientBuilder::new(infos.clone())
                    .retries(REDIRECTS)
                    .min_retry_wait(1)
                    .max_retry_wait(20)
                    .connection_timeout(self.connect_timeout)
                    .response_timeout(self.response_timeout)
                    .tcp_settings(tcp());
                if let Some(certificates) = &self.certificates {
                    client = client.certs(certificates.clone());
                }
                Ok(Connection::Cluster(client.build()?.get_async_connection().await?))
            }
            Way::Wire(wire) => Ok(Connection::Wire(wire.open().await?)),
            Way::One(_) | Way::Sentinel { .. } => {
                let client = self.client().await?;
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(self.connect_timeout))
                    .set_response_timeout(Some(self.response_timeout))
                    .set_pipeline_buffer_size(WRITE_QUEUE);
                let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(Connection::One(connection))
            }
        }
    }

    /// What is published on a channel from now on, until the connection ends.
    pub async fn subscribe(&self, channel: &str) -> RedisResult<BoxStream<'static, Vec<u8>>> {
        if let Way::Wire(wire) = &self.way {
            let messages = wire.subscribe(channel).await?;
            let next =
                |mut messages: mpsc::Receiver<Vec<u8>>| async { Some((messages.recv().await?, messages)) };
            return Ok(futures::stream::unfold(messages, next).boxed());
        }
        let mut pubsub = self.client().await?.get_async_pubsub().await?;
        pubsub.subscribe(channel).await?;
        Ok(pubsub.into_on_message().map(|message| message.get_payload_bytes().to_vec()).boxed())
    }

    /// A client for one server that can be subscribed to. In a cluster every node passes messages on to all.
    async fn client(&self) -> RedisResult<Client> {
        match &self.way {
            Way::One(info) => self.client_for(info),
            Way::Wire(_) => Err((redis::ErrorKind::Client, "another wire has no client").into()),
            Way::Cluster(infos) => {
                let mut last = None;
                for info in infos {
                    let client = self.client_for(info)?;
                    match client.get_multiplexed_async_connection().await {
                        Ok(_) => return Ok(client),
                        Err(error) => last = Some(error),
                    }
                }
                Err(last.expect("there is at least one URL"))
            }
            Way::Sentinel { sentinels, master, login } => {
                let addresses = sentinels.iter().map(|info| info.addr().clone());
                let mut client = SentinelClientBuilder::new(addresses, master, SentinelServerType::Master)?
                    .set_client_to_sentinel_tcp_settings(tcp())
                    .set_client_to_redis_tcp_settings(tcp())
                    .set_client_to_redis_db(login.db())
                    .set_client_to_redis_protocol(login.protocol());
                if let Some(user) = login.username() {
                    client = client.set_client_to_redis_username(user);
                }
                if let Some(password) = login.password() {
                    client = client.set_client_to_redis_password(password);
                }
                let door = sentinels[0].redis_settings();
                if let Some(user) = door.username() {
                    client = client.set_client_to_sentinel_username(user);
                }
                if let Some(password) = door.password() {
                    client = client.set_client_to_sentinel_password(password);
                }
                if sentinels.iter().all(is_tls) {
                    client = client
                        .set_client_to_sentinel_tls_mode(TlsMode::Secure)
                        .set_client_to_redis_tls_mode(TlsMode::Secure);
                }
                if let Some(certificates) = &self.certificates {
                    client = client
                        .set_client_to_sentinel_certificates(certificates.clone())
                        .set_client_to_redis_certificates(certificates.clone());
                }
                client.build()?.async_get_client().await
            }
        }
    }

    fn client_for(&self, info: &ConnectionInfo) -> RedisResult<Client> {
        match &self.certificates {
            Some(certificates) => Client::build_with_tls(info.clone(), certificates.clone()),
            None => Client::open(info.clone()),
        }
    }
}

enum Slot {
    Empty,
    Connecting,
    Failed(NoConnection),
    /// With a number, so that trouble with an old connection does not end the one that came after it.
    Ready(u64, Connection),
}

pub(super) struct Link {
    connector: Connector,
    shared: Arc<Shared>,
}

struct Shared {
    slot: Mutex<Slot>,
    /// Wakes in the order of waiting: Tokio's `watch` would do it at random, and a simulated run could not be repeated.
    changed: Notify,
    made: AtomicU64,
}

impl Link {
    pub fn new(connector: Connector) -> Self {
        let shared =
            Shared { slot: Mutex::new(Slot::Empty), changed: Notify::new(), made: AtomicU64::new(0) };
        Self { connector, shared: Arc::new(shared) }
    }

    /// The connection and its number, or the reason why the attempt that was under way, or that this starts, made none.
    pub async fn get(&self) -> Result<(u64, Connection), NoConnection> {
        let mut has_waited = false;
        loop {
            // Made before the look, so that a change between the two is not missed.
            let changed = self.shared.changed.notified();
            {
                let mut slot = self.shared.slot.lock();
                match &*slot {
                    Slot::Ready(number, connection) => return Ok((*number, connection.clone())),
                    Slot::Failed(error) if has_waited => return Err(error.clone()),
                    Slot::Empty if has_waited => {
                        return Err(NoConnection::Unreachable("the connection was given up".into()));
                    }
                    Slot::Empty | Slot::Failed(_) => {
                        *slot = Slot::Connecting;
                        self.start();
                    }
                    Slot::Connecting => {}
                }
            }
            has_waited = true;
            changed.await;
        }
    }

    fn start(&self) {
        let (connector, shared) = (self.connector.clone(), Arc::clone(&self.shared));
        let number = shared.made.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let made = match connector.connect().await {
                Ok(connection) => Slot::Ready(number, connection),
                Err(error) => Slot::Failed(error),
            };
            *shared.slot.lock() = made;
            shared.changed.notify_waiters();
        });
    }

    /// Forgets the connection of that number, or whichever there is. The next one who needs one makes a new one.
    pub fn reset(&self, number: Option<u64>) {
        let mut slot = self.shared.slot.lock();
        if matches!(&*slot, Slot::Ready(now, _) if number.is_none_or(|number| number == *now)) {
            *slot = Slot::Empty;
            self.shared.changed.notify_waiters();
        }
    }
}
