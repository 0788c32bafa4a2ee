//! Measurements of this process, which are valid for a minute.

use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use seekless_sys::lock_mutex;

/// How long a measurement is valid.
const FRESH: Duration = Duration::from_mins(1);

/// Measurements, each with its key and time.
pub(super) struct KeptFacts<K, V>(Mutex<Vec<(K, Instant, V)>>);

impl<K: PartialEq, V: Copy> KeptFacts<K, V> {
    pub const fn nothing() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// The valid measurement for a key, or a new one. Concurrent callers wait for it.
    pub fn get_or(&self, of: K, measure: impl FnOnce() -> io::Result<V>) -> io::Result<V> {
        let mut known = lock_mutex(&self.0);
        known.retain(|(_, at, _)| at.elapsed() < FRESH);
        if let Some((.., found)) = known.iter().find(|(known, ..)| *known == of) {
            return Ok(*found);
        }
        let found = measure()?;
        known.push((of, Instant::now(), found));
        Ok(found)
    }
}
