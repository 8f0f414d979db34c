//! Which rows a batch needs, and the slice that is made of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use rowlock_core::booking::{Admits, Booking};
use rowlock_core::command::{NewSection, Places};
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::seat::{Seat, SeatState};
use rowlock_core::slice::{RecordKey, Slice, TakenPlace};
use rowlock_core::{AreaId, BlockId, Command, EventId, HoldId, Request, SeatId, Time};

use super::locks::RowKey;
use super::tables::Tables;
use crate::run::broken::Broken;

/// Whether rows that somebody else has locked are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    Wait,
    /// So are free seats of a block that somebody else may be choosing from.
    WaitForBlocks,
    /// Seats that are locked are left out.
    Skip,
}

/// The rows that deciding a request reads or changes, as far as the committed rows tell.
pub fn needed(
    tables: &Tables,
    request: &Request,
    now: Time,
    waiting: Waiting,
    broken: Option<Broken>,
) -> BTreeSet<RowKey> {
    let mut need = Need { tables, now, rows: BTreeSet::new() };
    match &request.command {
        Command::CreateBlock { event, .. }
        | Command::CreateSeats { event, .. }
        | Command::CreateArea { event, .. } => {
            need.rows.insert(RowKey::Event(*event));
        }
        Command::BlockSeats { event, seats } | Command::UnblockSeats { event, seats } => {
            need.seats(*event, seats)
        }
        Command::Hold(places) => {
            need.places(places, waiting);
            let cart = (places.event, places.user.clone(), places.cart.clone());
            if let Some(id) = tables.carts.get(&cart) {
                need.rows.insert(RowKey::Hold(*id));
                need.contents_if(*id, |hold| hold.is_due(now));
            }
        }
        Command::Book { places, .. } => need.places(places, waiting),
        Command::Release { hold, seats, .. } => {
            need.hold(*hold);
            if let Some((hold, _)) = tables.holds.get(hold) {
                need.seats(hold.event, seats);
            }
        }
        Command::Expire { hold } => {
            need.hold(*hold);
            if broken == Some(Broken::ReaperWithoutStatus) {
                need.contents_if(*hold, |hold| hold.status == HoldStatus::Converted);
            }
        }
        Command::StartCheckout { hold, .. }
        | Command::Heartbeat { hold, .. }
        | Command::Confirm { hold, .. } => {
            need.hold(*hold);
            need.owner(*hold);
        }
        Command::CancelBooking { booking, .. } => {
            need.rows.insert(RowKey::Booking(*booking));
            if let Some((booking, _)) = tables.bookings.get(booking) {
                need.booking(booking);
            }
        }
        Command::CreateOrg { .. }
        | Command::CreateApiKey { .. }
        | Command::RevokeApiKey { .. }
        | Command::CreateEvent { .. } => {}
    }
    need.rows
}

struct Need<'t> {
    tables: &'t Tables,
    now: Time,
    rows: BTreeSet<RowKey>,
}

impl Need<'_> {
    fn seats(&mut self, event: EventId, seats: &[SeatId]) {
        for seat in seats.iter().filter(|seat| seat.ordinal_in(event).is_some()) {
            let Some((row, _)) = self.tables.seats.get(seat) else { continue };
            self.rows.insert(RowKey::Seat(*seat));
            if let SeatState::Held { hold, until } = row.state
                && until <= self.now
            {
                self.rows.insert(RowKey::Hold(hold));
                self.contents_if(hold, |_| true);
            }
        }
    }

    fn places(&mut self, places: &Places, waiting: Waiting) {
        let Some(event) = self.tables.events.get(&places.event) else { return };
        self.seats(places.event, &places.seats);
        if event.row.event.policy.seats_per_user.is_some() {
            self.rows.insert(RowKey::User(places.event, places.user.clone()));
        }
        for (area, _) in &places.areas {
            if self.tables.areas.get(area).is_some_and(|(row, _)| row.event == places.event) {
                self.rows.insert(RowKey::Area(*area));
                self.due_holds_in(*area);
            }
        }
        for (block, _) in &places.blocks {
            for (seat, row) in free_seats(self.tables, places.event, *block, self.now) {
                match row.state {
                    // Who does not wait for locks does not take over either: that needs more rows.
                    SeatState::Held { .. } if waiting != Waiting::Skip => self.seats(places.event, &[seat]),
                    SeatState::Available if waiting == Waiting::WaitForBlocks => {
                        self.rows.insert(RowKey::Seat(seat));
                    }
                    _ => {}
                }
            }
        }
    }

    fn due_holds_in(&mut self, area: AreaId) {
        let due = self.tables.holds.values().map(|(hold, _)| hold);
        let due: Vec<HoldId> = due
            .filter(|hold| hold.is_due(self.now) && hold.quantity_of(area) > 0)
            .map(|hold| hold.id)
            .collect();
        for id in due {
            self.rows.insert(RowKey::Hold(id));
            self.contents_if(id, |_| true);
        }
    }

    fn hold(&mut self, id: HoldId) {
        self.rows.insert(RowKey::Hold(id));
        self.contents_if(id, |hold| hold.status == HoldStatus::Active);
    }

    /// Whoever counts the places of its owner waits until it is known what becomes of it.
    fn owner(&mut self, id: HoldId) {
        let Some((hold, _)) = self.tables.holds.get(&id) else { return };
        let event = self.tables.events.get(&hold.event);
        if event.is_some_and(|event| event.row.event.policy.seats_per_user.is_some()) {
            self.rows.insert(RowKey::User(hold.event, hold.user.clone()));
        }
    }

    fn contents_if(&mut self, id: HoldId, wanted: impl Fn(&Hold) -> bool) {
        let Some((hold, _)) = self.tables.holds.get(&id).filter(|(hold, _)| wanted(hold)) else { return };
        self.rows.extend(hold.seat_ids().map(RowKey::Seat));
        self.rows.extend(hold.areas.iter().map(|held| RowKey::Area(held.area)));
    }

    fn booking(&mut self, booking: &Booking) {
        self.rows.extend(booking.tickets.iter().map(|ticket| match ticket.admits {
            Admits::Seat(ordinal) => RowKey::Seat(SeatId::of(booking.event, ordinal)),
            Admits::Area(area) => RowKey::Area(area),
        }));
    }
}

