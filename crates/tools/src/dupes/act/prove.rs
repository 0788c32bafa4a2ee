//! What is proven and recorded of a step before it is done, and which steps will not be done, before anything is done.
//!
//! Not here: holding files (`hold`), and doing it (`change`).

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, FileType, StatVfsMountFlags, accessat, fstatvfs};
use rustix::io::Errno;
use seekless_engine::facts::ProcessFacts;
use seekless_engine::files::{self, Attributes, WritableByOthers, XattrRole, make_new, shared_bytes};
use seekless_sys::{self as sys, Directory, Protection, Support};

use super::dir_handle::{DirEntryHandle, Directories, relative};
use super::hold::{FoundFile, LeasedFile, LockedKeeper, Session};
use super::record::{NameChange, NewPlace, OldFile, StepName, StepRecord, TRASHED_FILES, in_trash_of, moved_to};
use super::{ActingOptions, Action, NothingToGain, RefusalReason, Step, StepOutcome, Unwatched, cannot, of_kept};
use crate::Stop;
use crate::threads::in_parts;
use crate::visible::visible_path;
use crate::walk::{ASIDE, StatFacts};

/// btrfs stores files of up to a block with their metadata.
const SMALL_BYTES: u64 = 4096;
/// Steps that a thread checks in turn.
const AT_ONCE: usize = 256;

/// Steps that will not be done, and what will become of them, as far as this is known without reading files.
#[must_use]
pub fn check(action: &Action, steps: &[Step], options: &ActingOptions) -> Vec<(usize, StepOutcome)> {
    let stop = Stop::default();
    let session = Session::new(action, options, &stop, &Unwatched);
    let threads = ProcessFacts::here().processors;
    let parts = in_parts(threads, steps.len(), AT_ONCE, |part| {
        let (session, directories) = (&session, &Directories::default());
        let refused = |number: usize| {
            directories.close_many();
            Prover { session, directories }.refused(&steps[number]).err()
        };
        part.filter_map(|number| Some((number, refused(number)?)))
            .collect::<Vec<_>>()
    });
    parts.flatten().collect()
}

/// What the file system of an absolute path lacks, so that nothing can be done with files there.
#[must_use]
pub fn lacking(action: &Action, options: &ActingOptions, path: &Path) -> Option<RefusalReason> {
    let stop = Stop::default();
    let session = Session::new(action, options, &stop, &Unwatched);
    let directory = Directory::open(path)
        .or_else(|_| Directory::open(path.parent().unwrap_or(path)))
        .ok()?;
    let device = StatFacts::of(&directory).ok()?.device;
    session
        .require_ability(&session.systems.of(device, &directory).ok()?)
        .err()
}

/// The paths of a step.
struct Examined {
    /// The paths that are acted on: at least one.
    files: Vec<FoundFile>,
    /// What is done with each.
    names: Vec<StepName>,
    kept: FoundFile,
}

/// What looking at steps needs.
pub(super) struct Prover<'a> {
    pub session: &'a Session<'a>,
    pub directories: &'a Directories,
}

