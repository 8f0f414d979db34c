//! The flow behind HTTP, with the same request and the same answer as Rowlock's.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use jiff::Timestamp;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo};
use rowlock_core::{EventId, SeatId};
use serde::{Deserialize, Serialize};
use tokio_postgres::NoTls;
use uuid::Uuid;

use super::flow::{Flow, Hold, Refused, Wish};
use crate::servers::{Fallible, connect, count};
use crate::serving::{self, HOLD, Serving};
use crate::setup::PRICE;

/// There is no token to check, so everybody is the same.
const USER: &str = "buyer";
const MAX_HOLD: Duration = Duration::from_secs(30 * 60);
const SEATS_PER_ROW: i64 = 100;
/// Commands that may wait to be written to Redis, as many as Rowlock allows.
const WRITE_QUEUE: usize = 8192;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Connections in the pool.
    pub pool: usize,
    pub pipelined: bool,
}

/// The server and what it sells. Dropping it ends it.
pub struct Literal {
    pub serving: Serving,
    pub event: EventId,
    pool: Pool,
}

/// Tables, where they are missing, and events.
pub async fn prepare(database: &str, events: u32, seats_each: u32) -> Fallible<Vec<EventId>> {
    let client = connect(database).await?;
    client.batch_execute(include_str!("schema.sql")).await?;
    let fill = "INSERT INTO seats (id, event_id, block, \"row\", number, price)
         SELECT ($1::text || lpad(to_hex(i), 8, '0'))::uuid, $2, 'Block 0', 'R' || i / $4::bigint,
             i % $4::bigint + 1, $5
         FROM generate_series(0, $3::bigint - 1) AS i";
    let mut made = Vec::new();
    for _ in 0..events {
        let event = EventId::from_uuid(Uuid::new_v4());
        let (prefix, uuid) = (SeatId::prefix(event), event.uuid());
        client.execute(fill, &[&prefix, &uuid, &i64::from(seats_each), &SEATS_PER_ROW, &PRICE]).await?;
        made.push(event);
    }
    Ok(made)
}

/// The flow on a database that was prepared. Without a Redis, `SELECT … FOR UPDATE` decides alone.
pub async fn serve(database: &str, redis: Option<&str>, options: Options) -> Fallible<(Serving, Pool)> {
    let pool = Literal::pool(database, options.pool)?;
    let redis = match redis {
        Some(url) => Some(multiplexed(url).await?),
        None => None,
    };
    let flow = Flow { pool: pool.clone(), redis, org: Uuid::new_v4(), pipelined: options.pipelined };
    let router = Router::new().route(HOLD, post(hold)).with_state(Arc::new(flow));
    Ok((serving::serve(router).await, pool))
}

impl Literal {
    /// On an empty database.
    pub async fn start(database: &str, redis: &str, seats: u32, options: Options) -> Fallible<Self> {
        let event = prepare(database, 1, seats).await?[0];
        let (serving, pool) = serve(database, Some(redis), options).await?;
        Ok(Self { serving, event, pool })
    }

    fn pool(database: &str, size: usize) -> Fallible<Pool> {
        let manager = Manager::from_config(
            database.parse()?,
            NoTls,
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        Ok(Pool::builder(manager).max_size(size).runtime(Runtime::Tokio1).build()?)
    }

    /// How many holds there are. An error when seats, holds and outbox don't say the same.
    pub async fn holds(&self) -> Fallible<u64> {
        let client = self.pool.get().await?;
        let mut counts = Vec::new();
        for sql in [
            "SELECT count(*) FROM seat_holds",
            "SELECT count(*) FROM seats WHERE status = 'held'",
            "SELECT count(*) FROM outbox",
        ] {
            counts.push(count(&client, sql).await?);
        }
        match counts[..] {
            [holds, seats, outbox] if holds == seats && holds == outbox => Ok(holds),
            _ => Err(format!("holds, held seats and outbox rows differ: {counts:?}").into()),
        }
    }

    pub fn stop(self) {
        self.pool.close();
    }
}

async fn multiplexed(url: &str) -> Fallible<redis::aio::MultiplexedConnection> {
    let info = url.into_connection_info()?.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(Some(Duration::from_secs(5)))
        .set_pipeline_buffer_size(WRITE_QUEUE);
    Ok(Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await?)
}

#[derive(Deserialize)]
struct Body<'a> {
    event_id: Uuid,
    seat_ids: [Uuid; 1],
    cart_token: &'a str,
}

async fn hold(State(flow): State<Arc<Flow>>, body: Bytes) -> Response {
    let Ok(body) = serde_json::from_slice::<Body<'_>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let wish = Wish { event: body.event_id, seat: body.seat_ids[0], user: USER, cart: body.cart_token };
    match flow.hold(&wish).await {
        Ok(hold) => answer(&wish, &hold),
        Err(Refused::Unknown) => StatusCode::NOT_FOUND.into_response(),
        Err(Refused::Taken) => StatusCode::CONFLICT.into_response(),
        Err(Refused::Failed(why)) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

#[derive(Serialize)]
struct HoldView<'a> {
    hold_token: Uuid,
    event_id: Uuid,
    user_id: &'a str,
    cart_token: &'a str,
    status: &'static str,
    source: &'static str,
    seats: [SeatView<'a>; 1],
    areas: [(); 0],
    total: Total,
    created_at: Timestamp,
    expires_at: Timestamp,
    max_expires_at: Timestamp,
}

#[derive(Serialize)]
struct SeatView<'a> {
    seat_id: Uuid,
    label: String,
    block: &'a str,
    row: &'a str,
    number: i64,
    price: i64,
}

#[derive(Serialize)]
struct Total {
    amount: i64,
    currency: &'static str,
}

fn answer(wish: &Wish<'_>, hold: &Hold) -> Response {
    let view = HoldView {
        hold_token: hold.id,
        event_id: wish.event,
        user_id: wish.user,
        cart_token: wish.cart,
        status: "active",
        source: "api",
        seats: [SeatView {
            seat_id: wish.seat,
            label: format!("{}-{}", hold.row, hold.number),
            block: &hold.block,
            row: &hold.row,
            number: hold.number,
            price: hold.price,
        }],
        areas: [],
        total: Total { amount: hold.price, currency: "EUR" },
        created_at: hold.created_at,
        expires_at: hold.expires_at,
        max_expires_at: hold.created_at + MAX_HOLD,
    };
    match serde_json::to_vec(&view) {
        Ok(json) => (StatusCode::CREATED, [(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
