#!/usr/bin/env bash
# Starts a server of its own on a free port, throws generated requests at every route, and stops it again.
# Usage: scripts/schemathesis.sh path/to/rowlock [more arguments for schemathesis]
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
binary=$(realpath "$1")
shift
if [ ! -x target/venv/bin/schemathesis ]; then
  echo "schemathesis is missing: scripts/tools.sh installs it" >&2
  exit 1
fi
data=$(mktemp -d)
server=
cleanup() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
  rm -rf "$data"
}
trap cleanup EXIT

ROWLOCK__RATE_LIMITS__PER_USER_PER_SECOND=0 \
  "$binary" serve --demo --data "$data" --listen 127.0.0.1:0 >"$data/out" 2>"$data/log" &
server=$!
url=
for _ in $(seq 300); do
  url=$(sed -n 's/^listening on //p' "$data/out")
  if [ -n "$url" ]; then break; fi
  if ! kill -0 "$server" 2>/dev/null; then break; fi
  sleep 0.1
done
if [ -z "$url" ]; then
  echo "the server did not start:" >&2
  cat "$data/log" >&2
  exit 1
fi
of_demo() { sed -n "s/.*\"$1\": \"\(.*\)\".*/\1/p" "$data/demo.json" | head -1; }

# A fixed seed: the same code gets the same requests, so a red run can be repeated.
check() {
  local credential=$1
  shift
  # It leaves its notes where it runs, so that is the folder that goes.
  cd "$data"
  ROWLOCK_DEMO="$data/demo.json" \
    SCHEMATHESIS_HOOKS=schemathesis_hooks PYTHONPATH="$root/scripts" PYTHONDONTWRITEBYTECODE=1 \
    "$root/target/venv/bin/schemathesis" --config-file "$root/scripts/schemathesis.toml" run "$url/openapi.json" \
    --header "Authorization: Bearer $credential" \
    --checks all --seed 1 --workers 1 --request-timeout 15 --suppress-health-check all --no-color "$@" || status=$?
  cd "$root"
}

# With the key nobody may revoke keys: it would sooner or later be its own. With a token one can try.
status=0
ROWLOCK_ACTS_AS=anna check "$(of_demo admin_key)" --max-examples 30 --exclude-path '/api/admin/keys/{key_id}' "$@"
scopes=(read hold book cancel admin keys operator)
token=$("$binary" token --data "$data" --org "$(of_demo org_id)" --user generated "${scopes[@]/#/--scope=}")
check "$token" --max-examples 10 "$@"

if ! kill -0 "$server" 2>/dev/null; then
  echo "the server went down:" >&2
  tail -50 "$data/log" >&2
  exit 1
fi
if grep -q panicked "$data/log"; then
  echo "the server panicked:" >&2
  grep -A5 panicked "$data/log" >&2
  exit 1
fi
# Requests that are all refused would show nothing.
bought=$(python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' "$url/metrics" |
  sed -n 's/^rowlock_hold_converted_total \([0-9]*\).*/\1/p')
if [ "${bought:-0}" -lt 5 ]; then
  echo "hardly anything was bought: ${bought:-nothing}" >&2
  exit 1
fi
"$binary" verify --data "$data"
exit "$status"
