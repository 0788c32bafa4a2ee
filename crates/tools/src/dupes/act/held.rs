//! The files of a step, open and held: they are what was searched, nobody writes to them, and their bytes are equal.
//!
//! Not here: what is done with them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::FileType;
use seekless::error::NotAlone;
use seekless::files::{Attributes, DIGESTED_HOLE_BYTES_MAX, Lease, lock, read_full};
use seekless::plan::LARGE_BYTES;
use seekless_sys::{self as sys, SharedMappings, Support};

use super::journal::{Entry, Name};
use super::place::{Behind, Directories, Place, Systems};
use super::twin::born_ns;
use super::{Action, Options, Seen, Step};
use crate::Stop;
use crate::tree::What;
use crate::tree::large::Large;
use crate::visible::visible_path;
use crate::walk::{Facts, with_article};

/// Contents of kept files up to this size stay in memory, to be compared with several files.
const IN_MEMORY_BYTES: u64 = 128 << 10;
const BLOCK_BYTES: usize = 128 << 10;

/// How long to wait for a lock that another process holds, perhaps only while it starts a child process.
const PATIENCE: Duration = Duration::from_millis(40);

/// Why nothing is proven about files of some file systems.
pub(super) const UNSURE: &str = "on its file system, inode numbers do not identify files";

/// Why a file is left alone.
pub(super) type Refused = String;

/// What holding files needs.
pub(super) struct Holding<'a> {
    pub options: &'a Options,
    pub stop: &'a Stop,
    pub systems: Systems,
    large: Large,
    user: u32,
    is_root: bool,
    /// The groups that this user may give files to.
    groups: Vec<u32>,
    /// What undo can give new files, by file system and attributes.
    tried: Mutex<HashMap<(u64, String), Result<(), Refused>>>,
    /// The facts of kept files after our own links changed them.
    renewed: Mutex<HashMap<(u64, u64), Facts>>,
    /// Names for which directories were made that could not be removed again, perhaps because too many files are open.
    unmade: Mutex<Vec<Name>>,
    /// Blocks of the two files that are compared.
    blocks: Mutex<[Vec<u8>; 2]>,
}

/// A file that is open, locked and leased.
pub(super) struct Held {
    pub file: Arc<File>,
    lease: Option<Lease>,
    /// What it is expected to be.
    facts: Mutex<Facts>,
    pub behind: Behind,
}

/// A file that is kept.
pub(super) struct Kept {
    pub held: Held,
    pub place: Place,
    pub attributes: Attributes,
    /// When it was made, if its file system records this.
    pub born_ns: Option<i64>,
    content: Option<Vec<u8>>,
    /// BLAKE3 of its bytes, as digits.
    pub digest: String,
}

impl Seen {
    /// Whether a file is what it was.
    pub(super) fn is(&self, now: &Facts) -> bool {
        *self == Self::of(now)
    }

    pub(super) fn of(now: &Facts) -> Self {
        Self {
            device: now.device,
            inode: now.inode,
            bytes: now.bytes,
            modified_ns: now.modified_ns(),
            changed_ns: now.changed_ns,
            contents: None,
        }
    }

    pub(super) fn is_inode(&self, now: &Facts) -> bool {
        (self.device, self.inode) == (now.device, now.inode)
    }

    /// Whether a file has the size and the time of this one.
    pub(super) fn is_as_old(&self, now: &Facts) -> bool {
        (self.bytes, self.modified_ns) == (now.bytes, now.modified_ns())
    }
}

/// Whether a file is what it was. The space that it takes may change without a write, when its blocks are allocated.
fn is_same(one: &Facts, other: &Facts) -> bool {
    (one.names, one.changed_ns) == (other.names, other.changed_ns) && is_but_for_names(one, other)
}

/// Whether a file differs only in what links and renames change: the number of its names, and its ctime. The space it takes
/// may differ, too: blocks are allocated without a write.
pub(super) fn is_but_for_names(one: &Facts, other: &Facts) -> bool {
    let same = |facts: &Facts| Facts {
        names: 0,
        changed_ns: 0,
        allocated_bytes: 0,
        ..*facts
    };
    same(one) == same(other)
}

