//! The composition root: the settings, the command line, and `serve`, which puts the other crates together.
//!
//! Only this crate reads the environment. Everything below it is handed its options as values.

pub mod cli;
pub mod config;
pub mod connections;
pub mod demo;
pub mod dev;
pub mod fault;
pub mod files;
pub mod logging;
pub mod migrate;
pub mod org;
pub mod output;
pub mod reconcile;
pub mod secret;
pub mod serve;
pub mod settings;
pub mod signals;
pub mod store;
pub mod telemetry;
pub mod token;
pub mod verify;
