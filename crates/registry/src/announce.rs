//! Telling other nodes what this one has committed.

use rowlock_core::{Fact, Stream};
use tokio::sync::mpsc;

use crate::engine::Engine;

/// Batches whose news are gathered into one.
const MAX_GATHERED: usize = 64;

/// Runs until the engine has stopped and everything is told.
pub(crate) async fn announce(engine: Engine, mut batches: mpsc::Receiver<Vec<(u64, Fact)>>) {
    let mut gathered = Vec::new();
    loop {
        tokio::select! {
            biased;
            taken = batches.recv_many(&mut gathered, MAX_GATHERED) => if taken == 0 { return },
            () = engine.stopping() => return,
        }
        let mut streams: Vec<Stream> = gathered.drain(..).flatten().map(|(_, fact)| fact.stream()).collect();
        streams.sort_unstable();
        streams.dedup();
        if let Err(error) = engine.truth().tell(streams).await {
            tracing::debug!(%error, "other nodes could not be told of a commit");
        }
    }
}
