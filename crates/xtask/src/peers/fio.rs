//! fio's side: one job on one file, timed by fio's own clock.
//!
//! That clock runs from before the first open to after the last sync, without laying out the file or starting the
//! job. It is reported in whole milliseconds, rounded up (fio `backend.c`, `update_runtime`).

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::lab::Case;
use crate::process::capture;

/// Options of every job.
const COMMON: [&str; 10] = [
    "--name=trial",
    "--output-format=json",
    "--thread",
    // No clock is read for each block: ours does not either.
    "--gtod_reduce=1",
    // We prepare the cache ourselves; by default fio drops the file from it.
    "--invalidate=0",
    // By default fio declares sequential access, which doubles the read-ahead window.
    "--fadvise_hint=0",
    "--fallocate=none",
    // By default fio changes each block of a write: work inside the clock that ours does not do.
    "--scramble_buffers=0",
    "--create_fsync=0",
    "--loops=1",
];

/// The seconds that fio takes for the case's work on `bytes` of the file, and how long its process lives besides.
pub fn time(case: &Case, file: &Path, bytes: u64) -> Result<(f64, Duration)> {
    let started = Instant::now();
    let output = capture(&mut command(case, file, bytes)?)?;
    let lived = started.elapsed();
    let seconds = parse_seconds(&output, bytes)?;
    Ok((seconds, lived.saturating_sub(Duration::from_secs_f64(seconds))))
}

/// fio's version, as it names itself.
pub fn version() -> Result<String> {
    Ok(capture(Command::new("fio").arg("--version"))?.trim().to_owned())
}

fn command(case: &Case, file: &Path, bytes: u64) -> Result<Command> {
    let name = file
        .to_str()
        .with_context(|| format!("fio cannot be given {}", file.display()))?;
    let mut command = Command::new("fio");
    command.args(COMMON).args(case.fio);
    // In a file name, fio takes a bare colon for the start of the next one.
    command
        .arg(format!("--filename={}", name.replace(':', "\\:")))
        .arg(format!("--size={bytes}"));
    Ok(command)
}

fn parse_seconds(output: &str, bytes: u64) -> Result<f64> {
    // Warnings may come before the document.
    let start = output.find('{').context("fio printed no JSON")?;
    let document: Value = serde_json::from_str(&output[start..]).context("fio printed broken JSON")?;
    let job = &document["jobs"][0];
    ensure!(job["error"] == 0, "fio reports error {}", job["error"]);
    for direction in ["read", "write"] {
        let moved = job[direction]["io_bytes"].as_u64().context("fio reports no io_bytes")?;
        if moved == 0 {
            continue;
        }
        ensure!(moved == bytes, "fio moved {moved} bytes, not {bytes}");
        let milliseconds = job[direction]["runtime"].as_u64().context("fio reports no runtime")?;
        ensure!(milliseconds > 0, "fio reports a runtime of 0");
        return Ok(milliseconds as f64 / 1e3);
    }
    bail!("fio moved no bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(error: u32, read: (u64, u64), write: (u64, u64)) -> String {
        serde_json::json!({"fio version": "fio-3.33", "jobs": [{
            "error": error,
            "read": {"io_bytes": read.0, "runtime": read.1},
            "write": {"io_bytes": write.0, "runtime": write.1},
        }]})
        .to_string()
    }

    #[test]
    fn seconds_are_those_of_the_direction_that_moved_bytes() {
        assert!((parse_seconds(&report(0, (4096, 1500), (0, 0)), 4096).unwrap() - 1.5).abs() < 1e-9);
        assert!((parse_seconds(&report(0, (0, 0), (4096, 250)), 4096).unwrap() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn warnings_before_the_document_are_passed_over() {
        let output = format!("fio: a note\n{}", report(0, (4096, 1000), (0, 0)));
        assert!((parse_seconds(&output, 4096).unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_the_whole_work_is_refused() {
        let refused = |output: &str| parse_seconds(output, 4096).unwrap_err().to_string();
        assert_eq!(refused("nothing"), "fio printed no JSON");
        assert_eq!(refused("{"), "fio printed broken JSON");
        assert_eq!(refused(&report(5, (4096, 1), (0, 0))), "fio reports error 5");
        assert_eq!(refused(&report(0, (2048, 1), (0, 0))), "fio moved 2048 bytes, not 4096");
        assert_eq!(refused(&report(0, (4096, 0), (0, 0))), "fio reports a runtime of 0");
        assert_eq!(refused(&report(0, (0, 0), (0, 0))), "fio moved no bytes");
    }

    #[test]
    fn a_colon_in_a_path_is_escaped() {
        let command = command(&super::super::lab::CASES[0], Path::new("/a:b/c"), 1).unwrap();
        assert!(command.get_args().any(|argument| argument == "--filename=/a\\:b/c"));
    }
}
