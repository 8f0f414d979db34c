//! More seats, holds, events and nodes.

use super::super::growth::times_as_slow;
use super::super::plot::{self, Axes, Line};
use super::super::report::{Grown, Report, Step, WithHolds};
use super::{Section, Table, bytes, ms, rate};

/// In one plot: more can't be told apart by their colours.
const LINES: usize = 6;

pub fn section(report: &Report) -> Section {
    let growth = &report.growth;
    let table = |caption: &str, grown: &[Grown]| {
        let row = |one: &Grown| {
            vec![
                rate(one.count.into()),
                rate(one.per_second),
                ms(one.times.p50_ms),
                ms(one.times.p99_ms),
                bytes(one.memory_bytes),
            ]
        };
        let headings = ["how many", "holds a second", "p50 ms", "p99 ms", "memory"];
        Table::new(caption, &headings, grown.iter().map(row).collect())
    };
    let names: Vec<&str> = growth
        .holds
        .first()
        .map_or(Vec::new(), |with| with.operations.iter().map(|step| step.name.as_str()).collect());
    // The sizes of one operation below one another.
    let of = |name: &str| -> Vec<(&WithHolds, &Step)> {
        let steps = growth.holds.iter().filter_map(|with| {
            with.operations.iter().find(|step| step.name == name).map(|step| (with, step))
        });
        steps.collect()
    };
    let holds = names.iter().flat_map(|name| of(name)).map(|(with, step)| {
        let times = times_as_slow(&growth.holds[0], step);
        vec![
            step.name.clone(),
            rate(with.count.into()),
            ms(step.times.p50_ms),
            ms(step.times.p99_ms),
            times.map_or(String::new(), |times| format!("{times:.2}")),
            bytes(with.memory_bytes),
        ]
    });
    let rates = |name: &str, grown: &[Grown], colour: usize| Line {
        name: name.into(),
        points: grown.iter().map(|one| (f64::from(one.count), one.per_second)).collect(),
        colour,
    };
    let operations = |names: &[&str]| -> Vec<Line> {
        let line = |(colour, name): (usize, &&str)| Line {
            name: (*name).to_owned(),
            points: of(name).iter().map(|(with, step)| (f64::from(with.count), step.times.p50_ms)).collect(),
            colour,
        };
        names.iter().enumerate().map(line).collect()
    };
    let axes = Axes { x: "how many", y: "holds a second", log_x: true, log_y: false, dots: true };
    let mut plots = vec![(
        "Holds a second with more seats or events (embedded)".to_owned(),
        plot::lines(&[rates("seats", &growth.seats, 0), rates("events", &growth.events, 1)], axes),
    )];
    for names in names.chunks(LINES) {
        plots.push((
            "Median of an operation with more active holds (embedded)".to_owned(),
            plot::lines(&operations(names), Axes { x: "active holds", y: "ms", log_y: true, ..axes }),
        ));
    }
    if !growth.nodes.is_empty() {
        plots.push((
            "Holds a second with more nodes (Postgres + Redis)".to_owned(),
            plot::lines(&[rates("nodes", &growth.nodes, 1)], Axes { x: "nodes", log_x: false, ..axes }),
        ));
    }
    let text = "p50 and p99 are of an open loop at a gentle rate, the rate is of a closed loop. With few seats the closed \
                loop is over at once, so its rate is rough there. Nodes share one machine here: more of them show what \
                sharing costs, and not what more machines give.";
    Section {
        title: "Growth",
        text: text.into(),
        tables: vec![
            table("Seats", &growth.seats),
            table("Events, held in turn", &growth.events),
            Table::new(
                "Active holds",
                &["operation", "how many", "p50 ms", "p99 ms", "× of the fewest", "memory"],
                holds.collect(),
            ),
            table("Nodes on Postgres and Redis, all selling one event", &growth.nodes),
        ],
        plots,
    }
}
