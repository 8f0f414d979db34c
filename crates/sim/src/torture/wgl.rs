//! Is there an order in which all that was said of a seat can have happened?
//!
//! The search of Wing and Gong with Lowe's memory: take any operation that may come next, go on from there, come back
//! when that leads nowhere, and never look twice at the same place. An operation may come next when no other one had
//! ended before it began. Two additions: time, because holds end by themselves, and operations of which nobody knows
//! whether they happened.
//!
//! Time is the earliest at which all that was chosen so far can have happened. Earlier is never worse: what waits for
//! the end of a hold can still wait, and what needs the hold alive has the better chance.

use std::collections::HashMap;

use super::seat::{Act, Seat, Time};

#[cfg(test)]
mod tests;

/// Something that somebody was told about the seat, or sent and was never told about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Whatever the caller wants to find it again by.
    pub tag: u32,
    pub invoked: Time,
    pub fate: Fate,
    pub act: Act,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It happened, and was answered then.
    Answered(Time),
    /// It happened, nobody knows when.
    Happened,
    /// It happened at any time after it was sent, or never.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Linearizable,
    /// The longest order found, and what could not follow it.
    Impossible {
        order: Vec<u32>,
        stuck: Vec<u32>,
        seat: Seat,
    },
    /// The search was longer than allowed.
    Undecided,
}

/// A place in the search: what has been chosen, and where that has led.
#[derive(Clone)]
struct Place {
    /// All the answered operations before this one are chosen.
    first: usize,
    /// Which of those from `first` on are chosen, one bit each.
    beyond: Vec<u64>,
    /// Which of those without an answer are chosen.
    open: Vec<u64>,
    seat: Seat,
    now: Time,
}

#[derive(Clone, Copy)]
enum Choice {
    Answered(usize),
    Open(usize),
}

struct Step {
    place: Place,
    choices: std::vec::IntoIter<(Choice, Time, Seat)>,
    /// What was chosen to come here, reads that were taken along included.
    chosen: usize,
}

type Key = (usize, Vec<u64>, Vec<u64>, Seat);

struct Search<'o> {
    answered: Vec<&'o Operation>,
    open: Vec<&'o Operation>,
    seen: HashMap<Key, Time>,
    order: Vec<u32>,
}

/// Looks for an order, visiting at most `limit` places.
pub fn check(operations: &[Operation], limit: usize) -> Verdict {
    let is_answered = |operation: &&Operation| matches!(operation.fate, Fate::Answered(_));
    let mut answered: Vec<&Operation> = operations.iter().filter(is_answered).collect();
    let mut open: Vec<&Operation> = operations.iter().filter(|operation| !is_answered(operation)).collect();
    answered.sort_by_key(|operation| operation.invoked);
    open.sort_by_key(|operation| operation.invoked);
    let mut search = Search { answered, open, seen: HashMap::new(), order: Vec::new() };
    search.run(limit)
}

