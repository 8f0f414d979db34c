//! The conformance suite on Postgres, by somebody who believes that every seat is free, every cart new and every user
//! without places. It is mostly wrong, and all answers are the same.

mod support;

use rowlock_truth::postgres::Sabotage;
use support::postgres::PostgresBackend;

rowlock_truth::conformance!(PostgresBackend::sabotaged(Sabotage { gullible: true, ..Sabotage::default() }));
