//! The statements that run for every batch. Prepared once on each connection, and so are their plans: a statement must have
//! one good way of being carried out, whatever Postgres knows of its tables.
//!
//! That is, it begins with the rows that it is given, and follows an index to each. Where both could come first, the table
//! stands in a `LATERAL` that can't be pulled out of its place (it has a `LIMIT`), or it is compared with
//! `= ANY(ARRAY[…])`, which an index can answer and a sorted whole table can't.

macro_rules! event_columns {
    () => {
        "e.key, e.id, e.org_id, e.name, e.currency, e.tiers, e.policy, e.seat_count, e.created_at"
    };
}
macro_rules! area_columns {
    () => {
        "id, name, tier, capacity, held, sold, version"
    };
}
macro_rules! seat_columns {
    () => {
        "s.key, s.status, s.version, s.held_until, s.hold_id, s.ticket_id, s.tier"
    };
}
macro_rules! hold_columns {
    () => {
        "h.id, h.user_id, h.cart_token, h.status, h.version, h.source, h.seats, h.areas, h.created_at, h.expires_at, \
         h.max_expires_at, h.checkout_at, h.ended_at, h.booking_id, h.event_key"
    };
}
macro_rules! booking_columns {
    () => {
        "b.id, b.hold_id, b.user_id, b.status, b.version, b.source, b.payment_reference, b.created_at, \
         b.cancelled_at, b.event_key"
    };
}
pub(super) use {area_columns, booking_columns, event_columns, hold_columns, seat_columns};

// Reading, without locks.

pub(super) const ORG: &str = "SELECT id, name, created_at FROM organizations WHERE id = $1";
pub(super) const EVENTS: &str =
    concat!("SELECT ", event_columns!(), " FROM events e WHERE e.id = ANY($1::uuid[])");
pub(super) const EVENTS_BY_KEY: &str =
    concat!("SELECT ", event_columns!(), " FROM events e WHERE e.key = ANY($1::bigint[])");
pub(super) const SEAT_COUNT: &str = "SELECT seat_count FROM events WHERE key = $1";
pub(super) const BLOCKS: &str = "SELECT id, name FROM blocks WHERE event_key = $1 ORDER BY position";
pub(super) const AREA_NAMES: &str = "SELECT id, name FROM areas WHERE event_key = $1 ORDER BY position";
pub(super) const HOLDS: &str =
    concat!("SELECT ", hold_columns!(), " FROM holds h WHERE h.id = ANY($1::uuid[])");
pub(super) const BOOKINGS: &str =
    concat!("SELECT ", booking_columns!(), " FROM bookings b WHERE b.id = ANY($1::uuid[])");
pub(super) const TICKETS: &str = "SELECT id, ordinal, area_id, price, booking_id FROM tickets
     WHERE booking_id = ANY($1::uuid[]) ORDER BY booking_id, position";
