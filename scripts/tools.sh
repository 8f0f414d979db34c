#!/usr/bin/env bash
# Installs what the tests need and this machine does not have.
set -euo pipefail
cd "$(dirname "$0")/.."

# Debian packages, where we may install them. $1 is a command that works when the package is there.
debian() {
  local check=$1 package=$2
  if bash -c "$check" >/dev/null 2>&1; then return; fi
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get install -y --no-install-recommends "$package" || { apt-get update && apt-get install -y --no-install-recommends "$package"; }
  else
    echo "Missing: the Debian package $package. Install it, then try again." >&2
    exit 1
  fi
}

debian 'command -v cc' build-essential
debian 'command -v python3' python3
debian 'ls /usr/lib/postgresql/*/bin/postgres' postgresql
debian 'command -v redis-server' redis-server
debian 'command -v redis-sentinel' redis-sentinel
debian 'command -v pgbouncer' pgbouncer
debian 'command -v faketime' faketime
debian 'command -v openssl' openssl
debian 'command -v promtool' prometheus
debian 'python3 -c "import ensurepip, venv"' python3-venv

for component in rustfmt clippy; do
  cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 || rustup component add "$component"
done

# Built without optimisation: it starts the tests, it is not what is measured, and it builds in half the time.
cargo nextest --version >/dev/null 2>&1 || cargo install --locked --debug cargo-nextest

venv=target/venv
if ! cmp -s scripts/requirements.txt "$venv/requirements.txt"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r scripts/requirements.txt
  cp scripts/requirements.txt "$venv/requirements.txt"
fi
