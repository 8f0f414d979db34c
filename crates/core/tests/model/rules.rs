//! The rules once more, as small as they can be, written from what the product promises and not from the kernel.
//!
//! A place belongs to whoever holds or bought it. A hold past its time holds nothing, so nobody here ever tidies:
//! what is free is worked out anew each time it is asked.

use super::ops::{AREAS, FIRST_ROW, SEATS, Want};

pub struct Policy {
    pub ttl: i64,
    pub checkout: i64,
    pub heartbeat: i64,
    pub longest: i64,
    pub per_user: Option<u32>,
    pub opens: i64,
    pub closes: i64,
    pub capacity: [u32; AREAS as usize],
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Open,
    Released,
    Sold(usize),
}

#[derive(Clone, Debug)]
pub struct Hold {
    pub event: u8,
    pub user: u8,
    /// `None`: made by a box office, in no cart.
    pub cart: Option<u8>,
    pub seats: Vec<u8>,
    pub areas: [u32; AREAS as usize],
    pub expires: i64,
    pub longest: i64,
    pub in_checkout: bool,
    pub end: End,
}

#[derive(Clone, Debug)]
pub struct Sale {
    pub hold: usize,
    pub cancelled: bool,
}

/// Who has a seat at some moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Owner {
    Nobody,
    Organizer,
    Holder(usize),
    Buyer(usize),
}

#[derive(Debug, PartialEq)]
pub enum No {
    UnknownEvent,
    UnknownSeats(Vec<u8>),
    UnknownArea(u8),
    UnknownHold,
    UnknownBooking,
    SeatsTaken(Vec<u8>),
    SeatsBlocked(Vec<u8>),
    UnknownBlock,
    BlockFull { requested: u32, left: u32 },
    AreaFull { area: u8, requested: u32, left: u32 },
    NotOwner,
    Expired(i64),
    Confirmed(usize),
    Released,
    Exhausted(i64),
    TooMany { limit: u32, current: u32, requested: u32 },
    NotOnSale,
    Cancelled(usize),
    Invalid(&'static str),
    KeyReused,
}

/// A success, as far as it can be foreseen.
#[derive(Debug, PartialEq)]
pub enum Yes {
    /// `changed` is `None` when it depends on whether somebody has tidied before.
    Hold {
        hold: usize,
        changed: Option<bool>,
        elsewhere: Vec<(u8, usize)>,
    },
    Booking {
        booking: usize,
        changed: bool,
    },
    Marked(Vec<u8>),
}

pub struct Model {
    pub policies: Vec<Policy>,
    pub holds: Vec<Hold>,
    pub sales: Vec<Sale>,
    /// Seats off sale, by event.
    blocked: Vec<[bool; SEATS as usize]>,
    pub now: i64,
}

impl Model {
    pub fn new(policies: Vec<Policy>, now: i64) -> Self {
        let blocked = policies.iter().map(|_| [false; SEATS as usize]).collect();
        Self { policies, holds: vec![], sales: vec![], blocked, now }
    }

    pub fn is_live(&self, hold: &Hold) -> bool {
        hold.end == End::Open && self.now < hold.expires
    }

    fn is_bought(&self, hold: &Hold) -> bool {
        matches!(hold.end, End::Sold(sale) if !self.sales[sale].cancelled)
    }

    pub fn owner(&self, event: u8, seat: u8) -> Owner {
        for (index, hold) in self.holds.iter().enumerate() {
            if hold.event != event || !hold.seats.contains(&seat) {
                continue;
            }
            match hold.end {
                End::Sold(sale) if self.is_bought(hold) => return Owner::Buyer(sale),
                _ if self.is_live(hold) => return Owner::Holder(index),
                _ => {}
            }
        }
        if self.blocked[usize::from(event)][usize::from(seat)] { Owner::Organizer } else { Owner::Nobody }
    }

    /// Places of an area that are held and sold.
    pub fn in_area(&self, event: u8, area: u8) -> (u32, u32) {
        let here = self.holds.iter().filter(|hold| hold.event == event);
        here.fold((0, 0), |(held, sold), hold| {
            let places = hold.areas[usize::from(area)];
            let (live, bought) = (self.is_live(hold), self.is_bought(hold));
            (held + if live { places } else { 0 }, sold + if bought { places } else { 0 })
        })
    }

    fn left_in(&self, event: u8, area: u8) -> u32 {
        let (held, sold) = self.in_area(event, area);
        self.policies[usize::from(event)].capacity[usize::from(area)] - held - sold
    }

