//! Taking seats off sale and putting them back: the organizer's verbs.

use super::expire::expired;
use super::{Decided, Facts, different_seats, event_of, known_seats};
use crate::fact::{Fact, SeatsMarked};
use crate::ids::{EventId, HoldId, OrgId, SeatId};
use crate::outcome::{Outcome, SeatsChanged};
use crate::refusal::Refusal;
use crate::seat::SeatState;
use crate::slice::Slice;
use crate::time::Time;

pub(super) fn block(
    slice: &Slice,
    org: OrgId,
    event: EventId,
    seats: &[SeatId],
    now: Time,
) -> Result<Decided, Refusal> {
    event_of(slice, org, event)?;
    different_seats("seat_ids", seats)?;
    known_seats(slice, event, seats)?;
    let (mut free, mut taken) = (Vec::new(), Vec::new());
    let mut over: Vec<HoldId> = Vec::new();
    for id in seats {
        match slice.seat(*id).expect("known seats are in the slice").state {
            SeatState::Available => free.push(*id),
            SeatState::Held { hold, until } if until <= now => {
                over.push(hold);
                free.push(*id);
            }
            SeatState::Held { .. } | SeatState::Sold { .. } => taken.push(*id),
            SeatState::Blocked => {}
        }
    }
    if !taken.is_empty() {
        return Err(Refusal::SeatsTaken { seats: taken });
    }
    over.sort_unstable();
    over.dedup();
    let mut facts: Facts = over
        .iter()
        .map(|hold| expired(slice.hold(*hold).expect("the hold of a seat is in the slice"), now))
        .collect();
    if !free.is_empty() {
        facts.push(Fact::SeatsBlocked(SeatsMarked { event, seats: free.clone() }));
    }
    Ok(Decided::new(facts, Outcome::Blocking(SeatsChanged { event, seats: free })))
}

pub(super) fn unblock(
    slice: &Slice,
    org: OrgId,
    event: EventId,
    seats: &[SeatId],
) -> Result<Decided, Refusal> {
    event_of(slice, org, event)?;
    different_seats("seat_ids", seats)?;
    known_seats(slice, event, seats)?;
    let is_blocked = |id: &&SeatId| slice.seat(**id).is_some_and(|seat| seat.state == SeatState::Blocked);
    let blocked: Vec<SeatId> = seats.iter().filter(is_blocked).copied().collect();
    let mut facts = Facts::new();
    if !blocked.is_empty() {
        facts.push(Fact::SeatsUnblocked(SeatsMarked { event, seats: blocked.clone() }));
    }
    Ok(Decided::new(facts, Outcome::Blocking(SeatsChanged { event, seats: blocked })))
}
