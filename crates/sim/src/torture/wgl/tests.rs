//! Histories that are known to be right or wrong, and small random ones compared with trying everything.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::torture::seat::SLACK;

const LIMIT: usize = 1_000_000;
/// One tick of the histories below.
const TICK: Time = 100_000;

fn told(tag: u32, from: Time, to: Time, act: Act) -> Operation {
    Operation { tag, invoked: from * TICK, fate: Fate::Answered(to * TICK), act }
}

fn lost(tag: u32, from: Time, act: Act) -> Operation {
    Operation { tag, invoked: from * TICK, fate: Fate::Unknown, act }
}

fn take(hold: u32, until: Time) -> Act {
    Act::Take { hold, user: hold, until: until * TICK }
}

fn sell(hold: u32) -> Act {
    Act::Sell { hold, booking: hold }
}

fn is_good(history: &[Operation]) -> bool {
    match check(history, LIMIT) {
        Verdict::Linearizable => true,
        Verdict::Impossible { .. } => false,
        Verdict::Undecided => panic!("{history:?} is too much"),
    }
}

#[test]
fn right_histories() {
    // Held, sold, cancelled, and held again by somebody else.
    assert!(is_good(&[
        told(1, 0, 1, take(1, 50)),
        told(2, 2, 3, Act::SeenTaken { user: 2 }),
        told(3, 4, 5, sell(1)),
        told(4, 6, 7, Act::SeenTaken { user: 2 }),
        told(5, 8, 9, Act::Cancel { booking: 1 }),
        told(6, 10, 11, take(2, 60)),
    ]));
    // Two at once: one wins, the other is refused, although it was answered first.
    assert!(is_good(&[told(1, 0, 9, take(1, 50)), told(2, 1, 2, Act::SeenTaken { user: 2 })]));
    // A hold ends by itself and the seat goes to the next one, in the middle of that request.
    assert!(is_good(&[told(1, 0, 1, take(1, 10)), told(2, 8, 11, take(2, 30))]));
    // Extended in time.
    assert!(is_good(&[
        told(1, 0, 1, take(1, 10)),
        told(2, 5, 6, Act::Extend { hold: 1, until: 20 * TICK }),
        told(3, 15, 16, sell(1)),
    ]));
    // A request that was never answered took the seat, which explains the refusal.
    assert!(is_good(&[lost(1, 0, take(1, 50)), told(2, 5, 6, Act::SeenTaken { user: 2 })]));
    // It did not, which explains the success.
    assert!(is_good(&[lost(1, 0, take(1, 50)), told(2, 5, 6, take(2, 60)), told(3, 7, 8, sell(2))]));
    // It did so much later.
    assert!(is_good(&[
        lost(1, 0, take(1, 99)),
        told(2, 5, 6, take(2, 60)),
        told(3, 7, 8, Act::GiveBack { hold: 2 }),
        told(4, 9, 10, Act::SeenTaken { user: 2 }),
    ]));
}

#[test]
fn wrong_histories() {
    // Two owners at once.
    assert!(!is_good(&[told(1, 0, 1, take(1, 50)), told(2, 2, 3, take(2, 50))]));
    assert!(!is_good(&[told(1, 0, 5, take(1, 50)), told(2, 0, 5, take(2, 50))]));
    // Sold twice.
    assert!(!is_good(&[
        told(1, 0, 1, take(1, 10)),
        told(2, 2, 3, sell(1)),
        told(3, 20, 21, take(2, 40)),
        told(4, 22, 23, sell(2)),
    ]));
    // Taken before the end of the hold.
    assert!(!is_good(&[told(1, 0, 1, take(1, 10)), told(2, 7, 9, take(2, 30))]));
    // Sold after the end of the hold.
    assert!(!is_good(&[told(1, 0, 1, take(1, 10)), told(2, 11, 12, sell(1))]));
    // Refused although nobody had it.
    assert!(!is_good(&[told(1, 5, 6, Act::SeenTaken { user: 2 })]));
    assert!(!is_good(&[told(1, 0, 1, take(1, 10)), told(2, 11, 12, Act::SeenTaken { user: 2 })]));
    // An acknowledged hold is gone.
    assert!(!is_good(&[told(1, 0, 1, take(1, 50)), told(2, 2, 3, Act::SeenOver { hold: 1 })]));
    // An acknowledged booking is gone.
    assert!(!is_good(&[
        told(1, 0, 1, take(1, 50)),
        told(2, 2, 3, sell(1)),
        told(3, 4, 5, Act::SeenNotSold { booking: 1 }),
    ]));
    // An acknowledged cancellation came back.
    assert!(!is_good(&[
        told(1, 0, 1, take(1, 50)),
        told(2, 2, 3, sell(1)),
        told(3, 4, 5, Act::Cancel { booking: 1 }),
        told(4, 6, 7, Act::SeenSold { booking: 1 }),
    ]));
    // A lost request can't have happened before it was sent.
    assert!(!is_good(&[told(1, 0, 1, Act::SeenTaken { user: 2 }), lost(2, 2, take(1, 50))]));
    // It happened, so the seat was not free for another one all along.
    let happened = Operation { fate: Fate::Happened, ..lost(1, 0, take(1, 50)) };
    assert!(!is_good(&[happened, told(2, 1, 2, take(2, 60)), told(3, 3, 4, Act::SeenSold { booking: 2 })]));
}

