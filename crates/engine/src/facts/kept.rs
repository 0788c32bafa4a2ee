//! What was measured in this process, and holds for a minute.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a measurement counts.
const FRESH: Duration = Duration::from_mins(1);

/// What was measured, of what, and when.
pub(super) struct Kept<K, V>(Mutex<Vec<(K, Instant, V)>>);

impl<K: PartialEq, V: Copy> Kept<K, V> {
    pub const fn nothing() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// What is known of it, measured unless it was a moment ago. Whoever asks meanwhile waits.
    pub fn get_or(&self, of: K, measure: impl FnOnce() -> io::Result<V>) -> io::Result<V> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, at, _)| at.elapsed() < FRESH);
        if let Some((.., found)) = known.iter().find(|(known, ..)| *known == of) {
            return Ok(*found);
        }
        let found = measure()?;
        known.push((of, Instant::now(), found));
        Ok(found)
    }
}
