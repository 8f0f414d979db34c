//! `serve --demo`: made once, kept, and finished when it was interrupted.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use crate::support::{Client, Server, demo, run, seat, stdout, text};
use rowlock_truth::Truth;
use rowlock_truth::sqlite::SqliteTruth;
use serde_json::Value;

/// Everything but what belongs to one start.
fn kept(mut demo: Value) -> Value {
    demo["url"].take();
    demo
}

#[tokio::test]
async fn starting_again_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let server = Server::start(data, &["--demo"]);
    let first = demo(data);
    assert_eq!(first["url"].as_str().unwrap(), server.url);
    let seats: Vec<u64> = (0..3).map(|i| first["events"][i]["seats"].as_u64().unwrap()).collect();
    assert_eq!(seats, [2_000, 100_000, 0]);
    let areas = first["events"][2]["areas"].as_array().unwrap();
    assert_eq!(areas.len(), 2);
    assert!(areas.iter().all(|area| area["capacity"].as_u64().unwrap() > 0 && area["id"].is_string()));
    let mode = std::fs::metadata(data.join("demo.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it has a key in it");

    let theatre = first["events"][0]["id"].as_str().unwrap();
    let pair = [seat(theatre, 10), seat(theatre, 11)];
    let (status, hold) = Client::of(&server, data).hold("anna", theatre, &pair).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    assert!(server.terminate().success());

    let server = Server::start(data, &["--demo"]);
    let second = demo(data);
    assert_eq!(second["url"].as_str().unwrap(), server.url, "the address of this start");
    assert_eq!(kept(first.clone()), kept(second));
    let client = Client::of(&server, data);
    let path = format!("/api/bookings/hold/{}", hold["hold_token"].as_str().unwrap());
    let (status, again) = client.get("anna", &path).await.unwrap();
    assert_eq!((status, &again["hold_token"]), (200, &hold["hold_token"]));
    assert_eq!(again["seats"], hold["seats"]);
    assert_eq!(client.hold("bob", theatre, &pair).await.unwrap().0, 409, "the seats are still taken");
}

/// What stands between two words of a text.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let rest = &text[text.find(before).unwrap() + before.len()..];
    &rest[..rest.find(after).unwrap()]
}

#[tokio::test]
async fn the_printed_line_holds_two_seats_at_every_start() {
    let folder = tempfile::tempdir().unwrap();
    for start in 1..=2 {
        let mut server = Server::start(folder.path(), &["--demo"]);
        let printed = server.printed_until("-d '");
        assert!(printed.contains(&format!("{}/docs", server.url)), "{printed}");
        let line = &printed[printed.find("curl ").unwrap()..];
        let answer = reqwest::Client::new()
            .post(between(line, "curl -i ", " "))
            .header("Authorization", between(line, "-H 'Authorization: ", "'"))
            .header("Content-Type", between(line, "-H 'Content-Type: ", "'"))
            .body(between(line, "-d '", "'").to_owned())
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status().as_u16(), 201, "{line}");
        let hold: Value = answer.json().await.unwrap();
        // It is the same buyer and the same cart, so each start adds two.
        assert_eq!(hold["seats"].as_array().unwrap().len(), 2 * start);
        assert!(server.terminate().success());
    }
}

#[tokio::test]
async fn a_demo_that_was_interrupted_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    // Crashes at moments spread over the whole making of it.
    for milliseconds in [20, 60, 120, 250, 500, 900] {
        let arguments = ["serve", "--demo", "--data", text(data), "--listen", "127.0.0.1:0"];
        let mut child = crate::support::rowlock()
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let server = Server::start(data, &["--demo"]);
    let truth = SqliteTruth::open_read_only(data).unwrap();
    let orgs = truth.orgs(None, 10).await.unwrap();
    assert_eq!(orgs.len(), 1, "{orgs:?}");
    let events = truth.events(orgs[0].id, None, 10).await.unwrap().events;
    let sizes: Vec<(u32, u32)> = events.iter().map(|event| (event.seat_count, event.area_count)).collect();
    assert_eq!(sizes, [(2_000, 0), (100_000, 0), (0, 2)]);
    let keys = truth.api_keys(orgs[0].id, None, 100).await.unwrap();
    assert_eq!(keys.iter().filter(|key| key.revoked_at.is_none()).count(), 1, "lost keys are revoked");
    let theatre = demo(data)["events"][0]["id"].as_str().unwrap().to_owned();
    let pair = [seat(&theatre, 0), seat(&theatre, 1)];
    assert_eq!(Client::of(&server, data).hold("anna", &theatre, &pair).await.unwrap().0, 201);
    let output = run(&["verify", "--data", text(data)]);
    assert!(output.status.success(), "{}", stdout(&output));
}

#[tokio::test]
async fn a_lost_demo_file_is_made_again_for_the_same_events() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let server = Server::start(data, &["--demo"]);
    let first = demo(data);
    assert!(server.terminate().success());
    std::fs::remove_file(data.join("demo.json")).unwrap();

    let server = Server::start(data, &["--demo"]);
    let second = demo(data);
    assert_eq!((&first["events"], &first["org_id"]), (&second["events"], &second["org_id"]));
    assert_ne!(first["admin_key"], second["admin_key"]);
    let path = format!("/api/events/{}", second["events"][0]["id"].as_str().unwrap());
    let old = Client::new(&server.url, first["admin_key"].as_str().unwrap());
    assert_eq!(old.get("anna", &path).await.unwrap().0, 401, "the old key is revoked");
    assert_eq!(Client::of(&server, data).get("anna", &path).await.unwrap().0, 200);

    // The same when its key was revoked.
    let key: uuid::Uuid = second["admin_key"].as_str().unwrap()[3..35].parse().unwrap();
    let revoke = format!("/api/admin/keys/{key}");
    assert_eq!(Client::of(&server, data).delete("", &revoke).await.unwrap().0, 200);
    assert!(server.terminate().success());
    let server = Server::start(data, &["--demo"]);
    assert_eq!(Client::of(&server, data).get("anna", &path).await.unwrap().0, 200);
}
