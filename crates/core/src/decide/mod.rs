//! The rules. One file a verb; all of them only read the slice and answer with facts.

mod block;
mod booking;
mod create;
mod expire;
mod extend;
mod hold;
mod release;

use std::sync::Arc;

use crate::booking::Booking;
use crate::command::{Command, Request};
use crate::event::Event;
use crate::fact::Fact;
use crate::hold::Hold;
use crate::ids::{BookingId, EventId, HoldId, IdSource, OrgId, SeatId};
use crate::outcome::{BookingOutcome, HeldElsewhere, HoldOutcome, Outcome};
use crate::refusal::Refusal;
use crate::slice::{EventRow, RecordKey, Slice};
use crate::text::UserId;
use crate::time::Time;

pub use hold::check_shape;

pub type Facts = Vec<Fact>;

/// What a command comes to: facts, and which row is its answer once they are applied.
#[derive(Debug)]
pub struct Decided {
    pub facts: Facts,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    Hold { hold: HoldId, changed: bool, elsewhere: Vec<HeldElsewhere> },
    Booking { booking: BookingId, changed: bool },
    Other(Outcome),
}

/// Decides one command on the rows as they are.
pub fn decide(
    slice: &Slice,
    request: &Request,
    now: Time,
    ids: &mut dyn IdSource,
) -> Result<Decided, Refusal> {
    let org = request.org;
    match &request.command {
        Command::CreateOrg { name } => create::org(name, now, ids),
        Command::CreateApiKey { name, scopes, secret_hash } => {
            create::api_key(slice, org, name, *scopes, *secret_hash, now, ids)
        }
        Command::RevokeApiKey { key } => create::revoke_api_key(slice, org, *key, now),
        Command::CreateEvent { name, currency, tiers, policy } => {
            let event = Event {
                id: EventId::from_uuid(ids.next(now)),
                org,
                name: name.clone(),
                currency: *currency,
                tiers: tiers.clone(),
                policy: policy.clone(),
                created_at: now,
            };
            create::event(slice, event)
        }
        Command::CreateBlock { event, name } => create::block(slice, org, *event, name, now, ids),
        Command::CreateSeats { event, sections } => create::seats(slice, org, *event, sections, now, ids),
        Command::CreateArea { event, name, tier, capacity } => {
            create::area(slice, org, *event, name, tier, *capacity, now, ids)
        }
        Command::BlockSeats { event, seats } => block::block(slice, org, *event, seats, now),
        Command::UnblockSeats { event, seats } => block::unblock(slice, org, *event, seats),
        Command::Hold(places) => hold::hold(slice, org, places, now, ids),
        Command::StartCheckout { hold, user } => extend::start_checkout(slice, org, *hold, user, now),
        Command::Heartbeat { hold, user } => extend::heartbeat(slice, org, *hold, user, now),
        Command::Release { hold, user, seats } => release::release(slice, org, *hold, user, seats, now),
        Command::Confirm { hold, user, payment_reference } => {
            booking::confirm(slice, org, *hold, user, payment_reference.as_ref(), now, ids)
        }
        Command::Book { places, payment_reference } => {
            booking::book(slice, org, places, payment_reference.as_ref(), now, ids)
        }
        Command::CancelBooking { booking, user } => booking::cancel(slice, org, *booking, user.as_ref(), now),
        Command::Expire { hold } => expire::expire(slice, *hold, now),
    }
}

/// What one command did to the slice.
#[derive(Debug)]
pub struct Executed {
    pub facts: Facts,
    pub outcome: Outcome,
    /// Whether the outcome is the recorded answer to an earlier request with the same idempotency key.
    pub replayed: bool,
}

/// Decides a command, applies its facts to the slice and keeps the answer for its idempotency key.
pub fn execute(
    slice: &mut Slice,
    request: &Request,
    now: Time,
    ids: &mut dyn IdSource,
) -> Result<Executed, Refusal> {
    if let Some(outcome) = recorded(slice, request)? {
        return Ok(Executed { facts: Facts::new(), outcome, replayed: true });
    }
    let Decided { facts, answer } = decide(slice, request, now, ids)?;
    for fact in &facts {
        slice.apply(fact);
    }
    assert_sound(slice, &facts, now);
    let outcome = answer.read(slice);
    if let Some(key) = &request.idempotency {
        slice.keep_record(request.org, request.actor.clone(), key, outcome.clone());
    }
    Ok(Executed { facts, outcome, replayed: false })
}

fn recorded(slice: &Slice, request: &Request) -> Result<Option<Outcome>, Refusal> {
    let Some(key) = &request.idempotency else { return Ok(None) };
    let record_key = RecordKey { org: request.org, actor: request.actor.clone(), key: key.key.clone() };
    match slice.records.get(&record_key) {
        None => Ok(None),
        Some(record) if record.fingerprint == key.fingerprint => Ok(Some(record.outcome.clone())),
        Some(_) => Err(Refusal::KeyReused),
    }
}

