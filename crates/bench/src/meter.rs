//! What the engines in this process counted, as `/metrics` would tell it.

use rowlock::telemetry;
use serde::Serialize;

use crate::servers::Fallible;

pub struct Meter {
    text: Box<dyn Fn() -> String + Send + Sync>,
}

/// Counts since the start, or between two moments.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counts {
    pub batches: f64,
    /// Commands in these batches.
    pub commands: f64,
    pub commit_seconds: f64,
    pub claims: f64,
    /// Commands that went down without a claim, because Redis did not answer in time or was taken for dead.
    pub claims_unavailable: f64,
    pub announcements_lost: f64,
    pub events_from_warm: f64,
    pub events_from_truth: f64,
}

impl Meter {
    /// Must come before the first engine.
    pub fn start() -> Fallible<Self> {
        let handle = telemetry::start().map_err(|fault| fault.to_string())?;
        tokio::spawn(telemetry::upkeep(handle.clone()));
        Ok(Self { text: Box::new(move || handle.render()) })
    }

    pub fn counts(&self) -> Counts {
        let text = (self.text)();
        let of = |name: &str| sum(&text, name);
        Counts {
            batches: of("rowlock_batch_size_count"),
            commands: of("rowlock_batch_size_sum"),
            commit_seconds: of("rowlock_commit_seconds_sum"),
            claims: of("rowlock_warm_claims_total{result=\"claimed\"}"),
            claims_unavailable: of("rowlock_warm_claims_total{result=\"unavailable\"}"),
            announcements_lost: of("rowlock_announcements_lost_total"),
            events_from_warm: of("rowlock_tier_hits_total{tier=\"warm\"}"),
            events_from_truth: of("rowlock_tier_hits_total{tier=\"truth\"}"),
        }
    }
}

impl Counts {
    pub fn since(self, before: Counts) -> Counts {
        Counts {
            batches: self.batches - before.batches,
            commands: self.commands - before.commands,
            commit_seconds: self.commit_seconds - before.commit_seconds,
            claims: self.claims - before.claims,
            claims_unavailable: self.claims_unavailable - before.claims_unavailable,
            announcements_lost: self.announcements_lost - before.announcements_lost,
            events_from_warm: self.events_from_warm - before.events_from_warm,
            events_from_truth: self.events_from_truth - before.events_from_truth,
        }
    }

    /// Commands in a batch, and milliseconds to commit one.
    pub fn batch(self) -> (f64, f64) {
        let batches = self.batches.max(1.0);
        (self.commands / batches, self.commit_seconds * 1e3 / batches)
    }
}

/// The value of a metric, summed over its labels where none are named.
pub fn sum(text: &str, name: &str) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.split_once("} ")?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.parse::<f64>().ok()
    };
    text.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn reads_the_text_of_metrics() {
        let text = "# HELP a b\na_total{x=\"1\"} 3\na_total{x=\"2\"} 4\na_total_more 9\nb 1.5\n";
        assert_eq!(sum(text, "a_total"), 7.0);
        assert_eq!(sum(text, "a_total{x=\"2\"}"), 4.0);
        assert_eq!(sum(text, "b"), 1.5);
        assert_eq!(sum(text, "c"), 0.0);
    }
}
