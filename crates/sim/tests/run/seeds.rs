//! Seeds repeat themselves, and break nothing.

use std::process::Command;

use rowlock_sim::run::dice::Dice;
use rowlock_sim::run::faults::Fault;
use rowlock_sim::run::plan::Plan;
use rowlock_sim::run::{run_all, seed};

/// Seeds of every run of the tests. Many more are run by hand: docs/simulator.md has the figures.
const SEEDS: std::ops::Range<u64> = 1..201;

/// Seeds that have found something once, each with a word about it.
fn regressions() -> Vec<u64> {
    let text = include_str!("../../regressions.txt");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().next().unwrap().parse().expect("a seed")).collect()
}

#[test]
fn what_was_found_once_stays_mended() {
    for number in regressions() {
        let report = seed::run(number, None, false);
        assert!(report.violations.is_empty(), "seed {number}: {:#?}", report.violations);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for number in 1..7 {
        let (one, two) = (seed::run(number, None, false), seed::run(number, None, false));
        assert_eq!((one.digest, one.virtual_millis), (two.digest, two.virtual_millis), "seed {number}");
        assert_eq!(one.counts, two.counts, "seed {number}");
    }
    assert_ne!(seed::run(1, None, false).digest, seed::run(2, None, false).digest);
}

/// Whatever a process has that another one has not (addresses, the keys of its hash maps, its time) is not in a run.
#[test]
fn it_is_the_same_in_another_process() {
    for number in 7..10 {
        let here = format!("{:016x}", seed::run(number, None, false).digest);
        let there = Command::new(env!("CARGO_BIN_EXE_rowlock-sim"))
            .args(["run", "--seed", &number.to_string()])
            .output()
            .expect("the simulator runs");
        let said = String::from_utf8_lossy(&there.stdout).into_owned();
        assert!(there.status.success(), "{}", String::from_utf8_lossy(&there.stderr));
        assert!(said.contains(&here), "seed {number}: {here} here, and there: {said}");
    }
}

#[test]
fn no_promise_is_broken() {
    let sum = run_all(SEEDS, None, 2, false, || {});
    let found: Vec<_> = sum.failures.iter().map(|report| (report.seed, &report.violations)).collect();
    assert!(found.is_empty(), "{found:#?}");
    // A run in which nothing happens breaks nothing either.
    let words = [
        "hold: done",
        "confirm: done",
        "hold: unknown",
        "hold: replayed",
        "hold any: done",
        "look at map",
        "belief: kept",
        "belief: wrong user",
        "fault: message lost",
        "fault: answer lost",
        "fault: commit without an answer",
    ];
    for what in words.map(str::to_owned).into_iter().chain(Fault::ALL.map(Fault::name)) {
        let count = sum.counts.get(&what).copied().unwrap_or(0);
        assert!(count > 20, "{what}: {count}");
    }
}

#[test]
fn a_fault_that_hits_nothing_is_not_counted() {
    let of_redis = [
        Fault::CutRedis,
        Fault::RedisPause,
        Fault::RedisFlush,
        Fault::RedisRestart,
        Fault::RedisLosesKeys,
        Fault::ScriptFlush,
    ];
    let has_none = |number: &u64| {
        let plan = Plan::draw(&Dice::new(*number).fork());
        plan.redis == 0 && plan.faults.iter().any(|fault| of_redis.contains(fault))
    };
    for number in SEEDS.filter(has_none).take(3) {
        let counts = seed::run(number, None, false).counts;
        for fault in of_redis {
            assert_eq!(counts.get(&fault.name()), None, "seed {number}: {}", fault.name());
        }
    }
}

#[test]
fn no_seeds_are_not_no_violation() {
    for none in ["5..5", "7..5"] {
        let said = Command::new(env!("CARGO_BIN_EXE_rowlock-sim"))
            .args(["run", "--seeds", none])
            .output()
            .expect("the simulator runs");
        let error = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.status.success() && error.contains("has no seed in it"), "{none}: {error}");
    }
}