pub(super) const EXISTING_SEATS: &str = "SELECT key FROM seats WHERE key = ANY($1::bigint[])";
macro_rules! seats_to_be_had {
    ($columns:expr) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM seats s WHERE (s.key >> 24) = b.event_key AND s.block = b.position
                 AND (s.status = 0 OR (s.status = 1 AND s.held_until <= (SELECT rowlock_now())))
             ORDER BY s.status, s.key LIMIT n.most"
        )
    };
}
/// Seats of blocks that can be had, as far as can be seen without a lock. Those that nobody holds come first: to take
/// over from a hold past its time costs more rows.
pub(super) const FREE_SEATS: &str = concat!(
    "SELECT s.key, b.id FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS n(block, event_key, most)
     CROSS JOIN LATERAL (SELECT * FROM blocks WHERE id = n.block AND event_key = n.event_key LIMIT 1) AS b
     CROSS JOIN LATERAL (",
    seats_to_be_had!("s.key"),
    ") s"
);
pub(super) const SPOTS: &str = "SELECT s.key, b.id, s.\"row\", s.number FROM seats s
     JOIN blocks b ON b.event_key = (s.key >> 24) AND b.position = s.block
     WHERE s.key = ANY($1::bigint[]) AND b.id = ANY($2::uuid[])";
pub(super) const TAKEN_PLACE: &str = "SELECT \"row\", number FROM seats
     WHERE (key >> 24) = $1 AND block = $2 AND \"row\" = ANY($3::text[]) AND number BETWEEN $4 AND $5 LIMIT 1";
pub(super) const DUE_HOLDS_OF_AREAS: &str = concat!(
    "SELECT ",
    hold_columns!(),
    " FROM holds h WHERE h.status = 0 AND h.event_key = $1 AND h.areas <> '[]' AND h.expires_at <= $2
      AND position($3 IN h.areas) > 0
      ORDER BY h.expires_at, h.id LIMIT $4"
);
pub(super) const RECORDS: &str = "SELECT r.org_id, r.actor, r.key, r.fingerprint, r.outcome
     FROM unnest($1::uuid[], $2::text[], $3::text[]) AS n(org_id, actor, key)
     CROSS JOIN LATERAL (SELECT * FROM idempotency_records WHERE org_id = n.org_id AND actor = n.actor
                             AND key = n.key AND expires_at > rowlock_now() LIMIT 1) AS r";
macro_rules! usage {
    () => {
        "SELECT n.event_key, n.user_id,
         (SELECT coalesce(sum(b.places), 0) FROM bookings b
          WHERE b.user_id = n.user_id AND b.event_key = n.event_key AND b.status = 0)
       + (SELECT coalesce(sum(h.places), 0) FROM holds h
          WHERE h.event_key = n.event_key AND h.user_id = n.user_id AND h.status = 0 AND h.expires_at > rowlock_now())
     FROM unnest($1::bigint[], $2::text[]) AS n(event_key, user_id)"
    };
}
/// Before the clock is read, so that a hold is counted rather once too often than once too little.
pub(super) const USAGE: &str = usage!();
/// Compares with what was believed: that none of these users has any places.
pub(super) const UNUSED: &str = concat!(
    "SELECT rowlock_expect(coalesce(sum(u.places), 0)::bigint, 0, 'user') FROM (",
    usage!(),
    ") AS u(event_key, user_id, places)"
);
pub(super) const CLOCK: &str =
    "SELECT rowlock_now(), pg_current_xact_id()::text, current_setting('synchronous_standby_names') <> ''";
/// The same, compared with what was believed to be the time.
pub(super) const BELIEVED_CLOCK: &str = "SELECT c.now, pg_current_xact_id()::text,
         rowlock_expect((abs(c.now - $1) <= $2)::int, 1, 'clock') FROM (SELECT rowlock_now() AS now) AS c";

// Locking, each in sorted order.

/// Two requests of one user must not both find room for themselves: the limit is about rows that don't exist yet.
pub(super) const LOCK_USERS: &str = "SELECT pg_advisory_xact_lock(o.k) FROM
     (SELECT DISTINCT hashtextextended(n, 0) AS k FROM unnest($1::text[]) AS n ORDER BY 1) AS o";
pub(super) const LOCK_KEY: &str = "SELECT id, org_id, name, scopes, secret_hash, created_at, revoked_at
     FROM api_keys WHERE id = $1 AND org_id = $2 FOR NO KEY UPDATE";
pub(super) const LOCK_EVENTS: &str =
    "SELECT e.key FROM events e WHERE e.id = ANY($1::uuid[]) ORDER BY e.id FOR NO KEY UPDATE";
pub(super) const LOCK_SEATS: &str = concat!(
    "SELECT ",
    seat_columns!(),
    " FROM seats s WHERE s.key = ANY($1::bigint[]) ORDER BY s.key FOR NO KEY UPDATE"
);
pub(super) const SKIP_SEATS: &str = concat!(
    "SELECT ",
    seat_columns!(),
    " FROM seats s WHERE s.key = ANY($1::bigint[]) ORDER BY s.key FOR NO KEY UPDATE SKIP LOCKED"
);
/// The same seats as [`FREE_SEATS`], locked, without those that somebody else has locked. A block that has none is a row
/// of its own, so that it is known to exist.
pub(super) const CHOOSE_SEATS: &str = concat!(
    "SELECT ",
    seat_columns!(),
    ", b.id, b.event_key FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS n(block, event_key, most)
     CROSS JOIN LATERAL (SELECT * FROM blocks WHERE id = n.block AND event_key = n.event_key LIMIT 1) AS b
     LEFT JOIN LATERAL (",
    seats_to_be_had!(seat_columns!()),
    " FOR NO KEY UPDATE SKIP LOCKED) s ON true"
);
pub(super) const LOCK_AREAS: &str = concat!(
    "SELECT ",
    area_columns!(),
    ", event_key FROM areas WHERE id = ANY($1::uuid[]) AND event_key = ANY($2::bigint[])
      ORDER BY id FOR NO KEY UPDATE"
);
pub(super) const LOCK_HOLDS: &str = concat!(
    "SELECT ",
    hold_columns!(),
    " FROM holds h WHERE h.id = ANY($1::uuid[] || ARRAY(
          SELECT c.id FROM unnest($2::bigint[], $3::text[], $4::text[]) AS n(event_key, user_id, cart_token)
          CROSS JOIN LATERAL (SELECT id FROM holds WHERE event_key = n.event_key AND user_id = n.user_id
                                  AND cart_token = n.cart_token AND status = 0 LIMIT 1) AS c))
      ORDER BY h.id FOR NO KEY UPDATE"
);
pub(super) const LOCK_BOOKINGS: &str =
    "SELECT b.id FROM bookings b WHERE b.id = ANY($1::uuid[]) ORDER BY b.id FOR NO KEY UPDATE";

