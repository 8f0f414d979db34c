//! Redis gone, paused and back.

use std::time::{Duration, Instant};

use rowlock_dev::redis::Redis;
use rowlock_registry::breaker::{BreakerOptions, BreakerState};
use rowlock_registry::warm::{Claimed, Unavailable, Warm, WarmOptions};

use super::support::*;

const NEVER: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_killed_server_is_noticed_after_five_calls_and_found_again_by_a_probe() {
    let servers = Servers::one();
    let warm = Warm::connect(watchful(&servers)).await.unwrap();
    let mut closings = warm.closings();
    claimed(claim(&warm, "ada", &[1]).await);
    servers.redis().kill();
    for call in 1..=5 {
        assert_eq!(warm.states()[0].1, BreakerState::Closed, "before call {call}");
        assert!(matches!(claim(&warm, "ada", &[1]).await, Claimed::Unavailable { .. }));
    }
    assert_ne!(warm.states()[0].1, BreakerState::Closed);
    assert!(!warm.is_up());
    servers.redis().start_again().unwrap();
    tokio::time::timeout(PATIENCE, closings.changed()).await.unwrap();
    assert_eq!(warm.states()[0].1, BreakerState::Closed);
    claimed(claim(&warm, "ada", &[1]).await);
}

#[tokio::test]
async fn while_it_is_open_nobody_waits() {
    let servers = Servers::one();
    let options = WarmOptions {
        call_timeout: Duration::from_millis(500),
        bulk_timeout: Duration::from_millis(500),
        breaker: BreakerOptions { probe_after: NEVER, ..BreakerOptions::default() },
        ..servers.options()
    };
    let receipt = claimed(claim(&servers.connect().await, "ada", &[1]).await);
    let warm = Warm::connect(options).await.unwrap();
    servers.redis().pause();
    for _ in 0..5 {
        let began = Instant::now();
        assert!(matches!(claim(&warm, "bob", &[1]).await, Claimed::Unavailable { .. }));
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(500) && took < Duration::from_secs(5), "{took:?}");
    }
    assert_eq!(warm.states()[0].1, BreakerState::Open);
    // A thousand calls that touched the network would take 500 seconds.
    let began = Instant::now();
    for _ in 0..1000 {
        assert!(matches!(claim(&warm, "bob", &[1]).await, Claimed::Unavailable { .. }));
        assert_eq!(warm.release(&receipt).await, Err(Unavailable));
        assert_eq!(warm.load(org(), event()).await, Err(Unavailable));
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    servers.redis().resume();
}

#[tokio::test]
async fn a_pause_shorter_than_five_calls_is_no_outage() {
    let servers = Servers::one();
    claimed(claim(&servers.connect().await, "ada", &[1]).await);
    let warm = Warm::connect(hasty(&servers)).await.unwrap();
    for _ in 0..3 {
        servers.redis().pause();
        for _ in 0..4 {
            assert!(matches!(claim(&warm, "bob", &[1]).await, Claimed::Unavailable { .. }));
        }
        servers.redis().resume();
        eventually("an answer", async || matches!(claim(&warm, "bob", &[1]).await, Claimed::Taken(_))).await;
        assert_eq!(warm.states()[0].1, BreakerState::Closed);
    }
}

#[tokio::test]
async fn a_probe_that_fails_keeps_it_open() {
    let servers = Servers::one();
    servers.redis().pause();
    let warm = Warm::connect(hasty(&servers)).await.unwrap();
    let mut closings = warm.closings();
    assert!(tokio::time::timeout(Duration::from_secs(2), closings.changed()).await.is_err());
    assert!(!warm.is_up());
    servers.redis().resume();
    tokio::time::timeout(PATIENCE, closings.changed()).await.unwrap();
    eventually("an answer", async || matches!(claim(&warm, "ada", &[1]).await, Claimed::Claimed(_))).await;
}

#[tokio::test]
async fn one_spoilt_key_does_not_switch_redis_off() {
    let (servers, warm) = one().await;
    servers.redis().cli(&["LPUSH", &seat_key(1), "not a string"]).unwrap();
    let spoilt = format!("rowlock:org:{}:event:{{{}}}:occupancy", org(), event());
    servers.redis().cli(&["SET", &spoilt, "not a hash"]).unwrap();
    for _ in 0..10 {
        assert_eq!(warm.load(org(), event()).await, Err(Unavailable));
    }
    assert!(warm.is_up());
    claimed(claim(&warm, "ada", &[2]).await);
}

/// A server without a command that is needed answers everything, and is of no use.
#[tokio::test]
async fn a_server_that_does_not_know_the_command_counts_as_away() {
    let servers = Servers::One(Redis::start_with(&["rename-command EVALSHA hidden"]).unwrap());
    let warm = Warm::connect(servers.options()).await.unwrap();
    for call in 1..=5 {
        assert_eq!(warm.states()[0].1, BreakerState::Closed, "before call {call}");
        assert!(matches!(claim(&warm, "ada", &[1, 2]).await, Claimed::Unavailable { .. }));
    }
    assert_eq!(warm.states()[0].1, BreakerState::Open);
}
