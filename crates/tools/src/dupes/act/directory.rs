//! Whole directories: what is in them now, proving that one equals the kept one, and moving it by one rename. Nothing in it is
//! opened for writing, removed or replaced: programs that have files of it open keep their files.
//!
//! Not here: finding equal directories (the search), the rename itself (`change`), and putting back what a journal says.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;
use seekless::files::{Attributes, shared_bytes};
use seekless::update::Watch;
use seekless_sys::{self as sys, Access, Directory, Opening};

use super::change::{Unchanged, relocate};
use super::check::require_changeable;
use super::held::{Holding, Refused};
use super::journal::{Entry, Name};
use super::place::{Directories, Place};
use super::prepare::{missing, unopened};
use super::twin::{born_ns, born_ns_of};
use super::{Action, Outcome, STOPPED, Seen, Step, TEMPORARY};
use crate::Stop;
use crate::dupes::contents::{Inside, Inventory};
use crate::visible::visible_path;
use crate::walk::{Facts, Listing, with_article};

/// Bounds the memory for deep trees.
const LONGEST_PATH: usize = 4096;
const CHANGED: &str = "something in it was added, removed or changed";

/// Entries of a directory and below, by relative path. The contents of a directory follow it.
type Listed = BTreeMap<PathBuf, Inside>;

/// An open directory, and all that is in it.
pub(super) struct Tree {
    handle: Arc<Directory>,
    path: PathBuf,
    facts: Facts,
    listed: Listed,
    /// An entry that root does not own, and its owner.
    foreign: Option<(PathBuf, u32)>,
}

/// A directory that is to be moved, and the kept one.
pub(super) struct Examined {
    place: Place,
    moved: Tree,
    kept: Tree,
    moved_to: PathBuf,
    /// How many of the last directories of that path are missing.
    made: u64,
}

/// A directory that is proven to equal the kept one.
pub(super) struct Proven {
    pub entry: Entry,
    examined: Examined,
}

/// Looks up files in an open directory. The caller asks for the files of each subdirectory in a row.
struct Below<'t> {
    tree: &'t Tree,
    last: (PathBuf, Arc<Directory>),
}

fn unlisted(path: &Path) -> impl Fn(io::Error) -> Refused + '_ {
    move |error| format!("cannot list {}: {error}", visible_path(path))
}

