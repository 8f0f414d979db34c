//! Arithmetic at its ends: the largest orders, prices and events, and times near both ends of time.

use rowlock_core::command::Places;
use rowlock_core::event::Tier;
use rowlock_core::hold::HoldStatus;
use rowlock_core::limits::{
    MAX_AREA_CAPACITY, MAX_AREA_QUANTITY, MAX_AREAS_PER_EVENT, MAX_BLOCKS_PER_EVENT, MAX_PLACES_PER_HOLD,
    MAX_POLICY_SECONDS, MAX_PRICE_MINOR, MAX_SEATS_PER_CREATE, MAX_SEATS_PER_EVENT, MAX_SEATS_PER_HOLD,
    MAX_SEATS_PER_USER,
};
use rowlock_core::policy::Policy;
use rowlock_core::seat::SeatState;
use rowlock_core::{AreaId, Command, EventId, OrgId, Outcome, Refusal, SeatId, Time};

use crate::support::World;
use crate::support::stage::{
    Stage, booking_in, cancel, checkout, confirm, expire, heartbeat, hold_in, name, new_area, new_event,
    new_org, release, section, tiers,
};

/// A house where everything costs as much as it can.
fn dearest_house(policy: Policy) -> (World, OrgId, EventId) {
    let mut world = World::new();
    let org = new_org(&mut world, "Dear house");
    let tiers = tiers().into_iter().map(|tier| Tier { price: MAX_PRICE_MINOR, ..tier }).collect();
    let currency = "JPY".parse().expect("a currency");
    let command = Command::CreateEvent { name: name("Gala"), currency, tiers, policy };
    let Outcome::Event(event) = world.ask(org, command).expect("an event").outcome else {
        panic!("an event")
    };
    let sections = vec![section("Stalls", "gold", "A", MAX_SEATS_PER_HOLD as u32 + 1)];
    world.ask(org, Command::CreateSeats { event: event.id, sections }).expect("seats");
    (world, org, event.id)
}

fn places(event: EventId, seats: std::ops::Range<u32>, areas: Vec<(AreaId, u32)>) -> Places {
    Places {
        event,
        user: crate::support::stage::user("ann"),
        cart: crate::support::stage::cart("cart"),
        source: Default::default(),
        seats: seats.map(|ordinal| SeatId::of(event, ordinal)).collect(),
        blocks: vec![],
        areas,
    }
}

#[test]
fn the_largest_order_at_the_highest_price_is_an_exact_number() {
    let (mut world, org, event) = dearest_house(Policy::default());
    let areas: Vec<(AreaId, u32)> = [MAX_AREA_QUANTITY, MAX_PLACES_PER_HOLD - MAX_AREA_QUANTITY - 500]
        .into_iter()
        .enumerate()
        .map(|(n, q)| (new_area(&mut world, org, event, &format!("Area {n}"), "gold", MAX_AREA_CAPACITY), q))
        .collect();
    let done = world.ask(org, Command::Hold(places(event, 0..500, areas.clone()))).expect("a hold");
    let hold = hold_in(&done).hold;
    let total = i64::from(MAX_PLACES_PER_HOLD) * MAX_PRICE_MINOR;
    assert_eq!((hold.places(), hold.total()), (MAX_PLACES_PER_HOLD, total));
    assert_eq!(total as f64 as i64, total);

    // Not one place more, of either kind.
    let (limit, current, requested) = (MAX_PLACES_PER_HOLD, MAX_PLACES_PER_HOLD, 1);
    let more = vec![(areas[1].0, areas[1].1 + 1)];
    for wanted in [places(event, 500..501, vec![]), places(event, 0..0, more)] {
        let refusal = world.ask(org, Command::Hold(wanted)).expect_err("too much");
        assert_eq!(refusal, Refusal::TooManySeats { limit, current, requested });
    }
    let booking = booking_in(&world.ask(org, confirm(hold.id, "ann")).expect("a booking")).booking;
    assert_eq!((booking.tickets.len(), booking.total()), (MAX_PLACES_PER_HOLD as usize, total));
    world.ask(org, cancel(booking.id, None)).expect("cancelled");
    assert!(world.rows.areas.values().all(|row| (row.value.held, row.value.sold) == (0, 0)));
}

