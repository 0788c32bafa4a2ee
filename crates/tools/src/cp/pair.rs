//! A directory of the source with its copy, a name in both, what a source has beside its bytes, and the copies of files with several
//! names.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use rustix::io::Errno;
use seekless_engine::files::{
    Attributes, FileId, FileRef, FileState, IoFailure, Own, Time, XattrRole, times, without_group_rights,
};
use seekless_engine::walk::{StatFacts, WalkDirectory};
use seekless_sys::{self as sys, Support, lock_mutex};

use super::CpOptions;
use super::journal::{CopyJournal, is_append_only, mixed};
use super::names::{Staged, TargetNames};

/// A directory of the source and its copy.
pub(super) type Pair = WalkDirectory<2, PairState>;

/// What a copy knows of a directory.
pub(super) struct PairState {
    /// The path of the root's copy.
    to: Arc<Path>,
    /// Its entries that are not finished, and one while it is listed.
    pub unfinished: AtomicUsize,
    /// The source, for its copy to be like it at the end.
    pub origin: OnceLock<SourceFacts>,
    /// Whether the copy was made, so that nothing else has a name in it.
    pub is_new: AtomicBool,
    /// What new files in the copy have.
    new_files: OnceLock<NewFiles>,
    /// Of the copy of a named directory that has not got its name.
    pub staged: Mutex<Option<Staged>>,
    /// Whether nobody sees the copy before the tree that it is in is complete.
    pub is_staged: bool,
    /// The names in the copy.
    pub names: Arc<TargetNames>,
    /// What the journal calls the copy: a digest of its path below the target.
    pub key: u64,
    /// Whether this process or an interrupted one made the copy, and so all that is in it.
    pub is_own: AtomicBool,
    /// Whether neither the source nor a directory above it changed since the copy began.
    pub is_unchanged: AtomicBool,
    is_append_only: OnceLock<bool>,
}

/// What new files in a directory have.
#[derive(Clone, Copy)]
pub(super) struct NewFiles {
    pub device: u64,
    pub owner: u32,
    pub group: u32,
    /// Whether they may inherit an access control list from the directory.
    pub inherit: bool,
}

impl PairState {
    /// Of a directory that has named files, or gets them.
    pub fn of_root(to: &Path, names: &Arc<TargetNames>) -> Self {
        Self::new(Arc::from(to), false, Arc::clone(names), 0)
    }

    /// Of a named directory with a name in the target.
    pub fn of_new_root(
        to: Arc<Path>,
        name: &CStr,
        is_new: bool,
        staged: Option<Staged>,
        names: Arc<TargetNames>,
    ) -> Self {
        let own = Self::new(to, staged.is_some(), names, key_of(0, name));
        own.is_new.store(is_new, Ordering::Relaxed);
        *lock_mutex(&own.staged) = staged;
        own
    }

    /// Of a directory in this one.
    pub fn below(&self, name: &CStr) -> Self {
        let to = Arc::clone(&self.to);
        Self::new(to, self.is_staged, Arc::default(), key_of(self.key, name))
    }

    fn new(to: Arc<Path>, is_staged: bool, names: Arc<TargetNames>, key: u64) -> Self {
        Self {
            to,
            unfinished: AtomicUsize::new(1),
            origin: OnceLock::new(),
            is_new: AtomicBool::new(false),
            new_files: OnceLock::new(),
            staged: Mutex::default(),
            is_staged,
            names,
            key,
            is_own: AtomicBool::new(false),
            is_unchanged: AtomicBool::new(true),
            is_append_only: OnceLock::new(),
        }
    }
}

/// A digest of a name in a directory with this one.
fn key_of(above: u64, name: &CStr) -> u64 {
    name.to_bytes().chunks(8).fold(mixed(above, u64::MAX), |key, bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        mixed(key, u64::from_le_bytes(word))
    })
}

/// A name in a directory of the source, and what its copy is called.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub directory: &'a Arc<Pair>,
    /// The open directories of the source and of the copy.
    pub handles: [BorrowedFd<'a>; 2],
    pub from: &'a CStr,
    pub to: &'a CStr,
    /// Whether the source was not in memory before this copy fetched it.
    pub was_fetched: bool,
    /// The inode that the directory of the source lists.
    pub listed_inode: Option<u64>,
}

