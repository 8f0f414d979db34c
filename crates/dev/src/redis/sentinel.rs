//! A master with a replica, and three sentinels that promote the replica when the master is gone.

use std::net::SocketAddr;
use std::time::Duration;

use super::Redis;
use crate::{DevError, wait_until};

const SENTINELS: usize = 3;
const AGREED: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Sentinels {
    servers: [Redis; 2],
    sentinels: Vec<Redis>,
}

impl Sentinels {
    /// What the sentinels call the master.
    pub const MASTER: &str = "rowlock";

    pub fn start() -> Result<Self, DevError> {
        let master = Redis::start()?;
        let (ip, port) = (master.address().ip(), master.address().port());
        let replica = Redis::start_with(&["repl-diskless-sync-delay 0"])?;
        replica.cli(&["REPLICAOF", &ip.to_string(), &port.to_string()])?;
        let name = Self::MASTER;
        let settings = format!(
            "sentinel announce-ip {ip}\n\
             sentinel monitor {name} {ip} {port} 2\n\
             sentinel down-after-milliseconds {name} 700\n\
             sentinel failover-timeout {name} 4000\n"
        );
        let sentinels: Result<Vec<_>, _> =
            (0..SENTINELS).map(|_| Redis::start_with_file(&settings, &["--sentinel"])).collect();
        let new = Self { servers: [master, replica], sentinels: sentinels? };
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
