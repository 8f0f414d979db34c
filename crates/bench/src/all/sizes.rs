//! How much of everything.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Sizes {
    pub name: &'static str,
    /// In each, every peer has its turn.
    pub rounds: u32,
    /// Under load that is not counted, and then under load that is.
    pub warm_up: Duration,
    pub turn: Duration,
    /// Each turn at each rate of the open loop.
    pub latency: Duration,
    /// Seats that are there to be held, for each second of a turn: more than the fastest peer takes.
    pub seats_per_second: u32,
    pub connections: u32,
    /// Connections in the pool of the peers that people build themselves. Several: the best is found first.
    pub pools: &'static [usize],
    /// How long each of them is tried.
    pub tuning: Duration,
    pub sale: Sale,
    /// Users who want the same seat, and how often that is tried.
    pub crowd: u32,
    pub crowd_times: u32,
    /// Places of a small area that the same crowd wants, one each.
    pub area_places: u32,
    /// Holds that are extended and confirmed.
    pub checkouts: u32,
    /// Of the event whose map is read.
    pub map_seats: u32,
    pub map_reads_per_second: f64,
    pub map_holds_per_second: f64,
    pub growth: Growth,
}

#[derive(Clone, Copy, Debug)]
pub struct Sale {
    pub buyers: u32,
    pub seats: u32,
    /// How many seconds of the sale pass in one of ours.
    pub speed: f64,
}

#[derive(Clone, Debug)]
pub struct Growth {
    pub turn: Duration,
    pub seats: &'static [u32],
    pub holds: &'static [u32],
    /// Of each operation, at each number of holds, in so many turns.
    pub operations_per_second: f64,
    pub operation_turn: Duration,
    pub operation_turns: u32,
    pub events: &'static [u32],
    pub nodes: &'static [u32],
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Sizes {
    /// Five minutes.
    pub fn quick() -> Self {
        Self {
            name: "quick",
            rounds: 3,
            warm_up: millis(400),
            turn: millis(2_000),
            latency: millis(900),
            seats_per_second: 60_000,
            connections: 256,
            pools: &[20, 40, 80],
            tuning: millis(1_000),
            sale: Sale { buyers: 10_000, seats: 2_000, speed: 60.0 },
            crowd: 1_000,
            crowd_times: 3,
            area_places: 500,
            checkouts: 10_000,
            map_seats: 100_000,
            map_reads_per_second: 50.0,
            map_holds_per_second: 1_000.0,
            growth: Growth {
                turn: millis(1_000),
                seats: &[1_000, 10_000, 100_000],
                holds: &[1_000, 10_000, 100_000],
                operations_per_second: 400.0,
                operation_turn: millis(100),
                operation_turns: 6,
                events: &[1, 10, 100],
                nodes: &[1, 2],
            },
        }
    }

    /// Half an hour or so.
    pub fn full() -> Self {
        let quick = Self::quick();
        Self {
            name: "full",
            rounds: 5,
            warm_up: millis(1_000),
            turn: millis(4_000),
            latency: millis(4_000),
            pools: &[10, 20, 40, 80],
            tuning: millis(4_000),
            sale: Sale { speed: 15.0, ..quick.sale },
            crowd_times: 20,
            checkouts: 50_000,
            growth: Growth {
                turn: millis(2_000),
                seats: &[1_000, 10_000, 100_000, 1_000_000],
                holds: &[1_000, 10_000, 100_000, 1_000_000],
                operations_per_second: 400.0,
                operation_turn: millis(150),
                operation_turns: 10,
                events: &[1, 10, 100],
                nodes: &[1, 2, 3, 4],
            },
            ..quick
        }
    }

    /// Everything once and tiny: whether it works, not how fast it is.
    pub fn tiny() -> Self {
        Self {
            name: "tiny",
            rounds: 2,
            warm_up: millis(50),
            turn: millis(150),
            latency: millis(150),
            seats_per_second: 20_000,
            connections: 16,
            pools: &[4, 8],
            tuning: millis(50),
            sale: Sale { buyers: 150, seats: 60, speed: 600.0 },
            crowd: 60,
            crowd_times: 3,
            area_places: 20,
            checkouts: 200,
            map_seats: 2_000,
            map_reads_per_second: 100.0,
            map_holds_per_second: 200.0,
            growth: Growth {
                turn: millis(100),
                seats: &[100, 1_000],
                holds: &[50, 500],
                operations_per_second: 400.0,
                operation_turn: millis(50),
                operation_turns: 2,
                events: &[1, 4],
                nodes: &[1, 2],
            },
        }
    }
}
