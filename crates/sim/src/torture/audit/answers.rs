//! What was answered, compared with the journal and with itself.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Check, Violation};
use crate::torture::answer::Answer;
use crate::torture::history::{Attempt, Effect, History, Said, What};
use crate::torture::journal::{Entry, Replay};
use crate::torture::seat::{SLACK, Time};

/// Every map is the journal up to the sequence that it names, and no node goes back. Returns how many there are.
pub fn maps(history: &History, replay: &Replay, found: &mut Vec<Violation>) -> usize {
    let mut by_node: HashMap<usize, Vec<(&Attempt, u64)>> = HashMap::new();
    let mut count = 0;
    for attempt in &history.attempts {
        let Some(Answer::Map { sequence, seats }) = attempt.answer() else { continue };
        count += 1;
        by_node.entry(attempt.node).or_default().push((attempt, *sequence));
        if replay.maps.get(sequence) != Some(seats) {
            let should = replay.maps.get(sequence).map_or("nothing", String::as_str);
            let what = format!("{} showed {seats} at {sequence}, which is {should}", attempt.request_id);
            found.push(Violation::new(Check::Maps, what));
        }
    }
    for (node, shown) in by_node {
        went_back(node, shown, found);
    }
    count
}

fn went_back(node: usize, mut shown: Vec<(&Attempt, u64)>, found: &mut Vec<Violation>) {
    let mut ended = shown.clone();
    ended.sort_by_key(|(attempt, _)| attempt.completed);
    shown.sort_by_key(|(attempt, _)| attempt.invoked);
    let (mut known, mut next) = (0, 0);
    for (attempt, sequence) in shown {
        while next < ended.len() && ended[next].0.completed < attempt.invoked {
            known = known.max(ended[next].1);
            next += 1;
        }
        if sequence < known {
            let what = format!("node {node} showed {known} and then, to {}, {sequence}", attempt.request_id);
            found.push(Violation::new(Check::Maps, what));
        }
    }
}

/// Only what a client of this kind may hear.
pub fn expected(history: &History, found: &mut Vec<Violation>) {
    for attempt in &history.attempts {
        let Said::Answered { status, answer, .. } = &attempt.said else { continue };
        let what = &history.intents[attempt.intent as usize].what;
        let code = match answer {
            Answer::Refusal { code, .. } => code.as_str(),
            _ => "",
        };
        if !may_hear(what, *status, code) {
            let what = format!("{} ({}) was answered {status} {code}", what.name(), attempt.request_id);
            found.push(Violation::new(Check::Answers, what));
        }
    }
}

fn may_hear(what: &What, status: u16, code: &str) -> bool {
    match (status, code) {
        (503, "busy" | "unavailable" | "stopping" | "timeout") => true,
        (201, _) => matches!(what, What::Hold { .. } | What::HoldAny { .. } | What::Confirm { .. }),
        (200, _) => true,
        (409, "seats_taken" | "area_full") => matches!(what, What::Hold { .. }),
        (409, "block_full") => matches!(what, What::HoldAny { .. }),
        (409, "extension_exhausted") => matches!(what, What::Heartbeat { .. }),
        (409, "already_cancelled") => matches!(what, What::Confirm { .. }),
        (409, "hold_confirmed") => {
            matches!(what, What::Release { .. } | What::Checkout { .. } | What::Heartbeat { .. })
        }
        (410, "hold_expired" | "hold_released") => {
            matches!(what, What::Checkout { .. } | What::Heartbeat { .. } | What::Confirm { .. })
        }
        _ => false,
    }
}

/// One key, one answer and one effect.
pub fn keys(history: &History, journal: &[Entry], found: &mut Vec<Violation>) {
    let mut effective: HashSet<&str> = HashSet::new();
    for entry in journal.iter().filter(|entry| entry.kind != "SEAT-HOLD-EXPIRED") {
        effective.insert(&entry.request_id);
    }
    for (intent, attempts) in history.intents.iter().zip(history.by_intent()) {
        let Some(key) = &intent.key else { continue };
        let done: Vec<&&Attempt> =
            attempts.iter().filter(|attempt| attempt.effect() == Effect::Done).collect();
        let texts: BTreeSet<(u16, &str)> = done.iter().filter_map(|attempt| text(attempt)).collect();
        if texts.len() > 1 {
            found.push(Violation::new(Check::Keys, format!("{key} has several answers: {texts:?}")));
        }
        let effects: Vec<&str> = attempts
            .iter()
            .map(|attempt| attempt.request_id.as_str())
            .filter(|request| effective.contains(request))
            .collect();
        if effects.len() > 1 {
            found.push(Violation::new(Check::Keys, format!("{key} had several effects: {effects:?}")));
        }
        // Once there is an answer, the key never hears a refusal again.
        let answered = done.iter().map(|attempt| attempt.completed).min().unwrap_or(Time::MAX);
        let late = |attempt: &&&Attempt| attempt.effect() == Effect::Refused && attempt.invoked > answered;
        for attempt in attempts.iter().filter(late) {
            let what = format!("{key} was answered, and then {}", attempt.outcome());
            found.push(Violation::new(Check::Keys, what));
        }
    }
}

