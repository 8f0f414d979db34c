//! Throughput, latency and cost.

use super::super::field::Peer;
use super::super::plot::{self, Axes, Bar, Line};
use super::super::report::{Point, Report};
use super::super::text::NONE;
use super::{Section, Table, bytes, ms, rate};

/// The same peer has the same colour in every plot.
pub fn colour(peer: Peer) -> usize {
    match peer {
        Peer::Embedded => 0,
        Peer::Node => 1,
        Peer::Literal => 2,
        Peer::Locked => 3,
        Peer::Empty => 4,
        Peer::Bare => 5,
        Peer::Refusals => 6,
    }
}

pub fn sections(report: &Report) -> Vec<Section> {
    vec![throughput(report), latency(report), cost(report)]
}

fn throughput(report: &Report) -> Section {
    let throughput = &report.throughput;
    let rates = throughput.rates.iter().map(|peer| {
        let spread = peer.per_second;
        vec![peer.peer.title().into(), rate(spread.median), rate(spread.least), rate(spread.most)]
    });
    let ratios = throughput.ratios.iter().map(|ratio| {
        let name = format!("{} / {}", ratio.over.title(), ratio.under.title());
        vec![
            name,
            format!("{:.2}", ratio.spread.median),
            format!("{:.2}", ratio.spread.least),
            format!("{:.2}", ratio.spread.most),
        ]
    });
    let turns = throughput.turns.iter().map(|turn| {
        vec![
            turn.round.to_string(),
            turn.peer.title().into(),
            rate(turn.per_second),
            ms(turn.p50_ms),
            ms(turn.p99_ms),
            rate(turn.answers as f64),
        ]
    });
    let bars: Vec<Bar> = throughput
        .rates
        .iter()
        .map(|peer| Bar {
            name: peer.peer.title().into(),
            value: peer.per_second.median,
            spread: Some((peer.per_second.least, peer.per_second.most)),
            colour: colour(peer.peer),
        })
        .collect();
    let text = "One fresh seat a request, as fast as the answers come. Every turn has a fresh server with an empty \
                store; the peers take turns, round after round, so that noise hits all alike. After each turn as many \
                holds must be stored as were answered.";
    Section {
        title: "Throughput: distinct seats",
        text: text.into(),
        tables: vec![
            Table::new("Requests a second", &["peer", "median", "least", "most"], rates.collect()),
            Table::new(
                "Ratios of the pairs of each round",
                &["ratio", "median", "least", "most"],
                ratios.collect(),
            ),
            Table::new(
                "All turns. These times are of a closed loop: see below for what a user waits.",
                &["round", "peer", "per second", "p50 ms", "p99 ms", "answers"],
                turns.collect(),
            ),
        ],
        plots: vec![("Requests a second, median and spread".into(), plot::bars(&bars, "/s"))],
    }
}

/// Of fewer, the slowest is more than a thousandth.
const P999_REQUESTS: u64 = 1_000;

fn has_p999(point: &Point) -> bool {
    point.times.requests >= P999_REQUESTS
}

