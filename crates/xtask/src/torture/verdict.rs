//! What must hold after a trial, whatever disturbed it: for each path its bytes, mode, owner, time, attributes and links. No I/O.
//!
//! Not here: reading the files (`tree`), and where their bytes come from (`origins`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::disturb::{Act, Injection, Interference};
use super::origins::{Derived, Origins, UpdatesPresent, is_in_mark};
use super::plan::TrialPlan;
use super::site::Fault;
use super::tree::{DECOYS, FileTree, MOVED, Properties, TREE, TreeEntry, TreeFile, YARD, file, files, is_in_trash};
use super::world::RENAMED;

/// What a trial is judged by.
pub struct Evidence<'a> {
    pub plan: &'a TrialPlan,
    /// The directory of the trial.
    pub directory: &'a Path,
    pub before: FileTree,
    pub acts: Vec<Act>,
    /// What all runs of seekless said.
    pub told: String,
    /// The run ended with success.
    pub is_done: bool,
    /// Which of the updates the file has.
    pub updated: UpdatesPresent,
    /// By how much a file that was updated may be longer.
    pub slack: usize,
}

/// The kind of a name that does not lead to what it did before, although all was undone.
pub const NOT_RESTORED: &str = "not restored";

/// The kind of what may be lost where seekless outlasts its lease: no failure.
pub const KNOWN_LIMIT: &str = "known limit";

/// What `update --safety replace` says where others saved, or changed, the file that it replaced: what they did is in one of two.
pub const KEPT_BOTH: &str = "compare the ";

