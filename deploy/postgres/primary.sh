#!/bin/bash
# Runs once, when the primary's volume is empty: the roles, the database, and who may copy it.
set -euo pipefail
secrets=${SECRETS:-/run/secrets}

# Rowlock owns its database and is no superuser. pg_read_all_stats lets it see whether its standby is synchronous;
# without it /readyz?verbose reports less than there is.
psql --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres \
  --set rowlock="$(<"$secrets/rowlock_password")" --set replicator="$(<"$secrets/replication_password")" <<'SQL'
CREATE ROLE rowlock LOGIN PASSWORD :'rowlock';
GRANT pg_read_all_stats TO rowlock;
CREATE DATABASE rowlock OWNER rowlock;
CREATE ROLE replicator LOGIN REPLICATION PASSWORD :'replicator';
SELECT pg_create_physical_replication_slot('standby');
-- Enough for the standby to be away over a lunch break. Then the slot is given up rather than the primary's disk.
ALTER SYSTEM SET max_slot_wal_keep_size = '4GB';
-- Last, and in force from the next start on: commits wait for the standby, and there is none yet.
ALTER SYSTEM SET synchronous_standby_names = 'standby';
SQL

echo 'host replication replicator all scram-sha-256' >>"$PGDATA/pg_hba.conf"