#[test]
fn what_could_not_follow_is_named() {
    let history = [told(7, 0, 1, take(1, 50)), told(8, 2, 3, take(2, 50))];
    let Verdict::Impossible { order, stuck, .. } = check(&history, LIMIT) else { panic!("it is wrong") };
    assert_eq!((order, stuck), (vec![7], vec![8]));
}

#[test]
fn a_search_that_is_too_long_says_so() {
    let history: Vec<Operation> = (0..20).map(|i| told(i, 0, 99, take(i, 100))).collect();
    assert_eq!(check(&history, 5), Verdict::Undecided);
}

/// Long histories of real length are decided quickly.
#[test]
fn a_long_history_with_many_at_once() {
    let mut history = Vec::new();
    for round in 0..2_000_u32 {
        let at = Time::from(round) * 10;
        let (hold, end) = (round + 1, at + 30);
        history.push(told(round * 10, at, at + 3, take(hold, end)));
        for other in 1..6 {
            history.push(told(
                round * 10 + other,
                at + 3,
                at + 4 + Time::from(other),
                Act::SeenTaken { user: 0 },
            ));
        }
        history.push(lost(round * 10 + 7, at, take(1_000_000 + round, end)));
        history.push(told(round * 10 + 8, at + 5, at + 9, Act::GiveBack { hold }));
    }
    assert!(is_good(&history));
    // Somebody else had the seat in the middle of the thousandth hold. What was lost can't explain that.
    history.retain(|operation| operation.fate != Fate::Unknown);
    history.push(told(99_999, 10_003, 10_004, take(1_000_000, 10_005)));
    assert!(!is_good(&history));
}

/// Tries every order and every moment. Slow, and plainly right.
fn try_everything(operations: &[Operation]) -> bool {
    let mut moments: Vec<Time> = operations.iter().map(|operation| operation.invoked).collect();
    for operation in operations {
        if let Act::Take { until, .. } | Act::Extend { until, .. } = operation.act {
            moments.push(until - SLACK);
        }
    }
    moments.sort_unstable();
    moments.dedup();
    fn go(left: &[Operation], seat: Seat, moments: &[Time]) -> bool {
        if left.iter().all(|operation| operation.fate == Fate::Unknown) {
            return true;
        }
        (0..left.len()).any(|i| {
            let chosen = left[i];
            let mut rest = left.to_vec();
            rest.remove(i);
            (0..moments.len()).any(|m| {
                let at = moments[m];
                let in_time = match chosen.fate {
                    Fate::Answered(end) => chosen.invoked <= at && at <= end,
                    Fate::Happened | Fate::Unknown => chosen.invoked <= at,
                };
                in_time
                    && seat
                        .after(chosen.act, chosen.invoked, at)
                        .is_some_and(|seat| go(&rest, seat, &moments[m..]))
            })
        })
    }
    go(operations, Seat::FREE, &moments)
}

fn random_history(rng: &mut StdRng) -> Vec<Operation> {
    let count = rng.random_range(2..=6);
    let mut history = Vec::new();
    for tag in 0..count {
        let from = rng.random_range(0..12);
        let to = from + rng.random_range(1..6);
        let id = rng.random_range(1..=3);
        let until = rng.random_range(3..15);
        let act = match rng.random_range(0..14) {
            0..=3 => take(id, until),
            4 => Act::Extend { hold: id, until: (until + 4) * TICK },
            5 | 6 => sell(id),
            7 => Act::GiveBack { hold: id },
            8 => Act::Cancel { booking: id },
            9 => Act::SeenTaken { user: id },
            10 => Act::SeenToBeHad { user: id },
            11 => Act::SeenOver { hold: id },
            12 => Act::SeenLive { hold: id },
            _ => Act::SeenNotSold { booking: id },
        };
        let mut operation = told(tag, from, to, act);
        match rng.random_range(0..10) {
            0 => operation.fate = Fate::Unknown,
            1 => operation.fate = Fate::Happened,
            _ => {}
        }
        history.push(operation);
    }
    history
}

#[test]
fn small_histories_are_judged_as_by_trying_everything() {
    let mut rng = StdRng::seed_from_u64(4);
    let (mut good, mut bad) = (0, 0);
    for round in 0..4_000 {
        let history = random_history(&mut rng);
        let expected = try_everything(&history);
        assert_eq!(is_good(&history), expected, "round {round}: {history:#?}");
        if expected { good += 1 } else { bad += 1 }
    }
    assert!(good > 300 && bad > 300, "{good} right and {bad} wrong ones are too few");
}
