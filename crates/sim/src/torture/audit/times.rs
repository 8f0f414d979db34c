//! How long things took.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::{Check, Violation};
use crate::torture::faults::Inflicted;
use crate::torture::history::{Attempt, Effect, History};
use crate::torture::seat::Time;

/// Every request that could be answered was, within `limit`. Whoever asks a node that is killed, paused or cut off from
/// its clients meanwhile can't expect that.
pub fn in_time(history: &History, faults: &[Inflicted], limit: Duration, found: &mut Vec<Violation>) {
    for attempt in &history.attempts {
        if Duration::from_millis(attempt.took_millis) <= limit {
            continue;
        }
        let disturbed = |fault: &Inflicted| {
            fault.fault.deafens(attempt.node)
                && fault.began <= attempt.completed
                && attempt.invoked <= fault.healed
        };
        if !faults.iter().any(disturbed) {
            let name = history.intents[attempt.intent as usize].what.name();
            let (id, took, node) = (&attempt.request_id, attempt.took_millis, attempt.node);
            let what = format!("{name} ({id}) on node {node} took {took} ms: {}", attempt.outcome());
            found.push(Violation::new(Check::Time, what));
        }
    }
}

/// What a kind of fault did to the service.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Recovery {
    pub count: usize,
    /// The longest stretch without any change decided, from the fault on until one was after it had healed.
    pub longest_unavailable_millis: u64,
    /// The longest time from its healing to the first change decided.
    pub longest_recovery_millis: u64,
}

/// By kind of fault, and a violation for every one after which the service did not come back within `limit`.
pub fn recoveries(
    history: &History,
    faults: &[Inflicted],
    ended: Time,
    limit: Duration,
    found: &mut Vec<Violation>,
) -> BTreeMap<String, Recovery> {
    let decided = |attempt: &&Attempt| {
        history.intents[attempt.intent as usize].what.writes()
            && matches!(attempt.effect(), Effect::Done | Effect::Refused)
    };
    let mut moments: Vec<Time> =
        history.attempts.iter().filter(decided).map(|attempt| attempt.completed).collect();
    moments.sort_unstable();
    let mut kinds: BTreeMap<String, Recovery> = BTreeMap::new();
    for fault in faults {
        let kind = kinds.entry(fault.fault.kind()).or_default();
        kind.count += 1;
        let from = moments.partition_point(|at| *at < fault.began);
        let back = moments.partition_point(|at| *at < fault.healed);
        let Some(recovered) = moments.get(back) else {
            if ended - fault.healed > limit.as_micros() as Time {
                let what = format!("nothing was decided any more after: {}", fault.fault);
                found.push(Violation::new(Check::Time, what));
            }
            continue;
        };
        let recovery = recovered - fault.healed;
        if recovery > limit.as_micros() as Time {
            let what = format!("nothing was decided for {} ms after: {}", recovery / 1_000, fault.fault);
            found.push(Violation::new(Check::Time, what));
        }
        let stretch = &moments[from.saturating_sub(1)..=back];
        let longest = stretch.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        kind.longest_unavailable_millis = kind.longest_unavailable_millis.max(longest as u64 / 1_000);
        kind.longest_recovery_millis = kind.longest_recovery_millis.max(recovery as u64 / 1_000);
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::answer::Answer;
    use crate::torture::history::{Intent, Said, What};
    use crate::torture::schedule::Fault;

    const SECOND: Time = 1_000_000;

    fn history(answers: &[(Time, Time)]) -> History {
        let what = What::Confirm { hold: "h".into(), seats: Vec::new() };
        let attempt = |(invoked, completed): &(Time, Time)| Attempt {
            intent: 0,
            request_id: "r".into(),
            node: 1,
            invoked: invoked * SECOND,
            completed: completed * SECOND,
            took_millis: (completed - invoked) as u64 * 1_000,
            patience_millis: 0,
            said: Said::Answered { status: 201, answer: Answer::Other, text: None },
        };
        let intents = vec![Intent { id: 0, user: 0, what, key: None }];
        History { intents, attempts: answers.iter().map(attempt).collect() }
    }

    fn paused(node: usize, began: Time, healed: Time) -> Inflicted {
        let fault = Fault::PauseNode { node, time: Duration::ZERO };
        Inflicted { fault, began: began * SECOND, healed: healed * SECOND }
    }

    #[test]
    fn a_slow_answer_is_found_unless_its_node_was_stopped() {
        let count = |faults: &[Inflicted]| {
            let mut found = Vec::new();
            in_time(&history(&[(0, 1), (2, 20)]), faults, Duration::from_secs(15), &mut found);
            found.len()
        };
        assert_eq!(count(&[]), 1);
        assert_eq!(count(&[paused(0, 3, 9)]), 1, "another node");
        assert_eq!(count(&[paused(1, 3, 9)]), 0);
        assert_eq!(count(&[paused(1, 21, 22)]), 1, "later");
    }

    #[test]
    fn the_longest_silence_is_found() {
        let mut found = Vec::new();
        let history = history(&[(0, 1), (0, 2), (5, 9), (9, 10)]);
        let faults = [paused(1, 3, 6)];
        let kinds = recoveries(&history, &faults, 20 * SECOND, Duration::from_secs(5), &mut found);
        let kind = &kinds["node paused"];
        assert_eq!((kind.longest_unavailable_millis, kind.longest_recovery_millis), (7_000, 3_000));
        assert!(found.is_empty());
        recoveries(&history, &faults, 20 * SECOND, Duration::from_secs(2), &mut found);
        assert_eq!(found.len(), 1);
        recoveries(&history, &[paused(1, 11, 12)], 20 * SECOND, Duration::from_secs(2), &mut found);
        assert_eq!(found.len(), 2);
    }
}
