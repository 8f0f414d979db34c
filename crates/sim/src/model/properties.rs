//! The promises, and what must be reachable for them to mean something.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use stateright::Property;

use super::protocol::Protocol;
use super::state::{Claim, Phase, Seat, Stage, State, Status, Verb, Wrongs, has};

pub const ONE_OWNER: &str = "S: a seat has one owner at most";
pub const ONE_TOLD: &str = "S: nobody is told of a seat that somebody else was told of";
pub const OWNER_ALONE: &str = "S: only its owner changes a hold";
pub const TOLD_IS_STORED: &str = "D: what was acknowledged is stored";
pub const ONE_EFFECT: &str = "X: one effect per key";
pub const ENDS_ONCE: &str = "E: a hold ends once";
pub const TIME_COUNTS: &str = "E: a hold is a hold until its time is over, and then no more";
pub const ALL_END: &str = "E: when all is quiet, every hold has ended";
pub const CAN_BE_HAD: &str = "E: when all is quiet, a free seat can be had through every node";
pub const COMES_TO_AN_END: &str = "E: in the end every hold has ended";
pub const NO_GAP: &str = "O: no reader sees a number while one before it is missing";
pub const NOT_MISLED: &str = "O: a node knows the state of some moment, and the journal from there";

/// All of them.
pub const PROMISES: [&str; 12] = [
    ONE_OWNER,
    ONE_TOLD,
    OWNER_ALONE,
    TOLD_IS_STORED,
    ONE_EFFECT,
    ENDS_ONCE,
    TIME_COUNTS,
    ALL_END,
    CAN_BE_HAD,
    COMES_TO_AN_END,
    NO_GAP,
    NOT_MISLED,
];

/// What must happen at least once. The checker would note every state in which it does; the first is enough, and asking
/// costs nothing afterwards.
macro_rules! sometimes {
    ($bit:literal, $name:literal, $condition:expr) => {
        Property::sometimes($name, |protocol: &Protocol, state: &State| {
            let condition: fn(&Protocol, &State) -> bool = $condition;
            protocol.seen.first_time($bit, || condition(protocol, state))
        })
    };
}

/// Which of the things that must happen have happened, in one exploration.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<AtomicU32>);

impl Seen {
    fn first_time(&self, bit: u32, happens: impl FnOnce() -> bool) -> bool {
        let has_been = self.0.load(Ordering::Relaxed) >> bit & 1 == 1;
        !has_been && happens() && self.0.fetch_or(1 << bit, Ordering::Relaxed) >> bit & 1 == 0
    }
}