fn latency(report: &Report) -> Section {
    let mut rows = Vec::new();
    for latency in &report.latency {
        for point in &latency.points {
            rows.push(vec![
                latency.peer.title().to_owned(),
                format!("{} %", point.percent),
                rate(point.per_second),
                ms(point.times.p50_ms),
                ms(point.times.p99_ms),
                format!("{} to {}", ms(point.p99_of_turns_ms.least), ms(point.p99_of_turns_ms.most)),
                if has_p999(point) { ms(point.times.p999_ms) } else { NONE.to_owned() },
                ms(point.times.max_ms),
                rate(point.times.requests as f64),
                point.unsent.to_string(),
                ms(point.lag_p99_ms),
            ]);
        }
    }
    let plot = |caption: &str, shown: fn(&Point) -> bool, figure: fn(&Point) -> f64| {
        let lines: Vec<Line> = report
            .latency
            .iter()
            .map(|latency| Line {
                name: latency.peer.title().into(),
                points: latency
                    .points
                    .iter()
                    .filter(|point| shown(point))
                    .map(|point| (f64::from(point.percent), figure(point)))
                    .collect(),
                colour: colour(latency.peer),
            })
            .collect();
        let axes = Axes { x: "% of the peer's highest rate", y: "ms", log_y: true, dots: true, log_x: false };
        (caption.to_owned(), plot::lines(&lines, axes))
    };
    let text = "An open loop: requests are due at fixed moments, whether or not the server keeps up, and the clock of \
                each begins when it was due. So a stall counts for everybody who would have come meanwhile. The rates \
                are parts of each peer's own highest one, so a faster peer also gets more load. Half load has three turns, \
                of which the one with the middle p99 is shown. Of fewer than 1,000 requests there is no p99.9. The last column is how \
                late requests were sent: the client's own part, and waiting for a free connection.";
    Section {
        title: "Latency: what a user waits",
        text: text.into(),
        tables: vec![Table::new(
            "",
            &[
                "peer",
                "load",
                "per second",
                "p50 ms",
                "p99 ms",
                "of all turns",
                "p99.9 ms",
                "max ms",
                "requests",
                "unsent",
                "late p99 ms",
            ],
            rows,
        )],
        plots: vec![
            plot("p50", |_| true, |point| point.times.p50_ms),
            plot("p99", |_| true, |point| point.times.p99_ms),
            plot("p99.9", has_p999, |point| point.times.p999_ms),
        ],
    }
}

fn cost(report: &Report) -> Section {
    let rows = report.cost.iter().map(|cost| {
        let cpu = cost.cpu_seconds_per_thousand;
        let syncs = cost.syncs_per_thousand.map_or("unknown".into(), |syncs| format!("{syncs:.1}"));
        vec![
            cost.peer.title().into(),
            format!("{:.4}", cpu.servers()),
            format!("{:.4}", cpu.server),
            format!("{:.4}", cpu.postgres),
            format!("{:.4}", cpu.redis),
            syncs,
            bytes(cost.memory.server),
            bytes(cost.memory.postgres),
            bytes(cost.memory.redis),
        ]
    });
    let bars: Vec<Bar> = report
        .cost
        .iter()
        .map(|cost| Bar {
            name: cost.peer.title().into(),
            value: cost.cpu_seconds_per_thousand.servers(),
            spread: None,
            colour: colour(cost.peer),
        })
        .collect();
    let mut text = String::from(
        "At full load. Processor time is from /proc/PID/stat of the server, of all processes of Postgres and of Redis. \
         Memory is the peak (VmHWM) of the server and of Redis; of Postgres it is what its processes have at the end, \
         each page counted once (Pss). Syncs depend on the load: the more waits, the larger a batch.",
    );
    for cost in &report.cost {
        text.push_str(&format!(
            " {}: syncs counted {}, at {}/s.",
            cost.peer.title(),
            cost.syncs_counted,
            rate(cost.syncs_at_per_second)
        ));
    }
    Section {
        title: "Cost of a thousand holds",
        text,
        tables: vec![Table::new(
            "",
            &["peer", "CPU s", "server", "Postgres", "Redis", "syncs", "memory", "of Postgres", "of Redis"],
            rows.collect(),
        )],
        plots: vec![("Seconds of processor time for a thousand holds".into(), plot::bars(&bars, "s"))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all::report::Times;
    use crate::all::sample;

    #[test]
    fn few_requests_have_no_thousandth() {
        let mut report = sample::report();
        let mut of = |requests| {
            let times = &mut report.latency[0].points[0].times;
            *times = Times { requests, p999_ms: 7.0, ..*times };
            latency(&report).tables[0].rows[0][6].clone()
        };
        assert_eq!((of(999), of(1_000)), (NONE.into(), "7.00".into()));
    }
}
