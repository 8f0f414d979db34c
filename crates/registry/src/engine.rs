//! The one write path: refuse early, queue in the lane, commit, apply, answer.

mod early;

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rowlock_core::booking::Booking;
use rowlock_core::fact::{Fact, Stream};
use rowlock_core::hold::Hold;
use rowlock_core::org::{ApiKey, Org};
use rowlock_core::{
    BookingId, Command, EventId, HoldId, KeyId, OrgId, Outcome, Refusal, Request, Time, UserId,
};
use rowlock_truth::read::{EventPage, JournalRow};
use rowlock_truth::{Belief, Committed, Durability, Truth};
use rustc_hash::{FxBuildHasher, FxHashSet};
use tokio::sync::{Notify, Semaphore, mpsc, watch};

use crate::api_keys::ApiKeys;
use crate::behind::Behind;
use crate::chance::Chance;
use crate::claims::Claims;
use crate::expiry::{self, Expiry};
use crate::health::{self, Health};
use crate::hot::{HotTier, LiveEvent};
use crate::lane::{Committal, Lane};
use crate::metrics::Metrics;
use crate::reconcile::{self, Comparison, Repairs};
use crate::tasks::Tasks;
use crate::warm::Warm;
use crate::{announce, follow};

/// Events that are compared at a time because somebody asked for it. Each is read whole, by the readers that all share.
const MAX_COMPARING: usize = 4;
/// Requests for new seats that may wait for each other. They are carried out one after another: each may be a transaction of a second, for
/// which all buyers wait, and the next buyers' batch comes between two of them.
const MAX_CREATING: usize = 64;
/// Batches that may wait to be told to other nodes.
const MAX_OUTGOING: usize = 1024;

#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Commands that may wait in the lane. One more is answered «busy» at once.
    pub lane_capacity: usize,
    /// Seats of the events in memory at most.
    pub hot_seats: u64,
    /// The hot tier refuses a held seat only when its hold lasts at least this much longer.
    pub refusal_margin: Duration,
    /// How often the truth is asked for expired holds that nobody ended.
    pub sweep_every: Duration,
    /// How often the streams of a shared truth are looked at, when nothing was heard of them.
    pub look_every: Duration,
    /// How often the tiers of the events in memory are compared and repaired.
    pub reconcile_every: Duration,
    pub chance: Chance,
    /// Takes facts in whatever is missing before them. For the simulator, which must notice.
    #[doc(hidden)]
    pub ignore_gaps: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            lane_capacity: 8192,
            hot_seats: 20_000_000,
            refusal_margin: Duration::from_secs(2),
            sweep_every: Duration::from_secs(30),
            look_every: Duration::from_millis(500),
            reconcile_every: Duration::from_secs(300),
            chance: Chance::default(),
            ignore_gaps: false,
        }
    }
}

/// The answer to a command that went through.
#[derive(Clone, Debug)]
pub struct Reply {
    pub outcome: Outcome,
    /// The recorded answer to an earlier request with the same idempotency key.
    pub replayed: bool,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The lane is full.
    #[error("too many requests are waiting")]
    Busy,
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    #[error("the command failed: {0}")]
    Broken(String),
    #[error("the server is stopping")]
    Stopping,
}

impl From<rowlock_truth::Failure> for Failure {
    fn from(failure: rowlock_truth::Failure) -> Self {
        match failure {
            rowlock_truth::Failure::Refused(refusal) => Failure::Refused(refusal),
            rowlock_truth::Failure::Unavailable(why) => Failure::Unavailable(why),
            rowlock_truth::Failure::Broken(why) => Failure::Broken(why),
        }
    }
}

/// The engine. Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    truth: Arc<dyn Truth>,
    tiers: Arc<Tiers>,
    /// One for each batch that the truth can commit at a time. With more than one, the last is left to housekeeping.
    lanes: Vec<Lane>,
    options: EngineOptions,
    metrics: Metrics,
    /// `None` when there is no warm tier.
    claims: Option<Arc<Claims>>,
    rebuilding: Mutex<FxHashSet<EventId>>,
    behind: Behind,
    reconcile_soon: Notify,
    /// Places for those who want whole events read from all tiers.
    comparing: Semaphore,
    /// Places for those who want new seats,
    creating: Semaphore,
    /// of whom one has its turn.
    turn_to_create: tokio::sync::Mutex<()>,
    durability: RwLock<Option<Durability>>,
    stopping: watch::Sender<bool>,
    tasks: Tasks,
}

