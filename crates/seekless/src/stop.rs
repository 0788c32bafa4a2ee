//! Stopping work from outside.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stops a call or a job from outside, as a handler of Ctrl-C does. Clones share one state.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
/// # std::fs::write(&from, vec![1; 40 << 20])?;
/// use seekless::{ErrorKind, Options, Stop};
/// let stop = Stop::default();
/// let half = |done_bytes: u64, of_bytes: u64| {
///     if done_bytes > of_bytes / 2 {
///         stop.stop();
///     }
/// };
/// let options = Options::new().method("copy/sync".parse()?).progress(&half).stop(&stop);
/// assert_eq!(options.copy(&from, &to).unwrap_err().kind(), ErrorKind::Stopped);
/// assert!(!to.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

/// For a handler of signals that sets a flag.
impl From<Arc<AtomicBool>> for Stop {
    fn from(is_stopped: Arc<AtomicBool>) -> Self {
        Self(is_stopped)
    }
}

impl Stop {
    /// Stops the work at its next piece.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work is to stop.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Breaks if the work is to stop, as the closure of [`read`](crate::read()) does.
    pub fn go_on(&self) -> ControlFlow<()> {
        if self.is_stopped() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}
