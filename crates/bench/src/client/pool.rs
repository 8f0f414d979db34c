//! Connections that many buyers share.

use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;

use tokio::sync::Semaphore;

use super::connection::Connection;

pub struct Pool {
    address: SocketAddr,
    idle: Mutex<Vec<Connection>>,
    places: Semaphore,
}

impl Pool {
    pub fn new(address: SocketAddr, size: usize) -> Self {
        Self { address, idle: Mutex::default(), places: Semaphore::new(size) }
    }

    /// Sends a request on whichever connection is free. Returns the status and the body.
    pub async fn send(&self, request: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        let _place = self.places.acquire().await.expect("nobody closes it");
        let idle = self.idle.lock().expect("nobody panics with it").pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => Connection::open(self.address).await?,
        };
        let answer = connection.send(request).await?;
        let answer = (answer.status, answer.body.to_vec());
        self.idle.lock().expect("nobody panics with it").push(connection);
        Ok(answer)
    }
}
