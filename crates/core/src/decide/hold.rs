//! Holding: all the places or none. The heart of the product.

use std::sync::Arc;

use super::expire::expired;
use super::{Answer, Decided, Facts, different_seats, event_of, has_duplicates, known_seats};
use crate::command::Places;
use crate::event::Event;
use crate::fact::{Fact, HoldPart};
use crate::hold::{HeldArea, HeldSeat, Hold, HoldStatus, places as count_places};
use crate::ids::{AreaId, BlockId, HoldId, IdSource, OrgId, SeatId};
use crate::limits::{MAX_AREA_QUANTITY, MAX_PLACES_PER_HOLD, MAX_SEATS_PER_HOLD};
use crate::outcome::HeldElsewhere;
use crate::refusal::Refusal;
use crate::seat::SeatState;
use crate::slice::{Slice, Spot};
use crate::text::CartToken;
use crate::time::Time;

pub(super) fn hold(
    slice: &Slice,
    org: OrgId,
    places: &Places,
    now: Time,
    ids: &mut dyn IdSource,
) -> Result<Decided, Refusal> {
    let event = &event_of(slice, org, places.event)?.event;
    let cart = slice.cart(places.event, &places.user, &places.cart);
    let live = cart.filter(|hold| hold.is_live(now));
    let mut plan = Plan::new(slice, event, places, live, now)?;
    if plan.is_empty() {
        let elsewhere = plan.elsewhere;
        let hold = live.map(|hold| hold.id).or(elsewhere.first().map(|other| other.hold));
        let hold = hold.expect("a plan with nothing to take is about something held");
        return Ok(Decided { facts: Facts::new(), answer: Answer::Hold { hold, changed: false, elsewhere } });
    }
    // A cart has one active hold, so a dead one leaves before a new one comes.
    if let Some(dead) = cart.filter(|hold| hold.is_due(now)) {
        plan.end(dead.id);
    }
    let mut facts = plan.endings(slice, now);
    // One more, and not room for several, as a list that grows by itself would have it.
    facts.reserve_exact(1);
    let hold = match live {
        Some(hold) => {
            let part = HoldPart {
                hold: hold.id,
                event: hold.event,
                user: hold.user.clone(),
                cart: hold.cart.clone(),
                seats: plan.seats,
                areas: plan.areas,
                expires_at: hold.expires_at,
                ended: false,
                at: now,
            };
            facts.push(Fact::HoldGrew(part));
            hold.id
        }
        None => {
            let id = HoldId::from_uuid(ids.next(now));
            let fresh = new_hold(id, event, places, places.cart.clone(), plan.seats, plan.areas, now);
            facts.push(Fact::HoldCreated(Arc::new(fresh)));
            id
        }
    };
    let answer = Answer::Hold { hold, changed: true, elsewhere: plan.elsewhere };
    Ok(Decided { facts, answer })
}

/// A hold of exactly these places in a cart of its own, with the facts that make room for it.
pub(super) fn fresh_hold(
    slice: &Slice,
    org: OrgId,
    places: &Places,
    now: Time,
    ids: &mut dyn IdSource,
) -> Result<(Facts, Hold), Refusal> {
    let event = &event_of(slice, org, places.event)?.event;
    let mut plan = Plan::new(slice, event, places, None, now)?;
    if !plan.elsewhere.is_empty() {
        let seats = plan.elsewhere.iter().map(|other| other.seat).collect();
        return Err(Refusal::SeatsTaken { seats });
    }
    let facts = plan.endings(slice, now);
    let id = HoldId::from_uuid(ids.next(now));
    let cart = CartToken::new(&format!("booked-{id}")).expect("an id is printable");
    Ok((facts, new_hold(id, event, places, cart, plan.seats, plan.areas, now)))
}

fn new_hold(
    id: HoldId,
    event: &Event,
    places: &Places,
    cart: CartToken,
    seats: Vec<HeldSeat>,
    areas: Vec<HeldArea>,
    now: Time,
) -> Hold {
    Hold {
        id,
        org: event.org,
        event: event.id,
        user: places.user.clone(),
        cart,
        status: HoldStatus::Active,
        source: places.source,
        currency: event.currency,
        seats,
        areas,
        created_at: now,
        expires_at: now.plus_seconds(event.policy.ttl_seconds),
        max_expires_at: now.plus_seconds(event.policy.max_hold_seconds),
        checkout_at: None,
        ended_at: None,
        booking: None,
    }
}

/// What a hold would take, and whose time must end for it.
struct Plan {
    seats: Vec<HeldSeat>,
    areas: Vec<HeldArea>,
    /// Holds past their time that are in the way, each once.
    over: Vec<HoldId>,
    elsewhere: Vec<HeldElsewhere>,
}

