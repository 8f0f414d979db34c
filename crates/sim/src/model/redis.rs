//! Redis: claims that save work, and that may be lost, late or wrong at any time.

use super::protocol::Protocol;
use super::state::{Claim, Difference, Entry, Fact, Seat, State, has};
use super::variant::Variant;

impl Protocol {
    fn seats_wanted(&self, client: usize) -> impl Iterator<Item = usize> + use<> {
        let wanted = self.size.wants(client);
        (0..self.size.seats).filter(move |seat| has(wanted, *seat))
    }

    /// The live hold that the truth has at a seat.
    fn held(&self, state: &State, seat: usize) -> Option<(u8, u8)> {
        let Seat::Held(client) = state.seats[seat] else { return None };
        let row = &state.holds[usize::from(client)];
        row.is_live().then_some((client, row.nth))
    }

    /// Whether the truth does not know of the claim. Once that is so it stays so: a hold is promoted after its commit,
    /// and what has ended does not come back. So asking and removing may be one step here.
    pub(super) fn is_stale(&self, state: &State, seat: usize) -> bool {
        match (self.variant, state.claims[seat]) {
            (Variant::NoHealing, _) => false,
            (Variant::BlindHealing, _) => true,
            (_, Claim::Promoted(client, nth)) => self.held(state, seat) != Some((client, nth)),
            _ => false,
        }
    }

    /// Seats that the client wants and that somebody else has a claim on.
    fn taken(&self, state: &State, client: usize) -> impl Iterator<Item = usize> + use<> {
        let theirs = move |claim: Claim| match claim {
            Claim::None => false,
            Claim::Pending(owner) | Claim::Promoted(owner, _) => usize::from(owner) != client,
        };
        let claims = state.claims;
        self.seats_wanted(client).filter(move |seat| theirs(claims[*seat]))
    }

    /// Whether Redis turns the client away. Who has a key is never refused here, and a claim of which the truth does not
    /// know refuses nobody.
    pub(super) fn is_turned_away(&self, state: &State, client: usize) -> bool {
        let for_all = self.variant == Variant::ClaimsForAll || self.size.has_key(client);
        !for_all && self.taken(state, client).any(|seat| !self.is_stale(state, seat))
    }

    /// Claims all the seats or none, and heals what is stale. Returns those that were claimed.
    pub(super) fn claim(&self, state: &mut State, client: usize) -> u8 {
        let heals = self.variant == Variant::ClaimsForAll || !self.size.has_key(client);
        if heals {
            self.taken(state, client).for_each(|seat| state.set_claim(seat, Claim::None));
        } else if self.taken(state, client).next().is_some() {
            return 0;
        }
        let mut claimed = 0;
        for seat in self.seats_wanted(client) {
            if state.claims[seat] == Claim::None {
                state.claims[seat] = Claim::Pending(client as u8);
                claimed |= 1 << seat;
            }
        }
        claimed
    }

    /// Redis takes in a fact.
    pub(super) fn tell_redis(&self, state: &mut State, entry: Entry) {
        if self.variant == Variant::NoClaims {
            return;
        }
        let promoted = Claim::Promoted(entry.client, entry.nth);
        for seat in self.seats_wanted(usize::from(entry.client)) {
            match entry.fact {
                Fact::Created | Fact::Extended => state.set_claim(seat, promoted),
                Fact::Ended | Fact::Sold if state.claims[seat] == promoted => {
                    state.set_claim(seat, Claim::None)
                }
                Fact::Ended | Fact::Sold => {}
            }
        }
    }

    /// Whether a pending claim has lost whoever made it. It ends by itself.
    pub(super) fn is_orphan(&self, state: &State, seat: usize) -> bool {
        matches!(state.claims[seat], Claim::Pending(_))
            && state.requests().all(|(_, _, request)| !has(request.claimed, seat))
    }

    /// What a reconciliation sees at a seat, if the tiers differ there. Pending claims do not count.
    pub(super) fn difference(&self, state: &State, seat: usize) -> Option<Difference> {
        if matches!(self.variant, Variant::NoClaims | Variant::NoReconciling) {
            return None;
        }
        let held = self.held(state, seat);
        let claim = match state.claims[seat] {
            Claim::Pending(_) => Claim::None,
            claim => claim,
        };
        let claimed = match claim {
            Claim::Promoted(client, nth) => Some((client, nth)),
            _ => None,
        };
        (claimed != held).then_some(Difference { seat: seat as u8, claim, held })
    }

    /// Removes the claim only as it was seen, and writes the one that the truth had then, which may be over by now.
    pub(super) fn repair(&self, state: &mut State) {
        let Some(found) = state.reconcile.take() else { return };
        let seat = usize::from(found.seat);
        let as_seen = found.claim != Claim::None && state.claims[seat] == found.claim;
        if as_seen || self.variant == Variant::BlindHealing {
            state.set_claim(seat, Claim::None);
        }
        if let (Some((client, nth)), Claim::None | Claim::Pending(_)) = (found.held, state.claims[seat]) {
            state.set_claim(seat, Claim::Promoted(client, nth));
        }
    }
}
