//! The most memory that a process takes, as the system counts it.

use std::fs;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use anyhow::Result;

/// Waits for a process, and gives the most memory that it was seen to take, in KiB.
pub fn peak_kib(child: &mut Child) -> Result<(ExitStatus, f64)> {
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0.0_f64;
    loop {
        if let Some(ended) = child.try_wait()? {
            return Ok((ended, most));
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        most = most.max(kib.unwrap_or(0.0));
        std::thread::sleep(Duration::from_millis(2));
    }
}
