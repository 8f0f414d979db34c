//! An org with an event on some truth, and short words for what the cases do with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rowlock_core::booking::Booking;
use rowlock_core::command::{NewSection, Places};
use rowlock_core::event::Tier;
use rowlock_core::hold::{Hold, Source};
use rowlock_core::policy::Policy;
use rowlock_core::seat::Section;
use rowlock_core::text::Row;
use rowlock_core::{
    Actor, AreaId, BlockId, BookingId, CartToken, Command, EventId, HoldId, IdempotencyKey, Name, OrgId,
    Outcome, Refusal, Request, SeatId, Time, UserId,
};
use uuid::Uuid;

use crate::verify::Report;
use crate::{Committed, Failure, Truth};

pub const SEAT_PRICE: i64 = 4_500;
pub const AREA_PRICE: i64 = 2_000;

/// What an event is made with.
#[derive(Clone, Debug)]
pub struct Setup {
    pub policy: Policy,
    /// Rows of ten seats, the first half of them in one block, the others in another.
    pub rows: usize,
    /// Capacities.
    pub areas: Vec<u32>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { policy: Policy::default(), rows: 4, areas: vec![10] }
    }
}

impl Setup {
    /// Holds end as soon as a policy lets them.
    pub fn brief() -> Self {
        Self { policy: Policy { ttl_seconds: 1, ..Policy::default() }, ..Self::default() }
    }
}

#[derive(Clone)]
pub struct Stage {
    pub truth: Arc<dyn Truth>,
    pub org: OrgId,
    pub event: EventId,
    pub areas: Vec<AreaId>,
}

pub fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

pub fn user(text: &str) -> UserId {
    UserId::new(text).expect("a valid user")
}

pub fn request(org: OrgId, command: Command) -> Request {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    Request {
        org,
        actor: Actor::System,
        request_id: format!("request-{id}").into(),
        idempotency: None,
        command,
    }
}

/// The request with an idempotency key. Bodies that differ have other fingerprints.
pub fn keyed(request: Request, key: &str, body: u8) -> Request {
    let idempotency = Some(IdempotencyKey { key: key.into(), fingerprint: [body; 16] });
    Request { idempotency, ..request }
}

pub async fn commit_one(truth: &dyn Truth, request: Request) -> Result<Committed, Failure> {
    let mut results = truth.commit(vec![request]).await;
    assert_eq!(results.len(), 1, "one request has one answer");
    results.remove(0)
}

pub async fn create_org(truth: &dyn Truth, org: &str) -> OrgId {
    let request = request(OrgId::from_uuid(Uuid::nil()), Command::CreateOrg { name: name(org) });
    match commit_one(truth, request).await.expect("an org").outcome {
        Outcome::Org(org) => org.id,
        other => panic!("not an org: {other:?}"),
    }
}

pub fn new_event(org: OrgId, title: &str, policy: Policy) -> Request {
    let tiers =
        vec![Tier { code: name("seat"), price: SEAT_PRICE }, Tier { code: name("floor"), price: AREA_PRICE }];
    let currency = "EUR".parse().expect("a currency");
    request(org, Command::CreateEvent { name: name(title), currency, tiers, policy })
}

/// Rows of `numbers` seats each in one block.
pub fn section(block: &str, rows: std::ops::Range<usize>, numbers: u32) -> NewSection {
    let section = Section {
        block: BlockId::from_uuid(Uuid::nil()),
        rows: rows.clone().map(|row| Row::new(&format!("R{row}")).expect("a row")).collect(),
        first_number: 1,
        last_number: numbers,
        tier: 0,
        x: 0.0,
        y: rows.start as f32,
        seat_pitch: 1.0,
        row_pitch: 1.0,
    };
    NewSection { block: name(block), tier: name("seat"), section }
}

/// Everything that makes an event of this setup, to be sent once its id is known.
pub fn furnish(org: OrgId, event: EventId, setup: &Setup) -> Vec<Request> {
    let half = setup.rows.div_ceil(2);
    let sections: Vec<NewSection> = [section("left", 0..half, 10), section("right", half..setup.rows, 10)]
        .into_iter()
        .filter(|section| !section.section.rows.is_empty())
        .collect();
    let mut commands = Vec::new();
    if !sections.is_empty() {
        commands.push(Command::CreateSeats { event, sections });
    }
    commands.extend(setup.areas.iter().enumerate().map(|(i, capacity)| Command::CreateArea {
        event,
        name: name(&format!("area {i}")),
        tier: name("floor"),
        capacity: *capacity,
    }));
    commands.into_iter().map(|command| request(org, command)).collect()
}

impl Stage {
    pub async fn new(truth: Arc<dyn Truth>, setup: Setup) -> Self {
        let org = create_org(&*truth, "Stage").await;
        Self::in_org(truth, org, setup).await
    }

    pub async fn in_org(truth: Arc<dyn Truth>, org: OrgId, setup: Setup) -> Self {
        let created = commit_one(&*truth, new_event(org, "Play", setup.policy.clone())).await;
        let Outcome::Event(event) = created.expect("an event").outcome else { panic!("not an event") };
        let mut areas = Vec::new();
        for made in truth.commit(furnish(org, event.id, &setup)).await {
            if let Outcome::Area(area) = made.expect("seats and areas").outcome {
                areas.push(area.id);
            }
        }
        Self { truth, org, event: event.id, areas }
    }

    pub fn seat(&self, ordinal: u32) -> SeatId {
        SeatId::of(self.event, ordinal)
    }

