//! What one buyer does after another.

use rowlock_core::booking::BookingStatus;
use rowlock_core::hold::HoldStatus;
use rowlock_core::{Command, Fact, Refusal};

use super::Backend;
use super::stage::{SEAT_PRICE, Setup, Stage, booking_of, changed, hold_of};

pub async fn lifecycle<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let places = stage.places("ann", &[0, 1], &[(stage.areas[0], 3)]);
    let committed = stage.one(stage.request(Command::Hold(places.clone()))).await.expect("a hold");
    let hold = hold_of(&committed);
    assert!(changed(&committed) && !committed.replayed);
    assert!(matches!(&committed.facts[..], [(_, Fact::HoldCreated(created))] if **created == hold));
    assert_eq!(hold.expires_at, hold.created_at.plus_seconds(900));
    assert_eq!(stage.stored(hold.id).await, hold);
    assert_eq!((stage.map().await[..4].to_owned(), stage.area().await), ("hh..".into(), (3, 0)));

    let again = stage.one(stage.request(Command::Hold(places))).await.expect("the same hold");
    assert!(!changed(&again) && again.facts.is_empty() && hold_of(&again) == hold);

    let moved = stage.held(stage.checkout("ann", hold.id)).await;
    assert_eq!(moved.expires_at, hold.expires_at.plus_seconds(300));
    let moved = stage.held(stage.heartbeat("ann", hold.id)).await;
    assert_eq!(stage.stored(hold.id).await, moved);
    assert_eq!(stage.refused(stage.confirm("bob", hold.id)).await, Refusal::NotOwner);

    let committed = stage.one(stage.confirm("ann", hold.id)).await.expect("a booking");
    let booking = booking_of(&committed);
    assert!(matches!(&committed.facts[..], [(a, _), (b, _)] if a + 1 == *b));
    assert_eq!((booking.tickets.len(), booking.total()), (5, moved.total()));
    assert_eq!(stage.truth.booking(booking.id).await.expect("a read"), Some(booking.clone()));
    assert_eq!(stage.stored(hold.id).await.status, HoldStatus::Converted);
    assert_eq!((stage.map().await[..4].to_owned(), stage.area().await), ("SS..".into(), (0, 3)));

    let again = stage.one(stage.confirm("ann", hold.id)).await.expect("the same booking");
    assert!(!changed(&again) && booking_of(&again) == booking);
    let taken = stage.refused(stage.hold("bob", &[1, 2])).await;
    assert_eq!(taken, Refusal::SeatsTaken { seats: stage.seats(&[1]) });
    stage.assert_clean().await;
}

pub async fn cancelled_booking_returns_its_seats_once<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let places = stage.places("office", &[3, 4], &[(stage.areas[0], 2)]);
    let book = Command::Book { places, payment_reference: None };
    let booking = stage.booked(stage.request(book)).await;
    assert_eq!((stage.map().await[3..5].to_owned(), stage.area().await), ("SS".into(), (0, 2)));

    let cancelled = stage.booked(stage.cancel(booking.id)).await;
    assert_eq!(cancelled.status, BookingStatus::Cancelled);
    assert_eq!(stage.truth.booking(booking.id).await.expect("a read"), Some(cancelled.clone()));
    assert_eq!((stage.map().await[3..5].to_owned(), stage.area().await), ("..".into(), (0, 0)));

    // The seat is another's by the time the booking is cancelled again: that must not touch it.
    let next = stage.held(stage.hold("bob", &[3])).await;
    let again = stage.one(stage.cancel(booking.id)).await.expect("cancelled already");
    assert!(!changed(&again) && again.facts.is_empty());
    assert_eq!(&stage.map().await[3..5], "h.");
    stage.booked(stage.confirm("bob", next.id)).await;
    assert_eq!(stage.kinds("BOOKING-CANCELLED").await, 1);
    stage.assert_clean().await;
}

pub async fn all_or_nothing<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    stage.held(stage.hold("ann", &[5])).await;
    stage.held(stage.hold_area("ann", 8)).await;
    let taken = stage.refused(stage.hold("bob", &[4, 5, 6])).await;
    assert_eq!(taken, Refusal::SeatsTaken { seats: stage.seats(&[5]) });
    let too_many = stage.places("bob", &[4], &[(stage.areas[0], 3)]);
    let full = stage.refused(stage.request(Command::Hold(too_many))).await;
    assert_eq!(full, Refusal::AreaFull { area: stage.areas[0], requested: 3, left: 2 });
    let unknown = stage.refused(stage.hold("bob", &[4, 4_000])).await;
    assert_eq!(unknown, Refusal::UnknownSeats { seats: stage.seats(&[4_000]) });
    assert_eq!((stage.map().await[4..7].to_owned(), stage.area().await), (".h.".into(), (8, 0)));
    assert_eq!(stage.kinds("SEAT-HOLD-CREATED").await, 2);
    stage.assert_clean().await;
}

