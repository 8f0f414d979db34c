//! What was done, and what came of it.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::audit::{Check, Looked, Recovery, Violation};
use super::history::History;

/// Violations of a kind that are shown to people. Programs get all of them.
const SHOWN: usize = 4;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub seed: u64,
    pub seconds: u64,
    pub nodes: usize,
    pub buyers: usize,
    pub intents: usize,
    pub attempts: usize,
    /// By kind of operation and what came of it.
    pub operations: BTreeMap<&'static str, BTreeMap<String, usize>>,
    pub faults: BTreeMap<String, Recovery>,
    pub longest_answer_millis: u64,
    pub looked: Looked,
    pub violations: Vec<Violation>,
    /// Where everything is, when something was found.
    pub kept: Option<String>,
}

/// Attempts by kind and outcome.
pub fn operations(history: &History) -> BTreeMap<&'static str, BTreeMap<String, usize>> {
    let mut counted: BTreeMap<&'static str, BTreeMap<String, usize>> = BTreeMap::new();
    for attempt in &history.attempts {
        let name = history.intents[attempt.intent as usize].what.name();
        *counted.entry(name).or_default().entry(attempt.outcome()).or_default() += 1;
    }
    counted
}

impl Report {
    pub fn fault_count(&self) -> usize {
        self.faults.values().map(|kind| kind.count).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, seconds, nodes, buyers, intents, attempts, .. } = self;
        let plural = if *nodes == 1 { "" } else { "s" };
        writeln!(f, "{seconds} s with {nodes} node{plural} and {buyers} buyers, seed {seed}")?;
        writeln!(f, "{intents} operations in {attempts} requests:")?;
        for (name, outcomes) in &self.operations {
            let mut sorted: Vec<_> = outcomes.iter().collect();
            sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let listed: Vec<String> =
                sorted.into_iter().map(|(outcome, count)| format!("{outcome}: {count}")).collect();
            writeln!(f, "  {name:<12} {}", listed.join(", "))?;
        }
        writeln!(f, "{} faults:", self.fault_count())?;
        writeln!(f, "  {:>5}  {:>12} {:>12}", "times", "unavailable", "back after")?;
        for (kind, Recovery { count, longest_unavailable_millis, longest_recovery_millis }) in &self.faults {
            writeln!(
                f,
                "  {count:>5}  {longest_unavailable_millis:>9} ms {longest_recovery_millis:>9} ms  {kind}"
            )?;
        }
        let Looked { facts, seat_operations, bookings, holds, maps } = &self.looked;
        writeln!(f, "the longest request took {} ms", self.longest_answer_millis)?;
        writeln!(
            f,
            "checked: {seat_operations} operations on seats, {bookings} bookings, {holds} holds, {maps} maps, {facts} facts"
        )?;
        let mut by_check: BTreeMap<Check, Vec<&str>> = BTreeMap::new();
        for Violation { check, what } in &self.violations {
            by_check.entry(*check).or_default().push(what);
        }
        for (check, found) in by_check {
            for what in found.iter().take(SHOWN) {
                writeln!(f, "violation ({check:?}): {what}")?;
            }
            if let more @ 1.. = found.len().saturating_sub(SHOWN) {
                writeln!(f, "violation ({check:?}): and {more} more")?;
            }
        }
        match self.violations.len() {
            0 => writeln!(f, "no violations"),
            1 => writeln!(f, "1 violation"),
            count => writeln!(f, "{count} violations"),
        }?;
        match &self.kept {
            Some(folder) => writeln!(f, "history, faults and logs are in {folder}"),
            None => Ok(()),
        }
    }
}