impl Tree {
    /// Opens a directory without following links, and lists it.
    pub fn open(place: &Place, stop: &Stop) -> Result<Self, Refused> {
        let handle = match place.directory.open_directory(&place.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err("it is gone".into()),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err("it is no longer a directory".into());
            }
            opened => opened.map_err(unlisted(&place.path))?,
        };
        let facts = Facts::of(&handle).map_err(|error| format!("cannot stat: {error}"))?;
        let mut tree = Self {
            handle: Arc::new(handle),
            path: place.path.clone(),
            facts,
            listed: Listed::new(),
            foreign: (facts.owner != 0).then(|| (place.path.clone(), facts.owner)),
        };
        tree.list(stop)?;
        Ok(tree)
    }

    /// The same with an absolute path without links.
    pub fn of(path: &Path) -> Result<Self, Refused> {
        let place = Directories::default().place(path).map_err(|error| unopened(&error))?;
        Self::open(&place, &Stop::default())
    }

    fn list(&mut self, stop: &Stop) -> Result<(), Refused> {
        let mut waiting = vec![PathBuf::new()];
        while let Some(below) = waiting.pop() {
            if stop.is_stopped() {
                return Err(STOPPED.into());
            }
            let path = match below.as_os_str().len() {
                0 => self.path.clone(),
                1..=LONGEST_PATH => self.path.join(&below),
                _ => return Err(format!("a path in it is longer than {LONGEST_PATH} bytes")),
            };
            let failed = unlisted(&path);
            let directory = self.directory(&below).map_err(&failed)?;
            let own = Facts::of(&*directory).map_err(|error| failed(error.into()))?;
            if own.device != self.facts.device || sys::is_mount_root(&*directory) {
                return Err(format!("{} is a mount point", visible_path(&path)));
            }
            let how = Opening {
                keeps_atime: true,
                ..Opening::plain(Access::Read)
            };
            let opened = directory
                .open_file(OsStr::new("."), how)
                .and_then(sys::Support::required);
            let opened = opened.map_err(&failed)?;
            let mut listing = Listing::default();
            listing.add_all(opened.as_fd()).map_err(&failed)?;
            for entry in listing.iter() {
                let name = OsStr::from_bytes(listing.name(entry));
                let below = below.join(name);
                let inside = self.entry(&directory, name, &below)?;
                if inside == Inside::Directory {
                    waiting.push(below.clone());
                }
                self.listed.insert(below, inside);
            }
        }
        Ok(())
    }

    fn entry(&mut self, directory: &Directory, name: &OsStr, below: &Path) -> Result<Inside, Refused> {
        let path = self.path.join(below);
        let failed = |error: io::Error| format!("cannot stat {}: {error}", visible_path(&path));
        let facts = Facts::at(directory.as_fd(), name).map_err(|error| failed(error.into()))?;
        if facts.device != self.facts.device {
            return Err(format!("{} is a mount point", visible_path(&path)));
        }
        if facts.owner != 0 {
            self.foreign.get_or_insert_with(|| (path.clone(), facts.owner));
        }
        Ok(match facts.kind {
            FileType::RegularFile if facts.bytes == 0 => Inside::Empty,
            FileType::RegularFile => Inside::File(Seen::of(&facts)),
            FileType::Directory => Inside::Directory,
            FileType::Symlink => {
                let target = directory.link_target(name).map_err(failed)?;
                Inside::Link(target.into_os_string().into_encoded_bytes())
            }
            kind => return Err(format!("{} is {}", visible_path(&path), with_article(kind))),
        })
    }

    /// Opens a directory in this one, name by name.
    fn directory(&self, below: &Path) -> io::Result<Arc<Directory>> {
        let mut directory = Arc::clone(&self.handle);
        for component in below.components() {
            if let Component::Normal(name) = component {
                directory = Arc::new(directory.open_directory(name)?);
            }
        }
        Ok(directory)
    }

    /// What it is now.
    pub fn seen(&self) -> Seen {
        let mut inventory = Inventory::new((self.facts.device, self.facts.inode));
        for (path, inside) in &self.listed {
            let name = path.file_name().unwrap_or_default();
            inventory.add(path.components().count() - 1, name.as_bytes(), inside);
        }
        inventory.seen()
    }

    fn require_seen(&self, seen: &Seen) -> Result<(), Refused> {
        let now = self.seen();
        match () {
            () if !seen.is_inode(&self.facts) => Err("it is not the directory that was searched".into()),
            () if now != *seen => Err(format!("{CHANGED} since the search")),
            () => Ok(()),
        }
    }

    /// Lists it again. Fails unless the name leads to it and its contents are unchanged.
    fn require_unchanged(&self, place: &Place, stop: &Stop) -> Result<(), Refused> {
        let now = Self::open(place, stop)?;
        match () {
            () if now.facts.id() != self.facts.id() => Err("another program replaced it".into()),
            () if now.listed != self.listed => Err(format!("{CHANGED} since it was compared")),
            () => Ok(()),
        }
    }

    /// Fails for root if something in it is of another user.
    fn require_owner(&self, place: &Place, holding: &Holding<'_>) -> Result<(), Refused> {
        holding.require_owner(place, &self.facts)?;
        match &self.foreign {
            Some((path, owner)) if !holding.may_touch(*owner) => {
                Err(format!("{} belongs to another user (ID {owner})", visible_path(path)))
            }
            _ => Ok(()),
        }
    }

    fn below(&self) -> Below<'_> {
        Below {
            tree: self,
            last: (PathBuf::new(), Arc::clone(&self.handle)),
        }
    }
}

impl Below<'_> {
    fn place(&mut self, path: &Path) -> io::Result<Place> {
        let above = path.parent().unwrap_or(Path::new(""));
        if self.last.0 != above {
            self.last = (above.to_owned(), self.tree.directory(above)?);
        }
        Ok(Place {
            directory: Arc::clone(&self.last.1),
            name: path.file_name().unwrap_or_default().to_owned(),
            path: self.tree.path.join(path),
            // The check of the whole directory covers this.
            exposed: None,
        })
    }
}

