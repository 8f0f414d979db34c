#!/usr/bin/env bash
# Makes the secrets that compose.yaml needs, in deploy/secrets. What is there already stays.
set -euo pipefail
cd "$(dirname "$0")"

# Nobody but you may enter the folder. The files in it can be read by all, because the servers in the containers run as
# users of their own.
mkdir -p -m 700 secrets
fresh() { head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }
for name in postgres_password rowlock_password replication_password jwt_secret grafana_password; do
  [ -e "secrets/$name" ] || fresh >"secrets/$name"
done
# Both servers: Rowlock takes the one that can be written to.
[ -e secrets/truth_url ] ||
  printf 'postgres://rowlock:%s@primary,standby/rowlock' "$(<secrets/rowlock_password)" >secrets/truth_url
chmod 644 secrets/*
