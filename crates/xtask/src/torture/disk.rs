//! Simulated disks without delay, each with a file system that many trials use, as `seekless sim` starts them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use seekless_sim::device::{self, DeviceName, DeviceOptions};
use seekless_sim::models::DiskModel;
use seekless_sim::power::PowerLoss;

use crate::filesystems::TestFileSystem;
use crate::process::check_interrupt;

/// The size of a disk: XFS refuses less than 300 MiB, and btrfs is soon full.
const SIZE_BYTES: u64 = 1 << 30;

/// A disk that ends when this is dropped.
pub struct NullDisk {
    file_system: TestFileSystem,
    name: DeviceName,
    point: PathBuf,
}

impl NullDisk {
    /// Starts one that `seekless` serves.
    pub fn start(file_system: TestFileSystem, seekless: &Path) -> Result<Self> {
        Self::start_with(file_system, seekless, |_| {})
    }

    /// Starts one with other options.
    pub fn start_with(
        file_system: TestFileSystem,
        seekless: &Path,
        set: impl FnOnce(&mut DeviceOptions),
    ) -> Result<Self> {
        let model = DiskModel::named("null").context("there is no disk without delay")?;
        let mut options = DeviceOptions::new(model, SIZE_BYTES, &file_system.name());
        set(&mut options);
        let server = |name: &DeviceName| {
            let mut command = Command::new(seekless);
            command.args(["sim", "serve", name.as_str()]);
            command
        };
        let (name, state) = device::start(&options, server, &|| check_interrupt().is_err())?;
        let point = state.mount_point.context("a file system is mounted")?;
        Ok(Self {
            file_system,
            name,
            point,
        })
    }

    pub fn file_system(&self) -> TestFileSystem {
        self.file_system
    }

    /// Where its file system is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// What its requests meet from now on.
    pub fn plan(&self, faults: &str, seed: u64) -> Result<()> {
        Ok(device::plan_faults(&self.name, faults.to_owned(), seed)?)
    }

    /// The power goes: nobody who waits for the disk gets an answer.
    pub fn lose_power(&self) -> Result<()> {
        Ok(device::lose_power(&self.name)?)
    }

    /// How many requests it has served.
    pub fn requests(&self) -> Result<usize> {
        Ok(device::report(&self.name)?.counters.requests as usize)
    }

    pub fn is_power_lost(&self) -> Result<bool> {
        Ok(device::is_power_lost(&self.name)?)
    }

    /// Several lose power together, and come back with what is left.
    pub fn cut(disks: &[(&Self, Option<PowerLoss>)], seed: u64) -> Result<()> {
        let names: Vec<_> = disks.iter().map(|(disk, loss)| (&disk.name, *loss)).collect();
        device::cut(&names, seed)?;
        Ok(())
    }
}

impl Drop for NullDisk {
    fn drop(&mut self) {
        if let Err(error) = device::stop(&self.name, true) {
            eprintln!("warning: {error}");
        }
    }
}
