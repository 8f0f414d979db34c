//! The kernel against a tiny model of the same rules, over hundreds of thousands of random steps.

mod compare;
mod control;
mod ops;
mod play;
mod rules;

use std::cell::RefCell;

use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use crate::support::Fault;
use play::{Coverage, Play};

/// Short enough to shrink well, long enough to fill the house and sell it out.
const LONGEST_CASE: usize = 500;

/// Everything that a random run must meet, or it proves less than it seems to.
const MUST_HAPPEN: [&str; 30] = [
    "hold, changed Some(true)",
    "hold, changed Some(false)",
    "hold, changed None",
    "hold elsewhere, changed Some(true)",
    "hold elsewhere, changed Some(false)",
    "booking, changed true",
    "booking, changed false",
    "marked, changed true",
    "marked, changed false",
    "replay",
    "AreaFull",
    "BlockFull",
    "Cancelled",
    "Confirmed",
    "Exhausted",
    "Expired",
    "Invalid",
    "KeyReused",
    "NotOnSale",
    "NotOwner",
    "Released",
    "SeatsBlocked",
    "SeatsTaken",
    "TooMany",
    "UnknownArea",
    "UnknownBlock",
    "UnknownBooking",
    "UnknownEvent",
    "UnknownHold",
    "UnknownSeats",
];

/// Plays random cases, `steps` steps or more in all. `ROWLOCK_MODEL_STEPS` makes it fewer, for those who run it again and
/// again; then it may not meet everything.
fn agree(steps: u64, in_batches: bool) {
    let fewer = std::env::var("ROWLOCK_MODEL_STEPS").ok().and_then(|text| text.parse().ok());
    let least = fewer.map_or(steps, |fewer: u64| fewer.min(steps));
    let is_whole = least == steps;
    // Cases are of all lengths, so half the longest on average; some more to be sure.
    let cases = (least / (LONGEST_CASE as u64 / 2) * 11 / 10) as u32;
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let total = RefCell::new(Coverage::new());
    let outcome = TestRunner::new(config).run(&ops::steps(LONGEST_CASE), |steps| {
        let mut play = Play::new(Fault::None);
        play.all(&steps, in_batches).map_err(TestCaseError::fail)?;
        for (kind, count) in play.coverage {
            *total.borrow_mut().entry(kind).or_default() += count;
        }
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, steps)) => {
            let steps: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
            panic!("{why}, after these steps:\n{}", steps.join("\n"));
        }
        Err(TestError::Abort(why)) => panic!("gave up: {why}"),
    }
    let total = total.into_inner();
    let steps: u64 = total.values().sum();
    assert!(steps >= least || !is_whole, "only {steps} steps");
    let missing: Vec<&str> = MUST_HAPPEN.into_iter().filter(|kind| !total.contains_key(*kind)).collect();
    assert!(missing.is_empty() || !is_whole, "never happened: {missing:?} in {total:?}");
    println!("{total:#?}");
}

#[test]
fn the_kernel_agrees_with_the_model_step_by_step() {
    agree(400_000, false);
}

#[test]
fn the_kernel_agrees_with_the_model_when_steps_share_a_batch() {
    agree(100_000, true);
}
