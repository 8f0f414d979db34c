-- A hold without an end is an active one: the same rows as before, told by another column. Whoever looks for the holds of a
-- user says `status = 0`, and Postgres can't take this index for that any more. While its statistics said that there were
-- few holds, it read all of it.
DROP INDEX holds_active;
CREATE INDEX holds_by_expiry ON holds (expires_at) WHERE ended_at IS NULL;
