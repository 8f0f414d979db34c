//! Endpoints in this process that are put under load.

use std::future::pending;
use std::time::Duration;

use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;
use rowlock::connections::{self, Limits};
use rowlock_api::{Api, ApiOptions, HttpLimits, JwtOptions, RateLimits, credential};
use rowlock_core::org::{Scope, Scopes};
use rowlock_core::{OrgId, Time, UserId};
use rowlock_registry::Engine;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::setup::Stage;

pub const HOLD: &str = "/api/bookings/hold-seats";
/// The route that does nothing. As long as the other and beside it, so that reading a request's head and finding its route cost the
/// same.
pub const EMPTY: &str = "/api/bookings/hold-empty";

const SECRET: &[u8] = b"a secret for the benchmark, long enough for HS256";
const ISSUER: &str = "bench";
const AUDIENCE: &str = "rowlock";
/// Longer than any benchmark.
const VALID: Duration = Duration::from_secs(24 * 3600);
const LIMITS: Limits = Limits {
    // Longer than a sale: a connection that nobody uses for a while must not be cut in the middle of it.
    header_timeout: Duration::from_secs(60),
    write_timeout: Duration::from_secs(10),
    max_connections: 10_000,
    drain: Duration::from_secs(1),
};

/// An endpoint. Dropping it ends it.
pub struct Serving {
    pub url: String,
    task: JoinHandle<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Rowlock's API on an engine, with more routes behind the same middleware.
pub async fn serve_api(engine: &Engine, more: Router) -> Serving {
    serve(api(engine, more, None)).await
}

/// The same as routes.
pub fn api(engine: &Engine, more: Router, metrics: Option<PrometheusHandle>) -> Router {
    // The benchmark wants the work of limiting rates, not its effect.
    let rates = RateLimits {
        per_user_per_second: 10_000_000,
        per_key_per_second: 10_000_000,
        per_address_per_second: 10_000_000,
    };
    let options = ApiOptions {
        jwt: JwtOptions {
            issuer: ISSUER.into(),
            audience: AUDIENCE.into(),
            hs256_secret: Some(SECRET.to_vec()),
            jwks: None,
        },
        limits: HttpLimits::default(),
        rates,
        trusted_proxies: Vec::new(),
        metrics,
    };
    let api = Api::new(engine.clone(), options).expect("the options are right");
    api.router_with(more)
}

/// Routes with the same handling of connections as Rowlock's.
pub async fn serve(router: Router) -> Serving {
    let (listener, url) = listen().await;
    let task = tokio::spawn(async move { _ = connections::serve(listener, router, LIMITS, pending()).await });
    Serving { url, task }
}

/// Routes as axum serves them by itself.
pub async fn serve_plain(router: Router) -> Serving {
    let (listener, url) = listen().await;
    let task = tokio::spawn(async move { _ = axum::serve(listener, router).await });
    Serving { url, task }
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    (listener, format!("http://{address}"))
}

pub fn token(stage: &Stage, user: &str) -> String {
    sign(stage.org, user, &[Scope::Read, Scope::Hold], stage.engine.now())
}

pub fn sign(org: OrgId, user: &str, scopes: &[Scope], now: Time) -> String {
    let user = UserId::new(user).expect("a user");
    let scopes: Scopes = scopes.iter().copied().collect();
    credential::sign_token(SECRET, ISSUER, AUDIENCE, org, &user, scopes, VALID, now)
}