/// Lists a directory and the kept one. Fails with the reason why it will not be moved, as far as this is known without reading
/// files.
pub(super) fn examine(
    step: &Step,
    action: &Action,
    holding: &Holding<'_>,
    directories: &Directories,
) -> Result<Examined, Refused> {
    let (Action::Move { to }, [path]) = (action, &step.paths[..]) else {
        return Err("whole directories can only be moved".into());
    };
    if path.starts_with(&step.keep) || step.keep.starts_with(path) {
        return Err(format!(
            "it holds the kept directory {}, or is in it",
            visible_path(&step.keep)
        ));
    }
    if to.starts_with(path) {
        return Err(format!("it holds {}", visible_path(to)));
    }
    let of_kept = |why: Refused| format!("the kept directory {}: {why}", visible_path(&step.keep));
    let place = directories.place(path).map_err(|error| unopened(&error))?;
    let moved = Tree::open(&place, holding.stop)?;
    // A relative link may lead elsewhere from the new place.
    if let Some((link, _)) = moved
        .listed
        .iter()
        .find(|(_, inside)| matches!(inside, Inside::Link(_)))
    {
        let link = path.join(link);
        return Err(format!(
            "{} is a symbolic link, which may lead elsewhere after a move",
            visible_path(&link)
        ));
    }
    moved.require_seen(&step.seen)?;
    moved.require_owner(&place, holding)?;
    holding.require_removable(&place, &[&moved.facts])?;
    let behind = holding.systems.of(moved.facts.device, place.directory.as_fd());
    let behind = behind.map_err(|error| format!("cannot examine its file system: {error}"))?;
    match () {
        () if behind.is_read_only => return Err("its file system is mounted read-only".into()),
        () if !behind.system.inodes_identify => return Err(super::held::UNSURE.into()),
        () => {}
    }
    require_changeable(path)?;
    if let Some(above) = path.parent() {
        require_changeable(above).map_err(|why| format!("its directory: {why}"))?;
    }
    let kept_place = directories
        .place(&step.keep)
        .map_err(|error| of_kept(unopened(&error)))?;
    let kept = Tree::open(&kept_place, holding.stop).map_err(of_kept)?;
    kept.require_seen(&step.keep_seen).map_err(of_kept)?;
    kept.require_owner(&kept_place, holding).map_err(of_kept)?;
    if moved.facts.id() == kept.facts.id() {
        return Err(of_kept("it is the same directory".into()));
    }
    if let Some(path) = first_difference(&moved.listed, &kept.listed) {
        let path = visible_path(&path);
        return Err(format!(
            "{path} is not in both, or differs in kind or size: it does not equal {}",
            visible_path(&step.keep)
        ));
    }
    let is_shared = |(path, inside): &(&PathBuf, &Inside)| match (inside, kept.listed.get(*path)) {
        (Inside::File(one), Some(Inside::File(other))) => (one.device, one.inode) == (other.device, other.inode),
        _ => false,
    };
    if let Some((file, _)) = moved.listed.iter().find(is_shared) {
        let [own, other] = [path, &step.keep].map(|directory| directory.join(file));
        return Err(format!(
            "{} is the kept file: {} is another name of it",
            visible_path(&own),
            visible_path(&other)
        ));
    }
    let moved_to = to.join(path.strip_prefix("/").unwrap_or(path));
    let made = missing(&moved_to, to, moved.facts.device, (holding, directories))?;
    if made == 0 && !matches!(directories.place(&moved_to).and_then(|there| there.facts()), Ok(None)) {
        return Err(format!("{} exists", visible_path(&moved_to)));
    }
    Ok(Examined {
        place,
        moved,
        kept,
        moved_to,
        made,
    })
}

/// The path of the first entry that cannot be equal.
fn first_difference(one: &Listed, other: &Listed) -> Option<PathBuf> {
    let same = |one: &Inside, other: &Inside| match (one, other) {
        (Inside::File(one), Inside::File(other)) => one.bytes == other.bytes,
        (one, other) => one == other,
    };
    let only = other.keys().find(|path| !one.contains_key(*path));
    let differs = |(path, inside): &(&PathBuf, &Inside)| other.get(*path).is_none_or(|other| !same(inside, other));
    only.or_else(|| one.iter().find(differs).map(|(path, _)| path)).cloned()
}

/// Proves that each file of a directory equals its twin in the kept one, and collects what the journal says of it.
pub(super) fn prepare(
    (number, step): (usize, &Step),
    action: &Action,
    holding: &Holding<'_>,
    directories: &Directories,
) -> Result<Proven, Refused> {
    let examined = examine(step, action, holding, directories)?;
    let (moved, kept) = (&examined.moved, &examined.kept);
    let (mut ours, mut theirs) = (moved.below(), kept.below());
    for (path, inside) in &moved.listed {
        let (Inside::File(seen), Some(Inside::File(twin))) = (inside, kept.listed.get(path)) else {
            continue;
        };
        if holding.stop.is_stopped() {
            return Err(STOPPED.into());
        }
        let file = ours.place(path).map_err(|error| unopened(&error))?;
        let kept_file = theirs.place(path).map_err(|error| unopened(&error))?;
        let compared = holding.compare_open(&file, seen, (&kept_file, twin));
        compared.map_err(|why| format!("{}: {why}", visible_path(&file.path)))?;
    }
    let opened = |tree: &Tree| {
        let opened = tree.handle.open_plain(OsStr::new("."), Access::Read);
        opened.map_err(unlisted(&tree.path))
    };
    let file = opened(moved)?;
    let metadata = file.metadata().map_err(|error| format!("cannot stat: {error}"))?;
    let attributes = Attributes::of(&file).map_err(|error| format!("cannot read its attributes: {error}"))?;
    let name = Name {
        path: examined.place.path.clone(),
        temporary: format!("{TEMPORARY}{number}"),
        link: None,
        moved_to: Some(examined.moved_to.clone()),
        made: examined.made,
    };
    let entry = Entry {
        step: number as u64,
        names: vec![name],
        seen: moved.seen(),
        links: moved.facts.names,
        born_ns: born_ns_of(&metadata),
        keep: step.keep.clone(),
        keep_seen: kept.seen(),
        keep_born_ns: born_ns(&opened(kept)?),
        digest: kept
            .seen()
            .contents
            .map_or_else(String::new, |contents| contents.listing.into()),
        attributes,
        flags: None,
        extended_flags: None,
        modified: moved.facts.modified,
        accessed: (metadata.atime(), u32::try_from(metadata.atime_nsec()).unwrap_or(0)),
        why: step.why.clone(),
    };
    Ok(Proven { entry, examined })
}

