//! Who certainly had a seat, and when. Two at a time must never be.
//!
//! A yes to a hold says: at some moment between question and answer the hold had these seats. From the answer on it has them,
//! until it ends by its time or until somebody may have given a seat back: from the moment that is asked for, nothing is
//! certain any more. A sale is certain from the moment that the booking names until somebody may have cancelled it.

use std::collections::BTreeMap;

use rowlock_core::booking::{Admits, Booking, BookingStatus};
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::{AreaId, BookingId, Command, HoldId, SeatId, Time};

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
    let (seats, areas) = certain(books);
    for (seat, mut times) in seats {
        times.sort_by_key(|time| (time.from, time.until, time.whose));
        if let Some((a, b)) = overlap(&times) {
            let at = since_start(b.from);
            history.violation(
                'S',
                format_args!("seat {seat} had two owners at {at} ms: {} and {}", a.whose, b.whose),
            );
        }
    }
    for (area, times) in areas {
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

type Times<K> = BTreeMap<K, Vec<Certain>>;

pub fn certain(books: &Books) -> (Times<SeatId>, Times<AreaId>) {
    let mut found =
        Found { frees: BTreeMap::new(), cancels: BTreeMap::new(), seats: Times::new(), areas: Times::new() };
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
    (found.seats, found.areas)
}

struct Found<'b> {
    frees: BTreeMap<HoldId, Vec<&'b Attempt>>,
    cancels: BTreeMap<BookingId, Time>,
    seats: Times<SeatId>,
    areas: Times<AreaId>,
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
            let until = end(Some(seat));
            if from < until {
                self.seats.entry(seat).or_default().push(Certain { from, until, whose: hold.id, places: 1 });
            }
        }
        for held in &hold.areas {
            let until = end(None);
            if from < until {
                let certain = Certain { from, until, whose: hold.id, places: hold.quantity_of(held.area) };
                self.areas.entry(held.area).or_default().push(certain);
            }
        }
    }

    fn booking(&mut self, booking: &Booking) {
        let until = self.cancels.get(&booking.id).copied().unwrap_or(FOREVER);
        let from = booking.created_at;
        if booking.status == BookingStatus::Cancelled || from >= until {
            return;
        }
        let mut areas: BTreeMap<AreaId, u32> = BTreeMap::new();
        for ticket in &booking.tickets {
            match ticket.admits {
                Admits::Seat(ordinal) => {
                    let certain = Certain { from, until, whose: booking.hold, places: 1 };
                    self.seats.entry(SeatId::of(booking.event, ordinal)).or_default().push(certain);
                }
                Admits::Area(area) => *areas.entry(area).or_default() += 1,
            }
        }
        for (area, places) in areas {
            self.areas.entry(area).or_default().push(Certain { from, until, whose: booking.hold, places });
        }
    }
}

#[cfg(test)]
mod tests {
    use rowlock_core::hold::{HeldSeat, Source};
    use rowlock_core::outcome::HoldOutcome;
    use rowlock_core::{Actor, CartToken, EventId, OrgId, Refusal, Request, UserId};
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
        let granted = Said::Held(HoldOutcome { hold, changed: true, elsewhere: vec![] });
        let other = HoldId::from_uuid(Uuid::nil());
        attempt(asked, answered, other, granted)
    }

    fn two_owners(attempts: Vec<Attempt>) -> bool {
        let (seats, _) = certain(&Books { attempts, ..Books::default() });
        seats.into_values().any(|mut times| {
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

    #[test]
    fn what_was_given_back_before_does_not_count_later() {
        let id = hold(1, 100).id;
        let release =
            attempt(3, 4, id, granted(3, 4, Hold { status: HoldStatus::Cancelled, ..hold(1, 100) }).said);
        let again = granted(5, 6, hold(1, 100));
        assert!(two_owners(vec![release, again, granted(7, 8, hold(2, 100))]));
    }
}
