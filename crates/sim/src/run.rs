//! `rowlock-sim run`: the production engine on a simulated clock, network, store and Redis, with faults, from seeds.
//!
//! A run is decided by its seed alone. [`seed`] is one run; [`world`] is what there is in it: nodes with the real
//! [`Engine`](rowlock_registry::Engine), a [`store`] and [`redis`] that are simulated, and the [`net`] between them. [`faults`]
//! break things, [`workload`] uses them, and [`audit`] finds out whether a promise was broken. [`broken`] has the safeguards
//! that can be switched off to show that it would find out.

pub mod audit;
pub mod broken;
pub mod clock;
pub mod dice;
pub mod faults;
pub mod history;
pub mod net;
mod panics;
pub mod plan;
pub mod redis;
pub mod seed;
pub mod store;
mod watch;
pub mod workload;
pub mod world;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use broken::Broken;
use history::Counts;
use seed::Report;

#[derive(Debug, clap::Args)]
pub struct Options {
    /// The seeds to run: `1..1000` is from 1 to 999.
    #[arg(long, default_value = "1..200", value_parser = seeds)]
    seeds: std::ops::Range<u64>,
    /// Run this one seed only.
    #[arg(long)]
    seed: Option<u64>,
    /// Print everything that happens.
    #[arg(long)]
    trace: bool,
    /// Switch a safeguard off. The simulator should notice.
    #[arg(long)]
    broken: Option<Broken>,
    /// Threads. Each runs seeds of its own.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Go on after a failure and count them.
    #[arg(long)]
    keep_going: bool,
}

fn seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    let wrong = || format!("{text} is not like 1..1000");
    let (first, last) = text.split_once("..").ok_or_else(wrong)?;
    let seeds = first.parse().map_err(|_| wrong())?..last.parse().map_err(|_| wrong())?;
    // Nothing is found where nothing is run.
    if seeds.is_empty() { Err(format!("{text} has no seed in it")) } else { Ok(seeds) }
}

/// What came of many runs.
#[derive(Default)]
pub struct Sum {
    pub seeds: u64,
    pub counts: Counts,
    pub virtual_millis: u64,
    pub failures: Vec<Report>,
}

/// Runs seeds on so many threads, until one fails or all are done.
pub fn run_all(
    seeds: std::ops::Range<u64>,
    broken: Option<Broken>,
    threads: usize,
    keep_going: bool,
    done_one: impl Fn() + Sync,
) -> Sum {
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let sum = Mutex::new(Sum::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let report = seed::run(seed, broken, false);
                    let mut sum = sum.lock();
                    sum.seeds += 1;
                    sum.virtual_millis += report.virtual_millis;
                    for (what, count) in &report.counts {
                        *sum.counts.entry(what.clone()).or_default() += count;
                    }
                    if !report.violations.is_empty() {
                        stop.fetch_or(!keep_going, Ordering::Relaxed);
                        sum.failures.push(report);
                    }
                    done_one();
                }
            });
        }
    });
    sum.into_inner()
}

pub fn main(options: Options) -> ExitCode {
    if let Some(seed) = options.seed {
        let report = seed::run(seed, options.broken, options.trace);
        println!(
            "seed {seed}: digest {:016x}, {} virtual seconds",
            report.digest,
            report.virtual_millis / 1000
        );
        if report.violations.is_empty() {
            return ExitCode::SUCCESS;
        }
        fail(&report, options.broken, !options.trace);
        return ExitCode::FAILURE;
    }
    let bar = ProgressBar::new(options.seeds.end.saturating_sub(options.seeds.start));
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    bar.set_style(style.expect("a template"));
    let began = Instant::now();
    let sum =
        run_all(options.seeds.clone(), options.broken, options.threads, options.keep_going, || bar.inc(1));
    bar.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    for (what, count) in &sum.counts {
        println!("{count:>12}  {what}");
    }
    let (hours, rate) = (sum.virtual_millis as f64 / 3_600_000.0, sum.seeds as f64 / seconds);
    println!("{} seeds, {hours:.1} virtual hours, {seconds:.1} s, {rate:.1} seeds/s", sum.seeds);
    let mut failures = sum.failures;
    failures.sort_by_key(|report| report.seed);
    if let Some(first) = failures.first() {
        fail(first, options.broken, true);
        let all: Vec<String> = failures.iter().map(|report| report.seed.to_string()).collect();
        eprintln!("{} of {} seeds failed: {}", all.len(), sum.seeds, all.join(" "));
        return ExitCode::FAILURE;
    }
    println!("no violation");
    ExitCode::SUCCESS
}

fn fail(report: &Report, broken: Option<Broken>, lines: bool) {
    for line in report.last_lines.iter().filter(|_| lines) {
        eprintln!("{line}");
    }
    eprintln!("seed {} broke promises:", report.seed);
    for violation in &report.violations {
        eprintln!("  {violation}");
    }
    let broken = broken.map(|broken| format!(" --broken {}", broken.name())).unwrap_or_default();
    eprintln!("again, with everything that happens: rowlock-sim run --seed {} --trace{broken}", report.seed);
}
