//! `rowlock migrate`: the tables in Postgres, for those who do not let the server make them.

use std::process::ExitCode;

use rowlock_truth::postgres::PostgresTruth;

use crate::config::Origins;
use crate::fault::Fault;
use crate::output::say;
use crate::settings::Settings;
use crate::store;

pub fn run(settings: &Settings, origins: &Origins) -> Result<ExitCode, Fault> {
    let options = settings.postgres().ok_or_else(|| {
        Fault::new(
            "there is nothing to migrate: the embedded store does it by itself (name Postgres with --truth)",
        )
    })?;
    let done = store::block_on(PostgresTruth::migrate(&options))?;
    match done.map_err(|error| store::of_postgres(error, origins))? {
        0 => say("the tables are up to date"),
        1 => say("ran 1 migration"),
        n => say(format!("ran {n} migrations")),
    }
    Ok(ExitCode::SUCCESS)
}
