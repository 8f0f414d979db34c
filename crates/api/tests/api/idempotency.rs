//! `Idempotency-Key`: one effect and one answer.

use serde_json::{Value, json};

use crate::support::{Answer, Event, Server, text};

async fn hold(server: &Server, user: &str, key: &str, body: Value) -> Answer {
    let call = server.post("/api/bookings/hold-seats", body).with(&server.buyer(user));
    call.header("idempotency-key", key).send().await
}

async fn start() -> (Server, Event) {
    let server = Server::start().await;
    let event = server.event().await;
    (server, event)
}

#[tokio::test]
async fn the_same_request_gets_the_same_answer() {
    let (server, event) = start().await;
    let first = hold(&server, "ann", "k1", event.wish(&[0])).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, ""));
    let path = format!("/api/bookings/hold/{}", text(&first.json()["hold_token"]));
    server.delete(&path).with(&server.buyer("ann")).send().await.expect(200);
    let before = server.sequence(&event.id).await;
    // Quoted or not, it is the same key; and what happened since does not change the answer.
    for key in ["k1", "\"k1\""] {
        let again = hold(&server, "ann", key, event.wish(&[0])).await;
        assert_eq!((again.status, again.header("idempotency-replayed")), (201, "true"));
        assert_eq!(again.bytes, first.bytes);
    }
    assert_eq!(server.sequence(&event.id).await, before);
}

#[tokio::test]
async fn another_request_is_refused_and_another_user_is_another_key() {
    let (server, event) = start().await;
    hold(&server, "ann", "k", event.wish(&[0])).await.expect(201);
    let before = server.sequence(&event.id).await;
    hold(&server, "ann", "k", event.wish(&[1])).await.refused(422, "idempotency_key_reused");
    let cancel = server.call("POST", "/api/bookings/0190a5f0-7c3e-7bbb-8a40-3d5c1f0e9a77/cancel");
    let other = cancel.with(&server.buyer("ann")).header("idempotency-key", "k").send().await;
    other.refused(422, "idempotency_key_reused");
    assert_eq!(server.sequence(&event.id).await, before);
    hold(&server, "bob", "k", event.wish(&[1])).await.expect(201);
}

#[tokio::test]
async fn a_refusal_is_not_recorded() {
    let (server, event) = start().await;
    let held = server.hold(&event, "bob", &[0]).await;
    hold(&server, "ann", "k", event.wish(&[0])).await.refused(409, "seats_taken");
    let path = format!("/api/bookings/hold/{}", text(&held["hold_token"]));
    server.delete(&path).with(&server.buyer("bob")).send().await.expect(200);
    hold(&server, "ann", "k", event.wish(&[0])).await.expect(201);
}

#[tokio::test]
async fn keys_that_are_none_are_refused() {
    let (server, event) = start().await;
    let before = server.sequence(&event.id).await;
    for key in ["", "a b", "\"open", &"x".repeat(129), "\"\"", "ü"] {
        let answer = hold(&server, "ann", key, event.wish(&[0])).await;
        assert_eq!(answer.refused(422, "invalid")["field"], "Idempotency-Key", "{key:?}");
    }
    let call = server.post("/api/bookings/hold-seats", event.wish(&[0])).with(&server.buyer("ann"));
    let twice = call.header("idempotency-key", "a").header("idempotency-key", "b").send().await;
    assert_eq!(twice.refused(422, "invalid")["field"], "Idempotency-Key");
    assert_eq!(server.sequence(&event.id).await, before);
    hold(&server, "ann", &"x".repeat(128), event.wish(&[0])).await.expect(201);
}

#[tokio::test]
async fn every_kind_of_post_replays() {
    let (server, event) = start().await;
    let held = server.hold(&event, "ann", &[0]).await;
    let token = text(&held["hold_token"]);
    let section = json!({"sections": [{
        "block": "X", "rows": {"from": 7, "to": 8}, "numbers": {"from": 1, "to": 1}, "tier": "gold",
    }]});
    let posts: Vec<(String, Value)> = vec![
        (format!("/api/bookings/hold/{token}/checkout"), json!({})),
        (format!("/api/bookings/hold/{token}/heartbeat"), json!({})),
        (format!("/api/bookings/{token}/confirm"), json!({"payment_reference": "p"})),
        ("/api/bookings".into(), event.wish(&[1])),
        ("/api/admin/orgs".into(), json!({"name": "New"})),
        ("/api/admin/keys".into(), json!({"name": "k", "scopes": ["read"]})),
        (
            "/api/admin/events".into(),
            json!({"name": "E", "currency": "EUR", "tiers": [{"code": "a", "price": 1}]}),
        ),
        (event.admin_path("/blocks"), json!({"name": "Box"})),
        (event.admin_path("/seats"), section),
        (event.admin_path("/areas"), json!({"name": "Pit", "tier": "gold", "capacity": 5})),
        (event.admin_path("/seats/block"), json!({"seat_ids": [event.seats[4]]})),
        (event.admin_path("/seats/unblock"), json!({"seat_ids": [event.seats[4]]})),
    ];
    for (i, (path, body)) in posts.into_iter().enumerate() {
        let send = || {
            let call = server.post(&path, body.clone()).with(&server.admin).acting_for("ann");
            call.header("idempotency-key", &format!("key-{i}")).send()
        };
        let first = send().await;
        assert!(first.status < 300, "{path}: {}", String::from_utf8_lossy(&first.bytes));
        let again = send().await;
        assert_eq!((again.status, again.header("idempotency-replayed")), (first.status, "true"), "{path}");
        let (mut first, again) = (first.json(), again.json());
        // A secret is shown once.
        if let Some(map) = first.as_object_mut() {
            map.remove("key");
        }
        if let Some(map) = first.get_mut("admin_key").and_then(Value::as_object_mut) {
            assert!(map.remove("key").is_some());
        }
        assert_eq!(first, again, "{path}");
    }
}