pub fn all(protocol: &Protocol) -> Vec<Property<Protocol>> {
    let mut all = vec![
        Property::always(ONE_OWNER, one_owner),
        Property::always(ONE_TOLD, one_told),
        Property::always(OWNER_ALONE, |_: &Protocol, state: &State| !state.wrongs.has(Wrongs::BY_STRANGER)),
        Property::always(TOLD_IS_STORED, told_is_stored),
        Property::always(ONE_EFFECT, |_: &Protocol, state: &State| !state.wrongs.has(Wrongs::KEY_TWICE)),
        Property::always(ENDS_ONCE, |_: &Protocol, state: &State| !state.wrongs.has(Wrongs::ENDED_TWICE)),
        Property::always(TIME_COUNTS, |_: &Protocol, state: &State| {
            !state.wrongs.has(Wrongs::PAST_ITS_TIME | Wrongs::BEFORE_ITS_TIME)
        }),
        Property::always(ALL_END, |protocol: &Protocol, state: &State| {
            all_ended(state) || !protocol.is_at_rest(state)
        }),
        Property::always(CAN_BE_HAD, |protocol: &Protocol, state: &State| {
            can_be_had(protocol, state) || !protocol.is_at_rest(state)
        }),
        Property::always(NO_GAP, |_: &Protocol, state: &State| !state.wrongs.has(Wrongs::HOLE)),
        Property::always(NOT_MISLED, not_misled),
        // True only where nothing can follow, so that it does not matter on which of several ways a state was reached.
        Property::eventually(COMES_TO_AN_END, |protocol: &Protocol, state: &State| {
            all_ended(state) && protocol.is_over(state)
        }),
        sometimes!(0, "a client is told that it holds", |_, state| told(state, Stage::Holds)),
        sometimes!(1, "a client is told that it has bought", |_, state| told(state, Stage::Bought)),
        sometimes!(2, "a client is told that it has given back", |_, state| told(state, Stage::Released)),
        sometimes!(3, "a hold is extended", |_, state| state.holds.iter().any(|hold| hold.extended)),
        sometimes!(4, "a hold past its time waits for the reaper", |_, state| {
            state.holds.iter().any(|hold| hold.status == Status::Active && hold.left == 0)
        }),
        sometimes!(5, "a hold is reaped", |_, state| {
            state.holds.iter().any(|hold| hold.status == Status::Expired)
        }),
        sometimes!(6, "a hold past its time is taken over", |_, state| {
            state.requests().any(|(client, _, request)| request.ends & !(1 << client) != 0)
        }),
        sometimes!(8, "somebody can meet a claim of which the truth does not know", |protocol, state| {
            let meets = |client: usize, seat: usize| {
                let found = &state.clients[client];
                let asks = matches!(found.stage, Stage::Idle | Stage::Wants) && found.sends > 0;
                asks && has(protocol.size.wants(client), seat) && !protocol.size.has_key(client)
            };
            (0..protocol.size.seats)
                .filter(|seat| protocol.is_stale(state, *seat))
                .any(|seat| (0..protocol.size.clients).any(|client| meets(client, seat)))
        }),
        sometimes!(9, "a repeated key is answered from the record", |protocol, state| {
            (0..protocol.size.clients).filter(|client| protocol.size.has_key(*client)).any(|client| {
                let answers = state.clients[client].requests.iter().flatten();
                answers
                    .filter(|request| request.verb == Verb::Hold && request.phase == Phase::Committed)
                    .count()
                    == 2
            })
        }),
        sometimes!(10, "a hold is stored and nobody will be told", |_, state| {
            state.holds.iter().zip(&state.clients).any(|(hold, client)| {
                let silent = client.requests.iter().all(Option::is_none);
                hold.is_live() && client.stage == Stage::Wants && silent
            })
        }),
        sometimes!(11, "a sale is stored and nobody was told", |_, state| {
            state.holds.iter().zip(&state.clients).any(|(hold, client)| {
                let silent = client.requests.iter().all(Option::is_none);
                hold.status == Status::Sold && client.stage == Stage::Confirms && silent
            })
        }),
        sometimes!(12, "a live hold has no claim", |_, state| {
            state.seats.iter().zip(&state.claims).any(|(seat, claim)| {
                matches!(seat, Seat::Held(client) if state.holds[usize::from(*client)].is_live())
                    && *claim == Claim::None
            })
        }),
        sometimes!(13, "a commit waits although its hold is over by now", |_, state| {
            state.requests().any(|(_, _, request)| {
                let row = &state.holds[usize::from(request.target)];
                request.phase == Phase::Loaded && request.verb == Verb::Confirm && row.left == 0
            })
        }),
        sometimes!(14, "two facts are not announced yet", |_, state| state.journal.len >= 2),
        sometimes!(15, "a belief is kept", |protocol, state| sent(protocol, state, Phase::Sent, true)),
        sometimes!(16, "a belief is wrong", |protocol, state| sent(protocol, state, Phase::Sent, false)),
        sometimes!(17, "two that were sent are under way", |_, state| {
            state.requests().filter(|(_, _, request)| request.phase == Phase::Sent).count() == 2
        }),
        sometimes!(18, "what a node had sent arrives after its crash", |protocol, state| {
            sent(protocol, state, Phase::Adrift, true)
        }),
        sometimes!(19, "what a node had sent arrives after its crash, too late", |protocol, state| {
            sent(protocol, state, Phase::Adrift, false)
        }),
    ];
    // The first client wants all the seats, so it takes two others.
    if protocol.size.clients == 3 && protocol.size.seats == 2 {
        all.push(sometimes!(7, "all is sold, to two clients", |_, state| {
            matches!(state.seats, [Seat::Sold(first), Seat::Sold(second)] if first != second)
        }));
    }
    all
}

