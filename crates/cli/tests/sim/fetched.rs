//! What is read from a disk with a head where files are fetched into the page cache first, and what memory that may take. Needs root.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::disks::{reflink, sync};
use crate::common::groups::{Groups, Names, Seen};
use crate::common::place::{Ended, Place};
use crate::common::simulated::{self, SimulatedDisk, random};

/// What the metadata of a few files takes, and measuring seeks.
const SLACK_BYTES: u64 = 1 << 20;

/// A simulated disk, and what commands read from it.
struct CountedDisk<'a> {
    place: &'a Place,
    arguments: Vec<String>,
    disk: Option<SimulatedDisk<'a>>,
}

impl<'a> CountedDisk<'a> {
    fn start(place: &'a Place, system: &str) -> Self {
        let [backing, point] = ["backing", "disk"].map(|name| place.path(name).to_str().unwrap().to_owned());
        let size = ["hdd-nas", "--size", "1T", "--fs", system].map(ToOwned::to_owned);
        let mut started = Self {
            place,
            arguments: [&size[..], &["--backing".into(), backing, "--at".into(), point]].concat(),
            disk: None,
        };
        started.start_again();
        started
    }

    /// After this, nothing of it is in memory, also not in its own.
    fn start_again(&mut self) {
        if self.disk.is_some() {
            sync(&self.path(""));
        }
        self.disk = None;
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.disk = Some(SimulatedDisk::start(self.place, &arguments));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path("disk").join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Runs a command when nothing is in memory, and returns what was read from the disk.
    fn run(&mut self, arguments: &[&str]) -> (Ended, u64) {
        self.start_again();
        let disk = self.disk.as_ref().unwrap();
        let read_bytes = || disk.counters()["read_bytes"].as_u64().unwrap();
        let before = read_bytes();
        let ended = self.place.run(arguments);
        let read = read_bytes() - before;
        ended.warns("in the order of their places on the device");
        (ended, read)
    }

    /// Searches for duplicates, and checks that nothing of them stays in memory.
    fn groups(&mut self, options: &[&str]) -> (Groups, u64) {
        let (ended, read) = self.run(&[&["dupes", "--json", "--explain", "disk"], options].concat());
        let shown = self.place.succeeds("cache show --json disk").json();
        assert_eq!(shown["summary"]["resident_bytes"], 0, "{shown}");
        (Seen::of(&ended).groups, read)
    }

    /// A group of files with these names.
    fn group(names: &[String]) -> BTreeSet<Names> {
        names.iter().map(|name| Names::from([format!("disk/{name}")])).collect()
    }
}

#[test]
fn dupes_cache_on_a_head_fetches_only_unknown_files() {
    let Some(place) = simulated::place() else { return };
    let mut disk = CountedDisk::start(&place, "ext4");
    let content = random(2 << 20);
    let names: Vec<String> = (0..12).map(|number| format!("d{}/f{number}", number % 3)).collect();
    for name in &names {
        disk.write(name, &content);
    }
    sync(&disk.path(""));
    // Digests of files that changed just now are not kept.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let kept = place.path("kept");
    let options = ["--cache", "--cache-file", kept.to_str().unwrap()];
    let expected = Groups::from([CountedDisk::group(&names)]);
    let (first, read) = disk.groups(&options);
    assert_eq!(first, expected);
    assert!(read >= 24 << 20, "{read}");
    let (second, read) = disk.groups(&options);
    assert_eq!(second, expected);
    assert!(read <= SLACK_BYTES, "{read}");
}

/// What others read and write may take pages from the page cache.
mod alone {
    use super::*;