// Writing. Each statement takes any number of rows as arrays, and ends the transaction when it changed another number.

pub(super) const NEW_ORG: &str = "INSERT INTO organizations (id, name, created_at) VALUES ($1, $2, $3)";
pub(super) const NEW_KEY: &str = "INSERT INTO api_keys (id, org_id, name, scopes, secret_hash, created_at)
     VALUES ($1, $2, $3, $4, $5, $6)";
pub(super) const REVOKE_KEY: &str =
    "WITH done AS (UPDATE api_keys SET revoked_at = $2 WHERE id = $1 RETURNING 1)
     SELECT rowlock_expect(count(*), 1, 'key') FROM done";
pub(super) const NEW_EVENT: &str = "INSERT INTO events
     (id, org_id, name, currency, tiers, policy, seat_count, seat_id_prefix, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING key";
pub(super) const SET_SEAT_COUNT: &str =
    "WITH done AS (UPDATE events SET seat_count = $2 WHERE key = $1 RETURNING 1)
     SELECT rowlock_expect(count(*), 1, 'event') FROM done";
pub(super) const NEW_BLOCKS: &str = "INSERT INTO blocks (event_key, position, id, name)
     SELECT $1, n.position, n.id, n.name FROM unnest($2::int[], $3::uuid[], $4::text[]) AS n(position, id, name)";
pub(super) const NEW_SEATS: &str =
    "INSERT INTO seats (key, status, version, tier, block, \"row\", number, x, y)
     SELECT n.key, 0, 1, n.tier, n.block, n.\"row\", n.number, n.x, n.y
     FROM unnest($1::bigint[], $2::smallint[], $3::int[], $4::text[], $5::bigint[], $6::real[], $7::real[])
          AS n(key, tier, block, \"row\", number, x, y)";
pub(super) const NEW_AREA: &str = "INSERT INTO areas
     (id, event_key, position, name, tier, capacity, held, sold, version) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1)";
pub(super) const SET_SEATS: &str = "WITH done AS (
         UPDATE seats s SET status = n.status, version = s.version + 1, held_until = n.held_until,
             hold_id = n.hold_id, ticket_id = n.ticket_id
         FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::uuid[], $6::uuid[])
              AS n(key, version, status, held_until, hold_id, ticket_id)
         WHERE s.key = ANY(ARRAY[n.key]) AND s.version = n.version RETURNING 1)
     SELECT rowlock_expect(count(*), cardinality($1), 'seat') FROM done";
