//! An org and events to sell, made through the engine like everything else.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rowlock_core::command::{NewSection, Places};
use rowlock_core::event::Tier;
use rowlock_core::hold::Source;
use rowlock_core::policy::Policy;
use rowlock_core::seat::Section;
use rowlock_core::text::Row;
use rowlock_core::{
    Actor, BlockId, CartToken, Command, EventId, Name, OrgId, Outcome, Request, SeatId, UserId,
};
use rowlock_registry::{Engine, EngineOptions};
use rowlock_truth::sqlite::{SqliteOptions, SqliteTruth};

/// Seats of one event: enough for some seconds of holds without one seat asked for twice.
pub const SEATS_PER_EVENT: u32 = 240_000;
/// Seats far apart: a prime that has no factor in common with any number of seats used here.
pub const SCATTER: u64 = 104_729;
const SETTLE: Duration = Duration::from_millis(1_500);
const SEATS_PER_ROW: u32 = 100;
const SECTION_SEATS: u32 = 80_000;
/// What a seat costs, in cents.
pub const PRICE: i64 = 4500;

pub struct Stage {
    pub engine: Engine,
    pub org: OrgId,
}

impl Stage {
    /// On a store in a folder.
    pub async fn new(dir: &Path) -> Self {
        let truth = SqliteTruth::open(dir, SqliteOptions::default()).expect("the store opens");
        let engine =
            Engine::start(Arc::new(truth), EngineOptions::default()).await.expect("the engine starts");
        Self::on(engine).await
    }

    pub async fn on(engine: Engine) -> Self {
        let nobody = OrgId::from_uuid(uuid::Uuid::nil());
        let name = name("Bench");
        let Outcome::Org(org) = run(&engine, nobody, Command::CreateOrg { name }).await else {
            unreachable!("creating an org answers with it")
        };
        Self { engine, org: org.id }
    }

    /// A fresh event whose seats nobody has.
    pub async fn event(&self) -> EventId {
        let event = self.event_of(SEATS_PER_EVENT).await;
        // Neither loading it into memory is measured, nor copying what made it from the log into the file.
        self.engine.event(self.org, event).await.expect("the event loads");
        tokio::time::sleep(SETTLE).await;
        event
    }

    /// The same of any size, in rows of a hundred, and not loaded yet.
    pub async fn event_of(&self, seats: u32) -> EventId {
        let create = Command::CreateEvent {
            name: name("Sale"),
            currency: "EUR".parse().expect("a currency"),
            tiers: vec![Tier { code: name("standard"), price: PRICE }],
            policy: Policy::default(),
        };
        let Outcome::Event(event) = run(&self.engine, self.org, create).await else {
            unreachable!("creating an event answers with it")
        };
        for part in 0..seats.div_ceil(SECTION_SEATS) {
            let sections = vec![section(part, SECTION_SEATS.min(seats - part * SECTION_SEATS))];
            run(&self.engine, self.org, Command::CreateSeats { event: event.id, sections }).await;
        }
        event.id
    }

    pub fn hold(&self, event: EventId, ordinal: u32, user: &str, cart: &str) -> Request {
        let places = Places {
            event,
            user: UserId::new(user).expect("a user"),
            cart: CartToken::new(cart).expect("a cart"),
            source: Source::Api,
            seats: vec![SeatId::of(event, ordinal)],
            blocks: Vec::new(),
            areas: Vec::new(),
        };
        request(self.org, Command::Hold(places))
    }
}

fn section(part: u32, seats: u32) -> NewSection {
    let rows = (0..seats.div_ceil(SEATS_PER_ROW)).map(|row| Row::new(&format!("R{row}")).expect("a row"));
    NewSection {
        block: name(&format!("Block {part}")),
        tier: name("standard"),
        section: Section {
            block: BlockId::from_uuid(uuid::Uuid::nil()),
            rows: rows.collect(),
            first_number: 1,
            last_number: SEATS_PER_ROW,
            tier: 0,
            x: 0.0,
            y: part as f32 * 1_000.0,
            seat_pitch: 1.0,
            row_pitch: 1.0,
        },
    }
}

pub async fn run(engine: &Engine, org: OrgId, command: Command) -> Outcome {
    engine.execute(request(org, command)).await.expect("the command goes through").outcome
}

pub fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn request(org: OrgId, command: Command) -> Request {
    Request { org, actor: Actor::System, request_id: "bench".into(), idempotency: None, command }
}
