//! A lane: the queue in front of the truth, and the task that empties it.
//!
//! The task takes whatever has queued up while the last batch was being committed. There is no timer: an idle lane
//! commits a single command at once, a busy one commits hundreds together. Where a batch goes by what this process believes, a
//! second one that is as large is sent behind it before it is answered. A truth of our own gets its next batch before the last
//! one is answered.
//!
//! Where there is a warm tier, a lane has a door: a queue of its own, at which the seats of those who wait are claimed, all
//! with one message, before they come in.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use metrics::Gauge;
use rowlock_core::Request;
use rowlock_truth::{Belief, Committed, MAX_BATCH, Truth};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::claims::{Claims, Pending, Together};
use crate::engine::{Failure, Reply};
use crate::metrics::Metrics;
use crate::tasks::Tasks;

/// How long the truth is read first after a belief was wrong.
const DOUBT: Duration = Duration::from_millis(50);

/// Batches on belief that may be under way at a time.
const MAX_UNDER_WAY: usize = 2;

/// Claims that are made with one message at most, so that no message takes Redis long.
const MAX_CLAIMED_TOGETHER: usize = 128;

type Answer = Result<Reply, Failure>;

struct Job {
    /// Boxed, because a queue of large values is a large queue, and every hop copies them.
    request: Box<Request>,
    answer: oneshot::Sender<Turn>,
    claim: Option<Pending>,
}

/// What comes back to who has queued: the answer, or the request, turned away at the door because others have claimed some
/// of its seats.
type Turn = Result<Answer, Box<Request>>;

/// The sending side of a lane. Closed and emptied at shutdown.
pub struct Lane {
    jobs: mpsc::Sender<Job>,
    door: Option<mpsc::Sender<Job>>,
    /// Taken out of the queue, and not sent yet.
    gathered: Arc<AtomicUsize>,
    stop: watch::Sender<bool>,
    waiting: Gauge,
}

/// What happens with the facts of a batch once they are durable, before anybody is answered.
pub trait Committal: Send + Sync + 'static {
    /// What this process believes of a request that is about to be committed, for a truth that goes by it.
    fn believe(&self, request: &Request) -> Option<Belief>;

    /// The facts of a batch, for this process.
    fn committed(&self, batch: &[Result<Committed, rowlock_truth::Failure>]);

    /// The same for those outside this process. Must not wait.
    fn publish(&self, batch: &mut [Result<Committed, rowlock_truth::Failure>]);
}

impl Lane {
    /// Starts the lane. Its task ends when the lane was stopped and is empty.
    pub(crate) fn start(
        tasks: &Tasks,
        truth: Arc<dyn Truth>,
        committal: Arc<dyn Committal>,
        claims: Option<Arc<Claims>>,
        capacity: usize,
        number: usize,
        metrics: Metrics,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(capacity);
        let (stop, stopped) = watch::channel(false);
        let gathered = Arc::<AtomicUsize>::default();
        tasks.spawn("lane", run(truth, committal, queue, Arc::clone(&gathered), stopped, metrics));
        let waiting = Metrics::lane_depth(number);
        let Some(claims) = claims else { return Self { jobs, door: None, gathered, stop, waiting } };
        // The lane is stopped when nobody waits at its door any more.
        let (door, knocking) = mpsc::channel(capacity);
        let (stop_door, door_stopped) = watch::channel(false);
        tasks.spawn("door", let_in(claims, knocking, jobs.clone(), door_stopped, stop));
        Self { jobs, door: Some(door), gathered, stop: stop_door, waiting }
    }

    /// Queues a request and waits for its answer. A full lane refuses at once.
    pub(crate) fn submit(
        &self,
        request: Box<Request>,
        claim: Option<Pending>,
    ) -> impl Future<Output = Answer> + use<> {
        let turn = queue(&self.jobs, request, claim);
        // Inside, nobody is turned away.
        async { turn.await.unwrap_or(Err(Failure::Stopping)) }
    }

    /// The same, with a claim that is made at the door.
    pub(crate) async fn submit_at_the_door(&self, request: Box<Request>) -> Turn {
        match &self.door {
            Some(door) => queue(door, request, None).await,
            None => Err(request),
        }
    }

    pub fn depth(&self) -> usize {
        let waiting = |queue: &mpsc::Sender<Job>| queue.max_capacity() - queue.capacity();
        let gathered = self.gathered.load(Ordering::Relaxed);
        waiting(&self.jobs) + gathered + self.door.as_ref().map_or(0, waiting)
    }