    fn used_by(&self, event: u8, user: u8) -> u32 {
        let theirs = self.holds.iter().filter(|hold| hold.event == event && hold.user == user);
        let counted = theirs.filter(|hold| self.is_live(hold) || self.is_bought(hold));
        counted.map(|hold| hold.seats.len() as u32 + hold.areas.iter().sum::<u32>()).sum()
    }
}

/// What a request would take.
struct Plan {
    seats: Vec<u8>,
    areas: [u32; AREAS as usize],
    elsewhere: Vec<(u8, usize)>,
}

impl Plan {
    fn size(&self) -> u32 {
        self.seats.len() as u32 + self.areas.iter().sum::<u32>()
    }
}

/// Holding.
impl Model {
    pub fn hold(&mut self, want: &Want) -> Result<Yes, No> {
        let cart =
            |hold: &Hold| (hold.event, hold.user, hold.cart) == (want.event, want.user, Some(want.cart));
        let mine = self.holds.iter().position(|hold| cart(hold) && self.is_live(hold));
        let plan = self.plan(want, mine)?;
        if plan.size() == 0 {
            let hold = mine.unwrap_or_else(|| plan.elsewhere[0].1);
            return Ok(Yes::Hold { hold, changed: Some(false), elsewhere: plan.elsewhere });
        }
        let hold = match mine {
            Some(hold) => {
                self.holds[hold].seats.extend(&plan.seats);
                (0..AREAS as usize).for_each(|area| self.holds[hold].areas[area] += plan.areas[area]);
                hold
            }
            None => self.begin(want, &plan, Some(want.cart)),
        };
        Ok(Yes::Hold { hold, changed: Some(true), elsewhere: plan.elsewhere })
    }

    pub fn book(&mut self, want: &Want) -> Result<Yes, No> {
        let plan = self.plan(want, None)?;
        if !plan.elsewhere.is_empty() {
            return Err(No::SeatsTaken(plan.elsewhere.iter().map(|(seat, _)| *seat).collect()));
        }
        let hold = self.begin(want, &plan, None);
        Ok(self.sell(hold))
    }

    fn begin(&mut self, want: &Want, plan: &Plan, cart: Option<u8>) -> usize {
        let policy = &self.policies[usize::from(want.event)];
        self.holds.push(Hold {
            event: want.event,
            user: want.user,
            cart,
            seats: plan.seats.clone(),
            areas: plan.areas,
            expires: self.now + policy.ttl,
            longest: self.now + policy.longest,
            in_checkout: false,
            end: End::Open,
        });
        self.holds.len() - 1
    }

    fn plan(&self, want: &Want, mine: Option<usize>) -> Result<Plan, No> {
        well_formed(want)?;
        let policy = &self.policies[usize::from(want.event)];
        let plan = self.taking(want, mine);
        let idle = plan.as_ref().is_ok_and(|plan| plan.size() == 0);
        if !idle && !(policy.opens..policy.closes).contains(&self.now) {
            return Err(No::NotOnSale);
        }
        let plan = plan?;
        let (current, requested) = (self.used_by(want.event, want.user), plan.size());
        match policy.per_user {
            Some(limit) if requested > 0 && current + requested > limit => {
                Err(No::TooMany { limit, current, requested })
            }
            _ => Ok(plan),
        }
    }

