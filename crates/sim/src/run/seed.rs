//! One run: set up, storm, calm, audit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rowlock_core::command::{NewSection, Places};
use rowlock_core::event::Tier;
use rowlock_core::hold::{HoldStatus, Source};
use rowlock_core::seat::{SeatStatus, Section};
use rowlock_core::text::Row;
use rowlock_core::{
    Actor, BlockId, CartToken, Command, EventId, Name, OrgId, Outcome, Request, SeatId, UserId,
};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::audit;
use super::audit::books::Said;
use super::broken::Broken;
use super::clock::since_start;
use super::faults;
use super::history::Counts;
use super::panics;
use super::watch;
use super::workload::{self, Buyer};
use super::world::{ANSWER_WITHIN, EventInfo, RECOVERY, World};

/// How long buyers go on after the recovery, when every request must be answered.
const STRICT: Duration = Duration::from_secs(8);

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    pub seed: u64,
    pub digest: u64,
    pub counts: Counts,
    pub violations: Vec<String>,
    pub last_lines: Vec<String>,
    pub virtual_millis: u64,
}

/// Runs a seed on a runtime of its own, whose time is virtual and whose order is always the same.
pub fn run(seed: u64, broken: Option<Broken>, trace: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    panics::record();
    let world = runtime.block_on(async { World::new(seed, broken, trace) });
    let driven = catch_unwind(AssertUnwindSafe(|| runtime.block_on(drive(&world))));
    let panics = panics::recorded();
    // The kernel asserts, and tasks that panic are ended one by one: what is broken on purpose must show in other ways.
    if broken.is_none() || driven.is_err() {
        for panic in panics {
            world.history.violation('L', format_args!("panic: {panic}"));
        }
    }
    let report = Report {
        seed,
        digest: world.history.digest(),
        counts: world.history.counts(),
        violations: world.history.violations(),
        last_lines: world.history.last_lines(),
        virtual_millis: runtime.block_on(async { world.clock.millis() }),
    };
    runtime.shutdown_background();
    report
}

async fn drive(world: &Arc<World>) {
    (0..world.plan.nodes).for_each(|node| world.boot(node));
    set_up(world).await;
    world.store.arm();
    let mut users = JoinSet::new();
    let events = world.events.lock().clone();
    let orgs: Vec<OrgId> = world.store.tables.lock().orgs.keys().copied().collect();
    for number in 0..world.plan.buyers {
        users.spawn(Buyer::new(world, orgs[number % orgs.len()], number).run());
    }
    for event in &events {
        users.spawn(workload::organize(Arc::clone(world), event.clone()));
        for node in 0..world.plan.nodes {
            users.spawn(workload::read(Arc::clone(world), node, event.clone()));
        }
    }
    let mut watches = JoinSet::new();
    watches.spawn(watch::memory(Arc::clone(world), events.clone()));
    faults::storm(Arc::clone(world)).await;
    world.calm();
    watches.spawn(watch::maps(Arc::clone(world), events.clone()));
    sleep(RECOVERY + STRICT).await;
    world.stop_buyers();
    users.join_all().await;
    // Whatever was announced, lost or broken has been repaired by then.
    sleep(world.plan.reconcile_every * 3 + Duration::from_secs(6)).await;
    agree(world, &events, "after the storm").await;
    probe(world, &events).await;
    wait_for_ends(world).await;
    agree(world, &events, "at the end").await;
    watches.abort_all();
    for event in &events {
        for node in 0..world.plan.nodes {
            read_to_the_end(world, node, event).await;
        }
    }
    if world.store.locked_rows() > 0 {
        world.history.violation('L', format_args!("{} rows are still locked", world.store.locked_rows()));
    }
    let (books, tables) = (world.books.lock(), world.store.tables.lock());
    audit::audit(&books, &tables, &world.history);
}

