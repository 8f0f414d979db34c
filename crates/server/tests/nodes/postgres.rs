//! Postgres stopped, replaced by its standby, out of connections, behind a pooler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rowlock_dev::postgres::Postgres;
use rowlock_dev::redis::Redis;
use rowlock_dev::wait_until;

use crate::nodes::house::{House, Setup, Warm, until_so, until_waiting_for_locks};
use crate::support;

/// Buyers who hold and confirm through all nodes, and remember what was confirmed to them.
async fn buy(house: Arc<House>, buyer: u32, stop: Arc<AtomicBool>, done: Arc<AtomicU32>) -> Vec<String> {
    let mut confirmed = Vec::new();
    for i in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let seat = buyer * 1_000 + i;
        let (client, user) = (house.client(i as usize), format!("user-{seat}"));
        let (status, hold) = match client.hold(&user, &house.event, &house.seats(&[seat])).await {
            Ok(answer) => answer,
            Err(_) => continue,
        };
        if status != 201 {
            assert_eq!(status, 503, "nobody else wants this seat: {hold}");
            // Each try takes another seat, and there are only so many.
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        }
        match client.confirm(&user, hold["hold_token"].as_str().unwrap()).await {
            Ok((201, booking)) => {
                confirmed.push(booking["booking_id"].as_str().unwrap().to_owned());
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok((503, _)) | Err(_) => {}
            Ok((status, body)) => panic!("{status}: {body}"),
        }
    }
    confirmed
}

struct Sale {
    house: Arc<House>,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU32>,
    buyers: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

impl Sale {
    fn begin(house: &Arc<House>) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let buyers = (0..6)
            .map(|buyer| tokio::spawn(buy(Arc::clone(house), buyer, Arc::clone(&stop), Arc::clone(&done))))
            .collect();
        Self { house: Arc::clone(house), stop, done, buyers }
    }

