//! A thousand users and one seat, through three nodes: exactly one gets it, in every mode and whatever Redis does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rowlock_dev::redis::{Redis, RedisCluster, Sentinels};
use serde_json::Value;

use crate::nodes::house::{House, Setup, Warm};

const USERS: usize = 1_000;
/// Longer than any node takes to find out that a Redis is gone, or that it is back.
const NOTICED: Duration = Duration::from_secs(15);

async fn one_wins(warm: Warm) -> House {
    let house = House::new(warm, Setup::default()).await;
    for seat in 0..2 {
        assert_eq!(house.rush(seat, USERS).await, 1);
    }
    house.assert_well().await;
    house
}

/// Waits until the breakers of all nodes in front of the first Redis are closed, or are not.
async fn until_closed(house: &House, closed: bool) {
    let is_so = |_: u16, health: &Value| {
        let breaker = health["warm"]["servers"][0]["breaker"].as_str();
        breaker.is_some_and(|state| (state == "closed") == closed)
    };
    for node in 0..house.nodes.len() {
        house.until(node, NOTICED, "/readyz?verbose", is_so).await;
    }
}

/// Has all nodes find out that the first Redis is gone. Of a rush they may not: most are refused from memory, or ask
/// Redis together. Whoever wants a free seat asks, and five who get no answer open the breaker.
async fn notice(house: &House) {
    for node in 0..house.nodes.len() {
        for i in 0..5 {
            let seat = 100 + 5 * node as u32 + i;
            house.held(node, &format!("user-{seat}"), &[seat]).await;
        }
    }
    until_closed(house, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_redis() {
    one_wins(Warm::single()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_cluster() {
    one_wins(Warm::Cluster(RedisCluster::start(0).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_sentinels() {
    one_wins(Warm::Sentinel(Box::new(Sentinels::start().unwrap()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_redlock_and_then_with_one_of_its_servers_dead() {
    let house = one_wins(Warm::redlock()).await;
    let Warm::Redlock(servers) = &house.warm else { unreachable!() };
    servers[0].kill();
    assert_eq!(house.rush(2, USERS).await, 1);
    notice(&house).await;
    assert_eq!(house.rush(3, USERS).await, 1);
    house.assert_well().await;
    // It has forgotten everything, and is the first that everybody asks.
    servers[0].start_again().unwrap();
    assert_eq!(house.rush(4, USERS).await, 1);
    until_closed(&house, true).await;
    assert_eq!(house.rush(5, USERS).await, 1);
    house.assert_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis() {
    one_wins(Warm::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_redis_down() {
    let house = House::new(Warm::single(), Setup::default()).await;
    house.redis().kill();
    assert_eq!(house.rush(0, USERS).await, 1);
    notice(&house).await;
    assert_eq!(house.rush(1, USERS).await, 1);
    house.assert_verified();
    house.redis().start_again().unwrap();
    assert_eq!(house.rush(2, USERS).await, 1);
    until_closed(&house, true).await;
    house.assert_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_breaker_that_opens_and_closes() {
    const TIMES: u32 = 2;
    let house = Arc::new(House::new(Warm::single(), Setup { seats: 2_000, ..Setup::default() }).await);
    let over = Arc::new(AtomicBool::new(false));
    // One rush after another, so that there is one whenever a breaker changes.
    let rushes = tokio::spawn({
        let (house, over) = (Arc::clone(&house), Arc::clone(&over));
        async move {
            let mut seat = 0;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(house.rush(seat, USERS).await, 1, "seat {seat}");
                seat += 1;
            }
        }
    });
    for _ in 0..TIMES {
        house.redis().pause();
        until_closed(&house, false).await;
        house.redis().resume();
        until_closed(&house, true).await;
    }
    over.store(true, Ordering::Relaxed);
    rushes.await.unwrap();
    for node in 0..house.nodes.len() {
        // Each time it opens, is probed, and closes.
        let changes = house.metric(node, "rowlock_warm_breaker_changes_total").await;
        assert!(changes >= f64::from(3 * TIMES), "{changes} on node {node}");
    }
    house.assert_well().await;
}

/// The same in a Redis that has lost its claims when its master failed: the replica never had some of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_cluster_whose_masters_are_lost() {
    let cluster = RedisCluster::start(1).unwrap();
    // How long nobody serves the event is up to the cluster. It may be too short for a breaker to open, and then what was
    // lost is found by the look now and then.
    let settings = vec![("ROWLOCK__ENGINE__RECONCILE_SECONDS", "2".to_owned())];
    let house = House::new(Warm::Cluster(cluster), Setup { settings, ..Setup::default() }).await;
    assert_eq!(house.rush(0, USERS).await, 1);
    let Warm::Cluster(cluster) = &house.warm else { unreachable!() };
    // The event's id is the hash tag of all its keys.
    let tag = format!("{{{}}}", house.event);
    let lost = cluster.master_of(&cluster.nodes()[0], &tag).expect("somebody serves the event");
    lost.kill();
    for seat in 1..4 {
        assert_eq!(house.rush(seat, 300).await, 1);
    }
    let is_lost = |node: &Redis| node.address() == lost.address();
    let witness = cluster.nodes().iter().find(|node| !is_lost(node)).unwrap();
    let successor = || cluster.master_of(witness, &tag).filter(|node| !is_lost(node));
    assert!(rowlock_dev::wait_until(Duration::from_secs(30), || successor().is_some()), "no failover");
    let successor = successor().unwrap();
    assert!(role(successor).contains("role:master"));
    // Those who come now ask it. What it had not been sent as a replica is lost; here that is everything.
    until_closed(&house, true).await;
    successor.cli(&["FLUSHALL"]).unwrap();
    for seat in 4..6 {
        assert_eq!(house.rush(seat, USERS).await, 1);
    }
    for seat in 0..6 {
        let (status, body) = house.hold(seat as usize, "late", &[seat]).await;
        assert_eq!(status, 409, "seat {seat} is taken, claimed or not: {body}");
    }
    house.assert_well().await;
    // Who was the master follows whoever is now.
    lost.start_again().unwrap();
    let follows = || role(lost).contains("role:slave") && role(lost).contains("master_link_status:up");
    assert!(rowlock_dev::wait_until(Duration::from_secs(30), follows), "{}", role(lost));
    assert_eq!(house.rush(6, USERS).await, 1);
    house.assert_well().await;
}

fn role(redis: &Redis) -> String {
    redis.cli(&["INFO", "replication"]).unwrap()
}
