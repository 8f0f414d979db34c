//! Committing holds without reading first.
//!
//! Whoever sends a batch often knows what reading would bring: the seats are free, the cart is new, the user has nothing
//! yet. Then the batch is decided on that, and all of it is sent at once: one round trip instead of two, and no locks
//! that are taken before the writes. Nothing is granted by belief. Every statement compares what was believed and ends the
//! transaction where it is not so; then the batch is read, locked and decided like any other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Instant;

use futures::{poll, try_join};
use rowlock_core::decide::Executed;
use rowlock_core::seat::{Seat, SeatState};
use rowlock_core::{Command, EventId, Refusal, Request, Slice, Time, UserId, execute};
use rustc_hash::{FxHashMap, FxHashSet};

use super::clock::{DatabaseClock, Reading};
use super::codec;
use super::commit::{self, Attempted, Failed, LOAD_TIMEOUT, Safeguards, Transaction, WRITE_TIMEOUT, within};
use super::fault::{StoreError, Stored};
use super::load::{self, Loaded};
use super::rows::{Holds, Records, Seats};
use super::session::{Session, UnderWay, Wire};
use super::sql;
use super::store::{self, Appending};
use crate::Belief;

/// How far what is taken for the time may be from Postgres' clock. A node that has stood still is further away.
const CLOCK_TOLERANCE_MILLIS: i64 = 250;
/// Somebody who keeps a row locked is met by those who read first, and who know what to do about it. The statement timeout
/// must not end the wait for a standby: then COMMIT would succeed without it.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '250ms'; SET LOCAL statement_timeout = 0";
/// Ends the transaction also where a statement before it has failed, so that whatever is sent behind it begins anew.
const COMMIT: &str = "COMMIT";

/// Sends a batch of holds to be committed on what is believed of them. `None`: it can't be done that way, and nothing was sent.
pub(super) async fn send(
    session: &mut Session,
    batch: &[Request],
    beliefs: &[Belief],
    clock: &DatabaseClock,
    safeguards: Safeguards,
) -> Result<Option<Sent>, Failed> {
    let events: Vec<EventId> = batch.iter().filter_map(|request| request.command.event()).collect();
    let take_seats = if safeguards.compare { sql::TAKE_SEATS } else { sql::TAKE_SEATS_WHATEVER };
    within(LOAD_TIMEOUT, load::know_events(session, &events)).await?;
    within(LOAD_TIMEOUT, prepare(session, take_seats)).await?;
    // Behind all that may take a while: what is written must not be older than it has to be. Nor older than its request:
    // the clock must be known well.
    if !clock.is_sure() {
        return Ok(None);
    }
    let now = clock.now();
    let Some(mut believed) = Believed::new(session, batch, beliefs, now) else { return Ok(None) };
    let Some(executed) = believed.decide(session, batch) else { return Ok(None) };
    let facts = commit::facts(batch, &executed);
    if executed.iter().flatten().any(Result::is_err) || facts.is_empty() {
        // Whom to refuse is not for belief to say: who is refused writes nothing, so nothing of theirs is compared, not even
        // whether their key was used.
        return Ok(None);
    }
    let appending = Appending::new(&facts, now, &mut session.ids)?;
    if !safeguards.pause.is_zero() {
        tokio::time::sleep(safeguards.pause).await;
    }
    let rows = believed.rows(session)?;
    let (appending, began) = (Arc::new(appending), Arc::new(OnceLock::new()));
    let wire = Arc::clone(&session.wire);
    let under_way = wire.begin();
    let mut written: Pin<Box<dyn Future<Output = Written> + Send>> =
        Box::pin(write(Arc::clone(&wire), rows, Arc::clone(&appending), now, take_seats, Arc::clone(&began)));
    // Polled once, all of it is on its way, COMMIT included. Unless it fails at once: then nobody knows how much.
    match poll!(&mut written) {
        Poll::Pending => {}
        Poll::Ready(Ok(done)) => written = Box::pin(async { Ok(done) }),
        Poll::Ready(Err(error)) => return Err(commit::leave(session, error.into()).await),
    }
    session.sold = events.first().copied();
    Ok(Some(Sent { written, executed, appending, began, wire, _under_way: under_way }))
}

type Written = Stored<(Vec<u64>, Reading)>;

/// A batch that was sent as a whole, and whose answer was not waited for.
pub(super) struct Sent {
    written: Pin<Box<dyn Future<Output = Written> + Send>>,
    executed: Vec<Option<Result<Executed, Refusal>>>,
    appending: Arc<Appending>,
    began: Arc<OnceLock<String>>,
    pub wire: Arc<Wire>,
    _under_way: UnderWay,
}

impl Sent {
    /// What came of it.
    pub async fn answered(self) -> Result<Attempted, Failed> {
        let Self { written, executed, appending, began, wire, .. } = self;
        let written = within(WRITE_TIMEOUT, written).await;
        match written.and_then(|written| wire.is_of_now().map(|()| written)) {
            Ok((sequences, heard)) => {
                appending.note(&wire, &sequences);
                Ok(Attempted { answers: commit::answers(executed, sequences), heard })
            }
            Err(why) if why.is_disconnect() => {
                // Whatever comes behind it may wait for ever.
                wire.give_up();
                let number = began.get().cloned().map(Transaction::Number);
                let transaction = number.unwrap_or_else(|| Transaction::Backend(wire.backend.clone()));
                Err(commit::unknown(&wire, transaction, &appending, executed, why))
            }
            Err(error) => Err(error.into()),
        }
    }
}

