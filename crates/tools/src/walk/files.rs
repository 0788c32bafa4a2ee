//! Regular files that a walk listed, by their numbers.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use seekless_engine::files::FileState;
use seekless_engine::walk::{Closing, FOUND_FILE, Handles, NAMED_FILE, StatFacts, WalkDirectory};
use seekless_sys::NO_ATIME;

use super::selection::System;

/// Files by their directories: 48 bytes each, and the name.
#[derive(Default)]
pub(crate) struct Files {
    pub(super) places: Vec<FoundPlace>,
    /// All but the last are full.
    chunks: Vec<Chunk>,
}

/// Some of the files: lists grow without copying, and full chunks are moved when lists are joined.
#[derive(Default)]
struct Chunk {
    files: Vec<Listed>,
    /// One after the other.
    names: Vec<u8>,
}

/// Files in a chunk.
const CHUNK: usize = 256;

/// Where files were found.
pub(super) struct FoundPlace {
    pub directory: Arc<WalkDirectory<1>>,
    /// The number of the root.
    pub root: u32,
    /// Whether names that are links are followed: they were given as paths, or links are to be followed.
    pub is_followed: bool,
    pub system: System,
    /// Whether files here belong to other users, so that `O_NOATIME` is refused.
    pub is_of_others: AtomicBool,
}

/// A regular file, as it was when it was listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    place: u32,
    /// Where its name begins (it ends where the next one begins), [`LINKS`], and the bit [`SPARSE`].
    name: u32,
    /// Which file it was, its size and its times.
    pub state: FileState,
}

impl Deref for Listed {
    type Target = FileState;

    fn deref(&self) -> &FileState {
        &self.state
    }
}

/// The bit of a file that takes less space than its size: it has holes, or is compressed.
const SPARSE: u32 = 1 << 31;

/// The bits of its number of hard links, which may be more than fit.
const LINKS: u32 = 0x1fff << LINKS_AT;
const LINKS_AT: u32 = 18;

/// Up to this size, btrfs may store the data of a file inline, in its metadata.
const INLINE_BYTES: u64 = 4096;

/// The kind of error for a file that changed after it was listed.
pub(crate) const CHANGED: io::ErrorKind = io::ErrorKind::StaleNetworkFileHandle;

impl Files {
    /// Makes files without listing any: `names` in each directory, of these sizes.
    #[cfg(test)]
    pub fn made(directories: u32, names: u32, bytes: impl Fn(u32) -> u64) -> Self {
        use std::ffi::CString;
        use std::path::Path;

        use seekless_engine::walk::{Limit, open_root};

        let root = open_root(Path::new("/")).unwrap();
        let mut facts = StatFacts::of(&root).unwrap();
        let root = WalkDirectory::root([root], Path::new(""), &Limit::new(1), ());
        let mut files = Self::default();
        for directory in 0..directories {
            let name = CString::new(format!("directory {directory}")).unwrap();
            let place = files.add_place(FoundPlace {
                directory: root.child(&name, ()),
                root: 0,
                is_followed: false,
                system: System::default(),
                is_of_others: AtomicBool::new(false),
            });
            for name in 0..names {
                let number = files.len();
                (facts.state.inode, facts.state.bytes) = (number.into(), bytes(number));
                files.push(place, format!("a file with the number {name}").as_bytes(), &facts);
            }
        }
        files
    }

    /// Number of files; each is identified by its number.
    pub fn len(&self) -> u32 {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        (full + self.chunks.last().map_or(0, |last| last.files.len())) as u32
    }

    pub fn get(&self, number: u32) -> &Listed {
        let (chunk, file) = self.chunk(number);
        &chunk.files[file]
    }

    /// The chunk of a file, and its number there.
    fn chunk(&self, number: u32) -> (&Chunk, usize) {
        let number = number as usize;
        (&self.chunks[number / CHUNK], number % CHUNK)
    }

    fn place(&self, number: u32) -> &FoundPlace {
        &self.places[self.place_of(number)]
    }

