//! Signals that ask to stop (Ctrl-C, SIGTERM, a closed terminal), and ignoring signals that would end the program
//! silently.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::Context;
use seekless_sys::lock_mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::call;

/// Signals within this time of the first count as one: timeout(1) signals its child, and then the child's process
/// group.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// How long the program may take to end by itself after a second signal.
const GRACE: Duration = Duration::from_millis(300);

/// Locked while a run is saved, and while the program ends.
static ENDING: Mutex<()> = Mutex::new(());

/// The signal that was caught, once there is one.
#[derive(Clone, Debug, Default)]
pub struct CaughtSignal(Arc<AtomicU8>);

impl CaughtSignal {
    /// Its number.
    pub fn signal(&self) -> Option<u8> {
        Some(self.0.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }
}

/// Keeps a signal from ending the program, which notices the cause by other means. Child processes still get the
/// default action, which they would not if the signal were ignored.
pub fn survive(signal: i32) -> std::io::Result<()> {
    signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).map(drop)
}

/// Something that stops a job when a signal arrives.
pub fn stopping<S: Clone + Default + Send + 'static>(ask: fn(&S)) -> anyhow::Result<(S, CaughtSignal)> {
    let stop = S::default();
    let asked = stop.clone();
    let caught = on_signal(move |_| ask(&asked))?;
    Ok((stop, caught))
}

/// Calls `stop` with the number of the first signal. A later signal removes the test directories and restores read-ahead
/// windows, then ends the program as an uncaught signal would. A call that is not all of its process leaves signals to the others.
pub fn on_signal(stop: impl FnOnce(u8) + Send + 'static) -> anyhow::Result<CaughtSignal> {
    let caught = CaughtSignal::default();
    if !call::is_process() {
        return Ok(caught);
    }
    // Under nohup, the program must survive a closed terminal, and after `trap '' INT`, Ctrl-C.
    let wanted = [SIGINT, SIGTERM, SIGHUP];
    let wanted = wanted.into_iter().filter(|&signal| !seekless_sys::is_ignored(signal));
    let mut signals = Signals::new(wanted).context("cannot catch signals")?;
    let seen = caught.clone();
    let watching = move || {
        let mut signals = signals.forever();
        let Some(first) = signals.next() else { return };
        let caught_at = Instant::now();
        let number = number(first);
        seen.0.store(number, Ordering::SeqCst);
        stop(number);
        if let Some(signal) = signals.find(|_| caught_at.elapsed() > ONE_REQUEST) {
            // If the process was stopped meanwhile (SIGSTOP), it had no time to save a run.
            std::thread::sleep(GRACE);
            let _ending = ending();
            seekless_lab::put_back_windows();
            let _removed = seekless_lab::remove_scratch();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    let started = std::thread::Builder::new().spawn(watching);
    started.context("cannot start the thread that waits for signals")?;
    Ok(caught)
}

/// A signal as a part of an exit code.
pub fn number(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(u8::MAX)
}

/// Removes the test directories, then ends the program by the signal.
#[expect(
    clippy::disallowed_methods,
    reason = "only a call that is all of its process gets signals"
)]
pub fn end(signal: u8) -> ! {
    let _ending = ending();
    seekless_lab::put_back_windows();
    let _removed = seekless_lab::remove_scratch();
    std::process::exit(128 + i32::from(signal))
}

/// Waits until nobody is ending the program or saving a run. Nobody else does so while the guard is held.
pub fn ending() -> MutexGuard<'static, ()> {
    lock_mutex(&ENDING)
}
