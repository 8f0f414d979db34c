//! Holds over HTTP, compared with what an endpoint that does nothing reaches under the same load.

use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use rowlock::connections::{self, Limits};
use rowlock_api::{Api, ApiOptions, HttpLimits, JwtOptions, RateLimits, credential};
use rowlock_core::org::{Scope, Scopes};
use rowlock_core::{Command, EventId, SeatId, UserId};
use tokio::net::TcpListener;

use crate::setup::{SEATS_PER_EVENT, Stage, run};
use crate::wrk::{self, Load, Run, Target};

#[derive(clap::Args)]
pub struct Arguments {
    /// Connections that wrk keeps open.
    #[arg(long, default_value_t = 256)]
    connections: u32,
    /// Seconds that each peer is under load in a round.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rounds. In each, every peer has its turn, so that noise hits all alike.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Exit with 1 when a ratio is below its goal.
    #[arg(long)]
    check: bool,
    /// Run only this peer, for a profile: bare, empty, neighbours, scattered or refusals.
    #[arg(long)]
    only: Option<String>,
}

/// The answer of the endpoints that do nothing.
const NOTHING: (axum::http::StatusCode, [(&str, &str); 1], &str) =
    (axum::http::StatusCode::OK, [("content-type", "application/json")], "{}");

const SECRET: &[u8] = b"a secret for the benchmark, long enough for HS256";
/// Seats far apart: a prime that has no factor in common with the number of seats.
const SCATTER: u64 = 104_729;

const HOLD: &str = "/api/bookings/hold-seats";

struct Peer {
    name: &'static str,
    path: &'static str,
    bare: bool,
    stride: u64,
    fixed: bool,
}

const PEERS: [Peer; 5] = [
    Peer { name: "bare", path: "/bench/empty", bare: true, stride: 1, fixed: false },
    Peer { name: "empty", path: "/bench/empty", bare: false, stride: 1, fixed: false },
    Peer { name: "neighbours", path: HOLD, bare: false, stride: 1, fixed: false },
    Peer { name: "scattered", path: HOLD, bare: false, stride: SCATTER, fixed: false },
    Peer { name: "refusals", path: HOLD, bare: false, stride: 1, fixed: true },
];

/// What is compared with what, and what must be reached.
const GOALS: [(&str, &str, f64); 6] = [
    ("neighbours", "empty", 0.6),
    ("scattered", "empty", 0.6),
    ("neighbours", "bare", 0.45),
    ("scattered", "bare", 0.45),
    ("refusals", "empty", 0.9),
    ("empty", "bare", 0.0),
];

