#!/usr/bin/env bash
# Fuzzes with libFuzzer, which sees what the code does with an input and looks for more.
# Usage: scripts/fuzz.sh [target|all] [seconds for each target]
#        scripts/fuzz.sh shrink     the smallest set of inputs that reaches all that was reached, into fuzz/corpus
# What fails stays in fuzz/artifacts, what is learned in fuzz/grown. The folder fuzz/ is laid out as cargo-fuzz wants it, but
# neither that nor a nightly compiler is needed: a stable one has the flags for coverage, and where `unsafe` is
# forbidden a sanitizer has little to do.
set -euo pipefail
cd "$(dirname "$0")/.."

which=${1:-all}
seconds=${2:-60}
triple=$(rustc -vV | sed -n 's/^host: //p')
flags=(
  -Cpasses=sancov-module
  -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
  -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares
  --cfg=fuzzing
)
# With a target, so that build scripts and macros are built without all that.
RUSTFLAGS="${flags[*]}" cargo build --release --locked --manifest-path fuzz/Cargo.toml --target "$triple"

targets() { sed -n 's/^name = "\([a-z]*\)"$/\1/p' fuzz/Cargo.toml; }
binary() { echo "fuzz/target/$triple/release/$1"; }

shrink() {
  local target=$1 least
  least=$(mktemp -d)
  mkdir -p "fuzz/grown/$target"
  "$(binary "$target")" -merge=1 -max_len=2048 "$least" "fuzz/corpus/$target" "fuzz/grown/$target" \
    >/dev/null 2>&1
  # What was a mistake once stays, needed or not.
  find "fuzz/corpus/$target" -type f ! -name 'regression-*' -delete
  cp "$least"/* "fuzz/corpus/$target/"
  rm -rf "$least"
  echo "$target: $(find "fuzz/corpus/$target" -type f | wc -l) inputs," \
    "$(find "fuzz/corpus/$target" -type f -printf '%s\n' | awk '{n += $1} END {print n}') bytes"
}

fuzz() {
  local target=$1 log="fuzz/artifacts/$1.log"
  mkdir -p "fuzz/grown/$target" "fuzz/artifacts/$target"
  # Small inputs are quick to run and quick to read.
  if ! "$(binary "$target")" -max_len=2048 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -max_total_time="$seconds" -artifact_prefix="fuzz/artifacts/$target/" \
    "fuzz/grown/$target" "fuzz/corpus/$target" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "$target failed; the input is in fuzz/artifacts/$target" >&2
    exit 1
  fi
  local runs coverage
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(grep -a 'cov: ' "$log" | tail -n 1 | sed 's/.*cov: \([0-9]*\) ft: \([0-9]*\) corp: \([0-9]*\).*/\1 places, \2 features, \3 inputs/')
  echo "$target: $runs runs in $seconds s, $coverage"
}

if [ "$which" = shrink ]; then
  for target in $(targets); do shrink "$target"; done
else
  if [ "$which" = all ]; then which=$(targets); fi
  for target in $which; do fuzz "$target"; done
fi
