//! What this machine can do.

mod engine;
mod http;
mod literal;
mod load;
mod meter;
mod postgres;
mod reconcile;
mod servers;
mod serving;
mod setup;
mod stats;
mod wrk;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::servers::Fallible;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Arguments {
    /// Threads for everything in this process. As many as `rowlock serve` starts, if not given.
    #[arg(long, global = true)]
    threads: Option<usize>,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(arguments.threads.unwrap_or_else(rowlock::serve::workers).max(1))
        .enable_all()
        .build()
        .expect("a runtime");
    let done = runtime.block_on(async {
        tokio::select! {
            biased;
            // What was started ends when the work is dropped.
            _ = tokio::signal::ctrl_c() => Err("stopped".into()),
            done = run(arguments.what) => done,
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

async fn run(what: What) -> Fallible<bool> {
    if matches!(what, What::Postgres(_) | What::Load(_) | What::Reconcile(_)) {
        // Warnings say why a figure is as it is.
        let server = rowlock::settings::Server { log_level: "warn".into(), ..Default::default() };
        rowlock::logging::start(&server);
    }
    match what {
        What::Engine(arguments) => {
            engine::run(arguments).await;
            Ok(true)
        }
        What::Http(arguments) => Ok(http::run_all(arguments).await),
        What::Postgres(arguments) => postgres::run(arguments).await,
        What::Load(arguments) => load::run(arguments).await,
        What::Reconcile(arguments) => reconcile::run(arguments).await,
    }
}
