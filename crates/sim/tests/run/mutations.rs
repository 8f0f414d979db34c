//! Negative controls: each safeguard is switched off, and the simulator must find out, by the promise that it is there for.

use rowlock_sim::run::broken::Broken;
use rowlock_sim::run::seed;

/// Within so many seeds each must be found. docs/simulator.md has how many it took.
const WITHIN: u64 = 100;

/// The promises of which one must be seen broken. What is broken often breaks others too, and then the wrong check would
/// speak for the right one.
const fn promises(broken: Broken) -> &'static [char] {
    match broken {
        Broken::NoLocksNoCompare | Broken::ClaimTrusted | Broken::ReleaseWithoutOwner => &['S'],
        Broken::ReaperWithoutStatus | Broken::ExpiryByNodeClock | Broken::BeliefNotCompared => &['S'],
        Broken::BelievedUsers | Broken::UsersNotCounted => &['S'],
        Broken::ReplyBeforeCommit | Broken::AmbiguousIsSuccess => &['D'],
        Broken::AmbiguousIsRepeated | Broken::NoRecord => &['X'],
        Broken::SequenceEarly | Broken::TornCommit => &['O'],
        Broken::NoTenants => &['T'],
        Broken::ReaperOff => &['E'],
        // What a node shows is old: a seat held for too long, or tiers that do not agree.
        Broken::FollowOff | Broken::GapsIgnored => &['E', 'L'],
        Broken::ReconcileOff => &['L'],
    }
}

/// The first seed that finds it.
fn found(broken: Broken) -> Option<u64> {
    let is_it = |violation: &String| promises(broken).iter().any(|promise| violation.starts_with(*promise));
    (1..=WITHIN).find(|number| seed::run(*number, Some(broken), false).violations.iter().any(is_it))
}

/// Every second one, so that two threads share them.
fn all_are_found(first: usize) {
    let mut unseen = Vec::new();
    for broken in Broken::all().iter().skip(first).step_by(2) {
        match found(*broken) {
            Some(seed) => println!("{}: seed {seed}", broken.name()),
            None => unseen.push(broken.name()),
        }
    }
    assert!(unseen.is_empty(), "broken, and not found within {WITHIN} seeds: {unseen:?}");
}

#[test]
fn every_broken_safeguard_is_found() {
    all_are_found(0);
}

#[test]
fn every_other_broken_safeguard_is_found() {
    all_are_found(1);
}
