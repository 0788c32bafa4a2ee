//! Waiting until nobody else uses the processors or waits for a disk: two programs cannot be compared while a third one
//! runs.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::check_interrupt;

/// The part of the processors' time that others may use while we sleep.
const BUSY_PART: f64 = 0.05;
/// How long that is looked at.
const LOOK: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_mins(10);

/// The processors' time since the start of the system, in ticks.
#[derive(Clone, Copy)]
struct Ticks {
    idle: u64,
    all: u64,
}

/// Returns when the processors have been idle for a moment.
pub fn wait() -> Result<()> {
    let started = Instant::now();
    let mut before = now()?;
    while started.elapsed() < PATIENCE {
        check_interrupt()?;
        thread::sleep(LOOK);
        let after = now()?;
        let all = after.all.saturating_sub(before.all).max(1) as f64;
        if 1.0 - after.idle.saturating_sub(before.idle) as f64 / all <= BUSY_PART {
            return Ok(());
        }
        before = after;
    }
    bail!(
        "the machine was not idle for a moment in {} minutes",
        PATIENCE.as_secs() / 60
    )
}

fn now() -> Result<Ticks> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    parse(&text).context("/proc/stat has no line of all processors")
}

/// The first line: user, nice, system, idle, iowait, irq, softirq, steal; the rest is contained in user and nice
/// (`man 5 proc_stat`). A processor that waits for I/O is not idle here: somebody uses a disk.
fn parse(stat: &str) -> Option<Ticks> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
    Some(Ticks {
        idle: *ticks.get(3)?,
        all: ticks.iter().sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_io_is_not_idle_and_guests_are_not_counted_twice() {
        let ticks = parse("cpu  1 2 3 40 50 6 7 8 1 2\ncpu0 0 0").unwrap();
        assert_eq!((ticks.idle, ticks.all), (40, 117));
        assert!(parse("intr 1").is_none() && parse("").is_none());
    }
}
