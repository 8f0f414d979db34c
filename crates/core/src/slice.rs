//! The few rows that a batch of commands names, loaded and locked by the truth.
//!
//! Commands are decided one after another on the same slice: [`Slice::apply`] changes rows as facts say, so the
//! second command of a batch sees what the first one did. The truth then writes the rows that changed, each with a
//! compare-and-set on the version it was loaded with.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::area::Area;
use crate::booking::{Admits, Booking, BookingStatus};
use crate::command::{Actor, IdempotencyKey, NewSection, Request};
use crate::event::{Block, Event};
use crate::fact::{Fact, HoldPart, SectionsAdded};
use crate::hold::{HeldArea, HeldSeat, Hold, HoldStatus};
use crate::ids::{AreaId, BlockId, BookingId, EventId, HoldId, KeyId, OrgId, SeatId};
use crate::org::{ApiKey, Org};
use crate::outcome::Outcome;
use crate::seat::{Seat, SeatState};
use crate::text::{CartToken, Name, Row as SeatRow, UserId};
use crate::time::Time;

/// A row and what the truth needs to write it back.
#[derive(Clone, Debug)]
pub struct Row<T> {
    pub value: T,
    /// The version it was loaded with. `None`: the row is new.
    pub version: Option<u64>,
    pub dirty: bool,
}

impl<T> Row<T> {
    fn new(value: T) -> Self {
        Self { value, version: None, dirty: true }
    }

    fn loaded(value: T, version: u64) -> Self {
        Self { value, version: Some(version), dirty: false }
    }

    fn change(&mut self) -> &mut T {
        self.dirty = true;
        &mut self.value
    }
}

/// An event and what creating things in it must know.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    pub event: Event,
    pub seat_count: u32,
    pub blocks: Vec<Block>,
    pub areas: Vec<(AreaId, Name)>,
}

/// One idempotency key of one actor of one org.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordKey {
    pub org: OrgId,
    pub actor: Actor,
    pub key: Arc<str>,
}

#[derive(Clone, Debug)]
pub struct Record {
    pub fingerprint: [u8; 16],
    pub outcome: Outcome,
    /// Whether the batch made it, so that it must be written.
    pub fresh: bool,
}

type Cart = (EventId, UserId, CartToken);

/// Where a seat stands within its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Which row: a number for its name, of this slice alone.
    row: u32,
    number: u32,
}

impl Spot {
    /// Whether the other seat is the next one of the same row.
    pub fn is_before(self, other: Spot) -> bool {
        self.row == other.row && self.number.checked_add(1) == Some(other.number)
    }
}

/// A block of which commands take any seats.
#[derive(Debug)]
struct OpenBlock {
    event: EventId,
    rows: FxHashMap<Box<str>, u32>,
    /// The seats that can be had, by ordinal: free, or held by a hold past its time. Kept up to date by facts, so
    /// that the last command of a batch need not look at all that the others took.
    free: BTreeMap<u32, Spot>,
}

#[derive(Debug, Default)]
pub struct Slice {
    pub(crate) orgs: FxHashMap<OrgId, Row<Org>>,
    pub(crate) keys: FxHashMap<KeyId, Row<ApiKey>>,
    pub(crate) events: FxHashMap<EventId, Row<Arc<EventRow>>>,
    pub(crate) seats: FxHashMap<SeatId, Row<Seat>>,
    pub(crate) areas: FxHashMap<AreaId, Row<Area>>,
    pub(crate) holds: FxHashMap<HoldId, Row<Arc<Hold>>>,
    pub(crate) bookings: FxHashMap<BookingId, Row<Booking>>,
    pub(crate) records: FxHashMap<RecordKey, Record>,
    /// The active hold of a cart.
    carts: FxHashMap<Cart, HoldId>,
    /// Places that a user holds and owns in an event, for events that limit them. Holds past their time are out.
    usage: FxHashMap<(EventId, UserId), u32>,
    blocks: FxHashMap<BlockId, OpenBlock>,
    /// Seats of these blocks, and where they are.
    spots: FxHashMap<SeatId, (BlockId, Spot)>,
    sections: Vec<SectionsAdded>,
    /// Seats that stand where commands of the batch ask for new ones.
    taken_places: FxHashMap<EventId, Vec<TakenPlace>>,
}

