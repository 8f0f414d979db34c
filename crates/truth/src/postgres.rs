//! The truth that many nodes share: Postgres.
//!
//! A few connections write ([`lanes`]), one for each lane of the engine; reads have connections of their own, so that
//! a report can't starve a hold. `now` is the clock of Postgres, so no node's clock decides anything.

mod belief;
mod clock;
mod codec;
mod commit;
mod connect;
mod events;
mod fault;
mod lanes;
mod listen;
mod load;
mod migrate;
mod plan;
mod queries;
mod rows;
mod session;
mod skipped;
mod sql;
mod store;
mod verify;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{Manager, ManagerConfig, Pool, PoolError, RecyclingMethod};
use rowlock_core::booking::Booking;
use rowlock_core::hold::Hold;
use rowlock_core::org::{ApiKey, Org};
use rowlock_core::seat::SeatState;
use rowlock_core::{BookingId, EventId, HoldId, KeyId, OrgId, Request, SeatId, Stream, Time, UserId};

use tokio::sync::mpsc;

use self::clock::{DatabaseClock, Reading};
use self::commit::Safeguards;
pub use self::connect::PostgresError;
use self::connect::{Plans, SessionSettings, Target};
use self::fault::{StoreError, Stored};
use self::lanes::Lanes;
use crate::read::{ActiveHold, EventPage, EventShape, EventSnapshot, JournalRow};
use crate::verify::{Progress, Report};
use crate::{Answer, Belief, Beliefs, Committed, Durability, Failure, Heard, ReadResult, Truth};

/// How long a read waits for a connection, and how long it may take.
const READ_WAIT: Duration = Duration::from_secs(2);
/// For a Postgres that does not answer at all.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
const READING: SessionSettings =
    SessionSettings { statement: Duration::from_secs(9), lock: Duration::from_secs(2), plans: Plans::Fresh };
/// For work that takes its time: migrations and checks.
const UNLIMITED: SessionSettings =
    SessionSettings { statement: Duration::ZERO, lock: Duration::from_secs(60), plans: Plans::Fresh };

#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// `postgres://user@host,host/database?…`
    pub url: String,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Connections that write, one for each lane.
    pub lanes: usize,
    /// Connections that read.
    pub readers: usize,
    #[cfg(feature = "conformance")]
    pub sabotage: Sabotage,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            url: String::new(),
            ca_file: None,
            lanes: 5,
            readers: 4,
            #[cfg(feature = "conformance")]
            sabotage: Sabotage::default(),
        }
    }
}

/// Safeguards that a test can switch off, to show that the suite notices.
#[cfg(feature = "conformance")]
#[derive(Clone, Debug, Default)]
pub struct Sabotage {
    /// Locks are let go of before what was read under them is used.
    pub no_locks: bool,
    /// Seats are written whatever version they have.
    pub no_compare_and_set: bool,
    /// How long a node stands still in the middle of each transaction.
    pub pause: Duration,
    /// Whatever is to be held is believed to be free.
    pub gullible: bool,
}

pub struct PostgresTruth {
    target: Target,
    clock: Arc<DatabaseClock>,
    lanes: Lanes,
    readers: Pool,
    /// One connection that looks up API keys and nothing else: a hold that comes with one must not wait behind reports.
    keys: Pool,
    lane_count: usize,
    #[cfg(feature = "conformance")]
    gullible: bool,
}

impl PostgresTruth {
    /// Connects, and makes or migrates the tables.
    pub async fn open(options: PostgresOptions) -> Result<Self, PostgresError> {
        Self::migrate(&options).await?;
        Self::open_existing(options).await
    }

    /// Makes or migrates the tables. Returns how many migrations were missing.
    pub async fn migrate(options: &PostgresOptions) -> Result<usize, PostgresError> {
        let target = Target::new(&options.url, options.ca_file.as_ref())?;
        let mut client = target.connect(UNLIMITED).await.map_err(|error| connect::unreachable(&error))?;
        connect::check(&client, UNLIMITED).await?;
        migrate::migrate(&mut client).await
    }

