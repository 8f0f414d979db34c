//! Clients that ask for much and take little of it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{Server, demo, text};

/// Far longer than a write may wait here, far shorter than a place may be lost.
const SOON: Duration = Duration::from_secs(15);

struct Stadium {
    server: Server,
    /// The whole map of 100,000 seats: more than the buffers of two sockets take.
    map: String,
    _folder: tempfile::TempDir,
}

impl Stadium {
    /// With room for one connection, so that whoever keeps its place keeps everybody out.
    fn open(write_timeout_ms: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = crate::support::rowlock();
        command
            .args(["serve", "--demo", "--data", text(folder.path()), "--listen", "127.0.0.1:0"])
            .env("ROWLOCK__HTTP__MAX_CONNECTIONS", "1")
            .env("ROWLOCK__HTTP__WRITE_TIMEOUT_MS", write_timeout_ms.to_string());
        let server = Server::spawn(&mut command);
        let demo = demo(folder.path());
        let (event, key) = (demo["events"][1]["id"].as_str().unwrap(), demo["admin_key"].as_str().unwrap());
        let map = format!(
            "GET /api/events/{event}/seats HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
        );
        Self { server, map, _folder: folder }
    }

    fn ask(&self, request: &str) -> TcpStream {
        ask(&self.server, request)
    }

    fn first_line(&self, request: &str) -> Result<String, ErrorKind> {
        let mut start = [0; 15];
        self.ask(request).read_exact(&mut start).map_err(|error| error.kind())?;
        Ok(String::from_utf8(start.to_vec()).unwrap())
    }
}

fn ask(server: &Server, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// How long an answer is, head and body, by its first bytes.
fn length(start: &[u8]) -> usize {
    let head = start.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let lines = std::str::from_utf8(&start[..head]).unwrap().to_lowercase();
    let body = lines.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
    head + body.trim().parse::<usize>().unwrap()
}

#[test]
fn a_client_that_does_not_read_its_answer_loses_its_place() {
    let stadium = Stadium::open(300);
    let mut deaf = stadium.ask(&stadium.map);
    // It has begun: what it does not take is stuck.
    assert_eq!(deaf.read(&mut [0; 1]).unwrap(), 1);
    let livez = "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_eq!(stadium.first_line(livez).as_deref(), Ok("HTTP/1.1 200 OK"), "its place is not given back");
    // And the answer is not kept for it in the system's buffers either.
    let mut rest = Vec::new();
    let ended = deaf.read_to_end(&mut rest).map_err(|error| error.kind());
    assert_eq!(ended, Err(ErrorKind::ConnectionReset), "after {} bytes", rest.len());
}

#[test]
fn a_client_that_reads_slowly_gets_all_of_it() {
    const LIMIT: u32 = 1_500;
    let stadium = Stadium::open(LIMIT);
    let mut slow = stadium.ask(&stadium.map);
    let (mut read, mut whole, begun) = (0, None, Instant::now());
    let mut buffer = vec![0; 512 * 1024];
    while whole.is_none_or(|whole| read < whole) {
        std::thread::sleep(Duration::from_millis(100));
        let n = slow.read(&mut buffer).unwrap();
        assert_ne!(n, 0, "it was cut off after {read} bytes");
        read += n;
        whole = whole.or_else(|| Some(length(&buffer[..n])));
    }
    assert_eq!(Some(read), whole);
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(2 * u64::from(LIMIT)), "{read} bytes in {took:?} is not slow");
}

/// There is room for three. All of them are idle, and keep their places while they may send more.
#[test]
fn a_connection_too_many_waits_until_another_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = crate::support::rowlock();
    command
        .args(["serve", "--data", text(folder.path()), "--listen", "127.0.0.1:0"])
        .env("ROWLOCK__HTTP__MAX_CONNECTIONS", "3");
    let server = Server::spawn(&mut command);
    let livez = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    let is_answered = |stream: &mut TcpStream| {
        let mut start = [0; 15];
        let read = stream.read_exact(&mut start).map_err(|error| error.kind());
        read.map(|()| assert_eq!(&start, b"HTTP/1.1 200 OK"))
    };
    let mut three = [(); 3].map(|()| ask(&server, livez));
    for stream in &mut three {
        is_answered(stream).unwrap();
    }
    let mut fourth = ask(&server, livez);
    fourth.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert_eq!(is_answered(&mut fourth), Err(ErrorKind::WouldBlock), "there was no place for it");
    fourth.set_read_timeout(Some(SOON)).unwrap();
    drop(three);
    is_answered(&mut fourth).unwrap();
}

/// Every connection may have a head that is half read, so none may be large.
#[test]
fn a_large_head_is_refused() {
    let stadium = Stadium::open(10_000);
    let get =
        |bytes: usize| format!("GET /livez HTTP/1.1\r\nHost: x\r\nX-Large: {}\r\n\r\n", "a".repeat(bytes));
    assert_eq!(stadium.first_line(&get(32 * 1024)).unwrap(), "HTTP/1.1 200 OK");
    assert_eq!(stadium.first_line(&get(130 * 1024)).unwrap(), "HTTP/1.1 431 Re");
}

#[test]
fn a_long_address_is_refused_without_a_word() {
    let stadium = Stadium::open(10_000);
    let get = |bytes: usize| {
        format!("GET /{} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "a".repeat(bytes - 1))
    };
    assert_eq!(stadium.first_line(&get(65_534)).unwrap(), "HTTP/1.1 404 No");
    let mut answer = String::new();
    stadium.ask(&get(65_535)).read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 414 URI Too Long\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "the body is empty: {answer}");
}