/// What follows the committed facts in this process.
struct Tiers {
    hot: HotTier,
    expiry: Expiry,
    keys: ApiKeys,
    metrics: Metrics,
    /// Where the facts of a batch go that others shall hear of. `None` when there are no others.
    outward: Option<mpsc::Sender<Vec<(u64, Fact)>>>,
}

impl Engine {
    /// Starts the lanes and the reaper on a truth alone. Must be called on a Tokio runtime.
    pub async fn start(truth: Arc<dyn Truth>, options: EngineOptions) -> Result<Self, Failure> {
        Self::start_with(truth, None, options).await
    }

    /// The same, with a warm tier that other nodes share.
    pub async fn start_with(
        truth: Arc<dyn Truth>,
        warm: Option<Warm>,
        options: EngineOptions,
    ) -> Result<Self, Failure> {
        let metrics = Metrics::new();
        let (outward, outgoing) = mpsc::channel(MAX_OUTGOING);
        let tiers = Arc::new(Tiers {
            hot: HotTier::new(Arc::clone(&truth), warm.clone(), options.hot_seats)
                .ignoring_gaps(options.ignore_gaps),
            expiry: Expiry::default(),
            keys: ApiKeys::default(),
            metrics: metrics.clone(),
            outward: truth.is_shared().then_some(outward),
        });
        let tasks = Tasks::default();
        let claims = warm.map(|warm| Arc::new(Claims::start(warm, Arc::clone(&truth))));
        let lane = |number| {
            let (truth, committal) = (Arc::clone(&truth), Arc::clone(&tiers) as Arc<dyn Committal>);
            let claims = claims.clone();
            Lane::start(&tasks, truth, committal, claims, options.lane_capacity, number, metrics.clone())
        };
        let lanes = (0..truth.lanes()).map(lane).collect();
        let (sweep_every, look_every) = (options.sweep_every, options.look_every);
        let first_reconcile = options.reconcile_every.mul_f64(options.chance.fraction(0.5..1.0));
        let reconcile_every = options.reconcile_every;
        let inner = Inner {
            tiers,
            lanes,
            options,
            metrics,
            claims,
            truth,
            rebuilding: Mutex::default(),
            behind: Behind::default(),
            reconcile_soon: Notify::new(),
            comparing: Semaphore::new(MAX_COMPARING),
            creating: Semaphore::new(MAX_CREATING),
            turn_to_create: tokio::sync::Mutex::default(),
            durability: RwLock::default(),
            stopping: watch::Sender::new(false),
            tasks,
        };
        let engine = Self { inner: Arc::new(inner) };
        engine.expiry().fill(engine.truth().active_holds().await?);
        let tasks = &engine.inner.tasks;
        tasks.spawn("reaper", expiry::reap(engine.clone(), sweep_every));
        tasks.spawn("sweeper", expiry::sweep(engine.clone(), sweep_every));
        tasks.spawn("health", health::watch(engine.clone()));
        if engine.truth().is_shared() {
            tasks.spawn("follower", follow::follow(engine.clone(), look_every));
            tasks.spawn("announcer", announce::announce(engine.clone(), outgoing));
            tasks.spawn("reconciler", reconcile::run(engine.clone(), first_reconcile, reconcile_every));
        }
        Ok(engine)
    }

    /// The lane of a command. Those of one event meet in one lane, so that they are committed together instead of
    /// waiting for each other's locks. Any lane would be right.
    fn lane(&self, command: &Command) -> &Lane {
        let lanes = &self.inner.lanes;
        let buyers = lanes.len() - 1;
        if buyers == 0 || matches!(command, Command::Expire { .. }) {
            return &lanes[buyers];
        }
        let id = command.event().map(EventId::uuid).or(command.hold().map(HoldId::uuid)).unwrap_or_default();
        &lanes[(FxBuildHasher.hash_one(id) % buyers as u64) as usize]
    }

