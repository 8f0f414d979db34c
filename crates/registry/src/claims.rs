//! Claims in the warm tier: made before a command goes down, given back when it comes to nothing.
//!
//! A claim only saves work. It turns away those who would lose anyway, before they wait for a lock in the truth; it
//! never grants. So whatever goes wrong here, the command goes down without one.
//!
//! Claims are made together, at the door of a lane: one message for all who came while the last one was on its way. Who
//! meets somebody else's claim there steps aside and finds out by itself whose it is.

use std::sync::Arc;

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};
use rowlock_core::command::Places;
use rowlock_core::seat::SeatState;
use rowlock_core::{Command, EventId, HoldId, Refusal, Request, SeatId};
use rowlock_truth::Truth;
use tokio::sync::mpsc;

use crate::asking::Asking;
use crate::warm::{Claim, Claimed, Owner, Receipt, Warm};

/// Claims that may wait to be given back. What is over ends by itself.
const MAX_RETURNS: usize = 8192;
/// Claims given back with one message.
const MAX_RETURNED_AT_ONCE: usize = 256;

pub(crate) struct Claims {
    pub warm: Warm,
    truth: Arc<dyn Truth>,
    /// What the truth says of seats. `None`: it can't be asked.
    checks: Asking<Asked, Option<Option<SeatState>>>,
    returns: mpsc::Sender<Receipt>,
    metrics: Metrics,
}

struct Metrics {
    claimed: Counter,
    taken: Counter,
    stale: Counter,
    unavailable: Counter,
    degraded: Gauge,
}

impl Metrics {
    fn new() -> Self {
        describe_counter!(
            "rowlock_warm_claims_total",
            "Claims on seats in the warm tier, by what came of them."
        );
        describe_gauge!("rowlock_degraded", "1 while the warm tier is away and the truth decides alone.");
        let of = |result: &'static str| counter!("rowlock_warm_claims_total", "result" => result);
        let (claimed, taken, stale, unavailable) =
            (of("claimed"), of("taken"), of("stale"), of("unavailable"));
        Self { claimed, taken, stale, unavailable, degraded: gauge!("rowlock_degraded") }
    }
}

/// A pending claim. Unless the command went through, it is given back when this is dropped, also when whoever asked
/// has gone away.
pub(crate) struct Pending {
    returns: mpsc::Sender<Receipt>,
    receipt: Option<Receipt>,
}

impl Pending {
    /// The commit confirms the claim.
    pub fn keep(mut self) {
        self.receipt = None;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            let _ = self.returns.try_send(receipt);
        }
    }
}

/// What came of a claim that was made together with others.
pub(crate) enum Together {
    /// The command goes down, with its claim, or without one when Redis can't be asked.
    GoesOn(Option<Pending>),
    /// Others have some of the seats.
    Contested,
}

impl Claims {
    /// The task that gives claims back ends with this.
    pub fn start(warm: Warm, truth: Arc<dyn Truth>) -> Self {
        let (returns, returned) = mpsc::channel(MAX_RETURNS);
        tokio::spawn(give_back(warm.clone(), returned));
        let claims = Self { warm, truth, checks: Asking::default(), returns, metrics: Metrics::new() };
        claims.observe();
        claims
    }

    /// Tells truth and metrics how the warm tier is now. Whoever claims does so too, but on a quiet node nobody claims.
    pub fn observe(&self) {
        let degraded = !self.warm.is_up();
        self.truth.set_degraded(degraded);
        self.metrics.degraded.set(f64::from(u8::from(degraded)));
    }

    /// Whether a command's claim can be made together with those of others.
    pub fn can_be_made_together(&self, command: &Command) -> bool {
        self.warm.is_one_server() && places_of(command).is_some()
    }

