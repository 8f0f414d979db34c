//! Making orgs, keys, events, blocks, seats and areas.

use rowlock_core::area::Area;
use rowlock_core::event::Tier;
use rowlock_core::limits::{MAX_AREA_CAPACITY, MAX_PRICE_MINOR, MAX_TIERS_PER_EVENT};
use rowlock_core::org::{Scope, Scopes};
use rowlock_core::outcome::SeatsCreated;
use rowlock_core::policy::Policy;
use rowlock_core::{Command, EventId, Fact, KeyId, OrgId, Outcome, Refusal, SeatId};

use crate::support::START;
use crate::support::stage::{Stage, kinds, name, section, tiers, to_create_event};

fn invalid(field: &'static str, rule: &str) -> Refusal {
    Refusal::Invalid { field, rule: rule.to_owned() }
}

fn nobody() -> OrgId {
    OrgId::from_uuid(uuid::Uuid::nil())
}

#[test]
fn an_org_is_made() {
    let mut stage = Stage::new();
    let done = stage.run(Command::CreateOrg { name: name("Opera") });
    let Outcome::Org(org) = &done.outcome else { panic!("{:?}", done.outcome) };
    assert_eq!((org.name.as_str(), org.created_at), ("Opera", START));
    assert_eq!(done.facts.as_slice(), [Fact::OrgCreated(org.clone())]);
    assert_eq!(stage.world.rows.orgs[&org.id], *org);
}

#[test]
fn a_key_is_made_and_revoked_once() {
    let mut stage = Stage::new();
    let scopes: Scopes = [Scope::Hold].into_iter().collect();
    let create = |scopes| Command::CreateApiKey { name: name("web"), scopes, secret_hash: [7; 32] };
    let done = stage.run(create(scopes));
    let Outcome::ApiKey(key) = done.outcome else { panic!("a key") };
    assert_eq!((key.org, key.scopes, key.secret_hash, key.revoked_at), (stage.org, scopes, [7; 32], None));
    stage.world.wait_seconds(5);
    let done = stage.run(Command::RevokeApiKey { key: key.id });
    let Outcome::ApiKey(revoked) = done.outcome else { panic!("a key") };
    assert_eq!((revoked.revoked_at, kinds_of(&done.facts)), (Some(stage.now()), vec!["API-KEY-REVOKED"]));
    assert_eq!(stage.world.rows.keys[&key.id], *revoked);
    stage.world.wait_seconds(5);
    assert_eq!(stage.idle(Command::RevokeApiKey { key: key.id }).outcome, Outcome::ApiKey(revoked));

    let refusal = stage.refused(create(Scopes::default()));
    assert_eq!(refusal, invalid("scopes", "must name at least one scope"));
    assert_eq!(stage.refused_for(nobody(), create(scopes)), Refusal::UnknownOrg { org: nobody() });
    let key = KeyId::from_uuid(uuid::Uuid::nil());
    assert_eq!(stage.refused(Command::RevokeApiKey { key }), Refusal::UnknownKey { key });
}

fn kinds_of(facts: &[Fact]) -> Vec<&'static str> {
    facts.iter().map(Fact::kind).collect()
}

#[test]
fn an_event_is_made_with_its_tiers_and_policy() {
    let mut stage = Stage::new();
    let policy = Policy { seats_per_user: Some(4), ..Policy::default() };
    let done = stage.run(to_create_event(policy.clone()));
    let Outcome::Event(event) = &done.outcome else { panic!("an event") };
    assert_eq!((event.org, &event.policy, &event.tiers), (stage.org, &policy, &tiers()));
    assert_eq!((event.created_at, kinds(&done)), (START, vec!["EVENT-CREATED"]));
    let row = &stage.world.rows.events[&event.id];
    assert_eq!((&row.event, row.seat_count, row.blocks.len(), row.areas.len()), (&**event, 0, 0, 0));
    let command = to_create_event(policy);
    assert_eq!(stage.refused_for(nobody(), command), Refusal::UnknownOrg { org: nobody() });
}

#[test]
fn an_event_with_bad_tiers_or_policy_is_refused() {
    let mut stage = Stage::new();
    let tier = |code: &str, price| Tier { code: name(code), price };
    let many = |n: usize| (0..n).map(|i| tier(&format!("t{i}"), 1)).collect::<Vec<_>>();
    let count = invalid("tiers", "must have between 1 and 32 tiers");
    let price = invalid("tiers", "must have prices between 0 and 1000000000000");
    for (tiers, refusal) in [
        (vec![], count.clone()),
        (many(MAX_TIERS_PER_EVENT + 1), count),
        (vec![tier("a", -1)], price.clone()),
        (vec![tier("a", MAX_PRICE_MINOR + 1)], price.clone()),
        (vec![tier("a", i64::MAX)], price),
        (vec![tier("a", 1), tier("a", 2)], invalid("tiers", "must have different codes")),
    ] {
        let currency = "EUR".parse().expect("a currency");
        let policy = Policy::default();
        let command = Command::CreateEvent { name: name("Hamlet"), currency, tiers, policy };
        assert_eq!(stage.refused(command), refusal);
    }
    let policy = Policy { max_hold_seconds: 10, ..Policy::default() };
    let refusal = stage.refused(to_create_event(policy));
    assert_eq!(refusal, invalid("policy.max_hold_seconds", "must be at least ttl_seconds"));
}

