//! The last thing that is allowed, and the first that is not.

use rowlock_core::event::Tier;
use rowlock_core::limits::{
    IDEMPOTENCY_TTL_MILLIS, MAX_COORDINATE, MAX_POLICY_SECONDS, MAX_ROWS_PER_SECTION, MAX_SEATS_PER_HOLD,
    MAX_SECTIONS_PER_CREATE, MAX_TIERS_PER_EVENT,
};
use rowlock_core::policy::Policy;
use rowlock_core::seat::Section;
use rowlock_core::text::{InvalidText, Row};
use rowlock_core::{Command, Refusal, UserId};

use crate::support::stage::{Stage, hold_in, name, section};

fn with_tiers(count: usize) -> Command {
    let tiers = (0..count).map(|n| Tier { code: name(&format!("tier {n}")), price: 1 }).collect();
    let currency = "EUR".parse().expect("a currency");
    Command::CreateEvent { name: name("Tosca"), currency, tiers, policy: Policy::default() }
}

#[test]
fn an_event_has_so_many_tiers() {
    let mut stage = Stage::new();
    stage.run(with_tiers(1));
    stage.run(with_tiers(MAX_TIERS_PER_EVENT));
    for count in [0, MAX_TIERS_PER_EVENT + 1] {
        let refusal = stage.refused(with_tiers(count));
        assert!(matches!(refusal, Refusal::Invalid { field: "tiers", .. }), "{count}: {refusal:?}");
    }
}

#[test]
fn the_shortest_and_the_longest_policy() {
    let policy = |ttl, extension, longest| Policy {
        ttl_seconds: ttl,
        checkout_extension_seconds: extension,
        heartbeat_seconds: extension,
        max_hold_seconds: longest,
        ..Policy::default()
    };
    let most = MAX_POLICY_SECONDS;
    for good in [policy(1, 0, 1), policy(most, most, most), policy(1, most, most)] {
        assert_eq!(good.check(), Ok(()), "{good:?}");
    }
    let shorter = Policy { checkout_extension_seconds: 0, ..policy(1, most + 1, 1) };
    for bad in [policy(0, 0, 1), policy(1, most + 1, most), policy(1, 0, most + 1), policy(2, 0, 1), shorter]
    {
        assert!(bad.check().is_err(), "{bad:?}");
    }
}

fn rows(count: usize) -> Section {
    let rows = (0..count).map(|n| Row::new(&n.to_string()).expect("a row")).collect();
    Section { rows, ..section("Stalls", "gold", "A", 1).section }
}

#[test]
fn a_section_has_so_many_rows() {
    assert_eq!(rows(1).check(), Ok(1));
    assert_eq!(rows(MAX_ROWS_PER_SECTION).check(), Ok(MAX_ROWS_PER_SECTION as u32));
    assert_eq!(rows(0).check(), Err("must have between 1 and 1000 rows"));
    assert_eq!(rows(MAX_ROWS_PER_SECTION + 1).check(), Err("must have between 1 and 1000 rows"));
}

#[test]
fn a_map_reaches_so_far() {
    let change: [fn(&mut Section, f32); 4] = [
        |section, to| section.x = to,
        |section, to| section.y = to,
        |section, to| section.seat_pitch = to,
        |section, to| section.row_pitch = to,
    ];
    let check = |which: fn(&mut Section, f32), to| {
        let mut section = rows(1);
        which(&mut section, to);
        section.check().is_ok()
    };
    for which in change {
        for good in [0.0, -0.5, MAX_COORDINATE, -MAX_COORDINATE] {
            assert!(check(which, good), "{good}");
        }
        for bad in [MAX_COORDINATE + 1.0, -MAX_COORDINATE - 1.0, f32::INFINITY, f32::NAN] {
            assert!(!check(which, bad), "{bad}");
        }
    }
}

#[test]
fn seats_stand_where_the_map_says() {
    let section = Section { x: 10.0, y: 20.0, seat_pitch: 2.0, row_pitch: 8.0, last_number: 3, ..rows(3) };
    let places: Vec<(u32, f32, f32)> = section.places().map(|seat| (seat.number, seat.x, seat.y)).collect();
    assert_eq!(places[..4], [(1, 10.0, 20.0), (2, 12.0, 20.0), (3, 14.0, 20.0), (1, 10.0, 28.0)]);
    assert_eq!(places[8], (3, 14.0, 36.0));
    assert_eq!(places.len(), 9);
}

/// As many characters as may be, each as long as one can be.
#[test]
fn the_longest_text_is_taken() {
    assert!(UserId::new(&"🎭".repeat(128)).is_ok());
    assert_eq!(UserId::new(&"🎭".repeat(129)), Err(InvalidText::TooLong { max: 128 }));
}

#[test]
fn a_request_has_so_many_sections() {
    let mut stage = Stage::new();
    let create = |count: usize| {
        let sections = (0..count).map(|n| section("Circle", "gold", &format!("R{n}"), 1)).collect();
        Command::CreateSeats { event: stage.event, sections }
    };
    let (most, more) = (create(MAX_SECTIONS_PER_CREATE), create(MAX_SECTIONS_PER_CREATE + 1));
    let refusal = stage.refused(more);
    assert!(matches!(refusal, Refusal::Invalid { field: "sections", .. }), "{refusal:?}");
    stage.run(most);
}

#[test]
fn so_many_seats_of_a_block_can_be_asked_for() {
    let mut stage = Stage::new();
    let most = MAX_SEATS_PER_HOLD as u32;
    let sections = vec![section("Circle", "gold", "A", most + 1)];
    stage.run(Command::CreateSeats { event: stage.event, sections });
    let block = stage.world.rows.events[&stage.event].blocks[1].id;
    let any = |quantity| {
        let mut places = stage.places("ann", "cart", &[], 0);
        places.blocks = vec![(block, quantity)];
        Command::Hold(places)
    };
    let (fits, beyond) = (any(most), any(most + 1));
    let refusal = stage.refused(beyond);
    assert!(matches!(refusal, Refusal::Invalid { field: "quantity", .. }), "{refusal:?}");
    assert_eq!(hold_in(&stage.run(fits)).hold.places(), most);
}

/// Two sections of one request that share a place: nobody has it yet, so only the kernel can see it.
#[test]
fn a_request_names_no_place_twice() {
    let mut stage = Stage::new();
    let from = |block, first, last| {
        let mut new = section(block, "gold", "Z", 1);
        (new.section.first_number, new.section.last_number) = (first, last);
        new
    };
    let create = |sections| Command::CreateSeats { event: stage.event, sections };
    let apart = create(vec![from("Stalls", 1, 3), from("Circle", 1, 3), from("Circle", 4, 5)]);
    let twice = create(vec![from("Stalls", 1, 3), from("Circle", 1, 3), from("Circle", 3, 5)]);
    assert_eq!(stage.refused(twice), Refusal::PlaceTaken { place: "Circle Z-3".to_owned() });
    stage.run(apart);
}

#[test]
fn answers_are_kept_for_a_day() {
    assert_eq!(IDEMPOTENCY_TTL_MILLIS, 86_400_000);
}