async fn prepare(session: &mut Session, take_seats: &'static str) -> Stored<()> {
    session
        .prepare(&[
            sql::BELIEVED_CLOCK,
            sql::LOCK_USERS,
            sql::UNUSED,
            take_seats,
            sql::NEW_HOLDS,
            sql::NEW_RECORDS,
            sql::LOCK_STREAMS,
            sql::APPEND,
        ])
        .await
}

/// What whoever knows nothing would believe. For the test that shows that it does not matter what is believed.
#[cfg(feature = "conformance")]
pub(super) fn anything(request: &Request) -> Option<Belief> {
    let Command::Hold(places) = &request.command else { return None };
    let only_seats = !places.seats.is_empty() && places.blocks.is_empty() && places.areas.is_empty();
    only_seats.then(|| Belief { tiers: vec![0; places.seats.len()] })
}

/// The slice as it is believed to be.
struct Believed {
    loaded: Loaded,
    /// Who must have no places yet, in events that limit them.
    users: FxHashSet<(i64, UserId)>,
}

impl Believed {
    fn new(session: &Session, batch: &[Request], beliefs: &[Belief], now: Time) -> Option<Self> {
        let mut slice = Slice::default();
        let mut users = FxHashSet::default();
        for (request, belief) in batch.iter().zip(beliefs) {
            let Command::Hold(places) = &request.command else { return None };
            let (key, row) = session.events.get(places.event)?;
            if slice.event_row(places.event).is_none() {
                slice.load_event(Arc::clone(row));
            }
            for (seat, tier) in places.seats.iter().zip(&belief.tiers) {
                if !slice.has_seat(*seat) {
                    // Nobody looks at the version: these seats are compared by what they are.
                    slice.load_seat(*seat, Seat { state: SeatState::Available, tier: *tier }, 0);
                }
            }
            if row.event.policy.seats_per_user.is_some() && users.insert((key, places.user.clone())) {
                slice.load_usage(places.event, places.user.clone(), 0);
            }
        }
        let loaded = Loaded {
            slice,
            now,
            heard: Reading { time: now, sent: Instant::now(), received: Instant::now() },
            replicated: false,
            transaction: String::new(),
            skipped: FxHashSet::default(),
            blocks: FxHashMap::default(),
        };
        Some(Self { loaded, users })
    }

    /// `None`: a rule of the kernel was broken. Whoever reads first finds out by which command.
    fn decide(
        &mut self,
        session: &mut Session,
        batch: &[Request],
    ) -> Option<Vec<Option<Result<Executed, Refusal>>>> {
        let Loaded { slice, now, .. } = &mut self.loaded;
        let mut decide = |request| Some(execute(slice, request, *now, &mut session.ids));
        catch_unwind(AssertUnwindSafe(|| batch.iter().map(&mut decide).collect())).ok()
    }

    /// What is to be written.
    fn rows(&self, session: &Session) -> Stored<Rows> {
        Ok(Rows {
            seats: Seats::new(&self.loaded, &session.events)?,
            holds: Holds::new(&self.loaded, &session.events, true)?,
            records: Records::new(&self.loaded.slice)?,
            locked: self.users.iter().map(|(event, user)| format!("{event}:{user}")).collect(),
            users: self.users.iter().map(|(event, user)| (*event, user.to_string())).unzip(),
        })
    }
}

struct Rows {
    seats: Seats,
    holds: Holds,
    records: Records,
    locked: Vec<String>,
    users: (Vec<i64>, Vec<String>),
}

/// Compares, writes and commits. Returns the sequence of each fact and what Postgres' clock said. `began` gets the number
/// of the transaction as soon as it is known.
async fn write(
    wire: Arc<Wire>,
    rows: Rows,
    appending: Arc<Appending>,
    now: Time,
    take_seats: &'static str,
    began: Arc<OnceLock<String>>,
) -> Written {
    let Rows { seats, holds, records, locked, users } = &rows;
    let (at, sent) = (now.millis(), Instant::now());
    let clock = async {
        let rows = wire.query(sql::BELIEVED_CLOCK, [&at, &CLOCK_TOLERANCE_MILLIS]).await?;
        let row = rows.first().ok_or(StoreError::Corrupt("the clock"))?;
        let _ = began.set(codec::text(row, 1)?.to_owned());
        Ok(Reading { time: codec::time(row, 0)?, sent, received: Instant::now() })
    };
    let (_, heard, _, _, _, _, _, _, before, ()) = try_join!(
        wire.simple(BEGIN),
        clock,
        wire.query_if(!locked.is_empty(), sql::LOCK_USERS, [locked]),
        wire.query_if(!locked.is_empty(), sql::UNUSED, [&users.0, &users.1]),
        wire.query(take_seats, [&seats.keys, &seats.tiers, &seats.until, &seats.holds]),
        store::insert_holds(&wire, holds),
        store::insert_records(&wire, records, now),
        wire.query_if(appending.streams.len() > 1, sql::LOCK_STREAMS, [&appending.streams]),
        store::append(&wire, &appending, now),
        wire.simple(COMMIT),
    )?;
    Ok((appending.sequences(&before)?, heard))
}
