//! Negative controls: each safeguard is switched off, and the simulator must find out within so many seeds.

use rowlock_sim::run::broken::Broken;
use rowlock_sim::run::run_all;

/// Within how many seeds each is found. docs/simulator.md has how many it took.
const fn within(broken: Broken) -> u64 {
    match broken {
        Broken::AmbiguousIsSuccess | Broken::AmbiguousIsRepeated => 100,
        Broken::FollowOff | Broken::GapsIgnored | Broken::TornCommit | Broken::SequenceEarly => 100,
        _ => 20,
    }
}

#[test]
fn every_broken_safeguard_is_found() {
    let mut unseen = Vec::new();
    for broken in Broken::all() {
        let sum = run_all(1..1 + within(*broken), Some(*broken), 2, false, || {});
        if sum.failures.is_empty() {
            unseen.push(broken.name());
        }
    }
    assert!(unseen.is_empty(), "broken, and not found: {unseen:?}");
}
