//! Exploring a protocol, and finding the shortest way to break a promise.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use stateright::report::{ReportData, ReportDiscovery, Reporter};
use stateright::{Checker, Expectation, HasDiscoveries, Model};

use super::action::Action;
use super::narrate;
use super::properties;
use super::protocol::Protocol;

/// What an exploration came to.
#[derive(Clone, Debug)]
pub struct Explored {
    /// States that differ.
    pub states: usize,
    /// Steps taken, those that lead to a known state included.
    pub steps: usize,
    /// States on the longest of the ways that were taken, the first one included.
    pub depth: usize,
    pub time: Duration,
    /// Promises that were broken, with the way there.
    pub broken: Vec<(&'static str, Vec<String>)>,
    /// What should be possible and never happened.
    pub missing: Vec<&'static str>,
    pub promises: usize,
    pub reached: usize,
}

impl Explored {
    pub fn is_sound(&self) -> bool {
        self.broken.is_empty() && self.missing.is_empty()
    }
}

/// Says how far it is now and then.
struct Progress {
    every: Duration,
    next: Duration,
}

impl Reporter<Protocol> for Progress {
    fn report_checking(&mut self, data: ReportData) {
        if data.duration >= self.next && !data.done {
            self.next = data.duration + self.every;
            let (states, depth, seconds) = (data.unique_states, data.max_depth, data.duration.as_secs());
            eprintln!(
                "  {seconds:>5} s  {states:>11} states  {:>12} steps  depth {depth}",
                data.total_states
            );
        }
    }

    fn report_discoveries(
        &mut self,
        _: &Protocol,
        _: std::collections::BTreeMap<&'static str, ReportDiscovery<Protocol>>,
    ) {
    }
}

/// Explores everything that can be reached, or until a promise is broken.
pub fn explore(protocol: Protocol, threads: usize, progress: bool) -> Explored {
    let began = Instant::now();
    let checker =
        protocol.clone().checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_bfs();
    let checker = match progress {
        true => checker
            .join_and_report(&mut Progress { every: Duration::from_secs(5), next: Duration::from_secs(5) }),
        false => checker.join(),
    };
    let discoveries = checker.discoveries();
    let (mut broken, mut missing, mut promises, mut reached) = (Vec::new(), Vec::new(), 0, 0);
    for property in properties::all(&protocol) {
        let found = discoveries.get(property.name);
        match (property.expectation, found) {
            (Expectation::Sometimes, Some(_)) => reached += 1,
            (Expectation::Sometimes, None) => missing.push(property.name),
            (_, None) => promises += 1,
            (_, Some(path)) => {
                broken.push((property.name, narrate::trace(&protocol, path.clone().into_vec())));
            }
        }
    }
    let (states, steps) = (checker.unique_state_count(), checker.state_count());
    Explored {
        states,
        steps,
        depth: checker.max_depth(),
        time: began.elapsed(),
        broken,
        missing,
        promises,
        reached,
    }
}

/// The shortest way to break a promise, if there is one.
pub fn counterexample(protocol: &Protocol, promise: &'static str) -> Option<Counterexample> {
    let (mut shortest, mut states): (Option<Vec<_>>, usize) = (None, 0);
    loop {
        let wanted = HasDiscoveries::AnyOf(BTreeSet::from([promise]));
        let checker = protocol.clone().checker().threads(1).finish_when(wanted);
        // The checker goes on for a while after it has found something, and keeps the last. So it is asked for a shorter
        // way until there is none.
        let checker = match &shortest {
            Some(found) => checker.target_max_depth(found.len()),
            None => checker,
        };
        let checker = checker.spawn_bfs().join();
        states += checker.unique_state_count();
        match checker.discovery(promise) {
            Some(path) => shortest = Some(path.into_vec()),
            None => break,
        }
    }
    let path = shortest?;
    let actions = path.iter().filter_map(|(_, action)| *action).collect();
    Some(Counterexample {
        promise,
        steps: path.len() - 1,
        actions,
        trace: narrate::trace(protocol, path),
        states,
    })
}

/// A way to break a promise.
#[derive(Clone, Debug)]
pub struct Counterexample {
    pub promise: &'static str,
    pub steps: usize,
    pub actions: Vec<Action>,
    /// A line for each step, in words.
    pub trace: Vec<String>,
    /// States that were looked at to find it.
    pub states: usize,
}
