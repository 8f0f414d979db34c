//! Those who use it: buyers with carts, organizers, and readers of maps and journals.

use std::sync::Arc;
use std::time::Duration;

use rowlock_core::booking::BookingStatus;
use rowlock_core::command::Places;
use rowlock_core::hold::{Hold, HoldStatus, Source};
use rowlock_core::{
    Actor, BookingId, CartToken, Command, HoldId, IdempotencyKey, OrgId, PaymentReference, Request, SeatId,
    Stream, UserId,
};
use rowlock_registry::Failure;
use tokio::time::sleep;

use super::audit::books::Said;
use super::dice::Dice;
use super::world::{ANSWER_WITHIN, EventInfo, World};

/// How often a buyer repeats what had no answer.
const MAX_REPEATS: u32 = 3;

pub struct Buyer {
    world: Arc<World>,
    dice: Dice,
    org: OrgId,
    user: UserId,
    holds: Vec<Arc<Hold>>,
    bookings: Vec<BookingId>,
}

impl Buyer {
    pub fn new(world: &Arc<World>, org: OrgId, number: usize) -> Self {
        let user = UserId::new(&format!("buyer-{number}")).expect("a user");
        Self { world: Arc::clone(world), dice: world.dice.fork(), org, user, holds: vec![], bookings: vec![] }
    }

    pub async fn run(mut self) {
        while !self.world.is_over() {
            sleep(Duration::from_millis(self.dice.between(20..=1_200))).await;
            self.act().await;
        }
    }

    async fn act(&mut self) {
        let now = self.world.clock.now();
        self.holds.retain(|hold| hold.expires_at.plus_millis(2_000) > now);
        match (self.dice.between(0..=99), self.holds.len()) {
            (0..=3, _) => self.try_strangers().await,
            (4..=5, _) => self.look_up().await,
            (6..=16, _) if !self.bookings.is_empty() => self.cancel().await,
            (17..=45, 0) | (17..=30, 1) => self.hold().await,
            (46..=60, 0) | (31..=35, 1) => self.hold_any().await,
            (61..=72, 0) | (36..=40, 1) => self.hold_area().await,
            (73..=80, 0) => self.book().await,
            (_, 0) => self.hold().await,
            (41..=50, _) => self.more_time().await,
            (51..=60, _) => self.release().await,
            (61..=66, _) => self.release_part().await,
            _ => self.buy().await,
        }
    }

    fn event(&self) -> EventInfo {
        let events = self.world.events.lock();
        let mine: Vec<&EventInfo> = events.iter().filter(|event| event.org == self.org).collect();
        (*self.dice.pick(&mine)).clone()
    }

    fn places(&self, event: &EventInfo) -> Places {
        let cart =
            if self.dice.permille(800) { CartToken::unnamed() } else { CartToken::new("b").expect("a cart") };
        Places {
            event: event.id,
            user: self.user.clone(),
            cart,
            source: Source::Web,
            seats: Vec::new(),
            blocks: Vec::new(),
            areas: Vec::new(),
        }
    }

    fn seats(&self, event: &EventInfo) -> Vec<SeatId> {
        let mut seats: Vec<u32> = Vec::new();
        for _ in 0..self.dice.between(1..=3) {
            // The first rows are wanted most.
            let seat =
                self.dice.index(event.seats as usize).min(self.dice.index(event.seats as usize)) as u32;
            if !seats.contains(&seat) {
                seats.push(seat);
            }
        }
        seats.into_iter().map(|seat| SeatId::of(event.id, seat)).collect()
    }

    async fn hold(&mut self) {
        let event = self.event();
        let mut places = Places { seats: self.seats(&event), ..self.places(&event) };
        if self.dice.permille(150) && !event.areas.is_empty() {
            places.areas = vec![(*self.dice.pick(&event.areas), 1)];
        }
        self.operation(Command::Hold(places)).await;
    }

    async fn hold_any(&mut self) {
        let event = self.event();
        let blocks = vec![(*self.dice.pick(&event.blocks), self.dice.between(1..=3) as u32)];
        let places = Places { blocks, ..self.places(&event) };
        self.operation(Command::Hold(places)).await;
    }

    async fn hold_area(&mut self) {
        let event = self.event();
        if event.areas.is_empty() {
            return self.hold().await;
        }
        let areas = vec![(*self.dice.pick(&event.areas), self.dice.between(1..=2) as u32)];
        let places = Places { areas, ..self.places(&event) };
        self.operation(Command::Hold(places)).await;
    }

    async fn book(&mut self) {
        let event = self.event();
        let places = Places { seats: self.seats(&event), ..self.places(&event) };
        self.operation(Command::Book { places, payment_reference: None }).await;
    }

    fn a_hold(&self) -> Arc<Hold> {
        self.dice.pick(&self.holds).clone()
    }

