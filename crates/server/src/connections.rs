//! Accepting connections and ending them in an orderly way.

mod patience;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::Service;

use self::patience::Patience;

/// After a failed accept, which mostly means that no file descriptors are left.
const PAUSE: Duration = Duration::from_millis(50);

/// What is read of a connection at once. A head that is twice as large is answered with 431: nobody needs it, and every
/// connection may have one half read.
const READ_BUFFER_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long the head of a request may take. Without it, a client that sends a byte a minute keeps its place.
    pub header_timeout: Duration,
    /// How long a client may leave its answer unread.
    pub write_timeout: Duration,
    pub max_connections: usize,
    /// How long requests in flight may take once the server stops.
    pub drain: Duration,
}

/// Serves until `stop` is done, then lets requests in flight finish. Returns whether all of them did.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    stop: impl Future<Output = ()>,
) -> bool {
    let places = Arc::new(Semaphore::new(limits.max_connections));
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout).max_buf_size(READ_BUFFER_BYTES);
    // A client that closes its side is taken for one that has gone, and what it asked for is given up. Some only mean
    // that they have said everything, but they are rare; those who have gone are many when a server is slow, and their
    // work must not be done then.
    http.half_close(false);
    tokio::pin!(stop);
    loop {
        let next = async {
            // The semaphore is never closed.
            let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore is open");
            (place, accept(&listener).await)
        };
        let (place, (stream, address)) = tokio::select! {
            biased;
            () = &mut stop => break,
            next = next => next,
        };
        let router = router.clone();
        let service = service_fn(move |request| answer(router.clone(), request, address));
        let stream = TokioIo::new(Patience::new(stream, limits.write_timeout));
        let connection = graceful.watch(http.serve_connection(stream, service));
        tokio::spawn(async move {
            // An error here is the client's going away or its bad HTTP: nothing that an operator can act on.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(place);
        });
    }
    // New clients are refused by the system from here on, instead of waiting for an answer that won't come.
    drop(listener);
    tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_ok()
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                // Answers are small and complete: waiting to fill a packet only delays them.
                let _ = stream.set_nodelay(true);
                return (stream, address);
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn answer(
    mut router: Router,
    request: hyper::Request<Incoming>,
    address: SocketAddr,
) -> <Router as Service<hyper::Request<Body>>>::Future {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(address));
    router.call(request)
}
