//! Random commands, many of them at once: what is in memory afterwards is what is stored.

use crate::support::House;
use crate::support::compare::assert_is_as_stored;
use futures::future::join_all;
use proptest::collection::vec;
use proptest::prelude::*;
use rowlock_core::command::Places;
use rowlock_core::{BookingId, CartToken, Command, HoldId, Outcome, Request};
use rowlock_registry::{Failure, Reply};
use rowlock_truth::conformance::stage::{Setup, keyed, name, section};

const SEATS: u32 = 30;

/// What somebody does. Numbers choose among what there is by then.
#[derive(Clone, Debug)]
enum Step {
    Hold { buyer: u8, cart: u8, seats: Vec<u32>, area: u32, key: Option<u8> },
    Book { buyer: u8, seats: Vec<u32> },
    Release { hold: usize, buyer: Option<u8>, seats: Vec<u32> },
    Confirm { hold: usize },
    Checkout { hold: usize },
    Heartbeat { hold: usize },
    Cancel { booking: usize },
    Block { seats: Vec<u32> },
    Unblock { seats: Vec<u32> },
    MoreSeats { rows: usize },
    MoreAreas { number: u8 },
    Expire { hold: usize },
}

fn seats(most: usize) -> impl Strategy<Value = Vec<u32>> {
    // A few more than there are at first, so that some are unknown or come later.
    vec(0..SEATS + 8, 1..=most)
}

fn step() -> impl Strategy<Value = Step> {
    let key = proptest::option::weighted(0.2, 0..4_u8);
    prop_oneof![
        10 => (0..5_u8, 0..2_u8, seats(4), 0..4_u32, key).prop_map(|(buyer, cart, seats, area, key)| {
            Step::Hold { buyer, cart, seats, area, key }
        }),
        2 => (0..5_u8, seats(3)).prop_map(|(buyer, seats)| Step::Book { buyer, seats }),
        4 => (0..50_usize, proptest::option::weighted(0.1, 0..5_u8), vec(0..SEATS, 0..3))
            .prop_map(|(hold, buyer, seats)| Step::Release { hold, buyer, seats }),
        4 => (0..50_usize).prop_map(|hold| Step::Confirm { hold }),
        2 => (0..50_usize).prop_map(|hold| Step::Checkout { hold }),
        2 => (0..50_usize).prop_map(|hold| Step::Heartbeat { hold }),
        3 => (0..50_usize).prop_map(|booking| Step::Cancel { booking }),
        1 => seats(3).prop_map(|seats| Step::Block { seats }),
        1 => seats(3).prop_map(|seats| Step::Unblock { seats }),
        1 => (1..3_usize).prop_map(|rows| Step::MoreSeats { rows }),
        1 => (0..3_u8).prop_map(|number| Step::MoreAreas { number }),
        1 => (0..50_usize).prop_map(|hold| Step::Expire { hold }),
    ]
}

/// The holds and bookings made so far, with their owners.
#[derive(Default)]
struct Made {
    holds: Vec<(HoldId, String)>,
    bookings: Vec<BookingId>,
}

impl Made {
    fn hold(&self, number: usize) -> Option<&(HoldId, String)> {
        self.holds.get(number % self.holds.len().max(1))
    }

    fn keep(&mut self, answer: &Result<Reply, Failure>) {
        match answer.as_ref().map(|reply| &reply.outcome) {
            Ok(Outcome::Hold(made)) => {
                let made = (made.hold.id, made.hold.user.to_string());
                if !self.holds.contains(&made) {
                    self.holds.push(made);
                }
            }
            Ok(Outcome::Booking(made)) => self.bookings.push(made.booking.id),
            Ok(_) | Err(Failure::Refused(_)) => {}
            Err(other) => panic!("neither done nor refused: {other}"),
        }
    }
}

fn request(house: &House, made: &Made, step: &Step) -> Option<Request> {
    let stage = &house.stage;
    let buyer = |number: &u8| format!("buyer-{number}");
    let on_hold = |number: usize| made.hold(number).map(|(hold, who)| (*hold, who.as_str()));
    Some(match step {
        Step::Hold { buyer: who, cart, seats, area, key } => {
            let areas = if *area == 0 { vec![] } else { vec![(stage.areas[0], *area)] };
            let cart = CartToken::new(&format!("cart-{cart}")).expect("a cart");
            let places = Places { cart, ..stage.places(&buyer(who), seats, &areas) };
            let request = stage.request(Command::Hold(places));
            match key {
                Some(key) => keyed(request, &format!("key-{key}"), *key),
                None => request,
            }
        }
        Step::Book { buyer: who, seats } => stage.request(Command::Book {
            places: stage.places(&buyer(who), seats, &[]),
            payment_reference: None,
        }),
        Step::Release { hold, buyer: other, seats } => {
            let (hold, owner) = on_hold(*hold)?;
            let who = other.as_ref().map_or(owner.to_owned(), buyer);
            stage.release(&who, hold, seats)
        }
        Step::Confirm { hold } => on_hold(*hold).map(|(hold, who)| stage.confirm(who, hold))?,
        Step::Checkout { hold } => on_hold(*hold).map(|(hold, who)| stage.checkout(who, hold))?,
        Step::Heartbeat { hold } => on_hold(*hold).map(|(hold, who)| stage.heartbeat(who, hold))?,
        Step::Expire { hold } => on_hold(*hold).map(|(hold, _)| stage.expire(hold))?,
        Step::Cancel { booking } => stage.cancel(*made.bookings.get(booking % made.bookings.len().max(1))?),
        Step::Block { seats } => {
            stage.request(Command::BlockSeats { event: stage.event, seats: stage.seats(seats) })
        }
        Step::Unblock { seats } => {
            stage.request(Command::UnblockSeats { event: stage.event, seats: stage.seats(seats) })
        }
        Step::MoreSeats { rows } => {
            let sections = vec![section("more", 0..*rows, 3), section("left", 50..50 + rows, 1)];
            stage.request(Command::CreateSeats { event: stage.event, sections })
        }
        Step::MoreAreas { number } => stage.request(Command::CreateArea {
            event: stage.event,
            name: name(&format!("more {number}")),
            tier: name("floor"),
            capacity: 5,
        }),
    })
}

async fn play(rounds: Vec<Vec<Step>>) {
    let house = House::new(Setup { rows: SEATS as usize / 10, ..Setup::default() }).await;
    let live = house.live().await;
    let mut made = Made::default();
    for steps in rounds {
        // The steps of a round are sent together, so that they meet in one batch.
        let requests: Vec<Request> = steps.iter().filter_map(|step| request(&house, &made, step)).collect();
        let answers = join_all(requests.into_iter().map(|request| house.engine.execute(request))).await;
        for answer in &answers {
            made.keep(answer);
        }
        assert_is_as_stored(&live, &*house.truth).await;
    }
    // The one that followed the facts all along, and one loaded now.
    let house = house.restart(crate::support::no_sweep()).await;
    let fresh = house.live().await;
    assert_eq!(fresh.read().statuses(), live.read().statuses());
    assert_eq!(fresh.read().availability(), live.read().availability());
    house.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn memory_follows_the_facts(rounds in vec(vec(step(), 1..8), 5..25)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        runtime.block_on(play(rounds));
    }
}
