//! A thousand users and one seat, through three nodes: exactly one gets it, in every mode and whatever Redis does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rowlock_dev::redis::{RedisCluster, Sentinels};

use crate::house::{House, Setup, Warm};

const USERS: usize = 1_000;

async fn one_wins(warm: Warm) -> House {
    let house = House::new(warm, Setup::default()).await;
    for seat in 0..2 {
        assert_eq!(house.rush(seat, USERS).await, 1);
    }
    house.assert_well().await;
    house
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
    house.assert_verified();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis() {
    one_wins(Warm::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_redis_down() {
    let house = House::new(Warm::single(), Setup::default()).await;
    house.redis().kill();
    for seat in 0..2 {
        assert_eq!(house.rush(seat, USERS).await, 1);
    }
    house.assert_verified();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_breaker_that_opens_and_closes() {
    let house = Arc::new(House::new(Warm::single(), Setup::default()).await);
    let over = Arc::new(AtomicBool::new(false));
    let flapping = tokio::task::spawn_blocking({
        let (house, over) = (Arc::clone(&house), Arc::clone(&over));
        move || {
            while !over.load(Ordering::Relaxed) {
                house.redis().pause();
                std::thread::sleep(Duration::from_millis(400));
                house.redis().resume();
                std::thread::sleep(Duration::from_millis(1_200));
            }
        }
    });
    for seat in 0..6 {
        assert_eq!(house.rush(seat, USERS).await, 1, "seat {seat}");
    }
    over.store(true, Ordering::Relaxed);
    flapping.await.unwrap();
    house.assert_well().await;
}

/// The same in a Redis that has lost its claims when its master failed: the replica never had some of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_cluster_whose_masters_are_lost() {
    let cluster = RedisCluster::start(1).unwrap();
    let house = House::new(Warm::Cluster(cluster), Setup::default()).await;
    assert_eq!(house.rush(0, USERS).await, 1);
    let Warm::Cluster(cluster) = &house.warm else { unreachable!() };
    // The event's id is the hash tag of all its keys.
    let tag = format!("{{{}}}", house.event);
    let master = cluster.master_of(&cluster.nodes()[0], &tag).expect("somebody serves the event");
    master.kill();
    for seat in 1..4 {
        assert_eq!(house.rush(seat, 300).await, 1);
    }
    house.assert_verified();
}