    /// Waits until so many more were sold.
    async fn sell(&self, more: u32, within: Duration) {
        let (goal, began) = (self.done.load(Ordering::Relaxed) + more, Instant::now());
        while self.done.load(Ordering::Relaxed) < goal {
            assert!(began.elapsed() < within, "sales do not go on");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for buyer in self.buyers {
            for booking in buyer.await.unwrap() {
                let (status, body) =
                    self.house.client(0).get("", &format!("/api/bookings/{booking}")).await.unwrap();
                assert_eq!(
                    (status, &body["status"]),
                    (200, &"confirmed".into()),
                    "an acknowledged booking is gone"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_at_once_and_started_again() {
    let house = Arc::new(House::new(Warm::single(), Setup { seats: 6_000, ..Setup::default() }).await);
    let sale = Sale::begin(&house);
    for _ in 0..3 {
        sale.sell(30, Duration::from_secs(20)).await;
        house.postgres.stop_at_once();
        let (status, body) = house.client(1).get("", "/readyz").await.unwrap();
        assert_eq!((status, &body["code"]), (503, &"unavailable".into()), "{body}");
        house.postgres.start_again().unwrap();
    }
    sale.sell(30, Duration::from_secs(20)).await;
    sale.end().await;
    house.assert_well().await;
}

/// The primary dies in the middle of a sale and its synchronous standby takes over. Every booking that was confirmed to
/// somebody is on the standby.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_primary_is_lost_and_its_standby_promoted() {
    let primary = Postgres::start().unwrap();
    let standby = primary.standby().unwrap();
    let truth = format!(
        "postgres://{}@{},{}/postgres",
        rowlock_dev::postgres::USER,
        primary.address(),
        standby.address()
    );
    let house = House::on(primary, truth, Warm::single(), Setup { seats: 6_000, ..Setup::default() }).await;
    let durability = |house: &House| {
        let client = house.client(0).clone();
        async move { client.get("", "/readyz?verbose").await.unwrap().1["truth"]["durability"].clone() }
    };
    // An asynchronous standby may miss what was acknowledged, and that is said.
    assert_eq!(durability(&house).await, "weak");
    // One that waits for more standbys than there are acknowledges nothing.
    for (names, wanted) in [("ANY 2 (standby, another)", "weak"), ("standby", "standby")] {
        house
            .postgres
            .sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"))
            .and_then(|_| house.postgres.sql("SELECT pg_reload_conf()"))
            .unwrap();
        let shown = || house.postgres.sql("SHOW synchronous_standby_names").unwrap();
        assert!(wait_until(Duration::from_secs(10), || shown() == names));
        house
            .until(0, Duration::from_secs(10), "/readyz?verbose", |_, body| {
                let truth = &body["truth"];
                truth["durability"] == wanted && !truth.to_string().contains("asynchronous")
            })
            .await;
    }
    assert!(house.nodes[0].said().contains("asynchronous"), "the log says so: {}", house.nodes[0].said());
    let house = Arc::new(house);
    let sale = Sale::begin(&house);
    sale.sell(60, Duration::from_secs(20)).await;
    house.postgres.stop_at_once();
    standby.promote().unwrap();
    sale.sell(60, Duration::from_secs(30)).await;
    sale.end().await;
    house.assert_well().await;
}

/// The standby that takes over has missed the end, and goes on with other facts in its place before all nodes have looked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_missed_the_end_misleads_nobody_for_long() {
    let primary = Postgres::start().unwrap();
    let standby = primary.standby().unwrap();
    let user = rowlock_dev::postgres::USER;
    let truth = format!("postgres://{user}@{},{}/postgres", primary.address(), standby.address());
    let house = House::on(primary, truth, Warm::single(), Setup::default()).await;
    house.held(0, "kept", &[0]).await;
    let holds = || standby.sql("SELECT count(*) FROM holds").unwrap();
    assert!(wait_until(Duration::from_secs(20), || holds() == "1"));
    standby.sql("ALTER SYSTEM SET primary_conninfo = ''").unwrap();
    standby.sql("SELECT pg_reload_conf()").unwrap();
    let followers = || house.postgres.sql("SELECT count(*) FROM pg_stat_replication").unwrap();
    assert!(wait_until(Duration::from_secs(20), || followers() == "0"));
    for seat in 10..15 {
        house.held(0, &format!("lost-{seat}"), &[seat]).await;
    }
    let map = format!("/api/events/{}/seats?form=status", house.event);
    let held = |body: &serde_json::Value| -> Vec<usize> {
        let letters = body["status"].as_str().unwrap_or_default();
        letters.char_indices().filter(|(_, letter)| *letter == 'h').map(|(seat, _)| seat).collect()
    };
    let knows = |wanted: Vec<usize>| {
        move |status: u16, body: &serde_json::Value| status == 200 && held(body) == wanted
    };
    house.until(1, Duration::from_secs(10), &map, knows(vec![0, 10, 11, 12, 13, 14])).await;
    house.nodes[1].process(|process| process.pause());
    house.postgres.stop_at_once();
    standby.promote().unwrap();
    for seat in 20..26 {
        let began = Instant::now();
        while house.hold(0, &format!("new-{seat}"), &[seat]).await.0 != 201 {
            assert!(began.elapsed() < Duration::from_secs(30), "sales do not go on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    house.nodes[1].process(|process| process.resume());
    // Long before the comparison that comes every five minutes.
    for node in [0, 1] {
        house.until(node, Duration::from_secs(30), &map, knows(vec![0, 20, 21, 22, 23, 24, 25])).await;
    }
    house.held(1, "next", &[10]).await;
    // Redis has forgotten those that were lost, too.
    house.assert_well().await;
}

/// Somebody keeps the seats locked. Whoever waits behind that is seen in the metrics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_in_a_lane_are_counted() {
    let house = Arc::new(House::new(Warm::single(), Setup { nodes: 1, ..Setup::default() }).await);
    house.held(0, "ann", &[0]).await;
    let (other, connection) =
        tokio_postgres::connect(&house.truth, tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    other.batch_execute("BEGIN; LOCK TABLE seats IN ACCESS EXCLUSIVE MODE").await.expect("a lock");
    let hold = |seat: u32| {
        let house = Arc::clone(&house);
        tokio::spawn(async move { house.hold(0, &format!("user-{seat}"), &[seat]).await })
    };
    let mut holding = vec![hold(1)];
    until_waiting_for_locks(&other, 1).await;
    // The second is sent behind the first. Nobody is sent behind that.
    let sent = async || house.metric(0, "rowlock_batch_size_count").await;
    let first = sent().await;
    holding.push(hold(2));
    until_so("the second is sent", async || sent().await != first).await;
    holding.extend((3..7).map(hold));
    let waiting = async || house.metric(0, "rowlock_lane_depth").await;
    let began = Instant::now();
    while waiting().await != 4.0 {
        assert!(began.elapsed() < Duration::from_secs(5), "{} wait", waiting().await);
    }
    other.batch_execute("COMMIT").await.expect("the lock is let go");
    for held in holding {
        assert_eq!(held.await.unwrap().0, 201);
    }
    assert_eq!(waiting().await, 0.0);
}

/// More nodes than Postgres has connections for: what can't be done now is said clearly, and what was said is true.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_connections() {
    let postgres = Postgres::start_with(&["max_connections=20", "superuser_reserved_connections=3"]).unwrap();
    let truth = postgres.url();
    let house =
        House::on(postgres, truth, Warm::single(), Setup { nodes: 2, seats: 2_000, ..Setup::default() })
            .await;
    // Others take all that are left, then those of the nodes too.
    let mut others = take_all(&house.truth).await;
    let end =
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'rowlock'";
    // Ended and gone are not the same moment.
    until_so("they are gone", async || others[0].query_one(end, &[]).await.unwrap().get::<_, i64>(0) == 0)
        .await;
    others.extend(take_all(&house.truth).await);
    let (mut held, mut refused) = (Vec::new(), 0);
    for seat in 0..60 {
        let began = Instant::now();
        match house.hold(seat as usize, &format!("user-{seat}"), &[seat]).await {
            (201, body) => held.push(body["hold_token"].as_str().unwrap().to_owned()),
            (503, _) => refused += 1,
            (status, body) => panic!("{status}: {body}"),
        }
        assert!(began.elapsed() < Duration::from_secs(11), "no answer in time");
    }
    drop(others);
    house.until(0, Duration::from_secs(10), "/readyz", |status, _| status == 200).await;
    house.held(0, "afterwards", &[1_999]).await;
    for hold in &held {
        let (status, _) = house.client(1).get("", &format!("/api/bookings/hold/{hold}")).await.unwrap();
        assert_eq!(status, 200);
    }
    assert!(refused > 0, "connections were never short");
    house.assert_well().await;
}

/// Connects until Postgres says that there are no more.
async fn take_all(url: &str) -> Vec<tokio_postgres::Client> {
    let mut clients = Vec::new();
    while let Ok((client, connection)) = tokio_postgres::connect(url, tokio_postgres::NoTls).await {
        tokio::spawn(connection);
        clients.push(client);
    }
    clients
}

/// A pooler that shares connections by transaction is refused with words that say what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_that_shares_by_transaction() {
    let postgres = Postgres::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let address = rowlock_dev::address::free().unwrap();
    let users = folder.path().join("users.txt");
    std::fs::write(&users, "\"rowlock\" \"\"\n").unwrap();
    let (host, port) = (postgres.address().ip(), postgres.address().port());
    let settings = |ignore: &str| {
        format!(
            "[databases]\npostgres = host={host} port={port}\n[pgbouncer]\nlisten_addr = {}\nlisten_port = {}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n{ignore}\n",
            address.ip(),
            address.port(),
            users.display()
        )
    };
    let file = folder.path().join("pgbouncer.ini");
    for ignore in ["", "ignore_startup_parameters = options"] {
        std::fs::write(&file, settings(ignore)).unwrap();
        open_to_all(folder.path());
        let start = rowlock_dev::process::Start::new("pgbouncer", folder.path().join("pgbouncer.log"))
            .arguments([support::text(&file)])
            .user(nix::unistd::Uid::current().is_root().then(|| "postgres".to_owned()));
        let pooler = rowlock_dev::process::Process::start(&start).unwrap();
        pooler
            .until_ready(Duration::from_secs(10), || std::net::TcpStream::connect(address).is_ok())
            .unwrap();
        let url = format!("postgres://rowlock@{address}/postgres");
        let output = support::run(&["migrate", "--truth", &url]);
        let said = support::stderr(&output);
        assert!(!output.status.success() && said.contains("connect to Postgres itself"), "{said}");
    }
}

fn open_to_all(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
}

/// Who wants to look, or to repair Redis, makes no tables: they would be in the way of a restore.
#[test]
fn what_does_not_serve_makes_no_tables() {
    let (postgres, redis) = (Postgres::start().unwrap(), Redis::start().unwrap());
    let looking = ["verify", "--truth", &postgres.url()].map(str::to_owned).to_vec();
    let repairing =
        ["reconcile", "--truth", &postgres.url(), "--redis", &redis.url()].map(str::to_owned).to_vec();
    for arguments in [looking, repairing] {
        let output = support::run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{}", support::stdout(&output));
        assert!(support::stderr(&output).contains("rowlock migrate"), "{}", support::stderr(&output));
    }
    assert_eq!(postgres.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").unwrap(), "0");

    // Tables of another role, as a restore by an administrator leaves them, are there and can't be read.
    assert!(support::run(&["migrate", "--truth", &postgres.url()]).status.success());
    postgres.sql("CREATE ROLE stranger LOGIN").unwrap();
    let url = format!("postgres://stranger@{}/postgres", postgres.address());
    let output = support::run(&["verify", "--truth", &url]);
    assert_eq!(output.status.code(), Some(2), "{}", support::stdout(&output));
    assert!(support::stderr(&output).contains("permission denied"), "{}", support::stderr(&output));
}