    /// Tells the metrics how many wait. Only who looks can know: the lane itself takes them all at once.
    pub fn observe(&self) {
        self.waiting.set(self.depth() as f64);
    }

    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

/// Queues at once: what waits is the answer alone, and as many wait as there are requests.
fn queue(
    jobs: &mpsc::Sender<Job>,
    request: Box<Request>,
    claim: Option<Pending>,
) -> impl Future<Output = Turn> + use<> {
    let (answer, answered) = oneshot::channel();
    let queued = jobs.try_send(Job { request, answer, claim }).map_err(|error| not_queued(&error));
    async {
        match queued {
            Ok(()) => answered.await.unwrap_or(Ok(Err(Failure::Stopping))),
            Err(failure) => Ok(Err(failure)),
        }
    }
}

fn not_queued(error: &mpsc::error::TrySendError<Job>) -> Failure {
    match error {
        mpsc::error::TrySendError::Full(_) => Failure::Busy,
        mpsc::error::TrySendError::Closed(_) => Failure::Stopping,
    }
}

/// Claims the seats of those at the door, and lets them in.
async fn let_in(
    claims: Arc<Claims>,
    mut knocking: mpsc::Receiver<Job>,
    jobs: mpsc::Sender<Job>,
    mut stopped: watch::Receiver<bool>,
    stop_lane: watch::Sender<bool>,
) {
    let mut waiting = Vec::with_capacity(MAX_CLAIMED_TOGETHER);
    while take(&mut knocking, &mut waiting, MAX_CLAIMED_TOGETHER, &mut stopped).await {
        let requests: Vec<&Request> = waiting.iter().map(|job| &*job.request).collect();
        let claimed = claims.claim_together(&requests).await;
        for (job, claimed) in waiting.drain(..).zip(claimed) {
            let Together::GoesOn(claim) = claimed else {
                let _ = job.answer.send(Err(job.request));
                continue;
            };
            if let Err(error) = jobs.try_send(Job { claim, ..job }) {
                let failure = not_queued(&error);
                let _ = error.into_inner().answer.send(Ok(Err(failure)));
            }
        }
    }
    stop_lane.send_replace(true);
}

/// Takes those who wait. `false`: nobody does any more, and nobody will.
async fn take(
    queue: &mut mpsc::Receiver<Job>,
    jobs: &mut Vec<Job>,
    most: usize,
    stopped: &mut watch::Receiver<bool>,
) -> bool {
    loop {
        tokio::select! {
            biased;
            // First, so that a queue that always has work hears of it too. Nothing new comes in after this; what is
            // queued is still taken below.
            _ = stopped.wait_for(|stop| *stop), if !queue.is_closed() => {
                queue.close();
                continue;
            }
            taken = queue.recv_many(jobs, most) => if taken == 0 { return false },
        }
        // Who has gone would only get seats that nobody knows of, at the cost of those who still wait.
        jobs.retain(|job| !job.answer.is_closed());
        if !jobs.is_empty() {
            return true;
        }
    }
}

/// Takes those who wait already, up to a whole batch.
fn top_up(queue: &mut mpsc::Receiver<Job>, jobs: &mut Vec<Job>) {
    while jobs.len() < MAX_BATCH
        && let Ok(job) = queue.try_recv()
    {
        jobs.push(job);
    }
    jobs.retain(|job| !job.answer.is_closed());
}

async fn run(
    truth: Arc<dyn Truth>,
    committal: Arc<dyn Committal>,
    mut queue: mpsc::Receiver<Job>,
    gathered: Arc<AtomicUsize>,
    mut stopped: watch::Receiver<bool>,
    metrics: Metrics,
) {
    let mut jobs = Vec::with_capacity(MAX_BATCH);
    let mut faith = Faith::default();
    let mut under_way = FuturesOrdered::new();
    // Of the last batch that was sent.
    let mut size = 0;
    // Committed, and answered when the next one is sent or nobody waits for one, so that a truth of our own does not stand still
    // meanwhile. One that is shared goes by what we believe, so there everything is known before anything is sent.
    let mut committed: Option<Batch> = None;
    loop {
        if *stopped.borrow() {
            queue.close();
        }
        if under_way.is_empty() {
            top_up(&mut queue, &mut jobs);
            if jobs.is_empty() {
                if let Some(batch) = committed.take() {
                    settle(batch, &*committal, &metrics);
                }
                if !take(&mut queue, &mut jobs, MAX_BATCH, &mut stopped).await {
                    return;
                }
            }
        } else {
            // A second batch goes behind the first when it is as large. Every command that comes in by itself would cost a sync.
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop), if !queue.is_closed() => queue.close(),
                Some(batch) = under_way.next() => {
                    settle(batch, &*committal, &metrics);
                    faith.test(truth.beliefs().wrong);
                }
                () = gather(&mut queue, &mut jobs, &gathered, size), if under_way.len() < MAX_UNDER_WAY => {}
            }
            let is_enough = if under_way.is_empty() { !jobs.is_empty() } else { jobs.len() >= size };
            if under_way.len() >= MAX_UNDER_WAY || !is_enough {
                continue;
            }
        }
        top_up(&mut queue, &mut jobs);
        gathered.store(jobs.len(), Ordering::Relaxed);
        if jobs.is_empty() {
            continue;
        }
        let beliefs = faith.in_all(&jobs, &*committal);
        if beliefs.is_none() {
            // What reads first does so behind everything that was sent.
            while let Some(batch) = under_way.next().await {
                settle(batch, &*committal, &metrics);
            }
        }
        size = jobs.len();
        gathered.store(0, Ordering::Relaxed);
        metrics.batch_size.record(size as f64);
        let (mut requests, mut waiting) = (Vec::with_capacity(size), Vec::with_capacity(size));
        for Job { request, answer, claim } in jobs.drain(..) {
            requests.push(*request);
            waiting.push((answer, claim));
        }
        let began = Instant::now();
        let is_believed = beliefs.is_some();
        let commit = match beliefs {
            Some(beliefs) => truth.commit_believing(requests, beliefs),
            None => truth.commit(requests),
        };
        under_way.push_back(async move { Batch { results: commit.await, waiting, began } });
        if is_believed {
            continue;
        }
        // Asked once, so that it is on its way.
        let done = futures::poll!(under_way.next());
        if let Some(batch) = committed.take() {
            settle(batch, &*committal, &metrics);
        }
        committed = match done {
            Poll::Ready(batch) => batch,
            Poll::Pending => under_way.next().await,
        };
        if truth.is_shared()
            && let Some(batch) = committed.take()
        {
            settle(batch, &*committal, &metrics);
        }
    }
}

