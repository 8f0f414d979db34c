//! Nodes killed, frozen and asked to stop, in the middle of things.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rowlock_dev::wait_until;
use serde_json::json;

use crate::nodes::house::{House, Setup, Warm};

/// A node dies between its claim and its commit. The seat is free when the claim ends, after 5 s, not after the hold's
/// quarter of an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_claim_and_commit() {
    let house = House::new(Warm::single(), Setup::default()).await;
    // Both know the event: what is asked of them now is the hold alone.
    for node in 0..2 {
        house.occupancy(node).await;
    }
    for pid in house.postgres.pids() {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), Signal::SIGSTOP).unwrap();
    }
    let asking = tokio::spawn({
        let (client, event, seats) = (house.client(0).clone(), house.event.clone(), house.seats(&[0]));
        async move { client.hold("ann", &event, &seats).await }
    });
    let claimed = || !house.redis().cli(&["KEYS", "*:seat:*"]).unwrap().trim().is_empty();
    assert!(wait_until(Duration::from_secs(5), claimed), "the seat was never claimed");
    // A moment after the claim was made.
    let began = Instant::now();
    house.nodes[0].kill();
    assert!(asking.await.unwrap().is_err());
    for pid in house.postgres.pids() {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), Signal::SIGCONT).unwrap();
    }
    loop {
        match house.hold(1, "bob", &[0]).await {
            (201, _) => break,
            // The claim's five seconds, and one for the machine. It may be less: who finds Redis slow goes on without it.
            (409 | 503, _) => assert!(began.elapsed() < Duration::from_secs(6), "still taken"),
            (status, body) => panic!("{status}: {body}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(house.facts("SEAT-HOLD-CREATED"), 1, "what was not committed is not there");
    house.nodes[0].start_again();
    house.occupancy(0).await;
    house.assert_well().await;
}

/// A node dies at any moment while it books. Whoever asks again with the same key, on another node, gets the one
/// booking there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_moment_of_a_booking() {
    let house = House::new(Warm::single(), Setup { nodes: 2, ..Setup::default() }).await;
    let (mut lost_replies, mut between) = (0, 0);
    for round in 0..12 {
        let body = json!({"event_id": house.event, "seat_ids": house.seats(&[round])});
        let key = format!("key-{round}");
        let first = tokio::spawn({
            let (client, body, key) = (house.client(0).clone(), body.clone(), key.clone());
            async move { client.post_keyed("ann", "/api/bookings", body, &key).await }
        });
        tokio::time::sleep(Duration::from_millis(2 * u64::from(round))).await;
        house.nodes[0].kill();
        let first = first.await.unwrap();
        lost_replies += usize::from(first.is_err());
        let is_committed = house.facts("BOOKING-CONFIRMED") == round as usize + 1;
        between += usize::from(first.is_err() && is_committed);
        let (status, again) = house.client(1).post_keyed("ann", "/api/bookings", body, &key).await.unwrap();
        assert_eq!(status, 201, "{again}");
        if let Ok((201, booking)) = first {
            assert_eq!(booking["booking_id"], again["booking_id"]);
        }
        house.nodes[0].start_again();
    }
    assert!(lost_replies > 0, "no node was killed before its reply");
    println!("{lost_replies} were killed before their reply, {between} of them after the commit");
    assert_eq!(house.facts("BOOKING-CONFIRMED"), 12);
    house.assert_well().await;
}

/// Has commits wait for a standby of this name. With a name that nobody has they wait until it is taken back.
fn wait_for_a_standby_called(house: &House, name: &str) {
    house.postgres.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'")).unwrap();
    house.postgres.sql("SELECT pg_reload_conf()").unwrap();
    let shown = || house.postgres.sql("SHOW synchronous_standby_names").unwrap();
    assert!(wait_until(Duration::from_secs(10), || shown() == name));
}

/// A node dies when Postgres has committed, and before it could say so to anybody. The hold and the sale are there, and
/// whoever asks again with the same key gets them, on another node and on the one that died.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_commit_and_reply() {
    let house = House::new(Warm::single(), Setup { nodes: 2, ..Setup::default() }).await;
    let mut hold = String::new();
    for (fact, table, name) in
        [("SEAT-HOLD-CREATED", "holds", "hold_token"), ("BOOKING-CONFIRMED", "bookings", "booking_id")]
    {
        let (path, body) = match table {
            "holds" => (
                "/api/bookings/hold-seats".to_owned(),
                json!({"event_id": house.event, "seat_ids": house.seats(&[0])}),
            ),
            _ => (format!("/api/bookings/{hold}/confirm"), json!({})),
        };
        // All nodes know the event, and what is written now is the command alone.
        for node in 0..2 {
            house.occupancy(node).await;
        }
        wait_for_a_standby_called(&house, "nobody");
        let asking = tokio::spawn({
            let (client, path, body) = (house.client(0).clone(), path.clone(), body.clone());
            async move { client.post_keyed("ann", &path, body, fact).await }
        });
        // Whoever is here has written its commit to the disk, and has not answered.
        let waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        let is_waiting = || !house.postgres.sql(waiting).unwrap().is_empty();
        assert!(wait_until(Duration::from_secs(10), is_waiting), "nothing was committed");
        house.nodes[0].kill();
        assert!(asking.await.unwrap().is_err(), "somebody was told");
        assert!(is_waiting(), "the answer did not wait for the end of the node");
        wait_for_a_standby_called(&house, "");
        assert!(wait_until(Duration::from_secs(10), || !is_waiting()));
        assert_eq!(house.facts(fact), 1, "the commit is gone with the node");
        let stored = house.postgres.sql(&format!("SELECT id FROM {table}")).unwrap();

        let ask = async |node| house.client(node).post_keyed("ann", &path, body.clone(), fact).await.unwrap();
        let (status, again) = ask(1).await;
        assert_eq!((status, &again[name]), (201, &json!(stored)), "{again}");
        house.nodes[0].start_again();
        assert_eq!(ask(0).await, (201, again));
        assert_eq!(house.facts(fact), 1, "it was done again");
        hold = if hold.is_empty() { stored } else { hold };
        house.assert_well().await;
    }
}

