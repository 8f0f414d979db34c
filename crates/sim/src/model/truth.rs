//! The truth: rows are locked and read, the clock is read, a decision is made; later it is written, or never.

use super::protocol::Protocol;
use super::size::{EXTENSION, TTL};
use super::state::{
    Entry, Fact, Hold, MAX_JOURNAL, Phase, Reaping, Request, Seat, Set, State, Status, Verb, Wrongs, has,
};
use super::variant::Variant;

/// What the rules say to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decided {
    Refused,
    /// It is so already: a repeated request. Which hold, and how long it was told to last.
    AlreadySo {
        nth: u8,
        left: u8,
    },
    Write {
        nth: u8,
        left: u8,
        ends: Set,
    },
}

impl Protocol {
    /// The seats of a set of holds: these rows are locked with them.
    fn seats_of(&self, holds: Set) -> Set {
        (0..self.size.clients)
            .filter(|client| has(holds, *client))
            .fold(0, |all, client| all | self.size.wants(client))
    }

    pub(super) fn rows_of(&self, request: &Request) -> Set {
        self.seats_of(1 << request.target | request.ends)
    }

    /// Rows that somebody else's transaction has locked.
    pub(super) fn locked(&self, state: &State) -> Set {
        if !self.variant.locks() {
            return 0;
        }
        let loaded = state.requests().filter(|(_, _, request)| request.phase == Phase::Loaded);
        loaded.fold(0, |all, (_, _, request)| all | self.rows_of(request))
    }

    /// How long a hold has, by the clock that decides.
    fn left(&self, hold: &Hold, node: u8) -> u8 {
        hold.left.saturating_add_signed(-self.variant.skew(usize::from(node)))
    }

    pub(super) fn has_record(&self, state: &State, client: usize, request: &Request) -> bool {
        request.verb == Verb::Hold && self.variant != Variant::NoRecord && has(state.records, client)
    }

    /// Whether the rows can be had now. What is recorded is answered whoever has them.
    pub(super) fn can_load(&self, state: &State, client: usize, request: &Request) -> bool {
        if self.has_record(state, client, request) {
            return true;
        }
        let wanted = match self.decide(state, client, request) {
            Decided::Write { ends, .. } => self.seats_of(1 << request.target | ends),
            _ => self.size.wants(usize::from(request.target)),
        };
        wanted & self.locked(state) == 0
    }

    /// Whether a request would change something at once.
    pub(super) fn would_write(&self, state: &State, client: usize, request: &Request) -> bool {
        self.can_load(state, client, request)
            && matches!(self.decide(state, client, request), Decided::Write { .. })
    }

    fn decide(&self, state: &State, client: usize, request: &Request) -> Decided {
        let row = &state.holds[usize::from(request.target)];
        let (variant, left) = (self.variant, self.left(row, request.node));
        let is_owner = usize::from(request.target) == client;
        let is_live = row.nth == request.nth && row.status == Status::Active && left > 0;
        match request.verb {
            Verb::Hold => self.decide_hold(state, client, request),
            Verb::Extend if !is_owner && variant != Variant::ExtendByAnyone => Decided::Refused,
            Verb::Extend => {
                let ended =
                    variant == Variant::ExtendEnded && row.nth == request.nth && row.status != Status::Sold;
                match (is_live || ended, row.extended) {
                    (false, _) => Decided::Refused,
                    (true, true) => Decided::AlreadySo { nth: row.nth, left: row.left },
                    (true, false) => Decided::Write { nth: row.nth, left: row.left + EXTENSION, ends: 0 },
                }
            }
            Verb::Confirm if !is_owner => Decided::Refused,
            Verb::Confirm if row.nth == request.nth && row.status == Status::Sold => {
                Decided::AlreadySo { nth: row.nth, left: 0 }
            }
            Verb::Confirm => {
                let untidied =
                    variant == Variant::ConfirmLate && row.nth == request.nth && row.status == Status::Active;
                let may = is_live || untidied;
                if may { Decided::Write { nth: row.nth, left: 0, ends: 0 } } else { Decided::Refused }
            }
            Verb::Release if !is_owner && variant != Variant::ReleaseByAnyone => Decided::Refused,
            Verb::Release => match row.status {
                _ if row.nth != request.nth => Decided::AlreadySo { nth: request.nth, left: 0 },
                Status::Sold => Decided::Refused,
                Status::Active => Decided::Write { nth: row.nth, left: 0, ends: 0 },
                Status::None | Status::Expired | Status::Released => {
                    Decided::AlreadySo { nth: row.nth, left: 0 }
                }
            },
        }
    }

