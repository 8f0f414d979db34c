//! The store as one life of a node sees it: over the network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rowlock_core::booking::Booking;
use rowlock_core::hold::Hold;
use rowlock_core::org::{ApiKey, Org};
use rowlock_core::seat::SeatState;
use rowlock_core::slice::EventRow;
use rowlock_core::{BookingId, EventId, HoldId, KeyId, OrgId, Request, SeatId, Stream, Time, UserId};
use rowlock_truth::read::{ActiveHold, EventPage, EventShape, EventSnapshot, JournalRow};
use rowlock_truth::verify::{Progress, Report};
use rowlock_truth::{Answer, Belief, Beliefs, Committed, Failure, Heard, ReadResult, Truth};
use tokio::sync::mpsc;

use super::tables::Tables;
use super::{Store, verify};
use crate::run::broken::Broken;
use crate::run::dice::{Dice, Ids};
use crate::run::history::History;
use crate::run::net::{Life, Lost, Net, Place};

const READ_TIMEOUT: Duration = Duration::from_secs(2);
const QUEUE: usize = 1_024;

/// Batches that a node commits side by side, and one more for housekeeping.
const LANES: usize = 3;

pub struct SimTruth {
    pub(super) store: Arc<Store>,
    pub(super) net: Arc<Net>,
    pub(super) life: Arc<Life>,
    pub(super) dice: Dice,
    pub(super) ids: Mutex<Ids>,
    pub(super) history: History,
    pub(super) degraded: AtomicBool,
    pub(super) beliefs: Mutex<Beliefs>,
    /// Those that were asked for. What a hold needs of them never changes.
    pub(super) events: Mutex<BTreeMap<EventId, Arc<EventRow>>>,
}

impl SimTruth {
    pub fn new(
        store: &Arc<Store>,
        net: &Arc<Net>,
        life: &Arc<Life>,
        dice: &Dice,
        history: &History,
    ) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            net: Arc::clone(net),
            life: Arc::clone(life),
            ids: Mutex::new(Ids::new(dice.fork())),
            dice: dice.fork(),
            history: history.clone(),
            degraded: AtomicBool::new(false),
            beliefs: Mutex::default(),
            events: Mutex::default(),
        })
    }

    /// The time as this node knows it.
    pub(super) fn node_time(&self) -> Time {
        self.store.clock.now().plus_millis(self.life.skew.load(Ordering::Relaxed))
    }

    pub(super) fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Tables, Time) -> T + Send + 'static,
    ) -> Answer<'_, ReadResult<T>> {
        let store = Arc::clone(&self.store);
        let work = async move {
            store.work().await;
            read(&mut store.tables.lock(), store.clock.now())
        };
        Box::pin(async move {
            let answer = self.net.call(&self.life, Place::Store, READ_TIMEOUT, work).await;
            answer.map_err(|_| Failure::Unavailable("the store can't be asked".into()))
        })
    }
}

