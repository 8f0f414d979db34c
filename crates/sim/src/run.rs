//! Not built yet.

use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub struct Options {}

pub fn main(_options: Options) -> ExitCode {
    eprintln!("This part is not built yet.");
    ExitCode::FAILURE
}
