//! Mounts, from `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`). Paths are bytes.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::files::number_text;

/// Holds the mounts of most machines.
const ROOM_BYTES: usize = 16 << 10;

/// A line of mountinfo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// The number of the mount ([`seekless_sys::mount_id`]).
    pub id: u64,
    /// The device number as `MAJOR:MINOR`. Without a block device, it names no device.
    pub device: String,
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// The mount's own options, and those of the file system that are not among them.
    pub options: String,
    /// The name of the file system, as in `ext4`.
    pub file_system: String,
    /// The source of the mount.
    pub source: PathBuf,
}

/// The mounts that this process sees, in the order of mounting.
#[derive(Clone, Debug, Default)]
pub struct Mounts(Vec<Mount>);

impl Mounts {
    /// The mounts of this process; none without `/proc`.
    #[must_use]
    pub fn of_this_process() -> Self {
        // Files of `/proc` do not tell their size: without room, they would be read in many small pieces.
        let mut text = Vec::with_capacity(ROOM_BYTES);
        let read = File::open("/proc/self/mountinfo").and_then(|mut file| file.read_to_end(&mut text));
        Self::parse(read.map_or(&[], |_| &text))
    }

    /// Parses the text of mountinfo; malformed lines are skipped.
    pub(crate) fn parse(mountinfo: &[u8]) -> Self {
        Self(mountinfo.split(|&byte| byte == b'\n').filter_map(parse_line).collect())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Mount> {
        self.0.iter()
    }

    /// The mount of a path without links: the one with the longest mount point, the last of equals. A mount with the
    /// path's device number takes precedence, because others may be hidden below it.
    pub(crate) fn holding(&self, path: &Path, device_number: u64) -> Option<&Mount> {
        let device = number_text(device_number);
        let holding = || self.0.iter().filter(|mount| path.starts_with(&mount.point));
        let deepest = |mount: &&Mount| mount.point.components().count();
        holding()
            .filter(|mount| mount.device == device)
            .max_by_key(deepest)
            .or_else(|| holding().max_by_key(deepest))
    }
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let separator = fields.iter().position(|field| *field == b"-")?;
    let (left, right) = (&fields[..separator], &fields[separator + 1..]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(&unescaped(bytes)).into_owned();
    let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(unescaped(bytes)));
    let own = text(left.get(5)?);
    let of_file_system = right.get(2).map(|options| text(options)).unwrap_or_default();
    Some(Mount {
        id: text(left.first()?).parse().ok()?,
        root: path(left.get(3)?),
        device: text(left.get(2)?),
        point: path(left.get(4)?),
        options: joined_options(&own, &of_file_system),
        file_system: text(right.first()?),
        source: path(right.get(1)?),
    })
}

/// The mount's own options, and those of the file system that are not among them. Where one of both is read-only, files are.
fn joined_options(mount: &str, file_system: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    for option in mount.split(',').chain(file_system.split(',')) {
        if !option.is_empty() && !all.contains(&option) {
            all.push(option);
        }
    }
    if all.contains(&"ro") {
        all.retain(|option| *option != "rw");
    }
    all.join(",")
}

/// Undoes the octal escapes of mountinfo: a backslash and three digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let octal = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(first));
        rest = octal.map_or(after, |_| &after[3..]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 22 0:25 / /mnt/a\\040b rw - tmpfs tmpfs rw,size=4k
31 22 0:26 /x /mnt/a\\040b ro - btrfs /dev/loop0 rw,ssd
32 22 0:27 / /mnt/\xff rw - tmpfs odd
no line of it
";

    #[test]
    fn the_last_of_the_deepest_mounts_holds_the_path() {
        let mounts = Mounts::parse(MOUNTS);
        let mount = mounts.holding(Path::new("/mnt/a b/c"), 0).unwrap();
        let expected = ("btrfs", "ro,ssd");
        assert_eq!((mount.file_system.as_str(), mount.options.as_str()), expected);
        assert_eq!(mount.source, Path::new("/dev/loop0"));
        assert_eq!((mount.id, mount.root.as_path()), (31, Path::new("/x")));
        assert_eq!(mounts.holding(Path::new("/mnt/ab"), 0).unwrap().file_system, "ext4");
        assert!(Mounts::default().holding(Path::new("/"), 0).is_none());
    }

    #[test]
    fn of_several_mounts_the_one_with_the_path_s_device_holds_it() {
        let mounts = Mounts::parse(MOUNTS);
        let found = mounts.holding(Path::new("/mnt/a b/c"), 25).unwrap();
        assert_eq!(found.file_system, "tmpfs");
    }

    #[test]
    fn a_mount_point_may_be_no_utf_8_and_have_no_options() {
        let mounts = Mounts::parse(MOUNTS);
        let path = PathBuf::from(OsString::from_vec(b"/mnt/\xff/file".to_vec()));
        let mount = mounts.holding(&path, 0).unwrap();
        let expected = (Path::new("odd"), "rw");
        assert_eq!((mount.source.as_path(), mount.options.as_str()), expected);
    }

    #[test]
    fn a_backslash_without_digits_is_itself() {
        assert_eq!(unescaped(b"a\\134b\\x\\08"), b"a\\b\\x\\08");
    }
}