impl Truth for SimTruth {
    fn commit(&self, batch: Vec<Request>) -> Answer<'_, Vec<Result<Committed, Failure>>> {
        Box::pin(self.commit_batch(batch))
    }

    fn commit_believing(
        &self,
        batch: Vec<Request>,
        beliefs: Vec<Belief>,
    ) -> Answer<'_, Vec<Result<Committed, Failure>>> {
        Box::pin(self.commit_believed(batch, beliefs))
    }

    fn beliefs(&self) -> Beliefs {
        *self.beliefs.lock()
    }

    fn lanes(&self) -> usize {
        LANES
    }

    fn set_degraded(&self, degraded: bool) {
        self.degraded.store(degraded, Ordering::Relaxed);
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn tell(&self, streams: Vec<Stream>) -> Answer<'_, ReadResult<()>> {
        let store = Arc::clone(&self.store);
        Box::pin(async move {
            let work = async move {
                let mut listeners = store.listeners.lock();
                listeners.retain(|listener| !listener.is_closed());
                listeners.iter().for_each(|listener| drop(listener.try_send(streams.clone())));
            };
            let told = self.net.call(&self.life, Place::Store, READ_TIMEOUT, work).await;
            told.map_err(|_| Failure::Unavailable("the store can't be told".into()))
        })
    }

    fn listen(&self) -> mpsc::Receiver<Heard> {
        let (heard, hearing) = mpsc::channel(QUEUE);
        let (store, net, life) = (Arc::clone(&self.store), Arc::clone(&self.net), Arc::clone(&self.life));
        tokio::spawn(async move {
            while !heard.is_closed() {
                let work = {
                    let store = Arc::clone(&store);
                    async move {
                        let (sender, receiver) = mpsc::channel(QUEUE);
                        store.listeners.lock().push(sender);
                        receiver
                    }
                };
                if let Ok(mut told) = net.call(&life, Place::Store, READ_TIMEOUT, work).await {
                    let _ = heard.send(Heard::Interrupted).await;
                    while let Some(streams) = told.recv().await {
                        match net.cross(&life, Place::Store).await {
                            Ok(()) => drop(heard.try_send(Heard::Moved(streams))),
                            Err(Lost::Silence) => {}
                            Err(Lost::Reset) => break,
                        }
                    }
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
        hearing
    }

    fn heads(&self, events: Vec<EventId>) -> Answer<'_, ReadResult<Vec<(EventId, u64)>>> {
        let is_off = self.store.broken() == Some(Broken::FollowOff);
        self.read(move |tables, _| if is_off { Vec::new() } else { tables.heads(&events) })
    }

    fn seat_states(
        &self,
        event: EventId,
        seats: Vec<SeatId>,
    ) -> Answer<'_, ReadResult<Vec<Option<SeatState>>>> {
        self.read(move |tables, _| {
            let of_event = |seat: &SeatId| seat.ordinal_in(event).and_then(|_| tables.seats.get(seat));
            seats.iter().map(|seat| of_event(seat).map(|(seat, _)| seat.state)).collect()
        })
    }

    fn shape(&self, event: EventId) -> Answer<'_, ReadResult<Option<EventShape>>> {
        self.read(move |tables, _| tables.shape(event))
    }

    fn org(&self, id: OrgId) -> Answer<'_, ReadResult<Option<Org>>> {
        self.read(move |tables, _| tables.orgs.get(&id).cloned())
    }

    fn orgs(&self, after: Option<OrgId>, limit: usize) -> Answer<'_, ReadResult<Vec<Org>>> {
        self.read(move |tables, _| {
            let orgs = tables.orgs.values().filter(|org| after.is_none_or(|after| org.id > after));
            orgs.take(limit).cloned().collect()
        })
    }

    fn api_key(&self, id: KeyId) -> Answer<'_, ReadResult<Option<ApiKey>>> {
        self.read(move |tables, _| tables.keys.get(&id).cloned())
    }

    fn api_keys(
        &self,
        org: OrgId,
        after: Option<KeyId>,
        limit: usize,
    ) -> Answer<'_, ReadResult<Vec<ApiKey>>> {
        self.read(move |tables, _| tables.api_keys(org, after, limit))
    }

    fn events(&self, org: OrgId, after: Option<EventId>, limit: usize) -> Answer<'_, ReadResult<EventPage>> {
        self.read(move |tables, _| tables.event_page(org, after, limit))
    }

    fn event(&self, id: EventId) -> Answer<'_, ReadResult<Option<EventSnapshot>>> {
        self.read(move |tables, _| tables.snapshot(id))
    }

    fn hold(&self, id: HoldId) -> Answer<'_, ReadResult<Option<Hold>>> {
        self.read(move |tables, _| tables.holds.get(&id).map(|(hold, _)| hold.clone()))
    }

    fn booking(&self, id: BookingId) -> Answer<'_, ReadResult<Option<Booking>>> {
        self.read(move |tables, _| tables.bookings.get(&id).map(|(booking, _)| booking.clone()))
    }

    fn holds_of_user(
        &self,
        org: OrgId,
        user: UserId,
        after: Option<HoldId>,
        limit: usize,
    ) -> Answer<'_, ReadResult<Vec<Hold>>> {
        self.read(move |tables, _| tables.holds_of_user(org, &user, after, limit))
    }

    fn journal(&self, stream: Stream, after: u64, limit: usize) -> Answer<'_, ReadResult<Vec<JournalRow>>> {
        self.read(move |tables, _| tables.journal(stream, after, limit))
    }

    fn active_holds(&self) -> Answer<'_, ReadResult<Vec<ActiveHold>>> {
        self.read(|tables, _| tables.active_holds(Time::from_millis(i64::MAX), usize::MAX))
    }

    fn due_holds(&self, limit: usize) -> Answer<'_, ReadResult<Vec<ActiveHold>>> {
        self.read(move |tables, now| tables.active_holds(now, limit))
    }

    fn sweep_records(&self, limit: usize) -> Answer<'_, ReadResult<usize>> {
        self.read(move |tables, now| tables.sweep_records(now, limit))
    }

    fn now(&self) -> Time {
        self.node_time()
    }

    fn ping(&self) -> Answer<'_, ReadResult<()>> {
        self.read(|_, _| ())
    }

    fn verify(&self, _progress: Progress) -> Answer<'_, ReadResult<Report>> {
        self.read(|tables, _| verify::verify(tables))
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async {})
    }
}
