//! Where a decision becomes durable.
//!
//! One trait, [`Truth`], and a folder for each store behind it. A store loads the rows that a batch names, lets the
//! kernel decide, and writes the rows that changed, the journal and the idempotency records in one transaction.
//! Only this crate speaks SQL.

pub mod clock;
mod columns;
mod demand;
pub mod id_source;
pub mod postgres;
pub mod read;
pub mod sqlite;
pub mod verify;

#[cfg(feature = "conformance")]
pub mod conformance;

use std::future::Future;
use std::pin::Pin;

use rowlock_core::booking::Booking;
use rowlock_core::hold::Hold;
use rowlock_core::org::{ApiKey, Org};
use rowlock_core::seat::SeatState;
use rowlock_core::{
    BookingId, EventId, Fact, HoldId, KeyId, OrgId, Outcome, Refusal, Request, SeatId, Stream, Time, UserId,
};

use tokio::sync::mpsc;

use crate::read::{ActiveHold, EventPage, EventShape, EventSnapshot, JournalRow};
use crate::verify::{Progress, Report};

pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Commands in one transaction, at most. It bounds how long a batch can keep its neighbours waiting.
pub const MAX_BATCH: usize = 512;

/// What a command did, durably.
#[derive(Debug)]
pub struct Committed {
    pub outcome: Outcome,
    /// The answer is that of an earlier request with the same idempotency key.
    pub replayed: bool,
    /// Each with its place in its stream.
    pub facts: Vec<(u64, Fact)>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The rules say no. Nothing changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store can't be asked now. Nothing is known to have changed.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// This one command can't be carried out; its neighbours were not hurt.
    #[error("the command failed: {0}")]
    Broken(String),
}

/// What this process believes of a command that holds seats: they are free, its cart has no hold yet, and its user has no
/// places where the event limits them. A store may go by that instead of reading first, if it compares all of it when it
/// writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belief {
    /// Of each seat, in the order in which the command names them.
    pub tiers: Vec<u8>,
}

/// Batches that were committed on belief, and those of which something else was true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beliefs {
    pub kept: u64,
    pub wrong: u64,
}

pub type ReadResult<T> = Result<T, Failure>;

/// What came in from other processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Moved(Vec<Stream>),
    /// Something may have been missed.
    Interrupted,
}

/// What an acknowledged commit survives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A crash and a power failure of the machine that it is stored on.
    Disk,
    /// The loss of that machine too: so many standbys have it as well.
    Standby { standbys: u32 },
    /// Less than that, and why.
    Weak { why: String },
}

pub trait Truth: Send + Sync + 'static {
    /// Decides and commits a batch in order. One answer for each request, in the same order.
    fn commit(&self, batch: Vec<Request>) -> Answer<'_, Vec<Result<Committed, Failure>>>;

    /// The same for a batch of holds, with what this process believes of each. A store that reads quickly does not care.
    fn commit_believing(
        &self,
        batch: Vec<Request>,
        _beliefs: Vec<Belief>,
    ) -> Answer<'_, Vec<Result<Committed, Failure>>> {
        self.commit(batch)
    }

    fn beliefs(&self) -> Beliefs {
        Beliefs::default()
    }

    /// How many batches it can commit side by side. With more than one, the last is left to housekeeping.
    fn lanes(&self) -> usize {
        1
    }

    /// Whether the tier that sorts out most conflicts before they get here is away.
    fn set_degraded(&self, _degraded: bool) {}

    /// Another number when the store was replaced by one that may have missed the end of the journal, and that goes on with
    /// other facts under the same sequences.
    fn history(&self) -> u64 {
        0
    }

    /// Whether other processes write to the same store.
    fn is_shared(&self) -> bool {
        false
    }

    /// Tells the other processes that streams have moved. They may miss it.
    fn tell(&self, _streams: Vec<Stream>) -> Answer<'_, ReadResult<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Hears what other processes tell, and this one too.
    fn listen(&self) -> mpsc::Receiver<Heard> {
        mpsc::channel(1).1
    }

    /// The newest sequence of each of these events' streams.
    fn heads(&self, _events: Vec<EventId>) -> Answer<'_, ReadResult<Vec<(EventId, u64)>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// The states of single seats of an event, in the order asked. `None`: there is no such seat.
    fn seat_states(
        &self,
        event: EventId,
        seats: Vec<SeatId>,
    ) -> Answer<'_, ReadResult<Vec<Option<SeatState>>>>;

    /// Whose an event is and how much there is of it. Cheap, where [`Truth::event`] is not.
    fn shape(&self, event: EventId) -> Answer<'_, ReadResult<Option<EventShape>>>;

    /// Whether what is acknowledged survives what it should.
    fn durability(&self) -> Answer<'_, ReadResult<Durability>> {
        Box::pin(async { Ok(Durability::Disk) })
    }

    fn org(&self, id: OrgId) -> Answer<'_, ReadResult<Option<Org>>>;
    fn orgs(&self, after: Option<OrgId>, limit: usize) -> Answer<'_, ReadResult<Vec<Org>>>;
    fn api_key(&self, id: KeyId) -> Answer<'_, ReadResult<Option<ApiKey>>>;
    fn api_keys(&self, org: OrgId, after: Option<KeyId>, limit: usize)
    -> Answer<'_, ReadResult<Vec<ApiKey>>>;
    fn events(&self, org: OrgId, after: Option<EventId>, limit: usize) -> Answer<'_, ReadResult<EventPage>>;
    /// Everything the hot tier needs of an event, as of one moment.
    fn event(&self, id: EventId) -> Answer<'_, ReadResult<Option<EventSnapshot>>>;
    fn hold(&self, id: HoldId) -> Answer<'_, ReadResult<Option<Hold>>>;
    fn booking(&self, id: BookingId) -> Answer<'_, ReadResult<Option<Booking>>>;
    fn holds_of_user(
        &self,
        org: OrgId,
        user: UserId,
        after: Option<HoldId>,
        limit: usize,
    ) -> Answer<'_, ReadResult<Vec<Hold>>>;
    fn journal(&self, stream: Stream, after: u64, limit: usize) -> Answer<'_, ReadResult<Vec<JournalRow>>>;
    /// All holds that are active by their row, for the expiry set at start.
    fn active_holds(&self) -> Answer<'_, ReadResult<Vec<ActiveHold>>>;
    /// Holds that are past their time but not ended, oldest first.
    fn due_holds(&self, limit: usize) -> Answer<'_, ReadResult<Vec<ActiveHold>>>;
    /// Removes idempotency records past their time. Returns how many.
    fn sweep_records(&self, limit: usize) -> Answer<'_, ReadResult<usize>>;
    /// The store's idea of the time, which is the one that decides.
    fn now(&self) -> Time;
    /// Answers when the store can be asked.
    fn ping(&self) -> Answer<'_, ReadResult<()>>;
    /// Checks the promises on the stored data.
    fn verify(&self, progress: Progress) -> Answer<'_, ReadResult<Report>>;
    /// Finishes what is under way and lets go of the files.
    fn close(&self) -> Answer<'_, ()>;
}

/// What a caught panic said.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into())
}