impl Prover<'_> {
    /// Fails with the reason why a step will not be done.
    fn refused(&self, step: &Step) -> Result<(), StepOutcome> {
        if step.file.is_directory {
            self.examine_directory(step)?;
            return Ok(());
        }
        let Examined { files, kept, .. } = self.examine(0, step, None)?;
        let (action, session, file) = (self.session.action, self.session, &files[0]);
        if !session.is_expected(&step.keep.state, &kept.facts) {
            return Err(of_kept(&step.keep.path)(RefusalReason::Changed).into());
        }
        let is_reflink = *action == Action::Reflink;
        if is_reflink
            && is_doubtful(step)
            && let (Ok(own), Ok(kept)) = (file.place.open(), kept.place.open())
        {
            require_own_blocks(&own, &kept)?;
        }
        if *action == Action::Hardlink {
            require_changeable(&step.keep.path).map_err(of_kept(&step.keep.path))?;
        }
        session.require_ability(&file.behind)?;
        if file.behind.is_read_only {
            return Err(RefusalReason::ReadOnly.into());
        }
        for FoundFile { place, .. } in &files {
            require_changeable(&place.path)?;
            if !is_reflink {
                require_changeable_directory(&place.path)?;
            }
            session.require_access(place, file.facts.owner)?;
        }
        // They are read again from the open files.
        if action.is_undone_by_copying() {
            let [own, kept] = [file, &kept].map(attributes);
            session.require_restorable(&own)?;
            keeps_rights(action, &own, &kept)?;
        }
        // Whoever removes names wants them gone, whatever that frees.
        if action.makes_links() && file.facts.names > step.file.paths.len() as u64 {
            return Err(NothingToGain::OtherNames.into());
        }
        Ok(())
    }

    /// Looks at the names of a step. Fails with the reason why it will not be done, as far as that is known without opening files.
    /// The kept file may be open. The number of the step names what is moved.
    fn examine(&self, number: u64, step: &Step, open: Option<&LockedKeeper>) -> Result<Examined, RefusalReason> {
        let action = self.session.action;
        let kept = self.examine_kept(step, open).map_err(of_kept(&step.keep.path))?;
        let files = self.examine_file(step, &kept)?;
        let names = self.examine_names(number, step, &files)?;
        let is_broken_up = |found: &FoundFile| found.facts.names > 1 && found.behind.system.is_overlay;
        if is_broken_up(&files[0]) || *action == Action::Hardlink && is_broken_up(&kept) {
            return Err(RefusalReason::OverlayLinks);
        }
        if *action == Action::Names {
            require_another_name(step, &files[0].facts, &kept.facts)?;
        } else if let Some(why) = self.session.one_file(&kept, &files[0]) {
            return Err(why);
        }
        require_one_mount(action, &files, &kept.place)?;
        for FoundFile { place, .. } in files.iter().filter(|_| *action != Action::Reflink) {
            require_project(place, place)?;
        }
        keeps_mount(action, &files[0].place, &kept.place)?;
        Ok(Examined { files, names, kept })
    }

    /// Looks at a path of a step.
    fn examine_path(&self, path: &Path) -> Result<FoundFile, RefusalReason> {
        let found = self.session.find(path, self.directories)?;
        self.session.require_proof(&found.behind)?;
        self.session.require_lease(&found.facts)?;
        Ok(found)
    }

    /// Looks at the kept file, which may be open.
    fn examine_kept(&self, step: &Step, open: Option<&LockedKeeper>) -> Result<FoundFile, RefusalReason> {
        let kept = match open.filter(|open| open.place.path == step.keep.path) {
            Some(open) => FoundFile {
                place: open.place.clone(),
                facts: open.held.facts(),
                behind: open.held.behind.clone(),
            },
            None => self.examine_path(&step.keep.path)?,
        };
        // Its owner could remove it, and with it the last copy.
        if *self.session.action != Action::Reflink {
            self.session.require_owner(&kept)?;
        }
        // A user who may rename directories of its path decides what readers of a symbolic link get.
        if matches!(self.session.action, Action::Symlink { .. }) {
            self.session.require_unexposed(kept.place.limits.exposed.as_ref())?;
        }
        Ok(kept)
    }

    /// Looks at the paths of the file that is acted on.
    fn examine_file(&self, step: &Step, kept: &FoundFile) -> Result<Vec<FoundFile>, RefusalReason> {
        let (action, session) = (self.session.action, self.session);
        let examine = |path: &PathBuf| {
            let found = self.examine_path(path)?;
            if !session.is_expected(&step.file.state, &found.facts) {
                return Err(RefusalReason::Changed);
            }
            session.require_owner(&found)?;
            let touched: &[&StatFacts] = match action {
                Action::Hardlink => &[&found.facts, &kept.facts],
                Action::Reflink => &[],
                _ => &[&found.facts],
            };
            session.require_removable(&found.place, touched)?;
            if action.is_on_one_file_system() && !session.are_on_one_file_system(&found, kept) {
                return Err(RefusalReason::OtherFileSystem(step.keep.path.clone()));
            }
            Ok(found)
        };
        let files: Vec<_> = step.file.paths.iter().map(examine).collect::<Result<_, _>>()?;
        if files.is_empty() {
            Err(RefusalReason::NotPlain)
        } else {
            Ok(files)
        }
    }

    /// Decides what is done with each name of a file. Fails if it cannot be moved to its new place.
    fn examine_names(&self, number: u64, step: &Step, files: &[FoundFile]) -> Result<Vec<StepName>, RefusalReason> {
        let trash = match self.session.action {
            Action::Trash { home } => Some(self.trash_of(home, &files[0].place)?),
            _ => None,
        };
        let name = |(at, FoundFile { place, .. }): (usize, &FoundFile)| {
            let temporary = self.session.temporary(number, at);
            Ok(StepName {
                path: place.path.clone(),
                change: self.change_of(place, &step.keep.path, &temporary, trash.as_deref())?,
                temporary,
            })
        };
        files.iter().enumerate().map(name).collect()
    }

    /// Decides what is done with a name of a file; `keep` is the path that stays for it. No other run uses `temporary`.
    fn change_of(
        &self,
        place: &DirEntryHandle,
        keep: &Path,
        temporary: &str,
        trash: Option<&Path>,
    ) -> Result<NameChange, RefusalReason> {
        let path = &place.path;
        let to = match (self.session.action, trash) {
            (Action::Symlink { is_absolute }, _) => {
                let above = path.parent().filter(|_| !is_absolute);
                let target = above.map_or_else(|| keep.to_owned(), |above| relative(above, keep));
                return Ok(NameChange::Linked { target });
            }
            (Action::Move { to }, _) => moved_to(to, path),
            (Action::Quarantine, _) => {
                let aside = path.with_file_name(format!("{ASIDE}{}", self.session.run));
                aside.join(&place.name)
            }
            (_, Some(trash)) => in_trash_of(trash, path, temporary),
            _ => return Ok(NameChange::Taken),
        };
        let (made, is_trash) = (self.missing(&to, place)?, trash.is_some());
        let new = NewPlace { to, made, is_trash };
        self.require_room(&new, place)?;
        Ok(NameChange::Moved(new))
    }

    /// The trash for a file: that of the user if it is on the same file system, else the one in the topmost directory of the file's.
    fn trash_of(&self, home: &Path, place: &DirEntryHandle) -> Result<PathBuf, RefusalReason> {
        if self.missing(&home.join(TRASHED_FILES).join("name"), place).is_ok() {
            return Ok(home.to_owned());
        }
        let shown = |place: &DirEntryHandle| (place.limits.mount, place.limits.device);
        let mut top = place.path.parent().unwrap_or(&place.path);
        while let Ok(inside) = self.directories.place(top) {
            if shown(&inside) != shown(place) {
                break;
            }
            top = top.parent().unwrap_or(top);
        }
        let (user, shared) = (sys::effective_user(), top.join(".Trash"));
        let found = self.directories.place(&shared).and_then(|place| place.facts());
        // Everybody may write to it, so only the sticky bit keeps what is in it.
        let is_safe = |facts: StatFacts| facts.kind == FileType::Directory && facts.mode & 0o1000 != 0;
        let has_shared = found.map_err(cannot("stat"))?.is_some_and(is_safe);
        if has_shared {
            return Ok(shared.join(user.to_string()));
        }
        Ok(top.join(format!(".Trash-{user}")))
    }

    /// How many of the last directories are missing of a path to which a file is moved, the one that was named as target among them. Fails
    /// if it cannot be moved there: on another file system or mount, where something has that path, and for root where another user
    /// decides what names lead to.
    fn missing(&self, path: &Path, from: &DirEntryHandle) -> Result<u64, RefusalReason> {
        let mut count = 0;
        for (path, above) in path.ancestors().zip(path.ancestors().skip(1)) {
            match self.directories.place(path) {
                Ok(place) => {
                    if place.limits.device != from.limits.device {
                        return Err(RefusalReason::OtherFileSystem(above.to_owned()));
                    }
                    if place.limits.mount != from.limits.mount {
                        return Err(RefusalReason::OtherMount(above.to_owned()));
                    }
                    self.session.require_private(&place)?;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => count += 1,
                Err(error) => return Err(cannot(format!("open {}", visible_path(above)))(error)),
            }
        }
        Ok(count)
    }

    /// Fails if a file cannot get the name to which it is moved.
    fn require_room(&self, new: &NewPlace, place: &DirEntryHandle) -> Result<(), RefusalReason> {
        let existing = new.to.ancestors().nth(new.made as usize).unwrap_or(&new.to);
        let there = self.directories.place(existing);
        let there = there.map_err(cannot("open its new directory"))?;
        if new.made == 0 && there.facts().map_err(cannot("stat"))?.is_some() {
            return Err(RefusalReason::Of(new.to.clone(), RefusalReason::NameTaken.into()));
        }
        require_project(place, &there)?;
        let allowed = self.session.require_access(&there, self.session.user);
        allowed.map_err(|why| RefusalReason::Of(new.to.clone(), why.into()))
    }

    /// Proves that a step may be done, and collects what the journal says of it.
    pub fn prepare(&self, number: u64, step: &Step, kept: &Arc<LockedKeeper>) -> Result<ProvenStep, StepOutcome> {
        let action = self.session.action;
        let examined = self.examine(number, step, Some(kept))?;
        if examined.kept.facts.id() != kept.held.facts().id() {
            return Err(of_kept(&step.keep.path)(RefusalReason::Changed).into());
        }
        let first = &examined.files[0];
        let held = match action {
            Action::Names => Arc::clone(&kept.held),
            _ => Arc::new(self.session.hold(first, &step.file.state)?),
        };
        let old = OldFile::of(&held.file)?;
        self.session.require_restorable(&old.attributes)?;
        keeps_rights(action, &old.attributes, &kept.attributes)?;
        if *action != Action::Names {
            self.session.compare(kept, &held)?;
        }
        let entry = StepRecord {
            digest: kept.digest.clone(),
            keep_born_ns: kept.born_ns,
            keep_volume: examined.kept.place.limits.volume.to_string(),
            ..StepRecord::new(number, step, &first.place.limits.volume, old, examined.names)
        };
        self.session.require_trial(&first.place, &entry)?;
        let own_bytes = if *action == Action::Reflink {
            // After sharing, its data has no block that is not the kept file's. Asking again takes btrfs longer than sharing.
            if self.session.options.is_fresh && !is_doubtful(step) {
                step.own_bytes
            } else {
                require_own_blocks(&held.file, &kept.held.file)?
            }
        } else {
            let shared = held.behind.system.may_share.then(|| shared_bytes(&held.file));
            let shared = shared.and_then(Result::ok).flatten().unwrap_or(0);
            held.facts().allocated_bytes.saturating_sub(shared)
        };
        Ok(ProvenStep {
            places: examined.files.into_iter().map(|found| found.place).collect(),
            entry,
            files: Some(ProvenFiles {
                held,
                kept: Arc::clone(kept),
                own_bytes,
            }),
        })
    }

    /// Opens the directory of a step. Fails with the reason why it will stay, as far as this is known while files are in it.
    fn examine_directory(&self, step: &Step) -> Result<(DirEntryHandle, File), RefusalReason> {
        let [path] = &step.file.paths[..] else {
            return Err(RefusalReason::NotPlain);
        };
        let found = self.session.find(path, self.directories)?;
        let (facts, place) = (found.facts, &found.place);
        if facts.kind != FileType::Directory || facts.id() != step.file.state.id() {
            return Err(RefusalReason::OtherFile);
        }
        self.session.require_owner(&found)?;
        self.session.require_removable(place, &[&facts])?;
        if found.behind.is_read_only {
            return Err(RefusalReason::ReadOnly);
        }
        require_changeable(path)?;
        require_changeable_directory(path)?;
        let opened = place.directory.open_directory(&place.name);
        let file = opened.and_then(|directory| directory.open_plain(OsStr::new("."), sys::Access::Read));
        let file = file.map_err(cannot("open"))?;
        if StatFacts::of(&file).map_err(cannot("stat"))?.id() != facts.id() {
            return Err(RefusalReason::OtherFile);
        }
        if seekless_sys::is_mount_root(&file) {
            return Err(RefusalReason::OtherMount(path.parent().unwrap_or(path).to_owned()));
        }
        Ok((found.place, file))
    }

    /// Collects what the journal says of a directory.
    pub fn prepare_directory(&self, number: u64, step: &Step) -> Result<ProvenStep, RefusalReason> {
        let (place, file) = self.examine_directory(step)?;
        let mut old = OldFile::of(&file)?;
        // Files were moved out of it since.
        let modified_ns = step.file.state.modified_ns;
        let nanoseconds = u32::try_from(modified_ns.rem_euclid(1_000_000_000)).unwrap_or(0);
        old.modified = (modified_ns.div_euclid(1_000_000_000), nanoseconds);
        let name = StepName {
            path: place.path.clone(),
            temporary: self.session.temporary(number, 0),
            change: NameChange::Taken,
        };
        Ok(ProvenStep {
            entry: StepRecord::new(number, step, &place.limits.volume, old, vec![name]),
            places: vec![place],
            files: None,
        })
    }
}