impl Held {
    /// What the file is expected to be.
    pub fn facts(&self) -> Facts {
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody opened the file for writing since the lease was taken.
    pub fn is_alone(&self) -> bool {
        self.lease.as_ref().is_none_or(Lease::stands)
    }

    /// Fails if the file is not what it was, or somebody wants to write to it.
    pub fn require_unchanged(&self) -> Result<(), Refused> {
        let now = Facts::of(&self.file).map_err(|error| format!("cannot stat: {error}"))?;
        if !is_same(&now, &self.facts()) {
            return Err("changed since it was compared".into());
        }
        if !self.is_alone() {
            return Err("in use: another process is opening it for writing".into());
        }
        Ok(())
    }

    /// Updates the expected facts to those of now, after our own calls changed the file's names.
    ///
    /// # Errors
    /// Something else changed, too.
    pub fn renew(&self) -> Result<(), Refused> {
        let now = Facts::of(&self.file).map_err(|error| format!("cannot stat: {error}"))?;
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_but_for_names(&now, &facts) {
            return Err("changed while links were made".into());
        }
        *facts = now;
        Ok(())
    }
}

impl Kept {
    /// Fails unless the file has a name and the bytes that were compared, and nobody wants to write to it.
    pub fn require_bytes(&self) -> Result<(), Refused> {
        let of_kept = |why: &str| format!("the kept file {}: {why}", visible_path(&self.place.path));
        let now = Facts::of(&self.held.file).map_err(|error| of_kept(&format!("cannot stat: {error}")))?;
        match () {
            () if now.names == 0 => Err(of_kept("another program removed it at that moment")),
            () if !is_but_for_names(&now, &self.held.facts()) => Err(of_kept("it was changed at that moment")),
            () if !self.held.is_alone() => Err(of_kept("in use: another process is opening it for writing")),
            () => Ok(()),
        }
    }
}

impl<'a> Holding<'a> {
    pub fn new(options: &'a Options, stop: &'a Stop) -> Self {
        let user = sys::effective_user();
        Self {
            options,
            stop,
            systems: Systems::default(),
            large: Large::default(),
            user,
            is_root: user == 0,
            groups: sys::effective_groups().unwrap_or_default(),
            tried: Mutex::default(),
            renewed: Mutex::default(),
            unmade: Mutex::default(),
            blocks: Mutex::default(),
        }
    }

    /// Whether what this user owns may be acted on, and relied on.
    pub fn may_touch(&self, owner: u32) -> bool {
        !self.is_root || self.options.unsafe_owner || owner == 0
    }

    /// Fails if root would act on a file of another user, or below a directory in which another user decides what its path
    /// leads to.
    pub fn require_owner(&self, place: &Place, facts: &Facts) -> Result<(), Refused> {
        if !self.is_root || self.options.unsafe_owner {
            return Ok(());
        }
        if facts.owner != 0 {
            return Err(format!("belongs to another user (ID {})", facts.owner));
        }
        self.require_private(place)
    }

    /// Fails if root would use a directory in which another user decides what names lead to.
    pub fn require_private(&self, place: &Place) -> Result<(), Refused> {
        match &place.exposed {
            Some(exposed) if self.is_root && !self.options.unsafe_owner => Err(exposed.to_string()),
            _ => Ok(()),
        }
    }

    /// Fails if a file would become a symbolic link whose path leads through a directory in which another user decides what
    /// names lead to: that user would decide what its readers get.
    pub fn require_own_target(&self, action: &Action, kept: &Place) -> Result<(), Refused> {
        match &kept.exposed {
            Some(exposed) if matches!(action, Action::Symlink { .. }) && !self.options.unsafe_owner => {
                Err(exposed.to_string())
            }
            _ => Ok(()),
        }
    }

    /// Fails if only root could give a new file the owner or the group of this one, as far as that is known without trying.
    pub fn require_restorable(&self, action: &Action, own: &Attributes) -> Result<(), Refused> {
        if self.is_root || self.options.ignore_metadata || !is_copied(action) || self.has_plain_owner(own) {
            return Ok(());
        }
        let what = if own.owner == self.user {
            format!("group (ID {}), which this user is not in", own.group)
        } else {
            format!("owner (ID {})", own.owner)
        };
        Err(format!("only root could restore its {what}"))
    }

    fn has_plain_owner(&self, own: &Attributes) -> bool {
        own.owner == self.user && (own.group == self.user || self.groups.contains(&own.group))
    }

