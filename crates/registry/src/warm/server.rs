//! One Redis, or one cluster, behind its breaker. Every call goes through here.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Cmd, Pipeline, RedisError, RedisResult, ServerError, ServerErrorKind, Value, cmd};
use tokio::sync::watch;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep_until, timeout};

use super::closings::Bell;
use super::link::{Connection, Connector, Link, NoConnection};
use super::options::{WarmError, WarmOptions};
use super::{Unavailable, scripts};
use crate::breaker::{Breaker, BreakerState, Kind, Pass};

pub(super) struct Server {
    connector: Connector,
    request: Link,
    bulk: Link,
    breaker: Breaker,
    call_timeout: Duration,
    bulk_timeout: Duration,
}

/// Why a call did not work.
enum Trouble {
    /// The server can't be used now.
    Down(String),
    /// The server is well and refuses this one call.
    Refused(String),
}

impl From<NoConnection> for Trouble {
    fn from(error: NoConnection) -> Self {
        Trouble::Down(error.to_string())
    }
}

impl From<RedisError> for Trouble {
    fn from(error: RedisError) -> Self {
        let why = error.to_string();
        // An error in a script, or a key of the wrong type: such a key must not switch Redis off for all the others. A server
        // that does not know the command, or is giving the slot away, is of no use for any.
        let is_no_use = |why: &str| why.to_lowercase().contains("unknown") || why.contains("non local key");
        let is_about_the_call = |(_, error): &(usize, ServerError)| {
            matches!(error.code(), "ERR" | "WRONGTYPE") && !error.details().is_some_and(is_no_use)
        };
        match error.into_server_errors() {
            Some(errors) if errors.iter().all(is_about_the_call) => Trouble::Refused(why),
            _ => Trouble::Down(why),
        }
    }
}

impl Server {
    pub fn new(connector: Connector, number: usize, options: &WarmOptions, closings: Bell) -> Arc<Self> {
        let breaker = Breaker::new(connector.name(), number, options.breaker);
        let watch = breaker.watch();
        let server = Arc::new(Self {
            request: Link::new(connector.clone()),
            bulk: Link::new(connector.clone()),
            connector,
            breaker,
            call_timeout: options.call_timeout,
            bulk_timeout: options.bulk_timeout,
        });
        tokio::spawn(probe_when_open(Arc::downgrade(&server), watch, closings));
        server
    }

    /// The first connection. What can't be reached yet is probed later.
    pub async fn start(&self) -> Result<(), WarmError> {
        match self.request.get().await {
            Ok(_) => Ok(()),
            Err(NoConnection::Evicts(error)) => Err(error),
            Err(NoConnection::Unreachable(why)) => {
                self.breaker.open(Instant::now(), &why);
                Ok(())
            }
        }
    }

    pub fn name(&self) -> &str {
        self.connector.name()
    }

    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    pub fn state(&self) -> BreakerState {
        self.breaker.state()
    }

    /// Sends the commands and returns their answers, in time or not at all. Each kind has a connection of its own: a long
    /// answer must not delay a short one behind it.
    pub async fn run(&self, kind: Kind, commands: &[Cmd]) -> Result<Vec<Value>, Unavailable> {
        let pass = self.breaker.enter(kind).ok_or(Unavailable)?;
        let (link, limit) = match kind {
            Kind::Request => (&self.request, self.call_timeout),
            Kind::Bulk => (&self.bulk, self.bulk_timeout),
        };
        self.outcome(pass, timeout(limit, attempt(link, commands)).await)
    }

    /// Tells the breaker how a call went.
    fn outcome<T>(&self, pass: Pass, answer: Result<Result<T, Trouble>, Elapsed>) -> Result<T, Unavailable> {
        match answer {
            Ok(Ok(answers)) => {
                pass.succeeded();
                return Ok(answers);
            }
            Ok(Err(Trouble::Refused(why))) => {
                pass.succeeded();
                tracing::error!(server = self.name(), why, "Redis refused a call");
            }
            Ok(Err(Trouble::Down(why))) => self.failed(pass, &why),
            Err(_) => self.failed(pass, "no answer in time"),
        }
        Err(Unavailable)
    }

