//! Runs the real binary, on a free port and in a folder of its own. Only processes started here are ever ended.

pub mod load;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

pub const START_LIMIT: Duration = Duration::from_secs(60);

/// The binary, without the settings that the environment of the tests might have.
pub fn rowlock() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowlock"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ROWLOCK__") {
            command.env_remove(name);
        }
    }
    command
}

pub fn run(arguments: &[&str]) -> Output {
    rowlock().args(arguments).output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The org's id and its key, as `org create` prints them.
pub fn create_org(data: &Path, more: &[&str]) -> (String, String) {
    let output = run(&[&["org", "create", "--data", text(data), "Opera"], more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = stdout(&output);
    let after = |word: &str| {
        let line = printed.lines().find(|line| line.starts_with(word)).unwrap();
        line[word.len()..].split_whitespace().next().unwrap().to_owned()
    };
    (after("org "), after("api key "))
}

pub struct Server {
    child: Child,
    pub url: String,
    /// What it printed before and after that, line by line.
    pub lines: Vec<String>,
    rest: Receiver<String>,
}

impl Server {
    pub fn start(data: &Path, more: &[&str]) -> Self {
        let mut command = rowlock();
        command.args(["serve", "--data", text(data), "--listen", "127.0.0.1:0", "--log-level", "warn"]);
        Self::spawn(command.args(more))
    }

    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, rest) = channel();
        // Keeps reading for as long as the server lives, so that the server can always print.
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).for_each(|line| drop(send.send(line)))
        });
        let mut server = Self { child, url: String::new(), lines: Vec::new(), rest };
        while server.url.is_empty() {
            let Ok(line) = server.rest.recv_timeout(START_LIMIT) else { panic!("the server did not start") };
            if let Some(url) = line.strip_prefix("listening on ") {
                server.url = url.to_owned();
            }
            server.lines.push(line);
        }
        server
    }

    /// All that it has printed so far, a moment after it began to listen.
    pub fn printed(&mut self) -> String {
        while let Ok(line) = self.rest.recv_timeout(Duration::from_millis(500)) {
            self.lines.push(line);
        }
        self.lines.join("\n")
    }

    /// What it has printed when that has come.
    pub fn printed_until(&mut self, word: &str) -> String {
        while !self.lines.iter().any(|line| line.contains(word)) {
            let line = self.rest.recv_timeout(START_LIMIT);
            self.lines.push(line.unwrap_or_else(|_| panic!("no {word} in {:?}", self.lines)));
        }
        self.lines.join("\n")
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// How it ends by itself. One that does not within this time is killed.
    pub fn ended_within(mut self, limit: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// Asks it to stop and waits until it has.
    pub fn terminate(self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// kill -9.
    pub fn crash(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `demo.json`.
pub fn demo(data: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(data.join("demo.json")).unwrap()).unwrap()
}

/// The seat with this ordinal.
pub fn seat(event: &str, ordinal: u32) -> String {
    rowlock_core::SeatId::of(event.parse().unwrap(), ordinal).to_string()
}

/// A client with the demo's key, who acts for any user.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    pub url: String,
    key: String,
}

/// A status and a body.
pub type Answer = Result<(u16, Value), reqwest::Error>;

impl Client {
    pub fn new(url: &str, key: &str) -> Self {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(15)).build().unwrap();
        Self { http, url: url.to_owned(), key: key.to_owned() }
    }

    pub fn of(server: &Server, data: &Path) -> Self {
        Self::new(&server.url, demo(data)["admin_key"].as_str().unwrap())
    }

    pub async fn get(&self, user: &str, path: &str) -> Answer {
        self.send(self.http.get(format!("{}{path}", self.url)), user).await
    }

    pub async fn post(&self, user: &str, path: &str, body: Value) -> Answer {
        self.send(self.http.post(format!("{}{path}", self.url)).json(&body), user).await
    }

    pub async fn hold(&self, user: &str, event: &str, seats: &[String]) -> Answer {
        self.post(user, "/api/bookings/hold-seats", json!({ "event_id": event, "seat_ids": seats })).await
    }

    pub async fn confirm(&self, user: &str, hold: &str) -> Answer {
        self.post(user, &format!("/api/bookings/{hold}/confirm"), json!({})).await
    }

    pub async fn release(&self, user: &str, hold: &str) -> Answer {
        self.delete(user, &format!("/api/bookings/hold/{hold}")).await
    }

    pub async fn delete(&self, user: &str, path: &str) -> Answer {
        self.send(self.http.delete(format!("{}{path}", self.url)), user).await
    }

    /// With an idempotency key.
    pub async fn post_keyed(&self, user: &str, path: &str, body: Value, key: &str) -> Answer {
        let request = self.http.post(format!("{}{path}", self.url)).header("Idempotency-Key", key);
        self.send(request.json(&body), user).await
    }

    pub fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    /// For nobody in particular, with the key alone.
    pub async fn bare(&self, path: &str) -> Answer {
        self.send(self.http.get(format!("{}{path}", self.url)), "").await
    }

    async fn send(&self, request: reqwest::RequestBuilder, user: &str) -> Answer {
        let mut request = request.bearer_auth(&self.key);
        if !user.is_empty() {
            request = request.header("Rowlock-User", user);
        }
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        let bytes = answer.bytes().await?;
        Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }
}