    #[test]
    fn dupes_on_a_head_fetch_one_of_files_that_share_blocks() {
        let Some(place) = simulated::place() else { return };
        if !Path::new("/sbin/mkfs.xfs").exists() && !Path::new("/usr/sbin/mkfs.xfs").exists() {
            return println!("skipped: no mkfs.xfs");
        }
        let mut disk = CountedDisk::start(&place, "xfs");
        let mut expected = Groups::new();
        for number in 0..6_u8 {
            let names: Vec<String> = (0..4).map(|copy| format!("{copy}/f{number}")).collect();
            let content: Vec<u8> = random(2 << 20).iter().map(|byte| byte ^ number).collect();
            disk.write(&names[0], &content);
            // The last one has the same bytes in blocks of its own.
            disk.write(&names[3], &content);
            sync(&disk.path(""));
            for name in &names[1..3] {
                fs::create_dir_all(disk.path(name).parent().unwrap()).unwrap();
                reflink(&disk.path(&names[0]), &disk.path(name));
            }
            expected.insert(CountedDisk::group(&names));
        }
        let (groups, read) = disk.groups(&[]);
        assert_eq!(groups, expected);
        assert!((24 << 20..(24 << 20) + 2 * SLACK_BYTES).contains(&read), "{read}");
    }
}

#[test]
fn dupes_on_a_head_fetch_no_large_files_that_begin_otherwise() {
    let Some(place) = simulated::place() else { return };
    let mut disk = CountedDisk::start(&place, "ext4");
    let mut content = random(12 << 20);
    let names: Vec<String> = (0..6).map(|number| format!("f{number}")).collect();
    for (number, name) in (0_u8..).zip(&names) {
        // Two are equal.
        content[20_000] = number.max(1);
        disk.write(name, &content);
    }
    let (groups, read) = disk.groups(&[]);
    assert_eq!(groups, Groups::from([CountedDisk::group(&names[..2])]));
    // With its beginning, up to 1 MiB of each is fetched.
    assert!(read <= (2 * 12 + 4 + 1) << 20, "{read}");
}

#[test]
fn cmp_trees_on_a_head_reads_the_rest_only_if_beginnings_agree() {
    let Some(place) = simulated::place() else { return };
    let mut disk = CountedDisk::start(&place, "ext4");
    let mut content = random(3 << 20);
    for number in 0_usize..16 {
        content.truncate((3 << 20) - number);
        disk.write(&format!("one/changed{number:02}"), &content);
        content[50_000] ^= 1;
        disk.write(&format!("other/changed{number:02}"), &content[1..]);
    }
    let compare = ["cmp", "-r", "--explain", "disk/one", "disk/other"];
    let (ended, read) = disk.run(&compare);
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(1), 16), "{ended:?}");
    assert!(read <= 2 * 16 * (256 << 10) + SLACK_BYTES, "{read}");
    for number in 0..16 {
        disk.write(&format!("one/changed{number:02}"), &content);
        let shorter = &content[..content.len() - number - 1];
        disk.write(&format!("other/changed{number:02}"), shorter);
    }
    let (ended, read) = disk.run(&compare);
    let ends = ended.stdout.matches("ends after byte").count();
    assert_eq!((ended.code, ends), (Some(1), 16), "{ended:?}");
    assert!(read >= 2 * 16 * (content.len() as u64 - 20), "{read}");
    let (ended, read) = disk.run(&[&compare[..], &["-q"]].concat());
    assert_eq!(ended.code, Some(1));
    assert!(read <= SLACK_BYTES, "{read}");
}

/// A group of processes whose memory is limited.
struct LimitedGroup(PathBuf);

impl LimitedGroup {
    /// `None`, with a word about it, where there are no such groups, or without root.
    fn new(bytes: u64) -> Option<Self> {
        let old = Path::new("/sys/fs/cgroup/memory");
        let (root, limit) = if old.is_dir() {
            (old, "memory.limit_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup"), "memory.max")
        };
        let group = root.join(format!("seekless-test-fetched-{}", std::process::id()));
        let made = fs::create_dir(&group).is_ok().then_some(Self(group));
        let limited = made.filter(|group| fs::write(group.0.join(limit), bytes.to_string()).is_ok());
        if limited.is_none() {
            println!("skipped: limiting memory needs root and the memory controller of cgroups");
        }
        limited
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn memory_group_limit_counts_as_available_memory() {
    let place = Place::new();
    place.file("small", &random(1 << 20));
    place.file("file", &random(80 << 20));
    let Some(group) = LimitedGroup::new(64 << 20) else {
        return;
    };
    let warm = |name: &str| {
        let mut command = place.command_after(&format!("echo $$ > {}/cgroup.procs", group.0.display()));
        Ended::by(command.args(["cache", "warm", name]))
    };
    warm("file").failed_with(2, &["of memory are available"]);
    warm("small").succeeded();
    place.succeeds("cache warm file");
}
