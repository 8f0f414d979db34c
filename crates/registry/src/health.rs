//! How the tiers are doing.

use std::time::Duration;

use rowlock_truth::Durability;

use crate::breaker::BreakerState;
use crate::engine::{Engine, Failure};

/// How often the truth is asked what its commits survive.
const ASK_EVERY: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct Health {
    /// Why commands can't be carried out now, if they can't.
    pub not_ready: Option<Failure>,
    /// `None` when it is not known.
    pub durability: Option<Durability>,
    /// The servers of the warm tier and their breakers. `None` when there is no warm tier.
    pub warm: Option<Vec<(String, BreakerState)>>,
    /// Whether the warm tier is away and the truth decides alone.
    pub degraded: bool,
    /// Commands waiting in the fullest lane, and how many may.
    pub lane_depth: (usize, usize),
    pub hot_events: usize,
}

pub(crate) async fn health(engine: &Engine) -> Health {
    let not_ready = engine.ready().await.err();
    let durability = match not_ready {
        None => engine.truth().durability().await.ok(),
        Some(_) => engine.durability().read().clone(),
    };
    Health {
        not_ready,
        durability,
        warm: engine.warm().map(|warm| warm.states()),
        degraded: engine.warm().is_some_and(|warm| !warm.is_up()),
        lane_depth: engine.lane_depth(),
        hot_events: engine.hot().len(),
    }
}

/// Says in the log when what a commit survives changes. Runs until the engine stops.
pub(crate) async fn watch(engine: Engine) {
    loop {
        if let Ok(found) = engine.truth().durability().await {
            let value = match &found {
                Durability::Weak { .. } => 0.0,
                Durability::Disk => 1.0,
                Durability::Standby { .. } => 2.0,
            };
            engine.metrics().durability.set(value);
            let before = engine.durability().write().replace(found.clone());
            if before.as_ref() != Some(&found) {
                match &found {
                    Durability::Weak { why } => {
                        tracing::warn!(why, "what is acknowledged may be lost when the store's machine is");
                    }
                    found => tracing::info!(durability = ?found, "what is acknowledged is safe"),
                }
            }
        }
        tokio::select! {
            biased;
            () = engine.stopping() => return,
            () = tokio::time::sleep(ASK_EVERY) => {}
        }
    }
}
