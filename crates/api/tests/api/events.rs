//! `/api/events/{event_id}` and its occupancy.

use serde_json::json;

use crate::support::Server;

#[tokio::test]
async fn an_event_is_shown_whole() {
    let server = Server::start().await;
    let event =
        server.event_with(json!({"seats_per_user": 4, "sales_open_at": "2020-01-01T00:00:00+02:00"})).await;
    let seen = server.get(&event.path("")).with(&server.buyer("ann")).send().await.expect(200);
    assert_eq!(
        (&seen["name"], &seen["currency"], &seen["seat_count"]),
        (&json!("Tosca"), &json!("EUR"), &json!(12))
    );
    assert_eq!(seen["tiers"][0], json!({"code": "gold", "price": 9000}));
    assert_eq!(seen["policy"]["sales_open_at"], "2019-12-31T22:00:00.000Z");
    assert_eq!((&seen["policy"]["ttl_seconds"], &seen["policy"]["seats_per_user"]), (&json!(900), &json!(4)));
    assert_eq!(seen["on_sale"], true);
    let blocks: Vec<_> = seen["blocks"].as_array().unwrap().iter().map(|block| &block["name"]).collect();
    assert_eq!(blocks, ["Stalls", "Circle"]);
    let area = &seen["areas"][0];
    assert_eq!(area["area_id"], event.area);
    assert_eq!(
        (&area["tier"], &area["price"], &area["capacity"]),
        (&json!("silver"), &json!(4500), &json!(10))
    );
}

#[tokio::test]
async fn occupancy_counts_everything() {
    let server = Server::start().await;
    let event = server.event().await;
    server.book(&event, "ann", &[0]).await;
    let mut wish = event.wish(&[1, 6]);
    wish["areas"] = json!([{"area_id": event.area, "quantity": 4}]);
    server.post("/api/bookings/hold-seats", wish).with(&server.buyer("bob")).send().await.expect(201);
    let list = json!({"seat_ids": [event.seats[2]]});
    server.post(&event.admin_path("/seats/block"), list).with(&server.admin).send().await.expect(200);
    let seen = server.get(&event.path("/occupancy")).with(&server.buyer("ann")).send().await.expect(200);
    let counts = |value: &serde_json::Value| {
        ["available", "held", "sold", "blocked", "total"].map(|name| value[name].as_u64().unwrap())
    };
    assert_eq!(counts(&seen), [14, 6, 1, 1, 22]);
    assert_eq!(seen["percentages"], json!({"available": 63.6, "held": 27.3, "sold": 4.5, "blocked": 4.5}));
    assert_eq!(counts(&seen["blocks"][0]["seats"]), [3, 1, 1, 1, 6]);
    assert_eq!(counts(&seen["blocks"][1]["seats"]), [5, 1, 0, 0, 6]);
    assert_eq!(counts(&seen["areas"][0]["places"]), [6, 4, 0, 0, 10]);
    assert_eq!(seen["areas"][0]["places"]["percentages"]["held"], 40.0);
    let empty = server.empty_event(json!({})).await;
    let path = format!("/api/events/{empty}/occupancy");
    let seen = server.get(&path).with(&server.admin).send().await.expect(200);
    assert_eq!(counts(&seen), [0; 5]);
    assert_eq!(seen["percentages"]["available"], 0.0);
}
