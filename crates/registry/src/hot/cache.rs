//! Which events are in memory, how they get there and how they leave.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use metrics::{Counter, counter, describe_counter};
use parking_lot::{Mutex, RwLock};
use rowlock_core::{EventId, Fact, Stream};
use rowlock_truth::read::EventSnapshot;
use rowlock_truth::{Failure, Truth};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::{Notify, OnceCell};

use super::{HotEvent, LiveEvent, stored};
use crate::reconcile;
use crate::warm::{Unavailable, Warm};

/// Facts kept for an event that is being loaded, or that come after a gap. A load that nobody waits for any more must
/// not gather them for ever.
const MAX_STAGED: usize = 100_000;

/// Facts read from the journal at once.
const PAGE: usize = 1_000;

/// An event counts as so many seats at least: one without any takes memory too.
pub const LEAST_WEIGHT: u64 = 1_000;

pub struct HotTier {
    truth: Arc<dyn Truth>,
    warm: Option<Warm>,
    hits: Hits,
    /// Seats of all events together at most. The event unused for longest leaves first.
    limit: u64,
    slots: RwLock<FxHashMap<EventId, Arc<Slot>>>,
    uses: AtomicU64,
    gaps: Gaps,
    /// Broken on purpose.
    ignore_gaps: bool,
}

/// Where events were found.
struct Hits {
    hot: Counter,
    warm: Counter,
    truth: Counter,
}

impl Hits {
    fn new() -> Self {
        describe_counter!("rowlock_tier_hits_total", "Times an event was found in a tier.");
        let of = |tier: &'static str| counter!("rowlock_tier_hits_total", "tier" => tier);
        Self { hot: of("hot"), warm: of("warm"), truth: of("truth") }
    }
}

/// Events that have missed facts. Other nodes and other lanes commit too, so facts may come out of order.
#[derive(Default)]
struct Gaps {
    events: Mutex<FxHashSet<EventId>>,
    found: Notify,
}

struct Slot {
    /// All who want the event while it loads wait for one load.
    ready: OnceCell<Arc<LiveEvent>>,
    /// Facts that were committed while the event was being loaded.
    stage: Mutex<Stage>,
    last_use: AtomicU64,
    /// In seats. The least until it is loaded.
    weight: AtomicU64,
    /// Who waits for it to be loaded.
    waiting: AtomicUsize,
    /// Why it could not be loaded. Who has waited for that does not try it all over again, one after another.
    failed: OnceLock<Option<Failure>>,
}

impl Slot {
    /// Seats are added while an event is in memory, too.
    fn weigh(&self, event: &HotEvent) {
        self.weight.store(u64::from(event.seat_count()).max(LEAST_WEIGHT), Ordering::Relaxed);
    }
}

/// Lets the slot go when the last who waited for the event goes away before it is loaded: it may not even exist.
struct Waiter<'h> {
    hot: &'h HotTier,
    id: EventId,
    slot: &'h Arc<Slot>,
}

impl<'h> Waiter<'h> {
    fn new(hot: &'h HotTier, id: EventId, slot: &'h Arc<Slot>) -> Self {
        slot.waiting.fetch_add(1, Ordering::Relaxed);
        Self { hot, id, slot }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let is_last = self.slot.waiting.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last && self.slot.ready.get().is_none() {
            self.hot.forget(self.id, self.slot);
        }
    }
}

enum Stage {
    Loading(Vec<(u64, Fact)>),
    /// With the facts that came too early: some before them are missing.
    Ready(Arc<LiveEvent>, BTreeMap<u64, Fact>),
}

impl HotTier {
    pub fn new(truth: Arc<dyn Truth>, warm: Option<Warm>, limit: u64) -> Self {
        Self {
            truth,
            warm,
            hits: Hits::new(),
            limit,
            slots: RwLock::default(),
            uses: AtomicU64::new(0),
            gaps: Gaps::default(),
            ignore_gaps: false,
        }
    }

    pub(crate) fn ignoring_gaps(self, ignore_gaps: bool) -> Self {
        Self { ignore_gaps, ..self }
    }

    /// The event, loaded first if this process does not have it.
    pub async fn get(&self, id: EventId) -> Result<Option<Arc<LiveEvent>>, Failure> {
        match self.loaded(id) {
            Some(event) => Ok(Some(event)),
            // Boxed, because every request asks and hardly one of them loads: the others need not carry room for it.
            None => Box::pin(self.wait_for(id)).await,
        }
    }

    /// The event, if this process has it. This counts as a use of it.
    pub fn loaded(&self, id: EventId) -> Option<Arc<LiveEvent>> {
        let slots = self.slots.read();
        let slot = slots.get(&id)?;
        let event = Arc::clone(slot.ready.get()?);
        slot.last_use.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.hits.hot.increment(1);
        Some(event)
    }

