//! The programs that the tests need and Debian's packages of them.

use std::process::Command;

use anyhow::{Result, anyhow};

use crate::process::{check_interrupt, is_installed, is_root, run};

/// A program, or another file by its path, and the package that brings it.
type Needed = (&'static str, &'static str);

const NEEDED: [Needed; 35] = [
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("fio", "fio"),
    ("vmtouch", "vmtouch"),
    ("bindfs", "bindfs"),
    ("mksquashfs", "squashfs-tools"),
    ("fuse2fs", "fuse2fs"),
    ("mkfs.exfat", "exfatprogs"),
    ("mount.exfat-fuse", "exfat-fuse"),
    ("mergerfs", "mergerfs"),
    ("ntfs-3g", "ntfs-3g"),
    ("linux.uml", "user-mode-linux"),
    ("modprobe", "kmod"),
    ("rpc.nfsd", "nfs-kernel-server"),
    ("smbd", "samba"),
    ("mount.cifs", "cifs-utils"),
    ("trash-list", "trash-cli"),
    ("gio", "libglib2.0-bin"),
    ("strace", "strace"),
    ("valgrind", "valgrind"),
    ("chromium", "chromium"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("cc", "gcc"),
    ("c++", "g++"),
    ("mcs", "mono-mcs"),
    ("pkg-config", "pkg-config"),
    ("python3", "python3"),
    ("/usr/share/doc/python3-venv/copyright", "python3-venv"),
    ("jdupes", "jdupes"),
    ("rdfind", "rdfind"),
    ("fdupes", "fdupes"),
    ("rmlint", "rmlint"),
    ("/usr/include/liburing.h", "liburing-dev"),
];

/// What only the long form uses: Spark, and a database of the hub.
const NEEDED_LONG: [Needed; 2] = [("java", "default-jre-headless"), ("pg_ctlcluster", "postgresql")];

/// Installs what is missing where that is possible. Returns what will be missing nevertheless, and why.
pub fn install_missing(is_long: bool) -> Result<Vec<String>> {
    let long: &[Needed] = if is_long { &NEEDED_LONG } else { &[] };
    let missing = || NEEDED.iter().chain(long).filter(|(program, _)| !is_installed(program));
    let packages: Vec<_> = missing().map(|(_, package)| *package).collect();
    let installed = match why_not_installable() {
        _ if packages.is_empty() => Ok(()),
        Some(reason) => Err(anyhow!(reason)),
        None => install(&packages),
    };
    check_interrupt()?;
    let reason = installed.map_or_else(|error| format!("{error:#}"), |()| "apt-get did not bring it".to_owned());
    let tell = |(program, package): &Needed| format!("what needs {program} (package {package}): {reason}");
    Ok(missing().map(tell).collect())
}

fn why_not_installable() -> Option<&'static str> {
    if !cfg!(target_os = "linux") {
        Some("used on Linux only")
    } else if !is_installed("apt-get") {
        Some("there is no apt-get to install it")
    } else if !is_root() {
        Some("installing it needs root")
    } else {
        None
    }
}

fn install(packages: &[&str]) -> Result<()> {
    println!("installing {}", packages.join(", "));
    apt_get(&["update"])?;
    apt_get(&[&["install", "-y"], packages].concat())
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    run(Command::new("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .arg("-qq")
        .args(arguments))
}
