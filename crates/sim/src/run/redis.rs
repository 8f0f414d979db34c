//! A simulated Redis: its data, its scripts, its channels. It runs our scripts in a real Lua, on virtual time.

mod db;
mod lua;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::{RedisError, RedisResult, Script, Value};
use tokio::sync::mpsc;

use super::clock::Clock;
use super::dice::Dice;
use db::{Bytes, Db, Wrong};

pub use wire::SimWire;

/// Messages that wait for a subscriber.
const QUEUE: usize = 65_536;

pub struct SimRedis {
    pub number: usize,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    db: Db,
    scripts: BTreeMap<String, String>,
    subscribers: Vec<(Bytes, mpsc::Sender<Bytes>)>,
    /// Grows with every restart: connections of before are gone.
    life: u64,
}

impl SimRedis {
    pub fn new(number: usize, clock: Clock) -> Arc<Self> {
        Arc::new(Self { number, clock, state: Mutex::default() })
    }

    pub fn life(&self) -> u64 {
        self.state.lock().life
    }

    /// Carries out commands together, as one that nobody comes between.
    pub fn run(&self, commands: &[Vec<Bytes>]) -> Vec<RedisResult<Value>> {
        let mut state = self.state.lock();
        state.db.now = self.clock.now().millis();
        commands.iter().map(|command| state.run(command).map_err(error)).collect()
    }

    pub fn subscribe(&self, channel: &str) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        self.state.lock().subscribers.push((channel.as_bytes().to_vec(), sender));
        receiver
    }

    pub fn flush(&self) {
        self.state.lock().db.clear();
    }

    pub fn forget_scripts(&self) {
        self.state.lock().scripts.clear();
    }

    /// Empty, as one that does not write to disk.
    pub fn restart(&self) {
        let mut state = self.state.lock();
        *state = State { life: state.life + 1, ..State::default() };
    }

    /// Loses some keys. Returns how many.
    pub fn lose(&self, dice: &Dice, most: usize) -> usize {
        let mut state = self.state.lock();
        state.db.now = self.clock.now().millis();
        let mut keys = state.db.keys();
        let count = most.min(keys.len());
        for _ in 0..count {
            let key = keys.swap_remove(dice.index(keys.len()));
            state.db.remove(&key);
        }
        count
    }
}

impl State {
    fn run(&mut self, command: &[Bytes]) -> Result<Value, Wrong> {
        let word = |i: usize| command.get(i).map(|word| String::from_utf8_lossy(word).to_ascii_uppercase());
        match (word(0).as_deref(), word(1).as_deref()) {
            (Some("SCRIPT"), Some("LOAD")) => {
                let text = String::from_utf8_lossy(&command[2]).into_owned();
                let hash = Script::new(&text).get_hash().to_owned();
                self.scripts.insert(hash.clone(), text);
                Ok(Value::BulkString(hash.into_bytes()))
            }
            (Some("EVALSHA"), Some(hash)) => {
                let hash = hash.to_ascii_lowercase();
                let Some(source) = self.scripts.get(&hash) else {
                    return Err(Wrong("NOSCRIPT No matching script. Please use EVAL.".into()));
                };
                let keys: usize = String::from_utf8_lossy(&command[2]).parse().unwrap_or(0);
                let (keys, args) = command[3..].split_at(keys);
                lua::run(&mut self.db, &hash, source, keys, args)
            }
            (Some("CONFIG"), Some("GET")) => {
                let pair = [b"maxmemory-policy".to_vec(), b"noeviction".to_vec()];
                Ok(Value::Array(pair.map(Value::BulkString).to_vec()))
            }
            (Some("INFO"), _) => {
                Ok(Value::BulkString(b"# Memory\r\nmaxmemory_policy:noeviction\r\n".to_vec()))
            }
            (Some("PUBLISH"), _) => {
                let (channel, message) = (&command[1], &command[2]);
                self.subscribers.retain(|(_, sender)| !sender.is_closed());
                let heard = self.subscribers.iter().filter(|(name, _)| name == channel);
                Ok(Value::Int(
                    heard.filter(|(_, sender)| sender.try_send(message.clone()).is_ok()).count() as i64
                ))
            }
            _ => self.db.run(command),
        }
    }
}

fn error(Wrong(text): Wrong) -> RedisError {
    let said = redis::parse_redis_value(format!("-{text}\r\n").as_bytes());
    said.and_then(Value::extract_error).expect_err("it is an error")
}
