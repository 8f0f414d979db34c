//! Who certainly had a seat, and when. Two at a time must never be, nor may anybody have more than their event allows.
//!
//! A yes to a hold says: at some moment between question and answer the hold had these seats. From the answer on it has them,
//! until it ends by its time or until somebody may have given a seat back: from the moment that is asked for, nothing is
//! certain any more. A sale is certain from the moment that the booking names until somebody may have cancelled it.

use std::collections::{BTreeMap, BTreeSet};

use rowlock_core::booking::{Admits, Booking, BookingStatus};
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::{AreaId, BookingId, Command, EventId, HoldId, SeatId, Time, UserId};

use super::books::{Attempt, Books, Said};
use crate::run::clock::since_start;
use crate::run::history::History;
use crate::run::store::tables::Tables;

/// Something certain: from, until, whose, and how many places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certain {
    pub from: Time,
    pub until: Time,
    pub whose: HoldId,
    pub places: u32,
}

const FOREVER: Time = Time::from_millis(i64::MAX);

pub fn one_owner(books: &Books, tables: &Tables, history: &History) {
    let certain = certain(books);
    for (seat, mut times) in certain.seats {
        times.sort_by_key(|time| (time.from, time.until, time.whose));
        if let Some((a, b)) = overlap(&times) {
            let at = since_start(b.from);
            history.violation(
                'S',
                format_args!("seat {seat} had two owners at {at} ms: {} and {}", a.whose, b.whose),
            );
        }
    }
    for (area, times) in certain.areas {
        let Some((row, _)) = tables.areas.get(&area) else { continue };
        for time in &times {
            let mut taken: BTreeMap<HoldId, u32> = BTreeMap::new();
            for other in times.iter().filter(|other| other.from <= time.from && time.from < other.until) {
                let places = taken.entry(other.whose).or_default();
                *places = (*places).max(other.places);
            }
            let taken: u32 = taken.values().sum();
            if taken > row.capacity {
                let at = since_start(time.from);
                history
                    .violation('S', format_args!("area {area} of {} had {taken} at {at} ms", row.capacity));
                break;
            }
        }
    }
}

/// Nobody has more places of an event than its policy allows, however many carts they have and whatever they have bought.
pub fn no_more_than_allowed(books: &Books, tables: &Tables, history: &History) {
    for ((event, user), times) in certain(books).users {
        let Some(row) = tables.events.get(&event) else { continue };
        let Some(limit) = row.row.event.policy.seats_per_user else { continue };
        if let Some((time, places)) = too_many(&times, limit) {
            let at = since_start(time);
            history
                .violation('S', format_args!("{user} had {places} places of {event} at {at} ms, of {limit}"));
        }
    }
}

/// The first moment at which somebody had more than the limit, and how many.
fn too_many(times: &[(Place, Certain)], limit: u32) -> Option<(Time, u32)> {
    let mut moments: Vec<Time> = times.iter().map(|(_, time)| time.from).collect();
    moments.sort_unstable();
    moments.into_iter().find_map(|now| {
        // A seat counts once, in a hold and in what becomes of it, and so do the places of an area in one hold.
        let (mut seats, mut areas) = (BTreeSet::new(), BTreeMap::new());
        for (place, time) in times.iter().filter(|(_, time)| time.from <= now && now < time.until) {
            match place {
                Place::Seat(seat) => drop(seats.insert(*seat)),
                Place::Area(area) => {
                    let places: &mut u32 = areas.entry((*area, time.whose)).or_default();
                    *places = (*places).max(time.places);
                }
            }
        }
        let places = seats.len() as u32 + areas.values().sum::<u32>();
        (places > limit).then_some((now, places))
    })
}

/// Two of the times that are of different owners and meet. Sorted by their beginnings.
pub fn overlap(times: &[Certain]) -> Option<(Certain, Certain)> {
    for (i, a) in times.iter().enumerate() {
        let later = times[i + 1..].iter().take_while(|b| b.from < a.until);
        if let Some(b) = later.into_iter().find(|b| b.whose != a.whose) {
            return Some((*a, *b));
        }
    }
    None
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Seat(SeatId),
    Area(AreaId),
}

/// All that is certain, by what it is of.
#[derive(Default)]
struct Known {
    seats: BTreeMap<SeatId, Vec<Certain>>,
    areas: BTreeMap<AreaId, Vec<Certain>>,
    users: BTreeMap<(EventId, UserId), Vec<(Place, Certain)>>,
}

impl Known {
    fn add(&mut self, event: EventId, user: &UserId, place: Place, certain: Certain) {
        if certain.from >= certain.until {
            return;
        }
        match place {
            Place::Seat(seat) => self.seats.entry(seat).or_default().push(certain),
            Place::Area(area) => self.areas.entry(area).or_default().push(certain),
        }
        self.users.entry((event, user.clone())).or_default().push((place, certain));
    }
}

