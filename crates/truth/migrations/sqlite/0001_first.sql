-- Ids are UUIDs as 16 bytes. Times are milliseconds since the Unix epoch. Statuses are small integers:
--   seat     0 available  1 held       2 sold     3 blocked
--   hold     0 active     1 converted  2 expired  3 cancelled
--   booking  0 confirmed  1 cancelled
-- `version` counts the writes of a row: every write names the version that it read.

CREATE TABLE organizations (
    id         BLOB    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    id          BLOB    NOT NULL PRIMARY KEY,
    org_id      BLOB    NOT NULL REFERENCES organizations (id),
    name        TEXT    NOT NULL,
    scopes      TEXT    NOT NULL, -- words, separated by blanks
    secret_hash BLOB    NOT NULL, -- SHA-256
    created_at  INTEGER NOT NULL,
    revoked_at  INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX api_keys_by_org ON api_keys (org_id);

CREATE TABLE events (
    key            INTEGER NOT NULL PRIMARY KEY, -- a short name for the tables below
    id             BLOB    NOT NULL UNIQUE,
    org_id         BLOB    NOT NULL REFERENCES organizations (id),
    name           TEXT    NOT NULL,
    currency       TEXT    NOT NULL,
    tiers          TEXT    NOT NULL, -- JSON
    policy         TEXT    NOT NULL, -- JSON
    seat_count     INTEGER NOT NULL,
    seat_id_prefix TEXT    NOT NULL, -- a seat's id is this and its ordinal in eight hex digits
    created_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX events_by_org ON events (org_id, id);

CREATE TABLE blocks (
    event_key INTEGER NOT NULL REFERENCES events (key),
    position  INTEGER NOT NULL,
    id        BLOB    NOT NULL UNIQUE,
    name      TEXT    NOT NULL,
    PRIMARY KEY (event_key, position),
    UNIQUE (event_key, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE areas (
    id        BLOB    NOT NULL PRIMARY KEY,
    event_key INTEGER NOT NULL REFERENCES events (key),
    position  INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    tier      INTEGER NOT NULL,
    capacity  INTEGER NOT NULL,
    held      INTEGER NOT NULL,
    sold      INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    UNIQUE (event_key, name),
    CHECK (held >= 0 AND sold >= 0 AND held + sold <= capacity)
) STRICT, WITHOUT ROWID;

-- A seat has room for one owner. Its key is a plain integer, so that finding and overwriting it is cheap.
CREATE TABLE seats (
    key        INTEGER NOT NULL PRIMARY KEY, -- event_key * 2^24 + ordinal
    event_key  INTEGER GENERATED ALWAYS AS (key >> 24) VIRTUAL,
    ordinal    INTEGER GENERATED ALWAYS AS (key & 16777215) VIRTUAL,
    status     INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    held_until INTEGER,
    hold_id    BLOB,
    ticket_id  BLOB,
    tier       INTEGER NOT NULL,
    block      INTEGER NOT NULL, -- position of its block
    row        TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    x          REAL    NOT NULL,
    y          REAL    NOT NULL,
    CHECK ((status = 1) = (hold_id IS NOT NULL) AND (status = 1) = (held_until IS NOT NULL)),
    CHECK ((status = 2) = (ticket_id IS NOT NULL))
) STRICT;

-- A place in the house is one seat.
CREATE UNIQUE INDEX seats_by_place ON seats (event_key, block, row, number);

-- Ids of holds begin with their time, so new rows go to the end.
CREATE TABLE holds (
    id             BLOB    NOT NULL PRIMARY KEY,
    event_key      INTEGER NOT NULL REFERENCES events (key),
    user_id        TEXT    NOT NULL,
    cart_token     TEXT    NOT NULL,
    status         INTEGER NOT NULL,
    version        INTEGER NOT NULL,
    source         INTEGER NOT NULL,
    places         INTEGER NOT NULL,
    seats          TEXT    NOT NULL, -- JSON: [[ordinal, price], …]
    areas          TEXT    NOT NULL, -- JSON: [[area id, quantity, price of one], …]
    created_at     INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    max_expires_at INTEGER NOT NULL,
    checkout_at    INTEGER,
    ended_at       INTEGER,
    booking_id     BLOB,
    CHECK ((status = 0) = (ended_at IS NULL) AND (status = 1) = (booking_id IS NOT NULL))
) STRICT, WITHOUT ROWID;
-- Expiries come in order, so this grows at its end. That a cart has one active hold is kept by the writer's memory.
CREATE INDEX holds_of_areas ON holds (event_key, expires_at) WHERE status = 0 AND areas <> '[]';
CREATE INDEX holds_active ON holds (expires_at, id, user_id) WHERE status = 0;

CREATE TABLE bookings (
    id                BLOB    NOT NULL PRIMARY KEY,
    hold_id           BLOB    NOT NULL UNIQUE REFERENCES holds (id),
    event_key         INTEGER NOT NULL REFERENCES events (key),
    user_id           TEXT    NOT NULL,
    status            INTEGER NOT NULL,
    version           INTEGER NOT NULL,
    source            INTEGER NOT NULL,
    places            INTEGER NOT NULL,
    payment_reference TEXT,
    created_at        INTEGER NOT NULL,
    cancelled_at      INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX bookings_by_user ON bookings (user_id, event_key);

CREATE TABLE tickets (
    id         BLOB    NOT NULL PRIMARY KEY,
    booking_id BLOB    NOT NULL REFERENCES bookings (id),
    position   INTEGER NOT NULL,
    event_key  INTEGER NOT NULL REFERENCES events (key),
    ordinal    INTEGER, -- of a seat
    area_id    BLOB,    -- or of an area
    price      INTEGER NOT NULL,
    CHECK ((ordinal IS NULL) <> (area_id IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX tickets_by_booking ON tickets (booking_id, position);

CREATE TABLE idempotency_records (
    org_id      BLOB    NOT NULL,
    actor       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    outcome     TEXT    NOT NULL, -- JSON
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (org_id, actor, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_records_by_expiry ON idempotency_records (expires_at);

CREATE TABLE streams (
    key INTEGER NOT NULL PRIMARY KEY,
    id  BLOB    NOT NULL UNIQUE, -- of an event or an org
    seq INTEGER NOT NULL         -- of its newest row
) STRICT;

CREATE TABLE journal (
    key        INTEGER NOT NULL PRIMARY KEY, -- stream_key * 2^40 + seq
    stream_key INTEGER GENERATED ALWAYS AS (key >> 40) VIRTUAL,
    seq        INTEGER GENERATED ALWAYS AS (key & 1099511627775) VIRTUAL,
    id         BLOB    NOT NULL,
    kind       TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    actor      TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    data       TEXT    NOT NULL -- JSON
) STRICT;

-- For people and reports: a row a seat and hold.
CREATE VIEW seat_holds AS
SELECT lower(hex(e.org_id)) AS org_id,
       lower(hex(e.id)) AS event_id,
       e.seat_id_prefix || printf('%08x', s.value ->> 0) AS seat_id,
       lower(hex(h.id)) AS hold_id,
       h.user_id,
       h.cart_token,
       CASE h.status WHEN 0 THEN 'active' WHEN 1 THEN 'converted' WHEN 2 THEN 'expired' ELSE 'cancelled' END AS status,
       datetime(h.expires_at / 1000, 'unixepoch') AS expires_at
FROM holds h
JOIN events e ON e.key = h.event_key
JOIN json_each(h.seats) s;
