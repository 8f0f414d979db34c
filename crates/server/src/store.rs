//! Opening the truth, with errors that say what to do.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use rowlock_registry::Engine;
use rowlock_truth::sqlite::{OpenError, SqliteTruth};

use crate::fault::Fault;
use crate::files;
use crate::settings::Settings;

/// An engine on the data folder, for this process alone. `in_use` is what to do when another process has it.
pub async fn engine(settings: &Settings, in_use: &str) -> Result<Engine, Fault> {
    let data = Path::new(&settings.server.data);
    files::prepare_folder(data)?;
    let truth = SqliteTruth::open(data, settings.store_options()).map_err(|error| match error {
        OpenError::InUse { .. } => Fault::new(format!("{error}. {in_use}")),
        error => Fault::new(error.to_string()),
    })?;
    Engine::start(Arc::new(truth), settings.engine_options())
        .await
        .map_err(|failure| Fault::new(format!("the engine can't be started: {failure}")))
}

/// The data folder for reading, which works while a server runs.
pub fn read_only(settings: &Settings) -> Result<SqliteTruth, Fault> {
    SqliteTruth::open_read_only(Path::new(&settings.server.data))
        .map_err(|error| Fault::new(error.to_string()))
}

/// Runs a short piece of work that needs a runtime.
pub fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Fault> {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => Ok(runtime.block_on(work)),
        Err(error) => Err(Fault::new(format!("the runtime can't be started: {error}"))),
    }
}
