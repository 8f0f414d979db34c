//! Every transition and every refusal, one by one. A refusal is always checked to have changed nothing.

mod any;
mod areas;
mod blocking;
mod booking;
mod creation;
mod extend;
mod hold;
mod idempotency;
mod limits_per_user;
mod release;
mod takeover;
mod tenants;
