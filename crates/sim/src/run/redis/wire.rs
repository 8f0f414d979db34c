//! The way of one node to one simulated Redis.

use std::sync::Arc;
use std::time::Duration;

use redis::{Arg, Cmd, ErrorKind, RedisError, RedisResult, Value};
use rowlock_registry::warm::{Wire, WireAnswer, WireConnection};
use tokio::sync::mpsc;

use super::SimRedis;
use super::db::Bytes;
use crate::run::net::{Life, Lost, Net, Place};

/// Longer than any limit of the warm tier: those must do.
const LIMIT: Duration = Duration::from_secs(4);
const QUEUE: usize = 4_096;

#[derive(Clone)]
pub struct SimWire {
    pub redis: Arc<SimRedis>,
    pub net: Arc<Net>,
    pub life: Arc<Life>,
}

struct Connection {
    wire: SimWire,
    /// The life of the server that it was made in.
    made_in: u64,
}

fn broken() -> RedisError {
    (ErrorKind::Io, "the connection broke").into()
}

impl SimWire {
    fn place(&self) -> Place {
        Place::Redis(self.redis.number)
    }

    async fn run(
        &self,
        life: Option<u64>,
        commands: Vec<Vec<Bytes>>,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let (redis, net) = (Arc::clone(&self.redis), Arc::clone(&self.net));
        let work = async move {
            if life.is_some_and(|life| life != redis.life()) {
                return None;
            }
            if net.twice() {
                redis.run(&commands);
            }
            Some(redis.run(&commands))
        };
        match self.net.call(&self.life, self.place(), LIMIT, work).await {
            Ok(Some(answers)) => Ok(answers),
            Ok(None) | Err(Lost::Reset | Lost::Silence) => Err(broken()),
        }
    }
}

impl Wire for SimWire {
    fn name(&self) -> String {
        format!("redis-{}", self.redis.number)
    }

    fn open(&self) -> WireAnswer<'_, Arc<dyn WireConnection>> {
        Box::pin(async {
            self.run(None, Vec::new()).await?;
            let made_in = self.redis.life();
            Ok(Arc::new(Connection { wire: self.clone(), made_in }) as Arc<dyn WireConnection>)
        })
    }

    fn subscribe<'a>(&'a self, channel: &'a str) -> WireAnswer<'a, mpsc::Receiver<Vec<u8>>> {
        Box::pin(async move {
            self.run(None, Vec::new()).await?;
            let mut published = self.redis.subscribe(channel);
            let (messages, receiver) = mpsc::channel(QUEUE);
            let wire = self.clone();
            tokio::spawn(async move {
                while let Some(message) = published.recv().await {
                    // A lost packet is sent again, a lost connection is made again: what is lost is lost with all behind it.
                    match wire.net.cross(&wire.life, wire.place()).await {
                        Ok(()) => {}
                        Err(Lost::Reset) => return,
                        Err(Lost::Silence) => continue,
                    }
                    if messages.try_send(message).is_err() {
                        return;
                    }
                }
            });
            Ok(receiver)
        })
    }
}

impl WireConnection for Connection {
    fn send<'a>(&'a self, commands: &'a [&'a Cmd]) -> WireAnswer<'a, Vec<RedisResult<Value>>> {
        let words = |arg: Arg<&[u8]>| match arg {
            Arg::Simple(word) => word.to_vec(),
            _ => b"0".to_vec(),
        };
        let commands = commands.iter().map(|command| command.args_iter().map(words).collect()).collect();
        Box::pin(self.wire.run(Some(self.made_in), commands))
    }
}
