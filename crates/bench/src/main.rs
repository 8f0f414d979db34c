//! What this machine can do with Rowlock, and with what people would use instead.
//!
//! Without a command it is `all`: the whole benchmark in five minutes. The others measure one thing each.

mod all;
mod client;
mod engine;
mod http;
mod literal;
mod load;
mod meter;
mod peer;
mod postgres;
mod random;
mod reconcile;
mod servers;
mod serving;
mod setup;
mod shares;
mod stalls;
mod stats;
mod wrk;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::servers::Fallible;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Rowlock on this machine against what people would use instead.
///
/// Without a command it runs everything in five minutes, prints tables, and writes target/bench/report.html.
#[derive(Parser)]
#[command(name = "rowlock-bench")]
struct CommandLine {
    /// Threads for everything in this process. As many as `rowlock serve` starts, if not given.
    #[arg(long, global = true)]
    threads: Option<usize>,
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    all: all::Arguments,
}

#[derive(Subcommand)]
enum What {
    /// Everything: all peers, all workloads, one report. This is what runs without a command.
    All(all::Arguments),
    /// Compare a report.json with the goals; exit with 1 when one is missed.
    Check(all::CheckArguments),
    /// A server under test; `all` starts these.
    #[command(hide = true)]
    Peer(peer::Arguments),
    /// Holds through the engine alone, without HTTP.
    Engine(engine::Arguments),
    /// Holds over HTTP against endpoints that do nothing, under the same load from wrk.
    Http(http::Arguments),
    /// Holds over HTTP on Postgres and Redis against the flow that people build themselves.
    Postgres(postgres::Arguments),
    /// Loading a large event from Postgres and from Redis.
    Load(load::Arguments),
    /// Comparing and repairing the tiers with very many holds.
    Reconcile(reconcile::Arguments),
    /// Holds that waited for long while the embedded store copied its log, beside a store that does not copy it.
    Stalls(stalls::Arguments),
}

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    let threads = arguments.threads.unwrap_or_else(rowlock::serve::workers).max(1);
    let runtime = rowlock::serve::runtime(threads).expect("a runtime");
    let done = runtime.block_on(async {
        tokio::select! {
            biased;
            // What was started ends when the work is dropped.
            () = interrupted() => Err("stopped".into()),
            done = run(arguments.what.unwrap_or(What::All(arguments.all))) => done,
        }
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        },
        Err(_) => _ = tokio::signal::ctrl_c().await,
    }
}

async fn run(what: What) -> Fallible<bool> {
    if matches!(what, What::Peer(_) | What::Postgres(_) | What::Load(_) | What::Reconcile(_)) {
        // Warnings say why a figure is as it is.
        let server = rowlock::settings::Server { log_level: "warn".into(), ..Default::default() };
        rowlock::logging::start(&server);
    }
    match what {
        What::All(arguments) => all::run(arguments).await,
        What::Check(arguments) => all::check(&arguments),
        What::Peer(arguments) => peer::run(arguments).await,
        What::Engine(arguments) => {
            engine::run(arguments).await;
            Ok(true)
        }
        What::Http(arguments) => Ok(http::run_all(arguments).await),
        What::Postgres(arguments) => postgres::run(arguments).await,
        What::Load(arguments) => load::run(arguments).await,
        What::Reconcile(arguments) => reconcile::run(arguments).await,
        What::Stalls(arguments) => stalls::run(arguments).await,
    }
}
