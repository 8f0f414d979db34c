//! `verify` finds nothing in healthy data and every kind of damage that it looks for.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::support::Sqlite;
use rowlock_core::Command;
use rowlock_truth::conformance::stage::{Setup, Stage, keyed, report};
use rowlock_truth::sqlite::SqliteTruth;
use rowlock_truth::verify::Promise::{self, E, O, S, X};
use rowlock_truth::verify::Report;
use rusqlite::Connection;
use tempfile::TempDir;

/// A busy event: seats 0 and 1 and two places held by ann, 2 and 3 and a place sold to bob, 4 booked and cancelled by
/// cid, 5 given back by dan, 6 held by eve, 7 blocked, 8 expired for fay.
async fn busy() -> Sqlite {
    let backend = Sqlite::new();
    let stage = Stage::new(backend.truth(), Setup { rows: 20, ..Setup::default() }).await;
    let ann = stage.held(keyed(stage.hold("ann", &[0]), "ann-1", 1)).await;
    let more = stage.places("ann", &[1], &[(stage.areas[0], 2)]);
    stage.held(stage.request(Command::Hold(more))).await;
    stage.held(stage.checkout("ann", ann.id)).await;
    let wanted = stage.places("bob", &[2, 3], &[(stage.areas[0], 1)]);
    let bob = stage.held(stage.request(Command::Hold(wanted))).await;
    stage.booked(keyed(stage.confirm("bob", bob.id), "bob-1", 1)).await;
    let cid = Command::Book { places: stage.places("cid", &[4], &[]), payment_reference: None };
    let cid = stage.booked(stage.request(cid)).await;
    stage.booked(stage.cancel(cid.id)).await;
    let dan = stage.held(stage.hold("dan", &[5, 9])).await;
    stage.held(stage.release("dan", dan.id, &[9])).await;
    stage.held(stage.release("dan", dan.id, &[])).await;
    stage.held(stage.hold("eve", &[6])).await;
    let block = Command::BlockSeats { event: stage.event, seats: stage.seats(&[7]) };
    stage.one(keyed(stage.request(block), "block-1", 1)).await.expect("blocked");
    let brief = Stage::in_org(Arc::clone(&stage.truth), stage.org, Setup::brief()).await;
    let fay = brief.held(brief.hold("fay", &[8])).await;
    brief.wait_until(fay.expires_at).await;
    brief.held(brief.expire(fay.id)).await;
    stage.truth.close().await;
    backend
}

async fn look(folder: &Path) -> Report {
    report(&SqliteTruth::open_read_only(folder).expect("the folder can be read")).await
}

/// Takes the constraints from a table, for damage that they prevent.
fn loosen(table: &str) -> String {
    format!(
        "DROP VIEW IF EXISTS seat_holds; CREATE TABLE loose AS SELECT * FROM {table}; DROP TABLE {table};
         ALTER TABLE loose RENAME TO {table};"
    )
}

