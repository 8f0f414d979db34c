//! Many who want the same at once: seats in opposite orders, a hold at its very end, the few connections that read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::nodes::house::{House, Setup, Warm, until_so, until_waiting_for_locks};

/// In each round eight buyers stand around a ring of eight seats. Each wants four neighbours, from left to right
/// or from right to left: two of them can be happy, and one always is.
const RING: u32 = 8;
const ROUNDS: u32 = 60;
/// Rounds at a time, so that a batch has some of several, and waits for others with some of the same.
const AT_ONCE: u32 = 12;

async fn opposite_orders(warm: Warm) {
    // While Redis seems to be away, what somebody has locked counts as taken, and two may turn each other away.
    let settings = vec![("ROWLOCK__REDIS__CALL_TIMEOUT_MS", "5000".to_owned())];
    let house = House::new(warm, Setup { seats: ROUNDS * RING, settings, ..Setup::default() }).await;
    let mut owners = BTreeMap::new();
    let mut winners = [0; ROUNDS as usize];
    for first in (0..ROUNDS).step_by(AT_ONCE as usize) {
        let buyers = (0..AT_ONCE * RING).map(|i| (first + i % AT_ONCE, i / AT_ONCE));
        let calls = buyers.map(|(round, place)| {
            let mut ordinals: Vec<u32> = (0..4).map(|i| round * RING + (place + i) % RING).collect();
            if place % 2 == 1 {
                ordinals.reverse();
            }
            let user = format!("user-{round}-{place}");
            let (client, event) = (house.client((round + place) as usize).clone(), house.event.clone());
            let seats = house.seats(&ordinals);
            tokio::spawn(async move {
                let (status, body) = client.hold(&user, &event, &seats).await.unwrap();
                (round, user, seats, status, body)
            })
        });
        for call in calls.collect::<Vec<_>>() {
            let (round, user, seats, status, body) = call.await.unwrap();
            match status {
                201 => winners[round as usize] += 1,
                409 => continue,
                _ => panic!("{status}: {body}"),
            }
            for seat in seats {
                let other = owners.insert(seat.clone(), user.clone());
                assert_eq!(other, None, "{seat} is {user}'s too");
            }
        }
    }
    assert!(winners.iter().all(|winners| (1..=2).contains(winners)), "{winners:?}");
    let path = format!("/api/events/{}/occupancy", house.event);
    for node in 0..house.nodes.len() {
        house.until(node, Duration::from_secs(10), &path, |_, body| body["held"] == owners.len()).await;
        let said = house.nodes[node].said();
        assert!(!said.contains("deadlock"), "{said}");
    }
    let said = house.postgres.said();
    assert!(!said.contains("deadlock"), "{said}");
    assert_eq!(house.facts("SEAT-HOLD-CREATED") * 4, owners.len());
    house.assert_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opposite_orders_end_with_a_winner_and_never_in_a_circle() {
    opposite_orders(Warm::single()).await;
}

/// The same where nobody sorts out who comes first before rows are locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opposite_orders_without_redis_end_with_a_winner_and_never_in_a_circle() {
    opposite_orders(Warm::None).await;
}

/// Buyers at a time who fill a lane.
const BUYERS: u32 = 64;

const HOLDS: u32 = 2_500;
const CLIENTS: u32 = 40;

/// When the confirmation of a hold is sent, in milliseconds after the hold's end. Nearly all of them close to it;
/// some so early and some so late that both answers are sure to occur.
fn offset(seat: u32) -> i64 {
    match seat % 50 {
        0 => -1_500,
        1 => 300,
        // More before than after: it takes a while to arrive.
        _ => i64::from(seat * 7 % 141) - 100,
    }
}

/// How long it is until then, by the clock of this machine, which is that of Postgres too.
fn until(time: &Value, offset: i64) -> Duration {
    const DAY: i64 = 86_400_000;
    // 2026-01-31T18:30:00.000Z
    let text = time.as_str().unwrap();
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().unwrap();
    let at = ((number(11, 13) * 60 + number(14, 16)) * 60 + number(17, 19)) * 1_000 + number(20, 23);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    // Midnight may be between them.
    let left = (at + offset - now + DAY / 2).rem_euclid(DAY) - DAY / 2;
    Duration::from_millis(left.max(0) as u64)
}

