//! Which events are in memory, how they get there and how they leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use rowlock_core::{EventId, Fact};
use rowlock_truth::{Failure, Truth};
use rustc_hash::FxHashMap;
use tokio::sync::OnceCell;

use super::{HotEvent, LiveEvent};

/// Facts kept for an event that is being loaded. A load that nobody waits for any more must not gather them for ever.
const MAX_STAGED: usize = 100_000;

pub struct HotTier {
    truth: Arc<dyn Truth>,
    /// Events kept at most. The one unused for longest leaves first.
    limit: usize,
    slots: RwLock<FxHashMap<EventId, Arc<Slot>>>,
    uses: AtomicU64,
}

struct Slot {
    /// All who want the event while it loads wait for one load.
    ready: OnceCell<Arc<LiveEvent>>,
    /// Facts that were committed while the event was being loaded.
    stage: Mutex<Stage>,
    last_use: AtomicU64,
}

enum Stage {
    Loading(Vec<(u64, Fact)>),
    Ready(Arc<LiveEvent>),
}

impl HotTier {
    pub fn new(truth: Arc<dyn Truth>, limit: usize) -> Self {
        Self { truth, limit, slots: RwLock::default(), uses: AtomicU64::new(0) }
    }

    /// The event, loaded first if this process does not have it.
    pub async fn get(&self, id: EventId) -> Result<Option<Arc<LiveEvent>>, Failure> {
        let slot = self.slot(id);
        slot.last_use.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        if let Some(event) = slot.ready.get() {
            return Ok(Some(Arc::clone(event)));
        }
        let loaded = slot.ready.get_or_try_init(|| self.load(id, &slot)).await;
        match loaded {
            Ok(event) => Ok(Some(Arc::clone(event))),
            Err(missing) => {
                self.forget(id, &slot);
                missing.map_or(Ok(None), Err)
            }
        }
    }

    async fn load(&self, id: EventId, slot: &Slot) -> Result<Arc<LiveEvent>, Option<Failure>> {
        let snapshot = self.truth.event(id).await.map_err(Some)?.ok_or(None)?;
        let mut event = HotEvent::new(snapshot);
        let mut stage = slot.stage.lock();
        if let Stage::Loading(facts) = &*stage {
            for (sequence, fact) in facts {
                if !event.apply(*sequence, fact) {
                    return Err(Some(Failure::Unavailable("the journal of the event has a gap".into())));
                }
            }
        }
        let event = Arc::new(LiveEvent::new(event));
        *stage = Stage::Ready(Arc::clone(&event));
        Ok(event)
    }

    /// Takes in a committed fact of an event. Facts of events that nobody uses are not kept.
    pub fn apply(&self, id: EventId, sequence: u64, fact: &Fact) {
        let Some(slot) = self.slots.read().get(&id).map(Arc::clone) else { return };
        let mut stage = slot.stage.lock();
        match &mut *stage {
            Stage::Loading(facts) if facts.len() < MAX_STAGED => facts.push((sequence, fact.clone())),
            Stage::Loading(_) => self.forget(id, &slot),
            Stage::Ready(event) => {
                if !event.write().apply(sequence, fact) {
                    tracing::warn!(event = %id, sequence, "the hot tier missed a fact, loading the event again");
                    self.forget(id, &slot);
                }
            }
        }
    }

    pub fn len(&self) -> usize {
        self.slots.read().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn slot(&self, id: EventId) -> Arc<Slot> {
        if let Some(slot) = self.slots.read().get(&id) {
            return Arc::clone(slot);
        }
        let mut slots = self.slots.write();
        if slots.len() >= self.limit && !slots.contains_key(&id) {
            let idle = slots.iter().min_by_key(|(_, slot)| slot.last_use.load(Ordering::Relaxed));
            if let Some(idle) = idle.map(|(id, _)| *id) {
                slots.remove(&idle);
            }
        }
        let slot = slots.entry(id).or_insert_with(|| {
            Arc::new(Slot {
                ready: OnceCell::new(),
                stage: Mutex::new(Stage::Loading(Vec::new())),
                last_use: AtomicU64::new(self.uses.load(Ordering::Relaxed)),
            })
        });
        Arc::clone(slot)
    }

    fn forget(&self, id: EventId, slot: &Arc<Slot>) {
        let mut slots = self.slots.write();
        if slots.get(&id).is_some_and(|current| Arc::ptr_eq(current, slot)) {
            slots.remove(&id);
        }
    }
}
