//! Servers in every mode, and somebody who claims.

use std::time::Duration;

use rowlock_core::{CartToken, EventId, HoldId, OrgId, SeatId, UserId};
use rowlock_dev::redis::{Redis, RedisCluster, Sentinels};
use rowlock_registry::breaker::BreakerOptions;
use rowlock_registry::warm::{Claim, Claimed, Owner, Receipt, Warm, WarmMode, WarmOptions};
use uuid::Uuid;

/// How long a test waits for something that is certain to come.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub enum Servers {
    One(Redis),
    Cluster(RedisCluster),
    Sentinels(Box<Sentinels>),
    Redlock(Vec<Redis>),
}

impl Servers {
    pub fn one() -> Self {
        Servers::One(Redis::start().unwrap())
    }

    pub fn cluster(replicas: usize) -> Self {
        Servers::Cluster(RedisCluster::start(replicas).unwrap())
    }

    pub fn sentinels() -> Self {
        Servers::Sentinels(Box::new(Sentinels::start().unwrap()))
    }

    pub fn redlock() -> Self {
        Servers::Redlock((0..3).map(|_| Redis::start().unwrap()).collect())
    }

    /// With limits that a busy machine does not reach.
    pub fn options(&self) -> WarmOptions {
        let (urls, mode) = match self {
            Servers::One(redis) => (vec![redis.url()], WarmMode::Single),
            Servers::Cluster(cluster) => (cluster.urls(), WarmMode::Cluster),
            Servers::Sentinels(sentinels) => {
                (sentinels.urls(), WarmMode::Sentinel { master: Sentinels::MASTER.into() })
            }
            Servers::Redlock(all) => (all.iter().map(Redis::url).collect(), WarmMode::Redlock),
        };
        WarmOptions {
            urls,
            mode,
            call_timeout: Duration::from_secs(10),
            bulk_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            ..WarmOptions::default()
        }
    }

    pub async fn connect(&self) -> Warm {
        Warm::connect(self.options()).await.unwrap()
    }

    /// The server of tests that have one.
    pub fn redis(&self) -> &Redis {
        match self {
            Servers::One(redis) => redis,
            Servers::Redlock(all) => &all[0],
            _ => panic!("this test has several servers"),
        }
    }
}

pub async fn one() -> (Servers, Warm) {
    let servers = Servers::one();
    let warm = servers.connect().await;
    (servers, warm)
}

/// For servers that are killed: looks soon whether they are back.
pub fn watchful(servers: &Servers) -> WarmOptions {
    let breaker = BreakerOptions { probe_after: Duration::from_millis(300), ..BreakerOptions::default() };
    WarmOptions { breaker, ..servers.options() }
}

/// For servers that are paused: does not wait long for them. A busy machine may be as slow as that, so who must get an answer
/// is not hasty.
pub fn hasty(servers: &Servers) -> WarmOptions {
    WarmOptions {
        call_timeout: Duration::from_millis(200),
        bulk_timeout: Duration::from_millis(500),
        connect_timeout: Duration::from_millis(500),
        ..watchful(servers)
    }
}

pub fn org() -> OrgId {
    OrgId::from_uuid(Uuid::from_u128(0xa))
}

pub fn event() -> EventId {
    EventId::from_uuid(Uuid::from_u128(0x0190_a5f0_7c3e_7bbb_8a40_0000_0000_0000))
}

pub fn seats(ordinals: impl IntoIterator<Item = u32>) -> Vec<SeatId> {
    ordinals.into_iter().map(|ordinal| SeatId::of(event(), ordinal)).collect()
}

pub fn user(name: &str) -> UserId {
    UserId::new(name).unwrap()
}

pub fn hold_id(number: u128) -> HoldId {
    HoldId::from_uuid(Uuid::from_u128(number))
}

pub fn seat_key(ordinal: u32) -> String {
    format!("rowlock:org:{}:event:{{{}}}:seat:{}", org(), event(), SeatId::of(event(), ordinal))
}

pub async fn claim(warm: &Warm, who: &str, ordinals: &[u32]) -> Claimed {
    claim_in(warm, event(), who, ordinals).await
}

pub async fn claim_in(warm: &Warm, event: EventId, who: &str, ordinals: &[u32]) -> Claimed {
    let seats: Vec<SeatId> = ordinals.iter().map(|ordinal| SeatId::of(event, *ordinal)).collect();
    let (user, cart) = (user(who), CartToken::unnamed());
    warm.claim(&Claim { org: org(), event, user: &user, cart: &cart, seats: &seats }).await
}

#[track_caller]
pub fn claimed(answer: Claimed) -> Receipt {
    match answer {
        Claimed::Claimed(receipt) => receipt,
        other => panic!("not claimed: {other:?}"),
    }
}

#[track_caller]
pub fn taken(answer: Claimed) -> Vec<(SeatId, Owner)> {
    match answer {
        Claimed::Taken(owners) => owners,
        other => panic!("not taken: {other:?}"),
    }
}

/// So many claim the seat at once. How many got it, and how many were refused.
pub async fn rush(warm: &Warm, event: EventId, ordinal: u32, claimants: usize) -> (usize, usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..claimants {
        let warm = warm.clone();
        tasks.spawn(async move { claim_in(&warm, event, &format!("user-{i}"), &[ordinal]).await });
    }
    let answers = tasks.join_all().await;
    let won = answers.iter().filter(|answer| matches!(answer, Claimed::Claimed(_))).count();
    let refused = answers.iter().filter(|answer| matches!(answer, Claimed::Taken(_))).count();
    (won, refused)
}

/// Waits until something is so. Fails when it never is.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("it never came: {what}"));
}
