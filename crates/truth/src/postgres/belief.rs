//! Committing holds without reading first.
//!
//! Whoever sends a batch often knows what reading would bring: the seats are free, the cart is new, the user has nothing
//! yet. Then the batch is decided on that, and all of it is sent at once: one round trip instead of two, and no locks
//! that are taken before the writes. Nothing is granted by belief. Every statement compares what was believed and ends the
//! transaction where it is not so; then the batch is read, locked and decided like any other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use futures::try_join;
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
use super::session::Session;
use super::sql;
use super::store::{self, Appending, COMMIT};
use crate::Belief;

/// How far what is taken for the time may be from Postgres' clock. A node that has stood still is further away.
const CLOCK_TOLERANCE_MILLIS: i64 = 250;
/// Somebody who keeps a row locked is met by those who read first, and who know what to do about it.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '250ms'";

/// Commits a batch of holds on what is believed of them. `None`: it can't be done that way, and nothing was done.
pub(super) async fn attempt(
    session: &mut Session,
    batch: &[Request],
    beliefs: &[Belief],
    clock: &DatabaseClock,
    safeguards: Safeguards,
) -> Result<Option<Attempted>, Failed> {
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
    let began = OnceLock::new();
    let written = believed.write(session, &appending, take_seats, &began);
    match within(WRITE_TIMEOUT, written).await {
        Ok((sequences, heard)) => {
            appending.note(session, &sequences);
            Ok(Some(Attempted { answers: commit::answers(executed, sequences), heard }))
        }
        Err(why) if why.is_disconnect() => {
            let number = began.into_inner().map(Transaction::Number);
            let transaction = number.unwrap_or_else(|| Transaction::Backend(session.backend.clone()));
            Err(commit::unknown(session, transaction, appending, executed, why))
        }
        Err(error) => Err(commit::leave(session, error.into()).await),
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

    /// Compares, writes and commits. Returns the sequence of each fact and what Postgres' clock said. `began` gets
    /// the number of the transaction as soon as it is known.
    async fn write(
        &self,
        session: &Session,
        appending: &Appending,
        take_seats: &'static str,
        began: &OnceLock<String>,
    ) -> Stored<(Vec<u64>, Reading)> {
        let now = self.loaded.now;
        let seats = Seats::new(&self.loaded, &session.events)?;
        let holds = Holds::new(&self.loaded, &session.events, true)?;
        let records = Records::new(&self.loaded.slice)?;
        let locked: Vec<String> = self.users.iter().map(|(event, user)| format!("{event}:{user}")).collect();
        let users: (Vec<i64>, Vec<&str>) =
            self.users.iter().map(|(event, user)| (*event, user.as_str())).unzip();
        let (at, sent) = (now.millis(), Instant::now());
        let clock = async {
            let rows = session.query(sql::BELIEVED_CLOCK, [&at, &CLOCK_TOLERANCE_MILLIS]).await?;
            let row = rows.first().ok_or(StoreError::Corrupt("the clock"))?;
            let _ = began.set(codec::text(row, 1)?.to_owned());
            Ok(Reading { time: codec::time(row, 0)?, sent, received: Instant::now() })
        };
        let (_, heard, _, _, _, _, _, _, before, ()) = try_join!(
            session.simple(BEGIN),
            clock,
            session.query_if(!locked.is_empty(), sql::LOCK_USERS, [&locked]),
            session.query_if(!locked.is_empty(), sql::UNUSED, [&users.0, &users.1]),
            session.query(take_seats, [&seats.keys, &seats.tiers, &seats.until, &seats.holds]),
            store::insert_holds(session, &holds),
            store::insert_records(session, &records, now),
            session.query_if(appending.streams.len() > 1, sql::LOCK_STREAMS, [&appending.streams]),
            store::append(session, appending, now),
            session.simple(COMMIT),
        )?;
        Ok((appending.sequences(&before)?, heard))
    }
}
