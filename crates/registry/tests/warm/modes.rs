//! Cluster and sentinels.

use rowlock_core::EventId;
use rowlock_dev::redis::Sentinels;
use rowlock_registry::warm::{Claimed, Warm, WarmMode, WarmOptions};
use uuid::Uuid;

use super::support::*;

pub fn event_number(number: u128) -> EventId {
    // Spread over all the bits, as the ids of real events are.
    EventId::from_uuid(Uuid::from_u128((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_serves_events_of_every_node() {
    let servers = Servers::cluster(0);
    // All of them are still there when they are counted.
    let options = WarmOptions { pending: std::time::Duration::from_secs(60), ..servers.options() };
    let warm = Warm::connect(options).await.unwrap();
    let Servers::Cluster(cluster) = &servers else { unreachable!() };
    for number in 0..30 {
        assert_eq!(rush(&warm, event_number(number), 1, 20).await, (1, 19));
    }
    assert_eq!(rush(&warm, event(), 7, 200).await, (1, 199));
    for node in cluster.nodes() {
        assert_ne!(node.cli(&["DBSIZE"]).unwrap(), "0", "every node has some of the events");
        node.cli(&["SCRIPT", "FLUSH"]).unwrap();
    }
    let receipt = claimed(claim(&warm, "ada", &[1, 2, 3]).await);
    warm.release(&receipt).await.unwrap();
    claimed(claim(&warm, "bob", &[1, 2, 3]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_goes_on_after_a_failover_even_if_a_claim_is_lost() {
    let servers = Servers::cluster(1);
    // The client may stand still for as long as it waits for an answer while it looks for the new master.
    let warm = Warm::connect(hasty(&servers)).await.unwrap();
    let Servers::Cluster(cluster) = &servers else { unreachable!() };
    claimed(claim(&servers.connect().await, "ada", &[1]).await);
    let nodes = cluster.nodes();
    let master = cluster.master_of(&nodes[0], &seat_key(1)).unwrap();
    let asked = nodes.iter().find(|node| node.address() != master.address()).unwrap();
    master.kill();
    // The one claim may be lost or kept; whoever comes next is answered, and of many one gets a free seat.
    eventually("the new master", async || {
        !matches!(claim(&warm, "bob", &[2]).await, Claimed::Unavailable { .. })
    })
    .await;
    eventually("everybody knows it", async || {
        cluster.master_of(asked, &seat_key(1)).is_some_and(|now| now.address() != master.address())
    })
    .await;
    assert_eq!(rush(&servers.connect().await, event(), 3, 50).await, (1, 49));
    // Who was there before is back, too.
    eventually("the old client", async || matches!(claim(&warm, "bob", &[4]).await, Claimed::Claimed(_)))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_lead_to_the_master_and_to_its_successor() {
    let servers = Servers::sentinels();
    let warm = Warm::connect(watchful(&servers)).await.unwrap();
    let Servers::Sentinels(sentinels) = &servers else { unreachable!() };
    assert_eq!(rush(&warm, event(), 1, 200).await, (1, 199));
    let [master, replica] = sentinels.servers();
    assert_eq!(master.cli(&["EXISTS", &seat_key(1)]).unwrap(), "1");
    master.kill();
    eventually("the successor", async || matches!(claim(&warm, "bob", &[2]).await, Claimed::Claimed(_)))
        .await;
    // They tell each other.
    eventually(Sentinels::MASTER, async || sentinels.master() == Some(replica.address())).await;
    assert_eq!(replica.cli(&["EXISTS", &seat_key(2)]).unwrap(), "1");
    assert_eq!(rush(&warm, event(), 3, 50).await.0, 1);
}

#[tokio::test]
async fn a_master_that_became_a_replica_is_left() {
    let servers = Servers::sentinels();
    let warm = Warm::connect(watchful(&servers)).await.unwrap();
    let Servers::Sentinels(sentinels) = &servers else { unreachable!() };
    claimed(claim(&warm, "ada", &[1]).await);
    let [_, second] = sentinels.servers();
    sentinels.sentinels()[0].cli(&["SENTINEL", "FAILOVER", Sentinels::MASTER]).unwrap();
    eventually("the failover", async || sentinels.master() == Some(second.address())).await;
    eventually("the new master", async || {
        claim(&warm, "bob", &[2]).await;
        second.cli(&["EXISTS", &seat_key(2)]).unwrap() == "1"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_servers_have_passwords_of_their_own() {
    let servers = Servers::sentinels();
    let Servers::Sentinels(sentinels) = &servers else { unreachable!() };
    for server in sentinels.servers() {
        server.cli(&["CONFIG", "SET", "masterauth", "ho@use", "requirepass", "ho@use"]).unwrap();
    }
    for sentinel in sentinels.sentinels() {
        sentinel.cli(&["SENTINEL", "SET", Sentinels::MASTER, "auth-pass", "ho@use"]).unwrap();
        sentinel.cli(&["ACL", "SETUSER", "guest", "on", ">door", "~*", "&*", "+@all"]).unwrap();
        sentinel.cli(&["ACL", "SETUSER", "default", "off"]).unwrap();
    }
    let with = |door: &str, house: &str| {
        let mut options = servers.options();
        for url in &mut options.urls {
            *url = url.replace("redis://", &format!("redis://{door}"));
        }
        options.mode = WarmMode::Sentinel { master: format!("{house}{}", Sentinels::MASTER) };
        options
    };
    let warm = Warm::connect(with("guest:door@", ":ho%40use@")).await.unwrap();
    assert!(warm.is_up());
    assert_eq!(rush(&warm, event(), 1, 50).await, (1, 49));
    let [master, _] = sentinels.servers();
    let kept = master.cli(&["--no-auth-warning", "-a", "ho@use", "EXISTS", &seat_key(1)]);
    assert_eq!(kept.unwrap(), "1");
    for (door, house) in [("", ":ho%40use@"), ("guest:door@", ""), ("guest:door@", ":door@")] {
        let warm = Warm::connect(with(door, house)).await.unwrap();
        assert!(!warm.is_up(), "with {door:?} and {house:?}");
    }
}