    async fn wait_for(&self, id: EventId) -> Result<Option<Arc<LiveEvent>>, Failure> {
        let slot = self.slot(id);
        slot.last_use.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let _waiter = Waiter::new(self, id, &slot);
        match slot.ready.get_or_try_init(|| self.load_once(id, &slot)).await {
            Ok(event) => Ok(Some(Arc::clone(event))),
            Err(missing) => missing.map_or(Ok(None), Err),
        }
    }

    async fn load_once(&self, id: EventId, slot: &Arc<Slot>) -> Result<Arc<LiveEvent>, Option<Failure>> {
        if let Some(failed) = slot.failed.get() {
            return Err(failed.clone());
        }
        let loaded = self.load(id, slot).await;
        if let Err(failed) = &loaded {
            let _ = slot.failed.set(failed.clone());
            // Who comes from now on tries it again.
            self.forget(id, slot);
        }
        loaded
    }

    async fn load(&self, id: EventId, slot: &Slot) -> Result<Arc<LiveEvent>, Option<Failure>> {
        let (snapshot, is_copy) = self.snapshot(id).await?;
        let mut hot = HotEvent::new(snapshot);
        if self.truth.is_shared() {
            hot = hot.believing();
            let mut read = self.read_on(id, &mut hot).await;
            if read.is_err() && is_copy {
                // The journal does not follow from what Redis had.
                hot = HotEvent::new(self.truth.event(id).await.map_err(Some)?.ok_or(None)?).believing();
                read = self.read_on(id, &mut hot).await;
            }
            read?;
        }
        slot.weigh(&hot);
        self.make_room(&mut self.slots.write(), id);
        let event = Arc::new(LiveEvent::new(hot));
        let mut stage = slot.stage.lock();
        let early = match std::mem::replace(&mut *stage, Stage::Loading(Vec::new())) {
            Stage::Loading(facts) => facts.into_iter().collect(),
            Stage::Ready(_, early) => early,
        };
        *stage = Stage::Ready(Arc::clone(&event), early);
        self.catch_up(id, &mut stage);
        Ok(event)
    }

    /// From Redis if it has the event, else from the truth, and then Redis gets it. And whether it is from Redis.
    async fn snapshot(&self, id: EventId) -> Result<(EventSnapshot, bool), Option<Failure>> {
        let Some(warm) = self.warm.as_ref().filter(|warm| warm.is_up()) else {
            self.hits.truth.increment(1);
            return Ok((self.truth.event(id).await.map_err(Some)?.ok_or(None)?, false));
        };
        if let Ok(Some(snapshot)) = self.load_from_warm(warm, id).await {
            self.hits.warm.increment(1);
            return Ok((snapshot, true));
        }
        self.hits.truth.increment(1);
        let snapshot = self.truth.event(id).await.map_err(Some)?.ok_or(None)?;
        let (warm, copy, now) = (warm.clone(), snapshot.clone(), self.truth.now());
        tokio::spawn(async move { reconcile::save(&warm, copy.row.event.org, &copy, now).await });
        Ok((snapshot, false))
    }

    /// What was committed since the snapshot was made: the copy in Redis may have missed something.
    async fn read_on(&self, id: EventId, hot: &mut HotEvent) -> Result<(), Option<Failure>> {
        loop {
            let rows = self.truth.journal(Stream::Event(id), hot.sequence(), PAGE).await.map_err(Some)?;
            for row in &rows {
                if !row.fact().is_some_and(|fact| hot.apply(row.sequence, &fact)) {
                    return Err(Some(Failure::Unavailable("the journal of the event can't be read".into())));
                }
            }
            if rows.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// The event as Redis has it. `None` also when what it has is not the whole of it.
    pub(crate) async fn load_from_warm(
        &self,
        warm: &Warm,
        id: EventId,
    ) -> Result<Option<EventSnapshot>, Unavailable> {
        let shape = async || self.truth.shape(id).await.ok().flatten();
        let Some(org) = shape().await.map(|shape| shape.org) else { return Ok(None) };
        let Some(state) = warm.load(org, id).await? else { return Ok(None) };
        let Some((version, layout)) = warm.load_layout(org, id).await? else { return Ok(None) };
        // A layout from behind this sequence has things in it that the facts will bring once more.
        if version > state.sequence {
            return Ok(None);
        }
        // The layout only grows. If it is as large now as it is in Redis, it was as large at that sequence.
        Ok(shape().await.and_then(|after| stored::from_warm(&layout, &state, after)))
    }

    /// The event, if this process has it.
    pub fn peek(&self, id: EventId) -> Option<Arc<LiveEvent>> {
        let slot = self.slots.read().get(&id).map(Arc::clone)?;
        slot.ready.get().map(Arc::clone)
    }

    /// Takes in committed facts of an event. Those of events that nobody uses are not kept.
    pub fn apply<'f>(&self, id: EventId, facts: impl IntoIterator<Item = (u64, &'f Fact)>) {
        let Some(slot) = self.slots.read().get(&id).map(Arc::clone) else { return };
        let mut stage = slot.stage.lock();
        let staged = match &mut *stage {
            Stage::Loading(staged) => {
                staged.extend(facts.into_iter().map(|(sequence, fact)| (sequence, fact.clone())));
                staged.len()
            }
            Stage::Ready(event, early) => {
                let mut hot = event.write();
                for (sequence, fact) in facts {
                    if self.ignore_gaps {
                        hot.forget_gap(sequence);
                    }
                    let is_next = early.is_empty() && hot.apply(sequence, fact);
                    if !is_next && sequence > hot.sequence() {
                        early.insert(sequence, fact.clone());
                    }
                }
                slot.weigh(&hot);
                if early.is_empty() {
                    return;
                }
                early.len()
            }
        };
        self.catch_up(id, &mut stage);
        // With one writer facts come in order: one that is missing will not come any more.
        let hopeless =
            !self.truth.is_shared() && matches!(&*stage, Stage::Ready(_, early) if !early.is_empty());
        if hopeless || is_wrong(&stage) || staged > MAX_STAGED {
            tracing::warn!(event = %id, "the hot tier missed facts, loading the event again");
            self.forget(id, &slot);
        }
    }

