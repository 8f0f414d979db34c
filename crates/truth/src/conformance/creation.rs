//! Making events, and keeping orgs apart.

use rowlock_core::{Command, Outcome, Refusal};

use super::Backend;
use super::stage::{Setup, Stage, create_org, furnish, hold_of, name, new_event, request, section};
use crate::{Failure, MAX_BATCH};

/// Far more events than a store is likely to keep in memory, hundreds of them in each batch.
pub async fn one_batch_over_many_events<B: Backend>(backend: &B) {
    let truth = backend.open().await;
    let org = create_org(&*truth, "Many events").await;
    let setup = Setup { rows: 1, areas: vec![], ..Setup::default() };
    let mut stages = Vec::new();
    for _ in 0..9 {
        let wanted = (0..MAX_BATCH).map(|_| new_event(org, "Event", setup.policy.clone())).collect();
        for made in truth.commit(wanted).await {
            let Outcome::Event(event) = made.expect("an event").outcome else { panic!("not an event") };
            stages.push(Stage { truth: truth.clone(), org, event: event.id, areas: vec![] });
        }
    }
    for some in stages.chunks(MAX_BATCH) {
        let seats = some.iter().flat_map(|stage| furnish(org, stage.event, &setup)).collect();
        for made in truth.commit(seats).await {
            made.expect("seats");
        }
    }
    for some in stages.chunks(MAX_BATCH) {
        let holds = truth.commit(some.iter().map(|stage| stage.hold("ann", &[9])).collect()).await;
        for (stage, result) in some.iter().zip(holds) {
            assert_eq!(hold_of(&result.expect("a hold")).event, stage.event);
        }
    }
    assert_eq!(stages[MAX_BATCH - 1].map().await, ".........h");
    stages[0].assert_clean().await;
}

/// A request that is repeated without a key must not put a second seat in every place.
pub async fn one_place_is_one_seat<B: Backend>(backend: &B) {
    let truth = backend.open().await;
    let stage = Stage::new(truth, Setup { rows: 4, ..Setup::default() }).await;
    let create = |sections| stage.request(Command::CreateSeats { event: stage.event, sections });
    let taken = |place: &str| Refusal::PlaceTaken { place: place.to_owned() };
    assert_eq!(stage.refused(create(vec![section("left", 1..2, 10)])).await, taken("left R1-1"));
    assert_eq!(
        stage.refused(create(vec![section("left", 8..9, 5), section("right", 3..4, 1)])).await,
        taken("right R3-1")
    );
    // Twice in one request, in a block that is not there yet.
    let twice = vec![section("new", 0..2, 5), section("new", 1..3, 5)];
    assert_eq!(stage.refused(create(twice)).await, taken("new R1-1"));
    assert_eq!(stage.map().await.len(), 40);
    // Two at once: one of them wins.
    let both = vec![create(vec![section("left", 8..9, 5)]), create(vec![section("left", 8..9, 5)])];
    let made = stage.truth.commit(both).await.into_iter().filter(Result::is_ok).count();
    assert_eq!((made, stage.map().await.len()), (1, 45));
    // Whoever is in one batch with somebody who wants a place that is taken does not want it.
    let taken_and_free =
        vec![create(vec![section("left", 1..2, 10)]), create(vec![section("right", 8..9, 5)])];
    let results = stage.truth.commit(taken_and_free).await;
    assert!(matches!(&results[0], Err(Failure::Refused(refusal)) if *refusal == taken("left R1-1")));
    assert!(results[1].is_ok(), "{:?}", results[1]);
    assert_eq!(stage.map().await.len(), 50);
    // Too many seats are refused for their number, before anybody looks where they would stand.
    let many = (0..101).map(|_| section("left", 0..1000, 1)).collect();
    assert!(matches!(stage.refused(create(many)).await, Refusal::Invalid { field: "sections", .. }));
    stage.assert_clean().await;
}

