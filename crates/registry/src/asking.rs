//! Questions that many have at the same time.

use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::OnceCell;

/// All who ask the same at the same time share one answer. Whoever comes later asks again: an answer gets old.
pub(crate) struct Asking<K, V> {
    under_way: Mutex<FxHashMap<K, Arc<OnceCell<V>>>>,
}

impl<K, V> Default for Asking<K, V> {
    fn default() -> Self {
        Self { under_way: Mutex::default() }
    }
}

impl<K: Copy + Eq + Hash, V: Clone> Asking<K, V> {
    /// When whoever is asking goes away, the next of those who wait asks instead.
    pub async fn ask(&self, key: K, ask: impl Future<Output = V>) -> V {
        let answer = Arc::clone(self.under_way.lock().entry(key).or_default());
        // Also when whoever asks goes away.
        let _asked = Asked { asking: self, key, answer: Arc::clone(&answer) };
        answer.get_or_init(|| ask).await.clone()
    }
}

struct Asked<'a, K: Copy + Eq + Hash, V> {
    asking: &'a Asking<K, V>,
    key: K,
    answer: Arc<OnceCell<V>>,
}

impl<K: Copy + Eq + Hash, V> Drop for Asked<'_, K, V> {
    fn drop(&mut self) {
        let mut under_way = self.asking.under_way.lock();
        if under_way.get(&self.key).is_some_and(|current| Arc::ptr_eq(current, &self.answer)) {
            under_way.remove(&self.key);
        }
    }
}
