//! The programs that the tests need and Debian's packages of them.

use std::process::Command;

use anyhow::Result;

use crate::process::{check_interrupt, is_installed, is_root, run};

/// A program, and the package that brings it.
const NEEDED: [(&str, &str); 4] = [
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("fio", "fio"),
];

/// Installs what is missing where that is possible. Returns what will be missing all the same, and why.
pub fn install_missing() -> Result<Vec<String>> {
    let missing = missing();
    if missing.is_empty() {
        println!("nothing is missing");
        return Ok(Vec::new());
    }
    let mut reason = if !cfg!(target_os = "linux") {
        "used on Linux only".to_owned()
    } else if !is_installed("apt-get") {
        "there is no apt-get to install it".to_owned()
    } else if !is_root() {
        "installing it needs root".to_owned()
    } else {
        String::new()
    };
    if reason.is_empty() {
        let packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
        println!("installing {}", packages.join(", "));
        if let Err(error) = apt_get(&["update"]).and_then(|()| apt_get(&[&["install", "-y"], &packages[..]].concat())) {
            check_interrupt()?;
            reason = format!("{error:#}");
        }
    }
    let tell = |(program, package)| format!("what needs {program} (package {package}): {reason}");
    Ok(self::missing().into_iter().map(tell).collect())
}

fn missing() -> Vec<(&'static str, &'static str)> {
    NEEDED
        .into_iter()
        .filter(|(program, _)| !is_installed(program))
        .collect()
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    run(Command::new("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .arg("-qq")
        .args(arguments))
}
