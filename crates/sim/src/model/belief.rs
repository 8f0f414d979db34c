//! Holds on belief: a node that takes seats to be free sends a hold whole, without reading first.
//!
//! Nothing is granted by belief. What was believed is compared in the step that writes; where it is not so nothing is
//! written, and the hold begins again by reading.

use super::node::bit;
use super::protocol::Protocol;
use super::size::TTL;
use super::state::{Phase, Request, Seat, State, Status, has};
use super::variant::Variant;

impl Protocol {
    fn are_free(&self, seats: &[Seat], client: usize) -> bool {
        let wanted = self.size.wants(client);
        (0..self.size.seats).filter(|seat| has(wanted, *seat)).all(|seat| seats[seat] == Seat::Free)
    }

    /// Whether some node believes that the client's seats are free. A node knows the seats as they were at some moment: now,
    /// or at any since the last of which everybody has heard.
    fn are_believed_free(&self, state: &State, client: usize) -> bool {
        let mut known = state.follower;
        let mut unheard = state.journal.entries().iter();
        loop {
            if self.are_free(&known, client) {
                return true;
            }
            match unheard.next() {
                Some(entry) => self.apply(&mut known, *entry),
                None => return false,
            }
        }
    }

    /// Whether a hold may be sent on belief. It is decided when the request comes: one that waits for its batch first could
    /// have come later.
    pub(super) fn can_believe(&self, state: &State, client: usize, redis: bool) -> bool {
        let dares = redis || matches!(self.variant, Variant::NoClaims | Variant::BeliefWithoutRedis);
        dares && self.are_believed_free(state, client)
    }

    /// Whether what was believed is so: the seats are free, the cart has no hold, the key was not used.
    pub(super) fn is_so(&self, state: &State, client: usize, request: &Request) -> bool {
        let seats = !self.variant.compares_beliefs() || self.are_free(&state.seats, client);
        let cart = state.holds[client].status != Status::Active;
        let key = self.variant == Variant::UsedKeyBelieved || !self.has_record(state, client, request);
        seats && cart && key
    }

    /// Whether it can be carried out or undone now: it waits for rows that somebody has locked.
    pub(super) fn can_arrive(&self, state: &State, client: usize, request: &Request) -> bool {
        let has_room = self.has_room(state, 1) || !self.is_so(state, client, request);
        has_room && self.rows_of(request) & self.locked(state) == 0
    }

    pub(super) fn arrive(&self, state: &mut State, client: usize, slot: usize) {
        let request = *state.request(client, slot).expect("a request that was sent");
        let is_awaited = request.phase == Phase::Sent;
        if !self.is_so(state, client, &request) {
            state.clients[client].requests[slot] = is_awaited.then_some(request.again());
            if self.variant == Variant::SecondRidesAlong && is_awaited {
                self.count_as_done(state, |_, other| other.phase == Phase::Sent);
            }
            return;
        }
        let nth = (state.holds[client].nth + 1).min(3);
        let done = Request { phase: Phase::Committed, nth, ..request };
        let next = state.journal.reserved;
        self.take_number(state, next, 1);
        self.create(state, client, &done);
        if !is_awaited {
            // Its node is gone and announces nothing.
            state.journal.entries[usize::from(state.journal.len) - 1].lost = true;
        }
        state.clients[client].requests[slot] = is_awaited.then_some(done);
        self.outdate(state, self.rows_of(&done));
    }

    /// The connection is gone. Whoever has locked is rolled back. For each that was sent the node has the backend ended, so
    /// that it does not arrive any more, and asks what became of it: it was not carried out, so it begins again. Had
    /// it been, the answer would be under way, as if nothing were lost.
    pub(super) fn cut_off(&self, state: &mut State, requests: u8) {
        let cut: Vec<(usize, usize)> = state
            .requests()
            .map(|(client, slot, _)| (client, slot))
            .filter(|(client, slot)| requests & bit(*client, *slot) != 0)
            .collect();
        let other_is_done = state.requests().any(|(_, _, request)| request.phase == Phase::Committed);
        for (client, slot) in cut {
            match state.clients[client].requests[slot] {
                Some(request) if request.phase == Phase::Sent => {
                    state.clients[client].requests[slot] = Some(request.again());
                }
                _ => self.give_up(state, client, slot),
            }
        }
        let untold = match self.variant {
            Variant::LostIsDone => true,
            Variant::AskedForOne => other_is_done,
            _ => false,
        };
        if untold {
            self.count_as_done(state, |at, other| requests & at != 0 && other.phase == Phase::Down);
        }
    }

    /// What only a broken node does: it takes for committed what was not carried out.
    fn count_as_done(&self, state: &mut State, which: impl Fn(u8, &Request) -> bool) {
        for client in 0..self.size.clients {
            let nth = (state.holds[client].nth + 1).min(3);
            for (slot, request) in state.clients[client].requests.iter_mut().enumerate() {
                if let Some(request) = request.as_mut().filter(|request| which(bit(client, slot), request)) {
                    *request = Request { phase: Phase::Committed, nth, left: TTL, ..*request };
                }
            }
        }
    }

    /// A tick is minutes, and what was believed of the time must be so within a moment: whatever is still on its way will be
    /// undone when it arrives. That changes nothing for anybody but itself, so it may as well be undone at once.
    pub(super) fn outlast_beliefs(&self, state: &mut State) {
        for slot in state.clients.iter_mut().flat_map(|client| &mut client.requests) {
            *slot = slot.and_then(|request| match request.phase {
                Phase::Sent => Some(request.again()),
                Phase::Adrift => None,
                _ => Some(request),
            });
        }
    }
}

impl Request {
    /// All of it, on the belief that its seats are free.
    pub(super) fn sent(self) -> Self {
        Self { phase: Phase::Sent, left: TTL, ..self }
    }

    /// Nothing of it was written: it begins again, and reads first.
    fn again(self) -> Self {
        Self { phase: Phase::Down, left: 0, ..self }
    }
}