#[test]
fn a_cart_collects_so_many_seats_and_no_more() {
    let (mut world, org, event) = dearest_house(Policy::default());
    let most = MAX_SEATS_PER_HOLD as u32;
    let hold = |from, to| Command::Hold(places(event, from..to, vec![]));
    let refusal = world.ask(org, hold(0, most + 1)).expect_err("too many at once");
    assert_eq!(refusal, Refusal::TooManySeats { limit: most, current: 0, requested: most + 1 });
    world.ask(org, hold(0, most - 1)).expect("all but one");
    let refusal = world.ask(org, hold(most - 2, most + 1)).expect_err("too many together");
    assert_eq!(refusal, Refusal::TooManySeats { limit: most, current: most - 1, requested: 2 });
    let full = hold_in(&world.ask(org, hold(most - 1, most)).expect("the last")).hold;
    assert_eq!(full.seats.len(), MAX_SEATS_PER_HOLD);
    let command = Command::Book { places: places(event, 500..501, vec![]), payment_reference: None };
    world.ask(org, command).expect("a booking is an order of its own");
}

#[test]
fn the_most_seats_per_user_is_counted_without_wrapping() {
    let policy = Policy { seats_per_user: Some(MAX_SEATS_PER_USER), ..Policy::default() };
    let mut world = World::new();
    let org = new_org(&mut world, "Dear house");
    let event = new_event(&mut world, org, policy);
    let areas: Vec<(AreaId, u32)> = (0..2)
        .map(|n| new_area(&mut world, org, event, &format!("Area {n}"), "gold", MAX_AREA_CAPACITY))
        .map(|area| (area, MAX_AREA_QUANTITY))
        .collect();
    let book = Command::Book { places: places(event, 0..0, areas), payment_reference: None };
    for _ in 0..5 {
        world.ask(org, book.clone()).expect("2,000 places");
    }
    let refusal = world.ask(org, book).expect_err("10,000 are enough");
    let (limit, current, requested) = (MAX_SEATS_PER_USER, MAX_SEATS_PER_USER, MAX_PLACES_PER_HOLD);
    assert_eq!(refusal, Refusal::TooManySeats { limit, current, requested });
}

#[test]
fn quantities_up_to_the_end_of_u32_are_answered() {
    let mut stage = Stage::new();
    for quantity in [MAX_AREA_QUANTITY + 1, u32::MAX / 2 + 1, u32::MAX] {
        let mut wanted = stage.places("ann", "cart", &[0], 0);
        wanted.areas = vec![(stage.floor, quantity), (stage.gallery, quantity)];
        let refusal = stage.refused(Command::Hold(wanted));
        assert!(matches!(refusal, Refusal::Invalid { field: "areas", .. }));
    }
    let refusal = stage.refused(stage.to_hold("ann", "cart", &[], MAX_AREA_QUANTITY));
    assert!(matches!(refusal, Refusal::AreaFull { requested: MAX_AREA_QUANTITY, left: 10, .. }));
}

#[test]
fn an_area_of_the_largest_capacity_is_sold_to_its_last_place() {
    let mut stage = Stage::new();
    let (org, event) = (stage.org, stage.event);
    let area = new_area(&mut stage.world, org, event, "Field", "gold", MAX_AREA_CAPACITY);
    // All but one are gone already.
    let row = stage.world.rows.areas.get_mut(&area).expect("the area");
    row.value.sold = MAX_AREA_CAPACITY - 1;
    let mut wanted = stage.places("ann", "cart", &[], 0);
    wanted.areas = vec![(area, 2)];
    let refusal = stage.refused(Command::Hold(wanted.clone()));
    assert_eq!(refusal, Refusal::AreaFull { area, requested: 2, left: 1 });
    wanted.areas[0].1 = 1;
    let hold = hold_in(&stage.world.ask(org, Command::Hold(wanted)).expect("the last place")).hold;
    stage.world.ask(org, confirm(hold.id, "ann")).expect("sold out");
    assert_eq!(stage.world.rows.areas[&area].value.sold, MAX_AREA_CAPACITY);
}

