//! The report as sections of text, tables and plots: for the terminal and for the page.

mod growth;
mod load;
mod uses;

use super::goals::{Goal, Verdict};
use super::plot::short;
use super::report::Report;

#[derive(Clone, Debug, Default)]
pub struct Section {
    pub title: &'static str,
    /// What it means, for somebody who was not there.
    pub text: String,
    pub tables: Vec<Table>,
    /// With a caption.
    pub plots: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default)]
pub struct Table {
    pub caption: String,
    pub headings: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(caption: &str, headings: &[&'static str], rows: Vec<Vec<String>>) -> Self {
        Self { caption: caption.into(), headings: headings.to_vec(), rows }
    }
}

pub fn sections(report: &Report) -> Vec<Section> {
    let mut sections = vec![goals(report)];
    sections.extend(load::sections(report));
    sections.extend(uses::sections(report));
    sections.push(growth::section(report));
    sections.push(machine(report));
    sections
}

pub fn goal_table(goals: &[Goal]) -> Table {
    let amount = |value: f64, unit: &str| match unit {
        "×" => format!("{value:.2} ×"),
        "of tries" => format!("{:.0} % of tries", value * 100.0),
        unit => format!("{} {unit}", short(value)),
    };
    let row = |goal: &Goal| {
        let measured = match (goal.measured, goal.least, goal.most) {
            (None, ..) => "not measured".to_owned(),
            (Some(value), Some(least), Some(most)) => {
                format!("{} ({least:.2} to {most:.2})", amount(value, &goal.unit))
            }
            (Some(value), ..) => amount(value, &goal.unit),
        };
        let verdict = match goal.verdict {
            Verdict::Reached => "ok".to_owned(),
            Verdict::Short => "SHORT".to_owned(),
            Verdict::Untold => {
                format!("can't tell: measured with {}", rate(goal.with.unwrap_or(0).into()))
            }
            Verdict::Missing => "MISSING".to_owned(),
            Verdict::Outside => "not built yet".to_owned(),
        };
        let sign = if goal.at_least { "≥" } else { "≤" };
        vec![goal.name.clone(), format!("{sign} {}", amount(goal.goal, &goal.unit)), measured, verdict]
    };
    Table::new("", &["what", "goal", "measured", ""], goals.iter().map(row).collect())
}

fn goals(report: &Report) -> Section {
    let mut text = String::from(
        "The numbers to reach. Ratios are of one run and one load, taken round by round: the median, and from the \
         least to the most.",
    );
    if !report.problems.is_empty() {
        text.push_str(" THIS RUN WAS NOT SOUND, so its figures mean nothing: ");
        text.push_str(&report.problems.join("; "));
    }
    if report.machine.build != "release" {
        text.push_str(" This is not a release build: its figures say nothing about speed.");
    }
    Section { title: "Goals", text, tables: vec![goal_table(&report.goals)], plots: Vec::new() }
}

fn machine(report: &Report) -> Section {
    let machine = &report.machine;
    let client = &report.client;
    let none = || "not there".to_owned();
    let mut rows = vec![
        vec!["processor".into(), format!("{} × {}", machine.cores, machine.cpu)],
        vec!["memory".into(), bytes(machine.memory_bytes)],
        vec!["kernel".into(), machine.kernel.clone()],
        vec!["file system of the stores".into(), machine.filesystem.clone()],
        vec!["Postgres".into(), machine.postgres.clone().unwrap_or_else(none)],
        vec!["Redis".into(), machine.redis.clone().unwrap_or_else(none)],
        vec!["build".into(), machine.build.clone()],
        vec!["load average before".into(), format!("{:.2}", machine.load_before)],
        vec!["began".into(), report.began_at.clone()],
        vec!["took".into(), format!("{:.0} s ({})", report.seconds, report.size)],
        vec!["client".into(), format!("{} threads, {} connections", client.threads, client.connections)],
        vec!["pool of the transaction peers".into(), client.pool.to_string()],
        vec![
            "client against the bare endpoint".into(),
            format!(
                "{}/s with {:.0} % of a core a thread, {:.1} µs a request: {}/s at most",
                short(client.per_second),
                client.busy * 100.0,
                client.cpu_micros_per_request,
                short(client.ceiling_per_second)
            ),
        ],
    ];
    rows.extend(report.skipped.iter().map(|what| vec!["left out".to_owned(), what.clone()]));
    let text = "The load, the servers, Postgres, Redis and the disk share this machine: what the client uses, the \
                servers do not have. So compare within a run, and not between machines.";
    let table = Table::new("", &["", ""], rows);
    Section { title: "Machine", text: text.into(), tables: vec![table], plots: Vec::new() }
}

pub fn bytes(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if mebibytes >= 1024.0 { format!("{:.1} GiB", mebibytes / 1024.0) } else { format!("{mebibytes:.0} MiB") }
}

pub fn ms(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

pub fn rate(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all::goals::goals;
    use crate::all::sample;

    #[test]
    fn numbers_can_be_read() {
        assert_eq!([7.0, 1234.4, 1_234_567.0].map(rate), ["7", "1,234", "1,234,567"]);
        assert_eq!((bytes(5 << 20), bytes(3 << 30)), ("5 MiB".into(), "3.0 GiB".into()));
    }

    #[test]
    fn the_table_says_what_is_short() {
        let mut report = sample::report();
        report.throughput.ratios[0].spread.median = 0.31;
        let table = goal_table(&goals(&report));
        assert_eq!(table.rows[0][1..], ["≥ 0.60 ×", "0.31 × (0.60 to 0.70)", "SHORT"]);
        assert_eq!(table.rows[1][3], "ok");
        report.growth.holds[1].count = 100_000;
        let table = goal_table(&goals(&report));
        assert_eq!(table.rows[table.rows.len() - 2][3], "can't tell: measured with 100,000");
        assert_eq!(table.rows.last().unwrap()[3], "not built yet");
    }
}
