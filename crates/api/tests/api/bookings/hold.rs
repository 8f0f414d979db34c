use rowlock_core::org::Scope;
use serde_json::json;

use crate::support::{Server, text};

#[tokio::test]
async fn the_owner_sees_the_seconds_left_and_others_do_not() {
    let server = Server::start().await;
    let event = server.event().await;
    let hold = server.hold(&event, "ann", &[0]).await;
    let path = format!("/api/bookings/hold/{}", text(&hold["hold_token"]));
    let seen = server.get(&path).with(&server.buyer("ann")).send().await.expect(200);
    let left = seen["seconds_left"].as_i64().unwrap();
    assert!((880..=900).contains(&left), "{left}");
    server.get(&path).with(&server.buyer("bob")).send().await.refused(403, "not_owner");
    // An admin sees everybody's, and a key with neither a user nor admin sees nobody's.
    server.get(&path).with(&server.admin).send().await.expect(200);
    let key = server.key(&[Scope::Hold]).await;
    server.get(&path).with(&key).send().await.refused(403, "user_required");
}

#[tokio::test]
async fn checkout_extends_once_and_heartbeats_to_the_end() {
    let server = Server::start().await;
    let policy = json!({"ttl_seconds": 100, "checkout_extension_seconds": 50, "heartbeat_seconds": 40, "max_hold_seconds": 200});
    let event = server.event_with(policy).await;
    let hold = server.hold(&event, "ann", &[0]).await;
    let path = |rest: &str| format!("/api/bookings/hold/{}{rest}", text(&hold["hold_token"]));
    let post = |rest: &str| server.call("POST", &path(rest)).with(&server.buyer("ann")).send();
    let checkout = post("/checkout").await.expect(200);
    assert!(
        checkout["expires_at"].as_str() > hold["expires_at"].as_str() && checkout["checkout_at"].is_string()
    );
    let again = post("/checkout").await.expect(200);
    assert_eq!(again["expires_at"], checkout["expires_at"]);
    assert!(post("/heartbeat").await.expect(200)["expires_at"].as_str() > checkout["expires_at"].as_str());
    let last = post("/heartbeat").await.expect(200);
    assert_eq!(last["expires_at"], last["max_expires_at"]);
    let problem = post("/heartbeat").await.refused(409, "extension_exhausted");
    assert_eq!(problem["conflicts"], json!([{"max_expires_at": last["max_expires_at"]}]));
    let other = server.call("POST", &path("/heartbeat")).with(&server.buyer("bob")).send().await;
    other.refused(403, "not_owner");
}

#[tokio::test]
async fn a_hold_is_released_seat_by_seat_and_as_a_whole() {
    let server = Server::start().await;
    let event = server.event().await;
    let hold = server.hold(&event, "ann", &[0, 1, 2]).await;
    let path = format!("/api/bookings/hold/{}", text(&hold["hold_token"]));
    let some = format!("{path}?seat_id={}&seat_id={}", event.seats[0], event.seats[1]);
    // Who says in a body what to release must not lose everything.
    let in_body = server.call("DELETE", &path).with(&server.buyer("ann")).body("{}".to_owned());
    in_body.send().await.refused(422, "invalid");
    let twice = format!("{path}?seat_id={0}&seat_id={0}", event.seats[0]);
    let twice = server.delete(&twice).with(&server.buyer("ann")).send().await;
    assert_eq!(twice.refused(422, "invalid")["detail"], "seat_id must not name a seat twice");
    let left = server.delete(&some).with(&server.buyer("ann")).send().await.expect(200);
    assert_eq!((left["seats"].as_array().unwrap().len(), &left["status"]), (1, &json!("active")));
    server.delete(&path).with(&server.buyer("bob")).send().await.refused(403, "not_owner");
    let gone = server.delete(&path).with(&server.buyer("ann")).send().await.expect(200);
    assert_eq!(gone["status"], "cancelled");
    let before = server.sequence(&event.id).await;
    server.delete(&path).with(&server.buyer("ann")).send().await.expect(200);
    assert_eq!(server.sequence(&event.id).await, before);
    let checkout = server.call("POST", &format!("{path}/checkout")).with(&server.buyer("ann")).send().await;
    checkout.refused(410, "hold_released");
    server.hold(&event, "bob", &[0, 1, 2]).await;
}

#[tokio::test]
async fn an_expired_hold_is_gone() {
    let server = Server::start().await;
    let event = server.event_with(json!({"ttl_seconds": 1, "max_hold_seconds": 1})).await;
    let hold = server.hold(&event, "ann", &[0]).await;
    let token = text(&hold["hold_token"]);
    let path = format!("/api/bookings/hold/{token}");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let expired = loop {
        let seen = server.get(&path).with(&server.buyer("ann")).send().await.expect(200);
        if seen["status"] != "active" {
            break seen;
        }
        assert!(std::time::Instant::now() < deadline, "the hold does not end");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!((&expired["status"], &expired["seconds_left"]), (&json!("expired"), &json!(0)));
    let confirm = format!("/api/bookings/{token}/confirm");
    server.call("POST", &confirm).with(&server.buyer("ann")).send().await.refused(410, "hold_expired");
    server.hold(&event, "bob", &[0]).await;
}

#[tokio::test]
async fn unknown_holds_do_not_exist() {
    let server = Server::start().await;
    let path = "/api/bookings/hold/0190a5f0-7c3e-7bbb-8a40-3d5c1f0e9a77";
    server.get(path).with(&server.buyer("ann")).send().await.refused(404, "unknown_hold");
    server.delete(path).with(&server.buyer("ann")).send().await.refused(404, "unknown_hold");
}
