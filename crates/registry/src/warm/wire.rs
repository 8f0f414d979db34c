//! Another way to reach a Redis than over the network. The simulator has one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use redis::{Cmd, RedisResult, Value};
use tokio::sync::mpsc;

pub type WireAnswer<'a, T> = Pin<Box<dyn Future<Output = RedisResult<T>> + Send + 'a>>;

/// A server that can be connected to.
pub trait Wire: Send + Sync + 'static {
    /// The address, for log lines.
    fn name(&self) -> String;

    fn open(&self) -> WireAnswer<'_, Arc<dyn WireConnection>>;

    /// What is published on the channel from now on. Ends with the connection.
    fn subscribe<'a>(&'a self, channel: &'a str) -> WireAnswer<'a, mpsc::Receiver<Vec<u8>>>;
}

pub trait WireConnection: Send + Sync + 'static {
    /// Sends the commands together. Each has its own answer; an error of the connection is everybody's.
    fn send<'a>(&'a self, commands: &'a [&'a Cmd]) -> WireAnswer<'a, Vec<RedisResult<Value>>>;
}
