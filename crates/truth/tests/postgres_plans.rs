//! Connections that write keep the plans that Postgres made for them while its tables were empty. They must not read
//! more when the tables have grown.

use std::collections::BTreeSet;
use std::sync::Arc;

use rowlock_core::policy::Policy;
use rowlock_core::{Command, Outcome, Request};
use rowlock_dev::postgres::Postgres;
use rowlock_truth::conformance::stage::{Setup, Stage, booking_of, hold_of, keyed, new_event, section};
use rowlock_truth::postgres::{PostgresOptions, PostgresTruth};
use rowlock_truth::{Belief, MAX_BATCH};
use serde_json::Value;

/// What one statement of a request for a few places may read of a table.
const MOST_ROWS: f64 = 30.0;
/// What the tables have besides.
const OTHERS: u32 = 6_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_grow_before_there_are_statistics() {
    reads_little_of_tables_that_have_grown("").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_grow_after_statistics_said_that_they_are_small() {
    reads_little_of_tables_that_have_grown("ANALYZE").await;
}

async fn reads_little_of_tables_that_have_grown(while_small: &str) {
    let server = explaining();
    let options = PostgresOptions { url: server.url(), lanes: 1, ..PostgresOptions::default() };
    let truth = Arc::new(PostgresTruth::open(options).await.expect("Postgres can be opened"));
    let setup = Setup {
        policy: Policy { seats_per_user: Some(8), ..Policy::default() },
        rows: (OTHERS / 10) as usize + 20,
        areas: vec![OTHERS * 2],
    };
    let stage = Stage::new(truth, setup).await;
    let mut free = 0..;
    everything(&stage, "ann", &mut free).await;
    server.sql(while_small).expect("it knows its tables");
    everything(&stage, "bob", &mut free).await;
    crowd(&stage, &mut free).await;

    let before = server.said().len();
    everything(&stage, "cid", &mut free).await;
    let said = server.said();
    let scans = scans(&said[before..]);
    let tables: BTreeSet<&str> = scans.iter().map(|scan| scan.table.as_str()).collect();
    assert!(tables.len() >= 9, "only {tables:?} were read");
    let greedy: Vec<&Scan> = scans.iter().filter(|scan| scan.rows > MOST_ROWS).collect();
    assert!(greedy.is_empty(), "{greedy:#?}");
    stage.assert_clean().await;
}

/// A Postgres that says how it carried out each statement, and gathers no statistics.
fn explaining() -> Postgres {
    Postgres::start_with(&[
        "autovacuum=off",
        "session_preload_libraries=auto_explain",
        "auto_explain.log_min_duration=0",
        "auto_explain.log_analyze=on",
        "auto_explain.log_timing=off",
        "auto_explain.log_format=json",
    ])
    .expect("Postgres starts")
}

/// Each command, so that each statement runs.
async fn everything(stage: &Stage, who: &str, free: &mut impl Iterator<Item = u32>) {
    let mut next = || free.next().expect("a seat");
    let event = stage.one(new_event(stage.org, who, Policy::default())).await;
    let Outcome::Event(event) = event.expect("an event").outcome else { panic!("no event") };
    let sections = vec![section("middle", 0..1, 5)];
    stage.one(stage.request(Command::CreateSeats { event: event.id, sections })).await.expect("seats");

    let believed = keyed(stage.hold_in_cart(who, "first", &[next(), next()]), &format!("{who} holds"), 1);
    let belief = vec![Belief { tiers: vec![0, 0] }];
    let mut answers = stage.truth.commit_believing(vec![believed.clone()], belief).await;
    let first = hold_of(&answers.pop().expect("an answer").expect("a hold"));
    assert!(stage.one(believed).await.expect("it is recorded").replayed);
    stage.held(stage.hold_in_cart(who, "first", &[next()])).await;
    stage.held(stage.checkout(who, first.id)).await;
    stage.held(stage.heartbeat(who, first.id)).await;
    stage.held(stage.release(who, first.id, &[first.seats[0].ordinal])).await;
    let booking = stage.booked(keyed(stage.confirm(who, first.id), &format!("{who} confirms"), 1)).await;
    stage.booked(stage.cancel(booking.id)).await;

    let area = stage.held(stage.hold_area(who, 2)).await;
    stage.held(stage.release(who, area.id, &[])).await;
    stage.refused(stage.hold_area(who, OTHERS * 2)).await;

    let seats = stage.seats(&[next(), next()]);
    let block = Command::BlockSeats { event: stage.event, seats: seats.clone() };
    stage.one(stage.request(block)).await.expect("they can be blocked");
    let unblock = Command::UnblockSeats { event: stage.event, seats };
    stage.one(stage.request(unblock)).await.expect("they can be unblocked");
    let places = stage.places(who, &[next()], &[]);
    stage.booked(stage.request(Command::Book { places, payment_reference: None })).await;
}

/// Many other people hold seats and places, and some have confirmed.
async fn crowd(stage: &Stage, free: &mut impl Iterator<Item = u32>) {
    let holds = (0..OTHERS).map(|nth| {
        let who = format!("user {nth}");
        let seat = free.next().expect("a seat");
        let hold = if nth % 5 == 0 { stage.hold_area(&who, 1) } else { stage.hold(&who, &[seat]) };
        keyed(hold, &who, 1)
    });
    let made = commit_all(stage, holds.collect()).await;
    let confirms = made.iter().map(hold_of).enumerate().filter(|(nth, _)| nth % 2 == 0);
    let confirms = confirms.map(|(nth, hold)| stage.confirm(&format!("user {nth}"), hold.id));
    commit_all(stage, confirms.collect()).await.iter().for_each(|made| drop(booking_of(made)));
}

async fn commit_all(stage: &Stage, requests: Vec<Request>) -> Vec<rowlock_truth::Committed> {
    let mut made = Vec::new();
    for batch in requests.chunks(MAX_BATCH) {
        let answers = stage.truth.commit(batch.to_vec()).await;
        made.extend(answers.into_iter().map(|answer| answer.expect("it is done")));
    }
    made
}

/// What one statement read of a table.
#[derive(Debug)]
#[allow(dead_code, reason = "they are printed when something is wrong")]
struct Scan {
    statement: String,
    table: String,
    by: String,
    rows: f64,
}

fn scans(log: &str) -> Vec<Scan> {
    let mut found = Vec::new();
    for entry in log.split("  plan:\n").skip(1) {
        let json: String = entry.lines().take_while(|line| line.starts_with('\t')).collect();
        let plan: Value = serde_json::from_str(&json).expect("a plan");
        visit(plan["Query Text"].as_str().unwrap_or_default(), &plan["Plan"], &mut found);
    }
    found
}

fn visit(statement: &str, node: &Value, found: &mut Vec<Scan>) {
    let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
    let kind = node["Node Type"].as_str().unwrap_or_default();
    // A bitmap names its index alone.
    let table = node["Relation Name"].as_str().or(node["Index Name"].as_str());
    if let Some(table) = table.filter(|_| kind.ends_with("Scan")) {
        let rows = number("Actual Rows")
            + number("Rows Removed by Filter")
            + number("Rows Removed by Index Recheck");
        found.push(Scan {
            statement: statement.into(),
            table: table.into(),
            by: node["Index Cond"].as_str().unwrap_or_default().into(),
            rows: rows * number("Actual Loops"),
        });
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        visit(statement, child, found);
    }
}
