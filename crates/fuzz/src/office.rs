//! A box office to knock at: the real router, middleware and engine, on rows in memory that are new for every request.

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request as HttpRequest, header};
use rowlock_api::{Api, ApiOptions, HttpLimits, JwtOptions, RateLimits};
use rowlock_core::booking::Booking;
use rowlock_core::hold::Hold;
use rowlock_core::org::{ApiKey, Org, Scopes};
use rowlock_core::seat::SeatState;
use rowlock_core::{BookingId, EventId, HoldId, KeyId, Name, OrgId, Request, SeatId, Stream, Time, UserId};
use rowlock_registry::{Engine, EngineOptions};
use rowlock_truth::read::{ActiveHold, EventPage, EventShape, EventSnapshot, JournalRow};
use rowlock_truth::verify::{Progress, Report};
use rowlock_truth::{Answer as Later, Committed, Failure, ReadResult, Truth};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;
use tower::Service;
use uuid::Uuid;

use crate::support::{START, invariants};
use crate::venue::Venue;

pub const SECRET: &[u8] = b"a secret that the fuzzer knows as well";
pub const ISSUER: &str = "issuer";
pub const AUDIENCE: &str = "audience";
/// An API key with every scope.
pub const KEY: &str = "rk_00000000000000000000000000000007_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

const KEY_ID: KeyId = KeyId::from_uuid(Uuid::from_u128(7));
/// More than any answer has.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

pub struct Office {
    runtime: Runtime,
    router: Router,
    desk: Arc<Desk>,
}

pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

thread_local! {
    static OFFICE: OnceCell<Office> = const { OnceCell::new() };
}

/// The answer to a request. Panics when it is one that nobody may get.
pub fn knock(request: HttpRequest<Body>) -> Answer {
    OFFICE.with(|office| office.get_or_init(Office::open).knock(request))
}

/// A request with the office's own key, on behalf of Ann, and JSON in it.
pub fn request(method: Method, target: &str, body: &[u8]) -> Option<HttpRequest<Body>> {
    let request = HttpRequest::builder()
        .method(method)
        .uri(target)
        .header(header::AUTHORIZATION, format!("Bearer {KEY}"))
        .header("rowlock-user", "ann")
        .header(header::CONTENT_TYPE, "application/json");
    request.body(Body::from(body.to_vec())).ok()
}

impl Office {
    fn open() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let desk = Arc::new(Desk { venue: Venue::new(), broken: Mutex::default() });
        let truth: Arc<dyn Truth> = Arc::<Desk>::clone(&desk);
        let engine = runtime.block_on(Engine::start(truth, EngineOptions::default())).expect("an engine");
        let options = ApiOptions {
            jwt: JwtOptions {
                issuer: ISSUER.into(),
                audience: AUDIENCE.into(),
                hs256_secret: Some(SECRET.to_vec()),
                jwks: None,
            },
            limits: HttpLimits::default(),
            rates: RateLimits { per_user_per_second: 0, per_key_per_second: 0, per_address_per_second: 0 },
            trusted_proxies: vec!["10.0.0.0/8".into()],
            metrics: None,
        };
        let router = Api::new(engine, options).expect("an API").router();
        Self { runtime, router, desk }
    }

    fn knock(&self, request: HttpRequest<Body>) -> Answer {
        let shown = format!("{} {}", request.method(), request.uri());
        let is_head = request.method() == Method::HEAD;
        let mut router = self.router.clone();
        let answer = self.runtime.block_on(async move {
            let response = router.call(request).await.expect("a router always answers");
            let (parts, body) = response.into_parts();
            let body = axum::body::to_bytes(body, MAX_ANSWER).await.expect("an answer has an end");
            (parts.status.as_u16(), parts.headers, body.to_vec())
        });
        let broken = self.desk.broken.lock().expect("nobody panics with it").take();
        assert_eq!(broken, None, "{shown}");
        let (status, headers, body) = answer;
        check(&shown, status, &headers, &body, is_head);
        Answer { status, body }
    }
}

