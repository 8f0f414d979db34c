//! Holding seats: one cart is one hold, all or nothing.

use rowlock_core::hold::{HeldSeat, HoldStatus, Source};
use rowlock_core::outcome::HeldElsewhere;
use rowlock_core::policy::Policy;
use rowlock_core::seat::SeatState;
use rowlock_core::{Command, Fact, HoldId, Refusal, SeatId, Time};

use crate::support::START;
use crate::support::stage::{GOLD, SILVER, Stage, cart, confirm, hold_in, kinds, user};

#[test]
fn a_hold_takes_its_seats_at_the_price_shown() {
    let mut stage = Stage::new();
    let done = stage.run(stage.to_hold("ann", "cart", &[0, 8], 0));
    let outcome = hold_in(&done);
    let hold = &outcome.hold;
    assert!(outcome.changed && outcome.elsewhere.is_empty());
    assert_eq!((hold.org, hold.event, hold.source), (stage.org, stage.event, Source::Web));
    assert_eq!((hold.user.as_str(), hold.cart.as_str(), hold.status), ("ann", "cart", HoldStatus::Active));
    assert_eq!(hold.seats, [HeldSeat { ordinal: 0, price: GOLD }, HeldSeat { ordinal: 8, price: SILVER }]);
    assert_eq!((hold.areas.len(), hold.places(), hold.total()), (0, 2, GOLD + SILVER));
    assert_eq!((hold.created_at, hold.expires_at), (START, START.plus_seconds(900)));
    assert_eq!(hold.max_expires_at, START.plus_seconds(1800));
    assert_eq!((hold.checkout_at, hold.ended_at, hold.booking), (None, None, None));
    assert_eq!(done.facts.as_slice(), [Fact::HoldCreated(hold.clone())]);
    assert_eq!(stage.hold_row(hold.id), &**hold);
    let held = SeatState::Held { hold: hold.id, until: hold.expires_at };
    assert_eq!([0, 8, 1].map(|seat| stage.state(seat)), [held, held, SeatState::Available]);
}

#[test]
fn holding_again_what_one_holds_is_the_same_hold() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0, 1], 0);
    stage.world.wait_seconds(60);
    for seats in [&[0, 1][..], &[1, 0], &[1]] {
        let again = hold_in(&stage.idle(stage.to_hold("ann", "cart", seats, 0)));
        assert_eq!((&*again.hold, again.changed), (&hold, false));
    }
}

#[test]
fn a_cart_grows_and_keeps_its_expiry() {
    let mut stage = Stage::new();
    let first = stage.hold("ann", "cart", &[0], 0);
    stage.world.wait_seconds(300);
    let done = stage.run(stage.to_hold("ann", "cart", &[0, 9, 3], 0));
    let grown = hold_in(&done);
    assert!(grown.changed);
    assert_eq!((grown.hold.id, grown.hold.expires_at), (first.id, first.expires_at));
    assert_eq!(grown.hold.seat_ids().collect::<Vec<_>>(), stage.seat_ids(&[0, 9, 3]));
    assert_eq!(stage.world.rows.holds.len(), 1);
    // The fact names what is new, and that alone.
    let [Fact::HoldGrew(part)] = done.facts.as_slice() else { panic!("{:?}", done.facts) };
    assert_eq!(part.seats.iter().map(|seat| seat.ordinal).collect::<Vec<_>>(), [9, 3]);
    assert_eq!((part.hold, part.ended, part.at), (first.id, false, stage.now()));
    assert_eq!(part.expires_at, first.expires_at);
    assert_eq!(kinds(&done), ["SEAT-HOLD-CREATED"]);
}

#[test]
fn growing_is_all_or_nothing() {
    let mut stage = Stage::new();
    stage.hold("ann", "cart", &[0], 0);
    stage.hold("bob", "cart", &[2], 0);
    let refusal = stage.refused(stage.to_hold("ann", "cart", &[1, 2], 0));
    assert_eq!(refusal, Refusal::SeatsTaken { seats: stage.seat_ids(&[2]) });
}

#[test]
fn two_carts_of_a_user_are_two_holds() {
    let mut stage = Stage::new();
    let (red, blue) = (stage.hold("ann", "red", &[0], 0), stage.hold("ann", "blue", &[1], 0));
    assert_ne!(red.id, blue.id);
    assert_eq!(stage.world.rows.active_holds().count(), 2);
}

