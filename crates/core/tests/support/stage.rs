//! A small theatre to play in: one org, one event, twelve seats, two areas.

use rowlock_core::booking::Booking;
use rowlock_core::command::{NewSection, Places};
use rowlock_core::decide::Executed;
use rowlock_core::event::Tier;
use rowlock_core::hold::{Hold, Source};
use rowlock_core::ids::BlockId;
use rowlock_core::outcome::{BookingOutcome, HoldOutcome};
use rowlock_core::policy::Policy;
use rowlock_core::seat::{Seat, SeatState, Section};
use rowlock_core::text::Row;
use rowlock_core::{
    AreaId, BookingId, CartToken, Command, EventId, Fact, HoldId, Name, OrgId, Outcome, Refusal, SeatId,
    Time, UserId,
};

use super::invariants::{self, Endings};
use super::{Rows, World};

pub const GOLD: i64 = 5_000;
pub const SILVER: i64 = 2_000;
/// Seats 0 to 7 are gold, 8 to 11 silver.
pub const SEATS: u32 = 12;
pub const FLOOR_PLACES: u32 = 10;
pub const GALLERY_PLACES: u32 = 5;

pub struct Stage {
    pub world: World,
    pub org: OrgId,
    pub event: EventId,
    pub floor: AreaId,
    pub gallery: AreaId,
    endings: Endings,
}

impl Stage {
    pub fn new() -> Self {
        Self::with(Policy::default())
    }

    pub fn with(policy: Policy) -> Self {
        let mut world = World::new();
        let org = new_org(&mut world, "Playhouse");
        let event = new_event(&mut world, org, policy);
        let sections = vec![section("Stalls", "gold", "A", 8), section("Stalls", "silver", "B", 4)];
        world.ask(org, Command::CreateSeats { event, sections }).expect("seats can be made");
        let floor = new_area(&mut world, org, event, "Floor", "silver", FLOOR_PLACES);
        let gallery = new_area(&mut world, org, event, "Gallery", "gold", GALLERY_PLACES);
        Self { world, org, event, floor, gallery, endings: Endings::default() }
    }

    /// A command that must succeed. The promises are checked after it.
    #[track_caller]
    pub fn run(&mut self, command: Command) -> Executed {
        let done = self.world.ask(self.org, command).expect("not refused");
        self.check();
        done
    }

    /// A command that must be refused, and then must have changed nothing.
    #[track_caller]
    pub fn refused(&mut self, command: Command) -> Refusal {
        self.refused_for(self.org, command)
    }

    #[track_caller]
    pub fn refused_for(&mut self, org: OrgId, command: Command) -> Refusal {
        let before = self.snapshot();
        let refusal = self.world.ask(org, command).expect_err("refused");
        assert!(self.snapshot() == before, "{refusal:?} changed something");
        refusal
    }

    /// A command that must succeed and have nothing left to do.
    #[track_caller]
    pub fn idle(&mut self, command: Command) -> Executed {
        let before = self.snapshot();
        let done = self.world.ask(self.org, command).expect("not refused");
        assert!(done.facts.is_empty() && self.snapshot() == before, "something changed: {:?}", done.facts);
        done
    }

    pub fn snapshot(&self) -> (Rows, usize) {
        (self.world.rows.clone(), self.world.journal.len())
    }

    #[track_caller]
    fn check(&mut self) {
        let rows = &self.world.rows;
        let follow = self.endings.follow(&self.world.journal);
        follow.and_then(|()| self.endings.agree(rows)).and_then(|()| invariants::rows(rows)).expect("sound");
    }
}

/// What people ask for, in short.
impl Stage {
    pub fn seat(&self, ordinal: u32) -> SeatId {
        SeatId::of(self.event, ordinal)
    }

    pub fn seat_ids(&self, ordinals: &[u32]) -> Vec<SeatId> {
        ordinals.iter().map(|ordinal| self.seat(*ordinal)).collect()
    }

    /// Seats and places on the floor.
    pub fn places(&self, user: &str, cart: &str, seats: &[u32], floor: u32) -> Places {
        let areas = if floor == 0 { vec![] } else { vec![(self.floor, floor)] };
        let (user, cart, seats) = (self::user(user), self::cart(cart), self.seat_ids(seats));
        Places { event: self.event, user, cart, source: Source::Web, seats, blocks: vec![], areas }
    }

    pub fn to_hold(&self, user: &str, cart: &str, seats: &[u32], floor: u32) -> Command {
        Command::Hold(self.places(user, cart, seats, floor))
    }

    pub fn to_book(&self, user: &str, seats: &[u32], floor: u32) -> Command {
        Command::Book { places: self.places(user, "desk", seats, floor), payment_reference: None }
    }

    #[track_caller]
    pub fn hold(&mut self, user: &str, cart: &str, seats: &[u32], floor: u32) -> Hold {
        let command = self.to_hold(user, cart, seats, floor);
        Hold::clone(&hold_in(&self.run(command)).hold)
    }