/// For the test that shows what the version is good for.
pub(super) const SET_SEATS_WHATEVER: &str = "WITH done AS (
         UPDATE seats s SET status = n.status, version = s.version + 1, held_until = n.held_until,
             hold_id = n.hold_id, ticket_id = n.ticket_id
         FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::uuid[], $6::uuid[])
              AS n(key, version, status, held_until, hold_id, ticket_id)
         WHERE s.key = ANY(ARRAY[n.key]) RETURNING 1)
     SELECT count(*) FROM done";
/// Seats that were not read before: what is compared is what was believed of them.
pub(super) const TAKE_SEATS: &str = "WITH done AS (
         UPDATE seats s SET status = 1, version = s.version + 1, held_until = n.held_until, hold_id = n.hold_id
         FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::uuid[]) AS n(key, tier, held_until, hold_id)
         WHERE s.key = ANY(ARRAY[n.key]) AND s.status = 0 AND s.tier = n.tier RETURNING 1)
     SELECT rowlock_expect(count(*), cardinality($1), 'seat') FROM done";
/// For the test that shows what comparing them is good for.
pub(super) const TAKE_SEATS_WHATEVER: &str = "WITH done AS (
         UPDATE seats s SET status = 1, version = s.version + 1, held_until = n.held_until, hold_id = n.hold_id,
             ticket_id = NULL
         FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::uuid[]) AS n(key, tier, held_until, hold_id)
         WHERE s.key = ANY(ARRAY[n.key]) RETURNING 1)
     SELECT count(*) FROM done";
pub(super) const SET_AREAS: &str = "WITH done AS (
         UPDATE areas a SET held = n.held, sold = n.sold, version = a.version + 1
         FROM unnest($1::uuid[], $2::bigint[], $3::int[], $4::int[]) AS n(id, version, held, sold)
         WHERE a.id = ANY(ARRAY[n.id]) AND a.version = n.version RETURNING 1)
     SELECT rowlock_expect(count(*), cardinality($1), 'area') FROM done";
pub(super) const SET_HOLDS: &str = "WITH done AS (
         UPDATE holds h SET status = n.status, version = h.version + 1, places = n.places, seats = n.seats,
             areas = n.areas, expires_at = n.expires_at, checkout_at = n.checkout_at, ended_at = n.ended_at,
             booking_id = n.booking_id
         FROM unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::int[], $5::text[], $6::text[], $7::bigint[],
                     $8::bigint[], $9::bigint[], $10::uuid[])
              AS n(id, version, status, places, seats, areas, expires_at, checkout_at, ended_at, booking_id)
         WHERE h.id = ANY(ARRAY[n.id]) AND h.version = n.version RETURNING 1)
     SELECT rowlock_expect(count(*), cardinality($1), 'hold') FROM done";
pub(super) const NEW_HOLDS: &str = "INSERT INTO holds (id, event_key, user_id, cart_token, status, version, source,
         places, seats, areas, created_at, expires_at, max_expires_at, checkout_at, ended_at, booking_id)
     SELECT n.id, n.event_key, n.user_id, n.cart_token, n.status, 1, n.source, n.places, n.seats, n.areas,
         n.created_at, n.expires_at, n.max_expires_at, n.checkout_at, n.ended_at, n.booking_id
     FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::smallint[], $6::smallint[], $7::int[],
                 $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[],
                 $15::uuid[])
          AS n(id, event_key, user_id, cart_token, status, source, places, seats, areas, created_at, expires_at,
               max_expires_at, checkout_at, ended_at, booking_id)";
pub(super) const NEW_BOOKINGS: &str = "INSERT INTO bookings (id, hold_id, event_key, user_id, status, version, source,
         places, payment_reference, created_at, cancelled_at)
     SELECT n.id, n.hold_id, n.event_key, n.user_id, n.status, 1, n.source, n.places, n.payment_reference,
         n.created_at, n.cancelled_at
     FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::smallint[], $6::smallint[], $7::int[],
                 $8::text[], $9::bigint[], $10::bigint[])
          AS n(id, hold_id, event_key, user_id, status, source, places, payment_reference, created_at, cancelled_at)";
