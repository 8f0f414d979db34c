-- The same tables as in the embedded store, and the same rows in them.
--
-- Times are milliseconds since the Unix epoch. Statuses are small integers:
--   seat     0 available  1 held       2 sold     3 blocked
--   hold     0 active     1 converted  2 expired  3 cancelled
--   booking  0 confirmed  1 cancelled
-- `version` counts the writes of a row: every write names the version that it read.
-- Tables whose rows are overwritten leave room in their pages, so that a new version lands beside the old one. A batch can
-- overwrite all seats of a page at once, and no room is won back before it commits.
-- Texts that are part of a key compare by their bytes: quicker, and an index stays right when the system's locales change.

CREATE TABLE organizations (
    id         uuid   NOT NULL PRIMARY KEY,
    name       text   NOT NULL,
    created_at bigint NOT NULL
);

CREATE TABLE api_keys (
    id          uuid   NOT NULL PRIMARY KEY,
    org_id      uuid   NOT NULL REFERENCES organizations (id),
    name        text   NOT NULL,
    scopes      text   NOT NULL, -- words, separated by blanks
    secret_hash bytea  NOT NULL, -- SHA-256
    created_at  bigint NOT NULL,
    revoked_at  bigint
);
CREATE INDEX api_keys_by_org ON api_keys (org_id);

CREATE TABLE events (
    key            bigint  NOT NULL PRIMARY KEY GENERATED ALWAYS AS IDENTITY, -- a short name for the tables below
    id             uuid    NOT NULL UNIQUE,
    org_id         uuid    NOT NULL REFERENCES organizations (id),
    name           text    NOT NULL,
    currency       text    NOT NULL,
    tiers          text    NOT NULL, -- JSON
    policy         text    NOT NULL, -- JSON
    seat_count     integer NOT NULL,
    seat_id_prefix text    NOT NULL, -- a seat's id is this and its ordinal in eight hex digits
    created_at     bigint  NOT NULL
);
CREATE INDEX events_by_org ON events (org_id, id);

CREATE TABLE blocks (
    event_key bigint  NOT NULL,
    position  integer NOT NULL,
    id        uuid    NOT NULL UNIQUE,
    name      text    NOT NULL COLLATE "C",
    PRIMARY KEY (event_key, position),
    UNIQUE (event_key, name)
);

CREATE TABLE areas (
    id        uuid     NOT NULL PRIMARY KEY,
    event_key bigint   NOT NULL,
    position  integer  NOT NULL,
    name      text     NOT NULL COLLATE "C",
    tier      smallint NOT NULL,
    capacity  integer  NOT NULL,
    held      integer  NOT NULL,
    sold      integer  NOT NULL,
    version   bigint   NOT NULL,
    UNIQUE (event_key, name),
    CHECK (held >= 0 AND sold >= 0 AND held + sold <= capacity)
) WITH (fillfactor = 50);

-- A seat has room for one owner.
CREATE TABLE seats (
    key        bigint   NOT NULL PRIMARY KEY, -- event_key * 2^24 + ordinal
    status     smallint NOT NULL,
    version    bigint   NOT NULL,
    held_until bigint,
    hold_id    uuid,
    ticket_id  uuid,
    tier       smallint NOT NULL,
    block      integer  NOT NULL, -- position of its block
    "row"      text     NOT NULL COLLATE "C",
    number     bigint   NOT NULL,
    x          real     NOT NULL,
    y          real     NOT NULL,
    CHECK ((status = 1) = (hold_id IS NOT NULL) AND (status = 1) = (held_until IS NOT NULL)),
    CHECK ((status = 2) = (ticket_id IS NOT NULL))
) WITH (fillfactor = 45);
-- A place in the house is one seat.
CREATE UNIQUE INDEX seats_by_place ON seats ((key >> 24), block, "row", number);