/// Each hold is confirmed through another node just when it ends. It is either sold or over, never both, and the
/// buyer hears which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expiry_and_confirm_in_the_same_instant_have_one_winner() {
    let setup = Setup { seats: HOLDS, ttl_seconds: 2, ..Setup::default() };
    let house = Arc::new(House::new(Warm::single(), setup).await);
    let holding = (0..CLIENTS).map(|i| {
        let house = Arc::clone(&house);
        tokio::spawn(async move {
            let mut confirming = Vec::new();
            for seat in (i..HOLDS).step_by(CLIENTS as usize) {
                let user = format!("user-{seat}");
                let (status, hold) = house.hold(seat as usize, &user, &[seat]).await;
                assert_eq!(status, 201, "{hold}");
                let house = Arc::clone(&house);
                confirming.push(tokio::spawn(async move {
                    tokio::time::sleep(until(&hold["expires_at"], offset(seat))).await;
                    let token = hold["hold_token"].as_str().unwrap();
                    house.client(seat as usize + 1).confirm(&user, token).await.unwrap()
                }));
            }
            confirming
        })
    });
    let (mut sold, mut over) = (0, 0);
    for holding in holding.collect::<Vec<_>>() {
        for confirming in holding.await.unwrap() {
            match confirming.await.unwrap() {
                (201, _) => sold += 1,
                (410, _) => over += 1,
                (status, body) => panic!("{status}: {body}"),
            }
        }
    }
    println!("{sold} were confirmed and {over} over");
    assert!(sold > 0 && over > 0, "{sold} were confirmed and {over} over");
    let path = format!("/api/events/{}/occupancy", house.event);
    for node in 0..house.nodes.len() {
        house
            .until(node, Duration::from_secs(10), &path, |_, body| body["held"] == 0 && body["sold"] == sold)
            .await;
    }
    assert_well_ended(&house, [HOLDS as usize, sold, over]).await;
    // Sold before the end, over after it: nobody was let through late, and nobody sent away early.
    let holds = "SELECT count(*) FILTER (WHERE status = 1 AND ended_at < expires_at),
                        count(*) FILTER (WHERE status = 2 AND ended_at >= expires_at) FROM holds";
    assert_eq!(house.postgres.sql(holds).unwrap(), format!("{sold}|{over}"));
}