    async fn more_time(&mut self) {
        let (hold, user) = (self.a_hold().id, self.user.clone());
        let command = if self.dice.permille(500) {
            Command::StartCheckout { hold, user }
        } else {
            Command::Heartbeat { hold, user }
        };
        self.operation(command).await;
    }

    async fn release(&mut self) {
        let hold = self.a_hold().id;
        self.operation(Command::Release { hold, user: self.user.clone(), seats: Vec::new() }).await;
    }

    async fn release_part(&mut self) {
        let hold = self.a_hold();
        let Some(seat) = hold.seats.first() else { return };
        let seats = vec![SeatId::of(hold.event, seat.ordinal)];
        self.operation(Command::Release { hold: hold.id, user: self.user.clone(), seats }).await;
    }

    /// Pays, which takes its time, and confirms.
    async fn buy(&mut self) {
        let (hold, user) = (self.a_hold().id, self.user.clone());
        if self.dice.permille(500) {
            self.operation(Command::StartCheckout { hold, user: user.clone() }).await;
        }
        sleep(Duration::from_millis(*self.dice.pick(&[0, 50, 500, 2_000, 4_000]))).await;
        if self.dice.permille(300) {
            self.operation(Command::Heartbeat { hold, user: user.clone() }).await;
        }
        let payment_reference = PaymentReference::new("paid").ok();
        self.operation(Command::Confirm { hold, user, payment_reference }).await;
    }

    async fn cancel(&mut self) {
        let booking = self.bookings.swap_remove(self.dice.index(self.bookings.len()));
        let user = self.dice.permille(700).then(|| self.user.clone());
        self.operation(Command::CancelBooking { booking, user }).await;
    }

    /// Tries what is somebody else's, of this org or of another.
    async fn try_strangers(&mut self) {
        let (hold, booking) = {
            let lying = self.world.lying.lock();
            let pick = |length: usize| (length > 0).then(|| self.dice.index(length));
            let hold = pick(lying.holds.len()).map(|i| lying.holds[i]);
            let booking = pick(lying.bookings.len()).map(|i| lying.bookings[i]);
            (hold, booking.filter(|booking| !self.bookings.contains(booking)))
        };
        let user = self.user.clone();
        let seats = Vec::new();
        let command = match (self.dice.between(0..=5), hold, booking) {
            (0, Some(hold), _) => Command::Confirm { hold, user, payment_reference: None },
            (1, Some(hold), _) => Command::Heartbeat { hold, user },
            (2, _, Some(booking)) => Command::CancelBooking { booking, user: Some(user) },
            (3, _, _) => {
                let other = self.world.events.lock().iter().find(|event| event.org != self.org).cloned();
                let Some(other) = other else { return };
                self.look_at_stranger(&other).await;
                Command::Hold(Places { seats: self.seats(&other), ..self.places(&other) })
            }
            (_, Some(hold), _) => Command::Release { hold, user, seats },
            _ => return,
        };
        self.operation(command).await;
    }

    async fn look_at_stranger(&self, other: &EventInfo) {
        let Some(engine) = self.world.engine(self.dice.index(self.world.plan.nodes)) else { return };
        let found = tokio::time::timeout(ANSWER_WITHIN, engine.event(self.org, other.id)).await;
        if matches!(found, Ok(Ok(_))) {
            self.world.history.violation('T', format_args!("org {} sees event {}", self.org, other.id));
        }
    }

    /// D: what was bought can be looked up, through any node.
    async fn look_up(&self) {
        let node = self.dice.index(self.world.plan.nodes);
        let (Some(engine), Some(booking)) = (self.world.engine(node), self.bookings.last()) else { return };
        let found = tokio::time::timeout(Duration::from_secs(10), engine.booking(self.org, *booking)).await;
        self.world.history.count("look up booking");
        match found {
            Ok(Err(Failure::Refused(_))) => {
                self.world
                    .history
                    .violation('D', format_args!("booking {booking} can't be found at node {node}"));
            }
            Ok(Ok(found)) if found.status != BookingStatus::Confirmed => {
                self.world
                    .history
                    .violation('D', format_args!("booking {booking} is cancelled at node {node}"));
            }
            _ => {}
        }
    }

    /// Asks, and asks again when there is no answer.
    async fn operation(&mut self, command: Command) {
        let operation = self.world.next_operation();
        let keyed = self.dice.permille(600);
        let mut fingerprint = [0; 16];
        fingerprint[..8].copy_from_slice(&operation.to_be_bytes());
        let key = IdempotencyKey { key: format!("key-{operation}").into(), fingerprint };
        let mut learned = false;
        for repeat in 0..=MAX_REPEATS {
            let request = Request {
                org: self.org,
                actor: Actor::User(self.user.clone()),
                request_id: format!("op{operation}.{repeat}").into(),
                idempotency: keyed.then(|| key.clone()),
                command: command.clone(),
            };
            let node = self.dice.index(self.world.plan.nodes);
            let hurry = !self.world.is_calm() && self.dice.permille(60);
            let patience =
                if hurry { Duration::from_millis(self.dice.between(1..=400)) } else { ANSWER_WITHIN };
            let strict = self.world.is_strict();
            let said = self.world.ask(node, operation, request, patience).await;
            match said {
                Said::Unknown(why) => {
                    if strict {
                        self.world.history.violation(
                            'L',
                            format_args!("op{operation}.{repeat} long after the last fault: {why}"),
                        );
                    }
                    if self.dice.permille(200) {
                        return;
                    }
                    sleep(Duration::from_millis(self.dice.between(20..=1_500))).await;
                }
                said => {
                    let again = keyed && said.is_yes() && self.dice.permille(80);
                    if !learned {
                        self.learn(said);
                    }
                    learned = true;
                    if !again {
                        return;
                    }
                    // A client that does not trust its own memory: the same key, long answered.
                    sleep(Duration::from_millis(self.dice.between(20..=3_000))).await;
                }
            }
        }
    }

