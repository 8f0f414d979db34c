//! Probes and metrics.

use serde_json::json;

use crate::support::Server;

#[tokio::test]
async fn metrics_are_by_route_and_never_by_id() {
    let prometheus = metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder().unwrap();
    let server = Server::start_with(|options| options.metrics = Some(prometheus)).await;
    let event = server.event().await;
    server.hold(&event, "wilhelmina", &[0]).await;
    let again = server.post("/api/bookings/hold-seats", event.wish(&[0]));
    again.with(&server.buyer("wilhelmina")).send().await.expect(200);
    server.get("/nowhere").send().await.refused(404, "unknown_route");
    // The truth is asked what it survives when the engine starts.
    server.get("/readyz").send().await.expect(200);
    let answer = server.get("/metrics").send().await;
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let text = String::from_utf8(answer.bytes).unwrap();
    let holds = "route=\"/api/bookings/hold-seats\",method=\"POST\",status=\"2xx\"";
    assert!(text.contains("rowlock_http_request_duration_seconds") && text.contains(holds), "{text}");
    assert!(text.contains("route=\"unknown\",method=\"GET\",status=\"4xx\""), "{text}");
    assert!(text.contains("\nrowlock_truth_durability 1\n"), "{text}");
    assert!(text.contains("\nrowlock_hot_events 1\n"), "{text}");
    // Who holds again what they hold has succeeded too.
    assert!(text.contains("\nrowlock_hold_attempts_total 2\n"), "{text}");
    assert!(text.contains("\nrowlock_hold_success_total 2\n"), "{text}");
    for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        assert!(text.contains(&format!("# HELP {name} ")), "{name} is not explained");
    }
    assert!(!text.contains(&event.id) && !text.contains("wilhelmina"), "{text}");
}

#[tokio::test]
async fn a_live_process_says_so() {
    let server = Server::start().await;
    assert_eq!(server.get("/livez").send().await.expect(200), json!({"status": "alive"}));
    server.get("/metrics").send().await.refused(404, "unknown_route");
}
