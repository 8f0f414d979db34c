//! The recorder behind `/metrics`.

use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::Instant;

use crate::fault::Fault;

/// From a refusal out of memory to a request that is about to time out.
const SECONDS: [f64; 17] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0,
];
/// Up to the largest batch that a truth takes.
const BATCHES: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
/// How often histograms are folded, so that they don't grow while nobody reads `/metrics`.
const UPKEEP: Duration = Duration::from_secs(5);
/// How often it is looked whether this process runs when it should.
const LOOK: Duration = Duration::from_millis(100);

/// Must come before anything that makes a metric.
pub fn start() -> Result<PrometheusHandle, Fault> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_batch_size".into()), &BATCHES))
        .and_then(PrometheusBuilder::install_recorder);
    handle.map_err(|error| Fault::new(format!("the metrics can't be set up: {error}")))
}

/// Notes how late this process does what it meant to do. A machine that is overloaded, or stops now and then, shows
/// nowhere else: requests are timed from when they are read.
pub async fn lateness() {
    metrics::describe_histogram!("rowlock_late_seconds", "How much too late a timer of this node went off.");
    let late = metrics::histogram!("rowlock_late_seconds");
    loop {
        let due = Instant::now() + LOOK;
        tokio::time::sleep_until(due).await;
        late.record(due.elapsed().as_secs_f64());
    }
}

pub async fn upkeep(handle: PrometheusHandle) {
    let mut ticks = tokio::time::interval(UPKEEP);
    loop {
        ticks.tick().await;
        handle.run_upkeep();
    }
}
