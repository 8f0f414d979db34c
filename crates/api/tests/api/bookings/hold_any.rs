use serde_json::{Value, json};

use crate::support::{Answer, Event, Server, text};

impl Event {
    /// So many seats of a block, 0 being the stalls.
    pub fn any(&self, block: usize, quantity: u32) -> Value {
        json!({"event_id": self.id, "block_id": self.blocks[block], "quantity": quantity})
    }
}

async fn hold_any(server: &Server, user: &str, wish: &Value) -> Answer {
    server.post("/api/bookings/hold-any", wish.clone()).with(&server.buyer(user)).send().await
}

fn labels(hold: &Value) -> Vec<String> {
    hold["seats"].as_array().unwrap().iter().map(|seat| text(&seat["label"])).collect()
}

#[tokio::test]
async fn any_seats_of_a_block_are_a_hold_like_every_other() {
    let server = Server::start().await;
    let event = server.event().await;
    server.hold(&event, "bob", &[1]).await;
    let mut wish = event.any(0, 2);
    wish["cart_token"] = json!("cart-1");
    wish["source"] = json!("web");
    let hold = hold_any(&server, "ann", &wish).await.expect(201);
    // A-1 is free, but it has no neighbour.
    assert_eq!(labels(&hold), ["B-1", "B-2"]);
    assert_eq!((&hold["cart_token"], &hold["source"]), (&json!("cart-1"), &json!("web")));
    assert_eq!(hold["total"], json!({"amount": 2 * 9000, "currency": "EUR"}));
    let path = format!("/api/bookings/{}/confirm", text(&hold["hold_token"]));
    server.post(&path, json!({})).with(&server.buyer("ann")).send().await.expect(201);
}

#[tokio::test]
async fn asking_again_is_the_same_hold_and_asking_for_more_adds_to_it() {
    let server = Server::start().await;
    let event = server.event().await;
    let hold = hold_any(&server, "ann", &event.any(0, 2)).await.expect(201);
    let before = server.sequence(&event.id).await;
    let again = hold_any(&server, "ann", &event.any(0, 2)).await.expect(200);
    assert_eq!((&again["hold_token"], &again["seats"]), (&hold["hold_token"], &hold["seats"]));
    assert_eq!(server.sequence(&event.id).await, before);
    let more = hold_any(&server, "ann", &event.any(0, 3)).await.expect(201);
    assert_eq!((&more["hold_token"], &more["expires_at"]), (&hold["hold_token"], &hold["expires_at"]));
    assert_eq!(labels(&more), ["A-1", "A-2", "A-3"]);
}

#[tokio::test]
async fn a_repeated_key_gets_the_recorded_answer() {
    let server = Server::start().await;
    let event = server.event().await;
    let send = |quantity| {
        let call = server.post("/api/bookings/hold-any", event.any(0, quantity));
        call.with(&server.buyer("ann")).header("idempotency-key", "one").send()
    };
    let hold = send(2).await.expect(201);
    let again = send(2).await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.expect(201)["hold_token"], hold["hold_token"]);
    send(3).await.refused(422, "idempotency_key_reused");
}

#[tokio::test]
async fn a_full_block_says_what_is_left() {
    let server = Server::start().await;
    let event = server.event().await;
    server.book(&event, "bob", &[0, 1, 2]).await;
    hold_any(&server, "ann", &event.any(0, 2)).await.expect(201);
    let before = server.sequence(&event.id).await;
    let problem = hold_any(&server, "cid", &event.any(0, 2)).await.refused(409, "block_full");
    assert_eq!(problem["conflicts"], json!([{"block_id": event.blocks[0], "requested": 2, "left": 1}]));
    assert_eq!(server.sequence(&event.id).await, before);
    hold_any(&server, "cid", &event.any(0, 1)).await.expect(201);
}

#[tokio::test]
async fn policies_and_strangers_refuse() {
    let server = Server::start().await;
    let (event, other) = (server.event_with(json!({"seats_per_user": 2})).await, server.event().await);
    hold_any(&server, "ann", &event.any(0, 3)).await.refused(409, "too_many_seats");
    let mut wish = event.any(0, 1);
    wish["block_id"] = json!(other.blocks[0]);
    hold_any(&server, "ann", &wish).await.refused(404, "unknown_block");
    let closed = server.event_with(json!({"sales_close_at": "2020-01-01T00:00:00Z"})).await;
    hold_any(&server, "ann", &closed.any(0, 1)).await.refused(409, "sales_not_open");
}
