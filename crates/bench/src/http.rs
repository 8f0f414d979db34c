//! Holds over HTTP, compared with what an endpoint that does nothing reaches under the same load.

use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use rowlock_core::{Command, EventId, SeatId, UserId};

use crate::serving::{self, EMPTY, HOLD, Serving};
use crate::setup::{SCATTER, SEATS_PER_EVENT, Stage, run};
use crate::shares::Moment;
use crate::wrk::{self, Load, Run, Target};

#[derive(clap::Args)]
pub struct Arguments {
    /// Connections that wrk keeps open.
    #[arg(long, default_value_t = 256)]
    connections: u32,
    /// Seconds that each peer is under load in a round. An event has seats for 240,000 holds; when they are first held their rows
    /// are read for the first time.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Rounds. In each, every peer has its turn, so that noise hits all alike. Machines change their speed from second to
    /// second: many rounds say more than long ones.
    #[arg(long, default_value_t = 13)]
    rounds: u32,
    /// Exit with 1 when a ratio is below its goal.
    #[arg(long)]
    check: bool,
    /// Run only these peers: bare, empty, neighbours, scattered or refusals, with commas between them.
    #[arg(long, value_delimiter = ',', value_parser = PEERS.map(|peer| peer.name))]
    only: Vec<String>,
}

/// The answer of the endpoints that do nothing.
const NOTHING: (axum::http::StatusCode, [(&str, &str); 1], &str) =
    (axum::http::StatusCode::OK, [("content-type", "application/json")], "{}");

struct Peer {
    name: &'static str,
    path: &'static str,
    bare: bool,
    stride: u64,
    fixed: bool,
}

const PEERS: [Peer; 5] = [
    Peer { name: "bare", path: EMPTY, bare: true, stride: 1, fixed: false },
    Peer { name: "empty", path: EMPTY, bare: false, stride: 1, fixed: false },
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
    let server = serve_empty_too(&stage).await;
    let bare = serve_bare().await;
    let buyer = serving::token(&stage, "buyer");
    let sold = sold_event(&stage).await;
    let stranger = serving::token(&stage, "somebody-else");
    let load = Load {
        connections: arguments.connections,
        duration: Duration::from_secs(arguments.seconds),
        processor: last_processor(),
    };
    let mut runs: Vec<(&'static str, Vec<Run>)> = PEERS.iter().map(|peer| (peer.name, Vec::new())).collect();
    for round in 1..=arguments.rounds {
        for (peer, (_, runs)) in PEERS.iter().zip(&mut runs) {
            if !arguments.only.is_empty() && !arguments.only.iter().any(|only| only == peer.name) {
                continue;
            }
            let event = if peer.fixed { sold } else { stage.event().await };
            let token = if peer.fixed { &stranger } else { &buyer };
            let url = if peer.bare { &bare.url } else { &server.url };
            let before = Moment::now();
            let run = measure(dir.path(), peer, url, token, event, load).await;
            let shares = Moment::now().shares_since(&before, run.requests);
            println!(
                "round {round} {:<11} {:>7.0}/s  p50 {:>6.2} ms  p99 {:>6.2} ms  max {:>6.1} ms  {shares}",
                peer.name, run.per_second, run.p50_ms, run.p99_ms, run.max_ms
            );
            runs.push(run);
        }
    }
    let reached = report(&runs);
    stage.engine.stop().await;
    reached || !arguments.check
}

/// wrk has one thread and stays on one processor. Otherwise it is now on this one and now on that, in line behind whom it waits for,
/// while the other has nothing to do.
fn last_processor() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    last_of_several(allowed.trim())
}

/// Of a list such as `0-3,6`. `None`: there is only one.
fn last_of_several(processors: &str) -> Option<usize> {
    let (_, last) = processors.rsplit_once([',', '-'])?;
    last.parse().ok()
}

async fn measure(dir: &Path, peer: &Peer, url: &str, token: &str, event: EventId, load: Load) -> Run {
    let target = Target {
        urls: &[url.to_owned()],
        path: peer.path,
        token,
        event: event.to_string(),
        prefix: SeatId::prefix(event),
        first: 0,
        end: u64::from(SEATS_PER_EVENT),
        stride: peer.stride,
        total: u64::from(SEATS_PER_EVENT),
        fixed: peer.fixed,
    };
    let run = tokio::task::block_in_place(|| wrk::run(dir, &target, load)).expect("wrk runs");
    // A peer that answers something else than it should is not the peer that was meant to be measured.
    let wanted = if peer.fixed { run.requests } else { 0 };
    assert_eq!(
        (run.refused, run.broken),
        (wanted, 0),
        "{} answered with the wrong statuses: {run:?}",
        peer.name
    );
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

async fn serve_empty_too(stage: &Stage) -> Serving {
    let empty = Router::new().route(EMPTY, post(|| async { NOTHING }));
    serving::serve_api(&stage.engine, empty).await
}

async fn serve_bare() -> Serving {
    let router = Router::new().route(EMPTY, post(|| async { NOTHING }));
    serving::serve_plain(router).await
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
        // Of all rounds as if they were one.
        let total = |name| of(name).iter().map(|run| run.per_second).sum::<f64>();
        let together = total(what) / total(with);
        let verdict = if goal == 0.0 {
            ""
        } else if median >= goal {
            "reached"
        } else {
            "MISSED"
        };
        println!(
            "{what:<11} / {with:<6} {median:.2}  (from {least:.2} to {most:.2}, together {together:.2})  goal {goal:.2}  {verdict}"
        );
        reached &= median >= goal;
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_shares_no_only_processor() {
        assert_eq!(last_of_several("0-1"), Some(1));
        assert_eq!(last_of_several("0-3,6"), Some(6));
        assert_eq!(last_of_several("2"), None);
        assert_eq!(last_of_several(""), None);
    }
}
