//! The numbers to reach, and whether they are.

use serde::{Deserialize, Serialize};

use super::field::Peer;
use super::growth::slower;
use super::page::rate;
use super::report::{Report, Throughput};

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Reached,
    Short,
    /// It should have been measured, and was not: that is no success.
    Missing,
    /// Nothing in the product yet that it could be measured on.
    Outside,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Goal {
    pub name: String,
    /// At least, or at most.
    pub at_least: bool,
    pub goal: f64,
    pub measured: Option<f64>,
    /// How far apart the rounds were.
    pub least: Option<f64>,
    pub most: Option<f64>,
    pub unit: String,
    pub verdict: Verdict,
}

impl Goal {
    fn new(name: impl Into<String>, at_least: bool, goal: f64, unit: &str, measured: Option<f64>) -> Self {
        let verdict = match measured {
            None => Verdict::Missing,
            Some(measured) if (at_least && measured >= goal) || (!at_least && measured <= goal) => {
                Verdict::Reached
            }
            Some(_) => Verdict::Short,
        };
        Self {
            name: name.into(),
            at_least,
            goal,
            measured,
            least: None,
            most: None,
            unit: unit.into(),
            verdict,
        }
    }

    fn least(name: &str, goal: f64, unit: &str, measured: Option<f64>) -> Self {
        Self::new(name, true, goal, unit, measured)
    }

    fn most(name: impl Into<String>, goal: f64, unit: &str, measured: Option<f64>) -> Self {
        Self::new(name, false, goal, unit, measured)
    }

    fn ratio(name: &str, goal: f64, throughput: &Throughput, over: Peer, under: Peer) -> Self {
        let ratio = throughput.ratios.iter().find(|ratio| (ratio.over, ratio.under) == (over, under));
        let spread = ratio.map(|ratio| ratio.spread);
        Self {
            least: spread.map(|spread| spread.least),
            most: spread.map(|spread| spread.most),
            ..Self::least(name, goal, "×", spread.map(|spread| spread.median))
        }
    }
}

/// The table "Numbers to reach" of the design, with what was measured.
pub fn goals(report: &Report) -> Vec<Goal> {
    let throughput = &report.throughput;
    let half = |name: &str, goal: f64, peer: Peer| {
        let latency = report.latency.iter().find(|latency| latency.peer == peer);
        let point = latency.and_then(|latency| latency.points.iter().find(|point| point.percent == 50));
        Goal {
            least: point.map(|point| point.p99_of_turns_ms.least),
            most: point.map(|point| point.p99_of_turns_ms.most),
            ..Goal::most(name, goal, "ms", point.map(|point| point.times.p99_ms))
        }
    };
    let maps = report.maps.iter().find(|maps| maps.peer == Peer::Embedded);
    let event = format!("{}-seat event", rate(maps.map_or(100_000, |maps| maps.seats).into()));
    let slowest_map =
        maps.and_then(|maps| maps.reads.iter().map(|read| read.times.p50_ms).max_by(f64::total_cmp));
    let holds = rate(report.growth.holds.last().map_or(1_000_000, |last| last.count).into());
    let slower = slower(&report.growth.holds);
    let slowest = slower.map_or("slowest operation".to_owned(), |(name, _)| format!("slowest, {name}"));
    vec![
        Goal::ratio("holds, embedded / empty endpoint", 0.6, throughput, Peer::Embedded, Peer::Empty),
        Goal::ratio("holds, embedded / bare endpoint", 0.45, throughput, Peer::Embedded, Peer::Bare),
        Goal::ratio(
            "holds, Postgres + Redis / one transaction a hold",
            6.0,
            throughput,
            Peer::Node,
            Peer::Literal,
        ),
        Goal::ratio("refusals / empty endpoint", 0.9, throughput, Peer::Refusals, Peer::Empty),
        half("p99 at half load, embedded", 10.0, Peer::Embedded),
        half("p99 at half load, Postgres + Redis", 25.0, Peer::Node),
        one_seat(report),
        Goal::most(format!("{event}: known after"), 1_000.0, "ms", maps.map(|maps| maps.first_answer_ms)),
        Goal::most(format!("{event}: map, median"), 10.0, "ms", slowest_map),
        Goal::most(format!("{event}: memory a seat"), 64.0, "bytes", maps.map(|maps| maps.bytes_a_seat)),
        Goal::most(format!("{holds} active holds: {slowest}"), 1.5, "×", slower.map(|(_, times)| times)),
        Goal {
            verdict: Verdict::Outside,
            ..Goal::most("100,000 live subscribers: memory each", 8.0, "KiB", None)
        },
    ]
}