impl<'a> At<'a> {
    /// A name that a copy has, too.
    pub fn of(directory: &'a Arc<Pair>, handles: [BorrowedFd<'a>; 2], name: &'a CStr) -> Self {
        Self {
            directory,
            handles,
            from: name,
            to: name,
            was_fetched: false,
            listed_inode: None,
        }
    }

    /// The path of the source.
    pub fn source_path(&self) -> PathBuf {
        self.directory.path_of(self.from.to_bytes())
    }

    /// The path of the copy.
    pub fn copy_path(&self) -> PathBuf {
        self.directory
            .own
            .to
            .join(self.directory.path_below_root(self.to.to_bytes()))
    }

    /// What new files in the copy's directory have; `new` is one.
    pub fn new_files(&self, new: &File) -> io::Result<NewFiles> {
        if let Some(known) = self.directory.own.new_files.get() {
            return Ok(*known);
        }
        let found = StatFacts::of(new)?;
        let has_any = |file: BorrowedFd<'_>| match sys::extended_attributes(file) {
            Ok(found) => found.available().is_some_and(|found| !found.is_empty()),
            // The handle of a target that was named stands for its place only.
            Err(_) => true,
        };
        let known = NewFiles {
            device: found.device,
            owner: found.owner,
            group: found.group,
            inherit: has_any(self.handles[1]) || has_any(new.as_fd()),
        };
        Ok(*self.directory.own.new_files.get_or_init(|| known))
    }

    /// Whether nothing else gave names in the copy's directory.
    pub fn is_in_new(&self) -> bool {
        self.directory.own.is_new.load(Ordering::Relaxed)
    }

    /// What the journal calls the copy.
    pub fn key(&self) -> u64 {
        key_of(self.directory.own.key, self.to)
    }

    /// Whether an interrupted run of this copy made the copy.
    pub fn is_own(&self, journal: &CopyJournal) -> bool {
        self.directory.own.is_own.load(Ordering::Relaxed) || journal.has_named(self.key())
    }

    /// Claims the name for this source, which has it alone; `found` is what has it in the target.
    pub fn claim(&self, found: Option<&StatFacts>) -> Result<(), IoFailure> {
        let own = &self.directory.own;
        let claim = (Arc::as_ptr(&own.to).cast::<()>().addr(), self.from.to_owned());
        own.names.claim(self.handles, self.to, &claim, found)
    }

    /// Fails where a temporary name would stay, because nothing in the directory can be renamed.
    pub fn require_renames(&self) -> io::Result<()> {
        let is_append_only = || is_append_only(&self.handles[1]);
        if *self.directory.own.is_append_only.get_or_init(is_append_only) {
            return Err(Errno::PERM.into());
        }
        Ok(())
    }
}

/// The path of a directory of the source.
pub(super) fn source_path(directory: &Pair) -> PathBuf {
    directory.path_of(b"")
}

/// The path of its copy.
pub(super) fn copy_path(directory: &Pair) -> PathBuf {
    let (to, below) = (&directory.own.to, directory.path_below_root(b""));
    // Joining an empty path would add a slash.
    if below.as_os_str().is_empty() {
        to.to_path_buf()
    } else {
        to.join(below)
    }
}

/// What is known of a source.
pub(super) struct SourceFacts {
    pub state: FileState,
    is_directory: bool,
    pub attributes: Attributes,
    pub times: [Time; 2],
}

/// The permissions that a new file does not get: umask(2), which cannot be read without changing it for a moment.
pub(super) static UMASK: LazyLock<u32> = LazyLock::new(|| {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    umask
        .and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok())
        .unwrap_or(0o022)
});

impl SourceFacts {
    /// Of an open directory.
    pub fn of_directory(directory: BorrowedFd<'_>, options: &CpOptions) -> io::Result<Self> {
        let directory = File::from(directory.try_clone_to_owned()?);
        Self::of(&directory, &directory.metadata()?, options)
    }

    /// Of an open file.
    pub fn of(file: &File, metadata: &Metadata, options: &CpOptions) -> io::Result<Self> {
        let mut mode = metadata.mode() & 0o7777;
        let extended = if options.preserved.xattr {
            sys::extended_attributes(file.as_fd())?.available()
        } else {
            // The group's rights are then the most that the list grants to anybody in it.
            if sys::access_list(file)?.available().flatten().is_some() {
                mode = without_group_rights(mode);
            }
            Some(Vec::new())
        };
        let attributes = Attributes {
            owner: metadata.uid(),
            group: metadata.gid(),
            mode,
            extended,
        };
        Ok(Self {
            state: FileState::of(metadata),
            is_directory: metadata.is_dir(),
            attributes: kept(attributes, options),
            times: times(metadata),
        })
    }

