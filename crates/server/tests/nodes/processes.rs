//! Nodes killed, frozen and asked to stop, in the middle of things.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::house::{House, Setup, Warm};

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
    assert!(rowlock_dev::wait_until(Duration::from_secs(5), claimed), "the seat was never claimed");
    house.nodes[0].kill();
    assert!(asking.await.unwrap().is_err());
    for pid in house.postgres.pids() {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), Signal::SIGCONT).unwrap();
    }
    let began = Instant::now();
    loop {
        match house.hold(1, "bob", &[0]).await {
            (201, _) => break,
            // Five seconds, and not the quarter of an hour that a hold has.
            (409 | 503, _) => assert!(began.elapsed() < Duration::from_secs(10), "still taken"),
            (status, body) => panic!("{status}: {body}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    house.nodes[0].start_again();
    house.assert_well().await;
}

/// A node dies at any moment while it books. Whoever asks again with the same key, on another node, gets the one
/// booking there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_commit_and_reply() {
    let house = House::new(Warm::single(), Setup { nodes: 2, ..Setup::default() }).await;
    let (mut lost_replies, mut between) = (0, 0);
    for round in 0..12 {
        let body = json!({"event_id": house.event, "seat_ids": house.seats(&[round])});
        let key = format!("key-{round}");
        let first = tokio::spawn({
            let (client, body, key) = (house.client(0).clone(), body.clone(), key.clone());
            async move { client.post_keyed("ann", "/api/bookings", body, &key).await }
        });
        tokio::time::sleep(Duration::from_micros(500 * u64::from(round))).await;
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
    while house.hold(1, "bob", &[0]).await.0 != 201 {
        assert!(began.elapsed() < Duration::from_secs(6), "the seat never became free");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    house.nodes[0].process(|node| node.resume());
    let (status, body) = confirming.await.unwrap();
    assert_eq!((status, &body["code"]), (410, &json!("hold_expired")), "{body}");
    house.assert_verified();
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
    house.assert_verified();
}
