//! A master with a replica, and three sentinels that promote the replica when the master is gone.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::{Redis, tls_settings};
use crate::{DevError, address, wait_until};

const SENTINELS: usize = 3;
const AGREED: Duration = Duration::from_secs(30);
/// A replica is given what it lacks at once.
const PROMPT: &str = "repl-diskless-sync-delay 0";
const TLS_AMONG_US: &str = "tls-replication yes";

#[derive(Debug)]
pub struct Sentinels {
    servers: [Redis; 2],
    sentinels: Vec<Redis>,
}

impl Sentinels {
    /// What the sentinels call the master.
    pub const MASTER: &str = "rowlock";

    pub fn start() -> Result<Self, DevError> {
        let servers = [Redis::start_with(&[PROMPT])?, Redis::start_with(&[PROMPT])?];
        let port = servers[0].address().port();
        Self::watch(servers, port, || Ok(Vec::new()))
    }

    /// With TLS among all of them and for those who ask the URLs that this returns.
    pub fn start_with_tls(key: &Path, certificate: &Path) -> Result<(Self, Vec<String>), DevError> {
        let server = || {
            let (settings, port) = tls_settings(key, certificate)?;
            let mut all = vec![PROMPT, TLS_AMONG_US];
            all.extend(settings.iter().map(String::as_str));
            Ok::<_, DevError>((Redis::start_with(&all)?, port))
        };
        let ((master, port), (replica, _)) = (server()?, server()?);
        let mut urls = Vec::new();
        let new = Self::watch([master, replica], port, || {
            let (mut settings, port) = tls_settings(key, certificate)?;
            settings.push(TLS_AMONG_US.to_owned());
            urls.push(format!("rediss://{}:{port}", address::own_ip()));
            Ok(settings)
        })?;
        Ok((new, urls))
    }

    /// `port`: where the first of the servers is to be asked. `more`: settings for another sentinel.
    fn watch(
        servers: [Redis; 2],
        port: u16,
        mut more: impl FnMut() -> Result<Vec<String>, DevError>,
    ) -> Result<Self, DevError> {
        let (ip, name) = (servers[0].address().ip(), Self::MASTER);
        servers[1].cli(&["REPLICAOF", &ip.to_string(), &port.to_string()])?;
        let mut sentinel = || {
            let mut settings = more()?;
            settings.push(format!(
                "sentinel announce-ip {ip}\n\
                 sentinel monitor {name} {ip} {port} 2\n\
                 sentinel down-after-milliseconds {name} 700\n\
                 sentinel failover-timeout {name} 4000\n"
            ));
            Redis::start_with_file(&settings.join("\n"), &["--sentinel"])
        };
        let sentinels = (0..SENTINELS).map(|_| sentinel()).collect::<Result<_, _>>()?;
        let new = Self { servers, sentinels };
        let ready = |sentinel: &Redis| {
            let quorum = sentinel.cli(&["SENTINEL", "CKQUORUM", name]).unwrap_or_default();
            let replicas = sentinel.cli(&["SENTINEL", "REPLICAS", name]).unwrap_or_default();
            quorum.starts_with("OK 3") && replicas.lines().any(|line| line == "ok")
        };
        if !wait_until(AGREED, || new.sentinels.iter().all(ready)) {
            let log = new.sentinels[0].said();
            return Err(DevError::Failed { what: "the sentinels did not agree".into(), log });
        }
        Ok(new)
    }

    /// The addresses of the sentinels.
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Redis::url).collect()
    }

    /// The first master and its replica.
    pub fn servers(&self) -> &[Redis; 2] {
        &self.servers
    }

    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// Where the first sentinel says the master is now.
    pub fn master(&self) -> Option<SocketAddr> {
        let said = self.sentinels[0].cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::MASTER]).ok()?;
        let (ip, port) = said.split_once('\n')?;
        format!("{ip}:{port}").parse().ok()
    }
}