#[test]
fn a_block_has_a_name_of_its_own() {
    let mut stage = Stage::new();
    let command = |called: &str| Command::CreateBlock { event: stage.event, name: name(called) };
    let (circle, stalls) = (command("Circle"), command("Stalls"));
    let done = stage.run(circle.clone());
    let Outcome::Block(block) = &done.outcome else { panic!("a block") };
    assert_eq!((block.event, block.name.as_str()), (stage.event, "Circle"));
    assert_eq!(kinds(&done), ["BLOCK-CREATED"]);
    assert_eq!(stage.world.rows.events[&stage.event].blocks.len(), 2);
    assert_eq!(stage.refused(circle), Refusal::NameTaken { name: name("Circle") });
    // Made with the seats of the stage.
    assert_eq!(stage.refused(stalls), Refusal::NameTaken { name: name("Stalls") });
}

#[test]
fn seats_continue_the_ordinals_and_make_the_blocks_they_need() {
    let mut stage = Stage::new();
    let sections = vec![
        section("Stalls", "gold", "C", 2),
        section("Box", "silver", "A", 3),
        section("Box", "gold", "B", 1),
    ];
    let event = stage.event;
    let done = stage.run(Command::CreateSeats { event, sections });
    assert_eq!(kinds(&done), ["BLOCK-CREATED", "SEATS-CREATED"]);
    let Outcome::Seats(SeatsCreated { first_ordinal, count, blocks, .. }) = &done.outcome else {
        panic!("seats")
    };
    assert_eq!((*first_ordinal, *count), (12, 6));
    assert_eq!(blocks.iter().map(|block| block.name.as_str()).collect::<Vec<_>>(), ["Stalls", "Box"]);
    let row = &stage.world.rows.events[&event];
    assert_eq!((row.seat_count, &row.blocks), (18, blocks));
    let tiers: Vec<u8> = (12..18).map(|n| stage.world.rows.seats[&SeatId::of(event, n)].value.tier).collect();
    assert_eq!(tiers, [0, 0, 1, 1, 1, 0]);
    let Fact::SeatsCreated(added) = &done.facts[1] else { panic!("{:?}", done.facts) };
    // The fact carries the block's id and the tier's index, whatever the request said.
    assert_eq!(added.sections.iter().map(|s| s.tier).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(
        added.sections.iter().map(|s| s.block).collect::<Vec<_>>(),
        [blocks[0].id, blocks[1].id, blocks[1].id]
    );
    stage.hold("ann", "cart", &[12, 17], 0);
}

#[test]
fn seats_that_cannot_be_made_leave_no_block_behind() {
    let mut stage = Stage::new();
    let event = stage.event;
    let good = section("New", "gold", "A", 1);
    let twisted = section("New", "gold", "B", 0);
    let rule = "must have between 1 and 100000 seats, its first number not above its last";
    let untiered = section("New", "bronze", "B", 1);
    for (sections, refusal) in [
        (vec![], invalid("sections", "must be between 1 and 500 sections")),
        (vec![good.clone(); 501], invalid("sections", "must be between 1 and 500 sections")),
        (vec![good.clone(), twisted], invalid("sections", rule)),
        (vec![good.clone(), untiered], Refusal::UnknownTier { tier: name("bronze") }),
    ] {
        assert_eq!(stage.refused(Command::CreateSeats { event, sections }), refusal);
    }
    let event = EventId::from_uuid(uuid::Uuid::nil());
    let refusal = stage.refused(Command::CreateSeats { event, sections: vec![good] });
    assert_eq!(refusal, Refusal::UnknownEvent { event });
}

#[test]
fn an_area_has_a_capacity_a_tier_and_a_name_of_its_own() {
    let mut stage = Stage::new();
    let event = stage.event;
    let create = |called: &str, tier: &str, capacity| Command::CreateArea {
        event,
        name: name(called),
        tier: name(tier),
        capacity,
    };
    let done = stage.run(create("Lawn", "silver", 7));
    let Outcome::Area(area) = &done.outcome else { panic!("an area") };
    let expected = Area { id: area.id, event, name: name("Lawn"), tier: 1, capacity: 7, held: 0, sold: 0 };
    assert_eq!((&**area, kinds(&done)), (&expected, vec!["AREA-CREATED"]));
    assert_eq!(stage.world.rows.areas[&area.id].value, expected);
    assert_eq!(stage.refused(create("Lawn", "gold", 1)), Refusal::NameTaken { name: name("Lawn") });
    assert_eq!(stage.refused(create("Hill", "wood", 1)), Refusal::UnknownTier { tier: name("wood") });
    for capacity in [0, MAX_AREA_CAPACITY + 1, u32::MAX] {
        let refusal = stage.refused(create("Hill", "gold", capacity));
        assert_eq!(refusal, invalid("capacity", "must be between 1 and 1000000"));
    }
}

#[test]
fn facts_name_their_stream() {
    use rowlock_core::Stream;
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 1);
    stage.confirm(hold.id, "ann");
    let (org, event) = (Stream::Org(stage.org), Stream::Event(stage.event));
    let streams: Vec<Stream> = stage.world.journal.iter().map(Fact::stream).collect();
    // The org itself, then the event with its block, seats and two areas, then the hold and its end.
    assert_eq!(streams[0], org);
    assert_eq!(streams[1..], vec![event; 8]);
    assert_eq!((org.bytes(), event.bytes()), (stage.org.as_bytes(), stage.event.as_bytes()));
}
