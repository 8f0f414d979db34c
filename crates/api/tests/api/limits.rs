//! Every limit, and what is not a value: a clear 4xx that names the field, and nothing changed.

use rowlock_api::limits::MAX_CREDENTIAL_BYTES;
use serde_json::{Value, json};

use crate::support::{Event, Server};

const ID: &str = "0190a5f0-7c3e-7bbb-8a40-3d5c1f0e9a77";

/// Posts each body and expects it to be refused with this field.
async fn all_refused(server: &Server, event: &Event, path: &str, cases: Vec<(Value, &str)>) {
    let before = server.sequence(&event.id).await;
    for (body, field) in cases {
        let answer = server.post(path, body.clone()).with(&server.admin).acting_for("ann").send().await;
        let problem = answer.refused(422, "invalid");
        assert_eq!(problem["field"], field, "{body} → {problem}");
        assert!(problem["detail"].as_str().unwrap().starts_with(field), "{problem}");
    }
    assert_eq!(server.sequence(&event.id).await, before, "something changed");
}

fn changed(good: &Value, changes: Vec<(&str, Value, &'static str)>) -> Vec<(Value, &'static str)> {
    let mut cases = Vec::new();
    for (pointer, value, field) in changes {
        let mut body = good.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        body.pointer_mut(parent).unwrap()[name] = value;
        cases.push((body, field));
    }
    cases
}

#[tokio::test]
async fn holding() {
    let server = Server::start().await;
    let event = server.event().await;
    let mut good = event.wish(&[0]);
    good["areas"] = json!([{"area_id": event.area, "quantity": 1}]);
    let many_seats: Vec<String> = (0..101).map(|i| format!("{}{i:08x}", &event.seats[0][..28])).collect();
    let many_areas: Vec<Value> = (0..21).map(|_| json!({"area_id": ID, "quantity": 1})).collect();
    let cases = changed(
        &good,
        vec![
            ("/event_id", json!("x"), "event_id"),
            ("/event_id", json!(ID.replace('-', "")), "event_id"),
            ("/event_id", json!(format!("{{{ID}}}")), "event_id"),
            ("/event_id", json!(null), "event_id"),
            ("/event_id", json!(7), "event_id"),
            ("/event_id", json!("\u{0}"), "event_id"),
            ("/org_id", json!(ID), "org_id"),
            ("/user_id", json!("bob"), "user_id"),
            ("/seat_ids", json!(["x"]), "seat_ids[0]"),
            ("/seat_ids", json!(event.seats[0]), "seat_ids"),
            ("/seat_ids", json!(null), "seat_ids"),
            ("/seat_ids", json!([event.seats[0], event.seats[0]]), "seat_ids"),
            ("/seat_ids", json!(many_seats), "seat_ids"),
            ("/areas", json!(many_areas), "areas"),
            ("/areas", json!([[event.area, 1]]), "areas[0]"),
            ("/areas", json!([{"area_id": event.area}]), "areas[0]"),
            ("/areas", json!([{"area_id": event.area, "quantity": 1, "price": 0}]), "areas[0].price"),
            ("/areas", json!([good["areas"][0], good["areas"][0]]), "areas"),
            ("/areas/0/quantity", json!(0), "areas[0].quantity"),
            ("/areas/0/quantity", json!(-1), "areas[0].quantity"),
            ("/areas/0/quantity", json!(1001), "areas[0].quantity"),
            ("/areas/0/quantity", json!(u64::MAX), "areas[0].quantity"),
            ("/areas/0/quantity", json!(1.5), "areas[0].quantity"),
            ("/areas/0/quantity", json!("1"), "areas[0].quantity"),
            ("/cart_token", json!(""), "cart_token"),
            ("/cart_token", json!(" x"), "cart_token"),
            ("/cart_token", json!("a\u{0}b"), "cart_token"),
            ("/cart_token", json!("x".repeat(129)), "cart_token"),
            ("/source", json!("fax"), "source"),
        ],
    );
    all_refused(&server, &event, "/api/bookings/hold-seats", cases).await;
    let nothing = vec![(json!({"event_id": event.id}), "seat_ids"), (json!({"seat_ids": []}), "event_id")];
    all_refused(&server, &event, "/api/bookings/hold-seats", nothing).await;
    let longest = json!("x".repeat(128));
    good["cart_token"] = longest;
    server.post("/api/bookings/hold-seats", good).with(&server.buyer("ann")).send().await.expect(201);
}

#[tokio::test]
async fn holding_any() {
    let server = Server::start().await;
    let event = server.event().await;
    let good = event.any(0, 2);
    let cases = changed(
        &good,
        vec![
            ("/event_id", json!("x"), "event_id"),
            ("/event_id", json!(null), "event_id"),
            ("/block_id", json!("Stalls"), "block_id"),
            ("/block_id", json!(null), "block_id"),
            ("/block_id", json!([event.blocks[0]]), "block_id"),
            ("/block_id", json!(ID.replace('-', "")), "block_id"),
            ("/quantity", json!(null), "quantity"),
            ("/quantity", json!(0), "quantity"),
            ("/quantity", json!(-1), "quantity"),
            ("/quantity", json!(501), "quantity"),
            ("/quantity", json!(u64::MAX), "quantity"),
            ("/quantity", json!(2.5), "quantity"),
            ("/quantity", json!("2"), "quantity"),
            ("/seat_ids", json!([event.seats[0]]), "seat_ids"),
            ("/areas", json!([]), "areas"),
            ("/user_id", json!("bob"), "user_id"),
            ("/cart_token", json!(""), "cart_token"),
            ("/cart_token", json!("x".repeat(129)), "cart_token"),
            ("/source", json!("fax"), "source"),
        ],
    );
    all_refused(&server, &event, "/api/bookings/hold-any", cases).await;
    let nothing = vec![
        (json!({}), "event_id"),
        (json!({"event_id": event.id, "block_id": event.blocks[0]}), "quantity"),
    ];
    all_refused(&server, &event, "/api/bookings/hold-any", nothing).await;
    server.post("/api/bookings/hold-any", good).with(&server.buyer("ann")).send().await.expect(201);
}

#[tokio::test]
async fn numbers_that_are_too_large_are_told_from_those_that_are_not_whole() {
    let server = Server::start().await;
    let event = server.event().await;
    for (quantity, why) in [
        ("1e400", "quantity is wrong: number out of range"),
        ("99999999999999999999999", "quantity must be between 1 and 500"),
        ("-1e300", "quantity must be between 1 and 500"),
        ("1.5", "quantity is wrong: invalid type: floating point `1.5`, expected a whole number"),
    ] {
        let body = event.any(0, 2).to_string().replace("\"quantity\":2", &format!("\"quantity\":{quantity}"));
        let call = server.call("POST", "/api/bookings/hold-any").header("content-type", "application/json");
        let problem = call.body(body).with(&server.buyer("ann")).send().await.refused(422, "invalid");
        assert_eq!(problem["field"], "quantity");
        assert!(problem["detail"].as_str().unwrap().starts_with(why), "{quantity}: {problem}");
    }
}

#[tokio::test]
async fn a_credential_has_a_length() {
    let server = Server::start().await;
    let detail = async |bytes: usize| {
        let answer = server.get("/api/admin/org").with(&"x".repeat(bytes)).send().await;
        answer.refused(401, "unauthenticated")["detail"].as_str().unwrap().to_owned()
    };
    assert_eq!(detail(MAX_CREDENTIAL_BYTES).await, "the token is not valid");
    let longer = detail(MAX_CREDENTIAL_BYTES + 1).await;
    assert!(longer.contains("at most 8192 bytes"), "{longer}");
}

#[tokio::test]
async fn fields_that_come_twice() {
    let server = Server::start().await;
    let event = server.event().await;
    let body =
        format!(r#"{{"event_id":"{0}","event_id":"{0}","seat_ids":["{1}"]}}"#, event.id, event.seats[0]);
    let call = server.call("POST", "/api/bookings/hold-seats").header("content-type", "application/json");
    let answer = call.body(body).with(&server.buyer("ann")).send().await;
    assert_eq!(answer.refused(422, "invalid")["field"], "event_id");
}

#[tokio::test]
async fn confirming_and_other_small_bodies() {
    let server = Server::start().await;
    let event = server.event().await;
    let path = format!("/api/bookings/{ID}/confirm");
    let cases = vec![
        (json!({"payment_reference": ""}), "payment_reference"),
        (json!({"payment_reference": "x".repeat(201)}), "payment_reference"),
        (json!({"payment_reference": 5}), "payment_reference"),
        (json!({"amount": 5}), "amount"),
    ];
    all_refused(&server, &event, &path, cases).await;
    let path = format!("/api/bookings/hold/{ID}/checkout");
    all_refused(&server, &event, &path, vec![(json!({"x": 1}), "x")]).await;
}

#[tokio::test]
async fn events() {
    let server = Server::start().await;
    let event = server.event().await;
    let good = json!({
        "name": "E", "currency": "EUR", "tiers": [{"code": "a", "price": 1}],
        "policy": {"ttl_seconds": 60},
    });
    let many: Vec<Value> = (0..33).map(|i| json!({"code": format!("t{i}"), "price": 1})).collect();
    let cases = changed(
        &good,
        vec![
            ("/name", json!(""), "name"),
            ("/name", json!("   "), "name"),
            ("/name", json!("x".repeat(121)), "name"),
            ("/name", json!("a\nb"), "name"),
            ("/name", json!("a\u{2028}b"), "name"),
            ("/currency", json!("eur"), "currency"),
            ("/currency", json!("EURO"), "currency"),
            ("/tiers", json!([]), "tiers"),
            ("/tiers", json!(many), "tiers"),
            ("/tiers", json!([{"code": "a", "price": 1}, {"code": "a", "price": 2}]), "tiers"),
            ("/tiers", json!([{"code": "a", "price": -1}]), "tiers[0].price"),
            ("/tiers", json!([{"code": "a", "price": 1_000_000_000_001i64}]), "tiers[0].price"),
            ("/tiers", json!([{"code": "a", "price": 9.99}]), "tiers[0].price"),
            ("/policy", json!([60]), "policy"),
            ("/policy/ttl_seconds", json!(0), "policy.ttl_seconds"),
            ("/policy/ttl_seconds", json!(86_401), "policy.ttl_seconds"),
            ("/policy/ttl_seconds", json!(-5), "policy.ttl_seconds"),
            ("/policy/max_hold_seconds", json!(59), "policy.max_hold_seconds"),
            ("/policy/seats_per_user", json!(0), "policy.seats_per_user"),
            ("/policy/seats_per_user", json!(10_001), "policy.seats_per_user"),
            ("/policy/sales_open_at", json!("tomorrow"), "policy.sales_open_at"),
            ("/policy/sales_open_at", json!(1_700_000_000), "policy.sales_open_at"),
            ("/policy/grace", json!(1), "policy.grace"),
        ],
    );
    all_refused(&server, &event, "/api/admin/events", cases).await;
    let listed = server.get("/api/admin/events").with(&server.admin).send().await.expect(200);
    assert_eq!(listed["events"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn seats_blocks_and_areas() {
    let server = Server::start().await;
    let event = server.event().await;
    let good = json!({"sections": [{
        "block": "X", "rows": ["A"], "numbers": {"from": 1, "to": 2}, "tier": "gold", "x": 0,
    }]});
    let many: Vec<Value> = (0..501).map(|_| good["sections"][0].clone()).collect();
    let large = json!({"block": "X", "rows": {"from": 1, "to": 501}, "numbers": {"from": 1, "to": 100}, "tier": "gold"});
    let rows: Vec<String> = (0..1001).map(|i| format!("r{i}")).collect();
    let cases = changed(
        &good,
        vec![
            ("/sections", json!([]), "sections"),
            ("/sections", json!(many), "sections"),
            ("/sections", json!([large, large]), "sections"),
            ("/sections/0/block", json!(""), "sections[0].block"),
            ("/sections/0/rows", json!([]), "sections[0].rows"),
            ("/sections/0/rows", json!(rows), "sections[0].rows"),
            ("/sections/0/rows", json!(["A", "A"]), "sections[0]"),
            ("/sections/0/rows", json!(["x".repeat(17)]), "sections[0].rows[0]"),
            ("/sections/0/rows", json!({"from": "B", "to": "A"}), "sections[0].rows"),
            ("/sections/0/numbers", json!({"from": 3, "to": 2}), "sections[0]"),
            ("/sections/0/numbers", json!({"from": -1, "to": 2}), "sections[0].numbers.from"),
            ("/sections/0/numbers", json!({"from": 1, "to": 1_000_000}), "sections[0].numbers.to"),
            ("/sections/0/numbers", json!({"from": 1, "to": 100_001}), "sections[0]"),
            ("/sections/0/x", json!(1e9), "sections[0].x"),
            ("/sections/0/x", json!("left"), "sections[0].x"),
            ("/sections/0/color", json!("red"), "sections[0].color"),
        ],
    );
    all_refused(&server, &event, &event.admin_path("/seats"), cases).await;
    let tier =
        json!({"sections": [{"block": "X", "rows": ["A"], "numbers": {"from": 1, "to": 1}, "tier": "none"}]});
    let answer = server.post(&event.admin_path("/seats"), tier).with(&server.admin).send().await;
    answer.refused(422, "unknown_tier");
    let areas = vec![
        (json!({"name": "A", "tier": "gold", "capacity": 0}), "capacity"),
        (json!({"name": "A", "tier": "gold", "capacity": 1_000_001}), "capacity"),
        (json!({"name": "A", "tier": "gold", "capacity": -3}), "capacity"),
        (json!({"name": "A", "tier": "gold"}), "capacity"),
    ];
    all_refused(&server, &event, &event.admin_path("/areas"), areas).await;
    all_refused(&server, &event, &event.admin_path("/blocks"), vec![(json!({"name": "\t"}), "name")]).await;
    let seats: Vec<String> = (0..101).map(|i| format!("{}{i:08x}", &event.seats[0][..28])).collect();
    for path in ["/seats/block", "/seats/unblock"] {
        let cases = vec![
            (json!({"seat_ids": []}), "seat_ids"),
            (json!({"seat_ids": seats}), "seat_ids"),
            (json!({"seat_ids": [event.seats[0], event.seats[0]]}), "seat_ids"),
            (json!({}), "seat_ids"),
        ];
        all_refused(&server, &event, &event.admin_path(path), cases).await;
    }
}

#[tokio::test]
async fn keys_and_orgs() {
    let server = Server::start().await;
    let event = server.event().await;
    let cases = vec![
        (json!({"name": "k", "scopes": []}), "scopes"),
        (json!({"name": "k", "scopes": ["read", "read"]}), "scopes"),
        (json!({"name": "k", "scopes": ["root"]}), "scopes[0]"),
        (json!({"name": "k", "scopes": "read"}), "scopes"),
        (json!({"name": "", "scopes": ["read"]}), "name"),
    ];
    all_refused(&server, &event, "/api/admin/keys", cases).await;
    all_refused(&server, &event, "/api/admin/orgs", vec![(json!({"name": "x".repeat(121)}), "name")]).await;
}

#[tokio::test]
async fn paths_and_queries() {
    let server = Server::start().await;
    let event = server.event().await;
    let seats = event.path("/seats");
    let journal = event.admin_path("/journal");
    let long_user = format!("/api/admin/users/{}/holds", "x".repeat(129));
    let cases = [
        ("/api/events/x".to_owned(), "event_id"),
        (format!("/api/events/{}", ID.replace('-', "")), "event_id"),
        ("/api/events/%00".to_owned(), "event_id"),
        (event.path("/seats/x"), "seat_id"),
        (format!("/api/bookings/hold/{}", "9".repeat(500)), "hold_token"),
        (format!("{seats}?form=tiny"), "form"),
        (format!("{seats}?form=full&form=full"), "form"),
        (format!("{seats}?block_id=x"), "block_id"),
        (format!("{seats}?form=compact&block_id={ID}"), "block_id"),
        (format!("{seats}?colour=red"), "colour"),
        (event.path("?x"), "x"),
        (event.path("/occupancy?x=1"), "x"),
        (format!("{journal}?limit=0"), "limit"),
        (format!("{journal}?limit=1001"), "limit"),
        (format!("{journal}?limit=-1"), "limit"),
        (format!("{journal}?limit=1.5"), "limit"),
        (format!("{journal}?limit="), "limit"),
        (format!("{journal}?after=99999999999999999999"), "after"),
        (format!("{journal}?after=x"), "after"),
        ("/api/admin/events?limit=1001".to_owned(), "limit"),
        ("/api/admin/events?after=x".to_owned(), "after"),
        ("/api/admin/keys?limit=1001".to_owned(), "limit"),
        ("/api/admin/keys?after=x".to_owned(), "after"),
        ("/api/admin/users/ann/holds?limit=101".to_owned(), "limit"),
        ("/api/admin/users/%20/holds".to_owned(), "user_id"),
        ("/api/admin/users/a%0Ab/holds".to_owned(), "user_id"),
        (long_user, "user_id"),
    ];
    for (path, field) in cases {
        let answer = server.get(&path).with(&server.admin).send().await;
        assert_eq!(answer.refused(422, "invalid")["field"], field, "{path}");
    }
    server.get("/api/events/%ff").with(&server.admin).send().await.refused(422, "invalid");
    let before = server.sequence(&event.id).await;
    let hold = format!("/api/bookings/hold/{ID}");
    let many = (0..101).map(|_| format!("seat_id={ID}")).collect::<Vec<_>>().join("&");
    for query in [many.as_str(), "seat_id=x", "seat=x", "seat_id="] {
        let path = format!("{hold}?{query}");
        server.delete(&path).with(&server.buyer("ann")).send().await.refused(422, "invalid");
    }
    let answer =
        server.post("/api/bookings/hold-seats?x=1", event.wish(&[0])).with(&server.buyer("ann")).send().await;
    assert_eq!(answer.refused(422, "invalid")["field"], "x");
    assert_eq!(server.sequence(&event.id).await, before);
}

#[tokio::test]
async fn bodies_have_a_size_and_a_depth() {
    let server = Server::start_with(|options| options.limits.body_bytes = 1000).await;
    let event = server.event().await;
    let before = server.sequence(&event.id).await;
    let call = || {
        let call = server.call("POST", "/api/bookings/hold-seats").with(&server.buyer("ann"));
        call.header("content-type", "application/json")
    };
    let mut body = event.wish(&[0]).to_string();
    body.push_str(&" ".repeat(1001 - body.len()));
    call().body(body.clone()).send().await.refused(413, "body_too_large");
    // Without a length in front it is counted as it comes.
    call().body(in_pieces(&body)).send().await.refused(413, "body_too_large");
    let deep = format!("{}{}", "[".repeat(17), "]".repeat(17));
    call().body(deep).send().await.refused(400, "json_too_deep");
    let bomb = "[".repeat(900);
    call().body(bomb).send().await.refused(400, "json_too_deep");
    let packed = call().header("content-encoding", "gzip").body(event.wish(&[0]).to_string());
    packed.send().await.refused(415, "unsupported_media_type");
    assert_eq!(server.sequence(&event.id).await, before);
    body.pop();
    call().body(in_pieces(&body)).send().await.expect(201);
    call().body(body).send().await.expect(200);
}

fn in_pieces(body: &str) -> reqwest::Body {
    let chunks: Vec<Result<Vec<u8>, std::io::Error>> =
        body.as_bytes().chunks(100).map(|c| Ok(c.to_vec())).collect();
    reqwest::Body::wrap(http_body_util::StreamBody::new(Frames(chunks.into_iter())))
}

/// A body in pieces.
struct Frames(std::vec::IntoIter<Result<Vec<u8>, std::io::Error>>);

impl futures::Stream for Frames {
    type Item = Result<http_body::Frame<bytes::Bytes>, std::io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let next = self.0.next().map(|chunk| chunk.map(|bytes| http_body::Frame::data(bytes.into())));
        std::task::Poll::Ready(next)
    }
}
