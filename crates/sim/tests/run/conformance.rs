//! The conformance suite of the real stores, on the simulated one: what is found on it is then not its own doing.

use std::sync::Arc;

use rowlock_core::UserId;
use rowlock_sim::run::clock::Clock;
use rowlock_sim::run::dice::Dice;
use rowlock_sim::run::history::History;
use rowlock_sim::run::net::{Life, Net};
use rowlock_sim::run::store::{SimTruth, Store};
use rowlock_truth::conformance::Backend;
use rowlock_truth::{Answer, Truth};

struct Simulated {
    dice: Dice,
    history: History,
    net: Arc<Net>,
    store: Arc<Store>,
}

impl Simulated {
    fn new() -> Self {
        let (clock, dice) = (Clock::start(), Dice::new(1));
        let history = History::new(clock, false);
        let net = Net::new(dice.fork(), clock, history.clone());
        let store = Store::new(dice.fork(), clock, history.clone(), None);
        Self { dice, history, net, store }
    }
}

impl Backend for Simulated {
    fn open(&self) -> Answer<'_, Arc<dyn Truth>> {
        Box::pin(async {
            let truth = SimTruth::new(&self.store, &self.net, &Life::new(0), &self.dice, &self.history);
            truth as Arc<dyn Truth>
        })
    }

    fn poison<'a>(&'a self, user: &'a str) -> Answer<'a, ()> {
        self.store.tables.lock().poisoned = UserId::new(user).ok();
        Box::pin(async {})
    }

    fn age_records(&self, millis: i64) -> Answer<'_, ()> {
        for record in self.store.tables.lock().records.values_mut() {
            record.ends_at = record.ends_at.plus_millis(-millis);
        }
        Box::pin(async {})
    }
}

rowlock_truth::conformance!(Simulated::new());
