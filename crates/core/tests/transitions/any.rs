//! Any seats of a block: the request says how many, the kernel says which.

use rowlock_core::ids::BlockId;
use rowlock_core::limits::MAX_SEATS_PER_HOLD;
use rowlock_core::policy::Policy;
use rowlock_core::{Command, Refusal};

use crate::support::request;
use crate::support::stage::{SEATS, Stage, hold_in, kinds, release};

const TTL: u32 = 900;

impl Stage {
    fn block_id(&self) -> BlockId {
        self.world.rows.events[&self.event].blocks[0].id
    }

    /// `quantity` seats of the stalls: row A is seats 0 to 7, row B 8 to 11.
    fn any(&self, user: &str, quantity: u32) -> Command {
        let mut places = self.places(user, "cart", &[], 0);
        places.blocks = vec![(self.block_id(), quantity)];
        Command::Hold(places)
    }

    #[track_caller]
    fn take(&mut self, user: &str, quantity: u32) -> Vec<u32> {
        let held = hold_in(&self.run(self.any(user, quantity))).hold;
        held.seats.iter().map(|seat| seat.ordinal).collect()
    }
}

#[test]
fn the_first_neighbours_are_taken() {
    let mut stage = Stage::new();
    stage.hold("ann", "cart", &[1, 4], 0);
    assert_eq!(stage.take("bob", 2), [2, 3]);
    assert_eq!(stage.take("cat", 3), [5, 6, 7]);
    assert_eq!(stage.take("dan", 4), [8, 9, 10, 11]);
    assert_eq!(stage.take("eve", 1), [0]);
}

#[test]
fn a_row_ends_where_the_next_one_begins() {
    let mut stage = Stage::new();
    stage.hold("ann", "cart", &[0, 1, 2, 3, 4, 5, 6], 0);
    // Seat 7 is the last of row A, and seat 8 the first of row B.
    assert_eq!(stage.take("bob", 2), [8, 9]);
}

/// Row A again, but not its next numbers: the seats follow each other in the list and not in the house.
#[test]
fn numbers_that_are_far_apart_are_no_neighbours() {
    let mut stage = Stage::new();
    let mut wing = crate::support::stage::section("Wings", "gold", "A", 2);
    wing.section.first_number = 21;
    wing.section.last_number = 23;
    let first = crate::support::stage::section("Wings", "gold", "A", 2);
    stage.run(Command::CreateSeats { event: stage.event, sections: vec![first, wing] });
    let wings = stage.world.rows.events[&stage.event].blocks[1].id;
    let mut places = stage.places("ann", "cart", &[], 0);
    places.blocks = vec![(wings, 3)];
    let held = hold_in(&stage.run(Command::Hold(places))).hold;
    assert_eq!(held.seats.iter().map(|seat| seat.ordinal).collect::<Vec<_>>(), [14, 15, 16]);
}

#[test]
fn scattered_seats_are_better_than_none() {
    let mut stage = Stage::new();
    stage.hold("ann", "cart", &[0, 2, 4, 6, 8, 10], 0);
    stage.block(&[3]);
    assert_eq!(stage.take("bob", 2), [1, 5]);
    let refusal = stage.refused(stage.any("cat", 4));
    assert_eq!(refusal, Refusal::BlockFull { block: stage.block_id(), requested: 4, left: 3 });
    assert_eq!(stage.take("cat", 3), [7, 9, 11]);
}

#[test]
fn the_quantity_is_what_the_cart_shall_hold() {
    let mut stage = Stage::new();
    let first = hold_in(&stage.run(stage.any("ann", 2)));
    let again = hold_in(&stage.idle(stage.any("ann", 2)));
    assert_eq!((&again.hold, again.changed), (&first.hold, false));
    stage.idle(stage.any("ann", 1));
    let done = stage.run(stage.any("ann", 3));
    assert_eq!((kinds(&done), hold_in(&done).hold.seats.len()), (vec!["SEAT-HOLD-CREATED"], 3));
    assert_eq!(hold_in(&done).hold.id, first.hold.id);
    // Seats that were named count as well.
    stage.hold("bob", "cart", &[11, 9], 1);
    assert_eq!(stage.take("bob", 3), [11, 9, 3]);
    // Those of another cart are another cart's.
    let mut places = stage.places("ann", "other", &[], 0);
    places.blocks = vec![(stage.block_id(), 1)];
    assert_eq!(hold_in(&stage.run(Command::Hold(places))).hold.seats.len(), 1);
}

