//! The files of a step, open and held: they are what was searched, nobody writes to them, and their bytes are equal.
//!
//! Not here: what is done with them.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rustix::fs::FileType;
use seekless::error::NotAlone;
use seekless::files::{Attributes, DIGESTED_HOLE_BYTES_MAX, FileState, Held, Lease, read_full};
use seekless_sys::{LeaseKind, SharedMappings};

use super::place::{Behind, Directories, ExaminedName};
use super::session::Session;
use super::twin::born_ns;
use super::{Action, RefusalReason, Step, cannot, of_kept};
use crate::tree::TreeFinding;
use crate::walk::StatFacts;

/// Contents of kept files up to this size stay in memory, to be compared with several files.
const IN_MEMORY_BYTES: u64 = 128 << 10;
const BLOCK_BYTES: usize = 1 << 20;

/// How long to wait for a lock that another process holds, perhaps only while it starts a child process.
const PATIENCE: Duration = Duration::from_millis(250);

/// A file that is open, locked and leased.
pub(super) struct HeldFile {
    held: Held,
    pub behind: Behind,
}

impl Deref for HeldFile {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

/// A file that is kept.
pub(super) struct HeldKept {
    pub held: Arc<HeldFile>,
    pub place: ExaminedName,
    pub attributes: Attributes,
    /// When it was made, if its file system records this.
    pub born_ns: Option<i64>,
    content: Option<Vec<u8>>,
    /// BLAKE3 of its bytes, as digits.
    pub digest: String,
}

impl HeldFile {
    /// Fails if the file is not what it was, or somebody wants to write to it.
    pub fn require_unchanged(&self) -> Result<(), RefusalReason> {
        match self.is_unchanged().map_err(cannot("stat"))? {
            false => Err(RefusalReason::ChangedSinceCompared),
            true if !self.is_alone() => Err(RefusalReason::Opening),
            true => Ok(()),
        }
    }

    /// Updates the expected facts to those of now, after our own calls changed the file's names.
    ///
    /// # Errors
    /// Something else changed, too.
    pub fn renew(&self) -> Result<(), RefusalReason> {
        let is_ours = self.held.renew().map_err(cannot("stat"))?;
        is_ours.then_some(()).ok_or(RefusalReason::ChangedSinceLinked)
    }
}

impl HeldKept {
    /// Fails unless the file has a name and the bytes that were compared, and nobody wants to write to it.
    pub fn require_bytes(&self) -> Result<(), RefusalReason> {
        let why = match StatFacts::of(&self.held.file) {
            Err(error) => cannot("stat")(error),
            Ok(now) if now.names == 0 => RefusalReason::RemovedNow,
            Ok(now) if !now.is_but_for_names(&self.held.facts()) => RefusalReason::ChangedNow,
            Ok(_) if !self.held.is_alone() => RefusalReason::Opening,
            Ok(_) => return Ok(()),
        };
        Err(of_kept(&self.place.path)(why))
    }

    /// Fails unless its name still leads to the file.
    pub fn require_named(&self) -> Result<(), RefusalReason> {
        let found = self.place.facts().map_err(cannot("stat"))?;
        let is_named = found.is_some_and(|found| found.id() == self.held.facts().id());
        let why = || of_kept(&self.place.path)(RefusalReason::Replaced);
        is_named.then_some(()).ok_or_else(why)
    }
}

impl Session<'_> {
    /// Fails if a process may have one of two files mapped where leases do not show that. Compares them again: before, a process
    /// that has ended its mapping since may have written.
    pub fn require_unmapped(
        &self,
        kept: &HeldKept,
        held: &HeldFile,
        mappings: &mut Option<SharedMappings>,
    ) -> Result<(), RefusalReason> {
        let is_blind = |held: &&HeldFile| held.lease().is_some_and(Lease::may_be_mapped);
        if self.options.is_busy || ![&*kept.held, held].iter().any(is_blind) {
            return Ok(());
        }
        let of_kept = of_kept(&kept.place.path);
        let unmapped = |held: &HeldFile, mappings: &mut Option<SharedMappings>| match held.lease() {
            Some(lease) => lease
                .require_unmapped(mappings)
                .map_err(|why| RefusalReason::InUse(why.to_string())),
            None => Ok(()),
        };
        unmapped(held, mappings)?;
        unmapped(&kept.held, mappings).map_err(&of_kept)?;
        if self.digest(&kept.held).map_err(&of_kept)?.1 != kept.digest {
            return Err(of_kept(RefusalReason::ChangedSinceCompared));
        }
        self.compare(kept, held)
    }

