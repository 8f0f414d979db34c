//! Many connections under one load.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use hdrhistogram::Histogram;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use super::connection::{Answer, Connection};
use super::pace::{Pace, Schedule};

/// What one connection asks for.
pub trait Requests: Send {
    /// The next request. `number` is its place among those of all connections. `None`: there is nothing left to ask.
    fn next(&mut self, number: u64) -> Option<&[u8]>;
    /// What was answered to it.
    fn heard(&mut self, _answer: &Answer<'_>) {}
}

#[derive(Clone, Debug)]
pub struct Load {
    /// Connection after connection goes to one of these in turn.
    pub addresses: Vec<SocketAddr>,
    pub connections: u32,
    /// Of the client.
    pub threads: u32,
    pub duration: Duration,
    pub pace: Pace,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Run {
    /// From the first request that was due to the last answer.
    pub elapsed: Duration,
    /// 2xx and 304.
    pub done: u64,
    /// 409, which says that somebody else was first.
    pub refused: u64,
    /// Any other status.
    pub wrong: u64,
    /// Connections that failed.
    pub broken: u64,
    /// Requests that were due and never sent, because the server was too far behind.
    pub unsent: u64,
    /// Microseconds from when a request was due, or in a closed loop from when it was sent, to its answer. Without those
    /// of the lead-in.
    pub latency: Histogram<u64>,
    /// Microseconds by which requests were sent late: the client's own part, and the waiting for a free connection.
    /// Without those of the lead-in.
    pub lag: Histogram<u64>,
}

/// How long a server that is behind may take to catch up after the last request was due.
const PATIENCE: Duration = Duration::from_secs(3);
/// A minute, in microseconds: nothing here takes longer.
const LONGEST: u64 = 60_000_000;
const DIGITS: u8 = 3;

impl Run {
    pub fn new() -> Self {
        let empty = || Histogram::new_with_max(LONGEST, DIGITS).expect("the bounds are right");
        Self {
            elapsed: Duration::ZERO,
            done: 0,
            refused: 0,
            wrong: 0,
            broken: 0,
            unsent: 0,
            latency: empty(),
            lag: empty(),
        }
    }

    pub fn answers(&self) -> u64 {
        self.done + self.refused + self.wrong
    }

    /// Whatever is not a success.
    pub fn bad(&self) -> u64 {
        self.refused + self.wrong + self.broken
    }

