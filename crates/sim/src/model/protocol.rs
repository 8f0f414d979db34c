//! The protocol as a machine: what can happen in a state, and what comes of it.

use stateright::{Model, Property};

use super::action::Action;
use super::node::bit;
use super::properties::Seen;
use super::size::{Size, TTL};
use super::state::{Claim, MAX_SEATS, Phase, Request, Stage, State, Status, Verb, has};
use super::variant::Variant;

#[derive(Clone, Debug)]
pub struct Protocol {
    pub size: Size,
    pub variant: Variant,
    /// States that differ only in what clients and seats are called count as one. Traces then change these names
    /// on their way, so this is for runs that end without one.
    pub symmetry: bool,
    pub seen: Seen,
}

impl Protocol {
    pub fn new(size: Size, variant: Variant) -> Self {
        Self { size, variant, symmetry: false, seen: Seen::default() }
    }

    pub fn with_symmetry(self) -> Self {
        Self { symmetry: self.variant == Variant::Correct, ..self }
    }

    fn nodes(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.size.nodes as u8
    }

    fn clients(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.size.clients as u8
    }

    fn seats(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.size.seats as u8
    }

    /// What clients may do next.
    fn of_clients(&self, state: &State, actions: &mut Vec<Action>) {
        for client in self.clients() {
            let found = &state.clients[usize::from(client)];
            if found.sends == 0 || found.requests.iter().all(Option::is_some) {
                continue;
            }
            let mut send = |verb| {
                for redis in self.ways(state, usize::from(client), verb).into_iter().flatten() {
                    actions.push(Action::Send { client, verb, redis, believes: false });
                    if verb == Verb::Hold && self.can_believe(state, usize::from(client), redis) {
                        actions.push(Action::Send { client, verb, redis, believes: true });
                    }
                }
            };
            match found.stage {
                Stage::Idle | Stage::Wants => send(Verb::Hold),
                Stage::Holds => {
                    if !found.asked_extension {
                        send(Verb::Extend);
                    }
                    // Too late or not, it tries.
                    send(Verb::Confirm);
                    if found.left > 0 {
                        send(Verb::Release);
                    }
                }
                Stage::Confirms => send(Verb::Confirm),
                Stage::Releases => send(Verb::Release),
                Stage::Bought | Stage::Released => {}
            }
        }
    }

    /// Requests of somebody who has got hold of another's token. A refusal changes nothing, so only what is not refused is
    /// a step; and nobody waits for the answer, so it is one step.
    fn of_strangers(&self, state: &State, actions: &mut Vec<Action>) {
        for (client, target) in
            self.clients().flat_map(|client| self.clients().map(move |target| (client, target)))
        {
            for verb in [Verb::Extend, Verb::Confirm, Verb::Release] {
                if client != target && self.strangers_request(state, client, verb, target).is_some() {
                    actions.push(Action::Meddle { client, verb, target });
                }
            }
        }
    }

    fn strangers_request(&self, state: &State, client: u8, verb: Verb, target: u8) -> Option<Request> {
        let row = &state.holds[usize::from(target)];
        let request = Request { nth: row.nth, ..Request::new(verb, target) };
        let heeded = row.status == Status::Active && self.would_write(state, usize::from(client), &request);
        (heeded && self.has_room(state, 1)).then_some(request)
    }

    fn meddle(&self, state: &mut State, client: u8, verb: Verb, target: u8) {
        let Some(request) = self.strangers_request(state, client, verb, target) else { return };
        let client = usize::from(client);
        // Carried out beside the client's own requests.
        let own = std::mem::take(&mut state.clients[client].requests);
        state.clients[client].requests[0] = Some(request);
        self.load(state, client, 0, 0);
        self.commit(state, client, 0);
        state.clients[client].requests = own;
    }

    /// Whether a request goes to the truth with Redis or without. One that Redis turns away goes nowhere: a refusal changes
    /// nothing, so it is not a step. Without Redis is only another way if Redis has something to say.
    fn ways(&self, state: &State, client: usize, verb: Verb) -> [Option<bool>; 2] {
        if verb != Verb::Hold {
            return [Some(false), None];
        }
        let wanted = self.size.wants(client);
        let is_claimed =
            (0..self.size.seats).any(|seat| has(wanted, seat) && state.claims[seat] != Claim::None);
        let asks = self.variant != Variant::NoClaims && !self.is_turned_away(state, client);
        [asks.then_some(true), (is_claimed || !asks).then_some(false)]
    }