    fn taking(&self, want: &Want, mine: Option<usize>) -> Result<Plan, No> {
        known(&want.seats)?;
        let mut plan = Plan { seats: vec![], areas: [0; AREAS as usize], elsewhere: vec![] };
        let (mut taken, mut blocked) = (vec![], vec![]);
        for seat in &want.seats {
            match self.owner(want.event, *seat) {
                Owner::Nobody => plan.seats.push(*seat),
                Owner::Organizer => blocked.push(*seat),
                Owner::Holder(hold) if mine == Some(hold) => {}
                Owner::Holder(hold) if self.holds[hold].user == want.user => {
                    plan.elsewhere.push((*seat, hold))
                }
                Owner::Holder(_) | Owner::Buyer(_) => taken.push(*seat),
            }
        }
        if !taken.is_empty() {
            return Err(No::SeatsTaken(taken));
        }
        if !blocked.is_empty() {
            return Err(No::SeatsBlocked(blocked));
        }
        if let Some((known, target)) = want.any {
            self.take_any(want, mine, known, target, &mut plan.seats)?;
        }
        for (area, target) in &want.areas {
            if *area >= AREAS {
                return Err(No::UnknownArea(*area));
            }
            let has = mine.map_or(0, |hold| self.holds[hold].areas[usize::from(*area)]);
            let (requested, left) = (target.saturating_sub(has), self.left_in(want.event, *area));
            if requested > left {
                return Err(No::AreaFull { area: *area, requested, left });
            }
            plan.areas[usize::from(*area)] = requested;
        }
        Ok(plan)
    }
}

/// Any seats.
impl Model {
    /// Side by side if that can be, else the first that are free.
    fn take_any(
        &self,
        want: &Want,
        mine: Option<usize>,
        known: bool,
        target: u32,
        seats: &mut Vec<u8>,
    ) -> Result<(), No> {
        if !known {
            return Err(No::UnknownBlock);
        }
        let has = seats.len() + mine.map_or(0, |hold| self.holds[hold].seats.len());
        let requested = target.saturating_sub(has as u32);
        let can_be_had = |seat: &u8| self.owner(want.event, *seat) == Owner::Nobody && !seats.contains(seat);
        let free: Vec<u8> = (0..SEATS).filter(can_be_had).collect();
        let left = free.len() as u32;
        if requested > left {
            return Err(No::BlockFull { requested, left });
        }
        let side_by_side = |some: &&[u8]| {
            some.windows(2).all(|two| two[0] + 1 == two[1] && (two[0] < FIRST_ROW) == (two[1] < FIRST_ROW))
        };
        let wanted = requested as usize;
        let together = free.windows(wanted.max(1)).find(side_by_side);
        seats.extend_from_slice(&together.unwrap_or(&free)[..wanted]);
        Ok(())
    }
}

/// What happens to a hold, a booking or a seat later.
impl Model {
    fn owned(&self, hold: Option<usize>, user: u8) -> Result<usize, No> {
        let hold = hold.ok_or(No::UnknownHold)?;
        if self.holds[hold].user == user { Ok(hold) } else { Err(No::NotOwner) }
    }

    fn owned_and_live(&self, hold: Option<usize>, user: u8) -> Result<usize, No> {
        let index = self.owned(hold, user)?;
        let hold = &self.holds[index];
        match hold.end {
            End::Open if self.is_live(hold) => Ok(index),
            End::Open => Err(No::Expired(hold.expires)),
            End::Released => Err(No::Released),
            End::Sold(sale) => Err(No::Confirmed(sale)),
        }
    }

    pub fn checkout(&mut self, hold: Option<usize>, user: u8) -> Result<Yes, No> {
        let hold = self.owned_and_live(hold, user)?;
        let first = !self.holds[hold].in_checkout;
        if first {
            self.holds[hold].in_checkout = true;
            self.prolong(hold, self.policies[usize::from(self.holds[hold].event)].checkout);
        }
        Ok(Yes::Hold { hold, changed: Some(first), elsewhere: vec![] })
    }

    pub fn heartbeat(&mut self, hold: Option<usize>, user: u8) -> Result<Yes, No> {
        let hold = self.owned_and_live(hold, user)?;
        if self.holds[hold].expires == self.holds[hold].longest {
            return Err(No::Exhausted(self.holds[hold].longest));
        }
        self.prolong(hold, self.policies[usize::from(self.holds[hold].event)].heartbeat);
        Ok(Yes::Hold { hold, changed: Some(true), elsewhere: vec![] })
    }

    fn prolong(&mut self, hold: usize, millis: i64) {
        let hold = &mut self.holds[hold];
        hold.expires = (hold.expires + millis).min(hold.longest);
    }

    pub fn release(&mut self, hold: Option<usize>, user: u8, seats: &[u8]) -> Result<Yes, No> {
        let index = self.owned(hold, user)?;
        different(seats).map_err(|_| No::Invalid("seat_id"))?;
        known(seats)?;
        let live = self.is_live(&self.holds[index]);
        let hold = &mut self.holds[index];
        let changed = match hold.end {
            End::Sold(sale) => return Err(No::Confirmed(sale)),
            End::Released => Some(false),
            End::Open if !live => None,
            End::Open => {
                let kept = |seat: &u8| !seats.is_empty() && !seats.contains(seat);
                let staying: Vec<u8> = hold.seats.iter().copied().filter(kept).collect();
                let changed = seats.is_empty() || staying.len() < hold.seats.len();
                if seats.is_empty() || (staying.is_empty() && hold.areas.iter().sum::<u32>() == 0) {
                    hold.end = End::Released;
                } else {
                    hold.seats = staying;
                }
                Some(changed)
            }
        };
        Ok(Yes::Hold { hold: index, changed, elsewhere: vec![] })
    }