    /// Requests that were granted, a second.
    pub fn per_second(&self) -> f64 {
        self.done as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    pub fn answers_per_second(&self) -> f64 {
        self.answers() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// In milliseconds.
    pub fn percentile(&self, percent: f64) -> f64 {
        self.latency.value_at_percentile(percent) as f64 / 1e3
    }

    pub fn add(&mut self, other: &Run) {
        self.elapsed = self.elapsed.max(other.elapsed);
        self.done += other.done;
        self.refused += other.refused;
        self.wrong += other.wrong;
        self.broken += other.broken;
        self.unsent += other.unsent;
        self.latency.add(&other.latency).expect("the bounds are the same");
        self.lag.add(&other.lag).expect("the bounds are the same");
    }

    /// Adds a run that came after this one.
    pub fn follow(&mut self, next: &Run) {
        let elapsed = self.elapsed + next.elapsed;
        self.add(next);
        self.elapsed = elapsed;
    }

    fn count(&mut self, status: u16) {
        match status {
            200..300 | 304 => self.done += 1,
            409 => self.refused += 1,
            _ => self.wrong += 1,
        }
    }

    /// What was due, or was sent, at `since` is answered now.
    fn took(&mut self, since: Instant) {
        self.latency.saturating_record(micros(since.elapsed()));
    }
}

pub fn micros(span: Duration) -> u64 {
    (span.as_micros() as u64).clamp(1, LONGEST)
}

/// Runs the load on threads of its own and waits for all answers. `requests` makes what a connection asks for.
pub async fn drive(load: &Load, requests: impl Fn(u32) -> Box<dyn Requests>) -> io::Result<Run> {
    let threads = load.threads.clamp(1, load.connections.max(1));
    let number = Arc::new(AtomicU64::new(0));
    let mut waiting = Vec::new();
    for thread in 0..threads {
        let mine = (thread..load.connections).step_by(threads as usize);
        let mine: Vec<_> =
            mine.map(|i| (load.addresses[i as usize % load.addresses.len()], requests(i))).collect();
        let (done, result) = oneshot::channel();
        let (load, number) = (load.clone(), Arc::clone(&number));
        // Whoever is interrupted does not wait for these threads: they end with the process.
        std::thread::Builder::new().name("client".into()).spawn(move || {
            let _ = done.send(on_thread(&load, thread, threads, mine, &number));
        })?;
        waiting.push(result);
    }
    let mut sum = Run::new();
    for result in waiting {
        let run = result.await.map_err(|_| io::Error::other("a thread of the client panicked"))??;
        sum.add(&run);
    }
    Ok(sum)
}

type Mine = Vec<(SocketAddr, Box<dyn Requests>)>;

fn on_thread(load: &Load, thread: u32, threads: u32, mine: Mine, number: &Arc<AtomicU64>) -> io::Result<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // All at once: one after another, a thousand of them take seconds on a busy machine.
        let open = mine.into_iter().map(|(address, requests)| async move {
            Connection::open(address).await.map(|connection| (connection, requests))
        });
        let open = try_join_all(open).await?;
        match load.pace {
            Pace::Closed => closed(open, Instant::now() + load.duration, number).await,
            Pace::Open { per_second } => {
                let schedule = Schedule::new(Instant::now(), per_second, load.duration, thread, threads);
                scheduled(open, schedule, (thread, threads)).await
            }
        }
    })
}

type Open = Vec<(Connection, Box<dyn Requests>)>;

async fn closed(open: Open, deadline: Instant, number: &Arc<AtomicU64>) -> io::Result<Run> {
    let (start, shared) = (Instant::now(), Shared::default());
    let mut tasks = JoinSet::new();
    for (mut connection, mut requests) in open {
        let (number, shared) = (Arc::clone(number), shared.clone());
        tasks.spawn(async move {
            while Instant::now() < deadline {
                let Some(request) = requests.next(number.fetch_add(1, Ordering::Relaxed)) else { break };
                let sent = Instant::now();
                let Ok(answer) = connection.send(request).await else {
                    shared.add(|run| run.broken += 1);
                    break;
                };
                requests.heard(&answer);
                shared.add(|run| {
                    run.count(answer.status);
                    run.took(sent);
                });
            }
        });
    }
    Ok(gather(tasks, &shared, start).await)
}

async fn scheduled(open: Open, schedule: Schedule, (thread, threads): (u32, u32)) -> io::Result<Run> {
    let connections = open.len();
    let (permits, next) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
    let (shared, last_call) = (Shared::default(), schedule.due(schedule.total) + PATIENCE);
    let mut tasks = JoinSet::new();
    for (mut connection, mut requests) in open {
        let (permits, next, shared) = (Arc::clone(&permits), Arc::clone(&next), shared.clone());
        tasks.spawn(async move {
            loop {
                permits.acquire().await.expect("nobody closes it").forget();
                let mine = next.fetch_add(1, Ordering::Relaxed);
                if mine >= schedule.total {
                    break;
                }
                let (due, now) = (schedule.due(mine), Instant::now());
                let is_timed = schedule.is_timed(mine);
                if now > last_call {
                    // It would have taken at least until now.
                    shared.add(|run| {
                        run.unsent += 1;
                        run.took(due);
                    });
                    continue;
                }
                let number = mine * u64::from(threads) + u64::from(thread);
                let Some(request) = requests.next(number) else { continue };
                if is_timed {
                    shared.add(|run| run.lag.saturating_record(micros(now.saturating_duration_since(due))));
                }
                let Ok(answer) = connection.send(request).await else {
                    shared.add(|run| run.broken += 1);
                    break;
                };
                requests.heard(&answer);
                shared.add(|run| {
                    run.count(answer.status);
                    if is_timed {
                        run.took(due);
                    }
                });
            }
        });
    }
    schedule.beat(&permits).await?;
    // One more for each connection, to see that there is nothing left.
    permits.add_permits(connections);
    Ok(gather(tasks, &shared, schedule.start).await)
}

async fn gather(mut tasks: JoinSet<()>, shared: &Shared, start: Instant) -> Run {
    while let Some(done) = tasks.join_next().await {
        done.expect("a connection's task does not panic");
    }
    let elapsed = start.elapsed();
    let mut run = Run::new();
    shared.add(|sum| std::mem::swap(sum, &mut run));
    run.elapsed = elapsed;
    run
}

/// What the connections of one thread count together: a histogram for each would be megabytes.
#[derive(Clone)]
struct Shared(Arc<Mutex<Run>>);

impl Default for Shared {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Run::new())))
    }
}

impl Shared {
    fn add(&self, change: impl FnOnce(&mut Run)) {
        change(&mut self.0.lock().expect("nobody panics with it"));
    }
}
