//! Probes and metrics. They need no credential.

use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use rowlock_registry::breaker::BreakerState;
use rowlock_truth::Durability;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::error::{Problem, code};
use crate::extract::Query;
use crate::json;
use crate::middleware::unknown_route;

#[derive(Serialize, ToSchema)]
pub struct Health {
    #[schema(example = "ready")]
    status: &'static str,
    /// With `?verbose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lane: Option<LaneHealth>,
    /// With `?verbose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    truth: Option<TruthHealth>,
    /// With `?verbose`: Redis. Absent when the server runs without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    warm: Option<WarmHealth>,
    /// With `?verbose`: events in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    hot_events: Option<usize>,
}

impl Health {
    fn brief(status: &'static str) -> Self {
        Self { status, lane: None, truth: None, warm: None, hot_events: None }
    }
}

/// The queue in front of the store: the fullest one.
#[derive(Serialize, ToSchema)]
pub struct LaneHealth {
    depth: usize,
    capacity: usize,
}

#[derive(Serialize, ToSchema)]
pub struct TruthHealth {
    /// What an acknowledged commit survives: `disk` (crash and power failure), `standby` (the loss of the machine
    /// too), `weak` (less), or `unknown`.
    #[schema(example = "disk")]
    durability: &'static str,
    /// Why it is weak.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    warning: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct WarmHealth {
    /// Whether Redis is away and the truth decides alone.
    degraded: bool,
    servers: Vec<WarmServer>,
}

#[derive(Serialize, ToSchema)]
pub struct WarmServer {
    server: String,
    /// `closed` is well, `open` is away, `probing` is being tried.
    #[schema(example = "closed")]
    breaker: &'static str,
}

impl From<rowlock_registry::health::Health> for Health {
    fn from(health: rowlock_registry::health::Health) -> Self {
        let (durability, warning) = match health.durability {
            Some(Durability::Disk) => ("disk", None),
            Some(Durability::Standby { .. }) => ("standby", None),
            Some(Durability::Weak { why }) => ("weak", Some(why)),
            None => ("unknown", None),
        };
        let breaker = |state| match state {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::Probing => "probing",
        };
        let server = |(server, state)| WarmServer { server, breaker: breaker(state) };
        let degraded = health.degraded;
        Health {
            status: "ready",
            lane: Some(LaneHealth { depth: health.lane_depth.0, capacity: health.lane_depth.1 }),
            truth: Some(TruthHealth { durability, warning }),
            warm: health
                .warm
                .map(|servers| WarmHealth { degraded, servers: servers.into_iter().map(server).collect() }),
            hot_events: Some(health.hot_events),
        }
    }
}

/// The process is alive. Nothing else is checked.
#[utoipa::path(
    get,
    path = "/livez",
    tag = "operations",
    responses((status = 200, description = "Alive.", body = Health)),
    extensions(("x-problems" = json!([]))),
)]
pub async fn livez() -> Response {
    json::respond(StatusCode::OK, &Health::brief("alive"))
}

/// Requests can be served: the store answers and the server is not stopping.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    params(("verbose" = Option<String>, Query, description = "Say more. Any value.", allow_reserved)),
    responses((status = 200, description = "Ready.", body = Health)),
    extensions(("x-problems" = json!(["invalid", "stopping", "unavailable"]))),
)]
pub async fn readyz(State(app): State<App>, query: Query) -> Result<Response, Problem> {
    let query = query.only(&["verbose"])?;
    if app.draining.load(Ordering::Relaxed) {
        return Err(Problem::new(&code::STOPPING, "the server is stopping; ask another one"));
    }
    if !query.has("verbose") {
        app.engine.ready().await?;
        return Ok(json::respond(StatusCode::OK, &Health::brief("ready")));
    }
    let mut health = app.engine.health().await;
    if let Some(failure) = health.not_ready.take() {
        return Err(failure.into());
    }
    Ok(json::respond(StatusCode::OK, &Health::from(health)))
}

/// Metrics in Prometheus' text format.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain")),
    extensions(("x-problems" = json!(["unknown_route"]))),
)]
pub async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let Some(prometheus) = &app.prometheus else { return Err(unknown_route().await) };
    // Without its own listener the exporter does not tidy its histograms by itself.
    prometheus.run_upkeep();
    app.engine.observe();
    let mut response = Response::new(Body::from(prometheus.render()));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
