//! One event in memory: arrays by seat ordinal, a bitmap of what is free, and counters.

mod carts;
mod fits;

use std::sync::Arc;

use rowlock_core::area::Area;
use rowlock_core::booking::{Admits, Booking};
use rowlock_core::command::Places;
use rowlock_core::event::Event;
use rowlock_core::fact::{Fact, HoldPart, SectionsAdded};
use rowlock_core::hold::{HeldArea, HeldSeat};
use rowlock_core::seat::{SeatState, SeatStatus};
use rowlock_core::{AreaId, BlockId, CartToken, HoldId, SeatId, Time, UserId};
use rowlock_truth::Belief;
use rowlock_truth::read::EventSnapshot;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

use self::carts::Carts;
use super::layout::Layout;

/// Seats by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub available: u32,
    pub held: u32,
    pub sold: u32,
    pub blocked: u32,
}

impl Counts {
    pub fn total(&self) -> u32 {
        self.available + self.held + self.sold + self.blocked
    }

    fn slot(&mut self, status: SeatStatus) -> &mut u32 {
        match status {
            SeatStatus::Available => &mut self.available,
            SeatStatus::Held => &mut self.held,
            SeatStatus::Sold => &mut self.sold,
            SeatStatus::Blocked => &mut self.blocked,
        }
    }
}

/// An area with its live counters.
pub type AreaCounts = Area;

/// What is known of one seat right now.
#[derive(Clone, Copy, Debug)]
pub struct SeatView {
    pub ordinal: u32,
    pub status: SeatStatus,
    pub held_until: Option<Time>,
}

#[derive(Clone, Debug)]
pub struct HotEvent {
    event: Arc<Event>,
    layout: Arc<Layout>,
    status: Vec<SeatStatus>,
    hold: Vec<HoldId>,
    until: Vec<i64>,
    /// A digest of the user who holds the seat. Alike for two users only by accident, and then the truth is asked.
    owner: Vec<u64>,
    free: Vec<u64>,
    counts: Counts,
    block_counts: Vec<Counts>,
    areas: Vec<AreaCounts>,
    /// Only where holds are believed in before they are looked at.
    carts: Option<Carts>,
    sequence: u64,
    /// Grows when the layout does, so that whoever caches a drawn map knows.
    layout_version: u64,
}

const NOBODY: HoldId = HoldId::from_uuid(uuid::Uuid::nil());

pub(crate) fn owner_digest(user: &UserId) -> u64 {
    let mut hasher = FxHasher::default();
    user.hash(&mut hasher);
    hasher.finish()
}

impl HotEvent {
    pub fn new(snapshot: EventSnapshot) -> Self {
        let seats = snapshot.seats.len();
        let mut event = Self {
            event: Arc::new(snapshot.row.event),
            layout: Arc::default(),
            status: Vec::with_capacity(seats),
            hold: Vec::with_capacity(seats),
            until: Vec::with_capacity(seats),
            owner: Vec::with_capacity(seats),
            free: Vec::with_capacity(seats.div_ceil(64)),
            counts: Counts::default(),
            block_counts: vec![Counts::default(); snapshot.row.blocks.len()],
            areas: snapshot.areas,
            carts: None,
            sequence: snapshot.sequence,
            layout_version: snapshot.sequence,
        };
        let mut layout = Layout::new(snapshot.row.blocks, seats);
        for seat in &snapshot.seats {
            layout.push(&seat.place);
            let block = usize::from(layout.block_of[event.status.len()]);
            event.push_seat(block);
            let ordinal = event.status.len() as u32 - 1;
            let owner = seat.user.as_ref().map_or(0, owner_digest);
            match seat.state {
                SeatState::Available => {}
                SeatState::Held { hold, until } => {
                    event.hold[ordinal as usize] = hold;
                    event.until[ordinal as usize] = until.millis();
                    event.owner[ordinal as usize] = owner;
                    event.mark(&layout, ordinal, SeatStatus::Held);
                }
                state => event.mark(&layout, ordinal, state.status()),
            }
        }
        event.layout = Arc::new(layout);
        event
    }

    /// The same, remembering what [`Self::believe`] needs.
    pub fn believing(self) -> Self {
        Self { carts: Some(Carts::default()), ..self }
    }

    pub fn event(&self) -> &Arc<Event> {
        &self.event
    }

    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    pub fn layout_version(&self) -> u64 {
        self.layout_version
    }

