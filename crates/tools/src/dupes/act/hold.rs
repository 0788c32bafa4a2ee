//! What all steps of a run share, and their files, open and held: they are what was found, nobody writes to them, and their bytes are
//! equal.
//!
//! Not here: what keeps a step from being done (`prove`), and what is done with the files (`change`).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::FileType;
use seekless_engine::error::NotAlone;
use seekless_engine::files::{Attributes, DIGESTED_HOLE_BYTES_MAX, FileId, FileState, Held, Lease, read_full};
use seekless_engine::update::Watch;
use seekless_sys::{self as sys, IdMaps, LeaseKind, SharedMappings};

use super::dir_handle::{Behind, DirEntryHandle, Directories, Systems};
use super::record::{NewPlace, born_ns, digest_of};
use super::{ActingOptions, Action, RefusalReason, Step, TEMPORARY, cannot, of_kept};
use crate::Stop;
use crate::tree::TreeFinding;
use crate::tree::large::Large;
use crate::walk::StatFacts;

/// Contents of kept files up to this size stay in memory, to be compared with several files.
const IN_MEMORY_BYTES: u64 = 128 << 10;

/// How long to wait for a lock that another process holds, perhaps only while it starts a child process.
const PATIENCE: Duration = Duration::from_millis(250);

/// What all steps of a run share.
pub(super) struct Session<'a> {
    pub action: &'a Action,
    pub options: &'a ActingOptions,
    pub stop: &'a Stop,
    pub watch: &'a dyn Watch,
    pub systems: Systems,
    pub large: Large,
    pub user: u32,
    pub is_root: bool,
    /// The groups that this user may give files to.
    pub groups: Vec<u32>,
    /// How IDs are mapped, unless every ID means what it means to the kernel.
    pub id_maps: Option<IdMaps>,
    /// What distinguishes the temporary names of this run from those of others.
    pub run: String,
    /// What undo can give new files, by file system and attributes.
    pub tried: Mutex<HashMap<(u64, String), Result<(), RefusalReason>>>,
    /// The facts of kept files after our own links changed them.
    renewed: Mutex<HashMap<FileId, StatFacts>>,
    /// Places for which directories were made that could not be removed again, perhaps because too many files are open.
    pub unmade: Mutex<Vec<NewPlace>>,
    /// A block of a file that is read.
    pub block: Mutex<Vec<u8>>,
}

