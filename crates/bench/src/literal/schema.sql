-- What a ticketing shop would have for this flow, with the indexes that its queries and constraints need.

-- Room in its pages lets a seat's new version stay beside the old one: no index has to be touched.
CREATE TABLE IF NOT EXISTS seats (
    id         uuid   NOT NULL PRIMARY KEY,
    event_id   uuid   NOT NULL,
    block      text   NOT NULL,
    "row"      text   NOT NULL,
    number     bigint NOT NULL,
    price      bigint NOT NULL,
    status     text   NOT NULL DEFAULT 'available',
    held_until timestamptz,
    UNIQUE (event_id, block, "row", number)
) WITH (fillfactor = 70);

CREATE TABLE IF NOT EXISTS seat_holds (
    id         uuid        NOT NULL PRIMARY KEY,
    org_id     uuid        NOT NULL,
    event_id   uuid        NOT NULL,
    seat_id    uuid        NOT NULL,
    user_id    text        NOT NULL,
    cart_token text        NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    deleted_at timestamptz
);
CREATE UNIQUE INDEX IF NOT EXISTS seat_holds_active ON seat_holds (seat_id) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS seat_holds_due ON seat_holds (expires_at) WHERE deleted_at IS NULL;

CREATE TABLE IF NOT EXISTS outbox (
    id         bigint      NOT NULL PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    topic      text        NOT NULL,
    payload    text        NOT NULL,
    created_at timestamptz NOT NULL
);