/// What is true of every answer.
fn check(shown: &str, status: u16, headers: &HeaderMap, body: &[u8], is_head: bool) {
    let text = String::from_utf8_lossy(body);
    assert!(status < 500, "{shown}: {status} {text}");
    assert!(headers.contains_key("x-request-id"), "{shown}: no request id");
    if is_head || body.is_empty() {
        return;
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let zipped = headers.contains_key(header::CONTENT_ENCODING);
    if status >= 400 {
        assert_eq!(kind, "application/problem+json", "{shown}: {status} {text}");
        let problem: Value = serde_json::from_slice(body).expect("a problem is JSON");
        let code = problem["code"].as_str().unwrap_or_default();
        assert_eq!(problem["status"], status, "{shown}: {problem}");
        assert_eq!(problem["type"], format!("/docs/errors/{code}"), "{shown}: {problem}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{shown}: {problem}");
        assert!(problem["request_id"].is_string(), "{shown}: {problem}");
    } else if kind == "application/json" && !zipped {
        let read: Result<Value, _> = serde_json::from_slice(body);
        assert!(read.is_ok(), "{shown}: {status} {text}");
    }
}

/// A truth without a disk. What a request changes is forgotten behind it, so each input stands for itself.
struct Desk {
    venue: Venue,
    /// What went wrong behind the engine, which would answer for it instead of stopping.
    broken: Mutex<Option<String>>,
}

impl Desk {
    fn decide(&self, request: Request) -> Result<Committed, Failure> {
        let mut venue = Venue::new();
        let done = venue.world.send(request)?;
        if let Err(why) = invariants::rows(&venue.world.rows) {
            panic!("{why}");
        }
        Ok(Committed { outcome: done.outcome, replayed: done.replayed, facts: Vec::new() })
    }
}

fn now<T: Send + 'static>(value: T) -> Later<'static, ReadResult<T>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Truth for Desk {
    fn commit(&self, batch: Vec<Request>) -> Later<'_, Vec<Result<Committed, Failure>>> {
        let answers = batch.into_iter().map(|request| {
            let shown = format!("{:?}", request.command);
            catch_unwind(AssertUnwindSafe(|| self.decide(request))).unwrap_or_else(|panic| {
                let why = panic.downcast_ref::<String>().cloned();
                let why = why.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
                let why = format!("{shown}: {}", why.unwrap_or_default());
                *self.broken.lock().expect("nobody panics with it") = Some(why.clone());
                Err(Failure::Broken(why))
            })
        });
        Box::pin(std::future::ready(answers.collect::<Vec<_>>()))
    }

    fn seat_states(&self, _: EventId, seats: Vec<SeatId>) -> Later<'_, ReadResult<Vec<Option<SeatState>>>> {
        let state = |id| self.venue.world.rows.seats.get(id).map(|row| row.value.state);
        now(seats.iter().map(state).collect())
    }

    fn shape(&self, event: EventId) -> Later<'_, ReadResult<Option<EventShape>>> {
        let (org, seats) = (self.venue.org, self.venue.world.rows.seats.len() as u32);
        now((event == self.venue.event).then_some(EventShape { org, seats, blocks: 1, areas: 2 }))
    }

    fn org(&self, id: OrgId) -> Later<'_, ReadResult<Option<Org>>> {
        now(self.venue.world.rows.orgs.get(&id).cloned())
    }

    fn orgs(&self, after: Option<OrgId>, limit: usize) -> Later<'_, ReadResult<Vec<Org>>> {
        let orgs = self.venue.world.rows.orgs.values().filter(|org| Some(org.id) > after);
        now(orgs.take(limit).cloned().collect())
    }

    fn api_key(&self, id: KeyId) -> Later<'_, ReadResult<Option<ApiKey>>> {
        now((id == KEY_ID).then(|| self.key()))
    }

    fn api_keys(&self, _: OrgId, after: Option<KeyId>, _: usize) -> Later<'_, ReadResult<Vec<ApiKey>>> {
        now(if after < Some(KEY_ID) { vec![self.key()] } else { Vec::new() })
    }

    fn events(&self, _: OrgId, _: Option<EventId>, _: usize) -> Later<'_, ReadResult<EventPage>> {
        now(EventPage::default())
    }

    fn event(&self, id: EventId) -> Later<'_, ReadResult<Option<EventSnapshot>>> {
        now((id == self.venue.event).then(|| self.venue.snapshot()))
    }

    fn hold(&self, id: HoldId) -> Later<'_, ReadResult<Option<Hold>>> {
        now(self.venue.world.rows.holds.get(&id).map(|row| Hold::clone(&row.value)))
    }

    fn booking(&self, id: BookingId) -> Later<'_, ReadResult<Option<Booking>>> {
        now(self.venue.world.rows.bookings.get(&id).map(|row| row.value.clone()))
    }

    fn holds_of_user(
        &self,
        _: OrgId,
        user: UserId,
        after: Option<HoldId>,
        limit: usize,
    ) -> Later<'_, ReadResult<Vec<Hold>>> {
        let holds = self.venue.world.rows.holds.values().map(|row| &*row.value);
        let holds = holds.filter(|hold| hold.user == user && Some(hold.id) > after);
        now(holds.take(limit).cloned().collect())
    }

    fn journal(&self, _: Stream, _: u64, _: usize) -> Later<'_, ReadResult<Vec<JournalRow>>> {
        now(Vec::new())
    }

    fn active_holds(&self) -> Later<'_, ReadResult<Vec<ActiveHold>>> {
        now(Vec::new())
    }

    fn due_holds(&self, _: usize) -> Later<'_, ReadResult<Vec<ActiveHold>>> {
        now(Vec::new())
    }

    fn sweep_records(&self, _: usize) -> Later<'_, ReadResult<usize>> {
        now(0)
    }

    fn now(&self) -> Time {
        START
    }

    fn ping(&self) -> Later<'_, ReadResult<()>> {
        now(())
    }

    fn verify(&self, _: Progress) -> Later<'_, ReadResult<Report>> {
        now(Report::default())
    }

    fn close(&self) -> Later<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl Desk {
    fn key(&self) -> ApiKey {
        let (_, secret) = KEY.rsplit_once('_').expect("a key has parts");
        ApiKey {
            id: KEY_ID,
            org: self.venue.org,
            name: Name::new("fuzzer").expect("a name"),
            scopes: Scopes::all(),
            secret_hash: Sha256::digest(secret).into(),
            created_at: START,
            revoked_at: None,
        }
    }
}