impl<'a> Session<'a> {
    pub fn new(action: &'a Action, options: &'a ActingOptions, stop: &'a Stop, watch: &'a dyn Watch) -> Self {
        let user = sys::effective_user();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            action,
            options,
            stop,
            watch,
            systems: Systems::default(),
            large: Large::default(),
            user,
            is_root: user == 0,
            groups: sys::effective_groups().unwrap_or_default(),
            id_maps: sys::id_maps().filter(|maps| !maps.is_whole),
            run: format!("{:x}-{:x}", std::process::id(), since.as_nanos() as u64),
            tried: Mutex::default(),
            renewed: Mutex::default(),
            unmade: Mutex::default(),
            block: Mutex::default(),
        }
    }

    /// The temporary name of a name of a step, by their numbers.
    pub fn temporary(&self, number: u64, at: usize) -> String {
        format!("{TEMPORARY}{}-{number}-{at}", self.run)
    }

    /// Fails if this user may not take a lease on a file: only its owner may, and root.
    pub fn require_lease(&self, facts: &StatFacts) -> Result<(), RefusalReason> {
        let may = self.options.without_leases || self.is_root || facts.owner == self.user || sys::may_lease_all();
        may.then_some(())
            .ok_or(RefusalReason::MayNot("take a lease on it: only its owner and root may"))
    }

    /// Fails where nothing can be proven about files of a file system, unless files are moved and compared again.
    pub fn require_proof(&self, behind: &Behind) -> Result<(), RefusalReason> {
        match &behind.leases {
            _ if self.options.without_leases && self.action.moves() => Ok(()),
            _ if !behind.system.inodes_identify => Err(RefusalReason::InodesDoNotIdentify),
            Err(why) => Err(RefusalReason::NoLeases(why.clone())),
            Ok(_) => Ok(()),
        }
    }

    /// Fails where a file system lacks what the action needs.
    pub fn require_ability(&self, behind: &Behind) -> Result<(), RefusalReason> {
        self.require_proof(behind)?;
        let is_able = *self.action != Action::Reflink || behind.system.may_share;
        is_able.then_some(()).ok_or(RefusalReason::CannotShare)
    }

    /// Looks at what an absolute path leads to.
    pub fn find(&self, path: &Path, directories: &Directories) -> Result<FoundFile, RefusalReason> {
        let place = directories.place(path).map_err(cannot("open its directory"))?;
        let facts = place.facts().map_err(cannot("stat"))?.ok_or(RefusalReason::Gone)?;
        let behind = self.systems.of(facts.device, &place.directory);
        let behind = behind.map_err(cannot("examine its file system"))?;
        Ok(FoundFile { place, facts, behind })
    }

    /// Whether two files may be hard links of one file or, if that is asked for, share blocks.
    pub fn are_on_one_file_system(&self, one: &FoundFile, other: &FoundFile) -> bool {
        let is_sharing = *self.action == Action::Reflink && one.behind.sharing == other.behind.sharing;
        one.facts.device == other.facts.device || is_sharing
    }

    /// Whether a file is what it was at the search, but for what our own links changed.
    pub fn is_expected(&self, expected: &FileState, now: &StatFacts) -> bool {
        let renewed = sys::lock_mutex(&self.renewed);
        match renewed.get(&expected.id()) {
            Some(renewed) => renewed.is_same(now),
            None if self.is_unnumbered(now.device) => {
                (expected.bytes, expected.modified_ns) == (now.bytes, now.modified_ns)
            }
            None => *expected == now.state,
        }
    }

    /// Whether numbers do not identify the files of a file system, and this is known and accepted.
    pub fn is_unnumbered(&self, device: u64) -> bool {
        let behind = || self.systems.known(device);
        self.options.without_leases && behind().is_some_and(|behind| !behind.system.inodes_identify)
    }

    /// Remembers the facts of a kept file after our own links changed it.
    pub fn remember(&self, kept: &LeasedFile) {
        let facts = kept.facts();
        let mut renewed = sys::lock_mutex(&self.renewed);
        renewed.insert(facts.id(), facts);
    }
}

/// What a path leads to.
pub(super) struct FoundFile {
    pub place: DirEntryHandle,
    pub facts: StatFacts,
    pub behind: Behind,
}

/// A file that is open, locked and leased.
pub(super) struct LeasedFile {
    held: Held,
    pub behind: Behind,
}

impl Deref for LeasedFile {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

/// A file that is kept.
pub(super) struct LockedKeeper {
    pub held: Arc<LeasedFile>,
    pub place: DirEntryHandle,
    pub attributes: Attributes,
    /// When it was made, if its file system records this.
    pub born_ns: Option<i64>,
    content: Option<Vec<u8>>,
    /// BLAKE3 of its bytes, as digits.
    pub digest: String,
}

impl LeasedFile {
    /// Fails if the file is not what it was, or somebody wants to write to it.
    pub fn require_unchanged(&self) -> Result<(), RefusalReason> {
        let is_same = self.is_unchanged().map_err(cannot("stat"))?;
        self.require(is_same)
    }

    /// Fails unless a name leads to the file, which has the bytes that were compared, and to which nobody wants to write.
    pub fn require_at(&self, place: &DirEntryHandle, called: &OsStr) -> Result<(), RefusalReason> {
        self.require_found(place.facts_of(called).map_err(cannot("stat"))?)
    }

    /// The same, whatever name leads to the file.
    pub fn require_named(&self) -> Result<(), RefusalReason> {
        self.require_found(Some(StatFacts::of(&self.file).map_err(cannot("stat"))?))
    }

    fn require_found(&self, found: Option<StatFacts>) -> Result<(), RefusalReason> {
        let expected = self.facts();
        let found = found.filter(|found| found.id() == expected.id() && found.names > 0);
        let found = found.ok_or(RefusalReason::Replaced)?;
        self.require(found.is_but_for_names(&expected))
    }

    fn require(&self, is_same: bool) -> Result<(), RefusalReason> {
        match is_same {
            false => Err(RefusalReason::ChangedMeanwhile),
            true if !self.is_alone() => Err(RefusalReason::OPENING),
            true => Ok(()),
        }
    }

