//! Comparing the tiers, and bringing them to agree with the truth while sales go on.
//!
//! Tiers are read one after another, and commands are carried out meanwhile. So a difference counts only when it is
//! there twice, a moment apart: what was on its way has arrived by then.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use rowlock_core::area::Area;
use rowlock_core::seat::{SeatState, SeatStatus};
use rowlock_core::{Actor, AreaId, Command, EventId, HoldId, OrgId, Outcome, Refusal, Request, SeatId, Time};
use rowlock_truth::read::EventSnapshot;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::time::Instant;

use crate::behind::Mending;
use crate::engine::{Engine, Failure, Reply};
use crate::follow;
use crate::hot::stored;
use crate::warm::{Owner, Unavailable, Warm, WarmHeld};

/// How long a difference must last to count.
const TWICE: Duration = Duration::from_millis(200);
/// Seats whose claims are read at once.
const PAGE: usize = 4_000;
/// Events that are reconciled at a time.
const AT_ONCE: usize = 4;
/// A rebuild that was just done is not done again.
const REBUILD_PAUSE: Duration = Duration::from_secs(1);
/// Holds past their time that one reconciliation ends.
const MAX_EXPIRED: usize = 1_000;

/// Where something differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    Seat(SeatId),
    Area(AreaId),
    /// All that the tier says, because it is of an older sequence.
    Event(EventId),
}

/// What differs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Difference {
    /// Redis has a claim of a hold that the truth does not have.
    ClaimWithoutHold,
    /// The truth has a hold without a claim in Redis.
    HoldWithoutClaim,
    /// The copy of the event in Redis shows something else than the truth.
    Copy,
    /// This process shows something else than the truth.
    Hot,
}

/// How an event looks in each tier.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Journal sequences. `None`: the tier does not have the event, or can't be asked.
    pub hot_sequence: Option<u64>,
    pub warm_sequence: Option<u64>,
    pub truth_sequence: u64,
    /// Held seats, those past their time included.
    pub hot_holds: Option<usize>,
    pub warm_holds: Option<usize>,
    pub truth_holds: usize,
    pub differences: BTreeSet<(Place, Difference)>,
    /// Whether the warm tier could be asked. `true` when there is none.
    pub complete: bool,
}

impl Comparison {
    pub fn agrees(&self) -> bool {
        self.complete && self.differences.is_empty()
    }
}

/// What a reconciliation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    pub claims_removed: usize,
    pub claims_restored: usize,
    pub holds_expired: usize,
    pub copies_rebuilt: usize,
    pub hot_reloaded: usize,
}

impl Repairs {
    pub fn total(&self) -> usize {
        self.claims_removed
            + self.claims_restored
            + self.holds_expired
            + self.copies_rebuilt
            + self.hot_reloaded
    }
}

/// The tiers at about the same time.
struct View {
    truth: EventSnapshot,
    hot: Option<Hot>,
    /// Claims that a commit has confirmed, by ordinal.
    claims: Option<FxHashMap<u32, Owner>>,
    copy: Option<EventSnapshot>,
    /// Whether Redis could say what it has of the event. `true` when there is none.
    warm_is_known: bool,
}

struct Hot {
    sequence: u64,
    seats: Vec<(SeatStatus, HoldId)>,
    areas: Vec<Area>,
}

pub(crate) async fn compare(engine: &Engine, org: OrgId, event: EventId) -> Result<Comparison, Failure> {
    let (view, differences) = twice(engine, org, event).await?;
    let is_held = |state: &SeatState| matches!(state, SeatState::Held { .. });
    let held = |snapshot: &EventSnapshot| snapshot.seats.iter().filter(|seat| is_held(&seat.state)).count();
    Ok(Comparison {
        hot_sequence: view.hot.as_ref().map(|hot| hot.sequence),
        warm_sequence: view.copy.as_ref().map(|copy| copy.sequence),
        truth_sequence: view.truth.sequence,
        hot_holds: view
            .hot
            .as_ref()
            .map(|hot| hot.seats.iter().filter(|(status, _)| *status == SeatStatus::Held).count()),
        warm_holds: view.copy.as_ref().map(held),
        truth_holds: held(&view.truth),
        differences: differences.into_iter().collect(),
        complete: view.warm_is_known,
    })
}

