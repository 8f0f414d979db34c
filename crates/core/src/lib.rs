//! The kernel: what may happen to seats, and nothing else.
//!
//! Everything here is pure and synchronous. Time, ids and rows come in as arguments, facts go out as values, so
//! that the same rules run under every store, in the simulator and in a test with no machinery at all.
//!
//! Read in this order: [`seat`], [`area`], [`hold`], [`booking`] (the nouns), [`command`] (the verbs), [`slice`]
//! (the rows that a batch names), [`decide`] (the rules), [`fact`] (what has happened), [`refusal`] (why not).

pub mod area;
pub mod booking;
pub mod command;
pub mod decide;
pub mod event;
pub mod fact;
pub mod hold;
pub mod ids;
pub mod limits;
pub mod money;
pub mod org;
pub mod outcome;
pub mod policy;
pub mod refusal;
pub mod seat;
pub mod slice;
pub mod text;
pub mod time;

pub use command::{Actor, Command, IdempotencyKey, Request};
pub use decide::{Decided, decide, execute};
pub use fact::{Fact, Stream};
pub use ids::{
    AreaId, BlockId, BookingId, EventId, HoldId, IdSource, JournalId, KeyId, OrgId, SeatId, TicketId,
};
pub use outcome::Outcome;
pub use refusal::Refusal;
pub use slice::Slice;
pub use text::{CartToken, Name, PaymentReference, UserId};
pub use time::Time;
