//! Negative controls: the same comparison must find what is broken on purpose.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rowlock_core::booking::BookingStatus;
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::seat::{Seat, SeatState};
use rowlock_core::{Fact, SeatId};

use super::LONGEST_CASE;
use super::ops;
use super::play::Play;
use crate::support::invariants::{self, Endings};
use crate::support::rows::Stored;
use crate::support::stage::Stage;
use crate::support::{Conflict, Fault, Rows, request};

/// The first difference that a broken store makes, if random steps find one.
fn find_difference(fault: Fault) -> Option<String> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..100).find_map(|_| {
        let steps = ops::steps(LONGEST_CASE).new_tree(&mut runner).expect("steps").current();
        // The kernel's own assertions may speak first: that is a difference too.
        let played = catch_unwind(AssertUnwindSafe(|| Play::new(fault).all(&steps, false)));
        played.unwrap_or_else(|_| Err("the kernel refused to go on".to_owned())).err()
    })
}

#[test]
fn a_store_without_fault_shows_no_difference() {
    assert_eq!(find_difference(Fault::None), None);
}

#[test]
fn every_fault_of_a_store_is_found() {
    let faults = [
        Fault::StaleSeatsUnchecked,
        Fault::DueIsLive,
        Fault::DropsExpiry,
        Fault::ForgetsUsage,
        Fault::ForgetsRecords,
    ];
    for fault in faults {
        let found = find_difference(fault);
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} went unnoticed");
    }
}

/// Somebody else's seat, read from a store that is one batch behind.
fn hold_on_stale_rows(fault: Fault) -> (Stage, Result<usize, Conflict>) {
    let mut stage = Stage::new();
    stage.world.fault = fault;
    stage.hold("ann", "cart", &[0], 0);
    let command = stage.to_hold("bob", "cart", &[0], 0);
    let batch = stage.world.batch(&[request(stage.org, command)]);
    let held = batch.map(|answers| answers.iter().filter(|answer| answer.is_ok()).count());
    (stage, held)
}

#[test]
fn a_stale_row_is_stopped_by_its_version() {
    let (stage, held) = hold_on_stale_rows(Fault::StaleSeats);
    assert_eq!(held, Err(Conflict));
    assert_eq!(invariants::rows(&stage.world.rows), Ok(()));
    assert_eq!(stage.world.rows.holds.len(), 1);
}

#[test]
fn without_the_version_check_a_stale_row_gives_a_seat_two_owners() {
    let (stage, held) = hold_on_stale_rows(Fault::StaleSeatsUnchecked);
    assert_eq!(held, Ok(1));
    let found = invariants::rows(&stage.world.rows).expect_err("two owners");
    assert!(found.contains("does not have its seat"), "{found}");
}

/// What the check must say, and what was done to the rows.
type Damage = (&'static str, fn(&mut Rows));

#[test]
fn the_check_of_rows_finds_each_kind_of_damage() {
    let damages: [Damage; 9] = [
        ("does not have its seat", |rows| first(&mut rows.seats, SeatState::Available)),
        ("does not have its seat", |rows| first(&mut rows.seats, SeatState::Blocked)),
        ("different times", |rows| each_hold(rows, |hold| hold.expires_at = hold.expires_at.plus_millis(1))),
        ("a hold without it", |rows| each_hold(rows, |hold| hold.seats.clear())),
        ("a hold without it", |rows| each_hold(rows, |hold| hold.status = HoldStatus::Cancelled)),
        ("held, the holds say", |rows| rows.areas.values_mut().for_each(|row| row.value.held += 1)),
        ("sold, the bookings say", |rows| rows.areas.values_mut().for_each(|row| row.value.sold += 1)),
        ("sold without a ticket", |rows| {
            rows.bookings.values_mut().for_each(|row| row.value.status = BookingStatus::Cancelled);
        }),
        ("too full", |rows| rows.areas.values_mut().for_each(|row| row.value.capacity = 1)),
    ];
    let mut stage = Stage::new();
    stage.hold("ann", "cart", &[0, 1], 2);
    stage.book("bob", &[2], 1);
    for (named, damage) in damages {
        let mut rows = stage.world.rows.clone();
        damage(&mut rows);
        let found = invariants::rows(&rows).expect_err(named);
        assert!(found.contains(named), "{found} instead of {named}");
    }
}

fn first(seats: &mut BTreeMap<SeatId, Stored<Seat>>, state: SeatState) {
    seats.values_mut().next().expect("a seat").value.state = state;
}

fn each_hold(rows: &mut Rows, change: fn(&mut Hold)) {
    let active = rows.holds.values_mut().filter(|row| row.value.status == HoldStatus::Active);
    active.for_each(|row| change(Arc::make_mut(&mut row.value)));
}

#[test]
fn the_check_of_the_journal_finds_a_second_end() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0);
    stage.confirm(hold.id, "ann");
    let mut journal = stage.world.journal.clone();
    assert_eq!(Endings::default().follow(&journal), Ok(()));
    let end = journal.iter().find(|fact| matches!(fact, Fact::HoldConfirmed(_))).cloned();
    journal.extend(end);
    let found = Endings::default().follow(&journal).expect_err("a second end");
    assert!(found.contains("after its end"), "{found}");
}

#[test]
fn the_check_of_the_journal_finds_a_missing_end() {
    let mut stage = Stage::new();
    let hold = stage.hold("ann", "cart", &[0], 0);
    stage.confirm(hold.id, "ann");
    let without_end: Vec<Fact> =
        stage.world.journal.iter().filter(|fact| !matches!(fact, Fact::HoldConfirmed(_))).cloned().collect();
    let mut endings = Endings::default();
    endings.follow(&without_end).expect("in order");
    assert!(endings.agree(&stage.world.rows).is_err());
}