    /// Of an entry that must not be opened.
    pub fn of_entry(directory: BorrowedFd<'_>, name: &CStr, facts: &StatFacts, options: &CpOptions) -> Self {
        let extended = if options.preserved.xattr {
            let read = sys::extended_attributes_at(directory, name);
            read.ok().and_then(Support::available)
        } else {
            Some(Vec::new())
        };
        Self {
            state: facts.state,
            is_directory: false,
            attributes: kept(Attributes::new(facts, extended), options),
            times: [facts.accessed, facts.modified],
        }
    }

    /// The mode that a new file without a name may have from the beginning.
    pub fn first_mode(&self) -> u32 {
        self.attributes.mode & 0o777
    }

    /// Takes from an existing copy, until it gets what its source has, the rights that nobody is to have.
    pub fn restrict(&self, copy: BorrowedFd<'_>, found: &StatFacts, options: &CpOptions) -> io::Result<()> {
        let (copy, own) = (FileRef::Open(copy), Own::of(found));
        self.some(copy, &own, false, options).restrict(copy, &own)
    }

    /// What a copy with these attributes of its own gets. `is_new` says whether this copy made it.
    pub fn some(&self, copy: FileRef<'_>, own: &Own, is_new: bool, options: &CpOptions) -> Attributes {
        let (preserved, mut attributes) = (options.preserved, self.attributes.clone());
        if !preserved.ownership {
            attributes.limit_to(own.owner, own.group);
        }
        if !is_new {
            attributes.keep_own(copy, |role| !preserved.mode || role != XattrRole::Permissions);
        }
        if !preserved.mode {
            let usual = if self.is_directory { 0o777 } else { 0o666 };
            attributes.mode = match (is_new, options.usual_mode) {
                (true, true) => usual & !*UMASK,
                (true, false) => attributes.mode & 0o777 & !*UMASK,
                (false, _) => own.mode,
            };
        }
        attributes
    }
}

/// Those that are kept. An access control list is part of the permissions.
fn kept(mut attributes: Attributes, options: &CpOptions) -> Attributes {
    let has_mode = options.preserved.mode;
    attributes.retain(|role| role != XattrRole::Skipped && (has_mode || role != XattrRole::Permissions));
    attributes
}

/// A name in the target.
#[derive(Clone)]
pub(super) struct Name {
    pub directory: Arc<Pair>,
    pub to: CString,
    /// What its source is called.
    pub from: CString,
    /// Whether the file, which stays, is only alike its source: before it gets another name, their bytes are compared.
    pub is_unproven: bool,
}

impl Name {
    pub fn of(at: &At<'_>) -> Self {
        Self {
            directory: Arc::clone(at.directory),
            to: at.to.to_owned(),
            from: at.from.to_owned(),
            is_unproven: false,
        }
    }

    /// The name in its open directories.
    pub fn at<'a>(&'a self, handles: [BorrowedFd<'a>; 2]) -> At<'a> {
        At {
            to: &self.to,
            ..At::of(&self.directory, handles, &self.from)
        }
    }
}

/// The copies of files with several names, by their sources.
#[derive(Default)]
pub(super) struct Links {
    copies: Mutex<HashMap<FileId, Link>>,
    /// The sources of files of the target with several names that are their copies already.
    claims: Mutex<HashMap<FileId, FileId>>,
    /// The checksums of copies that may get further names.
    pub checksums: Mutex<HashMap<FileId, String>>,
    /// Whether files may be met more often than they have names, because sources overlap or links are followed.
    pub are_met_again: AtomicBool,
}

pub(super) struct Link {
    /// The names of the source that were not met yet.
    left: u64,
    /// Whether none was met before.
    is_first: bool,
    state: LinkState,
    /// The names of a new copy. They become names of a copy that stays, if one is met later.
    given: Vec<Name>,
    /// A copy that stays, met while a new one is made.
    kept: Option<(Name, FileId)>,
}

enum LinkState {
    /// A thread copies it. These names wait for it.
    Copying(Vec<Name>),
    /// The first name of the copy, and which file it is.
    Copied(Name, FileId),
}

/// What is to be done with a name of a file that has several.
pub(super) enum LinkTurn {
    /// Copy the file.
    Copy,
    /// Link it to this copy.
    Link(Name, FileId),
    /// The thread that copies the file links it.
    Wait,
}

impl Links {
    /// Whose turn it is at a name of a file with `names` of them.
    pub fn turn(&self, file: FileId, names: u64, at: &At<'_>) -> LinkTurn {
        let mut links = lock_mutex(&self.copies);
        let link = links.entry(file).or_insert(Link {
            left: names,
            is_first: true,
            state: LinkState::Copied(Name::of(at), file),
            given: Vec::new(),
            kept: None,
        });
        let is_first = std::mem::take(&mut link.is_first);
        link.left = link.left.saturating_sub(1);
        match &mut link.state {
            state if is_first => {
                *state = LinkState::Copying(Vec::new());
                LinkTurn::Copy
            }
            LinkState::Copying(waiting) => {
                waiting.push(Name::of(at));
                LinkTurn::Wait
            }
            LinkState::Copied(first, copy) => {
                let turn = LinkTurn::Link(first.clone(), *copy);
                if !link.given.is_empty() {
                    link.given.push(Name::of(at));
                }
                if link.left == 0 && !self.are_met_again.load(Ordering::Relaxed) {
                    links.remove(&file);
                }
                turn
            }
        }
    }

