//! The fast tiers and the one write path.
//!
//! [`engine`] is where commands go down and facts come up. [`hot`] is what this process knows of live events, enough
//! to refuse early and to draw maps, never enough to grant. [`lane`] gathers commands into batches. [`expiry`] ends
//! holds on time. [`warm`] is what nodes share in Redis, behind a [`breaker`]; `claims` are made there
//! before a command goes down. `announce` tells the other nodes what was committed here, and `follow` takes in what was
//! committed there. [`reconcile`] finds and repairs what differs between the tiers, [`health`] tells how they are doing.

mod announce;
mod api_keys;
mod asking;
mod behind;
pub mod breaker;
mod chance;
mod claims;
pub mod engine;
pub mod expiry;
mod follow;
pub mod health;
pub mod hot;
pub mod lane;
pub mod metrics;
pub mod reconcile;
mod tasks;
pub mod warm;

pub use chance::Chance;
pub use engine::{Engine, EngineOptions, Failure, Reply};
pub use hot::{Counts, HotEvent, LiveEvent};
