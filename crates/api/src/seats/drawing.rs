//! Drawing large maps takes long and much memory, so only a few are drawn, and only so many are on their way, at once.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};

use crate::error::{Problem, code};
use crate::limits::{MAX_DRAWINGS, MAX_MAPS_KIB, MAX_WAITING_DRAWINGS};

static FREE: Semaphore = Semaphore::const_new(MAX_DRAWINGS);
/// Places for those who draw and those who wait for it. Who finds none is told at once to come back.
static PLACES: Semaphore = Semaphore::const_new(MAX_DRAWINGS + MAX_WAITING_DRAWINGS);

static KIB: Semaphore = Semaphore::const_new(MAX_MAPS_KIB);

/// A piece of a map that has its share of the memory for maps until it is sent, or its client has gone.
struct Kept {
    bytes: Bytes,
    _place: Arc<SemaphorePermit<'static>>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The map, as long as all that are on their way do not take too much together: clients may read slowly, or not at all.
pub fn under_way(map: Vec<Bytes>) -> Result<Vec<Bytes>, Problem> {
    let kib = map.iter().map(Bytes::len).sum::<usize>() / 1024 + 1;
    let place = KIB.try_acquire_many(u32::try_from(kib).unwrap_or(u32::MAX)).map_err(|_| busy())?;
    let place = Arc::new(place);
    let keep = |bytes| Bytes::from_owner(Kept { bytes, _place: Arc::clone(&place) });
    Ok(map.into_iter().map(keep).collect())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_do_not_read_is_bounded() {
        let map = Bytes::from(vec![0; 20 << 20]);
        let mut sent = Vec::new();
        while let Ok(map) = under_way(vec![map.clone()]) {
            sent.push(map);
        }
        assert_eq!(sent.len(), MAX_MAPS_KIB / (20 * 1024 + 1));
        sent.pop();
        assert!(under_way(vec![map]).is_ok(), "one has been read");
    }
}