pub(super) const SET_BOOKINGS: &str = "WITH done AS (
         UPDATE bookings b SET status = n.status, cancelled_at = n.cancelled_at, version = b.version + 1
         FROM unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::bigint[]) AS n(id, version, status, cancelled_at)
         WHERE b.id = ANY(ARRAY[n.id]) AND b.version = n.version RETURNING 1)
     SELECT rowlock_expect(count(*), cardinality($1), 'booking') FROM done";
pub(super) const NEW_TICKETS: &str =
    "INSERT INTO tickets (id, booking_id, position, event_key, ordinal, area_id, price)
     SELECT n.id, n.booking_id, n.position, n.event_key, n.ordinal, n.area_id, n.price
     FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::bigint[], $5::bigint[], $6::uuid[], $7::bigint[])
          AS n(id, booking_id, position, event_key, ordinal, area_id, price)";
pub(super) const NEW_RECORDS: &str = "WITH done AS (
         INSERT INTO idempotency_records AS r (org_id, actor, key, fingerprint, outcome, expires_at)
         SELECT n.org_id, n.actor, n.key, n.fingerprint, n.outcome, $6
         FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[])
              AS n(org_id, actor, key, fingerprint, outcome)
         ON CONFLICT (org_id, actor, key) DO UPDATE
             SET fingerprint = excluded.fingerprint, outcome = excluded.outcome, expires_at = excluded.expires_at
             WHERE r.expires_at <= $7 RETURNING 1)
     SELECT rowlock_expect(count(*), cardinality($1), 'idempotency record') FROM done";
pub(super) const NEW_STREAMS: &str =
    "INSERT INTO streams (id, seq) SELECT n, 0 FROM unnest($1::uuid[]) AS n ON CONFLICT (id) DO NOTHING";

/// The last of a batch: its locks last for the commit alone, which is sent right behind.
pub(super) const LOCK_STREAMS: &str =
    "SELECT s.key FROM streams s WHERE s.id = ANY($1::uuid[]) ORDER BY s.id FOR NO KEY UPDATE";
pub(super) const APPEND: &str = "WITH taken AS (
         UPDATE streams s SET seq = s.seq + n.facts
         FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS n(id, facts, nth)
         WHERE s.id = ANY(ARRAY[n.id]) RETURNING n.nth, s.key, s.id, s.seq - n.facts AS before),
     streams_taken AS (
         SELECT array_agg(key ORDER BY nth) AS keys, array_agg(before ORDER BY nth) AS before,
             rowlock_expect(count(*), cardinality($1), 'stream') FROM taken),
     appended AS (
         INSERT INTO journal (stream_key, seq, id, kind, at, actor, request_id, data)
         SELECT t.keys[n.stream], t.before[n.stream] + n.nth, n.id, n.kind, $10, n.actor, n.request_id, n.data
         FROM streams_taken t, unnest($3::int[], $4::bigint[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[])
              AS n(stream, nth, id, kind, actor, request_id, data))
     SELECT id, before FROM taken";
pub(super) const SWEEP_RECORDS: &str = "DELETE FROM idempotency_records WHERE ctid = ANY(ARRAY(
         SELECT ctid FROM idempotency_records WHERE expires_at <= (SELECT rowlock_now()) LIMIT $1
         FOR UPDATE SKIP LOCKED)) RETURNING 1";

// Asking what became of a COMMIT whose answer was lost.

pub(super) const TRANSACTION_STATUS: &str = "SELECT pg_xact_status($1::text::xid8)";
/// Which backend a connection has. The time tells it from a later one with the same number.
pub(super) const BACKEND: &str =
    "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()";
pub(super) const END_BACKEND: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE pid = $1 AND backend_start = $2::text::timestamptz";
pub(super) const FIND_FACTS: &str = "SELECT id, seq FROM journal
     WHERE stream_key = (SELECT key FROM streams WHERE id = $1) AND seq > $2 AND id = ANY($3::uuid[])";
/// A commit that waits for the standby, so that all before it have arrived there too.
pub(super) const SETTLE: &str = "SELECT pg_logical_emit_message(true, 'rowlock', 'settled')";
