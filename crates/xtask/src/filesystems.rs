//! Real file systems to test on, made for the occasion: ext4, XFS and btrfs in image files, a tmpfs, an overlay, and two
//! of FUSE.
//!
//! Needs root on Linux. Whatever was mounted is unmounted and removed when its guard is dropped. A file system that
//! cannot be made here is a reason, not an error: the others are still worth testing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, thread};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::process::{capture, is_installed, is_root, succeeds, value_name};

/// Apparent size of an image; they are sparse. XFS refuses less than 300 MiB. Of 1 GiB, btrfs gives 51 MiB to metadata,
/// and turned itself read-only when thousands of small files came and went.
const IMAGE_BYTES: u64 = 4 << 30;

/// A file system that can be made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TestFileSystem {
    /// ext4 on a loop device.
    Ext4,
    /// XFS with reflinks on a loop device.
    Xfs,
    /// btrfs on a loop device.
    Btrfs,
    /// Memory.
    Tmpfs,
    /// An overlay of two directories.
    Overlay,
    /// A directory again, by FUSE.
    Bindfs,
    /// ext4 in a file, by FUSE.
    Fuse2fs,
}

impl TestFileSystem {
    /// Whether it shows what others store, or is a program's: methods are not expected to do there what their names say.
    pub fn is_layered(self) -> bool {
        matches!(self, Self::Overlay | Self::Bindfs | Self::Fuse2fs)
    }

    /// Its name, which is that for `mount -t` where that mounts it.
    pub fn name(self) -> String {
        value_name(&self)
    }

    /// The command that makes what it needs beside POINT, and the one that mounts it there.
    fn commands(self) -> [&'static str; 2] {
        match self {
            Self::Ext4 => ["mkfs.ext4 -q -F POINT.img", "mount -t ext4 -o loop POINT.img POINT"],
            Self::Xfs => [
                "mkfs.xfs -q -m reflink=1 POINT.img",
                "mount -t xfs -o loop POINT.img POINT",
            ],
            Self::Btrfs => ["mkfs.btrfs -q POINT.img", "mount -t btrfs -o loop POINT.img POINT"],
            Self::Tmpfs => ["true", "mount -t tmpfs -o size=1G tmpfs POINT"],
            Self::Overlay => [
                "mkdir POINT-lower POINT-upper POINT-work",
                "mount -t overlay -o lowerdir=POINT-lower,upperdir=POINT-upper,workdir=POINT-work overlay POINT",
            ],
            Self::Bindfs => ["mkdir POINT-source", "bindfs POINT-source POINT"],
            Self::Fuse2fs => ["mkfs.ext4 -q -F POINT.img", "fuse2fs -o fakeroot POINT.img POINT"],
        }
    }
}

/// Why no file system at all can be mounted here, if so.
pub fn why_not_here() -> Option<&'static str> {
    match (cfg!(target_os = "linux"), is_root()) {
        (false, _) => Some("needs Linux (loop mounts)"),
        (true, false) => Some("needs root (loop mounts)"),
        (true, true) => None,
    }
}

/// Several file systems, mounted until this is dropped.
pub struct Matrix {
    // Before the directory that holds them: fields are dropped in this order.
    /// What is mounted, and where.
    pub mounted: Vec<MountedImage>,
    /// What could not be, as `name: reason`.
    pub skipped: Vec<String>,
    directory: TempDir,
}

impl Matrix {
    /// Makes and mounts all that are available here.
    pub fn mount(wanted: &[TestFileSystem]) -> Result<Self> {
        Self::mount_in(&directory_on_disk(), wanted)
    }

    /// The same, with the images in a directory of `parent`.
    pub fn mount_in(parent: &Path, wanted: &[TestFileSystem]) -> Result<Self> {
        let mut directory = tempfile::Builder::new();
        let directory = directory.prefix("seekless-filesystems-").tempdir_in(parent);
        let directory = directory.with_context(|| format!("cannot make a directory in {}", parent.display()))?;
        let mut matrix = Self {
            mounted: Vec::new(),
            skipped: Vec::new(),
            directory,
        };
        if let Some(reason) = why_not_here() {
            matrix.skipped.push(format!("file systems: {reason}"));
            return Ok(matrix);
        }
        for &file_system in wanted {
            match MountedImage::new(file_system, matrix.directory.path()) {
                Ok(mounted) => matrix.mounted.push(mounted),
                Err(error) => matrix.skipped.push(format!("{}: {error:#}", file_system.name())),
            }
            crate::process::check_interrupt()?;
        }
        Ok(matrix)
    }
}