impl Evidence<'_> {
    /// What must hold whatever happened: no content is lost, none is mixed with another, and no file got foreign bytes.
    pub fn check(&self, now: &FileTree) -> Vec<Fault> {
        let mut faults = check_left(now, &self.told);
        let contents: BTreeSet<_> = files(&self.before, TREE).map(|(_, file)| &file.bytes[..]).collect();
        let known = contents.iter().copied();
        let origins = Origins::of(known, &self.plan.patches, &self.acts, self.updated, self.slack);
        let mut found: HashMap<&[u8], Vec<&Path>> = HashMap::new();
        let mut marks = HashSet::new();
        for (path, file) in files(now, "").filter(|(path, _)| !path.starts_with(DECOYS)) {
            let derived = origins.derive(&file.bytes).unwrap_or_else(|(at, content)| {
                let is_lost_mark = self.may_lose_writes() && self.acts.iter().any(|act| is_in_mark(act, at));
                let kind = if is_lost_mark { KNOWN_LIMIT } else { "foreign bytes" };
                faults.push(Fault::new(kind, format!("byte {at} of {}: {file:?}", path.display())));
                Derived {
                    contents: Vec::from_iter(is_lost_mark.then_some(content)),
                    marks: Vec::new(),
                }
            });
            for content in derived.contents {
                found.entry(content).or_default().push(path);
            }
            marks.extend(derived.marks);
        }
        for content in contents {
            let found = found.get(content).map_or(&[][..], Vec::as_slice);
            faults.extend(self.check_content(content, found));
        }
        for (number, act) in self.acts.iter().enumerate().filter(|(_, act)| !act.wrote.is_empty()) {
            let is_save = act.kind == Interference::Save;
            let is_there = marks.contains(&number) || is_save && found.contains_key(&act.wrote[..]);
            if !is_there && act.answer.is_ok() {
                // What they save as new files does not go with the file.
                let may_be_lost = !is_save && self.may_lose_writes();
                let kind = if may_be_lost { KNOWN_LIMIT } else { "lost write" };
                faults.push(Fault::new(kind, format!("{act:?}")));
            }
        }
        faults.extend(self.pairs(now).filter_map(|pair| self.check_path(&pair, &origins)));
        faults.extend(now.iter().filter_map(|(path, entry)| self.check_new(path, entry)));
        if self.action().is_none() && !self.told.contains(KEPT_BOTH) {
            faults.extend(self.check_properties(now));
        }
        faults
    }

    /// A content that was there before has a name still; one that had names outside of trash has one of these.
    fn check_content(&self, content: &[u8], found: &[&Path]) -> Option<Fault> {
        let of_content = files(&self.before, TREE).filter(|(_, file)| *file.bytes == *content);
        let names: Vec<_> = of_content.map(|(path, _)| path).collect();
        let counts = |path: &&Path| !is_in_trash(path) && !path.starts_with(MOVED);
        // By another name that others gave it for a moment, the trash is no trash. What others took away may have been the one that
        // was kept.
        let renames_trash = |act: &Act| act.kind.moves_directory() && is_in_trash(&act.path);
        let is_there = found.iter().any(|path| counts(path) || path.starts_with(YARD));
        let is_told = is_there || !names.iter().any(counts) || self.acts.iter().any(renames_trash);
        let kind = match found {
            [] => "lost content",
            _ if is_told => return None,
            _ => "last copy in the trash",
        };
        Some(Fault::new(kind, format!("{} B, of {names:?}", content.len())))
    }

    /// A process that was stopped for longer than its lease lasts removes, or writes to, a file that was opened since; and --busy
    /// asks for no lease. What others write to such a file is lost.
    fn may_lose_writes(&self) -> bool {
        let command = &self.plan.command;
        let outlasts_lease = self.plan.disturbance.outlasts_lease() && command.label != "update replace";
        outlasts_lease || command.has("--busy")
    }

    /// A name that others neither gave nor took leads to the bytes that it had, or to none where that was asked for.
    fn check_path(&self, pair: &Pair, origins: &Origins) -> Option<Fault> {
        let wrong = |is_wrong: bool, kind| is_wrong.then(|| pair.fault(kind));
        if pair.path.starts_with(DECOYS) {
            return wrong(pair.here != Some(pair.was), "other directory");
        }
        let TreeEntry::File(file_before) = pair.was else {
            return wrong(!pair.is_same_entry() && !self.is_pruned(pair), "changed link");
        };
        let mut content = &file_before.bytes[..];
        if let Some(act) = self.acts.iter().rfind(|act| act.gives_name() && act.path == pair.path) {
            // Of several disturbers, it is not known which was the last.
            if self.action().is_some() || self.told.contains(KEPT_BOTH) {
                return None;
            }
            content = &act.wrote[..];
        }
        let found = match pair.here {
            Some(TreeEntry::File(file)) => Some(&file.bytes),
            Some(TreeEntry::Symlink { bytes, .. }) => {
                // Others may have taken away or replaced the file that it leads to. So may the directory have been, by another name that
                // it had when the link was made.
                let had_it = |act: &Act| file(&self.before, &act.path).is_some_and(|file| *file.bytes == *content);
                let is_cut = |act: &Act| act.kind.moves_directory() || act.gives_name() && had_it(act);
                if self.acts.iter().any(is_cut) {
                    return None;
                }
                bytes.as_ref()
            }
            _ => None,
        };
        let Some(found) = found else {
            let is_told = || self.action().is_some() && self.tells_of(pair.path);
            return wrong(
                !matches!(self.action(), Some("remove" | "move")) && !is_told(),
                "lost name",
            );
        };
        let derived = origins.derive(found);
        wrong(
            derived.is_ok_and(|derived| !derived.contents.contains(&content)),
            "wrong bytes",
        )
    }

    /// No name is new but those of files that were moved, and those that others gave.
    fn check_new(&self, path: &Path, entry: &TreeEntry) -> Option<Fault> {
        if path.starts_with(YARD) || self.before.contains_key(path) || is_temporary(path) {
            return None;
        }
        let is_moved = self.moved_from(path).is_some_and(|from| {
            let is_above = |known: &PathBuf| *entry == TreeEntry::Directory && known.starts_with(&from);
            self.before.contains_key(&from) || self.before.keys().any(is_above)
        });
        let is_known = is_moved && self.action() == Some("move");
        (!is_known).then(|| Fault::new("unknown name", path.display().to_string()))
    }

    /// Owner, mode and extended attributes of the file that a command is run on are what they were, or what others set last.
    fn check_properties(&self, now: &FileTree) -> Option<Fault> {
        let path = self.plan.files.first()?;
        // A save parts the names of a file.
        let has_parted = files(&self.before, TREE).count() > 1 && self.acts.iter().any(Act::gives_name);
        let (mut wanted, mut may_lose) = (file(&self.before, path)?.properties.clone(), 0);
        for act in self.acts.iter().filter(|act| act.answer.is_ok()) {
            match act.kind {
                Interference::Save => {
                    (wanted, may_lose) = (Properties::default(), 0);
                    wanted.mode = act.set;
                }
                Interference::Mode => wanted.mode = act.set,
                // chown(2) takes away set-user-ID.
                Interference::Owner => (wanted.owner, may_lose) = (act.set, 0o6000),
                Interference::Attribute => {
                    let value = vec![act.set as u8];
                    wanted.attributes.insert("user.others".to_owned(), value);
                }
                _ => {}
            }
        }
        let found = &file(now, path)?.properties;
        let is_mode = found.mode & !wanted.mode == 0 && (found.mode ^ wanted.mode) & !may_lose == 0;
        let is_it = is_mode && found.owner == wanted.owner && found.attributes == wanted.attributes;
        (!is_it && !has_parted).then(|| Fault::new("wrong properties", format!("{found:?}, not {wanted:?}")))
    }

    /// What must hold where nobody else did anything, and the run, or a second one, ended by itself.
    pub fn check_acted(&self, now: &FileTree) -> Vec<Fault> {
        let is_wrong = |pair: &Pair| match self.action() {
            None => !self.is_after_command(pair),
            Some(action) => !self.is_acted_on(action, pair, now),
        };
        let wrong = self.pairs(now).filter(is_wrong);
        let mut faults: Vec<_> = wrong.map(|pair| pair.fault("wrong result")).collect();
        for (path, _) in files(now, MOVED) {
            if self.moved_from(path).is_none_or(|from| now.contains_key(&from)) {
                faults.push(Fault::new("moved, and still there", path.display().to_string()));
            }
        }
        if self.action().is_some() {
            faults.extend(self.check_least(now));
        }
        faults
    }

    /// Each path of the tree, before and now.
    fn pairs<'p>(&'p self, now: &'p FileTree) -> impl Iterator<Item = Pair<'p>> {
        self.before.iter().map(|(path, was)| {
            let here = now.get(path);
            Pair { path, was, here }
        })
    }

    /// A command on a file changes no other one, and of that one only what it is for.
    fn is_after_command(&self, pair: &Pair) -> bool {
        let command = &self.plan.command;
        let target = self.plan.files.first().and_then(|path| file(&self.before, path));
        let is_target = matches!((pair.was, target), (TreeEntry::File(was), Some(file)) if was.inode == file.inode);
        pair.differences().into_iter().all(|part| match part {
            "inode" => is_target && command.label == "update replace",
            "bytes" => is_target && command.is_update(),
            "time" => is_target && (command.is_update() || !self.is_done),
            _ => false,
        })
    }

    /// Whether a path leads to what it did, or what was asked for was done with its file.
    fn is_acted_on(&self, action: &str, pair: &Pair, now: &FileTree) -> bool {
        let (TreeEntry::File(was), true) = (pair.was, pair.path.starts_with(TREE)) else {
            return pair.is_same_entry() || self.is_pruned(pair);
        };
        let is_done = match (action, pair.here) {
            (_, Some(TreeEntry::File(found))) if found.inode == was.inode => return found == was,
            ("hardlink", Some(TreeEntry::File(found))) => {
                let kept = files(&self.before, "").find(|(_, known)| known.inode == found.inode);
                found.bytes == was.bytes && kept.is_some_and(|(_, kept)| kept == found)
            }
            ("symlink", Some(TreeEntry::Symlink { target, bytes })) => {
                bytes.as_ref() == Some(&was.bytes) && target.is_absolute() == self.plan.command.has("--absolute")
            }
            ("remove", None) => true,
            ("move", None) => file(now, &self.moved_to(pair.path)) == Some(was),
            _ => false,
        };
        is_done && !self.plan.command.keeps(&pair.path.to_string_lossy())
    }

    /// Whether a directory is gone that held something, and was not named.
    fn is_pruned(&self, pair: &Pair) -> bool {
        let had_any = || self.before.keys().any(|path| path.parent() == Some(pair.path));
        let is_named = || self.plan.command.has(&pair.path.to_string_lossy());
        *pair.was == TreeEntry::Directory
            && pair.here.is_none()
            && self.plan.command.has("--prune")
            && pair.path.starts_with(TREE)
            && !is_named()
            && had_any()
    }

    /// As many files of each content stay as were asked for, or as there were; those in the trash do not count.
    fn check_least(&self, now: &FileTree) -> Option<Fault> {
        let count = |among: &FileTree, bytes: &[u8]| {
            let equal = files(among, TREE).filter(|(path, file)| !is_in_trash(path) && *file.bytes == *bytes);
            equal.map(|(_, file)| file.inode).collect::<BTreeSet<_>>().len()
        };
        let least = self.plan.command.least();
        let is_wrong = |(_, file): &(&Path, &TreeFile)| {
            count(now, &file.bytes) < least && count(now, &file.bytes) < count(&self.before, &file.bytes)
        };
        let wrong = files(&self.before, TREE).find(is_wrong);
        wrong.map(|(path, _)| Fault::new("too few stay", format!("of {}", path.display())))
    }

    /// What must hold where nobody else did anything, and all was undone.
    pub fn check_restored(&self, now: &FileTree) -> Vec<Fault> {
        // A copy is another file.
        let is_restored = |pair: &Pair| pair.differences().iter().all(|part| *part == "inode");
        let wrong = self.pairs(now).filter(|pair| !is_restored(pair));
        let mut faults: Vec<_> = wrong.map(|pair| pair.fault(NOT_RESTORED)).collect();
        for path in now.keys().filter(|path| !self.before.contains_key(*path)) {
            faults.push(Fault::new("left by undo", path.display().to_string()));
        }
        // A search that met an error did not find all names of a file.
        if !faults.is_empty() || self.plan.disturbance.injections.iter().any(Injection::is_error) {
            return faults;
        }
        let together = |among: &FileTree| {
            let mut names: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
            // A name that was not searched keeps the file that it had, and the others get another.
            let is_searched = |path: &Path| !is_in_trash(path) || self.plan.command.has("--all");
            for (path, file) in files(among, TREE).filter(|(path, _)| is_searched(path)) {
                names.entry(file.inode).or_default().push(path.to_owned());
            }
            names.into_values().collect::<BTreeSet<_>>()
        };
        if together(&self.before) != together(now) {
            faults.push(Fault::new("other hard links", String::new()));
        }
        faults
    }

    fn action(&self) -> Option<&str> {
        self.plan.command.action()
    }

    /// Whether seekless said what became of a file.
    fn tells_of(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let plain = name.split_inclusive('_').next().unwrap_or_default();
        self.told.contains(plain)
    }

    fn moved_to(&self, path: &Path) -> PathBuf {
        let whole = self.directory.join(path);
        Path::new(MOVED).join(whole.strip_prefix("/").unwrap_or(&whole))
    }

    /// The path of a file before it was moved here. Directories above the trial's have an empty one.
    fn moved_from(&self, path: &Path) -> Option<PathBuf> {
        // It may have been found while a directory had another name, by which it cannot come back.
        let path = path.to_str()?.replace(&format!("{RENAMED}/"), "/");
        let whole = Path::new("/").join(Path::new(path.trim_end_matches(RENAMED)).strip_prefix(MOVED).ok()?);
        match whole.strip_prefix(self.directory) {
            Ok(path) => Some(path.to_owned()),
            Err(_) => self.directory.starts_with(&whole).then(PathBuf::new),
        }
    }
}