    /// The number of places in which files were found.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// The number of the place of a file: all in it have one directory and root.
    pub fn place_of(&self, number: u32) -> usize {
        self.get(number).place as usize
    }

    /// The directory that a file was found in.
    pub fn directory(&self, number: u32) -> &Arc<WalkDirectory<1>> {
        &self.place(number).directory
    }

    pub fn name(&self, number: u32) -> &[u8] {
        let (chunk, file) = self.chunk(number);
        chunk.name(file)
    }

    /// Whether its name is followed if it is a symbolic link.
    pub fn is_followed(&self, number: u32) -> bool {
        self.place(number).is_followed
    }

    /// The number of the root that a file is below.
    pub fn root(&self, number: u32) -> u32 {
        self.place(number).root
    }

    pub fn path(&self, number: u32) -> PathBuf {
        self.place(number).directory.path_of(self.name(number))
    }

    pub fn system(&self, number: u32) -> System {
        self.place(number).system
    }

    /// Whether only hard links of one file share an inode number.
    pub fn are_numbers_sure(&self) -> bool {
        self.places.iter().all(|place| place.system.inodes_identify)
    }

    /// Whether any of them is on an overlay.
    pub fn has_overlay(&self) -> bool {
        self.places.iter().any(|place| place.system.is_overlay)
    }

    /// Whether a non-blocking read may succeed although nothing of the file is in the page cache.
    pub fn is_read_without_device(&self, number: u32) -> bool {
        let listed = self.get(number);
        listed.name & SPARSE > 0 || self.system(number).is_btrfs && listed.bytes <= INLINE_BYTES
    }

    /// How a file is opened: the handles of its directory, its name, and flags that keep its access time unchanged,
    /// unless that is known to be forbidden.
    ///
    /// # Errors
    /// Those of opening the directory again.
    pub fn entry(&self, number: u32) -> io::Result<(Arc<Handles<1>>, &[u8], OFlags)> {
        let place = self.place(number);
        let handles = place.directory.handles().map_err(|(_, error)| error)?;
        let mut flags = if place.is_followed { NAMED_FILE } else { FOUND_FILE };
        if !place.is_of_others.load(Ordering::Relaxed) {
            flags |= NO_ATIME;
        }
        Ok((handles, self.name(number), flags))
    }

    /// Opens a listed file for reading, and checks that it has not changed. Where the system permits,
    /// its access time does not change.
    ///
    /// # Errors
    /// The system's, and what happened to the file.
    pub fn open(&self, number: u32) -> io::Result<(File, StatFacts)> {
        let (handles, name, flags) = self.entry(number)?;
        let open = |flags| openat(handles.borrowed()[0], name, flags, Mode::empty());
        let opened = match open(flags) {
            Err(Errno::PERM) if flags.contains(NO_ATIME) => {
                self.place(number).is_of_others.store(true, Ordering::Relaxed);
                open(flags.difference(NO_ATIME))
            }
            opened => opened,
        };
        let file: File = opened?.into();
        let facts = StatFacts::of(&file)?;
        self.check(number, &facts)?;
        Ok((file, facts))
    }

    /// Whether these are still the facts of a file.
    ///
    /// # Errors
    /// What happened to it.
    pub fn check(&self, number: u32, now: &StatFacts) -> io::Result<()> {
        let listed = self.get(number);
        // If inode numbers do not identify files, the system may forget a file and give it another number.
        if self.system(number).inodes_identify && now.id() != listed.id() {
            return Err(io::Error::new(CHANGED, "replaced by another file during the search"));
        }
        if listed.version() != now.version() {
            return Err(io::Error::new(CHANGED, "changed during the search"));
        }
        Ok(())
    }

    /// Closes the directories in another thread. Opening a file opens its directory again.
    pub fn close_directories(&self) -> Option<Closing> {
        self.places.first().map(|place| place.directory.limit().close_all())
    }

