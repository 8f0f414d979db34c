//! Nodes whose clocks are wrong. The clock of Postgres decides, so nothing changes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rowlock_api::credential::sign_token;
use rowlock_core::org::Scope;
use rowlock_core::{Time, UserId};

use crate::nodes::house::{House, SECRET, Setup, Warm};

fn faketime() -> String {
    let found = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"]
        .iter()
        .map(|folder| format!("{folder}/faketime/libfaketime.so.1"))
        .find(|path| std::path::Path::new(path).exists());
    found.expect("faketime is installed")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_minutes_off_in_both_directions() {
    let mut environment = Vec::new();
    for (node, offset) in [(1, "+300"), (2, "-300")] {
        environment.push((node, "LD_PRELOAD", faketime()));
        environment.push((node, "FAKETIME", offset.to_owned()));
        environment.push((node, "FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()));
    }
    let house = House::new(Warm::single(), Setup { ttl_seconds: 4, environment, ..Setup::default() }).await;
    // The node that is ahead neither takes what is held nor ends it; the one behind does not keep it.
    for node in 0..3 {
        let seat = node as u32;
        house.held(node, &format!("ann-{node}"), &[seat]).await;
        for other in 0..3 {
            assert_eq!(
                house.hold(other, "bob", &[seat]).await.0,
                409,
                "held through {node}, asked through {other}"
            );
        }
    }
    let path = format!("/api/events/{}/occupancy", house.event);
    for node in 0..3 {
        house.until(node, Duration::from_secs(7), &path, |_, body| body["held"] == 0).await;
    }
    for node in 0..3 {
        let hold = house.held((node + 1) % 3, "bob", &[node as u32]).await;
        assert_eq!(house.client(node).confirm("bob", &hold).await.unwrap().0, 201);
    }
    assert_eq!(house.facts("SEAT-HOLD-EXPIRED"), 3);
    tokens_live_by_the_same_clock(&house).await;
    house.assert_well().await;
}

/// Tokens for a minute: one that begins now, one that is over and one that is still to come. To the node that is ahead
/// the first would be over and the last good; to the one behind the first would be still to come and the one before
/// good.
async fn tokens_live_by_the_same_clock(house: &House) {
    let org = house.client(0).bare("/api/admin/org").await.unwrap().1["org_id"].as_str().unwrap().to_owned();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let path = format!("/api/events/{}", house.event);
    for (offset, status) in [(0, 200), (-300, 401), (300, 401)] {
        let token = sign_token(
            SECRET.as_bytes(),
            "rowlock",
            "rowlock",
            org.parse().unwrap(),
            &UserId::new("ann").unwrap(),
            [Scope::Read].into_iter().collect(),
            Duration::from_secs(60),
            Time::from_millis(now + offset * 1000),
        );
        for node in 0..3 {
            let answer = house.client(node).with_key(&token).bare(&path).await.unwrap();
            assert_eq!(answer.0, status, "a token from {offset} s on, through {node}: {}", answer.1);
        }
    }
}
