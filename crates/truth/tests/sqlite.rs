//! The conformance suite on SQLite.

mod support;

use support::Sqlite;

rowlock_truth::conformance!(Sqlite::new());
