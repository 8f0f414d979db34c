//! `rowlock dev up`: two nodes that sell the same seats, and nothing that is left of them afterwards.

mod support;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use rowlock_dev::process::{Process, Start};
use rowlock_dev::{address, wait_until};
use support::{Client, START_LIMIT, demo, seat, text};
use tempfile::TempDir;

/// An address of this process with another one behind it: each node takes the next port.
fn two_free() -> SocketAddr {
    loop {
        let first = address::free().unwrap();
        let next = first.port().checked_add(1).map(|port| TcpListener::bind((first.ip(), port)));
        if next.is_some_and(|next| next.is_ok()) {
            return first;
        }
    }
}

/// Whether a process has something to do when it is interrupted, and does not just end.
fn listens_to_interrupts(process: &Process) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (Signal::SIGINT as i32 - 1)) != 0
}

/// All of it, running.
struct Up {
    process: Process,
    nodes: [Client; 2],
    event: String,
    postgres: String,
    redis: String,
    _folder: TempDir,
}

impl Up {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (data, first) = (folder.path().join("data"), two_free());
        // In a session of its own, as under a terminal of its own: what Ctrl-C reaches is all of it, and nothing else.
        let start = Start::new("setsid", folder.path().join("dev-up.log")).arguments([
            env!("CARGO_BIN_EXE_rowlock"),
            "dev",
            "up",
            "--data",
            text(&data),
            "--listen",
            &first.to_string(),
        ]);
        let process = Process::start(&start).unwrap();
        process.until_ready(2 * START_LIMIT, || process.said().contains("press Ctrl-C")).unwrap();
        // It says what to press a moment before it listens.
        assert!(wait_until(Duration::from_secs(10), || listens_to_interrupts(&process)));
        let said = process.said();
        let told = |before: &str| -> String {
            let line = said.lines().find_map(|line| line.strip_prefix(before));
            let line = line.unwrap_or_else(|| panic!("no {before} in {said}"));
            line.split_whitespace().next().unwrap().to_owned()
        };
        let made = demo(&data.join("node-1"));
        let key = made["admin_key"].as_str().unwrap();
        let nodes = [1, 2].map(|node| Client::new(&told(&format!("node {node} on ")), key));
        let event = made["events"][0]["id"].as_str().unwrap().to_owned();
        let (postgres, redis) = (told("Postgres at "), told("Redis at "));
        Self { process, nodes, event, postgres, redis, _folder: folder }
    }

    /// Has it end, and looks at what is left.
    async fn end(self, ask_it: impl FnOnce(Pid)) {
        let folders = folders_of(&self.postgres, &self.redis).await;
        assert!(folders.iter().all(|folder| folder.exists()), "{folders:?}");
        let urls = [&self.nodes[0].url, &self.nodes[1].url, &self.postgres, &self.redis];
        let addresses = urls.map(|url| {
            let address = url.split("://").nth(1).unwrap().split('/').next().unwrap();
            address.rsplit('@').next().unwrap().parse::<SocketAddr>().unwrap()
        });
        assert!(addresses.iter().all(|address| TcpStream::connect(address).is_ok()), "{addresses:?}");
        ask_it(Pid::from_raw(self.process.pid() as i32));
        let status = self.process.ended(Duration::from_secs(30));
        assert!(status.is_some_and(|status| status.success()), "{status:?}: {}", self.process.said());
        for address in addresses {
            assert!(TcpStream::connect(address).is_err(), "somebody still listens on {address}");
        }
        for folder in folders {
            assert!(!folder.exists(), "{} is left", folder.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_sell_together_and_ctrl_c_ends_all_of_it() {
    let up = Up::start();
    let ([one, two], event) = (&up.nodes, &up.event);
    let pair = [seat(event, 10), seat(event, 11)];
    let (status, hold) = one.hold("anna", event, &pair).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    assert_eq!(two.hold("bob", event, &pair).await.unwrap().0, 409, "they know of each other");
    let (status, booking) = two.confirm("anna", hold["hold_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(status, 201, "{booking}");
    let path = format!("/api/bookings/{}", booking["booking_id"].as_str().unwrap());
    assert_eq!(one.get("anna", &path).await.unwrap().0, 200);
    // A terminal interrupts all that run in it, at once.
    up.end(|pid| killpg(pid, Signal::SIGINT).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_alone_it_ends_the_others() {
    Up::start().end(|pid| kill(pid, Signal::SIGINT).unwrap()).await;
}

/// Where the two keep their files.
async fn folders_of(postgres: &str, redis: &str) -> [PathBuf; 2] {
    let (client, connection) = tokio_postgres::connect(postgres, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let data: String = client.query_one("SHOW data_directory", &[]).await.unwrap().get(0);
    let cli =
        std::process::Command::new("redis-cli").args(["-u", redis, "CONFIG", "GET", "dir"]).output().unwrap();
    let dir = support::stdout(&cli).lines().nth(1).unwrap().to_owned();
    [data.into(), dir.into()]
}
