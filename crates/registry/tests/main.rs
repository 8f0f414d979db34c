//! The engine, its lanes and its tiers, on real stores and servers.

mod api_keys;
mod early;
mod expiry;
mod hot;
mod lanes;
mod property;
mod support;
mod warm;
