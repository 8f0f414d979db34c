//! The workloads that look like what people do.

use super::super::plot::{self, Axes, Line};
use super::super::report::{Report, Sale, Step};
use super::load::colour;
use super::{Section, Table, ms, rate};

pub fn sections(report: &Report) -> Vec<Section> {
    vec![sale(report), one_seat(report), area(report), checkout(report), maps(report)]
}

/// A name, and how it is found and written.
type Figure = (&'static str, fn(&Sale) -> String);

fn sale(report: &Report) -> Section {
    let figures: [Figure; 18] = [
        ("buyers, seats", |sale| format!("{}, {}", sale.buyers, sale.seats)),
        ("sold out after", |sale| match sale.sold_out_after_seconds {
            Some(seconds) => format!("{seconds:.1} s ({:.1} min of the sale)", seconds * sale.speed / 60.0),
            None => format!("never: {} sold", sale.sold),
        }),
        ("seats sold, free", |sale| format!("{}, {}", sale.occupancy.sold, sale.occupancy.available)),
        ("buyers who got seats", |sale| sale.winners.to_string()),
        ("looks at the map", |sale| rate(sale.looks as f64)),
        ("holds made", |sale| rate(sale.holds as f64)),
        ("conflicts (409)", |sale| rate(sale.conflicts as f64)),
        ("released", |sale| sale.released.to_string()),
        ("left to expire", |sale| sale.left_to_expire.to_string()),
        ("paid too late", |sale| sale.too_late.to_string()),
        ("wasted seat-minutes", |sale| rate(sale.wasted_seat_minutes)),
        ("used seat-minutes", |sale| rate(sale.used_seat_minutes)),
        ("hold p50, p99 ms", |sale| format!("{}, {}", ms(sale.hold.p50_ms), ms(sale.hold.p99_ms))),
        ("hold p99.9, max ms", |sale| format!("{}, {}", ms(sale.hold.p999_ms), ms(sale.hold.max_ms))),
        ("winner came first", |sale| {
            sale.fairness.winner_came_first.map_or("-".into(), |chance| format!("{chance:.3}"))
        }),
        ("share of the first tenth", |sale| format!("{:.0} %", sale.fairness.share_of_first_tenth * 100.0)),
        ("in a strict queue", |sale| format!("{:.0} %", sale.fairness.share_in_a_queue * 100.0)),
        ("Gini (in a strict queue)", |sale| {
            format!("{:.3} ({:.3})", sale.fairness.gini, sale.fairness.gini_in_a_queue)
        }),
    ];
    let row = |(name, figure): &Figure| {
        std::iter::once((*name).to_owned()).chain(report.sale.iter().map(figure)).collect()
    };
    let mut headings = vec![""];
    headings.extend(report.sale.iter().map(|sale| sale.peer.title()));
    let lines: Vec<Line> = report
        .sale
        .iter()
        .map(|sale| Line {
            name: sale.peer.title().into(),
            points: sale.sold_over_time.iter().map(|(at, sold)| (*at, f64::from(*sold))).collect(),
            colour: colour(sale.peer),
        })
        .collect();
    let text = "Far more buyers than seats. They arrive within ten minutes of the sale, most of them early, look at the \
                map, choose one to six free seats (popularity by Zipf), think, hold, start checkout, pay and confirm. \
                One in seven walks away from a hold, half of them without a word: those seats are wasted until the hold \
                ends. Who meets a conflict looks again. The sale's clock runs faster than ours. \
                Fairness: 'winner came first' is the chance that somebody who got seats had arrived before somebody who \
                got none; 1 is a queue, 0.5 a lottery. Nobody queues here, so it says how much being early helps. \
                Wasted seat-minutes are the buyers' doing: they are a property of the hold's length, not of the server.";
    Section {
        title: "Flash sale",
        text: text.into(),
        tables: vec![Table::new("", &headings, figures.iter().map(row).collect())],
        plots: vec![(
            "Seats sold over time".into(),
            plot::lines(&lines, Axes { x: "seconds", y: "seats", ..Axes::default() }),
        )],
    }
}

fn one_seat(report: &Report) -> Section {
    let rows = report.one_seat.iter().map(|crowd| {
        let winners: Vec<String> = crowd.winners.iter().map(u64::to_string).collect();
        vec![
            crowd.peer.title().into(),
            crowd.users.to_string(),
            winners.join(" "),
            ms(crowd.milliseconds.median),
            ms(crowd.milliseconds.most),
        ]
    });
    Section {
        title: "One seat, many users",
        text:
            "Everybody asks for the same seat at once, on a connection of their own. Exactly one may hold it."
                .into(),
        tables: vec![Table::new(
            "",
            &["peer", "users", "winners, each time", "all answered after ms, median", "most"],
            rows.collect(),
        )],
        plots: Vec::new(),
    }
}

fn area(report: &Report) -> Section {
    let rows = report.area.iter().map(|area| {
        vec![
            area.peer.title().into(),
            rate(area.per_second),
            ms(area.times.p50_ms),
            ms(area.times.p99_ms),
            format!("{} of {}", area.places_answered, area.large.held),
            format!("{} for {}: {}", area.users, area.capacity, area.winners),
        ]
    });
    let text = "General admission: holds of one to four places of one area, as fast as they go; then a crowd on an area \
                that is too small for it. The area never exceeds its capacity, and fills up to it.";
    Section {
        title: "An area",
        text: text.into(),
        tables: vec![Table::new(
            "",
            &[
                "peer",
                "holds a second",
                "p50 ms",
                "p99 ms",
                "places answered and held",
                "users for places: holds",
            ],
            rows.collect(),
        )],
        plots: Vec::new(),
    }
}

fn step_row(peer: &str, step: &Step) -> Vec<String> {
    vec![
        peer.to_owned(),
        step.name.clone(),
        rate(step.per_second),
        ms(step.times.p50_ms),
        ms(step.times.p99_ms),
        rate(step.times.requests as f64),
    ]
}

const STEPS: [&str; 6] = ["peer", "what", "per second", "p50 ms", "p99 ms", "requests"];

fn checkout(report: &Report) -> Section {
    let rows =
        report.checkout.iter().flat_map(|one| one.steps.iter().map(|step| step_row(one.peer.title(), step)));
    let text = "The same holds through all of their steps, each as fast as it goes (a closed loop). At the end every seat \
                is sold.";
    Section {
        title: "Extend and confirm",
        text: text.into(),
        tables: vec![Table::new("", &STEPS, rows.collect())],
        plots: Vec::new(),
    }
}

fn maps(report: &Report) -> Section {
    let reads =
        report.maps.iter().flat_map(|one| one.reads.iter().map(|step| step_row(one.peer.title(), step)));
    let events = report.maps.iter().map(|one| {
        vec![
            one.peer.title().into(),
            rate(one.seats.into()),
            ms(one.first_answer_ms),
            format!("{:.1}", one.bytes_a_seat),
            rate(one.holds_per_second),
            ms(one.hold.p99_ms),
        ]
    });
    let text = "A large event on a server that has just been started, and its map, compressed, read at a fixed rate while \
                seats are being held: so no two maps are the same. Times are of an open loop.";
    Section {
        title: "Maps during a sale",
        text: text.into(),
        tables: vec![
            Table::new(
                "",
                &[
                    "peer",
                    "seats",
                    "first answer ms",
                    "bytes a seat",
                    "holds a second meanwhile",
                    "their p99 ms",
                ],
                events.collect(),
            ),
            Table::new("", &STEPS, reads.collect()),
        ],
        plots: Vec::new(),
    }
}