    pub fn seats(&self, ordinals: &[u32]) -> Vec<SeatId> {
        ordinals.iter().map(|ordinal| self.seat(*ordinal)).collect()
    }

    pub fn request(&self, command: Command) -> Request {
        request(self.org, command)
    }

    pub fn places(&self, who: &str, seats: &[u32], areas: &[(AreaId, u32)]) -> Places {
        Places {
            event: self.event,
            user: user(who),
            cart: CartToken::unnamed(),
            source: Source::Web,
            seats: self.seats(seats),
            blocks: Vec::new(),
            areas: areas.to_vec(),
        }
    }

    pub fn hold(&self, who: &str, seats: &[u32]) -> Request {
        self.request(Command::Hold(self.places(who, seats, &[])))
    }

    pub fn hold_area(&self, who: &str, quantity: u32) -> Request {
        self.request(Command::Hold(self.places(who, &[], &[(self.areas[0], quantity)])))
    }

    pub fn hold_in_cart(&self, who: &str, cart: &str, seats: &[u32]) -> Request {
        let cart = CartToken::new(cart).expect("a cart");
        self.request(Command::Hold(Places { cart, ..self.places(who, seats, &[]) }))
    }

    pub fn release(&self, who: &str, hold: HoldId, seats: &[u32]) -> Request {
        self.request(Command::Release { hold, user: user(who), seats: self.seats(seats) })
    }

    pub fn confirm(&self, who: &str, hold: HoldId) -> Request {
        self.request(Command::Confirm { hold, user: user(who), payment_reference: None })
    }

    pub fn checkout(&self, who: &str, hold: HoldId) -> Request {
        self.request(Command::StartCheckout { hold, user: user(who) })
    }

    pub fn heartbeat(&self, who: &str, hold: HoldId) -> Request {
        self.request(Command::Heartbeat { hold, user: user(who) })
    }

    pub fn cancel(&self, booking: BookingId) -> Request {
        self.request(Command::CancelBooking { booking, user: None })
    }

    pub fn expire(&self, hold: HoldId) -> Request {
        self.request(Command::Expire { hold })
    }

    pub async fn one(&self, request: Request) -> Result<Committed, Failure> {
        commit_one(&*self.truth, request).await
    }

    /// The hold that the request makes or changes.
    pub async fn held(&self, request: Request) -> Hold {
        hold_of(&self.one(request).await.expect("a hold"))
    }

    pub async fn booked(&self, request: Request) -> Booking {
        booking_of(&self.one(request).await.expect("a booking"))
    }

    pub async fn refused(&self, request: Request) -> Refusal {
        refusal_of(self.one(request).await)
    }

    pub async fn stored(&self, hold: HoldId) -> Hold {
        self.truth.hold(hold).await.expect("a read").expect("the hold is stored")
    }

    /// Statuses of the event's seats by ordinal, one letter each: `.` free, `h` held, `S` sold, `x` blocked.
    pub async fn map(&self) -> String {
        let snapshot = self.truth.event(self.event).await.expect("a read").expect("the event is stored");
        snapshot.seats.iter().map(|seat| [".", "h", "S", "x"][seat.state.status() as usize]).collect()
    }

    /// Held and sold places of the first area.
    pub async fn area(&self) -> (u32, u32) {
        let snapshot = self.truth.event(self.event).await.expect("a read").expect("the event is stored");
        (snapshot.areas[0].held, snapshot.areas[0].sold)
    }

    pub async fn wait_until(&self, time: Time) {
        wait_until(&*self.truth, time).await;
    }

    /// How often the journal of the event has each kind of fact.
    pub async fn kinds(&self, kind: &str) -> usize {
        let rows = self.truth.journal(rowlock_core::Stream::Event(self.event), 0, 100_000).await;
        rows.expect("a read").iter().filter(|row| row.kind == kind).count()
    }

    pub async fn assert_clean(&self) {
        assert_clean(&*self.truth).await;
    }
}

/// Waits until the truth's own clock says so: it is the one that decides.
pub async fn wait_until(truth: &dyn Truth, time: Time) {
    while truth.now() < time {
        let left = time.millis_since(truth.now()).clamp(1, 50);
        tokio::time::sleep(Duration::from_millis(left as u64)).await;
    }
}

pub async fn report(truth: &dyn Truth) -> Report {
    truth.verify(Arc::new(|_, _, _| {})).await.expect("the data can be checked")
}

pub async fn assert_clean(truth: &dyn Truth) {
    let violations = report(truth).await.violations;
    assert!(violations.is_empty(), "{violations:#?}");
}

pub fn hold_of(committed: &Committed) -> Hold {
    match &committed.outcome {
        Outcome::Hold(outcome) => Hold::clone(&outcome.hold),
        other => panic!("not a hold: {other:?}"),
    }
}

pub fn booking_of(committed: &Committed) -> Booking {
    match &committed.outcome {
        Outcome::Booking(outcome) => outcome.booking.clone(),
        other => panic!("not a booking: {other:?}"),
    }
}

/// Whether the command changed anything.
pub fn changed(committed: &Committed) -> bool {
    match &committed.outcome {
        Outcome::Hold(outcome) => outcome.changed,
        Outcome::Booking(outcome) => outcome.changed,
        other => panic!("neither a hold nor a booking: {other:?}"),
    }
}

pub fn refusal_of(result: Result<Committed, Failure>) -> Refusal {
    match result {
        Err(Failure::Refused(refusal)) => refusal,
        other => panic!("not a refusal: {other:?}"),
    }
}