#[test]
fn the_same_cart_token_of_two_users_is_two_holds() {
    let mut stage = Stage::new();
    let (ann, bob) = (stage.hold("ann", "cart", &[0], 0), stage.hold("bob", "cart", &[1], 0));
    assert_ne!(ann.id, bob.id);
}

#[test]
fn seats_in_another_cart_of_the_user_are_reported_and_stay_there() {
    let mut stage = Stage::new();
    let red = stage.hold("ann", "red", &[0, 1], 0);
    let there =
        |seat: SeatId| HeldElsewhere { seat, hold: red.id, cart: cart("red"), expires_at: red.expires_at };
    stage.world.wait_seconds(10);
    let blue = hold_in(&stage.run(stage.to_hold("ann", "blue", &[1, 2], 0)));
    assert_eq!(blue.hold.seat_ids().collect::<Vec<_>>(), stage.seat_ids(&[2]));
    assert_eq!((blue.changed, blue.elsewhere), (true, vec![there(stage.seat(1))]));
    assert_eq!(stage.hold_row(red.id), &red);
    // A live cart that wants only what is elsewhere is answered with itself.
    let again = hold_in(&stage.idle(stage.to_hold("ann", "blue", &[0], 0)));
    assert_eq!((again.hold.id, again.changed), (blue.hold.id, false));
    assert_eq!(again.elsewhere, [there(stage.seat(0))]);
}

#[test]
fn a_new_cart_that_wants_only_what_is_elsewhere_is_shown_where() {
    let mut stage = Stage::new();
    let red = stage.hold("ann", "red", &[0, 1], 0);
    let green = hold_in(&stage.idle(stage.to_hold("ann", "green", &[1], 0)));
    assert_eq!((&*green.hold, green.changed), (&red, false));
    assert_eq!(green.elsewhere.iter().map(|other| other.hold).collect::<Vec<_>>(), [red.id]);
}

#[test]
fn taken_seats_are_all_named_whether_held_or_sold() {
    let mut stage = Stage::new();
    stage.hold("bob", "cart", &[1], 0);
    stage.book("cat", &[4], 0);
    stage.block(&[5]);
    // Taken comes before blocked: the buyer cannot have it anyway.
    let refusal = stage.refused(stage.to_hold("ann", "cart", &[5, 4, 0, 1], 0));
    assert_eq!(refusal, Refusal::SeatsTaken { seats: stage.seat_ids(&[4, 1]) });
}

#[test]
fn ones_own_sold_seat_is_taken_too() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0);
    stage.confirm(hold.id, "ann");
    let refusal = stage.refused(stage.to_hold("ann", "cart", &[0], 0));
    assert_eq!(refusal, Refusal::SeatsTaken { seats: stage.seat_ids(&[0]) });
}

#[test]
fn blocked_seats_are_all_named() {
    let mut stage = Stage::new();
    stage.block(&[2, 3]);
    let refusal = stage.refused(stage.to_hold("ann", "cart", &[3, 0, 2], 0));
    assert_eq!(refusal, Refusal::SeatsBlocked { seats: stage.seat_ids(&[3, 2]) });
}

#[test]
fn a_cart_begins_anew_after_its_hold_was_confirmed_or_released() {
    let mut stage = Stage::new();
    let sold = stage.hold("ann", "cart", &[0], 0);
    stage.confirm(sold.id, "ann");
    let released = stage.hold("ann", "cart", &[1], 0);
    assert_ne!(released.id, sold.id);
    stage.run(crate::support::stage::release(released.id, "ann", vec![]));
    let third = stage.hold("ann", "cart", &[1], 0);
    assert_ne!(third.id, released.id);
    assert_eq!(stage.hold_row(released.id).status, HoldStatus::Cancelled);
}

#[test]
fn unknown_seats_are_all_named() {
    let mut stage = Stage::new();
    let mut places = stage.places("ann", "cart", &[0, 12], 0);
    let (foreign, strange) = (SeatId::of(other_event(), 1), SeatId::from_uuid(stage.event.uuid()));
    places.seats.extend([foreign, strange]);
    let refusal = stage.refused(Command::Hold(places));
    assert_eq!(refusal, Refusal::UnknownSeats { seats: vec![stage.seat(12), foreign, strange] });
}

