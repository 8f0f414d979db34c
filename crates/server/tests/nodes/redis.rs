//! Redis emptied, paused, restarted, full: sales go on, and everything agrees afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rowlock_dev::redis::{RedisCluster, Sentinels};
use serde_json::{Value, json};

use crate::nodes::house::{House, Setup, Warm, until_so};
use crate::support;

/// A sale through all nodes while something happens. Everything that was answered with yes is there afterwards.
struct Sale {
    house: Arc<House>,
    stop: Arc<AtomicBool>,
    slowest: Arc<AtomicU32>,
    buyers: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

impl Sale {
    fn begin(house: &Arc<House>, seats: u32) -> Self {
        let (stop, slowest, next) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let buyers = (0..12).map(|buyer| {
            let (house, stop) = (Arc::clone(house), Arc::clone(&stop));
            let (slowest, next) = (Arc::clone(&slowest), Arc::clone(&next));
            tokio::spawn(async move {
                let mut held = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let seat = next.fetch_add(1, Ordering::Relaxed);
                    if seat >= seats {
                        break;
                    }
                    let began = Instant::now();
                    let (status, body) = house.hold(buyer, &format!("buyer-{seat}"), &[seat]).await;
                    slowest.fetch_max(began.elapsed().as_millis() as u32, Ordering::Relaxed);
                    assert_eq!(status, 201, "nobody else wants this seat: {body}");
                    held.push(body["hold_token"].as_str().unwrap().to_owned());
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                held
            })
        });
        Self {
            house: Arc::clone(house),
            stop: Arc::clone(&stop),
            slowest: Arc::clone(&slowest),
            buyers: buyers.collect(),
        }
    }