    fn decide_hold(&self, state: &State, client: usize, request: &Request) -> Decided {
        let own = &state.holds[client];
        if self.has_record(state, client, request) {
            let told = own.left.saturating_sub(u8::from(own.extended));
            return Decided::AlreadySo { nth: 1, left: told };
        }
        let own_left = self.left(own, request.node);
        if own.status == Status::Active && own_left > 0 {
            return Decided::AlreadySo { nth: own.nth, left: own.left };
        }
        let mut ends = if own.status == Status::Active { 1 << client } else { 0 };
        for seat in (0..self.size.seats).filter(|seat| has(self.size.wants(client), *seat)) {
            match state.seats[seat] {
                Seat::Free => {}
                Seat::Held(other) => {
                    if self.left(&state.holds[usize::from(other)], request.node) > 0 {
                        return Decided::Refused;
                    }
                    ends |= 1 << other;
                }
                Seat::Sold(_) => return Decided::Refused,
            }
        }
        Decided::Write { nth: (own.nth + 1).min(3), left: TTL, ends }
    }

    /// Locks, reads and decides.
    pub(super) fn load(&self, state: &mut State, client: usize, slot: usize, node: u8) {
        let request = state.request(client, slot).expect("a request that can be loaded").through(node);
        let decided = self.decide(state, client, &request);
        let Some(found) = &mut state.clients[client].requests[slot] else { return };
        match decided {
            Decided::Refused => self.give_up(state, client, slot),
            Decided::AlreadySo { nth, left } => {
                *found = Request { nth, left, phase: Phase::Committed, writes: false, ends: 0, ..*found };
            }
            Decided::Write { nth, left, ends } => {
                *found =
                    Request { nth, left, phase: Phase::Loaded, writes: true, ends, stale: false, ..*found };
                if self.variant == Variant::NumberFirst {
                    found.number = state.journal.reserved;
                    state.journal.reserved = (state.journal.reserved + 1 + ends.count_ones() as u8).min(15);
                }
                self.judge(state, &request, ends);
            }
        }
    }

    /// What the truth's own clock says to a decision.
    fn judge(&self, state: &mut State, request: &Request, ends: Set) {
        let row = &state.holds[usize::from(request.target)];
        if matches!(request.verb, Verb::Extend | Verb::Confirm) && !row.is_live() {
            state.wrongs.0 |= Wrongs::PAST_ITS_TIME;
        }
        if (0..self.size.clients).any(|other| has(ends, other) && state.holds[other].is_live()) {
            state.wrongs.0 |= Wrongs::BEFORE_ITS_TIME;
        }
    }

    /// Facts that a commit would append.
    fn facts(&self, request: &Request) -> u8 {
        1 + request.ends.count_ones() as u8
    }

    pub(super) fn has_room(&self, state: &State, facts: u8) -> bool {
        let len = state.journal.len;
        len == 0 || len + facts <= self.size.behind.min(MAX_JOURNAL as u8)
    }

    pub(super) fn can_commit(&self, state: &State, request: &Request) -> bool {
        self.has_room(state, self.facts(request))
    }

    pub(super) fn commit(&self, state: &mut State, client: usize, slot: usize) {
        let request = *state.request(client, slot).expect("a request that is loaded");
        if request.stale && self.variant.compares_versions() {
            // A row has another version: nothing was written, and it begins again.
            let nth = if request.verb == Verb::Hold { 0 } else { request.nth };
            let again =
                Request { phase: Phase::Down, nth, left: 0, writes: false, ends: 0, stale: false, ..request };
            state.clients[client].requests[slot] = Some(again);
            return;
        }
        let target = usize::from(request.target);
        self.take_number(state, request.number, self.facts(&request));
        for ended in (0..self.size.clients).filter(|other| has(request.ends, *other)) {
            if self.variant != Variant::HalfTakeover {
                self.end(state, ended, Status::Expired);
            }
        }
        match request.verb {
            Verb::Hold => self.create(state, client, &request),
            Verb::Extend => {
                let row = &mut state.holds[target];
                *row = Hold { status: Status::Active, left: request.left, extended: true, ..*row };
                self.append(state, Fact::Extended, target);
            }
            Verb::Confirm => {
                let row = &mut state.holds[target];
                *row = Hold { status: Status::Sold, left: 0, extended: false, ..*row };
                self.set_seats(state, target, Seat::Sold(target as u8));
                self.append(state, Fact::Sold, target);
            }
            Verb::Release => self.end(state, target, Status::Released),
        }
        if client != target {
            state.wrongs.0 |= Wrongs::BY_STRANGER;
        }
        let done =
            Request { phase: Phase::Committed, writes: false, ends: 0, stale: false, number: 0, ..request };
        state.clients[client].requests[slot] = Some(done);
        self.outdate(state, self.rows_of(&request));
    }