    /// Claims the seats of commands whose claims can be made together, each by itself, with one message.
    pub async fn claim_together<'r>(&self, requests: &[&'r Request]) -> Vec<Together> {
        let claim = |request: &&'r Request| {
            claim_of(request, places_of(&request.command).expect("who comes to the door wants seats"))
        };
        let claims: Vec<Claim<'r>> = requests.iter().map(claim).collect();
        let claimed = self.warm.claim_together(&claims).await;
        self.observe();
        let one = |claimed| {
            if matches!(claimed, Claimed::Taken(_)) {
                return Together::Contested;
            }
            self.count(&claimed);
            Together::GoesOn(self.pending(claimed))
        };
        claimed.into_iter().map(one).collect()
    }

    /// Claims the seats that a command wants. `Ok(None)`: it goes down without a claim.
    pub async fn claim(&self, request: &Request) -> Result<Option<Pending>, Refusal> {
        self.observe();
        let Some(places) = places_of(&request.command) else { return Ok(None) };
        match self.try_claim(request, places).await {
            Claimed::Taken(owners) => {
                // The recorded answer to an earlier request with the same key is only known further down.
                if request.idempotency.is_some() {
                    return Ok(None);
                }
                let stale = self.stale(places.event, &owners).await;
                if stale.len() < owners.len() {
                    self.metrics.taken.increment(1);
                    let is_stale = |seat: &SeatId| stale.iter().any(|(found, _)| found == seat);
                    let seats =
                        owners.into_iter().map(|(seat, _)| seat).filter(|seat| !is_stale(seat)).collect();
                    return Err(Refusal::SeatsTaken { seats });
                }
                self.metrics.stale.increment(stale.len() as u64);
                tracing::info!(event = %places.event, claims = stale.len(), "removing claims that the truth does not know");
                let _ = self.warm.heal(request.org, places.event, &stale).await;
                Ok(self.pending(self.try_claim(request, places).await))
            }
            claimed => Ok(self.pending(claimed)),
        }
    }

    async fn try_claim(&self, request: &Request, places: &Places) -> Claimed {
        let claimed = self.warm.claim(&claim_of(request, places)).await;
        self.count(&claimed);
        self.observe();
        claimed
    }

    fn count(&self, claimed: &Claimed) {
        match claimed {
            Claimed::Claimed(_) => self.metrics.claimed.increment(1),
            Claimed::Unavailable { .. } => self.metrics.unavailable.increment(1),
            Claimed::Taken(_) => {}
        }
    }

    fn pending(&self, claimed: Claimed) -> Option<Pending> {
        match claimed {
            Claimed::Claimed(receipt) | Claimed::Unavailable { left: Some(receipt) } => {
                Some(Pending { returns: self.returns.clone(), receipt: Some(receipt) })
            }
            // Somebody came between: then the truth says who was first.
            Claimed::Taken(_) | Claimed::Unavailable { left: None } => None,
        }
    }

    /// Those of the owners of whom the truth does not know. A pending claim is a request on its way: it has its few
    /// seconds.
    async fn stale(&self, event: EventId, owners: &[(SeatId, Owner)]) -> Vec<(SeatId, Owner)> {
        let mut stale = Vec::new();
        for (seat, owner) in owners.iter().filter(|(_, owner)| !owner.pending) {
            let Some(state) = self.check(event, (*seat, owner.hold)).await else { continue };
            let now = self.truth.now();
            let holds = matches!(state, Some(SeatState::Held { hold, until })
                if owner.hold == Some(hold) && until > now);
            if !holds {
                stale.push((*seat, owner.clone()));
            }
        }
        stale
    }

    /// What the truth has of a seat. `None`: it can't be asked.
    async fn check(&self, event: EventId, asked: Asked) -> Option<Option<SeatState>> {
        let ask = async {
            let states = self.truth.seat_states(event, vec![asked.0]).await;
            states.ok().and_then(|states| states.first().copied())
        };
        self.checks.ask(asked, ask).await
    }
}

/// A seat, and the hold whose claim is in doubt. An answer from before that hold says nothing about it.
type Asked = (SeatId, Option<HoldId>);

/// What a command wants to hold, if there are seats in it.
fn places_of(command: &Command) -> Option<&Places> {
    match command {
        Command::Hold(places) | Command::Book { places, .. } if !places.seats.is_empty() => Some(places),
        _ => None,
    }
}

fn claim_of<'a>(request: &Request, places: &'a Places) -> Claim<'a> {
    let (user, cart) = (&places.user, &places.cart);
    Claim { org: request.org, event: places.event, user, cart, seats: &places.seats }
}

async fn give_back(warm: Warm, mut returned: mpsc::Receiver<Receipt>) {
    let mut receipts = Vec::new();
    while returned.recv_many(&mut receipts, MAX_RETURNED_AT_ONCE).await > 0 {
        let _ = warm.release_all(&receipts).await;
        receipts.clear();
    }
}