    fn learn(&mut self, said: Said) {
        match said {
            Said::Held(outcome) => {
                self.holds.retain(|hold| hold.id != outcome.hold.id);
                if outcome.hold.status == HoldStatus::Active && outcome.hold.user == self.user {
                    remember(&mut self.world.lying.lock().holds, outcome.hold.id);
                    self.holds.push(outcome.hold);
                }
            }
            Said::Booked(outcome) => {
                let booking = outcome.booking;
                self.holds.retain(|hold| hold.id != booking.hold);
                self.bookings.retain(|known| *known != booking.id);
                if booking.status == BookingStatus::Confirmed && booking.user == self.user {
                    remember(&mut self.world.lying.lock().bookings, booking.id);
                    self.bookings.push(booking.id);
                }
            }
            Said::Refused(_) if self.dice.permille(300) && !self.holds.is_empty() => {
                drop(self.holds.remove(0))
            }
            _ => {}
        }
    }
}

fn remember<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// The organizer: takes seats off sale, puts them back, and adds some.
pub async fn organize(world: Arc<World>, event: EventInfo) {
    let dice = world.dice.fork();
    while !world.is_over() {
        sleep(Duration::from_millis(dice.between(500..=6_000))).await;
        let operation = world.next_operation();
        let seats = vec![SeatId::of(event.id, dice.index(event.seats as usize) as u32)];
        let command = if dice.permille(60) {
            let section = super::seed::section("left", &format!("Z{operation}"), 1, 1);
            Command::CreateSeats { event: event.id, sections: vec![section] }
        } else if dice.permille(400) {
            Command::BlockSeats { event: event.id, seats }
        } else {
            Command::UnblockSeats { event: event.id, seats }
        };
        let request = Request {
            org: event.org,
            actor: Actor::System,
            request_id: format!("op{operation}.0").into(),
            idempotency: None,
            command,
        };
        world.ask(dice.index(world.plan.nodes), operation, request, ANSWER_WITHIN).await;
    }
}

/// Reads maps, and follows the journal as a sink does, through one node.
pub async fn read(world: Arc<World>, node: usize, event: EventInfo) {
    let dice = world.dice.fork();
    while !world.is_over() {
        sleep(Duration::from_millis(dice.between(100..=1_500))).await;
        read_once(&world, node, &event).await;
    }
}

/// One look. `false` when the journal could not be read to its end.
pub async fn read_once(world: &Arc<World>, node: usize, event: &EventInfo) -> bool {
    let (Some(engine), life) = (world.engine(node), world.life(node)) else { return false };
    let key = (node, Stream::Event(event.id));
    let look = async {
        if let Ok(live) = engine.event(event.org, event.id).await {
            let hot = live.read();
            let over = hot.areas().iter().find(|area| area.held + area.sold > area.capacity);
            if let Some(area) = over {
                world
                    .history
                    .violation('S', format_args!("node {node} shows area {} over its capacity", area.id));
            }
            if hot.counts().total() != hot.seat_count() {
                world.history.violation(
                    'S',
                    format_args!("node {node} shows {:?} of {}", hot.counts(), hot.seat_count()),
                );
            }
            world.history.note(format_args!("node {node} shows {:?} at {}", hot.counts(), hot.sequence()));
            world.history.count("look at map");
        }
        let after =
            world.books.lock().tails.get(&key).and_then(|tail| tail.last()).map_or(0, |row| row.sequence);
        engine.journal(event.org, event.id, after, 500).await
    };
    let rows = tokio::select! {
        biased;
        () = life.death() => return false,
        rows = look => rows,
    };
    let Ok(rows) = rows else { return false };
    let is_end = rows.len() < 500;
    world.books.lock().tails.entry(key).or_default().extend(rows);
    is_end
}

/// Whether anybody could be asked to release it.
pub fn release(org: OrgId, user: UserId, hold: HoldId, id: &str) -> Request {
    Request {
        org,
        actor: Actor::User(user.clone()),
        request_id: id.into(),
        idempotency: None,
        command: Command::Release { hold, user, seats: Vec::new() },
    }
}
