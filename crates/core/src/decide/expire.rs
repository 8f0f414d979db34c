//! Ending a hold that is past its time. The reaper asks for it; so does whoever needs the places first.

use super::{Decided, Facts};
use crate::fact::{Fact, HoldPart};
use crate::hold::Hold;
use crate::ids::HoldId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Time;

pub(super) fn expire(slice: &Slice, id: HoldId, now: Time) -> Result<Decided, Refusal> {
    let hold = slice.hold(id).ok_or(Refusal::UnknownHold { hold: id })?;
    let facts = if hold.is_due(now) { Facts::from_iter([expired(hold, now)]) } else { Facts::new() };
    Ok(Decided::hold(facts, id))
}

pub(super) fn expired(hold: &Hold, now: Time) -> Fact {
    Fact::HoldExpired(everything(hold, now))
}

/// The hold as a part of itself that is all of it.
pub(super) fn everything(hold: &Hold, now: Time) -> HoldPart {
    HoldPart {
        hold: hold.id,
        event: hold.event,
        user: hold.user.clone(),
        cart: hold.cart.clone(),
        seats: hold.seats.clone(),
        areas: hold.areas.clone(),
        expires_at: hold.expires_at,
        ended: true,
        at: now,
    }
}