/// Asserts, in production too, that what the facts touched is sound. A failure fails the one command, not the data.
fn assert_sound(slice: &Slice, facts: &[Fact], now: Time) {
    for fact in facts {
        let (areas, hold) = match fact {
            Fact::HoldCreated(hold) => (&hold.areas, hold.id),
            Fact::HoldGrew(part) | Fact::HoldReleased(part) | Fact::HoldExpired(part) => {
                (&part.areas, part.hold)
            }
            _ => continue,
        };
        for held in areas {
            let area = slice.area(held.area).expect("the area is in the slice");
            assert!(area.held + area.sold <= area.capacity, "area {} is over its capacity", area.id);
        }
        let hold = slice.hold(hold).expect("the hold is in the slice");
        assert!(hold.expires_at <= hold.max_expires_at, "hold {} outlives its limit", hold.id);
        assert!(!hold.is_due(now), "hold {} is active past its time", hold.id);
    }
}

impl Decided {
    fn new(facts: Facts, outcome: Outcome) -> Self {
        Self { facts, answer: Answer::Other(outcome) }
    }

    fn hold(facts: Facts, hold: HoldId) -> Self {
        let changed = !facts.is_empty();
        Self { facts, answer: Answer::Hold { hold, changed, elsewhere: Vec::new() } }
    }

    fn booking(facts: Facts, booking: BookingId) -> Self {
        let changed = !facts.is_empty();
        Self { facts, answer: Answer::Booking { booking, changed } }
    }
}

impl Answer {
    fn read(self, slice: &Slice) -> Outcome {
        match self {
            Answer::Hold { hold, changed, elsewhere } => {
                let row = slice.holds.get(&hold).expect("an answered hold is in the slice");
                let hold = Arc::clone(&row.value);
                Outcome::Hold(HoldOutcome { hold, changed, elsewhere })
            }
            Answer::Booking { booking, changed } => {
                let booking = slice.booking(booking).expect("an answered booking is in the slice").clone();
                Outcome::Booking(BookingOutcome { booking, changed }.into())
            }
            Answer::Other(outcome) => outcome,
        }
    }
}

/// The event, if it is this org's: another org's things do not exist.
fn event_of(slice: &Slice, org: OrgId, id: EventId) -> Result<&EventRow, Refusal> {
    match slice.event_row(id) {
        Some(row) if row.event.org == org => Ok(row),
        _ => Err(Refusal::UnknownEvent { event: id }),
    }
}

fn owned_hold<'s>(slice: &'s Slice, org: OrgId, id: HoldId, user: &UserId) -> Result<&'s Hold, Refusal> {
    match slice.hold(id) {
        Some(hold) if hold.org == org && hold.user == *user => Ok(hold),
        Some(hold) if hold.org == org => Err(Refusal::NotOwner),
        _ => Err(Refusal::UnknownHold { hold: id }),
    }
}

fn booking_of(slice: &Slice, org: OrgId, id: BookingId) -> Result<&Booking, Refusal> {
    match slice.booking(id) {
        Some(booking) if booking.org == org => Ok(booking),
        _ => Err(Refusal::UnknownBooking { booking: id }),
    }
}

/// Refuses a list of seats with strangers in it, naming all of them.
fn known_seats(slice: &Slice, event: EventId, seats: &[SeatId]) -> Result<(), Refusal> {
    let unknown: Vec<SeatId> = seats
        .iter()
        .filter(|seat| seat.ordinal_in(event).is_none() || slice.seat(**seat).is_none())
        .copied()
        .collect();
    if unknown.is_empty() { Ok(()) } else { Err(Refusal::UnknownSeats { seats: unknown }) }
}

/// Refuses a list that names a seat twice: whoever counts the seats of a fact would count it twice.
fn different_seats(field: &'static str, seats: &[SeatId]) -> Result<(), Refusal> {
    if has_duplicates(seats.iter()) {
        let rule = "must not name a seat twice".to_owned();
        return Err(Refusal::Invalid { field, rule });
    }
    Ok(())
}

fn has_duplicates<'i, T: Ord + 'i>(items: impl ExactSizeIterator<Item = &'i T> + Clone) -> bool {
    /// Up to here comparing all of them costs less than room for a sorted list.
    const FEW: usize = 8;
    if items.len() <= FEW {
        return items.clone().enumerate().any(|(i, item)| items.clone().take(i).any(|before| before == item));
    }
    let mut sorted: Vec<&T> = items.collect();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}
