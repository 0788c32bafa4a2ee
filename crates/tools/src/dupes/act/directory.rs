//! Whole directories: the steps for the files in one that equals another, and removing those that acting emptied.
//!
//! Not here: finding equal directories (the search), and acting on their files.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use seekless::files::{FileId, FileState, allocated_bytes, own_bytes, with_article};
use seekless::update::{StepKind, Watch};
use seekless::walk::{self, Walk, WalkRules};
use seekless_sys::{Access, Directory};

use super::change::{destination, unmake};
use super::choose::KeepReason;
use super::place::{Directories, ExaminedName};
use super::prepare::{ProvenStep, missing, require_changeable, require_changeable_directory};
use super::record::{NameOf, OldFile, StepRecord, moved_to};
use super::session::Session;
use super::{ActedOn, Action, KeptFile, RefusalReason, Step, StepOutcome, cannot};
use crate::dupes::contents::{Contents, Inside, Inventory};
use crate::visible::visible_path;
use crate::walk::StatFacts;

/// What is in a directory and below, by relative path.
pub(super) struct ListedDirectory {
    path: PathBuf,
    state: FileState,
    entries: BTreeMap<PathBuf, (Inside, FileState)>,
    /// Why it is left alone.
    refused: Option<RefusalReason>,
}

impl WalkRules for ListedDirectory {
    fn enters(&mut self, directory: &walk::Directory<1>, _at: BorrowedFd<'_>, facts: &StatFacts) -> bool {
        self.add(&directory.path_of(b""), Inside::Directory, facts.state);
        true
    }

    fn pass(&mut self, directory: &walk::Directory<1>, name: &CStr, kind: FileType) {
        let path = directory.path_of(name.to_bytes());
        let link = || Ok::<_, io::Error>((fs::read_link(&path)?, FileState::of(&fs::symlink_metadata(&path)?)));
        match link() {
            _ if kind != FileType::Symlink => self.refused = Some(RefusalReason::Special(path, with_article(kind))),
            Ok((target, state)) => self.add(&path, Inside::Link(target.into_os_string().into_vec()), state),
            Err(error) => self.refused = Some(cannot("list")(error)),
        }
    }

    fn is_stopped(&self) -> bool {
        self.refused.is_some()
    }
}

impl ListedDirectory {
    /// Lists a directory. Its path leads through no link.
    pub fn of(path: &Path) -> Result<Self, RefusalReason> {
        let found = fs::symlink_metadata(path).map_err(cannot("stat"))?;
        let root = walk::open_seen(path, FileId::of(&found)).map_err(cannot("open"))?;
        let listed = Self {
            path: path.to_owned(),
            state: FileState::of(&found),
            entries: BTreeMap::new(),
            refused: None,
        };
        let mut walk = Walk::of(root, path, listed);
        while let Some(found) = walk.next() {
            let unlisted = |(path, why)| RefusalReason::Of(path, RefusalReason::Unavailable(Cow::Owned(why)).into());
            let file = found.map_err(unlisted)?;
            let facts = file.facts().map_err(|(action, error)| cannot(action)(error))?;
            let is_empty = facts.bytes == 0;
            let inside = if is_empty {
                Inside::Empty
            } else {
                Inside::File(facts.state)
            };
            walk.rules.add(file.path(), inside, facts.state);
        }
        let listed = walk.rules;
        listed.refused.clone().map_or(Ok(listed), Err)
    }

    fn add(&mut self, path: &Path, inside: Inside, state: FileState) {
        if state.device == self.state.device {
            let below = path.strip_prefix(&self.path).unwrap_or(path);
            self.entries.insert(below.to_owned(), (inside, state));
        } else {
            self.refused = Some(RefusalReason::MountPoint(path.to_owned()));
        }
    }

    /// Its state and contents, as the search saw them.
    pub fn seen(&self) -> (FileState, Contents) {
        let mut inventory = Inventory::new(self.state.id());
        for (path, (inside, _)) in &self.entries {
            let name = path.file_name().unwrap_or_default();
            inventory.add(path.components().count() - 1, name.as_bytes(), inside);
        }
        inventory.seen()
    }