    /// What the system does by itself, sooner or later.
    fn of_itself(&self, state: &State, actions: &mut Vec<Action>) {
        for (client, slot, request) in state.requests() {
            let (by, at) = (client as u8, slot as u8);
            match request.phase {
                Phase::Down => {
                    let nodes = self.nodes().take(self.variant.clocks());
                    let free = nodes.filter(|node| self.can_load(state, client, &request.through(*node)));
                    actions.extend(free.map(|node| Action::Load { client: by, slot: at, node }));
                }
                Phase::Loaded if self.can_commit(state, request) => {
                    actions.push(Action::Commit { client: by, slot: at });
                }
                Phase::Sent | Phase::Adrift if self.can_arrive(state, client, request) => {
                    actions.push(Action::Arrive { client: by, slot: at });
                }
                Phase::Sent | Phase::Adrift | Phase::Loaded => {}
                Phase::Committed => actions.push(Action::Answer { client: by, slot: at }),
            }
            if self.answers_first(state, client, slot).is_some() {
                actions.push(Action::AnswerFirst { client: by, slot: at });
            }
        }
        for node in self.nodes().take(self.variant.reapers()) {
            let due = |client: &u8| self.can_reap(state, usize::from(node), usize::from(*client));
            actions.extend(self.clients().filter(due).map(|client| Action::Reap { node, client }));
            if state.nodes[usize::from(node)].reaper.is_some() && self.has_room(state, 1) {
                actions.push(Action::CommitReap { node });
            }
        }
        let (entries, end) = (state.journal.entries(), state.journal.len);
        // Hearing of any but the next leads to the same: a look at the journal. Unless nobody looks.
        let leaps = self.variant == Variant::NoGapCheck;
        for entry in (0..end).filter(|entry| *entry == 0 || *entry == end - 1 || leaps) {
            if !entries[usize::from(entry)].lost {
                actions.push(Action::Announce { entry });
            }
        }
        if entries.first().is_some_and(|entry| entry.lost) {
            actions.push(Action::ReadJournal);
        }
        if !self.time_matters(state) {
            let orphans = self.seats().filter(|seat| self.is_orphan(state, usize::from(*seat)));
            actions.extend(orphans.map(|seat| Action::ClaimEnds { seat }));
        }
        if state.reconcile.is_some() {
            actions.push(Action::Repair);
        }
        if self.time_matters(state) {
            actions.push(Action::Tick);
        }
    }

    fn time_matters(&self, state: &State) -> bool {
        state.holds.iter().any(|hold| hold.left > 0)
            || state.clients.iter().any(|client| client.left > 0)
            || state.requests().any(|(_, _, request)| request.left > 0)
    }

    /// What may go wrong.
    fn of_fate(&self, state: &State, actions: &mut Vec<Action>) {
        if state.faults == 0 {
            return;
        }
        self.of_strangers(state, actions);
        for (client, slot, request) in state.requests() {
            match request.phase {
                Phase::Committed => {
                    actions.push(Action::LoseAnswer { client: client as u8, slot: slot as u8 })
                }
                Phase::Loaded | Phase::Sent => actions.push(Action::CutOff { requests: bit(client, slot) }),
                Phase::Down | Phase::Adrift => {}
            }
        }
        self.of_lines(state, actions);
        self.of_crashes(state, actions);
        let lost = self.seats().filter(|seat| state.claims[usize::from(*seat)] != Claim::None);
        actions.extend(lost.map(|seat| Action::LoseKey { seat }));
        if state.claims.iter().all(|claim| *claim != Claim::None) {
            actions.push(Action::Flush);
        }
        for (entry, found) in (0..).zip(state.journal.entries()) {
            if !found.lost {
                actions.push(Action::LoseNews { entry });
            }
        }
        if state.journal.len > 0 {
            actions.push(Action::Reload);
        }
        if state.reconcile.is_none() {
            let differs = |seat: &u8| self.difference(state, usize::from(*seat)).is_some();
            actions.extend(self.seats().filter(differs).map(|seat| Action::Compare { seat }));
        }
    }

    /// Two that were sent one behind the other are lost together. What is sent has no order otherwise: a line only fixes one
    /// of those in which two may arrive. So which of them share a connection matters only now, and is decided only now.
    fn of_lines(&self, state: &State, actions: &mut Vec<Action>) {
        let sent = || state.requests().filter(|(_, _, request)| request.phase == Phase::Sent);
        for (nth, (client, slot, _)) in sent().enumerate() {
            let first = bit(client, slot);
            let behind = sent().skip(nth + 1).map(|(client, slot, _)| bit(client, slot));
            actions.extend(behind.map(|second| Action::CutOff { requests: first | second }));
        }
    }