    #[track_caller]
    pub fn confirm(&mut self, hold: HoldId, user: &str) -> Booking {
        booking_in(&self.run(confirm(hold, user))).booking
    }

    #[track_caller]
    pub fn book(&mut self, user: &str, seats: &[u32], floor: u32) -> Booking {
        let command = self.to_book(user, seats, floor);
        booking_in(&self.run(command)).booking
    }

    #[track_caller]
    pub fn block(&mut self, seats: &[u32]) -> Executed {
        let command = Command::BlockSeats { event: self.event, seats: self.seat_ids(seats) };
        self.run(command)
    }

    #[track_caller]
    pub fn unblock(&mut self, seats: &[u32]) -> Executed {
        let command = Command::UnblockSeats { event: self.event, seats: self.seat_ids(seats) };
        self.run(command)
    }

    pub fn state(&self, ordinal: u32) -> SeatState {
        let Seat { state, .. } = self.world.rows.seats[&self.seat(ordinal)].value;
        state
    }

    /// Held and sold places on the floor.
    pub fn floor_counts(&self) -> (u32, u32) {
        let floor = &self.world.rows.areas[&self.floor].value;
        (floor.held, floor.sold)
    }

    pub fn hold_row(&self, hold: HoldId) -> &Hold {
        &self.world.rows.holds[&hold].value
    }

    pub fn booking_row(&self, booking: BookingId) -> &Booking {
        &self.world.rows.bookings[&booking].value
    }

    pub fn now(&self) -> Time {
        self.world.now
    }
}

pub fn checkout(hold: HoldId, user: &str) -> Command {
    Command::StartCheckout { hold, user: self::user(user) }
}

pub fn heartbeat(hold: HoldId, user: &str) -> Command {
    Command::Heartbeat { hold, user: self::user(user) }
}

pub fn release(hold: HoldId, user: &str, seats: Vec<SeatId>) -> Command {
    Command::Release { hold, user: self::user(user), seats }
}

pub fn confirm(hold: HoldId, user: &str) -> Command {
    Command::Confirm { hold, user: self::user(user), payment_reference: None }
}

pub fn cancel(booking: BookingId, user: Option<&str>) -> Command {
    Command::CancelBooking { booking, user: user.map(self::user) }
}

pub fn expire(hold: HoldId) -> Command {
    Command::Expire { hold }
}

pub fn user(name: &str) -> UserId {
    UserId::new(name).expect("a user")
}

pub fn cart(token: &str) -> CartToken {
    CartToken::new(token).expect("a cart")
}

pub fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

#[track_caller]
pub fn hold_in(done: &Executed) -> HoldOutcome {
    match &done.outcome {
        Outcome::Hold(hold) => hold.clone(),
        other => panic!("not a hold: {other:?}"),
    }
}

#[track_caller]
pub fn booking_in(done: &Executed) -> BookingOutcome {
    match &done.outcome {
        Outcome::Booking(booking) => BookingOutcome::clone(booking),
        other => panic!("not a booking: {other:?}"),
    }
}

pub fn kinds(done: &Executed) -> Vec<&'static str> {
    done.facts.iter().map(Fact::kind).collect()
}

pub fn tiers() -> Vec<Tier> {
    vec![Tier { code: name("gold"), price: GOLD }, Tier { code: name("silver"), price: SILVER }]
}

pub fn section(block: &str, tier: &str, row: &str, seats: u32) -> NewSection {
    let section = Section {
        block: BlockId::from_uuid(uuid::Uuid::nil()),
        rows: vec![Row::new(row).expect("a row")],
        first_number: 1,
        last_number: seats,
        tier: 0,
        x: 0.0,
        y: 0.0,
        seat_pitch: 1.0,
        row_pitch: 1.0,
    };
    NewSection { block: name(block), tier: name(tier), section }
}

pub fn new_org(world: &mut World, called: &str) -> OrgId {
    // Whoever runs the installation asks for it, in the name of no org that exists.
    let nobody = OrgId::from_uuid(uuid::Uuid::nil());
    match world.ask(nobody, Command::CreateOrg { name: name(called) }).expect("an org").outcome {
        Outcome::Org(org) => org.id,
        other => panic!("not an org: {other:?}"),
    }
}

pub fn to_create_event(policy: Policy) -> Command {
    let currency = "EUR".parse().expect("a currency");
    Command::CreateEvent { name: name("Hamlet"), currency, tiers: tiers(), policy }
}

pub fn new_event(world: &mut World, org: OrgId, policy: Policy) -> EventId {
    match world.ask(org, to_create_event(policy)).expect("an event").outcome {
        Outcome::Event(event) => event.id,
        other => panic!("not an event: {other:?}"),
    }
}

pub fn new_area(world: &mut World, org: OrgId, event: EventId, called: &str, tier: &str, n: u32) -> AreaId {
    let command = Command::CreateArea { event, name: name(called), tier: name(tier), capacity: n };
    match world.ask(org, command).expect("an area").outcome {
        Outcome::Area(area) => area.id,
        other => panic!("not an area: {other:?}"),
    }
}
