#!/usr/bin/env bash
# Changes the kernel in small ways, one at a time, and sees whether its own tests notice.
# Usage: scripts/mutants.sh [more arguments for cargo mutants, such as --shard 0/4 or --file crates/core/src/ids.rs]
# The random runs are shorter here: a mutant that only half a million steps can see is told by a test that is to the point.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo mutants --version >/dev/null 2>&1 || cargo install --locked --debug cargo-mutants

ROWLOCK_MODEL_STEPS=${ROWLOCK_MODEL_STEPS:-20000} \
  cargo mutants --package rowlock-core --test-package rowlock-core --jobs 1 --no-shuffle --output target/mutants "$@"