/// The tiers, and the differences that last.
async fn twice(
    engine: &Engine,
    org: OrgId,
    event: EventId,
) -> Result<(View, FxHashSet<(Place, Difference)>), Failure> {
    let view = look(engine, org, event).await?;
    let first = differences(engine, &view);
    lasting(engine, org, event, view, first).await
}

/// Those of the differences that are still there a moment later, and the tiers as they are then.
async fn lasting(
    engine: &Engine,
    org: OrgId,
    event: EventId,
    view: View,
    first: FxHashMap<(Place, Difference), Values>,
) -> Result<(View, FxHashSet<(Place, Difference)>), Failure> {
    if first.is_empty() {
        return Ok((view, FxHashSet::default()));
    }
    tokio::time::sleep(TWICE).await;
    let view = look(engine, org, event).await?;
    // The same difference, not another one at the same seat: on a busy event that is something on its way each time.
    let still =
        differences(engine, &view).into_iter().filter(|(place, values)| first.get(place) == Some(values));
    let still = still.map(|(place, _)| place).collect();
    Ok((view, still))
}

async fn look(engine: &Engine, org: OrgId, event: EventId) -> Result<View, Failure> {
    let unknown = || Failure::Refused(Refusal::UnknownEvent { event });
    let truth =
        engine.truth().event(event).await?.filter(|found| found.row.event.org == org).ok_or_else(unknown)?;
    follow::catch_up(engine, event).await;
    let hot = engine.hot().peek(event).map(|live| {
        let hot = live.read();
        let seats = (0..hot.seat_count()).map(|ordinal| hot.status_and_hold(ordinal)).collect();
        Hot { sequence: hot.sequence(), seats, areas: hot.areas().to_vec() }
    });
    let mut view = View { truth, hot, claims: None, copy: None, warm_is_known: true };
    if let Some(warm) = engine.warm() {
        view.claims = claims(warm, org, event, view.truth.seats.len() as u32).await.ok();
        let copy = engine.hot().load_from_warm(warm, event).await;
        view.warm_is_known = view.claims.is_some() && copy.is_ok();
        view.copy = copy.ok().flatten();
    }
    Ok(view)
}

/// Those that a commit has confirmed.
async fn claims(
    warm: &Warm,
    org: OrgId,
    event: EventId,
    seats: u32,
) -> Result<FxHashMap<u32, Owner>, Unavailable> {
    let mut claims = FxHashMap::default();
    for first in (0..seats).step_by(PAGE) {
        let ordinals: Vec<u32> = (first..seats.min(first + PAGE as u32)).collect();
        let ids: Vec<SeatId> = ordinals.iter().map(|ordinal| SeatId::of(event, *ordinal)).collect();
        for (ordinal, owner) in ordinals.into_iter().zip(warm.owners(org, event, &ids).await?) {
            if let Some(owner) = owner.filter(|owner| !owner.pending) {
                claims.insert(ordinal, owner);
            }
        }
    }
    Ok(claims)
}

/// What the truth has at a place, and what the tier has.
#[derive(PartialEq, Eq)]
enum Values {
    Seat((SeatStatus, Option<HoldId>), Option<(SeatStatus, Option<HoldId>)>),
    /// Places that are held and sold.
    Area((u32, u32), Option<(u32, u32)>),
    /// The tier's sequence. The truth's goes up meanwhile; a tier that follows it does too.
    Behind(u64),
}

fn differences(engine: &Engine, view: &View) -> FxHashMap<(Place, Difference), Values> {
    let mut found = FxHashMap::default();
    seat_differences(engine.now(), view, &mut found);
    // Counters move all the time on a busy event. They can be compared when they are of the same sequence, and then
    // they must be equal.
    let same = |sequence: u64| sequence == view.truth.sequence;
    if let Some(copy) = view.copy.as_ref().filter(|copy| same(copy.sequence)) {
        area_differences(&view.truth, &copy.areas, Difference::Copy, &mut found);
    }
    // Its seats may happen to be right. It waits for a fact that it missed, and takes none that come later.
    if let Some(copy) = view.copy.as_ref().filter(|copy| copy.sequence < view.truth.sequence) {
        let whole = Place::Event(view.truth.row.event.id);
        found.insert((whole, Difference::Copy), Values::Behind(copy.sequence));
    }
    if let Some(hot) = view.hot.as_ref().filter(|hot| same(hot.sequence)) {
        area_differences(&view.truth, &hot.areas, Difference::Hot, &mut found);
    }
    found
}

