//! Every route × (no credential, another org's, a missing scope). A route that is not in the table fails the test.

use rowlock_core::org::{Scope, Scopes};
use serde_json::{Value, json};

use crate::support::schema::DOCUMENT;
use crate::support::{Event, Server, new_key, new_org, text};

/// What another org's credential with every scope gets.
enum Foreign {
    /// The thing does not exist.
    Unknown(&'static str),
    /// Its own things, and nothing of ours.
    OwnOnly,
}

struct Case {
    path: String,
    body: Option<Value>,
    foreign: Foreign,
}

struct World {
    event: Event,
    hold: String,
    booking: String,
    key: String,
}

impl World {
    async fn new(server: &Server) -> Self {
        let event = server.event().await;
        let booking = server.book(&event, "ann", &[5]).await;
        let hold = server.hold(&event, "ann", &[0, 1]).await;
        let body = json!({"name": "spare", "scopes": ["read"]});
        let key = server.post("/api/admin/keys", body).with(&server.admin).send().await.expect(201);
        Self {
            event,
            hold: text(&hold["hold_token"]),
            booking: text(&booking["booking_id"]),
            key: text(&key["key_id"]),
        }
    }

    fn case(&self, method: &str, template: &str) -> Option<Case> {
        use Foreign::{OwnOnly, Unknown};
        let (event, hold, booking) = (&self.event.id, &self.hold, &self.booking);
        let path = template
            .replace("{event_id}", event)
            .replace("{hold_token}", hold)
            .replace("{booking_id}", booking)
            .replace("{seat_id}", &self.event.seats[0])
            .replace("{key_id}", &self.key)
            .replace("{user_id}", "ann");
        let name = json!({"name": "Neu"});
        let seats = json!({"seat_ids": [self.event.seats[4]]});
        let section = json!({"sections": [{"block": "X", "rows": ["A"], "numbers": {"from": 1, "to": 1}, "tier": "gold"}]});
        let (body, foreign) = match (method, template) {
            ("post", "/api/bookings/hold-seats") | ("post", "/api/bookings") => {
                (Some(self.event.wish(&[4])), Unknown("unknown_event"))
            }
            ("post", "/api/bookings/hold-any") => (Some(self.event.any(0, 1)), Unknown("unknown_event")),
            (_, "/api/bookings/hold/{hold_token}")
            | ("post", "/api/bookings/hold/{hold_token}/checkout")
            | ("post", "/api/bookings/hold/{hold_token}/heartbeat")
            | ("post", "/api/bookings/{hold_token}/confirm") => (None, Unknown("unknown_hold")),
            ("get", "/api/bookings/{booking_id}") | ("post", "/api/bookings/{booking_id}/cancel") => {
                (None, Unknown("unknown_booking"))
            }
            ("get", "/api/events/{event_id}")
            | ("get", "/api/events/{event_id}/seats")
            | ("get", "/api/events/{event_id}/seats/{seat_id}")
            | ("get", "/api/events/{event_id}/occupancy")
            | ("get", "/api/admin/events/{event_id}/registry")
            | ("post", "/api/admin/events/{event_id}/registry/reconcile")
            | ("get", "/api/admin/events/{event_id}/journal") => (None, Unknown("unknown_event")),
            ("post", "/api/admin/orgs") => (Some(name), OwnOnly),
            // An operator of the installation sees all orgs by its office; ours are told apart by scope alone.
            ("get", "/api/admin/orgs") => return Some(Case { path, body: None, foreign: OwnOnly }),
            ("get", "/api/admin/org") | ("get", "/api/admin/keys") | ("get", "/api/admin/events") => {
                (None, OwnOnly)
            }
            ("post", "/api/admin/keys") => (Some(json!({"name": "k", "scopes": ["read"]})), OwnOnly),
            ("delete", "/api/admin/keys/{key_id}") => (None, Unknown("unknown_key")),
            ("post", "/api/admin/events") => {
                let tiers = json!([{"code": "a", "price": 1}]);
                (Some(json!({"name": "E", "currency": "EUR", "tiers": tiers})), OwnOnly)
            }
            ("post", "/api/admin/events/{event_id}/blocks") => (Some(name), Unknown("unknown_event")),
            ("post", "/api/admin/events/{event_id}/seats") => (Some(section), Unknown("unknown_event")),
            ("post", "/api/admin/events/{event_id}/seats/block")
            | ("post", "/api/admin/events/{event_id}/seats/unblock") => {
                (Some(seats), Unknown("unknown_event"))
            }
            ("post", "/api/admin/events/{event_id}/areas") => {
                (Some(json!({"name": "A", "tier": "gold", "capacity": 1})), Unknown("unknown_event"))
            }
            ("get", "/api/admin/users/{user_id}/holds") => (None, OwnOnly),
            _ => return None,
        };
        Some(Case { path, body, foreign })
    }
}

fn operations() -> Vec<(String, String, Vec<Scope>)> {
    let mut all = Vec::new();
    for (template, item) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if template.starts_with("/api/") {
                let scopes = operation["x-scopes"].as_array().unwrap();
                let scopes = scopes.iter().map(|scope| scope.as_str().unwrap().parse().unwrap()).collect();
                all.push((method.clone(), template.clone(), scopes));
            }
        }
    }
    all
}

