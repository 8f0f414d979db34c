//! Opening the truth, with errors that say what to do.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use rowlock_registry::Engine;
use rowlock_registry::warm::{Warm, WarmError};
use rowlock_truth::Truth;
use rowlock_truth::postgres::{PostgresError, PostgresTruth};
use rowlock_truth::sqlite::{OpenError, SqliteTruth};

use crate::config::Origins;
use crate::fault::Fault;
use crate::files;
use crate::settings::Settings;

/// The truth, made if need be. `in_use` is what to do when another process has the data folder.
pub async fn open(settings: &Settings, origins: &Origins, in_use: &str) -> Result<Arc<dyn Truth>, Fault> {
    let data = Path::new(&settings.server.data);
    files::prepare_folder(data)?;
    Ok(match settings.postgres() {
        Some(options) => {
            Arc::new(PostgresTruth::open(options).await.map_err(|error| of_postgres(error, origins))?)
        }
        None => {
            let opened = SqliteTruth::open(data, settings.store_options()).map_err(|error| match error {
                OpenError::InUse { .. } => Fault::new(format!("{error}. {in_use}")),
                error => Fault::new(error.to_string()),
            });
            Arc::new(opened?)
        }
    })
}

/// An engine on the truth.
pub async fn engine(settings: &Settings, origins: &Origins, truth: Arc<dyn Truth>) -> Result<Engine, Fault> {
    let warm = match settings.warm() {
        Some(options) => Some(Warm::connect(options).await.map_err(|error| of_redis(error, origins))?),
        None => None,
    };
    Engine::start_with(truth, warm, settings.engine_options())
        .await
        .map_err(|failure| Fault::new(format!("the engine can't be started: {failure}")))
}

/// The truth as it is: nothing is made or changed in it to open it. The embedded one is for reading only, which works while a
/// server runs.
pub async fn existing(settings: &Settings, origins: &Origins) -> Result<Arc<dyn Truth>, Fault> {
    match settings.postgres() {
        Some(options) => {
            let truth = PostgresTruth::open_existing(options).await;
            Ok(Arc::new(truth.map_err(|error| of_postgres(error, origins))?))
        }
        None => {
            let truth = SqliteTruth::open_read_only(Path::new(&settings.server.data));
            Ok(Arc::new(truth.map_err(|error| Fault::new(error.to_string()))?))
        }
    }
}

/// Why Postgres can't be used, and who named it.
pub fn of_postgres(error: PostgresError, origins: &Origins) -> Fault {
    let key = match error {
        PostgresError::Certificate { .. } => "store.ca_file",
        _ => "store.truth",
    };
    origins.unusable(key, &error)
}

fn of_redis(error: WarmError, origins: &Origins) -> Fault {
    let key = match error {
        WarmError::Certificate { .. } => "redis.ca_file",
        _ => "redis.urls",
    };
    origins.unusable(key, &error)
}

/// What to call the truth in a message.
pub fn name(settings: &Settings) -> &str {
    if settings.store.truth.is_empty() { &settings.server.data } else { "Postgres" }
}

/// Runs a short piece of work that needs a runtime.
pub fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Fault> {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => Ok(runtime.block_on(work)),
        Err(error) => Err(Fault::new(format!("the runtime can't be started: {error}"))),
    }
}
