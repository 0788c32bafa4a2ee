//! The state of the page cache before a trial: brought about, then read back by `fincore`, another project's program.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, fadvise, syncfs};

use crate::peers::cases::Start;
use crate::process::{capture, check_interrupt};

const BLOCK_BYTES: usize = 1 << 20;
/// Lets a device's own work die down after a sync.
const SETTLE: Duration = Duration::from_millis(100);
/// A page-out by the system may undo what was just done.
const ATTEMPTS: u32 = 3;

/// Makes a file of incompressible bytes that reads will find.
pub fn make_file(path: &Path, bytes: u64) -> Result<()> {
    let mut file = File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
    let mut random = fastrand::Rng::with_seed(bytes);
    let mut block = vec![0; BLOCK_BYTES];
    let mut left = bytes;
    while left > 0 {
        check_interrupt()?;
        let length = BLOCK_BYTES.min(usize::try_from(left)?);
        random.fill(&mut block[..length]);
        file.write_all(&block[..length])
            .with_context(|| format!("cannot write {}", path.display()))?;
        left -= length as u64;
    }
    file.sync_all()
        .with_context(|| format!("cannot sync {}", path.display()))
}

/// Brings about what a trial starts from, and makes sure of it.
pub fn prepare(start: Start, path: &Path) -> Result<()> {
    if start == Start::Fresh {
        return remove(path);
    }
    settle(path)?;
    let bytes = fs::metadata(path)
        .with_context(|| format!("cannot look at {}", path.display()))?
        .len();
    // The cache holds whole pages.
    let whole_bytes = bytes.next_multiple_of(rustix::param::page_size() as u64);
    let wanted = if start == Start::Warm { whole_bytes } else { 0 };
    let mut resident = resident_bytes(path)?;
    for _ in 0..ATTEMPTS {
        // The trials of a pair lie closer together where nothing need be done between them.
        if resident == wanted {
            break;
        }
        if start == Start::Warm {
            load(path)?;
        } else {
            drop_cached(path)?;
        }
        resident = resident_bytes(path)?;
    }
    ensure!(
        resident == wanted,
        "{resident} bytes of {} are in the page cache, not {wanted}: it cannot be made {start:?}",
        path.display()
    );
    Ok(())
}

/// Removes a file that a trial wrote, and waits until the file system is done with it.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", path.display()));
        }
        _ => {}
    }
    settle(path)
}

fn settle(path: &Path) -> Result<()> {
    let directory = path.parent().context("a trial's file lies in a directory")?;
    let opened = File::open(directory).with_context(|| format!("cannot open {}", directory.display()))?;
    syncfs(&opened).with_context(|| format!("cannot sync the file system of {}", directory.display()))?;
    thread::sleep(SETTLE);
    Ok(())
}

fn load(path: &Path) -> Result<()> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut block = vec![0; BLOCK_BYTES];
    while file
        .read(&mut block)
        .with_context(|| format!("cannot read {}", path.display()))?
        > 0
    {
        check_interrupt()?;
    }
    Ok(())
}

fn drop_cached(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    // Dirty pages stay: the sync comes first.
    file.sync_all()
        .with_context(|| format!("cannot sync {}", path.display()))?;
    fadvise(&file, 0, None, Advice::DontNeed).with_context(|| format!("cannot drop {}", path.display()))
}

fn resident_bytes(path: &Path) -> Result<u64> {
    let options = ["--bytes", "--raw", "--noheadings", "--output", "RES"];
    let output = capture(Command::new("fincore").args(options).arg(path))?;
    let bytes = output.trim();
    ensure!(!bytes.is_empty(), "fincore says nothing about {}", path.display());
    bytes.parse().with_context(|| format!("fincore says `{bytes}`"))
}
