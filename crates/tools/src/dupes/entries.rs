//! The directory entries that lead to a file, and the space that is freed without them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use seekless::files::shared_bytes;

use super::{Member, Search};
use crate::walk::StatFacts;

/// Device and inode of a directory, and a name in it.
type Entry = (u64, u64, Vec<u8>);

impl Search<'_> {
    /// A file of a group.
    pub(super) fn member(&self, number: u32, own_bytes: u64) -> Member {
        let is_reference = |name: u32| self.is_reference(self.files.root(name));
        Member {
            number,
            own_bytes,
            is_reference: self.names_of(number).any(is_reference),
        }
    }

    /// The space that is freed if all names of a file that were found are removed.
    pub(super) fn own_bytes(&self, number: u32, file: &File, facts: &StatFacts) -> u64 {
        if facts.names > 1 && (facts.names > self.names_of(number).count() as u64 || facts.names > self.entries(number))
        {
            return 0;
        }
        let shared = match self.files.system(number).may_share.then(|| shared_bytes(file)) {
            Some(Ok(Some(shared))) => shared,
            _ => 0,
        };
        facts.allocated_bytes.saturating_sub(shared)
    }

    /// The number of directory entries behind the names of a file: a name may be found twice, or be a symbolic link.
    pub(super) fn entries(&self, number: u32) -> u64 {
        let entries: HashSet<Entry> = self.names_of(number).filter_map(|name| self.entry(name)).collect();
        entries.len() as u64
    }

    /// The entry that a name is, or leads to.
    fn entry(&self, name: u32) -> Option<Entry> {
        if self.files.is_followed(name) {
            let path = fs::canonicalize(self.files.path(name)).ok()?;
            let above = fs::metadata(path.parent()?).ok()?;
            return Some((above.dev(), above.ino(), path.file_name()?.as_bytes().to_vec()));
        }
        let handles = self.files.directory(name).handles().ok()?;
        let [handle] = handles.borrowed();
        let facts = StatFacts::of(handle).ok()?;
        Some((facts.device, facts.inode, self.files.name(name).to_vec()))
    }
}