/// A node that sleeps past the end of its hold does not know better than the truth when it wakes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_past_the_end_of_a_hold() {
    let house = House::new(Warm::single(), Setup { ttl_seconds: 2, ..Setup::default() }).await;
    let hold = house.held(0, "ann", &[0]).await;
    house.nodes[0].process(|node| node.pause());
    let confirming = tokio::spawn({
        let (client, hold) = (house.client(0).clone(), hold.clone());
        async move { client.confirm("ann", &hold).await.unwrap() }
    });
    let began = Instant::now();
    loop {
        let (status, answer) = house.hold(1, "bob", &[0]).await;
        if status == 201 {
            break;
        }
        // A claim in Redis that the node had no time to confirm keeps others away for 5 s, and a busy machine for a while longer.
        let waited = began.elapsed();
        assert!(waited < Duration::from_secs(10), "not free after {waited:?}: {status} {answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    house.nodes[0].process(|node| node.resume());
    let (status, body) = confirming.await.unwrap();
    assert_eq!((status, &body["code"]), (410, &json!("hold_expired")), "{body}");
    house.assert_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asked_to_stop_under_load() {
    let house = Arc::new(House::new(Warm::single(), Setup { seats: 4_000, ..Setup::default() }).await);
    let done = Arc::new(AtomicU32::new(0));
    let buyers: Vec<_> = (0..8)
        .map(|buyer| {
            let (house, done) = (Arc::clone(&house), Arc::clone(&done));
            tokio::spawn(async move {
                let mut held = Vec::new();
                for i in 0..500 {
                    let seat = buyer * 500 + i;
                    let seats = house.seats(&[seat]);
                    match house.client(0).hold(&format!("user-{seat}"), &house.event, &seats).await {
                        Ok((201, body)) => {
                            held.push(body["hold_token"].as_str().unwrap().to_owned());
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok((503, _)) | Err(_) => break,
                        Ok((status, body)) => panic!("{status}: {body}"),
                    }
                }
                held
            })
        })
        .collect();
    let began = Instant::now();
    while done.load(Ordering::Relaxed) <= 50 {
        assert!(began.elapsed() < Duration::from_secs(30), "hardly anything is held");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let status = house.nodes[0].process(|node| node.end(Signal::SIGTERM, Duration::from_secs(20)));
    assert!(status.is_some_and(|status| status.success()), "{}", house.nodes[0].said());
    let mut count = 0;
    for buyer in buyers {
        for hold in buyer.await.unwrap() {
            let (status, _) = house.client(1).get("", &format!("/api/bookings/hold/{hold}")).await.unwrap();
            assert_eq!(status, 200, "an acknowledged hold is gone");
            count += 1;
        }
    }
    assert!(count > 50, "only {count} were held");
    house.nodes[0].start_again();
    house.occupancy(0).await;
    house.assert_well().await;
}
