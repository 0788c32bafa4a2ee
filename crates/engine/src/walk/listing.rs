//! The entries of a directory: names, inodes and types, in two allocations.

use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, SeekFrom};
use rustix::io::Errno;

use super::StatFacts;

/// Entries of a directory: those of one call in the order of the system, or all of them, sorted by the bytes of their
/// names.
#[derive(Default)]
pub struct Listing {
    /// One after the other, each ended by a zero byte.
    names: Vec<u8>,
    entries: Vec<ListingEntry>,
    /// Whether entries with later names were omitted.
    is_cut: bool,
}

/// An entry of 16 bytes; its name is in the listing.
#[derive(Clone, Copy)]
pub struct ListingEntry {
    /// Its inode.
    pub inode: u64,
    start: u32,
    length: u16,
    /// Its type, as far as the directory tells.
    pub kind: FileType,
}

/// The name of an entry.
fn name_of<'n>(names: &'n [u8], entry: &ListingEntry) -> &'n [u8] {
    &names[entry.start as usize..][..usize::from(entry.length)]
}

impl Listing {
    /// The first `most` entries of an open directory whose names come after `after`, sorted. For more entries, list
    /// again: so a directory of any size takes bounded memory and no disk space.
    pub fn sorted(directory: BorrowedFd<'_>, after: &[u8], most: usize) -> io::Result<Self> {
        let mut listing = Self::default();
        rustix::fs::seek(directory, SeekFrom::Start(0))?;
        let mut last: Option<Vec<u8>> = None;
        let mut is_end = false;
        while !is_end {
            // Skip the comparison with an empty name, which would cost a call per entry.
            let is_behind = |name: &[u8]| after.is_empty() || name > after;
            let is_wanted = |name: &[u8]| is_behind(name) && last.as_deref().is_none_or(|last| name < last);
            is_end = listing.add_some(directory, is_wanted)?.is_none();
            if listing.entries.len() > if is_end { most } else { 2 * most } {
                last = Some(listing.cut(most));
            }
        }
        let Self { names, entries, .. } = &mut listing;
        entries.sort_unstable_by(|one, other| name_of(names, one).cmp(name_of(names, other)));
        entries.dedup_by(|one, other| name_of(names, one) == name_of(names, other));
        Ok(listing)
    }

    /// Keeps only the first `most` by name, and returns the name of the last one.
    fn cut(&mut self, most: usize) -> Vec<u8> {
        let (names, mut entries) = (std::mem::take(&mut self.names), std::mem::take(&mut self.entries));
        let by_name = |one: &ListingEntry, other: &ListingEntry| name_of(&names, one).cmp(name_of(&names, other));
        let (_, last, _) = entries.select_nth_unstable_by(most - 1, by_name);
        let last = name_of(&names, last).to_vec();
        for entry in &entries[..most] {
            self.push(name_of(&names, entry), entry.inode, entry.kind);
        }
        self.is_cut = true;
        last
    }

    /// The last name of a sorted listing that is incomplete; `None` if it is complete.
    #[must_use]
    pub fn end(&self) -> Option<&[u8]> {
        self.entries.last().filter(|_| self.is_cut).map(|last| self.name(last))
    }

    /// Removes the entries after a name, in a sorted listing.
    pub fn end_with(&mut self, name: &[u8]) {
        let kept = self.entries.partition_point(|entry| self.name(entry) <= name);
        self.entries.truncate(kept);
    }

    /// Adds the entries of one system call, in the system's order, continuing where the last call on these handles
    /// ended. Returns the position of the next call; `None` at the end.
    pub fn add_some(
        &mut self,
        directory: BorrowedFd<'_>,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> io::Result<Option<u64>> {
        let mut failed = None;
        let next = seekless_sys::list_entries(directory, &mut |name, inode, kind| {
            if failed.is_some() || !is_wanted(name.to_bytes()) {
                return;
            }
            let kind = match kind {
                FileType::Unknown => match StatFacts::at(directory, name) {
                    Ok(facts) => facts.kind,
                    // It was removed since it was listed.
                    Err(Errno::NOENT) => return,
                    Err(error) => {
                        failed = Some(error.into());
                        return;
                    }
                },
                known => known,
            };
            if !self.push(name.to_bytes(), inode, kind) {
                failed = Some(io::Error::other("its names take more than 4 GiB"));
            }
        })?;
        failed.map_or(Ok(next), Err)
    }

