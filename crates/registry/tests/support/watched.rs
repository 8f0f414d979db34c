//! A truth that counts what it is asked and can be made to wait or to fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use rowlock_core::booking::Booking;
use rowlock_core::hold::Hold;
use rowlock_core::org::{ApiKey, Org};
use rowlock_core::seat::SeatState;
use rowlock_core::{BookingId, EventId, HoldId, KeyId, OrgId, Request, SeatId, Stream, Time, UserId};
use rowlock_truth::read::{ActiveHold, EventPage, EventShape, EventSnapshot, JournalRow};
use rowlock_truth::verify::{Progress, Report};
use rowlock_truth::{Answer, Committed, Failure, ReadResult, Truth};
use tokio::sync::watch;

/// Something that others wait in front of while it is shut.
pub struct Gate {
    open: watch::Sender<bool>,
    came: watch::Sender<usize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { open: watch::Sender::new(true), came: watch::Sender::new(0) }
    }
}

impl Gate {
    pub fn shut(&self) {
        self.open.send_replace(false);
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// How many have come to the gate so far.
    pub fn came(&self) -> usize {
        *self.came.borrow()
    }

    /// Waits until so many have come to the gate.
    pub async fn reached(&self, count: usize) {
        self.came.subscribe().wait_for(|came| *came >= count).await.expect("the gate stands");
    }

    async fn pass(&self) {
        self.came.send_modify(|came| *came += 1);
        self.open.subscribe().wait_for(|open| *open).await.expect("the gate stands");
    }
}

pub struct Watched {
    inner: Arc<dyn Truth>,
    /// Sizes of the batches that came.
    batches: Mutex<Vec<usize>>,
    /// In front of every commit.
    pub commits: Gate,
    /// Behind every read of an event: what was read is old by the time it is returned.
    pub loads: Gate,
    /// In front of every look for holds past their time.
    pub sweeps: Gate,
    /// In front of every look at an API key.
    pub keys: Gate,
    /// Batches that are answered with «unavailable» from now on.
    pub outages: AtomicUsize,
    /// The next batch meets a defect.
    pub is_defective: AtomicBool,
    /// Says that other processes write to the same store. Then the engine goes by what it believes.
    pub is_shared: AtomicBool,
}

impl Watched {
    pub fn new(inner: Arc<dyn Truth>) -> Self {
        Self {
            inner,
            batches: Mutex::default(),
            commits: Gate::default(),
            loads: Gate::default(),
            sweeps: Gate::default(),
            keys: Gate::default(),
            outages: AtomicUsize::new(0),
            is_defective: AtomicBool::new(false),
            is_shared: AtomicBool::new(false),
        }
    }

    pub fn batches(&self) -> Vec<usize> {
        self.batches.lock().clone()
    }

    pub fn forget(&self) {
        self.batches.lock().clear();
        self.commits.came.send_replace(0);
        self.loads.came.send_replace(0);
        self.sweeps.came.send_replace(0);
        self.keys.came.send_replace(0);
    }
}

impl Truth for Watched {
    fn commit(&self, batch: Vec<Request>) -> Answer<'_, Vec<Result<Committed, Failure>>> {
        Box::pin(async move {
            self.batches.lock().push(batch.len());
            self.commits.pass().await;
            assert!(!self.is_defective.load(Ordering::Relaxed), "a defect");
            let less = |left: usize| left.checked_sub(1);
            if self.outages.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
                let down = || Err(Failure::Unavailable("an outage".into()));
                return batch.iter().map(|_| down()).collect();
            }
            self.inner.commit(batch).await
        })
    }

    fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    fn event(&self, id: EventId) -> Answer<'_, ReadResult<Option<EventSnapshot>>> {
        Box::pin(async move {
            let snapshot = self.inner.event(id).await;
            self.loads.pass().await;
            snapshot
        })
    }

    fn seat_states(
        &self,
        event: EventId,
        seats: Vec<SeatId>,
    ) -> Answer<'_, ReadResult<Vec<Option<SeatState>>>> {
        self.inner.seat_states(event, seats)
    }

    fn shape(&self, event: EventId) -> Answer<'_, ReadResult<Option<EventShape>>> {
        self.inner.shape(event)
    }

    fn org(&self, id: OrgId) -> Answer<'_, ReadResult<Option<Org>>> {
        self.inner.org(id)
    }

    fn orgs(&self, after: Option<OrgId>, limit: usize) -> Answer<'_, ReadResult<Vec<Org>>> {
        self.inner.orgs(after, limit)
    }

    fn api_key(&self, id: KeyId) -> Answer<'_, ReadResult<Option<ApiKey>>> {
        Box::pin(async move {
            self.keys.pass().await;
            self.inner.api_key(id).await
        })
    }

    fn api_keys(
        &self,
        org: OrgId,
        after: Option<KeyId>,
        limit: usize,
    ) -> Answer<'_, ReadResult<Vec<ApiKey>>> {
        self.inner.api_keys(org, after, limit)
    }

    fn events(&self, org: OrgId, after: Option<EventId>, limit: usize) -> Answer<'_, ReadResult<EventPage>> {
        self.inner.events(org, after, limit)
    }

    fn hold(&self, id: HoldId) -> Answer<'_, ReadResult<Option<Hold>>> {
        self.inner.hold(id)
    }

    fn booking(&self, id: BookingId) -> Answer<'_, ReadResult<Option<Booking>>> {
        self.inner.booking(id)
    }

    fn holds_of_user(
        &self,
        org: OrgId,
        user: UserId,
        after: Option<HoldId>,
        limit: usize,
    ) -> Answer<'_, ReadResult<Vec<Hold>>> {
        self.inner.holds_of_user(org, user, after, limit)
    }

    fn journal(&self, stream: Stream, after: u64, limit: usize) -> Answer<'_, ReadResult<Vec<JournalRow>>> {
        self.inner.journal(stream, after, limit)
    }

    fn active_holds(&self) -> Answer<'_, ReadResult<Vec<ActiveHold>>> {
        self.inner.active_holds()
    }

    fn due_holds(&self, limit: usize) -> Answer<'_, ReadResult<Vec<ActiveHold>>> {
        Box::pin(async move {
            self.sweeps.pass().await;
            self.inner.due_holds(limit).await
        })
    }

    fn sweep_records(&self, limit: usize) -> Answer<'_, ReadResult<usize>> {
        self.inner.sweep_records(limit)
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn ping(&self) -> Answer<'_, ReadResult<()>> {
        self.inner.ping()
    }

    fn verify(&self, progress: Progress) -> Answer<'_, ReadResult<Report>> {
        self.inner.verify(progress)
    }

    fn close(&self) -> Answer<'_, ()> {
        self.inner.close()
    }
}