    /// Whether a name of a file was met before.
    pub fn is_met(&self, file: FileId) -> bool {
        lock_mutex(&self.copies).contains_key(&file)
    }

    /// Whether a file of the target is the copy of this source, and not also that of another one, which needs a file of its own.
    pub fn claim(&self, copy: &StatFacts, source: FileId) -> bool {
        copy.names < 2 || *lock_mutex(&self.claims).entry(copy.id()).or_insert(source) == source
    }

    /// Notes a name whose copy stays. Returns the names of a new copy, which become names of this one; fails with the first name of
    /// another copy that stays, too.
    pub fn keep(&self, file: FileId, names: u64, copy: FileId, name: &Name) -> Result<Vec<Name>, (Name, FileId)> {
        let mut links = lock_mutex(&self.copies);
        let link = links.entry(file).or_insert_with(|| Link {
            left: names,
            is_first: false,
            state: LinkState::Copied(name.clone(), copy),
            given: Vec::new(),
            kept: None,
        });
        link.left = link.left.saturating_sub(1);
        let new = (name.clone(), copy);
        match &mut link.state {
            LinkState::Copied(_, known) if *known == copy => return Ok(Vec::new()),
            LinkState::Copied(first, known) if link.given.is_empty() => return Err((first.clone(), *known)),
            LinkState::Copied(first, known) => (*first, *known) = new,
            LinkState::Copying(_) => match &link.kept {
                Some(kept) if kept.1 != copy => return Err(kept.clone()),
                _ => link.kept = Some(new),
            },
        }
        Ok(std::mem::take(&mut link.given))
    }

    /// The copy of a file, by its first name.
    pub fn copy_of(&self, file: FileId) -> Option<(Name, FileId)> {
        match &lock_mutex(&self.copies).get(&file)?.state {
            LinkState::Copied(first, copy) => Some((first.clone(), *copy)),
            LinkState::Copying(_) => None,
        }
    }

    /// A file was copied to a name, or could not be. Returns the names that wait, and what they are to be linked to: a copy that stays,
    /// if one was met meanwhile. `may_stay` says that one may still be met.
    pub fn copied(
        &self,
        file: FileId,
        copy: Option<FileId>,
        may_stay: bool,
        at: &At<'_>,
    ) -> (Vec<Name>, Option<(Name, FileId)>) {
        let mut links = lock_mutex(&self.copies);
        let new = copy.map(|copy| (Name::of(at), copy));
        let Some(link) = links.get_mut(&file) else {
            return (Vec::new(), new);
        };
        let waiting = match &mut link.state {
            LinkState::Copying(waiting) => std::mem::take(waiting),
            LinkState::Copied(..) => Vec::new(),
        };
        let kept = link.kept.take();
        if may_stay && kept.is_none() && new.is_some() {
            link.given.clone_from(&waiting);
            link.given.push(Name::of(at));
        }
        let first = kept.or(new);
        match first.clone() {
            Some((first, copy)) if link.left > 0 || self.are_met_again.load(Ordering::Relaxed) => {
                link.state = LinkState::Copied(first, copy);
            }
            // The next name is copied itself.
            _ => drop(links.remove(&file)),
        }
        (waiting, first)
    }
}
