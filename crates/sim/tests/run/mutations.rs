//! Negative controls: each safeguard is switched off, and the simulator must find out within so many seeds.

use rowlock_sim::run::broken::Broken;
use rowlock_sim::run::run_all;

/// Within how many seeds each is found. About five times what it took: see docs/simulator.md.
const fn within(broken: Broken) -> u64 {
    match broken {
        Broken::GapsIgnored | Broken::TornCommit | Broken::ReaperWithoutStatus => 100,
        _ => 40,
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
