//! The reads. Each takes a connection of its own from the pool, never one that writes.

use deadpool_postgres::Transaction;
use rowlock_core::booking::Booking;
use rowlock_core::event::Block;
use rowlock_core::hold::Hold;
use rowlock_core::org::{ApiKey, Org};
use rowlock_core::seat::{SeatPlace, SeatState};
use rowlock_core::slice::EventRow;
use rowlock_core::text::Row as SeatRow;
use rowlock_core::{
    AreaId, BlockId, BookingId, EventId, HoldId, JournalId, KeyId, OrgId, SeatId, Stream, Time, UserId,
};
use rustc_hash::FxHashMap;
use tokio_postgres::{IsolationLevel, Row};
use uuid::Uuid;

use super::codec::{self, AFTER_BOOKING, AFTER_EVENT, AFTER_HOLD, AFTER_SEAT};
use super::fault::{StoreError, Stored};
use super::listen::CHANNEL;
use super::session::Param;
use super::sql::{area_columns, booking_columns, event_columns, hold_columns, seat_columns};
use crate::Durability;
use crate::read::{ActiveHold, EventPage, EventShape, EventSnapshot, EventSummary, JournalRow, SeatSnapshot};

type Pooled = deadpool_postgres::Client;

async fn all<T>(
    client: &Pooled,
    sql: &'static str,
    params: &[Param<'_>],
    read: impl Fn(&Row) -> Stored<T>,
) -> Stored<Vec<T>> {
    let statement = client.prepare_cached(sql).await?;
    client.query(&statement, params).await?.iter().map(read).collect()
}

async fn all_in<T>(
    transaction: &Transaction<'_>,
    sql: &'static str,
    params: &[Param<'_>],
    read: impl Fn(&Row) -> Stored<T>,
) -> Stored<Vec<T>> {
    let statement = transaction.prepare_cached(sql).await?;
    transaction.query(&statement, params).await?.iter().map(read).collect()
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) async fn org(client: Pooled, id: OrgId) -> Stored<Option<Org>> {
    let sql = "SELECT id, name, created_at FROM organizations WHERE id = $1";
    Ok(all(&client, sql, &[&id.uuid()], codec::org).await?.pop())
}

pub(super) async fn orgs(client: Pooled, after: Option<OrgId>, limit: usize) -> Stored<Vec<Org>> {
    let sql = "SELECT id, name, created_at FROM organizations WHERE id > $1 ORDER BY id LIMIT $2";
    let after = after.map_or(Uuid::nil(), OrgId::uuid);
    all(&client, sql, &[&after, &count(limit)], codec::org).await
}

pub(super) async fn api_key(client: Pooled, id: KeyId) -> Stored<Option<ApiKey>> {
    let sql =
        "SELECT id, org_id, name, scopes, secret_hash, created_at, revoked_at FROM api_keys WHERE id = $1";
    Ok(all(&client, sql, &[&id.uuid()], codec::api_key).await?.pop())
}

pub(super) async fn api_keys(
    client: Pooled,
    org: OrgId,
    after: Option<KeyId>,
    limit: usize,
) -> Stored<Vec<ApiKey>> {
    let sql = "SELECT id, org_id, name, scopes, secret_hash, created_at, revoked_at FROM api_keys
               WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3";
    let after = after.map_or(Uuid::nil(), KeyId::uuid);
    all(&client, sql, &[&org.uuid(), &after, &count(limit)], codec::api_key).await
}

pub(super) async fn events(
    client: Pooled,
    org: OrgId,
    after: Option<EventId>,
    limit: usize,
) -> Stored<EventPage> {
    let sql = concat!(
        "SELECT ",
        event_columns!(),
        ", (SELECT count(*) FROM areas a WHERE a.event_key = e.key)
         FROM events e WHERE e.org_id = $1 AND e.id > $2 ORDER BY e.id LIMIT $3"
    );
    let after = after.map_or(Uuid::nil(), EventId::uuid);
    let events = all(&client, sql, &[&org.uuid(), &after, &count(limit)], |row| {
        let (event, _, seat_count) = codec::event(row)?;
        Ok(EventSummary { event, seat_count, area_count: codec::number(row, AFTER_EVENT)? })
    })
    .await?;
    Ok(EventPage { events })
}

/// Everything of an event as of one moment: all the reads see the same commits.
pub(super) async fn event_snapshot(mut client: Pooled, id: EventId) -> Stored<Option<EventSnapshot>> {
    let transaction = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let sql = concat!("SELECT ", event_columns!(), " FROM events e WHERE e.id = $1");
    let Some((event, key, seat_count)) = all_in(&transaction, sql, &[&id.uuid()], codec::event).await?.pop()
    else {
        return Ok(None);
    };
    let sql = "SELECT id, name FROM blocks WHERE event_key = $1 ORDER BY position";
    let blocks = all_in(&transaction, sql, &[&key], |row| {
        Ok(Block { id: BlockId::from_uuid(codec::uuid(row, 0)?), event: id, name: codec::name(row, 1)? })
    })
    .await?;
    let sql = concat!("SELECT ", area_columns!(), " FROM areas WHERE event_key = $1 ORDER BY position");
    let areas = all_in(&transaction, sql, &[&key], |row| Ok(codec::area(row, id)?.0)).await?;
    let sql = "SELECT seq FROM streams WHERE id = $1";
    let sequence = all_in(&transaction, sql, &[&id.uuid()], |row| codec::number(row, 0)).await?.pop();
    // Brought together here and not by Postgres: while it has no statistics it would compare each seat with each hold.
    let sql = "SELECT h.id, h.user_id FROM holds h WHERE h.event_key = $1 AND h.status = 0";
    let holder = |row: &Row| Ok((HoldId::from_uuid(codec::uuid(row, 0)?), codec::user(row, 1)?));
    let holders: FxHashMap<HoldId, UserId> =
        all_in(&transaction, sql, &[&key], holder).await?.into_iter().collect();
    let sql = concat!(
        "SELECT ",
        seat_columns!(),
        ", s.block, s.\"row\", s.number, s.x, s.y
         FROM seats s WHERE s.key >= $1 AND s.key < $2 ORDER BY s.key"
    );
    let (from, to) = codec::seat_keys(key);
    let rows = transaction.query(sql, &[&from, &to]).await?;
    let mut seats: Vec<SeatSnapshot> = Vec::with_capacity(rows.len());
    for row in &rows {
        let block: usize = codec::small(row, AFTER_SEAT)?;
        let block = blocks.get(block).ok_or(StoreError::Corrupt("a block"))?.id;
        let name = codec::text(row, AFTER_SEAT + 1)?;
        // Neighbours share a row: one allocation serves all of them.
        let seat_row = match seats.last() {
            Some(last) if last.place.row.as_str() == name => last.place.row.clone(),
            _ => SeatRow::new(name).map_err(|_| StoreError::Corrupt("a row"))?,
        };
        let (value, _) = codec::seat(row)?;
        let place = SeatPlace {
            block,
            row: seat_row,
            number: codec::number(row, AFTER_SEAT + 2)?,
            tier: value.tier,
            x: row.try_get(AFTER_SEAT + 3)?,
            y: row.try_get(AFTER_SEAT + 4)?,
        };
        let user = value.state.hold().and_then(|hold| holders.get(&hold).cloned());
        seats.push(SeatSnapshot { place, state: value.state, user });
    }
    transaction.commit().await?;
    let names = areas.iter().map(|area| (area.id, area.name.clone())).collect::<Vec<(AreaId, _)>>();
    let row = EventRow { event, seat_count, blocks, areas: names };
    Ok(Some(EventSnapshot { row, areas, seats, sequence: sequence.unwrap_or(0) }))
}

pub(super) async fn seat_states(
    client: Pooled,
    event: EventId,
    seats: Vec<SeatId>,
) -> Stored<Vec<Option<SeatState>>> {
    let sql = "SELECT key FROM events WHERE id = $1";
    let keys = all(&client, sql, &[&event.uuid()], |row| Ok(row.try_get(0)?)).await?;
    let Some(key): Option<i64> = keys.first().copied() else { return Ok(vec![None; seats.len()]) };
    let row_key = |seat: &SeatId| codec::seat_key(key, seat.ordinal_in(event)?);
    let keys: Vec<i64> = seats.iter().filter_map(row_key).collect();
    let sql = concat!("SELECT ", seat_columns!(), " FROM seats s WHERE s.key = ANY($1::bigint[])");
    let read = |row: &Row| Ok((row.try_get::<_, i64>(0)?, codec::seat(row)?.0.state));
    let found: FxHashMap<i64, SeatState> = all(&client, sql, &[&keys], read).await?.into_iter().collect();
    Ok(seats.iter().map(|seat| row_key(seat).and_then(|key| found.get(&key).copied())).collect())
}

pub(super) async fn shape(client: Pooled, event: EventId) -> Stored<Option<EventShape>> {
    let sql = "SELECT e.org_id, e.seat_count, (SELECT count(*) FROM blocks b WHERE b.event_key = e.key),
                   (SELECT count(*) FROM areas a WHERE a.event_key = e.key) FROM events e WHERE e.id = $1";
    let shape = all(&client, sql, &[&event.uuid()], |row| {
        Ok(EventShape {
            org: OrgId::from_uuid(codec::uuid(row, 0)?),
            seats: codec::small(row, 1)?,
            blocks: codec::number(row, 2)?,
            areas: codec::number(row, 3)?,
        })
    })
    .await?;
    Ok(shape.first().copied())
}

fn hold_row(row: &Row) -> Stored<Hold> {
    Ok(codec::hold(row, &codec::event_at(row, AFTER_HOLD)?)?.0)
}

pub(super) async fn hold(client: Pooled, id: HoldId) -> Stored<Option<Hold>> {
    let sql = concat!(
        "SELECT ",
        hold_columns!(),
        ", ",
        event_columns!(),
        " FROM holds h JOIN events e ON e.key = h.event_key WHERE h.id = $1"
    );
    Ok(all(&client, sql, &[&id.uuid()], hold_row).await?.pop())
}

/// The active holds of a user, by id.
pub(super) async fn holds_of_user(
    client: Pooled,
    org: OrgId,
    user: UserId,
    after: Option<HoldId>,
    limit: usize,
) -> Stored<Vec<Hold>> {
    let sql = concat!(
        "SELECT ",
        hold_columns!(),
        ", ",
        event_columns!(),
        " FROM events e JOIN holds h ON h.event_key = e.key AND h.user_id = $1 AND h.status = 0
         WHERE e.org_id = $2 AND h.id > $3 ORDER BY h.id LIMIT $4"
    );
    let after = after.map_or(Uuid::nil(), HoldId::uuid);
    all(&client, sql, &[&user.as_str(), &org.uuid(), &after, &count(limit)], hold_row).await
}

pub(super) async fn booking(client: Pooled, id: BookingId) -> Stored<Option<Booking>> {
    let sql = concat!(
        "SELECT ",
        booking_columns!(),
        ", ",
        event_columns!(),
        " FROM bookings b JOIN events e ON e.key = b.event_key WHERE b.id = $1"
    );
    let read = |row: &Row| Ok(codec::booking(row, &codec::event_at(row, AFTER_BOOKING)?)?.0);
    // A booking is written with its tickets and they never change, so two reads agree.
    let Some(mut booking) = all(&client, sql, &[&id.uuid()], read).await?.pop() else { return Ok(None) };
    let ids = vec![id.uuid()];
    booking.tickets = all(&client, super::sql::TICKETS, &[&ids], |row| Ok(codec::ticket(row)?.0)).await?;
    Ok(Some(booking))
}

pub(super) async fn journal(
    client: Pooled,
    stream: Stream,
    after: u64,
    limit: usize,
) -> Stored<Vec<JournalRow>> {
    let sql = "SELECT j.seq, j.id, j.kind, j.at, j.actor, j.request_id, j.data
               FROM journal j WHERE j.stream_key = (SELECT key FROM streams WHERE id = $1) AND j.seq > $2
               ORDER BY j.seq LIMIT $3";
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    all(&client, sql, &[&Uuid::from_bytes(*stream.bytes()), &after, &count(limit)], |row| {
        Ok(JournalRow {
            sequence: codec::number(row, 0)?,
            id: JournalId::from_uuid(codec::uuid(row, 1)?),
            kind: codec::text(row, 2)?.to_owned(),
            at: codec::time(row, 3)?,
            actor: codec::text(row, 4)?.to_owned(),
            request_id: codec::text(row, 5)?.to_owned(),
            data: codec::text(row, 6)?.to_owned(),
        })
    })
    .await
}

fn active_hold(row: &Row) -> Stored<ActiveHold> {
    Ok(ActiveHold { id: HoldId::from_uuid(codec::uuid(row, 0)?), expires_at: codec::time(row, 1)? })
}

pub(super) async fn active_holds(client: Pooled) -> Stored<Vec<ActiveHold>> {
    let sql = "SELECT id, expires_at FROM holds WHERE ended_at IS NULL ORDER BY expires_at";
    all(&client, sql, &[], active_hold).await
}

pub(super) async fn due_holds(client: Pooled, limit: usize) -> Stored<Vec<ActiveHold>> {
    let sql = "SELECT id, expires_at FROM holds WHERE ended_at IS NULL AND expires_at <= rowlock_now()
               ORDER BY expires_at LIMIT $1";
    all(&client, sql, &[&count(limit)], active_hold).await
}

pub(super) async fn now(client: Pooled) -> Stored<Time> {
    let now = all(&client, "SELECT rowlock_now()", &[], |row| codec::time(row, 0)).await?.pop();
    now.ok_or(StoreError::Corrupt("the clock"))
}

pub(super) async fn notify(client: Pooled, payloads: Vec<String>) -> Stored<()> {
    for payload in payloads {
        all(&client, "SELECT pg_notify($1, $2)", &[&CHANNEL, &payload], |_| Ok(())).await?;
    }
    Ok(())
}

pub(super) async fn heads(client: Pooled, events: Vec<EventId>) -> Stored<Vec<(EventId, u64)>> {
    let ids: Vec<Uuid> = events.iter().map(|event| event.uuid()).collect();
    let sql = "SELECT id, seq FROM streams WHERE id = ANY($1::uuid[])";
    all(&client, sql, &[&ids], |row| Ok((EventId::from_uuid(codec::uuid(row, 0)?), codec::number(row, 1)?)))
        .await
}

/// What Postgres itself says of how safe a commit is. Standbys that only some roles may see count as none.
pub(super) async fn durability(client: Pooled) -> Stored<Durability> {
    let sql = "SELECT current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on',
                   current_setting('synchronous_standby_names'),
                   (SELECT count(*) FROM pg_stat_replication),
                   (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))";
    let found = all(&client, sql, &[], |row| {
        let (safe, names): (bool, String) = (row.try_get(0)?, row.try_get(1)?);
        let (standbys, synchronous): (i64, i64) = (row.try_get(2)?, row.try_get(3)?);
        let weak = |why: &str| Durability::Weak { why: why.into() };
        Ok(match (safe, names.is_empty(), standbys) {
            (false, ..) => weak("fsync or full_page_writes is off"),
            (_, true, 0) => Durability::Disk,
            (_, true, _) => weak(
                "the standby is asynchronous: a commit can be lost with the primary (set \
                 synchronous_standby_names)",
            ),
            _ if synchronous < standbys_wanted(&names) => weak(
                "fewer standbys are connected than synchronous_standby_names wants, and commits wait for them; or \
                 this role may not see them (GRANT pg_read_all_stats)",
            ),
            _ => Durability::Standby { standbys: synchronous as u32 },
        })
    });
    found.await?.pop().ok_or(StoreError::Corrupt("the settings"))
}

/// How many standbys a commit waits for: 1, unless the names say `ANY 2 (…)`, `FIRST 2 (…)` or `2 (…)`.
fn standbys_wanted(names: &str) -> i64 {
    let before_list = names.split('(').next().unwrap_or_default();
    before_list.split_whitespace().last().and_then(|word| word.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::standbys_wanted;

    #[test]
    fn the_names_say_how_many_standbys_are_wanted() {
        for (names, wanted) in
            [("a", 1), ("a, b", 1), ("*", 1), ("ANY 2 (a, b, c)", 2), ("first 3(a,b,c)", 3), ("2 (a, b)", 2)]
        {
            assert_eq!(standbys_wanted(names), wanted, "{names}");
        }
    }
}
