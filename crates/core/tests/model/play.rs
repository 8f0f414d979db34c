//! Plays steps to the kernel and to the model, and compares the two after each.

use std::collections::BTreeMap;
use std::sync::Arc;

use rowlock_core::command::Places;
use rowlock_core::decide::Executed;
use rowlock_core::hold::Source;
use rowlock_core::{
    Actor, AreaId, BlockId, BookingId, CartToken, Command, EventId, HoldId, IdempotencyKey, OrgId, Outcome,
    Refusal, Request, SeatId, Time, UserId,
};
use uuid::Uuid;

use super::compare;
use super::ops::{AREAS, Action, EVENTS, FIRST_ROW, SEATS, Step, USERS, Wait, Want, Who};
use super::rules::{Model, No, Policy, Yes};
use crate::support::invariants::{self, Endings};
use crate::support::stage::{cart, new_area, new_event, new_org, section, user};
use crate::support::{Fault, START, World, request};

/// How often each kind of answer was given.
pub type Coverage = BTreeMap<String, u64>;

/// What the small numbers of the model are called in the kernel.
pub struct Names {
    pub orgs: Vec<OrgId>,
    pub events: Vec<EventId>,
    pub areas: Vec<Vec<AreaId>>,
    blocks: Vec<BlockId>,
    pub holds: Vec<HoldId>,
    pub bookings: Vec<BookingId>,
    users: Vec<UserId>,
    carts: Vec<CartToken>,
}

pub struct Play {
    pub world: World,
    pub model: Model,
    pub names: Names,
    pub coverage: Coverage,
    endings: Endings,
    last: Option<(Request, Outcome)>,
    sent: u64,
}

/// A step with its numbers looked up: what the model is asked, and what the kernel is.
struct Asked {
    task: Task,
    stranger: bool,
    request: Request,
}

enum Task {
    Hold(Want),
    Book(Want),
    Checkout(Option<usize>, u8),
    Heartbeat(Option<usize>, u8),
    Release(Option<usize>, u8, Vec<u8>),
    Confirm(Option<usize>, u8),
    Cancel(Option<usize>, Option<u8>),
    Expire(Option<usize>),
    Block(u8, Vec<u8>),
    Unblock(u8, Vec<u8>),
    Replay(Box<Outcome>),
    Reuse,
}

fn policies() -> Vec<Policy> {
    let start = START.millis();
    let open = Policy {
        ttl: 60_000,
        checkout: 20_000,
        heartbeat: 15_000,
        longest: 100_000,
        per_user: None,
        opens: i64::MIN,
        closes: i64::MAX,
        capacity: [6, 3],
    };
    let strict = Policy { per_user: Some(4), opens: start + 2_000, closes: start + 1_200_000, ..open };
    vec![Policy { capacity: [6, 3], ..open }, strict]
}

fn kernel_policy(policy: &Policy) -> rowlock_core::policy::Policy {
    let seconds = |millis: i64| u32::try_from(millis / 1000).expect("a short time");
    rowlock_core::policy::Policy {
        ttl_seconds: seconds(policy.ttl),
        checkout_extension_seconds: seconds(policy.checkout),
        heartbeat_seconds: seconds(policy.heartbeat),
        max_hold_seconds: seconds(policy.longest),
        seats_per_user: policy.per_user,
        sales_open_at: (policy.opens != i64::MIN).then(|| Time::from_millis(policy.opens)),
        sales_close_at: (policy.closes != i64::MAX).then(|| Time::from_millis(policy.closes)),
    }
}