/// Fails unless the kept name leads to the file, too.
fn require_another_name(step: &Step, facts: &StatFacts, kept: &StatFacts) -> Result<(), RefusalReason> {
    if facts.id() != kept.id() {
        return Err(of_kept(&step.keep.path)(RefusalReason::OtherFile));
    }
    let is_another = facts.names > step.file.paths.len() as u64;
    is_another.then_some(()).ok_or(RefusalReason::LastName)
}

/// The attributes of a file that is not open.
fn attributes(found: &FoundFile) -> Attributes {
    let name = CString::new(found.place.name.as_bytes()).unwrap_or_default();
    let extended = sys::extended_attributes_at(found.place.directory.as_fd(), &name);
    Attributes::new(&found.facts, extended.ok().and_then(Support::available))
}

/// Fails if undo would have to link names of a file across mounts, or a hard link would cross them.
fn require_one_mount(action: &Action, files: &[FoundFile], kept: &DirEntryHandle) -> Result<(), RefusalReason> {
    let mut places = files.iter().map(|found| &found.place);
    let first = &files[0].place;
    let is_elsewhere = |place: &DirEntryHandle| place.limits.mount != first.limits.mount;
    match action {
        // Two mounts may show one name.
        Action::Names if !places.all(|place| place.limits.mount == kept.limits.mount) => {
            Err(RefusalReason::OtherMount(kept.path.clone()))
        }
        Action::Hardlink if is_elsewhere(kept) => Err(RefusalReason::OtherMount(kept.path.clone())),
        _ if action.is_undone_by_copying() && places.any(is_elsewhere) => {
            Err(RefusalReason::OtherMount(first.path.clone()))
        }
        _ => Ok(()),
    }
}

