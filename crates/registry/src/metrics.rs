//! The registry's metrics. Handles are made once: looking one up by name on every request costs more than the count.

use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use rowlock_core::{Fact, Time};

#[derive(Clone)]
pub struct Metrics {
    pub attempts: Counter,
    pub success: Counter,
    pub conflicts: Counter,
    pub early_conflicts: Counter,
    pub expired: Counter,
    pub extended: Counter,
    pub converted: Counter,
    pub released: Counter,
    pub cancelled: Counter,
    pub reaper_runs: Counter,
    pub reaper_seconds: Histogram,
    pub reaper_last_run: Gauge,
    pub lane_full: Counter,
    pub batch_size: Histogram,
    pub commit_seconds: Histogram,
    pub beliefs_kept: Counter,
    pub beliefs_wrong: Counter,
    pub hot_events: Gauge,
    pub announcements_lost: Counter,
    pub follow_lag: Gauge,
    pub looked_up: Counter,
    pub reconcile_runs: Counter,
    pub reconcile_repairs: Counter,
    pub reconcile_last_run: Gauge,
    pub durability: Gauge,
}

impl Metrics {
    pub fn new() -> Self {
        describe_counter!("rowlock_hold_attempts_total", "Requests to hold places.");
        describe_counter!(
            "rowlock_hold_success_total",
            "Requests to hold places that were granted, also those that changed nothing."
        );
        describe_counter!("rowlock_hold_conflicts_total", "Holds refused because the places were taken.");
        describe_counter!(
            "rowlock_hold_early_conflicts_total",
            "Conflicts that the hot tier answered alone."
        );
        describe_counter!("rowlock_hold_expired_total", "Holds ended because their time was over.");
        describe_counter!("rowlock_hold_extended_total", "Holds extended by checkout or heartbeat.");
        describe_counter!("rowlock_hold_converted_total", "Holds confirmed into bookings.");
        describe_counter!("rowlock_hold_released_total", "Holds given back, wholly or in part.");
        describe_counter!("rowlock_booking_cancelled_total", "Bookings cancelled.");
        describe_counter!("rowlock_reaper_runs_total", "Times the reaper looked for holds to end.");
        describe_histogram!("rowlock_reaper_duration_seconds", "How long a run of the reaper took.");
        describe_gauge!("rowlock_reaper_last_run_timestamp_seconds", "When the reaper last ran.");
        describe_gauge!("rowlock_lane_depth", "Commands waiting behind the batch being committed.");
        describe_counter!("rowlock_lane_full_total", "Commands refused because the lane was full.");
        describe_histogram!("rowlock_batch_size", "Commands in a committed batch.");
        describe_histogram!("rowlock_commit_seconds", "How long the truth took for a batch.");
        describe_counter!(
            "rowlock_believed_batches_total",
            "Batches of holds that were written without being read first, by whether what was believed of them was so."
        );
        describe_gauge!("rowlock_hot_events", "Events in memory.");
        describe_counter!(
            "rowlock_announcements_lost_total",
            "Batches that other nodes were not told of, and had to find in the journal."
        );
        describe_gauge!(
            "rowlock_follow_lag_facts",
            "Facts of other nodes that this one had missed at its last look."
        );
        describe_counter!(
            "rowlock_facts_looked_up_total",
            "Facts that this node read from the journal, because it had not heard of them or of one before them."
        );
        describe_counter!("rowlock_reconcile_runs_total", "Times the tiers of an event were compared.");
        describe_counter!("rowlock_reconcile_repairs_total", "Differences between tiers that were repaired.");
        describe_gauge!("rowlock_reconcile_last_run_timestamp_seconds", "When tiers were last compared.");
        describe_gauge!(
            "rowlock_truth_durability",
            "What a commit survives: 0 less than it should, 1 the loss of the process and the power, 2 of the machine."
        );
        Self {
            attempts: counter!("rowlock_hold_attempts_total"),
            success: counter!("rowlock_hold_success_total"),
            conflicts: counter!("rowlock_hold_conflicts_total"),
            early_conflicts: counter!("rowlock_hold_early_conflicts_total"),
            expired: counter!("rowlock_hold_expired_total"),
            extended: counter!("rowlock_hold_extended_total"),
            converted: counter!("rowlock_hold_converted_total"),
            released: counter!("rowlock_hold_released_total"),
            cancelled: counter!("rowlock_booking_cancelled_total"),
            reaper_runs: counter!("rowlock_reaper_runs_total"),
            reaper_seconds: histogram!("rowlock_reaper_duration_seconds"),
            reaper_last_run: gauge!("rowlock_reaper_last_run_timestamp_seconds"),
            lane_full: counter!("rowlock_lane_full_total"),
            batch_size: histogram!("rowlock_batch_size"),
            commit_seconds: histogram!("rowlock_commit_seconds"),
            beliefs_kept: counter!("rowlock_believed_batches_total", "result" => "kept"),
            beliefs_wrong: counter!("rowlock_believed_batches_total", "result" => "wrong"),
            hot_events: gauge!("rowlock_hot_events"),
            announcements_lost: counter!("rowlock_announcements_lost_total"),
            follow_lag: gauge!("rowlock_follow_lag_facts"),
            looked_up: counter!("rowlock_facts_looked_up_total"),
            reconcile_runs: counter!("rowlock_reconcile_runs_total"),
            reconcile_repairs: counter!("rowlock_reconcile_repairs_total"),
            reconcile_last_run: gauge!("rowlock_reconcile_last_run_timestamp_seconds"),
            durability: gauge!("rowlock_truth_durability"),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// By lane, so that one that is stuck does not hide behind the others.
    pub fn lane_depth(lane: usize) -> Gauge {
        gauge!("rowlock_lane_depth", "lane" => lane.to_string())
    }

    /// Counts a committed fact.
    pub fn count(&self, fact: &Fact) {
        match fact {
            Fact::HoldExpired(_) => self.expired.increment(1),
            Fact::HoldExtended(_) => self.extended.increment(1),
            Fact::HoldConfirmed(_) => self.converted.increment(1),
            Fact::HoldReleased(_) => self.released.increment(1),
            Fact::BookingCancelled(_) => self.cancelled.increment(1),
            _ => {}
        }
    }

    pub fn reconciled(&self, repairs: usize, at: Time) {
        self.reconcile_runs.increment(1);
        self.reconcile_repairs.increment(repairs as u64);
        self.reconcile_last_run.set(at.millis() as f64 / 1000.0);
    }

    pub fn reaper_run(&self, took: Duration, at: Time) {
        self.reaper_runs.increment(1);
        self.reaper_seconds.record(took.as_secs_f64());
        self.reaper_last_run.set(at.millis() as f64 / 1000.0);
    }
}
