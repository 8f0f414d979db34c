//! Probes and metrics. They need no credential.

use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
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
}

/// The queue in front of the store.
#[derive(Serialize, ToSchema)]
pub struct LaneHealth {
    depth: usize,
    capacity: usize,
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
    json::respond(StatusCode::OK, &Health { status: "alive", lane: None })
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
    app.engine.ready().await?;
    let (depth, capacity) = app.engine.lane_depth();
    let lane = query.has("verbose").then_some(LaneHealth { depth, capacity });
    Ok(json::respond(StatusCode::OK, &Health { status: "ready", lane }))
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
    let mut response = Response::new(Body::from(prometheus.render()));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
