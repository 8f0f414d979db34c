//! More seats, holds, events and nodes.

use super::super::plot::{self, Axes, Line};
use super::super::report::{Grown, Report};
use super::{Section, Table, bytes, ms, rate};

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
    let holds = growth.holds.iter().flat_map(|with| {
        with.operations.iter().map(|step| {
            vec![
                rate(with.count.into()),
                step.name.clone(),
                ms(step.times.p50_ms),
                ms(step.times.p99_ms),
                bytes(with.memory_bytes),
            ]
        })
    });
    let rates = |name: &str, grown: &[Grown], colour: usize| Line {
        name: name.into(),
        points: grown.iter().map(|one| (f64::from(one.count), one.per_second)).collect(),
        colour,
    };
    let names: Vec<String> = growth
        .holds
        .first()
        .map(|with| with.operations.iter().map(|step| step.name.clone()).collect())
        .unwrap_or_default();
    let operations: Vec<Line> = names
        .iter()
        .enumerate()
        .map(|(colour, name)| Line {
            name: name.clone(),
            points: growth
                .holds
                .iter()
                .filter_map(|with| {
                    let step = with.operations.iter().find(|step| step.name == *name)?;
                    Some((f64::from(with.count), step.times.p50_ms))
                })
                .collect(),
            colour,
        })
        .collect();
    let axes = Axes { x: "how many", y: "holds a second", log_x: true, log_y: false, dots: true };
    let mut plots = vec![
        (
            "Holds a second with more seats or events (embedded)".to_owned(),
            plot::lines(&[rates("seats", &growth.seats, 0), rates("events", &growth.events, 1)], axes),
        ),
        (
            "Median of an operation with more active holds (embedded)".to_owned(),
            plot::lines(&operations, Axes { x: "active holds", y: "ms", ..axes }),
        ),
    ];
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
                &["how many", "operation", "p50 ms", "p99 ms", "memory"],
                holds.collect(),
            ),
            table("Nodes on Postgres and Redis, all selling one event", &growth.nodes),
        ],
        plots,
    }
}
