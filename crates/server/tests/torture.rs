//! Five minutes of `rowlock-sim torture`, one of it with a store of its own, and a look at whether it can fail. It lives here because only here the
//! binary under test is surely the one that was just built.

use std::collections::BTreeSet;

use rowlock_sim::torture::audit::Check;
use rowlock_sim::torture::sabotage::Broken;
use rowlock_sim::torture::{Options, run};

fn options(minutes: f64) -> Options {
    Options {
        minutes,
        seed: Some(1),
        nodes: 3,
        embedded: false,
        buyers: 8,
        server: Some(env!("CARGO_BIN_EXE_rowlock").into()),
        // Other tests run at the same time, and go first.
        nice: 10,
        grace: 30,
        json: None,
        broken: Vec::new(),
    }
}

/// Nothing is found, although enough has happened.
fn finds_nothing(options: &Options) {
    let report = run(options).unwrap_or_else(|failed| panic!("{failed}"));
    println!("{report}");
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.fault_count() >= 10, "there was hardly any trouble: {report}");
    for name in ["hold", "hold any", "confirm", "cancel", "release", "heartbeat", "checkout"] {
        let outcomes = report.operations.get(name);
        let done = outcomes.is_some_and(|found| found.contains_key("200") || found.contains_key("201"));
        assert!(done, "there was never a {name}: {report}");
    }
    let looked = &report.looked;
    assert!(looked.seat_operations > 200, "hardly anything happened: {report}");
    assert!(
        looked.maps > 50 && looked.bookings > 10 && looked.holds > 50,
        "hardly anything was compared: {report}"
    );
}

#[test]
fn five_minutes() {
    finds_nothing(&options(5.0));
}

/// The store that everybody begins with, whose process is killed again and again.
#[test]
fn a_minute_with_a_store_of_its_own() {
    finds_nothing(&Options { embedded: true, ..options(1.0) });
}

/// What is found when the product is broken on purpose.
fn found(options: Options, broken: &[Broken]) -> (BTreeSet<Check>, String) {
    let broken = broken.to_vec();
    let report = run(&Options { broken, ..options }).unwrap_or_else(|failed| panic!("{failed}"));
    // It was asked for, so it need not be kept.
    if let Some(folder) = &report.kept {
        let _ = std::fs::remove_dir_all(folder);
    }
    (report.violations.iter().map(|violation| violation.check).collect(), report.to_string())
}

/// A store whose compare-and-set does not compare: what was said of the seats has no order any more.
#[test]
fn seats_with_two_owners_are_found() {
    let (found, report) = found(options(0.75), &[Broken::SeatCas]);
    for check in [Check::Order, Check::Journal] {
        assert!(found.contains(&check), "{check:?} has not noticed: {report}");
    }
}

/// A store that loses a booking and facts and revives a hold, and a node that dies by itself.
#[test]
fn what_is_lost_is_found() {
    let (found, report) =
        found(options(0.5), &[Broken::Booking, Broken::Hold, Broken::Journal, Broken::Node]);
    let should = [
        Check::Bookings,
        Check::Holds,
        Check::Journal,
        Check::Maps,
        Check::Tiers,
        Check::Verify,
        Check::Processes,
    ];
    for check in should {
        assert!(found.contains(&check), "{check:?} has not noticed: {report}");
    }
}

/// A store of its own on a disk that forgets what it said was written.
#[test]
fn a_disk_that_forgets_is_found() {
    let (found, report) = found(Options { embedded: true, ..options(0.5) }, &[Broken::Disk]);
    for check in [Check::Order, Check::Bookings, Check::Holds, Check::Maps] {
        assert!(found.contains(&check), "{check:?} has not noticed: {report}");
    }
}
