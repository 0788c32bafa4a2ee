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

use crate::process::{capture, capture_always, is_installed, is_root, value_name};

/// Apparent size of an image; they are sparse. XFS refuses less than 300 MiB. Of 1 GiB, btrfs gives 51 MiB to metadata,
/// and turned itself read-only when thousands of small files came and went.
const IMAGE_BYTES: u64 = 4 << 30;
/// Limit of a tmpfs.
const MEMORY_BYTES: u64 = 1 << 30;

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

    /// The program that makes it and its options; none for what needs no image.
    fn maker(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Ext4 | Self::Fuse2fs => Some(&["mkfs.ext4", "-q", "-F"]),
            Self::Xfs => Some(&["mkfs.xfs", "-q", "-m", "reflink=1"]),
            Self::Btrfs => Some(&["mkfs.btrfs", "-q"]),
            Self::Tmpfs | Self::Overlay | Self::Bindfs => None,
        }
    }
}

/// Why no file system at all can be mounted here, if so.
pub fn why_not_here() -> Option<&'static str> {
    if !cfg!(target_os = "linux") {
        Some("needs Linux (loop mounts)")
    } else if !is_root() {
        Some("needs root (loop mounts)")
    } else {
        None
    }
}

/// Several file systems, mounted until this is dropped.
pub struct Matrix {
    // Before the directory that holds them: fields are dropped in this order.
    mounted: Vec<Mounted>,
    skipped: Vec<String>,
    directory: TempDir,
}

impl Matrix {
    /// Makes and mounts all that are available here.
    pub fn mount(wanted: &[TestFileSystem]) -> Result<Self> {
        Self::mount_in(&directory_on_disk(), wanted)
    }

    /// The same, with the images in a directory of `parent`.
    pub fn mount_in(parent: &Path, wanted: &[TestFileSystem]) -> Result<Self> {
        let directory = directory_in(parent)?;
        let mut matrix = Self {
            mounted: Vec::new(),
            skipped: Vec::new(),
            directory,
        };
        for &file_system in wanted {
            match Mounted::new(file_system, matrix.directory.path()) {
                Ok(mounted) => matrix.mounted.push(mounted),
                Err(error) => matrix.skipped.push(format!("{}: {error:#}", file_system.name())),
            }
            crate::process::check_interrupt()?;
        }
        Ok(matrix)
    }

    /// What is mounted, and where.
    pub fn mounted(&self) -> &[Mounted] {
        &self.mounted
    }

    /// What could not be, as `name: reason`.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }
}

/// One mounted file system. Dropping it unmounts it.
pub struct Mounted {
    file_system: TestFileSystem,
    point: PathBuf,
}

impl Mounted {
    /// Makes and mounts one, with its image beside its mount point in `directory`.
    pub fn new(file_system: TestFileSystem, directory: &Path) -> Result<Self> {
        let name = file_system.name();
        let point = directory.join(&name);
        fs::create_dir(&point).with_context(|| format!("cannot make {}", point.display()))?;
        let image = directory.join(format!("{name}.img"));
        if let Some(maker) = file_system.maker() {
            make_image(&image, maker)?;
        }
        let mut mount = mount_command(file_system, directory, &image)?;
        // Made before mounting: an interrupt in between must still unmount.
        let mounted = Self { file_system, point };
        capture(mount.arg(&mounted.point)).map(|_| mounted)
    }

