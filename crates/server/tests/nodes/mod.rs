//! Several nodes, as real processes, and what happens when parts of the whole fail. After each, the stored data keeps
//! the promises and the tiers of all nodes agree.

mod clocks;
mod contention;
mod house;
mod postgres;
mod processes;
mod redis;
mod rush;
mod together;