impl Proven {
    /// The name of the directory that is moved, and its device.
    pub fn place(&self) -> (&Place, u64) {
        (&self.examined.place, self.examined.moved.facts.device)
    }

    /// The file system of the kept directory, and a file on it.
    pub fn kept(&self) -> io::Result<(u64, File)> {
        let kept = &self.examined.kept;
        Ok((
            kept.facts.device,
            kept.handle.open_plain(OsStr::new("."), Access::Read)?,
        ))
    }

    /// Fails unless both directories still hold what was compared; the moved one is expected at this place.
    fn look(&self, place: &Place, stop: &Stop) -> Result<(), String> {
        self.examined.moved.require_unchanged(place, stop)?;
        // Open it by its path again: directories above it may have been renamed.
        let kept = Directories::default()
            .place(&self.entry.keep)
            .map_err(|error| unopened(&error))
            .and_then(|place| self.examined.kept.require_unchanged(&place, stop));
        kept.map_err(|why| format!("the kept directory {}: {why}", visible_path(&self.entry.keep)))
    }
}

/// Moves a directory.
pub(super) fn act(proven: &Proven, (holding, directories): (&Holding<'_>, &Directories), watch: &dyn Watch) -> Outcome {
    let place = &proven.examined.place;
    if let Err(why) = proven.look(place, holding.stop) {
        return Outcome::Left { why };
    }
    // A signal must not stop this check: the directory would be put back.
    let look = |there: &Place| proven.look(there, &Stop::default());
    match relocate(place, &proven.entry.names[0], &look, (holding, directories), watch) {
        Ok(()) => Outcome::Done { gained_bytes: 0 },
        Err(Unchanged::Left(why)) => Outcome::Left { why },
        Err(Unchanged::Failed(why)) => Outcome::Failed { why },
    }
}

/// The files of a directory, each as a step with its twin in the kept directory, and the space that it shares with no other. Names
/// of one file make one step. A file that is its own twin makes none.
///
/// # Errors
/// Why the directory, or the kept one, is not what it was at the search.
pub fn files_of(step: &Step) -> Result<Vec<(Step, u64)>, String> {
    let open = |path: &Path, seen: &Seen| {
        let tree = Tree::of(path)?;
        tree.require_seen(seen)?;
        Ok::<_, Refused>(tree)
    };
    let own = open(step.paths.first().ok_or("it has no path")?, &step.seen)?;
    let kept = open(&step.keep, &step.keep_seen)
        .map_err(|why| format!("the kept directory {}: {why}", visible_path(&step.keep)))?;
    let mut below = own.below();
    let mut steps: Vec<(Step, u64)> = Vec::new();
    let mut numbers = HashMap::new();
    for (path, inside) in &own.listed {
        let (Inside::File(seen), Some(Inside::File(twin))) = (inside, kept.listed.get(path)) else {
            continue;
        };
        if (seen.device, seen.inode) == (twin.device, twin.inode) {
            continue;
        }
        let place = below.place(path).map_err(|error| unopened(&error))?;
        if let Some(number) = numbers.get(&seen.inode) {
            let (step, _): &mut (Step, u64) = &mut steps[*number];
            step.paths.push(place.path);
            continue;
        }
        numbers.insert(seen.inode, steps.len());
        let file = Step {
            keep: step.keep.join(path),
            paths: vec![place.path.clone()],
            seen: *seen,
            keep_seen: *twin,
            why: step.why.clone(),
        };
        steps.push((file, own_bytes(&place)));
    }
    Ok(steps)
}

/// The space that a file shares with no other; 0 if unknown.
fn own_bytes(place: &Place) -> u64 {
    let Ok(file) = place.open() else { return 0 };
    let shared = shared_bytes(&file).ok().flatten().unwrap_or(0);
    Facts::of(&file).map_or(0, |facts| facts.allocated_bytes.saturating_sub(shared))
}