impl Play {
    pub fn new(fault: Fault) -> Self {
        let mut world = World::broken(fault);
        let policies = policies();
        let mut names = Names {
            orgs: vec![],
            events: vec![],
            areas: vec![],
            blocks: vec![],
            holds: vec![],
            bookings: vec![],
            users: (0..USERS).map(|n| user(&format!("user-{n}"))).collect(),
            carts: ["red", "blue"].map(cart).to_vec(),
        };
        for policy in &policies {
            let org = new_org(&mut world, "Playhouse");
            let event = new_event(&mut world, org, kernel_policy(policy));
            let row = |name, seats: u8| section("Stalls", "gold", name, u32::from(seats));
            let sections = vec![row("A", FIRST_ROW), row("B", SEATS - FIRST_ROW)];
            world.ask(org, Command::CreateSeats { event, sections }).expect("seats");
            let area = |n: usize| ["Floor", "Gallery"][n];
            let areas = (0..usize::from(AREAS))
                .map(|n| new_area(&mut world, org, event, area(n), "silver", policy.capacity[n]))
                .collect();
            names.orgs.push(org);
            names.events.push(event);
            names.areas.push(areas);
            names.blocks.push(world.rows.events[&event].blocks[0].id);
        }
        let model = Model::new(policies, START.millis());
        let (coverage, endings) = (Coverage::new(), Endings::default());
        Self { world, model, names, coverage, endings, last: None, sent: 0 }
    }

    /// Plays all the steps, each alone or in batches as they say, and lets everything expire in the end.
    pub fn all(&mut self, steps: &[Step], in_batches: bool) -> Result<(), String> {
        let joins = |_: &Step, next: &Step| in_batches && next.joins;
        for batch in steps.chunk_by(joins) {
            self.batch(batch)?;
        }
        self.finish()
    }

    fn batch(&mut self, steps: &[Step]) -> Result<(), String> {
        self.wait(steps[0].wait);
        let asked: Vec<Asked> = steps.iter().map(|step| self.look_up(step)).collect();
        let requests: Vec<Request> = asked.iter().map(|asked| asked.request.clone()).collect();
        let answers = self.world.batch(&requests).map_err(|_| "a version was not as loaded".to_owned())?;
        for (asked, answer) in asked.into_iter().zip(answers) {
            self.compare(asked, answer)?;
        }
        self.sound()
    }

    fn sound(&mut self) -> Result<(), String> {
        invariants::rows(&self.world.rows)?;
        self.endings.follow(&self.world.journal)?;
        self.endings.agree(&self.world.rows)?;
        compare::state(&self.world.rows, &self.model, &self.names)
    }

    fn wait(&mut self, wait: Wait) {
        let now = self.world.now.millis();
        let then = match wait {
            Wait::Millis(millis) => now + millis,
            Wait::Around(back, after) => counted_back(self.model.holds.len(), back)
                .map_or(now, |hold| self.model.holds[hold].expires + after),
        };
        // Time does not go back.
        self.model.now = then.max(now);
        self.world.now = Time::from_millis(self.model.now);
    }

    fn compare(&mut self, asked: Asked, answer: Result<Executed, Refusal>) -> Result<(), String> {
        if let Task::Replay(outcome) = &asked.task {
            let done = answer.map_err(|refusal| format!("a replay was refused: {refusal:?}"))?;
            let same = done.replayed && done.facts.is_empty() && done.outcome == **outcome;
            *self.coverage.entry("replay".to_owned()).or_default() += 1;
            return if same { Ok(()) } else { Err(format!("a replay did something: {done:?}")) };
        }
        let expected = self.predict(&asked);
        *self.coverage.entry(label(&expected)).or_default() += 1;
        compare::answer(&expected, &answer, &self.model, &mut self.names)?;
        if let Ok(done) = answer {
            self.last = Some((asked.request, done.outcome));
        }
        Ok(())
    }

    fn predict(&mut self, asked: &Asked) -> Result<Yes, No> {
        let model = &mut self.model;
        if asked.stranger {
            match &asked.task {
                Task::Expire(_) | Task::Replay(_) | Task::Reuse => {}
                Task::Hold(_) | Task::Book(_) | Task::Block(..) | Task::Unblock(..) => {
                    return Err(No::UnknownEvent);
                }
                Task::Cancel(..) => return Err(No::UnknownBooking),
                _ => return Err(No::UnknownHold),
            }
        }
        match &asked.task {
            Task::Hold(want) => model.hold(want),
            Task::Book(want) => model.book(want),
            Task::Checkout(hold, user) => model.checkout(*hold, *user),
            Task::Heartbeat(hold, user) => model.heartbeat(*hold, *user),
            Task::Release(hold, user, seats) => model.release(*hold, *user, seats),
            Task::Confirm(hold, user) => model.confirm(*hold, *user),
            Task::Cancel(sale, user) => model.cancel(*sale, *user),
            Task::Expire(hold) => model.expire(*hold),
            Task::Block(event, seats) => model.block(*event, seats),
            Task::Unblock(event, seats) => model.unblock(*event, seats),
            Task::Replay(_) => unreachable!("compared before"),
            Task::Reuse => Err(No::KeyReused),
        }
    }

