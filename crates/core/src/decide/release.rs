//! Giving back: the whole hold, or some of its seats.

use super::expire::{everything, expired};
use super::{Decided, Facts, different_seats, known_seats, owned_hold};
use crate::fact::{Fact, HoldPart};
use crate::hold::{HeldSeat, HoldStatus};
use crate::ids::{HoldId, OrgId, SeatId};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::text::UserId;
use crate::time::Time;

pub(super) fn release(
    slice: &Slice,
    org: OrgId,
    id: HoldId,
    user: &UserId,
    seats: &[SeatId],
    now: Time,
) -> Result<Decided, Refusal> {
    let hold = owned_hold(slice, org, id, user)?;
    // A release is sent without a body: each seat is a parameter of its own.
    different_seats("seat_id", seats)?;
    known_seats(slice, hold.event, seats)?;
    match hold.status {
        HoldStatus::Converted => {
            let booking = hold.booking.expect("a converted hold is booked");
            return Err(Refusal::HoldConfirmed { hold: id, booking });
        }
        // The seats are free already, which is all that the owner wants.
        HoldStatus::Cancelled | HoldStatus::Expired => return Ok(Decided::hold(Facts::new(), id)),
        HoldStatus::Active => {}
    }
    if hold.is_due(now) {
        return Ok(Decided::hold(Facts::from_iter([expired(hold, now)]), id));
    }
    let part = if seats.is_empty() {
        everything(hold, now)
    } else {
        let leaving = |seat: &HeldSeat| seats.contains(&SeatId::of(hold.event, seat.ordinal));
        let gone: Vec<HeldSeat> = hold.seats.iter().filter(|seat| leaving(seat)).copied().collect();
        if gone.is_empty() {
            return Ok(Decided::hold(Facts::new(), id));
        }
        let ended = gone.len() == hold.seats.len() && hold.areas.is_empty();
        HoldPart { seats: gone, areas: Vec::new(), ended, ..everything(hold, now) }
    };
    Ok(Decided::hold(Facts::from_iter([Fact::HoldReleased(part)]), id))
}