    /// Carries out a command, durably, or says why not.
    pub fn execute<R: Into<Box<Request>>>(&self, request: R) -> impl Future<Output = Result<Reply, Failure>> {
        self.carry_out(request.into())
    }

    /// The request is boxed because all that wait here carry it, and the larger they are, the less of them is in the
    /// processor's cache when their answer comes.
    async fn carry_out(&self, mut request: Box<Request>) -> Result<Reply, Failure> {
        let is_hold = matches!(request.command, Command::Hold(_) | Command::Book { .. });
        if is_hold {
            self.inner.metrics.attempts.increment(1);
        }
        let result = match self.refuse_early(&mut request).await {
            Some(refusal) => {
                self.inner.metrics.early_conflicts.increment(1);
                Err(Failure::Refused(refusal))
            }
            None if matches!(request.command, Command::CreateSeats { .. }) => {
                Box::pin(self.create_in_turn(request)).await
            }
            None => self.claim_and_submit(request).await,
        };
        match &result {
            Ok(_) if is_hold => self.inner.metrics.success.increment(1),
            Err(Failure::Refused(
                Refusal::SeatsTaken { .. } | Refusal::BlockFull { .. } | Refusal::AreaFull { .. },
            )) if is_hold => {
                self.inner.metrics.conflicts.increment(1);
            }
            Err(Failure::Busy) => self.inner.metrics.lane_full.increment(1),
            _ => {}
        }
        result
    }

    async fn create_in_turn(&self, request: Box<Request>) -> Result<Reply, Failure> {
        let _place = self.inner.creating.try_acquire().map_err(|_| Failure::Busy)?;
        let _turn = self.inner.turn_to_create.lock().await;
        self.claim_and_submit(request).await
    }

    async fn claim_and_submit(&self, request: Box<Request>) -> Result<Reply, Failure> {
        let lane = self.lane(&request.command);
        let claims = match &self.inner.claims {
            Some(claims) if self.may_be_claimed(&request).await => claims,
            _ => return lane.submit(request, None).await,
        };
        let request = if claims.can_be_made_together(&request.command) {
            match lane.submit_at_the_door(request).await {
                Ok(answer) => return answer,
                Err(contested) => contested,
            }
        } else {
            request
        };
        let claim = Box::pin(claims.claim(&request)).await?;
        lane.submit(request, claim).await
    }

    /// The event as this process sees it, loaded if need be. Another org's event does not exist.
    pub async fn event(&self, org: OrgId, id: EventId) -> Result<Arc<LiveEvent>, Failure> {
        match self.inner.tiers.hot.get(id).await? {
            Some(live) if live.org() == org => Ok(live),
            _ => Err(Refusal::UnknownEvent { event: id }.into()),
        }
    }

    /// The same, if this process has it.
    pub fn loaded(&self, org: OrgId, id: EventId) -> Option<Arc<LiveEvent>> {
        self.inner.tiers.hot.loaded(id).filter(|live| live.org() == org)
    }

    /// Reads what other nodes have done to an event and this one has not heard of yet.
    pub async fn catch_up(&self, event: EventId) {
        follow::catch_up(self, event).await;
    }

