//! Files of a search that are open: why one could not be read, what it shares with others, and whether it stays in the page
//! cache.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::io::Errno;
use seekless_engine::files::{Run, data_ranges, shared_bytes, shared_layout};
use seekless_sys::drop_from_cache;

use super::{Failed, Member, Search};
use crate::disk_order::resident_bytes;
use crate::walk::{CHANGED, GONE, StatFacts, Unlisted};

/// From this size on, it pays to check whether files share all blocks; smaller files are read faster than that.
const SHARED_FROM_BYTES: u64 = 64 << 10;
/// Requesting the beginning of a file that is not in memory may read ahead this much.
pub(super) const READ_AHEAD_BYTES: u64 = 128 << 10;

/// How often to try to drop what is still being read ahead.
const DROPPED_TIMES: u32 = 20;
/// The same where files are fetched: many other requests of a disk with a head may come before the last one of a file.
const FETCHED_DROPPED_TIMES: u32 = 500;

/// A file that is read side by side with others.
pub(super) struct Open {
    pub number: u32,
    pub file: Arc<File>,
    pub own_bytes: u64,
    /// The file that is read for it, because it shares all blocks.
    pub read_by: Option<usize>,
    /// Whether it has holes, judging by its size and blocks.
    pub is_sparse: bool,
}

impl Open {
    /// Where the hole at the start of a range ends, if there is one; `hole` keeps the end of the last hole.
    pub fn hole_end(&self, range: Range<u64>, hole: &mut u64) -> io::Result<u64> {
        if self.is_sparse && *hole <= range.start {
            let data = data_ranges(&self.file, range.clone()).next().transpose()?;
            *hole = data.map_or(range.end, |data| data.start);
        }
        Ok(*hole)
    }
}

/// Where all blocks of a file lie, with its device and size: files of different sizes may share the last block.
pub(super) type Layout = (u64, u64, Vec<Run>);

/// Digests of files that share all their blocks, by layout.
pub(super) type Layouts = Mutex<HashMap<Layout, blake3::Hash>>;

/// Device and inode of a directory, and a name in it.
type Entry = (u64, u64, Vec<u8>);

/// A file of a group.
pub(super) fn member(search: &Search<'_>, number: u32, own_bytes: u64) -> Member {
    let is_reference = |name: u32| search.is_reference(search.files.root(name));
    Member {
        number,
        own_bytes,
        is_reference: search.names_of(number).any(is_reference),
    }
}

/// The space that is freed if all names of a file that were found are removed.
pub(super) fn own_bytes(search: &Search<'_>, number: u32, file: &File, facts: &StatFacts) -> u64 {
    if facts.names > 1
        && (facts.names > search.names_of(number).count() as u64 || facts.names > entries(search, number))
    {
        return 0;
    }
    let shared = match search.files.system(number).may_share.then(|| shared_bytes(file)) {
        Some(Ok(Some(shared))) => shared,
        _ => 0,
    };
    facts.allocated_bytes.saturating_sub(shared)
}

/// The number of directory entries behind the names of a file: a name may be found twice, or be a symbolic link.
pub(super) fn entries(search: &Search<'_>, number: u32) -> u64 {
    let entries: HashSet<Entry> = search.names_of(number).filter_map(|name| entry(search, name)).collect();
    entries.len() as u64
}

/// The entry that a name is, or leads to.
pub(super) fn entry(search: &Search<'_>, name: u32) -> Option<Entry> {
    if search.files.is_followed(name) {
        let path = fs::canonicalize(search.files.path(name)).ok()?;
        let above = fs::metadata(path.parent()?).ok()?;
        return Some((above.dev(), above.ino(), path.file_name()?.as_bytes().to_vec()));
    }
    let handles = search.files.directory(name).handles().ok()?;
    let [handle] = handles.borrowed();
    let facts = StatFacts::of(handle).ok()?;
    Some((facts.device, facts.inode, search.files.name(name).to_vec()))
}

/// Errors of opening a file that is no longer a regular file.
const REPLACED: [Errno; 3] = [Errno::LOOP, Errno::NOTDIR, Errno::NXIO];

/// Opens a file as it was listed.
pub(super) fn open_file(search: &Search<'_>, number: u32) -> io::Result<(File, StatFacts)> {
    search.files.open(number).map_err(|error| {
        let is_other = Errno::from_io_error(&error).is_some_and(|errno| REPLACED.contains(&errno));
        match error.kind() {
            _ if is_other => io::Error::new(CHANGED, "replaced by another file during the search"),
            CHANGED | io::ErrorKind::NotFound => error,
            kind => io::Error::new(kind, format!("cannot open: {error}")),
        }
    })
}

