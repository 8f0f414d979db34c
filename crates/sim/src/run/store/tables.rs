//! The rows. What is here is committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rowlock_core::area::Area;
use rowlock_core::booking::{Booking, BookingStatus};
use rowlock_core::fact::SectionsAdded;
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::limits::IDEMPOTENCY_TTL_MILLIS;
use rowlock_core::org::{ApiKey, Org};
use rowlock_core::seat::{Seat, SeatPlace, SeatState};
use rowlock_core::slice::{EventRow, Slice};
use rowlock_core::{
    AreaId, BookingId, CartToken, EventId, Fact, HoldId, IdSource, JournalId, KeyId, OrgId, Outcome, SeatId,
    Stream, Time, UserId,
};
use rowlock_truth::read::JournalRow;

use super::StoreError;

pub type Versioned<T> = (T, u64);

#[derive(Default)]
pub struct Tables {
    pub orgs: BTreeMap<OrgId, Org>,
    pub keys: BTreeMap<KeyId, ApiKey>,
    pub events: BTreeMap<EventId, EventTable>,
    pub seats: BTreeMap<SeatId, Versioned<Seat>>,
    pub areas: BTreeMap<AreaId, Versioned<Area>>,
    pub holds: BTreeMap<HoldId, Versioned<Hold>>,
    pub bookings: BTreeMap<BookingId, Versioned<Booking>>,
    /// The active hold of a cart.
    pub carts: BTreeMap<(EventId, UserId, CartToken), HoldId>,
    pub records: BTreeMap<RecordName, Recorded>,
    pub streams: BTreeMap<Stream, Vec<JournalRow>>,
    /// For the broken store that takes them early.
    pub taken: BTreeMap<Stream, u64>,
    /// Holds of this user can't be stored.
    pub poisoned: Option<UserId>,
}

pub type RecordName = (OrgId, String, Arc<str>);

#[derive(Clone)]
pub struct Recorded {
    pub fingerprint: [u8; 16],
    pub outcome: Outcome,
    pub ends_at: Time,
}

pub struct EventTable {
    pub row: Arc<EventRow>,
    /// By ordinal.
    pub places: Vec<SeatPlace>,
}

/// Everything that a transaction changes.
pub struct Writes {
    pub now: Time,
    orgs: Vec<Org>,
    keys: Vec<ApiKey>,
    events: Vec<Arc<EventRow>>,
    sections: Vec<SectionsAdded>,
    pub seats: Vec<(SeatId, Seat, Option<u64>)>,
    areas: Vec<(Area, Option<u64>)>,
    holds: Vec<(Hold, Option<u64>)>,
    bookings: Vec<(Booking, Option<u64>)>,
    pub records: Vec<(RecordName, Recorded)>,
    pub facts: Vec<NewFact>,
    /// Sequences that were taken before, for the broken store.
    pub taken: Option<Vec<u64>>,
}

pub struct NewFact {
    pub fact: Fact,
    pub id: JournalId,
    pub actor: String,
    pub request_id: String,
}

impl Writes {
    pub fn of(slice: &Slice, now: Time, facts: Vec<(Fact, String, String)>, ids: &mut dyn IdSource) -> Self {
        let records = slice.fresh_records().map(|(key, record)| {
            let name = (key.org, key.actor.to_string(), Arc::clone(&key.key));
            let ends_at = now.plus_millis(IDEMPOTENCY_TTL_MILLIS);
            (name, Recorded { fingerprint: record.fingerprint, outcome: record.outcome.clone(), ends_at })
        });
        let new = |(fact, actor, request_id)| NewFact {
            fact,
            id: JournalId::from_uuid(ids.next(now)),
            actor,
            request_id,
        };
        Self {
            now,
            orgs: slice.changed_orgs().cloned().collect(),
            keys: slice.changed_keys().map(|row| row.value.clone()).collect(),
            events: slice.changed_events().map(|row| Arc::clone(&row.value)).collect(),
            sections: slice.new_sections().to_vec(),
            seats: slice.changed_seats().map(|(id, row)| (id, row.value, row.version)).collect(),
            areas: slice.changed_areas().map(|row| (row.value.clone(), row.version)).collect(),
            holds: slice.changed_holds().map(|row| (Hold::clone(&row.value), row.version)).collect(),
            bookings: slice.changed_bookings().map(|row| (row.value.clone(), row.version)).collect(),
            records: records.collect(),
            facts: facts.into_iter().map(new).collect(),
            taken: None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.records.is_empty()
    }
}

fn same<T>(found: Option<&Versioned<T>>, version: Option<u64>) -> bool {
    found.map(|(_, version)| *version) == version
}

impl Tables {
    /// Whether every row still has the version that it was read with, and every new one has its place free.
    fn check(&self, writes: &Writes) -> Result<(), StoreError> {
        let fresh = writes.seats.iter().all(|(id, _, version)| same(self.seats.get(id), *version))
            && writes.areas.iter().all(|(area, version)| same(self.areas.get(&area.id), *version))
            && writes.holds.iter().all(|(hold, version)| same(self.holds.get(&hold.id), *version))
            && writes
                .bookings
                .iter()
                .all(|(booking, version)| same(self.bookings.get(&booking.id), *version));
        let as_read = fresh && self.carts_are_free(writes) && self.keys_are_free(writes);
        if as_read && self.places_are_free(&writes.sections) { Ok(()) } else { Err(StoreError::Stale) }
    }

    /// A cart has one active hold.
    pub fn carts_are_free(&self, writes: &Writes) -> bool {
        let ends = |id: &HoldId| writes.holds.iter().any(|(hold, _)| hold.id == *id && !is_active(hold));
        let cart_is_free =
            |hold: &Hold| self.carts.get(&cart(hold)).is_none_or(|id| *id == hold.id || ends(id));
        writes.holds.iter().filter(|(hold, _)| is_active(hold)).all(|(hold, _)| cart_is_free(hold))
    }

