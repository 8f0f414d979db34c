//! Nodes telling each other.

use rowlock_core::fact::{KeyRevoked, SeatsMarked};
use rowlock_core::{Fact, KeyId, Stream, Time};
use rowlock_dev::redis::RedisCluster;
use rowlock_registry::warm::{Announcement, Batch, Warm};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;
use uuid::Uuid;

use super::support::*;

const NOW: Time = Time::from_millis(1_700_000_000_000);

async fn next(receiver: &mut Receiver<Announcement>) -> Announcement {
    timeout(PATIENCE, receiver.recv()).await.expect("an announcement").expect("the channel is open")
}

async fn subscribed(warm: &Warm) -> Receiver<Announcement> {
    let mut receiver = warm.subscribe();
    assert_eq!(next(&mut receiver).await, Announcement::Interrupted, "what came before is not known");
    receiver
}

fn blocked(ordinal: u32) -> Fact {
    Fact::SeatsBlocked(SeatsMarked { event: event(), seats: seats([ordinal]) })
}

fn batch(stream: Stream, facts: &[(u64, Fact)]) -> Batch<'_> {
    Batch { org: org(), stream, facts: facts.iter().map(|(sequence, fact)| (*sequence, fact)).collect() }
}

async fn tell(warm: &Warm, facts: &[(u64, Fact)]) {
    warm.apply(NOW, &[batch(Stream::Event(event()), facts)]).await.unwrap();
}

#[tokio::test]
async fn others_hear_and_oneself_does_not() {
    let (servers, one) = one().await;
    let two = servers.connect().await;
    let (mut hears_one, mut hears_two) = (subscribed(&two).await, subscribed(&one).await);
    let revoked = KeyRevoked { org: org(), key: KeyId::from_uuid(Uuid::from_u128(5)), revoked_at: NOW };
    let (of_event, of_org) = ([(7, blocked(1)), (8, blocked(2))], [(3, Fact::ApiKeyRevoked(revoked))]);
    let batches = [batch(Stream::Event(event()), &of_event), batch(Stream::Org(org()), &of_org)];
    one.apply(NOW, &batches).await.unwrap();
    tell(&two, &[(9, blocked(3))]).await;
    let Announcement::Committed(heard) = next(&mut hears_one).await else { panic!() };
    assert_eq!((heard.node, heard.org, heard.stream), (one.node(), org(), Stream::Event(event())));
    assert_eq!((heard.sequence, &heard.facts[..]), (8, &of_event[..]));
    let Announcement::Committed(heard) = next(&mut hears_one).await else { panic!() };
    assert_eq!((heard.stream, &heard.facts[..]), (Stream::Org(org()), &of_org[..]));
    let Announcement::Committed(heard) = next(&mut hears_two).await else { panic!() };
    assert_eq!((heard.node, heard.sequence), (two.node(), 9), "its own are not among them");
}

#[tokio::test]
async fn too_much_to_say_is_read_in_the_journal() {
    let (servers, one) = one().await;
    let two = servers.connect().await;
    let mut heard = subscribed(&two).await;
    let many = SeatsMarked { event: event(), seats: seats(0..10_000) };
    tell(&one, &[(4, Fact::SeatsBlocked(many))]).await;
    let Announcement::Committed(heard) = next(&mut heard).await else { panic!() };
    assert_eq!((heard.sequence, heard.facts.len()), (4, 0));
}

#[tokio::test]
async fn a_new_connection_says_that_something_may_be_missing() {
    let (servers, one) = one().await;
    let two = servers.connect().await;
    let mut heard = subscribed(&two).await;
    servers.redis().restart_empty().unwrap();
    assert_eq!(next(&mut heard).await, Announcement::Interrupted);
    eventually("a call that works", async || one.load(org(), event()).await.is_ok()).await;
    tell(&one, &[(1, blocked(1))]).await;
    assert!(matches!(next(&mut heard).await, Announcement::Committed(_)));
}

#[tokio::test]
async fn a_slow_listener_is_told_that_it_missed_some() {
    let (servers, one) = one().await;
    let two = servers.connect().await;
    let mut slow = subscribed(&two).await;
    let mut other = subscribed(&two).await;
    let mut sequence = 0;
    let mut tell_many = async || {
        let facts: Vec<[(u64, Fact); 1]> = (1..=500).map(|i| [(sequence + i, blocked(1))]).collect();
        sequence += 500;
        let batches: Vec<_> = facts.iter().map(|facts| batch(Stream::Event(event()), facts)).collect();
        one.apply(NOW, &batches).await.unwrap();
        for _ in 0..500 {
            next(&mut other).await;
        }
    };
    while slow.capacity() > 0 {
        tell_many().await;
    }
    // These find it full.
    tell_many().await;
    let mut before = 0;
    while let Announcement::Committed(_) = next(&mut slow).await {
        before += 1;
        if slow.is_empty() {
            tell_many().await;
        }
    }
    assert!(before >= slow.max_capacity(), "what had come before the loss is heard first");
}

#[tokio::test]
async fn in_a_cluster_every_node_passes_it_on() {
    let servers = Servers::Cluster(RedisCluster::start(0).unwrap());
    let (one, two) = (servers.connect().await, servers.connect().await);
    let mut heard = subscribed(&two).await;
    tell(&one, &[(1, blocked(1))]).await;
    assert!(matches!(next(&mut heard).await, Announcement::Committed(_)));
}
