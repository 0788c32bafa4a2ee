//! Refusals to users without privileges. If root runs the tests, the command is started as `nobody`.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::cp_like_gnu::attribute;
use super::place::{Ended, SMALL_BENCH, wait_for};

/// The number of a user who owns nothing.
pub const NOBODY: u32 = 65_534;

/// A directory that everybody may enter, with the command in it: the target directory may be closed to other users.
pub struct Common {
    all: tempfile::TempDir,
}

impl Common {
    pub fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        fs::set_permissions(all.path(), Permissions::from_mode(0o755)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_seekless"), all.path().join("seekless")).unwrap();
        for (name, mode) in [("open", 0o777), ("shut", 0o555)] {
            fs::create_dir(all.path().join(name)).unwrap();
            fs::set_permissions(all.path().join(name), Permissions::from_mode(mode)).unwrap();
        }
        Self { all }
    }

    pub fn directory(&self) -> &Path {
        self.all.path()
    }

    pub fn run(&self, arguments: &[&str]) -> Ended {
        let mut command = self.command(self.directory().join("seekless"));
        command.args(arguments);
        // While another test forks, its child may still hold the copied program open for writing.
        wait_for("the program may run", || {
            Command::new(self.directory().join("seekless"))
                .arg("--version")
                .stdout(Stdio::null())
                .status()
                .is_ok()
        });
        Ended::of(command.spawn().unwrap())
    }

    /// A program that starts in the directory, without privileges.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.directory())
            .env("XDG_DATA_HOME", self.directory().join("open/data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

#[test]
fn a_directory_that_is_not_writable_is_refused() {
    let common = Common::new();
    for arguments in [&["bench", "--dir", "shut"][..], &["methods", "--dir", "shut"]] {
        let sentence = common.run(arguments).refused();
        assert!(
            sentence.contains("shut") && sentence.contains("Permission denied"),
            "{sentence}"
        );
    }
    let sentence = common
        .run(&["bench", "--dir", "open", "--export-json", "shut/run.json"])
        .refused();
    assert!(
        sentence.contains("shut/run.json") && sentence.contains("Permission denied"),
        "{sentence}"
    );
    let mut left = fs::read_dir(common.directory().join("open")).unwrap();
    // The store's directory has the lock by which benches take turns.
    assert!(left.all(|entry| entry.unwrap().file_name() == "data"));
}

#[test]
fn an_unreadable_file_is_refused() {
    let common = Common::new();
    for name in ["secret", "secret.toml"] {
        fs::write(common.directory().join(name), b"bytes").unwrap();
        fs::set_permissions(common.directory().join(name), Permissions::from_mode(0o000)).unwrap();
    }
    for arguments in [&["bench", "--file", "secret"][..], &["bench", "secret.toml"]] {
        let sentence = common.run(arguments).refused();
        assert!(
            sentence.contains("secret") && sentence.contains("Permission denied"),
            "{sentence}"
        );
    }
}

#[test]
fn a_file_that_is_protected_from_writing_is_not_replaced() {
    let common = Common::new();
    let path = common.directory().join("open/run.json");
    fs::write(&path, b"old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    let sentence = common
        .run(&["bench", "--dir", "open", "--export-json", "open/run.json"])
        .refused();
    assert!(sentence.contains("Permission denied"), "{sentence}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

#[test]
fn a_copy_of_a_file_that_is_not_writable_keeps_its_attributes() {
    let common = Common::new();
    let [from, to] = ["open/from", "open/to"].map(|name| common.directory().join(name));
    fs::write(&from, b"bytes").unwrap();
    if !attribute(&from, "user.about", b"value") {
        println!("skipped: no extended attributes here");
        return;
    }
    fs::set_permissions(&from, Permissions::from_mode(0o444)).unwrap();
    common.run(&["cp", "open/from", "open/to"]).succeeded();
    let mut value = [0; 5];
    let length = rustix::fs::getxattr(&to, "user.about", &mut value).unwrap();
    assert_eq!(
        (&value[..length], fs::metadata(&to).unwrap().mode() & 0o777),
        (&b"value"[..], 0o444)
    );
}

#[test]
fn a_group_that_cannot_be_kept_gives_no_other_group_its_rights() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root makes files of other groups");
        return;
    }
    let common = Common::new();
    let path = common.directory().join("open/run.json");
    fs::write(&path, b"old").unwrap();
    std::os::unix::fs::chown(&path, Some(NOBODY), Some(0)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
    let export = ["read/sync,block=1M", "--dir", "open", "--export-json", "open/run.json"];
    common.run(&[&SMALL_BENCH[..], &export].concat()).succeeded();
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.gid()), (NOBODY, NOBODY));
    assert_eq!(found.mode() & 0o777, 0o644, "read, as everybody may");
}

#[test]
fn emptying_the_system_s_cache_needs_root_and_says_so() {
    let common = Common::new();
    let sentence = common.run(&["bench", "--dir", "open", "--drop", "system"]).refused();
    assert!(sentence.contains("needs root"), "{sentence}");
}

#[test]
fn measuring_needs_no_privilege() {
    let common = Common::new();
    let small = [
        "bench",
        "--size",
        "1M",
        "--rounds",
        "1",
        "--methods",
        "*/sync,block=1M*",
    ];
    let ended = common.run(&[&small[..], &["--dir", "open"]].concat()).succeeded();
    assert!(ended.stdout.contains("1 MiB, cold"), "{}", ended.stdout);
}

#[test]
fn what_may_not_be_limited_is_not_measured_and_says_why() {
    let common = Common::new();
    let refusal = common
        .run(&[&SMALL_BENCH[..], &["read/mmap", "--dir", "open", "--cache", "over"]].concat())
        .refused();
    assert!(
        refusal.contains("nothing was measured: read/mmap: not available: "),
        "{refusal}"
    );
}