    fn files(&self) -> impl Iterator<Item = (&PathBuf, &FileState)> {
        let files = self
            .entries
            .iter()
            .filter(|(_, (inside, _))| matches!(inside, Inside::File(_) | Inside::Empty));
        files.map(|(path, (_, state))| (path, state))
    }
}

/// The steps that act on the files of a directory, each with its twin in the equal directory that is kept. Names of one file make
/// one step. If files move away, the directories that this empties follow.
///
/// # Errors
/// Why the directory is left alone.
pub(super) fn steps_of(
    path: &Path,
    keep: &Path,
    why: &KeepReason,
    action: &Action,
) -> Result<Vec<Step>, RefusalReason> {
    let (own, kept) = (ListedDirectory::of(path)?, ListedDirectory::of(keep)?);
    let is_move = matches!(action, Action::Move { .. });
    if let Some(path) = first_difference(&own, &kept) {
        return Err(RefusalReason::DirectoriesDiffer(keep.to_owned(), path));
    }
    let link = own
        .entries
        .iter()
        .find(|(_, (inside, _))| matches!(inside, Inside::Link(_)));
    // A relative link may lead elsewhere from the new place.
    if let Some((link, _)) = link.filter(|_| is_move) {
        return Err(RefusalReason::MovedLink(path.join(link)));
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut numbers = HashMap::new();
    for (below, state) in own.files() {
        let twin = kept.entries[below].1;
        let (path, keep) = (path.join(below), keep.join(below));
        if state.id() == twin.id() {
            if is_move {
                return Err(RefusalReason::Of(path, RefusalReason::IsKept(keep).into()));
            }
            continue;
        }
        // Nothing is shared with an empty file.
        if !is_move && state.bytes == 0 {
            continue;
        }
        if let Some(number) = numbers.get(&state.id()) {
            let step: &mut Step = &mut steps[*number];
            step.file.paths.push(path);
            continue;
        }
        numbers.insert(state.id(), steps.len());
        steps.push(Step {
            own_bytes: unshared_bytes(&path),
            ..step(path, *state, keep, twin, why)
        });
    }
    let inner = own.entries.iter().rev();
    let inner = inner.filter(|(_, (inside, _))| *inside == Inside::Directory);
    let emptied = inner.map(|(below, (_, state))| (path.join(below), *state, keep.join(below), kept.entries[below].1));
    let emptied = emptied.chain([(path.to_owned(), own.state, keep.to_owned(), kept.state)]);
    for (path, state, keep, keep_state) in emptied.filter(|_| is_move) {
        let mut step = step(path, state, keep, keep_state, why);
        step.file.is_directory = true;
        steps.push(step);
    }
    Ok(steps)
}

/// The steps for directories that acting leaves empty, the inner ones first. Those that were named stay, and those that hold anything
/// that is not acted on, such as an empty directory.
pub fn emptied<'a>(steps: impl Iterator<Item = &'a Step>, roots: &[PathBuf]) -> Vec<Step> {
    let roots: HashSet<&Path> = roots.iter().map(PathBuf::as_path).collect();
    let mut gone: HashSet<PathBuf> = steps.flat_map(|step| step.file.paths.iter().cloned()).collect();
    let above = |path: &Path| {
        let directory = path.parent().filter(|directory| !roots.contains(directory))?;
        let is_below = directory.ancestors().any(|above| roots.contains(above));
        is_below.then(|| (Reverse(directory.components().count()), directory.to_owned()))
    };
    let mut open: BTreeSet<(Reverse<usize>, PathBuf)> = gone.iter().filter_map(|path| above(path)).collect();
    let mut emptied = Vec::new();
    while let Some((_, path)) = open.pop_first() {
        let state = |path: &Path| fs::symlink_metadata(path).map(|found| FileState::of(&found));
        let keep = path.parent().unwrap_or(&path).to_owned();
        if let (true, Ok(own), Ok(kept)) = (
            !gone.contains(&path) && has_only(&path, &gone),
            state(&path),
            state(&keep),
        ) {
            open.extend(above(&path));
            gone.insert(path.clone());
            let mut step = step(path, own, keep, kept, &KeepReason::Emptied);
            step.file.is_directory = true;
            emptied.push(step);
        }
    }
    emptied
}