#[test]
fn seats_named_in_the_same_request_count_and_are_not_taken_twice() {
    let mut stage = Stage::new();
    let mut places = stage.places("ann", "cart", &[1], 2);
    places.blocks = vec![(stage.block_id(), 3)];
    let held = hold_in(&stage.run(Command::Hold(places))).hold;
    assert_eq!(held.seats.iter().map(|seat| seat.ordinal).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(held.places(), 5);
}

#[test]
fn holds_past_their_time_make_room_and_end_once() {
    let mut stage = Stage::new();
    let old = stage.hold("ann", "cart", &(0..SEATS).collect::<Vec<_>>(), 3);
    stage.world.now = old.expires_at.plus_millis(-1);
    let full = Refusal::BlockFull { block: stage.block_id(), requested: 2, left: 0 };
    assert_eq!(stage.refused(stage.any("bob", 2)), full);
    stage.world.now = old.expires_at;
    let done = stage.run(stage.any("bob", 2));
    assert_eq!(kinds(&done), ["SEAT-HOLD-EXPIRED", "SEAT-HOLD-CREATED"]);
    assert_eq!(kinds(&stage.run(stage.any("cat", 2))), ["SEAT-HOLD-CREATED"]);
    assert_eq!(stage.floor_counts(), (0, 0));
}

#[test]
fn ones_own_dead_hold_counts_for_nothing() {
    let mut stage = Stage::new();
    let old = stage.hold("ann", "cart", &[0, 1], 0);
    stage.world.wait_seconds(TTL);
    let done = stage.run(stage.any("ann", 2));
    assert_eq!(kinds(&done), ["SEAT-HOLD-EXPIRED", "SEAT-HOLD-CREATED"]);
    assert_ne!(hold_in(&done).hold.id, old.id);
}

#[test]
fn commands_of_one_batch_see_what_the_others_took_and_gave_back() {
    let mut stage = Stage::new();
    let old = stage.hold("ann", "cart", &(0..SEATS).collect::<Vec<_>>(), 0);
    let batch = [
        stage.any("bob", 1),
        release(old.id, "ann", stage.seat_ids(&[3, 4, 5])),
        stage.any("bob", 2),
        stage.to_hold("cat", "cart", &[5], 0),
        stage.any("dan", 1),
    ]
    .map(|command| request(stage.org, command));
    let answers = stage.world.batch(&batch).expect("nobody else writes here");
    let full = |requested| Refusal::BlockFull { block: stage.block_id(), requested, left: 0 };
    assert_eq!(answers[0].as_ref().err(), Some(&full(1)));
    assert!(answers[1].is_ok() && answers[3].is_ok());
    let seats: Vec<u32> =
        hold_in(answers[2].as_ref().expect("a hold")).hold.seats.iter().map(|seat| seat.ordinal).collect();
    assert_eq!(seats, [3, 4]);
    assert_eq!(answers[4].as_ref().err(), Some(&full(1)));
}

#[test]
fn the_limits_of_holding_are_kept() {
    let mut stage = Stage::with(Policy { seats_per_user: Some(3), ..Policy::default() });
    stage.run(stage.any("ann", 2));
    let refusal = stage.refused(stage.any("ann", 4));
    assert_eq!(refusal, Refusal::TooManySeats { limit: 3, current: 2, requested: 2 });
    for quantity in [0, MAX_SEATS_PER_HOLD as u32 + 1] {
        let refusal = stage.refused(stage.any("ann", quantity));
        assert!(matches!(refusal, Refusal::Invalid { field: "quantity", .. }), "{refusal:?}");
    }
    let mut twice = stage.places("ann", "cart", &[], 0);
    twice.blocks = vec![(stage.block_id(), 1), (stage.block_id(), 1)];
    let refusal = stage.refused(Command::Hold(twice));
    assert!(matches!(refusal, Refusal::Invalid { field: "block_id", .. }), "{refusal:?}");
}

#[test]
fn outside_the_sales_window_only_what_is_held_is_answered() {
    let closes = crate::support::START.plus_seconds(60);
    let mut stage = Stage::with(Policy { sales_close_at: Some(closes), ..Policy::default() });
    stage.run(stage.any("ann", 2));
    stage.world.now = closes;
    stage.idle(stage.any("ann", 2));
    for quantity in [3, SEATS + 1] {
        let refusal = stage.refused(stage.any("ann", quantity));
        assert!(matches!(refusal, Refusal::SalesNotOpen { .. }), "{refusal:?}");
    }
}

#[test]
fn blocks_of_other_events_are_unknown() {
    let mut stage = Stage::new();
    let ours = stage.block_id();
    let unknown = BlockId::from_uuid(uuid::Uuid::nil());
    let mut places = stage.places("ann", "cart", &[], 0);
    places.blocks = vec![(unknown, 1)];
    assert_eq!(stage.refused(Command::Hold(places.clone())), Refusal::UnknownBlock { block: unknown });
    // Another event of the same org, with a block of its own.
    let event = crate::support::stage::new_event(&mut stage.world, stage.org, Policy::default());
    places.event = event;
    places.blocks = vec![(ours, 1)];
    assert_eq!(stage.refused(Command::Hold(places)), Refusal::UnknownBlock { block: ours });
}

#[test]
fn a_box_office_sells_any_seats_too() {
    let mut stage = Stage::new();
    let mut places = stage.places("ann", "desk", &[], 0);
    places.blocks = vec![(stage.block_id(), 2)];
    let booked = stage.run(Command::Book { places, payment_reference: None });
    assert_eq!(crate::support::stage::booking_in(&booked).booking.tickets.len(), 2);
}