    /// Waits until no hold is left, ends each of them twice, and finds nothing held by anybody.
    fn finish(&mut self) -> Result<(), String> {
        self.wait(Wait::Millis(200_000));
        for _ in 0..2 {
            for hold in 0..self.names.holds.len() {
                let over = |play: &Play| play.world.rows.holds[&play.names.holds[hold]].value.ended_at;
                let before = over(self);
                let command = Command::Expire { hold: self.names.holds[hold] };
                let done = self.world.ask(self.names.orgs[0], command).map_err(|no| format!("{no:?}"))?;
                if done.facts.len() != usize::from(before.is_none()) || over(self).is_none() {
                    return Err(format!("expiring hold {hold} did {:?}", done.facts));
                }
            }
        }
        self.sound()?;
        let left = self.world.rows.active_holds().count();
        if left == 0 { Ok(()) } else { Err(format!("{left} holds never end")) }
    }
}

/// From small numbers to requests.
impl Play {
    fn look_up(&mut self, step: &Step) -> Asked {
        self.sent += 1;
        if let (Action::Again(reuse), Some((request, outcome))) = (&step.action, &self.last) {
            let mut request = request.clone();
            let task = if *reuse { Task::Reuse } else { Task::Replay(Box::new(outcome.clone())) };
            if let (true, Some(key)) = (*reuse, &mut request.idempotency) {
                key.fingerprint = [0xff; 16];
            }
            return Asked { task, stranger: false, request };
        }
        let (task, command, event, actor) = self.translate(&step.action);
        let org = (event + u8::from(step.stranger)) % EVENTS;
        let mut request = request(self.names.orgs[usize::from(org)], command);
        request.actor =
            actor.map_or(Actor::System, |n| Actor::User(self.names.users[usize::from(n)].clone()));
        let fingerprint = u128::from(self.sent).to_be_bytes();
        request.idempotency =
            Some(IdempotencyKey { key: Arc::from(format!("key-{}", self.sent)), fingerprint });
        Asked { task, stranger: step.stranger, request }
    }

    /// The task, the command, the event it is about and the user who asks.
    fn translate(&self, action: &Action) -> (Task, Command, u8, Option<u8>) {
        match action {
            Action::Hold(want) => {
                let command = Command::Hold(self.places(want));
                (Task::Hold(want.clone()), command, want.event, Some(want.user))
            }
            Action::Book(want) => {
                let command = Command::Book { places: self.places(want), payment_reference: None };
                (Task::Book(want.clone()), command, want.event, Some(want.user))
            }
            Action::Checkout(back, who) => {
                let (index, hold, event, n, user) = self.hold(*back, *who);
                (Task::Checkout(index, n), Command::StartCheckout { hold, user }, event, Some(n))
            }
            Action::Heartbeat(back, who) => {
                let (index, hold, event, n, user) = self.hold(*back, *who);
                (Task::Heartbeat(index, n), Command::Heartbeat { hold, user }, event, Some(n))
            }
            Action::Release(back, who, seats) => {
                let (index, hold, event, n, user) = self.hold(*back, *who);
                let command = Command::Release { hold, user, seats: self.seats(event, seats) };
                (Task::Release(index, n, seats.clone()), command, event, Some(n))
            }
            Action::Confirm(back, who) => {
                let (index, hold, event, n, user) = self.hold(*back, *who);
                let command = Command::Confirm { hold, user, payment_reference: None };
                (Task::Confirm(index, n), command, event, Some(n))
            }
            Action::Cancel(back, who) => self.cancel(*back, *who),
            Action::Expire(back) => {
                let (index, hold, event, ..) = self.hold(*back, Who::Owner);
                (Task::Expire(index), Command::Expire { hold }, event, None)
            }
            Action::Block(event, seats) => {
                let command =
                    Command::BlockSeats { event: self.event(*event), seats: self.seats(*event, seats) };
                (Task::Block(*event, seats.clone()), command, *event, None)
            }
            Action::Unblock(event, seats) => {
                let command =
                    Command::UnblockSeats { event: self.event(*event), seats: self.seats(*event, seats) };
                (Task::Unblock(*event, seats.clone()), command, *event, None)
            }
            // Nothing to repeat yet: something harmless instead.
            Action::Again(_) => self.translate(&Action::Unblock(0, vec![])),
        }
    }