fn call<'a>(server: &'a Server, method: &str, case: &Case) -> crate::support::Call<'a> {
    let call = server.call(&method.to_uppercase(), &case.path);
    match &case.body {
        Some(body) => call.json(body),
        None => call,
    }
}

#[tokio::test]
async fn every_route_is_guarded() {
    let server = Server::start().await;
    let world = World::new(&server).await;
    let other_org = new_org(&server.engine, "Stadium").await;
    let foreign_key = new_key(&server.engine, other_org, Scopes::all()).await;
    let before = server.sequence(&world.event.id).await;
    let ours = [server.org.to_string(), world.event.id.clone(), world.hold.clone(), world.key.clone()];
    for (method, template, scopes) in operations() {
        let what = format!("{method} {template}");
        let case = world.case(&method, &template).unwrap_or_else(|| panic!("{what} is not in the table"));

        call(&server, &method, &case).send().await.refused(401, "unauthenticated");

        let others = Scope::ALL.into_iter().filter(|scope| !scopes.contains(scope)).collect();
        let lacking = new_key(&server.engine, server.org, others).await;
        let refused = call(&server, &method, &case).with(&lacking).acting_for("ann").send().await;
        let problem = refused.refused(403, "missing_scope");
        assert!(scopes.iter().any(|scope| problem["scope"] == scope.as_str()), "{what}: {problem}");

        let answer = call(&server, &method, &case).with(&foreign_key).acting_for("ann").send().await;
        match case.foreign {
            Foreign::Unknown(code) => drop(answer.refused(404, code)),
            Foreign::OwnOnly if template == "/api/admin/orgs" && method == "get" => drop(answer.expect(200)),
            Foreign::OwnOnly => {
                assert!(answer.status < 300, "{what}: {}", answer.status);
                let shown = String::from_utf8(answer.bytes).unwrap();
                assert!(!ours.iter().any(|id| shown.contains(id)), "{what} shows what is ours: {shown}");
            }
        }
    }
    assert_eq!(server.sequence(&world.event.id).await, before, "something changed");
}

/// One of the documented scopes is enough, whatever else the credential lacks.
#[tokio::test]
async fn one_of_the_documented_scopes_is_enough() {
    let server = Server::start().await;
    let world = World::new(&server).await;
    for (method, template, scopes) in operations() {
        let case = world.case(&method, &template).unwrap();
        for scope in scopes {
            let key = server.key(&[scope, Scope::ActAs]).await;
            let answer = call(&server, &method, &case).with(&key).acting_for("ann").send().await;
            let granted = answer.status != 401
                && (answer.status != 403 || template == "/api/admin/keys" && method == "post");
            assert!(granted, "{method} {template} with {scope}: {}", String::from_utf8_lossy(&answer.bytes));
        }
    }
}

#[tokio::test]
async fn what_needs_no_credential_needs_none() {
    let server = Server::start().await;
    for path in ["/livez", "/readyz", "/openapi.json", "/docs/", "/docs/errors/invalid"] {
        assert_eq!(server.get(path).send().await.status, 200, "{path}");
    }
}
