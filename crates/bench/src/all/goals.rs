//! The numbers to reach, and whether they are.

use serde::{Deserialize, Serialize};

use super::field::Peer;
use super::growth::slower;
use super::page::rate;
use super::report::{Report, Throughput, Times};

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Reached,
    Short,
    /// Within the goal, but measured with less than it is about: that does not tell.
    Untold,
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
    /// Seats, users or holds that it was measured with, where the goal is about more.
    #[serde(default)]
    pub with: Option<u32>,
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
            with: None,
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

    /// About so many seats, users or holds, and measured with so many.
    fn about(self, wanted: u32, had: Option<u32>) -> Self {
        let with = had.filter(|had| *had < wanted);
        let untold = with.is_some() && self.verdict == Verdict::Reached;
        Self { with, verdict: if untold { Verdict::Untold } else { self.verdict }, ..self }
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

/// What the goals are about.
const USERS: u32 = 1_000;
const SEATS: u32 = 100_000;
const HOLDS: u32 = 1_000_000;

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
    let slowest_map = |time: fn(&Times) -> f64| {
        maps.and_then(|maps| maps.reads.iter().map(|read| time(&read.times)).max_by(f64::total_cmp))
    };
    let of_event = |what: &str, goal: f64, unit: &str, measured: Option<f64>| {
        Goal::most(format!("{}-seat event: {what}", rate(SEATS.into())), goal, unit, measured)
            .about(SEATS, maps.map(|maps| maps.seats))
    };
    let slower = slower(&report.growth.holds);
    let slowest = slower.map_or("slowest operation".to_owned(), |(name, _)| format!("slowest, {name}"));
    let with_holds = format!("{} active holds: {slowest}", rate(HOLDS.into()));
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
        of_event("known after", 1_000.0, "ms", maps.map(|maps| maps.first_answer_ms)),
        of_event("map, median", 10.0, "ms", slowest_map(|times| times.p50_ms)),
        of_event("map, p99", 10.0, "ms", slowest_map(|times| times.p99_ms)),
        of_event("memory a seat", 64.0, "bytes", maps.map(|maps| maps.bytes_a_seat)),
        Goal::most(with_holds, 1.5, "×", slower.map(|(_, times)| times))
            .about(HOLDS, report.growth.holds.last().map(|last| last.count)),
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
    let name = format!("{} users, one seat: exactly one holds it", rate(USERS.into()));
    Goal::least(&name, 1.0, "of tries", tried.then_some(right))
        .about(USERS, ours.iter().map(|crowd| crowd.users).min())
}

/// Whether the figures mean something and all goals that this run can tell about are reached. See [`untold`] for the others.
pub fn passes(report: &Report) -> bool {
    let ok = |goal: &Goal| matches!(goal.verdict, Verdict::Reached | Verdict::Untold | Verdict::Outside);
    report.problems.is_empty() && goals(report).iter().all(ok)
}

/// What a run that passes has not shown.
pub fn untold(report: &Report) -> Vec<String> {
    let goals = goals(report).into_iter().filter(|goal| goal.verdict == Verdict::Untold);
    let with = |goal: &Goal| rate(goal.with.unwrap_or(0).into());
    goals.map(|goal| format!("{}, because it was measured with {}", goal.name, with(&goal))).collect()
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
        let cases: [Break; 11] = [
            ("embedded / empty", |r| r.throughput.ratios[0].spread.median = 0.59),
            ("embedded / bare", |r| r.throughput.ratios[1].spread.median = 0.44),
            ("one transaction", |r| r.throughput.ratios[2].spread.median = 5.9),
            ("refusals", |r| r.throughput.ratios[3].spread.median = 0.89),
            ("half load, embedded", |r| r.latency[0].points[1].times.p99_ms = 10.1),
            ("one seat", |r| r.one_seat[1].winners[0] = 2),
            ("known after", |r| r.maps[0].first_answer_ms = 1001.0),
            ("map, median", |r| r.maps[0].reads[0].times.p50_ms = 10.1),
            ("map, p99", |r| r.maps[0].reads[0].times.p99_ms = 10.1),
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
    fn less_than_the_goal_is_about_does_not_tell() {
        type Shrink = (&'static str, fn(&mut Report));
        let cases: [Shrink; 3] = [
            ("1,000 users", |r| r.one_seat[1].users = 999),
            ("100,000-seat event: map, p99", |r| r.maps[0].seats = 2_000),
            ("1,000,000 active holds", |r| r.growth.holds[1].count = 100_000),
        ];
        for (name, shrink) in cases {
            let mut report = sample::report();
            assert_eq!(untold(&report), Vec::<String>::new());
            shrink(&mut report);
            assert_eq!(verdict(&report, name), Verdict::Untold, "{name}");
            assert!(untold(&report).iter().any(|what| what.starts_with(name)), "{name}");
            assert!(passes(&report), "{name}");
        }
        let mut report = sample::report();
        report.growth.holds[1].count = 100_000;
        report.growth.holds[1].operations[0].times.p50_ms = 1.6;
        assert_eq!(verdict(&report, "active holds"), Verdict::Short, "it does not get better with more");
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
