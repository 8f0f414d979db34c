//! What was said in requests and answers, seat by seat, in the words of the checker.
//!
//! An intention with a key has one effect, however many attempts it took: it happened between the first attempt and the
//! first answer that says so. An attempt without an answer may have happened at any time after it was sent, or never. Of a
//! grant, whose hold or booking has a name that only the answer would have told, the journal tells by the request id
//! whether it happened; when that was is left open.

use std::collections::HashMap;

use super::answer::{Answer, BookingSaid, HoldSaid};
use super::history::{Attempt, Effect, History, Intent, Said, What};
use super::journal::Entry;
use super::seat::{Act, Id, Time};
use super::wgl::{Fate, Operation};

/// Holds and bookings as numbers.
#[derive(Default)]
struct Names(HashMap<String, Id>);

impl Names {
    fn of(&mut self, name: &str) -> Id {
        let next = self.0.len() as Id;
        *self.0.entry(name.to_owned()).or_insert(next)
    }
}

pub struct Translation {
    /// By seat ordinal. The tag of an operation is that of its intention.
    pub seats: Vec<Vec<Operation>>,
    names: Names,
}

/// When something happened.
#[derive(Clone, Copy)]
struct When {
    tag: u32,
    invoked: Time,
    fate: Fate,
}

pub fn translate(history: &History, journal: &[Entry], seats: u32) -> Translation {
    let mut effects: HashMap<&str, Vec<&Entry>> = HashMap::new();
    for entry in journal {
        effects.entry(&entry.request_id).or_default().push(entry);
    }
    let mut all = Translation { seats: vec![Vec::new(); seats as usize], names: Names::default() };
    for (intent, attempts) in history.intents.iter().zip(history.by_intent()) {
        all.intent(intent, &attempts, &effects);
    }
    all
}

impl Translation {
    fn say(&mut self, when: When, seats: &[u32], act: Act) {
        let When { tag, invoked, fate } = when;
        for seat in seats {
            if let Some(operations) = self.seats.get_mut(*seat as usize) {
                operations.push(Operation { tag, invoked, fate, act });
            }
        }
    }

    /// What everybody sees when all is over.
    pub fn say_at_last(&mut self, at: Time, seat: u32, sold_to: Option<&str>) {
        let act = match sold_to {
            Some(booking) => Act::SeenSold { booking: self.names.of(booking) },
            None => Act::SeenFree,
        };
        self.say(When { tag: u32::MAX, invoked: at, fate: Fate::Answered(Time::MAX) }, &[seat], act);
    }

    fn intent(&mut self, intent: &Intent, attempts: &[&Attempt], effects: &HashMap<&str, Vec<&Entry>>) {
        let within = |attempt: &Attempt| When {
            tag: intent.id,
            invoked: attempt.invoked,
            fate: Fate::Answered(attempt.completed),
        };
        let done = attempts.iter().filter(|attempt| attempt.effect() == Effect::Done);
        let first_done = done.clone().min_by_key(|attempt| attempt.completed);
        if !intent.what.writes() {
            for attempt in done {
                self.seen(intent, within(attempt), attempt);
            }
            return;
        }
        if let Some(attempt) = first_done {
            let begun = attempts.first().map_or(attempt.invoked, |first| first.invoked);
            self.done(intent, When { invoked: begun, ..within(attempt) }, attempt);
        }
        for attempt in attempts {
            match attempt.effect() {
                Effect::Refused => self.refused(intent, within(attempt), attempt),
                // With a key and an answer, whatever this attempt did is what that answer says.
                Effect::Unknown if intent.key.is_none() || first_done.is_none() => {
                    self.unknown(intent, attempt, effects);
                }
                Effect::Unknown | Effect::Done | Effect::Nothing => {}
            }
        }
    }

