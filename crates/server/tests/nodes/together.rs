//! What nodes know of each other while all is well.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::nodes::house::{House, Setup, Warm};

async fn released_is_held_elsewhere(warm: Warm, within: Duration) {
    let house = House::new(warm, Setup::default()).await;
    let path = format!("/api/events/{}/occupancy", house.event);
    for round in 0..5 {
        let seat = round;
        let hold = house.held(0, "ann", &[seat]).await;
        // The others know that it is held, and would refuse it from memory.
        for node in 1..3 {
            house.until(node, Duration::from_secs(5), &path, |_, body| body["held"] == 1).await;
        }
        house.client(0).release("ann", &hold).await.unwrap();
        let began = std::time::Instant::now();
        let bob = loop {
            match house.hold(1 + round as usize % 2, "bob", &[seat]).await {
                (201, hold) => break hold["hold_token"].as_str().unwrap().to_owned(),
                (409, _) => assert!(began.elapsed() < within, "still taken after {:?}", began.elapsed()),
                (status, body) => panic!("{status}: {body}"),
            }
        };
        assert!(began.elapsed() < within, "{:?}", began.elapsed());
        house.client(2).release("bob", &bob).await.unwrap();
        for node in 0..3 {
            house.until(node, Duration::from_secs(5), &path, |_, body| body["held"] == 0).await;
        }
    }
    house.assert_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_seat_is_free_on_other_nodes_within_250_ms() {
    released_is_held_elsewhere(Warm::single(), Duration::from_millis(250)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_a_released_seat_is_free_on_other_nodes_within_a_second() {
    released_is_held_elsewhere(Warm::None, Duration::from_secs(1)).await;
}

/// A seat that another node has just made has its name in the answer, though nobody has told this node of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_node_has_just_made_has_its_name() {
    let house = House::new(Warm::None, Setup::default()).await;
    house.occupancy(1).await;
    let path = format!("/api/admin/events/{}/seats", house.event);
    for round in 0..40 {
        let row = format!("N{round}");
        let section = json!({"sections": [{
            "block": "balcony", "rows": [row], "numbers": {"from": 7, "to": 7}, "tier": "seat",
        }]});
        let (status, made) = house.client(0).post("", &path, section).await.unwrap();
        assert_eq!(status, 201, "{made}");
        let seat = made["first_seat_id"].as_str().unwrap().to_owned();
        let (status, hold) = house.client(1).hold("ann", &house.event, &[seat]).await.unwrap();
        assert_eq!(status, 201, "{hold}");
        let held = &hold["seats"].as_array().unwrap().last().unwrap();
        assert_eq!((&held["block"], &held["label"]), (&json!("balcony"), &json!(format!("{row}-7"))));
    }
    house.assert_well().await;
}

/// Free seats and new carts are written without being read first. Where that is wrong, nobody is told anything else than
/// what is so: the second node sells more seats to carts of whose holds it has never heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_believed_is_compared() {
    let house = House::new(Warm::None, Setup { nodes: 2, ..Setup::default() }).await;
    for seat in 0..20 {
        house.held(0, &format!("user-{seat}"), &[seat]).await;
    }
    let believed = async |node| house.metric(node, "rowlock_believed_batches_total").await;
    // How many depends on the machine: whoever is a quarter of a second late is wrong, and doubts for a while.
    assert!(believed(0).await >= 1.0);
    // The other node has just learned of the event and of none of its carts.
    house.occupancy(1).await;
    for seat in 0..20 {
        let (status, hold) = house.hold(1, &format!("user-{seat}"), &[20 + seat]).await;
        assert_eq!((status, hold["seats"].as_array().map(Vec::len)), (201, Some(2)), "{hold}");
    }
    assert!(believed(1).await >= 1.0);
    house.assert_well().await;
}

/// What one node sells, the other hears of a moment later, so among nodes that sell the same event something is always
/// missing before what is known. It comes by itself: nobody reads the journal for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_on_their_way_are_not_looked_up() {
    const SEATS: u32 = 400;
    let house = House::new(Warm::single(), Setup { nodes: 2, seats: SEATS, ..Setup::default() }).await;
    for node in 0..2 {
        // From here on it has the event in memory.
        house.occupancy(node).await;
    }
    let looked_up = async |node| house.metric(node, "rowlock_facts_looked_up_total").await;
    let before = looked_up(0).await + looked_up(1).await;
    let sell = async |node: u32| {
        for seat in (node..SEATS).step_by(2) {
            house.held(node as usize, &format!("user-{seat}"), &[seat]).await;
        }
    };
    tokio::join!(sell(0), sell(1));
    // A machine that stands still for a moment has them looked up, and so has the look now and then.
    let read = looked_up(0).await + looked_up(1).await - before;
    assert!(read < f64::from(SEATS) / 2.0, "{read} facts were read from the journal");
    house.assert_well().await;
}

