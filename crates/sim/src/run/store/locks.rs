//! Row locks. Who comes first has the row, who comes later waits in line.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use rowlock_core::{AreaId, BookingId, EventId, HoldId, SeatId, UserId};
use tokio::sync::oneshot;

/// A row that can be locked. Everybody locks in this order, so that nobody waits in a circle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowKey {
    /// The places of a user in an event that limits them.
    User(EventId, UserId),
    Event(EventId),
    Seat(SeatId),
    Area(AreaId),
    Hold(HoldId),
    Booking(BookingId),
}

pub type Transaction = u64;

#[derive(Clone, Default)]
pub struct Locks {
    rows: Arc<Mutex<BTreeMap<RowKey, Line>>>,
}

struct Line {
    owner: Transaction,
    waiting: VecDeque<(Transaction, oneshot::Sender<()>)>,
}

impl Locks {
    pub fn try_lock(&self, transaction: Transaction, row: &RowKey) -> bool {
        let mut rows = self.rows.lock();
        if let Some(line) = rows.get(row) {
            return line.owner == transaction;
        }
        rows.insert(row.clone(), Line { owner: transaction, waiting: VecDeque::new() });
        true
    }

    /// Waits for the row. Whoever gives up waiting must [`Locks::release`].
    pub async fn lock(&self, transaction: Transaction, row: &RowKey) {
        let turn = {
            let mut rows = self.rows.lock();
            match rows.get_mut(row) {
                None => {
                    rows.insert(row.clone(), Line { owner: transaction, waiting: VecDeque::new() });
                    return;
                }
                Some(line) if line.owner == transaction => return,
                Some(line) => {
                    let (tell, turn) = oneshot::channel();
                    line.waiting.push_back((transaction, tell));
                    turn
                }
            }
        };
        let _ = turn.await;
    }

    /// Lets go of everything that the transaction has, and of its places in lines.
    pub fn release(&self, transaction: Transaction) {
        let mut rows = self.rows.lock();
        rows.retain(|_, line| {
            line.waiting.retain(|(who, _)| *who != transaction);
            if line.owner != transaction {
                return true;
            }
            while let Some((next, tell)) = line.waiting.pop_front() {
                if tell.send(()).is_ok() {
                    line.owner = next;
                    return true;
                }
            }
            false
        });
    }

    pub fn is_owner(&self, transaction: Transaction, row: &RowKey) -> bool {
        self.rows.lock().get(row).is_some_and(|line| line.owner == transaction)
    }

    pub fn count(&self) -> usize {
        self.rows.lock().len()
    }
}