fn certain(books: &Books) -> Known {
    let mut found = Found { frees: BTreeMap::new(), cancels: BTreeMap::new(), known: Known::default() };
    for attempt in books.attempts.iter().filter(|attempt| attempt.may_count()) {
        match &attempt.request.command {
            Command::Release { hold, .. } | Command::Confirm { hold, .. } => {
                found.frees.entry(*hold).or_default().push(attempt)
            }
            Command::CancelBooking { booking, .. } => {
                let first = found.cancels.entry(*booking).or_insert(attempt.asked);
                *first = (*first).min(attempt.asked);
            }
            _ => {}
        }
    }
    for attempt in &books.attempts {
        match &attempt.said {
            // A recorded answer tells of a moment that is past, and nobody knows which.
            Said::Held(outcome) if !attempt.replayed && outcome.hold.status == HoldStatus::Active => {
                found.hold(attempt, &outcome.hold);
            }
            Said::Booked(outcome) => found.booking(&outcome.booking),
            _ => {}
        }
    }
    found.known
}

struct Found<'b> {
    frees: BTreeMap<HoldId, Vec<&'b Attempt>>,
    cancels: BTreeMap<BookingId, Time>,
    known: Known,
}

impl Found<'_> {
    fn hold(&mut self, attempt: &Attempt, hold: &Hold) {
        let end = |seat: Option<SeatId>| {
            let frees = self.frees.get(&hold.id).into_iter().flatten();
            // What was answered before this was asked is in it already.
            let open = |free: &&&Attempt| !free.said.is_yes() || free.answered > attempt.asked;
            let frees = frees.filter(|free| free.frees(hold.id, seat)).filter(open);
            frees.map(|free| free.asked).min().unwrap_or(FOREVER).min(hold.expires_at)
        };
        let from = attempt.answered;
        for seat in hold.seat_ids() {
            let certain = Certain { from, until: end(Some(seat)), whose: hold.id, places: 1 };
            self.known.add(hold.event, &hold.user, Place::Seat(seat), certain);
        }
        for held in &hold.areas {
            let places = hold.quantity_of(held.area);
            let certain = Certain { from, until: end(None), whose: hold.id, places };
            self.known.add(hold.event, &hold.user, Place::Area(held.area), certain);
        }
    }

    fn booking(&mut self, booking: &Booking) {
        let until = self.cancels.get(&booking.id).copied().unwrap_or(FOREVER);
        let from = booking.created_at;
        if booking.status == BookingStatus::Cancelled {
            return;
        }
        let mut areas: BTreeMap<AreaId, u32> = BTreeMap::new();
        for ticket in &booking.tickets {
            match ticket.admits {
                Admits::Seat(ordinal) => {
                    let seat = Place::Seat(SeatId::of(booking.event, ordinal));
                    let certain = Certain { from, until, whose: booking.hold, places: 1 };
                    self.known.add(booking.event, &booking.user, seat, certain);
                }
                Admits::Area(area) => *areas.entry(area).or_default() += 1,
            }
        }
        for (area, places) in areas {
            let certain = Certain { from, until, whose: booking.hold, places };
            self.known.add(booking.event, &booking.user, Place::Area(area), certain);
        }
    }
}

#[cfg(test)]
mod tests {
    use rowlock_core::booking::Ticket;
    use rowlock_core::hold::{HeldArea, HeldSeat, Source};
    use rowlock_core::outcome::{BookingOutcome, HoldOutcome};
    use rowlock_core::{Actor, CartToken, OrgId, Refusal, Request, TicketId};
    use uuid::Uuid;

    use super::*;

    const EVENT: EventId = EventId::from_uuid(Uuid::from_u128(1 << 40));

    fn at(millis: i64) -> Time {
        Time::from_millis(millis)
    }

    fn hold(id: u128, expires_at: i64) -> Hold {
        Hold {
            id: HoldId::from_uuid(Uuid::from_u128(id)),
            org: OrgId::from_uuid(Uuid::nil()),
            event: EVENT,
            user: UserId::new("ann").unwrap(),
            cart: CartToken::unnamed(),
            status: HoldStatus::Active,
            source: Source::Web,
            currency: "EUR".parse().unwrap(),
            seats: vec![HeldSeat { ordinal: 0, price: 1 }],
            areas: vec![],
            created_at: at(0),
            expires_at: at(expires_at),
            max_expires_at: at(expires_at),
            checkout_at: None,
            ended_at: None,
            booking: None,
        }
    }

    fn attempt(asked: i64, answered: i64, hold: HoldId, said: Said) -> Attempt {
        let command = Command::Release { hold, user: UserId::new("ann").unwrap(), seats: vec![] };
        let request = Request {
            org: OrgId::from_uuid(Uuid::nil()),
            actor: Actor::System,
            request_id: "test".into(),
            idempotency: None,
            command,
        };
        Attempt { operation: 0, request, asked: at(asked), answered: at(answered), said, replayed: false }
    }

    fn granted(asked: i64, answered: i64, hold: Hold) -> Attempt {
        let granted = Said::Held(HoldOutcome { hold: hold.into(), changed: true, elsewhere: vec![] });
        let other = HoldId::from_uuid(Uuid::nil());
        attempt(asked, answered, other, granted)
    }

