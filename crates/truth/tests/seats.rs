//! Who holds a seat is said by its hold, and its row is left alone.

use std::collections::BTreeMap;

use crate::support::Sqlite;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rowlock_core::booking::Booking;
use rowlock_core::seat::SeatState;
use rowlock_core::{Command, HoldId, Outcome, Request};
use rowlock_truth::conformance::stage::{Setup, Stage, booking_of, section};

/// The newest versions of rows of seats, and how many rows have them.
fn versions(backend: &Sqlite) -> Vec<(u32, u32)> {
    let db = backend.database();
    let sql = "SELECT version, count(*) FROM seats GROUP BY version ORDER BY version";
    let mut statement = db.prepare(sql).expect("a statement");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

#[tokio::test]
async fn holding_and_giving_back_write_no_seat() {
    let backend = Sqlite::new();
    let stage = Stage::new(backend.truth(), Setup { rows: 2, ..Setup::brief() }).await;
    let untouched = versions(&backend);
    let ann = stage.held(stage.hold("ann", &[0, 1])).await;
    stage.held(stage.checkout("ann", ann.id)).await;
    stage.held(stage.release("ann", ann.id, &[0])).await;
    let bob = stage.held(stage.hold("bob", &[0])).await;
    stage.held(stage.release("bob", bob.id, &[])).await;
    let cid = stage.held(stage.hold("cid", &[0, 2])).await;
    stage.wait_until(cid.expires_at).await;
    stage.held(stage.expire(cid.id)).await;
    assert_eq!(versions(&backend), untouched);
    stage.assert_clean().await;
    let dan = Command::Book { places: stage.places("dan", &[0, 2], &[]), payment_reference: None };
    stage.booked(stage.request(dan)).await;
    assert_eq!(versions(&backend), [(1, untouched[0].1 - 2), (2, 2)]);
    stage.assert_clean().await;
}

/// Their rows are in the piece that was read when the first seat was held.
#[tokio::test]
async fn seats_that_are_added_later_can_be_held() {
    let backend = Sqlite::new();
    let stage = Stage::new(backend.truth(), Setup { rows: 1, ..Setup::default() }).await;
    let count = stage.map().await.len() as u32;
    stage.held(stage.hold("ann", &[0])).await;
    let sections = vec![section("stalls", 1..3, 10)];
    stage.one(stage.request(Command::CreateSeats { event: stage.event, sections })).await.expect("seats");
    stage.held(stage.hold("bob", &[count, count + 19])).await;
    let map = stage.map().await;
    assert_eq!((map.len() as u32, map.matches('h').count()), (count + 20, 3));
    stage.assert_clean().await;
}

/// A seat that is sold before and after a batch has changed hands in it.
#[tokio::test]
async fn a_seat_that_is_cancelled_and_sold_in_one_batch_has_the_new_ticket() {
    let backend = Sqlite::new();
    let stage = Stage::new(backend.truth(), Setup::default()).await;
    let book = |who| {
        let book = Command::Book { places: stage.places(who, &[3], &[]), payment_reference: None };
        stage.request(book)
    };
    let ann = stage.booked(book("ann")).await;
    let answers = stage.truth.commit(vec![stage.cancel(ann.id), book("bob")]).await;
    let bob = booking_of(answers[1].as_ref().expect("bob has the seat"));
    let states = stage.truth.seat_states(stage.event, stage.seats(&[3])).await.expect("a read");
    assert_eq!(states, [Some(SeatState::Sold { ticket: bob.tickets[0].id })]);
    stage.assert_clean().await;
    // And again, with what the writer remembers of the row now.
    stage.booked(stage.cancel(bob.id)).await;
    stage.held(stage.hold("cid", &[3])).await;
    stage.assert_clean().await;
}

/// Rows of the version before said who holds a seat.
#[tokio::test]
async fn holds_of_an_older_version_stand() {
    let backend = Sqlite::new();
    let stage = Stage::new(backend.truth(), Setup::default()).await;
    let ann = stage.held(stage.hold("ann", &[0, 5])).await;
    stage.truth.close().await;
    backend.sql(
        "DROP INDEX holds_active;
         CREATE INDEX holds_of_areas ON holds (event_key, expires_at) WHERE status = 0 AND areas <> '[]';
         CREATE INDEX holds_active ON holds (expires_at, id, user_id) WHERE status = 0;
         UPDATE seats SET status = 1, version = 2, hold_id = (SELECT id FROM holds),
             held_until = (SELECT expires_at FROM holds), room = zeroblob(1) WHERE ordinal IN (0, 5);
         PRAGMA user_version = 2",
    );
    let stage = Stage { truth: backend.truth(), ..stage };
    assert!(stage.map().await.starts_with("h....h."), "{}", stage.map().await);
    stage.refused(stage.hold("bob", &[5])).await;
    stage.assert_clean().await;
    stage.booked(stage.confirm("ann", ann.id)).await;
    assert!(stage.map().await.starts_with("S....S."), "{}", stage.map().await);
    stage.assert_clean().await;
}

/// Holds and bookings of a while of doing this and that, in batches, with the store closed and opened again at times. What the
/// writer remembers then is what is stored: it grants what the stored rows say is free, and refuses all else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_remembered_is_what_is_stored() {
    for seed in 0..4 {
        let mut random = StdRng::seed_from_u64(seed);
        let backend = Sqlite::new();
        let mut stage = Stage::new(backend.truth(), Setup { rows: 2, ..Setup::default() }).await;
        let seats = stage.map().await.len() as u32;
        let mut holds: BTreeMap<HoldId, String> = BTreeMap::new();
        let mut bookings: Vec<Booking> = Vec::new();
        for _ in 0..60 {
            if random.random_ratio(1, 15) {
                stage.truth.close().await;
                stage = Stage { truth: backend.truth(), ..stage };
            }
            let batch = (0..random.random_range(1..6))
                .map(|_| something(&stage, &mut random, seats, &holds, &bookings))
                .collect();
            for committed in stage.truth.commit(batch).await.into_iter().flatten() {
                match committed.outcome {
                    Outcome::Hold(held) => drop(holds.insert(held.hold.id, held.hold.user.to_string())),
                    Outcome::Booking(booked) => bookings.push(booked.booking),
                    _ => {}
                }
            }
        }
        stage.assert_clean().await;
        for (seat, state) in (0..seats).zip(stage.map().await.chars()) {
            let granted = stage.one(stage.hold(&format!("late-{seat}"), &[seat])).await.is_ok();
            assert_eq!(granted, state == '.', "seat {seat} is {state:?}, seed {seed}");
        }
        stage.assert_clean().await;
    }
}

