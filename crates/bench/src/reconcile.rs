//! How long it takes to bring the tiers to agree when there are very many holds.

use std::time::Instant;

use rowlock_core::EventId;
use rowlock_core::hold::{HeldSeat, Hold, HoldStatus, Source};
use rowlock_core::{CartToken, HoldId, UserId};
use rowlock_registry::reconcile::{Repairs, reconcile_all};
use uuid::Uuid;

use crate::servers::{self, Fallible, Node, Servers, progress};
use crate::setup::{PRICE, Stage};

#[derive(clap::Args)]
pub struct Arguments {
    /// Holds of one seat each, in events of 100,000 seats that are all held.
    #[arg(long, default_value_t = 1_000_000)]
    holds: u32,
    /// Have the events in memory too, as a node has that sells them.
    #[arg(long)]
    hot: bool,
    /// Don't check the stored data first, which takes a while.
    #[arg(long)]
    unchecked: bool,
}

const SEATS_PER_EVENT: u32 = 100_000;
const GOAL_SECONDS: f64 = 10.0;
/// No hold ends while this runs.
const HOLD_SECONDS: u32 = 6 * 60 * 60;

pub async fn run(arguments: Arguments) -> Fallible<bool> {
    let servers = Servers::start()?;
    let database = servers.fresh("rowlock").await?;
    let node = servers.node(&database).await?;
    let stage = Stage::on(node.engine.clone()).await;
    let mut events = Vec::new();
    for first in (0..arguments.holds).step_by(SEATS_PER_EVENT as usize) {
        let seats = SEATS_PER_EVENT.min(arguments.holds - first);
        progress(format!("an event of {seats} seats ({} of {} so far)", first, arguments.holds));
        events.push(stage.event_of(seats).await);
    }
    node.engine.stop().await;
    fill(&database, &stage, &events).await?;
    servers.empty_redis()?;

    progress("starting a node");
    let began = Instant::now();
    let node = servers.node(&database).await?;
    println!("a node starts in {:.1} s", began.elapsed().as_secs_f64());
    if !arguments.unchecked {
        progress("checking what is stored");
        let began = Instant::now();
        let violations = node.violations().await?;
        println!("verify takes {:.1} s", began.elapsed().as_secs_f64());
        if let Some(first) = violations.first() {
            return Err(format!("the stored data is wrong in {} places: {first}", violations.len()).into());
        }
    }
    if arguments.hot {
        progress("loading the events");
        for event in &events {
            node.engine.event(stage.org, *event).await?;
        }
        // Loading them has begun to write them to Redis.
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        servers.empty_redis()?;
    }
    let held = events.len();
    let mut reached = true;
    for (what, wanted) in [("Redis empty", arguments.holds as usize), ("all in agreement", 0)] {
        progress(format!("reconciling {held} events, {what}"));
        let (took, repairs) = reconcile(&node, &stage, &events).await?;
        let sound = repairs.claims_restored == wanted && (wanted > 0) == (repairs.total() > 0);
        let verdict = match (sound, took < GOAL_SECONDS) {
            (false, _) => "WRONG REPAIRS",
            (true, true) => "reached",
            (true, false) => "MISSED",
        };
        println!("{what:<17} {took:>6.2} s  goal {GOAL_SECONDS:.0} s  {verdict}  {repairs:?}");
        reached &= verdict == "reached";
    }
    node.engine.stop().await;
    Ok(reached)
}

async fn reconcile(node: &Node, stage: &Stage, events: &[EventId]) -> Fallible<(f64, Repairs)> {
    let began = Instant::now();
    let events: Vec<_> = events.iter().map(|event| (stage.org, *event)).collect();
    let sum = reconcile_all(&node.engine, &events, || {}).await?;
    Ok((began.elapsed().as_secs_f64(), sum))
}

/// Holds every seat of the events, one hold each, with the rows that the engine would have written.
async fn fill(database: &str, stage: &Stage, events: &[EventId]) -> Fallible<()> {
    let mut client = servers::connect(database).await?;
    for (number, event) in events.iter().enumerate() {
        progress(format!("holding all seats of event {} of {}", number + 1, events.len()));
        let fact = template(stage, *event)?;
        let transaction = client.transaction().await?;
        let row = "SELECT key, seat_count FROM events WHERE id = $1";
        let row = transaction.query_one(row, &[&event.uuid()]).await?;
        let (key, seats): (i64, i32) = (row.try_get(0)?, row.try_get(1)?);
        let (from, to) = (key << 24, (key + 1) << 24);
        let (created, expires, latest) =
            (fact.created_at.millis(), fact.expires_at.millis(), fact.max_expires_at.millis());
        let held =
            "UPDATE seats SET status = 1, version = version + 1, held_until = $3, hold_id = gen_random_uuid()
             WHERE key >= $1 AND key < $2";
        transaction.execute(held, &[&from, &to, &expires]).await?;
        let holds =
            "INSERT INTO holds (id, event_key, user_id, cart_token, status, version, source, places, seats,
                 areas, created_at, expires_at, max_expires_at)
             SELECT s.hold_id, $3, 'buyer', 'c' || (s.key - $1), 0, 1, 3, 1,
                 '[[' || (s.key - $1) || ',' || $4::bigint || ']]', '[]', $5, $6, $7
             FROM seats s WHERE s.key >= $1 AND s.key < $2 ORDER BY s.key";
        transaction.execute(holds, &[&from, &to, &key, &PRICE, &created, &expires, &latest]).await?;
        // The fact of one hold as the engine writes it, with the id, the cart and the ordinal of each.
        let json = serde_json::to_string(&fact)?;
        let journal = "INSERT INTO journal (stream_key, seq, id, kind, at, actor, request_id, data)
             SELECT t.key, t.seq + (s.key - $1) + 1, gen_random_uuid(), 'SEAT-HOLD-CREATED', $4, 'system', 'bench',
                 replace(replace(replace($5, $6, s.hold_id::text), '\"c0\"', '\"c' || (s.key - $1) || '\"'),
                     '\"ordinal\":0', '\"ordinal\":' || (s.key - $1))
             FROM seats s, streams t WHERE s.key >= $1 AND s.key < $2 AND t.id = $3";
        let nil = Uuid::nil().to_string();
        transaction.execute(journal, &[&from, &to, &event.uuid(), &created, &json, &nil]).await?;
        let length = "UPDATE streams SET seq = seq + $2 WHERE id = $1";
        transaction.execute(length, &[&event.uuid(), &i64::from(seats)]).await?;
        transaction.commit().await?;
    }
    servers::settle(&client).await
}

/// A hold of the first seat, with an id of zeros.
fn template(stage: &Stage, event: EventId) -> Fallible<Hold> {
    let now = stage.engine.now();
    Ok(Hold {
        id: HoldId::from_uuid(Uuid::nil()),
        org: stage.org,
        event,
        user: UserId::new("buyer")?,
        cart: CartToken::new("c0")?,
        status: HoldStatus::Active,
        source: Source::Api,
        currency: "EUR".parse()?,
        seats: vec![HeldSeat { ordinal: 0, price: PRICE }],
        areas: Vec::new(),
        created_at: now,
        expires_at: now.plus_seconds(HOLD_SECONDS),
        max_expires_at: now.plus_seconds(HOLD_SECONDS),
        checkout_at: None,
        ended_at: None,
        booking: None,
    })
}