    fn two_owners(attempts: Vec<Attempt>) -> bool {
        certain(&Books { attempts, ..Books::default() }).seats.into_values().any(|mut times| {
            times.sort_by_key(|time| time.from);
            overlap(&times).is_some()
        })
    }

    #[test]
    fn two_holds_at_a_time_are_two_owners() {
        assert!(two_owners(vec![granted(1, 2, hold(1, 100)), granted(3, 4, hold(2, 100))]));
        assert!(
            !two_owners(vec![granted(1, 2, hold(1, 100)), granted(50, 100, hold(2, 200))]),
            "the first was over"
        );
        assert!(
            !two_owners(vec![granted(1, 2, hold(1, 100)), granted(3, 4, hold(1, 200))]),
            "it is one hold"
        );
    }

    #[test]
    fn what_may_have_been_given_back_is_not_certain() {
        let id = hold(1, 100).id;
        let released =
            |said| vec![granted(1, 2, hold(1, 100)), attempt(3, 9, id, said), granted(4, 5, hold(2, 100))];
        assert!(!two_owners(released(Said::Unknown("lost".into()))));
        assert!(two_owners(released(Said::Refused(Refusal::NotOwner))), "a refusal has no effect");
    }

    /// How many places somebody was told of at once, if it is more than two.
    fn more_than_two(attempts: Vec<Attempt>) -> Option<u32> {
        let known = certain(&Books { attempts, ..Books::default() });
        known.users.values().find_map(|times| too_many(times, 2)).map(|(_, places)| places)
    }

    /// A hold of these seats, and of so many places of an area.
    fn of(id: u128, expires_at: i64, seats: &[u32], places: u32) -> Hold {
        let area = AreaId::from_uuid(Uuid::from_u128(7));
        let areas = (places > 0).then_some(HeldArea { area, quantity: places, price: 1 });
        let seats = seats.iter().map(|ordinal| HeldSeat { ordinal: *ordinal, price: 1 });
        Hold { seats: seats.collect(), areas: areas.into_iter().collect(), ..hold(id, expires_at) }
    }

    #[test]
    fn the_places_of_a_user_are_counted() {
        let two = || granted(1, 2, of(1, 100, &[0, 1], 0));
        assert_eq!(more_than_two(vec![two()]), None);
        assert_eq!(more_than_two(vec![two(), granted(3, 4, of(2, 100, &[2], 0))]), Some(3), "in two carts");
        assert_eq!(more_than_two(vec![two(), granted(3, 4, of(2, 100, &[], 2))]), Some(4), "in an area");
        assert_eq!(more_than_two(vec![two(), granted(3, 4, of(1, 150, &[0, 1], 0))]), None, "the same hold");
        assert_eq!(more_than_two(vec![two(), granted(50, 100, of(2, 200, &[2], 0))]), None, "it was over");
        let other = Hold { user: UserId::new("bob").unwrap(), ..of(2, 100, &[2], 0) };
        assert_eq!(more_than_two(vec![two(), granted(3, 4, other)]), None, "somebody else's");
    }

    #[test]
    fn what_a_user_has_bought_is_counted() {
        let ticket = |ordinal| Ticket {
            id: TicketId::from_uuid(Uuid::from_u128(u128::from(ordinal) + 1)),
            admits: Admits::Seat(ordinal),
            price: 1,
        };
        let bought = |seats: &[u32]| Booking {
            id: BookingId::from_uuid(Uuid::from_u128(1)),
            org: OrgId::from_uuid(Uuid::nil()),
            event: EVENT,
            user: UserId::new("ann").unwrap(),
            hold: hold(1, 100).id,
            status: BookingStatus::Confirmed,
            source: Source::Web,
            currency: "EUR".parse().unwrap(),
            tickets: seats.iter().copied().map(ticket).collect(),
            payment_reference: None,
            created_at: at(10),
            cancelled_at: None,
        };
        let told = |booking| {
            let booked = Said::Booked(BookingOutcome { booking, changed: true });
            attempt(9, 11, HoldId::from_uuid(Uuid::nil()), booked)
        };
        let held = || granted(1, 2, of(1, 100, &[0, 1], 0));
        let more = || granted(200, 201, of(2, 300, &[2], 0));
        assert_eq!(more_than_two(vec![held(), told(bought(&[0, 1]))]), None, "what was held is sold");
        assert_eq!(more_than_two(vec![told(bought(&[0, 1])), more()]), Some(3));
        assert_eq!(more_than_two(vec![told(bought(&[0])), more()]), None);
    }

    #[test]
    fn what_was_given_back_before_does_not_count_later() {
        let id = hold(1, 100).id;
        let release =
            attempt(3, 4, id, granted(3, 4, Hold { status: HoldStatus::Cancelled, ..hold(1, 100) }).said);
        let again = granted(5, 6, hold(1, 100));
        assert!(two_owners(vec![release, again, granted(7, 8, hold(2, 100))]));
    }
}
