//! `rowlock dev up`: Postgres, Redis and some nodes on this machine, to try the whole thing. Everything ends with it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use rand::RngCore;
use rowlock_dev::postgres::Postgres;
use rowlock_dev::process::{Process, Start};
use rowlock_dev::redis::Redis;
use rowlock_dev::{DevError, wait_until};
use tokio::runtime::Runtime;

use crate::cli::DevUp;
use crate::fault::Fault;
use crate::files;
use crate::output::say;
use crate::signals::Signals;

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// How long a signal may take from the kernel to [`Asked`].
const HEAR_LIMIT: Duration = Duration::from_secs(1);
/// How often it is looked whether a node has ended by itself.
const LOOK: Duration = Duration::from_millis(50);

pub fn up(args: &DevUp) -> Result<ExitCode, Fault> {
    // Before there is anything to clean up.
    let asked = Asked::listen()?;
    let mut all = All::default();
    let mut result = all.start(args, &asked);
    // Ctrl-C also ends those who are still in our group: what prepares the folder of Postgres, and a child that has just
    // been made. Then the start fails because of it, perhaps before we have heard of it ourselves.
    if result.is_err() && wait_until(HEAR_LIMIT, || asked.to_end()) {
        result = Ok(());
    }
    let result = result.and_then(|()| all.watch(&asked));
    say("ending");
    all.end(&asked);
    result.map(|()| ExitCode::SUCCESS)
}

/// How often the end was asked for, from the beginning on.
struct Asked {
    times: Arc<AtomicUsize>,
    /// What listens.
    _runtime: Runtime,
}

impl Asked {
    fn listen() -> Result<Self, Fault> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime =
            runtime.map_err(|error| Fault::new(format!("the runtime can't be started: {error}")))?;
        let times = Arc::<AtomicUsize>::default();
        let mut signals = runtime.block_on(async { Signals::listen() })?;
        runtime.spawn({
            let times = Arc::clone(&times);
            async move {
                loop {
                    signals.next().await;
                    times.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Ok(Self { times, _runtime: runtime })
    }

    fn to_end(&self) -> bool {
        self.times.load(Ordering::Relaxed) > 0
    }

    /// Somebody does not want to wait for what is under way.
    fn again(&self) -> bool {
        self.times.load(Ordering::Relaxed) > 1
    }
}

/// What was started so far. Dropping it ends it, those first who need the others.
#[derive(Default)]
struct All {
    nodes: Vec<Node>,
    redis: Option<Redis>,
    postgres: Option<Postgres>,
}

impl All {
    /// Starts everything, or as much of it as it comes to before the end is asked for.
    fn start(&mut self, args: &DevUp, asked: &Asked) -> Result<(), Fault> {
        let folder = PathBuf::from(&args.data);
        files::prepare_folder(&folder)?;
        say("starting Postgres and Redis");
        let postgres = self.postgres.insert(Postgres::start().map_err(fault)?);
        if asked.to_end() {
            return Ok(());
        }
        let redis = self.redis.insert(Redis::start().map_err(fault)?);
        let secret = secret();
        for number in 0..args.nodes {
            let Some(node) = Node::start(args.listen, number, &folder, postgres, redis, &secret, asked)?
            else {
                return Ok(());
            };
            let (address, log) = (node.address, node.process.log().display());
            say(format!("node {} on http://{address}  (log: {log})", number + 1));
            self.nodes.push(node);
        }
        say(format!("Postgres at {}", postgres.url()));
        say(format!("Redis at {}", redis.url()));
        say(format!("the demo's credentials are in {}", folder.join("node-1").join("demo.json").display()));
        Ok(())
    }

    /// Until somebody asks for the end. An error when a node has ended by itself.
    fn watch(&self, asked: &Asked) -> Result<(), Fault> {
        if !asked.to_end() {
            say("press Ctrl-C to end all of it");
        }
        while !asked.to_end() {
            if let Some(gone) = self.nodes.iter().find(|node| !node.process.is_running()) {
                let log = gone.process.log().display();
                return Err(Fault::new(format!("a node has ended by itself: see {log}")));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The nodes answer what they have begun with. Whoever asks again does not wait for that.
    fn end(self, asked: &Asked) {
        for node in &self.nodes {
            node.process.signal(Signal::SIGTERM);
        }
        let is_over = || self.nodes.iter().all(|node| !node.process.is_running());
        wait_until(STOP_LIMIT, || asked.again() || is_over());
    }
}

struct Node {
    address: SocketAddr,
    process: Process,
}

impl Node {
    /// `None`: the end was asked for first.
    fn start(
        first: SocketAddr,
        number: u16,
        folder: &Path,
        postgres: &Postgres,
        redis: &Redis,
        secret: &str,
        asked: &Asked,
    ) -> Result<Option<Self>, Fault> {
        let port = first
            .port()
            .checked_add(number)
            .ok_or_else(|| Fault::new("--listen leaves no port for a node"))?;
        let address = SocketAddr::new(first.ip(), port);
        let data = folder.join(format!("node-{}", number + 1));
        files::prepare_folder(&data)?;
        let program = std::env::current_exe()
            .map_err(|error| Fault::new(format!("this program can't find itself: {error}")))?;
        let mut start = Start::new(program, folder.join(format!("node-{}.log", number + 1)))
            .arguments(["serve", "--data", &data.display().to_string(), "--listen", &address.to_string()])
            .environment("ROWLOCK__STORE__TRUTH", postgres.url())
            .environment("ROWLOCK__REDIS__URLS", redis.url())
            .environment("ROWLOCK__AUTH__JWT_SECRET", secret);
        if number == 0 {
            start = start.arguments(["--demo"]);
        }
        if asked.to_end() {
            return Ok(None);
        }
        let process = Process::start(&start).map_err(fault)?;
        let is_ready = || process.said().contains("listening on");
        process.until_ready(START_LIMIT, || asked.to_end() || is_ready()).map_err(fault)?;
        Ok(is_ready().then_some(Self { address, process }))
    }
}

fn fault(error: DevError) -> Fault {
    Fault::new(error.to_string())
}

/// All nodes check tokens with the same secret.
fn secret() -> String {
    let mut bytes = [0; 32];
    rand::rng().fill_bytes(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
