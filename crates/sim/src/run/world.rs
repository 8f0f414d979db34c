//! Everything of one run: nodes with the production engine, the store, Redis, the network, the books.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rowlock_core::{AreaId, BlockId, BookingId, EventId, HoldId, OrgId, Request};
use rowlock_registry::breaker::BreakerOptions;
use rowlock_registry::hot::LEAST_WEIGHT;
use rowlock_registry::warm::{Warm, WarmOptions, Wire};
use rowlock_registry::{Chance, Engine, EngineOptions};
use tokio::time::{sleep, timeout};

use super::audit::books::{Attempt, Books, Said};
use super::broken::Broken;
use super::clock::Clock;
use super::dice::Dice;
use super::history::History;
use super::net::{Life, Net};
use super::plan::Plan;
use super::redis::{SimRedis, SimWire};
use super::store::{SimTruth, Store};

/// L: nobody waits longer than this for an answer, whatever is down.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// How long after the last fault everything must work again.
pub const RECOVERY: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
pub struct EventInfo {
    pub org: OrgId,
    pub id: EventId,
    pub blocks: Vec<BlockId>,
    pub areas: Vec<AreaId>,
    pub seats: u32,
}

struct Node {
    life: Arc<Life>,
    engine: Option<Engine>,
}

/// What is somebody's, for strangers to try.
#[derive(Default)]
pub struct Lying {
    pub holds: Vec<HoldId>,
    pub bookings: Vec<BookingId>,
}

pub struct World {
    pub plan: Plan,
    pub broken: Option<Broken>,
    pub clock: Clock,
    pub dice: Dice,
    pub history: History,
    pub net: Arc<Net>,
    pub store: Arc<Store>,
    pub redis: Vec<Arc<SimRedis>>,
    nodes: Mutex<Vec<Node>>,
    pub books: Mutex<Books>,
    pub events: Mutex<Vec<EventInfo>>,
    pub lying: Mutex<Lying>,
    operations: AtomicU64,
    /// When the last fault was over, in ms.
    calm_at: AtomicU64,
    over: AtomicBool,
}

impl World {
    pub fn new(seed: u64, broken: Option<Broken>, trace: bool) -> Arc<Self> {
        let (clock, dice) = (Clock::start(), Dice::new(seed));
        let history = History::new(clock, trace);
        let plan = Plan::draw(&dice.fork());
        history.note(format_args!("seed {seed}: {plan:?}"));
        let net = Net::new(dice.fork(), clock, history.clone());
        let store = Store::new(dice.fork(), clock, history.clone(), broken);
        let redis = (0..plan.redis).map(|number| SimRedis::new(number, clock)).collect();
        let nodes = (0..plan.nodes).map(|number| Node { life: Life::new(number), engine: None }).collect();
        Arc::new(Self {
            plan,
            broken,
            clock,
            dice,
            history,
            net,
            store,
            redis,
            nodes: Mutex::new(nodes),
            books: Mutex::default(),
            events: Mutex::default(),
            lying: Mutex::default(),
            operations: AtomicU64::new(0),
            calm_at: AtomicU64::new(u64::MAX),
            over: AtomicBool::new(false),
        })
    }

    pub fn life(&self, node: usize) -> Arc<Life> {
        Arc::clone(&self.nodes.lock()[node].life)
    }

    pub fn engine(&self, node: usize) -> Option<Engine> {
        self.nodes.lock()[node].engine.clone()
    }

    pub fn next_operation(&self) -> u64 {
        self.operations.fetch_add(1, Ordering::Relaxed)
    }

    pub fn is_calm(&self) -> bool {
        self.calm_at.load(Ordering::Relaxed) != u64::MAX
    }

