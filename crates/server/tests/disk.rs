//! A disk that fails, or stands still.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::support::load::{Load, acknowledged};
use crate::support::{Client, Server, demo, rowlock, run, text};
use nix::sys::signal::Signal;
use serde_json::json;
use std::os::unix::process::ExitStatusExt;

/// The library that stands between the server and its disk.
fn shim(folder: &Path) -> PathBuf {
    let (source, library) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disk.c"), folder.join("disk.so"));
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
    assert!(built.expect("a C compiler").success());
    library
}

struct Disk {
    folder: tempfile::TempDir,
    library: PathBuf,
}

impl Disk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = shim(folder.path());
        Self { folder, library }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A server whose syncs of the files that end so can be broken.
    fn server(&self, file: &str, more: &[&str]) -> Server {
        let mut command = rowlock();
        command
            .args(["serve", "--data", text(&self.data()), "--listen", "127.0.0.1:0", "--log-level", "error"])
            .args(more)
            .env("LD_PRELOAD", &self.library)
            .env("DISK_FILE", file)
            .env("DISK_BROKEN", self.folder.path().join("broken"));
        Server::spawn(&mut command)
    }

    fn breaks(&self, how: &str) {
        // At once: a server must not read half of it.
        let (whole, broken) = (self.folder.path().join("whole"), self.folder.path().join("broken"));
        std::fs::write(&whole, how).unwrap();
        std::fs::rename(whole, broken).unwrap();
    }

    fn is_mended(&self) {
        let _ = std::fs::remove_file(self.folder.path().join("broken"));
    }
}

/// Makes the log so long that it is copied into the file.
async fn lengthen_the_log(client: &Client) {
    let event =
        json!({ "name": "Long", "currency": "EUR", "tiers": [{ "code": "a", "name": "A", "price": 1 }] });
    let seats = json!({ "sections": [{ "block": "B", "rows": { "from": 1, "to": 500 }, "numbers": { "from": 1, "to": 200 }, "tier": "a" }] });
    for _ in 0..3 {
        let Ok((201, made)) = client.post("", "/api/admin/events", event.clone()).await else { return };
        let path = format!("/api/admin/events/{}/seats", made["event_id"].as_str().unwrap());
        if !matches!(client.post("", &path, seats.clone()).await, Ok((201, _))) {
            return;
        }
    }
}

async fn ended(server: Server) -> ExitStatus {
    let ended = tokio::task::spawn_blocking(move || server.ended_within(Duration::from_secs(60)));
    ended.await.unwrap().expect("the server ends by itself")
}

/// A sync that failed is said once; the next one succeeds, whatever is on the disk. What was copied must be copied again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_of_the_file_ends_the_process_and_nothing_is_lost() {
    let disk = Disk::new();
    let server = disk.server("rowlock.sqlite", &["--demo"]);
    let stadium = demo(&disk.data())["events"][1].clone();
    let load = Load::new(stadium["id"].as_str().unwrap(), stadium["seats"].as_u64().unwrap() as u32);
    let client = Client::of(&server, &disk.data());
    let buying = tokio::spawn({
        let (load, client) = (load.clone(), client.clone());
        async move { load.run(&client, 0).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    disk.breaks("fail");
    lengthen_the_log(&client).await;
    let status = ended(server).await;
    assert_eq!(status.signal(), Some(Signal::SIGABRT as i32), "{status:?}");
    let books = buying.await.unwrap();
    assert!(acknowledged(&books).0 > 20, "too little load to show anything");
    disk.is_mended();
    let server = disk.server("rowlock.sqlite", &["--demo"]);
    load.audit(&Client::of(&server, &disk.data()), &books).await;
    let verified = run(&["verify", "--data", text(&disk.data())]);
    assert!(verified.status.success(), "{verified:?}");
}

/// What waits for a disk that stands still can't be ended in good order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_stands_still_does_not_keep_the_process() {
    let disk = Disk::new();
    let server = disk.server("-wal", &["--demo"]);
    let event = demo(&disk.data())["events"][0]["id"].as_str().unwrap().to_owned();
    let client = Client::of(&server, &disk.data());
    disk.breaks("hang");
    let holding =
        tokio::spawn(async move { client.hold("ann", &event, &[crate::support::seat(&event, 0)]).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.signal(Signal::SIGTERM);
    let status = ended(server).await;
    assert_eq!(status.code(), Some(1), "{status:?}");
    assert!(!matches!(holding.await.unwrap(), Ok((201, _))), "it was not stored");
}