    /// Opens a file that was found with these facts, and keeps writers out. Fails if the file has changed.
    pub fn hold(
        &self,
        place: &ExaminedName,
        found: &StatFacts,
        expected: &FileState,
    ) -> Result<HeldFile, RefusalReason> {
        // It was looked at before: opening a device may have effects, and opening a file breaks leases.
        if found.kind != FileType::RegularFile {
            return Err(RefusalReason::NotRegular);
        }
        let behind = self.systems.of(found.device, &place.directory);
        let behind = behind.map_err(cannot("examine its file system"))?;
        if !self.is_expected(expected, found) {
            return Err(RefusalReason::Changed);
        }
        let file = Arc::new(place.open().map_err(cannot("open"))?);
        self.require_proof(&behind)?;
        // On network file systems, a lock would keep the file from being read again by its new name.
        let held = if self.options.without_leases {
            Held::unlocked(file).map(Some)
        } else {
            Held::lock(file, PATIENCE)
        };
        let held = held.map_err(cannot("lock"))?;
        let mut held = held.ok_or(RefusalReason::Locked)?;
        // Mappings are asked for in `require_unmapped`, for many files at once.
        let scope = behind.leases.as_ref().ok().filter(|_| !self.options.without_leases);
        let kept_out = scope.map(|scope| held.keep_out(LeaseKind::AgainstWriters, Some(*scope)));
        match kept_out.transpose() {
            Ok(_) => {}
            Err(_) if self.options.is_busy => {}
            Err(why @ NotAlone::OpenForWriting) => return Err(RefusalReason::InUse(why.to_string())),
            Err(why) => return Err(cannot("keep other processes out")(why)),
        }
        let facts = held.facts();
        if facts.kind != FileType::RegularFile || !self.is_expected(expected, &facts) {
            return Err(RefusalReason::Changed);
        }
        Ok(HeldFile { held, behind })
    }

    /// Opens the file that a step keeps.
    pub fn keep(&self, step: &Step, directories: &Directories) -> Result<HeldKept, RefusalReason> {
        self.keep_unnamed(step, directories).map_err(of_kept(&step.keep.path))
    }

    fn keep_unnamed(&self, step: &Step, directories: &Directories) -> Result<HeldKept, RefusalReason> {
        let place = directories
            .place(&step.keep.path)
            .map_err(cannot("open its directory"))?;
        let found = place.facts().map_err(cannot("stat"))?.ok_or(RefusalReason::Gone)?;
        let held = Arc::new(self.hold(&place, &found, &step.keep.state)?);
        let attributes = Attributes::of(&held.file).map_err(cannot("read its attributes"))?;
        // Names are removed whatever the bytes are.
        let (content, digest) = match self.action {
            Action::Names => (None, String::new()),
            _ => self.digest(&held)?,
        };
        Ok(HeldKept {
            born_ns: born_ns(&held.file),
            held,
            place,
            attributes,
            content,
            digest,
        })
    }

    /// The digest of a file, and its bytes if they are few.
    fn digest(&self, held: &HeldFile) -> Result<(Option<Vec<u8>>, String), RefusalReason> {
        let bytes = held.facts().bytes;
        let mut block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
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
    pub fn compare(&self, kept: &HeldKept, held: &HeldFile) -> Result<(), RefusalReason> {
        let bytes = held.facts().bytes;
        let differs = |at: u64| Err(RefusalReason::DiffersAt(at));
        if bytes != kept.held.facts().bytes {
            return Err(RefusalReason::DiffersInSize);
        }
        if let Some(content) = &kept.content {
            let mut block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
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
            Err(_) => Err(self.interrupted()),
        }
    }

    fn interrupted(&self) -> RefusalReason {
        if self.stop.is_stopped() {
            return RefusalReason::Stopped;
        }
        RefusalReason::Opening
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

/// BLAKE3 of the first bytes of a file, as digits.
pub(super) fn digest_of(
    file: &File,
    bytes: u64,
    block: &mut Vec<u8>,
    goes_on: &dyn Fn() -> bool,
) -> io::Result<String> {
    // Room for a small file only: most are small, and a long block takes longer to clear than they take to read.
    let wanted = bytes.min(BLOCK_BYTES as u64) as usize;
    if block.len() < wanted {
        block.resize(wanted, 0);
    }
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

impl Session<'_> {
    /// Why two names, with what they lead to, may be of one file, whether or not their numbers differ. Their file systems are known.
    pub fn one_file(
        &self,
        (kept, kept_facts): (&ExaminedName, &StatFacts),
        (place, facts): (&ExaminedName, &StatFacts),
    ) -> Option<RefusalReason> {
        let keep = || kept.path.clone();
        if kept_facts.id() == facts.id() {
            return Some(RefusalReason::IsKept(keep()));
        }
        // A file that shares blocks with itself loses nothing.
        if kept_facts.device == facts.device || *self.action == Action::Reflink {
            return None;
        }
        // An overlay shows files of its layers, perhaps with metadata of its own.
        if self.is_overlay(kept_facts) || self.is_overlay(facts) {
            return Some(RefusalReason::MayBeKeptInOverlay(keep()));
        }
        // One image may be mounted through two devices. Then one may show what was there before the other changed it.
        let identity = |facts: &StatFacts| self.systems.known(facts.device).and_then(|behind| behind.identity);
        let is_one_system = || identity(kept_facts).is_some_and(|one| Some(one) == identity(facts));
        let same = |facts: &StatFacts| (facts.modified_ns, facts.changed_ns);
        // Where identities tell nothing apart, as those of images with UUIDs of zeros and those that btrfs makes for a second device, it is
        // when the file was made.
        let is_made_at_once = || match (kept.open(), place.open()) {
            (Ok(kept), Ok(file)) => {
                let born = born_ns(&file);
                born == born_ns(&kept) && (born.is_some() || same(kept_facts) == same(facts))
            }
            _ => true,
        };
        let is_alike = (kept_facts.inode, kept_facts.bytes) == (facts.inode, facts.bytes);
        (is_one_system() || is_alike && is_made_at_once()).then(|| RefusalReason::MayBeKeptOnDevice(keep()))
    }
}