    /// Adds the files of another list.
    pub(super) fn add(&mut self, mut other: Self) {
        let places = self.places.len() as u32;
        self.places.extend(other.places);
        for file in other.chunks.iter_mut().flat_map(|chunk| &mut chunk.files) {
            file.place += places;
        }
        let is_partial = |chunk: &mut Chunk| chunk.files.len() < CHUNK;
        let partial = [self.chunks.pop_if(is_partial), other.chunks.pop_if(is_partial)];
        self.chunks.extend(other.chunks);
        let [own, rest] = partial;
        self.chunks.extend(own);
        let Some(rest) = rest else { return };
        for (number, file) in rest.files.iter().enumerate() {
            self.push_listed(*file, rest.name(number));
        }
    }

    /// Adds a place, and returns its number.
    pub(super) fn add_place(&mut self, place: FoundPlace) -> u32 {
        self.places.push(place);
        self.places.len() as u32 - 1
    }

    pub(super) fn push(&mut self, place: u32, name: &[u8], facts: &StatFacts) {
        let file = Listed {
            place,
            name: if facts.allocated_bytes < facts.bytes { SPARSE } else { 0 }
                | (facts.names.min(u64::from(LINKS >> LINKS_AT)) as u32) << LINKS_AT,
            state: facts.state,
        };
        self.push_listed(file, name);
    }

    fn push_listed(&mut self, file: Listed, name: &[u8]) {
        let last = match self.chunks.last_mut() {
            Some(last) if last.files.len() < CHUNK => last,
            full => {
                if let Some(full) = full {
                    full.names.shrink_to_fit();
                }
                self.chunks.push(Chunk {
                    files: Vec::with_capacity(CHUNK),
                    names: Vec::new(),
                });
                let new = self.chunks.len() - 1;
                &mut self.chunks[new]
            }
        };
        last.files.push(Listed {
            name: file.name & (SPARSE | LINKS) | last.names.len() as u32,
            ..file
        });
        last.names.extend_from_slice(name);
    }
}

impl Chunk {
    fn name(&self, file: usize) -> &[u8] {
        let end = self.files.get(file + 1).map_or(self.names.len(), Listed::name_start);
        &self.names[self.files[file].name_start()..end]
    }
}

impl Listed {
    /// Its hard links; 8191 may be more.
    pub fn links(&self) -> u32 {
        (self.name & LINKS) >> LINKS_AT
    }

    fn name_start(&self) -> usize {
        (self.name & !(SPARSE | LINKS)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stop;
    use crate::walk::{Filter, Selection};

    #[test]
    fn walk_inode_numbers_tell_files_apart_where_trusted() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), "content").unwrap();
        let selection = Selection::new([place.path()], true);
        let process = seekless_engine::facts::ProcessFacts::here();
        let plan = seekless_engine::plan::batch(&process);
        let found = Files::list(&selection, &Filter::default(), false, &plan, &Stop::default());
        let mut files = found.files;
        assert!(files.open(0).is_ok());
        files.chunks[0].files[0].state.inode += 1;
        assert_eq!(files.open(0).unwrap_err().kind(), CHANGED);
        files.places[0].system.inodes_identify = false;
        assert!(files.open(0).is_ok());
        files.chunks[0].files[0].state.modified_ns -= 1;
        assert_eq!(files.open(0).unwrap_err().kind(), CHANGED);
    }

    #[test]
    fn lists_of_any_length_are_one_after_the_other() {
        let sizes = [1, 255, 256, 257, 3, 512, 0, 1000];
        let mut all = Files::default();
        let mut expected = Vec::new();
        for (list, size) in (0..).zip(sizes) {
            let number = |name: u32| u64::from(list * 10_000 + name);
            all.add(Files::made(1, size, number));
            expected.extend((0..size).map(number));
        }
        assert_eq!(all.len() as usize, expected.len());
        let mut found: Vec<u64> = (0..all.len()).map(|file| all.get(file).bytes).collect();
        for file in 0..all.len() {
            let bytes = all.get(file).bytes;
            assert_eq!(
                all.name(file),
                format!("a file with the number {}", bytes % 10_000).as_bytes()
            );
            assert_eq!(all.get(file).place, (bytes / 10_000) as u32);
        }
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}
