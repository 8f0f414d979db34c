//! Every target on its corpus, and then on some mutations of it, the same ones every time. What libFuzzer once found
//! stays found.
//!
//! `ROWLOCK_FUZZ_RUNS` is how many mutations of each target there are, `ROWLOCK_FUZZ_SEED` where they begin.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rowlock_fuzz::{TARGETS, Target, mutate, seeds};

const RUNS: u64 = 3_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The seeds, and what is in the folder of the target.
fn inputs(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    let stored = paths.iter().map(|path| std::fs::read(path).unwrap());
    seeds::of(target).into_iter().chain(stored).collect()
}

/// Runs an input. The error is what to do about it.
fn attempt((target, function): Target, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| function(input))).map_err(|_| {
        let file = std::env::temp_dir().join(format!("rowlock-fuzz-{target}-{}", std::process::id()));
        std::fs::write(&file, input).unwrap();
        format!("{target} fails; again with: cargo run -p rowlock-fuzz -- run {target} {}", file.display())
    })
}

fn fuzz(target: Target, inputs: &[Vec<u8>], runs: u64) -> Result<(), String> {
    for input in inputs {
        attempt(target, input)?;
    }
    let mut random = StdRng::seed_from_u64(number("ROWLOCK_FUZZ_SEED", 1));
    (0..runs).try_for_each(|_| attempt(target, &mutate::mutate(inputs, &mut random)))
}

fn replay(name: &str) {
    let target = TARGETS.into_iter().find(|(target, _)| *target == name).unwrap();
    let inputs = inputs(name);
    let runs = number("ROWLOCK_FUZZ_RUNS", RUNS);
    match fuzz(target, &inputs, runs) {
        Ok(()) => println!("{name}: {} inputs, {runs} mutations", inputs.len()),
        Err(what) => panic!("{what}"),
    }
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_target_is_replayed() {
            let here = [$(stringify!($name)),*];
            assert_eq!(here.to_vec(), TARGETS.map(|(name, _)| name).to_vec());
        }
    };
}

replays!(bodies commands config credentials ids journal kernel queries redis requests);

/// The control: something that fails on a rare input is found by the same loop.
#[test]
fn a_target_that_fails_is_noticed() {
    fn fragile(input: &[u8]) {
        assert!(!input.windows(4).any(|four| four == b"null"), "it met a null");
    }
    let inputs = vec![br#"{"name": 1}"#.to_vec()];
    let found = fuzz(("fragile", fragile), &inputs, 1_000_000);
    assert!(found.is_err_and(|what| what.contains("run fragile")));
    let file = std::env::temp_dir().join(format!("rowlock-fuzz-fragile-{}", std::process::id()));
    std::fs::remove_file(file).unwrap();
}

/// The control of the kernel's target: a store that is broken on purpose differs from the model.
#[test]
fn a_broken_store_is_noticed_by_the_kernel_target() {
    let inputs = inputs("kernel");
    for fault in rowlock_fuzz::kernel::FAULTS {
        let mut random = StdRng::seed_from_u64(1);
        let differs = |input: &[u8]| {
            let played = catch_unwind(|| rowlock_fuzz::kernel::differs(input, fault));
            played.unwrap_or(true)
        };
        let found = (0..20_000).any(|_| differs(&mutate::mutate(&inputs, &mut random)));
        assert!(found, "{fault} went unnoticed");
    }
}