/// A step that is proven, and not done yet.
pub(super) struct ProvenStep {
    pub places: Vec<DirEntryHandle>,
    pub entry: StepRecord,
    /// Its files; none if it removes a directory that is left empty.
    pub files: Option<ProvenFiles>,
}

/// A file that is proven to equal the kept one.
pub(super) struct ProvenFiles {
    pub held: Arc<LeasedFile>,
    pub kept: Arc<LockedKeeper>,
    /// The space that is freed when all names of the file are removed, or when it shares all its blocks.
    pub own_bytes: u64,
}

impl Session<'_> {
    /// Fails if root would act on a file of another user, or below a directory in which another user decides what its path
    /// leads to.
    pub fn require_owner(&self, found: &FoundFile) -> Result<(), RefusalReason> {
        if !self.is_root || self.options.unsafe_owner {
            return Ok(());
        }
        if found.facts.owner != 0 {
            return Err(RefusalReason::OtherUser(found.facts.owner));
        }
        self.require_private(&found.place)
    }

    /// Fails if root would use a directory in which another user decides what names lead to.
    pub fn require_private(&self, place: &DirEntryHandle) -> Result<(), RefusalReason> {
        let exposed = place.limits.exposed.as_ref().filter(|_| self.is_root);
        self.require_unexposed(exposed)
    }

    fn require_unexposed(&self, exposed: Option<&Arc<WritableByOthers>>) -> Result<(), RefusalReason> {
        match exposed.filter(|_| !self.options.unsafe_owner) {
            Some(exposed) => Err(RefusalReason::Told(exposed.to_string().into())),
            None => Ok(()),
        }
    }

    /// Fails if only root could give a new file what this one has, or if that is not known, as far as this is known without trying.
    pub fn require_restorable(&self, own: &Attributes) -> Result<(), RefusalReason> {
        if !self.action.is_undone_by_copying() {
            return Ok(());
        }
        let named = |wanted: &dyn Fn(XattrRole) -> bool| {
            let mut all = own.extended.iter().flatten().map(|(name, _)| name.as_slice());
            let name = all.find(|name| wanted(XattrRole::of(name)))?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        let unmapped = |why: &'static str| RefusalReason::UndoFails(RefusalReason::Told(why.into()).into());
        if let Some(maps) = &self.id_maps {
            let (owner, group) = maps.unmapped;
            if own.owner == owner || own.group == group {
                return Err(unmapped(
                    "its owner or group may be one that has no ID in this user namespace",
                ));
            }
            if named(&|role| role == XattrRole::Privileges).is_some() {
                return Err(unmapped("file capabilities are others in this user namespace"));
            }
        }
        if self.is_root {
            return Ok(());
        }
        if own.owner != self.user {
            return Err(RefusalReason::OnlyRoot(format!("owner (ID {})", own.owner)));
        }
        if !self.groups.contains(&own.group) {
            return Err(RefusalReason::OnlyRoot(format!(
                "group (ID {}), which this user is not in",
                own.group
            )));
        }
        let name = named(&|role| matches!(role, XattrRole::Privileges | XattrRole::Root))
            .map(|name| RefusalReason::OnlyRoot(format!("extended attribute {name}")));
        name.map_or(Ok(()), Err)
    }

    /// Fails if undo could not give a new file all that this one has, which is tried on a file without a name, once for each kind
    /// of file.
    pub fn require_trial(&self, place: &DirEntryHandle, entry: &StepRecord) -> Result<(), RefusalReason> {
        let old = &entry.old;
        let is_own = old.attributes.owner == self.user && self.groups.contains(&old.attributes.group);
        if !self.action.is_undone_by_copying() || is_own && old.is_plain() {
            return Ok(());
        }
        let kind = (entry.step.file.state.device, old.kind());
        let mut tried = sys::lock_mutex(&self.tried);
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

    /// Fails if this user may not make and remove names in a directory, or may not let a file of this owner share blocks: its owner
    /// may, whatever its mode is (`ioctl_fideduperange(2)`, Linux 4.20).
    pub fn require_access(&self, place: &DirEntryHandle, owner: u32) -> Result<(), RefusalReason> {
        let (name, access) = match self.action {
            Action::Reflink => (place.name.as_os_str(), Access::WRITE_OK),
            _ => (OsStr::new("."), Access::WRITE_OK | Access::EXEC_OK),
        };
        match accessat(place.directory.as_fd(), name, access, AtFlags::EACCESS) {
            Err(Errno::ROFS) => Err(RefusalReason::ReadOnly),
            Err(Errno::ACCESS) if *self.action == Action::Reflink && owner == self.user => Ok(()),
            Err(Errno::ACCESS | Errno::PERM) if *self.action == Action::Reflink => {
                Err(RefusalReason::MayNot("write to it"))
            }
            Err(Errno::ACCESS | Errno::PERM) => Err(RefusalReason::MayNot("change names in its directory")),
            _ => Ok(()),
        }
    }

    /// Fails in a directory with the sticky bit if another user owns a file of this step: a link could be made, but not removed
    /// again.
    pub fn require_removable(&self, place: &DirEntryHandle, files: &[&StatFacts]) -> Result<(), RefusalReason> {
        let is_free = self.is_root || place.limits.sticky_of.is_none_or(|owner| owner == self.user);
        match files.iter().find(|file| !is_free && file.owner != self.user) {
            Some(file) => Err(RefusalReason::Sticky(file.owner)),
            None => Ok(()),
        }
    }
}

/// Fails if the file of a name could not get a name in a directory, because that gives its files another project.
fn require_project(from: &DirEntryHandle, directory: &DirEntryHandle) -> Result<(), RefusalReason> {
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

/// Fails if a file, once it is a name of the kept one or a link to it, would have other attributes, or would let somebody do
/// more with its path.
fn keeps_rights(action: &Action, own: &Attributes, kept: &Attributes) -> Result<(), RefusalReason> {
    let owners = |file: &Attributes| (file.owner, file.group);
    match action {
        Action::Hardlink if owners(own) != owners(kept) => Err(RefusalReason::LinkChanges("owner or group")),
        Action::Hardlink if own.mode != kept.mode => Err(RefusalReason::LinkChanges("mode")),
        Action::Hardlink if own.extended != kept.extended => Err(RefusalReason::LinkChanges(
            "access control list or another extended attribute",
        )),
        Action::Symlink { .. } if own.owner != kept.owner => Err(RefusalReason::LinkGives("owner")),
        Action::Symlink { .. } if gives_more(own, kept) => Err(RefusalReason::LinkGives("mode or access control list")),
        _ => Ok(()),
    }
}

/// Fails if a symbolic link would lead from a mount where programs get no privileges to one where they do.
fn keeps_mount(action: &Action, own: &DirEntryHandle, kept: &DirEntryHandle) -> Result<(), RefusalReason> {
    let is_limited = |place: &DirEntryHandle| {
        let found = fstatvfs(&*place.directory);
        found.is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::NOSUID))
    };
    if matches!(action, Action::Symlink { .. }) && is_limited(own) && !is_limited(kept) {
        return Err(RefusalReason::LinkGives(
            "mount, where programs get privileges (no nosuid)",
        ));
    }
    Ok(())
}