    /// Returns how long the slowest request took.
    async fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let mut holds = Vec::new();
        for buyer in self.buyers {
            holds.extend(buyer.await.unwrap());
        }
        assert!(holds.len() > 20, "only {} were held", holds.len());
        for (i, hold) in holds.iter().enumerate() {
            let (status, body) =
                self.house.client(i).get("", &format!("/api/bookings/hold/{hold}")).await.unwrap();
            assert_eq!((status, &body["status"]), (200, &json!("active")), "{body}");
        }
        Duration::from_millis(self.slowest.load(Ordering::Relaxed).into())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_in_the_middle_of_a_sale() {
    let house = Arc::new(House::new(Warm::single(), Setup { seats: 2_000, ..Setup::default() }).await);
    let sale = Sale::begin(&house, 2_000);
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        house.redis().cli(&["FLUSHALL"]).unwrap();
    }
    house.redis().cli(&["SCRIPT", "FLUSH"]).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    sale.end().await;
    let path = format!("/api/admin/events/{}/registry/reconcile", house.event);
    assert_eq!(house.client(0).post("", &path, json!({})).await.unwrap().0, 200);
    house.assert_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_for_ten_seconds() {
    let house = Arc::new(House::new(Warm::single(), Setup { seats: 20_000, ..Setup::default() }).await);
    let sale = Sale::begin(&house, 20_000);
    tokio::time::sleep(Duration::from_millis(300)).await;
    house.redis().pause();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (_, health) = house.client(0).get("", "/readyz?verbose").await.unwrap();
    assert_eq!(health["warm"]["degraded"], true, "{health}");
    assert_eq!(health["status"], "ready", "{health}");
    tokio::time::sleep(Duration::from_secs(8)).await;
    house.redis().resume();
    let back = |_: u16, health: &serde_json::Value| health["warm"]["degraded"] == false;
    for node in 0..3 {
        house.until(node, Duration::from_secs(10), "/readyz?verbose", back).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let slowest = sale.end().await;
    assert!(slowest < Duration::from_secs(1), "a request took {slowest:?}");
    house.assert_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_empty() {
    let house = Arc::new(House::new(Warm::single(), Setup { seats: 5_000, ..Setup::default() }).await);
    let sale = Sale::begin(&house, 5_000);
    tokio::time::sleep(Duration::from_millis(500)).await;
    house.redis().restart_empty().unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    sale.end().await;
    house.assert_well().await;
}

/// With no memory left Redis refuses to write. That is an outage like any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full() {
    let house = Arc::new(House::new(Warm::single(), Setup { seats: 5_000, ..Setup::default() }).await);
    let sale = Sale::begin(&house, 5_000);
    tokio::time::sleep(Duration::from_millis(300)).await;
    house.redis().cli(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let degraded =
        |wanted: bool| move |_: u16, health: &serde_json::Value| health["warm"]["degraded"] == wanted;
    for node in 0..3 {
        house.until(node, Duration::from_secs(10), "/readyz?verbose", degraded(true)).await;
    }
    house.redis().cli(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    for node in 0..3 {
        house.until(node, Duration::from_secs(10), "/readyz?verbose", degraded(false)).await;
    }
    sale.end().await;
    house.assert_well().await;
}

/// One commit of which Redis is not told, because it has no memory for it at that moment. Too little for a breaker to
/// open, and nobody else makes up for it.
async fn fail_once(house: &House, seat: u32) {
    let failed = || {
        let said = house.redis().cli(&["INFO", "errorstats"]).unwrap();
        let count = said.lines().find_map(|line| line.strip_prefix("errorstat_OOM:count="));
        count.map_or(0, |count| count.trim().parse::<u32>().unwrap())
    };
    house.redis().cli(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let before = failed();
    house.held(0, &format!("user-{seat}"), &[seat]).await;
    // The claim, and what was committed.
    until_so("Redis has refused both", async || failed() >= before + 2).await;
    house.redis().cli(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_redis_was_not_told_once_it_is_told_soon() {
    let house = House::new(Warm::single(), Setup { nodes: 1, ..Setup::default() }).await;
    house.held(0, "ann", &[0]).await;
    house.assert_well().await;
    fail_once(&house, 1).await;
    assert_eq!(house.metric(0, "rowlock_warm_breaker_changes_total").await, 0.0);
    // Nobody waits for the look now and then, which comes after minutes.
    house.assert_well().await;
}

/// However often that happens, the event is read and repaired ever more seldom: after 1, 2, 4 … seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_failures_are_not_as_many_repairs() {
    const FAILURES: u32 = 30;
    let house = House::new(Warm::single(), Setup { nodes: 1, ..Setup::default() }).await;
    house.held(0, "ann", &[0]).await;
    house.assert_well().await;
    let began = Instant::now();
    for failure in 0..FAILURES {
        fail_once(&house, 1 + 2 * failure).await;
        // One that works, so that the breaker stays closed.
        house.held(0, "between", &[2 + 2 * failure]).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let runs = house.metric(0, "rowlock_reconcile_runs_total").await as u32;
    let took = began.elapsed();
    println!("{runs} repairs of {FAILURES} failures in {took:?}");
    assert!(runs > 0, "nothing was repaired in {took:?}");
    assert!(took.as_secs() + 1 >= (1 << runs) - 1, "{runs} repairs in {took:?}");
    assert_eq!(house.metric(0, "rowlock_warm_breaker_changes_total").await, 0.0);
    let path = format!("/api/admin/events/{}/registry", house.event);
    let agree = |_: u16, body: &serde_json::Value| body["agree"] == true;
    house.until(0, 2 * took + Duration::from_secs(15), &path, agree).await;
}

/// The truth was restored from a backup, and nobody has emptied Redis: it knows of things that never happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ahead_of_a_restored_truth() {
    let mut house = House::new(Warm::single(), Setup { nodes: 2, ..Setup::default() }).await;
    let before = house.held(0, "ann", &[0]).await;
    house.assert_well().await;
    house.nodes.iter().for_each(|node| node.kill());
    let database = house.truth.rsplit('/').next().unwrap().to_owned();
    house.postgres.sql(&format!("CREATE DATABASE backup TEMPLATE {database}")).unwrap();
    house.nodes.iter().for_each(|node| node.start_again());
    house.held(0, "bob", &[1]).await;
    let sold = house.held(1, "cid", &[2]).await;
    let confirm = format!("/api/bookings/{sold}/confirm");
    assert_eq!(house.client(1).post("cid", &confirm, json!({})).await.unwrap().0, 201);
    house.assert_well().await;
    house.nodes.iter().for_each(|node| node.kill());
    house.move_to(house.truth.replace(&format!("/{database}"), "/backup"));
    house.nodes.iter().for_each(|node| node.start_again());
    let counts = |_: u16, body: &serde_json::Value| body["held"] == 1 && body["sold"] == 0;
    let path = format!("/api/events/{}/occupancy", house.event);
    for node in 0..2 {
        house.until(node, Duration::from_secs(10), &path, counts).await;
    }
    house.held(0, "dan", &[1]).await;
    house.held(1, "eve", &[2]).await;
    let (status, hold) = house.client(0).get("", &format!("/api/bookings/hold/{before}")).await.unwrap();
    assert_eq!((status, &hold["status"]), (200, &json!("active")), "{hold}");
    let reconcile = format!("/api/admin/events/{}/registry/reconcile", house.event);
    assert_eq!(house.client(0).post("", &reconcile, json!({})).await.unwrap().0, 200);
    house.assert_well().await;
}

/// A claim that the truth knows nothing of is removed by the request that meets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_claim_is_healed_by_whoever_meets_it() {
    let house = House::new(Warm::single(), Setup::default()).await;
    house.held(0, "ann", &[0]).await;
    let keys = || house.redis().cli(&["KEYS", &format!("*{}*:seat:*", house.event)]).unwrap();
    assert!(rowlock_dev::wait_until(Duration::from_secs(2), || !keys().trim().is_empty()));
    let key = keys().trim().to_owned();
    assert!(
        rowlock_dev::wait_until(Duration::from_secs(2), || house
            .redis()
            .cli(&["GET", &key])
            .unwrap()
            .contains("\"hold\"")),
        "the claim is confirmed"
    );
    let value = house.redis().cli(&["GET", &key]).unwrap().trim().to_owned();
    // The same claim on a seat that nobody holds.
    let other = key.replace(&house.seats(&[0])[0], &house.seats(&[7])[0]);
    house.redis().cli(&["SET", &other, &value]).unwrap();
    house.held(1, "bob", &[7]).await;
    house.assert_well().await;
}

/// What differs is found, and repaired both ways by the command too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn differences_are_found_and_repaired_both_ways() {
    let house = House::new(Warm::single(), Setup::default()).await;
    for i in 0..10 {
        house.held(0, &format!("user-{i}"), &[i]).await;
    }
    house.assert_well().await;
    let base = house.redis().cli(&["KEYS", &format!("*{}*:seat:*", house.event)]).unwrap();
    let keys: Vec<&str> = base.split_whitespace().collect();
    assert_eq!(keys.len(), 10);
    let value = house.redis().cli(&["GET", keys[0]]).unwrap().trim().to_owned();
    let seat_of = |key: &str| key.rsplit(':').next().unwrap().to_owned();
    let stray = keys[0].replace(&seat_of(keys[0]), &house.seats(&[50])[0]);
    house.redis().cli(&["DEL", keys[1]]).unwrap();
    house.redis().cli(&["SET", &stray, &value]).unwrap();
    let path = format!("/api/admin/events/{}/registry", house.event);
    let (_, found) = house.client(1).get("", &path).await.unwrap();
    assert_eq!((&found["agree"], &found["difference_count"]), (&json!(false), &json!(2)), "{found}");
    let output = support::run(&[
        "reconcile",
        "--truth",
        &house.truth,
        "--redis",
        &house.redis().url(),
        "--event",
        &house.event,
    ]);
    assert!(output.status.success(), "{}", support::stderr(&output));
    let said = support::stdout(&output);
    assert!(
        said.contains("1  claims without a hold removed") && said.contains("1  claims restored"),
        "{said}"
    );
    house.assert_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_counter_of_an_area_is_found_and_repaired() {
    let house = House::new(Warm::single(), Setup::default()).await;
    let areas = format!("/api/admin/events/{}/areas", house.event);
    let lawn = json!({"name": "Lawn", "tier": "seat", "capacity": 100});
    let (status, made) = house.client(0).post("", &areas, lawn).await.unwrap();
    assert_eq!(status, 201, "{made}");
    let area = made["area_id"].as_str().unwrap().to_owned();
    let hold = json!({"event_id": house.event, "areas": [{"area_id": area, "quantity": 3}]});
    let (status, held) = house.client(0).post("ada", "/api/bookings/hold-seats", hold).await.unwrap();
    assert_eq!(status, 201, "{held}");
    // The layout in Redis is from before there was an area, so nobody reads the copy. A node that needs the event writes it anew.
    let (status, event) = house.client(1).get("ada", &format!("/api/events/{}", house.event)).await.unwrap();
    assert_eq!(status, 200, "{event}");
    let path = format!("/api/admin/events/{}/registry", house.event);
    let has_copy = |_, body: &Value| !body["warm"]["sequence"].is_null();
    house.until(1, Duration::from_secs(15), &path, has_copy).await;
    house.assert_well().await;
    let key = house.redis().cli(&["KEYS", &format!("*{}*:occupancy", house.event)]).unwrap();
    let field = format!("area:{area}:held");
    assert_eq!(house.redis().cli(&["HGET", key.trim(), &field]).unwrap().trim(), "3");
    house.redis().cli(&["HSET", key.trim(), &field, "7"]).unwrap();
    let (_, found) = house.client(1).get("", &path).await.unwrap();
    assert_eq!(found["agree"], json!(false), "{found}");
    assert_eq!(found["differences"], json!([{"area_id": area, "what": "warm_copy"}]), "{found}");
    let (status, repaired) = house.client(1).post("", &format!("{path}/reconcile"), json!({})).await.unwrap();
    assert_eq!((status, &repaired["copies_rebuilt"]), (200, &json!(1)), "{repaired}");
    assert_eq!(house.redis().cli(&["HGET", key.trim(), &field]).unwrap().trim(), "3");
    house.assert_well().await;
}

/// A copy that has missed facts waits for them for good. That its seats happen to be right does not make it current.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_is_behind_is_found_though_its_seats_are_right() {
    let house = House::new(Warm::single(), Setup::default()).await;
    house.held(0, "ada", &[1]).await;
    house.assert_well().await;
    let key = house.redis().cli(&["KEYS", &format!("*{}*:occupancy", house.event)]).unwrap();
    let current = house.redis().cli(&["HGET", key.trim(), "sequence"]).unwrap();
    house.redis().cli(&["HINCRBY", key.trim(), "sequence", "-1"]).unwrap();
    let path = format!("/api/admin/events/{}/registry", house.event);
    let (_, found) = house.client(1).get("", &path).await.unwrap();
    assert_eq!(found["agree"], json!(false), "{found}");
    assert_eq!(found["differences"], json!([{"what": "warm_copy"}]), "{found}");
    let (status, repaired) = house.client(1).post("", &format!("{path}/reconcile"), json!({})).await.unwrap();
    assert_eq!((status, &repaired["copies_rebuilt"]), (200, &json!(1)), "{repaired}");
    assert_eq!(house.redis().cli(&["HGET", key.trim(), "sequence"]).unwrap(), current);
    house.assert_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_may_evict_is_refused_at_the_start() {
    let redis = rowlock_dev::redis::Redis::start_with(&["maxmemory-policy allkeys-lru"]).unwrap();
    let postgres = rowlock_dev::postgres::Postgres::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = support::run(&[
        "serve",
        "--data",
        support::text(folder.path()),
        "--truth",
        &postgres.url(),
        "--redis",
        &redis.url(),
    ]);
    assert!(!output.status.success());
    let said = support::stderr(&output);
    assert!(said.contains("maxmemory-policy") && said.contains("noeviction"), "{said}");
    assert!(said.contains("redis.urls is set by the flag --redis"), "{said}");
}

/// Redis goes and comes back, and afterwards nobody holds anything. The metrics say how it is all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_node_says_that_redis_is_back() {
    let house = House::new(Warm::single(), Setup { nodes: 1, ..Setup::default() }).await;
    house.redis().kill();
    let is_degraded =
        |degraded: bool| move |_: u16, body: &serde_json::Value| body["warm"]["degraded"] == degraded;
    for seat in 0..10 {
        house.held(0, &format!("user-{seat}"), &[seat]).await;
    }
    house.until(0, Duration::from_secs(5), "/readyz?verbose", is_degraded(true)).await;
    assert_eq!(house.metric(0, "rowlock_degraded").await, 1.0);
    // Somebody who wants it compared now is not told that all is well.
    let arguments = ["reconcile", "--truth", &house.truth, "--redis", &house.redis().url()];
    let output = support::run(&arguments);
    assert_eq!(output.status.code(), Some(2), "{}", support::stdout(&output));
    assert!(support::stderr(&output).contains("can't be reached"), "{}", support::stderr(&output));
    assert!(support::stderr(&output).contains("refused"), "and why: {}", support::stderr(&output));
    house.redis().start_again().unwrap();
    house.until(0, Duration::from_secs(15), "/readyz?verbose", is_degraded(false)).await;
    assert_eq!(house.metric(0, "rowlock_degraded").await, 0.0);
    assert!(support::run(&arguments).status.success());
}

/// A recorded answer claims nothing: the seat may have been given back since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_key_keeps_no_seat_from_others() {
    let house = House::new(Warm::single(), Setup { nodes: 1, ..Setup::default() }).await;
    let hold = json!({"event_id": house.event, "seat_ids": house.seats(&[0])});
    let path = "/api/bookings/hold-seats";
    let (status, held) = house.client(0).post_keyed("ann", path, hold.clone(), "once").await.unwrap();
    assert_eq!(status, 201, "{held}");
    let (status, _) = house.client(0).release("ann", held["hold_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(status, 200);
    let keys = || house.redis().cli(&["KEYS", &format!("*{}*:seat:*", house.event)]).unwrap();
    assert!(rowlock_dev::wait_until(Duration::from_secs(5), || keys().trim().is_empty()));
    let (status, again) = house.client(0).post_keyed("ann", path, hold, "once").await.unwrap();
    assert_eq!((status, &again["hold_token"]), (201, &held["hold_token"]), "{again}");
    // A claim that is left would last for 5 s.
    assert!(rowlock_dev::wait_until(Duration::from_secs(2), || keys().trim().is_empty()), "{}", keys());
    house.held(0, "bob", &[0]).await;
    house.assert_well().await;
}

/// Somebody has put something else in the place of the copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_another_type_is_found_and_repaired() {
    let house = House::new(Warm::single(), Setup::default()).await;
    house.held(0, "ann", &[0]).await;
    house.assert_well().await;
    for name in ["occupancy", "seat_holds", "availability"] {
        let key = house.redis().cli(&["KEYS", &format!("*{}*:{name}", house.event)]).unwrap();
        house.redis().cli(&["DEL", key.trim()]).unwrap();
        house.redis().cli(&["LPUSH", key.trim(), "bad"]).unwrap();
        let path = format!("/api/admin/events/{}/registry", house.event);
        let (_, found) = house.client(1).get("", &path).await.unwrap();
        assert_eq!((&found["agree"], &found["complete"]), (&json!(false), &json!(false)), "{name}: {found}");
        let (status, repaired) =
            house.client(1).post("", &format!("{path}/reconcile"), json!({})).await.unwrap();
        assert_eq!((status, &repaired["copies_rebuilt"]), (200, &json!(1)), "{name}: {repaired}");
        house.assert_well().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_repaired_is_said() {
    let house = House::new(Warm::single(), Setup { nodes: 1, ..Setup::default() }).await;
    house.held(0, "ann", &[0]).await;
    house.redis().kill();
    let path = format!("/api/admin/events/{}/registry", house.event);
    let (status, problem) = house.client(0).post("", &format!("{path}/reconcile"), json!({})).await.unwrap();
    assert_eq!((status, &problem["code"]), (503, &json!("unavailable")), "{problem}");
    let output = support::run(&[
        "reconcile",
        "--truth",
        &house.truth,
        "--redis",
        &house.redis().url(),
        "--event",
        &house.event,
    ]);
    assert!(!output.status.success(), "{}", support::stdout(&output));
}

/// Twenty who choose nothing but how many, through all nodes at once: the forty seats of a block are given out to the
/// last one, and each once.
async fn any_seats_are_given_out(house: &House) {
    let (_, event) = house.client(0).get("", &format!("/api/events/{}", house.event)).await.unwrap();
    let wish = json!({"event_id": house.event, "block_id": event["blocks"][0]["block_id"], "quantity": 2});
    let ask = |i: usize| {
        let (client, wish) = (house.client(i).clone(), wish.clone());
        let user = format!("user-{i}");
        tokio::spawn(async move { client.post(&user, "/api/bookings/hold-any", wish).await.unwrap() })
    };
    let mut given = BTreeSet::new();
    for asked in (0..20).map(ask).collect::<Vec<_>>() {
        let (status, hold) = asked.await.unwrap();
        let seats = hold["seats"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!((status, seats.len()), (201, 2), "{hold}");
        given.extend(seats.iter().map(|seat| seat["seat_id"].as_str().unwrap().to_owned()));
    }
    assert_eq!(given.len(), 40, "{given:?}");
    for late in 20..23 {
        let (status, problem) = ask(late).await.unwrap();
        assert_eq!((status, &problem["code"]), (409, &json!("block_full")), "{problem}");
    }
}

async fn any_seats_with(warm: Warm) {
    let house = House::new(warm, Setup { seats: 40, ..Setup::default() }).await;
    any_seats_are_given_out(&house).await;
    house.assert_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_seats_are_given_out_without_redis() {
    any_seats_with(Warm::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_seats_are_given_out_with_redlock() {
    any_seats_with(Warm::redlock()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_seats_are_given_out_with_a_cluster() {
    any_seats_with(Warm::Cluster(RedisCluster::start(0).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_seats_are_given_out_with_sentinels() {
    any_seats_with(Warm::Sentinel(Box::new(Sentinels::start().unwrap()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_seats_are_given_out_with_redis_down() {
    // So few calls may not open a breaker, and then what Redis has missed is found by the look now and then.
    let settings = vec![("ROWLOCK__ENGINE__RECONCILE_SECONDS", "2".to_owned())];
    let house = House::new(Warm::single(), Setup { seats: 40, settings, ..Setup::default() }).await;
    house.redis().kill();
    any_seats_are_given_out(&house).await;
    house.assert_verified();
    house.redis().start_again().unwrap();
    house.assert_well().await;
}
