//! Installs a package into an empty directory and uses it once.

use std::env::consts::ARCH;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::tempdir;

use super::{VERSION, command, notices};
use crate::process::{capture, is_root, run, succeeds};

/// The archive, unpacked.
pub fn archive(archive: &Path) -> Result<()> {
    let empty = tempdir()?;
    let mut tar = command("tar --extract --strip-components=1 --file");
    run(tar.arg(archive).arg("--directory").arg(empty.path()))?;
    compares(empty.path(), "/seekless")?;
    helps(
        &empty.path().join("man/seekless-cmp.1"),
        &empty.path().join("completions/seekless.bash"),
    )
}

/// The Debian package, installed by dpkg below an empty directory.
pub fn deb(package: &Path) -> Result<()> {
    let empty = tempdir()?;
    let database = empty.path().join("var/lib/dpkg");
    fs::create_dir_all(database.join("info"))?;
    fs::create_dir_all(database.join("updates"))?;
    // The only packages that it finds there are those that the C library needs.
    let needed = capture(&mut command("dpkg-query --status libc6 libgcc-s1"))?;
    fs::write(database.join("status"), needed)?;
    run(as_root("dpkg --root").arg(empty.path()).arg("--install").arg(package))?;
    compares(empty.path(), "/usr/bin/seekless")?;
    compiles(empty.path())?;
    let shared = empty.path().join("usr/share");
    helps(
        &shared.join("man/man1/seekless-cmp.1.gz"),
        &shared.join("bash-completion/completions/seekless"),
    )
}

/// The wheel, installed into an environment of its own, without looking for other packages.
pub fn wheel(wheel: &Path) -> Result<()> {
    let empty = tempdir()?;
    run(command("python3 -m venv").arg(empty.path()))?;
    let python = || Command::new(empty.path().join("bin/python"));
    let mut pip = python();
    pip.args("-m pip install --quiet --no-index --no-deps".split(' '));
    run(pip.arg(wheel))?;
    let read = "import seekless, sys; assert seekless.read(sys.executable)[:4] == b'\\x7fELF'";
    run(python().args(["-c", read]))?;
    says_version(python().args(["-m", "seekless", "--version"]))
}

/// The bill of materials: it names each crate that the program is compiled of.
pub fn sbom(sbom: &Path, target: &str) -> Result<()> {
    let document: Value = serde_json::from_slice(&fs::read(sbom)?)?;
    let components = document["components"].as_array().context("no components")?;
    let of_program = document.pointer("/metadata/component/name");
    let is_of_program = of_program.is_some_and(|name| name == "seekless");
    ensure!(is_of_program, "it is of another program");
    for (name, version) in notices::crates(target)? {
        let is_it = |component: &Value| component["name"] == name && component["version"] == version;
        let is_there = name == "seekless-cli" || components.iter().any(is_it);
        ensure!(is_there, "{name} {version} is missing");
    }
    Ok(())
}

/// Runs the program with the directory as its root, where it finds no library.
fn compares(directory: &Path, program: &str) -> Result<()> {
    fs::write(directory.join("one"), "a")?;
    fs::write(directory.join("other"), "b")?;
    let inside = |arguments: &str| {
        let mut chroot = as_root("chroot");
        chroot.arg(directory).arg(program).args(arguments.split(' '));
        chroot
    };
    says_version(&mut inside("--version"))?;
    run(&mut inside("cmp one one"))?;
    let is_equal = succeeds(&mut inside("cmp -s one other"));
    ensure!(!is_equal, "{program} finds no difference");
    Ok(())
}

/// Compiles a program in C with the library below the directory, and runs it.
fn compiles(directory: &Path) -> Result<()> {
    let libraries = directory.join(format!("usr/lib/{ARCH}-linux-gnu"));
    let mut flags = command("pkg-config --cflags --libs seekless");
    flags.env("PKG_CONFIG_SYSROOT_DIR", directory);
    let flags = capture(flags.env("PKG_CONFIG_LIBDIR", libraries.join("pkgconfig")))?;
    let [source, program] = ["program.c", "program"].map(|name| directory.join(name));
    let text = "#include <seekless.h>\n#include <stdio.h>\nint main(void) { puts(seekless_version()); }\n";
    fs::write(&source, text)?;
    let mut compile = command("cc -o");
    compile.arg(&program).arg(&source);
    run(compile.args(flags.split_whitespace()))?;
    says_version(Command::new(program).env("LD_LIBRARY_PATH", libraries))
}

fn says_version(command: &mut Command) -> Result<()> {
    let text = capture(command)?;
    ensure!(text.contains(VERSION), "another version: {text}");
    Ok(())
}

/// Shows the page of the manual, and loads the script that completes.
fn helps(page: &Path, script: &Path) -> Result<()> {
    let text = capture(command("man --local-file --pager=cat").arg(page))?;
    ensure!(text.contains("byte by byte"), "{} is not about cmp", page.display());
    let load = "source \"$0\" && complete -p seekless";
    capture(command("bash --norc -c").arg(load).arg(script)).map(drop)
}

/// A command that may change its root and install, at least below directories of ours.
fn as_root(words: &str) -> Command {
    let before = if is_root() { "" } else { "unshare --map-root-user " };
    command(&format!("{before}{words}"))
}