impl Plan {
    fn new(
        slice: &Slice,
        event: &Event,
        places: &Places,
        live: Option<&Hold>,
        now: Time,
    ) -> Result<Plan, Refusal> {
        check_shape(places)?;
        let planned = Self::take(slice, event, places, live, now);
        if !event.policy.sells_at(now) && !planned.as_ref().is_ok_and(Plan::is_empty) {
            let (opens_at, closes_at) = (event.policy.sales_open_at, event.policy.sales_close_at);
            return Err(Refusal::SalesNotOpen { opens_at, closes_at });
        }
        let plan = planned?;
        plan.check_size(slice, event, places, live)?;
        Ok(plan)
    }

    fn take(
        slice: &Slice,
        event: &Event,
        places: &Places,
        live: Option<&Hold>,
        now: Time,
    ) -> Result<Plan, Refusal> {
        known_seats(slice, event.id, &places.seats)?;
        let mut plan = Plan { seats: vec![], areas: vec![], over: vec![], elsewhere: vec![] };
        plan.take_seats(slice, event, places, live, now)?;
        for (block, quantity) in &places.blocks {
            plan.take_any(slice, event, *block, *quantity as usize, live)?;
        }
        for (area, quantity) in &places.areas {
            let already = live.map_or(0, |hold| hold.quantity_of(*area));
            plan.take_area(slice, event, *area, quantity.saturating_sub(already), now)?;
        }
        Ok(plan)
    }

    fn take_seats(
        &mut self,
        slice: &Slice,
        event: &Event,
        places: &Places,
        live: Option<&Hold>,
        now: Time,
    ) -> Result<(), Refusal> {
        let (mut taken, mut blocked) = (Vec::new(), Vec::new());
        for id in &places.seats {
            let seat = slice.seat(*id).expect("known seats are in the slice");
            match seat.state {
                SeatState::Available => {}
                SeatState::Held { hold, .. } if live.is_some_and(|live| live.id == hold) => continue,
                SeatState::Held { hold, until } if until <= now => self.end(hold),
                SeatState::Held { hold, .. } => {
                    let other = slice.hold(hold).expect("the hold of a seat is in the slice");
                    if other.user == places.user {
                        self.elsewhere.push(HeldElsewhere {
                            seat: *id,
                            hold,
                            cart: other.cart.clone(),
                            expires_at: other.expires_at,
                        });
                    } else {
                        taken.push(*id);
                    }
                    continue;
                }
                SeatState::Sold { .. } => {
                    taken.push(*id);
                    continue;
                }
                SeatState::Blocked => {
                    blocked.push(*id);
                    continue;
                }
            }
            self.seats.push(HeldSeat { ordinal: id.raw_ordinal(), price: event.price(seat.tier) });
        }
        match (taken.is_empty(), blocked.is_empty()) {
            (false, _) => Err(Refusal::SeatsTaken { seats: taken }),
            (true, false) => Err(Refusal::SeatsBlocked { seats: blocked }),
            (true, true) => Ok(()),
        }
    }

    /// Any seats of a block, so that the cart has as many as it shall.
    fn take_any(
        &mut self,
        slice: &Slice,
        event: &Event,
        block: BlockId,
        quantity: usize,
        live: Option<&Hold>,
    ) -> Result<(), Refusal> {
        let free = slice.free_seats(event.id, block).ok_or(Refusal::UnknownBlock { block })?;
        let already = live
            .into_iter()
            .flat_map(|hold| &hold.seats)
            .chain(&self.seats)
            .filter(|seat| slice.is_in_block(SeatId::of(event.id, seat.ordinal), block));
        let wanted = quantity.saturating_sub(already.count());
        if wanted == 0 {
            return Ok(());
        }
        let named: Vec<u32> = self.seats.iter().map(|seat| seat.ordinal).collect();
        let chosen = choose(free.filter(|(ordinal, _)| !named.contains(ordinal)), wanted);
        if chosen.len() < wanted {
            let (requested, left) = (wanted as u32, chosen.len() as u32);
            return Err(Refusal::BlockFull { block, requested, left });
        }
        for ordinal in chosen {
            let seat = slice.seat(SeatId::of(event.id, ordinal)).expect("free seats are in the slice");
            // Whoever holds a seat that can be had is past their time.
            if let Some(hold) = seat.state.hold() {
                self.end(hold);
            }
            self.seats.push(HeldSeat { ordinal, price: event.price(seat.tier) });
        }
        Ok(())
    }

