//! `rowlock dev up`: Postgres, Redis and some nodes on this machine, to try the whole thing. Everything ends with it.
//!
//! Ctrl-C in a terminal reaches every process of the group that runs there. Postgres and Redis would go before the nodes
//! that still need them, and a node would take what it is sent behind that for a second signal, at which it does not drain.
//! So there are two processes of this program: one in the terminal, which hears the signals, and one in a group of its own,
//! which starts everything and hears only what the first one passes on.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
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
use crate::store;

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// How often it is looked whether somebody has ended.
const LOOK: Duration = Duration::from_millis(50);

pub fn up(args: &DevUp) -> Result<ExitCode, Fault> {
    if args.apart { run(args) } else { store::block_on(watch(args))? }
}

/// Starts the second process, and passes on what this one is told.
async fn watch(args: &DevUp) -> Result<ExitCode, Fault> {
    // Before there is anything to clean up.
    let mut signals = Signals::listen()?;
    let mut child = start_apart(args)?;
    let mut asked = false;
    loop {
        tokio::select! {
            _ = signals.next() => {
                asked = true;
                // Not waited for yet, so the id is still its own.
                let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
            }
            () = tokio::time::sleep(LOOK) => {}
        }
        let ended =
            child.try_wait().map_err(|error| Fault::new(format!("it can't be waited for: {error}")))?;
        match ended.map(|status| status.code()) {
            None => {}
            Some(Some(code)) => return Ok(ExitCode::from(code as u8)),
            // Asked before it listened: it had started nothing.
            Some(None) if asked => return Ok(ExitCode::SUCCESS),
            Some(None) => return Err(Fault::new("it was killed, and all that it had started with it")),
        }
    }
}

fn start_apart(args: &DevUp) -> Result<Child, Fault> {
    // If this process is killed, the other one is told to end, and cleans up.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(this_program()?).args(["dev", "up", "--apart"]);
    command.args(["--data", &args.data, "--listen", &args.listen.to_string()]);
    command.args(["--nodes", &args.nodes.to_string()]);
    command
        .process_group(0)
        .spawn()
        .map_err(|error| Fault::new(format!("this program can't start itself with setpriv: {error}")))
}

fn run(args: &DevUp) -> Result<ExitCode, Fault> {
    let asked = Asked::listen()?;
    let mut all = All::default();
    let started = all.start(args, &asked);
    if started.is_ok() && !asked.to_end() {
        say("press Ctrl-C to end all of it");
        wait_until_ended(&all, &asked)?;
    }
    say("ending");
    all.end(&asked);
    started.map(|()| ExitCode::SUCCESS)
}

/// Until somebody asks for the end. An error when a node has ended by itself.
fn wait_until_ended(all: &All, asked: &Asked) -> Result<(), Fault> {
    while !asked.to_end() {
        if let Some(gone) = all.nodes.iter().find(|node| !node.process.is_running()) {
            let log = gone.process.log().display();
            return Err(Fault::new(format!("a node has ended by itself: see {log}")));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
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
        let mut start = Start::new(this_program()?, folder.join(format!("node-{}.log", number + 1)))
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

fn this_program() -> Result<PathBuf, Fault> {
    std::env::current_exe().map_err(|error| Fault::new(format!("this program can't find itself: {error}")))
}

/// All nodes check tokens with the same secret.
fn secret() -> String {
    let mut bytes = [0; 32];
    rand::rng().fill_bytes(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
