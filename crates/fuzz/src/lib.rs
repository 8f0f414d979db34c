//! Bad input: one function for each kind of thing that comes from outside.
//!
//! Each takes any bytes at all and must come back. It panics when the product does, and when the product's answer is not
//! one that it may give. The targets of libFuzzer in `fuzz/` call these functions, and so does the test that replays
//! the corpus and some mutations of it: what one finds, the other can repeat.

pub mod bodies;
pub mod commands;
pub mod config;
pub mod credentials;
pub mod feed;
pub mod ids;
pub mod journal;
pub mod kernel;
pub mod mutate;
pub mod office;
pub mod queries;
pub mod redis;
pub mod requests;
pub mod seeds;
/// The rows and invariants of the kernel's own tests, of which a part is needed here.
#[allow(dead_code)]
#[path = "../../core/tests/support/mod.rs"]
mod support;
mod venue;

/// What is fuzzed: a name, which is that of its folder of inputs too, and the function.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 10] = [
    ("bodies", bodies::run),
    ("commands", commands::run),
    ("config", config::run),
    ("credentials", credentials::run),
    ("ids", ids::run),
    ("journal", journal::run),
    ("kernel", kernel::run),
    ("queries", queries::run),
    ("redis", redis::run),
    ("requests", requests::run),
];
