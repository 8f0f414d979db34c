//! The conformance suite on Postgres, by somebody who believes that every seat is free, every cart new and every user
//! without places. It is mostly wrong, and all answers are the same.

use crate::support::postgres::PostgresBackend;
use rowlock_truth::postgres::Sabotage;

rowlock_truth::conformance!(PostgresBackend::sabotaged(Sabotage { gullible: true, ..Sabotage::default() }));
