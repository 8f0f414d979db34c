//! Drawing large maps takes long and much memory, so only a few are drawn, and only so many are on their way, at once.

use std::sync::{Arc, LazyLock, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use rowlock_core::OrgId;
use rustc_hash::FxHashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError};

use crate::error::{Problem, code};
use crate::limits::{MAX_DRAWINGS, MAX_MAPS_KIB, MAX_MAPS_KIB_OF_ORG, MAX_WAITING_DRAWINGS};

static FREE: Semaphore = Semaphore::const_new(MAX_DRAWINGS);
/// Places for those who draw and those who wait for it. Who finds none is told at once to come back.
static PLACES: Semaphore = Semaphore::const_new(MAX_DRAWINGS + MAX_WAITING_DRAWINGS);

static KIB: Semaphore = Semaphore::const_new(MAX_MAPS_KIB);
/// What each org may have of it. Those that have no map under way are forgotten.
static SHARES: LazyLock<Mutex<FxHashMap<OrgId, Weak<Semaphore>>>> = LazyLock::new(Mutex::default);

fn share(org: OrgId) -> Arc<Semaphore> {
    let mut shares = SHARES.lock();
    if let Some(share) = shares.get(&org).and_then(Weak::upgrade) {
        return share;
    }
    shares.retain(|_, share| share.strong_count() > 0);
    let share = Arc::new(Semaphore::new(MAX_MAPS_KIB_OF_ORG));
    shares.insert(org, Arc::downgrade(&share));
    share
}

/// A piece of a map that has its share of the memory for maps until it is sent, or its client has gone.
struct Kept {
    bytes: Bytes,
    _place: Arc<(SemaphorePermit<'static>, OwnedSemaphorePermit)>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The map, as long as all that are on their way do not take too much together: clients may read slowly, or not at all. Those of one
/// org leave something to the others.
pub fn under_way(org: OrgId, map: Vec<Bytes>) -> Result<Vec<Bytes>, Problem> {
    let kib = map.iter().map(Bytes::len).sum::<usize>() / 1024 + 1;
    let kib = u32::try_from(kib).unwrap_or(u32::MAX);
    let of_org = share(org).try_acquire_many_owned(kib).map_err(|_| busy())?;
    let place = Arc::new((KIB.try_acquire_many(kib).map_err(|_| busy())?, of_org));
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
        let org = |number| OrgId::from_uuid(uuid::Uuid::from_u128(number));
        let all = |number| -> Vec<Vec<Bytes>> {
            std::iter::from_fn(|| under_way(org(number), vec![map.clone()]).ok()).collect()
        };
        let mut sent: Vec<Vec<Vec<Bytes>>> = (0..20).map(all).collect();
        assert_eq!(sent[0].len(), MAX_MAPS_KIB_OF_ORG / (20 * 1024 + 1), "of one org");
        let together: usize = sent.iter().map(Vec::len).sum();
        assert_eq!(together, MAX_MAPS_KIB / (20 * 1024 + 1));
        sent[0].pop();
        assert!(under_way(org(0), vec![map]).is_ok(), "one has been read");
    }
}