pub async fn run_all(arguments: Arguments) -> bool {
    let dir = tempfile::tempdir_in(".").expect("a temporary folder");
    let stage = Stage::new(dir.path()).await;
    let server = serve(&stage).await;
    let bare = serve_bare().await;
    let buyer = token(&stage, "buyer");
    let sold = sold_event(&stage).await;
    let stranger = token(&stage, "somebody-else");
    let load = Load { connections: arguments.connections, duration: Duration::from_secs(arguments.seconds) };
    let mut runs: Vec<(&'static str, Vec<Run>)> = PEERS.iter().map(|peer| (peer.name, Vec::new())).collect();
    for round in 1..=arguments.rounds {
        for (peer, (_, runs)) in PEERS.iter().zip(&mut runs) {
            if arguments.only.as_deref().is_some_and(|only| only != peer.name) {
                continue;
            }
            let event = if peer.fixed { sold } else { stage.event().await };
            let token = if peer.fixed { &stranger } else { &buyer };
            let url = if peer.bare { &bare } else { &server };
            let run = measure(dir.path(), peer, url, token, event, load).await;
            println!(
                "round {round} {:<11} {:>7.0}/s  p50 {:>6.2} ms  p99 {:>6.2} ms  max {:>6.1} ms",
                peer.name, run.per_second, run.p50_ms, run.p99_ms, run.max_ms
            );
            runs.push(run);
        }
    }
    let reached = report(&runs);
    stage.engine.stop().await;
    reached || !arguments.check
}

async fn measure(dir: &Path, peer: &Peer, url: &str, token: &str, event: EventId, load: Load) -> Run {
    let target = Target {
        url,
        path: peer.path,
        token,
        event: event.to_string(),
        prefix: SeatId::prefix(event),
        first: 0,
        stride: peer.stride,
        total: u64::from(SEATS_PER_EVENT),
        fixed: peer.fixed,
    };
    let run = tokio::task::block_in_place(|| wrk::run(dir, &target, load)).expect("wrk runs");
    // A peer that answers something else than it should is not the peer that was meant to be measured.
    let wanted = if peer.fixed { run.requests } else { 0 };
    assert_eq!(run.refused, wanted, "{} answered with the wrong statuses: {run:?}", peer.name);
    let takes_seats = peer.path == HOLD && !peer.fixed;
    assert!(!takes_seats || run.requests <= u64::from(SEATS_PER_EVENT), "the seats of a round ran out");
    run
}

/// An event whose first seat is sold.
async fn sold_event(stage: &Stage) -> EventId {
    let event = stage.event().await;
    let request = stage.hold(event, 0, "owner", "cart");
    let reply = stage.engine.execute(request).await.expect("the seat is free");
    let rowlock_core::Outcome::Hold(held) = reply.outcome else { unreachable!("a hold answers with it") };
    let user = UserId::new("owner").expect("a user");
    let confirm = Command::Confirm { hold: held.hold.id, user, payment_reference: None };
    run(&stage.engine, stage.org, confirm).await;
    event
}

async fn serve(stage: &Stage) -> String {
    // The benchmark wants the work of limiting rates, not its effect.
    let rates = RateLimits {
        per_user_per_second: 10_000_000,
        per_key_per_second: 10_000_000,
        per_address_per_second: 10_000_000,
    };
    let options = ApiOptions {
        jwt: JwtOptions {
            issuer: "bench".into(),
            audience: "rowlock".into(),
            hs256_secret: Some(SECRET.to_vec()),
            jwks: None,
        },
        limits: HttpLimits::default(),
        rates,
        trusted_proxies: Vec::new(),
        metrics: None,
    };
    let api = Api::new(stage.engine.clone(), options).expect("the options are right");
    let empty = Router::new().route("/bench/empty", post(|| async { NOTHING }));
    let (listener, address) = listen().await;
    let limits = Limits {
        header_timeout: Duration::from_secs(10),
        max_connections: 10_000,
        drain: Duration::from_secs(1),
    };
    tokio::spawn(connections::serve(listener, api.router_with(empty), limits, pending()));
    format!("http://{address}")
}

async fn serve_bare() -> String {
    let (listener, address) = listen().await;
    let router = Router::new().route("/bench/empty", post(|| async { NOTHING }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

fn token(stage: &Stage, user: &str) -> String {
    let user = UserId::new(user).expect("a user");
    let scopes: Scopes = [Scope::Read, Scope::Hold].into_iter().collect();
    let (issuer, audience) = ("bench", "rowlock");
    let hour = Duration::from_secs(3600);
    credential::sign_token(SECRET, issuer, audience, stage.org, &user, scopes, hour, stage.engine.now())
}

/// Prints the ratios of each round's pairs and says whether all goals are reached.
fn report(runs: &[(&'static str, Vec<Run>)]) -> bool {
    let of = |name: &str| runs.iter().find(|(peer, _)| *peer == name).map_or(&[][..], |(_, runs)| &runs[..]);
    let mut reached = true;
    println!();
    for (what, with, goal) in GOALS {
        let mut ratios: Vec<f64> =
            of(what).iter().zip(of(with)).map(|(a, b)| a.per_second / b.per_second).collect();
        if ratios.is_empty() {
            continue;
        }
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        let verdict = if goal == 0.0 {
            ""
        } else if median >= goal {
            "reached"
        } else {
            "MISSED"
        };
        println!(
            "{what:<11} / {with:<6} {median:.2}  (from {least:.2} to {most:.2})  goal {goal:.2}  {verdict}"
        );
        reached &= median >= goal;
    }
    reached
}