/// Whether a directory can be read, and has no other entries.
fn has_only(directory: &Path, paths: &HashSet<PathBuf>) -> bool {
    let names = Directory::open(directory).and_then(|open| open.names());
    names.is_ok_and(|names| names.iter().all(|name| paths.contains(&directory.join(name))))
}

fn step(path: PathBuf, state: FileState, keep: PathBuf, keep_state: FileState, why: &KeepReason) -> Step {
    Step {
        file: ActedOn {
            paths: vec![path],
            state,
            is_directory: false,
        },
        keep: KeptFile {
            path: keep,
            state: keep_state,
        },
        why: why.clone(),
        own_bytes: 0,
    }
}

/// The path of the first entry that cannot be equal.
fn first_difference(one: &ListedDirectory, other: &ListedDirectory) -> Option<PathBuf> {
    let same = |one: &Inside, other: &Inside| match (one, other) {
        (Inside::File(one), Inside::File(other)) => one.bytes == other.bytes,
        (one, other) => one == other,
    };
    let only = other.entries.keys().find(|path| !one.entries.contains_key(*path));
    let mut differ = one.entries.iter().filter(|(path, (inside, _))| {
        let twin = other.entries.get(*path);
        twin.is_none_or(|(twin, _)| !same(inside, twin))
    });
    let path = only.or_else(|| differ.next().map(|(path, _)| path))?;
    Some(one.path.join(path))
}

/// The space that a file shares with no other, as far as the file system tells; 0 if it cannot be opened.
pub(super) fn unshared_bytes(path: &Path) -> u64 {
    let open = || {
        Directory::open(path.parent()?)
            .ok()?
            .open_plain(path.file_name()?, Access::Read)
            .ok()
    };
    let Some(file) = open() else { return 0 };
    let own = own_bytes(&file).ok().flatten();
    let all = || file.metadata().map_or(0, |found| allocated_bytes(&found));
    own.unwrap_or_else(all)
}

/// Opens the directory of a step. Fails with the reason why it will stay, as far as this is known while files are in it.
pub(super) fn examine(
    step: &Step,
    session: &Session<'_>,
    directories: &Directories,
) -> Result<(ExaminedName, File), RefusalReason> {
    let [path] = &step.file.paths[..] else {
        return Err(RefusalReason::SeveralPaths);
    };
    let place = directories.place(path).map_err(cannot("open its directory"))?;
    let found = place.facts().map_err(cannot("stat"))?.ok_or(RefusalReason::Gone)?;
    if found.kind != FileType::Directory || found.id() != step.file.state.id() {
        return Err(RefusalReason::OtherInode);
    }
    session.require_owner(&place, &found)?;
    session.require_removable(&place, &[&found])?;
    let behind = session.systems.of(found.device, &place.directory);
    if behind.map_err(cannot("examine its file system"))?.is_read_only {
        return Err(RefusalReason::ReadOnly);
    }
    require_changeable(path)?;
    require_changeable_directory(path)?;
    let opened = place.directory.open_directory(&place.name);
    let file = opened.and_then(|directory| directory.open_plain(OsStr::new("."), Access::Read));
    let file = file.map_err(cannot("open"))?;
    if StatFacts::of(&file).map_err(cannot("stat"))?.id() != found.id() {
        return Err(RefusalReason::OtherInode);
    }
    if seekless_sys::is_mount_root(&file) {
        return Err(RefusalReason::MountPoint(path.clone()));
    }
    Ok((place, file))
}