    /// The journal sequence that this state is of.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    pub fn seat_count(&self) -> u32 {
        self.status.len() as u32
    }

    pub fn statuses(&self) -> &[SeatStatus] {
        &self.status
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn block_counts(&self) -> impl Iterator<Item = (&rowlock_core::event::Block, Counts)> {
        self.layout.blocks.iter().zip(self.block_counts.iter().copied())
    }

    pub fn areas(&self) -> &[AreaCounts] {
        &self.areas
    }

    pub fn area(&self, id: AreaId) -> Option<&AreaCounts> {
        self.areas.iter().find(|area| area.id == id)
    }

    pub fn block_id(&self, ordinal: u32) -> BlockId {
        self.layout.block(ordinal).id
    }

    /// The ordinal of a seat id, if this event has that seat.
    pub fn ordinal(&self, seat: SeatId) -> Option<u32> {
        seat.ordinal_in(self.event.id).filter(|ordinal| *ordinal < self.seat_count())
    }

    pub fn seat(&self, ordinal: u32) -> SeatView {
        let i = ordinal as usize;
        let status = self.status[i];
        let held_until = (status == SeatStatus::Held).then(|| Time::from_millis(self.until[i]));
        SeatView { ordinal, status, held_until }
    }

    /// The seat's status, and the hold that has it while it is held.
    pub fn status_and_hold(&self, ordinal: u32) -> (SeatStatus, HoldId) {
        (self.status[ordinal as usize], self.hold[ordinal as usize])
    }

    /// The words of the availability bitmap, one bit a seat by ordinal.
    pub fn availability(&self) -> &[u64] {
        &self.free
    }

    /// Whether this process knows that `user` can't have the seat, and that asking the truth would not change that
    /// within `margin_millis`.
    pub fn surely_taken(
        &self,
        ordinal: u32,
        user: &UserId,
        now: impl FnOnce() -> Time,
        margin_millis: i64,
    ) -> bool {
        let i = ordinal as usize;
        match self.status[i] {
            SeatStatus::Available | SeatStatus::Blocked => false,
            SeatStatus::Sold => true,
            SeatStatus::Held => {
                self.until[i] > now().millis().saturating_add(margin_millis)
                    && self.owner[i] != owner_digest(user)
            }
        }
    }

    /// What is to be believed of a hold that goes down now. `None`: nothing, it must be looked at.
    pub fn believe(&self, places: &Places) -> Option<Belief> {
        let only_seats = places.blocks.is_empty() && places.areas.is_empty();
        let carts = self.carts.as_ref().filter(|_| only_seats)?;
        if !carts.is_new(&places.user, &places.cart, self.event.policy.seats_per_user) {
            return None;
        }
        let tier = |seat: &SeatId| {
            let ordinal = self.ordinal(*seat)?;
            let is_free = self.status[ordinal as usize] == SeatStatus::Available;
            is_free.then(|| self.layout.tier(ordinal))
        };
        Some(Belief { tiers: places.seats.iter().map(tier).collect::<Option<_>>()? })
    }

    /// Memory of everything that grows with the number of seats.
    pub fn bytes(&self) -> usize {
        self.layout.bytes()
            + self.carts.as_ref().map_or(0, Carts::bytes)
            + self.status.capacity()
            + self.hold.capacity() * 16
            + self.until.capacity() * 8
            + self.owner.capacity() * 8
            + self.free.capacity() * 8
    }

    /// Applies the next fact of the event's stream. `false`: it does not fit behind what is known, or it can't be a fact
    /// of this event, and nothing has changed. Then the event must be loaded again.
    #[must_use]
    pub fn apply(&mut self, sequence: u64, fact: &Fact) -> bool {
        if sequence <= self.sequence {
            return true;
        }
        if sequence != self.sequence.saturating_add(1) || !self.fits(fact) {
            return false;
        }
        self.sequence = sequence;
        match fact {
            Fact::HoldCreated(hold) => {
                self.add_cart(&hold.user, &hold.cart);
                self.take(hold.id, &hold.user, hold.expires_at, &hold.seats, &hold.areas)
            }
            Fact::HoldGrew(part) => {
                self.add_cart(&part.user, &part.cart);
                self.take(part.hold, &part.user, part.expires_at, &part.seats, &part.areas)
            }
            Fact::HoldExtended(moved) => {
                for seat in &moved.seats {
                    self.until[seat.ordinal as usize] = moved.expires_at.millis();
                }
            }
            Fact::HoldReleased(part) | Fact::HoldExpired(part) => {
                if let Some(carts) = self.carts.as_mut().filter(|_| part.ended) {
                    carts.remove(&part.user, &part.cart, self.event.policy.seats_per_user);
                }
                self.give_back(part);
            }
            Fact::BookingConfirmed(booking) => self.sold(booking),
            Fact::BookingCancelled(booking) => self.cancelled(booking),
            Fact::SeatsBlocked(marked) => self.mark_all(&marked.seats, SeatStatus::Blocked),
            Fact::SeatsUnblocked(marked) => self.mark_all(&marked.seats, SeatStatus::Available),
            Fact::BlockCreated(block) => {
                Arc::make_mut(&mut self.layout).add_block(block.clone());
                self.block_counts.push(Counts::default());
                self.layout_version = sequence;
            }
            Fact::SeatsCreated(added) => self.add_seats(added, sequence),
            Fact::AreaCreated(area) => self.areas.push(area.clone()),
            Fact::HoldConfirmed(_)
            | Fact::EventCreated(_)
            | Fact::OrgCreated(_)
            | Fact::ApiKeyCreated(_)
            | Fact::ApiKeyRevoked(_) => {}
        }
        true
    }

    fn add_cart(&mut self, user: &UserId, cart: &CartToken) {
        if let Some(carts) = &mut self.carts {
            carts.add(user, cart, self.event.policy.seats_per_user, self.status.len());
        }
    }

    /// Pretends that nothing is missing before a fact.
    pub(super) fn forget_gap(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence - 1);
    }

    fn take(&mut self, hold: HoldId, user: &UserId, until: Time, seats: &[HeldSeat], areas: &[HeldArea]) {
        let owner = owner_digest(user);
        for seat in seats {
            let i = seat.ordinal as usize;
            self.hold[i] = hold;
            self.until[i] = until.millis();
            self.owner[i] = owner;
            self.set(seat.ordinal, SeatStatus::Held);
        }
        for held in areas {
            self.area_mut(held.area).held += held.quantity;
        }
    }

    fn give_back(&mut self, part: &HoldPart) {
        for seat in &part.seats {
            self.set(seat.ordinal, SeatStatus::Available);
        }
        for held in &part.areas {
            self.area_mut(held.area).held -= held.quantity;
        }
    }

    fn sold(&mut self, booking: &Booking) {
        for ticket in &booking.tickets {
            match ticket.admits {
                Admits::Seat(ordinal) => self.set(ordinal, SeatStatus::Sold),
                Admits::Area(area) => {
                    let area = self.area_mut(area);
                    area.held -= 1;
                    area.sold += 1;
                }
            }
        }
    }

    fn cancelled(&mut self, booking: &Booking) {
        for ticket in &booking.tickets {
            match ticket.admits {
                Admits::Seat(ordinal) => self.set(ordinal, SeatStatus::Available),
                Admits::Area(area) => self.area_mut(area).sold -= 1,
            }
        }
    }

    fn add_seats(&mut self, added: &SectionsAdded, sequence: u64) {
        let mut layout = Arc::unwrap_or_clone(std::mem::take(&mut self.layout));
        self.reserve(&mut layout, added.count as usize);
        for place in added.sections.iter().flat_map(|section| section.places()) {
            layout.push(&place);
            let block = usize::from(layout.block_of[self.status.len()]);
            self.push_seat(block);
        }
        self.layout = Arc::new(layout);
        self.layout_version = sequence;
    }

    /// Makes room for exactly these seats: growing by doubling would cost up to twice the memory.
    fn reserve(&mut self, layout: &mut Layout, more: usize) {
        layout.reserve(more);
        let seats = self.status.len() + more;
        self.status.reserve_exact(more);
        self.hold.reserve_exact(more);
        self.until.reserve_exact(more);
        self.owner.reserve_exact(more);
        self.free.reserve_exact(seats.div_ceil(64) - self.free.len());
    }

    fn push_seat(&mut self, block: usize) {
        let ordinal = self.status.len();
        if ordinal.is_multiple_of(64) {
            self.free.push(0);
        }
        self.free[ordinal / 64] |= 1 << (ordinal % 64);
        self.status.push(SeatStatus::Available);
        self.hold.push(NOBODY);
        self.until.push(0);
        self.owner.push(0);
        self.counts.available += 1;
        self.block_counts[block].available += 1;
    }

    fn mark_all(&mut self, seats: &[SeatId], status: SeatStatus) {
        for seat in seats {
            self.set(seat.raw_ordinal(), status);
        }
    }

    fn set(&mut self, ordinal: u32, status: SeatStatus) {
        let layout = Arc::clone(&self.layout);
        self.mark(&layout, ordinal, status);
        if status != SeatStatus::Held {
            let i = ordinal as usize;
            self.hold[i] = NOBODY;
            self.until[i] = 0;
            self.owner[i] = 0;
        }
    }

    fn mark(&mut self, layout: &Layout, ordinal: u32, status: SeatStatus) {
        let i = ordinal as usize;
        let before = std::mem::replace(&mut self.status[i], status);
        let block = &mut self.block_counts[usize::from(layout.block_of[i])];
        for counts in [&mut self.counts, block] {
            *counts.slot(before) -= 1;
            *counts.slot(status) += 1;
        }
        let bit = 1 << (i % 64);
        if status == SeatStatus::Available {
            self.free[i / 64] |= bit;
        } else {
            self.free[i / 64] &= !bit;
        }
    }

    fn area_mut(&mut self, id: AreaId) -> &mut AreaCounts {
        self.areas.iter_mut().find(|area| area.id == id).expect("an area of a fact is known")
    }
}