    /// Updates the expected facts to those of now, after our own calls changed the file's names.
    ///
    /// # Errors
    /// Something else changed, too.
    pub fn renew(&self) -> Result<(), RefusalReason> {
        let is_ours = self.held.renew().map_err(cannot("stat"))?;
        is_ours.then_some(()).ok_or(RefusalReason::ChangedMeanwhile)
    }
}

impl Session<'_> {
    /// Fails if a process may have one of two files mapped where leases do not show that. Compares them again: before, a process
    /// that has ended its mapping since may have written.
    pub fn require_unmapped(
        &self,
        kept: &LockedKeeper,
        held: &LeasedFile,
        mappings: &mut Option<SharedMappings>,
    ) -> Result<(), RefusalReason> {
        let is_blind = |held: &&LeasedFile| held.lease().is_some_and(Lease::may_be_mapped);
        if ![&*kept.held, held].iter().any(is_blind) {
            return Ok(());
        }
        let of_kept = of_kept(&kept.place.path);
        let unmapped = |held: &LeasedFile, mappings: &mut Option<SharedMappings>| match held.lease() {
            Some(lease) => lease
                .require_unmapped(mappings)
                .map_err(|why| RefusalReason::InUse(why.to_string().into())),
            None => Ok(()),
        };
        unmapped(held, mappings)?;
        unmapped(&kept.held, mappings).map_err(&of_kept)?;
        if self.digest(&kept.held).map_err(&of_kept)?.1 != kept.digest {
            return Err(of_kept(RefusalReason::ChangedMeanwhile));
        }
        self.compare(kept, held)
    }

    /// Opens a file that was found, and keeps writers out. Fails if the file has changed.
    pub fn hold(&self, found: &FoundFile, expected: &FileState) -> Result<LeasedFile, RefusalReason> {
        // It was looked at before: opening a device may have effects, and opening a file breaks leases.
        if found.facts.kind != FileType::RegularFile {
            return Err(RefusalReason::NotRegular);
        }
        if !self.is_expected(expected, &found.facts) {
            return Err(RefusalReason::Changed);
        }
        let file = Arc::new(found.place.open().map_err(cannot("open"))?);
        self.require_proof(&found.behind)?;
        // On network file systems, a lock would keep the file from being read again by its new name.
        let held = if self.options.without_leases {
            Held::unlocked(file).map(Some)
        } else {
            Held::lock(file, PATIENCE)
        };
        let held = held.map_err(cannot("lock"))?;
        let mut held = held.ok_or(RefusalReason::LOCKED)?;
        // Mappings are asked for in `require_unmapped`, for many files at once.
        let scope = found
            .behind
            .leases
            .as_ref()
            .ok()
            .filter(|_| !self.options.without_leases);
        let kept_out = scope.map(|scope| held.keep_out(LeaseKind::AgainstWriters, Some(*scope)));
        match kept_out.transpose() {
            Ok(_) => {}
            Err(why @ NotAlone::OpenForWriting) => return Err(RefusalReason::InUse(why.to_string().into())),
            Err(why) => return Err(cannot("keep other processes out")(why)),
        }
        let facts = held.facts();
        if facts.kind != FileType::RegularFile || !self.is_expected(expected, &facts) {
            return Err(RefusalReason::Changed);
        }
        let behind = found.behind.clone();
        Ok(LeasedFile { held, behind })
    }

    /// Opens the file that a step keeps.
    pub fn keep(&self, step: &Step, directories: &Directories) -> Result<LockedKeeper, RefusalReason> {
        let found = self.find(&step.keep.path, directories)?;
        let held = Arc::new(self.hold(&found, &step.keep.state)?);
        let attributes = Attributes::of(&held.file).map_err(cannot("read its attributes"))?;
        // Names are removed whatever the bytes are.
        let (content, digest) = match self.action {
            Action::Names => (None, String::new()),
            _ => self.digest(&held)?,
        };
        Ok(LockedKeeper {
            born_ns: born_ns(&held.file),
            held,
            place: found.place,
            attributes,
            content,
            digest,
        })
    }

