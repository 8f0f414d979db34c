use rowlock_core::org::Scope;
use serde_json::json;

use crate::support::{Server, text};

#[tokio::test]
async fn a_hold_becomes_one_booking() {
    let server = Server::start().await;
    let event = server.event().await;
    let mut wish = event.wish(&[0]);
    wish["areas"] = json!([{"area_id": event.area, "quantity": 2}]);
    let buyer = server.buyer("ann");
    let hold = server.post("/api/bookings/hold-seats", wish).with(&buyer).send().await.expect(201);
    let path = format!("/api/bookings/{}/confirm", text(&hold["hold_token"]));
    let body = json!({"payment_reference": "pi_123"});
    let booking = server.post(&path, body.clone()).with(&buyer).send().await.expect(201);
    assert_eq!(booking["total"], hold["total"]);
    assert_eq!((&booking["status"], &booking["payment_reference"]), (&json!("confirmed"), &json!("pi_123")));
    assert_eq!(booking["reference"].as_str().unwrap().len(), 11);
    let tickets = booking["tickets"].as_array().unwrap();
    assert_eq!(tickets.len(), 3);
    assert_eq!((&tickets[0]["seat_id"], &tickets[0]["label"]), (&json!(event.seats[0]), &json!("A-1")));
    let place = [&tickets[0]["block"], &tickets[0]["row"], &tickets[0]["number"]];
    assert_eq!(place, [&json!("Stalls"), &json!("A"), &json!(1)], "another block may have an A-1 too");
    assert_eq!(tickets[2].get("block"), None);
    assert_eq!((&tickets[2]["area_id"], &tickets[2]["label"]), (&json!(event.area), &json!("Lawn")));
    assert_eq!(server.post(&path, body).with(&buyer).send().await.expect(200), booking);
    let seen = format!("/api/bookings/{}", text(&booking["booking_id"]));
    assert_eq!(server.get(&seen).with(&buyer).send().await.expect(200), booking);
    assert_eq!(server.get(&seen).with(&server.admin).send().await.expect(200), booking);
    server.get(&seen).with(&server.buyer("bob")).send().await.refused(403, "not_owner");
    let hold_path = format!("/api/bookings/hold/{}", text(&hold["hold_token"]));
    let problem = server.delete(&hold_path).with(&buyer).send().await.refused(409, "hold_confirmed");
    assert_eq!(problem["conflicts"], json!([{"booking_id": booking["booking_id"]}]));
    let converted = server.get(&hold_path).with(&buyer).send().await.expect(200);
    assert_eq!(
        (&converted["status"], &converted["booking_id"]),
        (&json!("converted"), &booking["booking_id"])
    );
}

#[tokio::test]
async fn a_cancelled_booking_gives_its_seats_back_once() {
    let server = Server::start().await;
    let event = server.event().await;
    let booking = server.book(&event, "ann", &[0, 1]).await;
    let path = format!("/api/bookings/{}/cancel", text(&booking["booking_id"]));
    server.call("POST", &path).with(&server.buyer("bob")).send().await.refused(403, "not_owner");
    let key = server.key(&[Scope::Cancel]).await;
    server.call("POST", &path).with(&key).send().await.refused(403, "user_required");
    let cancelled = server.call("POST", &path).with(&server.buyer("ann")).send().await.expect(200);
    assert_eq!(cancelled["status"], "cancelled");
    assert!(cancelled["cancelled_at"].is_string());
    let before = server.sequence(&event.id).await;
    // The org itself may cancel any booking; this one is cancelled already.
    assert_eq!(server.call("POST", &path).with(&server.admin).send().await.expect(200), cancelled);
    assert_eq!(server.sequence(&event.id).await, before);
    server.hold(&event, "bob", &[0, 1]).await;
    let confirm = format!("/api/bookings/{}/confirm", text(&booking["hold_token"]));
    let again = server.call("POST", &confirm).with(&server.buyer("ann")).send().await;
    let conflicts = &again.refused(409, "already_cancelled")["conflicts"];
    assert_eq!(conflicts, &json!([{"booking_id": booking["booking_id"]}]));
}

#[tokio::test]
async fn a_box_office_sells_in_one_step() {
    let server = Server::start().await;
    let event = server.event().await;
    let office = server.key(&[Scope::Book, Scope::ActAs]).await;
    let mut wish = event.wish(&[3]);
    wish["payment_reference"] = json!("cash");
    let sell = || server.post("/api/bookings", wish.clone()).with(&office);
    sell().send().await.refused(403, "user_required");
    let booking = sell().acting_for("walk-in").send().await.expect(201);
    assert_eq!((&booking["user_id"], &booking["payment_reference"]), (&json!("walk-in"), &json!("cash")));
    let problem = sell().acting_for("other").send().await.refused(409, "seats_taken");
    assert_eq!(problem["conflicts"], json!([{"seat_id": event.seats[3]}]));
    let mut wish = event.wish(&[4]);
    wish["cart_token"] = json!("c");
    let refused = server.post("/api/bookings", wish).with(&office).acting_for("a").send().await;
    assert_eq!(refused.refused(422, "invalid")["field"], "cart_token");
}

#[tokio::test]
async fn unknown_bookings_do_not_exist() {
    let server = Server::start().await;
    let path = "/api/bookings/0190a5f0-7c3e-7bbb-8a40-3d5c1f0e9a77";
    server.get(path).with(&server.buyer("ann")).send().await.refused(404, "unknown_booking");
    let cancel = server.call("POST", &format!("{path}/cancel")).with(&server.buyer("ann")).send().await;
    cancel.refused(404, "unknown_booking");
    let confirm = server.call("POST", &format!("{path}/confirm")).with(&server.buyer("ann")).send().await;
    confirm.refused(404, "unknown_hold");
}

/// Who may sell or cancel may see what they have sold, each user's own.
#[tokio::test]
async fn a_box_office_sees_what_it_has_sold() {
    let server = Server::start().await;
    let event = server.event().await;
    let booking = server.book(&event, "ann", &[0]).await;
    let path = format!("/api/bookings/{}", text(&booking["booking_id"]));
    for scope in [Scope::Book, Scope::Cancel] {
        let of = |user| server.token(server.org, user, &[scope]);
        assert_eq!(server.get(&path).with(&of("ann")).send().await.expect(200), booking);
        server.get(&path).with(&of("bob")).send().await.refused(403, "not_owner");
    }
    let reader = server.token(server.org, "ann", &[Scope::Read]);
    server.get(&path).with(&reader).send().await.refused(403, "missing_scope");
}
