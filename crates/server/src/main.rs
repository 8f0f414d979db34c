use std::process::ExitCode;

use clap::Parser;
use rowlock::cli::{Cli, Command, Dev, Org};
use rowlock::output::say;
use rowlock::{config, dev, migrate, org, reconcile, serve, token, verify};

/// Requests allocate many small things on all threads at once; this allocator is made for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Also what a wrong command line exits with. 1 is left for `verify` to say that it found something.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let environment = || std::env::vars_os().collect();
    let done = match &cli.command {
        Command::Serve(args) => config::load_with_origins(&args.sources(environment()))
            .and_then(|(settings, origins)| serve::run(&settings, &origins, args.demo)),
        Command::Token(args) => config::load_with_origins(&args.common.sources(environment()))
            .and_then(|(settings, origins)| token::run(&settings, &origins, args)),
        Command::Org(Org::Create(args)) => config::load_with_origins(&args.common.sources(environment()))
            .and_then(|(settings, origins)| org::create(&settings, &origins, args)),
        Command::Verify(args) => config::load_with_origins(&args.common.sources(environment()))
            .and_then(|(settings, origins)| verify::run(&settings, &origins)),
        Command::Migrate(args) => config::load_with_origins(&args.common.sources(environment()))
            .and_then(|(settings, origins)| migrate::run(&settings, &origins)),
        Command::Reconcile(args) => config::load_with_origins(&args.common.sources(environment()))
            .and_then(|(settings, origins)| reconcile::run(&settings, &origins, args)),
        Command::Dev(Dev::Up(args)) => dev::up(args),
        Command::Openapi => {
            say(rowlock_api::openapi_json().trim_end());
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|fault| {
        eprintln!("error: {fault}");
        ExitCode::from(FAILED)
    })
}
