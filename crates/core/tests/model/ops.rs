//! What can happen in the random run, as values that proptest can make and make smaller.

use proptest::collection::vec;
use proptest::prelude::*;

pub const SEATS: u8 = 7;
/// Seats of the first row; the others are in a second one.
pub const FIRST_ROW: u8 = 4;
pub const AREAS: u8 = 2;
pub const USERS: u8 = 3;
pub const CARTS: u8 = 2;
/// Event 0 is org 0's, event 1 is org 1's.
pub const EVENTS: u8 = 2;

#[derive(Clone, Debug)]
pub struct Step {
    pub wait: Wait,
    /// Whether it rides in the batch of the step before, where batches are played.
    pub joins: bool,
    /// Whether it comes from the other org.
    pub stranger: bool,
    pub action: Action,
}

#[derive(Clone, Copy, Debug)]
pub enum Wait {
    Millis(i64),
    /// Until so many milliseconds after a hold's expiry, which may be before it.
    Around(u8, i64),
}

#[derive(Clone, Debug)]
pub struct Want {
    pub event: u8,
    pub user: u8,
    pub cart: u8,
    /// One past the last seat is a seat that does not exist.
    pub seats: Vec<u8>,
    pub areas: Vec<(u8, u32)>,
    /// So many seats of the block, whichever. `false`: of a block that does not exist.
    pub any: Option<(bool, u32)>,
}

/// Which of the holds or bookings so far, counted back from the youngest.
pub type Back = u8;

#[derive(Clone, Debug)]
pub enum Action {
    Hold(Want),
    Book(Want),
    Checkout(Back, Who),
    Heartbeat(Back, Who),
    Release(Back, Who, Vec<u8>),
    Confirm(Back, Who),
    /// `None`: the org cancels.
    Cancel(Back, Option<Who>),
    Expire(Back),
    Block(u8, Vec<u8>),
    Unblock(u8, Vec<u8>),
    /// The last request that succeeded once more; `true`: with another body under the same key.
    Again(bool),
}

#[derive(Clone, Copy, Debug)]
pub enum Who {
    Owner,
    SomebodyElse,
}

/// Up to so many steps. Lengths differ so that a failing case can lose steps.
pub fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..=most)
}

fn step() -> impl Strategy<Value = Step> {
    (wait(), any::<bool>(), prop::bool::weighted(0.03), action())
        .prop_map(|(wait, joins, stranger, action)| Step { wait, joins, stranger, action })
}

fn wait() -> impl Strategy<Value = Wait> {
    prop_oneof![
        20 => Just(Wait::Millis(0)),
        12 => (0..6_000i64).prop_map(Wait::Millis),
        1 => (0..80_000i64).prop_map(Wait::Millis),
        2 => (0..4u8, -1..=1i64).prop_map(|(back, after)| Wait::Around(back, after)),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let back = || 0..5u8;
    prop_oneof![
        12 => want().prop_map(Action::Hold),
        2 => want().prop_map(Action::Book),
        2 => (back(), who()).prop_map(|(hold, who)| Action::Checkout(hold, who)),
        4 => (back(), who()).prop_map(|(hold, who)| Action::Heartbeat(hold, who)),
        4 => (back(), who(), vec(seat(), 0..3)).prop_map(|(hold, who, seats)| Action::Release(hold, who, seats)),
        4 => (back(), who()).prop_map(|(hold, who)| Action::Confirm(hold, who)),
        6 => (0..12u8, prop::option::weighted(0.6, who())).prop_map(|(sale, who)| Action::Cancel(sale, who)),
        2 => back().prop_map(Action::Expire),
        1 => (0..EVENTS, vec(seat(), 0..3)).prop_map(|(event, seats)| Action::Block(event, seats)),
        2 => (0..EVENTS, vec(seat(), 0..5)).prop_map(|(event, seats)| Action::Unblock(event, seats)),
        1 => any::<bool>().prop_map(Action::Again),
    ]
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![12 => Just(Who::Owner), 1 => Just(Who::SomebodyElse)]
}

fn seat() -> impl Strategy<Value = u8> {
    prop_oneof![40 => 0..SEATS, 1 => Just(SEATS)]
}

fn want() -> impl Strategy<Value = Want> {
    let area = prop_oneof![40 => 0..AREAS, 1 => Just(AREAS)];
    let quantity = prop_oneof![40 => 1..5u32, 1 => Just(0), 1 => Just(1_001)];
    let wanted = (vec(seat(), 0..4), vec((area, quantity), 0..3));
    let many = prop_oneof![40 => 1..4u32, 1 => Just(0), 1 => Just(501)];
    let any = prop::option::weighted(0.3, (prop::bool::weighted(0.97), many));
    (0..EVENTS, 0..USERS, 0..CARTS, wanted, any, prop::bool::weighted(0.95)).prop_map(
        |(event, user, cart, (mut seats, mut areas), any, tidy)| {
            // Lists that name something twice or nothing at all are soon seen through: not too many of them.
            if tidy {
                seats.sort_unstable();
                seats.dedup();
                areas.sort_unstable();
                areas.dedup_by_key(|(area, _)| *area);
                if seats.is_empty() && areas.is_empty() && any.is_none() {
                    seats.push(user);
                }
            }
            Want { event, user, cart, seats, areas, any }
        },
    )
}
