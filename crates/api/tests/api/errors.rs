//! Every error has one form, wherever it comes from.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use rowlock_registry::EngineOptions;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::Server;

#[tokio::test]
async fn routes_and_methods_that_are_none() {
    let server = Server::start().await;
    for path in
        ["/", "/api", "/api/", "/api/bookings/", "/api/nothing", "/docs/nothing.js", "/docs/errors/nothing"]
    {
        server.get(path).with(&server.admin).send().await.refused(404, "unknown_route");
    }
    let answer = server.call("PATCH", "/api/bookings/hold-seats").with(&server.admin).send().await;
    answer.refused(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), "POST");
    let answer = server.call("PUT", "/livez").send().await;
    answer.refused(405, "method_not_allowed");
}

#[tokio::test]
async fn bodies_that_are_none() {
    let server = Server::start().await;
    let buyer = server.buyer("ann");
    let call = || server.call("POST", "/api/bookings/hold-seats").with(&buyer);
    let json = || call().header("content-type", "application/json");
    for body in ["{", "\u{0}", "{\"event_id\":}", "nul"] {
        json().body(body).send().await.refused(400, "malformed_json");
    }
    json().body(b"{\"event_id\":\"\xff\"}".to_vec()).send().await.refused(400, "malformed_json");
    call().send().await.refused(400, "malformed_json");
    for body in ["[]", "null", "1", "\"x\"", "{}"] {
        json().body(body).send().await.refused(422, "invalid");
    }
    call().body("{}").send().await.refused(415, "unsupported_media_type");
    for kind in ["text/plain", "application/xml", "application/json; charset=latin1"] {
        call().header("content-type", kind).body("{}").send().await.refused(415, "unsupported_media_type");
    }
}

/// Sends bytes that no client library would, and hears what is said of them.
async fn raw(server: &Server, framing: &str) -> (u16, serde_json::Value) {
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST /api/bookings/hold-seats HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n{framing}",
        server.buyer("ann"),
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn what_went_wrong_with_a_body_is_what_is_said() {
    let change = |options: &mut rowlock_api::ApiOptions| {
        options.limits.request_timeout = Duration::from_secs(1);
    };
    let server = Server::start_with(change).await;
    let (status, problem) = raw(&server, "Transfer-Encoding: chunked\r\n\r\nZZ\r\n").await;
    assert_eq!((status, &problem["code"]), (400, &json!("body_unreadable")));
    assert!(problem["detail"].as_str().unwrap().contains("chunk"), "{problem}");
    let (status, problem) = raw(&server, "Content-Length: 10\r\n\r\n").await;
    assert_eq!((status, &problem["code"]), (503, &json!("timeout")));
    assert!(problem["detail"].as_str().unwrap().contains("if the whole request had arrived"), "{problem}");
}

fn extra() -> Router {
    Router::new()
        .route("/slow", get(|| async { tokio::time::sleep(Duration::from_secs(600)).await }))
        .route(
            "/panic",
            get(|| async {
                if true {
                    panic!("on purpose")
                }
            }),
        )
        .route("/empty", get(|| async { "ok" }))
}

#[tokio::test]
async fn slow_and_panicking_handlers_are_answered_for() {
    let change = |options: &mut rowlock_api::ApiOptions| {
        options.limits.request_timeout = Duration::from_secs(1);
    };
    let server = Server::start_on(change, EngineOptions::default(), |api| api.router_with(extra())).await;
    let answer = server.get("/slow").with(&server.admin).send().await;
    answer.refused(503, "timeout");
    server.get("/panic").with(&server.admin).send().await.refused(500, "internal");
    // What is added stands behind the same middleware.
    server.get("/empty").send().await.refused(401, "unauthenticated");
    assert_eq!(server.get("/empty").with(&server.admin).send().await.bytes, b"ok");
}

#[tokio::test]
async fn a_full_lane_says_so_at_once() {
    let options = EngineOptions { lane_capacity: 1, ..EngineOptions::default() };
    let server = Server::start_on(|_| {}, options, |api| api.router()).await;
    let mut calls = tokio::task::JoinSet::new();
    let server = std::sync::Arc::new(server);
    for i in 0..64 {
        let server = server.clone();
        calls.spawn(async move {
            let body = json!({"name": format!("org {i}")});
            server.post("/api/admin/orgs", body).with(&server.admin).send().await
        });
    }
    let mut busy = 0;
    while let Some(answer) = calls.join_next().await {
        let answer = answer.unwrap();
        if answer.status != 201 {
            answer.refused(503, "busy");
            busy += 1;
        }
    }
    assert!(busy > 0);
}

#[tokio::test]
async fn a_server_that_stops_says_so() {
    let server = Server::start().await;
    let event = server.event().await;
    assert_eq!(server.get("/readyz").send().await.expect(200), json!({"status": "ready"}));
    let verbose = server.get("/readyz?verbose").send().await.expect(200);
    assert_eq!(verbose["lane"]["depth"], 0);
    assert_eq!(server.get("/readyz?x=1").send().await.refused(422, "invalid")["field"], "x");
    server.api.drain();
    server.get("/readyz").send().await.refused(503, "stopping");
    // Draining is only said; requests are still served.
    server.hold(&event, "ann", &[0]).await;
    server.engine.stop().await;
    server.get("/readyz").send().await.refused(503, "stopping");
    let answer =
        server.post("/api/bookings/hold-seats", event.wish(&[1])).with(&server.buyer("ann")).send().await;
    answer.refused(503, "stopping");
    server.get("/livez").send().await.expect(200);
}

#[tokio::test]
async fn the_request_id_is_the_clients_or_a_fresh_one() {
    let server = Server::start().await;
    let with = |id: &'static str| server.get("/livez").header("x-request-id", id).send();
    assert_eq!(with("order-17/a").await.header("x-request-id"), "order-17/a");
    let long = "x".repeat(65);
    let answer = server.get("/livez").header("x-request-id", &long).send().await;
    assert_eq!(answer.header("x-request-id").len(), 32);
    assert_eq!(with("a b").await.header("x-request-id").len(), 32);
    let (a, b) = (server.get("/livez").send().await, server.get("/livez").send().await);
    assert_ne!(a.header("x-request-id"), b.header("x-request-id"));
}

#[tokio::test]
async fn the_request_id_reaches_the_journal() {
    let server = Server::start().await;
    let event = server.event().await;
    let call = server.post("/api/bookings/hold-seats", event.wish(&[0])).with(&server.buyer("ann"));
    call.header("x-request-id", "find-me").send().await.expect(201);
    let journal = server.get(&event.admin_path("/journal")).with(&server.admin).send().await.expect(200);
    let last = journal["entries"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["request_id"], &last["actor"]), (&json!("find-me"), &json!("user:ann")));
    assert_eq!(last["type"], "SEAT-HOLD-CREATED");
}

/// What a client made up need not be read out to it in full.
#[tokio::test]
async fn a_long_name_is_not_repeated() {
    let server = Server::start().await;
    let mut body = json!({});
    body["\u{1}".repeat(40_000)] = json!(1);
    let answer = server.post("/api/bookings/hold-seats", body).with(&server.admin).send().await;
    answer.refused(422, "invalid");
    assert!(answer.bytes.len() < 8_000, "{} bytes", answer.bytes.len());
}
