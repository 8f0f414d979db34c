//! `rowlock dev up`: Postgres, Redis and some nodes on this machine, to try the whole thing. Everything ends with it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rand::RngCore;
use rowlock_dev::DevError;
use rowlock_dev::postgres::Postgres;
use rowlock_dev::process::{Process, Start};
use rowlock_dev::redis::Redis;

use crate::cli::DevUp;
use crate::fault::Fault;
use crate::files;
use crate::output::say;
use crate::signals::Signals;
use crate::store;

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(20);

pub fn up(args: &DevUp) -> Result<ExitCode, Fault> {
    let folder = PathBuf::from(&args.data);
    files::prepare_folder(&folder)?;
    let fault = |error: DevError| Fault::new(error.to_string());
    say("starting Postgres and Redis");
    let postgres = Postgres::start().map_err(fault)?;
    let redis = Redis::start().map_err(fault)?;
    let secret = secret();
    let mut nodes = Vec::new();
    for number in 0..args.nodes {
        let node = Node::start(args.listen, number, &folder, &postgres, &redis, &secret)?;
        say(format!(
            "node {} on http://{}  (log: {})",
            number + 1,
            node.address,
            node.process.log().display()
        ));
        nodes.push(node);
    }
    say(format!("Postgres at {}", postgres.url()));
    say(format!("Redis at {}", redis.url()));
    say(format!("the demo's credentials are in {}", folder.join("node-1").join("demo.json").display()));
    say("press Ctrl-C to end all of it");
    let ended = store::block_on(async {
        let mut signals = Signals::listen()?;
        loop {
            tokio::select! {
                _ = signals.next() => return Ok(None),
                () = tokio::time::sleep(Duration::from_millis(500)) => {}
            }
            if let Some(gone) = nodes.iter().find(|node| !node.process.is_running()) {
                return Ok(Some(gone.process.log().display().to_string()));
            }
        }
    })?;
    if let Some(log) = ended? {
        return Err(Fault::new(format!("a node has ended by itself: see {log}")));
    }
    say("ending");
    for node in &nodes {
        node.process.end(nix::sys::signal::Signal::SIGTERM, STOP_LIMIT);
    }
    Ok(ExitCode::SUCCESS)
}

struct Node {
    address: SocketAddr,
    process: Process,
}

impl Node {
    fn start(
        first: SocketAddr,
        number: u16,
        folder: &Path,
        postgres: &Postgres,
        redis: &Redis,
        secret: &str,
    ) -> Result<Self, Fault> {
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
        let fault = |error: DevError| Fault::new(error.to_string());
        let process = Process::start(&start).map_err(fault)?;
        process.until_ready(START_LIMIT, || process.said().contains("listening on")).map_err(fault)?;
        Ok(Self { address, process })
    }
}

/// All nodes check tokens with the same secret.
fn secret() -> String {
    let mut bytes = [0; 32];
    rand::rng().fill_bytes(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