/// Whether some user may do more with the kept file than with this one, which has the same owner.
fn gives_more(own: &Attributes, kept: &Attributes) -> bool {
    let is_in_group = own.group == kept.group;
    let lists = [own, kept].map(|file| -> Vec<_> {
        let all = file.extended.iter().flatten();
        let is_right = |name: &[u8]| !matches!(XattrRole::of(name), XattrRole::Data | XattrRole::Flag);
        all.filter(|(name, _)| is_right(name)).collect()
    });
    // With an access control list, the group bits are a mask, and a named user may get less than others.
    if lists[0] != lists[1] || !(lists[0].is_empty() || is_in_group) {
        return true;
    }
    let [of_owner, of_group, of_others] = [6, 3, 0].map(|shift| move |file: &Attributes| file.mode >> shift & 7);
    let is_more = |kept: u32, own: u32| kept & !own != 0;
    // Set-user-ID, set-group-ID.
    is_more(kept.mode & 0o6000, own.mode & 0o6000)
        || is_more(of_owner(kept), of_owner(own))
        || is_more(of_others(kept), of_others(own))
        || is_more(of_group(kept), of_group(own))
        // Members of one file's group are others for the other file.
        || !is_in_group
            && (kept.mode & 0o2000 != 0
                || is_more(of_group(kept), of_others(own))
                || is_more(of_others(kept), of_group(own)))
}