    pub(super) fn create(&self, state: &mut State, client: usize, request: &Request) {
        let row = &mut state.holds[client];
        if self.size.has_key(client) {
            if row.nth > 0 {
                state.wrongs.0 |= Wrongs::KEY_TWICE;
            }
            state.records |= 1 << client;
        }
        let row = &mut state.holds[client];
        *row = Hold { status: Status::Active, nth: request.nth, left: request.left, extended: false };
        state.nodes.iter_mut().for_each(|node| node.forgotten &= !(1 << client));
        self.set_seats(state, client, Seat::Held(client as u8));
        self.append(state, Fact::Created, client);
    }

    fn end(&self, state: &mut State, client: usize, status: Status) {
        let row = &mut state.holds[client];
        if row.status != Status::Active {
            state.wrongs.0 |= Wrongs::ENDED_TWICE;
        }
        *row = Hold { status, left: 0, extended: false, ..*row };
        self.set_seats(state, client, Seat::Free);
        self.append(state, Fact::Ended, client);
    }

    fn set_seats(&self, state: &mut State, client: usize, seat: Seat) {
        for place in (0..self.size.seats).filter(|place| has(self.size.wants(client), *place)) {
            state.seats[place] = seat;
        }
    }

    /// Appends to the journal. The number is taken here, in the step that commits, so it is the next one.
    fn append(&self, state: &mut State, fact: Fact, client: usize) {
        let (len, nth) = (usize::from(state.journal.len), state.holds[client].nth);
        state.journal.entries[len] = Entry { fact, client: client as u8, nth, lost: false };
        state.journal.len += 1;
    }

    /// With numbers that are handed out early, one may be written while those before it are not.
    pub(super) fn take_number(&self, state: &mut State, number: u8, facts: u8) {
        if self.variant != Variant::NumberFirst {
            return;
        }
        if number != 0 {
            state.wrongs.0 |= Wrongs::HOLE;
        }
        state.journal.reserved = state.journal.reserved.saturating_sub(facts);
        for other in state.requests_mut() {
            other.number = other.number.saturating_sub(facts);
        }
    }

    /// Whoever has read these rows and not written yet has old versions of them.
    pub(super) fn outdate(&self, state: &mut State, seats: Set) {
        let (size, locks) = (self.size, self.variant.locks());
        let seats_of = |holds| self.seats_of(holds);
        for other in state.requests_mut().filter(|other| other.phase == Phase::Loaded) {
            other.stale |= seats_of(1 << other.target | other.ends) & seats != 0;
            debug_assert!(!(locks && other.stale), "a locked row was written by somebody else");
        }
        for reaping in state.nodes.iter_mut().filter_map(|node| node.reaper.as_mut()) {
            reaping.stale |= size.wants(usize::from(reaping.client)) & seats != 0;
        }
    }

    /// Whether a reaper can take up a hold now: it thinks that it is due, and nobody has its rows.
    pub(super) fn can_reap(&self, state: &State, node: usize, client: usize) -> bool {
        let row = &state.holds[client];
        if row.nth == 0 || state.nodes[node].reaper.is_some() {
            return false;
        }
        let is_active = row.status == Status::Active;
        let due = match self.variant {
            Variant::ReapConfirmed => (is_active || row.status == Status::Sold) && row.left == 0,
            Variant::ReapByMemory => is_active && self.remembered(state, client) == 0,
            Variant::ForgetfulReaper => {
                is_active && row.left == 0 && !has(state.nodes[node].forgotten, client)
            }
            _ => is_active && self.left(row, node as u8) == 0,
        };
        due && self.has_room(state, 1) && self.size.wants(client) & self.locked(state) == 0
    }

    /// What a node believes that a hold has left: an extension that it has not heard of is missing.
    fn remembered(&self, state: &State, client: usize) -> u8 {
        let mut unheard = state.journal.entries().iter();
        let missing =
            unheard.any(|entry| entry.fact == Fact::Extended && usize::from(entry.client) == client);
        state.holds[client].left.saturating_sub(u8::from(missing) * EXTENSION)
    }

    /// Ends a hold. Whoever wants its rows meanwhile waits, and what is waited for is over in one step; without locks it
    /// is two.
    pub(super) fn reap(&self, state: &mut State, node: usize, client: usize) {
        if state.holds[client].is_live() {
            state.wrongs.0 |= Wrongs::BEFORE_ITS_TIME;
        }
        state.nodes[node].reaper = Some(Reaping { client: client as u8, stale: false });
        if self.variant.locks() {
            self.commit_reap(state, node);
        }
    }

    pub(super) fn commit_reap(&self, state: &mut State, node: usize) {
        let Some(reaping) = state.nodes[node].reaper.take() else { return };
        if reaping.stale && self.variant.compares_versions() && self.variant != Variant::ReapTwice {
            return;
        }
        let client = usize::from(reaping.client);
        let next = state.journal.reserved;
        self.take_number(state, next, 1);
        self.end(state, client, Status::Expired);
        self.outdate(state, self.size.wants(client));
    }
}
