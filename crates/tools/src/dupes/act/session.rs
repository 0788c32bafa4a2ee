//! What all steps of a run share, and which files they leave alone whatever is in them.
//!
//! Not here: the files themselves, open and held (`held`).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Access, AtFlags, accessat};
use rustix::io::Errno;
use seekless::files::{Attributes, FileId, FileState, XattrRole, make_new};
use seekless::update::Watch;
use seekless_sys::{self as sys, IdMaps};

use super::held::HeldFile;
use super::place::{Behind, ExaminedName, Systems};
use super::record::{NameOf, StepRecord};
use super::{ActingOptions, Action, RefusalReason, cannot};
use crate::Stop;
use crate::tree::large::Large;
use crate::walk::StatFacts;

/// What all steps of a run share.
pub(super) struct Session<'a> {
    pub action: &'a Action,
    pub options: &'a ActingOptions,
    pub stop: &'a Stop,
    pub watch: &'a dyn Watch,
    pub systems: Systems,
    pub large: Large,
    pub user: u32,
    is_root: bool,
    /// The groups that this user may give files to.
    groups: Vec<u32>,
    /// How IDs are mapped, unless every ID means what it means to the kernel.
    id_maps: Option<IdMaps>,
    /// What undo can give new files, by file system and attributes.
    tried: Mutex<HashMap<(u64, String), Result<(), RefusalReason>>>,
    /// The facts of kept files after our own links changed them.
    renewed: Mutex<HashMap<FileId, StatFacts>>,
    /// Names for which directories were made that could not be removed again, perhaps because too many files are open.
    unmade: Mutex<Vec<NameOf>>,
    /// A block of a file that is read.
    pub block: Mutex<Vec<u8>>,
}