/// A check's name, its number and how many there are.
type Step = (&'static str, usize, usize);

struct Damage {
    sql: String,
    promise: Promise,
    /// All of them in one violation.
    said: Vec<&'static str>,
}

fn damage(sql: impl Into<String>, promise: Promise, said: &[&'static str]) -> Damage {
    Damage { sql: sql.into(), promise, said: said.to_vec() }
}

/// Does each damage to a copy of healthy data and expects to hear of it.
async fn find(damages: Vec<Damage>) {
    let backend = busy().await;
    let healthy = look(backend.folder()).await;
    assert!(healthy.violations.is_empty(), "{:#?}", healthy.violations);
    let mut missed = Vec::new();
    for damage in damages {
        let copy = TempDir::new().expect("a temporary folder");
        let file = copy.path().join("rowlock.sqlite");
        std::fs::copy(backend.folder().join("rowlock.sqlite"), &file).expect("a copy");
        let db = Connection::open(&file).expect("the copy can be opened");
        let sql = format!("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF; {}", damage.sql);
        db.execute_batch(&sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
        drop(db);
        let violations = look(copy.path()).await.violations;
        let found = violations
            .iter()
            .any(|v| v.promise == damage.promise && damage.said.iter().all(|part| v.what.contains(part)));
        if !found {
            missed.push(format!("{} should say {:?}, said {violations:#?}", damage.sql, damage.said));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[tokio::test]
async fn healthy_data_is_clean_and_counted() {
    let backend = busy().await;
    let steps: Arc<Mutex<Vec<Step>>> = Arc::default();
    let seen = Arc::clone(&steps);
    let truth = SqliteTruth::open_read_only(backend.folder()).expect("the folder can be read");
    let progress = Arc::new(move |name, done, of| seen.lock().expect("no panic").push((name, done, of)));
    let report = rowlock_truth::Truth::verify(&truth, progress).await.expect("a report");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    let counted = |table: &str| report.counted.iter().find(|(name, _)| *name == table).expect("counted").1;
    assert_eq!((counted("seats"), counted("holds"), counted("bookings")), (240, 6, 2));
    assert_eq!((counted("tickets"), counted("idempotency records")), (4, 3));
    assert!(counted("journal rows") > 20);
    let steps = steps.lock().expect("no panic");
    assert_eq!(steps.first().map(|(name, done, _)| (*name, *done)), Some(("file", 0)));
    assert!(steps.iter().enumerate().all(|(i, (_, done, of))| i == *done && *of == steps.len() - 1));
}

#[tokio::test]
async fn damage_to_the_owners_of_seats_is_found() {
    let bob = "(SELECT id FROM bookings WHERE user_id = 'bob')";
    find(vec![
        damage(
            "UPDATE seats SET status = 3 WHERE event_key = 1 AND ordinal = 6",
            S,
            &["lists seat", "which it does not hold"],
        ),
        damage(
            "UPDATE holds SET seats = '[[9999,1]]' WHERE user_id = 'eve'",
            S,
            &["lists seat", "which it does not hold"],
        ),
        damage(
            "UPDATE seats SET status = 1, hold_id = randomblob(16), held_until = 1 WHERE ordinal = 20",
            S,
            &["is held by its row"],
        ),
        damage("UPDATE holds SET seats = '[[0,1]]' WHERE user_id = 'eve'", S, &["both list seat"]),
        damage(
            "UPDATE holds SET user_id = 'ann', event_key = 1 WHERE user_id = 'eve'",
            S,
            &["are active in one cart"],
        ),
        damage("UPDATE holds SET places = 7 WHERE user_id = 'dan'", S, &["counts other places"]),
        damage("UPDATE holds SET seats = 'x' WHERE user_id = 'dan'", S, &["does not say what it holds"]),
        damage(
            "UPDATE seats SET ticket_id = randomblob(16) WHERE ordinal = 2 AND status = 2",
            S,
            &["is sold with ticket", "which does not exist"],
        ),
        damage(
            "UPDATE seats SET ticket_id = (SELECT ticket_id FROM seats WHERE ordinal = 3 AND status = 2)
             WHERE ordinal = 2 AND status = 2",
            S,
            &["is sold with ticket", "which is for another place"],
        ),
        damage(
            "UPDATE bookings SET status = 1, cancelled_at = 1 WHERE user_id = 'bob'",
            S,
            &["which is not valid"],
        ),
        damage(
            "UPDATE bookings SET status = 0 WHERE user_id = 'cid'",
            S,
            &["is valid for seat", "not sold to it"],
        ),
        damage("UPDATE seats SET status = 0, ticket_id = NULL WHERE ordinal = 2", S, &["not sold to it"]),
        damage(
            format!("INSERT INTO tickets VALUES (randomblob(16), {bob}, 9, 1, 2, NULL, 1)"),
            S,
            &["are both valid for seat"],
        ),
        damage("UPDATE tickets SET booking_id = randomblob(16) WHERE ordinal = 2", S, &["is of booking"]),
        damage("UPDATE tickets SET event_key = 2 WHERE ordinal = 2", S, &["another event than its booking"]),
        damage(
            "UPDATE bookings SET places = 9 WHERE user_id = 'bob'",
            S,
            &["is of 9 places and has 3 tickets"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn damage_to_areas_and_the_order_of_seats_is_found() {
    find(vec![
        damage("UPDATE areas SET held = held + 1 WHERE sold = 1", S, &["counts 3 places held, and 2 are"]),
        damage("UPDATE areas SET sold = sold + 1 WHERE sold = 1", S, &["counts 2 places sold, and 1 are"]),
        damage("UPDATE areas SET held = -1 WHERE sold = 1", S, &["counts -1 places held"]),
        damage("UPDATE areas SET capacity = 2 WHERE sold = 1", S, &["has 2 places and more are taken"]),
        damage("DELETE FROM areas WHERE sold = 1", S, &["places are taken of area", "which does not exist"]),
        damage("DELETE FROM seats WHERE event_key = 1 AND ordinal = 20", S, &["where ordinal 20 should"]),
        damage("DELETE FROM seats WHERE event_key = 1 AND ordinal = 0", S, &["where ordinal 0 should"]),
        damage(
            "DELETE FROM seats WHERE event_key = 1 AND ordinal = 199",
            S,
            &["is of 200 seats and has 199"],
        ),
        damage("DELETE FROM seats WHERE event_key = 2", S, &["is of 40 seats and has 0"]),
        damage(
            "UPDATE seats SET key = (99 << 24) | ordinal WHERE event_key = 2",
            S,
            &["of the unknown event 99"],
        ),
        damage("UPDATE seats SET status = 7 WHERE ordinal = 20", S, &["has the unknown status 7"]),
    ])
    .await;
}

#[tokio::test]
async fn damage_to_the_ends_of_holds_is_found() {
    let repeat = "INSERT INTO journal SELECT (SELECT (key << 40) | (seq + 1) FROM streams WHERE key = stream_key), id, kind,
         at, actor, request_id, data FROM journal WHERE kind =";
    find(vec![
        damage(
            "UPDATE journal SET kind = 'SEAT-BLOCKED' WHERE kind = 'SEAT-HOLD-CANCELLED'",
            E,
            &["is cancelled and ended 0 times"],
        ),
        damage(
            format!("{repeat} 'SEAT-HOLD-EXPIRED'; UPDATE streams SET seq = seq + 1"),
            E,
            &["is expired and ended 2 times"],
        ),
        damage(
            "UPDATE holds SET status = 0, ended_at = NULL WHERE user_id = 'dan'",
            E,
            &["is active and ended 1"],
        ),
        damage(
            "UPDATE holds SET status = 2 WHERE user_id = 'dan'",
            E,
            &["is expired", "at last as cancelled"],
        ),
        damage("UPDATE holds SET status = 9, ended_at = 1 WHERE user_id = 'eve'", E, &["unknown status 9"]),
        damage(
            "UPDATE holds SET booking_id = randomblob(16) WHERE user_id = 'bob'",
            E,
            &["is converted, but its booking"],
        ),
        damage("DELETE FROM bookings WHERE user_id = 'bob'", E, &["is converted, but its booking"]),
        damage(
            "UPDATE holds SET booking_id = randomblob(16) WHERE user_id = 'bob'",
            E,
            &["is of hold", "which became another booking"],
        ),
        damage(
            "UPDATE bookings SET hold_id = randomblob(16) WHERE user_id = 'bob'",
            E,
            &["is of hold", "which does not exist"],
        ),
        damage(
            "UPDATE holds SET status = 3, booking_id = NULL WHERE user_id = 'bob'",
            E,
            &["is of hold", "which is not converted"],
        ),
        damage(
            "UPDATE journal SET kind = 'SEAT-BLOCKED' WHERE kind = 'BOOKING-CANCELLED'",
            E,
            &["is cancelled, by the journal confirmed 1 times and cancelled 0 times"],
        ),
        damage(
            format!("{repeat} 'BOOKING-CANCELLED'; UPDATE streams SET seq = seq + 1"),
            E,
            &["confirmed 1 times and cancelled 2 times"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn damage_to_the_journal_is_found() {
    let stranger = "00000000-0000-7000-8000-000000000001";
    let duplicate = "UPDATE journal SET seq = 4 WHERE seq = 3 AND stream_key = 2";
    find(vec![
        damage("DELETE FROM journal WHERE seq = 3 AND stream_key = 2", O, &["goes on with 4 where 3 should come"]),
        damage(format!("{}{duplicate}", loosen("journal")), O, &["goes on with 4 where 5 should come"]),
        damage("UPDATE streams SET seq = seq + 1 WHERE key = 2", O, &["should end with"]),
        damage(
            "DELETE FROM journal WHERE stream_key = 2 AND seq = (SELECT seq FROM streams WHERE key = 2)",
            O,
            &["should end with"],
        ),
        damage(
            format!("UPDATE journal SET data = json_set(data, '$.event', '{stranger}') WHERE kind = 'SEAT-BLOCKED'"),
            O,
            &["belongs to another"],
        ),
        damage(
            format!("UPDATE journal SET data = json_set(data, '$.id', '{stranger}') WHERE kind = 'ORG-CREATED'"),
            O,
            &["belongs to another"],
        ),
        damage("UPDATE journal SET key = (99 << 40) | seq WHERE kind = 'SEAT-BLOCKED'", O, &["unknown stream 99"]),
        damage("INSERT INTO streams (id, seq) VALUES (randomblob(16), 0)", O, &["which is no event or org"]),
        damage("UPDATE streams SET id = randomblob(16) WHERE key = 2", O, &["has no journal"]),
        damage("UPDATE journal SET data = '{' WHERE kind = 'SEAT-BLOCKED'", O, &["can't be read"]),
        damage("DELETE FROM holds WHERE user_id = 'dan'", O, &["the journal tells of hold"]),
        damage("DELETE FROM bookings WHERE user_id = 'cid'", O, &["the journal tells of booking"]),
        damage(
            "UPDATE journal SET kind = 'SEAT-BLOCKED' WHERE kind = 'SEAT-HOLD-CREATED'",
            O,
            &["was created 0 times"],
        ),
        damage(
            "UPDATE holds SET booking_id = x'01' WHERE user_id = 'bob'",
            O,
            &["the check of the bookings could not be finished"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn damage_to_the_records_is_found() {
    let stranger = "00000000-0000-7000-8000-000000000001";
    let set = |path: &str, key: &str| {
        format!(
            "UPDATE idempotency_records SET outcome = json_set(outcome, '{path}', '{stranger}') WHERE key = '{key}'"
        )
    };
    let twice = "INSERT INTO idempotency_records SELECT * FROM idempotency_records";
    let second = "INSERT INTO bookings SELECT randomblob(16), hold_id, event_key, user_id, status, version, source, places,
         payment_reference, created_at, cancelled_at FROM bookings WHERE user_id = 'bob'";
    find(vec![
        damage(set("$.Hold.hold.id", "ann-1"), X, &["tells of hold", stranger]),
        damage(set("$.Booking.booking.id", "bob-1"), X, &["tells of booking", stranger]),
        damage(set("$.Blocking.event", "block-1"), X, &["tells of event", stranger]),
        damage("UPDATE idempotency_records SET fingerprint = x'00'", X, &["fingerprint"]),
        damage("UPDATE idempotency_records SET outcome = '{}'", X, &["can't be read"]),
        damage(format!("{}{twice}", loosen("idempotency_records")), X, &["is there twice"]),
        damage(format!("{}{second}", loosen("bookings")), X, &["has 2 bookings"]),
    ])
    .await;
}

#[tokio::test]
async fn a_damaged_page_is_found() {
    let backend = busy().await;
    let file = backend.folder().join("rowlock.sqlite");
    let mut bytes = std::fs::read(&file).expect("the file");
    // The second page on is tables; the first says what kind of file it is.
    for byte in &mut bytes[3 * 4096..6 * 4096] {
        *byte = 0xa5;
    }
    std::fs::write(&file, bytes).expect("written");
    let violations = look(backend.folder()).await.violations;
    assert!(violations.iter().any(|v| v.promise == O && v.what.contains("damaged")), "{violations:#?}");
}

#[tokio::test]
async fn what_is_told_is_bounded() {
    let backend = busy().await;
    backend.sql(
        "UPDATE seats SET status = 1, hold_id = randomblob(16), held_until = 1
         WHERE event_key = 1 AND ordinal BETWEEN 30 AND 179",
    );
    let violations = look(backend.folder()).await.violations;
    assert_eq!(violations.len(), 101, "{violations:#?}");
    assert_eq!(violations[100].what, "50 more of: held seats");
    assert_eq!(violations[100].promise, S);
}

#[tokio::test]
async fn rows_that_the_journal_tells_otherwise_are_found() {
    let other = &["other than the journal tells"];
    let mut damages: Vec<Damage> = [
        "UPDATE holds SET user_id = 'mallory' WHERE user_id = 'eve'",
        "UPDATE holds SET cart_token = 'another' WHERE user_id = 'dan'",
        "UPDATE holds SET seats = replace(seats, ',', ',1') WHERE user_id = 'bob'",
        "UPDATE holds SET areas = replace(areas, ',2,', ',2,1') WHERE user_id = 'ann'",
        "UPDATE holds SET max_expires_at = max_expires_at + 1 WHERE user_id = 'eve'",
        "UPDATE holds SET expires_at = expires_at + 1 WHERE user_id = 'dan'",
        "UPDATE holds SET source = 1 - source WHERE user_id = 'eve'",
        "UPDATE bookings SET user_id = 'mallory' WHERE user_id = 'bob'",
        "UPDATE bookings SET payment_reference = 'paid' WHERE user_id = 'bob'",
        "UPDATE bookings SET payment_reference = 'paid' WHERE user_id = 'cid'",
        "UPDATE tickets SET price = price + 1 WHERE ordinal = 2",
        "UPDATE tickets SET price = 0 WHERE area_id IS NOT NULL",
        "UPDATE areas SET capacity = capacity + 1 WHERE sold = 1",
        "UPDATE areas SET name = 'another' WHERE sold = 1",
        "UPDATE events SET policy = json_set(policy, '$.hold_ttl_ms', 1) WHERE key = 1",
        "UPDATE events SET tiers = replace(tiers, ':4', ':5') WHERE key = 1",
        "UPDATE blocks SET name = 'another' WHERE event_key = 1 AND position = 0",
        "UPDATE journal SET data = json_set(data, '$.user', 'mallory') WHERE kind = 'BOOKING-CONFIRMED'",
        "UPDATE journal SET data = json_set(data, '$.user', 'mallory') WHERE kind = 'SEAT-HOLD-CREATED'",
        "UPDATE journal SET data = json_set(data, '$.expires_at', 1) WHERE kind = 'SEAT-HOLD-EXTENDED'",
    ]
    .map(|sql| damage(sql, O, other))
    .into();
    let blocked = &["is blocked, or is not"];
    damages.push(damage("UPDATE seats SET status = 0 WHERE status = 3", O, blocked));
    damages.push(damage("UPDATE seats SET status = 3 WHERE key = (1 << 24) | 20", O, blocked));
    let nowhere = &["a tier or a block that its event does not have"];
    damages.push(damage("UPDATE seats SET tier = 5 WHERE key = (1 << 24) | 20", S, nowhere));
    damages.push(damage("DELETE FROM blocks WHERE event_key = 1", S, nowhere));
    damages.push(damage(
        "UPDATE journal SET data = json_remove(data, '$.seats') WHERE kind = 'SEAT-BLOCKED'",
        O,
        &["can't be read"],
    ));
    find(damages).await;
}