    /// Whether nothing goes on any more, unless a client or fate begins something.
    pub fn is_at_rest(&self, state: &State) -> bool {
        if state.requests().next().is_some() || state.journal.len > 0 || self.time_matters(state) {
            return false;
        }
        let mut actions = Vec::new();
        self.of_itself(state, &mut actions);
        actions.is_empty()
    }

    /// Whether nothing can happen any more.
    pub fn is_over(&self, state: &State) -> bool {
        if !self.is_at_rest(state) {
            return false;
        }
        let mut actions = Vec::new();
        self.actions(state, &mut actions);
        actions.is_empty()
    }

    fn send(&self, state: &mut State, client: u8, verb: Verb, redis: bool, believes: bool) {
        let claimed = if redis { self.claim(state, usize::from(client)) } else { 0 };
        let found = &mut state.clients[usize::from(client)];
        let nth = if verb == Verb::Hold { 0 } else { found.nth };
        let slot = found.requests.iter().position(Option::is_none).expect("a free slot");
        let request = Request { nth, claimed, ..Request::new(verb, client) };
        found.requests[slot] = Some(if believes { request.sent() } else { request });
        found.sends -= 1;
        match verb {
            Verb::Hold => found.stage = Stage::Wants,
            Verb::Extend => found.asked_extension = true,
            Verb::Confirm => found.stage = Stage::Confirms,
            Verb::Release => (found.stage, found.left) = (Stage::Releases, 0),
        }
    }

    fn tick(&self, state: &mut State) {
        let pass = |left: &mut u8| *left = left.saturating_sub(1);
        state.holds.iter_mut().for_each(|hold| pass(&mut hold.left));
        state.clients.iter_mut().for_each(|client| pass(&mut client.left));
        state.requests_mut().for_each(|request| pass(&mut request.left));
        self.outlast_beliefs(state);
        // A tick is minutes, a pending claim lives for seconds.
        for seat in 0..MAX_SEATS {
            if matches!(state.claims[seat], Claim::Pending(_)) {
                state.set_claim(seat, Claim::None);
            }
        }
    }

    /// What a broken node tells a client too early: the verb, which hold, and for how long.
    fn answers_first(&self, state: &State, client: usize, slot: usize) -> Option<(Verb, u8, u8)> {
        let request = state.request(client, slot)?;
        let told = match (self.variant, request.phase) {
            (Variant::ClaimGrants, Phase::Down) if request.claimed == self.size.wants(client) => {
                (Verb::Hold, state.holds[client].nth + 1, TTL)
            }
            (Variant::ReplyFirst, Phase::Loaded) if usize::from(request.target) == client => {
                (request.verb, request.nth, request.left)
            }
            _ => return None,
        };
        let mut after = state.clients[client];
        self.be_told(&mut after, told.0, told.1, told.2);
        (after != state.clients[client]).then_some(told)
    }

    fn step(&self, state: &mut State, action: Action) {
        let at = |client: u8, slot: u8| (usize::from(client), usize::from(slot));
        match action {
            Action::Send { client, verb, redis, believes } => self.send(state, client, verb, redis, believes),
            Action::Load { client, slot, node } => {
                self.load(state, usize::from(client), usize::from(slot), node)
            }
            Action::Arrive { client, slot } => self.arrive(state, usize::from(client), usize::from(slot)),
            Action::Commit { client, slot } => self.commit(state, usize::from(client), usize::from(slot)),
            Action::Answer { client, slot } => self.answer(state, usize::from(client), usize::from(slot)),
            Action::Tick => self.tick(state),
            Action::Reap { node, client } => self.reap(state, usize::from(node), usize::from(client)),
            Action::CommitReap { node } => self.commit_reap(state, usize::from(node)),
            Action::Announce { entry } => self.announce(state, usize::from(entry)),
            Action::ReadJournal => self.read_journal(state, usize::from(state.journal.len)),
            Action::ClaimEnds { seat } => state.set_claim(usize::from(seat), Claim::None),
            Action::Repair => self.repair(state),
            Action::AnswerFirst { client, slot } => {
                let (client, slot) = at(client, slot);
                if let Some((verb, nth, left)) = self.answers_first(state, client, slot) {
                    self.be_told(&mut state.clients[client], verb, nth, left);
                }
            }
            fault => {
                state.faults -= 1;
                self.fault(state, fault);
            }
        }
    }