    /// A key has one record at a time.
    pub fn keys_are_free(&self, writes: &Writes) -> bool {
        let key_is_free =
            |name: &RecordName| self.records.get(name).is_none_or(|known| known.ends_at <= writes.now);
        writes.records.iter().all(|(name, _)| key_is_free(name))
    }

    /// One place is one seat.
    fn places_are_free(&self, sections: &[SectionsAdded]) -> bool {
        let mut taken = BTreeSet::new();
        sections.iter().all(|added| {
            let known = self.events.get(&added.event).into_iter().flat_map(|event| &event.places);
            let known: Vec<_> = known.map(|place| (place.block, place.row.clone(), place.number)).collect();
            let mut places = added.sections.iter().flat_map(|section| section.places());
            places.all(|place| {
                let place = (place.block, place.row, place.number);
                !known.contains(&place) && taken.insert(place)
            })
        })
    }

    /// Commits, all or nothing. Returns the sequences of the facts. They are taken last, when nothing can fail any more.
    pub fn commit(&mut self, writes: Writes, compare: bool) -> Result<Vec<u64>, StoreError> {
        if writes
            .holds
            .iter()
            .any(|(hold, version)| version.is_none() && Some(&hold.user) == self.poisoned.as_ref())
        {
            return Err(StoreError::Poisoned);
        }
        if compare {
            self.check(&writes)?;
        }
        let taken = self.write_rows(&writes);
        Ok(self.append(writes, taken))
    }

    /// The rows without the journal.
    pub fn write_rows(&mut self, writes: &Writes) -> Option<Vec<u64>> {
        for org in &writes.orgs {
            self.orgs.insert(org.id, org.clone());
        }
        for key in &writes.keys {
            self.keys.insert(key.id, key.clone());
        }
        for row in &writes.events {
            let places = self.events.remove(&row.event.id).map(|event| event.places).unwrap_or_default();
            self.events.insert(row.event.id, EventTable { row: Arc::clone(row), places });
        }
        for added in &writes.sections {
            let event = self.events.get_mut(&added.event).expect("sections are of an event");
            for place in added.sections.iter().flat_map(|section| section.places()) {
                let id = SeatId::of(added.event, event.places.len() as u32);
                self.seats.insert(id, (Seat { state: SeatState::Available, tier: place.tier }, 1));
                event.places.push(place);
            }
        }
        for (id, seat, version) in &writes.seats {
            self.seats.insert(*id, (*seat, version.unwrap_or(0) + 1));
        }
        for (area, version) in &writes.areas {
            self.areas.insert(area.id, (area.clone(), version.unwrap_or(0) + 1));
        }
        for (hold, version) in &writes.holds {
            if !is_active(hold) && self.carts.get(&cart(hold)) == Some(&hold.id) {
                self.carts.remove(&cart(hold));
            }
            self.holds.insert(hold.id, (hold.clone(), version.unwrap_or(0) + 1));
        }
        for (hold, _) in writes.holds.iter().filter(|(hold, _)| is_active(hold)) {
            self.carts.insert(cart(hold), hold.id);
        }
        for (booking, version) in &writes.bookings {
            self.bookings.insert(booking.id, (booking.clone(), version.unwrap_or(0) + 1));
        }
        self.records.extend(writes.records.iter().cloned());
        writes.taken.clone()
    }

    fn append(&mut self, writes: Writes, taken: Option<Vec<u64>>) -> Vec<u64> {
        let mut sequences = Vec::with_capacity(writes.facts.len());
        for (i, new) in writes.facts.into_iter().enumerate() {
            let rows = self.streams.entry(new.fact.stream()).or_default();
            let sequence = match &taken {
                Some(taken) => taken[i],
                None => rows.len() as u64 + 1,
            };
            rows.push(JournalRow {
                sequence,
                id: new.id,
                kind: new.fact.kind().to_owned(),
                at: writes.now,
                actor: new.actor,
                request_id: new.request_id,
                data: serde_json::to_string(&new.fact).expect("a fact can be written as JSON"),
            });
            sequences.push(sequence);
        }
        sequences
    }

    /// Takes sequences that nobody else gets, committed or not: how it must not be done.
    pub fn take_early(&mut self, streams: &[Stream]) -> Vec<u64> {
        let next = |stream: &Stream| {
            let committed = self.streams.get(stream).map_or(0, |rows| rows.len() as u64);
            let taken = self.taken.entry(*stream).or_insert(committed);
            *taken = (*taken).max(committed) + 1;
            *taken
        };
        streams.iter().map(next).collect()
    }

    /// Places that a user has in an event: those sold, and those in holds within their time.
    pub fn usage(&self, event: EventId, user: &UserId, now: Time) -> u32 {
        let sold = self.bookings.values().map(|(booking, _)| booking);
        let sold = sold.filter(|booking| booking.event == event && booking.user == *user);
        let sold = sold.filter(|booking| booking.status == BookingStatus::Confirmed);
        let held = self.holds.values().map(|(hold, _)| hold);
        let held = held.filter(|hold| hold.event == event && hold.user == *user && hold.is_live(now));
        sold.map(|booking| booking.tickets.len() as u32).sum::<u32>() + held.map(Hold::places).sum::<u32>()
    }
}

fn is_active(hold: &Hold) -> bool {
    hold.status == HoldStatus::Active
}

fn cart(hold: &Hold) -> (EventId, UserId, CartToken) {
    (hold.event, hold.user.clone(), hold.cart.clone())
}
