//! The conformance suite on Postgres.

use crate::support::postgres::PostgresBackend;

rowlock_truth::conformance!(PostgresBackend::new());