/// The share of the tries in which exactly one user got the seat. All modes of Rowlock must have been tried.
fn one_seat(report: &Report) -> Goal {
    let ours: Vec<_> = report.one_seat.iter().filter(|crowd| crowd.peer.is_rowlock()).collect();
    let tried = [Peer::Embedded, Peer::Node].iter().all(|peer| ours.iter().any(|crowd| crowd.peer == *peer));
    let times: Vec<u64> = ours.iter().flat_map(|crowd| crowd.winners.iter().copied()).collect();
    let right = times.iter().filter(|winners| **winners == 1).count() as f64 / times.len().max(1) as f64;
    let users = rate(ours.first().map_or(1_000, |crowd| crowd.users).into());
    Goal::least(
        &format!("{users} users, one seat: exactly one holds it"),
        1.0,
        "of tries",
        tried.then_some(right),
    )
}

/// Whether the figures mean something and all goals that can be measured are reached.
pub fn passes(report: &Report) -> bool {
    let ok = |goal: &Goal| matches!(goal.verdict, Verdict::Reached | Verdict::Outside);
    report.problems.is_empty() && goals(report).iter().all(ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all::sample;

    fn verdict(report: &Report, name: &str) -> Verdict {
        goals(report).iter().find(|goal| goal.name.contains(name)).unwrap().verdict
    }

    #[test]
    fn a_report_that_reaches_everything_passes() {
        let report = sample::report();
        let short: Vec<_> =
            goals(&report).into_iter().filter(|goal| goal.verdict == Verdict::Short).collect();
        assert!(passes(&report), "{short:?}");
    }

    #[test]
    fn each_figure_that_falls_short_is_found() {
        type Break = (&'static str, fn(&mut Report));
        let cases: [Break; 9] = [
            ("embedded / empty", |r| r.throughput.ratios[0].spread.median = 0.59),
            ("embedded / bare", |r| r.throughput.ratios[1].spread.median = 0.44),
            ("one transaction", |r| r.throughput.ratios[2].spread.median = 5.9),
            ("refusals", |r| r.throughput.ratios[3].spread.median = 0.89),
            ("half load, embedded", |r| r.latency[0].points[1].times.p99_ms = 10.1),
            ("one seat", |r| r.one_seat[1].winners[0] = 2),
            ("known after", |r| r.maps[0].first_answer_ms = 1001.0),
            ("memory a seat", |r| r.maps[0].bytes_a_seat = 65.0),
            ("active holds", |r| r.growth.holds[1].operations[0].times.p50_ms = 1.6),
        ];
        for (name, break_it) in cases {
            let mut report = sample::report();
            break_it(&mut report);
            assert_eq!(verdict(&report, name), Verdict::Short, "{name}");
            assert!(!passes(&report), "{name}");
        }
    }

    #[test]
    fn what_was_not_measured_is_not_reached() {
        let mut report = sample::report();
        report.one_seat.pop();
        assert_eq!(verdict(&report, "one seat"), Verdict::Missing);
        assert!(!passes(&report));
        let mut report = sample::report();
        report.throughput.ratios.clear();
        assert_eq!(verdict(&report, "embedded / bare"), Verdict::Missing);
        assert!(!passes(&report));
    }

    #[test]
    fn a_report_with_a_problem_never_passes() {
        let mut report = sample::report();
        report.problems.push("a seat was sold twice".into());
        assert!(!passes(&report));
    }
}