    fn done(&mut self, intent: &Intent, when: When, attempt: &Attempt) {
        let Said::Answered { answer, .. } = &attempt.said else { return };
        match (&intent.what, answer) {
            (What::Hold { .. } | What::HoldAny { .. }, Answer::Hold(said)) => {
                let HoldSaid { seats, expires_at: until, elsewhere, .. } = said;
                let hold = self.names.of(&said.hold);
                self.say(when, seats, Act::Take { hold, user: intent.user, until: *until });
                for (seat, other) in elsewhere {
                    let hold = self.names.of(other);
                    self.say(when, &[*seat], Act::SeenLive { hold });
                }
            }
            (What::Checkout { .. } | What::Heartbeat { .. }, Answer::Hold(said)) => {
                let hold = self.names.of(&said.hold);
                self.say(when, &said.seats, Act::Extend { hold, until: said.expires_at });
            }
            (What::Release { seats, only, .. }, Answer::Hold(said)) => {
                let hold = self.names.of(&said.hold);
                if said.status == "active" {
                    self.say(when, only, Act::GiveBack { hold });
                    self.say(when, &said.seats, Act::SeenHeld { hold, until: said.expires_at });
                } else if said.status == "expired" {
                    self.say(when, seats, Act::SeenOver { hold });
                } else {
                    self.say(when, seats, Act::GiveBack { hold });
                }
            }
            (What::Confirm { seats, .. }, Answer::Booking(said)) => {
                let (hold, booking) = (self.names.of(&said.hold), self.names.of(&said.booking));
                self.say(when, &said.seats, Act::Sell { hold, booking });
                let without: Vec<u32> =
                    seats.iter().filter(|seat| !said.seats.contains(seat)).copied().collect();
                self.say(when, &without, Act::SeenGone { hold });
            }
            (What::Cancel { .. }, Answer::Booking(BookingSaid { booking, seats, .. })) => {
                let booking = self.names.of(booking);
                self.say(when, seats, Act::Cancel { booking });
            }
            _ => {}
        }
    }

    fn seen(&mut self, intent: &Intent, when: When, attempt: &Attempt) {
        match (&intent.what, attempt.answer()) {
            (What::GetHold { seats, .. }, Some(Answer::Hold(said))) => {
                let hold = self.names.of(&said.hold);
                match said.status.as_str() {
                    "active" => {
                        self.say(when, &said.seats, Act::SeenHeld { hold, until: said.expires_at });
                    }
                    "expired" => self.say(when, seats, Act::SeenOver { hold }),
                    _ => self.say(when, seats, Act::SeenGone { hold }),
                }
            }
            (What::GetBooking { .. }, Some(Answer::Booking(said))) => {
                let booking = self.names.of(&said.booking);
                let act = match said.status.as_str() {
                    "confirmed" => Act::SeenSold { booking },
                    _ => Act::SeenNotSold { booking },
                };
                self.say(when, &said.seats, act);
            }
            _ => {}
        }
    }

