//! The one layer around every route: request id, rate limits, credential, time-out, panics, problems, metrics, log.
//!
//! It is one function and not a stack of layers because a request passes it every time: each layer would cost a
//! clone of everything below it and an allocation.

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tracing::Instrument;

use crate::app::{App, Shared};
use crate::auth::{self, Caller};
use crate::error::{Problem, code};
use crate::rate::Standing;
use crate::request_id::{self, X_REQUEST_ID};

/// Who may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only with a credential.
    Credential,
    /// Anybody.
    Open,
    /// Anybody and as often as they like: probes must not fail because somebody else is loud.
    Probe,
}

#[derive(Clone)]
pub struct Gate {
    pub app: App,
    pub access: Access,
}

/// Not an `async fn`: that would keep a second place for all that it is given, and as many of these wait as there are requests.
pub fn gate(
    State(Gate { app, access }): State<Gate>,
    mut request: Request,
    next: Next,
) -> impl Future<Output = Response> {
    let began = Instant::now();
    let request_id = request_id::of(request.headers());
    let method = request.method().clone();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    async move {
        let route = matched.as_ref().map_or("unknown", MatchedPath::as_str);
        let span = tracing::debug_span!("request", request_id = &*request_id, %method, route);
        let mut measured = Measured { app: &app, route, method: &method, began, answered: None };
        let answered = answer(&app, access, &request_id, &mut request, next, began).instrument(span).await;
        let mut response = finish(answered, &request_id);
        if let Ok(value) = HeaderValue::from_str(&request_id) {
            response.headers_mut().insert(X_REQUEST_ID, value);
        }
        // Whoever keeps connections for later shall not find this one cut then.
        if app.draining.load(Ordering::Relaxed) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let (status, took) = (response.status(), began.elapsed());
        measured.answered = Some((status, took));
        drop(measured);
        if status.is_server_error() {
            tracing::warn!(request_id = &*request_id, %method, route, status = status.as_u16(), ?took, "request failed");
        } else {
            tracing::debug!(request_id = &*request_id, %method, route, status = status.as_u16(), ?took, "request");
        }
        response
    }
}

/// Records how long a request took when it is dropped, also when that is because the client has gone: those who do not wait
/// are those who would have waited longest.
struct Measured<'r> {
    app: &'r Shared,
    route: &'r str,
    method: &'r Method,
    began: Instant,
    answered: Option<(StatusCode, Duration)>,
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        let status = self.answered.map(|(status, _)| status);
        let took = self.answered.map_or_else(|| self.began.elapsed(), |(_, took)| took);
        self.app.http_metrics.record(self.route, self.method, status, took);
    }
}

async fn answer(
    app: &Shared,
    access: Access,
    request_id: &Arc<str>,
    // Taken where it goes on. Every function that has it by value keeps a place for it while it waits.
    request: &mut Request,
    next: Next,
    began: Instant,
) -> Response {
    let mut standing = None;
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let mut response = within_limits(
        app,
        request_id,
        began,
        pin!(async {
            match admit(app, access, request_id, request.headers(), peer, &mut standing).await {
                Ok(caller) => {
                    if let Some(caller) = caller {
                        request.extensions_mut().insert(caller);
                    }
                    next.run(std::mem::take(request)).await
                }
                Err(problem) => problem.render(request_id),
            }
        }),
    )
    .await;
    if let Some(standing) = standing {
        standing.note(response.headers_mut());
    }
    response
}

/// Lets a request in, or says why not. `noted` is the limit that the answer speaks of.
async fn admit<'a>(
    app: &'a Shared,
    access: Access,
    request_id: &Arc<str>,
    headers: &HeaderMap,
    peer: Option<IpAddr>,
    noted: &mut Option<Standing<'a>>,
) -> Result<Option<Caller>, Problem> {
    if access == Access::Probe {
        return Ok(None);
    }
    let mut pass = |standing: Option<Standing<'a>>| {
        let problem = standing.as_ref().and_then(Standing::problem);
        *noted = standing;
        problem.map_or(Ok(()), Err)
    };
    if let Some(peer) = peer {
        pass(app.rates.check_address(app.proxies.client(peer, headers)))?;
    }
    if access != Access::Credential {
        return Ok(None);
    }
    // With a credential the answer speaks of that one's limit alone.
    pass(None)?;
    let caller = auth::authenticate(app, headers, Arc::clone(request_id)).await?;
    pass(app.rates.check_caller(&caller))?;
    Ok(Some(caller))
}

/// Does the work within its time and survives its panics.
async fn within_limits(
    app: &Shared,
    request_id: &str,
    began: Instant,
    mut work: Pin<&mut impl Future<Output = Response>>,
) -> Response {
    let caught =
        poll_fn(|context| match std::panic::catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => std::task::Poll::Ready(Err(panic)),
        });
    match tokio::time::timeout_at((began + app.limits.request_timeout).into(), caught).await {
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            tracing::error!(request_id, panic = text, "a handler panicked");
            Problem::new(&code::INTERNAL, "the request failed; the log says why").render(request_id)
        }
        Err(_) => {
            let detail = "no answer in time; if the whole request had arrived, a change may still happen, so repeat with the same Idempotency-Key";
            Problem::new(&code::TIMEOUT, detail).render(request_id)
        }
    }
}

/// Gives errors their form, wherever below they come from.
fn finish(mut response: Response, request_id: &str) -> Response {
    if response.status().is_success() {
        return response;
    }
    let mut problem = response.extensions_mut().remove::<Problem>();
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        problem = problem.or_else(|| Some(Problem::method_not_allowed()));
    }
    if let Some(problem) = problem {
        problem.write(&mut response, request_id);
    }
    response
}

/// Everything that no route matches.
pub async fn unknown_route() -> Problem {
    Problem::new(&code::UNKNOWN_ROUTE, "there is nothing at this address; the routes are in /openapi.json")
}
