//! A report that reaches every goal, for tests to spoil.

use super::field::{Cpu, Memory, Occupancy, Peer};
use super::machine::Machine;
use super::report::*;
use crate::stats::Spread;

fn spread(median: f64) -> Spread {
    Spread { median, least: 0.6, most: 0.7 }
}

fn step(name: &str) -> Step {
    Step {
        name: name.into(),
        per_second: 100.0,
        times: Times { p50_ms: 1.0, p99_ms: 2.0, ..Times::default() },
    }
}

pub fn latency(peer: Peer) -> LatencyOf {
    let point = |percent| Point {
        percent,
        per_second: 10.0,
        times: Times { p50_ms: 1.0, p99_ms: 9.0, ..Times::default() },
        unsent: 0,
        lag_p99_ms: 0.1,
        cpu_seconds_per_thousand: 0.1,
        p99_of_turns_ms: Spread { median: 9.0, least: 8.0, most: 12.0 },
    };
    LatencyOf { peer, highest_per_second: 100.0, points: vec![point(25), point(50)] }
}

fn crowd(peer: Peer) -> Crowd {
    Crowd { peer, users: 1000, times: 2, winners: vec![1, 1], milliseconds: spread(50.0) }
}

pub fn report() -> Report {
    let ratio = |over, under, median| Ratio { over, under, spread: spread(median) };
    let with_holds = |count| WithHolds { count, operations: vec![step("hold")], memory_bytes: 1 };
    let grown = |count| Grown { count, per_second: 100.0, times: Times::default(), memory_bytes: 1 };
    let occupancy = Occupancy { available: 1, held: 0, sold: 9, total: 10 };
    Report {
        format: FORMAT,
        size: "tiny".into(),
        began_at: "now".into(),
        seconds: 1.0,
        machine: Machine::look(std::path::Path::new("/")),
        skipped: Vec::new(),
        client: Client::default(),
        throughput: Throughput {
            turns: vec![Turn {
                peer: Peer::Embedded,
                round: 1,
                per_second: 100.0,
                answers: 100,
                seconds: 1.0,
                p50_ms: 1.0,
                p99_ms: 2.0,
                cpu: Cpu::default(),
                memory: Memory::default(),
            }],
            rates: vec![Rate { peer: Peer::Embedded, per_second: spread(100.0) }],
            ratios: vec![
                ratio(Peer::Embedded, Peer::Empty, 0.65),
                ratio(Peer::Embedded, Peer::Bare, 0.5),
                ratio(Peer::Node, Peer::Literal, 6.1),
                ratio(Peer::Refusals, Peer::Empty, 0.95),
            ],
        },
        latency: vec![latency(Peer::Embedded), latency(Peer::Node)],
        cost: vec![Cost {
            peer: Peer::Embedded,
            cpu_seconds_per_thousand: Cpu { server: 0.04, ..Cpu::default() },
            syncs_per_thousand: Some(12.0),
            syncs_counted: "by hand".into(),
            syncs_at_per_second: 100.0,
            memory: Memory::default(),
        }],
        sale: vec![Sale {
            peer: Peer::Embedded,
            buyers: 100,
            seats: 10,
            speed: 60.0,
            sold_out_after_seconds: None,
            winners: 4,
            sold: 9,
            occupancy,
            looks: 200,
            holds: 10,
            conflicts: 30,
            released: 1,
            left_to_expire: 1,
            too_late: 0,
            wasted_seat_minutes: 3.0,
            used_seat_minutes: 9.0,
            fairness: Fairness::default(),
            hold: Times::default(),
            sold_over_time: vec![(1.0, 3), (2.0, 9)],
        }],
        one_seat: vec![crowd(Peer::Embedded), crowd(Peer::Node)],
        area: vec![Area {
            peer: Peer::Embedded,
            per_second: 100.0,
            times: Times::default(),
            places_answered: 9,
            large: occupancy,
            users: 100,
            capacity: 9,
            winners: 9,
            small: occupancy,
        }],
        checkout: vec![Checkout { peer: Peer::Embedded, holds: 9, steps: vec![step("confirm")], occupancy }],
        maps: vec![Maps {
            peer: Peer::Embedded,
            seats: 100_000,
            first_answer_ms: 60.0,
            bytes_a_seat: 52.0,
            holds_per_second: 1000.0,
            hold: Times::default(),
            reads: vec![step("compact map")],
        }],
        growth: Growth {
            seats: vec![grown(10), grown(100)],
            events: vec![grown(1)],
            nodes: vec![grown(1)],
            holds: vec![with_holds(1_000), with_holds(1_000_000)],
        },
        goals: Vec::new(),
        problems: Vec::new(),
    }
}
