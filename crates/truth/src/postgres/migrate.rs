//! The tables, made and changed under a lock that all nodes share.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::connect::PostgresError;
use super::fault::StoreError;

const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/postgres/0001_first.sql"),
    include_str!("../../migrations/postgres/0002_expiry.sql"),
];

/// Any number that nobody else locks: nodes that start together migrate one after another.
const LOCK: i64 = 0x526f_776c_6f63_6b21;

/// Brings the tables up to date. Returns how many migrations it ran.
pub(super) async fn migrate(client: &mut Client) -> Result<usize, PostgresError> {
    let failed = |error: tokio_postgres::Error| PostgresError::Migration(StoreError::from(error).to_string());
    let transaction = client.transaction().await.map_err(failed)?;
    // Another node's migration may take its time, and this session's limits are made for holds.
    transaction
        .batch_execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
        .await
        .map_err(failed)?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await.map_err(failed)?;
    transaction
        .batch_execute("CREATE TABLE IF NOT EXISTS rowlock_schema (version integer NOT NULL)")
        .await
        .map_err(failed)?;
    let done = version(&transaction).await.map_err(failed)?;
    let known = MIGRATIONS.len() as i32;
    if done > known {
        return Err(PostgresError::NewerSchema { found: done, known });
    }
    let missing = &MIGRATIONS[done as usize..];
    for migration in missing {
        transaction.batch_execute(migration).await.map_err(failed)?;
    }
    if !missing.is_empty() {
        let sql = format!("DELETE FROM rowlock_schema; INSERT INTO rowlock_schema VALUES ({known})");
        transaction.batch_execute(&sql).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)?;
    Ok(missing.len())
}

async fn version(client: &impl tokio_postgres::GenericClient) -> Result<i32, tokio_postgres::Error> {
    let rows = client.query("SELECT version FROM rowlock_schema", &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

/// For those who only read: the tables must be of this version already.
pub(super) async fn check(client: &Client) -> Result<(), PostgresError> {
    let known = MIGRATIONS.len() as i32;
    let found = match version(client).await {
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => 0,
        found => found.map_err(|error| PostgresError::Tables(StoreError::from(error).to_string()))?,
    };
    match found.cmp(&known) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(PostgresError::OlderSchema { found, known }),
        std::cmp::Ordering::Greater => Err(PostgresError::NewerSchema { found, known }),
    }
}
