//! A connection that writes, with its statements prepared and its memory of events.

use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use super::connect::{Plans, SessionSettings, Target};
use super::events::Events;
use super::fault::Stored;
use super::sql;
use crate::id_source::TimeOrderedIds;

pub(super) type Param<'p> = &'p (dyn ToSql + Sync);

/// The largest batch takes a small part of the time that one statement may take.
pub(super) const WRITING: SessionSettings =
    SessionSettings { statement: Duration::from_secs(5), lock: Duration::from_secs(2), plans: Plans::Kept };

pub(super) struct Session {
    pub client: Client,
    pub backend: Backend,
    statements: FxHashMap<&'static str, Statement>,
    pub events: Events,
    pub ids: TimeOrderedIds,
    /// The newest sequence of each stream that was written here. What comes next has a higher one.
    written: FxHashMap<Uuid, u64>,
}

/// The process of Postgres that a connection talks to.
#[derive(Clone, Debug)]
pub(super) struct Backend {
    pub pid: i32,
    pub started: String,
}

/// Streams that a session remembers at most.
const MAX_WRITTEN: usize = 4_096;

impl Session {
    pub async fn connect(target: &Target) -> Stored<Self> {
        let client = target.connect(WRITING).await?;
        let row = client.query_one(sql::BACKEND, &[]).await?;
        let backend = Backend { pid: row.try_get(0)?, started: row.try_get(1)? };
        Ok(Self {
            client,
            backend,
            statements: FxHashMap::default(),
            events: Events::default(),
            ids: TimeOrderedIds::default(),
            written: FxHashMap::default(),
        })
    }

    /// A sequence of the stream behind which everything is that this session will write. 0 when it knows none.
    pub fn written_before(&self, stream: Uuid) -> u64 {
        self.written.get(&stream).copied().unwrap_or(0)
    }

    pub fn note_written(&mut self, stream: Uuid, sequence: u64) {
        self.written.insert(stream, sequence);
    }

    /// Called between batches.
    pub fn trim(&mut self) {
        self.events.trim();
        if self.written.len() > MAX_WRITTEN {
            self.written.clear();
        }
    }

    /// Prepares what is not prepared yet, all in one round trip.
    pub async fn prepare(&mut self, wanted: &[&'static str]) -> Stored<()> {
        let missing: Vec<&'static str> =
            wanted.iter().filter(|sql| !self.statements.contains_key(*sql)).copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let prepared =
            futures::future::try_join_all(missing.iter().map(|sql| self.client.prepare(sql))).await?;
        self.statements.extend(missing.into_iter().zip(prepared));
        Ok(())
    }

    /// Runs a statement that was prepared before. Futures that are polled together are sent together.
    pub async fn query<const N: usize>(&self, sql: &'static str, params: [Param<'_>; N]) -> Stored<Vec<Row>> {
        Ok(match self.statements.get(sql) {
            Some(statement) => self.client.query(statement, &params).await?,
            None => self.client.query(sql, &params).await?,
        })
    }

    /// The same, or nothing at all when there is nothing to ask.
    pub async fn query_if<const N: usize>(
        &self,
        wanted: bool,
        sql: &'static str,
        params: [Param<'_>; N],
    ) -> Stored<Vec<Row>> {
        if wanted { self.query(sql, params).await } else { Ok(Vec::new()) }
    }

    pub async fn simple(&self, sql: &str) -> Stored<()> {
        Ok(self.client.batch_execute(sql).await?)
    }
}
