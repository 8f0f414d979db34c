//! Another org's things do not exist: the answers are the same as for things that never were.

use rowlock_core::command::NewSection;
use rowlock_core::org::Scopes;
use rowlock_core::policy::Policy;
use rowlock_core::{Command, Outcome, Refusal, SeatId};

use crate::support::stage::{
    Stage, cancel, checkout, confirm, heartbeat, name, new_area, new_event, new_org, release, section,
};

#[test]
fn events_of_another_org_are_unknown_to_every_verb() {
    let mut stage = Stage::new();
    let stranger = new_org(&mut stage.world, "Other house");
    let event = stage.event;
    let seats = stage.seat_ids(&[0]);
    let sections: Vec<NewSection> = vec![section("Stalls", "gold", "Z", 1)];
    let (called, tier) = (name("New"), name("gold"));
    let commands = [
        stage.to_hold("ann", "cart", &[0], 1),
        stage.to_book("ann", &[0], 1),
        Command::BlockSeats { event, seats: seats.clone() },
        Command::UnblockSeats { event, seats },
        Command::CreateBlock { event, name: called.clone() },
        Command::CreateSeats { event, sections },
        Command::CreateArea { event, name: called, tier, capacity: 1 },
    ];
    for command in commands {
        assert_eq!(stage.refused_for(stranger, command), Refusal::UnknownEvent { event });
    }
}

#[test]
fn holds_of_another_org_are_unknown_even_to_a_user_of_the_same_name() {
    let mut stage = Stage::new();
    let stranger = new_org(&mut stage.world, "Other house");
    let hold = stage.hold("ann", "cart", &[0], 0).id;
    for verb in [checkout, heartbeat, confirm] {
        assert_eq!(stage.refused_for(stranger, verb(hold, "ann")), Refusal::UnknownHold { hold });
    }
    let refusal = stage.refused_for(stranger, release(hold, "ann", vec![]));
    assert_eq!(refusal, Refusal::UnknownHold { hold });
    // Nor does it matter what has become of it.
    stage.confirm(hold, "ann");
    assert_eq!(stage.refused_for(stranger, confirm(hold, "ann")), Refusal::UnknownHold { hold });
}

#[test]
fn bookings_of_another_org_are_unknown() {
    let mut stage = Stage::new();
    let stranger = new_org(&mut stage.world, "Other house");
    let booking = stage.book("ann", &[0], 0).id;
    for by in [None, Some("ann"), Some("bob")] {
        assert_eq!(stage.refused_for(stranger, cancel(booking, by)), Refusal::UnknownBooking { booking });
    }
}

#[test]
fn keys_of_another_org_are_unknown() {
    let mut stage = Stage::new();
    let stranger = new_org(&mut stage.world, "Other house");
    let create = Command::CreateApiKey { name: name("web"), scopes: Scopes::all(), secret_hash: [7; 32] };
    let Outcome::ApiKey(key) = stage.run(create).outcome else { panic!("a key") };
    let revoke = Command::RevokeApiKey { key: key.id };
    assert_eq!(stage.refused_for(stranger, revoke), Refusal::UnknownKey { key: key.id });
}

#[test]
fn seats_and_areas_of_another_orgs_event_are_unknown() {
    let mut stage = Stage::new();
    let stranger = new_org(&mut stage.world, "Other house");
    let theirs = new_event(&mut stage.world, stranger, Policy::default());
    let sections = vec![section("Stalls", "gold", "A", 3)];
    stage.world.ask(stranger, Command::CreateSeats { event: theirs, sections }).expect("seats");
    let area = new_area(&mut stage.world, stranger, theirs, "Floor", "gold", 5);
    let foreign = SeatId::of(theirs, 0);
    let mut places = stage.places("ann", "cart", &[0], 0);
    places.seats.push(foreign);
    let refusal = stage.refused(Command::Hold(places));
    assert_eq!(refusal, Refusal::UnknownSeats { seats: vec![foreign] });
    let mut places = stage.places("ann", "cart", &[0], 0);
    places.areas.push((area, 1));
    assert_eq!(stage.refused(Command::Hold(places)), Refusal::UnknownArea { area });
}
