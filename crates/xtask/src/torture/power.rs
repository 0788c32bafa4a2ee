//! Power cuts: a trial runs on a file system of a simulated disk. During a command, or soon after, the power fails, or requests
//! fail first. What a real disk would hold then is mounted again, and the trial goes on.
//!
//! Not here: which commands run (`draw`), and what must hold (`oracle`).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;
use rustix::fs::syncfs;
use seekless_sim::RequestKind;
use seekless_sim::device::{self, DeviceName, DeviceOptions};
use seekless_sim::faults::{DeviceFault, FaultKind};
use seekless_sim::models::DiskModel;

use crate::filesystems::TestFileSystem;
use crate::process::{capture, check_interrupt};

/// The file systems that a simulated disk is formatted with.
pub const ON_DISKS: [TestFileSystem; 3] = [TestFileSystem::Ext4, TestFileSystem::Xfs, TestFileSystem::Btrfs];
/// The size of a disk: XFS refuses less than 300 MiB, and btrfs is soon full.
const SIZE_BYTES: u64 = 1 << 30;

/// When the power fails, and what fails before.
#[derive(Debug)]
pub struct PowerCut {
    /// What goes wrong with the disk from the beginning of the command.
    fault: Option<DeviceFault>,
    /// The power fails this long after the end of the command, if not before.
    pub after: Duration,
    seed: u64,
}

impl PowerCut {
    pub fn draw(rng: &mut Rng) -> Self {
        // Each factor of two as likely as the others.
        let nth = u64::from(1 + (rng.u32(..200) >> rng.u32(..8)));
        let fault = |kind, on: &[RequestKind], times| {
            let on = on.to_vec();
            Some(DeviceFault { kind, on, nth, times })
        };
        let fault = match rng.u8(..12) {
            0..7 => fault(FaultKind::PowerCut, &[], 1),
            7..9 => None,
            9 => fault(FaultKind::Stall, &[], 3),
            10 => fault(FaultKind::Enospc, &[RequestKind::Write], 1),
            _ => {
                let on = [RequestKind::Read, RequestKind::Write, RequestKind::Flush][rng.usize(..3)];
                fault(FaultKind::Eio, &[on], [1, 3, 1_000_000][rng.usize(..3)])
            }
        };
        Self {
            fault,
            after: Duration::from_millis([0, 0, rng.u64(..100), rng.u64(..2500)][rng.usize(..4)]),
            seed: rng.u64(..),
        }
    }

    /// Begins, on the first of these disks. What was there before is not lost.
    pub fn begin(&self, disks: &[&NullDisk]) -> Result<()> {
        for disk in disks {
            syncfs(File::open(&disk.point)?)?;
        }
        Ok(device::set_fault(&disks[0].name, self.fault.clone())?)
    }

    /// The disks come back with what is left.
    pub fn cut(&self, disks: &[&NullDisk]) -> Result<()> {
        device::set_fault(&disks[0].name, None)?;
        let names: Vec<_> = disks.iter().map(|disk| (&disk.name, None)).collect();
        device::cut(&names, self.seed)?;
        Ok(())
    }
}

/// A simulated disk without delay, with a file system that many trials use. It ends when this is dropped.
pub struct NullDisk {
    pub file_system: TestFileSystem,
    /// Where its file system is mounted.
    pub point: PathBuf,
    name: DeviceName,
}

impl NullDisk {
    /// Starts one that `seekless` serves.
    pub fn start(file_system: TestFileSystem, seekless: &Path) -> Result<Self> {
        let model = DiskModel::named("null").context("there is no disk without delay")?;
        let options = DeviceOptions::new(model, SIZE_BYTES, &file_system.name());
        let server = |name: &DeviceName| {
            let mut command = Command::new(seekless);
            command.args(["sim", "serve", name.as_str()]);
            command
        };
        let (name, state) = device::start(&options, server, &|| check_interrupt().is_err())?;
        let point = state.mount_point.context("a file system is mounted")?;
        if file_system != TestFileSystem::Xfs {
            // So often it writes what is in memory. XFS has no such option.
            capture(Command::new("mount").args(["-o", "remount,commit=1"]).arg(&point))?;
        }
        Ok(Self {
            file_system,
            point,
            name,
        })
    }

    /// Whether the power is gone: nobody who waits for the disk gets an answer.
    pub fn is_power_lost(&self) -> Result<bool> {
        Ok(device::is_power_lost(&self.name)?)
    }
}

impl Drop for NullDisk {
    fn drop(&mut self) {
        if let Err(error) = device::stop(&self.name, true) {
            eprintln!("warning: {error}");
        }
    }
}
