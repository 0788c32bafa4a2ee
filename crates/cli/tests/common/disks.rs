//! Files and file systems that share blocks.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::XattrFlags;
use tempfile::TempDir;

use super::place::{Mount, Place, prepared};

/// A directory on each file system under test, which may map files: a temporary one, or one in each of the directories of
/// `SEEKLESS_TEST_DIRS`.
pub fn directories() -> Vec<TempDir> {
    seekless_engine::allow_mapping().expect("the handler can be installed");
    match std::env::var_os("SEEKLESS_TEST_DIRS") {
        None => vec![tempfile::tempdir().expect("a temporary directory")],
        Some(list) => std::env::split_paths(&list)
            .map(|directory| tempfile::tempdir_in(directory).expect("a directory on the file system under test"))
            .collect(),
    }
}

/// Bytes that no two seeds have in common.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

pub fn blocks_bytes(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Sets the time of change of a file, in seconds since 1970.
pub fn set_modified(path: &Path, seconds: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        .unwrap();
}

pub fn sync(path: &Path) {
    seekless_sys::sync_file_system(&File::open(path).unwrap()).unwrap();
}

pub fn reflink(from: &Path, to: &Path) {
    let arguments = [OsStr::new("--reflink=always"), from.as_os_str(), to.as_os_str()];
    assert!(prepared("cp", &arguments), "{}", to.display());
}

pub fn btrfs(place: &Place, arguments: &[&str]) -> bool {
    let mut command = place.command_of("btrfs");
    let output = command.args(["-q", "subvolume"]).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// An image with a file system that is mounted on `disk`.
pub fn disk(place: &Place, kind: &str) -> Option<Mount> {
    fs::create_dir(place.path("disk")).unwrap();
    let image = place.directory().parent().unwrap().join("image");
    Mount::image(kind, 512 << 20, &image, &place.path("disk"))
}

/// Bytes of a file in the page cache.
pub fn resident_bytes(path: &Path) -> u64 {
    match seekless_engine::cache::resident(path).unwrap() {
        seekless_engine::cache::Resident::Known { resident_bytes, .. } => resident_bytes,
        seekless_engine::cache::Resident::Unknown(why) => panic!("{}: {why}", path.display()),
    }
}

/// Sets an extended attribute, or prints why that cannot be.
pub fn attribute(path: &Path, name: &str, value: &[u8]) -> bool {
    let set = rustix::fs::lsetxattr(path, name, value, XattrFlags::empty());
    if let Err(error) = &set {
        println!("skipped: {name} of {}: {error}", path.display());
    }
    set.is_ok()
}

/// An access control list: the owner may do everything, user 77 read, the mask is `mask`, others
/// nothing.
pub fn list_with_mask(mask: u16) -> Vec<u8> {
    let none = u32::MAX;
    let entries = [
        (1_u16, 7_u16, none),
        (2, 4, 77),
        (4, 0, none),
        (16, mask, none),
        (32, 0, none),
    ];
    let entries = entries.iter().flat_map(|(tag, rights, id)| {
        let entry = [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()];
        entry.concat()
    });
    2_u32.to_le_bytes().into_iter().chain(entries).collect()
}