/// Whether sharing may free other bytes than the search says: small files may be stored with their metadata, and a file may have
/// blocks past its end.
fn is_doubtful(step: &Step) -> bool {
    step.own_bytes <= SMALL_BYTES || step.own_bytes > step.file.state.bytes.next_multiple_of(SMALL_BYTES)
}

/// Fails if a file has no blocks that it could give up by sharing those of another, as far as the file system tells.
fn require_own_blocks(file: &File, kept: &File) -> Result<u64, StepOutcome> {
    let Ok(Some(bytes)) = files::own_bytes(file) else {
        return Ok(0);
    };
    if bytes > 0 {
        return Ok(bytes);
    }
    // btrfs takes longer the more files share the blocks, so the kept file comes last.
    let layout = files::shared_layout(file).ok().flatten();
    match layout {
        None => Err(NothingToGain::NoBlocks.into()),
        own if files::shared_layout(kept).ok().flatten() == own => Err(NothingToGain::Shared.into()),
        _ => Ok(0),
    }
}

/// Fails for what is immutable or append-only.
fn require_changeable(path: &Path) -> Result<(), RefusalReason> {
    require_unprotected(path, |_| false)
}

/// The same for the directory of a path, in which names are made and removed.
pub(super) fn require_changeable_directory(path: &Path) -> Result<(), RefusalReason> {
    require_unprotected_directory(path, |_| false)
}

