//! What this machine can do.

mod engine;
mod http;
mod setup;
mod wrk;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Holds through the engine alone, without HTTP.
    Engine(engine::Arguments),
    /// Holds over HTTP against endpoints that do nothing, under the same load from wrk.
    Http(http::Arguments),
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(rowlock::serve::workers())
        .enable_all()
        .build()
        .expect("a runtime");
    if runtime.block_on(run(Arguments::parse().what)) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run(what: What) -> bool {
    match what {
        What::Engine(arguments) => {
            engine::run(arguments).await;
            true
        }
        What::Http(arguments) => http::run_all(arguments).await,
    }
}