fn seat_differences(now: Time, view: &View, found: &mut FxHashMap<(Place, Difference), Values>) {
    let event = view.truth.row.event.id;
    for (ordinal, seat) in (0_u32..).zip(&view.truth.seats) {
        // One past its time is over for whoever asks; whether it was tidied everywhere does not matter.
        if matches!(seat.state, SeatState::Held { until, .. } if until <= now) {
            continue;
        }
        let truth = (seat.state.status(), seat.state.hold());
        let mut differs = |what, tier| {
            found.insert((Place::Seat(SeatId::of(event, ordinal)), what), Values::Seat(truth, tier));
        };
        if let Some(claims) = &view.claims {
            match (claims.get(&ordinal).map(|owner| owner.hold), truth.1) {
                (None, None) => {}
                (Some(claimed), held) if claimed == held => {}
                (Some(claimed), _) => {
                    differs(Difference::ClaimWithoutHold, Some((SeatStatus::Held, claimed)));
                }
                (None, Some(_)) => differs(Difference::HoldWithoutClaim, None),
            }
        }
        if let Some(copy) = &view.copy {
            let copy = copy.seats.get(ordinal as usize);
            let copy = copy.map(|copy| (copy.state.status(), copy.state.hold()));
            if copy != Some(truth) {
                differs(Difference::Copy, copy);
            }
        }
        if let Some(hot) = &view.hot {
            let hot = hot.seats.get(ordinal as usize);
            let hot = hot.map(|(status, hold)| (*status, (*status == SeatStatus::Held).then_some(*hold)));
            if hot != Some(truth) {
                differs(Difference::Hot, hot);
            }
        }
    }
}

fn area_differences(
    truth: &EventSnapshot,
    tier: &[Area],
    what: Difference,
    found: &mut FxHashMap<(Place, Difference), Values>,
) {
    for area in &truth.areas {
        let counted = tier.iter().find(|other| other.id == area.id).map(|other| (other.held, other.sold));
        let stored = (area.held, area.sold);
        if counted != Some(stored) {
            found.insert((Place::Area(area.id), what), Values::Area(stored, counted));
        }
    }
}

/// Repairs what differs, both ways: claims without holds go, holds without claims get theirs or end.
pub(crate) async fn reconcile(engine: &Engine, org: OrgId, event: EventId) -> Result<Repairs, Failure> {
    let mut repairs = Repairs::default();
    let mut view = look(engine, org, event).await?;
    let mut first = differences(engine, &view);
    let written = write_missing(engine, &view).await;
    if written == Ok(true) {
        repairs.copies_rebuilt = 1;
        let unclaimed = first.keys().filter(|(_, what)| *what == Difference::HoldWithoutClaim);
        repairs.claims_restored = unclaimed.count();
        if is_at(engine, event, view.truth.sequence).await {
            first.retain(|(_, what), _| *what != Difference::HoldWithoutClaim);
        } else {
            view = look(engine, org, event).await?;
            first = differences(engine, &view);
        }
    }
    let (view, differences) = lasting(engine, org, event, view, first).await?;
    repairs.holds_expired = expire_due(engine, &view.truth).await;
    let repaired = match engine.warm() {
        Some(warm) => repair_warm(engine, warm, org, event, &view, &differences, &mut repairs).await,
        None => Ok(()),
    };
    if differences.iter().any(|(_, what)| *what == Difference::Hot) {
        engine.hot().drop_event(event);
        // At once: what is not in memory is not looked at again, and Redis may still have to be repaired.
        let _ = engine.hot().get(event).await;
        repairs.hot_reloaded = 1;
    }
    engine.metrics().reconciled(repairs.total(), engine.now());
    if repairs.total() > 0 {
        tracing::warn!(%event, ?repairs, "the tiers did not agree and were repaired");
    }
    match written.and(repaired) {
        Ok(()) => Ok(repairs),
        // What can't be repaired now is found again next time.
        Err(Unavailable) => Err(Failure::Unavailable("Redis is away, or refuses what it is asked".into())),
    }
}

