//! What can go wrong with Postgres, sorted by what to do about it.

use tokio_postgres::error::SqlState;

use crate::Failure;
use crate::columns::Corrupt;

pub(super) type Stored<T> = Result<T, StoreError>;

#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("{}", said(.0))]
    Postgres(#[from] tokio_postgres::Error),
    #[error("{0} can't be read")]
    Corrupt(&'static str),
    /// Rows that the batch needs were not locked with the others: it must begin again.
    #[error("a {0} was changed by somebody else between load and write")]
    Stale(&'static str),
    #[error("no answer within {0} ms")]
    TimedOut(u128),
    #[error("{0}")]
    NoConnection(String),
    /// The connection was lost during COMMIT and it could not be found out whether the batch is in.
    #[error("the connection was lost while committing, and the store can't be asked what became of it: {0}")]
    Unknown(String),
}

/// The words of Postgres, with its code.
fn said(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => {
            let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
            format!("{error}{}", cause.unwrap_or_default())
        }
    }
}

/// Raised by `rowlock_expect` in the migrations.
const SOMEBODY_WAS_QUICKER: &str = "RW001";

impl StoreError {
    fn code(&self) -> Option<&SqlState> {
        match self {
            StoreError::Postgres(error) => error.code(),
            _ => None,
        }
    }

    /// Whether reading the rows again mends it: two nodes wanted the same thing at once.
    pub fn is_stale(&self) -> bool {
        self.is_contention()
            || self.code().is_some_and(|code| {
                // The answer to a statement behind the one that failed, which came in its place.
                *code == SqlState::IN_FAILED_SQL_TRANSACTION
                    // Keys that were free when they were looked up: a cart, an idempotency key, a place.
                    || *code == SqlState::UNIQUE_VIOLATION
            })
    }

    /// Whether somebody had a row locked for too long.
    pub fn is_lock_timeout(&self) -> bool {
        self.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Whether the connection is of no more use.
    pub fn is_disconnect(&self) -> bool {
        match self {
            StoreError::Postgres(error) => error.is_closed() || error.code().is_none() || self.ends_session(),
            StoreError::TimedOut(_) | StoreError::NoConnection(_) | StoreError::Unknown(_) => true,
            StoreError::Corrupt(_) | StoreError::Stale(_) => false,
        }
    }

    fn ends_session(&self) -> bool {
        // Shutdowns, a primary that has become a standby, and a transaction that this node has left open for too long
        // because it stood still.
        let Some(code) = self.code() else { return false };
        code.code().starts_with("57P")
            || code.code().starts_with("08")
            || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
            || *code == SqlState::READ_ONLY_SQL_TRANSACTION
    }

    /// Whether the store as a whole is in trouble, so that trying commands one by one can't help.
    pub fn is_outage(&self) -> bool {
        if self.is_disconnect() {
            return true;
        }
        self.code().is_some_and(|code| {
            *code == SqlState::LOCK_NOT_AVAILABLE
                || *code == SqlState::QUERY_CANCELED
                // Somebody is restoring the tables, or has made them for another role.
                || *code == SqlState::UNDEFINED_TABLE
                || *code == SqlState::INSUFFICIENT_PRIVILEGE
                // Out of connections, memory or disk.
                || code.code().starts_with("53")
        })
    }

    /// Whether two wanted the same again and again. Whoever repeats it has another chance.
    fn is_contention(&self) -> bool {
        matches!(self, StoreError::Stale(_))
            || self.code().is_some_and(|code| {
                code.code() == SOMEBODY_WAS_QUICKER
                    || *code == SqlState::T_R_DEADLOCK_DETECTED
                    || *code == SqlState::T_R_SERIALIZATION_FAILURE
            })
    }

    pub fn failure(&self) -> Failure {
        if self.is_outage() || self.is_contention() {
            Failure::Unavailable(self.to_string())
        } else {
            Failure::Broken(self.to_string())
        }
    }
}

impl From<Corrupt> for StoreError {
    fn from(Corrupt(what): Corrupt) -> Self {
        StoreError::Corrupt(what)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        error.failure()
    }
}
