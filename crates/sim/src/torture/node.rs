//! One node: a real process of the product, which can be killed, stopped, cut off and given another clock.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use parking_lot::Mutex;
use rowlock_dev::address;
use rowlock_dev::process::{Process, Start};

use super::Failed;
use super::house::{SECRET, Shared};
use super::proxy::{Mode, Proxy};
use super::schedule::Link;

const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a node that is asked to stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(60);

pub struct Node {
    process: Mutex<Option<Process>>,
    start: Start,
    folder: PathBuf,
    number: usize,
    incarnation: AtomicU32,
    /// What faketime adds to the clock.
    skew: Mutex<Option<i32>>,
    /// Whether its disk forgets, see [`super::sabotage`].
    forgets: bool,
    clients: Proxy,
    /// To what it shares with others. `None`: it has a store of its own.
    shared: Option<Ways>,
}

/// The ways from a node to what it shares with others.
struct Ways {
    redis: Proxy,
    postgres: Proxy,
}

impl Node {
    pub async fn new(
        number: usize,
        server: &Path,
        folder: &Path,
        shared: Option<&Shared>,
        forgets: bool,
    ) -> Result<Self, Failed> {
        let listen = address::free()?;
        let any = SocketAddr::new(IpAddr::V4(address::own_ip()), 0);
        let clients = Proxy::start(any, listen).await?;
        let mut start = Start::new(server, folder.join("unused.log"))
            .arguments(["serve", "--log-level", "info", "--listen", &listen.to_string()])
            .arguments(["--data".to_owned(), data(folder, number).display().to_string()])
            .environment("ROWLOCK__AUTH__JWT_SECRET", SECRET)
            .environment("ROWLOCK__ENGINE__RECONCILE_SECONDS", "15");
        let mut ways = None;
        if let Some(Shared { redis, postgres }) = shared {
            let redis = Proxy::start(any, redis.address()).await?;
            let postgres = Proxy::start(any, postgres.address()).await?;
            let truth = format!("postgres://{}@{}/postgres", rowlock_dev::postgres::USER, postgres.address());
            start = start
                .environment("ROWLOCK__STORE__TRUTH", truth)
                .environment("ROWLOCK__REDIS__URLS", format!("redis://{}", redis.address()))
                .environment("ROWLOCK__REDIS__BREAKER_PROBE_SECONDS", "1");
            ways = Some(Ways { redis, postgres });
        }
        let node = Self {
            process: Mutex::new(None),
            start,
            folder: folder.to_owned(),
            number,
            incarnation: AtomicU32::new(0),
            skew: Mutex::new(None),
            forgets,
            clients,
            shared: ways,
        };
        node.start()?;
        Ok(node)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.clients.address())
    }

    pub fn cut(&self, link: Link, mode: Mode) {
        let shared = || self.shared.as_ref().expect("only ways that there are can be cut");
        match link {
            Link::Clients => self.clients.set(mode),
            Link::Redis => shared().redis.set(mode),
            Link::Postgres => shared().postgres.set(mode),
        }
    }

    /// Starts it, and tries again while what it needs is away. Blocks.
    pub fn start(&self) -> Result<(), Failed> {
        let end = std::time::Instant::now() + START_LIMIT;
        loop {
            let mut start = self.start.clone();
            let incarnation = self.incarnation.fetch_add(1, Ordering::Relaxed);
            start.log = self.folder.join(format!("node-{}.{incarnation}.log", self.number));
            if let Some(seconds) = *self.skew.lock() {
                start = start
                    .environment("LD_PRELOAD", faketime().ok_or("faketime is not installed")?)
                    .environment("FAKETIME", format!("{seconds:+}"))
                    .environment("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            }
            let process = Process::start(&start)?;
            match process.until_ready(START_LIMIT, || process.said().contains("listening on")) {
                Ok(()) => {
                    *self.process.lock() = Some(process);
                    return Ok(());
                }
                Err(error) if std::time::Instant::now() >= end => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    pub fn set_skew(&self, seconds: Option<i32>) {
        *self.skew.lock() = seconds;
    }

    /// Whether it runs, as far as nobody has killed it.
    pub fn has_died(&self) -> bool {
        self.process.lock().as_ref().is_some_and(|process| !process.is_running())
    }

    /// Ends it behind everybody's back.
    pub fn die(&self) {
        if let Some(process) = self.process.lock().as_ref() {
            process.signal(Signal::SIGKILL);
        }
    }

    /// Blocks.
    pub fn kill(&self) -> Result<(), Failed> {
        if let Some(process) = self.process.lock().take() {
            process.kill();
        }
        if self.forgets { self.forget() } else { Ok(()) }
    }

    /// Every second time, its folder becomes what it was at the death before.
    fn forget(&self) -> Result<(), Failed> {
        let (data, image) = (data(&self.folder, self.number), self.folder.join("image"));
        if image.exists() {
            std::fs::remove_dir_all(&data)?;
            std::fs::rename(&image, &data)?;
            return Ok(());
        }
        std::fs::create_dir(&image)?;
        for file in std::fs::read_dir(&data)? {
            let file = file?;
            std::fs::copy(file.path(), image.join(file.file_name()))?;
        }
        Ok(())
    }

    pub fn pause(&self) {
        if let Some(process) = self.process.lock().as_ref() {
            process.pause();
        }
    }

    pub fn resume(&self) {
        if let Some(process) = self.process.lock().as_ref() {
            process.resume();
        }
    }

    /// Asks it to stop. `Err` says how it went wrong. Blocks.
    pub fn stop(&self) -> Result<(), String> {
        let Some(process) = self.process.lock().take() else { return Ok(()) };
        match process.end(Signal::SIGTERM, STOP_LIMIT) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("node {} was asked to stop and ended with {status}", self.number)),
            None => Err(format!("node {} was asked to stop and did not", self.number)),
        }
    }

    /// Lines of its logs in which it says that it panicked.
    pub fn panics(&self) -> Vec<String> {
        let logs = (0..self.incarnation.load(Ordering::Relaxed))
            .map(|incarnation| self.folder.join(format!("node-{}.{incarnation}.log", self.number)));
        let texts = logs.filter_map(|log| std::fs::read_to_string(log).ok());
        let found = |text: String| {
            text.lines().filter(|line| line.contains("panicked")).map(str::to_owned).collect::<Vec<_>>()
        };
        texts.flat_map(found).collect()
    }
}

fn faketime() -> Option<String> {
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"]
        .iter()
        .map(|folder| format!("{folder}/faketime/libfaketime.so.1"))
        .find(|path| Path::new(path).exists())
}

/// The data folder of a node.
pub fn data(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("node-{number}"))
}
