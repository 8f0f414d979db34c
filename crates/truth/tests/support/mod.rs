//! SQLite in a folder of its own, for the tests of this crate.

pub mod postgres;

use std::path::Path;
use std::sync::Arc;

use rowlock_truth::conformance::Backend;
use rowlock_truth::sqlite::{Sabotage, SqliteOptions, SqliteTruth};
use rowlock_truth::{Answer, Truth};
use rusqlite::Connection;
use tempfile::TempDir;

pub struct Sqlite {
    folder: TempDir,
    sabotage: Sabotage,
}

impl Sqlite {
    pub fn new() -> Self {
        Self::sabotaged(Sabotage::default())
    }

    pub fn sabotaged(sabotage: Sabotage) -> Self {
        Self { folder: TempDir::new().expect("a temporary folder"), sabotage }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn options(&self) -> SqliteOptions {
        SqliteOptions { sabotage: self.sabotage.clone(), ..SqliteOptions::default() }
    }

    pub fn truth(&self) -> Arc<dyn Truth> {
        Arc::new(SqliteTruth::open(self.folder(), self.options()).expect("the folder can be opened"))
    }

    /// The file itself, past all rules.
    pub fn database(&self) -> Connection {
        let db = Connection::open(self.folder().join("rowlock.sqlite")).expect("the file can be opened");
        db.busy_timeout(std::time::Duration::from_secs(10)).expect("a timeout");
        db
    }

    pub fn sql(&self, sql: &str) {
        self.database().execute_batch(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    }
}

impl Backend for Sqlite {
    fn open(&self) -> Answer<'_, Arc<dyn Truth>> {
        Box::pin(async { self.truth() })
    }

    fn poison<'a>(&'a self, user: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            self.sql(&format!(
                "CREATE TRIGGER poison BEFORE INSERT ON holds WHEN NEW.user_id = '{user}'
                 BEGIN SELECT RAISE(ABORT, 'poison'); END"
            ));
        })
    }

    fn age_records(&self, millis: i64) -> Answer<'_, ()> {
        Box::pin(async move {
            self.sql(&format!("UPDATE idempotency_records SET expires_at = expires_at - {millis}"));
        })
    }
}
