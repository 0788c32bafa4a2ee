//! Regular files that a walk listed, by their numbers.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use seekless::files::Identity;
use seekless_sys::NO_ATIME;

use super::file::{FILE, FOUND_FILE};
use super::selection::System;
use super::{Closing, Directory, Facts, Handles};

/// Files by their directories: 56 bytes for each, and its name.
#[derive(Default)]
pub(crate) struct Files {
    pub(super) places: Vec<Place>,
    /// One after the other.
    names: Vec<u8>,
    all: Vec<Listed>,
}

/// What files were found in.
pub(super) struct Place {
    pub directory: Arc<Directory<1>>,
    /// The number of the root.
    pub root: u32,
    /// Whether the names are followed where they are links: somebody gave them, or wants links followed.
    pub is_followed: bool,
    pub system: System,
    /// Whether files here are of others, who alone may read without changing the time of access.
    pub is_of_others: AtomicBool,
}

/// A regular file, as it was when it was listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    place: u32,
    name_length: u16,
    /// Whether its inode number identifies it.
    is_number_sure: bool,
    name_start: u64,
    pub device: u64,
    pub inode: u64,
    pub bytes: u64,
    /// When it was last written to, in ns since 1970.
    pub modified_ns: i64,
    /// When it last changed, in ns since 1970: see [`Facts::changed_ns`].
    pub changed_ns: i64,
}

/// The kind of error where a file is not what it was when it was listed.
pub(crate) const CHANGED: io::ErrorKind = io::ErrorKind::StaleNetworkFileHandle;

impl Files {
    /// Files that nobody listed: `names` of them in each directory, of these sizes.
    #[cfg(test)]
    pub fn made(directories: u32, names: u32, bytes: impl Fn(u32) -> u64) -> Self {
        use std::ffi::CString;

        let root = super::open_root(std::path::Path::new("/")).unwrap();
        let mut facts = Facts::of(&root).unwrap();
        let root = Directory::root([root], CString::default(), &super::Limit::new(1), ());
        let mut files = Self::default();
        for directory in 0..directories {
            let name = CString::new(format!("directory {directory}")).unwrap();
            let place = files.add_place(Place {
                directory: root.child(&name, ()),
                root: 0,
                is_followed: false,
                system: System::default(),
                is_of_others: AtomicBool::new(false),
            });
            for name in 0..names {
                let number = files.len();
                (facts.inode, facts.bytes) = (number.into(), bytes(number));
                files.push(place, format!("a file with the number {name}").as_bytes(), &facts);
            }
        }
        files
    }

    /// How many there are; they are named by their numbers.
    pub fn len(&self) -> u32 {
        self.all.len() as u32
    }

    pub fn get(&self, number: u32) -> &Listed {
        &self.all[number as usize]
    }

    fn place(&self, number: u32) -> &Place {
        &self.places[self.get(number).place as usize]
    }

    /// The directory that a file was found in.
    pub fn directory(&self, number: u32) -> &Arc<Directory<1>> {
        &self.place(number).directory
    }

    pub fn name(&self, number: u32) -> &[u8] {
        let file = self.get(number);
        &self.names[file.name_start as usize..][..usize::from(file.name_length)]
    }

    /// Whether its name is followed where it is a symbolic link.
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

    /// Whether no two of them have one inode number, but for hard links.
    pub fn are_numbers_sure(&self) -> bool {
        self.places.iter().all(|place| place.system.inodes_identify)
    }

    /// Whether any of them is on an overlay.
    pub fn has_overlay(&self) -> bool {
        self.places.iter().any(|place| place.system.is_overlay)
    }

    /// How a file is opened: the handles of its directory, its name, and flags that keep its access time unchanged,
    /// unless that is known to be forbidden.
    ///
    /// # Errors
    /// Those of opening the directory again.
    pub fn entry(&self, number: u32) -> io::Result<(Arc<Handles<1>>, &[u8], OFlags)> {
        let place = self.place(number);
        let handles = place.directory.handles().map_err(|(_, error)| error)?;
        let mut flags = if place.is_followed { FILE } else { FOUND_FILE };
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
    pub fn open(&self, number: u32) -> io::Result<(File, Facts)> {
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
        let facts = Facts::of(&file)?;
        self.get(number).check(&facts)?;
        Ok((file, facts))
    }

    /// Closes the directories, beside the caller; what is opened in one from now on opens it again.
    pub fn close_directories(&self) -> Option<Closing> {
        self.places.first().map(|place| place.directory.limit().close_all())
    }

    /// Makes room for the files of others at once: memory that was never touched takes none, and growing would need twice as
    /// much.
    pub(super) fn reserve<'a>(&mut self, others: impl Iterator<Item = &'a Self> + Clone) {
        self.all
            .reserve_exact(others.clone().map(|files| files.all.len()).sum());
        self.names.reserve_exact(others.map(|files| files.names.len()).sum());
    }

    pub(super) fn add(&mut self, other: Self) {
        let (places, names) = (self.places.len() as u32, self.names.len() as u64);
        self.places.extend(other.places);
        self.names.extend(other.names);
        self.all.extend(other.all.into_iter().map(|file| Listed {
            place: file.place + places,
            name_start: file.name_start + names,
            ..file
        }));
    }

    /// Adds a place, and gives its number.
    pub(super) fn add_place(&mut self, place: Place) -> u32 {
        self.places.push(place);
        self.places.len() as u32 - 1
    }

    pub(super) fn push(&mut self, place: u32, name: &[u8], facts: &Facts) {
        self.all.push(Listed {
            place,
            name_length: name.len() as u16,
            is_number_sure: self.places[place as usize].system.inodes_identify,
            name_start: self.names.len() as u64,
            device: facts.device,
            inode: facts.inode,
            bytes: facts.bytes,
            modified_ns: facts.modified_ns(),
            changed_ns: facts.changed_ns,
        });
        self.names.extend_from_slice(name);
    }
}

impl Listed {
    /// `st_dev` and `st_ino` (stat(2)).
    pub fn id(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Whether these are still the facts of this file.
    ///
    /// # Errors
    /// What happened to it.
    pub fn check(&self, now: &Facts) -> io::Result<()> {
        // Where inode numbers are not sure, the system may forget a file and give it another number.
        if self.is_number_sure && now.id() != Identity::new(self.device, self.inode) {
            return Err(io::Error::new(CHANGED, "replaced by another file during the search"));
        }
        let is_same =
            now.bytes == self.bytes && now.changed_ns == self.changed_ns && now.modified_ns() == self.modified_ns;
        if !is_same {
            return Err(io::Error::new(CHANGED, "changed during the search"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stop;
    use crate::walk::{Filter, Selection};

    #[test]
    fn a_file_with_another_inode_number_is_another_only_where_numbers_identify_files() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), "content").unwrap();
        let selection = Selection::new([place.path()], true);
        let process = seekless::facts::ProcessFacts::here();
        let plan = seekless::plan::duplicates(&process, &[], 0).batch;
        let found = Files::list(&selection, &Filter::default(), false, &plan, &Stop::default(), &|_| ());
        let mut files = found.files;
        assert!(files.open(0).is_ok());
        files.all[0].inode += 1;
        assert_eq!(files.open(0).unwrap_err().kind(), CHANGED);
        files.all[0].is_number_sure = false;
        assert!(files.open(0).is_ok());
        files.all[0].modified_ns -= 1;
        assert_eq!(files.open(0).unwrap_err().kind(), CHANGED);
    }
}