    /// Sends a transaction.
    pub async fn run_atomic(&self, pipeline: &Pipeline) -> Result<Vec<Value>, Unavailable> {
        let answers = async {
            let (number, connection) = self.bulk.get().await?;
            let answers = match connection {
                Connection::One(mut connection) => pipeline.query_async(&mut connection).await,
                Connection::Cluster(mut connection) => pipeline.query_async(&mut connection).await,
                // Whoever has another wire carries out what is sent together in one go.
                Connection::Wire(connection) => {
                    let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
                    connection.send(&commands).await.and_then(|answers| answers.into_iter().collect())
                }
            };
            reset_if_down(&self.bulk, number, answers.map_err(Trouble::from))
        };
        let pass = self.breaker.enter(Kind::Bulk).ok_or(Unavailable)?;
        self.outcome(pass, timeout(self.bulk_timeout, answers).await)
    }

    fn failed(&self, pass: Pass, why: &str) {
        if pass.failed(Instant::now(), why) {
            self.reset();
        }
    }

    /// A connection that has been silent may be dead without knowing it.
    fn reset(&self) {
        self.request.reset(None);
        self.bulk.reset(None);
    }

    /// Whether it is well again: both connections, the eviction policy, and an answer.
    async fn is_well(&self) -> Result<(), Trouble> {
        self.reset();
        for link in [&self.request, &self.bulk] {
            let (_, mut connection) = link.get().await?;
            let late = |_| Trouble::Down("no answer in time".into());
            let ping = cmd("PING");
            let answers = timeout(self.bulk_timeout, connection.send(&[&ping])).await.map_err(late)??;
            answers.into_iter().collect::<RedisResult<Vec<Value>>>()?;
        }
        Ok(())
    }
}

async fn attempt(link: &Link, commands: &[Cmd]) -> Result<Vec<Value>, Trouble> {
    let (number, mut connection) = link.get().await?;
    let answers = send(&mut connection, commands).await.map_err(Trouble::from);
    reset_if_down(link, number, answers)
}

fn reset_if_down<T>(link: &Link, number: u64, answers: Result<T, Trouble>) -> Result<T, Trouble> {
    if matches!(answers, Err(Trouble::Down(_))) {
        // Broken, or a master no longer: the next call finds out where to go.
        link.reset(Some(number));
    }
    answers
}

/// Sends commands, and loads the scripts first where the server does not know them.
async fn send(connection: &mut Connection, commands: &[Cmd]) -> RedisResult<Vec<Value>> {
    let all: Vec<&Cmd> = commands.iter().collect();
    let mut answers = connection.send(&all).await?;
    let is_unknown = |answer: &RedisResult<Value>| matches!(answer, Err(error) if error.kind() == ServerErrorKind::NoScript.into());
    let unknown: Vec<usize> = (0..answers.len()).filter(|i| is_unknown(&answers[*i])).collect();
    if !unknown.is_empty() {
        let load = scripts::load_all();
        let loaded = connection.send(&load.iter().collect::<Vec<_>>()).await?;
        loaded.into_iter().collect::<RedisResult<Vec<Value>>>()?;
        let again: Vec<&Cmd> = unknown.iter().map(|i| &commands[*i]).collect();
        for (i, answer) in unknown.into_iter().zip(connection.send(&again).await?) {
            answers[i] = answer;
        }
    }
    answers.into_iter().collect()
}

/// Probes the server whenever its breaker has been open for long enough. Ends with the server.
async fn probe_when_open(server: Weak<Server>, mut watch: watch::Receiver<BreakerState>, closings: Bell) {
    while watch.wait_for(|state| *state == BreakerState::Open).await.is_ok() {
        let Some(at) = server.upgrade().map(|server| server.breaker.probe_at()) else { return };
        sleep_until(at).await;
        let Some(server) = server.upgrade() else { return };
        let Some(pass) = server.breaker.probe(Instant::now()) else { continue };
        match server.is_well().await {
            Ok(()) => {
                pass.succeeded();
                closings.ring();
            }
            Err(Trouble::Down(why) | Trouble::Refused(why)) => {
                pass.failed(Instant::now(), &why);
            }
        }
    }
}
