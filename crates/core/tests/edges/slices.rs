//! What a slice tells the store, and what the kernel does with rows that can't be.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rowlock_core::command::Places;
use rowlock_core::seat::SeatState;
use rowlock_core::slice::{RecordKey, TakenPlace};
use rowlock_core::text::Row;
use rowlock_core::{Actor, Command, IdempotencyKey, Name, Outcome, Refusal, Request, Slice, execute};

use crate::support::stage::{
    FLOOR_PLACES, SEATS, Stage, cart, checkout, hold_in, kinds, release, section, user,
};
use crate::support::{Counter, request};

/// A slice with the rows of a stage that these tests ask for.
fn slice_of(stage: &Stage) -> Slice {
    let mut slice = Slice::default();
    let rows = &stage.world.rows;
    rows.orgs.values().for_each(|org| slice.load_org(org.clone()));
    rows.events.values().for_each(|event| slice.load_event(Arc::clone(event)));
    rows.seats.iter().for_each(|(id, row)| slice.load_seat(*id, row.value, row.version));
    rows.areas.values().for_each(|row| slice.load_area(row.value.clone(), row.version));
    rows.holds.values().for_each(|row| slice.load_hold(row.value.clone(), row.version));
    slice
}

/// What the next batch finds in it would be decided with.
#[test]
fn an_emptied_slice_has_nothing_in_it() {
    let stage = Stage::new();
    let mut slice = slice_of(&stage);
    slice.load_usage(stage.event, user("ann"), 3);
    let asked = request(stage.org, stage.to_hold("ann", "cart", &[0], 1));
    execute(&mut slice, &asked, stage.now(), &mut Counter(1_000)).unwrap();
    assert!(slice.cart(stage.event, &user("ann"), &cart("cart")).is_some());
    assert_eq!(format!("{:?}", slice.emptied()), format!("{:?}", Slice::default()));
}

/// A store may load a seat for another command of the batch, and then without the hold that has it. Ending that hold would take it.
#[test]
fn a_seat_without_its_hold_is_not_chosen() {
    let mut stage = Stage::new();
    let held = stage.hold("ann", "cart", &[0], 0);
    let mut slice = Slice::default();
    let (rows, later) = (&stage.world.rows, held.expires_at);
    let block = rows.events[&stage.event].blocks[0].id;
    slice.load_event(Arc::clone(&rows.events[&stage.event]));
    slice.load_block(stage.event, block);
    rows.seats.iter().for_each(|(id, row)| slice.load_seat(*id, row.value, row.version));
    for (seat, (block, row, number)) in &rows.spots {
        slice.load_spot(*seat, *block, row, *number, later);
    }
    let places = Places { blocks: vec![(block, 1)], ..stage.places("bob", "cart", &[], 0) };
    let asked = request(stage.org, Command::Hold(places));
    let taken = execute(&mut slice, &asked, later, &mut Counter(1_000)).unwrap();
    assert_eq!(hold_in(&taken).hold.seats[0].ordinal, 1);
}

#[test]
fn a_slice_says_what_it_has() {
    let stage = Stage::new();
    let mut slice = slice_of(&stage);
    let ann = user("ann");
    assert_eq!(slice.events().collect::<Vec<_>>(), [stage.event]);
    assert_eq!(slice.seats().filter(|(_, seat)| seat.state == SeatState::Available).count(), SEATS as usize);
    assert!(slice.has_seat(stage.seat(0)) && !slice.has_seat(stage.seat(99)));
    assert!(!slice.has_usage(stage.event, &ann));
    slice.load_usage(stage.event, ann.clone(), 3);
    assert!(slice.has_usage(stage.event, &ann) && !slice.has_usage(stage.event, &user("bob")));
    let mut asked = request(stage.org, stage.to_hold("ann", "cart", &[0], 0));
    assert!(!slice.has_record(&asked));
    asked.idempotency = Some(IdempotencyKey { key: Arc::from("k"), fingerprint: [1; 16] });
    assert!(!slice.has_record(&asked));
    let outcome = Outcome::Org(stage.world.rows.orgs[&stage.org].clone());
    let key = RecordKey { org: stage.org, actor: Actor::System, key: Arc::from("k") };
    slice.load_record(key, [1; 16], outcome);
    assert!(slice.has_record(&asked));
    let of_another = Request { actor: Actor::User(ann), ..asked };
    assert!(!slice.has_record(&of_another));
}

