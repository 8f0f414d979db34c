//! Claims on servers that know nothing of each other: whoever has a majority of them has the claim.
//!
//! The servers are asked in the same order by everybody, the first one alone. So of many who want one seat at once all
//! but one are refused by the same server, and that one gets the others as well: votes are not split. If they are all
//! the same, because not everybody sees the same servers up, nobody has a majority or one has, and the others try again.

use std::sync::Arc;
use std::time::Duration;

use rowlock_core::SeatId;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::claim::{Claim, Claimed, Owner, Receipt, Vote, vote};
use super::{Unavailable, Warm};
use crate::breaker::BreakerState;
use crate::breaker::Kind;

/// Attempts to get a majority.
const ATTEMPTS: u32 = 3;
/// How long to wait between them, in milliseconds: a random time, so that rivals don't meet again.
const JITTER: std::ops::RangeInclusive<u64> = 5..=25;
/// How much faster than ours a server's clock may run: one in this many.
const DRIFT: u32 = 100;
const DRIFT_AT_LEAST: Duration = Duration::from_millis(2);

enum Attempt {
    Won(Claimed),
    /// Somebody was there first, everywhere we asked.
    Refused(Vec<(SeatId, Owner)>),
    /// Some servers for us, some for others.
    Split(Vec<(SeatId, Owner)>),
    TooFew,
}

impl Warm {
    pub(super) async fn claim_by_majority(&self, claim: &Claim<'_>) -> Claimed {
        let mut last = Claimed::Unavailable { left: None };
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                let millis = self.chance().between(JITTER);
                sleep(Duration::from_millis(millis)).await;
            }
            match self.attempt(claim).await {
                Attempt::Won(claimed) => return claimed,
                Attempt::Refused(taken) => return Claimed::Taken(taken),
                Attempt::Split(taken) if taken.is_empty() => last = Claimed::Unavailable { left: None },
                Attempt::Split(taken) => last = Claimed::Taken(taken),
                Attempt::TooFew => return Claimed::Unavailable { left: None },
            }
        }
        last
    }

    /// One attempt, with a token of its own: what is left of an earlier one can't be mistaken for it.
    async fn attempt(&self, claim: &Claim<'_>) -> Attempt {
        let (began, token) = (Instant::now(), self.chance().uuid());
        let command = self.claim_command(claim, token);
        let mut rest = self.inner.servers.iter().filter(|server| server.state() == BreakerState::Closed);
        let up = rest.clone().count();
        if up < self.quorum() {
            return Attempt::TooFew;
        }
        let mut tally = Tally::new(claim.seats.len());
        // The first one that answers.
        while tally.answers == 0 {
            let Some(first) = rest.next() else { return Attempt::TooFew };
            match vote(first, &command, claim).await {
                Ok(Vote::Taken(taken)) => return Attempt::Refused(taken),
                answer => tally.add(answer),
            }
        }
        let mut asked = JoinSet::new();
        for server in rest {
            let (server, command) = (Arc::clone(server), command.clone());
            let (org, event, seats) = (claim.org, claim.event, claim.seats.to_vec());
            let (user, cart) = (claim.user.clone(), claim.cart.clone());
            asked.spawn(async move {
                let claim = Claim { org, event, user: &user, cart: &cart, seats: &seats };
                vote(&server, &command, &claim).await
            });
        }
        while tally.granted < self.quorum()
            && let Some(answer) = asked.join_next().await
        {
            tally.add(answer.unwrap_or(Err(Unavailable)));
        }
        asked.detach_all();
        let pending = self.inner.options.pending;
        let validity = pending.saturating_sub(pending / DRIFT + DRIFT_AT_LEAST);
        let seats = tally.given.iter().zip(claim.seats).filter(|(given, _)| **given).map(|(_, seat)| *seat);
        let receipt = self.receipt(claim, token, seats.collect(), began + validity);
        if tally.granted >= self.quorum() && Instant::now() < receipt.valid_until {
            return Attempt::Won(Claimed::Claimed(receipt));
        }
        // Also those whose answer never came may have said yes. Waited for, so that the next attempt does not find
        // what this one leaves.
        let _ = self.release_by_token(&receipt, claim).await;
        if tally.answers < self.quorum() { Attempt::TooFew } else { Attempt::Split(tally.taken) }
    }

    async fn release_by_token(&self, receipt: &Receipt, claim: &Claim<'_>) -> Result<(), Unavailable> {
        let everything = Receipt { seats: claim.seats.to_vec(), ..receipt.clone() };
        self.everywhere(Kind::Request, vec![self.release_command(&everything)]).await.map(drop)
    }
}

struct Tally {
    answers: usize,
    granted: usize,
    /// By place in the list: whether any server gave the seat, rather than the user having it already.
    given: Vec<bool>,
    taken: Vec<(SeatId, Owner)>,
}

impl Tally {
    fn new(seats: usize) -> Self {
        Self { answers: 0, granted: 0, given: vec![false; seats], taken: Vec::new() }
    }

    fn add(&mut self, answer: Result<Vote, Unavailable>) {
        match answer {
            Ok(Vote::Granted(given)) => {
                self.answers += 1;
                self.granted += 1;
                given.into_iter().for_each(|i| self.given[i] = true);
            }
            Ok(Vote::Taken(taken)) => {
                self.answers += 1;
                if self.taken.is_empty() {
                    self.taken = taken;
                }
            }
            Err(Unavailable) => {}
        }
    }
}