/// The facts of an open file, if it still is what it was when it was listed.
pub(super) fn check(search: &Search<'_>, number: u32, file: &File) -> io::Result<StatFacts> {
    let facts = StatFacts::of(file)?;
    search.files.check(number, &facts)?;
    Ok(facts)
}

/// Adds files to those that changed, or to those that could not be read.
pub(super) fn sort_out(
    search: &Search<'_>,
    failed: Vec<Failed>,
    mut changed: Vec<Unlisted>,
    mut failures: Vec<Unlisted>,
) -> (Vec<Unlisted>, Vec<Unlisted>) {
    for (number, error) in failed {
        let path = search.files.path(number);
        match error.kind() {
            CHANGED => changed.push((path, error.to_string())),
            io::ErrorKind::NotFound => changed.push((path, GONE.to_owned())),
            _ => failures.push((path, error.to_string())),
        }
    }
    for list in [&mut changed, &mut failures] {
        list.sort();
        list.dedup();
    }
    (changed, failures)
}

/// Why a file could not be read: that it changed, if it did.
pub(super) fn cause(search: &Search<'_>, number: u32, file: &File, error: io::Error) -> io::Error {
    let changed = check(search, number, file);
    changed.err().filter(|error| error.kind() == CHANGED).unwrap_or(error)
}

/// The error of reading at a byte.
pub(super) fn unread(at: u64, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot read at byte {at}: {error}"))
}

pub(super) fn open(search: &Search<'_>, number: u32) -> io::Result<Open> {
    let (file, facts) = open_file(search, number)?;
    Ok(Open {
        number,
        own_bytes: own_bytes(search, number, &file, &facts),
        file: Arc::new(file),
        read_by: None,
        is_sparse: facts.allocated_bytes < facts.bytes,
    })
}

/// Where the blocks of a file lie, if it is large enough and may share them.
pub(super) fn layout(search: &Search<'_>, number: u32, file: &File) -> Option<Layout> {
    let listed = search.files.get(number);
    let layout = may_share(search, number).then(|| shared_layout(file));
    let layout = layout.and_then(Result::ok).flatten()?;
    Some((listed.device, listed.bytes, layout))
}

/// The same for a file that is not open.
pub(super) fn layout_of(search: &Search<'_>, number: u32) -> Option<Layout> {
    let opened = may_share(search, number).then(|| search.files.open(number));
    layout(search, number, &opened?.ok()?.0)
}

pub(super) fn may_share(search: &Search<'_>, number: u32) -> bool {
    search.files.get(number).bytes >= SHARED_FROM_BYTES && search.files.system(number).may_share
}

/// Drops a file that was not in the page cache before.
pub(super) fn forget_open(search: &Search<'_>, number: u32, file: &File) {
    if search.cold().contains(&number) {
        drop_read(search, file, search.files.get(number).bytes);
    }
}

/// Drops a file that was read a moment ago from the page cache.
pub(super) fn drop_read(search: &Search<'_>, file: &File, bytes: u64) {
    let _ = drop_from_cache(file);
    // Some pages cannot be dropped yet, such as those still being read ahead.
    let is_left = || bytes > READ_AHEAD_BYTES && resident_bytes(file).is_some_and(|resident| resident > 0);
    let times = if search.plan.is_by_place() {
        FETCHED_DROPPED_TIMES
    } else {
        DROPPED_TIMES
    };
    for _ in (0..times).take_while(|_| is_left()) {
        std::thread::sleep(Duration::from_millis(2));
        let _ = drop_from_cache(file);
    }
}

/// Drops files that were not in the page cache before, except those that are read again.
pub(super) fn forget(search: &Search<'_>, cold: &HashSet<u32>, groups: &[Vec<u32>]) {
    let read_again = groups.iter().filter(|group| group.len() > 1).flatten();
    let read_again: HashSet<u32> = read_again.copied().collect();
    let mut numbers: Vec<u32> = cold.difference(&read_again).copied().collect();
    numbers.sort_unstable_by_key(|number| search.files.get(*number).id());
    let _: Vec<()> = search.map(&numbers, |number| {
        if let Ok((file, facts)) = search.files.open(*number) {
            drop_read(search, &file, facts.bytes);
        }
    });
}