    fn take_area(
        &mut self,
        slice: &Slice,
        event: &Event,
        id: AreaId,
        wanted: u32,
        now: Time,
    ) -> Result<(), Refusal> {
        let unknown = Refusal::UnknownArea { area: id };
        let area = slice.area(id).filter(|area| area.event == event.id).ok_or(unknown)?;
        if wanted == 0 {
            return Ok(());
        }
        let freed: u32 =
            self.over.iter().filter_map(|hold| slice.hold(*hold)).map(|h| h.quantity_of(id)).sum();
        let mut left = area.available() + freed;
        if left < wanted {
            // Holds past their time make room, oldest first, no more of them than needed.
            let mut due: Vec<&Hold> = slice
                .holds()
                .filter(|hold| hold.is_due(now) && hold.quantity_of(id) > 0 && !self.over.contains(&hold.id))
                .collect();
            due.sort_unstable_by_key(|hold| (hold.expires_at, hold.id));
            for hold in due {
                if left >= wanted {
                    break;
                }
                left += hold.quantity_of(id);
                self.end(hold.id);
            }
        }
        if left < wanted {
            return Err(Refusal::AreaFull { area: id, requested: wanted, left });
        }
        self.areas.push(HeldArea { area: id, quantity: wanted, price: event.price(area.tier) });
        Ok(())
    }

    fn check_size(
        &self,
        slice: &Slice,
        event: &Event,
        places: &Places,
        live: Option<&Hold>,
    ) -> Result<(), Refusal> {
        let requested = count_places(&self.seats, &self.areas);
        if requested == 0 {
            return Ok(());
        }
        if let Some(limit) = event.policy.seats_per_user {
            let current = slice.usage(event.id, &places.user);
            if current + requested > limit {
                return Err(Refusal::TooManySeats { limit, current, requested });
            }
        }
        let (seats, current) = live.map_or((0, 0), |hold| (hold.seats.len(), hold.places()));
        if current + requested > MAX_PLACES_PER_HOLD {
            return Err(Refusal::TooManySeats { limit: MAX_PLACES_PER_HOLD, current, requested });
        }
        if seats + self.seats.len() > MAX_SEATS_PER_HOLD {
            let limit = MAX_SEATS_PER_HOLD as u32;
            return Err(Refusal::TooManySeats {
                limit,
                current: seats as u32,
                requested: self.seats.len() as u32,
            });
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.seats.is_empty() && self.areas.is_empty()
    }

    /// Each hold once: it gives its places back once.
    fn end(&mut self, hold: HoldId) {
        if !self.over.contains(&hold) {
            self.over.push(hold);
        }
    }

    fn endings(&mut self, slice: &Slice, now: Time) -> Facts {
        self.over.sort_unstable();
        self.over
            .iter()
            .map(|hold| expired(slice.hold(*hold).expect("the hold of a seat is in the slice"), now))
            .collect()
    }
}

/// The first `wanted` seats that stand side by side in a row, and if there are none, the first of all.
fn choose(free: impl Iterator<Item = (u32, Spot)>, wanted: usize) -> Vec<u32> {
    let (mut first, mut together): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    let mut before: Option<Spot> = None;
    for (ordinal, spot) in free {
        if !before.is_some_and(|before| before.is_before(spot)) {
            together.clear();
        }
        together.push(ordinal);
        if together.len() == wanted {
            return together;
        }
        if first.len() < wanted {
            first.push(ordinal);
        }
        before = Some(spot);
    }
    first
}

/// What can be wrong with a hold whatever the event is like. It comes before all other refusals.
pub fn check_shape(places: &Places) -> Result<(), Refusal> {
    let invalid = |field, rule: &str| Err(Refusal::Invalid { field, rule: rule.to_owned() });
    if places.seats.is_empty() && places.blocks.is_empty() && places.areas.is_empty() {
        return invalid("seat_ids", "must name a seat when no area is named");
    }
    different_seats("seat_ids", &places.seats)?;
    if has_duplicates(places.blocks.iter().map(|(block, _)| block)) {
        return invalid("block_id", "must not name a block twice");
    }
    if places.blocks.iter().any(|(_, n)| *n == 0 || *n as usize > MAX_SEATS_PER_HOLD) {
        return invalid("quantity", "must be between 1 and 500");
    }
    if has_duplicates(places.areas.iter().map(|(area, _)| area)) {
        return invalid("areas", "must not name an area twice");
    }
    if places.areas.iter().any(|(_, quantity)| *quantity == 0 || *quantity > MAX_AREA_QUANTITY) {
        return invalid("areas", "must have quantities between 1 and 1000");
    }
    Ok(())
}
