//! One effect per idempotency key.

use std::sync::Arc;

use rowlock_core::decide::Executed;
use rowlock_core::{Actor, Command, IdempotencyKey, KeyId, Refusal, Request};

use crate::support::request;
use crate::support::stage::{Stage, confirm, hold_in, new_org, release, user};

fn keyed(stage: &Stage, command: Command, key: &str, body: u8) -> Request {
    let idempotency = Some(IdempotencyKey { key: Arc::from(key), fingerprint: [body; 16] });
    Request { idempotency, actor: Actor::User(user("ann")), ..request(stage.org, command) }
}

#[track_caller]
fn replayed(stage: &mut Stage, request: Request) -> Executed {
    let before = stage.snapshot();
    let done = stage.world.send(request).expect("a replay");
    assert!(done.replayed && done.facts.is_empty() && stage.snapshot() == before);
    done
}

#[test]
fn the_same_request_gets_the_same_answer_and_has_no_second_effect() {
    let mut stage = Stage::new();
    let request = keyed(&stage, stage.to_hold("ann", "cart", &[0], 2), "k", 1);
    let first = stage.world.send(request.clone()).expect("a hold");
    assert!(!first.replayed && !first.facts.is_empty());
    assert_eq!(replayed(&mut stage, request.clone()).outcome, first.outcome);
    // The answer is what was answered then, whatever has happened since.
    let hold = hold_in(&first).hold;
    stage.run(release(hold.id, "ann", vec![]));
    stage.hold("bob", "cart", &[0], 0);
    assert_eq!(replayed(&mut stage, request).outcome, first.outcome);
}

#[test]
fn every_verb_is_recorded() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 1);
    let commands = [
        Command::StartCheckout { hold: hold.id, user: user("ann") },
        Command::Heartbeat { hold: hold.id, user: user("ann") },
        Command::BlockSeats { event: stage.event, seats: stage.seat_ids(&[5]) },
        Command::UnblockSeats { event: stage.event, seats: stage.seat_ids(&[5]) },
        confirm(hold.id, "ann"),
        stage.to_book("ann", &[], 1),
    ];
    for (n, command) in commands.into_iter().enumerate() {
        let request = keyed(&stage, command, &format!("key-{n}"), 1);
        let first = stage.world.send(request.clone()).expect("not refused");
        assert_eq!(replayed(&mut stage, request).outcome, first.outcome);
    }
    assert_eq!(stage.world.rows.bookings.len(), 2);
}

#[test]
fn an_answer_without_effect_is_recorded_too() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0);
    let request = keyed(&stage, stage.to_hold("ann", "cart", &[0], 0), "k", 1);
    let first = stage.world.send(request.clone()).expect("the same hold");
    assert_eq!((&*hold_in(&first).hold, first.facts.len()), (&hold, 0));
    assert_eq!(replayed(&mut stage, request).outcome, first.outcome);
}

#[test]
fn another_body_under_the_same_key_is_refused() {
    let mut stage = Stage::new();
    let first = keyed(&stage, stage.to_hold("ann", "cart", &[0], 0), "k", 1);
    stage.world.send(first).expect("a hold");
    let before = stage.snapshot();
    let other = keyed(&stage, stage.to_hold("ann", "cart", &[1], 0), "k", 2);
    assert_eq!(stage.world.send(other).expect_err("another body"), Refusal::KeyReused);
    assert!(stage.snapshot() == before);
}

#[test]
fn keys_of_other_actors_and_orgs_are_other_keys() {
    let mut stage = Stage::new();
    let first = keyed(&stage, stage.to_hold("ann", "cart", &[0], 0), "k", 1);
    stage.world.send(first.clone()).expect("a hold");
    let key = KeyId::from_uuid(uuid::Uuid::nil());
    for actor in [Actor::User(user("bob")), Actor::Key(key), Actor::System] {
        let same_key = Request { actor, ..first.clone() };
        assert!(!stage.world.send(same_key).expect("the same hold").replayed);
    }
    // Another org does not even learn that the key is in use.
    let org = new_org(&mut stage.world, "Other house");
    let foreign = Request { org, ..first };
    let event = stage.event;
    assert_eq!(stage.world.send(foreign).expect_err("no such event"), Refusal::UnknownEvent { event });
}

#[test]
fn a_refusal_is_not_recorded_and_the_key_may_be_tried_again() {
    let mut stage = Stage::new();
    let bobs = stage.hold("bob", "cart", &[0], 0);
    let request = keyed(&stage, stage.to_hold("ann", "cart", &[0], 0), "k", 1);
    let before = stage.snapshot();
    stage.world.send(request.clone()).expect_err("taken");
    assert!(stage.snapshot() == before);
    stage.run(release(bobs.id, "bob", vec![]));
    assert!(!stage.world.send(request).expect("free now").replayed);
    // Not even another body is bound by what was refused.
    let refused = keyed(&stage, stage.to_hold("ann", "cart", &[99], 0), "k2", 1);
    stage.world.send(refused).expect_err("unknown");
    let other = keyed(&stage, stage.to_hold("ann", "cart", &[1], 0), "k2", 2);
    stage.world.send(other).expect("a new start");
}

#[test]
fn a_repeat_within_one_batch_is_a_replay() {
    let mut stage = Stage::new();
    let request = keyed(&stage, stage.to_book("ann", &[], 1), "k", 1);
    let reused = keyed(&stage, stage.to_book("ann", &[], 2), "k", 2);
    let answers = stage.world.batch(&[request.clone(), request, reused]).expect("no conflict");
    let [Ok(first), Ok(second), Err(third)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((first.replayed, second.replayed, third), (false, true, &Refusal::KeyReused));
    assert_eq!(first.outcome, second.outcome);
    assert_eq!(stage.world.rows.bookings.len(), 1);
}

#[test]
fn without_a_key_nothing_is_recorded() {
    let mut stage = Stage::new();
    stage.book("ann", &[], 1);
    stage.book("ann", &[], 1);
    assert_eq!((stage.world.rows.bookings.len(), stage.world.rows.records.len()), (2, 0));
}