/// Where a seat stands.
#[derive(Clone, Debug)]
pub struct TakenPlace {
    pub block: Name,
    pub row: SeatRow,
    pub number: u32,
}

impl TakenPlace {
    fn is_in(&self, new: &NewSection) -> bool {
        let NewSection { block, section, .. } = new;
        *block == self.block
            && (section.first_number..=section.last_number).contains(&self.number)
            && section.rows.contains(&self.row)
    }
}

/// Loading, for the truth.
impl Slice {
    /// Forgets all rows and keeps the room for those that every hold has, so that the next batch need not ask for memory again. What an
    /// unusual batch has made very large is let go.
    pub fn emptied(self) -> Self {
        const MOST_KEPT: usize = 4_096;
        let Self { mut seats, mut holds, mut carts, .. } = self;
        if seats.capacity().max(holds.capacity()) > MOST_KEPT {
            return Self::default();
        }
        seats.clear();
        holds.clear();
        carts.clear();
        Self { seats, holds, carts, ..Self::default() }
    }

    pub fn load_org(&mut self, org: Org) {
        self.orgs.insert(org.id, Row::loaded(org, 0));
    }

    pub fn load_key(&mut self, key: ApiKey) {
        self.keys.insert(key.id, Row::loaded(key, 0));
    }

    pub fn load_event(&mut self, row: Arc<EventRow>) {
        self.events.insert(row.event.id, Row::loaded(row, 0));
    }

    pub fn load_seat(&mut self, id: SeatId, seat: Seat, version: u64) {
        self.seats.insert(id, Row::loaded(seat, version));
    }

    pub fn load_area(&mut self, area: Area, version: u64) {
        self.areas.insert(area.id, Row::loaded(area, version));
    }

    pub fn load_hold(&mut self, hold: impl Into<Arc<Hold>>, version: u64) {
        let hold = hold.into();
        if hold.status == HoldStatus::Active {
            self.carts.insert((hold.event, hold.user.clone(), hold.cart.clone()), hold.id);
        }
        self.holds.insert(hold.id, Row::loaded(hold, version));
    }

    pub fn load_booking(&mut self, booking: Booking, version: u64) {
        self.bookings.insert(booking.id, Row::loaded(booking, version));
    }

    pub fn load_usage(&mut self, event: EventId, user: UserId, places: u32) {
        self.usage.insert((event, user), places);
    }

    pub fn load_record(&mut self, key: RecordKey, fingerprint: [u8; 16], outcome: Outcome) {
        self.records.insert(key, Record { fingerprint, outcome, fresh: false });
    }

    pub fn keep_record(&mut self, org: OrgId, actor: Actor, key: &IdempotencyKey, outcome: Outcome) {
        let record = Record { fingerprint: key.fingerprint, outcome, fresh: true };
        self.records.insert(RecordKey { org, actor, key: key.key.clone() }, record);
    }

    pub fn load_taken_place(&mut self, event: EventId, place: TakenPlace) {
        self.taken_places.entry(event).or_default().push(place);
    }

    /// A block of which commands take any seats.
    pub fn load_block(&mut self, event: EventId, block: BlockId) {
        let open = OpenBlock { event, rows: FxHashMap::default(), free: BTreeMap::new() };
        self.blocks.entry(block).or_insert(open);
    }

    /// Where a seat of a loaded block is. A seat whose row was loaded before can be chosen if it is to be had now;
    /// others are known to be in the block and no more, as the seats of a live hold are.
    pub fn load_spot(&mut self, seat: SeatId, block: BlockId, row: &str, number: u32, now: Time) {
        let Some(open) = self.blocks.get_mut(&block) else { return };
        let next = open.rows.len() as u32;
        let row = match open.rows.get(row) {
            Some(known) => *known,
            None => *open.rows.entry(row.into()).or_insert(next),
        };
        let spot = Spot { row, number };
        self.spots.insert(seat, (block, spot));
        let to_be_had = |seat: &Row<Seat>| match seat.value.state {
            SeatState::Available => true,
            // A seat may have been loaded for somebody who does not want to take it, and then without its hold.
            SeatState::Held { hold, until } => until <= now && self.holds.contains_key(&hold),
            SeatState::Sold { .. } | SeatState::Blocked => false,
        };
        if self.seats.get(&seat).is_some_and(to_be_had) {
            open.free.insert(seat.raw_ordinal(), spot);
        }
    }

