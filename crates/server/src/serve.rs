//! `rowlock serve`: everything put together, run, and taken apart again in order.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rowlock_api::{Api, ApiOptions, JwtOptions};
use rowlock_registry::Engine;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::config::Origins;
use crate::connections::{self, Limits};
use crate::demo::{self, Demo};
use crate::fault::Fault;
use crate::output::say;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::{logging, secret, store, telemetry};

/// How long the store may take to finish what was accepted.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// How many tasks run before one that another thread has woken. The writer of the store wakes its lane like this when a batch is
/// done, and has nothing to do until the lane has run. Left to itself the runtime looks about every 0.2 ms, an eighth of what a batch takes under load.
const TASKS_BEFORE_WOKEN: u32 = 2;

pub fn run(settings: &Settings, origins: &Origins, with_demo: bool) -> Result<ExitCode, Fault> {
    logging::start(&settings.server);
    let runtime = runtime(workers());
    let runtime = runtime.map_err(|error| Fault::new(format!("the runtime can't be started: {error}")))?;
    runtime.block_on(serve(settings, origins, with_demo))?;
    Ok(ExitCode::SUCCESS)
}

/// What everything of a server runs on.
pub fn runtime(workers: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .global_queue_interval(TASKS_BEFORE_WOKEN)
        .enable_all()
        .build()
}

/// Threads for HTTP. The writer of the store is busy whenever they are, so one core is left to it.
pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1).max(1))
}

async fn serve(settings: &Settings, origins: &Origins, with_demo: bool) -> Result<(), Fault> {
    let mut signals = Signals::listen()?;
    let data = Path::new(&settings.server.data);
    let metrics = telemetry::start()?;
    let in_use = "Stop that one first, or choose another folder with --data";
    let truth = store::open(settings, origins, in_use).await?;
    let engine = store::engine(settings, origins, truth).await?;
    let signing = secret::signing_secret(settings, data)?;
    if settings.postgres().is_some()
        && settings.auth.jwt_secret.is_empty()
        && settings.auth.jwks_file.is_empty()
    {
        tracing::warn!(
            "tokens are checked with a secret of this node alone: give all nodes the same auth.jwt_secret"
        );
    }
    let listener = bind(&settings.server.listen, origins).await?;
    let address = listener
        .local_addr()
        .map_err(|error| Fault::new(format!("the address being listened on is unknown: {error}")))?;
    let url = format!("http://{}", reachable(address));

    let demo = match (with_demo, &signing) {
        (false, _) => None,
        (true, Some(secret)) => Some(demo::ensure(&engine, settings, data, &url, secret).await?),
        (true, None) => return Err(demo::needs_a_secret()),
    };
    let api = Api::new(
        engine.clone(),
        ApiOptions {
            jwt: JwtOptions {
                issuer: settings.auth.issuer.clone(),
                audience: settings.auth.audience.clone(),
                hs256_secret: signing,
                jwks: secret::public_keys(settings, origins)?,
            },
            limits: settings.http_limits(),
            rates: settings.rate_limits(),
            trusted_proxies: settings.http.trusted_proxies.clone(),
            metrics: Some(metrics.clone()),
        },
    )
    .map_err(|error| origins.broken(setting(error.setting), &error.rule))?;
    tokio::spawn(telemetry::upkeep(metrics));
    tokio::spawn(telemetry::lateness());
    announce(settings, &engine, &url, demo.as_ref()).await?;

    let limits = Limits {
        header_timeout: Duration::from_millis(settings.http.header_timeout_ms.into()),
        write_timeout: Duration::from_millis(settings.http.write_timeout_ms.into()),
        max_connections: settings.http.max_connections as usize,
        drain: Duration::from_secs(settings.server.drain_seconds.into()),
    };
    let stop = async {
        tokio::select! {
            name = signals.next() => {
                tracing::info!(signal = name, drain_seconds = settings.server.drain_seconds, "stopping");
            }
            // Whoever looks after the process starts it again; nothing that was acknowledged is lost by that.
            () = engine.broken() => tracing::error!("stopping, because a task of the engine ended badly"),
        }
        signals.then_exit();
        // Load balancers must see that it is not ready before connections are refused.
        api.drain();
        tokio::time::sleep(Duration::from_millis(settings.server.unready_ms.into())).await;
    };
    let drained = connections::serve(listener, api.router(), limits, stop).await;
    if !drained {
        tracing::warn!("some requests did not finish in time");
    }
    let begun = Instant::now();
    // A store that does not answer must not keep the process. Closing it blocks, and so would waiting for its threads.
    let (stopping, runtime) = (engine.clone(), Handle::current());
    let stopped = tokio::task::spawn_blocking(move || runtime.block_on(stopping.stop()));
    if tokio::time::timeout(STOP_LIMIT, stopped).await.is_err() {
        tracing::error!("the store did not finish in time: what was not answered may have been done");
        std::process::exit(1);
    }
    tracing::info!(milliseconds = begun.elapsed().as_millis() as u64, "stopped");
    if engine.is_broken() {
        return Err(Fault::new("a task of the engine ended badly: the log says which, and why"));
    }
    Ok(())
}