/// One mounted file system. Dropping it unmounts it.
pub struct MountedImage {
    pub file_system: TestFileSystem,
    pub point: PathBuf,
}

impl MountedImage {
    /// Makes and mounts one, with its image beside its mount point in `directory`.
    pub fn new(file_system: TestFileSystem, directory: &Path) -> Result<Self> {
        let point = directory.join(file_system.name());
        fs::create_dir(&point).with_context(|| format!("cannot make {}", point.display()))?;
        let [make, mount] = file_system.commands();
        // mkfs.btrfs looks at all loop devices, and fails if one is removed meanwhile.
        let make = || run_at(&point, make);
        make().or_else(|_| make()).or_else(|_| make())?;
        // Made before mounting: an interrupt in between must still unmount.
        let mounted = Self { file_system, point };
        run_at(&mounted.point, mount).map(|()| mounted)
    }

    fn is_mounted(&self) -> bool {
        succeeds(Command::new("mountpoint").arg("-q").arg(&self.point))
    }

    fn unmount(&self) -> bool {
        // A program that was just ended may hold the mount for a moment longer.
        for _ in 0..25 {
            if !self.is_mounted() || succeeds(Command::new("umount").arg(&self.point)) {
                return true;
            }
            thread::sleep(Duration::from_millis(200));
        }
        false
    }
}

impl Drop for MountedImage {
    fn drop(&mut self) {
        if !self.unmount() && !succeeds(Command::new("umount").arg("--lazy").arg(&self.point)) {
            eprintln!("warning: {} stays mounted", self.point.display());
        }
    }
}

/// Runs a command for a mount point, which begins with an image that is empty.
fn run_at(point: &Path, command: &str) -> Result<()> {
    let place = point.to_str().context("the path of a mount point is not valid text")?;
    let mut words = command.split(' ').map(|word| word.replace("POINT", place));
    let program = words.next().unwrap_or_default();
    ensure!(is_installed(&program), "{program} is not installed");
    if program.starts_with("mkfs") {
        let image = File::create(point.with_extension("img")).and_then(|file| file.set_len(IMAGE_BYTES));
        image.with_context(|| format!("cannot make {place}.img"))?;
    }
    capture(Command::new(program).args(words)).map(drop)
}

/// `/tmp` is often memory; `/var/tmp` is on a disk.
fn directory_on_disk() -> PathBuf {
    let on_disk = PathBuf::from("/var/tmp");
    if on_disk.is_dir() { on_disk } else { env::temp_dir() }
}

#[cfg(test)]
mod tests {
    use super::TestFileSystem::{Bindfs, Fuse2fs, Overlay, Tmpfs};
    use super::*;

    #[test]
    fn a_missing_maker_is_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let error = run_at(&directory.path().join("point"), "mkfs.none POINT.img").unwrap_err();
        assert_eq!(error.to_string(), "mkfs.none is not installed");
        assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
    }

    #[test]
    fn dropping_the_matrix_unmounts_and_removes_everything() {
        if let Some(reason) = why_not_here() {
            return eprintln!("skipped: {reason}");
        }
        let matrix = Matrix::mount(&[Tmpfs, Overlay, Bindfs, Fuse2fs]).unwrap();
        let directory = matrix.directory.path().to_owned();
        for reason in &matrix.skipped {
            eprintln!("skipped: {reason}");
        }
        for mounted in &matrix.mounted {
            assert!(mounted.is_mounted(), "{}", mounted.file_system.name());
            fs::write(mounted.point.join("file"), "x").unwrap();
        }
        drop(matrix);
        assert!(!directory.exists());
    }
}