fn something(
    stage: &Stage,
    random: &mut StdRng,
    seats: u32,
    holds: &BTreeMap<HoldId, String>,
    bookings: &[Booking],
) -> Request {
    let some = [random.random_range(0..seats), random.random_range(0..seats)];
    let some = if some[0] == some[1] { &some[..1] } else { &some[..] };
    let who = format!("user-{}", random.random_range(0..9));
    let of_a_hold = holds.iter().nth(random.random_range(0..holds.len().max(1)));
    let of_a_booking = bookings.get(random.random_range(0..bookings.len().max(1)));
    match (random.random_range(0..10), of_a_hold, of_a_booking) {
        (0, Some((hold, who)), _) => stage.release(who, *hold, &[]),
        (1, Some((hold, who)), _) => stage.release(who, *hold, &some[..1]),
        (2, Some((hold, who)), _) => stage.checkout(who, *hold),
        (3, Some((hold, who)), _) => stage.confirm(who, *hold),
        (4, _, Some(booking)) => stage.cancel(booking.id),
        (5, ..) => stage.request(Command::BlockSeats { event: stage.event, seats: stage.seats(some) }),
        (6, ..) => stage.request(Command::UnblockSeats { event: stage.event, seats: stage.seats(some) }),
        (7, ..) => {
            let places = stage.places(&who, some, &[]);
            stage.request(Command::Book { places, payment_reference: None })
        }
        _ => stage.hold(&who, some),
    }
}