    /// Adds all entries of a directory, in the system's order.
    pub fn add_all(&mut self, directory: BorrowedFd<'_>) -> io::Result<()> {
        loop {
            match self.add_some(directory, |_| true) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                // It was removed, and so was all in it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds an entry; returns whether there was room for its name.
    fn push(&mut self, name: &[u8], inode: u64, kind: FileType) -> bool {
        let (Ok(start), Ok(length)) = (u32::try_from(self.names.len()), u16::try_from(name.len())) else {
            return false;
        };
        self.names.extend_from_slice(name);
        self.names.push(0);
        self.entries.push(ListingEntry {
            inode,
            start,
            length,
            kind,
        });
        true
    }

    /// Removes all entries, but keeps the memory.
    pub fn clear(&mut self) {
        self.names.clear();
        self.entries.clear();
    }

    /// Sorts by inode, the order in which file systems lay out what was written together.
    pub fn sort_by_inode(&mut self) {
        self.entries.sort_unstable_by_key(|entry| entry.inode);
    }

    /// All of them.
    #[must_use]
    pub fn entries(&self) -> &[ListingEntry] {
        &self.entries
    }

    /// The name of one of them.
    #[must_use]
    pub fn name(&self, entry: &ListingEntry) -> &[u8] {
        name_of(&self.names, entry)
    }

    /// Its name for system calls.
    #[must_use]
    pub fn c_str(&self, entry: &ListingEntry) -> &CStr {
        let bytes = &self.names[entry.start as usize..=entry.start as usize + usize::from(entry.length)];
        CStr::from_bytes_with_nul(bytes).unwrap_or(c"")
    }

    /// Removes all but the names.
    pub fn forget_entries(&mut self) {
        self.entries = Vec::new();
    }
}

/// A name that is in one directory or in both; `None` for the side that lacks it.
pub type MergedEntry<'a> = (Option<&'a ListingEntry>, Option<&'a ListingEntry>);

/// Iterates over two sorted directories together, in the order of names.
pub fn merge<'a>(one: &'a Listing, other: &'a Listing) -> impl Iterator<Item = MergedEntry<'a>> {
    let (mut left, mut right) = (one.entries.as_slice(), other.entries.as_slice());
    std::iter::from_fn(move || {
        let order = match (left.first(), right.first()) {
            (None, None) => return None,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => one.name(a).cmp(other.name(b)),
        };
        let from_left = if order.is_le() { left.split_off_first() } else { None };
        let from_right = if order.is_ge() { right.split_off_first() } else { None };
        Some((from_left, from_right))
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn listing(names: &[&[u8]]) -> Listing {
        let mut listing = Listing::default();
        for name in names {
            assert!(listing.push(name, 1, FileType::RegularFile));
        }
        listing
    }

    #[test]
    fn merging_meets_every_name_once_in_order() {
        let (one, other) = (listing(&[b"a", b"c", b"d"]), listing(&[b"b", b"c", b"e", b"f"]));
        let met: Vec<_> = merge(&one, &other)
            .map(|(left, right)| {
                let left = left.map(|entry| one.name(entry).to_vec());
                let right = right.map(|entry| other.name(entry).to_vec());
                let name = left.clone().or(right.clone()).unwrap();
                (String::from_utf8(name).unwrap(), left.is_some(), right.is_some())
            })
            .collect();
        let expected = [
            ("a", true, false),
            ("b", false, true),
            ("c", true, true),
            ("d", true, false),
            ("e", false, true),
            ("f", false, true),
        ];
        assert_eq!(met, expected.map(|(name, left, right)| (name.to_owned(), left, right)));
    }

    #[test]
    fn parts_of_a_listing_are_the_whole_in_order_and_none_is_longer_than_it_may_be() {
        let place = tempfile::tempdir().unwrap();
        let mut names: Vec<Vec<u8>> = (0..2000)
            .map(|number| (number * 7919 % 2000).to_string().into_bytes())
            .collect();
        for name in &names {
            std::fs::write(place.path().join(str::from_utf8(name).unwrap()), b"").unwrap();
        }
        names.sort();
        let directory = std::fs::File::open(place.path()).unwrap();
        for most in [400, 500, 1999, 2000, 2001] {
            let (mut found, mut after) = (Vec::new(), Some(Vec::new()));
            while let Some(name) = after {
                let part = Listing::sorted(directory.as_fd(), &name, most).unwrap();
                assert!(part.entries.len() <= most);
                after = part.end().map(<[u8]>::to_vec);
                found.extend(part.entries.iter().map(|entry| part.name(entry).to_vec()));
            }
            assert_eq!(found, names, "{most}");
        }
    }

    #[test]
    fn an_entry_takes_16_bytes_beside_its_name() {
        assert_eq!(size_of::<ListingEntry>(), 16);
    }
}
