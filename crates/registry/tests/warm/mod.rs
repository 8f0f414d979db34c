//! The warm tier on real Redis servers, each test with its own.

mod announce;
mod behind;
mod claims;
mod modes;
mod outage;
mod policy;
mod projection;
mod redlock;
mod repair;
mod snapshot;
mod support;
mod tls;
