//! A majority of servers that know nothing of each other.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::{Arg, Cmd, RedisResult, Script, Value};
use rowlock_dev::redis::Redis;
use rowlock_registry::breaker::BreakerState;
use rowlock_registry::warm::{Claimed, Warm, WarmOptions, Wire, WireAnswer, WireConnection};
use tokio::sync::mpsc;

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

/// All three say yes, the first of them when so much time has passed that the claim may have ended elsewhere.
#[tokio::test]
async fn a_majority_that_comes_too_late_is_not_taken_as_one() {
    let servers = Servers::redlock();
    let pending = Duration::from_secs(2);
    let warm = Warm::connect(WarmOptions { pending, ..servers.options() }).await.unwrap();
    all(&servers)[0].pause();
    let claiming = tokio::spawn(async move { claim(&warm, "ada", &[1]).await });
    tokio::time::sleep(pending).await;
    assert!(!claiming.is_finished(), "nobody has answered");
    all(&servers)[0].resume();
    // It was tried once more, in time: what is given lasts.
    let receipt = claimed(claiming.await.unwrap());
    assert!(tokio::time::Instant::now() < receipt.valid_until, "what was claimed may be over");
    eventually("all three", async || copies(&servers, 1) == 3).await;
}

/// What the clocks of servers may be off by is taken from the time that a claim lives. Here nothing is left of it.
#[tokio::test]
async fn a_claim_that_lives_no_longer_than_clocks_are_off_is_never_granted() {
    let voters = [Voter::new(|_| true), Voter::new(|_| true), Voter::new(|_| true)];
    for (millis, is_granted) in [(2, false), (60_000, true)] {
        let warm = connect(&voters, Duration::from_millis(millis)).await;
        let asked = voters[0].asked().len();
        let answer = claim(&warm, "ada", &[1]).await;
        assert_eq!(matches!(answer, Claimed::Claimed(_)), is_granted, "{answer:?}");
        if !is_granted {
            assert!(matches!(answer, Claimed::Unavailable { .. }), "nobody else has it: {answer:?}");
        }
        assert_eq!(voters[0].asked().len() - asked, if is_granted { 1 } else { 3 });
    }
}

/// One for us and two for others, and the next time all for us.
#[tokio::test]
async fn after_a_split_vote_it_is_tried_again() {
    for split in 1..=3 {
        let yes = Voter::new(|_| true);
        let later = [0; 2].map(|_| Voter::new(move |nth| nth >= split));
        let voters = [&[yes], &later[..]].concat();
        let warm = connect(&voters, Duration::from_secs(60)).await;
        match (split, claim(&warm, "ada", &[1]).await) {
            (1 | 2, answer) => drop(claimed(answer)),
            // Three times are enough.
            (_, answer) => assert_eq!(taken(answer)[0].1.user, Some(user("eve"))),
        }
        assert_eq!(voters[0].asked().len(), 3.min(split + 1));
    }
}

/// Rivals who split the votes would split them again if they came back together.
#[tokio::test]
async fn between_attempts_is_a_time_that_differs() {
    let voters = [Voter::new(|_| true), Voter::new(|_| false), Voter::new(|_| false)];
    let warm = connect(&voters, Duration::from_secs(60)).await;
    let mut waits = Vec::new();
    for round in 0..30 {
        taken(claim(&warm, "ada", &[1]).await);
        let asked = voters[0].asked()[round * 3..].to_vec();
        assert_eq!(asked.len(), 3);
        waits.extend(asked.windows(2).map(|pair| pair[1] - pair[0]));
    }
    let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(*least >= Duration::from_millis(5), "{waits:?}");
    // Each is between 5 and 25 ms, or more on a machine that is busy.
    assert!(*most - *least > Duration::from_millis(10), "{waits:?}");
}

/// A server that grants a claim or not, whoever has the seat, and remembers when it was asked.
#[derive(Clone)]
struct Voter {
    /// Whether it grants the first claim, the second, and so on.
    grants: Arc<dyn Fn(usize) -> bool + Send + Sync>,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Voter {
    fn new(grants: impl Fn(usize) -> bool + Send + Sync + 'static) -> Self {
        Self { grants: Arc::new(grants), asked: Arc::default() }
    }

    /// The moments at which a claim came.
    fn asked(&self) -> Vec<Instant> {
        self.asked.lock().unwrap().clone()
    }

    fn answer(&self, command: &Cmd) -> Value {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let words: Vec<&[u8]> = command
            .args_iter()
            .map(|arg| match arg {
                Arg::Simple(word) => word,
                _ => b"",
            })
            .collect();
        let script = Script::new(include_str!("../../src/warm/scripts/claim.lua"));
        match words[..] {
            [b"CONFIG", ..] => Value::Array(vec![text("maxmemory-policy"), text("noeviction")]),
            [b"EVALSHA", hash, ..] if hash == script.get_hash().as_bytes() => {
                let mut asked = self.asked.lock().unwrap();
                asked.push(Instant::now());
                let vote = if (self.grants)(asked.len() - 1) {
                    [Value::Int(1), Value::Array(vec![Value::Int(1)])]
                } else {
                    [Value::Int(0), Value::Array(vec![Value::Int(1), text("{\"user\":\"eve\"}")])]
                };
                Value::Array(vote.to_vec())
            }
            _ => Value::Int(0),
        }
    }
}

impl Wire for Voter {
    fn name(&self) -> String {
        "voter".into()
    }

    fn open(&self) -> WireAnswer<'_, Arc<dyn WireConnection>> {
        let connection: Arc<dyn WireConnection> = Arc::new(self.clone());
        Box::pin(async { Ok(connection) })
    }

    fn subscribe<'a>(&'a self, _: &'a str) -> WireAnswer<'a, mpsc::Receiver<Vec<u8>>> {
        Box::pin(async { Ok(mpsc::channel(1).1) })
    }
}

impl WireConnection for Voter {
    fn send<'a>(&'a self, commands: &'a [&'a Cmd]) -> WireAnswer<'a, Vec<RedisResult<Value>>> {
        Box::pin(async { Ok(commands.iter().map(|command| Ok(self.answer(command))).collect()) })
    }
}

async fn connect(voters: &[Voter], pending: Duration) -> Warm {
    let wires = voters.iter().map(|voter| Arc::new(voter.clone()) as Arc<dyn Wire>).collect();
    let call_timeout = Duration::from_secs(10);
    let options = WarmOptions { pending, call_timeout, ..WarmOptions::default() };
    Warm::connect_over(wires, options).await.unwrap()
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
        assert!(matches!(claim(&warm, "ada", &[1]).await, Claimed::Unavailable { .. }));
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
