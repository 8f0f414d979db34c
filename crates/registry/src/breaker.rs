//! A circuit breaker: after a few failures in a row nobody waits for the thing behind it, until a probe finds it well.
//!
//! Calls go through [`Breaker::enter`] and are let through only while it is closed. A probe goes through
//! [`Breaker::probe`], when enough time has passed, and only one at a time. So an ordinary call never pays for finding
//! out whether the trouble is over.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerOptions {
    /// Failures in a row that open it.
    pub failures: u32,
    /// How long it stays open before a probe.
    pub probe_after: Duration,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self { failures: 5, probe_after: Duration::from_secs(30) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BreakerState {
    Closed = 0,
    Open = 1,
    Probing = 2,
}

impl BreakerState {
    pub const fn as_str(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::Probing => "probing",
        }
    }
}

/// What a call is for. Each kind has a limit of time of its own, so each is counted by itself: who is quick enough for one
/// may be too slow for the other, all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody's request waits.
    Request,
    /// Nobody's request waits.
    Bulk,
}

const KINDS: usize = 2;

/// Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct Breaker {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    options: BreakerOptions,
    now: Mutex<Now>,
    state: watch::Sender<BreakerState>,
    gauge: Gauge,
    /// By the state that it changes to.
    changes: [Counter; 3],
}

struct Now {
    state: BreakerState,
    /// In a row, by the kind of the calls.
    failures: [u32; KINDS],
    probe_at: Instant,
    /// Grows with every change. What began before a change says nothing about the time after it.
    epoch: u64,
}

/// Leave to make one call. Dropped without a word it counts for nothing: the caller went away.
#[must_use]
pub struct Pass {
    breaker: Breaker,
    epoch: u64,
    /// `None`: it is the probe.
    kind: Option<Kind>,
    told: bool,
}

impl Breaker {
    /// A closed breaker. The name is for log lines, `number` tells the servers of one tier apart in the metrics.
    pub fn new(name: impl Into<String>, number: usize, options: BreakerOptions) -> Self {
        describe_gauge!(
            "rowlock_warm_breaker_state",
            "The breaker in front of a Redis: 0 closed, 1 open, 2 probing."
        );
        describe_counter!(
            "rowlock_warm_breaker_changes_total",
            "Changes of a breaker's state, by what it changed to."
        );
        let number = number.to_string();
        let changes = [BreakerState::Closed, BreakerState::Open, BreakerState::Probing].map(
            |to| counter!("rowlock_warm_breaker_changes_total", "server" => number.clone(), "to" => to.as_str()),
        );
        let now =
            Now { state: BreakerState::Closed, failures: [0; KINDS], probe_at: Instant::now(), epoch: 0 };
        let inner = Inner {
            name: name.into(),
            options,
            now: Mutex::new(now),
            state: watch::Sender::new(BreakerState::Closed),
            gauge: gauge!("rowlock_warm_breaker_state", "server" => number.clone()),
            changes,
        };
        inner.gauge.set(0.0);
        Self { inner: Arc::new(inner) }
    }

    /// Leave for a call, while the breaker is closed.
    pub fn enter(&self, kind: Kind) -> Option<Pass> {
        let now = self.inner.now.lock();
        (now.state == BreakerState::Closed).then(|| self.pass(now.epoch, Some(kind)))
    }

    /// Leave for the probe, when its time has come and nobody else has it.
    pub fn probe(&self, at: Instant) -> Option<Pass> {
        let mut now = self.inner.now.lock();
        if now.state != BreakerState::Open || at < now.probe_at {
            return None;
        }
        self.change(&mut now, BreakerState::Probing, "");
        Some(self.pass(now.epoch, None))
    }

    /// Opens it at once, whatever the count: for what is known to be wrong from the start.
    pub fn open(&self, at: Instant, why: &str) {
        let mut now = self.inner.now.lock();
        if now.state != BreakerState::Open {
            now.probe_at = at + self.inner.options.probe_after;
            self.change(&mut now, BreakerState::Open, why);
        }
    }

    pub fn state(&self) -> BreakerState {
        self.inner.now.lock().state
    }

    /// When the next probe may be made.
    pub fn probe_at(&self) -> Instant {
        self.inner.now.lock().probe_at
    }

    pub fn watch(&self) -> watch::Receiver<BreakerState> {
        self.inner.state.subscribe()
    }

    fn pass(&self, epoch: u64, kind: Option<Kind>) -> Pass {
        Pass { breaker: self.clone(), epoch, kind, told: false }
    }

    /// Called with the lock, so that watchers, metrics and the log see changes in their order.
    fn change(&self, now: &mut Now, state: BreakerState, why: &str) {
        let before = std::mem::replace(&mut now.state, state);
        now.failures = [0; KINDS];
        now.epoch += 1;
        self.inner.state.send_replace(state);
        self.inner.gauge.set(f64::from(state as u8));
        self.inner.changes[state as usize].increment(1);
        let (server, from, to) = (&self.inner.name, before.as_str(), state.as_str());
        match state {
            BreakerState::Open => tracing::warn!(server, from, to, why, "the breaker changed"),
            _ => tracing::info!(server, from, to, "the breaker changed"),
        }
    }
}

