//! What is printed and what goes into the file.

use std::time::Duration;

use serde::Serialize;

use super::{Bench, Measured, Peer};
use crate::stats::Spread;

#[derive(Serialize)]
pub struct Report {
    connections: u32,
    seconds: u64,
    scattered: bool,
    cold: bool,
    session: String,
    /// Of the literal flow.
    pool: usize,
    pipelined: bool,
    pub runs: Vec<Measured>,
    ratios: Vec<Ratio>,
}

/// What came of a goal: the ratios of each round's pair.
#[derive(Serialize)]
struct Ratio {
    name: &'static str,
    #[serde(flatten)]
    spread: Spread,
    goal: f64,
    reached: bool,
}

type Figure = fn(&Measured) -> f64;

/// What is divided by what, and what must be reached.
struct Goal {
    name: &'static str,
    over: (Peer, Figure),
    under: (Peer, Figure),
    goal: f64,
    more_is_better: bool,
}

const GOALS: [Goal; 3] = [
    Goal {
        name: "one node / literal",
        over: (Peer::One, per_second),
        under: (Peer::Literal, per_second),
        goal: 6.0,
        more_is_better: true,
    },
    Goal {
        name: "p99 of one node / p50 of literal",
        over: (Peer::One, p99),
        under: (Peer::Literal, p50),
        goal: 1.0,
        more_is_better: false,
    },
    Goal {
        name: "two nodes / one node",
        over: (Peer::Two, per_second),
        under: (Peer::One, per_second),
        goal: 0.8,
        more_is_better: true,
    },
];

fn per_second(measured: &Measured) -> f64 {
    measured.run.per_second
}

fn p50(measured: &Measured) -> f64 {
    measured.run.p50_ms
}

fn p99(measured: &Measured) -> f64 {
    measured.run.p99_ms
}

pub fn headings() {
    println!(
        "{:<5} {:<9} {:>8} {:>9} {:>9} {:>9} {:>7} {:>8} {:>6} {:>10}",
        "round", "peer", "per s", "p50 ms", "p99 ms", "max ms", "errors", "holds", "batch", "commit ms"
    );
}

pub fn line(measured: &Measured) {
    let run = &measured.run;
    let (batch, commit) = measured.counts.map_or((1.0, f64::NAN), |counts| counts.batch());
    let commit = if commit.is_nan() { "-".into() } else { format!("{commit:.1}") };
    println!(
        "{:<5} {:<9} {:>8.0} {:>9.2} {:>9.2} {:>9.1} {:>7} {:>8} {batch:>6.0} {commit:>10}",
        measured.round,
        measured.peer.name(),
        run.per_second,
        run.p50_ms,
        run.p99_ms,
        run.max_ms,
        run.refused + run.broken,
        measured.holds
    );
    for problem in &measured.problems {
        println!("      PROBLEM: {problem}");
    }
}

impl Report {
    pub fn new(bench: &Bench, duration: Duration) -> Self {
        Self {
            connections: bench.connections,
            seconds: duration.as_secs(),
            scattered: bench.stride != 1,
            cold: bench.cold,
            session: bench.session.clone(),
            pool: bench.literal.pool,
            pipelined: bench.literal.pipelined,
            runs: Vec::new(),
            ratios: Vec::new(),
        }
    }

    /// Whether every run stored what it answered.
    pub fn is_sound(&self) -> bool {
        self.runs.iter().all(|run| run.problems.is_empty())
    }

    /// Prints the medians and the ratios, and says whether all goals are reached.
    pub fn finish(&mut self) -> bool {
        println!();
        for peer in Peer::ALL {
            let of = |figure: Figure| Spread::of(self.of(peer).map(figure));
            let (Some(rate), Some(p50), Some(p99)) = (of(per_second), of(p50), of(p99)) else { continue };
            println!(
                "{:<9} {:>6.0}/s (from {:.0} to {:.0})  p50 {p50} ms  p99 {p99} ms",
                peer.name(),
                rate.median,
                rate.least,
                rate.most
            );
        }
        println!("\nliteral: a pool of {}, {} connections of wrk", self.pool, self.connections);
        self.ratios = GOALS.iter().filter_map(|goal| self.ratio(goal)).collect();
        for ratio in &self.ratios {
            let verdict = if ratio.reached { "reached" } else { "MISSED" };
            println!("{:<33} {}  goal {:.2}  {verdict}", ratio.name, ratio.spread, ratio.goal);
        }
        if self.is_sound() {
            println!("what is stored is what was answered");
        } else {
            println!("NOT SOUND: see the problems above");
        }
        self.ratios.iter().all(|ratio| ratio.reached)
    }

    fn of(&self, peer: Peer) -> impl Iterator<Item = &Measured> {
        self.runs.iter().filter(move |run| run.peer == peer)
    }

    fn ratio(&self, goal: &Goal) -> Option<Ratio> {
        let pairs = self.of(goal.over.0).zip(self.of(goal.under.0));
        let spread = Spread::of(pairs.map(|(over, under)| goal.over.1(over) / goal.under.1(under)))?;
        let Goal { name, goal, more_is_better, .. } = *goal;
        let reached = if more_is_better { spread.median >= goal } else { spread.median < goal };
        Some(Ratio { name, spread, goal, reached })
    }
}