    pub async fn events(
        &self,
        org: OrgId,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<EventPage, Failure> {
        Ok(self.truth().events(org, after, limit).await?)
    }

    /// The hold as the truth has it. One past its time reads as expired, tidied or not.
    pub async fn hold(&self, org: OrgId, id: HoldId) -> Result<Hold, Failure> {
        let unknown = Refusal::UnknownHold { hold: id };
        let hold = self.truth().hold(id).await?.filter(|hold| hold.org == org).ok_or(unknown)?;
        Ok(self.as_of_now(hold))
    }

    pub async fn holds_of_user(
        &self,
        org: OrgId,
        user: UserId,
        after: Option<HoldId>,
        limit: usize,
    ) -> Result<Vec<Hold>, Failure> {
        let holds = self.truth().holds_of_user(org, user, after, limit).await?;
        Ok(holds.into_iter().map(|hold| self.as_of_now(hold)).collect())
    }

    fn as_of_now(&self, mut hold: Hold) -> Hold {
        if hold.is_due(self.now()) {
            hold.status = rowlock_core::hold::HoldStatus::Expired;
            hold.ended_at = Some(hold.expires_at);
        }
        hold
    }

    pub async fn booking(&self, org: OrgId, id: BookingId) -> Result<Booking, Failure> {
        let unknown = Refusal::UnknownBooking { booking: id };
        Ok(self.truth().booking(id).await?.filter(|booking| booking.org == org).ok_or(unknown)?)
    }

    /// A page of an event's journal, in sequence, from behind `after`.
    pub async fn journal(
        &self,
        org: OrgId,
        event: EventId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<JournalRow>, Failure> {
        let of = match self.hot().peek(event) {
            Some(live) => Some(live.org()),
            None => self.truth().shape(event).await?.map(|shape| shape.org),
        };
        if of != Some(org) {
            return Err(Refusal::UnknownEvent { event }.into());
        }
        Ok(self.truth().journal(Stream::Event(event), after, limit).await?)
    }

    pub async fn org(&self, id: OrgId) -> Result<Org, Failure> {
        Ok(self.truth().org(id).await?.ok_or(Refusal::UnknownOrg { org: id })?)
    }

    pub async fn orgs(&self, after: Option<OrgId>, limit: usize) -> Result<Vec<Org>, Failure> {
        Ok(self.truth().orgs(after, limit).await?)
    }

    pub async fn api_keys(
        &self,
        org: OrgId,
        after: Option<KeyId>,
        limit: usize,
    ) -> Result<Vec<ApiKey>, Failure> {
        Ok(self.truth().api_keys(org, after, limit).await?)
    }

    /// An API key that is in force. Called for every request that comes with one.
    pub async fn api_key(&self, id: KeyId) -> Result<Option<ApiKey>, Failure> {
        self.inner.tiers.keys.get(self.truth(), id).await
    }

    pub fn now(&self) -> Time {
        self.inner.truth.now()
    }

    /// Another number when sequences of the journal may stand for other facts than before.
    pub fn history(&self) -> u64 {
        self.truth().history()
    }

    /// Whether commands can be carried out: the truth answers and the engine is not stopping.
    pub async fn ready(&self) -> Result<(), Failure> {
        if self.is_stopping() {
            return Err(Failure::Stopping);
        }
        Ok(self.truth().ping().await?)
    }

    /// How the tiers are doing, for whoever looks after them.
    pub async fn health(&self) -> Health {
        health::health(self).await
    }

    /// How the event looks in each tier, and where they differ.
    pub async fn compare(&self, org: OrgId, event: EventId) -> Result<Comparison, Failure> {
        let _place = self.inner.comparing.acquire().await;
        reconcile::compare(self, org, event).await
    }

    /// Brings the tiers to agree with the truth, while sales go on.
    pub async fn reconcile(&self, org: OrgId, event: EventId) -> Result<Repairs, Failure> {
        let _place = self.inner.comparing.acquire().await;
        reconcile::reconcile(self, org, event).await
    }

    /// Commands waiting in the fullest lane, and how many may.
    pub fn lane_depth(&self) -> (usize, usize) {
        let depth = self.inner.lanes.iter().map(Lane::depth).max().unwrap_or(0);
        (depth, self.inner.options.lane_capacity)
    }

    /// Brings those metrics up to date that tell how things stand. For whoever is about to read them.
    pub fn observe(&self) {
        self.inner.lanes.iter().for_each(Lane::observe);
        self.inner.claims.iter().for_each(|claims| claims.observe());
        self.inner.metrics.hot_events.set(self.hot().len() as f64);
        let beliefs = self.truth().beliefs();
        self.inner.metrics.beliefs_kept.absolute(beliefs.kept);
        self.inner.metrics.beliefs_wrong.absolute(beliefs.wrong);
    }

    /// Finishes everything that was accepted, then closes the truth.
    pub async fn stop(&self) {
        self.inner.stopping.send_replace(true);
        self.inner.lanes.iter().for_each(Lane::stop);
        self.inner.tasks.end().await;
        self.truth().close().await;
    }

    /// Waits until a task of the engine has ended badly. Then the process can only be started anew.
    pub async fn broken(&self) {
        self.inner.tasks.broken().await;
    }

    pub fn is_broken(&self) -> bool {
        self.inner.tasks.is_broken()
    }

    pub fn is_stopping(&self) -> bool {
        *self.inner.stopping.borrow()
    }

    pub(crate) async fn stopping(&self) {
        let _ = self.inner.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    pub(crate) fn truth(&self) -> &dyn Truth {
        &*self.inner.truth
    }

    pub(crate) fn expiry(&self) -> &Expiry {
        &self.inner.tiers.expiry
    }

    pub(crate) fn warm(&self) -> Option<&Warm> {
        self.inner.claims.as_ref().map(|claims| &claims.warm)
    }

    /// `false`: somebody is at it already.
    pub(crate) fn begin_rebuild(&self, event: EventId) -> bool {
        self.inner.rebuilding.lock().insert(event)
    }

    pub(crate) fn end_rebuild(&self, event: EventId) {
        self.inner.rebuilding.lock().remove(&event);
    }

    /// Has all events in memory reconciled now.
    pub(crate) fn reconcile_soon(&self) {
        self.inner.reconcile_soon.notify_one();
    }

    pub(crate) async fn reconcile_wanted(&self) {
        self.inner.reconcile_soon.notified().await;
    }

    pub(crate) fn behind(&self) -> &Behind {
        &self.inner.behind
    }

    pub(crate) fn durability(&self) -> &RwLock<Option<Durability>> {
        &self.inner.durability
    }

    /// The event as this process knows it. `None` when it is not in memory.
    pub fn in_memory(&self, event: EventId) -> Option<Arc<LiveEvent>> {
        self.hot().peek(event)
    }

    pub(crate) fn hot(&self) -> &HotTier {
        &self.inner.tiers.hot
    }

    /// Takes in a fact that another node may have committed.
    pub(crate) fn learn(&self, event: EventId, sequence: u64, fact: &Fact) {
        self.inner.tiers.hot.apply(event, [(sequence, fact)]);
        self.inner.tiers.expiry.apply_foreign(fact);
    }

    /// Keys of an org are read again when they are used.
    pub(crate) fn forget_keys(&self, org: OrgId) {
        self.inner.tiers.keys.forget(org);
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }
}

impl Committal for Tiers {
    fn believe(&self, request: &Request) -> Option<Belief> {
        // Who is alone with its truth has nothing to gain: reading is quick there.
        self.outward.as_ref()?;
        let Command::Hold(places) = &request.command else { return None };
        let live = self.hot.peek(places.event).filter(|live| live.org() == request.org)?;
        live.read().believe(places)
    }

    fn committed(&self, batch: &[Result<Committed, rowlock_truth::Failure>]) {
        let facts: Vec<(Stream, u64, &Fact)> = batch
            .iter()
            .flatten()
            .flat_map(|committed| &committed.facts)
            .map(|(sequence, fact)| (fact.stream(), *sequence, fact))
            .collect();
        // Those of one event at once: it is looked up and locked for all of them instead of for each.
        for of_stream in facts.chunk_by(|(one, ..), (other, ..)| one == other) {
            if let [(Stream::Event(event), ..), ..] = of_stream {
                self.hot.apply(*event, of_stream.iter().map(|(_, sequence, fact)| (*sequence, *fact)));
            }
        }
        self.expiry.apply(facts.iter().map(|(.., fact)| *fact));
        facts.iter().for_each(|(.., fact)| self.metrics.count(fact));
        for committed in batch.iter().flatten() {
            // By the outcome and not by the fact: revoking again what is revoked has no fact, and must work as well.
            if let Outcome::ApiKey(key) = &committed.outcome
                && key.revoked_at.is_some()
            {
                self.keys.revoke(key.id);
            }
        }
    }

    fn publish(&self, batch: &mut [Result<Committed, rowlock_truth::Failure>]) {
        let Some(outward) = &self.outward else { return };
        let facts: Vec<(u64, Fact)> =
            batch.iter_mut().flatten().flat_map(|committed| std::mem::take(&mut committed.facts)).collect();
        // When nobody takes them any more they are lost here; the others find them in the journal.
        if !facts.is_empty() && outward.try_send(facts).is_err() {
            self.metrics.announcements_lost.increment(1);
        }
    }
}
