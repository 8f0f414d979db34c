//! What a batch names, as columns for the queries that look for all of it at once.

use rowlock_core::Request;
use uuid::Uuid;

use crate::postgres::plan::Plan;

/// The carts of a plan as columns.
pub(super) struct Carts {
    pub events: Vec<i64>,
    pub users: Vec<String>,
    pub carts: Vec<String>,
}

impl Carts {
    pub fn new(plan: &Plan) -> Self {
        let mut columns = Self { events: Vec::new(), users: Vec::new(), carts: Vec::new() };
        for (event, user, cart) in &plan.carts {
            columns.events.push(*event);
            columns.users.push(user.as_str().to_owned());
            columns.carts.push(cart.as_str().to_owned());
        }
        columns
    }
}

/// The idempotency keys of a batch as columns.
pub(super) struct Keys {
    pub orgs: Vec<Uuid>,
    pub actors: Vec<String>,
    pub keys: Vec<String>,
}

impl Keys {
    pub fn new(batch: &[Request]) -> Self {
        let mut columns = Self { orgs: Vec::new(), actors: Vec::new(), keys: Vec::new() };
        for request in batch {
            if let Some(idempotency) = &request.idempotency {
                columns.orgs.push(request.org.uuid());
                columns.actors.push(request.actor.to_string());
                columns.keys.push(idempotency.key.to_string());
            }
        }
        columns
    }
}
