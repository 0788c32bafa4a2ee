//! Whole directories: the steps for the files in one that equals another, and removing those that acting emptied.
//!
//! Not here: finding equal directories (the search), and acting on their files.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use seekless::files::{FileState, allocated_bytes, kind_of, own_bytes, with_article};
use seekless::update::{StepKind, Watch};
use seekless_sys::Access;
use walkdir::WalkDir;

use super::change::{destination, unmake};
use super::place::{Directories, NameInDirectory};
use super::prepare::{ProvenStep, missing, require_changeable, require_changeable_directory};
use super::record::{NameOf, OldFile, StepRecord, moved_to};
use super::session::{READ_ONLY, Session};
use super::{ActedOn, Action, KeptFile, Refused, Step, StepOutcome, cannot};
use crate::dupes::contents::{Contents, Inside, Inventory};
use crate::visible::visible_path;

/// What is in a directory and below, by relative path.
pub(super) struct ListedDirectory {
    path: PathBuf,
    state: FileState,
    entries: BTreeMap<PathBuf, (Inside, FileState)>,
}

impl ListedDirectory {
    /// Lists a directory. Its path leads through no link.
    pub fn of(path: &Path) -> Result<Self, Refused> {
        let found = fs::symlink_metadata(path).map_err(cannot("stat"))?;
        let mut listed = Self {
            path: path.to_owned(),
            state: FileState::of(&found),
            entries: BTreeMap::new(),
        };
        for entry in WalkDir::new(path).min_depth(1) {
            let entry = entry.map_err(cannot("list"))?;
            let metadata = entry.metadata().map_err(cannot("list"))?;
            let state = FileState::of(&metadata);
            if state.device != listed.state.device {
                return Err(format!("{} is a mount point", visible_path(entry.path())));
            }
            let inside = match kind_of(&metadata) {
                FileType::RegularFile if state.bytes == 0 => Inside::Empty,
                FileType::RegularFile => Inside::File(state),
                FileType::Directory => Inside::Directory,
                FileType::Symlink => {
                    let target = fs::read_link(entry.path()).map_err(cannot("list"))?;
                    Inside::Link(target.into_os_string().into_encoded_bytes())
                }
                kind => return Err(format!("{} is {}", visible_path(entry.path()), with_article(kind))),
            };
            let below = entry.path().strip_prefix(path).unwrap_or(entry.path());
            listed.entries.insert(below.to_owned(), (inside, state));
        }
        Ok(listed)
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
pub(super) fn steps_of(path: &Path, keep: &Path, why: &str, action: &Action) -> Result<Vec<Step>, Refused> {
    let (own, kept) = (ListedDirectory::of(path)?, ListedDirectory::of(keep)?);
    let is_move = matches!(action, Action::Move { .. });
    if let Some(path) = first_difference(&own, &kept) {
        let (path, keep) = (visible_path(&path), visible_path(keep));
        return Err(format!(
            "not equal to {keep}: {path} is only in one of them, or differs in kind or size"
        ));
    }
    let link = own
        .entries
        .iter()
        .find(|(_, (inside, _))| matches!(inside, Inside::Link(_)));
    // A relative link may lead elsewhere from the new place.
    if let Some((link, _)) = link.filter(|_| is_move) {
        let link = visible_path(&path.join(link));
        return Err(format!(
            "{link} is a symbolic link, which may lead elsewhere after a move"
        ));
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut numbers = HashMap::new();
    for (below, state) in own.files() {
        let twin = kept.entries[below].1;
        let (path, keep) = (path.join(below), keep.join(below));
        if state.id() == twin.id() {
            if is_move {
                return Err(format!("{}: {}", visible_path(&path), super::held::is_kept(&keep)));
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
            ..step(path, *state, (keep, twin), why)
        });
    }
    let inner = own.entries.iter().rev();
    let inner = inner.filter(|(_, (inside, _))| *inside == Inside::Directory);
    let emptied =
        inner.map(|(below, (_, state))| (path.join(below), *state, (keep.join(below), kept.entries[below].1)));
    let emptied = emptied.chain([(path.to_owned(), own.state, (keep.to_owned(), kept.state))]);
    for (path, state, kept) in emptied.filter(|_| is_move) {
        let mut step = step(path, state, kept, why);
        step.file.is_directory = true;
        steps.push(step);
    }
    Ok(steps)
}

fn step(path: PathBuf, state: FileState, (keep, keep_state): (PathBuf, FileState), why: &str) -> Step {
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
        why: why.to_owned(),
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
    let Ok(file) = File::open(path) else { return 0 };
    let own = own_bytes(&file).ok().flatten();
    let all = || file.metadata().map_or(0, |found| allocated_bytes(&found));
    own.unwrap_or_else(all)
}

/// Opens the directory of a step. Fails with the reason why it will stay, as far as this is known while files are in it.
pub(super) fn examine(
    step: &Step,
    session: &Session<'_>,
    directories: &Directories,
) -> Result<(NameInDirectory, File), Refused> {
    let [path] = &step.file.paths[..] else {
        return Err("a directory has one path".into());
    };
    let place = directories.place(path).map_err(cannot("open its directory"))?;
    let found = place.facts().map_err(cannot("stat"))?.ok_or("it is gone")?;
    if found.kind != FileType::Directory || found.id() != step.file.state.id() {
        return Err("it is not the directory that was searched".into());
    }
    session.require_owner(&place, &found)?;
    session.require_removable(&place, &[&found])?;
    let behind = session.systems.of(found.device, place.directory.as_fd());
    if behind.map_err(cannot("examine its file system"))?.is_read_only {
        return Err(READ_ONLY.into());
    }
    require_changeable(path)?;
    require_changeable_directory(path)?;
    let opened = place.directory.open_directory(&place.name);
    let file = opened.and_then(|directory| directory.open_plain(OsStr::new("."), Access::Read));
    let file = file.map_err(cannot("open"))?;
    if seekless_sys::is_mount_root(&file) {
        return Err("it is a mount point".into());
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
) -> Result<ProvenStep, Refused> {
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
        places: vec![place],
        entry: StepRecord::new(session.action, run, number, step, vec![made], old),
        files: None,
    })
}

/// Removes a directory that is empty. If its files moved, their new directory gets its owner, mode and times.
pub(super) fn act(proven: &ProvenStep, session: &Session<'_>, directories: &Directories) -> StepOutcome {
    let (place, entry) = (&proven.places[0], &proven.entry);
    match place.facts() {
        Ok(Some(found)) if found.id() == entry.step.file.state.id() => {}
        _ => return Refused::from("another program replaced or removed it").into(),
    }
    if let Err(why) = follow(entry, session, directories) {
        return why.into();
    }
    let told = session.watch.announce(StepKind::Remove, &place.path);
    let Err(error) = told.and_then(|()| place.directory.remove_directory(&place.name)) else {
        return StepOutcome::Done { gained_bytes: 0 };
    };
    unfollow(&entry.names[0], directories);
    match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => Refused::from("it is not empty").into(),
        _ => cannot("remove it")(error).into(),
    }
}

/// Gives the directory to which the files of one moved the owner, mode and times of that one.
fn follow(entry: &StepRecord, session: &Session<'_>, directories: &Directories) -> Result<(), Refused> {
    let Some(to) = &entry.names[0].moved_to else {
        return Ok(());
    };
    let failed = |error| format!("cannot make {}: {error}", visible_path(to));
    session.watch.announce(StepKind::Make, to).map_err(failed)?;
    let there = destination(&entry.names[0], session, directories).map_err(failed)?;
    let made = match there.directory.create_directory(&there.name, 0o700) {
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
        .and_then(|there| there.directory.remove_directory(&there.name));
    if removed.is_ok() {
        // They are empty: nothing is lost if they stay.
        let _ = unmake(name, directories);
    }
}

/// Makes a directory again that was removed, with a temporary name.
pub(super) fn make_again(entry: &StepRecord, place: &NameInDirectory, watch: &dyn Watch) -> Result<File, Refused> {
    let temporary = OsStr::new(&entry.names[0].temporary);
    let failed = cannot("make the directory");
    // A killed undo may have left it.
    let _ = place.directory.remove_directory(temporary);
    watch
        .announce(StepKind::Make, &place.beside(temporary))
        .map_err(&failed)?;
    let made = place.directory.create_directory(temporary, 0o700).map_err(&failed)?;
    let file = made.open_plain(OsStr::new("."), Access::Read).map_err(&failed)?;
    entry.old.give_flags(&file)?;
    entry.old.give_attributes(&file)?;
    Ok(file)
}

/// Gives it its name.
pub(super) fn name_again(entry: &StepRecord, place: &NameInDirectory, watch: &dyn Watch) -> Result<(), Refused> {
    let temporary = OsStr::new(&entry.names[0].temporary);
    let named = place.rename(temporary, place, &place.name, watch);
    named.map_err(cannot("give the directory its name"))
}
