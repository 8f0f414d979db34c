//! What is written and read by name.

use rowlock_core::booking::BookingStatus;
use rowlock_core::hold::{HoldStatus, Source};
use rowlock_core::org::{Scope, Scopes};
use rowlock_core::seat::SeatStatus;
use rowlock_core::{Actor, BookingId, Command, KeyId};
use serde::Serialize;
use uuid::Uuid;

use crate::support::stage::{Stage, cancel, checkout, confirm, expire, heartbeat, release, user};

/// The word that people see is the one that is stored.
fn same<T: Copy + Serialize>(all: &[T], word: fn(T) -> &'static str) {
    for one in all {
        assert_eq!(serde_json::to_value(one).expect("a word"), word(*one));
    }
}

#[test]
fn words_are_the_same_everywhere() {
    same(&HoldStatus::ALL, HoldStatus::as_str);
    same(&BookingStatus::ALL, BookingStatus::as_str);
    same(&SeatStatus::ALL, SeatStatus::as_str);
    same(&Source::ALL, Source::as_str);
    for scope in Scope::ALL {
        assert_eq!(scope.to_string(), scope.as_str());
        assert_eq!(scope.as_str().parse(), Ok(scope));
        let only: Scopes = [scope].into_iter().collect();
        assert_eq!(only.iter().collect::<Vec<_>>(), [scope]);
        assert_eq!(serde_json::to_value(only).expect("words"), serde_json::json!([scope.as_str()]));
    }
}

#[test]
fn a_scope_that_is_named_twice_is_there_once() {
    let twice: Scopes = [Scope::Hold, Scope::Hold].into_iter().collect();
    assert!(twice.has(Scope::Hold) && !twice.has(Scope::Read) && !twice.is_empty());
    assert!(Scopes::all().covers(twice) && !twice.covers(Scopes::all()));
}

#[test]
fn an_actor_is_written_with_its_kind() {
    let id = Uuid::from_u128(7);
    assert_eq!(Actor::User(user("ann")).to_string(), "user:ann");
    assert_eq!(Actor::Key(KeyId::from_uuid(id)).to_string(), format!("key:{id}"));
    assert_eq!(Actor::System.to_string(), "system");
}

#[test]
fn a_reference_is_ten_letters_from_the_end_of_the_id() {
    let mut booking = Stage::new().book("ann", &[0], 0);
    let bits = (0..10u128).fold(0, |bits, i| bits | (i + 10) << (5 * i));
    booking.id = BookingId::from_uuid(Uuid::from_u128(bits));
    assert_eq!(booking.reference(), "ABCDE-FGHJK");
    // What is before those fifty bits does not show.
    booking.id = BookingId::from_uuid(Uuid::from_u128(bits | u128::MAX << 50));
    assert_eq!(booking.reference(), "ABCDE-FGHJK");
}

/// Which event and which hold a command names: the store loads rows by this.
#[test]
fn a_command_says_what_it_is_about() {
    let mut stage = Stage::new();
    let (event, seats) = (stage.event, stage.seat_ids(&[1]));
    let hold = stage.hold("ann", "cart", &[0], 0).id;
    let (wish, sale) = (stage.to_hold("ann", "cart", &[1], 0), stage.to_book("ann", &[1], 0));
    for command in [&wish, &sale] {
        assert_eq!(command.places().map(|places| &places.seats), Some(&seats));
        assert_eq!((command.event(), command.hold()), (Some(event), None));
    }
    let name = rowlock_core::Name::new("gold").expect("a name");
    for command in [
        Command::CreateBlock { event, name: name.clone() },
        Command::CreateSeats { event, sections: vec![] },
        Command::CreateArea { event, name: name.clone(), tier: name, capacity: 1 },
        Command::BlockSeats { event, seats: seats.clone() },
        Command::UnblockSeats { event, seats: seats.clone() },
    ] {
        assert_eq!((command.event(), command.hold()), (Some(event), None), "{command:?}");
        assert_eq!(command.places(), None);
    }
    for command in [
        checkout(hold, "ann"),
        heartbeat(hold, "ann"),
        release(hold, "ann", vec![]),
        confirm(hold, "ann"),
        expire(hold),
    ] {
        assert_eq!((command.event(), command.hold()), (None, Some(hold)), "{command:?}");
        assert_eq!(command.places(), None);
    }
    let other = cancel(BookingId::from_uuid(Uuid::nil()), None);
    assert_eq!((other.event(), other.hold(), other.places()), (None, None, None));
}