    /// Applies what came too early as far as it fits now, and asks for what is missing before the rest.
    fn catch_up(&self, id: EventId, stage: &mut Stage) {
        let Stage::Ready(event, early) = stage else { return };
        let mut hot = event.write();
        while let Some(entry) = early.first_entry() {
            if !hot.apply(*entry.key(), entry.get()) {
                self.gaps.events.lock().insert(id);
                self.gaps.found.notify_one();
                return;
            }
            entry.remove();
        }
    }

    /// Waits until an event has missed facts, and returns all such events.
    pub async fn gaps(&self) -> Vec<EventId> {
        loop {
            let found: Vec<EventId> = self.gaps.events.lock().drain().collect();
            if !found.is_empty() {
                return found;
            }
            self.gaps.found.notified().await;
        }
    }

    /// The sequence that an event in memory is of.
    pub fn sequence(&self, id: EventId) -> Option<u64> {
        let slot = self.slots.read().get(&id).map(Arc::clone)?;
        slot.ready.get().map(|event| event.read().sequence())
    }

    /// Whether facts before some that are known are missing.
    pub fn has_gap(&self, id: EventId) -> bool {
        let slot = self.slots.read().get(&id).map(Arc::clone);
        slot.is_some_and(|slot| matches!(&*slot.stage.lock(), Stage::Ready(_, early) if !early.is_empty()))
    }

    /// The events in memory.
    pub fn ids(&self) -> Vec<EventId> {
        let slots = self.slots.read();
        slots.iter().filter(|(_, slot)| slot.ready.get().is_some()).map(|(id, _)| *id).collect()
    }

    /// Lets an event go: it is loaded again when it is wanted.
    pub fn drop_event(&self, id: EventId) {
        self.slots.write().remove(&id);
    }

    pub fn len(&self) -> usize {
        self.slots.read().values().filter(|slot| slot.ready.get().is_some()).count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn slot(&self, id: EventId) -> Arc<Slot> {
        if let Some(slot) = self.slots.read().get(&id) {
            return Arc::clone(slot);
        }
        let mut slots = self.slots.write();
        let slot = slots.entry(id).or_insert_with(|| {
            Arc::new(Slot {
                ready: OnceCell::new(),
                stage: Mutex::new(Stage::Loading(Vec::new())),
                last_use: AtomicU64::new(self.uses.load(Ordering::Relaxed)),
                weight: AtomicU64::new(LEAST_WEIGHT),
                waiting: AtomicUsize::new(0),
                failed: OnceLock::new(),
            })
        });
        let slot = Arc::clone(slot);
        self.make_room(&mut slots, id);
        slot
    }

    /// Lets events go until what is left is within the limit. Whoever is reading one keeps it until then. `wanted` stays,
    /// even if it alone is more than the limit.
    fn make_room(&self, slots: &mut FxHashMap<EventId, Arc<Slot>>, wanted: EventId) {
        let mut weight: u64 = slots.values().map(|slot| slot.weight.load(Ordering::Relaxed)).sum();
        while weight > self.limit {
            let others = slots.iter().filter(|(id, _)| **id != wanted);
            let Some(idle) = others.min_by_key(|(_, slot)| slot.last_use.load(Ordering::Relaxed)) else {
                return;
            };
            let idle = *idle.0;
            let gone = slots.remove(&idle);
            weight -= gone.map_or(0, |slot| slot.weight.load(Ordering::Relaxed));
        }
    }

    fn forget(&self, id: EventId, slot: &Arc<Slot>) {
        let mut slots = self.slots.write();
        if slots.get(&id).is_some_and(|current| Arc::ptr_eq(current, slot)) {
            slots.remove(&id);
        }
    }
}

/// Whether the next fact is there and can't be applied: it, or what is known, is not what the truth has.
fn is_wrong(stage: &Stage) -> bool {
    let Stage::Ready(event, early) = stage else { return false };
    let next = event.read().sequence().saturating_add(1);
    early.contains_key(&next)
}