/// All nodes look for expired holds. Each ends once, and is shown free everywhere within a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_expiry_is_released_once() {
    let house = House::new(Warm::single(), Setup { ttl_seconds: 2, ..Setup::default() }).await;
    for i in 0..60 {
        house.held(i as usize, &format!("user-{i}"), &[i]).await;
    }
    let path = format!("/api/events/{}/occupancy", house.event);
    for node in 0..3 {
        house.until(node, Duration::from_secs(4), &path, |_, body| body["held"] == 0).await;
    }
    house.assert_well().await;
    assert_eq!(house.facts("SEAT-HOLD-EXPIRED"), 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holds_of_a_dead_node_end_on_time() {
    let house = House::new(Warm::single(), Setup { ttl_seconds: 3, ..Setup::default() }).await;
    house.occupancy(1).await;
    house.held(0, "ann", &[0]).await;
    let path = format!("/api/events/{}/occupancy", house.event);
    house.until(1, Duration::from_secs(2), &path, |_, body| body["held"] == 1).await;
    house.nodes[0].kill();
    let took = house.until(1, Duration::from_secs(10), &path, |_, body| body["held"] == 0).await;
    assert!(took < Duration::from_millis(4_000), "a second after its end at the latest: {took:?}");
    house.nodes[0].start_again();
    house.occupancy(0).await;
    house.assert_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_revoked_on_one_node_is_refused_by_all() {
    let house = House::new(Warm::single(), Setup::default()).await;
    let made =
        house.client(0).post("", "/api/admin/keys", json!({"name": "spare", "scopes": ["read"]})).await;
    let (_, key) = made.unwrap();
    let (id, secret) = (key["key_id"].as_str().unwrap(), key["key"].as_str().unwrap());
    let path = format!("/api/events/{}", house.event);
    let spare: Vec<_> = house.nodes.iter().map(|node| node.client.with_key(secret)).collect();
    for client in &spare {
        assert_eq!(client.bare(&path).await.unwrap().0, 200);
    }
    house.client(0).delete("", &format!("/api/admin/keys/{id}")).await.unwrap();
    for client in &spare {
        let began = std::time::Instant::now();
        while client.bare(&path).await.unwrap().0 != 401 {
            assert!(began.elapsed() < Duration::from_secs(3), "the key is still good");
        }
    }
}

/// One effect for one key, through whatever node it comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_through_all_nodes_at_once_has_one_effect() {
    let house = House::new(Warm::single(), Setup::default()).await;
    for round in 0..10 {
        let body = json!({"event_id": house.event, "seat_ids": house.seats(&[round])});
        let calls = (0..9).map(|i| {
            let (client, body) = (house.client(i).clone(), body.clone());
            tokio::spawn(async move {
                client.post_keyed("ann", "/api/bookings", body, &format!("k-{round}")).await
            })
        });
        let mut bookings = BTreeSet::new();
        for call in calls.collect::<Vec<_>>() {
            let (status, booking) = call.await.unwrap().unwrap();
            assert_eq!(status, 201, "{booking}");
            bookings.insert(booking["booking_id"].as_str().unwrap().to_owned());
        }
        assert_eq!(bookings.len(), 1);
    }
    assert_eq!(house.facts("BOOKING-CONFIRMED"), 10);
    house.assert_well().await;
}

/// Buyers who choose nothing but how many, through all nodes: every seat is sold, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_seats_are_given_out_to_the_last_one() {
    let house = House::new(Warm::single(), Setup { seats: 60, ..Setup::default() }).await;
    let (_, event) = house.client(0).get("", &format!("/api/events/{}", house.event)).await.unwrap();
    let block = event["blocks"][0]["block_id"].as_str().unwrap().to_owned();
    let calls = (0..50).map(|i| {
        let (client, event, block) = (house.client(i).clone(), house.event.clone(), block.clone());
        tokio::spawn(async move {
            let wish = json!({"event_id": event, "block_id": block, "quantity": 2});
            client.post(&format!("user-{i}"), "/api/bookings/hold-any", wish).await.unwrap().0
        })
    });
    let mut held = 0;
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            201 => held += 1,
            409 => {}
            status => panic!("{status}"),
        }
    }
    assert_eq!(held, 30);
    house.assert_well().await;
}
