//! Ten million updates planned, nothing changed: seconds and memory.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::peers::memory::peak_kib;
use crate::peers::update::Report;
use crate::peers::update::workload::write_binary;
use crate::process::check_interrupt;

const UPDATES: usize = 10_000_000;
const MOST_SECONDS: f64 = 5.0;
const MOST_KIB: f64 = 256.0 * 1024.0;

pub fn measure(directory: &Path, seed: u64, report: &mut Report) -> Result<()> {
    let file = directory.join("planned");
    File::create(&file)?.set_len(4 << 30)?;
    let updates = directory.join("planned.updates");
    let mut random = fastrand::Rng::with_seed(seed);
    for name in ["shuffled", "overlapping"] {
        check_interrupt()?;
        let mut offsets: Vec<u64> = (0..UPDATES as u64).map(|n| n * 400).collect();
        if name == "shuffled" {
            random.shuffle(&mut offsets);
        } else {
            // Two on each byte, on average.
            offsets.fill_with(|| random.u64(..UPDATES as u64 * 2));
        }
        write_binary(&updates, offsets.iter().map(|offset| (*offset, &b"1234"[..])))?;
        let begun = Instant::now();
        let mut child = Command::new(&report.program)
            .args(["update", "--dry-run"])
            .arg(&file)
            .arg("--from")
            .arg(&updates)
            .stdout(Stdio::null())
            .spawn()?;
        let (status, kib) = peak_kib(&mut child)?;
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(status.success(), "planning failed: {status}");
        let case = format!("10 M updates planned, {name}");
        report.goal(
            [
                &case,
                "seconds",
                "",
                "",
                &format!("{MOST_SECONDS} s"),
                &format!("{seconds:.2} s"),
            ],
            seconds <= MOST_SECONDS,
        );
        let (most, found) = (
            format!("{:.0} MiB", MOST_KIB / 1024.0),
            format!("{:.0} MiB", kib / 1024.0),
        );
        report.goal([&case, "memory", "", "", &most, &found], kib <= MOST_KIB);
    }
    Ok(())
}
