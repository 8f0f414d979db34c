//! Kills, stops, cuts off and empties real processes under load, and checks afterwards that every promise was kept.
//!
//! [`house`] has the processes: every [`node`], with a [`proxy`] on every way to it and from it, and what they share. [`schedule`] says from a seed which faults
//! come when, and [`faults`] does them. [`buyer`]s want the same few seats; their [`client`] asks again until there is an
//! answer, and all that is said goes into the [`history`]. Then the [`audit`] looks at everything: [`translate`] turns
//! the history into what was said of each seat, and [`wgl`] looks for an order in which a [`seat`] can have gone
//! through all of it. [`sabotage`] breaks the product on purpose, to see that the checks notice.

mod answer;
pub mod audit;
mod buyer;
mod client;
mod faults;
mod history;
mod house;
mod journal;
mod node;
mod proxy;
pub mod report;
pub mod sabotage;
mod schedule;
mod seat;
mod translate;
mod wgl;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use rand::SeedableRng;
use rand::rngs::StdRng;

use audit::{Audit, Check, Violation};
use buyer::Buyer;
use client::{Client, Credential, Venue};
use faults::{Inflicted, inflict};
use history::Recorder;
use house::House;
use report::Report;
use sabotage::Broken;
use schedule::{Schedule, Step};

/// How long a node may take to answer: its own limit.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// How much later than that an answer may arrive on a machine with nothing else to do.
const GRACE_SECONDS: u64 = 5;
/// How long after a fault the first change must be decided, as a multiple of the grace.
const RECOVERY_GRACES: u32 = 6;

#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How long, in minutes; fractions are possible.
    #[arg(long, default_value_t = 5.0)]
    pub minutes: f64,
    /// What the faults and the buyers are drawn from. Random unless given.
    #[arg(long)]
    pub seed: Option<u64>,
    /// How many nodes.
    #[arg(long, default_value_t = 3, conflicts_with = "embedded")]
    pub nodes: usize,
    /// One node with a store of its own, instead of several that share Postgres and Redis.
    #[arg(long)]
    pub embedded: bool,
    /// How many buyers.
    #[arg(long, default_value_t = 12)]
    pub buyers: usize,
    /// The rowlock binary. Unless given, the one beside this program.
    #[arg(long)]
    pub server: Option<PathBuf>,
    /// How many seconds late an answer may be, for machines that have other things to do.
    #[arg(long, default_value_t = GRACE_SECONDS)]
    pub grace: u64,
    /// By how much all processes shall be nicer than this one, so that others go first.
    #[arg(long, default_value_t = 0)]
    pub nice: u8,
    /// Where to write the report as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Break the product on purpose, to see that it is noticed.
    #[arg(long, value_enum)]
    pub broken: Vec<Broken>,
}

impl Options {
    fn nodes(&self) -> usize {
        if self.embedded { 1 } else { self.nodes }
    }
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For a request to be answered.
    pub answer: Duration,
    /// For the service to come back after a fault.
    pub recovery: Duration,
    pub grace: Duration,
}

