//! The simulator: it repeats itself, finds nothing in what is whole, and finds everything that is broken on purpose.

mod conformance;
mod limit;
mod mutations;
mod real_redis;
mod seeds;