/// An event that is missing in Redis as a whole is written as a whole. Says whether it was.
async fn write_missing(engine: &Engine, view: &View) -> Result<bool, Unavailable> {
    let missing = view.claims.is_some() && view.copy.is_none();
    let Some(warm) = engine.warm().filter(|_| missing) else { return Ok(false) };
    let event = &view.truth.row.event;
    if save(warm, event.org, &view.truth, engine.now()).await.is_err() {
        if view.warm_is_known {
            // It changes faster than it can be read or written. What is there may well be right.
            return Err(Unavailable);
        }
        // Somebody may have put something else in its place.
        warm.forget(event.org, event.id).await?;
        save(warm, event.org, &view.truth, engine.now()).await?;
    }
    Ok(true)
}

/// Whether nothing has happened in the event since then, so that what was read and written then is true now.
async fn is_at(engine: &Engine, event: EventId, sequence: u64) -> bool {
    engine.truth().heads(vec![event]).await.is_ok_and(|heads| heads == [(event, sequence)])
}

async fn repair_warm(
    engine: &Engine,
    warm: &Warm,
    org: OrgId,
    event: EventId,
    view: &View,
    differences: &FxHashSet<(Place, Difference)>,
    repairs: &mut Repairs,
) -> Result<(), Unavailable> {
    let claims = view.claims.as_ref().ok_or(Unavailable)?;
    let mut stale = Vec::new();
    let mut missing = Vec::new();
    for (place, what) in differences {
        let Place::Seat(id) = place else { continue };
        let ordinal = id.raw_ordinal();
        let seat = &view.truth.seats[ordinal as usize];
        match (what, seat.state, &seat.user) {
            (Difference::ClaimWithoutHold, state, user) => {
                stale.extend(claims.get(&ordinal).map(|owner| (*id, owner.clone())));
                if let (SeatState::Held { hold, until }, Some(user)) = (state, user) {
                    missing.push(WarmHeld { ordinal, hold, user: user.clone(), until });
                }
            }
            (Difference::HoldWithoutClaim, SeatState::Held { hold, until }, Some(user)) => {
                missing.push(WarmHeld { ordinal, hold, user: user.clone(), until });
            }
            _ => {}
        }
    }
    for some in stale.chunks(PAGE) {
        warm.heal(org, event, some).await?;
    }
    repairs.claims_removed += stale.len();
    warm.restore(org, event, view.truth.sequence, engine.now(), &missing).await?;
    repairs.claims_restored += missing.len();
    if differences.iter().any(|(_, what)| *what == Difference::Copy) {
        warm.forget(org, event).await?;
        rebuild(engine, warm, org, event).await?;
        repairs.copies_rebuilt = 1;
    }
    Ok(())
}

/// Ends holds that are past their time and that nobody has ended.
async fn expire_due(engine: &Engine, truth: &EventSnapshot) -> usize {
    let now = engine.now();
    let due: FxHashSet<HoldId> = truth
        .seats
        .iter()
        .filter_map(|seat| match seat.state {
            SeatState::Held { hold, until } if until.plus_millis(1_000) <= now => Some(hold),
            _ => None,
        })
        .take(MAX_EXPIRED)
        .collect();
    let ended = due.into_iter().map(|hold| {
        engine.execute(Request {
            org: truth.row.event.org,
            actor: Actor::System,
            request_id: "reconcile".into(),
            idempotency: None,
            command: Command::Expire { hold },
        })
    });
    // Somebody else may have ended it since it was read: the reaper of another node, or a buyer who wants the seats.
    let is_ended_here = |reply: &Reply| matches!(&reply.outcome, Outcome::Hold(held) if held.changed);
    futures::future::join_all(ended).await.iter().flatten().filter(|reply| is_ended_here(reply)).count()
}

/// Reconciles many events, some at a time: reading the truth, comparing and writing Redis go on side by side.
pub async fn reconcile_all(
    engine: &Engine,
    events: &[(OrgId, EventId)],
    done_one: impl Fn(),
) -> Result<Repairs, Failure> {
    let mut running = futures::stream::iter(events.iter().copied())
        .map(|(org, event)| async move { engine.reconcile(org, event).await })
        .buffer_unordered(AT_ONCE);
    let mut sum = Repairs::default();
    while let Some(repairs) = running.next().await {
        let repairs = repairs?;
        sum.claims_removed += repairs.claims_removed;
        sum.claims_restored += repairs.claims_restored;
        sum.holds_expired += repairs.holds_expired;
        sum.copies_rebuilt += repairs.copies_rebuilt;
        sum.hot_reloaded += repairs.hot_reloaded;
        done_one();
    }
    Ok(sum)
}

