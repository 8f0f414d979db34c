//! `rowlock-sim`: tries to break the promises, and says what it tried.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "rowlock-sim", about = "Tries to break the promises of Rowlock, and says what it tried.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explore the protocol, every order of every step.
    Model(rowlock_sim::model::Options),
    /// Drive the production engine on a simulated clock, network and store, with faults, from seeds.
    Run(rowlock_sim::run::Options),
    /// Kill, stop, cut off and empty real processes under load.
    Torture(rowlock_sim::torture::Options),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Model(options) => rowlock_sim::model::main(options),
        Command::Run(options) => rowlock_sim::run::main(options),
        Command::Torture(options) => rowlock_sim::torture::main(options),
    }
}