/// Why there is no report.
#[derive(Debug)]
pub struct Failed(pub String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Failed {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

macro_rules! failed_from {
    ($($error:ty),*) => {
        $(impl From<$error> for Failed {
            fn from(error: $error) -> Self {
                Self(error.to_string())
            }
        })*
    };
}

failed_from!(std::io::Error, rowlock_dev::DevError, reqwest::Error, serde_json::Error);

/// Does what takes a while without keeping anybody else from going on: a fault must be able to end while another waits.
async fn blocking<T: Send + 'static>(
    house: &Arc<House>,
    work: impl FnOnce(&House) -> T + Send + 'static,
) -> T {
    let house = Arc::clone(house);
    tokio::task::spawn_blocking(move || work(&house)).await.expect("the work does not panic")
}

pub fn main(options: Options) -> ExitCode {
    match run(&options) {
        Ok(report) => {
            print!("{report}");
            if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(failed) => {
            eprintln!("{failed}");
            ExitCode::from(2)
        }
    }
}

/// Runs all of it. The folder with everything in it stays when something was found.
pub fn run(options: &Options) -> Result<Report, Failed> {
    if let Some(broken) = options.broken.iter().find(|broken| !broken.fits(options.embedded)) {
        let name = broken.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let embedded = if options.embedded { "" } else { "out" };
        return Err(Failed(format!("--broken {name} is not possible with{embedded} --embedded")));
    }
    let server = match &options.server {
        Some(server) => server.clone(),
        None => beside()?,
    };
    be_nice(options.nice)?;
    let folder = tempfile::Builder::new().prefix("rowlock-torture-").tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
    let mut report = runtime.block_on(torture(options, &server, folder.path()))?;
    if !report.violations.is_empty() {
        let folder = folder.keep();
        std::fs::write(folder.join("report.json"), serde_json::to_string_pretty(&report)?)?;
        report.kept = Some(folder.display().to_string());
    }
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(report)
}

/// This thread is made nicer, and all threads and processes that it starts are as nice as it is.
fn be_nice(nice: u8) -> Result<(), Failed> {
    if nice == 0 {
        return Ok(());
    }
    let thread = std::fs::read_link("/proc/thread-self")?;
    let id = thread.file_name().unwrap_or_default();
    // `renice` wants to know how nice in all. The name in parentheses may have blanks in it; this is the 17th behind it.
    let stat = std::fs::read_to_string("/proc/thread-self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let now: i32 = fields.split_whitespace().nth(16).and_then(|text| text.parse().ok()).unwrap_or(0);
    let renice = std::process::Command::new("renice")
        .args(["-n", &(now + i32::from(nice)).min(19).to_string(), "-p"])
        .arg(id)
        .stdout(std::process::Stdio::null())
        .status()?;
    if renice.success() { Ok(()) } else { Err(Failed(format!("renice ended with {renice}"))) }
}

/// The binary that was built together with this one.
fn beside() -> Result<PathBuf, Failed> {
    let own = std::env::current_exe()?;
    let found = own.parent().map(|folder| folder.join("rowlock")).filter(|path| path.is_file());
    found.ok_or_else(|| "rowlock is not beside this program: build it, or name it with --server".into())
}

async fn torture(options: &Options, server: &Path, folder: &Path) -> Result<Report, Failed> {
    let seed = options.seed.unwrap_or_else(rand::random);
    let grace = Duration::from_secs(options.grace);
    let limits = Limits { answer: REQUEST_LIMIT + grace, recovery: grace * RECOVERY_GRACES, grace };
    let house = Arc::new(House::new(server, folder, options).await?);
    let venue = Arc::new(Venue {
        urls: house.nodes.iter().map(node::Node::url).collect(),
        event: house.event.clone(),
        area: house.area.clone(),
        circle: house.circle.clone(),
        seat_prefix: rowlock_core::SeatId::prefix(house.event.parse().map_err(|_| "no event")?),
        recorder: Recorder::new(&folder.join("history.jsonl"))?,
        requests: AtomicU64::new(0),
        patience: limits.answer + grace,
    });
    let stop = Arc::new(AtomicBool::new(false));
    let mut buyers = Vec::new();
    for user in 0..options.buyers {
        let client = client(&house, &venue, seed, user)?;
        buyers.push(tokio::spawn(Buyer::new(client, Arc::clone(&stop)).run()));
    }
    let began = Instant::now();
    let mut found = Vec::new();
    let (inflicted, ()) = tokio::join!(
        trouble(options, seed, &house, &venue, &stop, &mut found),
        sabotage::during(&house, &options.broken, &stop)
    );
    let faults = inflicted?;
    for buyer in buyers {
        buyer.await.map_err(|error| Failed(format!("a buyer failed: {error}")))?;
    }
    let seconds = began.elapsed().as_secs();
    let ended = venue.recorder.clock.now();
    audit::settle(&house, limits, &mut found).await;
    let quiet_at = venue.recorder.clock.now();
    sabotage::afterwards(&house, &options.broken)?;
    for node in &house.nodes {
        found.extend(node.panics().into_iter().map(|line| Violation::new(Check::Processes, line)));
    }
    let venue = Arc::into_inner(venue).ok_or("a buyer is still there")?;
    let history = venue.recorder.finish();
    let audit = Audit { house: &house, history: &history, faults: &faults, limits, quiet_at };
    let (wrong, looked) = audit.run().await?;
    found.extend(wrong);
    let recovered = audit::recoveries(&history, &faults, ended, limits.recovery, &mut found);
    if !found.is_empty() {
        if let Some(shared) = &house.shared {
            std::fs::write(folder.join("postgres.log"), shared.postgres.said())?;
        }
        let lines: Vec<String> = faults.iter().map(|fault| format!("{fault:?}\n")).collect();
        std::fs::write(folder.join("faults.txt"), lines.concat())?;
    }
    Ok(Report {
        seed,
        seconds,
        nodes: options.nodes(),
        buyers: options.buyers,
        intents: history.intents.len(),
        attempts: history.attempts.len(),
        operations: report::operations(&history),
        faults: recovered,
        longest_answer_millis: history.attempts.iter().map(|attempt| attempt.took_millis).max().unwrap_or(0),
        looked,
        violations: found,
        kept: None,
    })
}

/// Every second buyer has a token of their own, the others come through a backend that acts for them.
fn client(house: &House, venue: &Arc<Venue>, seed: u64, user: usize) -> Result<Client, Failed> {
    let name = format!("buyer-{user}");
    let credential = if user.is_multiple_of(2) {
        Credential::Token(tokio::task::block_in_place(|| house.token(&name))?)
    } else {
        Credential::Key { key: house.admin.key.clone(), user: name }
    };
    let rng = StdRng::seed_from_u64(seed ^ (user as u64 + 1) << 32);
    let http = reqwest::Client::builder().build()?;
    Ok(Client { venue: Arc::clone(venue), user: user as u32, http, credential, rng })
}

/// One fault after another until the time is over, and then everybody may stop.
async fn trouble(
    options: &Options,
    seed: u64,
    house: &Arc<House>,
    venue: &Venue,
    stop: &AtomicBool,
    found: &mut Vec<Violation>,
) -> Result<Vec<Inflicted>, Failed> {
    let time = Duration::from_secs_f64(options.minutes * 60.0);
    let mut schedule =
        if options.embedded { Schedule::embedded(seed) } else { Schedule::new(seed, options.nodes) };
    let (began, bar) = (Instant::now(), progress(time));
    let mut all = Vec::new();
    let result = loop {
        let Step { after, faults } = schedule.step();
        tokio::time::sleep(after.min(time.saturating_sub(began.elapsed()))).await;
        if began.elapsed() >= time {
            break Ok(());
        }
        let names: Vec<String> = faults.iter().map(ToString::to_string).collect();
        bar.set_position(began.elapsed().as_secs());
        bar.set_message(format!("{} requests, {}", venue.recorder.attempts(), names.join(" and ")));
        bury(house, &names.join(" and "), found).await?;
        let mut broken = [Vec::new(), Vec::new()];
        let [one, two] = &mut broken;
        let second = async {
            match faults.get(1) {
                Some(fault) => inflict(house, *fault, &venue.recorder, two).await.map(Some),
                None => Ok(None),
            }
        };
        let done = tokio::try_join!(inflict(house, faults[0], &venue.recorder, one), second);
        found.extend(broken.concat().into_iter().map(|what| Violation::new(Check::Processes, what)));
        match done {
            Ok((first, second)) => all.extend([Some(first), second].into_iter().flatten()),
            Err(failed) => break Err(failed),
        }
    };
    bar.finish_and_clear();
    bury(house, "the end", found).await?;
    stop.store(true, Ordering::Relaxed);
    result.map(|()| all)
}

/// Starts nodes again that nobody has killed, and says so.
async fn bury(house: &Arc<House>, before: &str, found: &mut Vec<Violation>) -> Result<(), Failed> {
    for (number, node) in house.nodes.iter().enumerate() {
        if node.has_died() {
            found.push(Violation::new(
                Check::Processes,
                format!("node {number} ended by itself before: {before}"),
            ));
            blocking(house, move |house| house.nodes[number].start()).await?;
        }
    }
    Ok(())
}

fn progress(time: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} s  {msg}");
    ProgressBar::new(time.as_secs()).with_style(style.expect("the template is valid"))
}