/// Whether something sent on belief could arrive now and be carried out, or undone.
fn sent(protocol: &Protocol, state: &State, phase: Phase, is_so: bool) -> bool {
    state.requests().any(|(client, _, request)| {
        request.phase == phase
            && protocol.can_arrive(state, client, request)
            && protocol.is_so(state, client, request) == is_so
    })
}

fn told(state: &State, stage: Stage) -> bool {
    state.clients.iter().any(|client| client.stage == stage)
}

/// By the rows: at most one hold that lives or was sold has the seat, and the seat's row says so.
fn one_owner(protocol: &Protocol, state: &State) -> bool {
    (0..protocol.size.seats).all(|seat| {
        let mut owners = (0..protocol.size.clients).filter(|client| protocol.owns(state, *client, seat));
        let Some(owner) = owners.next() else { return true };
        let row = match state.holds[owner].status {
            Status::Sold => Seat::Sold(owner as u8),
            _ => Seat::Held(owner as u8),
        };
        owners.next().is_none() && state.seats[seat] == row
    })
}

/// By what clients were told: no two of them think that they have the same seat now.
fn one_told(protocol: &Protocol, state: &State) -> bool {
    let mut all = 0;
    (0..protocol.size.clients).all(|client| {
        let believed = protocol.believes(state, client);
        let alone = all & believed == 0;
        all |= believed;
        alone
    })
}

fn told_is_stored(protocol: &Protocol, state: &State) -> bool {
    state.clients.iter().enumerate().all(|(at, client)| {
        let row = &state.holds[at];
        let same = row.nth == client.nth;
        match client.stage {
            Stage::Holds | Stage::Confirms if client.left > 0 => {
                let lives = row.status == Status::Active
                    && row.left >= client.left
                    && is_at(protocol, state, at, Seat::Held(at as u8));
                let sold = row.status == Status::Sold && is_at(protocol, state, at, Seat::Sold(at as u8));
                same && (lives || sold)
            }
            Stage::Bought => {
                same && row.status == Status::Sold && is_at(protocol, state, at, Seat::Sold(at as u8))
            }
            Stage::Released => row.nth > client.nth || row.status != Status::Active,
            _ => true,
        }
    })
}

/// Whether this is what the rows of all the client's seats say.
fn is_at(protocol: &Protocol, state: &State, client: usize, seat: Seat) -> bool {
    let wanted = protocol.size.wants(client);
    (0..protocol.size.seats).filter(|place| has(wanted, *place)).all(|place| state.seats[place] == seat)
}

fn all_ended(state: &State) -> bool {
    let no_hold = state.holds.iter().all(|hold| hold.status != Status::Active);
    no_hold && state.seats.iter().all(|seat| !matches!(seat, Seat::Held(_)))
}

/// No node and no claim would turn a buyer away from a free seat.
fn can_be_had(protocol: &Protocol, state: &State) -> bool {
    (0..protocol.size.seats).filter(|seat| state.seats[*seat] == Seat::Free).all(|seat| {
        let known = state.follower[seat] == Seat::Free;
        known && (state.claims[seat] == Claim::None || protocol.is_stale(state, seat))
    })
}

/// What a node knows, and the part of the journal that it does not know, make up what the truth has.
fn not_misled(protocol: &Protocol, state: &State) -> bool {
    let mut seats = state.follower;
    state.journal.entries().iter().for_each(|entry| protocol.apply(&mut seats, *entry));
    seats == state.seats
}