impl Pass {
    /// The call worked.
    pub fn succeeded(mut self) {
        self.told = true;
        let mut now = self.breaker.inner.now.lock();
        if now.epoch == self.epoch {
            match self.kind {
                Some(kind) => now.failures[kind as usize] = 0,
                None => self.breaker.change(&mut now, BreakerState::Closed, ""),
            }
        }
    }

    /// The call failed or took too long. `true` when that opened the breaker.
    pub fn failed(mut self, at: Instant, why: &str) -> bool {
        self.told = true;
        let mut now = self.breaker.inner.now.lock();
        if now.epoch != self.epoch {
            return false;
        }
        let opens = self.kind.is_none_or(|kind| {
            now.failures[kind as usize] += 1;
            now.failures[kind as usize] >= self.breaker.inner.options.failures
        });
        if opens {
            now.probe_at = at + self.breaker.inner.options.probe_after;
            self.breaker.change(&mut now, BreakerState::Open, why);
        }
        opens
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.kind.is_none() && !self.told {
            // The time of the next probe stays: it has come already, and somebody else may make it.
            let mut now = self.breaker.inner.now.lock();
            if now.epoch == self.epoch {
                self.breaker.change(&mut now, BreakerState::Open, "the probe was given up");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(30);

    fn breaker() -> Breaker {
        Breaker::new("test", 0, BreakerOptions::default())
    }

    fn fail(breaker: &Breaker, at: Instant, times: u32) {
        for _ in 0..times {
            breaker.enter(Kind::Request).expect("closed").failed(at, "test");
        }
    }

    #[test]
    fn five_failures_in_a_row_open_it() {
        let (breaker, at) = (breaker(), Instant::now());
        fail(&breaker, at, 4);
        breaker.enter(Kind::Request).expect("closed").succeeded();
        fail(&breaker, at, 4);
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert!(breaker.enter(Kind::Request).expect("closed").failed(at, "test"));
        assert_eq!(breaker.state(), BreakerState::Open);
        assert!(breaker.enter(Kind::Request).is_none());
    }

    #[test]
    fn who_is_too_slow_for_requests_is_not_excused_by_what_may_take_longer() {
        let (breaker, at) = (breaker(), Instant::now());
        for failures in 1..=5 {
            assert_eq!(breaker.enter(Kind::Request).expect("closed").failed(at, "test"), failures == 5);
            if failures < 5 {
                breaker.enter(Kind::Bulk).expect("closed").succeeded();
            }
        }
        assert_eq!(breaker.state(), BreakerState::Open);
    }

    #[test]
    fn a_probe_comes_after_its_time_and_decides() {
        let (breaker, at) = (breaker(), Instant::now());
        let watch = breaker.watch();
        fail(&breaker, at, 5);
        assert!(breaker.probe(at + WAIT - Duration::from_millis(1)).is_none());
        let probe = breaker.probe(at + WAIT).expect("due");
        assert_eq!(*watch.borrow(), BreakerState::Probing);
        assert!(breaker.enter(Kind::Request).is_none(), "calls wait for nothing while a probe is out");
        assert!(breaker.probe(at + WAIT).is_none(), "one probe at a time");
        assert!(probe.failed(at + WAIT, "test"));
        assert!(breaker.probe(at + WAIT + Duration::from_secs(1)).is_none(), "the time begins anew");
        breaker.probe(at + WAIT + WAIT).expect("due").succeeded();
        assert_eq!(*watch.borrow(), BreakerState::Closed);
        assert!(breaker.enter(Kind::Request).is_some());
    }

    #[test]
    fn what_began_before_a_change_says_nothing_about_it() {
        let (breaker, at) = (breaker(), Instant::now());
        let (late_success, late_failure) =
            (breaker.enter(Kind::Request).unwrap(), breaker.enter(Kind::Request).unwrap());
        fail(&breaker, at, 5);
        late_success.succeeded();
        assert_eq!(breaker.state(), BreakerState::Open);
        breaker.probe(at + WAIT).unwrap().succeeded();
        fail(&breaker, at, 4);
        assert!(!late_failure.failed(at, "test"), "it would have been the fifth");
    }

    #[test]
    fn a_call_given_up_counts_for_nothing_and_a_probe_given_up_is_made_by_the_next() {
        let (breaker, at) = (breaker(), Instant::now());
        for _ in 0..10 {
            drop(breaker.enter(Kind::Request));
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.open(at, "test");
        drop(breaker.probe(at + WAIT).unwrap());
        assert_eq!(breaker.state(), BreakerState::Open);
        assert!(breaker.probe(at + WAIT).is_some());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_many_tasks_one_probes() {
        let (breaker, at) = (breaker(), Instant::now());
        for round in 0..200 {
            breaker.open(at, "test");
            let gate = Arc::new(tokio::sync::Barrier::new(8));
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..8 {
                let (breaker, gate) = (breaker.clone(), Arc::clone(&gate));
                tasks.spawn(async move {
                    gate.wait().await;
                    breaker.probe(at + WAIT)
                });
            }
            let probes: Vec<Pass> = tasks.join_all().await.into_iter().flatten().collect();
            assert_eq!(probes.len(), 1, "round {round}");
            probes.into_iter().for_each(Pass::succeeded);
        }
    }
}