    /// Which one it is.
    pub fn file_system(&self) -> TestFileSystem {
        self.file_system
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Mounts what the device holds at this moment, as after a loss of power. The image must be on XFS or btrfs, where a
    /// reflink is a snapshot of one moment.
    #[cfg(target_os = "linux")]
    pub fn lose_power(&self) -> Result<()> {
        let [image, moment] = ["img", "moment"].map(|extension| self.point.with_extension(extension));
        capture(Command::new("cp").arg("--reflink=always").args([&image, &moment]))?;
        ensure!(self.unmount(), "{} stays mounted", self.point.display());
        fs::rename(&moment, &image).with_context(|| format!("cannot rename {}", moment.display()))?;
        capture(mount_command(self.file_system, &self.point, &image)?.arg(&self.point)).map(drop)
    }

    fn is_mounted(&self) -> bool {
        capture_always(Command::new("mountpoint").arg("-q").arg(&self.point)).is_ok()
    }

    fn unmount(&self) -> bool {
        // A program that was just ended may hold the mount for a moment longer.
        for _ in 0..25 {
            if !self.is_mounted() || capture_always(Command::new("umount").arg(&self.point)).is_ok() {
                return true;
            }
            thread::sleep(Duration::from_millis(200));
        }
        false
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.unmount() {
            return;
        }
        if let Err(error) = capture_always(Command::new("umount").arg("--lazy").arg(&self.point)) {
            eprintln!("warning: {} stays mounted: {error:#}", self.point.display());
        }
    }
}

/// The command that mounts a file system, all but the mount point, and what it needs beside it in `directory`.
fn mount_command(file_system: TestFileSystem, directory: &Path, image: &Path) -> Result<Command> {
    let name = file_system.name();
    let beside = |part: &str| {
        let path = directory.join(format!("{name}-{part}"));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        anyhow::Ok(path)
    };
    let mut command = match file_system {
        TestFileSystem::Bindfs | TestFileSystem::Fuse2fs => {
            ensure!(is_installed(&name), "{name} is not installed");
            Command::new(&name)
        }
        _ => Command::new("mount"),
    };
    match file_system {
        TestFileSystem::Ext4 | TestFileSystem::Xfs | TestFileSystem::Btrfs => {
            command.args(["-t", &name, "-o", "loop"]).arg(image);
        }
        TestFileSystem::Tmpfs => {
            command.args(["-t", &name, "-o", &format!("size={MEMORY_BYTES}"), &name]);
        }
        TestFileSystem::Overlay => {
            let (lower, upper, work) = (beside("lower")?, beside("upper")?, beside("work")?);
            let [lower, upper, work] = [&lower, &upper, &work].map(|path| path.display());
            let layers = format!("lowerdir={lower},upperdir={upper},workdir={work}");
            command.args(["-t", &name, "-o", &layers, &name]);
        }
        TestFileSystem::Bindfs => {
            command.arg(beside("source")?);
        }
        TestFileSystem::Fuse2fs => {
            command.args(["-o", "fakeroot"]).arg(image);
        }
    }
    Ok(command)
}

fn make_image(image: &Path, maker: &[&str]) -> Result<()> {
    let (program, options) = maker.split_first().context("a maker has a program")?;
    ensure!(is_installed(program), "{program} is not installed");
    let file = File::create_new(image).with_context(|| format!("cannot make {}", image.display()))?;
    file.set_len(IMAGE_BYTES)
        .with_context(|| format!("cannot extend {}", image.display()))?;
    drop(file);
    // mkfs.btrfs looks at all loop devices, and fails if one is removed meanwhile.
    let make = || capture(Command::new(program).args(options).arg(image)).map(drop);
    make().or_else(|_| make()).or_else(|_| make())
}

/// A directory for images, on a disk.
pub fn directory() -> Result<TempDir> {
    directory_in(&directory_on_disk())
}

fn directory_in(parent: &Path) -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    let made = builder.prefix("seekless-filesystems-").tempdir_in(parent);
    made.with_context(|| format!("cannot make a directory for file-system images in {}", parent.display()))
}

/// `/tmp` is often memory; `/var/tmp` is on a disk.
fn directory_on_disk() -> PathBuf {
    let on_disk = PathBuf::from("/var/tmp");
    if on_disk.is_dir() { on_disk } else { env::temp_dir() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_maker_is_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let error = make_image(&directory.path().join("image"), &["mkfs.none"]).unwrap_err();
        assert_eq!(error.to_string(), "mkfs.none is not installed");
        assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
    }

    #[test]
    fn a_loss_of_power_leaves_what_was_synced_and_nothing_that_was_not() {
        if let Some(reason) = why_not_here() {
            eprintln!("skipped: {reason}");
            return;
        }
        let matrix = Matrix::mount(&[TestFileSystem::Xfs]).unwrap();
        let Some(host) = matrix.mounted().first() else {
            eprintln!("skipped: {}", matrix.skipped().join("; "));
            return;
        };
        for file_system in [TestFileSystem::Ext4, TestFileSystem::Xfs, TestFileSystem::Btrfs] {
            let mounted = Mounted::new(file_system, host.point()).unwrap();
            let path = |name: &str| mounted.point().join(name);
            fs::write(path("synced"), "synced").unwrap();
            File::open(path("synced")).unwrap().sync_all().unwrap();
            fs::write(path("unsynced"), "unsynced").unwrap();
            mounted.lose_power().unwrap();
            assert_eq!(fs::read_to_string(path("synced")).unwrap(), "synced");
            assert!(!path("unsynced").exists(), "{}", file_system.name());
        }
    }

    #[test]
    fn dropping_the_matrix_unmounts_and_removes_everything() {
        if let Some(reason) = why_not_here() {
            eprintln!("skipped: {reason}");
            return;
        }
        let wanted = [
            TestFileSystem::Tmpfs,
            TestFileSystem::Overlay,
            TestFileSystem::Bindfs,
            TestFileSystem::Fuse2fs,
        ];
        let matrix = Matrix::mount(&wanted).unwrap();
        let directory = matrix.directory.path().to_owned();
        for reason in matrix.skipped() {
            eprintln!("skipped: {reason}");
        }
        for mounted in matrix.mounted() {
            assert!(mounted.is_mounted(), "{}", mounted.file_system().name());
            fs::write(mounted.point().join("file"), "x").unwrap();
        }
        drop(matrix);
        assert!(!directory.exists());
    }
}
