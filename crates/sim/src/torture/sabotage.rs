//! Breaking the product on purpose, behind its back, to see that the checks notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;

use super::house::House;
use super::{Failed, blocking};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Broken {
    /// Held seats become free in the store while their holds last, as if a compare-and-set had failed to compare.
    SeatCas,
    /// A confirmed booking disappears.
    Booking,
    /// A hold that has ended comes back.
    Hold,
    /// Some rows of the journal disappear, the last one among them.
    Journal,
    /// A node dies by itself, again and again.
    Node,
    /// What was written since the death before is gone every second time a node with a store of its own is killed.
    Disk,
}

impl Broken {
    /// Whether there is such a thing to break: rows are broken in Postgres, a disk under a store of its own.
    pub fn fits(self, embedded: bool) -> bool {
        match self {
            Broken::Node => true,
            Broken::Disk => embedded,
            Broken::SeatCas | Broken::Booking | Broken::Hold | Broken::Journal => !embedded,
        }
    }
}

/// How often a seat is freed.
const STEAL_EVERY: Duration = Duration::from_millis(700);
/// How many seats are freed before a node dies.
const STEALS_A_DEATH: usize = 10;

/// What a bug in the compare-and-set would do: a seat that somebody holds, for a while yet, is free for everybody.
const STEAL: &str = "UPDATE seats SET status = 0, hold_id = NULL, held_until = NULL, version = version + 1
    WHERE key = (SELECT key FROM seats WHERE status = 1
                     AND held_until > extract(epoch FROM clock_timestamp()) * 1000 + 2000
                 ORDER BY random() LIMIT 1)";
const LOSE_BOOKING: &str =
    "DELETE FROM bookings WHERE id = (SELECT id FROM bookings ORDER BY created_at DESC LIMIT 1)";
const REVIVE_HOLD: &str = "UPDATE holds SET status = 0, ended_at = NULL,
        expires_at = expires_at + 3600000, max_expires_at = max_expires_at + 3600000
    WHERE id = (SELECT id FROM holds WHERE status IN (2, 3) ORDER BY created_at DESC LIMIT 1)";
const LOSE_FACTS: &str = "DELETE FROM journal
    WHERE (kind = 'SEAT-HOLD-CREATED' AND seq % 7 = 0) OR seq = (SELECT max(seq) FROM journal)";

/// While buyers buy.
pub async fn during(house: &Arc<House>, broken: &[Broken], stop: &AtomicBool) {
    let (steals, kills) = (broken.contains(&Broken::SeatCas), broken.contains(&Broken::Node));
    let mut rounds = 0;
    while (steals || kills) && !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(STEAL_EVERY).await;
        rounds += 1;
        if steals {
            // Postgres may be away, which is one of the faults.
            let _ = blocking(house, |house| house.shared().postgres.sql(STEAL)).await;
        }
        if kills && rounds % STEALS_A_DEATH == 0 {
            house.nodes[0].die();
        }
    }
}

/// When all is quiet, before anybody looks.
pub fn afterwards(house: &House, broken: &[Broken]) -> Result<(), Failed> {
    for (which, sql) in
        [(Broken::Booking, LOSE_BOOKING), (Broken::Hold, REVIVE_HOLD), (Broken::Journal, LOSE_FACTS)]
    {
        if broken.contains(&which) {
            house.shared().postgres.sql(sql)?;
        }
    }
    Ok(())
}