#[test]
fn an_event_has_so_many_seats_and_the_last_of_them_can_be_held() {
    let mut world = World::new();
    let org = new_org(&mut world, "Stadium");
    let event = new_event(&mut world, org, Policy::default());
    let create = |seats| Command::CreateSeats { event, sections: vec![section("Ring", "gold", "A", seats)] };
    let halves = vec![section("Ring", "gold", "A", MAX_SEATS_PER_CREATE), section("Ring", "gold", "B", 1)];
    let refusal =
        world.ask(org, Command::CreateSeats { event, sections: halves }).expect_err("too many at once");
    assert!(matches!(refusal, Refusal::Invalid { field: "sections", .. }));
    for seats in [MAX_SEATS_PER_CREATE, MAX_SEATS_PER_CREATE, MAX_SEATS_PER_EVENT - 2 * MAX_SEATS_PER_CREATE]
    {
        world.ask(org, create(seats)).expect("seats");
    }
    let refusal = world.ask(org, create(1)).expect_err("full");
    assert_eq!(refusal, Refusal::EventFull { what: "seats", limit: MAX_SEATS_PER_EVENT });
    let last = MAX_SEATS_PER_EVENT - 1;
    world.ask(org, Command::Hold(places(event, last..last + 1, vec![]))).expect("the last seat");
    let after =
        world.ask(org, Command::Hold(places(event, last..last + 2, vec![]))).expect_err("one too far");
    assert_eq!(after, Refusal::UnknownSeats { seats: vec![SeatId::of(event, MAX_SEATS_PER_EVENT)] });
    let far = world.ask(org, Command::Hold(places(event, u32::MAX - 1..u32::MAX, vec![]))).expect_err("far");
    assert_eq!(far, Refusal::UnknownSeats { seats: vec![SeatId::of(event, u32::MAX - 1)] });
}

#[test]
fn an_event_has_so_many_blocks_and_areas() {
    let mut world = World::new();
    let org = new_org(&mut world, "Stadium");
    let event = new_event(&mut world, org, Policy::default());
    for n in 0..MAX_AREAS_PER_EVENT {
        new_area(&mut world, org, event, &format!("Area {n}"), "gold", 1);
    }
    let command = Command::CreateArea { event, name: name("More"), tier: name("gold"), capacity: 1 };
    let limit = MAX_AREAS_PER_EVENT as u32;
    assert_eq!(world.ask(org, command).expect_err("full"), Refusal::EventFull { what: "areas", limit });

    let block = |n: usize| section(&format!("Block {n}"), "gold", "A", 1);
    let full = Refusal::EventFull { what: "blocks", limit: MAX_BLOCKS_PER_EVENT as u32 };
    let sections: Vec<_> = (0..MAX_BLOCKS_PER_EVENT - 1).map(block).collect();
    world.ask(org, Command::CreateSeats { event, sections }).expect("all but one");
    // Two new blocks in one request are one too many, and then neither is made.
    let two = vec![block(1_000), block(1_001)];
    assert_eq!(world.ask(org, Command::CreateSeats { event, sections: two }).expect_err("full"), full);
    world.ask(org, Command::CreateBlock { event, name: name("Last") }).expect("the last");
    let command = Command::CreateBlock { event, name: name("More") };
    assert_eq!(world.ask(org, command).expect_err("full"), full);
    // Seats in a block that exists need no new one.
    world
        .ask(org, Command::CreateSeats { event, sections: vec![section("Last", "gold", "A", 1)] })
        .expect("seats");
}

/// The longest policy that is allowed.
fn longest() -> Policy {
    let seconds = MAX_POLICY_SECONDS;
    Policy {
        ttl_seconds: seconds - 1,
        checkout_extension_seconds: seconds,
        heartbeat_seconds: seconds,
        max_hold_seconds: seconds,
        ..Policy::default()
    }
}

