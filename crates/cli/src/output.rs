//! Writing files: what exists is replaced whole or not at all, and what is no regular file is written to, never replaced.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Checks, before anything else is done, that a file can be written at a path.
pub fn check_writable(path: &Path) -> anyhow::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => bail!("{}: is a directory: name a file in it to write to", path.display()),
        Ok(_) => {
            let opened = File::options().append(true).open(path);
            opened
                .with_context(|| format!("{}: opening it for writing failed", path.display()))
                .map(drop)
        }
        Err(_) => {
            let folder = folder_of(path);
            let made = tempfile::tempfile_in(&folder);
            made.with_context(|| format!("{}: no file can be made in its folder", path.display()))
                .map(drop)
        }
    }
}

/// Writes a file: beside it, synced, and renamed over it. A device, FIFO or socket is written to as it is.
pub fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let doing = || format!("{}: writing it failed", path.display());
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return File::options()
            .write(true)
            .open(path)
            .and_then(|mut file| file.write_all(bytes))
            .with_context(doing);
    }
    // A link stays a link: its target is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = folder_of(&target);
    let mut beside = tempfile::Builder::new()
        .prefix(".seekless-")
        .tempfile_in(&folder)
        .with_context(doing)?;
    beside.write_all(bytes).with_context(doing)?;
    if let Ok(found) = fs::metadata(&target) {
        beside
            .as_file()
            .set_permissions(found.permissions())
            .with_context(doing)?;
    } else {
        make_readable(beside.as_file()).with_context(doing)?;
    }
    beside.as_file().sync_all().with_context(doing)?;
    beside.persist(&target).with_context(doing)?;
    File::open(&folder)
        .and_then(|folder| folder.sync_all())
        .with_context(doing)
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Files beside are made for their owner only; what is published is for all that the folder lets in.
fn make_readable(file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_a_link_to_it_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        write_file(&file, b"one").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_file(&link, b"two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_device_is_written_to_and_stays_a_device() {
        use std::os::unix::fs::FileTypeExt;
        // Another null device than the system's, so that a failure here harms nobody.
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("null");
        let made = std::process::Command::new("mknod")
            .arg(&device)
            .args(["c", "1", "3"])
            .output();
        if !made.is_ok_and(|made| made.status.success()) {
            println!("skipped: making a device needs root");
            return;
        }
        check_writable(&device).unwrap();
        write_file(&device, b"bytes").unwrap();
        assert!(fs::metadata(&device).unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_folder_and_a_missing_folder_are_refused_before_anything_is_done() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            check_writable(folder.path())
                .unwrap_err()
                .to_string()
                .contains("is a directory")
        );
        assert!(check_writable(&folder.path().join("missing/file")).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