    fn refused(&mut self, intent: &Intent, when: When, attempt: &Attempt) {
        let Some(Answer::Refusal { code, conflicts }) = attempt.answer() else { return };
        let user = intent.user;
        match &intent.what {
            // Without a key the answer may come from memory, which may be late.
            What::Hold { seats, .. } if intent.key.is_some() => {
                let (taken, free): (Vec<u32>, Vec<u32>) =
                    seats.iter().partition(|seat| conflicts.contains(seat));
                match code.as_str() {
                    "seats_taken" => {
                        self.say(when, &taken, Act::SeenTaken { user });
                        self.say(when, &free, Act::SeenToBeHad { user });
                    }
                    "area_full" => self.say(when, seats, Act::SeenToBeHad { user }),
                    _ => {}
                }
            }
            What::Checkout { hold, seats }
            | What::Heartbeat { hold, seats }
            | What::Release { hold, seats, .. }
            | What::Confirm { hold, seats } => {
                let hold = self.names.of(hold);
                match code.as_str() {
                    "hold_expired" => self.say(when, seats, Act::SeenOver { hold }),
                    "hold_released" | "hold_confirmed" | "already_cancelled" => {
                        self.say(when, seats, Act::SeenGone { hold });
                    }
                    "extension_exhausted" => self.say(when, seats, Act::SeenLive { hold }),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// An attempt that may have happened. What gives back is known without its answer, and may have happened or not; of
    /// the others the journal knows.
    fn unknown(&mut self, intent: &Intent, attempt: &Attempt, effects: &HashMap<&str, Vec<&Entry>>) {
        let when = |fate| When { tag: intent.id, invoked: attempt.invoked, fate };
        match &intent.what {
            What::Release { hold, seats, only } => {
                let hold = self.names.of(hold);
                let seats = if only.is_empty() { seats } else { only };
                self.say(when(Fate::Unknown), seats, Act::GiveBack { hold });
            }
            What::Cancel { booking, seats } => {
                let booking = self.names.of(booking);
                self.say(when(Fate::Unknown), seats, Act::Cancel { booking });
            }
            _ => {
                for entry in effects.get(attempt.request_id.as_str()).into_iter().flatten() {
                    self.happened(intent, when(Fate::Happened), entry);
                }
            }
        }
    }

    /// What the journal says that an attempt did of which nobody heard.
    fn happened(&mut self, intent: &Intent, when: When, entry: &Entry) {
        let (seats, hold) = (entry.seats(), self.names.of(&entry.hold()));
        let act = match entry.kind.as_str() {
            "SEAT-HOLD-CREATED" => Act::Take { hold, user: intent.user, until: entry.time("expires_at") },
            "SEAT-HOLD-EXTENDED" => Act::Extend { hold, until: entry.time("expires_at") },
            "BOOKING-CONFIRMED" => Act::Sell { hold, booking: self.names.of(&entry.booking()) },
            _ => return,
        };
        self.say(when, &seats, act);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::wgl::{Verdict, check};
    use super::*;

    const SECOND: Time = 1_000_000;

    /// One intention with its attempts: when each was made and answered, in seconds, and with what.
    type Told = (u32, What, bool, Vec<(Time, Time, Said)>);

    fn history(told: Vec<Told>) -> History {
        let mut history = History::default();
        for (id, (user, what, keyed, attempts)) in (0..).zip(told) {
            history.intents.push(Intent { id, user, what, key: keyed.then(|| format!("key-{id}")) });
            for (i, (invoked, completed, said)) in attempts.into_iter().enumerate() {
                history.attempts.push(Attempt {
                    intent: id,
                    request_id: format!("{id}-{i}"),
                    node: 0,
                    invoked: invoked * SECOND,
                    completed: completed * SECOND,
                    took_millis: 0,
                    patience_millis: 0,
                    said,
                });
            }
        }
        history
    }

    fn verdict(told: Vec<Told>, journal: &[Entry]) -> bool {
        let translation = translate(&history(told), journal, 1);
        check(&translation.seats[0], 1_000) == Verdict::Linearizable
    }

    fn want(cart: &str) -> What {
        What::Hold { cart: cart.into(), seats: vec![0], areas: 0 }
    }

    fn held(hold: &str, until: Time) -> Said {
        let said = HoldSaid {
            hold: hold.into(),
            status: "active".into(),
            cart: String::new(),
            seats: vec![0],
            areas: 0,
            created_at: 0,
            expires_at: until * SECOND,
            booking: None,
            elsewhere: Vec::new(),
        };
        Said::Answered { status: 201, answer: Answer::Hold(said), text: None }
    }

    fn taken() -> Said {
        let answer = Answer::Refusal { code: "seats_taken".into(), conflicts: vec![0] };
        Said::Answered { status: 409, answer, text: None }
    }

    fn lost() -> Said {
        Said::Lost("no answer".into())
    }

    fn one(user: u32, from: Time, to: Time, said: Said) -> Told {
        (user, want(""), true, vec![(from, to, said)])
    }

    #[test]
    fn two_grants_of_one_seat_have_no_order() {
        assert!(verdict(vec![one(1, 0, 1, held("a", 10)), one(2, 9, 11, held("b", 20))], &[]));
        assert!(!verdict(vec![one(1, 0, 1, held("a", 10)), one(2, 2, 3, held("b", 20))], &[]));
    }

    #[test]
    fn the_attempts_of_a_key_are_one_operation() {
        let first = (1, want(""), true, vec![(0, 2, lost()), (4, 5, held("a", 50))]);
        // It may have happened before the second attempt was made.
        assert!(verdict(vec![first, one(2, 2, 3, taken())], &[]));
        assert!(!verdict(vec![one(1, 4, 5, held("a", 50)), one(2, 2, 3, taken())], &[]));
    }

    #[test]
    fn a_lost_grant_happened_when_the_journal_says_so() {
        let told = || vec![one(1, 0, 1, lost()), one(2, 2, 3, taken())];
        assert!(!verdict(told(), &[]));
        let data = json!({"id": "a", "seats": [{"ordinal": 0}], "expires_at": 50_000});
        let entry = Entry { sequence: 1, kind: "SEAT-HOLD-CREATED".into(), request_id: "0-0".into(), data };
        assert!(verdict(told(), &[entry]));
    }

    #[test]
    fn a_lost_release_may_have_happened() {
        let release = What::Release { hold: "a".into(), seats: vec![0], only: Vec::new() };
        let told = |second: Told| vec![one(1, 0, 1, held("a", 50)), second, one(2, 5, 6, held("b", 50))];
        assert!(verdict(told((1, release.clone(), false, vec![(2, 3, lost())])), &[]));
        assert!(!verdict(told((1, release, false, vec![(7, 8, lost())])), &[]));
    }

    #[test]
    fn a_refusal_from_memory_says_nothing() {
        let unkeyed = (2, want(""), false, vec![(2, 3, taken())]);
        assert!(verdict(vec![unkeyed], &[]));
        assert!(!verdict(vec![one(2, 2, 3, taken())], &[]));
    }
}
