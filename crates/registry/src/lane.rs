//! A lane: the queue in front of the truth, and the task that empties it.
//!
//! The task takes whatever has queued up while the last batch was being committed. There is no timer: an idle lane
//! commits a single command at once, a busy one commits hundreds together.

use std::sync::Arc;
use std::time::Duration;

use metrics::Gauge;
use rowlock_core::Request;
use rowlock_truth::{Belief, Committed, MAX_BATCH, Truth};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::engine::{Failure, Reply};
use crate::metrics::Metrics;
use crate::tasks::Tasks;

/// How long the truth is read first after a belief was wrong.
const DOUBT: Duration = Duration::from_millis(50);

type Answer = Result<Reply, Failure>;

struct Job {
    /// Boxed, because a queue of large values is a large queue, and every hop copies them.
    request: Box<Request>,
    answer: oneshot::Sender<Answer>,
}

/// The sending side of a lane. Closed and emptied at shutdown.
pub struct Lane {
    jobs: mpsc::Sender<Job>,
    stop: tokio::sync::watch::Sender<bool>,
    waiting: Gauge,
}

/// What happens with the facts of a batch once they are durable, before anybody is answered.
pub trait Committal: Send + Sync + 'static {
    /// What this process believes of a request that is about to be committed, for a truth that goes by it.
    fn believe(&self, request: &Request) -> Option<Belief>;

    fn committed(&self, committed: &Committed);

    /// The facts of a whole batch, for those outside this process. Must not wait.
    fn publish(&self, batch: &mut [Result<Committed, rowlock_truth::Failure>]);
}

impl Lane {
    /// Starts the lane. Its task ends when the lane was stopped and is empty.
    pub(crate) fn start(
        tasks: &Tasks,
        truth: Arc<dyn Truth>,
        committal: Arc<dyn Committal>,
        capacity: usize,
        number: usize,
        metrics: Metrics,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(capacity);
        let (stop, stopped) = tokio::sync::watch::channel(false);
        tasks.spawn("lane", run(truth, committal, queue, stopped, metrics));
        Self { jobs, stop, waiting: Metrics::lane_depth(number) }
    }

    /// Queues a request and waits for its answer. A full lane refuses at once.
    pub async fn submit(&self, request: Box<Request>) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.jobs.try_send(Job { request, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Failure::Busy,
            mpsc::error::TrySendError::Closed(_) => Failure::Stopping,
        })?;
        answered.await.unwrap_or(Err(Failure::Stopping))
    }

    pub fn depth(&self) -> usize {
        self.jobs.max_capacity() - self.jobs.capacity()
    }

    /// Tells the metrics how many wait. Only who looks can know: the lane itself takes them all at once.
    pub fn observe(&self) {
        self.waiting.set(self.depth() as f64);
    }

    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

async fn run(
    truth: Arc<dyn Truth>,
    committal: Arc<dyn Committal>,
    mut queue: mpsc::Receiver<Job>,
    mut stopped: tokio::sync::watch::Receiver<bool>,
    metrics: Metrics,
) {
    let mut jobs = Vec::with_capacity(MAX_BATCH);
    let mut faith = Faith::default();
    loop {
        tokio::select! {
            biased;
            // First, so that a lane that always has work hears of it too. Nothing new comes in after this; what is
            // queued is still taken below.
            _ = stopped.wait_for(|stop| *stop), if !queue.is_closed() => {
                queue.close();
                continue;
            }
            taken = queue.recv_many(&mut jobs, MAX_BATCH) => if taken == 0 { return },
        }
        // Who has gone would only get seats that nobody knows of, at the cost of those who still wait.
        jobs.retain(|job| !job.answer.is_closed());
        if jobs.is_empty() {
            continue;
        }
        metrics.batch_size.record(jobs.len() as f64);
        let (requests, answers): (Vec<_>, Vec<_>) =
            jobs.drain(..).map(|job| (*job.request, job.answer)).unzip();
        let began = Instant::now();
        let mut results = match faith.in_all(&requests, &*committal) {
            Some(beliefs) => {
                let results = truth.commit_believing(requests, beliefs).await;
                faith.test(truth.beliefs().wrong);
                results
            }
            None => truth.commit(requests).await,
        };
        metrics.commit_seconds.record(began.elapsed().as_secs_f64());
        assert_eq!(results.len(), answers.len(), "the truth answers each request of a batch");
        // Facts first, answers second: who is told of a change can see it.
        for committed in results.iter().flatten() {
            committal.committed(committed);
        }
        committal.publish(&mut results);
        for (result, answer) in results.into_iter().zip(answers) {
            let reply = result
                .map(|committed| Reply { outcome: committed.outcome, replayed: committed.replayed })
                .map_err(Failure::from);
            // A client that has gone away does not read its answer; the command stands all the same.
            let _ = answer.send(reply);
        }
    }
}

/// Whether what this process believes is passed on. Who was wrong a moment ago will be wrong again: somebody else is selling the
/// same seats, and a batch that is tried in vain costs as much as one that is not.
#[derive(Default)]
struct Faith {
    /// Times that the truth has found a belief wrong.
    wrong: u64,
    doubts_until: Option<Instant>,
}

impl Faith {
    /// What is believed of each request. `None`: nothing of some of them.
    fn in_all(&self, requests: &[Request], committal: &dyn Committal) -> Option<Vec<Belief>> {
        if self.doubts_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        requests.iter().map(|request| committal.believe(request)).collect()
    }

    fn test(&mut self, wrong: u64) {
        if wrong != self.wrong {
            self.wrong = wrong;
            self.doubts_until = Some(Instant::now() + DOUBT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Believer;

    impl Committal for Believer {
        fn believe(&self, _: &Request) -> Option<Belief> {
            None
        }

        fn committed(&self, _: &Committed) {}

        fn publish(&self, _: &mut [Result<Committed, rowlock_truth::Failure>]) {}
    }

    #[test]
    fn whoever_was_wrong_doubts_for_a_while() {
        let mut faith = Faith::default();
        let believes = |faith: &Faith| faith.in_all(&[], &Believer).is_some();
        faith.test(0);
        assert!(believes(&faith));
        faith.test(1);
        assert!(!believes(&faith));
        faith.doubts_until = Some(Instant::now());
        // Being wrong once is not held against anybody for ever.
        faith.test(1);
        assert!(believes(&faith));
    }
}