/// What the API calls its options, and what they are called in the settings.
fn setting(option: &'static str) -> &'static str {
    match option {
        "jwt.issuer" => "auth.issuer",
        "jwt.audience" => "auth.audience",
        "jwt.hs256_secret" => "auth.jwt_secret",
        "jwt.jwks" => "auth.jwks_file",
        "trusted_proxies" => "http.trusted_proxies",
        other => other,
    }
}

async fn bind(listen: &str, origins: &Origins) -> Result<TcpListener, Fault> {
    TcpListener::bind(listen).await.map_err(|error| {
        let why = match error.kind() {
            ErrorKind::AddrInUse => {
                "another process listens there already; choose another with --listen".into()
            }
            ErrorKind::PermissionDenied => "this user may not listen there; take a port from 1024 up".into(),
            ErrorKind::InvalidInput => "it must be an address with a port, such as 127.0.0.1:8080".into(),
            _ => error.to_string(),
        };
        origins.broken("server.listen", &format!("is {listen}, but nobody can listen there: {why}"))
    })
}

/// An address that a client on this machine can connect to: nobody can connect to «all addresses».
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Tells a person on stdout, or a machine in the log. The demo's credentials never go into a log.
async fn announce(settings: &Settings, engine: &Engine, url: &str, demo: Option<&Demo>) -> Result<(), Fault> {
    let failed = |failure| Fault::new(format!("the data folder can't be read: {failure}"));
    let has_org = !engine.orgs(None, 1).await.map_err(failed)?.is_empty();
    let data = &settings.server.data;
    let shared = settings.postgres().is_some();
    // A data folder has one process at a time; Postgres has many, so nothing needs to be stopped.
    let create = if shared {
        "rowlock org create --operator --truth postgres://… NAME".to_owned()
    } else {
        format!("rowlock org create --operator --data {data} NAME")
    };
    if settings.server.log_format == "json" {
        tracing::info!(url, docs = format!("{url}/docs"), data, "listening");
        if !has_org {
            let how = if shared { "run" } else { "stop the server, start it again after" };
            tracing::warn!("there is no org yet: {how} `{create}`");
        }
        return Ok(());
    }
    say(format!("listening on {url}"));
    say(format!("API docs at  {url}/docs"));
    match demo {
        Some(demo) => say(demo::invitation(engine, demo, url, Path::new(data)).await?),
        None if !has_org => {
            let how = if shared { "Make" } else { "Stop the server, make" };
            let then = if shared { "" } else { ", and start again" };
            say(format!("\nThere is no org yet. {how} the first org with its key{then}:"));
            say(format!("\n  {create}\n"));
        }
        None => {}
    }
    Ok(())
}
