//! A file of integers, the updates of every hundredth in a random order, and ways to bring them into it.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::peers::cache::prepare;
use crate::peers::cases::Start;
use crate::process::check_interrupt;

/// Every so many integers one is changed.
const STEP: u32 = 100;

/// What a process took in all, and by its own account.
#[derive(Clone, Copy)]
pub struct Seconds {
    pub whole: f64,
    pub read: f64,
    pub facts: f64,
    pub plan: f64,
    pub write: f64,
}

pub struct Workload {
    file: PathBuf,
    updates: PathBuf,
    before: Vec<u8>,
    after: Vec<u8>,
    /// In the order in which they are given.
    given: Vec<(u64, [u8; 4])>,
}

impl Workload {
    pub fn make(directory: &Path, integers: u32, seed: u64) -> Result<Self> {
        let before: Vec<u8> = (0..integers).flat_map(u32::to_le_bytes).collect();
        let mut after = before.clone();
        let mut given: Vec<(u64, [u8; 4])> = (0..integers)
            .step_by(STEP as usize)
            .map(|n| (u64::from(n) * 4, (n * 2 + 1).to_le_bytes()))
            .collect();
        for (offset, bytes) in &given {
            after[*offset as usize..][..4].copy_from_slice(bytes);
        }
        fastrand::Rng::with_seed(seed).shuffle(&mut given);
        let updates = directory.join(format!("{integers}.updates"));
        write_binary(&updates, given.iter().map(|(offset, bytes)| (*offset, &bytes[..])))?;
        let file = directory.join(format!("{integers}.integers"));
        fs::write(&file, &before).with_context(|| format!("cannot make {}", file.display()))?;
        Ok(Self {
            file,
            updates,
            before,
            after,
            given,
        })
    }

    /// The file as it was, in a state of the page cache.
    fn restore(&self, start: Start) -> Result<()> {
        check_interrupt()?;
        let file = OpenOptions::new().write(true).open(&self.file)?;
        file.write_all_at(&self.before, 0)?;
        file.sync_all()?;
        drop(file);
        // What is measured is the file's state, not that of the updates.
        fs::read(&self.updates)?;
        prepare(start, &self.file)
    }

    fn check(&self, by: &str) -> Result<()> {
        ensure!(fs::read(&self.file)? == self.after, "{by} left the file wrong");
        Ok(())
    }

    /// `seekless update`, planned unless a method is named.
    pub fn update(&self, program: &Path, method: Option<&str>, start: Start) -> Result<Seconds> {
        self.restore(start)?;
        let mut command = Command::new(program);
        command.arg("update").arg(&self.file).arg("--from").arg(&self.updates);
        command.arg("--json");
        match method {
            Some(method) => command.args(["--method", method]),
            None => command.args(["--durability", "through"]),
        };
        let begun = Instant::now();
        let output = command.stdin(Stdio::null()).output()?;
        let whole = begun.elapsed().as_secs_f64();
        ensure!(
            output.status.success(),
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        self.check(method.unwrap_or("the plan"))?;
        let told: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("seekless update --json is no JSON")?;
        let part = |name: &str| {
            told["seconds"][name]
                .as_f64()
                .with_context(|| format!("no seconds of `{name}`"))
        };
        Ok(Seconds {
            whole,
            read: part("read")?,
            facts: part("facts")?,
            plan: part("plan")?,
            write: part("write")?,
        })
    }

    /// What one writes without thinking: the seconds of a pwrite for each update, each waiting for the device.
    pub fn naive(&self, start: Start) -> Result<f64> {
        self.restore(start)?;
        let begun = Instant::now();
        let flags = libc::O_DSYNC;
        let file = OpenOptions::new().write(true).custom_flags(flags).open(&self.file)?;
        for (offset, bytes) in &self.given {
            file.write_all_at(bytes, *offset)?;
        }
        drop(file);
        let seconds = begun.elapsed().as_secs_f64();
        self.check("the loop")?;
        Ok(seconds)
    }
}

/// Updates in the binary form that docs/formats.md describes.
pub fn write_binary<'a>(path: &Path, updates: impl Iterator<Item = (u64, &'a [u8])>) -> Result<()> {
    let mut out = BufWriter::new(File::create(path).with_context(|| format!("cannot make {}", path.display()))?);
    out.write_all(b"SKLSUPDT")?;
    out.write_all(&1_u32.to_le_bytes())?;
    for (offset, bytes) in updates {
        out.write_all(&offset.to_le_bytes())?;
        out.write_all(&u32::try_from(bytes.len())?.to_le_bytes())?;
        out.write_all(bytes)?;
    }
    out.flush().with_context(|| format!("cannot write {}", path.display()))
}