    /// Whether the answer to a request is recorded already.
    pub fn has_record(&self, request: &Request) -> bool {
        request.idempotency.as_ref().is_some_and(|key| {
            let (org, actor) = (request.org, request.actor.clone());
            self.records.contains_key(&RecordKey { org, actor, key: key.key.clone() })
        })
    }

    pub fn has_seat(&self, id: SeatId) -> bool {
        self.seats.contains_key(&id)
    }

    pub fn has_usage(&self, event: EventId, user: &UserId) -> bool {
        self.usage.contains_key(&(event, user.clone()))
    }
}

/// Reading, for the rules and for the truth.
impl Slice {
    pub fn event_row(&self, id: EventId) -> Option<&Arc<EventRow>> {
        self.events.get(&id).map(|row| &row.value)
    }

    pub fn events(&self) -> impl Iterator<Item = EventId> {
        self.events.keys().copied()
    }

    pub fn seat(&self, id: SeatId) -> Option<&Seat> {
        self.seats.get(&id).map(|row| &row.value)
    }

    pub fn seats(&self) -> impl Iterator<Item = (SeatId, &Seat)> {
        self.seats.iter().map(|(id, row)| (*id, &row.value))
    }

    pub fn area(&self, id: AreaId) -> Option<&Area> {
        self.areas.get(&id).map(|row| &row.value)
    }

    pub fn hold(&self, id: HoldId) -> Option<&Hold> {
        self.holds.get(&id).map(|row| &*row.value)
    }

    pub fn booking(&self, id: BookingId) -> Option<&Booking> {
        self.bookings.get(&id).map(|row| &row.value)
    }

    pub fn cart(&self, event: EventId, user: &UserId, cart: &CartToken) -> Option<&Hold> {
        let id = self.carts.get(&(event, user.clone(), cart.clone()))?;
        self.hold(*id)
    }

    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.holds.values().map(|row| &*row.value)
    }

    /// The seats of a block that can be had, in the order of their ordinals. `None`: the event has no such block.
    pub fn free_seats(
        &self,
        event: EventId,
        block: BlockId,
    ) -> Option<impl Iterator<Item = (u32, Spot)> + '_> {
        let open = self.blocks.get(&block).filter(|open| open.event == event)?;
        Some(open.free.iter().map(|(ordinal, spot)| (*ordinal, *spot)))
    }

    /// Whether a seat is one of this block, which must be loaded.
    pub fn is_in_block(&self, seat: SeatId, block: BlockId) -> bool {
        self.spots.get(&seat).is_some_and(|(of, _)| *of == block)
    }

    /// A place that new seats would take and that is taken. Others of the batch may have asked for other places.
    pub fn taken_place(&self, event: EventId, wanted: &[NewSection]) -> Option<&TakenPlace> {
        let mut taken = self.taken_places.get(&event)?.iter();
        taken.find(|place| wanted.iter().any(|new| place.is_in(new)))
    }

    /// # Panics
    /// When the truth has not loaded it, which it must for every event that limits its users.
    pub fn usage(&self, event: EventId, user: &UserId) -> u32 {
        *self.usage.get(&(event, user.clone())).expect("usage is loaded where a policy limits it")
    }
}

/// What changed, for the truth to write.
impl Slice {
    pub fn changed_orgs(&self) -> impl Iterator<Item = &Org> {
        self.orgs.values().filter(|row| row.dirty).map(|row| &row.value)
    }

    pub fn changed_keys(&self) -> impl Iterator<Item = &Row<ApiKey>> {
        self.keys.values().filter(|row| row.dirty)
    }

    pub fn changed_events(&self) -> impl Iterator<Item = &Row<Arc<EventRow>>> {
        self.events.values().filter(|row| row.dirty)
    }

    pub fn changed_seats(&self) -> impl Iterator<Item = (SeatId, &Row<Seat>)> {
        self.seats.iter().filter(|(_, row)| row.dirty).map(|(id, row)| (*id, row))
    }

