//! General admission: quantities are what the cart shall hold.

use rowlock_core::hold::HeldArea;
use rowlock_core::slice::EventRow;
use rowlock_core::{AreaId, Command, Fact, Refusal};

use crate::support::stage::{FLOOR_PLACES, GOLD, SILVER, Stage, hold_in};

#[test]
fn a_hold_takes_places_of_an_area() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 3);
    assert_eq!(hold.areas, [HeldArea { area: stage.floor, quantity: 3, price: SILVER }]);
    assert_eq!((hold.places(), hold.total()), (4, GOLD + 3 * SILVER));
    assert_eq!(stage.floor_counts(), (3, 0));
}

#[test]
fn a_quantity_is_a_target_for_the_cart() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[], 3);
    // The same again, and less, are there already.
    for quantity in [3, 1] {
        let again = hold_in(&stage.idle(stage.to_hold("ann", "cart", &[], quantity)));
        assert_eq!((&*again.hold, again.changed), (&hold, false));
    }
    let done = stage.run(stage.to_hold("ann", "cart", &[], 5));
    let grown = hold_in(&done).hold;
    assert_eq!((grown.id, grown.quantity_of(stage.floor), grown.areas.len()), (hold.id, 5, 1));
    let [Fact::HoldGrew(part)] = done.facts.as_slice() else { panic!("{:?}", done.facts) };
    assert_eq!(part.areas, [HeldArea { area: stage.floor, quantity: 2, price: SILVER }]);
    assert_eq!(stage.floor_counts(), (5, 0));
}

#[test]
fn carts_are_counted_apart() {
    let mut stage = Stage::new();
    stage.hold("ann", "red", &[], 3);
    stage.hold("ann", "blue", &[], 3);
    stage.hold("bob", "red", &[], 3);
    assert_eq!(stage.floor_counts(), (9, 0));
}

#[test]
fn a_full_area_says_what_is_left() {
    let mut stage = Stage::new();
    stage.book("bob", &[], 2);
    let hold = stage.hold("ann", "cart", &[], 3);
    let (area, left) = (stage.floor, FLOOR_PLACES - 5);
    let refusal = stage.refused(stage.to_hold("cat", "cart", &[0], 6));
    assert_eq!(refusal, Refusal::AreaFull { area, requested: 6, left });
    // For a cart that has some already, what counts is what is missing.
    let refusal = stage.refused(stage.to_hold("ann", "cart", &[], 9));
    assert_eq!(refusal, Refusal::AreaFull { area, requested: 6, left });
    stage.hold("ann", "cart", &[], 8);
    assert_eq!((stage.floor_counts(), stage.hold_row(hold.id).places()), ((8, 2), 8));
    let refusal = stage.refused(stage.to_hold("cat", "cart", &[], 1));
    assert_eq!(refusal, Refusal::AreaFull { area, requested: 1, left: 0 });
}

#[test]
fn two_areas_and_a_seat_come_all_or_not_at_all() {
    let mut stage = Stage::new();
    let mut places = stage.places("ann", "cart", &[0], 0);
    places.areas = vec![(stage.floor, 2), (stage.gallery, 6)];
    let refusal = stage.refused(Command::Hold(places.clone()));
    assert_eq!(refusal, Refusal::AreaFull { area: stage.gallery, requested: 6, left: 5 });
    places.areas[1].1 = 5;
    let hold = hold_in(&stage.run(Command::Hold(places))).hold;
    assert_eq!((hold.places(), hold.total()), (8, 6 * GOLD + 2 * SILVER));
}

#[test]
fn an_unknown_area_or_one_of_another_event_is_refused() {
    let mut stage = Stage::new();
    let policy = rowlock_core::policy::Policy::default();
    let event = crate::support::stage::new_event(&mut stage.world, stage.org, policy);
    let other = crate::support::stage::new_area(&mut stage.world, stage.org, event, "Floor", "gold", 9);
    for area in [other, AreaId::from_uuid(uuid::Uuid::nil())] {
        let mut places = stage.places("ann", "cart", &[], 0);
        places.areas = vec![(area, 1)];
        assert_eq!(stage.refused(Command::Hold(places)), Refusal::UnknownArea { area });
    }
}

/// There is no command for it yet; the price of a hold must not depend on that.
fn change_prices(stage: &mut Stage, by: i64) {
    let row = stage.world.rows.events.get_mut(&stage.event).expect("the event");
    let event: &mut EventRow = std::sync::Arc::make_mut(row);
    event.event.tiers.iter_mut().for_each(|tier| tier.price += by);
}

#[test]
fn the_price_of_a_place_is_fixed_in_the_hold() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 2);
    change_prices(&mut stage, 100);
    // What is added later has the later price, in a line of its own.
    let grown = stage.hold("ann", "cart", &[1], 3);
    let line = |quantity, price| HeldArea { area: stage.floor, quantity, price };
    assert_eq!(grown.areas, [line(2, SILVER), line(1, SILVER + 100)]);
    assert_eq!(grown.seats.iter().map(|seat| seat.price).collect::<Vec<_>>(), [GOLD, GOLD + 100]);
    assert_eq!(grown.quantity_of(stage.floor), 3);
    change_prices(&mut stage, 1_000);
    let booking = stage.confirm(hold.id, "ann");
    assert_eq!((booking.total(), booking.tickets.len()), (grown.total(), 5));
    assert_eq!(grown.total(), 2 * GOLD + 3 * SILVER + 200);
}
