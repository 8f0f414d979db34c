-- Who holds a seat is said by its hold alone. The row of a seat says whether it is sold or blocked; `held_until` and `hold_id`
-- are empty here, and are there for rows of a Postgres that `verify` looks through.
UPDATE seats SET status = 0, version = version + 1, held_until = NULL, hold_id = NULL,
    room = zeroblob(25 - CASE WHEN version < 127 THEN 1 WHEN version < 32767 THEN 2 ELSE 3 END)
WHERE status = 1;

-- The holds of an event, for whoever wants to know its held seats, and those of them that are due.
DROP INDEX holds_active;
DROP INDEX holds_of_areas;
CREATE INDEX holds_active ON holds (event_key, expires_at) WHERE status = 0;
