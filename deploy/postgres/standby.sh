#!/bin/bash
# Starts the standby. The first time it copies the primary.
set -euo pipefail
secrets=${SECRETS:-/run/secrets}

if [ ! -e "$PGDATA" ]; then
  # Beside its place first: a copy that was broken off must not be taken for a whole one.
  rm -rf "$PGDATA.new"
  # --write-recovery-conf notes where the primary is, and under which name to come: the one that commits wait for.
  PGPASSWORD=$(<"$secrets/replication_password") pg_basebackup \
    --dbname "host=${PRIMARY:-primary} port=${PRIMARY_PORT:-5432} user=replicator application_name=standby" \
    --pgdata "$PGDATA.new" --slot standby --wal-method=stream --checkpoint=fast --write-recovery-conf
  mv "$PGDATA.new" "$PGDATA"
fi
exec docker-entrypoint.sh postgres