pub async fn part_of_a_hold_can_be_released<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let hold = stage.held(stage.hold("ann", &[0, 1, 2])).await;
    let left = stage.held(stage.release("ann", hold.id, &[1])).await;
    assert_eq!((left.status, left.places(), left.total()), (HoldStatus::Active, 2, 2 * SEAT_PRICE));
    assert_eq!(stage.stored(hold.id).await, left);
    assert_eq!(&stage.map().await[..3], "h.h");
    stage.assert_clean().await;

    let again = stage.one(stage.release("ann", hold.id, &[1])).await.expect("released already");
    assert!(!changed(&again));
    stage.held(stage.hold("bob", &[1])).await;
    let ended = stage.held(stage.release("ann", hold.id, &[0, 2])).await;
    assert_eq!(ended.status, HoldStatus::Cancelled);
    assert_eq!(&stage.map().await[..3], ".h.");
    let again = stage.one(stage.release("ann", hold.id, &[])).await.expect("released already");
    assert!(!changed(&again) && again.facts.is_empty());
    assert_eq!(stage.kinds("SEAT-HOLD-CANCELLED").await, 2);
    stage.assert_clean().await;
}

pub async fn one_cart_is_one_hold<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let first = stage.held(stage.hold("ann", &[0])).await;
    let grown = stage.held(stage.hold("ann", &[1])).await;
    assert_eq!((grown.id, grown.expires_at), (first.id, first.expires_at));
    let other = stage.held(stage.hold_in_cart("ann", "gifts", &[2])).await;
    assert_ne!(other.id, first.id);

    // Two commands of one batch that both open the same cart make one hold of it.
    let batch = vec![stage.hold("bob", &[3]), stage.hold("bob", &[4])];
    let holds: Vec<_> =
        stage.truth.commit(batch).await.into_iter().map(|r| hold_of(&r.expect("a hold"))).collect();
    assert_eq!(holds[0].id, holds[1].id);
    assert_eq!(stage.stored(holds[0].id).await.seats.len(), 2);

    // A cart whose hold has ended can be used again.
    stage.held(stage.release("bob", holds[0].id, &[])).await;
    let next = stage.held(stage.hold("bob", &[4])).await;
    assert_ne!(next.id, holds[0].id);
    stage.assert_clean().await;
}

pub async fn blocked_seats_are_not_for_sale<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    stage.held(stage.hold("ann", &[2])).await;
    let block =
        |seats: &[u32]| stage.request(Command::BlockSeats { event: stage.event, seats: stage.seats(seats) });
    let taken = stage.refused(block(&[0, 2])).await;
    assert_eq!(taken, Refusal::SeatsTaken { seats: stage.seats(&[2]) });
    stage.one(block(&[0, 1])).await.expect("blocked");
    assert_eq!(&stage.map().await[..3], "xxh");
    let blocked = stage.refused(stage.hold("bob", &[1])).await;
    assert_eq!(blocked, Refusal::SeatsBlocked { seats: stage.seats(&[1]) });
    let unblock = Command::UnblockSeats { event: stage.event, seats: stage.seats(&[1, 2]) };
    stage.one(stage.request(unblock)).await.expect("unblocked");
    assert_eq!(&stage.map().await[..3], "x.h");
    stage.held(stage.hold("bob", &[1])).await;
    stage.assert_clean().await;
}

pub async fn areas_never_exceed_their_capacity<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let hold = stage.held(stage.hold_area("ann", 4)).await;
    let grown = stage.held(stage.hold_area("ann", 6)).await;
    assert_eq!((grown.id, stage.area().await), (hold.id, (grown.places(), 0)));
    let left = 10 - grown.places();
    let full = stage.refused(stage.hold_area("bob", left + 1)).await;
    assert_eq!(full, Refusal::AreaFull { area: stage.areas[0], requested: left + 1, left });
    stage.booked(stage.confirm("ann", hold.id)).await;
    assert_eq!(stage.area().await, (0, grown.places()));
    stage.refused(stage.hold_area("bob", left + 1)).await;
    // Numbers that no honest client sends are refused like any other.
    let huge = stage.places("eve", &[], &[(stage.areas[0], u32::MAX), (stage.areas[0], u32::MAX)]);
    let refusal = stage.refused(stage.request(Command::Hold(huge))).await;
    assert!(matches!(refusal, Refusal::Invalid { field: "areas", .. }), "{refusal:?}");
    stage.assert_clean().await;
}
