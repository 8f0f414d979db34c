# Two commands matter: `make run` and `make test`. The others are parts of them.

CARGO ?= cargo
DATA ?= data

.PHONY: run build test rust tools fmt canary clippy unit doc alerts api-check bench bench-parts prove wrk clean

## Build and start the server with demo data, listening on 127.0.0.1:8080.
run: build
	target/release/rowlock serve --demo --data $(DATA)

build: rust
	$(CARGO) build --release --locked -p rowlock

# Clippy is the compiler of the tests, with warnings denied: linting by itself would compile everything once more. This is how `cargo clippy`
# does it and passes its arguments on; the target `canary` notices when it no longer is.
LINTING := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__

## Everything that must pass. Installs what is missing first.
test: tools
	$(MAKE) fmt
	$(MAKE) canary
	$(MAKE) unit
	$(MAKE) doc
	$(MAKE) alerts

rust:
	@command -v $(CARGO) >/dev/null || { echo "Rust is missing: install it with rustup, then try again."; exit 1; }

tools: rust
	scripts/tools.sh

fmt:
	$(CARGO) fmt --all --check

## That what the tests are compiled with denies what clippy warns of.
canary: rust
	@mkdir -p target
	@echo 'pub fn copy(number: u32) -> u32 { number.clone() }' | \
		$(LINTING) clippy-driver rustc - --crate-type lib --emit metadata -o target/canary.rmeta 2>&1 | \
		grep -q 'error: using `clone` on type' || { echo "clippy denies nothing: see LINTING in the Makefile"; exit 1; }

## Only the lints, for whoever is in the middle of something.
clippy:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# The torture has two places to itself, and hardly uses the processors.
unit:
	$(LINTING) $(CARGO) nextest run --workspace --locked --test-threads $$(($$(nproc) + 2))

doc:
	$(LINTING) $(CARGO) test --doc --workspace --locked

## The alert rules with their tests, and that rules and dashboard name metrics that exist.
alerts: tools
	scripts/alerts.sh

## Throws generated requests at every route of a running server.
api-check: tools
	$(CARGO) build --locked -p rowlock
	scripts/schemathesis.sh target/debug/rowlock

## What this machine can do, next to what people would use instead: five minutes, and a report in target/bench.
bench: tools
	$(CARGO) run --release --locked -p rowlock-bench

## The single measurements that docs/performance.md is about.
bench-parts: tools wrk
	$(CARGO) run --release --locked -p rowlock-bench -- http
	$(CARGO) run --release --locked -p rowlock-bench -- postgres
	$(CARGO) run --release --locked -p rowlock-bench -- load
	$(CARGO) run --release --locked -p rowlock-bench -- reconcile
	$(CARGO) run --release --locked -p rowlock-bench -- stalls

## Tries to break the promises for longer than the tests do: see docs/proof.md.
prove: tools
	$(CARGO) build --release --locked -p rowlock -p rowlock-sim
	target/release/rowlock-sim model
	target/release/rowlock-sim run --seeds 1..10001
	target/release/rowlock-sim torture --minutes 30
	target/release/rowlock-sim torture --minutes 10 --embedded

wrk:
	@command -v wrk >/dev/null || apt-get install -y --no-install-recommends wrk || \
		{ echo "wrk is missing: Debian has it in the package wrk."; exit 1; }

clean:
	$(CARGO) clean