    /// Fails if undo could not give a new file all that this one has, which is tried on a file without a name, once for each kind
    /// of file.
    pub fn require_trial(&self, action: &Action, place: &Place, entry: &Entry) -> Result<(), Refused> {
        let own = &entry.attributes;
        let has_plain_flags =
            entry.flags.is_none_or(|flags| flags == 0) && entry.extended_flags.unwrap_or_default() == [0; 4];
        let has_lists = own.extended.as_ref().is_some_and(|extended| !extended.is_empty());
        let is_plain = self.has_plain_owner(own) && own.mode & 0o7000 == 0 && !has_lists && has_plain_flags;
        if self.options.ignore_metadata || !is_copied(action) || is_plain {
            return Ok(());
        }
        let kind = (
            entry.seen.device,
            format!("{own:?} {:?} {:?}", entry.flags, entry.extended_flags),
        );
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = tried.entry(kind).or_insert_with(|| {
            let temporary = OsStr::new(&entry.names[0].temporary);
            let failed = |error: io::Error| format!("cannot try whether undo could restore it: {error}");
            let (file, is_named) = match sys::unnamed_file(&place.directory).map_err(failed)? {
                Support::Available((file, _)) => (file, false),
                Support::Unavailable(_) => (place.directory.create_file(temporary, 0o600).map_err(failed)?, true),
            };
            let given = entry.give_flags(&file).and_then(|()| entry.give_attributes(&file));
            if is_named {
                place.directory.remove_file(temporary).map_err(failed)?;
            }
            given.map_err(|why| format!("undo could not restore it: {why}"))
        });
        answer.clone()
    }

    /// Fails in a directory with the sticky bit if another user owns a file of this step: a link could be made, but not removed
    /// again.
    pub fn require_removable(&self, place: &Place, files: &[&Facts]) -> Result<(), Refused> {
        let directory =
            Facts::of(place.directory.as_fd()).map_err(|error| format!("cannot stat its directory: {error}"))?;
        let is_free = self.is_root || directory.mode & 0o1000 == 0 || directory.owner == self.user;
        match files.iter().find(|file| !is_free && file.owner != self.user) {
            Some(file) => Err(format!(
                "its directory has the sticky bit, so only owners may remove files, and the owner is another user (ID {})",
                file.owner
            )),
            None => Ok(()),
        }
    }

    /// Opens a file, and keeps writers out. Fails if the file has changed.
    pub fn hold(&self, place: &Place, expected: &Seen) -> Result<Held, Refused> {
        self.open(place, expected, true)
    }

    /// Fails if a lease proves nothing on a file system, unless the user takes the risk.
    pub fn require_leases(&self, behind: &Behind) -> Result<(), Refused> {
        match &behind.leases {
            Err(why) if !self.options.is_busy => Err(format!("cannot keep other processes out: {why}")),
            _ => Ok(()),
        }
    }

    /// Fails if a process may have one of two files mapped where leases do not show that. Compares them again: before, a process
    /// that has ended its mapping since may have written.
    pub fn require_unmapped(
        &self,
        kept: &Kept,
        held: &Held,
        mappings: &mut Option<SharedMappings>,
    ) -> Result<(), Refused> {
        let is_blind = |held: &&Held| held.lease.as_ref().is_some_and(Lease::may_be_mapped);
        if self.options.is_busy || ![&kept.held, held].iter().any(is_blind) {
            return Ok(());
        }
        let of_kept = |why: Refused| format!("the kept file {}: {why}", visible_path(&kept.place.path));
        let unmapped = |held: &Held, mappings: &mut Option<SharedMappings>| match &held.lease {
            Some(lease) => lease.require_unmapped(mappings).map_err(|why| format!("in use: {why}")),
            None => Ok(()),
        };
        unmapped(held, mappings)?;
        unmapped(&kept.held, mappings).map_err(of_kept)?;
        if self.digest(&kept.held).map_err(of_kept)?.1 != kept.digest {
            return Err(of_kept("changed since it was compared".into()));
        }
        self.compare(kept, held)
    }

