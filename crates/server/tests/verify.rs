//! `rowlock verify` on good data, on data that somebody has changed by hand, and on none.

use std::path::Path;

use crate::support::{Client, Server, demo, run, seat, stderr, stdout, text};
use tempfile::TempDir;

/// A folder with a hold of two seats and a booking of two others.
async fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--demo"]);
    let client = Client::of(&server, folder.path());
    let demo = demo(folder.path());
    let theatre = demo["events"][0]["id"].as_str().unwrap();
    let seats = |ordinals: [u32; 2]| ordinals.map(|ordinal| seat(theatre, ordinal));
    assert_eq!(client.hold("anna", theatre, &seats([0, 1])).await.unwrap().0, 201);
    let (status, hold) = client.hold("bob", theatre, &seats([2, 3])).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    let (status, booking) = client.confirm("bob", hold["hold_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(status, 201, "{booking}");
    // While the server runs.
    assert_eq!(verify(folder.path()), (Some(0), String::new()));
    assert!(server.terminate().success());
    folder
}

/// The exit code and the lines about violations.
fn verify(data: &Path) -> (Option<i32>, String) {
    let output = run(&["verify", "--data", text(data)]);
    let printed = stdout(&output);
    let violations = printed.lines().filter(|line| line.starts_with("violation "));
    (output.status.code(), violations.collect::<Vec<_>>().join("\n"))
}

fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.path().join(file.file_name())).unwrap();
    }
    to
}

#[tokio::test]
async fn damage_is_found_and_named_by_the_promise_it_breaks() {
    let good = folder().await;
    assert_eq!(verify(good.path()), (Some(0), String::new()));
    let output = stdout(&run(&["verify", "--data", text(good.path())]));
    assert!(output.contains("102000  seats") && output.contains("no violations"), "{output}");

    for (promise, damage) in [
        (
            "S",
            "UPDATE seats SET status = 3
             WHERE key = (SELECT event_key << 24 | (seats -> 0 ->> 0) FROM holds WHERE status = 0)",
        ),
        ("S", "UPDATE seats SET status = 0, ticket_id = NULL WHERE status = 2"),
        ("O", "DELETE FROM journal WHERE seq = 2"),
    ] {
        let damaged = copy(good.path());
        let database = rusqlite::Connection::open(damaged.path().join("rowlock.sqlite")).unwrap();
        assert!(database.execute(damage, []).unwrap() > 0, "{damage} changed nothing");
        drop(database);
        let (code, violations) = verify(damaged.path());
        assert_eq!(code, Some(1), "{damage}");
        assert!(violations.contains(&format!("violation of {promise}:")), "{damage}: {violations}");
    }
}

#[test]
fn a_folder_without_data_is_an_error_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent");
    for data in [folder.path(), absent.as_path()] {
        let output = run(&["verify", "--data", text(data)]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(text(data)), "{}", stderr(&output));
    }
    assert!(!absent.exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// What can't be looked at breaks no promise.
#[test]
fn a_file_that_is_no_store_is_an_error_and_no_violation() {
    for content in ["", "hello, I am no database"] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rowlock.sqlite"), content).unwrap();
        let output = run(&["verify", "--data", text(folder.path())]);
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        assert!(!stdout(&output).contains("violation"), "{}", stdout(&output));
    }
}