    fn fault(&self, state: &mut State, fault: Action) {
        match fault {
            Action::LoseAnswer { client, slot } => {
                self.give_up(state, usize::from(client), usize::from(slot))
            }
            Action::CutOff { requests } => self.cut_off(state, requests),
            Action::Crash { requests, news, adrift } => self.crash(state, requests, news, adrift),
            Action::Meddle { client, verb, target } => self.meddle(state, client, verb, target),
            Action::Reload => self.reload(state),
            Action::LoseKey { seat } => state.set_claim(usize::from(seat), Claim::None),
            Action::Flush => (0..MAX_SEATS).for_each(|seat| state.set_claim(seat, Claim::None)),
            Action::LoseNews { entry } => {
                state.journal.entries[usize::from(entry)].lost = true;
            }
            Action::Compare { seat } => state.reconcile = self.difference(state, usize::from(seat)),
            other => unreachable!("{other:?} is no fault"),
        }
    }

    /// Drops what can't matter any more: answers that nobody waits for, and what a client that is done could still do.
    fn without_the_irrelevant(&self, mut state: State) -> State {
        for client in &mut state.clients {
            let found = *client;
            for slot in &mut client.requests {
                if let Some(request) = slot.filter(|request| request.phase == Phase::Committed) {
                    let mut after = found;
                    self.be_told(&mut after, request.verb, request.nth, request.left);
                    if after == found {
                        *slot = None;
                    }
                }
            }
            if matches!(client.stage, Stage::Bought | Stage::Released) {
                client.sends = 0;
            }
            client.asked_extension &= client.stage == Stage::Holds;
        }
        state
    }

    /// The state that stands for all that are like this one.
    fn representative(&self, state: State) -> State {
        let state = self.without_the_irrelevant(state).with_sorted_requests();
        if !self.symmetry {
            return state;
        }
        let mut first = (state.packed(), state);
        let mut consider = |other: State| {
            let other = other.with_sorted_requests();
            let packed = other.packed();
            if packed < first.0 {
                first = (packed, other);
            }
        };
        if self.size.clients == 3 && self.size.sends[1] == self.size.sends[2] {
            consider(state.with_sides_swapped(self.size.seats == 2));
        }
        first.1
    }

    /// Something that gets less with every step, so that no run goes on for ever and every run can be followed to its
    /// end. Whatever a step brings about weighs less than what it uses up.
    pub fn remaining(&self, state: &State) -> u32 {
        let requests = state.requests().map(|(_, _, request)| {
            let ahead = match request.phase {
                Phase::Sent | Phase::Adrift => 140,
                Phase::Down => 130,
                Phase::Loaded => 110,
                Phase::Committed => 70,
            };
            ahead + u32::from(request.left)
        });
        let sends = state.clients.iter().map(|client| 200 * u32::from(client.sends) + u32::from(client.left));
        let holds = state.holds.iter().map(|hold| {
            let active = if hold.status == Status::Active { 20 } else { 0 };
            active + 3 * u32::from(hold.left)
        });
        let unheard = 2 * u32::from(state.journal.len);
        let reapers = state.nodes.iter().filter(|node| node.reaper.is_none()).count() as u32;
        let pending = state.claims.iter().filter(|claim| matches!(claim, Claim::Pending(_))).count() as u32;
        requests.sum::<u32>()
            + sends.sum::<u32>()
            + holds.sum::<u32>()
            + reapers
            + unheard
            + pending
            + if state.reconcile.is_some() { 5 } else { 0 }
            + 200 * u32::from(state.faults)
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State { faults: self.size.faults, ..State::default() };
        for client in 0..self.size.clients {
            state.clients[client].sends = self.size.sends[client];
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.of_itself(state, actions);
        self.of_clients(state, actions);
        self.of_fate(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        self.step(&mut next, action);
        debug_assert!(
            self.variant != Variant::Correct || self.remaining(&next) < self.remaining(state),
            "{action:?} uses nothing up: {state:?}"
        );
        Some(self.representative(next))
    }

    fn format_action(&self, action: &Action) -> String {
        action.to_string()
    }

    fn properties(&self) -> Vec<Property<Self>> {
        super::properties::all(self)
    }
}

impl Protocol {
    /// The seats that a client was told are its own, right now.
    pub fn believes(&self, state: &State, client: usize) -> u8 {
        let found = &state.clients[client];
        let holds = matches!(found.stage, Stage::Holds | Stage::Confirms) && found.left > 0;
        if holds || found.stage == Stage::Bought { self.size.wants(client) } else { 0 }
    }

    pub fn owns(&self, state: &State, client: usize, seat: usize) -> bool {
        let row = &state.holds[client];
        has(self.size.wants(client), seat) && (row.is_live() || row.status == Status::Sold)
    }
}
