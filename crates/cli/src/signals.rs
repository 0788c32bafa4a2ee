//! Signals that ask to stop: Ctrl-C, SIGTERM, a closed terminal; and one that would end the program without a message.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Signals within this time of the first are one request: timeout(1) signals its child and then the group that the child
/// is in.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// How long a program that has a second signal may still end by itself.
const GRACE: Duration = Duration::from_millis(300);

/// Locked while a run is saved, and from when the program begins to end.
static ENDING: Mutex<()> = Mutex::new(());

/// The signal that was caught, once there is one.
#[derive(Clone, Debug, Default)]
pub struct Caught(Arc<AtomicU8>);

impl Caught {
    /// Its number.
    pub fn signal(&self) -> Option<u8> {
        Some(self.0.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }
}

/// Makes a signal not end the program; what it is about is noticed otherwise. Programs that are started get it as usual,
/// which they would not if it were ignored.
pub fn survive(signal: i32) -> std::io::Result<()> {
    signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).map(drop)
}

/// What ends a job from outside, once a signal asks to.
pub fn stopping<S: Clone + Default + Send + 'static>(ask: fn(&S)) -> anyhow::Result<(S, Caught)> {
    let stop = S::default();
    let asked = stop.clone();
    let caught = on_signal(move |_| ask(&asked))?;
    Ok((stop, caught))
}

/// Calls `stop` with the number of the first signal. A later one ends the program as a signal that is not caught does,
/// once test directories are removed.
pub fn on_signal(stop: impl FnOnce(u8) + Send + 'static) -> anyhow::Result<Caught> {
    let caught = Caught::default();
    let mut wanted = vec![SIGINT, SIGTERM];
    // Under nohup, which takes the terminal away, a closed terminal is to be survived.
    if std::io::stdin().is_terminal() || std::io::stdout().is_terminal() || std::io::stderr().is_terminal() {
        wanted.push(SIGHUP);
    }
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
            // Where the process was stopped meanwhile (SIGSTOP), it has not had the time to save a run.
            std::thread::sleep(GRACE);
            let _ending = ending();
            let _removed = seekless_lab::remove_scratch();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    let started = std::thread::Builder::new().spawn(watching);
    started.context("cannot start the thread that waits for signals")?;
    Ok(caught)
}

fn number(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(u8::MAX)
}

/// Ends the program because of a signal, once test directories are removed.
pub fn end(signal: u8) -> ! {
    let _ending = ending();
    let _removed = seekless_lab::remove_scratch();
    std::process::exit(128 + i32::from(signal))
}

/// Waits for whoever ends the program or saves a run. Nobody else does for as long as the result is kept.
pub fn ending() -> MutexGuard<'static, ()> {
    ENDING.lock().unwrap_or_else(PoisonError::into_inner)
}