    fn cancel(&self, back: u8, who: Option<Who>) -> (Task, Command, u8, Option<u8>) {
        let index = counted_back(self.names.bookings.len(), back);
        let booking = index.map_or(BookingId::from_uuid(Uuid::nil()), |index| self.names.bookings[index]);
        let hold = index.map(|index| &self.model.holds[self.model.sales[index].hold]);
        let (event, owner) = hold.map_or((0, 0), |hold| (hold.event, hold.user));
        let by = who.map(|who| other_if(owner, who));
        let user = by.map(|by| self.names.users[usize::from(by)].clone());
        (Task::Cancel(index, by), Command::CancelBooking { booking, user }, event, by)
    }

    fn hold(&self, back: u8, who: Who) -> (Option<usize>, HoldId, u8, u8, UserId) {
        let index = counted_back(self.names.holds.len(), back);
        let id = index.map_or(HoldId::from_uuid(Uuid::nil()), |index| self.names.holds[index]);
        let (event, owner) = index.map_or((0, 0), |n| (self.model.holds[n].event, self.model.holds[n].user));
        let user = other_if(owner, who);
        (index, id, event, user, self.names.users[usize::from(user)].clone())
    }

    fn places(&self, want: &Want) -> Places {
        let areas = &self.names.areas[usize::from(want.event)];
        let nowhere = BlockId::from_uuid(Uuid::nil());
        let area = |n: u8| areas.get(usize::from(n)).copied().unwrap_or(AreaId::from_uuid(Uuid::nil()));
        let block = |known| if known { self.names.blocks[usize::from(want.event)] } else { nowhere };
        Places {
            event: self.event(want.event),
            user: self.names.users[usize::from(want.user)].clone(),
            cart: self.names.carts[usize::from(want.cart)].clone(),
            source: Source::Web,
            seats: self.seats(want.event, &want.seats),
            blocks: want.any.into_iter().map(|(known, quantity)| (block(known), quantity)).collect(),
            areas: want.areas.iter().map(|(n, quantity)| (area(*n), *quantity)).collect(),
        }
    }

    fn event(&self, n: u8) -> EventId {
        self.names.events[usize::from(n)]
    }

    fn seats(&self, event: u8, seats: &[u8]) -> Vec<SeatId> {
        seats.iter().map(|seat| SeatId::of(self.event(event), u32::from(*seat))).collect()
    }
}

fn counted_back(count: usize, back: u8) -> Option<usize> {
    count.checked_sub(1).map(|youngest| youngest - usize::from(back) % count)
}

fn other_if(owner: u8, who: Who) -> u8 {
    match who {
        Who::Owner => owner,
        Who::SomebodyElse => (owner + 1) % USERS,
    }
}

/// The kind of an answer, to count how often each happens.
fn label(answer: &Result<Yes, No>) -> String {
    match answer {
        Ok(Yes::Hold { changed, elsewhere, .. }) if elsewhere.is_empty() => {
            format!("hold, changed {changed:?}")
        }
        Ok(Yes::Hold { changed, .. }) => format!("hold elsewhere, changed {changed:?}"),
        Ok(Yes::Booking { changed, .. }) => format!("booking, changed {changed}"),
        Ok(Yes::Marked(seats)) => format!("marked, changed {}", !seats.is_empty()),
        Err(no) => format!("{no:?}").split(['(', ' ']).next().unwrap_or_default().to_owned(),
    }
}