/// Writes the event into Redis as the truth has it now.
async fn rebuild(engine: &Engine, warm: &Warm, org: OrgId, event: EventId) -> Result<(), Unavailable> {
    let Ok(Some(snapshot)) = engine.truth().event(event).await else { return Ok(()) };
    save(warm, org, &snapshot, engine.now()).await
}

pub(crate) async fn save(
    warm: &Warm,
    org: OrgId,
    snapshot: &EventSnapshot,
    now: Time,
) -> Result<(), Unavailable> {
    let (state, layout) = (stored::warm_event(snapshot), stored::layout_bytes(snapshot));
    warm.save_layout(org, state.event, state.sequence, &layout).await?;
    warm.save(org, &state, now).await
}

/// Has an event written into Redis that is missing there. Does not wait, and not twice at a time.
pub(crate) fn rebuild_soon(engine: &Engine, org: OrgId, event: EventId) {
    if !engine.begin_rebuild(event) {
        return;
    }
    let engine = engine.clone();
    tokio::spawn(async move {
        if let Some(warm) = engine.warm() {
            let _ = rebuild(&engine, warm, org, event).await;
        }
        tokio::time::sleep(REBUILD_PAUSE).await;
        engine.end_rebuild(event);
    });
}

/// Why events are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Redis has come back, and has missed something.
    Outage,
    /// It was told of something in vain, and is not away.
    Failure,
    /// It is time, or the truth was replaced.
    Time,
}

/// Reconciles the events in memory now and then, and whenever Redis has come back or the truth was replaced, and soon those of
/// which Redis could not be told something. Runs until the engine stops.
/// `first`: how long until the first time. Nodes that were started together do not all do it at once.
pub(crate) async fn run(engine: Engine, first: Duration, every: Duration) {
    let mut closings = engine.warm().map(Warm::closings);
    let mut next = Instant::now() + first;
    let mut mending = Mending::new(every);
    loop {
        let closed = async {
            match &mut closings {
                Some(closings) => closings.changed().await,
                None => std::future::pending().await,
            }
        };
        // In order, so that a simulated run can be repeated.
        let why = tokio::select! {
            biased;
            () = engine.stopping() => return,
            () = closed => Why::Outage,
            () = engine.reconcile_wanted() => Why::Time,
            () = tokio::time::sleep_until(next) => Why::Time,
            () = mending.due(engine.behind()) => Why::Failure,
        };
        if why == Why::Failure {
            mend(&engine, &mut mending).await;
            continue;
        }
        let mut events = engine.behind().take_all();
        let in_memory = engine.hot().ids();
        events
            .extend(in_memory.into_iter().filter_map(|event| Some((event, engine.hot().peek(event)?.org()))));
        for (event, org) in events {
            if let (Why::Outage, Some(warm)) = (why, engine.warm()) {
                let _ = rebuild(&engine, warm, org, event).await;
            }
            if !reconcile_or_say(&engine, org, event).await {
                engine.behind().note(org, event);
            }
            if engine.is_stopping() {
                return;
            }
        }
        mending.begin_anew();
        next = Instant::now() + every;
    }
}

/// Looks at the events of which Redis could not be told something.
async fn mend(engine: &Engine, mending: &mut Mending) {
    let failed = engine.behind().take_failed();
    // When it is back, all are looked at. Until then each would be read in vain.
    if !engine.warm().is_some_and(Warm::is_up) {
        failed.into_iter().for_each(|(event, org)| engine.behind().note(org, event));
        return mending.wait_again();
    }
    if failed.is_empty() {
        return mending.wait_again();
    }
    for (event, org) in failed {
        if engine.is_stopping() {
            return;
        }
        if !reconcile_or_say(engine, org, event).await {
            engine.behind().note_failed(org, event);
        }
    }
    mending.slow_down();
}

/// `false`: it could not be done.
async fn reconcile_or_say(engine: &Engine, org: OrgId, event: EventId) -> bool {
    match reconcile(engine, org, event).await {
        Ok(repairs) if repairs.total() == 0 => true,
        Ok(_) => {
            // What was repaired is looked at once more, in memory or not.
            engine.behind().note(org, event);
            true
        }
        Err(error) => {
            // While Redis is away that is no news, and there may be many events.
            if engine.warm().is_none_or(Warm::is_up) {
                tracing::warn!(%error, %event, "the tiers could not be reconciled");
            }
            false
        }
    }
}
