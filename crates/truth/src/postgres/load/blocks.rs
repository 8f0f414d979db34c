//! Seats of a block, for commands that take any of them.
//!
//! Nobody waits for the seats that somebody else is choosing from: they are skipped. Only when a block seems to have too
//! few left are those waited for that have some of it locked, because they may not take all of them.

use std::collections::BTreeSet;

use rowlock_core::decide::Executed;
use rowlock_core::slice::Slice;
use rowlock_core::{BlockId, EventId, HoldId, Refusal, Request};
use rustc_hash::FxHashSet;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{Loaded, Plan, StoreError, Stored, codec, seat_id, sql};
use crate::demand::{self, Wanted};
use crate::postgres::session::Session;

/// The blocks of a batch that are of its own organizations. Seats of others must not be locked for who only names them.
fn wanted(session: &Session, batch: &[Request]) -> Vec<Wanted> {
    let is_own = |request: &&Request| {
        let event = request.command.event().and_then(|event| session.events.get(event));
        event.is_some_and(|(_, row)| row.event.org == request.org)
    };
    demand::blocks(batch.iter().filter(is_own))
}

/// Blocks as columns.
pub(super) struct Columns {
    pub blocks: Vec<Uuid>,
    pub events: Vec<i64>,
    pub seats: Vec<i64>,
}

impl Columns {
    pub fn of(session: &Session, batch: &[Request]) -> Self {
        Self::new(session, &wanted(session, batch))
    }

    fn new(session: &Session, wanted: &[Wanted]) -> Self {
        let mut columns = Self { blocks: Vec::new(), events: Vec::new(), seats: Vec::new() };
        for wanted in wanted {
            if let Some(key) = session.events.key(wanted.event) {
                columns.blocks.push(wanted.block.uuid());
                columns.events.push(key);
                columns.seats.push(i64::from(wanted.seats));
            }
        }
        columns
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

/// Plans to wait for the seats that are free as far as can be seen without a lock.
pub(super) async fn plan(session: &Session, batch: &[Request], plan: &mut Plan) -> Stored<()> {
    for row in free(session, &wanted(session, batch)).await? {
        plan.seats.insert(row.try_get(0)?);
    }
    Ok(())
}

async fn free(session: &Session, wanted: &[Wanted]) -> Stored<Vec<Row>> {
    let columns = Columns::new(session, wanted);
    let Columns { blocks, events, seats } = &columns;
    session.query_if(!columns.is_empty(), sql::FREE_SEATS, [blocks, events, seats]).await
}

/// The blocks that exist, and the seats of them that were locked. The rows are those of [`sql::CHOOSE_SEATS`].
pub(super) fn load(session: &Session, slice: &mut Slice, rows: &[Row]) -> Stored<()> {
    for row in rows {
        let block = BlockId::from_uuid(codec::uuid(row, codec::AFTER_SEAT)?);
        let event = session.events.by_key(row.try_get(codec::AFTER_SEAT + 1)?);
        let event = event.ok_or(StoreError::Corrupt("the event of a block"))?.event.id;
        slice.load_block(event, block);
        if let Some(key) = row.try_get::<_, Option<i64>>(0)? {
            let id = seat_id(session, key)?;
            if !slice.has_seat(id) {
                let (seat, version) = codec::seat(row)?;
                slice.load_seat(id, seat, version);
            }
        }
    }
    Ok(())
}

/// Where the seats are that the batch may take or has in its carts. After all rows are loaded: whether a seat can be had
/// is seen from its row.
pub(super) async fn load_spots(session: &Session, loaded: &mut Loaded, batch: &[Request]) -> Stored<()> {
    let wanted = wanted(session, batch);
    if wanted.is_empty() {
        return Ok(());
    }
    let events: BTreeSet<EventId> = wanted.iter().map(|wanted| wanted.event).collect();
    let mut keys: Vec<i64> = Vec::new();
    for event in events {
        let Some(key) = session.events.key(event) else { continue };
        let seats = demand::seats_to_place(&loaded.slice, batch, event);
        keys.extend(seats.into_iter().filter_map(|seat| codec::seat_key(key, seat.raw_ordinal())));
    }
    // A hold past its time can't end when somebody has one of its seats locked.
    let bound: FxHashSet<HoldId> = loaded
        .slice
        .holds()
        .filter(|hold| hold.is_due(loaded.now) && hold.seat_ids().any(|seat| loaded.skipped.contains(&seat)))
        .map(|hold| hold.id)
        .collect();
    let blocks: Vec<Uuid> = wanted.iter().map(|wanted| wanted.block.uuid()).collect();
    for row in session.query_if(!keys.is_empty(), sql::SPOTS, [&keys, &blocks]).await? {
        let seat = seat_id(session, row.try_get(0)?)?;
        let holder = loaded.slice.seat(seat).and_then(|seat| seat.state.hold());
        if holder.is_some_and(|hold| bound.contains(&hold)) {
            continue;
        }
        let block = BlockId::from_uuid(codec::uuid(&row, 1)?);
        loaded.slice.load_spot(seat, block, codec::text(&row, 2)?, codec::number(&row, 3)?, loaded.now);
    }
    Ok(())
}

/// Takes back the answer «full» where it is not sure: when the block has a free seat that was not loaded, somebody else
/// has it locked and may let go of it.
pub(in crate::postgres) async fn doubt(
    session: &Session,
    slice: &Slice,
    batch: &[Request],
    executed: &mut [Option<Result<Executed, Refusal>>],
) -> Stored<()> {
    let full = |answer: &Option<Result<Executed, Refusal>>| match answer {
        Some(Err(Refusal::BlockFull { block, .. })) => Some(*block),
        _ => None,
    };
    let refused: FxHashSet<BlockId> = executed.iter().filter_map(full).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let mut wanted = wanted(session, batch);
    wanted.retain(|wanted| refused.contains(&wanted.block));
    // One more than there are in the slice: if they are all in it, there are no others.
    let loaded = u32::try_from(slice.seats().count()).unwrap_or(u32::MAX);
    wanted.iter_mut().for_each(|wanted| wanted.seats = loaded.saturating_add(1));
    let mut others: FxHashSet<BlockId> = FxHashSet::default();
    for row in free(session, &wanted).await? {
        if !slice.has_seat(seat_id(session, row.try_get(0)?)?) {
            others.insert(BlockId::from_uuid(codec::uuid(&row, 1)?));
        }
    }
    for answer in executed {
        if full(answer).is_some_and(|block| others.contains(&block)) {
            *answer = None;
        }
    }
    Ok(())
}
