//! The programs that the tests need and Debian's packages of them.

use std::process::Command;

use anyhow::{Result, anyhow};

use crate::process::{check_interrupt, is_installed, is_root, run};

/// Programs, or other files by their paths, each followed by the package that brings it.
const NEEDED: &str = "mkfs.ext4 e2fsprogs mkfs.xfs xfsprogs mkfs.btrfs btrfs-progs mkfs.exfat exfatprogs fio fio vmtouch vmtouch \
    bindfs bindfs mksquashfs squashfs-tools fuse2fs fuse2fs mount.exfat-fuse exfat-fuse mergerfs mergerfs ntfs-3g ntfs-3g \
    linux.uml user-mode-linux modprobe kmod rpc.nfsd nfs-kernel-server smbd samba mount.cifs cifs-utils trash-list trash-cli \
    gio libglib2.0-bin strace strace valgrind valgrind chromium chromium node nodejs npm npm cc gcc c++ g++ mcs mono-mcs \
    pkg-config pkg-config python3 python3 /usr/share/doc/python3-venv/copyright python3-venv jdupes jdupes rdfind rdfind \
    fdupes fdupes rmlint rmlint /usr/include/liburing.h liburing-dev";

/// What only the long form uses: Spark, and a database of the hub.
const NEEDED_LONG: &str = "java default-jre-headless pg_ctlcluster postgresql";

/// Installs what is missing where that is possible. Returns what will be missing nevertheless, and why.
pub fn install_missing(is_long: bool) -> Result<Vec<String>> {
    let long = if is_long { NEEDED_LONG } else { "" };
    let words: Vec<_> = NEEDED.split_whitespace().chain(long.split_whitespace()).collect();
    let missing = || words.chunks(2).filter(|needed| !is_installed(needed[0]));
    let packages: Vec<_> = missing().map(|needed| needed[1]).collect();
    let installed = match why_not_installable() {
        _ if packages.is_empty() => Ok(()),
        Some(reason) => Err(anyhow!(reason)),
        None => install(&packages),
    };
    check_interrupt()?;
    let reason = installed.map_or_else(|error| format!("{error:#}"), |()| "apt-get did not bring it".to_owned());
    let tell = |needed: &[&str]| format!("what needs {} (package {}): {reason}", needed[0], needed[1]);
    Ok(missing().map(tell).collect())
}

fn why_not_installable() -> Option<&'static str> {
    let reasons = [
        (!cfg!(target_os = "linux"), "used on Linux only"),
        (!is_installed("apt-get"), "there is no apt-get to install it"),
        (!is_root(), "installing it needs root"),
    ];
    reasons.into_iter().find(|(is_so, _)| *is_so).map(|(_, reason)| reason)
}

fn install(packages: &[&str]) -> Result<()> {
    println!("installing {}", packages.join(", "));
    for arguments in [&["update"][..], &[&["install", "-y"], packages].concat()] {
        let mut apt_get = Command::new("apt-get");
        run(apt_get
            .env("DEBIAN_FRONTEND", "noninteractive")
            .arg("-qq")
            .args(arguments))?;
    }
    Ok(())
}