/// Ids are made of numbers, and numbers can be made up. However a store packs them, a seat that an event does not have
/// must not turn out to be one of another event.
pub async fn seats_beyond_an_event_are_nobodys<B: Backend>(backend: &B) {
    let truth = backend.open().await;
    let ours = Stage::new(truth.clone(), Setup::default()).await;
    let theirs = Stage::new(truth.clone(), Setup::default()).await;
    let beyond = (0..32).map(|bit| 1u32 << bit).filter(|ordinal| *ordinal >= 40);
    for ordinal in beyond.flat_map(|ordinal| [ordinal, ordinal | 3]).chain([40, u32::MAX]) {
        let unknown = Refusal::UnknownSeats { seats: ours.seats(&[ordinal]) };
        assert_eq!(ours.refused(ours.hold("ann", &[ordinal])).await, unknown);
        let block = Command::BlockSeats { event: ours.event, seats: ours.seats(&[ordinal]) };
        assert_eq!(ours.refused(ours.request(block)).await, unknown);
    }
    assert_eq!(theirs.map().await, ".".repeat(40));
    theirs.assert_clean().await;
}

pub async fn another_orgs_things_do_not_exist<B: Backend>(backend: &B) {
    let truth = backend.open().await;
    let ours = Stage::new(truth.clone(), Setup::default()).await;
    let theirs = Stage::new(truth.clone(), Setup::default()).await;
    let hold = ours.held(ours.hold("ann", &[0])).await;
    let booking = ours.booked(ours.confirm("ann", hold.id)).await;
    let as_them = |mut request: rowlock_core::Request| {
        request.org = theirs.org;
        request
    };
    let unknown_event = Refusal::UnknownEvent { event: ours.event };
    assert_eq!(ours.refused(as_them(ours.hold("ann", &[1]))).await, unknown_event);
    let block = Command::BlockSeats { event: ours.event, seats: ours.seats(&[1]) };
    assert_eq!(ours.refused(as_them(ours.request(block))).await, unknown_event);
    let unknown_hold = Refusal::UnknownHold { hold: hold.id };
    assert_eq!(ours.refused(as_them(ours.confirm("ann", hold.id))).await, unknown_hold);
    assert_eq!(ours.refused(as_them(ours.release("ann", hold.id, &[]))).await, unknown_hold);
    let unknown_booking = Refusal::UnknownBooking { booking: booking.id };
    assert_eq!(ours.refused(as_them(ours.cancel(booking.id))).await, unknown_booking);
    // Nor does a seat or an area of one event exist in another.
    let stranger = theirs.places("ann", &[0], &[(ours.areas[0], 1)]);
    let refusal = theirs.refused(theirs.request(Command::Hold(stranger))).await;
    assert_eq!(refusal, Refusal::UnknownArea { area: ours.areas[0] });
    let mut stranger = theirs.places("ann", &[], &[]);
    stranger.seats = ours.seats(&[2]);
    let refusal = theirs.refused(theirs.request(Command::Hold(stranger))).await;
    assert_eq!(refusal, Refusal::UnknownSeats { seats: ours.seats(&[2]) });
    assert_eq!((&ours.map().await[..3], &theirs.map().await[..3]), ("S..", "..."));
    ours.assert_clean().await;
}

pub async fn names_and_limits_are_kept<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let event = stage.event;
    let taken = stage.refused(stage.request(Command::CreateBlock { event, name: name("left") })).await;
    assert_eq!(taken, Refusal::NameTaken { name: name("left") });
    let area = Command::CreateArea { event, name: name("area 0"), tier: name("floor"), capacity: 5 };
    assert_eq!(stage.refused(stage.request(area)).await, Refusal::NameTaken { name: name("area 0") });
    // Twice in one batch, one of them comes too late; seats in a known block go on with the next ordinal.
    let block = || request(stage.org, Command::CreateBlock { event, name: name("box") });
    let more = stage.request(Command::CreateSeats { event, sections: vec![section("left", 9..10, 5)] });
    let results = stage.truth.commit(vec![block(), block(), more]).await;
    assert!(results[0].is_ok() && results[2].is_ok());
    assert!(results[1].is_err());
    let snapshot = stage.truth.event(event).await.expect("a read").expect("the event");
    assert_eq!((snapshot.row.seat_count, snapshot.seats.len(), snapshot.row.blocks.len()), (45, 45, 3));
    assert_eq!(snapshot.seats[44].place.block, snapshot.seats[0].place.block);
    assert_eq!(snapshot.seats[44].place.label(), "R9-5");
    stage.held(stage.hold("ann", &[44])).await;
    stage.assert_clean().await;
}