    /// Connects to tables that are there already.
    pub async fn open_existing(options: PostgresOptions) -> Result<Self, PostgresError> {
        #[cfg(feature = "conformance")]
        let safeguards = Safeguards {
            lock: !options.sabotage.no_locks,
            compare: !options.sabotage.no_compare_and_set,
            pause: options.sabotage.pause,
        };
        #[cfg(not(feature = "conformance"))]
        let safeguards = Safeguards { lock: true, compare: true, pause: Duration::ZERO };
        let target = Target::new(&options.url, options.ca_file.as_ref())?;
        let client = target.connect(READING).await.map_err(|error| connect::unreachable(&error))?;
        migrate::check(&client).await?;
        let unreachable = |error: tokio_postgres::Error| PostgresError::Unreachable(error.to_string());
        let sent = Instant::now();
        let rows = client.query("SELECT rowlock_now()", &[]).await.map_err(unreachable)?;
        let time = Time::from_millis(rows[0].get(0));
        let clock = Arc::new(DatabaseClock::new(Reading { time, sent, received: Instant::now() }));
        let lanes = options.lanes.max(1);
        Ok(Self {
            readers: pool(&target, options.readers)?,
            keys: pool(&target, 1)?,
            lanes: Lanes::new(target.clone(), Arc::clone(&clock), lanes, safeguards),
            target,
            clock,
            lane_count: lanes,
            #[cfg(feature = "conformance")]
            gullible: options.sabotage.gullible,
        })
    }

    fn read<'a, T: Send + 'a, F>(
        &'a self,
        read: impl FnOnce(deadpool_postgres::Client) -> F + Send + 'a,
    ) -> Answer<'a, ReadResult<T>>
    where
        F: Future<Output = Stored<T>> + Send + 'a,
    {
        Self::read_on(&self.readers, read)
    }

    fn read_on<'a, T: Send + 'a, F>(
        pool: &'a Pool,
        read: impl FnOnce(deadpool_postgres::Client) -> F + Send + 'a,
    ) -> Answer<'a, ReadResult<T>>
    where
        F: Future<Output = Stored<T>> + Send + 'a,
    {
        Box::pin(async move {
            let no_connection = |error: PoolError| {
                let why = match error {
                    PoolError::Backend(error) => StoreError::from(error).to_string(),
                    error => error.to_string(),
                };
                Failure::Unavailable(format!("no connection: {why}"))
            };
            let client = pool.get().await.map_err(no_connection)?;
            Ok(commit::within(READ_TIMEOUT, read(client)).await?)
        })
    }
}

fn pool(target: &Target, readers: usize) -> Result<Pool, PostgresError> {
    let (connect, check, check_again) = target.for_pool(READING);
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_connect(tokio_postgres::Config::new(), connect, recycling);
    Pool::builder(manager)
        .post_create(check)
        .pre_recycle(check_again)
        .max_size(readers.max(1))
        .runtime(deadpool_postgres::Runtime::Tokio1)
        .wait_timeout(Some(READ_WAIT))
        .create_timeout(Some(READ_WAIT))
        .recycle_timeout(Some(READ_WAIT))
        .build()
        .map_err(|error| PostgresError::Unreachable(error.to_string()))
}

