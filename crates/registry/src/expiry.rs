//! Ending holds on time.
//!
//! An ordered set of every active hold's expiry, and a task that sleeps until the first of them. The set may be
//! wrong without harm: the kernel decides whether a hold is over, and a sweep of the truth finds what the set missed.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;
use rowlock_core::fact::Fact;
use rowlock_core::hold::HoldStatus;
use rowlock_core::{Actor, Command, HoldId, OrgId, Outcome, Request, Time};
use rowlock_truth::read::ActiveHold;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::{Engine, Failure};

/// Holds that one run of the reaper ends at most, so that buyers share the lane.
pub const REAPER_BATCH: usize = 256;
/// Holds that one sweep looks for. When it finds so many, there may be more, and it looks again soon.
const SWEEP_PAGE: usize = 4_096;
const SWEEP_AGAIN: Duration = Duration::from_secs(1);
/// Old idempotency records that are removed at a time.
const RECORDS_PAGE: usize = 2_048;
/// Rounds in which one sweep removes old idempotency records: enough for thousands of keys a second, and an end.
const MAX_RECORD_SWEEPS: usize = 128;
/// Holds made through other nodes are looked at this much after their end: by then their own node has ended them,
/// unless it is gone.
const AFTER_OTHERS_MILLIS: i64 = 400;
/// How soon the reaper tries again what it could not do.
const RETRY: Duration = Duration::from_millis(100);

type Entry = (Time, HoldId);

#[derive(Default)]
pub struct Expiry {
    set: Mutex<BTreeSet<Entry>>,
    earlier: Notify,
}

impl Expiry {
    pub fn fill(&self, holds: impl IntoIterator<Item = ActiveHold>) {
        self.set.lock().extend(holds.into_iter().map(|hold| (hold.expires_at, hold.id)));
        self.earlier.notify_one();
    }

    pub fn len(&self) -> usize {
        self.set.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Follows facts that this node has committed.
    pub fn apply<'f>(&self, facts: impl IntoIterator<Item = &'f Fact>) {
        self.follow(facts, 0);
    }

    /// Follows a fact that may be of another node.
    pub fn apply_foreign(&self, fact: &Fact) {
        self.follow([fact], AFTER_OTHERS_MILLIS);
    }

    fn follow<'f>(&self, facts: impl IntoIterator<Item = &'f Fact>, delay: i64) {
        let mut set = self.set.lock();
        let first = set.first().copied();
        for fact in facts {
            match fact {
                Fact::HoldCreated(hold) => {
                    set.insert((hold.expires_at.plus_millis(delay), hold.id));
                }
                Fact::HoldExtended(moved) => {
                    remove(&mut set, moved.previous_expires_at, moved.hold);
                    set.insert((moved.expires_at.plus_millis(delay), moved.hold));
                }
                Fact::HoldConfirmed(sold) => remove(&mut set, sold.expires_at, sold.hold),
                Fact::HoldReleased(part) | Fact::HoldExpired(part) if part.ended => {
                    remove(&mut set, part.expires_at, part.hold);
                }
                _ => {}
            }
        }
        let is_earlier = |now: &Entry| first.is_none_or(|before| *now < before);
        if set.first().is_some_and(is_earlier) {
            self.earlier.notify_one();
        }
    }

    fn first(&self) -> Option<Time> {
        self.set.lock().first().map(|(at, _)| *at)
    }

    fn pop_due(&self, now: Time) -> Vec<Entry> {
        let mut set = self.set.lock();
        let mut due = Vec::new();
        while due.len() < REAPER_BATCH
            && let Some(first) = set.first().filter(|(at, _)| *at <= now).copied()
        {
            set.remove(&first);
            due.push(first);
        }
        due
    }
}

/// Whoever added it: this node, or another, or both.
fn remove(set: &mut BTreeSet<Entry>, at: Time, hold: HoldId) {
    set.remove(&(at, hold));
    set.remove(&(at.plus_millis(AFTER_OTHERS_MILLIS), hold));
}

/// Ends holds as they fall due, until the engine stops. It runs at least every `at_least`, so that its metrics tell whether it does.
pub async fn reap(engine: Engine, at_least: Duration) {
    while !engine.is_stopping() {
        let wait = match engine.expiry().first() {
            Some(first) => Duration::from_millis(first.millis_since(engine.now()) as u64).min(at_least),
            None => at_least,
        };
        // In order, so that a simulated run can be repeated. Whichever it is, the same is done.
        tokio::select! {
            biased;
            () = engine.stopping() => return,
            () = engine.expiry().earlier.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
        run(&engine).await;
    }
}

/// The safety net: looks again and again for what the reaper does not know of, until the engine stops. Beside the reaper, because a truth
/// that is slow to answer must not keep it from what it knows.
pub async fn sweep(engine: Engine, every: Duration) {
    while !engine.is_stopping() {
        let pause = if sweep_once(&engine).await { SWEEP_AGAIN.min(every) } else { every };
        tokio::select! {
            biased;
            () = engine.stopping() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn run(engine: &Engine) {
    let began = Instant::now();
    let due = engine.expiry().pop_due(engine.now());
    let left = end_all(engine, due).await;
    if !left.is_empty() {
        // Behind those that are due by then: rows that somebody keeps locked must not keep all others from ending.
        let soon = engine.now().plus_millis(RETRY.as_millis() as i64);
        engine.expiry().set.lock().extend(left.into_iter().map(|(at, hold)| (at.max(soon), hold)));
    }
    engine.metrics().reaper_run(began.elapsed(), engine.now());
}

/// Ends holds through the lane, like every other command, and returns those that must be tried again, with the time from which they may be.
async fn end_all(engine: &Engine, due: Vec<Entry>) -> Vec<Entry> {
    let mut ending = tokio::task::JoinSet::new();
    for entry in due {
        let engine = engine.clone();
        ending.spawn(async move {
            let request = Request {
                org: OrgId::from_uuid(uuid::Uuid::nil()),
                actor: Actor::System,
                request_id: "reaper".into(),
                idempotency: None,
                command: Command::Expire { hold: entry.1 },
            };
            match engine.execute(request).await {
                Err(Failure::Busy | Failure::Unavailable(_)) => Some(entry),
                Err(Failure::Broken(why)) => {
                    tracing::error!(hold = %entry.1, why, "a hold could not be ended");
                    None
                }
                // The truth's clock decides, and it may say that there is some time left.
                Ok(reply) => match &reply.outcome {
                    Outcome::Hold(found) if found.hold.status == HoldStatus::Active => {
                        Some((found.hold.expires_at, found.hold.id))
                    }
                    _ => None,
                },
                Err(Failure::Refused(_) | Failure::Stopping) => None,
            }
        });
    }
    ending.join_all().await.into_iter().flatten().collect()
}

/// Asks the truth for holds past their time, whatever the set says. `true`: there may be more.
async fn sweep_once(engine: &Engine) -> bool {
    let mut is_full = false;
    match engine.truth().due_holds(SWEEP_PAGE).await {
        Ok(due) => {
            is_full = due.len() == SWEEP_PAGE;
            engine.expiry().fill(due);
        }
        Err(error) => tracing::warn!(%error, "the sweep for expired holds failed"),
    }
    for _ in 0..MAX_RECORD_SWEEPS {
        match engine.truth().sweep_records(RECORDS_PAGE).await {
            Ok(swept) if swept < RECORDS_PAGE => break,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "the sweep for old idempotency records failed");
                break;
            }
        }
    }
    is_full
}
