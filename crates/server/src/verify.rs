//! `rowlock verify`: checks the promises on the stored data, also while a server runs.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use rowlock_truth::verify::{Progress, Report};

use crate::config::Origins;
use crate::fault::Fault;
use crate::output::say;
use crate::settings::Settings;
use crate::store;

const VIOLATED: u8 = 1;

pub fn run(settings: &Settings, origins: &Origins) -> Result<ExitCode, Fault> {
    let bar = bar();
    let report = store::block_on(async {
        let truth = store::existing(settings, origins).await?;
        Ok(truth.verify(progress(&bar)).await)
    })??;
    bar.finish_and_clear();
    let report = report.map_err(|failure| Fault::new(format!("the data could not be checked: {failure}")))?;
    print(&report);
    Ok(if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(VIOLATED) })
}

pub(crate) fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
    let bar = ProgressBar::new(0).with_style(style.expect("the template is valid"));
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

fn progress(bar: &ProgressBar) -> Progress {
    let bar = bar.clone();
    Arc::new(move |check, done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(check);
    })
}

fn print(report: &Report) {
    for (table, rows) in &report.counted {
        say(format!("{rows:>12}  {table}"));
    }
    for violation in &report.violations {
        say(format!("violation of {violation}"));
    }
    match report.violations.len() {
        0 => say("no violations"),
        1 => say("1 violation"),
        n => say(format!("{n} violations")),
    }
}