fn text(attempt: &Attempt) -> Option<(u16, &str)> {
    match &attempt.said {
        Said::Answered { status, text: Some(text), .. } => Some((*status, text)),
        _ => None,
    }
}

/// A hold was made between the request and its answer, by the clock of the store, whatever that of its node says.
pub fn times_of_holds(history: &History, found: &mut Vec<Violation>) {
    let mut known: HashSet<&str> = HashSet::new();
    let mut made: Vec<(Time, Time, &str, Time)> = Vec::new();
    for (intent, attempts) in history.intents.iter().zip(history.by_intent()) {
        let (What::Hold { cart, .. } | What::HoldAny { cart, .. }) = &intent.what else { continue };
        let (Some(first), Some(done)) =
            (attempts.first(), attempts.iter().find(|attempt| attempt.effect() == Effect::Done))
        else {
            continue;
        };
        // All that was asked for may be in another cart of the same user, whose hold is older.
        if let Some(hold) = done.answer().and_then(Answer::hold).filter(|hold| hold.cart == *cart) {
            made.push((first.invoked, done.completed, &hold.hold, hold.created_at));
        }
    }
    made.sort_unstable();
    for (invoked, completed, hold, created_at) in made {
        if known.insert(hold) && (created_at < invoked - SLACK || created_at > completed + SLACK) {
            let what = format!("hold {hold} says it was made at {created_at}, in {invoked}..{completed}");
            found.push(Violation::new(Check::Answers, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::history::Intent;
    use crate::torture::journal::replay;
    use serde_json::json;

    fn history(what: What, attempts: Vec<Said>) -> History {
        let intent = Intent { id: 0, user: 0, what, key: Some("k".into()) };
        let attempt = |(i, said): (usize, Said)| Attempt {
            intent: 0,
            request_id: format!("r{i}"),
            node: 0,
            invoked: i as Time * 10,
            completed: i as Time * 10 + 5,
            took_millis: 0,
            patience_millis: 0,
            said,
        };
        let attempts = attempts.into_iter().enumerate().map(attempt).collect();
        History { intents: vec![intent], attempts }
    }

    fn ok(text: &str) -> Said {
        Said::Answered { status: 201, answer: Answer::Other, text: Some(text.into()) }
    }

    fn refusal(status: u16, code: &str) -> Said {
        let answer = Answer::Refusal { code: code.into(), conflicts: Vec::new() };
        Said::Answered { status, answer, text: None }
    }

    fn confirm() -> What {
        What::Confirm { hold: "h".into(), seats: Vec::new() }
    }

    fn map(sequence: u64, seats: &str) -> Said {
        Said::Answered { status: 200, answer: Answer::Map { sequence, seats: seats.into() }, text: None }
    }

    #[test]
    fn a_key_with_two_answers_or_effects_is_found() {
        let count = |said, journal: &[Entry]| {
            let mut found = Vec::new();
            keys(&history(confirm(), said), journal, &mut found);
            found.len()
        };
        assert_eq!(count(vec![ok("a"), ok("a")], &[]), 0);
        assert_eq!(count(vec![ok("a"), ok("b")], &[]), 1);
        assert_eq!(count(vec![ok("a"), refusal(410, "hold_expired")], &[]), 1);
        let entry = |request: &str| Entry {
            sequence: 1,
            kind: "BOOKING-CONFIRMED".into(),
            request_id: request.into(),
            data: json!({}),
        };
        assert_eq!(count(vec![ok("a"), ok("a")], &[entry("r0"), entry("r1")]), 1);
    }

    #[test]
    fn a_map_that_never_was_and_one_that_goes_back_are_found() {
        let entry = |sequence, kind: &str, data| Entry {
            sequence,
            kind: kind.into(),
            request_id: String::new(),
            data,
        };
        let seat = json!([{"ordinal": 0}]);
        let journal = [
            entry(1, "SEAT-HOLD-CREATED", json!({"id": "h", "seats": seat})),
            entry(2, "SEAT-HOLD-CANCELLED", json!({"hold": "h", "seats": seat})),
        ];
        let replay = replay(&journal, 1);
        let count = |said| {
            let mut found = Vec::new();
            maps(&history(What::Map, said), &replay, &mut found);
            found.len()
        };
        assert_eq!(count(vec![map(1, "h"), map(2, "a")]), 0);
        assert_eq!(count(vec![map(1, "a")]), 1);
        assert_eq!(count(vec![map(3, "a")]), 1);
        assert_eq!(count(vec![map(2, "a"), map(1, "h")]), 1);
    }

    #[test]
    fn what_nobody_should_hear_is_found() {
        let count = |said| {
            let mut found = Vec::new();
            expected(&history(confirm(), vec![said]), &mut found);
            found.len()
        };
        assert_eq!(count(refusal(503, "unavailable")), 0);
        assert_eq!(count(refusal(410, "hold_expired")), 0);
        for (status, code) in [(500, "internal"), (404, "unknown_hold"), (401, "unauthenticated")] {
            assert_eq!(count(refusal(status, code)), 1, "{status} {code}");
        }
    }
}
