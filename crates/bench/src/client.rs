//! The benchmark's own load: many connections on one thread, each with one request at a time.
//!
//! wrk only knows the closed loop, in which a slow answer also delays the next question and so hides what users would
//! have seen. Here requests can be due at fixed moments, and the clock of each begins when it was due.

mod connection;
mod drive;
mod pace;
mod pool;
mod request;

pub use connection::{Answer, Connection};
pub use drive::{Load, Requests, Run, drive, micros};
pub use pace::{Pace, Schedule};
pub use pool::Pool;
pub use request::{HoldRequest, Seats, delete, get, post, text_in, token_in};