impl<'a> Session<'a> {
    pub fn new(action: &'a Action, options: &'a ActingOptions, stop: &'a Stop, watch: &'a dyn Watch) -> Self {
        let user = sys::effective_user();
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
            tried: Mutex::default(),
            renewed: Mutex::default(),
            unmade: Mutex::default(),
            block: Mutex::default(),
        }
    }

    /// Fails if root would act on a file of another user, or below a directory in which another user decides what its path
    /// leads to.
    pub fn require_owner(&self, place: &ExaminedName, facts: &StatFacts) -> Result<(), RefusalReason> {
        if !self.is_root || self.options.unsafe_owner {
            return Ok(());
        }
        if facts.owner != 0 {
            return Err(RefusalReason::OtherUser(facts.owner));
        }
        self.require_private(place)
    }

    /// Fails if root would use a directory in which another user decides what names lead to.
    pub fn require_private(&self, place: &ExaminedName) -> Result<(), RefusalReason> {
        match &place.limits.exposed {
            Some(exposed) if self.is_root && !self.options.unsafe_owner => {
                Err(RefusalReason::Exposed(exposed.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Fails if a file would become a symbolic link whose path leads through a directory in which another user decides what
    /// names lead to: that user would decide what its readers get.
    pub fn require_own_target(&self, kept: &ExaminedName) -> Result<(), RefusalReason> {
        let is_symlink = matches!(self.action, Action::Symlink { .. });
        match &kept.limits.exposed {
            Some(exposed) if is_symlink && !self.options.unsafe_owner => {
                Err(RefusalReason::Exposed(exposed.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Whether what undo gives to new files matters.
    fn restores(&self) -> bool {
        self.action.is_undone_by_copying() && !self.options.ignore_metadata
    }

    /// Fails if only root could give a new file what this one has, or if that is not known, as far as this is known without trying.
    pub fn require_restorable(&self, own: &Attributes) -> Result<(), RefusalReason> {
        if !self.restores() {
            return Ok(());
        }
        let named = |wanted: &dyn Fn(XattrRole) -> bool| {
            let mut all = own.extended.iter().flatten().map(|(name, _)| name.as_slice());
            let name = all.find(|name| wanted(XattrRole::of(name)))?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        if let Some(maps) = &self.id_maps {
            let (owner, group) = maps.unmapped;
            if own.owner == owner || own.group == group {
                return Err(RefusalReason::UnmappedOwner);
            }
            if named(&|role| role == XattrRole::Privileges).is_some() {
                return Err(RefusalReason::Capabilities);
            }
        }
        if self.is_root {
            return Ok(());
        }
        if own.owner != self.user {
            return Err(RefusalReason::RootRestoresOwner(own.owner));
        }
        if !self.groups.contains(&own.group) {
            return Err(RefusalReason::RootRestoresGroup(own.group));
        }
        let name = named(&|role| matches!(role, XattrRole::Privileges | XattrRole::Root))
            .map(RefusalReason::RootRestoresAttribute);
        name.map_or(Ok(()), Err)
    }

    /// Fails if undo could not give a new file all that this one has, which is tried on a file without a name, once for each kind
    /// of file.
    pub fn require_trial(&self, place: &ExaminedName, entry: &StepRecord) -> Result<(), RefusalReason> {
        let old = &entry.old;
        let is_own = old.attributes.owner == self.user && self.groups.contains(&old.attributes.group);
        if !self.restores() || is_own && old.is_plain() {
            return Ok(());
        }
        let kind = (entry.step.file.state.device, old.kind());
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = tried.entry(kind).or_insert_with(|| {
            let temporary = OsStr::new(&entry.names[0].temporary);
            let failed = cannot("test whether undo could restore it");
            let made = place.change(|directory| make_new(directory, temporary));
            let (file, unnamed) = made.map_err(&failed)?;
            let given = old.give_flags(&file).and_then(|()| old.give_attributes(&file));
            if unnamed.is_none() {
                place
                    .change(|directory| directory.remove_file(temporary))
                    .map_err(&failed)?;
            }
            given.map_err(|why| RefusalReason::UndoFails(why.into()))
        });
        answer.clone()
    }

    /// Fails if this user may not take a lease on a file: only its owner may, and root.
    pub fn require_lease(&self, facts: &StatFacts) -> Result<(), RefusalReason> {
        let may = self.options.without_leases
            || self.is_root
            || facts.owner == self.user
            || self.options.is_busy
            || sys::may_lease_all();
        may.then_some(()).ok_or(RefusalReason::NoLease)
    }

    /// Fails if this user may not make and remove names in a directory, or may not let a file of this owner share blocks: its owner
    /// may, whatever its mode is (`ioctl_fideduperange(2)`, Linux 4.20).
    pub fn require_access(&self, place: &ExaminedName, owner: u32) -> Result<(), RefusalReason> {
        let (name, access) = match self.action {
            Action::Reflink => (place.name.as_os_str(), Access::WRITE_OK),
            _ => (OsStr::new("."), Access::WRITE_OK | Access::EXEC_OK),
        };
        match accessat(place.directory.as_fd(), name, access, AtFlags::EACCESS) {
            Err(Errno::ROFS) => Err(RefusalReason::ReadOnly),
            Err(Errno::ACCESS) if *self.action == Action::Reflink && owner == self.user => Ok(()),
            Err(Errno::ACCESS | Errno::PERM) if *self.action == Action::Reflink => Err(RefusalReason::MayNotWrite),
            Err(Errno::ACCESS | Errno::PERM) => Err(RefusalReason::MayNotRename),
            _ => Ok(()),
        }
    }

    /// Fails in a directory with the sticky bit if another user owns a file of this step: a link could be made, but not removed
    /// again.
    pub fn require_removable(&self, place: &ExaminedName, files: &[&StatFacts]) -> Result<(), RefusalReason> {
        let is_free = self.is_root || place.limits.sticky_of.is_none_or(|owner| owner == self.user);
        match files.iter().find(|file| !is_free && file.owner != self.user) {
            Some(file) => Err(RefusalReason::Sticky(file.owner)),
            None => Ok(()),
        }
    }

    /// Fails where nothing can be proven about files of a file system; without leases, unless the user takes the risk.
    pub fn require_proof(&self, behind: &Behind) -> Result<(), RefusalReason> {
        match &behind.leases {
            _ if self.options.without_leases && self.action.moves() => Ok(()),
            _ if !behind.system.inodes_identify => Err(RefusalReason::InodesDoNotIdentify),
            Err(why) if !self.options.is_busy => Err(RefusalReason::NoLeases(why.clone())),
            _ => Ok(()),
        }
    }

    /// Fails where a file system lacks what the action needs.
    pub fn require_ability(&self, behind: &Behind) -> Result<(), RefusalReason> {
        self.require_proof(behind)?;
        let is_able = *self.action != Action::Reflink || behind.system.may_share;
        is_able.then_some(()).ok_or(RefusalReason::CannotShare)
    }

    /// Whether a file is shown by an overlay. Its file system is known.
    pub fn is_overlay(&self, facts: &StatFacts) -> bool {
        self.systems
            .known(facts.device)
            .is_some_and(|behind| behind.system.is_overlay)
    }

    /// Whether two files may be hard links of one file or, if that is asked for, share blocks. Their file systems are known.
    pub fn are_on_one_file_system(&self, one: &StatFacts, other: &StatFacts) -> bool {
        let sharing = |facts: &StatFacts| self.systems.known(facts.device).map(|behind| behind.sharing);
        one.device == other.device || *self.action == Action::Reflink && sharing(one) == sharing(other)
    }

    /// Whether a file is what it was at the search, but for what our own links changed.
    pub fn is_expected(&self, expected: &FileState, now: &StatFacts) -> bool {
        let renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Notes directories to remove at the end, if removing them failed.
    pub fn unmake_later(&self, name: &NameOf, unmade: &io::Result<()>) {
        if unmade.is_err() {
            let mut names = self.unmade.lock().unwrap_or_else(PoisonError::into_inner);
            names.push(name.clone());
        }
    }

    /// Takes the noted directories.
    pub fn take_unmade(&self) -> Vec<NameOf> {
        std::mem::take(&mut self.unmade.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers the facts of a kept file after our own links changed it.
    pub fn remember(&self, kept: &HeldFile) {
        let facts = kept.facts();
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.insert(facts.id(), facts);
    }
}

/// Fails if the file of a name could not get a name in a directory, because that gives its files another project.
pub(super) fn require_project(from: &ExaminedName, directory: &ExaminedName) -> Result<(), RefusalReason> {
    let Some(project) = directory.limits.project else {
        return Ok(());
    };
    let file = from.open().map_err(cannot("open"))?;
    let own = sys::extended_flags(&file).map_err(cannot("read its extended flags"))?;
    match own.available() {
        Some([.., own]) if own != project => Err(RefusalReason::OtherProject {
            own,
            other: project,
            directory: directory.path.parent().unwrap_or(&directory.path).to_owned(),
        }),
        _ => Ok(()),
    }
}
