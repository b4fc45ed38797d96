//! Caches what was read most recently, up to a size.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Values by key; the least recently used are dropped first.
pub(crate) struct Cache<T> {
    max_bytes: usize,
    state: Mutex<State<T>>,
}

struct State<T> {
    values: HashMap<String, CachedValue<T>>,
    by_use: BTreeMap<u64, String>,
    bytes: usize,
    clock: u64,
}

struct CachedValue<T> {
    value: Arc<T>,
    bytes: usize,
    used: u64,
}

impl<T> Cache<T> {
    pub(crate) fn new(max_bytes: usize) -> Self {
        let state = State { values: HashMap::new(), by_use: BTreeMap::new(), bytes: 0, clock: 0 };
        Self { max_bytes, state: Mutex::new(state) }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<T>> {
        let mut state = self.state();
        state.clock += 1;
        let now = state.clock;
        let kept = state.values.get_mut(key)?;
        let (value, before) = (Arc::clone(&kept.value), std::mem::replace(&mut kept.used, now));
        if let Some(key) = state.by_use.remove(&before) {
            state.by_use.insert(now, key);
        }
        Some(value)
    }

    /// Caches a value of this size, and drops others to make room.
    pub(crate) fn put(&self, key: String, value: Arc<T>, bytes: usize) {
        let mut state = self.state();
        state.clock += 1;
        let used = state.clock;
        if let Some(before) = state.values.insert(key.clone(), CachedValue { value, bytes, used }) {
            state.bytes -= before.bytes;
            state.by_use.remove(&before.used);
        }
        state.by_use.insert(used, key);
        state.bytes += bytes;
        let mut dropped = Vec::new();
        while state.bytes > self.max_bytes {
            let Some((_, oldest)) = state.by_use.pop_first() else { break };
            let gone = state.values.remove(&oldest);
            state.bytes -= gone.as_ref().map_or(0, |gone| gone.bytes);
            dropped.extend(gone);
        }
        // Release the lock before freeing the values, which takes time.
        drop(state);
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_value_is_evicted_first() {
        let cache = Cache::new(30);
        let put = |key: &str, bytes| cache.put(key.to_owned(), Arc::new(key.to_owned()), bytes);
        ["a", "b", "c"].into_iter().for_each(|key| put(key, 10));
        assert!(cache.get("a").is_some());
        put("d", 10);
        let kept: Vec<bool> = ["a", "b", "c", "d"].iter().map(|key| cache.get(key).is_some()).collect();
        assert_eq!(kept, [true, false, true, true]);
        // Again, with another size.
        put("a", 20);
        assert!(cache.get("c").is_none() && cache.get("a").is_some() && cache.get("d").is_some());
        put("large", 31);
        assert!(cache.get("large").is_none() && cache.get("a").is_none());
    }
}
