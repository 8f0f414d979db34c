//! How long a node needs to know a large event: from Postgres alone, and from what Redis has of it.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use rowlock_core::EventId;

use crate::meter::Meter;
use crate::servers::{self, Fallible, Servers, progress};
use crate::setup::Stage;
use crate::stats::Spread;

#[derive(clap::Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 100_000)]
    seats: u32,
    /// How many of them are held.
    #[arg(long, default_value_t = 5_000)]
    held: u32,
    /// How often it is loaded, from each.
    #[arg(long, default_value_t = 5)]
    times: u32,
}

const BUYERS: usize = 256;
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

pub async fn run(arguments: Arguments) -> Fallible<bool> {
    let meter = Meter::start()?;
    let servers = Servers::start()?;
    let database = servers.fresh("rowlock").await?;
    let node = servers.node(&database).await?;
    progress(format!("an event of {} seats, {} of them held", arguments.seats, arguments.held));
    let stage = Stage::on(node.engine.clone()).await;
    let event = stage.event_of(arguments.seats).await;
    let held = stream::iter(0..arguments.held.min(arguments.seats))
        .map(|ordinal| stage.engine.execute(stage.hold(event, ordinal, "buyer", &format!("cart-{ordinal}"))));
    let answers: Vec<_> = held.buffer_unordered(BUYERS).collect().await;
    for answer in answers {
        answer?;
    }
    servers::settle(&servers::connect(&database).await?).await?;
    node.engine.stop().await;

    let (mut truth, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..arguments.times {
        servers.empty_redis()?;
        let before = meter.counts();
        let from_truth = load(&servers, &database, &stage, event).await?;
        let from_warm = load(&servers, &database, &stage, event).await?;
        let counts = meter.counts().since(before);
        if (counts.events_from_truth, counts.events_from_warm) != (1.0, 1.0) {
            return Err(format!("the event was not loaded from where it should be: {counts:?}").into());
        }
        println!("from Postgres {from_truth:>6.1} ms   from Redis {from_warm:>6.1} ms");
        truth.push(from_truth);
        warm.push(from_warm);
    }
    let (Some(truth), Some(warm)) = (Spread::of(truth), Spread::of(warm)) else { return Ok(false) };
    let faster = warm.median < truth.median;
    println!("\nfrom Postgres {truth} ms\nfrom Redis    {warm} ms");
    println!("goal: Redis is faster  {}", if faster { "reached" } else { "MISSED" });
    Ok(faster)
}

/// Milliseconds until a fresh node knows the event. Afterwards Redis has it too.
async fn load(servers: &Servers, database: &str, stage: &Stage, event: EventId) -> Fallible<f64> {
    let node = servers.node(database).await?;
    let began = Instant::now();
    node.engine.event(stage.org, event).await?;
    let took = began.elapsed().as_secs_f64() * 1e3;
    let mut tries = 0;
    // It is written to Redis behind the scenes.
    while node.warm.load(stage.org, event).await?.is_none() {
        tries += 1;
        if tries == TRIES {
            return Err("the event was not written to Redis".into());
        }
        tokio::time::sleep(PAUSE).await;
    }
    node.engine.stop().await;
    Ok(took)
}