struct Batch {
    results: Vec<Result<Committed, rowlock_truth::Failure>>,
    waiting: Vec<(oneshot::Sender<Turn>, Option<Pending>)>,
    began: Instant,
}

/// Takes more of those who wait until there are so many, or for ever when nobody else comes.
async fn gather(queue: &mut mpsc::Receiver<Job>, jobs: &mut Vec<Job>, gathered: &AtomicUsize, wanted: usize) {
    while jobs.len() < wanted.min(MAX_BATCH) {
        if queue.recv_many(jobs, MAX_BATCH - jobs.len()).await == 0 {
            return std::future::pending().await;
        }
        gathered.store(jobs.len(), Ordering::Relaxed);
    }
}

/// Tells everybody what became of a batch.
fn settle(batch: Batch, committal: &dyn Committal, metrics: &Metrics) {
    let Batch { mut results, waiting, began } = batch;
    metrics.commit_seconds.record(began.elapsed().as_secs_f64());
    assert_eq!(results.len(), waiting.len(), "the truth answers each request of a batch");
    // Facts first, answers second: who is told of a change can see it.
    committal.committed(&results);
    committal.publish(&mut results);
    for (result, (answer, claim)) in results.into_iter().zip(waiting) {
        // A recorded answer commits nothing that would confirm a claim: the seats may have been given back since.
        if let Some(claim) = claim.filter(|_| result.as_ref().is_ok_and(|committed| !committed.replayed)) {
            claim.keep();
        }
        let reply = result
            .map(|committed| Reply { outcome: committed.outcome, replayed: committed.replayed })
            .map_err(Failure::from);
        // A client that has gone away does not read its answer; the command stands all the same.
        let _ = answer.send(Ok(reply));
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
    fn in_all(&self, jobs: &[Job], committal: &dyn Committal) -> Option<Vec<Belief>> {
        if self.doubts_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        jobs.iter().map(|job| committal.believe(&job.request)).collect()
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

        fn committed(&self, _: &[Result<Committed, rowlock_truth::Failure>]) {}

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
