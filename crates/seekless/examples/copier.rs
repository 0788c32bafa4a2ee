//! Copies a file with progress, until Ctrl-C: `copier FROM TO`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use seekless::{Options, Stop};
use signal_hook::consts::SIGINT;

fn main() -> Result<(), Box<dyn Error>> {
    let [from, to] = [1, 2].map(|at| std::env::args_os().nth(at).unwrap_or_default());
    let is_stopped = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, is_stopped.clone())?;
    let stop = Stop::from(is_stopped);
    let progress = |done_bytes, of_bytes| eprintln!("{done_bytes} of {of_bytes} bytes");
    let copied = Options::new().progress(&progress).stop(&stop).copy(&from, &to)?;
    println!("{} bytes by {}: {}", copied.bytes, copied.method, copied.reason);
    Ok(())
}
