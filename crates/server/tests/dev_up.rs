//! `rowlock dev up`: two nodes that sell the same seats, and nothing that is left of them afterwards.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Client, START_LIMIT, demo, seat, text};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rowlock_dev::process::{Process, Start};
use rowlock_dev::{address, wait_until};
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

/// In a group of its own, as under a shell: what Ctrl-C reaches is all that stayed in it, and nothing else.
fn dev_up(folder: &Path, data: &Path) -> Start {
    Start::new(env!("CARGO_BIN_EXE_rowlock"), folder.join("dev-up.log")).arguments([
        "dev",
        "up",
        "--data",
        text(data),
        "--listen",
        &two_free().to_string(),
    ])
}

/// A terminal interrupts the whole group that runs in it, at once.
fn press_ctrl_c(process: &Process) {
    killpg(Pid::from_raw(process.pid() as i32), Signal::SIGINT).unwrap();
}

/// All of it, running.
struct Up {
    process: Process,
    nodes: [Client; 2],
    key: String,
    event: String,
    postgres: String,
    redis: String,
    _folder: TempDir,
}

impl Up {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let process = Process::start(&dev_up(folder.path(), &data)).unwrap();
        process.until_ready(2 * START_LIMIT, || process.said().contains("press Ctrl-C")).unwrap();
        assert!(listens_to_interrupts(&process));
        let said = process.said();
        let told = |before: &str| -> String {
            let line = said.lines().find_map(|line| line.strip_prefix(before));
            let line = line.unwrap_or_else(|| panic!("no {before} in {said}"));
            line.split_whitespace().next().unwrap().to_owned()
        };
        let made = demo(&data.join("node-1"));
        let key = made["admin_key"].as_str().unwrap().to_owned();
        let nodes = [1, 2].map(|node| Client::new(&told(&format!("node {node} on ")), &key));
        let event = made["events"][0]["id"].as_str().unwrap().to_owned();
        let (postgres, redis) = (told("Postgres at "), told("Redis at "));
        Self { process, nodes, key, event, postgres, redis, _folder: folder }
    }

    /// Has it end, and looks at what is left.
    async fn end(self, ask_it: impl FnOnce(&Process)) {
        let folders = folders_of(&self.postgres, &self.redis).await;
        assert!(folders.iter().all(|folder| folder.exists()), "{folders:?}");
        let urls = [&self.nodes[0].url, &self.nodes[1].url, &self.postgres, &self.redis];
        let addresses = urls.map(|url| {
            let address = url.split("://").nth(1).unwrap().split('/').next().unwrap();
            address.rsplit('@').next().unwrap().parse::<SocketAddr>().unwrap()
        });
        assert!(addresses.iter().all(|address| TcpStream::connect(address).is_ok()), "{addresses:?}");
        ask_it(&self.process);
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
    up.end(press_ctrl_c).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_alone_it_ends_the_others() {
    Up::start().end(|process| process.signal(Signal::SIGINT)).await;
}

/// A request that a node has begun with, and whose end is still to come.
struct Unfinished {
    stream: TcpStream,
    rest: String,
}

impl Unfinished {
    fn begin(up: &Up, node: usize) -> Self {
        let body =
            format!(r#"{{"event_id":"{}","seat_ids":["{}"]}}"#, up.event, seat(&up.event, 20 + node as u32));
        let mut stream = TcpStream::connect(up.nodes[node].url.strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let head = format!(
            "POST /api/bookings/hold-seats HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {}\r\nRowlock-User: anna\r\nConnection: close\r\nExpect: 100-continue\r\n\
             Content-Length: {}\r\n\r\n",
            up.key,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // The node says so when it wants the body: it has the request in its hands then.
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        Self { stream, rest: body }
    }

    fn finish(mut self) -> String {
        self.stream.write_all(self.rest.as_bytes()).unwrap();
        let mut answer = String::new();
        self.stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

/// Ctrl-C is the first signal that a node hears of, and the last: it answers what it has begun with, and Postgres and
/// Redis are there until it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_way_at_ctrl_c_is_answered() {
    let up = Up::start();
    let unfinished = [0, 1].map(|node| Unfinished::begin(&up, node));
    let nodes = up.nodes.clone();
    let (asked, has_been) = tokio::sync::oneshot::channel();
    let ending = up.end(|process| {
        press_ctrl_c(process);
        asked.send(()).unwrap();
    });
    let finishing = tokio::spawn(async move {
        has_been.await.unwrap();
        for (node, unfinished) in nodes.iter().zip(unfinished) {
            // It has heard of it.
            let is_stopping = || {
                let answer = TcpStream::connect(node.url.strip_prefix("http://").unwrap());
                answer.is_err() || says_503(answer.unwrap())
            };
            assert!(wait_until(Duration::from_secs(10), is_stopping), "{} goes on", node.url);
            let answer = unfinished.finish();
            assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        }
    });
    let (finished, ()) = tokio::join!(finishing, ending);
    finished.unwrap();
}

/// Whether a node is not ready any more, or hangs up.
fn says_503(mut stream: TcpStream) -> bool {
    let mut answer = String::new();
    let asked = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    asked.and_then(|()| stream.read_to_string(&mut answer)).is_err() || !answer.contains(" 200 ")
}

/// However far it has come: it ends, and nothing of it is left.
#[test]
fn ctrl_c_while_it_starts_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // Here Postgres and Redis make their folders, as another user perhaps.
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    for open in [folder.path(), &home] {
        std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let begins_with = |name: &str| {
        let entries = std::fs::read_dir(&home).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|found| found.starts_with(name)).collect::<Vec<_>>()
    };
    let data = |round: &str| folder.path().join(round);
    let rounds: [(&str, &dyn Fn() -> bool); 4] = [
        ("Postgres is being made", &|| !begins_with("rowlock-p").is_empty()),
        ("Postgres is being started", &|| !begins_with("rowlock-pg-").is_empty()),
        ("Redis is being started", &|| !begins_with("rowlock-redis-").is_empty()),
        ("a node is being started", &|| data("a node is being started").join("node-1.log").exists()),
    ];
    for (round, has_come) in rounds {
        let start = dev_up(folder.path(), &data(round)).environment("TMPDIR", text(&home));
        let process = Process::start(&start).unwrap();
        assert!(wait_until(START_LIMIT, has_come), "never, {round}: {}", process.said());
        press_ctrl_c(&process);
        let status = process.ended(Duration::from_secs(60));
        assert!(status.is_some_and(|status| status.success()), "{round}: {status:?}: {}", process.said());
        assert!(!process.said().contains("press Ctrl-C"), "it was too late to interrupt the start");
        let left = [begins_with("rowlock-pg-"), begins_with("rowlock-redis-")].concat();
        assert!(left.is_empty(), "{round}, and then are left {left:?}");
        let left = processes_of(folder.path());
        assert!(left.is_empty(), "{round}, and then are left {left:?}");
    }
}

/// Those who were started with the folder in their command line or their environment, or who are in it.
fn processes_of(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()) {
        let read = |file: &str| std::fs::read(process.join(file)).unwrap_or_default();
        let is_in = std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
        let names = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).contains(text(folder));
        if is_in || names(read("cmdline")) || names(read("environ")) {
            found.push(String::from_utf8_lossy(&read("cmdline")).replace('\0', " "));
        }
    }
    found
}

/// Where the two keep their files.
async fn folders_of(postgres: &str, redis: &str) -> [PathBuf; 2] {
    let (client, connection) = tokio_postgres::connect(postgres, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let data: String = client.query_one("SHOW data_directory", &[]).await.unwrap().get(0);
    let cli =
        std::process::Command::new("redis-cli").args(["-u", redis, "CONFIG", "GET", "dir"]).output().unwrap();
    let dir = crate::support::stdout(&cli).lines().nth(1).unwrap().to_owned();
    [data.into(), dir.into()]
}
