//! Servers that are started for tests and for development.

mod postgres;
mod redis;
