//! Stopping in an orderly way.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::load::{Load, acknowledged};
use crate::support::{Client, Server, create_org, demo, run, stdout, text};
use nix::sys::signal::Signal;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_under_load_exits_0_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let server = Server::start(data, &["--demo"]);
    let stadium = demo(data)["events"][1].clone();
    let load = Load::new(stadium["id"].as_str().unwrap(), stadium["seats"].as_u64().unwrap() as u32);
    let client = Client::of(&server, data);
    let buying = tokio::spawn({
        let load = load.clone();
        async move { load.run(&client, 0).await }
    });
    tokio::time::sleep(Duration::from_millis(700)).await;
    let asked = Instant::now();
    let status = tokio::task::spawn_blocking(move || server.terminate()).await.unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(9), "requests in flight are short: {:?}", asked.elapsed());

    let books = buying.await.unwrap();
    assert!(acknowledged(&books).0 > 10, "there was no load");
    let server = Server::start(data, &["--demo"]);
    load.audit(&Client::of(&server, data), &books).await;
    let output = run(&["verify", "--data", text(data)]);
    assert!(output.status.success(), "{}", stdout(&output));
}

/// A request that has begun and does not end: its body is announced and never sent.
fn unfinished_request(url: &str, key: &str) -> TcpStream {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    let head = format!(
        "POST /api/bookings/hold-seats HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Authorization: Bearer {key}\r\nRowlock-User: anna\r\nContent-Length: 100\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    stream
}

/// A load balancer must be able to see that the server is going before it is gone.
#[tokio::test]
async fn readyz_says_no_before_connections_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let ready = format!("{}/readyz", server.url);
    assert_eq!(reqwest::get(&ready).await.unwrap().status(), 200);
    server.signal(Signal::SIGTERM);
    loop {
        // A refused connection before a 503 fails here.
        let answer = reqwest::get(&ready).await.expect("it still answers");
        match answer.status().as_u16() {
            200 => tokio::time::sleep(Duration::from_millis(5)).await,
            status => {
                let connection = answer.headers().get("connection").map(|value| value.as_bytes());
                break assert_eq!((status, connection), (503, Some(&b"close"[..])));
            }
        }
    }
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn an_idle_connection_does_not_keep_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let _idle = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let asked = Instant::now();
    assert_eq!(server.terminate().code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_request_that_never_ends_keeps_the_server_only_so_long() {
    let folder = tempfile::tempdir().unwrap();
    let (_, key) = create_org(folder.path(), &[]);
    let mut command = crate::support::rowlock();
    command
        .args(["serve", "--data", text(folder.path()), "--listen", "127.0.0.1:0"])
        .env("ROWLOCK__SERVER__DRAIN_SECONDS", "1")
        .env("ROWLOCK__HTTP__REQUEST_TIMEOUT_MS", "60000");
    let server = Server::spawn(&mut command);
    let _stream = unfinished_request(&server.url, &key);
    let asked = Instant::now();
    assert_eq!(server.terminate().code(), Some(0));
    let took = asked.elapsed();
    assert!(took > Duration::from_millis(900) && took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_second_signal_does_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let (_, key) = create_org(folder.path(), &[]);
    let mut command = crate::support::rowlock();
    command
        .args(["serve", "--data", text(folder.path()), "--listen", "127.0.0.1:0"])
        .env("ROWLOCK__SERVER__DRAIN_SECONDS", "60")
        .env("ROWLOCK__HTTP__REQUEST_TIMEOUT_MS", "60000");
    let server = Server::spawn(&mut command);
    let _stream = unfinished_request(&server.url, &key);
    let asked = Instant::now();
    server.signal(Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(500));
    server.signal(Signal::SIGTERM);
    let status = server.wait();
    assert!(asked.elapsed() < Duration::from_secs(10));
    assert_eq!(status.code(), Some(128 + Signal::SIGTERM as i32));
}

/// The terminal is closed. Who was started with nohup goes on.
#[test]
fn a_lost_terminal_stops_it_cleanly_unless_it_was_told_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.signal(Signal::SIGHUP);
    assert_eq!(server.wait().code(), Some(0));

    let mut nohup = std::process::Command::new("nohup");
    nohup.arg(crate::support::rowlock().get_program());
    nohup.args(["serve", "--data", text(folder.path()), "--listen", "127.0.0.1:0"]);
    let server = Server::spawn(&mut nohup);
    server.signal(Signal::SIGHUP);
    assert_eq!(server.terminate().code(), Some(0), "it was still there");
}

#[test]
fn a_client_that_never_finishes_its_head_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = crate::support::rowlock();
    command
        .args(["serve", "--data", text(folder.path()), "--listen", "127.0.0.1:0"])
        .env("ROWLOCK__HTTP__HEADER_TIMEOUT_MS", "300");
    let server = Server::spawn(&mut command);
    let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost:").unwrap();
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    assert!(ended.is_ok(), "the connection is still open: {ended:?}");
}