impl Truth for PostgresTruth {
    fn commit(&self, batch: Vec<Request>) -> Answer<'_, Vec<Result<Committed, Failure>>> {
        #[cfg(feature = "conformance")]
        if self.gullible
            && let Some(beliefs) = batch.iter().map(belief::anything).collect()
        {
            return self.commit_believing(batch, beliefs);
        }
        Box::pin(self.lanes.commit(batch))
    }

    fn commit_believing(
        &self,
        batch: Vec<Request>,
        beliefs: Vec<Belief>,
    ) -> Answer<'_, Vec<Result<Committed, Failure>>> {
        Box::pin(self.lanes.commit_believing(batch, beliefs))
    }

    fn beliefs(&self) -> Beliefs {
        self.lanes.beliefs()
    }

    fn lanes(&self) -> usize {
        self.lane_count
    }

    fn set_degraded(&self, degraded: bool) {
        self.lanes.set_degraded(degraded);
    }

    fn history(&self) -> u64 {
        self.target.timeline().into()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn tell(&self, streams: Vec<Stream>) -> Answer<'_, ReadResult<()>> {
        self.read(move |client| queries::notify(client, listen::payloads(&streams)))
    }

    fn listen(&self) -> mpsc::Receiver<Heard> {
        listen::listen(self.target.clone())
    }

    fn heads(&self, events: Vec<EventId>) -> Answer<'_, ReadResult<Vec<(EventId, u64)>>> {
        self.read(move |client| queries::heads(client, events))
    }

    fn seat_states(
        &self,
        event: EventId,
        seats: Vec<SeatId>,
    ) -> Answer<'_, ReadResult<Vec<Option<SeatState>>>> {
        self.read(move |client| queries::seat_states(client, event, seats))
    }

    fn shape(&self, event: EventId) -> Answer<'_, ReadResult<Option<EventShape>>> {
        self.read(move |client| queries::shape(client, event))
    }

    fn durability(&self) -> Answer<'_, ReadResult<Durability>> {
        self.read(queries::durability)
    }

    fn org(&self, id: OrgId) -> Answer<'_, ReadResult<Option<Org>>> {
        self.read(move |client| queries::org(client, id))
    }

    fn orgs(&self, after: Option<OrgId>, limit: usize) -> Answer<'_, ReadResult<Vec<Org>>> {
        self.read(move |client| queries::orgs(client, after, limit))
    }

    fn api_key(&self, id: KeyId) -> Answer<'_, ReadResult<Option<ApiKey>>> {
        Self::read_on(&self.keys, move |client| queries::api_key(client, id))
    }

    fn api_keys(
        &self,
        org: OrgId,
        after: Option<KeyId>,
        limit: usize,
    ) -> Answer<'_, ReadResult<Vec<ApiKey>>> {
        self.read(move |client| queries::api_keys(client, org, after, limit))
    }

    fn events(&self, org: OrgId, after: Option<EventId>, limit: usize) -> Answer<'_, ReadResult<EventPage>> {
        self.read(move |client| queries::events(client, org, after, limit))
    }

    fn event(&self, id: EventId) -> Answer<'_, ReadResult<Option<EventSnapshot>>> {
        self.read(move |client| queries::event_snapshot(client, id))
    }

    fn hold(&self, id: HoldId) -> Answer<'_, ReadResult<Option<Hold>>> {
        self.read(move |client| queries::hold(client, id))
    }

    fn booking(&self, id: BookingId) -> Answer<'_, ReadResult<Option<Booking>>> {
        self.read(move |client| queries::booking(client, id))
    }

    fn holds_of_user(
        &self,
        org: OrgId,
        user: UserId,
        after: Option<HoldId>,
        limit: usize,
    ) -> Answer<'_, ReadResult<Vec<Hold>>> {
        self.read(move |client| queries::holds_of_user(client, org, user, after, limit))
    }

    fn journal(&self, stream: Stream, after: u64, limit: usize) -> Answer<'_, ReadResult<Vec<JournalRow>>> {
        self.read(move |client| queries::journal(client, stream, after, limit))
    }

    fn active_holds(&self) -> Answer<'_, ReadResult<Vec<ActiveHold>>> {
        self.read(queries::active_holds)
    }

    fn due_holds(&self, limit: usize) -> Answer<'_, ReadResult<Vec<ActiveHold>>> {
        Box::pin(async move {
            // They are due by a clock that may have jumped since this node heard of it last.
            self.ping().await?;
            self.read(move |client| queries::due_holds(client, limit)).await
        })
    }

    fn sweep_records(&self, limit: usize) -> Answer<'_, ReadResult<usize>> {
        Box::pin(async move { Ok(self.lanes.sweep_records(limit).await?) })
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn ping(&self) -> Answer<'_, ReadResult<()>> {
        Box::pin(async move {
            let sent = Instant::now();
            let time = self.read(queries::now).await?;
            self.clock.heard(Reading { time, sent, received: Instant::now() });
            Ok(())
        })
    }

    fn verify(&self, progress: Progress) -> Answer<'_, ReadResult<Report>> {
        Box::pin(async move {
            let mut client = self.target.connect(UNLIMITED).await?;
            verify::verify(&mut client, progress).await
        })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.lanes.close();
            self.readers.close();
            self.keys.close();
        })
    }
}
