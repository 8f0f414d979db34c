//! The fast tiers and the one write path.
//!
//! [`engine`] is where commands go down and facts come up. [`hot`] is what this process knows of live events, enough
//! to refuse early and to draw maps, never enough to grant. [`lane`] gathers commands into batches. [`expiry`] ends
//! holds on time, [`follow`] keeps up with other nodes.

mod announce;
//! holds on time. [`warm`] is what nodes share in Redis, behind a [`breaker`].

pub mod breaker;
pub mod engine;
pub mod expiry;
mod follow;
pub mod hot;
pub mod lane;
pub mod metrics;
pub mod warm;

pub use engine::{Engine, EngineOptions, Failure, Reply};
pub use hot::{Counts, HotEvent, LiveEvent};
