//! Promise D: what was acknowledged survives kill -9.

use std::time::{Duration, Instant};

use crate::support::load::{Load, acknowledged};
use crate::support::{Client, Server, demo, run, stdout, text};
use rand::Rng;

const CRASHES: u32 = 12;
/// On a slow machine there may be fewer, but never fewer than these.
const LEAST_CRASHES: u32 = 10;
const TIME: Duration = Duration::from_secs(60);
/// How long the load runs before the crash, in milliseconds.
const LOAD: std::ops::Range<u64> = 200..700;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_crashing_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let begun = Instant::now();
    let mut server = Server::start(data, &["--demo"]);
    let stadium = demo(data)["events"][1].clone();
    let event = stadium["id"].as_str().unwrap();
    let load = Load::new(event, stadium["seats"].as_u64().unwrap() as u32);
    let mut books = Vec::new();
    for round in 0..CRASHES {
        if round >= LEAST_CRASHES && begun.elapsed() > TIME {
            break;
        }
        let client = Client::of(&server, data);
        let buying = tokio::spawn({
            let (load, client) = (load.clone(), client.clone());
            async move { load.run(&client, round).await }
        });
        tokio::time::sleep(Duration::from_millis(rand::rng().random_range(LOAD))).await;
        server.crash();
        books.extend(buying.await.unwrap());

        // Once on what the crash has left, and once more beside the server that has started on it.
        assert_clean(data);
        server = Server::start(data, &["--demo"]);
        load.audit(&Client::of(&server, data), &books).await;
        assert_clean(data);
    }
    let (holds, bookings) = acknowledged(&books);
    println!("{holds} holds and {bookings} bookings acknowledged, none lost");
    assert!(
        holds > 100 && bookings > 20,
        "too little load to show anything: {holds} holds, {bookings} bookings"
    );
}

/// The negative control: an audit that could not find a loss would prove nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_notices_a_hold_that_is_gone_or_short() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let server = Server::start(data, &["--demo"]);
    let theatre = demo(data)["events"][0].clone();
    let load = Load::new(theatre["id"].as_str().unwrap(), theatre["seats"].as_u64().unwrap() as u32);
    let client = Client::of(&server, data);
    let buying = tokio::spawn({
        let load = load.clone();
        async move { load.run(&client, 0).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    load.stop();
    let books = buying.await.unwrap();
    load.audit(&Client::of(&server, data), &books).await;
    assert!(server.terminate().success());

    let damages = [
        "DELETE FROM holds WHERE id = (SELECT max(id) FROM holds)",
        "UPDATE holds SET seats = json_remove(seats, '$[1]') WHERE id = (SELECT max(id) FROM holds)",
    ];
    // The first one last: what is gone can't be shortened.
    for damage in damages.iter().rev() {
        let database = rusqlite::Connection::open(data.join("rowlock.sqlite")).unwrap();
        // The newest hold may have a booking, which would keep it from being deleted.
        database.pragma_update(None, "foreign_keys", false).unwrap();
        assert_eq!(database.execute(damage, []).unwrap(), 1);
        drop(database);
        let server = Server::start(data, &[]);
        let client = Client::of(&server, data);
        let (load, books) = (load.clone(), books.clone());
        let audit = tokio::spawn(async move { load.audit(&client, &books).await });
        let noticed = audit.await.expect_err(damage).into_panic();
        let why = noticed.downcast_ref::<String>().map(String::as_str).unwrap_or_default();
        assert!(why.contains("Entry"), "not what is in the books: {why}");
    }
}

fn assert_clean(data: &std::path::Path) {
    let output = run(&["verify", "--data", text(data)]);
    assert!(output.status.success(), "{}", stdout(&output));
}
