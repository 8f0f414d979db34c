//! The conformance suite on SQLite.

use crate::support::Sqlite;

rowlock_truth::conformance!(Sqlite::new());