/// The seats of a block that can be had, by ordinal.
pub fn free_seats(tables: &Tables, event: EventId, block: BlockId, now: Time) -> Vec<(SeatId, Seat)> {
    let Some(table) = tables.events.get(&event) else { return Vec::new() };
    let of_block = table.places.iter().enumerate().filter(|(_, place)| place.block == block);
    let rows = of_block.filter_map(|(ordinal, _)| {
        let id = SeatId::of(event, ordinal as u32);
        Some((id, tables.seats.get(&id)?.0))
    });
    let to_be_had = |seat: &Seat| match seat.state {
        SeatState::Available => true,
        SeatState::Held { until, .. } => until <= now,
        SeatState::Sold { .. } | SeatState::Blocked => false,
    };
    rows.filter(|(_, seat)| to_be_had(seat)).collect()
}

/// The slice of these rows, with what is read without a lock beside them.
pub fn slice(
    tables: &Tables,
    batch: &[Request],
    rows: &BTreeSet<RowKey>,
    now: Time,
    broken: Option<Broken>,
) -> Slice {
    let mut slice = Slice::default();
    for request in batch {
        named(tables, &mut slice, request, now);
    }
    for row in rows {
        load_row(tables, &mut slice, row, now);
        if let (Some(Broken::UsersNotCounted), RowKey::User(event, user)) = (broken, row) {
            slice.load_usage(*event, user.clone(), 0);
        }
    }
    // What the rows point at.
    let holders: Vec<HoldId> = slice.seats().filter_map(|(_, seat)| seat.state.hold()).collect();
    holders.into_iter().for_each(|hold| load_hold(tables, &mut slice, hold));
    let sold: Vec<_> = slice.holds().filter_map(|hold| hold.booking).collect();
    for booking in sold {
        load_row(tables, &mut slice, &RowKey::Booking(booking), now);
    }
    let events: BTreeSet<EventId> = slice.holds().map(|hold| hold.event).collect();
    events.into_iter().for_each(|event| load_event(tables, &mut slice, event));
    if broken == Some(Broken::ReaperWithoutStatus) {
        revive(tables, &mut slice, batch, now);
    }
    load_spots(tables, &mut slice, batch, now);
    slice
}

fn named(tables: &Tables, slice: &mut Slice, request: &Request, now: Time) {
    if let Some(key) = &request.idempotency {
        let name = (request.org, request.actor.to_string(), Arc::clone(&key.key));
        if let Some(found) = tables.records.get(&name).filter(|found| found.ends_at > now) {
            let key = RecordKey { org: request.org, actor: request.actor.clone(), key: Arc::clone(&key.key) };
            slice.load_record(key, found.fingerprint, found.outcome.clone());
        }
    }
    if let Some(org) = tables.orgs.get(&request.org) {
        slice.load_org(org.clone());
    }
    if let Command::RevokeApiKey { key } = &request.command
        && let Some(key) = tables.keys.get(key)
    {
        slice.load_key(key.clone());
    }
    if let Some(event) = request.command.event() {
        load_event(tables, slice, event);
    }
    if let Command::CreateSeats { event, sections } = &request.command {
        taken_place(tables, slice, *event, sections);
    }
}