CREATE TABLE holds (
    id             uuid     NOT NULL PRIMARY KEY,
    event_key      bigint   NOT NULL,
    user_id        text     NOT NULL COLLATE "C",
    cart_token     text     NOT NULL COLLATE "C",
    status         smallint NOT NULL,
    version        bigint   NOT NULL,
    source         smallint NOT NULL,
    places         integer  NOT NULL,
    seats          text     NOT NULL, -- JSON: [[ordinal, price], …]
    areas          text     NOT NULL, -- JSON: [[area id, quantity, price of one], …]
    created_at     bigint   NOT NULL,
    expires_at     bigint   NOT NULL,
    max_expires_at bigint   NOT NULL,
    checkout_at    bigint,
    ended_at       bigint,
    booking_id     uuid,
    CHECK ((status = 0) = (ended_at IS NULL) AND (status = 1) = (booking_id IS NOT NULL))
) WITH (fillfactor = 85);
-- One active hold a cart, also when two nodes make one at the same time.
CREATE UNIQUE INDEX holds_by_cart ON holds (event_key, user_id, cart_token) WHERE status = 0;
CREATE INDEX holds_active ON holds (expires_at) WHERE status = 0;
CREATE INDEX holds_of_areas ON holds (event_key, expires_at) WHERE status = 0 AND areas <> '[]';

CREATE TABLE bookings (
    id                uuid     NOT NULL PRIMARY KEY,
    hold_id           uuid     NOT NULL UNIQUE,
    event_key         bigint   NOT NULL,
    user_id           text     NOT NULL COLLATE "C",
    status            smallint NOT NULL,
    version           bigint   NOT NULL,
    source            smallint NOT NULL,
    places            integer  NOT NULL,
    payment_reference text,
    created_at        bigint   NOT NULL,
    cancelled_at      bigint
);
CREATE INDEX bookings_by_user ON bookings (user_id, event_key);

CREATE TABLE tickets (
    id         uuid    NOT NULL PRIMARY KEY,
    booking_id uuid    NOT NULL,
    position   integer NOT NULL,
    event_key  bigint  NOT NULL,
    ordinal    bigint, -- of a seat
    area_id    uuid,   -- or of an area
    price      bigint  NOT NULL,
    CHECK ((ordinal IS NULL) <> (area_id IS NULL))
);
CREATE INDEX tickets_by_booking ON tickets (booking_id, position);

CREATE TABLE idempotency_records (
    org_id      uuid   NOT NULL,
    actor       text   NOT NULL COLLATE "C",
    key         text   NOT NULL COLLATE "C",
    fingerprint bytea  NOT NULL,
    outcome     text   NOT NULL, -- JSON
    expires_at  bigint NOT NULL,
    PRIMARY KEY (org_id, actor, key)
);
CREATE INDEX idempotency_records_by_expiry ON idempotency_records (expires_at);

CREATE TABLE streams (
    key bigint NOT NULL PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id  uuid   NOT NULL UNIQUE, -- of an event or an org
    seq bigint NOT NULL         -- of its newest row
) WITH (fillfactor = 50);

CREATE TABLE journal (
    stream_key bigint NOT NULL,
    seq        bigint NOT NULL,
    id         uuid   NOT NULL,
    kind       text   NOT NULL,
    at         bigint NOT NULL,
    actor      text   NOT NULL,
    request_id text   NOT NULL,
    data       text   NOT NULL, -- JSON
    PRIMARY KEY (stream_key, seq)
);

-- Ends a transaction in which a write found another number of rows than it should: somebody else was quicker. Inside
-- the statement, because the COMMIT is on its way by the time that a client could compare.
CREATE FUNCTION rowlock_expect(got bigint, wanted bigint, what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF got <> wanted THEN
        RAISE EXCEPTION 'a % was changed by somebody else between load and write', what USING ERRCODE = 'RW001';
    END IF;
END
$$;

CREATE FUNCTION rowlock_now() RETURNS bigint LANGUAGE sql VOLATILE AS
    $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- For people and reports: a row a seat and hold.
CREATE VIEW seat_holds AS
SELECT e.org_id,
       e.id AS event_id,
       (e.seat_id_prefix || lpad(to_hex((s.value ->> 0)::bigint), 8, '0'))::uuid AS seat_id,
       h.id AS hold_id,
       h.user_id,
       h.cart_token,
       CASE h.status WHEN 0 THEN 'active' WHEN 1 THEN 'converted' WHEN 2 THEN 'expired' ELSE 'cancelled' END AS status,
       (s.value ->> 1)::bigint AS price,
       to_timestamp(h.created_at / 1000.0) AS created_at,
       to_timestamp(h.expires_at / 1000.0) AS expires_at,
       to_timestamp(h.ended_at / 1000.0) AS ended_at
FROM holds h
JOIN events e ON e.key = h.event_key
CROSS JOIN LATERAL jsonb_array_elements(h.seats::jsonb) s;
