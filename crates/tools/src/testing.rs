//! How much the tests of this crate try: a long run tries everything, a short one a part that takes less than a second;
//! mounts; and a naive walk.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether tests try everything: `SEEKLESS_TEST_LONG` is set.
pub fn is_long() -> bool {
    std::env::var_os("SEEKLESS_TEST_LONG").is_some()
}

/// A value for long runs, or the one for short runs.
pub fn long_or<T>(long: T, short: T) -> T {
    if is_long() { long } else { short }
}

/// The cases of a property test: so many in a long run, a twelfth in a short one.
pub fn cases(long: u32) -> proptest::prelude::ProptestConfig {
    proptest::prelude::ProptestConfig::with_cases(long_or(long, long.div_ceil(12)))
}

/// Runs a program that changes mounts, or makes what is mounted; whether it could.
pub fn mounts(program: &str, arguments: &[&OsStr]) -> bool {
    let done = Command::new(program).args(arguments).stderr(Stdio::null()).status();
    let is_done = done.is_ok_and(|status| status.success());
    if !is_done {
        println!("skipped: {program} is not permitted here");
    }
    is_done
}

/// A path and all below it, with what a naive look finds there: metadata, and the bytes of files or the targets of links.
pub fn naive_walk(root: &Path) -> BTreeMap<PathBuf, (Metadata, Vec<u8>)> {
    let entries = walkdir::WalkDir::new(root).into_iter().map(|entry| {
        let path = entry.unwrap().into_path();
        let metadata = path.symlink_metadata().unwrap();
        let bytes = match metadata.file_type() {
            kind if kind.is_file() => std::fs::read(&path).unwrap(),
            kind if kind.is_symlink() => std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            _ => Vec::new(),
        };
        (path, (metadata, bytes))
    });
    entries.collect()
}

/// Unmounts in the end.
pub struct Mounted(pub PathBuf);

impl Mounted {
    /// A tmpfs with these options on a directory, which is made; `None` if mounting is not permitted.
    pub fn tmpfs(directory: PathBuf, options: &str) -> Option<Self> {
        std::fs::create_dir_all(&directory).unwrap();
        let words = ["-t", "tmpfs", "-o", options, "none"].map(OsStr::new);
        mounts("mount", &[&words[..], &[directory.as_os_str()]].concat()).then_some(Self(directory))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        mounts("umount", &[self.0.as_os_str()]);
    }
}
