//! A stream whose writes must get somewhere.

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// Up to this length an answer that comes in pieces is put together first. The system takes one piece with less ado than several, by
/// more than it takes to copy so few bytes.
const TOGETHER_BYTES: usize = 2048;

/// A connection that fails when its client takes nothing for too long. Without it, a client that asks and does not read
/// keeps its place, and its answer keeps its memory, for as long as the client likes.
///
/// It is the time without any progress that counts, not that of the whole answer: a slow line may take its time.
pub struct Patience {
    stream: TcpStream,
    limit: Duration,
    /// Set while a write waits. Most never do.
    waiting: Option<Pin<Box<Sleep>>>,
    stalled: bool,
}

impl Patience {
    pub fn new(stream: TcpStream, limit: Duration) -> Self {
        Self { stream, limit, waiting: None, stalled: false }
    }

    /// Passes on how a write went, unless it has waited for too long.
    fn judge<T>(&mut self, went: Poll<Result<T>>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        if went.is_ready() {
            self.stalled = false;
            return went;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        if !std::mem::replace(&mut self.stalled, true) {
            waiting.as_mut().reset(Instant::now() + limit);
        }
        ready!(waiting.as_mut().poll(cx));
        // What is in the system's buffers won't be read either: let it go at once.
        let _ = self.stream.set_zero_linger();
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl AsyncRead for Patience {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Patience {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let went = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(went, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        if (1..=TOGETHER_BYTES).contains(&length) {
            let mut together = [0; TOGETHER_BYTES];
            let mut at = 0;
            for slice in slices {
                together[at..at + slice.len()].copy_from_slice(slice);
                at += slice.len();
            }
            return self.poll_write(cx, &together[..length]);
        }
        let went = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.judge(went, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // On a TCP stream these two never wait, so they say nothing about the client.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
