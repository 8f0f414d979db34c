#!/usr/bin/env bash
# Checks all dependencies: known vulnerabilities, licences, banned crates, and where they come from (deny.toml).
# The advisories need their database from the network. Where it can't be had, the others are checked and it is said so.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo deny --version >/dev/null 2>&1 || cargo install --locked --debug cargo-deny

check() { cargo deny --manifest-path "$1" --offline --config deny.toml check --hide-inclusion-graph "${@:2}" licenses bans sources; }
check Cargo.toml --allow license-exception-not-encountered
# The fuzzers have fewer dependencies, so they don't meet every licence that is allowed.
check fuzz/Cargo.toml --allow license-not-encountered

if cargo deny fetch db >/dev/null 2>&1; then
  cargo deny check advisories
  cargo deny --manifest-path fuzz/Cargo.toml --config deny.toml check advisories
else
  echo "NOT CHECKED: advisories. Their database (github.com/rustsec/advisory-db) can't be fetched from here." >&2
  # Whoever must not go on without them says so.
  if [ "${1:-}" = --advisories ]; then exit 1; fi
fi