fn taken_place(tables: &Tables, slice: &mut Slice, event: EventId, sections: &[NewSection]) {
    let Some(table) = tables.events.get(&event) else { return };
    for new in sections {
        let Some(block) = table.row.blocks.iter().find(|block| block.name == new.block) else { continue };
        let numbers = new.section.first_number..=new.section.last_number;
        let taken = table.places.iter().find(|place| {
            place.block == block.id
                && new.section.rows.contains(&place.row)
                && numbers.contains(&place.number)
        });
        if let Some(place) = taken {
            let (block, row, number) = (new.block.clone(), place.row.clone(), place.number);
            slice.load_taken_place(event, TakenPlace { block, row, number });
            return;
        }
    }
}

fn load_event(tables: &Tables, slice: &mut Slice, id: EventId) {
    if slice.event_row(id).is_none()
        && let Some(event) = tables.events.get(&id)
    {
        slice.load_event(Arc::clone(&event.row));
    }
}

fn load_hold(tables: &Tables, slice: &mut Slice, id: HoldId) {
    if slice.hold(id).is_none()
        && let Some((hold, version)) = tables.holds.get(&id)
    {
        slice.load_hold(hold.clone(), *version);
    }
}

fn load_row(tables: &Tables, slice: &mut Slice, row: &RowKey, now: Time) {
    match row {
        RowKey::User(event, user) => slice.load_usage(*event, user.clone(), tables.usage(*event, user, now)),
        RowKey::Event(event) => load_event(tables, slice, *event),
        RowKey::Seat(id) => {
            if let Some((seat, version)) = tables.seats.get(id) {
                slice.load_seat(*id, *seat, *version);
            }
        }
        RowKey::Area(id) => {
            if let Some((area, version)) = tables.areas.get(id) {
                slice.load_area(area.clone(), *version);
            }
        }
        RowKey::Hold(id) => load_hold(tables, slice, *id),
        RowKey::Booking(id) => {
            if slice.booking(*id).is_none()
                && let Some((booking, version)) = tables.bookings.get(id)
            {
                slice.load_booking(booking.clone(), *version);
                load_event(tables, slice, booking.event);
            }
        }
    }
}

/// The broken reaper: what is confirmed looks as if it were active and over.
fn revive(tables: &Tables, slice: &mut Slice, batch: &[Request], now: Time) {
    for request in batch {
        let Command::Expire { hold } = &request.command else { continue };
        if let Some((hold, version)) =
            tables.holds.get(hold).filter(|(hold, _)| hold.status == HoldStatus::Converted)
        {
            let over = Hold { status: HoldStatus::Active, expires_at: now, ..hold.clone() };
            slice.load_hold(over, *version);
        }
    }
}

/// Where the seats are, for those who take any seats of a block.
fn load_spots(tables: &Tables, slice: &mut Slice, batch: &[Request], now: Time) {
    let mut events = BTreeSet::new();
    let mut seats = BTreeSet::new();
    for places in batch.iter().filter_map(|request| request.command.places()) {
        let Some(table) = tables.events.get(&places.event).filter(|_| !places.blocks.is_empty()) else {
            continue;
        };
        for (block, _) in &places.blocks {
            if table.row.blocks.iter().any(|known| known.id == *block) {
                slice.load_block(places.event, *block);
            }
        }
        events.insert(places.event);
        if let Some(hold) = slice.cart(places.event, &places.user, &places.cart) {
            seats.extend(hold.seat_ids().map(|seat| (hold.event, seat)));
        }
    }
    for event in &events {
        let of_event = slice.seats().filter(|(seat, _)| seat.ordinal_in(*event).is_some());
        seats.extend(of_event.map(|(seat, _)| (*event, seat)));
    }
    // A hold past its time can't end when somebody has one of its seats locked.
    let can_end = |hold: &Hold| hold.seat_ids().all(|seat| slice.has_seat(seat));
    let bound: BTreeSet<HoldId> =
        slice.holds().filter(|hold| hold.is_due(now) && !can_end(hold)).map(|hold| hold.id).collect();
    for (event, seat) in seats {
        let holder = slice.seat(seat).and_then(|seat| seat.state.hold());
        if holder.is_some_and(|hold| bound.contains(&hold)) {
            continue;
        }
        let place = &tables.events[&event].places[seat.raw_ordinal() as usize];
        slice.load_spot(seat, place.block, place.row.as_str(), place.number, now);
    }
}
