//! A server of its own for each test, and a client that checks every answer against the OpenAPI.

pub mod answer;
pub mod schema;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use answer::{Answer, Call};
use rowlock_api::{Api, ApiOptions, HttpLimits, JwtOptions, RateLimits, credential};
use rowlock_core::org::{Scope, Scopes};
use rowlock_core::{Actor, Command, Name, OrgId, Outcome, Request, UserId};
use rowlock_registry::{Engine, EngineOptions};
use rowlock_truth::sqlite::{SqliteOptions, SqliteTruth};
use serde_json::{Value, json};

pub const SECRET: &[u8] = b"a secret of more than thirty-two bytes";
pub const ISSUER: &str = "https://issuer.example";
pub const AUDIENCE: &str = "rowlock";

pub struct Server {
    pub url: String,
    pub engine: Engine,
    pub api: Api,
    pub org: OrgId,
    /// An API key with every scope.
    pub admin: String,
    client: reqwest::Client,
    _folder: tempfile::TempDir,
}

pub fn options() -> ApiOptions {
    ApiOptions {
        jwt: JwtOptions {
            issuer: ISSUER.into(),
            audience: AUDIENCE.into(),
            hs256_secret: Some(SECRET.to_vec()),
            jwks: None,
        },
        limits: HttpLimits::default(),
        rates: RateLimits { per_user_per_second: 0, per_key_per_second: 0, per_address_per_second: 0 },
        trusted_proxies: Vec::new(),
        metrics: None,
    }
}

impl Server {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut ApiOptions)) -> Self {
        Self::start_on(change, EngineOptions::default(), |api| api.router()).await
    }

    pub async fn start_on(
        change: impl FnOnce(&mut ApiOptions),
        engine_options: EngineOptions,
        router: impl FnOnce(&Api) -> axum::Router,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let truth = SqliteTruth::open(folder.path(), SqliteOptions::default()).unwrap();
        let engine = Engine::start(Arc::new(truth), engine_options).await.unwrap();
        let mut options = options();
        change(&mut options);
        let api = Api::new(engine.clone(), options).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = router(&api).into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
        let client = reqwest::Client::builder().no_gzip().build().unwrap();
        let org = new_org(&engine, "Opera").await;
        let admin = new_key(&engine, org, Scopes::all()).await;
        Self { url, engine, api, org, admin, client, _folder: folder }
    }

    pub fn call(&self, method: &str, path: &str) -> Call<'_> {
        Call::new(&self.client, &self.url, method, path)
    }

    pub fn get(&self, path: &str) -> Call<'_> {
        self.call("GET", path)
    }

    pub fn post(&self, path: &str, body: Value) -> Call<'_> {
        self.call("POST", path).json(&body)
    }

    pub fn delete(&self, path: &str) -> Call<'_> {
        self.call("DELETE", path)
    }

    /// A token with the scopes of a buyer.
    pub fn buyer(&self, user: &str) -> String {
        self.token(self.org, user, &[Scope::Read, Scope::Hold, Scope::Cancel])
    }

    pub fn token(&self, org: OrgId, user: &str, scopes: &[Scope]) -> String {
        let user = UserId::new(user).unwrap();
        let scopes = scopes.iter().copied().collect();
        let ttl = Duration::from_secs(600);
        credential::sign_token(SECRET, ISSUER, AUDIENCE, org, &user, scopes, ttl, self.engine.now())
    }

    pub async fn key(&self, scopes: &[Scope]) -> String {
        new_key(&self.engine, self.org, scopes.iter().copied().collect()).await
    }

    /// An event with two blocks of 2 × 3 seats and an area of ten places.
    pub async fn event(&self) -> Event {
        self.event_with(json!({})).await
    }

    pub async fn event_with(&self, policy: Value) -> Event {
        let event = self.empty_event(policy).await;
        let path = format!("/api/admin/events/{event}/seats");
        let section = |block: &str, tier: &str| {
            json!({
                "block": block, "rows": {"from": "A", "to": "B"}, "numbers": {"from": 1, "to": 3},
                "tier": tier, "x": 10, "y": 20.5, "seat_pitch": 2, "row_pitch": 3,
            })
        };
        let sections = json!({"sections": [section("Stalls", "gold"), section("Circle", "silver")]});
        self.post(&path, sections).with(&self.admin).send().await.expect(201);
        let area = json!({"name": "Lawn", "tier": "silver", "capacity": 10});
        let path = format!("/api/admin/events/{event}/areas");
        let area = self.post(&path, area).with(&self.admin).send().await.expect(201);
        let seats =
            self.get(&format!("/api/events/{event}/seats")).with(&self.admin).send().await.expect(200);
        let seats = seats["seats"].as_array().unwrap().iter().map(|seat| text(&seat["seat_id"])).collect();
        let shown = self.get(&format!("/api/events/{event}")).with(&self.admin).send().await.expect(200);
        let blocks =
            shown["blocks"].as_array().unwrap().iter().map(|block| text(&block["block_id"])).collect();
        Event { id: event, seats, area: text(&area["area_id"]), blocks }
    }

    pub async fn empty_event(&self, policy: Value) -> String {
        let body = json!({
            "name": "Tosca", "currency": "EUR", "policy": policy,
            "tiers": [{"code": "gold", "price": 9000}, {"code": "silver", "price": 4500}],
        });
        let event = self.post("/api/admin/events", body).with(&self.admin).send().await.expect(201);
        text(&event["event_id"])
    }

    /// Holds seats for a user and returns the hold.
    pub async fn hold(&self, event: &Event, user: &str, seats: &[usize]) -> Value {
        let body = event.wish(seats);
        self.post("/api/bookings/hold-seats", body).with(&self.buyer(user)).send().await.expect(201)
    }

    pub async fn book(&self, event: &Event, user: &str, seats: &[usize]) -> Value {
        let hold = self.hold(event, user, seats).await;
        let path = format!("/api/bookings/{}/confirm", text(&hold["hold_token"]));
        self.post(&path, json!({})).with(&self.buyer(user)).send().await.expect(201)
    }

    /// The journal's last sequence: what «nothing changed» is measured by.
    pub async fn sequence(&self, event: &str) -> u64 {
        let path = format!("/api/events/{event}/occupancy");
        self.get(&path).with(&self.admin).send().await.expect(200)["sequence"].as_u64().unwrap()
    }
}

