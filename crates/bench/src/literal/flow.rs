//! The flow of one request.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deadpool_postgres::{Pool, PoolError, Transaction};
use jiff::Timestamp;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, cmd};
use serde::Serialize;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

const CHECK: &str = "SELECT s.status, h.id FROM seats s
     LEFT JOIN seat_holds h ON h.seat_id = s.id AND h.user_id = $2 AND h.deleted_at IS NULL
     WHERE s.id = $1";
const LOCK: &str = "SELECT status, block, \"row\", number, price FROM seats WHERE id = $1 FOR UPDATE";
const MARK: &str = "UPDATE seats SET status = 'held', held_until = $2 WHERE id = $1";
const INSERT: &str = "INSERT INTO seat_holds
     (id, org_id, event_id, seat_id, user_id, cart_token, created_at, expires_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const OUTBOX: &str = "INSERT INTO outbox (topic, payload, created_at) VALUES ($1, $2, $3)";

const HOLD: Duration = Duration::from_secs(15 * 60);
/// A key outlives its hold a little, so that the hold is the one to end first.
const KEY_MILLIS: u64 = 16 * 60 * 1000;

pub struct Flow {
    pub pool: Pool,
    /// Without it, the row's lock alone decides, and there is no outbox.
    pub redis: Option<MultiplexedConnection>,
    pub org: Uuid,
    /// The writes of a transaction are sent at once instead of one after another.
    pub pipelined: bool,
}

/// What a request asks for.
pub struct Wish<'a> {
    pub event: Uuid,
    pub seat: Uuid,
    pub user: &'a str,
    pub cart: &'a str,
}

/// What it gets.
pub struct Hold {
    pub id: Uuid,
    pub block: String,
    pub row: String,
    pub number: i64,
    pub price: i64,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// What stands in Redis.
#[derive(Serialize)]
struct Value<'a> {
    user_id: &'a str,
    cart_token: &'a str,
    expires_at: Timestamp,
    held_at: Timestamp,
}

/// What stands in the outbox.
#[derive(Serialize)]
struct Payload<'a> {
    event: &'a str,
    seat_id: Uuid,
    user_id: &'a str,
    expires_at: Timestamp,
}

pub enum Refused {
    Unknown,
    Taken,
    Failed(String),
}

impl From<tokio_postgres::Error> for Refused {
    fn from(error: tokio_postgres::Error) -> Self {
        Refused::Failed(error.to_string())
    }
}

impl From<PoolError> for Refused {
    fn from(error: PoolError) -> Self {
        Refused::Failed(error.to_string())
    }
}

impl From<RedisError> for Refused {
    fn from(error: RedisError) -> Self {
        Refused::Failed(error.to_string())
    }
}

impl Flow {
    pub async fn hold(&self, wish: &Wish<'_>) -> Result<Hold, Refused> {
        let now = SystemTime::now();
        let Some(redis) = self.redis.clone() else {
            return self.persist(wish, now, now + HOLD).await;
        };
        self.check(wish).await?;
        self.claim_and_persist(redis, wish, now, now + HOLD).await
    }

    async fn claim_and_persist(
        &self,
        mut redis: MultiplexedConnection,
        wish: &Wish<'_>,
        now: SystemTime,
        until: SystemTime,
    ) -> Result<Hold, Refused> {
        let key = format!("org:{}:event:{}:seat:{}", self.org, wish.event, wish.seat);
        let (expires_at, held_at) = (timestamp(until), timestamp(now));
        let value = json(&Value { user_id: wish.user, cart_token: wish.cart, expires_at, held_at })?;
        let set: Option<String> = cmd("SET")
            .arg(&key)
            .arg(value)
            .arg("NX")
            .arg("PX")
            .arg(KEY_MILLIS)
            .query_async(&mut redis)
            .await?;
        if set.is_none() {
            return Err(Refused::Taken);
        }
        let held = self.persist(wish, now, until).await;
        if held.is_err() {
            let _: u64 = cmd("DEL").arg(&key).query_async(&mut redis).await?;
        }
        held
    }

    /// The connection goes back to the pool before Redis is asked.
    async fn check(&self, wish: &Wish<'_>) -> Result<(), Refused> {
        let client = self.pool.get().await?;
        let check = client.prepare_cached(CHECK).await?;
        let row = client.query_opt(&check, &[&wish.seat, &wish.user]).await?.ok_or(Refused::Unknown)?;
        if row.try_get::<_, &str>(0)? == "available" { Ok(()) } else { Err(Refused::Taken) }
    }

    async fn persist(&self, wish: &Wish<'_>, now: SystemTime, until: SystemTime) -> Result<Hold, Refused> {
        let mut client = self.pool.get().await?;
        let transaction = client.transaction().await?;
        let lock = transaction.prepare_cached(LOCK).await?;
        let row = transaction.query_opt(&lock, &[&wish.seat]).await?.ok_or(Refused::Unknown)?;
        if row.try_get::<_, &str>(0)? != "available" {
            return Err(Refused::Taken);
        }
        let hold = Hold {
            id: ascending_id(now),
            block: row.try_get(1)?,
            row: row.try_get(2)?,
            number: row.try_get(3)?,
            price: row.try_get(4)?,
            created_at: timestamp(now),
            expires_at: timestamp(until),
        };
        self.write(&transaction, wish, &hold, now, until).await?;
        transaction.commit().await?;
        Ok(hold)
    }

    async fn write(
        &self,
        transaction: &Transaction<'_>,
        wish: &Wish<'_>,
        hold: &Hold,
        now: SystemTime,
        until: SystemTime,
    ) -> Result<(), Refused> {
        let mark = transaction.prepare_cached(MARK).await?;
        let insert = transaction.prepare_cached(INSERT).await?;
        let values: [&(dyn ToSql + Sync); 2] = [&wish.seat, &until];
        let mark = transaction.execute(&mark, &values);
        let values: [&(dyn ToSql + Sync); 8] =
            [&hold.id, &self.org, &wish.event, &wish.seat, &wish.user, &wish.cart, &now, &until];
        let insert = transaction.execute(&insert, &values);
        if self.redis.is_none() {
            mark.await?;
            insert.await?;
            return Ok(());
        }
        let outbox = transaction.prepare_cached(OUTBOX).await?;
        let topic = format!("org:{}:event:{}:seating:seat:held", self.org, wish.event);
        let payload = json(&Payload {
            event: "seat_held",
            seat_id: wish.seat,
            user_id: wish.user,
            expires_at: hold.expires_at,
        })?;
        let values: [&(dyn ToSql + Sync); 3] = [&topic, &payload, &now];
        let outbox = transaction.execute(&outbox, &values);
        if self.pipelined {
            tokio::try_join!(mark, insert, outbox)?;
        } else {
            mark.await?;
            insert.await?;
            outbox.await?;
        }
        Ok(())
    }
}

fn json(value: &impl Serialize) -> Result<String, Refused> {
    serde_json::to_string(value).map_err(|error| Refused::Failed(error.to_string()))
}

fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or_default()
}

/// Random, but later ones are larger: they land side by side in the index.
fn ascending_id(now: SystemTime) -> Uuid {
    let millis = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let random = *Uuid::new_v4().as_bytes();
    let tail: [u8; 10] = std::array::from_fn(|i| random[i]);
    uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
}
