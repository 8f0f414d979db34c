//! Everything that was measured, as it goes into the file.

use serde::{Deserialize, Serialize};

use super::field::{Cpu, Memory, Occupancy, Peer};
use super::goals::Goal;
use super::machine::Machine;
use crate::client::Run;
use crate::stats::Spread;

/// Goes up when a reader of older files would misunderstand a newer one.
pub const FORMAT: u32 = 2;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    pub format: u32,
    /// Quick, full or tiny.
    pub size: String,
    pub began_at: String,
    pub seconds: f64,
    pub machine: Machine,
    /// What was left out, and why.
    pub skipped: Vec<String>,
    pub client: Client,
    pub throughput: Throughput,
    pub latency: Vec<LatencyOf>,
    pub cost: Vec<Cost>,
    pub sale: Vec<Sale>,
    pub one_seat: Vec<Crowd>,
    pub area: Vec<Area>,
    pub checkout: Vec<Checkout>,
    pub maps: Vec<Maps>,
    pub growth: Growth,
    pub goals: Vec<Goal>,
    /// What was not as it should be: then the figures mean nothing.
    pub problems: Vec<String>,
}

/// The load's own limits.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Client {
    pub threads: u32,
    pub connections: u32,
    /// Of the peers that people build themselves.
    pub pool: usize,
    /// What it reached against the bare endpoint,
    pub per_second: f64,
    /// the part of a core that each of its threads was busy then,
    pub busy: f64,
    /// and what it could reach if the server were infinitely fast.
    pub ceiling_per_second: f64,
    pub cpu_micros_per_request: f64,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Throughput {
    pub turns: Vec<Turn>,
    pub rates: Vec<Rate>,
    pub ratios: Vec<Ratio>,
}

/// One peer under a closed loop.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Turn {
    pub peer: Peer,
    pub round: u32,
    pub per_second: f64,
    pub answers: u64,
    pub seconds: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub cpu: Cpu,
    pub memory: Memory,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Rate {
    pub peer: Peer,
    pub per_second: Spread,
}

/// Of the pairs of each round.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Ratio {
    pub over: Peer,
    pub under: Peer,
    pub spread: Spread,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LatencyOf {
    pub peer: Peer,
    pub highest_per_second: f64,
    pub points: Vec<Point>,
}

/// An open loop at a part of the highest rate.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Point {
    pub percent: u32,
    pub per_second: f64,
    #[serde(flatten)]
    pub times: Times,
    /// Due, but never sent.
    pub unsent: u64,
    /// How late requests were sent, at the 99th percentile.
    pub lag_p99_ms: f64,
    pub cpu_seconds_per_thousand: f64,
    /// This is the middle one of some turns.
    pub p99_of_turns_ms: Spread,
}

/// In milliseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Times {
    pub requests: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

impl Times {
    pub fn of(run: &Run) -> Self {
        Self {
            requests: run.latency.len(),
            p50_ms: run.percentile(50.0),
            p99_ms: run.percentile(99.0),
            p999_ms: run.percentile(99.9),
            max_ms: run.latency.max() as f64 / 1e3,
        }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Cost {
    pub peer: Peer,
    /// Medians of the turns of the closed loop.
    pub cpu_seconds_per_thousand: Cpu,
    pub syncs_per_thousand: Option<f64>,
    /// How the syncs were counted.
    pub syncs_counted: String,
    /// Requests a second while they were.
    pub syncs_at_per_second: f64,
    pub memory: Memory,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Sale {
    pub peer: Peer,
    pub buyers: u32,
    pub seats: u32,
    /// How many seconds of the sale passed in one of ours. All times below are of our clock.
    pub speed: f64,
    pub sold_out_after_seconds: Option<f64>,
    pub winners: u32,
    pub sold: u32,
    pub occupancy: Occupancy,
    pub looks: u64,
    pub holds: u64,
    pub conflicts: u64,
    pub released: u32,
    pub left_to_expire: u32,
    /// Holds that ended before their buyers had paid, because everything took so long.
    pub too_late: u32,
    /// Seats times minutes of the sale's clock that were held and came to nothing.
    pub wasted_seat_minutes: f64,
    pub used_seat_minutes: f64,
    pub fairness: Fairness,
    pub hold: Times,
    /// Seconds, and seats sold by then.
    pub sold_over_time: Vec<(f64, u32)>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Fairness {
    /// The chance that somebody who got seats came before somebody who got none: 1 is a queue, 0.5 a lottery.
    pub winner_came_first: Option<f64>,
    /// How many seats went to the first tenth of those who came, of all that were sold.
    pub share_of_first_tenth: f64,
    /// What a strict queue would have given them.
    pub share_in_a_queue: f64,
    /// Of the seats over all buyers: 0 when all get the same.
    pub gini: f64,
    /// The same when the first who come get what they want.
    pub gini_in_a_queue: f64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Crowd {
    pub peer: Peer,
    pub users: u32,
    pub times: u32,
    /// How many held the seat, each time. Anything but one is wrong.
    pub winners: Vec<u64>,
    /// From the first question to the last answer.
    pub milliseconds: Spread,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Area {
    pub peer: Peer,
    /// Holds of one to four places, a second, in a closed loop on one large area.
    pub per_second: f64,
    pub times: Times,
    pub places_answered: u64,
    pub large: Occupancy,
    /// A crowd on a small one.
    pub users: u32,
    pub capacity: u32,
    pub winners: u64,
    pub small: Occupancy,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Checkout {
    pub peer: Peer,
    pub holds: u64,
    pub steps: Vec<Step>,
    pub occupancy: Occupancy,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Step {
    pub name: String,
    pub per_second: f64,
    #[serde(flatten)]
    pub times: Times,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Maps {
    pub peer: Peer,
    pub seats: u32,
    /// From the start of a server that does not know the event to its first answer about it.
    pub first_answer_ms: f64,
    pub bytes_a_seat: f64,
    pub holds_per_second: f64,
    pub hold: Times,
    pub reads: Vec<Step>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Growth {
    pub seats: Vec<Grown>,
    pub events: Vec<Grown>,
    pub nodes: Vec<Grown>,
    pub holds: Vec<WithHolds>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Grown {
    pub count: u32,
    pub per_second: f64,
    #[serde(flatten)]
    pub times: Times,
    pub memory_bytes: u64,
}

/// Operations while so many holds are active.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct WithHolds {
    pub count: u32,
    pub operations: Vec<Step>,
    pub memory_bytes: u64,
}
