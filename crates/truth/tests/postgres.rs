//! The conformance suite on Postgres.

mod support;

use support::postgres::PostgresBackend;

rowlock_truth::conformance!(PostgresBackend::new());