    pub fn changed_areas(&self) -> impl Iterator<Item = &Row<Area>> {
        self.areas.values().filter(|row| row.dirty)
    }

    pub fn changed_holds(&self) -> impl Iterator<Item = &Row<Arc<Hold>>> {
        self.holds.values().filter(|row| row.dirty)
    }

    pub fn changed_bookings(&self) -> impl Iterator<Item = &Row<Booking>> {
        self.bookings.values().filter(|row| row.dirty)
    }

    pub fn new_sections(&self) -> &[SectionsAdded] {
        &self.sections
    }

    pub fn fresh_records(&self) -> impl Iterator<Item = (&RecordKey, &Record)> {
        self.records.iter().filter(|(_, record)| record.fresh)
    }
}

/// Change, by facts alone.
impl Slice {
    pub fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::OrgCreated(org) => {
                self.orgs.insert(org.id, Row::new(org.clone()));
            }
            Fact::ApiKeyCreated(key) => {
                self.keys.insert(key.id, Row::new(key.clone()));
            }
            Fact::ApiKeyRevoked(revoked) => {
                let key = self.keys.get_mut(&revoked.key).expect("a revoked key is in the slice");
                key.change().revoked_at = Some(revoked.revoked_at);
            }
            Fact::EventCreated(event) => {
                let row = EventRow { event: event.clone(), seat_count: 0, blocks: vec![], areas: vec![] };
                self.events.insert(event.id, Row::new(Arc::new(row)));
            }
            Fact::BlockCreated(block) => self.event_mut(block.event).blocks.push(block.clone()),
            Fact::SeatsCreated(added) => {
                self.event_mut(added.event).seat_count += added.count;
                self.sections.push(added.clone());
            }
            Fact::AreaCreated(area) => {
                self.event_mut(area.event).areas.push((area.id, area.name.clone()));
                self.areas.insert(area.id, Row::new(area.clone()));
            }
            Fact::SeatsBlocked(marked) => self.set_seats(&marked.seats, SeatState::Blocked),
            Fact::SeatsUnblocked(marked) => self.set_seats(&marked.seats, SeatState::Available),
            Fact::HoldCreated(hold) => self.hold_created(hold),
            Fact::HoldGrew(part) => self.hold_grew(part),
            Fact::HoldExtended(moved) => {
                let until = SeatState::Held { hold: moved.hold, until: moved.expires_at };
                for seat in &moved.seats {
                    self.set_seat(SeatId::of(moved.event, seat.ordinal), until);
                }
                let hold = self.hold_mut(moved.hold);
                hold.expires_at = moved.expires_at;
                hold.checkout_at = moved.checkout_at.or(hold.checkout_at);
            }
            Fact::HoldReleased(part) => {
                self.give_back(part, HoldStatus::Cancelled);
                self.use_fewer(part.event, &part.user, crate::hold::places(&part.seats, &part.areas));
            }
            // A hold past its time was not counted as usage, so ending it takes nothing away.
            Fact::HoldExpired(part) => self.give_back(part, HoldStatus::Expired),
            Fact::HoldConfirmed(sold) => {
                let hold = self.hold_mut(sold.hold);
                hold.status = HoldStatus::Converted;
                hold.booking = Some(sold.booking);
                hold.ended_at = Some(sold.at);
                self.leave_cart(sold.hold);
            }
            Fact::BookingConfirmed(booking) => self.booking_confirmed(booking),
            Fact::BookingCancelled(booking) => self.booking_cancelled(booking),
        }
    }

    fn hold_created(&mut self, hold: &Arc<Hold>) {
        self.take(hold.event, hold.id, hold.expires_at, &hold.seats, &hold.areas);
        self.use_more(hold.event, &hold.user, hold.places());
        self.carts.insert((hold.event, hold.user.clone(), hold.cart.clone()), hold.id);
        self.holds.insert(hold.id, Row::new(Arc::clone(hold)));
    }

    fn hold_grew(&mut self, part: &HoldPart) {
        self.take(part.event, part.hold, part.expires_at, &part.seats, &part.areas);
        self.use_more(part.event, &part.user, crate::hold::places(&part.seats, &part.areas));
        let hold = self.hold_mut(part.hold);
        hold.seats.extend_from_slice(&part.seats);
        for more in &part.areas {
            match hold.areas.iter_mut().find(|held| held.area == more.area && held.price == more.price) {
                Some(held) => held.quantity += more.quantity,
                None => hold.areas.push(*more),
            }
        }
    }

    fn take(&mut self, event: EventId, hold: HoldId, until: Time, seats: &[HeldSeat], areas: &[HeldArea]) {
        for seat in seats {
            self.set_seat(SeatId::of(event, seat.ordinal), SeatState::Held { hold, until });
        }
        for held in areas {
            self.area_mut(held.area).held += held.quantity;
        }
    }

    fn give_back(&mut self, part: &HoldPart, status: HoldStatus) {
        for seat in &part.seats {
            self.set_seat(SeatId::of(part.event, seat.ordinal), SeatState::Available);
        }
        for held in &part.areas {
            self.area_mut(held.area).held -= held.quantity;
        }
        let hold = self.hold_mut(part.hold);
        if part.ended {
            // What it held stays in the row: it is the history.
            hold.status = status;
            hold.ended_at = Some(part.at);
            self.leave_cart(part.hold);
        } else {
            hold.seats.retain(|seat| !part.seats.iter().any(|gone| gone.ordinal == seat.ordinal));
        }
    }

    fn leave_cart(&mut self, hold: HoldId) {
        let row = &self.holds[&hold].value;
        let cart = (row.event, row.user.clone(), row.cart.clone());
        if self.carts.get(&cart) == Some(&hold) {
            self.carts.remove(&cart);
        }
    }

    fn booking_confirmed(&mut self, booking: &Booking) {
        for ticket in &booking.tickets {
            match ticket.admits {
                Admits::Seat(ordinal) => {
                    let sold = SeatState::Sold { ticket: ticket.id };
                    self.set_seat(SeatId::of(booking.event, ordinal), sold);
                }
                Admits::Area(area) => {
                    let area = self.area_mut(area);
                    area.held -= 1;
                    area.sold += 1;
                }
            }
        }
        self.bookings.insert(booking.id, Row::new(booking.clone()));
    }

    fn booking_cancelled(&mut self, booking: &Booking) {
        for ticket in &booking.tickets {
            match ticket.admits {
                Admits::Seat(ordinal) => {
                    self.set_seat(SeatId::of(booking.event, ordinal), SeatState::Available);
                }
                Admits::Area(area) => self.area_mut(area).sold -= 1,
            }
        }
        self.use_fewer(booking.event, &booking.user, booking.tickets.len() as u32);
        let row = self.bookings.get_mut(&booking.id).expect("a cancelled booking is in the slice");
        let row = row.change();
        row.status = BookingStatus::Cancelled;
        row.cancelled_at = booking.cancelled_at;
    }

    fn set_seats(&mut self, seats: &[SeatId], state: SeatState) {
        for seat in seats {
            self.set_seat(*seat, state);
        }
    }

    fn set_seat(&mut self, id: SeatId, state: SeatState) {
        self.seats.get_mut(&id).expect("the seat is in the slice").change().state = state;
        let Some((block, spot)) = self.spots.get(&id) else { return };
        let Some(open) = self.blocks.get_mut(block) else { return };
        if state == SeatState::Available {
            open.free.insert(id.raw_ordinal(), *spot);
        } else {
            open.free.remove(&id.raw_ordinal());
        }
    }

    fn use_more(&mut self, event: EventId, user: &UserId, places: u32) {
        if let Some(usage) = self.usage.get_mut(&(event, user.clone())) {
            *usage += places;
        }
    }

    fn use_fewer(&mut self, event: EventId, user: &UserId, places: u32) {
        if let Some(usage) = self.usage.get_mut(&(event, user.clone())) {
            *usage = usage.saturating_sub(places);
        }
    }

    fn event_mut(&mut self, id: EventId) -> &mut EventRow {
        Arc::make_mut(self.events.get_mut(&id).expect("the event is in the slice").change())
    }

    fn area_mut(&mut self, id: AreaId) -> &mut Area {
        self.areas.get_mut(&id).expect("the area is in the slice").change()
    }

    fn hold_mut(&mut self, id: HoldId) -> &mut Hold {
        Arc::make_mut(self.holds.get_mut(&id).expect("the hold is in the slice").change())
    }
}