/// The one connection that reads is kept busy: by a booking whose tickets somebody has locked. No hold asks for
/// tickets, and the API key that each comes with is looked up, every two seconds, on a connection of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_that_get_no_connection_are_refused_in_time_and_starve_no_hold() {
    let settings = vec![("ROWLOCK__STORE__READERS", "1".to_owned())];
    let house = House::new(Warm::single(), Setup { nodes: 1, settings, ..Setup::default() }).await;
    let client = house.client(0).clone();
    let (_, hold) = client.hold("ann", &house.event, &house.seats(&[0])).await.unwrap();
    let (status, booking) = client.confirm("ann", hold["hold_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(status, 201, "{booking}");
    let path = format!("/api/bookings/{}", booking["booking_id"].as_str().unwrap());
    assert_eq!(client.get("ann", &path).await.unwrap().0, 200);
    let (other, connection) = tokio_postgres::connect(&house.truth, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    other.batch_execute("BEGIN; LOCK TABLE tickets IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let read = || {
        let (client, path) = (client.clone(), path.clone());
        tokio::spawn(async move {
            let began = Instant::now();
            (client.get("ann", &path).await.unwrap(), began.elapsed())
        })
    };
    let reads: Vec<_> = (0..40).map(|_| read()).collect();
    until_waiting_for_locks(&other, 1).await;
    let (mut held, mut slowest) = (0, Duration::ZERO);
    while reads.iter().any(|read| !read.is_finished()) {
        let began = Instant::now();
        let (status, hold) = client.hold("bob", &house.event, &house.seats(&[1])).await.unwrap();
        assert_eq!(status, 201, "{hold}");
        slowest = slowest.max(began.elapsed());
        let (status, released) = client.release("bob", hold["hold_token"].as_str().unwrap()).await.unwrap();
        assert_eq!(status, 200, "{released}");
        held += 1;
    }
    println!("{held} holds while 40 reads waited, the slowest in {slowest:?}");
    // If holds waited for that connection too, each would wait for two seconds, and there would be two or three.
    assert!(held > 10, "only {held} holds while 40 reads waited");
    for read in reads {
        let ((status, body), took) = read.await.unwrap();
        assert_eq!((status, &body["code"]), (503, &"unavailable".into()), "{body}");
        // Two seconds for the connection and two for the lock, and a slow machine.
        assert!(took < Duration::from_secs(8), "a read took {took:?}");
    }
    other.batch_execute("COMMIT").await.unwrap();
    house.until(0, Duration::from_secs(10), &path, |status, _| status == 200).await;
    house.assert_well().await;
}

/// One lane for all buyers, full, because somebody keeps a seat locked that many of them want. Holds end in a lane of
/// their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_many_buyers_wait_expired_holds_are_shown_free_within_a_second() {
    const HOLDS_EACH: u32 = 5;
    let settings = vec![
        ("ROWLOCK__STORE__LANES", "2".to_owned()),
        ("ROWLOCK__ENGINE__LANE_CAPACITY", BUYERS.div_ceil(4).to_string()),
    ];
    let house = Arc::new(House::new(Warm::None, Setup { nodes: 1, settings, ..Setup::default() }).await);
    // They end at different moments of what the buyers wait for.
    let mut ends = Vec::new();
    for ttl in [5, 6, 7, 8] {
        let brief = house.new_event(HOLDS_EACH, ttl).await;
        let mut end = Value::Null;
        for seat in 0..HOLDS_EACH {
            let seats = [crate::support::seat(&brief, seat)];
            let (status, hold) =
                house.client(0).hold(&format!("brief-{seat}"), &brief, &seats).await.unwrap();
            assert_eq!(status, 201, "{hold}");
            end = hold["expires_at"].clone();
        }
        ends.push((brief, end));
    }
    let (other, connection) = tokio_postgres::connect(&house.truth, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    // The seats of the other events are not among them.
    let lock = "BEGIN; SELECT FROM seats WHERE status = 0 FOR UPDATE";
    other.batch_execute(lock).await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let buyers = (0..BUYERS).map(|buyer| {
        let (house, over) = (Arc::clone(&house), Arc::clone(&over));
        tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                // On belief at first, so that two batches are under way, and both are to be committed otherwise then.
                let (status, body) = house.hold(0, &format!("user-{buyer}"), &[buyer]).await;
                assert_eq!(status, 503, "the seat is locked: {body}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    });
    let buyers: Vec<_> = buyers.collect();
    let turned_away = async || house.metric(0, "rowlock_lane_full_total").await;
    until_so("the lane is full", async || turned_away().await > 0.0).await;
    assert!(!until(&ends[0].1, 0).is_zero(), "the lane was not full before the holds ended");
    for (brief, end) in ends {
        tokio::time::sleep(until(&end, 0)).await;
        let before = turned_away().await;
        let path = format!("/api/events/{brief}/occupancy");
        house.until(0, Duration::from_secs(10), &path, |_, body| body["held"] == 0).await;
        let late = until(&end, 1_000);
        println!("shown free {} ms after their end", 1_000 - late.as_millis());
        assert!(!late.is_zero(), "they were shown free more than a second after their end");
        until_so("the lane is still full", async || turned_away().await > before).await;
    }
    over.store(true, Ordering::Relaxed);
    for buyer in buyers {
        buyer.await.unwrap();
    }
    other.batch_execute("ROLLBACK").await.unwrap();
    house.assert_well().await;
}

const SLEEPERS: u32 = 200;

/// The node through which holds were made sleeps while they are confirmed through another one, and wakes up when their
/// time is over: it sends their ends before it hears that they were sold. They stay sold, and nothing goes wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_slept_while_holds_were_confirmed_ends_none_of_them() {
    const ROUNDS: u32 = 5;
    let setup = Setup { nodes: 2, seats: SLEEPERS * ROUNDS, ttl_seconds: 4, ..Setup::default() };
    let house = Arc::new(House::new(Warm::single(), setup).await);
    let commands = async || house.metric(0, "rowlock_batch_size_sum").await;
    let mut sold = 0;
    for round in 0..ROUNDS {
        let seats: Vec<u32> = (round * SLEEPERS..(round + 1) * SLEEPERS).collect();
        let holding = seats.iter().map(|seat| {
            let (house, seat) = (Arc::clone(&house), *seat);
            tokio::spawn(async move { house.hold(0, &format!("user-{seat}"), &[seat]).await })
        });
        let mut holds = Vec::new();
        for held in holding.collect::<Vec<_>>() {
            let (status, hold) = held.await.unwrap();
            assert_eq!(status, 201, "{hold}");
            holds.push(hold);
        }
        let last = holds.iter().map(|hold| hold["expires_at"].as_str().unwrap()).max().unwrap();
        let before = commands().await;
        house.nodes[0].process(|process| process.pause());
        for (seat, hold) in seats.iter().zip(&holds) {
            let token = hold["hold_token"].as_str().unwrap();
            let (status, booking) = house.client(1).confirm(&format!("user-{seat}"), token).await.unwrap();
            assert_eq!(status, 201, "{booking}");
        }
        sold += holds.len();
        tokio::time::sleep(until(&last.into(), 50)).await;
        house.nodes[0].process(|process| process.resume());
        let path = format!("/api/events/{}/occupancy", house.event);
        for node in 0..2 {
            let is_sold = |_: u16, body: &Value| body["held"] == 0 && body["sold"] == sold;
            house.until(node, Duration::from_secs(10), &path, is_sold).await;
        }
        // Nobody else has asked anything of this node.
        let ends = commands().await - before;
        println!("{ends} ends of confirmed holds were sent");
        assert_well_ended(&house, [sold, sold, 0]).await;
        if ends > 0.0 {
            return;
        }
    }
    panic!("the node always heard first that the holds were confirmed: nothing was tested");
}

/// So many holds were made, sold and over, each once; and no node had to be kept from anything by the last of its
/// safeguards, which fail a command that breaks a rule.
async fn assert_well_ended(house: &House, expected: [usize; 3]) {
    house.assert_well().await;
    let facts = ["SEAT-HOLD-CREATED", "BOOKING-CONFIRMED", "SEAT-HOLD-EXPIRED"].map(|kind| house.facts(kind));
    assert_eq!(facts, expected);
    let counters =
        ["rowlock_hold_success_total", "rowlock_hold_converted_total", "rowlock_hold_expired_total"];
    for (name, expected) in counters.into_iter().zip(expected) {
        let mut sum = 0.0;
        for node in 0..house.nodes.len() {
            sum += house.metric(node, name).await;
        }
        assert_eq!(sum, expected as f64, "{name} of all nodes");
    }
    for node in &house.nodes {
        let said = node.said();
        let wrong = said.lines().find(|line| line.contains("ERROR") || line.contains("panicked"));
        assert_eq!(wrong, None);
    }
}

/// Two who want some of the same seats, at once and through two nodes, while nobody sorts out who comes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_overlap_one_wins_with_redis_down() {
    const PAIRS: u32 = 200;
    const SPAN: u32 = 12;
    let settings = vec![("ROWLOCK__REDIS__BREAKER_PROBE_SECONDS", "3600".to_owned())];
    let setup = Setup { nodes: 2, seats: PAIRS * SPAN + 100, settings, ..Setup::default() };
    let house = House::new(Warm::single(), setup).await;
    house.redis().kill();
    for node in 0..2 {
        for i in 0..6 {
            let seat = PAIRS * SPAN + 6 * node + i;
            house.held(node as usize, &format!("user-{seat}"), &[seat]).await;
        }
        let is_degraded = |_: u16, body: &Value| body["warm"]["degraded"] == true;
        house.until(node as usize, Duration::from_secs(15), "/readyz?verbose", is_degraded).await;
    }
    let mut nobody = Vec::new();
    for pair in 0..PAIRS {
        let first = pair * SPAN;
        let left: Vec<u32> = (first..first + 8).collect();
        let right: Vec<u32> = (first + 4..first + SPAN).collect();
        let (one, two) = (format!("left-{pair}"), format!("right-{pair}"));
        let (one, two) = tokio::join!(house.hold(0, &one, &left), house.hold(1, &two, &right));
        match (one.0, two.0) {
            (201, 409) | (409, 201) => {}
            (409, 409) => nobody.push((pair, one.1, two.1)),
            other => panic!("{other:?}"),
        }
    }
    println!("{} of {PAIRS} pairs were both refused", nobody.len());
    assert!(nobody.is_empty(), "{:?}", nobody[0]);
    house.assert_verified();
}