fn require_unprotected_directory(path: &Path, may_be: impl Fn(&Protection) -> bool) -> Result<(), RefusalReason> {
    let above = path.parent().unwrap_or(Path::new("/"));
    require_unprotected(above, may_be).map_err(|why| RefusalReason::Of(above.to_owned(), why.into()))
}

fn require_unprotected(path: &Path, may_be: impl Fn(&Protection) -> bool) -> Result<(), RefusalReason> {
    match sys::protection(path) {
        Ok(Support::Available(Some(protection))) if !may_be(&protection) => {
            Err(RefusalReason::Told(protection.about.into()))
        }
        _ => Ok(()),
    }
}

/// Fails if flags keep a name from being given back. The directories of links are checked before.
pub(super) fn require_undoable(action: &Action, name: &StepName) -> Result<(), RefusalReason> {
    if !action.makes_links() {
        require_unprotected_directory(&name.path, |protection| protection.takes_names)?;
    }
    if *action == Action::Hardlink {
        // A name of a protected file cannot be removed.
        require_changeable(&name.path)?;
    }
    if let NameChange::Moved(NewPlace { to, .. }) = &name.change {
        let moved = require_changeable(to).and_then(|()| require_changeable_directory(to));
        moved.map_err(|why| RefusalReason::Of(to.clone(), why.into()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether a user who is in groups and not the owner may do something with a file by its mode.
    fn may(file: &Attributes, groups: &[u32], wish: u32) -> bool {
        let shift = if groups.contains(&file.group) { 3 } else { 0 };
        file.mode >> shift & wish == wish
    }

    proptest! {
        #[test]
        fn a_file_gives_more_if_some_user_may_do_something_that_the_other_refuses(
            own_mode in 0..0o1000_u32,
            kept_mode in 0..0o1000_u32,
            kept_group in 1..3_u32,
        ) {
            let [own, kept] = [(own_mode, 1), (kept_mode, kept_group)].map(|(mode, group)| Attributes {
                owner: 0,
                group,
                mode,
                extended: None,
            });
            let users: [&[u32]; 4] = [&[], &[1], &[2], &[1, 2]];
            let more = (1..8).any(|wish| {
                let of_owner = |file: &Attributes| file.mode >> 6 & wish == wish;
                let by_groups = |groups: &&[u32]| may(&kept, groups, wish) && !may(&own, groups, wish);
                of_owner(&kept) && !of_owner(&own) || users.iter().any(by_groups)
            });
            prop_assert_eq!(gives_more(&own, &kept), more);
        }
    }
}