/// O: there is an end, and it can be reached.
async fn read_to_the_end(world: &Arc<World>, node: usize, event: &EventInfo) {
    for _ in 0..50 {
        if workload::read_once(world, node, event).await {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    world.history.violation('O', format_args!("the journal of {} can't be read at node {node}", event.id));
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// Asks until there is an answer. There are no faults yet.
async fn make(world: &Arc<World>, org: OrgId, command: Command) -> Outcome {
    loop {
        let Some(engine) = world.engine(0) else {
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        let request_id = format!("setup{}", world.next_operation()).into();
        let request =
            Request { org, actor: Actor::System, request_id, idempotency: None, command: command.clone() };
        return engine.execute(request).await.expect("nothing is broken yet").outcome;
    }
}

async fn set_up(world: &Arc<World>) {
    for number in 0..world.plan.orgs {
        let nobody = OrgId::from_uuid(uuid::Uuid::nil());
        let made = make(world, nobody, Command::CreateOrg { name: name(&format!("org {number}")) }).await;
        let Outcome::Org(org) = made else { panic!("not an org") };
        for event in 0..world.plan.events_per_org {
            set_up_event(world, org.id, event).await;
        }
    }
}

async fn set_up_event(world: &Arc<World>, org: OrgId, number: usize) {
    let plan = &world.plan;
    let tiers = vec![Tier { code: name("seat"), price: 100 }];
    let (currency, policy) = ("EUR".parse().expect("a currency"), plan.policy.clone());
    let create = Command::CreateEvent { name: name(&format!("event {number}")), currency, tiers, policy };
    let Outcome::Event(event) = make(world, org, create).await else { panic!("not an event") };
    let half = plan.seats.div_ceil(2);
    let sections = vec![section("left", "A", 1, half), section("right", "A", 1, plan.seats - half)];
    let made = make(world, org, Command::CreateSeats { event: event.id, sections }).await;
    let Outcome::Seats(made) = made else { panic!("not seats") };
    let mut areas = Vec::new();
    if let Some(capacity) = plan.area {
        let create =
            Command::CreateArea { event: event.id, name: name("floor"), tier: name("seat"), capacity };
        let Outcome::Area(area) = make(world, org, create).await else { panic!("not an area") };
        areas.push(area.id);
    }
    let blocks = made.blocks.iter().map(|block| block.id).collect();
    world.events.lock().push(EventInfo { org, id: event.id, blocks, areas, seats: plan.seats });
}

pub fn section(block: &str, row: &str, first_number: u32, last_number: u32) -> NewSection {
    let section = Section {
        block: BlockId::from_uuid(uuid::Uuid::nil()),
        rows: vec![Row::new(row).expect("a row")],
        first_number,
        last_number,
        tier: 0,
        x: 0.0,
        y: 0.0,
        seat_pitch: 1.0,
        row_pitch: 1.0,
    };
    NewSection { block: name(block), tier: name("seat"), section }
}

/// L: all tiers of all nodes agree.
async fn agree(world: &Arc<World>, events: &[EventInfo], when: &str) {
    for node in 0..world.plan.nodes {
        let Some(engine) = world.engine(node) else {
            world.history.violation('L', format_args!("node {node} is not up {when}"));
            continue;
        };
        for event in events {
            let _ = engine.event(event.org, event.id).await;
            let found = match engine.compare(event.org, event.id).await {
                Ok(found) => found,
                Err(error) => {
                    world.history.violation('L', format_args!("node {node} can't compare {when}: {error}"));
                    continue;
                }
            };
            world.history.note(format_args!("node {node} compares {}: {found:?}", event.id));
            // A node that can't keep all events in memory may have let go of this one, and then nobody keeps its copy.
            let crowded = world.plan.hot_events < events.len();
            let is_current = |sequence: Option<u64>| match sequence {
                Some(sequence) => sequence == found.truth_sequence,
                None => crowded,
            };
            let warm = world.plan.redis == 0 || is_current(found.warm_sequence);
            if !found.agrees() || !is_current(found.hot_sequence) || !warm {
                world
                    .history
                    .violation('L', format_args!("node {node}, event {}, {when}: {found:?}", event.id));
            }
        }
    }
}

/// How long after a release the seat can be had through every other node, with or without Redis.
const FREE_EVERYWHERE: Duration = Duration::from_secs(1);

/// L: what a node shows as free can be had through it.
async fn probe(world: &Arc<World>, events: &[EventInfo]) {
    for node in 0..world.plan.nodes {
        for event in events {
            let Some(engine) = world.engine(node) else { continue };
            let Ok(live) = engine.event(event.org, event.id).await else { continue };
            let free = {
                let hot = live.read();
                (0..hot.seat_count()).find(|ordinal| hot.seat(*ordinal).status == SeatStatus::Available)
            };
            if let Some(ordinal) = free {
                probe_seat(world, node, event.org, event.id, ordinal).await;
            }
        }
    }
}

async fn probe_seat(world: &Arc<World>, node: usize, org: OrgId, event: EventId, ordinal: u32) {
    let operation = world.next_operation();
    let user = UserId::new(&format!("probe-{operation}")).expect("a user");
    let places = Places {
        event,
        user: user.clone(),
        cart: CartToken::unnamed(),
        source: Source::Web,
        seats: vec![SeatId::of(event, ordinal)],
        blocks: Vec::new(),
        areas: Vec::new(),
    };
    let request = Request {
        org,
        actor: Actor::User(user.clone()),
        request_id: format!("op{operation}.0").into(),
        idempotency: None,
        command: Command::Hold(places),
    };
    match world.ask(node, operation, request, ANSWER_WITHIN).await {
        Said::Held(outcome) => {
            let operation = world.next_operation();
            let request = workload::release(org, user, outcome.hold.id, &format!("op{operation}.0"));
            world.ask(node, operation, request, ANSWER_WITHIN).await;
            sleep(FREE_EVERYWHERE).await;
        }
        other => {
            let free = format!("seat {ordinal} of {event} is shown free at node {node}");
            world.history.violation('L', format_args!("{free} and can't be had: {other:?}"));
        }
    }
}

/// E: every hold ends.
async fn wait_for_ends(world: &Arc<World>) {
    sleep(Duration::from_secs(u64::from(world.plan.policy.max_hold_seconds) + 2)).await;
    let tables = world.store.tables.lock();
    for (hold, _) in tables.holds.values().filter(|(hold, _)| hold.status == HoldStatus::Active) {
        let until = since_start(hold.expires_at);
        world
            .history
            .violation('E', format_args!("hold {} should have ended at {until} ms and has not", hold.id));
    }
}
