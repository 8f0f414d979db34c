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
    /// A row of the journal disappears.
    Journal,
}

/// How often a seat is freed.
const STEAL_EVERY: Duration = Duration::from_millis(700);

/// What a bug in the compare-and-set would do: a seat that somebody holds, for a while yet, is free for everybody.
const STEAL: &str = "UPDATE seats SET status = 0, hold_id = NULL, held_until = NULL, version = version + 1
    WHERE key = (SELECT key FROM seats WHERE status = 1
                     AND held_until > extract(epoch FROM clock_timestamp()) * 1000 + 2000
                 ORDER BY random() LIMIT 1)";
const LOSE_BOOKING: &str =
    "DELETE FROM bookings WHERE id = (SELECT id FROM bookings ORDER BY created_at DESC LIMIT 1)";
const LOSE_FACT: &str = "DELETE FROM journal j USING (
        SELECT stream_key, seq FROM journal WHERE kind = 'SEAT-HOLD-CREATED' ORDER BY seq LIMIT 1 OFFSET 5) AS gone
    WHERE j.stream_key = gone.stream_key AND j.seq = gone.seq";

/// While buyers buy.
pub async fn during(house: &Arc<House>, broken: &[Broken], stop: &AtomicBool) {
    while broken.contains(&Broken::SeatCas) && !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(STEAL_EVERY).await;
        // Postgres may be away, which is one of the faults.
        let _ = blocking(house, |house| house.postgres.sql(STEAL)).await;
    }
}

/// When all is quiet, before anybody looks.
pub fn afterwards(house: &House, broken: &[Broken]) -> Result<(), Failed> {
    for (which, sql) in [(Broken::Booking, LOSE_BOOKING), (Broken::Journal, LOSE_FACT)] {
        if broken.contains(&which) {
            house.postgres.sql(sql)?;
        }
    }
    Ok(())
}
