//! A Postgres of its own, for the tests of this crate.

use std::sync::Arc;
use std::time::Duration;

use rowlock_dev::postgres::Postgres;
use rowlock_dev::wait_until;
use rowlock_truth::conformance::Backend;
use rowlock_truth::postgres::{PostgresOptions, PostgresTruth, Sabotage};
use rowlock_truth::{Answer, Truth};

pub struct PostgresBackend {
    pub server: Postgres,
    sabotage: Sabotage,
}

impl PostgresBackend {
    pub fn new() -> Self {
        Self::sabotaged(Sabotage::default())
    }

    pub fn sabotaged(sabotage: Sabotage) -> Self {
        Self { server: Postgres::start().expect("Postgres starts"), sabotage }
    }

    pub fn options(&self) -> PostgresOptions {
        PostgresOptions {
            url: self.server.url(),
            sabotage: self.sabotage.clone(),
            ..PostgresOptions::default()
        }
    }

    pub async fn truth(&self) -> Arc<dyn Truth> {
        Arc::new(PostgresTruth::open(self.options()).await.expect("Postgres can be opened"))
    }

    /// Has commits wait for a standby of this name. Nobody has it, so they wait until the name is taken back.
    pub fn wait_for_a_standby_called(&self, name: &str) {
        self.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"));
        self.sql("SELECT pg_reload_conf()");
        assert!(wait_until(Duration::from_secs(5), || self.sql("SHOW synchronous_standby_names") == name));
    }

    /// The sessions whose commits wait for a standby.
    pub fn waiting_for_a_standby(&self) -> String {
        self.sql("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
    }

    pub fn sql(&self, sql: &str) -> String {
        self.server.sql(sql).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Backend for PostgresBackend {
    fn open(&self) -> Answer<'_, Arc<dyn Truth>> {
        Box::pin(self.truth())
    }

    fn poison<'a>(&'a self, user: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            self.sql(&format!(
                "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS
                     $$ BEGIN RAISE EXCEPTION 'poison'; END $$;
                 CREATE TRIGGER poison BEFORE INSERT ON holds FOR EACH ROW WHEN (NEW.user_id = '{user}')
                     EXECUTE FUNCTION poison()"
            ));
        })
    }

    fn age_records(&self, millis: i64) -> Answer<'_, ()> {
        Box::pin(async move {
            self.sql(&format!("UPDATE idempotency_records SET expires_at = expires_at - {millis}"));
        })
    }
}
