//! One server under test, as a process of its own: so its processor time and its memory can be told from the client's.
//!
//! `rowlock-bench all` starts these. They say `ready` and a line of JSON when they can be asked.

use std::future::pending;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::Path as Segment;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use rowlock::telemetry;
use rowlock_core::{EventId, OrgId};
use rowlock_registry::{Engine, EngineOptions};
use rowlock_truth::sqlite::{SqliteOptions, SqliteTruth};
use serde::{Deserialize, Serialize};

use crate::literal;
use crate::servers::{Fallible, Node};
use crate::serving::{self, EMPTY, Serving};
use crate::setup::Stage;

/// How many bytes the hot tier has for an event.
pub const MEMORY: &str = "/bench/memory";
pub const READY: &str = "ready ";

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(clap::Subcommand)]
enum Kind {
    /// A route that does nothing, as axum serves it by itself.
    Bare,
    /// Rowlock on a data folder, and the route that does nothing behind the same middleware.
    Embedded {
        #[arg(long)]
        data: PathBuf,
        /// Made anew if not given.
        #[arg(long)]
        org: Option<OrgId>,
    },
    /// Rowlock on Postgres and Redis.
    Node {
        #[arg(long)]
        database: String,
        #[arg(long)]
        redis: String,
        #[arg(long)]
        org: Option<OrgId>,
    },
    /// The flow that people build themselves; without a Redis, the row's lock alone.
    Literal {
        #[arg(long)]
        database: String,
        #[arg(long)]
        redis: Option<String>,
        #[arg(long)]
        pool: usize,
    },
}

/// What a peer says of itself.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Ready {
    pub address: SocketAddr,
    /// Of Rowlock alone.
    pub org: Option<OrgId>,
}

pub async fn run(arguments: Arguments) -> Fallible<bool> {
    let (serving, org) = match arguments.kind {
        Kind::Bare => (serving::serve_plain(nothing()).await, None),
        Kind::Embedded { data, org } => {
            let metrics = telemetry::start().map_err(|fault| fault.to_string())?;
            api(embedded(&data).await?, org, metrics).await
        }
        Kind::Node { database, redis, org } => {
            let metrics = telemetry::start().map_err(|fault| fault.to_string())?;
            api(Node::start(database, redis).await?.engine, org, metrics).await
        }
        Kind::Literal { database, redis, pool } => {
            let options = literal::Options { pool, pipelined: false };
            (literal::serve(&database, redis.as_deref(), options).await?.0, None)
        }
    };
    let address = serving.url.trim_start_matches("http://").parse()?;
    println!("{READY}{}", serde_json::to_string(&Ready { address, org })?);
    pending::<()>().await;
    Ok(true)
}

async fn embedded(data: &Path) -> Fallible<Engine> {
    let truth = SqliteTruth::open(data, SqliteOptions::default())?;
    Ok(Engine::start(Arc::new(truth), EngineOptions::default()).await?)
}

type Handle = metrics_exporter_prometheus::PrometheusHandle;

async fn api(engine: Engine, org: Option<OrgId>, metrics: Handle) -> (Serving, Option<OrgId>) {
    let org = match org {
        Some(org) => org,
        None => Stage::on(engine.clone()).await.org,
    };
    tokio::spawn(telemetry::upkeep(metrics.clone()));
    let more = nothing().merge(memory(engine.clone(), org));
    (serving::serve(serving::api(&engine, more, Some(metrics))).await, Some(org))
}

fn nothing() -> Router {
    let answer = || async { (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], "{}") };
    Router::new().route(EMPTY, post(answer))
}

fn memory(engine: Engine, org: OrgId) -> Router {
    let answer = move |Segment(event): Segment<String>| async move {
        let Ok(event) = event.parse::<EventId>() else { return StatusCode::NOT_FOUND.into_response() };
        match engine.event(org, event).await {
            Ok(live) => live.read().bytes().to_string().into_response(),
            Err(_) => StatusCode::NOT_FOUND.into_response(),
        }
    };
    Router::new().route(&format!("{MEMORY}/{{event}}"), get(answer))
}
