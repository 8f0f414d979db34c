//! Checking the promises on what is stored.
//!
//! The rows are copied, as of one moment, into a scratch file with the tables of the embedded store, and its checks run
//! there. So there is one set of checks, and Postgres does nothing but read each table once.

use futures::{StreamExt, pin_mut};
use rusqlite::types::Value;
use tokio::sync::mpsc;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::fault::{StoreError, Stored};
use crate::sqlite::Copy;
use crate::verify::{Progress, Report};
use crate::{Failure, ReadResult};

/// Rows that are on their way at once.
const CHUNK: usize = 5_000;

/// The tables, their columns over there, and those here where they are others.
const TABLES: [(&str, &str, &str); 12] = [
    ("organizations", "id, name, created_at", ""),
    ("api_keys", "id, org_id, name, scopes, secret_hash, created_at, revoked_at", ""),
    ("events", "key, id, org_id, name, currency, tiers, policy, seat_count, seat_id_prefix, created_at", ""),
    ("blocks", "event_key, position, id, name", ""),
    ("areas", "id, event_key, position, name, tier, capacity, held, sold, version", ""),
    ("seats", "key, status, version, held_until, hold_id, ticket_id, tier, block, \"row\", number, x, y", ""),
    (
        "holds",
        "id, event_key, user_id, cart_token, status, version, source, places, seats, areas, created_at, expires_at, \
         max_expires_at, checkout_at, ended_at, booking_id",
        "",
    ),
    (
        "bookings",
        "id, hold_id, event_key, user_id, status, version, source, places, payment_reference, created_at, cancelled_at",
        "",
    ),
    ("tickets", "id, booking_id, position, event_key, ordinal, area_id, price", ""),
    ("idempotency_records", "org_id, actor, key, fingerprint, outcome, expires_at", ""),
    ("streams", "key, id, seq", ""),
    (
        "journal",
        "(stream_key << 40) | seq, id, kind, at, actor, request_id, data",
        "key, id, kind, at, actor, request_id, data",
    ),
];

pub(super) async fn verify(client: &mut Client, progress: Progress) -> ReadResult<Report> {
    let failed =
        |error: std::io::Error| Failure::Unavailable(format!("no room for a copy of the rows: {error}"));
    let folder = tempfile::Builder::new().prefix("rowlock-verify-").tempdir().map_err(failed)?;
    let file = folder.path().join("copy.sqlite");
    let (send, mut receive) = mpsc::channel::<(usize, Vec<Vec<Value>>)>(4);
    let copying = tokio::task::spawn_blocking(move || -> ReadResult<Copy> {
        let mut copy = Copy::new(&file).map_err(|error| Failure::Unavailable(error.to_string()))?;
        while let Some((table, rows)) = receive.blocking_recv() {
            let (name, there, here) = TABLES[table];
            copy.add(name, if here.is_empty() { there } else { here }, &rows)?;
        }
        Ok(copy)
    });
    let read = read_all(client, &send, &progress).await;
    drop(send);
    // When the copy fails the rows find no taker: its error is the one to tell.
    let copy = copying.await.map_err(|error| Failure::Broken(error.to_string()))??;
    read?;
    let report = tokio::task::spawn_blocking(move || copy.verify(&progress)).await;
    report.map_err(|error| Failure::Broken(error.to_string()))?
}

async fn read_all(
    client: &mut Client,
    rows: &mpsc::Sender<(usize, Vec<Vec<Value>>)>,
    progress: &Progress,
) -> Stored<()> {
    let transaction = client
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    for (i, (table, columns, _)) in TABLES.iter().enumerate() {
        progress("reading", i, TABLES.len());
        let sql = format!("SELECT {columns} FROM {table}");
        let nothing: [&(dyn tokio_postgres::types::ToSql + Sync); 0] = [];
        let stream = transaction.query_raw(&sql, nothing).await?.chunks(CHUNK);
        pin_mut!(stream);
        while let Some(chunk) = stream.next().await {
            let mut values = Vec::with_capacity(chunk.len());
            for row in chunk {
                values.push(row_values(&row?)?);
            }
            if rows.send((i, values)).await.is_err() {
                return Ok(());
            }
        }
    }
    transaction.commit().await?;
    Ok(())
}

fn row_values(row: &Row) -> Stored<Vec<Value>> {
    (0..row.len()).map(|column| value(row, column)).collect()
}

fn value(row: &Row, column: usize) -> Stored<Value> {
    fn of<T>(found: Option<T>, value: impl FnOnce(T) -> Value) -> Value {
        found.map_or(Value::Null, value)
    }
    Ok(match *row.columns()[column].type_() {
        Type::UUID => of(row.try_get::<_, Option<Uuid>>(column)?, |id| Value::Blob(id.as_bytes().to_vec())),
        Type::TEXT => of(row.try_get(column)?, Value::Text),
        Type::BYTEA => of(row.try_get(column)?, Value::Blob),
        Type::INT8 => of(row.try_get(column)?, Value::Integer),
        Type::INT4 => of(row.try_get::<_, Option<i32>>(column)?, |n| Value::Integer(n.into())),
        Type::INT2 => of(row.try_get::<_, Option<i16>>(column)?, |n| Value::Integer(n.into())),
        Type::FLOAT4 => of(row.try_get::<_, Option<f32>>(column)?, |n| Value::Real(n.into())),
        _ => return Err(StoreError::Corrupt("a column")),
    })
}
