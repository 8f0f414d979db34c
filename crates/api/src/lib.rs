//! The only crate that knows HTTP and wire JSON.
//!
//! [`routes`] lists every route; the files are named as the URLs are. A request passes [`middleware`], is taken apart
//! by [`extract`] and answered by its handler with a view or a [`error::Problem`].

mod admin;
mod app;
mod auth;
mod bookings;
mod chunks;
pub mod credential;
mod docs;
pub mod error;
mod events;
mod extract;
mod health;
mod http_metrics;
mod json;
pub mod limits;
mod list;
mod middleware;
mod occupancy;
mod openapi;
mod options;
mod pages;
mod proxy;
mod rate;
mod request_id;
mod routes;
mod seats;
mod timestamp;
mod wire;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::middleware::from_fn_with_state;
use rowlock_registry::Engine;

pub use options::{ApiOptions, HttpLimits, JwtOptions, OptionsError, RateLimits};
/// For the command line, so that it accepts what the API accepts.
pub use wire::FromText;

use app::{App, Shared};
use middleware::{Access, Gate, gate, unknown_route};

/// The API on top of an engine.
#[derive(Clone)]
pub struct Api {
    app: App,
}

impl Api {
    pub fn new(engine: Engine, options: ApiOptions) -> Result<Self, OptionsError> {
        Ok(Self { app: Arc::new(Shared::new(engine, options)?) })
    }

    pub fn router(&self) -> Router {
        self.router_with(Router::new())
    }

    /// The router with more routes behind exactly the same middleware. For the benchmark, which compares with them.
    pub fn router_with(&self, extra: Router) -> Router {
        let app = &self.app;
        let layer = |access| from_fn_with_state(Gate { app: Arc::clone(app), access }, gate);
        let (guarded, _) = routes::guarded().split_for_parts();
        let (probes, _) = routes::probes().split_for_parts();
        let extra: Router<App> = extra.with_state(());
        let guarded = guarded.merge(extra).layer(layer(Access::Credential));
        let open = docs::router().fallback(unknown_route).layer(layer(Access::Open));
        let probes = probes.layer(layer(Access::Probe));
        open.merge(guarded).merge(probes).with_state(Arc::clone(app))
    }

    /// From now on `/readyz` says no. Everything else goes on.
    pub fn drain(&self) {
        self.app.draining.store(true, Ordering::Relaxed);
    }
}

/// The OpenAPI document, the same text every time.
pub fn openapi_json() -> String {
    openapi::text()
}