    fn open(&self, place: &Place, expected: &Seen, is_alone: bool) -> Result<Held, Refused> {
        // Stat it before opening it: opening a device may have effects, and opening a file breaks leases.
        let found = place.facts().map_err(|error| format!("cannot stat: {error}"))?;
        let found = found.ok_or("it is gone")?;
        if found.kind != FileType::RegularFile {
            return Err(format!("it is {} now", with_article(found.kind)));
        }
        let renewed = self.renewed_of(expected);
        let is_expected = |now: &Facts| renewed.map_or_else(|| expected.is(now), |renewed| is_same(&renewed, now));
        if !is_expected(&found) {
            return Err("changed since the search".into());
        }
        let file = place.open().map_err(|error| format!("cannot open: {error}"))?;
        let file = Arc::new(file);
        let behind = self.systems.of(found.device, &file);
        let behind = behind.map_err(|error| format!("cannot examine its file system: {error}"))?;
        if !behind.system.inodes_identify {
            return Err(UNSURE.into());
        }
        self.require_leases(&behind)?;
        if is_alone && !lock(&file, PATIENCE).map_err(|error| format!("cannot lock: {error}"))? {
            return Err("in use: another process has locked it".into());
        }
        // Mappings are asked for in `require_unmapped`, for many files at once.
        let scope = behind.leases.as_ref().ok().filter(|_| is_alone);
        let lease = match scope.map(|scope| Lease::against_openers(&file, *scope)).transpose() {
            Ok(lease) => lease,
            Err(_) if self.options.is_busy => None,
            Err(why @ NotAlone::OpenForWriting) => return Err(format!("in use: {why}")),
            Err(why) => return Err(format!("cannot keep other processes out: {why}")),
        };
        let facts = Facts::of(&file).map_err(|error| format!("cannot stat: {error}"))?;
        if facts.kind != FileType::RegularFile || !is_expected(&facts) {
            return Err("changed since the search".into());
        }
        Ok(Held {
            file,
            lease,
            facts: facts.into(),
            behind,
        })
    }

    /// Opens the file that a step keeps.
    pub fn keep(&self, step: &Step, directories: &Directories) -> Result<Kept, Refused> {
        let of_kept = |why: Refused| format!("the kept file {}: {why}", visible_path(&step.keep));
        self.keep_unnamed(step, directories).map_err(of_kept)
    }

    fn keep_unnamed(&self, step: &Step, directories: &Directories) -> Result<Kept, Refused> {
        let place = directories.place(&step.keep);
        let place = place.map_err(|error| format!("cannot open its directory: {error}"))?;
        let held = self.hold(&place, &step.keep_seen)?;
        let attributes = Attributes::of(&held.file).map_err(|error| format!("cannot read its attributes: {error}"))?;
        let (content, digest) = self.digest(&held)?;
        Ok(Kept {
            born_ns: born_ns(&held.file),
            held,
            place,
            attributes,
            content,
            digest,
        })
    }

    /// The digest of a file, and its bytes if they are few.
    fn digest(&self, held: &Held) -> Result<(Option<Vec<u8>>, String), Refused> {
        let bytes = held.facts().bytes;
        let failed = |error: io::Error| format!("cannot read: {error}");
        if bytes <= IN_MEMORY_BYTES {
            let mut content = vec![0; bytes as usize];
            let read = read_full(&held.file, &mut content, 0).map_err(failed)?;
            if read < content.len() {
                return Err("changed since the search".into());
            }
            let digest = blake3::hash(&content).to_hex().to_string();
            return Ok((Some(content), digest));
        }
        if bytes.saturating_sub(held.facts().allocated_bytes) > DIGESTED_HOLE_BYTES_MAX {
            return Err("has more than 1 TiB of holes, too many to digest".into());
        }
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = digest_of(&held.file, bytes, &mut blocks[0], &|| {
            !self.stop.is_stopped() && held.is_alone()
        });
        Ok((None, digest.map_err(failed)?))
    }

    /// Fails unless two files are unchanged, are not the same file, and have equal bytes. The caller must check that nobody writes
    /// to them.
    pub fn compare_open(&self, place: &Place, seen: &Seen, kept: (&Place, &Seen)) -> Result<(), Refused> {
        let of_kept = |why: Refused| format!("the kept file {}: {why}", kept.0.path.display());
        let held = self.open(place, seen, false)?;
        let twin = self.open(kept.0, kept.1, false).map_err(of_kept)?;
        for (file, of) in [(&held, &(|why| why) as &dyn Fn(Refused) -> Refused), (&twin, &of_kept)] {
            if sys::is_mount_root(&file.file) {
                return Err(of("it is a mount point".into()));
            }
        }
        match one_file(&twin, &held, &kept.0.path) {
            Some(why) => Err(why),
            None => self.compare_bytes(&twin, None, &held),
        }
    }

    /// Fails unless the bytes of a file equal those of the kept one. Gives up if somebody wants to write to one of them.
    pub fn compare(&self, kept: &Kept, held: &Held) -> Result<(), Refused> {
        self.compare_bytes(&kept.held, kept.content.as_deref(), held)
    }

