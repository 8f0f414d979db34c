//! An engine on a real SQLite truth in a folder of its own, and a truth that can be watched and stopped.

pub mod compare;
pub mod watched;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rowlock_core::hold::Hold;
use rowlock_core::seat::SeatStatus;
use rowlock_core::{EventId, Outcome, Refusal, Request};
use rowlock_registry::{Engine, EngineOptions, Failure, LiveEvent};
use rowlock_truth::Truth;
use rowlock_truth::conformance::stage::{Setup, Stage};
use rowlock_truth::sqlite::{SqliteOptions, SqliteTruth};
use tempfile::TempDir;
use watched::Watched;

/// How long a test waits for something that is certain to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// An engine that only the expiry set wakes: no sweep comes to its help while the test runs.
pub fn no_sweep() -> EngineOptions {
    EngineOptions { sweep_every: Duration::from_secs(3600), ..EngineOptions::default() }
}

pub struct House {
    pub folder: TempDir,
    pub truth: Arc<Watched>,
    pub engine: Engine,
    pub stage: Stage,
}

impl House {
    pub async fn new(setup: Setup) -> Self {
        Self::with(setup, no_sweep()).await
    }

    pub async fn with(setup: Setup, options: EngineOptions) -> Self {
        Self::on(setup, options, false).await
    }

    /// With an engine that takes its truth for one that it shares with others, and so goes by what it believes.
    pub async fn believing(setup: Setup) -> Self {
        Self::on(setup, no_sweep(), true).await
    }

    async fn on(setup: Setup, options: EngineOptions, is_shared: bool) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let truth = Arc::new(Watched::new(sqlite(folder.path().to_owned())));
        let stage = Stage::new(Arc::clone(&truth) as Arc<dyn Truth>, setup).await;
        truth.forget();
        truth.is_shared.store(is_shared, Ordering::Relaxed);
        let engine = Engine::start(Arc::clone(&truth) as Arc<dyn Truth>, options).await.expect("an engine");
        Self { folder, truth, engine, stage }
    }

    /// Stops the engine and starts another one on the same data.
    pub async fn restart(self, options: EngineOptions) -> Self {
        self.engine.stop().await;
        let truth = Arc::new(Watched::new(sqlite(self.folder.path().to_owned())));
        let engine = Engine::start(Arc::clone(&truth) as Arc<dyn Truth>, options).await.expect("an engine");
        let stage = Stage { truth: Arc::clone(&truth) as Arc<dyn Truth>, ..self.stage };
        Self { folder: self.folder, truth, engine, stage }
    }

    pub async fn held(&self, request: Request) -> Hold {
        hold_of(self.engine.execute(request).await)
    }

    pub async fn refused(&self, request: Request) -> Refusal {
        match self.engine.execute(request).await {
            Err(Failure::Refused(refusal)) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }

    pub async fn live(&self) -> Arc<LiveEvent> {
        self.live_event(self.stage.event).await
    }

    pub async fn live_event(&self, event: EventId) -> Arc<LiveEvent> {
        self.engine.event(self.stage.org, event).await.expect("the event")
    }

    /// What a map shows of a seat right now.
    pub async fn status(&self, seat: u32) -> SeatStatus {
        self.live().await.read().seat(seat).status
    }

    /// Ends the test: everything is in order, in the file and in memory.
    pub async fn close(self) {
        let live = self.live().await;
        compare::assert_is_as_stored(&live, &*self.truth).await;
        self.stage.assert_clean().await;
        self.engine.stop().await;
    }
}

pub fn sqlite(folder: PathBuf) -> Arc<dyn Truth> {
    Arc::new(SqliteTruth::open(&folder, SqliteOptions::default()).expect("the folder can be opened"))
}

pub fn hold_of(reply: Result<rowlock_registry::Reply, Failure>) -> Hold {
    match reply.expect("a hold").outcome {
        Outcome::Hold(outcome) => Hold::clone(&outcome.hold),
        other => panic!("not a hold: {other:?}"),
    }
}

/// Waits until something is so. Fails when it never is.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("it never came: {what}"));
}
