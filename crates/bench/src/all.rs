//! The whole benchmark in one run: every workload, every peer, one report.
//!
//! Servers under test are always processes of their own, one thread for HTTP less than there are cores, as `rowlock
//! serve` has it. The load comes from this process.

mod checkout;
mod crowd;
mod field;
mod goals;
mod growth;
mod html;
mod latency;
mod machine;
mod maps;
mod page;
mod plot;
mod progress;
mod report;
mod sale;
#[cfg(test)]
mod sample;
mod sizes;
mod text;
mod throughput;
mod usage;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use self::field::{Field, Peer};
use self::latency::TURNS;
use self::machine::Machine;
use self::progress::Progress;
use self::report::{FORMAT, Report};
use self::sizes::Sizes;
use crate::servers::{Fallible, Servers, progress as say};

#[derive(clap::Args)]
pub struct Arguments {
    /// Where report.json and report.html go.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    out: PathBuf,
    /// Half an hour instead of five minutes: up to a million seats and holds, four nodes, longer turns.
    #[arg(long)]
    full: bool,
    /// Exit with 1 when a goal is missed or was not measured. What only --full can tell is listed, and does not count.
    #[arg(long)]
    check: bool,
    /// Leave out what needs Postgres and Redis, even if they are there.
    #[arg(long)]
    embedded: bool,
    /// Only these workloads; may be given several times. Goals of the others count as missing.
    #[arg(long, value_name = "WORKLOAD")]
    only: Vec<Workload>,
    /// Threads of the client [default: a quarter of the cores]
    #[arg(long, value_name = "N")]
    client_threads: Option<u32>,
    /// Everything once and tiny, to see that it works.
    #[arg(long, hide = true, conflicts_with = "full")]
    tiny: bool,
    /// Look for what is stored where nobody stores anything: a control that every workload must fail.
    #[arg(long, hide = true)]
    forget: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Workload {
    /// Distinct seats, and with them latency and cost.
    Throughput,
    Sale,
    OneSeat,
    Area,
    Checkout,
    Maps,
    Growth,
}

#[derive(clap::Args)]
pub struct CheckArguments {
    /// A report.json.
    report: PathBuf,
}

struct Suite {
    sizes: Sizes,
    field: Field,
    progress: Progress,
    problems: Vec<String>,
}

/// How long a store may copy its log into its file before it is put under load.
const SETTLE: Duration = Duration::from_millis(700);
const TINY_SETTLE: Duration = Duration::from_millis(20);

pub async fn run(arguments: Arguments) -> Fallible<bool> {
    let (began, clock) = (Timestamp::now(), Instant::now());
    // A crowd has a connection each, and so has the server.
    allow_many_files()?;
    let mut skipped = Vec::new();
    let servers = if arguments.embedded {
        skipped.push("Postgres and Redis: --embedded was given".to_owned());
        None
    } else {
        Servers::start()
            .map_err(|error| skipped.push(format!("all peers on Postgres and Redis: {error}")))
            .ok()
    };
    for what in &skipped {
        say(format!("left out: {what}"));
    }
    let sizes = match (arguments.tiny, arguments.full) {
        (true, _) => Sizes::tiny(),
        (_, true) => Sizes::full(),
        _ => Sizes::quick(),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let threads = arguments.client_threads.unwrap_or(cores / 4).max(1);
    let settle = if arguments.tiny { TINY_SETTLE } else { SETTLE };
    let field = Field::new(servers, threads, settle, arguments.forget)?;
    let mut machine = Machine::look(field.folder());
    machine.postgres =
        field.servers.as_ref().and_then(|servers| servers.postgres().sql("SHOW server_version").ok());
    if machine.syncs_for_nothing() {
        say("the temporary folder is not on a disk, so syncs cost nothing: set TMPDIR to a folder on one");
        skipped.push("the cost of syncs: the stores are in memory, not on a disk".into());
    }
    let steps = steps(&sizes, field.servers.is_some(), &arguments.only);
    let mut suite = Suite { sizes, field, progress: Progress::new(steps), problems: Vec::new() };
    let mut report = Report {
        format: FORMAT,
        size: suite.sizes.name.into(),
        began_at: began.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        seconds: 0.0,
        machine,
        skipped,
        client: report::Client::default(),
        throughput: report::Throughput::default(),
        latency: Vec::new(),
        cost: Vec::new(),
        sale: Vec::new(),
        one_seat: Vec::new(),
        area: Vec::new(),
        checkout: Vec::new(),
        maps: Vec::new(),
        growth: report::Growth::default(),
        goals: Vec::new(),
        problems: Vec::new(),
    };
    let workloads = suite.workloads(&arguments.only, &mut report).await;
    suite.progress.finish();
    workloads?;
    report.problems = std::mem::take(&mut suite.problems);
    report.seconds = clock.elapsed().as_secs_f64();
    drop(suite);
    report.goals = goals::goals(&report);
    finish(&report, &arguments)
}

fn allow_many_files() -> Fallible<()> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(())
}

/// Prints, writes both files, and says whether it passes.
fn finish(report: &Report, arguments: &Arguments) -> Fallible<bool> {
    let sections = page::sections(report);
    text::print(&sections);
    std::fs::create_dir_all(&arguments.out)?;
    let (json, html) = (arguments.out.join("report.json"), arguments.out.join("report.html"));
    std::fs::write(&json, serde_json::to_vec_pretty(report)?)?;
    std::fs::write(&html, html::page(report, &sections))?;
    println!("{} s; {} and {}", report.seconds.round(), json.display(), html.display());
    say_what_is_not_shown(report);
    Ok(report.problems.is_empty() && (!arguments.check || goals::passes(report)))
}

fn say_what_is_not_shown(report: &Report) {
    for goal in goals::untold(report) {
        println!("CAN'T TELL: {goal}; --full tells");
    }
    for problem in &report.problems {
        println!("PROBLEM: {problem}");
    }
}

/// Compares a report that was written before with the goals.
pub fn check(arguments: &CheckArguments) -> Fallible<bool> {
    let report: Report = serde_json::from_slice(&std::fs::read(&arguments.report)?)?;
    if report.format != FORMAT {
        return Err(
            format!("this report has format {}, and this program reads {FORMAT}", report.format).into()
        );
    }
    // Anew, from what was measured: a verdict in a file is only somebody's word.
    print!("{}", text::draw(&page::goal_table(&goals::goals(&report))));
    say_what_is_not_shown(&report);
    Ok(goals::passes(&report))
}

impl Suite {
    async fn workloads(&mut self, only: &[Workload], report: &mut Report) -> Fallible<()> {
        let chosen = |workload| only.is_empty() || only.contains(&workload);
        if chosen(Workload::Throughput) {
            report.throughput = self.throughput().await?;
            let (threads, pool) = (self.field.threads, self.field.pool());
            report.client =
                throughput::client(&report.throughput.turns, threads, self.sizes.connections, pool);
            report.latency = self.latency(&report.throughput).await?;
            report.cost = self.cost(&report.throughput.turns).await?;
        }
        if chosen(Workload::Sale) {
            report.sale = self.sale().await?;
        }
        if chosen(Workload::OneSeat) {
            report.one_seat = self.one_seat().await?;
        }
        if chosen(Workload::Area) {
            report.area = self.area().await?;
        }
        if chosen(Workload::Checkout) {
            report.checkout = self.checkout().await?;
        }
        if chosen(Workload::Maps) {
            report.maps = self.maps().await?;
        }
        if chosen(Workload::Growth) {
            report.growth = self.growth().await?;
        }
        Ok(())
    }

    /// Those of them that can be started.
    fn peers(&self, peers: &[Peer]) -> Vec<Peer> {
        peers.iter().copied().filter(|peer| self.field.has(*peer)).collect()
    }
}

/// How many steps there are to show.
fn steps(sizes: &Sizes, servers: bool, only: &[Workload]) -> u64 {
    let (all, open, holders, ours) = if servers { (7, 6, 4, 2) } else { (4, 3, 1, 1) };
    let tuning = if servers { sizes.pools.len() } else { 0 };
    let growth = &sizes.growth;
    let nodes = if servers { growth.nodes.len() } else { 0 };
    let of = |workload| match workload {
        Workload::Throughput => tuning + sizes.rounds as usize * all + open * (2 + TURNS.len()) + holders,
        Workload::Sale | Workload::Area | Workload::Checkout | Workload::Maps => ours,
        Workload::OneSeat => holders,
        Workload::Growth => growth.seats.len() + growth.events.len() + growth.holds.len() + 1 + nodes,
    };
    use clap::ValueEnum as _;
    let chosen =
        Workload::value_variants().iter().filter(|workload| only.is_empty() || only.contains(workload));
    chosen.map(|workload| of(*workload) as u64).sum()
}