fn has(bits: &[u64], i: usize) -> bool {
    bits.get(i / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
}

fn put(bits: &mut Vec<u64>, i: usize) {
    if bits.len() <= i / 64 {
        bits.resize(i / 64 + 1, 0);
    }
    bits[i / 64] |= 1 << (i % 64);
}

impl Search<'_> {
    fn run(&mut self, limit: usize) -> Verdict {
        let mut place =
            Place { first: 0, beyond: Vec::new(), open: Vec::new(), seat: Seat::FREE, now: Time::MIN };
        self.take_along(&mut place);
        let mut best = (0, Vec::new(), Vec::new(), place.seat);
        let mut steps = vec![];
        let mut visited = 0;
        let mut next = Some((place, self.order.len()));
        loop {
            if let Some((place, chosen)) = next.take() {
                if self.is_done(&place) {
                    return Verdict::Linearizable;
                }
                visited += 1;
                if visited > limit {
                    return Verdict::Undecided;
                }
                if self.order.len() > best.0 {
                    best = (self.order.len(), self.order.clone(), self.stuck(&place), place.seat);
                } else if best.0 == 0 {
                    best.2 = self.stuck(&place);
                }
                let choices = self.choices(&place).into_iter();
                steps.push(Step { place, choices, chosen });
            }
            let Some(step) = steps.last_mut() else {
                let (_, order, stuck, seat) = best;
                return Verdict::Impossible { order, stuck, seat };
            };
            let Some((choice, now, seat)) = step.choices.next() else {
                let chosen = step.chosen;
                steps.pop();
                self.order.truncate(self.order.len() - chosen);
                continue;
            };
            let mut place = step.place.clone();
            let before = self.order.len();
            (place.now, place.seat) = (now, seat);
            self.choose(&mut place, choice);
            self.take_along(&mut place);
            if self.is_new(&place) {
                next = Some((place, self.order.len() - before));
            } else {
                self.order.truncate(before);
            }
        }
    }

    /// Whether all that must have happened is in the order.
    fn is_done(&self, place: &Place) -> bool {
        let must =
            |(i, operation): (usize, &&Operation)| operation.fate == Fate::Happened && !has(&place.open, i);
        place.first == self.answered.len() && !self.open.iter().enumerate().any(must)
    }

    /// The moment by which something that is not chosen yet must have happened.
    fn deadline(&self, place: &Place) -> Time {
        let mut deadline = Time::MAX;
        for (i, operation) in self.answered[place.first..].iter().enumerate() {
            if operation.invoked > deadline {
                break;
            }
            if let Fate::Answered(end) = operation.fate
                && !has(&place.beyond, i)
            {
                deadline = deadline.min(end);
            }
        }
        deadline
    }

    /// The answered operations that may come next, by where they are behind `first`.
    fn candidates(&self, place: &Place, deadline: Time) -> impl Iterator<Item = (usize, &Operation)> {
        self.answered[place.first..]
            .iter()
            .enumerate()
            .take_while(move |(_, operation)| operation.invoked <= deadline)
            .filter(|(i, _)| !has(&place.beyond, *i))
            .map(|(i, operation)| (i, *operation))
    }

    fn choices(&self, place: &Place) -> Vec<(Choice, Time, Seat)> {
        let deadline = self.deadline(place);
        let mut choices = Vec::new();
        for (i, operation) in self.candidates(place, deadline) {
            let from = place.now.max(operation.invoked);
            if let Some((at, seat)) = place.seat.earliest(operation.act, operation.invoked, from)
                && at <= deadline
            {
                choices.push((Choice::Answered(place.first + i), at, seat));
            }
        }
        let answered = choices.len();
        for (i, operation) in self.open.iter().enumerate() {
            let from = place.now.max(operation.invoked);
            if has(&place.open, i) || from > deadline {
                continue;
            }
            if let Some((at, seat)) = place.seat.earliest(operation.act, operation.invoked, from)
                && at <= deadline
                // What changes nothing and need not have happened is not worth a look.
                && (operation.fate == Fate::Happened || seat != place.seat)
            {
                choices.push((Choice::Open(i), at, seat));
            }
        }
        // What ends first most likely happened first; what nobody heard of is needed least often.
        let end = |choice: Choice| match choice {
            Choice::Answered(i) => match self.answered[i].fate {
                Fate::Answered(end) => end,
                _ => Time::MAX,
            },
            Choice::Open(i) => self.open[i].invoked,
        };
        choices[..answered].sort_by_key(|(choice, at, _)| (*at, end(*choice)));
        choices
    }

    fn choose(&mut self, place: &mut Place, choice: Choice) {
        match choice {
            Choice::Answered(i) => {
                self.order.push(self.answered[i].tag);
                put(&mut place.beyond, i - place.first);
                while has(&place.beyond, 0) {
                    place.first += 1;
                    shift(&mut place.beyond);
                }
            }
            Choice::Open(i) => {
                self.order.push(self.open[i].tag);
                put(&mut place.open, i);
            }
        }
    }

    /// Chooses what only looks and fits here and now. It stands in nobody's way, so nothing else need be tried for it.
    fn take_along(&mut self, place: &mut Place) {
        loop {
            let deadline = self.deadline(place);
            let fits = |operation: &Operation| {
                !operation.act.changes()
                    && operation.invoked <= place.now
                    && place.seat.after(operation.act, operation.invoked, place.now).is_some()
            };
            let found = self
                .candidates(place, deadline)
                .find(|(_, operation)| fits(operation))
                .map(|(i, _)| Choice::Answered(place.first + i));
            match found {
                Some(choice) => self.choose(place, choice),
                None => return,
            }
        }
    }

    fn is_new(&mut self, place: &Place) -> bool {
        let mut beyond = place.beyond.clone();
        while beyond.last() == Some(&0) {
            beyond.pop();
        }
        let key = (place.first, beyond, place.open.clone(), place.seat);
        match self.seen.get_mut(&key) {
            Some(earliest) if *earliest <= place.now => false,
            Some(earliest) => {
                *earliest = place.now;
                true
            }
            None => {
                self.seen.insert(key, place.now);
                true
            }
        }
    }

    fn stuck(&self, place: &Place) -> Vec<u32> {
        let deadline = self.deadline(place);
        self.candidates(place, deadline).map(|(_, operation)| operation.tag).collect()
    }
}

/// Moves all bits one place down.
fn shift(bits: &mut Vec<u64>) {
    let mut carry = 0;
    for word in bits.iter_mut().rev() {
        let next = *word & 1;
        *word = *word >> 1 | carry << 63;
        carry = next;
    }
    while bits.last() == Some(&0) {
        bits.pop();
    }
}
