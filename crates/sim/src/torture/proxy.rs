//! A network that can be cut: a proxy between two processes that passes bytes on, late, in part, or not at all.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the proxy does with the bytes that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// Connections are accepted and nothing is delivered. Afterwards what was sent arrives late, as it does when the
    /// network comes back, or, with `resets`, never, as when a firewall has forgotten the connection.
    BlackHole {
        resets: bool,
    },
    /// Connections are torn down, and new ones too.
    Reset,
    /// Everything arrives so much later.
    Delay(Duration),
    /// Requests arrive, answers don't.
    DropAnswers,
}

impl Mode {
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Pass => "pass",
            Mode::BlackHole { resets: false } => "stall",
            Mode::BlackHole { resets: true } => "black hole",
            Mode::Reset => "reset",
            Mode::Delay(_) => "delay",
            Mode::DropAnswers => "drop answers",
        }
    }
}

/// A proxy that listens for as long as this lives.
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    accepting: tokio::task::JoinHandle<()>,
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    There,
    Back,
}

/// Why a connection must not go on.
struct Broken;

impl Proxy {
    pub async fn start(listen: SocketAddr, to: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let (mode, watching) = watch::channel(Mode::Pass);
        let accepting = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(tokio::spawn(connection(stream, to, watching.clone()))),
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        });
        Ok(Self { address, mode, accepting })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn connection(client: TcpStream, to: SocketAddr, mut mode: watch::Receiver<Mode>) {
    let _ = client.set_nodelay(true);
    if let Ok(()) = passable(&mut mode).await
        && let Ok(server) = TcpStream::connect(to).await
    {
        let _ = server.set_nodelay(true);
        let (client_reads, client_writes) = client.into_split();
        let (server_reads, server_writes) = server.into_split();
        let there = pump(client_reads, server_writes, Way::There, mode.clone());
        let back = pump(server_reads, client_writes, Way::Back, mode);
        if let Err((reads, writes)) = both(there, back).await {
            tear_down(&reads, &writes);
        }
        return;
    }
    let _ = client.set_zero_linger();
}

type Halves = (OwnedReadHalf, OwnedWriteHalf);

/// Runs both ways until both have ended, or one of them must not go on.
async fn both(
    there: impl Future<Output = Result<(), Halves>>,
    back: impl Future<Output = Result<(), Halves>>,
) -> Result<(), Halves> {
    tokio::try_join!(there, back).map(drop)
}

/// Ends both connections with a reset instead of a goodbye.
fn tear_down(reads: &OwnedReadHalf, writes: &OwnedWriteHalf) {
    let _ = reads.as_ref().set_zero_linger();
    let _ = writes.as_ref().set_zero_linger();
}

/// Waits until something may pass. `Err`: the connection is to be torn down.
async fn passable(mode: &mut watch::Receiver<Mode>) -> Result<(), Broken> {
    let mut forgotten = false;
    loop {
        let now = *mode.borrow_and_update();
        match now {
            Mode::BlackHole { resets } => forgotten |= resets,
            Mode::Reset => return Err(Broken),
            _ if forgotten => return Err(Broken),
            Mode::Pass | Mode::Delay(_) | Mode::DropAnswers => return Ok(()),
        }
        if mode.changed().await.is_err() {
            return Err(Broken);
        }
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    way: Way,
    mut mode: watch::Receiver<Mode>,
) -> Result<(), Halves> {
    let mut buffer = vec![0; 16 * 1024];
    // Once an answer is missing, nothing that comes after it makes sense.
    let mut lossy = false;
    loop {
        if passable(&mut mode).await.is_err() {
            return Err((from, to));
        }
        let dropping = *mode.borrow() == Mode::DropAnswers && way == Way::Back;
        if lossy && !dropping {
            return Err((from, to));
        }
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            changed = mode.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return Err((from, to)),
            },
        };
        let count = match read {
            Ok(0) => {
                let _ = to.shutdown().await;
                return Ok(());
            }
            Ok(count) => count,
            Err(_) => return Err((from, to)),
        };
        // It may have been cut while these were on their way.
        if passable(&mut mode).await.is_err() {
            return Err((from, to));
        }
        let now = *mode.borrow();
        match now {
            Mode::DropAnswers if way == Way::Back => {
                lossy = true;
                continue;
            }
            Mode::Delay(time) => tokio::time::sleep(time).await,
            _ => {}
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return Err((from, to));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers every byte with the next one.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    while let Ok(byte) = stream.read_u8().await {
                        let _ = stream.write_u8(byte + 1).await;
                    }
                });
            }
        });
        address
    }

    async fn proxied() -> (Proxy, TcpStream) {
        let proxy = Proxy::start("127.0.0.1:0".parse().unwrap(), echo().await).await.unwrap();
        let stream = TcpStream::connect(proxy.address()).await.unwrap();
        (proxy, stream)
    }

    async fn answer(stream: &mut TcpStream, within: u64) -> Option<std::io::Result<u8>> {
        tokio::time::timeout(Duration::from_millis(within), stream.read_u8()).await.ok()
    }

    #[tokio::test]
    async fn passes_and_delays() {
        let (proxy, mut stream) = proxied().await;
        stream.write_u8(1).await.unwrap();
        assert_eq!(answer(&mut stream, 2_000).await.unwrap().unwrap(), 2);
        proxy.set(Mode::Delay(Duration::from_millis(100)));
        let began = std::time::Instant::now();
        stream.write_u8(5).await.unwrap();
        assert_eq!(answer(&mut stream, 2_000).await.unwrap().unwrap(), 6);
        assert!(began.elapsed() >= Duration::from_millis(200), "both ways are delayed");
    }

    #[tokio::test]
    async fn what_was_sent_into_a_stall_arrives_late() {
        let (proxy, mut stream) = proxied().await;
        proxy.set(Mode::BlackHole { resets: false });
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.write_u8(1).await.unwrap();
        assert!(answer(&mut stream, 200).await.is_none());
        proxy.set(Mode::Pass);
        assert_eq!(answer(&mut stream, 2_000).await.unwrap().unwrap(), 2);
    }

    #[tokio::test]
    async fn what_was_sent_into_a_black_hole_never_arrives() {
        let (proxy, mut stream) = proxied().await;
        proxy.set(Mode::BlackHole { resets: true });
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.write_u8(1).await.unwrap();
        assert!(answer(&mut stream, 200).await.is_none());
        proxy.set(Mode::Pass);
        assert!(answer(&mut stream, 2_000).await.unwrap().is_err());
    }

    #[tokio::test]
    async fn resets_and_drops_answers() {
        let (proxy, mut stream) = proxied().await;
        stream.write_u8(1).await.unwrap();
        assert_eq!(answer(&mut stream, 2_000).await.unwrap().unwrap(), 2);
        proxy.set(Mode::DropAnswers);
        stream.write_u8(1).await.unwrap();
        assert!(answer(&mut stream, 200).await.is_none());
        proxy.set(Mode::Pass);
        assert!(answer(&mut stream, 2_000).await.unwrap().is_err(), "an answer is missing");
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        proxy.set(Mode::Reset);
        assert!(answer(&mut stream, 2_000).await.unwrap().is_err());
    }
}
