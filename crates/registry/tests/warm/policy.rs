//! A Redis that may evict claims is refused.

use rowlock_dev::redis::Redis;
use rowlock_registry::breaker::BreakerState;
use rowlock_registry::warm::{Warm, WarmError, WarmMode, WarmOptions};

use super::support::*;

#[tokio::test]
async fn a_redis_that_evicts_is_refused_and_the_error_says_what_to_do() {
    let redis = Redis::start_with(&["maxmemory-policy allkeys-lru"]).unwrap();
    let servers = Servers::One(redis);
    let Err(error) = Warm::connect(servers.options()).await else { panic!("it connected") };
    assert!(matches!(&error, WarmError::Evicts { policy, .. } if policy == "allkeys-lru"), "{error}");
    assert!(error.to_string().contains("CONFIG SET maxmemory-policy noeviction"), "{error}");
}

#[tokio::test]
async fn one_bad_server_of_three_is_refused() {
    let mut all: Vec<Redis> = (0..2).map(|_| Redis::start().unwrap()).collect();
    all.push(Redis::start_with(&["maxmemory-policy volatile-ttl"]).unwrap());
    assert!(Warm::connect(Servers::Redlock(all).options()).await.is_err());
}

#[tokio::test]
async fn where_config_is_forbidden_info_is_asked() {
    for (policy, fine) in [("noeviction", true), ("allkeys-random", false)] {
        let setting = format!("maxmemory-policy {policy}");
        let redis = Redis::start_with(&[&setting]).unwrap();
        redis.cli(&["ACL", "SETUSER", "default", "-config"]).unwrap();
        let servers = Servers::One(redis);
        assert!(servers.redis().cli(&["CONFIG", "GET", "maxmemory"]).is_err());
        assert_eq!(Warm::connect(servers.options()).await.is_ok(), fine, "{policy}");
    }
}

#[tokio::test]
async fn a_server_that_comes_later_is_checked_then() {
    let servers = Servers::One(Redis::start_with(&["maxmemory-policy allkeys-lru"]).unwrap());
    servers.redis().kill();
    let warm = Warm::connect(watchful(&servers)).await.unwrap();
    assert_eq!(warm.states()[0].1, BreakerState::Open);
    let mut closings = warm.closings();
    servers.redis().start_again().unwrap();
    // Several probes find it and refuse it.
    assert!(tokio::time::timeout(std::time::Duration::from_secs(2), closings.changed()).await.is_err());
    assert!(!warm.is_up());
    servers.redis().cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).unwrap();
    tokio::time::timeout(PATIENCE, closings.changed()).await.unwrap();
    assert!(warm.is_up());
    claimed(claim(&warm, "ada", &[1]).await);
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let none = WarmOptions::default();
    assert!(matches!(Warm::connect(none).await, Err(WarmError::Options(_))));
    let url = |urls: &[&str], mode| WarmOptions {
        urls: urls.iter().map(|url| (*url).to_owned()).collect(),
        mode,
        ..WarmOptions::default()
    };
    let two = ["redis://127.0.0.1:1", "redis://127.0.0.1:2"];
    assert!(matches!(Warm::connect(url(&two, WarmMode::Single)).await, Err(WarmError::Options(_))));
    assert!(matches!(Warm::connect(url(&two, WarmMode::Redlock)).await, Err(WarmError::Options(_))));
    let Err(error) = Warm::connect(url(&["http://ada:secret@x"], WarmMode::Single)).await else { panic!() };
    assert!(!error.to_string().contains("secret"), "{error}");
}
