//! Signals that ask to stop: Ctrl-C, a polite kill, a closed terminal; and one that would end the program without a word.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The signal that was caught, once there is one.
#[derive(Clone, Debug, Default)]
pub struct Caught(Arc<AtomicU8>);

impl Caught {
    /// Its number.
    pub fn signal(&self) -> Option<u8> {
        Some(self.0.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }
}

/// Has a signal not end the program: what it tells is seen otherwise. Programs that are started get it as ever, which they
/// would not if it were ignored.
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

/// Calls `stop` at the first signal, with its number; the second does what it does to any program.
pub fn on_signal(stop: impl Fn(u8) + Send + 'static) -> anyhow::Result<Caught> {
    let caught = Caught::default();
    let mut wanted = vec![SIGINT, SIGTERM];
    // Under nohup, which takes the terminal away, a closed terminal is to be survived.
    if std::io::stdin().is_terminal() || std::io::stdout().is_terminal() || std::io::stderr().is_terminal() {
        wanted.push(SIGHUP);
    }
    let mut signals = Signals::new(wanted).context("catching signals failed")?;
    let seen = caught.clone();
    let watching = move || {
        for signal in signals.forever() {
            let number = u8::try_from(signal).unwrap_or(u8::MAX);
            // Who asks twice does not want to wait for the report.
            if seen.0.swap(number, Ordering::SeqCst) != 0 {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            stop(number);
        }
    };
    let started = std::thread::Builder::new().spawn(watching);
    started.context("starting a thread that waits for signals failed")?;
    Ok(caught)
}
