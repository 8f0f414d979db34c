//! Drawing large maps takes long and much memory, so only a few are drawn at once.

use tokio::sync::{Semaphore, TryAcquireError};

use crate::error::{Problem, code};
use crate::limits::{MAX_DRAWINGS, MAX_WAITING_DRAWINGS};

static FREE: Semaphore = Semaphore::const_new(MAX_DRAWINGS);
/// Places for those who draw and those who wait for it. Who finds none is told at once to come back.
static PLACES: Semaphore = Semaphore::const_new(MAX_DRAWINGS + MAX_WAITING_DRAWINGS);

/// Refuses before anything was copied, when all places are taken.
pub fn check_free() -> Result<(), Problem> {
    if PLACES.available_permits() == 0 { Err(busy()) } else { Ok(()) }
}

/// Runs `work` on a thread that may be blocked. The places are held until it is done, even if nobody waits any more.
pub async fn draw<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let failed = || Problem::new(&code::INTERNAL, "the map could not be drawn");
    let place = match PLACES.try_acquire() {
        Ok(place) => place,
        Err(TryAcquireError::NoPermits) => return Err(busy()),
        Err(TryAcquireError::Closed) => return Err(failed()),
    };
    let turn = FREE.acquire().await.map_err(|_| failed())?;
    let drawn = tokio::task::spawn_blocking(move || {
        let drawn = work();
        drop((turn, place));
        drawn
    });
    drawn.await.map_err(|_| failed())
}

fn busy() -> Problem {
    Problem::new(&code::BUSY, "too many maps are being drawn")
}
