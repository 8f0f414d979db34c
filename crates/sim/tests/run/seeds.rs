//! Seeds repeat themselves, and break nothing.

use std::process::Command;

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
    for what in [
        "hold: done",
        "confirm: done",
        "hold: unknown",
        "hold: replayed",
        "fault: Crash",
        "hold any: done",
        "look at map",
        "belief: kept",
        "belief: wrong user",
    ] {
        assert!(sum.counts.get(what).is_some_and(|count| *count > 20), "{what}: {:?}", sum.counts.get(what));
    }
}
