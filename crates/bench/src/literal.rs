//! The peer to beat: the flow that people build themselves, one transaction a hold.
//!
//! For each request, one after another, as the usual tutorial has it:
//!
//! 1. read the seat, and whether this user holds it already;
//! 2. `SET key value NX PX …` in Redis: whoever has the key may go on;
//! 3. a transaction: lock the seat's row, mark it held, insert the hold, insert a row for the outbox, commit;
//! 4. answer; if the transaction failed, delete the key first.
//!
//! It is meant to be fast. Connections are pooled, statements are prepared once a connection, Redis has one multiplexed
//! connection, ids ascend, the tables have the indexes that the flow needs and no foreign keys. It also does less than
//! Rowlock: there is no token to check, no rate limit, no request id, no idempotency key, no time-out, no metric, and
//! nothing is published.
//!
//! The same server without a Redis is the other thing that people build: `SELECT … FOR UPDATE` on the seat's row decides
//! alone, the seat is marked, the hold is inserted, and that is all.

mod flow;
mod server;

pub use server::{Literal, Options, prepare, serve};