/// Collects what the journal says of a directory.
pub(super) fn prepare(
    number: u64,
    step: &Step,
    run: &str,
    session: &Session<'_>,
    directories: &Directories,
) -> Result<ProvenStep, RefusalReason> {
    let (place, file) = examine(step, session, directories)?;
    let made = match session.action {
        Action::Move { to } => missing(&moved_to(to, &place.path), &place, session, directories)?,
        _ => 0,
    };
    let mut old = OldFile::of(&file)?;
    // Files were moved out of it since.
    let modified_ns = step.file.state.modified_ns;
    let nanoseconds = u32::try_from(modified_ns.rem_euclid(1_000_000_000)).unwrap_or(0);
    old.modified = (modified_ns.div_euclid(1_000_000_000), nanoseconds);
    Ok(ProvenStep {
        entry: StepRecord {
            volume: Some(place.limits.volume.to_string()),
            ..StepRecord::new(session.action, run, number, step, (vec![made], None), old)
        },
        places: vec![place],
        files: None,
    })
}

/// Removes a directory that is empty. If its files moved, their new directory gets its owner, mode and times.
pub(super) fn act(proven: &ProvenStep, session: &Session<'_>, directories: &Directories) -> StepOutcome {
    let (place, entry) = (&proven.places[0], &proven.entry);
    match place.facts() {
        Ok(Some(found)) if found.id() == entry.step.file.state.id() => {}
        _ => return RefusalReason::Replaced.into(),
    }
    if let Err(why) = follow(entry, session, directories) {
        return why.into();
    }
    let told = session.watch.announce(StepKind::Remove, &place.path);
    let Err(error) = told.and_then(|()| place.change(|above| above.remove_directory(&place.name))) else {
        return StepOutcome::Done { gained_bytes: 0 };
    };
    unfollow(&entry.names[0], directories);
    match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => RefusalReason::NotEmpty.into(),
        _ => cannot("remove it")(error).into(),
    }
}

/// Gives the directory to which the files of one moved the owner, mode and times of that one.
fn follow(entry: &StepRecord, session: &Session<'_>, directories: &Directories) -> Result<(), RefusalReason> {
    let Some(to) = &entry.names[0].moved_to else {
        return Ok(());
    };
    let failed = cannot(format!("make {}", visible_path(to)));
    session.watch.announce(StepKind::Make, to).map_err(&failed)?;
    let there = destination(&entry.names[0], session, directories).map_err(&failed)?;
    let made = match there.change(|above| above.create_directory(&there.name, 0o700)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => there.directory.open_directory(&there.name),
        made => made,
    };
    let opened = made.and_then(|made| made.open_plain(OsStr::new("."), Access::Read));
    entry.old.give_attributes(&opened.map_err(failed)?)
}

/// Removes the directory to which the files of one moved, and those that were made for it, if nothing is in them.
pub(super) fn unfollow(name: &NameOf, directories: &Directories) {
    let Some(to) = &name.moved_to else { return };
    let removed = directories
        .place(to)
        .and_then(|there| there.change(|above| above.remove_directory(&there.name)));
    if removed.is_ok() {
        // They are empty: nothing is lost if they stay.
        let _ = unmake(name, directories);
    }
}

/// Makes a directory again that was removed, with a temporary name.
pub(super) fn make_again(entry: &StepRecord, place: &ExaminedName, watch: &dyn Watch) -> Result<File, RefusalReason> {
    let temporary = OsStr::new(&entry.names[0].temporary);
    let failed = cannot("make the directory");
    // A killed undo may have left it.
    let _ = place.change(|above| above.remove_directory(temporary));
    watch
        .announce(StepKind::Make, &place.beside(temporary))
        .map_err(&failed)?;
    let made = place
        .change(|above| above.create_directory(temporary, 0o700))
        .map_err(&failed)?;
    let file = made.open_plain(OsStr::new("."), Access::Read).map_err(&failed)?;
    entry.old.give_flags(&file)?;
    entry.old.give_attributes(&file)?;
    Ok(file)
}

/// Gives it its name.
pub(super) fn name_again(entry: &StepRecord, place: &ExaminedName, watch: &dyn Watch) -> Result<(), RefusalReason> {
    let temporary = OsStr::new(&entry.names[0].temporary);
    let named = place.rename(temporary, place, &place.name, watch);
    named.map_err(cannot("give the directory its name"))
}
