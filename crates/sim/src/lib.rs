//! Machines that try to break the promises.
//!
//! [`model`] explores the protocol, every order of every step. [`run`] drives the production engine on a simulated
//! clock, network and store, with faults, from a seed. [`torture`] does the same to real processes.

pub mod model;
pub mod run;
pub mod torture;
