//! Loading what a batch of requests needs: no less, or the kernel would miss a row, and little more.

use rowlock_core::booking::Admits;
use rowlock_core::command::Places;
use rowlock_core::seat::SeatState;
use rowlock_core::slice::RecordKey;
use rowlock_core::{AreaId, BlockId, BookingId, Command, EventId, HoldId, Request, SeatId, Slice, Time};

use super::{Fault, Rows};

struct Loader<'r> {
    rows: &'r Rows,
    /// Where seats are read from: the same rows, unless the store has a fault.
    seats: &'r Rows,
    now: Time,
    fault: Fault,
    slice: Slice,
}

pub fn load(rows: &Rows, seats: &Rows, requests: &[Request], now: Time, fault: Fault) -> Slice {
    let mut loader = Loader { rows, seats, now, fault, slice: Slice::default() };
    for request in requests {
        loader.record(request);
        if let Some(org) = rows.orgs.get(&request.org) {
            loader.slice.load_org(org.clone());
        }
        loader.command(&request.command);
    }
    loader.spots(requests);
    loader.slice
}

impl Loader<'_> {
    fn record(&mut self, request: &Request) {
        let Some(key) = &request.idempotency else { return };
        let key = RecordKey { org: request.org, actor: request.actor.clone(), key: key.key.clone() };
        if self.fault == Fault::ForgetsRecords {
            return;
        }
        if let Some((fingerprint, outcome)) = self.rows.records.get(&key) {
            self.slice.load_record(key, *fingerprint, outcome.clone());
        }
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::CreateOrg { .. } | Command::CreateApiKey { .. } | Command::CreateEvent { .. } => {}
            Command::RevokeApiKey { key } => {
                if let Some(key) = self.rows.keys.get(key) {
                    self.slice.load_key(key.clone());
                }
            }
            Command::CreateBlock { event, .. }
            | Command::CreateSeats { event, .. }
            | Command::CreateArea { event, .. } => self.event(*event),
            Command::BlockSeats { event, seats } | Command::UnblockSeats { event, seats } => {
                self.event(*event);
                seats.iter().for_each(|seat| self.seat(*seat));
            }
            Command::Hold(places) | Command::Book { places, .. } => self.places(places),
            Command::StartCheckout { hold, .. }
            | Command::Heartbeat { hold, .. }
            | Command::Confirm { hold, .. }
            | Command::Expire { hold } => self.whole_hold(*hold),
            Command::Release { hold, seats, .. } => {
                self.whole_hold(*hold);
                seats.iter().for_each(|seat| self.seat(*seat));
            }
            Command::CancelBooking { booking, .. } => self.booking(*booking),
        }
    }

    fn places(&mut self, places: &Places) {
        self.event(places.event);
        places.seats.iter().for_each(|seat| self.seat(*seat));
        places.areas.iter().for_each(|(area, _)| self.area(*area));
        places.blocks.iter().for_each(|(block, _)| self.block(places.event, *block));
        if let Some(hold) = self.rows.cart(places.event, &places.user, &places.cart) {
            self.hold(hold.id);
        }
        if !places.areas.is_empty() {
            // Nothing leads from an area to its holds, so all that may have to make room come along.
            let (rows, now) = (self.rows, self.now);
            let here = rows.active_holds().filter(|hold| hold.event == places.event);
            for hold in here.filter(|hold| hold.is_due(now)) {
                self.hold(hold.id);
            }
        }
        let event = self.rows.events.get(&places.event);
        if event.is_some_and(|row| row.event.policy.seats_per_user.is_some()) {
            let counted = self.rows.usage(places.event, &places.user, self.now);
            let places_now = if self.fault == Fault::ForgetsUsage { 0 } else { counted };
            self.slice.load_usage(places.event, places.user.clone(), places_now);
        }
    }

    /// A block with all its seats. Stores load no more of them than the batch can want.
    fn block(&mut self, event: EventId, id: BlockId) {
        let Some(row) = self.rows.events.get(&event) else { return };
        if row.blocks.iter().any(|block| block.id == id) {
            self.slice.load_block(event, id);
            let rows = self.rows;
            rows.spots.iter().filter(|(_, spot)| spot.0 == id).for_each(|(seat, _)| self.seat(*seat));
        }
    }

    /// Where the seats of blocks are, when all rows are there.
    fn spots(&mut self, requests: &[Request]) {
        let wanted = requests.iter().filter_map(|request| request.command.places());
        let blocks: Vec<BlockId> =
            wanted.flat_map(|places| &places.blocks).map(|(block, _)| *block).collect();
        for (seat, (block, row, number)) in &self.rows.spots {
            if blocks.contains(block) {
                self.slice.load_spot(*seat, *block, row, *number, self.now);
            }
        }
    }

    fn event(&mut self, id: EventId) {
        if let Some(row) = self.rows.events.get(&id) {
            self.slice.load_event(row.clone());
        }
    }

    fn seat(&mut self, id: SeatId) {
        if self.slice.has_seat(id) {
            return;
        }
        let Some(row) = self.seats.seats.get(&id) else { return };
        let mut seat = row.value;
        if let SeatState::Held { hold, until } = seat.state {
            seat.state = SeatState::Held { hold, until: self.fault.seen_until(until, self.now) };
            self.slice.load_seat(id, seat, row.version);
            self.hold(hold);
        } else {
            self.slice.load_seat(id, seat, row.version);
        }
    }

    fn area(&mut self, id: AreaId) {
        if self.slice.area(id).is_none()
            && let Some(row) = self.rows.areas.get(&id)
        {
            self.slice.load_area(row.value.clone(), row.version);
        }
    }

    /// A hold; with all that it holds when it is past its time, because whoever meets it then ends it.
    fn hold(&mut self, id: HoldId) {
        if self.slice.hold(id).is_some() {
            return;
        }
        let Some(row) = self.rows.holds.get(&id) else { return };
        self.slice.load_hold(self.fault.seen_hold(&row.value, self.now), row.version);
        if row.value.is_due(self.now) {
            self.contents(id);
        }
    }

    fn whole_hold(&mut self, id: HoldId) {
        self.hold(id);
        let Some(row) = self.rows.holds.get(&id) else { return };
        self.event(row.value.event);
        self.contents(id);
        if let Some(booking) = row.value.booking {
            self.booking(booking);
        }
    }

    fn contents(&mut self, id: HoldId) {
        let hold = &self.rows.holds[&id].value;
        hold.seat_ids().for_each(|seat| self.seat(seat));
        hold.areas.iter().for_each(|held| self.area(held.area));
    }

    fn booking(&mut self, id: BookingId) {
        let Some(row) = self.rows.bookings.get(&id) else { return };
        if self.slice.booking(id).is_some() {
            return;
        }
        self.slice.load_booking(row.value.clone(), row.version);
        for ticket in &row.value.tickets {
            match ticket.admits {
                Admits::Seat(ordinal) => self.seat(SeatId::of(row.value.event, ordinal)),
                Admits::Area(area) => self.area(area),
            }
        }
    }
}
