//! API keys in memory: one is looked up for every request that comes with a key.

use std::time::Duration;

use parking_lot::RwLock;
use rowlock_core::org::ApiKey;
use rowlock_core::{KeyId, OrgId};
use rowlock_truth::Truth;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::asking::Asking;
use crate::engine::Failure;

const MAX_KNOWN: usize = 100_000;
/// How long a key is believed to be in force when another node may have revoked it.
const BELIEVED_FOR: Duration = Duration::from_secs(2);
/// How long a key that is not in memory waits for others of the kind.
const STRANGER_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct ApiKeys {
    remembered: RwLock<Remembered>,
    /// All who come with the same key share one look at the truth.
    reads: Asking<KeyId, Result<Option<ApiKey>, Failure>>,
    /// Keys that are not in memory are looked up one at a time: whoever makes up keys must not keep known ones from being read again.
    strangers: Semaphore,
}

#[derive(Default)]
struct Remembered {
    /// With the time of the question that was answered with it.
    known: FxHashMap<KeyId, (ApiKey, Instant)>,
    /// Kept so that a read that began before a revocation can't bring the key back.
    revoked: FxHashSet<KeyId>,
}

impl Default for ApiKeys {
    fn default() -> Self {
        Self { remembered: RwLock::default(), reads: Asking::default(), strangers: Semaphore::new(1) }
    }
}

impl ApiKeys {
    /// The key, if it is in force.
    pub async fn get(&self, truth: &dyn Truth, id: KeyId) -> Result<Option<ApiKey>, Failure> {
        let is_stranger = match self.remembered.read().known.get(&id) {
            Some((key, asked_at)) if !truth.is_shared() || asked_at.elapsed() < BELIEVED_FOR => {
                return Ok(Some(key.clone()));
            }
            known => known.is_none(),
        };
        // Boxed, because it is rare and large: every request has a place for what it may have to wait for.
        Box::pin(self.reads.ask(id, self.read(truth, id, is_stranger))).await
    }

    async fn read(&self, truth: &dyn Truth, id: KeyId, is_stranger: bool) -> Result<Option<ApiKey>, Failure> {
        let _turn = match is_stranger {
            false => None,
            true => {
                let turn = tokio::time::timeout(STRANGER_TIMEOUT, self.strangers.acquire()).await;
                Some(turn.map_err(|_| Failure::Unavailable("too many unknown API keys".into()))?)
            }
        };
        let asked_at = Instant::now();
        let Some(key) = truth.api_key(id).await?.filter(|key| key.revoked_at.is_none()) else {
            return Ok(None);
        };
        let mut remembered = self.remembered.write();
        if remembered.revoked.contains(&id) {
            return Ok(None);
        }
        if remembered.known.len() >= MAX_KNOWN {
            remembered.known.clear();
        }
        remembered.known.insert(id, (key.clone(), asked_at));
        Ok(Some(key))
    }

    pub fn revoke(&self, id: KeyId) {
        let mut remembered = self.remembered.write();
        remembered.revoked.insert(id);
        remembered.known.remove(&id);
    }

    /// Keys of an org are read again when they are used.
    pub fn forget(&self, org: OrgId) {
        self.remembered.write().known.retain(|_, (key, _)| key.org != org);
    }
}
