//! `/api/admin`.

mod events;
mod keys;
mod orgs;
mod users;
