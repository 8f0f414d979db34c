//! The rows that last, and writing to them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rowlock_core::area::Area;
use rowlock_core::booking::{Booking, BookingStatus};
use rowlock_core::fact::SectionsAdded;
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::org::{ApiKey, Org};
use rowlock_core::seat::{Seat, SeatState};
use rowlock_core::slice::{EventRow, RecordKey, Row};
use rowlock_core::{
    AreaId, BlockId, BookingId, CartToken, EventId, HoldId, KeyId, OrgId, Outcome, SeatId, Slice, Time,
    UserId,
};

use super::Fault;

#[derive(Clone, Debug, PartialEq)]
pub struct Stored<T> {
    pub value: T,
    pub version: u64,
}

/// A row was not as it had been loaded.
#[derive(Debug, PartialEq)]
pub struct Conflict;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    pub orgs: BTreeMap<OrgId, Org>,
    pub keys: BTreeMap<KeyId, ApiKey>,
    pub events: BTreeMap<EventId, Arc<EventRow>>,
    pub seats: BTreeMap<SeatId, Stored<Seat>>,
    /// Block, row and number of each seat.
    pub spots: BTreeMap<SeatId, (BlockId, String, u32)>,
    pub areas: BTreeMap<AreaId, Stored<Area>>,
    pub holds: BTreeMap<HoldId, Stored<Arc<Hold>>>,
    pub bookings: BTreeMap<BookingId, Stored<Booking>>,
    pub records: HashMap<RecordKey, ([u8; 16], Outcome)>,
    /// The holds whose row says active: an index.
    active: BTreeSet<HoldId>,
}

impl Rows {
    pub fn active_holds(&self) -> impl Iterator<Item = &Hold> {
        self.active.iter().map(|id| &*self.holds[id].value)
    }

    pub fn cart(&self, event: EventId, user: &UserId, cart: &CartToken) -> Option<&Hold> {
        self.active_holds().find(|hold| hold.event == event && hold.user == *user && hold.cart == *cart)
    }

    /// Places that a user holds at `now` and owns.
    pub fn usage(&self, event: EventId, user: &UserId, now: Time) -> u32 {
        let held = self.active_holds().filter(|hold| hold.is_live(now));
        let held = held.filter(|hold| hold.event == event && hold.user == *user).map(Hold::places);
        let owned = self.bookings.values().map(|row| &row.value);
        let owned = owned.filter(|booking| booking.event == event && booking.user == *user);
        let owned = owned.filter(|booking| booking.status == BookingStatus::Confirmed);
        held.chain(owned.map(|booking| booking.tickets.len() as u32)).sum()
    }

    /// Writes what a batch changed: all of it, or nothing when one row is not as it was loaded.
    pub fn write(&mut self, slice: &Slice, fault: Fault) -> Result<(), Conflict> {
        if fault.checks_versions() {
            self.check_versions(slice)?;
        }
        self.orgs.extend(slice.changed_orgs().map(|org| (org.id, org.clone())));
        self.keys.extend(slice.changed_keys().map(|row| (row.value.id, row.value.clone())));
        self.events.extend(slice.changed_events().map(|row| (row.value.event.id, row.value.clone())));
        for added in slice.new_sections() {
            self.add_seats(added);
        }
        self.seats.extend(slice.changed_seats().map(|(id, row)| (id, next(row))));
        self.areas.extend(slice.changed_areas().map(|row| (row.value.id, next(row))));
        self.bookings.extend(slice.changed_bookings().map(|row| (row.value.id, next(row))));
        for row in slice.changed_holds() {
            self.write_hold(row, fault);
        }
        for (key, record) in slice.fresh_records() {
            self.records.insert(key.clone(), (record.fingerprint, record.outcome.clone()));
        }
        Ok(())
    }

    fn check_versions(&self, slice: &Slice) -> Result<(), Conflict> {
        let seats = slice.changed_seats().all(|(id, row)| same(row, self.seats.get(&id)));
        let areas = slice.changed_areas().all(|row| same(row, self.areas.get(&row.value.id)));
        let holds = slice.changed_holds().all(|row| same(row, self.holds.get(&row.value.id)));
        let bookings = slice.changed_bookings().all(|row| same(row, self.bookings.get(&row.value.id)));
        if seats && areas && holds && bookings { Ok(()) } else { Err(Conflict) }
    }

    fn write_hold(&mut self, row: &Row<Arc<Hold>>, fault: Fault) {
        let id = row.value.id;
        if fault == Fault::DropsExpiry && row.value.status == HoldStatus::Expired {
            return;
        }
        if row.value.status == HoldStatus::Active {
            self.active.insert(id);
        } else {
            self.active.remove(&id);
        }
        self.holds.insert(id, next(row));
    }

    fn add_seats(&mut self, added: &SectionsAdded) {
        let places = added.sections.iter().flat_map(|section| section.places());
        for (ordinal, place) in (added.first_ordinal..).zip(places) {
            let seat = Seat { state: SeatState::Available, tier: place.tier };
            let id = SeatId::of(added.event, ordinal);
            self.spots.insert(id, (place.block, place.row.to_string(), place.number));
            let before = self.seats.insert(id, Stored { value: seat, version: 1 });
            assert!(before.is_none(), "ordinal {ordinal} is given twice");
        }
    }
}

fn same<T>(row: &Row<T>, stored: Option<&Stored<T>>) -> bool {
    row.version == stored.map(|stored| stored.version)
}

fn next<T: Clone>(row: &Row<T>) -> Stored<T> {
    Stored { value: row.value.clone(), version: row.version.unwrap_or(0) + 1 }
}
