//! The write path without HTTP: what the engine and the truth cost by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rowlock_core::EventId;

use crate::setup::{SCATTER, SEATS_PER_EVENT, Stage};

#[derive(clap::Args)]
pub struct Arguments {
    /// Buyers at once.
    #[arg(long, default_value_t = 256)]
    pub buyers: u32,
    /// Seconds at most; the run ends sooner when the seats do.
    #[arg(long, default_value_t = 5)]
    pub seconds: u64,
    /// Neighbouring seats one after another, instead of seats far apart.
    #[arg(long)]
    pub neighbours: bool,
}

pub struct Done {
    pub held: u32,
    pub took: Duration,
    slowest: Duration,
}

pub async fn run(arguments: Arguments) {
    let dir = tempfile::tempdir_in(".").expect("a temporary folder");
    let stage = Arc::new(Stage::new(dir.path()).await);
    let event = stage.event().await;
    let cpu = cpu_seconds();
    let Done { held, took, slowest } = flat_out(&stage, event, &arguments).await;
    let (cpu, took) = (cpu_seconds() - cpu, took.as_secs_f64());
    println!(
        "{held} holds in {took:.2} s: {:.0} holds/s, {:.1} µs of CPU each, slowest {slowest:?}",
        f64::from(held) / took,
        cpu * 1e6 / f64::from(held)
    );
    stage.engine.stop().await;
}

/// Buyers who each ask for the next seat when they have the one before.
pub async fn flat_out(stage: &Arc<Stage>, event: EventId, arguments: &Arguments) -> Done {
    // A stride that visits every seat once, far apart.
    let stride = if arguments.neighbours { 1 } else { SCATTER };
    let next = Arc::new(AtomicU32::new(0));
    let began = Instant::now();
    let deadline = began + Duration::from_secs(arguments.seconds);
    let mut buyers = tokio::task::JoinSet::new();
    for buyer in 0..arguments.buyers {
        let (stage, next) = (Arc::clone(stage), Arc::clone(&next));
        buyers.spawn(async move {
            let user = format!("buyer-{buyer}");
            let (mut held, mut slowest) = (0u32, Duration::ZERO);
            while Instant::now() < deadline {
                let ordinal = next.fetch_add(1, Ordering::Relaxed);
                if ordinal >= SEATS_PER_EVENT {
                    break;
                }
                let seat = (u64::from(ordinal) * stride % u64::from(SEATS_PER_EVENT)) as u32;
                let asked = Instant::now();
                let request = stage.hold(event, seat, &user, &format!("cart-{ordinal}"));
                stage.engine.execute(request).await.expect("a fresh seat can be held");
                slowest = slowest.max(asked.elapsed());
                held += 1;
            }
            (held, slowest)
        });
    }
    let results = buyers.join_all().await;
    let took = began.elapsed();
    let held = results.iter().map(|(held, _)| held).sum();
    let slowest = results.iter().map(|(_, slowest)| *slowest).max().unwrap_or_default();
    Done { held, took, slowest }
}

/// What this process has used of the processors. On a noisy machine it says more than the clock.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields are counted from behind the name, which is in parentheses and may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}