    /// The digest of a file, and its bytes if they are few.
    fn digest(&self, held: &LeasedFile) -> Result<(Option<Vec<u8>>, String), RefusalReason> {
        let bytes = held.facts().bytes;
        let mut block = sys::lock_mutex(&self.block);
        if bytes <= IN_MEMORY_BYTES {
            let content = read_whole(&held.file, bytes, &mut block)?;
            return Ok((Some(content.to_vec()), blake3::hash(content).to_hex().to_string()));
        }
        if bytes.saturating_sub(held.facts().allocated_bytes) > DIGESTED_HOLE_BYTES_MAX {
            return Err(RefusalReason::TooManyHoles);
        }
        let goes_on = || !self.stop.is_stopped() && held.is_alone();
        let digest = digest_of(&held.file, bytes, &mut block, &goes_on);
        Ok((None, digest.map_err(cannot("read"))?))
    }

    /// Fails unless the bytes of a file equal those of the kept one. Gives up if somebody wants to write to one of them.
    pub fn compare(&self, kept: &LockedKeeper, held: &LeasedFile) -> Result<(), RefusalReason> {
        let bytes = held.facts().bytes;
        let differs = |at: u64| Err(RefusalReason::DiffersAt(at));
        let of_kept = kept.held.facts().bytes;
        if bytes != of_kept {
            return differs(bytes.min(of_kept));
        }
        if let Some(content) = &kept.content {
            let mut block = sys::lock_mutex(&self.block);
            let own = read_whole(&held.file, bytes, &mut block)?;
            let equal = || own.iter().zip(content).take_while(|(one, other)| one == other).count();
            return if own == content {
                Ok(())
            } else {
                differs(equal() as u64)
            };
        }
        let goes_on = || !self.stop.is_stopped() && held.is_alone() && kept.held.is_alone();
        let files = [Arc::clone(&kept.held.file), Arc::clone(&held.file)];
        match self.large.compare(&files, bytes, &goes_on) {
            Ok(None) => Ok(()),
            Ok(Some(at)) => differs(at),
            Err(Some(TreeFinding::Failed { reason, .. })) => Err(cannot("compare")(reason)),
            Err(_) if self.stop.is_stopped() => Err(RefusalReason::Stopped),
            Err(_) => Err(RefusalReason::OPENING),
        }
    }
}

/// Reads a small file.
fn read_whole<'b>(file: &File, bytes: u64, block: &'b mut Vec<u8>) -> Result<&'b [u8], RefusalReason> {
    block.resize(bytes as usize, 0);
    match read_full(file, block, 0).map_err(cannot("read"))? {
        read if read < block.len() => Err(RefusalReason::Changed),
        _ => Ok(block),
    }
}

impl Session<'_> {
    /// Why two paths may be of one file, whether or not the numbers of what they lead to differ.
    pub fn one_file(&self, kept: &FoundFile, file: &FoundFile) -> Option<RefusalReason> {
        let keep = || kept.place.path.clone();
        let (one, other) = (&kept.facts, &file.facts);
        if one.id() == other.id() {
            return Some(RefusalReason::IsKept(keep()));
        }
        // A file that shares blocks with itself loses nothing.
        if one.device == other.device || *self.action == Action::Reflink {
            return None;
        }
        // An overlay shows files of its layers, perhaps with metadata of its own.
        if kept.behind.system.is_overlay || file.behind.system.is_overlay {
            return Some(RefusalReason::MayBeKept(keep()));
        }
        // One image may be mounted through two devices. Then one may show what was there before the other changed it.
        let identity = kept.behind.identity;
        let is_one_system = identity.is_some() && identity == file.behind.identity;
        let same = |facts: &StatFacts| (facts.modified_ns, facts.changed_ns);
        // Where identities tell nothing apart, as those of images with UUIDs of zeros and those that btrfs makes for a second device, it is
        // when the file was made.
        let is_made_at_once = || match (kept.place.open(), file.place.open()) {
            (Ok(kept), Ok(file)) => {
                let born = born_ns(&file);
                born == born_ns(&kept) && (born.is_some() || same(one) == same(other))
            }
            _ => true,
        };
        let is_alike = (one.inode, one.bytes) == (other.inode, other.bytes);
        (is_one_system || is_alike && is_made_at_once()).then(|| RefusalReason::MayBeKept(keep()))
    }
}