    fn compare_bytes(&self, kept: &Held, content: Option<&[u8]>, held: &Held) -> Result<(), Refused> {
        let bytes = held.facts().bytes;
        let differs = |at: u64| format!("differs from the kept file at byte {at}");
        if bytes != kept.facts().bytes {
            return Err("differs from the kept file in size".into());
        }
        let goes_on = || !self.stop.is_stopped() && held.is_alone() && kept.is_alone();
        if bytes >= LARGE_BYTES {
            let files = [Arc::clone(&kept.file), Arc::clone(&held.file)];
            return match self.large.compare_while(&files, bytes, false, &goes_on) {
                Ok(None) => Ok(()),
                Ok(Some(at)) => Err(differs(at)),
                Err(None) => Err(self.interrupted()),
                Err(Some(What::Failed { reason, .. })) => Err(format!("cannot compare: {reason}")),
                Err(Some(_)) => Err("cannot compare".into()),
            };
        }
        let failed = |error: io::Error| format!("cannot read: {error}");
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let [ours, theirs] = &mut *blocks;
        for blocks in [&mut *ours, &mut *theirs] {
            blocks.resize(BLOCK_BYTES, 0);
        }
        let mut at = 0;
        while at < bytes {
            let length = (bytes - at).min(BLOCK_BYTES as u64) as usize;
            let read = read_full(&held.file, &mut theirs[..length], at).map_err(failed)?;
            let wanted = if let Some(content) = content {
                &content[at as usize..at as usize + length]
            } else {
                let read = read_full(&kept.file, &mut ours[..length], at).map_err(failed)?;
                &ours[..read]
            };
            if theirs[..read] != *wanted {
                let equal = theirs[..read]
                    .iter()
                    .zip(wanted)
                    .take_while(|(one, other)| one == other);
                return Err(differs(at + equal.count() as u64));
            }
            at += length as u64;
        }
        Ok(())
    }

    fn interrupted(&self) -> Refused {
        if self.stop.is_stopped() {
            return super::STOPPED.into();
        }
        "in use: another process is opening it for writing".into()
    }

    fn renewed_of(&self, file: &Seen) -> Option<Facts> {
        let renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.get(&(file.device, file.inode)).copied()
    }

    /// Notes directories to remove at the end, if removing them failed.
    pub fn unmake_later(&self, name: &Name, unmade: &io::Result<()>) {
        if unmade.is_err() {
            let mut names = self.unmade.lock().unwrap_or_else(PoisonError::into_inner);
            names.push(name.clone());
        }
    }

    /// Takes the noted directories.
    pub fn take_unmade(&self) -> Vec<Name> {
        std::mem::take(&mut self.unmade.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers the facts of a kept file after our own links changed it.
    pub fn remember(&self, kept: &Held) {
        let facts = kept.facts();
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.insert((facts.device, facts.inode), facts);
    }
}

/// Whether undoing an action makes a new file.
fn is_copied(action: &Action) -> bool {
    matches!(action, Action::Remove | Action::Hardlink | Action::Symlink { .. })
}

/// BLAKE3 of the first bytes of a file, as digits.
pub(super) fn digest_of(
    file: &File,
    bytes: u64,
    block: &mut Vec<u8>,
    goes_on: &dyn Fn() -> bool,
) -> io::Result<String> {
    block.resize(8 * BLOCK_BYTES, 0);
    let mut digest = blake3::Hasher::new();
    let mut at = 0;
    while at < bytes {
        if !goes_on() {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "stopped, or another process opens it for writing",
            ));
        }
        let length = (bytes - at).min(block.len() as u64) as usize;
        let read = read_full(file, &mut block[..length], at)?;
        if read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it is shorter than it was",
            ));
        }
        digest.update(&block[..read]);
        at += read as u64;
    }
    Ok(digest.finalize().to_hex().to_string())
}

/// Why two paths may show one file, whether or not their numbers differ.
pub(super) fn one_file(kept: &Held, held: &Held, keep: &Path) -> Option<Refused> {
    let (one, other) = (&kept.facts(), &held.facts());
    if one.id() == other.id() {
        return Some(format!(
            "it is the kept file: {} is another name of it",
            visible_path(keep)
        ));
    }
    if one.device == other.device {
        return None;
    }
    // An overlay shows files of its layers, perhaps with metadata of its own.
    if kept.behind.system.is_overlay || held.behind.system.is_overlay {
        return Some(format!(
            "it may be the kept file, shown by an overlay: {} is on another file system",
            visible_path(keep)
        ));
    }
    // One image may be mounted through two devices.
    let same = |facts: &Facts| (facts.inode, facts.bytes, facts.modified_ns(), facts.changed_ns);
    (same(one) == same(other)).then(|| {
        format!(
            "it may be the kept file, shown by another device: {} has the same number and times",
            visible_path(keep)
        )
    })
}
