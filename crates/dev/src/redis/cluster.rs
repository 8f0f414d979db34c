//! A Redis Cluster of three masters, each with as many replicas as asked for.

use std::path::Path;
use std::time::Duration;

use super::{Redis, tls_settings};
use crate::{DevError, address, wait_until};

const MASTERS: usize = 3;
const SLOTS: usize = 16_384;
const FORMED: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct RedisCluster {
    /// The masters first, in the order of their slots, then the replicas.
    nodes: Vec<Redis>,
}

impl RedisCluster {
    pub fn start(replicas_each: usize) -> Result<Self, DevError> {
        let mut new = Self { nodes: Vec::new() };
        let mut ports = Vec::new();
        for _ in 0..MASTERS * (1 + replicas_each) {
            let bus = new.add(&[])?;
            ports.push((new.nodes.last().map_or(0, |node| node.address().port()), bus));
        }
        new.form(&ports)?;
        Ok(new)
    }

    /// Without replicas, and with TLS among the nodes and for those who ask the URLs that this returns.
    pub fn start_with_tls(key: &Path, certificate: &Path) -> Result<(Self, Vec<String>), DevError> {
        let mut new = Self { nodes: Vec::new() };
        let mut ports = Vec::new();
        for _ in 0..MASTERS {
            let (settings, tls) = tls_settings(key, certificate)?;
            let mut all = vec!["tls-cluster yes"];
            all.extend(settings.iter().map(String::as_str));
            let bus = new.add(&all)?;
            ports.push((tls, bus));
        }
        new.form(&ports)?;
        let url = |(tls, _): &(u16, u16)| format!("rediss://{}:{tls}", address::own_ip());
        Ok((new, ports.iter().map(url).collect()))
    }

    /// Adds a node and returns the port of its bus.
    fn add(&mut self, settings: &[&str]) -> Result<u16, DevError> {
        // By default the bus is 10,000 ports higher, which may be no port at all.
        let bus = address::free()?.port();
        let bus_setting = format!("cluster-port {bus}");
        let mut all = vec!["cluster-enabled yes", "cluster-node-timeout 1500", &bus_setting];
        all.push("cluster-replica-validity-factor 0");
        all.extend(settings);
        self.nodes.push(Redis::start_with(&all)?);
        Ok(bus)
    }

    /// `ports`: where the nodes shall meet each, and where its bus is.
    fn form(&self, ports: &[(u16, u16)]) -> Result<(), DevError> {
        for (i, node) in self.nodes.iter().enumerate() {
            node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(i + 1).to_string()])?;
            if i < MASTERS {
                let (first, next) = (i * SLOTS / MASTERS, (i + 1) * SLOTS / MASTERS);
                node.cli(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &(next - 1).to_string()])?;
            }
            let (ip, (port, bus)) = (node.address().ip().to_string(), ports[i]);
            self.nodes[0].cli(&["CLUSTER", "MEET", &ip, &port.to_string(), &bus.to_string()])?;
        }
        self.wait("the nodes of the cluster did not meet", |node| {
            info(node, "cluster_known_nodes") == Some(self.nodes.len().to_string())
        })?;
        for (i, replica) in self.nodes.iter().enumerate().skip(MASTERS) {
            let master = self.nodes[i % MASTERS].cli(&["CLUSTER", "MYID"])?;
            replica.cli(&["CLUSTER", "REPLICATE", &master])?;
        }
        self.wait("the cluster did not form", |node| {
            info(node, "cluster_state").is_some_and(|state| state == "ok")
        })?;
        let linked = |node: &Redis| {
            let said = node.cli(&["INFO", "replication"]).unwrap_or_default();
            said.contains("role:master") || said.contains("master_link_status:up")
        };
        self.wait("the replicas did not follow their masters", linked)
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Redis) -> bool) -> Result<(), DevError> {
        if wait_until(FORMED, || self.nodes.iter().all(&is_so)) {
            return Ok(());
        }
        let log = self.nodes[0].cli(&["CLUSTER", "NODES"]).unwrap_or_default();
        Err(DevError::Failed { what: what.into(), log })
    }

    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::url).collect()
    }

    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// The master that has the slot of a key now, by what `asked` knows.
    pub fn master_of(&self, asked: &Redis, key: &str) -> Option<&Redis> {
        let slot: usize = asked.cli(&["CLUSTER", "KEYSLOT", key]).ok()?.parse().ok()?;
        let nodes = asked.cli(&["CLUSTER", "NODES"]).ok()?;
        let has_slot = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else { return false };
            (first..=last).contains(&slot)
        };
        let line = nodes.lines().find(|line| line.split(' ').skip(8).any(has_slot))?;
        let address = line.split(' ').nth(1)?.split('@').next()?;
        self.nodes.iter().find(|node| node.address().to_string() == address)
    }
}

fn info(node: &Redis, field: &str) -> Option<String> {
    let said = node.cli(&["CLUSTER", "INFO"]).ok()?;
    let mut lines = said.lines().filter_map(|line| line.trim_end().split_once(':'));
    lines.find(|(name, _)| *name == field).map(|(_, value)| value.to_owned())
}
