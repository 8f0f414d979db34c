//! The kernel against the small model of the same rules, with steps that the fuzzer chooses.

#[path = "../../core/tests/model/compare.rs"]
mod compare;
#[path = "../../core/tests/model/ops.rs"]
#[allow(dead_code)]
mod ops;
#[path = "../../core/tests/model/play.rs"]
#[allow(dead_code)]
mod play;
#[path = "../../core/tests/model/rules.rs"]
mod rules;

use crate::feed::Feed;
use crate::support::Fault;
use ops::{AREAS, Action, CARTS, EVENTS, SEATS, Step, USERS, Wait, Want, Who};
use play::Play;

/// Enough to fill the house and sell it out, and short enough to be quick.
const MOST_STEPS: usize = 200;

pub fn run(data: &[u8]) {
    if let Err(why) = compare_on(data, Fault::None) {
        panic!("{why}");
    }
}

/// The faults that a store can have on purpose, for the control that shows that differences are found.
pub const FAULTS: [&str; 5] =
    ["StaleSeatsUnchecked", "DueIsLive", "DropsExpiry", "ForgetsUsage", "ForgetsRecords"];

/// Whether an input shows the fault.
pub fn differs(data: &[u8], fault: &str) -> bool {
    let faults = [
        Fault::StaleSeatsUnchecked,
        Fault::DueIsLive,
        Fault::DropsExpiry,
        Fault::ForgetsUsage,
        Fault::ForgetsRecords,
    ];
    let fault = faults.into_iter().find(|known| format!("{known:?}") == fault).expect("a fault");
    compare_on(data, fault).is_err()
}

fn compare_on(data: &[u8], fault: Fault) -> Result<(), String> {
    let mut feed = Feed::new(data);
    let in_batches = feed.once_in(2);
    let mut steps = Vec::new();
    while !feed.is_empty() && steps.len() < MOST_STEPS {
        steps.push(step(&mut feed));
    }
    let mut play = Play::new(fault);
    play.all(&steps, in_batches)
}

fn step(feed: &mut Feed<'_>) -> Step {
    let how = feed.byte();
    let wait = match how & 3 {
        0 | 1 => Wait::Millis(0),
        2 => Wait::Millis(i64::from(feed.byte()) * 300),
        _ => Wait::Around(feed.below(4), i64::from(feed.below(3)) - 1),
    };
    Step { wait, joins: how & 4 != 0, stranger: how >> 3 == 31, action: action(feed) }
}

fn action(feed: &mut Feed<'_>) -> Action {
    match feed.below(11) {
        0 | 1 => Action::Hold(want(feed)),
        2 => Action::Book(want(feed)),
        3 => Action::Checkout(feed.below(5), who(feed)),
        4 => Action::Heartbeat(feed.below(5), who(feed)),
        5 => Action::Release(feed.below(5), who(feed), seats(feed)),
        6 => Action::Confirm(feed.below(5), who(feed)),
        7 => Action::Cancel(feed.below(12), (!feed.once_in(3)).then(|| who(feed))),
        8 => Action::Expire(feed.below(5)),
        9 if feed.once_in(2) => Action::Block(feed.below(EVENTS), seats(feed)),
        9 => Action::Unblock(feed.below(EVENTS), seats(feed)),
        _ => Action::Again(feed.once_in(2)),
    }
}

fn who(feed: &mut Feed<'_>) -> Who {
    if feed.once_in(12) { Who::SomebodyElse } else { Who::Owner }
}

/// Up to four. One past the last is a seat that does not exist.
fn seats(feed: &mut Feed<'_>) -> Vec<u8> {
    (0..feed.below(5)).map(|_| feed.below(SEATS + 1)).collect()
}

fn want(feed: &mut Feed<'_>) -> Want {
    let quantity = |feed: &mut Feed<'_>| match feed.below(32) {
        31 => 1_001,
        n => u32::from(n % 6),
    };
    let (event, user, cart) = (feed.below(EVENTS), feed.below(USERS), feed.below(CARTS));
    let seats = seats(feed);
    let areas = (0..feed.below(3)).map(|_| (feed.below(AREAS + 1), quantity(feed))).collect();
    let any = feed.once_in(3).then(|| (!feed.once_in(16), quantity(feed)));
    Want { event, user, cart, seats, areas, any }
}