    pub fn confirm(&mut self, hold: Option<usize>, user: u8) -> Result<Yes, No> {
        let index = self.owned(hold, user)?;
        match self.holds[index].end {
            End::Sold(booking) if self.sales[booking].cancelled => Err(No::Cancelled(booking)),
            End::Sold(booking) => Ok(Yes::Booking { booking, changed: false }),
            _ => self.owned_and_live(hold, user).map(|hold| self.sell(hold)),
        }
    }

    fn sell(&mut self, hold: usize) -> Yes {
        let booking = self.sales.len();
        self.sales.push(Sale { hold, cancelled: false });
        self.holds[hold].end = End::Sold(booking);
        Yes::Booking { booking, changed: true }
    }

    pub fn cancel(&mut self, sale: Option<usize>, user: Option<u8>) -> Result<Yes, No> {
        let booking = sale.ok_or(No::UnknownBooking)?;
        let owner = self.holds[self.sales[booking].hold].user;
        if user.is_some_and(|user| user != owner) {
            return Err(No::NotOwner);
        }
        let changed = !std::mem::replace(&mut self.sales[booking].cancelled, true);
        Ok(Yes::Booking { booking, changed })
    }

    pub fn expire(&self, hold: Option<usize>) -> Result<Yes, No> {
        let index = hold.ok_or(No::UnknownHold)?;
        let hold = &self.holds[index];
        let over = hold.end == End::Open && !self.is_live(hold);
        Ok(Yes::Hold { hold: index, changed: if over { None } else { Some(false) }, elsewhere: vec![] })
    }

    pub fn block(&mut self, event: u8, seats: &[u8]) -> Result<Yes, No> {
        different(seats)?;
        known(seats)?;
        let owners: Vec<(u8, Owner)> = seats.iter().map(|seat| (*seat, self.owner(event, *seat))).collect();
        let taken = |owner: &Owner| matches!(owner, Owner::Holder(_) | Owner::Buyer(_));
        let taken: Vec<u8> = owners.iter().filter(|(_, owner)| taken(owner)).map(|(seat, _)| *seat).collect();
        if !taken.is_empty() {
            return Err(No::SeatsTaken(taken));
        }
        Ok(self.mark(event, seats, true))
    }

    pub fn unblock(&mut self, event: u8, seats: &[u8]) -> Result<Yes, No> {
        different(seats)?;
        known(seats)?;
        Ok(self.mark(event, seats, false))
    }

    fn mark(&mut self, event: u8, seats: &[u8], as_blocked: bool) -> Yes {
        let blocked = &mut self.blocked[usize::from(event)];
        let mut flips =
            |seat: &u8| std::mem::replace(&mut blocked[usize::from(*seat)], as_blocked) != as_blocked;
        Yes::Marked(seats.iter().copied().filter(|seat| flips(seat)).collect())
    }
}

fn well_formed(want: &Want) -> Result<(), No> {
    if want.seats.is_empty() && want.areas.is_empty() && want.any.is_none() {
        return Err(No::Invalid("seat_ids"));
    }
    different(&want.seats)?;
    if want.any.is_some_and(|(_, quantity)| !(1..=500).contains(&quantity)) {
        return Err(No::Invalid("quantity"));
    }
    let areas: Vec<u8> = want.areas.iter().map(|(area, _)| *area).collect();
    different(&areas).map_err(|_| No::Invalid("areas"))?;
    let sensible = want.areas.iter().all(|(_, quantity)| (1..=1_000).contains(quantity));
    if sensible { Ok(()) } else { Err(No::Invalid("areas")) }
}

fn different(seats: &[u8]) -> Result<(), No> {
    let again = |(index, seat): (usize, &u8)| seats[..index].contains(seat);
    if seats.iter().enumerate().any(again) { Err(No::Invalid("seat_ids")) } else { Ok(()) }
}

fn known(seats: &[u8]) -> Result<(), No> {
    let unknown: Vec<u8> = seats.iter().copied().filter(|seat| *seat >= SEATS).collect();
    if unknown.is_empty() { Ok(()) } else { Err(No::UnknownSeats(unknown)) }
}
