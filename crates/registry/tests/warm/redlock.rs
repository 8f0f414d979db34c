//! A majority of servers that know nothing of each other.

use std::time::{Duration, Instant};

use rowlock_dev::redis::Redis;
use rowlock_registry::breaker::BreakerState;
use rowlock_registry::warm::{Claimed, Warm, WarmOptions};

use super::projection::Book;
use super::support::*;

fn all(servers: &Servers) -> &[Redis] {
    let Servers::Redlock(all) = servers else { panic!("not Redlock") };
    all
}

fn copies(servers: &Servers, ordinal: u32) -> usize {
    let has = |redis: &&Redis| redis.cli(&["EXISTS", &seat_key(ordinal)]).is_ok_and(|said| said == "1");
    all(servers).iter().filter(has).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hundred_one_gets_the_majority() {
    let servers = Servers::redlock();
    let warm = servers.connect().await;
    for round in 0..10 {
        assert_eq!(rush(&warm, event(), round, 200).await, (1, 199), "round {round}");
    }
}

#[tokio::test]
async fn a_claim_is_on_all_servers_and_is_given_back_on_all() {
    let servers = Servers::redlock();
    let warm = servers.connect().await;
    let receipt = claimed(claim(&warm, "ada", &[1]).await);
    eventually("all three", async || copies(&servers, 1) == 3).await;
    taken(claim(&warm, "bob", &[1]).await);
    warm.release(&receipt).await.unwrap();
    eventually("none", async || copies(&servers, 1) == 0).await;
}

#[tokio::test]
async fn a_minority_is_not_enough_and_is_given_back() {
    let servers = Servers::redlock();
    let warm = servers.connect().await;
    let theirs = format!("{{\"token\":\"{}\",\"user\":\"eve\",\"pending\":true}}", uuid::Uuid::nil());
    for redis in &all(&servers)[1..] {
        redis.cli(&["SET", &seat_key(1), &theirs]).unwrap();
    }
    let owners = taken(claim(&warm, "ada", &[1]).await);
    assert_eq!(owners[0].1.user, Some(user("eve")));
    eventually("the vote is given back", async || copies(&servers, 1) == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_of_three_killed_nothing_changes() {
    for dead in 0..3 {
        let servers = Servers::redlock();
        let warm = Warm::connect(watchful(&servers)).await.unwrap();
        all(&servers)[dead].kill();
        for ordinal in 0..5 {
            claimed(claim(&warm, "ada", &[ordinal]).await);
        }
        eventually("its breaker", async || {
            claim(&warm, "ada", &[9]).await;
            warm.states()[dead].1 != BreakerState::Closed
        })
        .await;
        assert!(warm.is_up());
        assert_eq!(rush(&warm, event(), 20, 200).await, (1, 199), "{dead} is dead");
        let receipt = claimed(claim(&warm, "ada", &[30]).await);
        warm.release(&receipt).await.unwrap();
        eventually("it is given back", async || copies(&servers, 30) == 0).await;
    }
}

#[tokio::test]
async fn a_paused_server_costs_a_few_time_outs_and_then_nothing() {
    let servers = Servers::redlock();
    let options = WarmOptions { call_timeout: Duration::from_secs(1), ..hasty(&servers) };
    let limit = options.call_timeout;
    let probe_after = Duration::from_secs(3600);
    let breaker = rowlock_registry::breaker::BreakerOptions { probe_after, ..options.breaker };
    let warm = Warm::connect(WarmOptions { breaker, ..options }).await.unwrap();
    all(&servers)[0].pause();
    eventually("its breaker", async || {
        claimed(claim(&warm, "ada", &[1]).await);
        warm.states()[0].1 == BreakerState::Open
    })
    .await;
    let began = Instant::now();
    for ordinal in 100..200 {
        claimed(claim(&warm, "ada", &[ordinal]).await);
    }
    assert!(began.elapsed() < limit * 25, "a hundred claims took {:?}", began.elapsed());
    all(&servers)[0].resume();
}

#[tokio::test]
async fn with_two_of_three_killed_nobody_is_refused_by_redis() {
    let servers = Servers::redlock();
    let warm = Warm::connect(watchful(&servers)).await.unwrap();
    let receipt = claimed(claim(&warm, "eve", &[2]).await);
    all(&servers)[1].kill();
    all(&servers)[2].kill();
    for _ in 0..12 {
        assert!(matches!(claim(&warm, "ada", &[1]).await, Claimed::Unavailable));
    }
    assert!(!warm.is_up());
    assert!(warm.release(&receipt).await.is_err());
    eventually("the lonely vote is given back", async || copies(&servers, 1) == 0).await;
    let mut closings = warm.closings();
    all(&servers)[1].start_again().unwrap();
    tokio::time::timeout(PATIENCE, closings.changed()).await.unwrap();
    claimed(claim(&warm, "ada", &[1]).await);
}

#[tokio::test]
async fn commits_are_followed_with_one_of_three_dead() {
    let servers = Servers::redlock();
    let warm = Warm::connect(watchful(&servers)).await.unwrap();
    let mut book = Book::new().await;
    book.apply(&warm, &book.facts).await;
    all(&servers)[0].kill();
    for seat in 0..10 {
        let new = book.commit(vec![book.stage.hold("ada", &[seat])]).await;
        book.apply(&warm, &new).await;
    }
    assert_eq!(book.loaded(&warm).await, Some(book.stored().await));
    book.assert_claims(&warm).await;
    // It comes back with nothing and is the first to be asked, but others know more.
    let mut closings = warm.closings();
    all(&servers)[0].start_again().unwrap();
    tokio::time::timeout(PATIENCE, closings.changed()).await.unwrap();
    assert_eq!(book.loaded(&warm).await, Some(book.stored().await));
    warm.save(book.stage.org, &book.stored().await, book.now()).await.unwrap();
    eventually("its claims", async || {
        all(&servers)[0].cli(&["DBSIZE"]).unwrap().parse::<u32>().unwrap() >= 13
    })
    .await;
}