/// Names that seekless makes, for a moment or for a journal, and that no message names.
pub fn check_left(now: &FileTree, told: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, entry) in now.iter().filter(|(path, _)| is_temporary(path)) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // A journal never stays.
        if !told.contains(&*name) || name.contains("journal") {
            faults.push(Fault::new("left behind", format!("{}: {entry:?}", path.display())));
        }
    }
    faults
}

fn is_temporary(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().contains(".seekless-"))
}

/// What a path led to before, and now.
struct Pair<'a> {
    path: &'a Path,
    was: &'a TreeEntry,
    here: Option<&'a TreeEntry>,
}

impl Pair<'_> {
    fn fault(&self, kind: &'static str) -> Fault {
        let Self { path, was, here } = self;
        Fault::new(kind, format!("{}: {was:?}, now {here:?}", path.display()))
    }

    /// Whether it is the same directory or link, wherever that leads.
    fn is_same_entry(&self) -> bool {
        self.here.is_some_and(|here| here.own() == self.was.own())
    }

    fn differences(&self) -> Vec<&'static str> {
        let (TreeEntry::File(was), Some(TreeEntry::File(here))) = (self.was, self.here) else {
            let is_same = self.here == Some(self.was);
            return if is_same { Vec::new() } else { vec!["entry"] };
        };
        let parts = [
            ("inode", was.inode == here.inode),
            ("bytes", was.bytes == here.bytes),
            ("time", was.modified == here.modified),
            ("properties", was.properties == here.properties),
        ];
        parts
            .iter()
            .filter(|(_, is_same)| !is_same)
            .map(|(part, _)| *part)
            .collect()
    }
}

#[cfg(test)]
mod tests;
