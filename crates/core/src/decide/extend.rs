//! More time: once for starting checkout, and by heartbeats while a payment is slow.

use super::{Decided, Facts, owned_hold};
use crate::fact::{Fact, HoldMoved};
use crate::hold::{Hold, HoldStatus};
use crate::ids::{HoldId, OrgId};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::text::UserId;
use crate::time::Time;

pub(super) fn start_checkout(
    slice: &Slice,
    org: OrgId,
    id: HoldId,
    user: &UserId,
    now: Time,
) -> Result<Decided, Refusal> {
    let hold = live_hold(slice, org, id, user, now)?;
    if hold.checkout_at.is_some() {
        return Ok(Decided::hold(Facts::new(), id));
    }
    let extension = policy(slice, hold).checkout_extension_seconds;
    Ok(Decided::hold(Facts::from_iter([moved(hold, extension, Some(now))]), id))
}

pub(super) fn heartbeat(
    slice: &Slice,
    org: OrgId,
    id: HoldId,
    user: &UserId,
    now: Time,
) -> Result<Decided, Refusal> {
    let hold = live_hold(slice, org, id, user, now)?;
    let step = policy(slice, hold).heartbeat_seconds;
    if hold.expires_at >= hold.max_expires_at || step == 0 {
        return Err(Refusal::ExtensionExhausted { hold: id, max_expires_at: hold.max_expires_at });
    }
    Ok(Decided::hold(Facts::from_iter([moved(hold, step, None)]), id))
}

/// The hold, if this user owns it and it still holds something.
pub(super) fn live_hold<'s>(
    slice: &'s Slice,
    org: OrgId,
    id: HoldId,
    user: &UserId,
    now: Time,
) -> Result<&'s Hold, Refusal> {
    let hold = owned_hold(slice, org, id, user)?;
    match hold.status {
        HoldStatus::Active if hold.is_live(now) => Ok(hold),
        HoldStatus::Active | HoldStatus::Expired => {
            Err(Refusal::HoldExpired { hold: id, expired_at: hold.expires_at })
        }
        HoldStatus::Cancelled => Err(Refusal::HoldReleased { hold: id }),
        HoldStatus::Converted => Err(Refusal::HoldConfirmed {
            hold: id,
            booking: hold.booking.expect("a converted hold is booked"),
        }),
    }
}

fn policy<'s>(slice: &'s Slice, hold: &Hold) -> &'s crate::policy::Policy {
    &slice.event_row(hold.event).expect("the hold's event is in the slice").event.policy
}

fn moved(hold: &Hold, seconds: u32, checkout_at: Option<Time>) -> Fact {
    Fact::HoldExtended(HoldMoved {
        hold: hold.id,
        event: hold.event,
        user: hold.user.clone(),
        seats: hold.seats.clone(),
        previous_expires_at: hold.expires_at,
        expires_at: hold.expires_at.plus_seconds(seconds).min(hold.max_expires_at),
        checkout_at,
    })
}
