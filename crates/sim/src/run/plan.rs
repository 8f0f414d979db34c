//! What a run is like: drawn from its seed, so that runs differ in more than their luck.

use std::time::Duration;

use rowlock_core::policy::Policy;

use super::dice::Dice;
use super::faults::Fault;

#[derive(Clone, Debug)]
pub struct Plan {
    pub nodes: usize,
    /// None, one, or three that know nothing of each other.
    pub redis: usize,
    pub orgs: usize,
    pub events_per_org: usize,
    pub seats: u32,
    pub area: Option<u32>,
    pub policy: Policy,
    pub buyers: usize,
    pub storm: Duration,
    /// Kinds of faults that this run has. Few at a time find more than all at once.
    pub faults: Vec<Fault>,
    /// How long there is peace between two faults at most, in ms.
    pub pause: u64,
    /// How many in a thousand answers to clients are lost.
    pub answers_lost: u32,
    pub sweep_every: Duration,
    pub reconcile_every: Duration,
    pub probe_after: Duration,
    pub hot_events: usize,
}

impl Plan {
    pub fn draw(dice: &Dice) -> Self {
        let ttl = dice.between(2..=10) as u32;
        let policy = Policy {
            ttl_seconds: ttl,
            checkout_extension_seconds: dice.between(1..=4) as u32,
            heartbeat_seconds: dice.between(1..=3) as u32,
            max_hold_seconds: ttl + dice.between(1..=8) as u32,
            seats_per_user: dice.permille(300).then(|| dice.between(3..=6) as u32),
            ..Policy::default()
        };
        let share = dice.between(150..=700) as u32;
        let faults = Fault::ALL.into_iter().filter(|_| dice.permille(share)).collect();
        Self {
            nodes: *dice.pick(&[1, 2, 2, 2, 3, 3]),
            redis: *dice.pick(&[0, 1, 1, 1, 1, 1, 3, 3]),
            orgs: 2,
            events_per_org: dice.between(1..=2) as usize,
            seats: dice.between(4..=12) as u32,
            area: dice.permille(600).then(|| dice.between(2..=6) as u32),
            policy,
            buyers: dice.between(5..=12) as usize,
            storm: Duration::from_secs(dice.between(15..=45)),
            faults,
            pause: dice.between(300..=4_000),
            answers_lost: *dice.pick(&[0, 0, 30, 100]),
            sweep_every: Duration::from_secs(dice.between(3..=10)),
            reconcile_every: Duration::from_secs(dice.between(4..=9)),
            probe_after: Duration::from_secs(dice.between(1..=5)),
            hot_events: *dice.pick(&[1_024, 1_024, 1_024, 2]),
        }
    }
}
