//! The warm tier: Redis. Claims on seats that other nodes see at once, and a copy of live events for nodes that start.
//!
//! It may refuse and it may forget, and neither harms anybody: only the truth grants. So every call has a short time
//! limit and goes through a breaker, and whoever calls must know what to do without an answer.
//!
//! Two kinds of things are kept for an event. *Claims*, one key a seat, are what requests collide on: pending until
//! the commit, then for as long as the hold and a grace. The *projection* (bitmaps, counters, the ordered set of holds)
//! follows the journal in sequence and is always the state of exactly one sequence.

mod announce;
mod apply;
mod claim;
mod closings;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod holds;
mod keys;
mod link;
mod options;
mod policy;
mod redlock;
mod scripts;
mod server;
mod snapshot;
mod wire;

use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::breaker::{BreakerState, Kind};
use crate::chance::Chance;
use closings::Bell;
use keys::Keys;
use link::Connector;
use server::Server;

pub use announce::{Announced, Announcement};
pub use apply::{Applied, Batch};
pub use claim::{Claim, Claimed, Owner, Receipt};
pub use closings::Closings;
pub use holds::WarmHold;
pub use options::{WarmError, WarmMode, WarmOptions};
pub use snapshot::{WarmArea, WarmEvent, WarmHeld};
pub use wire::{Wire, WireAnswer, WireConnection};

/// Redis could not be asked: the breaker is open, the time was over, or too few of its servers answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the warm tier is unavailable")]
pub struct Unavailable;

/// The warm tier. Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct Warm {
    inner: Arc<Inner>,
}

struct Inner {
    options: WarmOptions,
    keys: Keys,
    /// Tells our own announcements from those of others.
    node: Uuid,
    /// One, or with Redlock several that know nothing of each other.
    servers: Vec<Arc<Server>>,
    closings: Bell,
}

impl Warm {
    /// Connects. A Redis that can't be reached is no error: its breaker is open from the start, and it is probed as
    /// after any outage. One that may evict claims is.
    pub async fn connect(options: WarmOptions) -> Result<Self, WarmError> {
        let connectors = link::connectors(&options)?;
        Self::connect_all(connectors, options).await
    }

    /// The same over other wires than the network: one, or an odd number of servers that know nothing of each other.
    pub async fn connect_over(wires: Vec<Arc<dyn Wire>>, options: WarmOptions) -> Result<Self, WarmError> {
        let connectors = wires.into_iter().map(|wire| Connector::over(wire, &options)).collect();
        Self::connect_all(connectors, options).await
    }

    async fn connect_all(connectors: Vec<Connector>, options: WarmOptions) -> Result<Self, WarmError> {
        let closings = Bell::default();
        let servers: Vec<Arc<Server>> = connectors
            .into_iter()
            .enumerate()
            .map(|(number, connector)| Server::new(connector, number, &options, closings.clone()))
            .collect();
        for ready in futures::future::join_all(servers.iter().map(|server| server.start())).await {
            ready?;
        }
        let keys = Keys::new(&options.prefix);
        let inner = Inner { keys, node: options.chance.uuid(), servers, closings, options };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What this node calls itself in its announcements.
    pub fn node(&self) -> Uuid {
        self.inner.node
    }

    pub fn options(&self) -> &WarmOptions {
        &self.inner.options
    }

    /// The servers, without what is secret in their addresses, and the states of their breakers.
    pub fn states(&self) -> Vec<(String, BreakerState)> {
        self.inner.servers.iter().map(|server| (server.name().to_owned(), server.state())).collect()
    }

    /// Whether calls can work now: with Redlock, whether a majority of the servers can be asked.
    pub fn is_up(&self) -> bool {
        let up = self.inner.servers.iter().filter(|server| server.state() == BreakerState::Closed);
        up.count() >= self.quorum()
    }

    /// Counts how often a breaker has closed. Whoever watches it brings Redis up to date after an outage.
    pub fn closings(&self) -> Closings {
        self.inner.closings.subscribe()
    }

    fn quorum(&self) -> usize {
        self.inner.servers.len() / 2 + 1
    }

    fn chance(&self) -> &Chance {
        &self.inner.options.chance
    }

    fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// Sends the commands to every server and returns as soon as a majority has answered. The others go on by
    /// themselves: what they were told holds for them too.
    async fn everywhere(&self, kind: Kind, commands: Vec<Cmd>) -> Result<Vec<Vec<Value>>, Unavailable> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        if let [server] = &self.inner.servers[..] {
            return Ok(vec![server.run(kind, &commands).await?]);
        }
        let commands: Arc<[Cmd]> = commands.into();
        let mut asked = JoinSet::new();
        for server in &self.inner.servers {
            let (server, commands) = (Arc::clone(server), Arc::clone(&commands));
            asked.spawn(async move { server.run(kind, &commands).await });
        }
        let mut answers = Vec::new();
        while answers.len() < self.quorum() {
            match asked.join_next().await {
                Some(Ok(Ok(answer))) => answers.push(answer),
                Some(_) => {}
                None => return Err(Unavailable),
            }
        }
        asked.detach_all();
        Ok(answers)
    }
}
