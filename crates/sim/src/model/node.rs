//! A node: what it tells its clients and learns of the others, and what a crash takes from it.

use super::action::Action;
use super::protocol::Protocol;
use super::state::{
    Claim, Client, Entry, Fact, Phase, Request, SLOTS, Seat, Stage, State, Status, Verb, has,
};
use super::variant::Variant;

/// A request in a set of them.
pub fn bit(client: usize, slot: usize) -> u8 {
    1 << (client * SLOTS + slot)
}

impl Protocol {
    /// The request comes to nothing, and its claims are given back, those that are still its own.
    pub(super) fn give_up(&self, state: &mut State, client: usize, slot: usize) {
        let Some(request) = state.clients[client].requests[slot].take() else { return };
        for seat in (0..self.size.seats).filter(|seat| has(request.claimed, *seat)) {
            state.set_claim(seat, Claim::None);
        }
    }

    /// The client takes in an answer, if it still waits for it. The claim is left for the announcement to confirm.
    pub(super) fn answer(&self, state: &mut State, client: usize, slot: usize) {
        let Some(request) = state.clients[client].requests[slot].take() else { return };
        if usize::from(request.target) == client {
            self.be_told(&mut state.clients[client], request.verb, request.nth, request.left);
        }
    }

    pub(super) fn be_told(&self, client: &mut Client, verb: Verb, nth: u8, left: u8) {
        match (verb, client.stage) {
            (Verb::Hold, Stage::Wants) => (client.stage, client.nth, client.left) = (Stage::Holds, nth, left),
            (Verb::Extend, Stage::Holds | Stage::Confirms) if client.nth == nth => {
                client.left = client.left.max(left);
            }
            (Verb::Confirm, Stage::Confirms) => (client.stage, client.left) = (Stage::Bought, 0),
            (Verb::Release, Stage::Releases) => (client.stage, client.left) = (Stage::Released, 0),
            _ => {}
        }
    }

    /// A fact is announced: Redis takes it in, and so does whoever follows. If facts are missing before it, the follower
    /// reads them in the journal and passes on to Redis what it has read.
    pub(super) fn announce(&self, state: &mut State, index: usize) {
        if self.variant == Variant::NoGapCheck {
            let entry = state.journal.entries[index];
            self.take_in(state, entry);
            return state.journal.forget(index + 1);
        }
        let heard = if index == 0 { 1 } else { usize::from(state.journal.len) };
        self.read_journal(state, heard);
    }

    /// Reads what is missing in the journal, at the latest when nothing was heard for a while.
    pub(super) fn read_journal(&self, state: &mut State, count: usize) {
        for index in 0..count {
            let entry = state.journal.entries[index];
            self.take_in(state, entry);
        }
        state.journal.forget(count);
    }

    fn take_in(&self, state: &mut State, entry: Entry) {
        self.apply(&mut state.follower, entry);
        self.tell_redis(state, entry);
    }

    /// What a fact does to what is known of the seats.
    pub(super) fn apply(&self, seats: &mut [Seat], entry: Entry) {
        let seat = match entry.fact {
            Fact::Created => Seat::Held(entry.client),
            Fact::Ended => Seat::Free,
            Fact::Sold => Seat::Sold(entry.client),
            Fact::Extended => return,
        };
        let wanted = self.size.wants(usize::from(entry.client));
        (0..self.size.seats).filter(|place| has(wanted, *place)).for_each(|place| seats[place] = seat);
    }

    /// Crashes. Through which node a request went matters only now, so it is decided only now: any of those under way may
    /// have been with the node that crashes, and with several nodes the others were not.
    pub(super) fn of_crashes(&self, state: &State, actions: &mut Vec<Action>) {
        let here = || state.requests().filter(|(_, _, request)| request.phase != Phase::Adrift);
        let all = here().fold(0, |all, (client, slot, _)| all | bit(client, slot));
        let sent = here().filter(|(_, _, request)| request.phase == Phase::Sent);
        let sent = sent.fold(0, |all, (client, slot, _)| all | bit(client, slot));
        let unheard = state.journal.entries().iter().any(|entry| !entry.lost);
        let forgets =
            self.variant == Variant::ForgetfulReaper && state.nodes[0].forgotten != self.active(state);
        let mut crash = |requests: u8, news| {
            actions.push(Action::Crash { requests, news, adrift: false });
            if requests & sent != 0 {
                actions.push(Action::Crash { requests, news, adrift: true });
            }
        };
        if self.size.nodes == 1 {
            if all != 0 || unheard || forgets {
                crash(all, true);
            }
            return;
        }
        for requests in (0..=all).filter(|some| some & !all == 0) {
            if requests != 0 {
                crash(requests, false);
            }
            if unheard {
                crash(requests, true);
            }
        }
    }

    fn active(&self, state: &State) -> u8 {
        let active = |client: &usize| state.holds[*client].status == Status::Active;
        (0..self.size.clients).filter(active).fold(0, |all, client| all | 1 << client)
    }

    /// The node loses all that it had in memory. Transactions that it had open are rolled back, answers that were on
    /// their way through it are lost, and what it had to announce is not announced. Pending claims stay until they end. What
    /// it has sent on belief may arrive all the same, later, when somebody else has done something else.
    pub(super) fn crash(&self, state: &mut State, requests: u8, news: bool, adrift: bool) {
        for (at, client) in state.clients.iter_mut().enumerate() {
            for (slot, request) in client.requests.iter_mut().enumerate() {
                if requests & bit(at, slot) != 0 {
                    let sent = request.filter(|request| adrift && request.phase == Phase::Sent);
                    *request = sent.map(|sent| Request { phase: Phase::Adrift, claimed: 0, ..sent });
                }
            }
        }
        let len = usize::from(state.journal.len);
        state.journal.entries[..len].iter_mut().for_each(|entry| entry.lost |= news);
        if self.variant == Variant::ForgetfulReaper {
            state.nodes[0].forgotten = self.active(state);
        }
    }

    /// Whoever follows starts again and loads everything from the truth. Nobody passes on to Redis what was not announced.
    pub(super) fn reload(&self, state: &mut State) {
        state.follower = state.seats;
        state.journal.forget(usize::from(state.journal.len));
    }
}