/// A whole life of holds at one moment.
fn live_through(now: Time) {
    let mut stage = Stage::with(longest());
    stage.world.now = now;
    let hold = stage.hold("ann", "cart", &[0, 1], 2);
    assert!(hold.created_at == now && now < hold.expires_at && hold.expires_at <= hold.max_expires_at);
    stage.idle(expire(hold.id));
    let extended = hold_in(&stage.run(checkout(hold.id, "ann"))).hold;
    assert_eq!(extended.expires_at, hold.max_expires_at);
    let refusal = stage.refused(heartbeat(hold.id, "ann"));
    let max_expires_at = hold.max_expires_at;
    assert_eq!(refusal, Refusal::ExtensionExhausted { hold: hold.id, max_expires_at });
    stage.run(release(hold.id, "ann", stage.seat_ids(&[0])));
    let booking = stage.confirm(hold.id, "ann");
    stage.run(cancel(booking.id, None));

    let late = stage.hold("bob", "cart", &[0], 1);
    stage.world.now = late.expires_at;
    let refusal = stage.refused(confirm(late.id, "bob"));
    assert_eq!(refusal, Refusal::HoldExpired { hold: late.id, expired_at: late.expires_at });
    stage.run(expire(late.id));
    assert_eq!(stage.hold_row(late.id).status, HoldStatus::Expired);
    assert_eq!((stage.state(0), stage.floor_counts()), (SeatState::Available, (0, 0)));
}

#[test]
fn holds_live_at_both_ends_of_time() {
    let day = i64::from(MAX_POLICY_SECONDS) * 1000;
    for millis in [i64::MIN, i64::MIN + 1, -day, -1, 0, 1, i64::MAX - 2 * day, i64::MAX - day, i64::MAX - 1] {
        live_through(Time::from_millis(millis));
    }
}

/// A hold of the last millisecond would be over when it begins, and that is an assertion, not a dead hold.
#[test]
#[should_panic(expected = "active past its time")]
fn there_is_no_holding_in_the_very_last_millisecond() {
    let mut stage = Stage::new();
    stage.world.now = Time::from_millis(i64::MAX);
    stage.hold("ann", "cart", &[0], 0);
}

#[test]
fn even_then_a_booking_can_be_made_and_cancelled() {
    let mut stage = Stage::new();
    stage.world.now = Time::from_millis(i64::MAX);
    let booking = stage.book("ann", &[0], 1);
    stage.run(cancel(booking.id, Some("ann")));
    stage.block(&[0]);
}

#[test]
fn a_sales_window_may_reach_both_ends_of_time() {
    let (first, last) = (Time::from_millis(i64::MIN), Time::from_millis(i64::MAX));
    let policy = Policy { sales_open_at: Some(first), sales_close_at: Some(last), ..Policy::default() };
    let mut stage = Stage::with(policy);
    for now in [first, last.plus_millis(-1)] {
        stage.world.now = now;
        stage.book("ann", &[], 1);
    }
    stage.world.now = last;
    let refusal = stage.refused(stage.to_book("ann", &[], 1));
    assert_eq!(refusal, Refusal::SalesNotOpen { opens_at: Some(first), closes_at: Some(last) });
}

#[test]
fn an_answer_survives_being_recorded_as_json() {
    let mut stage = Stage::with(longest());
    stage.world.now = Time::from_millis(i64::MAX - 1);
    stage.hold("ann", "red", &[0], 0);
    let held = stage.run(stage.to_hold("ann", "blue", &[0, 1], 3));
    let booked = stage.run(stage.to_book("bob", &[2], 2));
    let blocked = stage.block(&[5]);
    for done in [held, booked, blocked] {
        let text = serde_json::to_string(&done.outcome).expect("json");
        assert_eq!(serde_json::from_str::<Outcome>(&text).expect("an outcome"), done.outcome);
    }
}