/// The store looks for seats that stand where new ones shall, and the kernel believes it. It looks for all the commands of a
/// batch, and only those that name the place are refused.
#[test]
fn a_place_that_is_taken_refuses_new_seats() {
    let stage = Stage::new();
    let mut slice = slice_of(&stage);
    let (block, row) = (Name::new("Stalls").unwrap(), Row::new("A").unwrap());
    slice.load_taken_place(stage.event, TakenPlace { block, row, number: 1 });
    let mut create = |new| {
        let sections = vec![new];
        let asked = request(stage.org, Command::CreateSeats { event: stage.event, sections });
        execute(&mut slice, &asked, stage.now(), &mut Counter(1_000))
    };
    let refusal = create(section("Stalls", "gold", "A", 1)).expect_err("it is taken");
    assert_eq!(refusal, Refusal::PlaceTaken { place: "Stalls A-1".to_owned() });
    let mut behind = section("Stalls", "gold", "A", 1);
    (behind.section.first_number, behind.section.last_number) = (2, 2);
    for free in [behind, section("Stalls", "gold", "Z", 1), section("Circle", "gold", "A", 1)] {
        create(free).expect("nobody is there");
    }
}

#[test]
fn whoever_releases_leaves_the_cart() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0).id;
    let mut slice = slice_of(&stage);
    let in_cart = |slice: &Slice| slice.cart(stage.event, &user("ann"), &cart("cart")).map(|hold| hold.id);
    assert_eq!(in_cart(&slice), Some(hold));
    let asked = request(stage.org, release(hold, "ann", vec![]));
    execute(&mut slice, &asked, stage.now(), &mut Counter(1_000)).expect("released");
    assert_eq!(in_cart(&slice), None);
}

/// Seats that the cart has in another block don't count for this one.
#[test]
fn any_seats_are_counted_by_block() {
    let mut stage = Stage::new();
    let sections = vec![section("Circle", "gold", "A", 4)];
    stage.run(Command::CreateSeats { event: stage.event, sections });
    let blocks: Vec<_> = stage.world.rows.events[&stage.event].blocks.iter().map(|block| block.id).collect();
    let any = |block: usize, quantity| {
        let mut places = stage.places("ann", "cart", &[], 0);
        places.blocks = vec![(blocks[block], quantity)];
        Command::Hold(places)
    };
    let (circle, stalls) = (any(1, 2), any(0, 1));
    stage.run(circle);
    let held = hold_in(&stage.run(stalls)).hold;
    assert_eq!(held.seats.iter().map(|seat| seat.ordinal).collect::<Vec<_>>(), [12, 13, 0]);
}

#[test]
fn a_hold_knows_its_seats() {
    let hold = Stage::new().hold("ann", "cart", &[1, 3], 0);
    let has: Vec<bool> = (0..5).map(|ordinal| hold.has_seat(ordinal)).collect();
    assert_eq!(has, [false, true, false, true, false]);
}

/// Rows that can't be stop the command: the kernel asserts what it leaves behind, also when it only gives back.
#[test]
fn an_area_that_is_too_full_stops_whatever_touches_it() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 2).id;
    let mut slice = slice_of(&stage);
    let mut floor = stage.world.rows.areas[&stage.floor].value.clone();
    floor.sold = floor.capacity + 1;
    slice.load_area(floor, 1);
    let asked = request(stage.org, release(hold, "ann", vec![]));
    let done = catch_unwind(AssertUnwindSafe(|| {
        execute(&mut slice, &asked, stage.now(), &mut Counter(1_000)).map(|done| done.facts)
    }));
    assert!(done.is_err(), "it went through: {done:?}");
}

/// Holds past their time make room in an area, but only those that have something of it.
#[test]
fn a_hold_that_makes_no_room_is_left_alone() {
    let mut stage = Stage::new();
    let elsewhere = stage.hold("ann", "cart", &[0], 0).id;
    stage.hold("bob", "cart", &[], FLOOR_PLACES);
    stage.world.wait_seconds(901);
    // The first request only brings the other hold into the slice.
    let wish = stage.to_hold("carl", "cart", &[], 1);
    let both = [request(stage.org, checkout(elsewhere, "ann")), request(stage.org, wish)];
    let answers = stage.world.batch(&both).expect("nobody else writes");
    assert!(matches!(answers[0], Err(Refusal::HoldExpired { .. })), "{:?}", answers[0]);
    let done = answers[1].as_ref().expect("there is room");
    assert_eq!(kinds(done), ["SEAT-HOLD-EXPIRED", "SEAT-HOLD-CREATED"]);
    assert_eq!(stage.hold_row(elsewhere).ended_at, None);
}
