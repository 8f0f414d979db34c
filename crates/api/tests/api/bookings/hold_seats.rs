use rowlock_core::org::Scope;
use serde_json::json;

use crate::support::{Server, text};

#[tokio::test]
async fn a_hold_has_everything_that_was_asked_for() {
    let server = Server::start().await;
    let event = server.event().await;
    let mut wish = event.wish(&[0, 6]);
    wish["areas"] = json!([{"area_id": event.area, "quantity": 2}]);
    wish["cart_token"] = json!("cart-1");
    wish["source"] = json!("web");
    let answer = server.post("/api/bookings/hold-seats", wish).with(&server.buyer("ann")).send().await;
    let hold = answer.expect(201);
    assert_eq!(
        (&hold["user_id"], &hold["cart_token"], &hold["source"]),
        (&json!("ann"), &json!("cart-1"), &json!("web"))
    );
    assert_eq!((&hold["status"], &hold["event_id"]), (&json!("active"), &json!(event.id)));
    assert_eq!(hold["total"], json!({"amount": 9000 + 4500 + 2 * 4500, "currency": "EUR"}));
    let seat = &hold["seats"][0];
    assert_eq!(
        seat,
        &json!({"seat_id": event.seats[0], "label": "A-1", "block": "Stalls", "row": "A", "number": 1, "price": 9000})
    );
    assert_eq!(hold["seats"][1]["block"], "Circle");
    assert_eq!(hold["areas"], json!([{"area_id": event.area, "name": "Lawn", "quantity": 2, "price": 4500}]));
    assert!(hold.get("seconds_left").is_none() && hold.get("already_held").is_none());
    assert!(hold["expires_at"].as_str() < hold["max_expires_at"].as_str());
}

#[tokio::test]
async fn holding_it_again_is_the_same_hold() {
    let server = Server::start().await;
    let event = server.event().await;
    let hold = server.hold(&event, "ann", &[0, 1]).await;
    let before = server.sequence(&event.id).await;
    let again =
        server.post("/api/bookings/hold-seats", event.wish(&[1])).with(&server.buyer("ann")).send().await;
    let again = again.expect(200);
    assert_eq!((&again["hold_token"], &again["seats"]), (&hold["hold_token"], &hold["seats"]));
    assert_eq!(server.sequence(&event.id).await, before);
    let more =
        server.post("/api/bookings/hold-seats", event.wish(&[2])).with(&server.buyer("ann")).send().await;
    let more = more.expect(201);
    assert_eq!((&more["hold_token"], &more["expires_at"]), (&hold["hold_token"], &hold["expires_at"]));
    assert_eq!(more["seats"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_seat_in_another_cart_is_reported() {
    let server = Server::start().await;
    let event = server.event().await;
    let first = server.hold(&event, "ann", &[0]).await;
    let mut wish = event.wish(&[0, 1]);
    wish["cart_token"] = json!("second");
    let second =
        server.post("/api/bookings/hold-seats", wish).with(&server.buyer("ann")).send().await.expect(201);
    assert_eq!(second["seats"].as_array().unwrap().len(), 1);
    let already = &second["already_held"][0];
    assert_eq!((&already["seat_id"], &already["hold_token"]), (&json!(event.seats[0]), &first["hold_token"]));
    assert_eq!(already["cart_token"], "default");
}

#[tokio::test]
async fn taken_seats_are_named_and_nothing_is_held() {
    let server = Server::start().await;
    let event = server.event().await;
    server.hold(&event, "ann", &[1, 2]).await;
    let before = server.sequence(&event.id).await;
    let wish = event.wish(&[0, 1, 2]);
    let refused = server.post("/api/bookings/hold-seats", wish).with(&server.buyer("bob")).send().await;
    let problem = refused.refused(409, "seats_taken");
    assert_eq!(problem["conflicts"], json!([{"seat_id": event.seats[1]}, {"seat_id": event.seats[2]}]));
    assert_eq!(server.sequence(&event.id).await, before);
}

#[tokio::test]
async fn a_full_area_says_what_is_left() {
    let server = Server::start().await;
    let event = server.event().await;
    let wish = |quantity: u32| json!({"event_id": event.id, "areas": [{"area_id": event.area, "quantity": quantity}]});
    server.post("/api/bookings/hold-seats", wish(7)).with(&server.buyer("ann")).send().await.expect(201);
    let full = server.post("/api/bookings/hold-seats", wish(4)).with(&server.buyer("bob")).send().await;
    let problem = full.refused(409, "area_full");
    assert_eq!(problem["conflicts"], json!([{"area_id": event.area, "requested": 4, "left": 3}]));
}

#[tokio::test]
async fn a_backend_acts_for_its_user() {
    let server = Server::start().await;
    let event = server.event().await;
    let backend = server.key(&[Scope::Hold, Scope::ActAs]).await;
    let call = || server.post("/api/bookings/hold-seats", event.wish(&[0])).with(&backend);
    call().send().await.refused(403, "user_required");
    let hold = call().acting_for("Zoë 🎭").send().await.expect(201);
    assert_eq!(hold["user_id"], "Zoë 🎭");
    // The user with a token of their own is the same user.
    let path = format!("/api/bookings/hold/{}", text(&hold["hold_token"]));
    server.get(&path).with(&server.buyer("Zoë 🎭")).send().await.expect(200);
}

#[tokio::test]
async fn policies_and_blocked_seats_refuse() {
    let server = Server::start().await;
    let event = server.event_with(json!({"seats_per_user": 2})).await;
    let hold = |seats: &'static [usize]| {
        server.post("/api/bookings/hold-seats", event.wish(seats)).with(&server.buyer("ann")).send()
    };
    let problem = hold(&[0, 1, 2]).await.refused(409, "too_many_seats");
    assert_eq!(problem["conflicts"], json!([{"requested": 3, "limit": 2, "current": 0}]));
    let list = json!({"seat_ids": [event.seats[4]]});
    server.post(&event.admin_path("/seats/block"), list).with(&server.admin).send().await.expect(200);
    let problem = hold(&[4]).await.refused(409, "seats_blocked");
    assert_eq!(problem["conflicts"], json!([{"seat_id": event.seats[4]}]));
    let closed = server.event_with(json!({"sales_close_at": "2020-01-01T00:00:00Z"})).await;
    let late =
        server.post("/api/bookings/hold-seats", closed.wish(&[0])).with(&server.buyer("ann")).send().await;
    let problem = late.refused(409, "sales_not_open");
    assert_eq!(problem["conflicts"], json!([{"closes_at": "2020-01-01T00:00:00.000Z"}]));
}

#[tokio::test]
async fn strangers_in_the_list_are_named() {
    let server = Server::start().await;
    let (event, other) = (server.event().await, server.event().await);
    let wish = json!({"event_id": event.id, "seat_ids": [event.seats[0], other.seats[1]]});
    let refused = server.post("/api/bookings/hold-seats", wish).with(&server.buyer("ann")).send().await;
    let problem = refused.refused(404, "unknown_seats");
    assert_eq!(problem["conflicts"], json!([{"seat_id": other.seats[1]}]));
    let wish = json!({"event_id": event.id, "areas": [{"area_id": other.area, "quantity": 1}]});
    let refused = server.post("/api/bookings/hold-seats", wish).with(&server.buyer("ann")).send().await;
    assert_eq!(refused.refused(404, "unknown_area")["conflicts"], json!([{"area_id": other.area}]));
}
