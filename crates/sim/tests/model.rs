//! The protocol in a bounded world: the one that is built keeps all promises, and each safeguard that is missing shows.

use std::collections::BTreeSet;

use rowlock_sim::model::properties::{COMES_TO_AN_END, PROMISES};
use rowlock_sim::model::{Protocol, Size, Variant, counterexample, explore};

fn is_caught(name: &str) {
    let variant = Variant::of(name).unwrap();
    let promise = variant.breaks().expect("a variant that breaks something");
    let found = counterexample(&Protocol::new(variant.size(), variant), promise);
    let found = found.unwrap_or_else(|| panic!("{name} is not caught"));
    assert!(found.steps > 1 && found.trace.len() == found.steps, "{name}: {found:?}");
}

fn is_harmless(name: &str) {
    let variant = Variant::of(name).unwrap();
    assert_eq!(variant.breaks(), None, "{name}");
    let found = explore(Protocol::new(variant.size(), variant), 1, false);
    assert!(found.broken.is_empty(), "{name}: {:#?}", found.broken);
    assert!(found.states > 1_000, "{name}: {found:?}");
}

macro_rules! cases {
    ($names:ident, $check:ident: $($test:ident = $name:literal),+ $(,)?) => {
        const $names: &[&str] = &[$($name),+];
        $(#[test]
        fn $test() {
            $check($name);
        })+
    };
}

cases!(CAUGHT, is_caught:
    no_locks_and_no_versions = "no-locks-no-versions",
    locks_without_comparing = "no-versions",
    a_used_key_that_is_believed_new = "used-key-believed",
    a_second_that_counts_although_the_first_failed = "second-rides-along",
    a_lost_connection_that_nobody_asks_about = "lost-is-done",
    a_second_that_nobody_asks_about = "asked-for-one",
    the_clock_of_a_node = "node-clock",
    a_release_by_anyone = "release-by-anyone",
    an_extension_by_anyone = "extend-by-anyone",
    an_extension_of_what_has_ended = "extend-ended",
    a_late_confirm = "confirm-late",
    a_reaper_that_does_not_look_at_the_status = "reap-confirmed",
    a_reaper_that_believes_its_memory = "reap-by-memory",
    two_reapers_of_one_hold = "reap-twice",
    a_reaper_that_forgets = "forgetful-reaper",
    a_takeover_that_does_not_end_the_hold = "half-takeover",
    a_claim_that_grants = "claim-grants",
    an_answer_before_the_commit = "reply-first",
    a_key_without_a_record = "no-record",
    a_number_taken_too_early = "number-first",
    a_gap_that_nobody_looks_for = "no-gap-check",
    a_claim_that_is_never_healed = "no-healing",
);

cases!(HARMLESS, is_harmless:
    locks_alone_are_enough_for_what_is_read = "no-read-versions",
    versions_alone_are_enough = "no-locks",
    belief_needs_no_redis = "belief-without-redis",
    redis_is_not_needed = "no-claims",
    redis_may_give_a_seat_to_everybody = "claims-for-all",
    a_claim_may_be_removed_without_asking = "blind-healing",
    claims_need_no_reconciling = "no-reconciling",
);

#[test]
fn every_variant_has_its_test() {
    let tested: Vec<&str> = CAUGHT.iter().chain(HARMLESS).copied().collect();
    let all: Vec<&str> = Variant::broken().chain(Variant::harmless()).map(Variant::name).collect();
    assert_eq!(tested, all);
}

/// A promise that nothing can break says nothing.
#[test]
fn every_promise_can_be_broken() {
    let variant = Variant::ForgetfulReaper;
    let found = counterexample(&Protocol::new(variant.size(), variant), COMES_TO_AN_END);
    assert!(found.is_some(), "a hold that nobody ends goes unnoticed in the end");
    let broken: BTreeSet<&str> =
        Variant::broken().filter_map(Variant::breaks).chain([COMES_TO_AN_END]).collect();
    assert_eq!(broken, BTreeSet::from(PROMISES));
}

#[test]
fn the_protocol_keeps_its_promises() {
    let found = explore(Protocol::new(Size::small(), Variant::Correct).with_symmetry(), 2, false);
    assert!(found.broken.is_empty(), "{:#?}", found.broken);
    assert!(found.missing.is_empty(), "never happened: {:?}", found.missing);
    assert!(found.states > 10_000, "{found:?}");
}

/// Calling nodes, clients and seats by other names must not hide anything.
#[test]
fn states_that_count_as_one_are_alike() {
    let size = Size { sends: [1, 1, 1], faults: 0, ..Size::full() };
    let all = explore(Protocol::new(size, Variant::Correct), 1, false);
    let some = explore(Protocol::new(size, Variant::Correct).with_symmetry(), 1, false);
    assert!(some.states < all.states && some.states * 4 >= all.states, "{} of {}", some.states, all.states);
    assert_eq!((all.depth, &all.missing), (some.depth, &some.missing));
}
