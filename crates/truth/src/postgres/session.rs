//! A connection that writes, with its statements prepared and its memory of events.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rowlock_core::EventId;
use rustc_hash::FxHashMap;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use super::connect::{Plans, SessionSettings, Target};
use super::events::Events;
use super::fault::{StoreError, Stored};
use super::lanes::Permit;
use super::sql;
use crate::id_source::TimeOrderedIds;

pub(super) type Param<'p> = &'p (dyn ToSql + Sync);

/// The largest batch takes a small part of the time that one statement may take.
pub(super) const WRITING: SessionSettings =
    SessionSettings { statement: Duration::from_secs(5), lock: Duration::from_secs(2), plans: Plans::Kept };

pub(super) struct Session {
    pub wire: Arc<Wire>,
    pub events: Events,
    pub ids: TimeOrderedIds,
    /// What the last batch was about that was sent and not waited for,
    pub sold: Option<EventId>,
    /// and its place among the connections.
    pub permit: Weak<Permit>,
}

impl Deref for Session {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

/// The connection itself. A batch that was sent has it while it waits for its answer, when the session is free for the next.
pub(super) struct Wire {
    pub client: Client,
    pub backend: Backend,
    target: Target,
    timeline: u32,
    statements: RwLock<FxHashMap<&'static str, Statement>>,
    /// The newest sequence of each stream that was written here. What comes next has a higher one.
    written: Mutex<FxHashMap<Uuid, u64>>,
    /// Batches that were sent and are not answered.
    under_way: AtomicUsize,
    is_given_up: AtomicBool,
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
        let (client, timeline) = target.connect_hearing(WRITING, Arc::new(|_| {})).await?;
        let row = client.query_one(sql::BACKEND, &[]).await?;
        let backend = Backend { pid: row.try_get(0)?, started: row.try_get(1)? };
        let wire = Wire {
            client,
            backend,
            target: target.clone(),
            timeline,
            statements: RwLock::default(),
            written: Mutex::default(),
            under_way: AtomicUsize::new(0),
            is_given_up: AtomicBool::new(false),
        };
        Ok(Self {
            wire: Arc::new(wire),
            events: Events::default(),
            ids: TimeOrderedIds::default(),
            sold: None,
            permit: Weak::new(),
        })
    }

    /// Called between batches.
    pub fn trim(&mut self) {
        self.events.trim();
        let mut written = self.written.lock();
        if written.len() > MAX_WRITTEN {
            written.clear();
        }
    }
}

impl Wire {
    /// A sequence of the stream behind which everything is that will be written here. 0 when none is known.
    pub fn written_before(&self, stream: Uuid) -> u64 {
        self.written.lock().get(&stream).copied().unwrap_or(0)
    }

    pub fn note_written(&self, stream: Uuid, sequence: u64) {
        self.written.lock().insert(stream, sequence);
    }

    /// Counts a batch as under way until what is returned is dropped.
    pub fn begin(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }

    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Nothing more is to be sent here.
    pub fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    pub fn is_usable(&self) -> bool {
        !self.client.is_closed() && !self.is_given_up.load(Ordering::Relaxed) && self.is_of_now().is_ok()
    }

    /// Asked behind every COMMIT: what a primary took when another had been promoted already must not be acknowledged.
    pub fn is_of_now(&self) -> Stored<()> {
        if self.target.is_replaced(self.timeline) {
            return Err(StoreError::NoConnection("this Postgres was replaced by another meanwhile".into()));
        }
        Ok(())
    }

    /// Prepares what is not prepared yet, all in one round trip.
    pub async fn prepare(&self, wanted: &[&'static str]) -> Stored<()> {
        let missing: Vec<&'static str> = {
            let known = self.statements.read();
            wanted.iter().filter(|sql| !known.contains_key(*sql)).copied().collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let prepared =
            futures::future::try_join_all(missing.iter().map(|sql| self.client.prepare(sql))).await?;
        self.statements.write().extend(missing.into_iter().zip(prepared));
        Ok(())
    }

    /// Runs a statement that was prepared before. Futures that are polled together are sent together.
    pub async fn query<const N: usize>(&self, sql: &'static str, params: [Param<'_>; N]) -> Stored<Vec<Row>> {
        let prepared = self.statements.read().get(sql).cloned();
        Ok(match prepared {
            Some(statement) => self.client.query(&statement, &params).await?,
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

pub(super) struct UnderWay(Arc<Wire>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