fn other_event() -> rowlock_core::EventId {
    rowlock_core::EventId::from_uuid(uuid::Uuid::from_u128(7 << 64))
}

#[test]
fn an_unknown_event_is_refused() {
    let mut stage = Stage::new();
    let mut places = stage.places("ann", "cart", &[0], 0);
    places.event = other_event();
    assert_eq!(stage.refused(Command::Hold(places)), Refusal::UnknownEvent { event: other_event() });
}

#[test]
fn a_request_must_name_something_and_nothing_twice() {
    let mut stage = Stage::new();
    let invalid = |field, rule: &str| Refusal::Invalid { field, rule: rule.to_owned() };
    let nothing = stage.refused(stage.to_hold("ann", "cart", &[], 0));
    assert_eq!(nothing, invalid("seat_ids", "must name a seat when no area is named"));
    let twice = stage.refused(stage.to_hold("ann", "cart", &[1, 2, 1], 0));
    assert_eq!(twice, invalid("seat_ids", "must not name a seat twice"));
    let mut places = stage.places("ann", "cart", &[], 0);
    places.areas = vec![(stage.floor, 1), (stage.gallery, 1), (stage.floor, 2)];
    assert_eq!(stage.refused(Command::Hold(places.clone())), invalid("areas", "must not name an area twice"));
    for quantity in [0, 1001, u32::MAX] {
        places.areas = vec![(stage.floor, quantity)];
        let refusal = stage.refused(Command::Hold(places.clone()));
        assert_eq!(refusal, invalid("areas", "must have quantities between 1 and 1000"));
    }
}

fn selling(opens: Option<i64>, closes: Option<i64>) -> (Stage, Refusal) {
    let (opens_at, closes_at) =
        (opens.map(|at| START.plus_millis(at)), closes.map(|at| START.plus_millis(at)));
    let policy = Policy { sales_open_at: opens_at, sales_close_at: closes_at, ..Policy::default() };
    (Stage::with(policy), Refusal::SalesNotOpen { opens_at, closes_at })
}

#[test]
fn nothing_is_held_before_sales_open() {
    let (mut stage, refusal) = selling(Some(1_000), None);
    stage.world.wait_millis(999);
    assert_eq!(stage.refused(stage.to_hold("ann", "cart", &[0], 0)), refusal);
    assert_eq!(stage.refused(stage.to_book("ann", &[0], 1)), refusal);
    stage.world.wait_millis(1);
    stage.hold("ann", "cart", &[0], 0);
}

#[test]
fn after_sales_close_a_hold_can_be_kept_and_confirmed_but_not_grow() {
    let (mut stage, refusal) = selling(None, Some(1_000));
    stage.world.wait_millis(999);
    let hold = stage.hold("ann", "cart", &[0], 2);
    stage.world.wait_millis(1);
    assert_eq!(stage.refused(stage.to_hold("ann", "cart", &[0, 1], 0)), refusal);
    assert_eq!(stage.refused(stage.to_hold("ann", "cart", &[0], 3)), refusal);
    assert_eq!(stage.refused(stage.to_book("ann", &[1], 0)), refusal);
    let again = hold_in(&stage.idle(stage.to_hold("ann", "cart", &[0], 2)));
    assert_eq!(*again.hold, hold);
    stage.run(confirm(hold.id, "ann"));
}

#[test]
fn commands_of_one_batch_see_each_other() {
    let mut stage = Stage::new();
    let commands = [("ann", 0), ("bob", 0), ("ann", 1)];
    let requests = commands
        .map(|(who, seat)| crate::support::request(stage.org, stage.to_hold(who, "cart", &[seat], 0)));
    let answers = stage.world.batch(&requests).expect("no conflict");
    let ids: Vec<Result<HoldId, &Refusal>> =
        answers.iter().map(|answer| answer.as_ref().map(|done| hold_in(done).hold.id)).collect();
    let taken = Refusal::SeatsTaken { seats: stage.seat_ids(&[0]) };
    assert_eq!(ids[1], Err(&taken));
    assert!(ids[0].is_ok() && ids[0] == ids[2]);
    assert_eq!(stage.world.rows.active_holds().count(), 1);
    let row = stage.world.rows.cart(stage.event, &user("ann"), &cart("cart")).expect("a hold");
    assert_eq!((row.places(), row.expires_at), (2, Time::plus_seconds(START, 900)));
}