pub struct Event {
    pub id: String,
    pub seats: Vec<String>,
    pub area: String,
    pub blocks: Vec<String>,
}

impl Event {
    pub fn path(&self, rest: &str) -> String {
        format!("/api/events/{}{rest}", self.id)
    }

    pub fn admin_path(&self, rest: &str) -> String {
        format!("/api/admin/events/{}{rest}", self.id)
    }

    pub fn wish(&self, seats: &[usize]) -> Value {
        let seats: Vec<&String> = seats.iter().map(|seat| &self.seats[*seat]).collect();
        json!({"event_id": self.id, "seat_ids": seats})
    }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

fn system(org: OrgId, command: Command) -> Request {
    Request { org, actor: Actor::System, request_id: Arc::from("test"), idempotency: None, command }
}

pub async fn new_org(engine: &Engine, name: &str) -> OrgId {
    let nobody = OrgId::from_uuid(uuid::Uuid::nil());
    let command = Command::CreateOrg { name: Name::new(name).unwrap() };
    match engine.execute(system(nobody, command)).await.unwrap().outcome {
        Outcome::Org(org) => org.id,
        other => panic!("{other:?}"),
    }
}

pub async fn new_key(engine: &Engine, org: OrgId, scopes: Scopes) -> String {
    let (secret, secret_hash) = credential::new_secret();
    let command = Command::CreateApiKey { name: Name::new("test").unwrap(), scopes, secret_hash };
    match engine.execute(system(org, command)).await.unwrap().outcome {
        Outcome::ApiKey(key) => credential::key_text(key.id, &secret),
        other => panic!("{other:?}"),
    }
}