    /// Faults are over, and so is the time to recover from them.
    pub fn is_strict(&self) -> bool {
        let calm_at = self.calm_at.load(Ordering::Relaxed);
        calm_at.saturating_add(RECOVERY.as_millis() as u64) <= self.clock.millis()
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub fn stop_buyers(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// No more faults.
    pub fn calm(&self) {
        self.history.note(format_args!("calm"));
        self.net.calm();
        self.store.restart_at_commit(false);
        for node in self.nodes.lock().iter() {
            node.life.pause_until(0);
            node.life.disarm();
        }
        self.calm_at.store(self.clock.millis(), Ordering::Relaxed);
    }

    /// Starts a new life of a node, and keeps it running: when it dies, another one begins.
    pub fn boot(self: &Arc<Self>, node: usize) {
        let life = Life::new(node);
        self.nodes.lock()[node] = Node { life: Arc::clone(&life), engine: None };
        let world = Arc::clone(self);
        tokio::spawn(async move {
            let running = async {
                loop {
                    match world.start(&life).await {
                        Ok(engine) => break world.nodes.lock()[node].engine = Some(engine),
                        Err(why) => world.history.note(format_args!("node {node} can't start: {why}")),
                    }
                    sleep(Duration::from_millis(300)).await;
                }
                world.history.note(format_args!("node {node} is up"));
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                () = life.death() => {}
                () = running => {}
            }
            world.history.note(format_args!("node {node} is dead"));
            world.nodes.lock()[node].engine = None;
            let (again, closed) = (world.dice.between(50..=4_000), world.dice.between(0..=30));
            sleep(Duration::from_millis(closed)).await;
            world.store.node_died(&life);
            sleep(Duration::from_millis(if world.is_calm() { 50 } else { again })).await;
            world.boot(node);
        });
    }

    /// Stops a node as a deploy does.
    pub fn stop(self: &Arc<Self>, node: usize) {
        let (engine, life) = (self.engine(node), self.life(node));
        tokio::spawn(async move {
            if let Some(engine) = engine {
                let _ = timeout(Duration::from_secs(5), engine.stop()).await;
            }
            life.kill();
        });
    }

    async fn start(&self, life: &Arc<Life>) -> Result<Engine, String> {
        let truth = SimTruth::new(&self.store, &self.net, life, &self.dice, &self.history);
        let plan = &self.plan;
        let never = Duration::from_secs(1_000_000);
        let options = EngineOptions {
            hot_seats: plan.hot_events as u64 * LEAST_WEIGHT,
            sweep_every: plan.sweep_every,
            reconcile_every: if self.broken == Some(Broken::ReconcileOff) {
                never
            } else {
                plan.reconcile_every
            },
            chance: Chance::seeded(self.dice.number()),
            ignore_gaps: self.broken == Some(Broken::GapsIgnored),
            ..EngineOptions::default()
        };
        let warm = if self.redis.is_empty() { None } else { Some(self.warm(life).await?) };
        Engine::start_with(truth, warm, options).await.map_err(|error| error.to_string())
    }

    async fn warm(&self, life: &Arc<Life>) -> Result<Warm, String> {
        let wire = |redis: &Arc<SimRedis>| {
            let wire =
                SimWire { redis: Arc::clone(redis), net: Arc::clone(&self.net), life: Arc::clone(life) };
            Arc::new(wire) as Arc<dyn Wire>
        };
        let breaker = BreakerOptions { probe_after: self.plan.probe_after, ..BreakerOptions::default() };
        let chance = Chance::seeded(self.dice.number());
        let options = WarmOptions { breaker, chance, ..WarmOptions::default() };
        Warm::connect_over(self.redis.iter().map(wire).collect(), options)
            .await
            .map_err(|error| error.to_string())
    }

    /// Sends a request through a node and writes the answer into the books.
    pub async fn ask(&self, node: usize, operation: u64, request: Request, patience: Duration) -> Said {
        let asked = self.clock.now();
        let life = self.life(node);
        let (said, replayed) = match self.engine(node) {
            None => {
                sleep(Duration::from_millis(5)).await;
                (Said::Unknown("the node is down".into()), false)
            }
            Some(engine) => {
                sleep(Duration::from_millis(self.dice.between(0..=2))).await;
                let answer = tokio::select! {
                    biased;
                    () = life.death() => None,
                    answer = timeout(patience, engine.execute(request.clone())) => Some(answer),
                };
                match answer {
                    None => (Said::Unknown("the node died".into()), false),
                    Some(Err(_)) => {
                        if patience >= ANSWER_WITHIN {
                            self.history
                                .violation('L', format_args!("{} was not answered", request.request_id));
                        }
                        (Said::Unknown("the client gave up".into()), false)
                    }
                    Some(Ok(_)) if !self.is_calm() && self.dice.permille(self.plan.answers_lost) => {
                        (Said::Unknown("the answer was lost".into()), false)
                    }
                    Some(Ok(answer)) => Said::of(answer),
                }
            }
        };
        if let Said::Unknown(why) = &said
            && why.starts_with("the command failed")
        {
            self.history.violation('L', format_args!("{}: {why}", request.request_id));
        }
        let kind = kind(&request.command);
        self.history.note(format_args!("{} node {node} {kind}: {}", request.request_id, shown(&said)));
        self.history.count(&format!("{kind}: {}", if replayed { "replayed" } else { said.word() }));
        let answered = self.clock.now();
        let attempt = Attempt { operation, request, asked, answered, said: said.clone(), replayed };
        self.books.lock().attempts.push(attempt);
        said
    }
}

pub fn kind(command: &rowlock_core::Command) -> &'static str {
    use rowlock_core::Command;
    match command {
        Command::Hold(places) if !places.blocks.is_empty() => "hold any",
        Command::Hold(_) => "hold",
        Command::Book { .. } => "book",
        Command::StartCheckout { .. } => "checkout",
        Command::Heartbeat { .. } => "heartbeat",
        Command::Release { seats, .. } if seats.is_empty() => "release",
        Command::Release { .. } => "release part",
        Command::Confirm { .. } => "confirm",
        Command::CancelBooking { .. } => "cancel",
        Command::BlockSeats { .. } => "block",
        Command::UnblockSeats { .. } => "unblock",
        Command::Expire { .. } => "expire",
        _ => "create",
    }
}

fn shown(said: &Said) -> String {
    match said {
        Said::Held(outcome) => {
            let hold = &outcome.hold;
            let seats: Vec<u32> = hold.seats.iter().map(|seat| seat.ordinal).collect();
            let places: u32 = hold.areas.iter().map(|held| held.quantity).sum();
            let ends = super::clock::since_start(hold.expires_at);
            format!(
                "hold {} {:?} seats {seats:?} places {places} until {ends} changed {}",
                hold.id, hold.status, outcome.changed
            )
        }
        Said::Booked(outcome) => {
            let booking = &outcome.booking;
            format!(
                "booking {} of {} {:?} changed {}",
                booking.id, booking.hold, booking.status, outcome.changed
            )
        }
        Said::Marked(outcome) => format!("{} seats marked", outcome.seats.len()),
        Said::Other => "done".into(),
        Said::Refused(refusal) => format!("refused: {refusal}"),
        Said::Unknown(why) => format!("unknown: {why}"),
    }
}
