//! What must hold after a trial, whatever disturbed it: every byte is old, new, or another writer's; nothing is lost, nothing is
//! wider, nothing is left.
//!
//! Not here: reading the files (`tree`), and when to ask (`trial`).

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::{fmt, fs, ptr};

use super::draw::{TrialPlan, TrialSubject};
use super::others::{Act, Interference};
use super::tree::{COPY, Content, DATA, FileAttributes, FileTree, MOVED, TREE, TreeEntry, YARD, files, patched};

/// What is promised of files that a command changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Each byte is the old or the new one.
    EachByte,
    /// All of them are old, or all are new.
    OldOrNew,
    New,
}

/// What a trial is judged by.
pub struct Evidence<'a> {
    pub plan: &'a TrialPlan,
    /// The directory of the trial.
    directory: &'a Path,
    before: FileTree,
    /// The files when the command has done all its work.
    wanted: FileTree,
    acts: Vec<Act>,
    /// The bytes of others' marks, and where they are.
    marked: HashSet<(usize, u8)>,
    /// What all runs of seekless said.
    pub told: String,
}

/// What a file may come from.
struct Origin {
    /// Its name, if it was there before or is made by the command.
    path: PathBuf,
    old: Vec<u8>,
    new: Vec<u8>,
    attributes: Vec<FileAttributes>,
    /// It must be found.
    must_be: bool,
}

/// What `update --safety replace` says where others saved, or changed, the file that it replaced: what they did is in one of two.
pub const KEPT_BOTH: &str = "compare the ";
/// What a failed update says of bytes behind the end, because what others wrote there is not told from its own.
const LONGER: &str = "but the file stays ";
/// What `cp` says where it could not set some.
const NOT_ALL: &str = "cannot preserve all attributes";
/// A direct write that was cut off may have padded the file.
const PADDING_BYTES: usize = 4095;

impl<'a> Evidence<'a> {
    pub fn new(plan: &'a TrialPlan, directory: &'a Path, before: FileTree) -> Self {
        Self {
            plan,
            directory,
            wanted: plan.wanted(&before),
            before,
            acts: Vec::new(),
            marked: HashSet::new(),
            told: String::new(),
        }
    }

    /// Takes note of what others did.
    pub fn others_did(&mut self, acts: Vec<Act>) {
        let marks = acts.iter().filter(|act| act.kind != Interference::Save);
        self.marked = marks
            .flat_map(|act| (act.offset..).zip(act.wrote.iter().copied()))
            .collect();
        self.acts = acts;
    }

    /// What must hold whatever happened.
    pub fn check(&self, now: &FileTree, promise: Promise) -> Vec<String> {
        let is_copied_beside = self.plan.subject == TrialSubject::Cp && !self.acts.is_empty();
        // Of a file that took the name of another, it is not known whether it was changed.
        let is_unsure = is_copied_beside || self.acts.iter().any(Act::gives_name);
        let promise = if is_unsure { Promise::EachByte } else { promise };
        let (origins, mut faults, mut found) = (self.origins(), Vec::new(), Vec::new());
        for (path, entry) in now {
            let read = || fs::read(self.directory.join(path)).unwrap_or_default();
            let bytes = entry.bytes().map_or_else(read, <[u8]>::to_vec);
            let is_from = |origin: &&Origin| self.is_from(origin, &bytes, promise);
            let from: Vec<_> = origins.iter().filter(is_from).collect();
            let fault = self.check_entry(path, entry, &from);
            faults.extend(fault.map(|kind| self.fault(kind, path, now)));
            if entry.bytes().is_some() && (path.starts_with(TREE) || path.starts_with(YARD)) {
                found.extend(from);
            }
        }
        let is_found = |origin: &&Origin| found.iter().any(|found| ptr::eq(*found, *origin));
        let lost = origins.iter().filter(|origin| origin.must_be && !is_found(origin));
        faults.extend(lost.map(|origin| format!("lost content: {}", brief(&origin.old, 300))));
        let has_mark = |act: &&Act| act.kind != Interference::Save && !act.wrote.is_empty();
        let marks = self.done().filter(has_mark);
        let lost = marks.filter(|act| !files(now, "").any(|(_, bytes)| self.has_mark(act, bytes)));
        faults.extend(lost.map(|act| format!("lost write: {}", brief(act, 300))));
        let gone = self.before.iter().filter(|(path, _)| !now.contains_key(*path));
        let lost = gone.filter(|(path, was)| !self.may_be_gone(path, was));
        faults.extend(lost.map(|(path, _)| self.fault("lost name", path, now)));
        faults
    }

    /// What others did.
    pub fn done(&self) -> impl Iterator<Item = &Act> {
        self.acts.iter().filter(|act| act.answer.is_ok())
    }

    fn fault(&self, kind: &'static str, path: &Path, now: &FileTree) -> String {
        let [was, here] = [&self.before, now].map(|tree| brief(&tree.get(path), 300));
        format!("{kind}: {}: {was}, now {here}", brief(&path, 300))
    }

    /// The files of before with what the command makes of them, and those that others saved.
    fn origins(&self) -> Vec<Origin> {
        let known = files(&self.wanted, "").map(|(path, new)| {
            let entries = self.before.get(path).into_iter().chain(self.wanted.get(path));
            Origin {
                path: path.to_owned(),
                old: self.before.get(path).and_then(TreeEntry::bytes).unwrap_or(new).to_vec(),
                new: new.to_vec(),
                attributes: entries.map(|entry| entry.attributes.clone()).collect(),
                must_be: path.starts_with(TREE),
            }
        });
        let acts = self.acts.iter().filter(|act| act.kind == Interference::Save);
        let saved = acts.map(|act| Origin {
            path: PathBuf::new(),
            old: act.wrote.clone(),
            new: patched(&act.wrote, &self.plan.patches),
            attributes: vec![FileAttributes::default()],
            must_be: act.answer.is_ok(),
        });
        known.chain(saved).collect()
    }

    /// Whether each byte is one that is promised, or another writer's.
    fn is_from(&self, Origin { old, new, .. }: &Origin, bytes: &[u8], promise: Promise) -> bool {
        match promise {
            _ if *bytes == **new || promise != Promise::New && *bytes == **old => true,
            Promise::New => self.is_mixed([new, new], bytes, 0),
            Promise::OldOrNew => self.is_mixed([old, old], bytes, 0) || self.is_mixed([new, new], bytes, 0),
            Promise::EachByte => self.is_mixed([old, new], bytes, PADDING_BYTES),
        }
    }

    /// Whether each byte is of one of two versions, or another writer's. Only an update leaves zeros behind the end.
    fn is_mixed(&self, versions: [&[u8]; 2], bytes: &[u8], padding_bytes: usize) -> bool {
        let [one, other] = versions.map(<[u8]>::len);
        let end = LazyCell::new(|| {
            let marks = self.acts.iter().filter(|act| self.has_mark(act, bytes));
            let ends = marks.map(|act| act.offset + act.wrote.len());
            ends.max().unwrap_or(0).max(one.max(other) + padding_bytes)
        });
        let is_before_end = |at: usize| at < *end || self.told.contains(LONGER);
        let is_padding =
            |at: usize| self.plan.subject == TrialSubject::Update && at >= one.min(other) && is_before_end(at);
        let is_right = |(at, &byte): (usize, &u8)| {
            versions.iter().any(|version| version.get(at) == Some(&byte))
                || byte == 0 && is_padding(at)
                || self.marked.contains(&(at, byte))
        };
        bytes.len() >= one.min(other) && bytes.iter().enumerate().all(is_right)
    }

    /// Whether what others wrote is where they wrote it. Where the command writes the same bytes, either may be the last.
    fn has_mark(&self, act: &Act, bytes: &[u8]) -> bool {
        let is_patched = |at: usize, byte: u8| {
            let mut patches = self.plan.patches.iter();
            patches.any(|patch| at >= patch.offset && patch.bytes.get(at - patch.offset) == Some(&byte))
        };
        let range = act.offset..act.offset + act.wrote.len();
        let is_right = |(at, byte): (usize, &u8)| act.may_be(at, *byte) || is_patched(at, *byte);
        let found = bytes.get(range.clone());
        found.is_some_and(|found| range.zip(found).all(is_right))
    }

    /// Checks what a path leads to. The bytes there may come from these origins.
    fn check_entry(&self, path: &Path, entry: &TreeEntry, origins: &[&Origin]) -> Option<&'static str> {
        let known = [self.before.get(path), self.wanted.get(path)];
        let is_known = known.iter().any(Option::is_some);
        let holds_more = [YARD, MOVED, DATA].iter().any(|directory| path.starts_with(directory));
        let is_file = known.iter().flatten().any(|known| known.bytes().is_some());
        let is_linked = is_file && self.plan.action() == Some("symlink");
        // Others gave this name, or that of which it is a copy, to another file.
        let inside = path.strip_prefix(COPY);
        let source = inside.map_or(path.to_owned(), |inside| Path::new(TREE).join(inside));
        let is_another = self.acts.iter().any(|act| act.gives_name() && act.path == source);
        let is_own = |origin: &&&Origin| !is_file || is_another || origin.path == path;
        let own: Vec<_> = origins.iter().filter(is_own).copied().collect();
        match &entry.content {
            _ if is_temporary(path) => None,
            _ if !is_known && !holds_more => Some("unknown name"),
            // What was not synced is lost, and copied again.
            Content::File(_) if self.plan.loses_power() && path.starts_with(COPY) => None,
            Content::File(_) if own.is_empty() => Some("foreign bytes"),
            // A file that is linked has the rights of another.
            Content::File(_) if self.plan.action() == Some("hardlink") => self.is_wider(path, entry, origins),
            Content::File(_) => self.is_wider(path, entry, &own),
            // Others may have moved or replaced the file that it leads to.
            Content::Symlink(_) if is_linked => (own.is_empty() && self.acts.is_empty()).then_some("wrong bytes"),
            _ if !is_known || known.iter().flatten().any(|known| known.content == entry.content) => None,
            _ => Some("changed name"),
        }
    }

    /// Whether a file gives more rights than all that it may come from, or has another owner or other extended attributes.
    fn is_wider(&self, path: &Path, entry: &TreeEntry, origins: &[&Origin]) -> Option<&'static str> {
        let kinds = [Interference::Save, Interference::Copy, Interference::Mode];
        let set = self.done().filter(|act| kinds.contains(&act.kind));
        let (set, found): (Vec<_>, _) = (set.map(|act| act.mode).collect(), &entry.attributes);
        if let (Some(last), true) = (set.last(), self.plan.target.as_deref() == Some(path)) {
            return (found.mode & !last != 0 && !self.told.contains(KEPT_BOTH)).then_some("wider");
        }
        let by_others = set.iter().fold(0, |all, mode| all | mode);
        let covers = |allowed: &FileAttributes| {
            let is_owner = found.owner == allowed.owner || by_others != 0 && found.owner == 0;
            let is_told = self.told.contains(NOT_ALL);
            let has_same = found.extended == allowed.extended || by_others != 0 || is_told;
            found.mode & !(allowed.mode | by_others) == 0 && is_owner && has_same
        };
        let is_covered = origins.iter().any(|origin| origin.attributes.iter().any(covers));
        (!is_covered).then_some("wider")
    }

    /// Whether a name may be gone: it was removed, or seekless says what became of it while others were there.
    fn may_be_gone(&self, path: &Path, was: &TreeEntry) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let plain = name.split_inclusive('_').next().unwrap_or_default();
        let is_told = self.plan.action().is_some() && !self.acts.is_empty() && self.told.contains(plain);
        let is_removed = matches!(self.plan.action(), Some("remove" | "move" | "trash"));
        path.starts_with(TREE)
            && match was.content {
                Content::File(_) => is_removed || is_told,
                Content::Directory => self.plan.has("--prune") && !self.plan.has(&path.to_string_lossy()),
                Content::Symlink(_) => false,
            }
    }

    /// Names that seekless makes, for a moment or for a journal, and that no message names.
    pub fn check_left(&self, now: &FileTree) -> Vec<String> {
        let is_left = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // A journal never stays.
            is_temporary(path) && (!self.told.contains(&*name) || name.contains("journal"))
        };
        let left = now.keys().filter(is_left);
        left.map(|path| self.fault("left behind", path, now)).collect()
    }

    /// What must hold when the command has done all its work, and nobody else changed what it made.
    pub fn check_done(&self, now: &FileTree, is_smooth: bool) -> Vec<String> {
        let keeps_time = is_smooth && self.plan.patches.is_empty() && !self.plan.loses_power();
        if self.plan.subject == TrialSubject::Cp {
            let mut wanted = self.plan.wanted(now);
            wanted.retain(|path, _| path.starts_with(COPY));
            return self.differences("not copied", &wanted, now, true);
        }
        let mut wanted = self.wanted.clone();
        let target = self.plan.target.as_ref().filter(|_| !keeps_time);
        let first = target.map(|target| &self.before[target].first);
        for (path, entry) in wanted.iter_mut().filter(|(_, entry)| Some(&entry.first) == first) {
            entry.modified = now.get(path).map_or(entry.modified, |here| here.modified);
        }
        self.differences("wrong result", &wanted, now, true)
    }

    /// What must hold when all was undone, and nobody else was there. A search that met an error did not find all names of a file.
    pub fn check_restored(&self, now: &FileTree, found_all_names: bool) -> Vec<String> {
        let mut faults = self.differences("not restored", &self.before, now, found_all_names);
        faults.extend(files(now, MOVED).map(|(path, _)| self.fault("left by undo", path, now)));
        faults
    }

    /// Paths that do not lead to what is wanted. Times of directories are kept by copies only.
    fn differences(&self, kind: &'static str, wanted: &FileTree, now: &FileTree, by_names: bool) -> Vec<String> {
        let is_wrong = |(path, entry): &(&PathBuf, &TreeEntry)| {
            let has_names = |here: &TreeEntry| !by_names || entry.first == here.first;
            let is_same = now
                .get(*path)
                .is_some_and(|here| is_alike(entry, here) && has_names(here));
            !is_same && (entry.content != Content::Directory || path.starts_with(COPY))
        };
        let wrong = wanted.iter().filter(is_wrong);
        wrong.map(|(path, _)| self.fault(kind, path, now)).collect()
    }

    /// What must hold when duplicates were acted on, by one run or two, and nobody else was there: each name leads to what it did, or
    /// what was asked for was done with its file. All of it was done if the last run says so.
    pub fn check_acted(&self, now: &FileTree, is_done: bool) -> Vec<String> {
        let moved_to = |directory: &str, was: &TreeEntry| {
            let mut moved = now.iter().filter(|(path, _)| path.starts_with(directory));
            moved.any(|(_, entry)| is_alike(was, entry))
        };
        let is_wrong = |(path, _): &(&Path, &[u8])| {
            let was = &self.before[*path];
            let is_done = match (self.plan.action(), now.get(*path)) {
                (_, Some(entry)) if is_alike(was, entry) => true,
                (Some("hardlink"), Some(entry)) => {
                    entry.bytes() == was.bytes() && self.before.values().any(|kept| is_alike(kept, entry))
                }
                (Some("symlink"), Some(entry)) => matches!(entry.content, Content::Symlink(_)),
                (Some("remove"), None) => true,
                (Some("move"), None) => moved_to(MOVED, was),
                (Some("trash"), None) => moved_to(DATA, was),
                _ => false,
            };
            !is_done
        };
        let wrong = files(&self.before, TREE).filter(is_wrong);
        let mut faults: Vec<_> = wrong.map(|(path, _)| self.fault("wrong result", path, now)).collect();
        let may_be_several = !is_done || self.plan.action() == Some("reflink");
        let mut seen = BTreeSet::new();
        for (path, bytes) in files(now, TREE).filter(|(path, _)| now[*path].first == *path) {
            if !seen.insert(bytes) && !bytes.is_empty() && !may_be_several {
                faults.push(self.fault("success, but not done", path, now));
            }
        }
        faults
    }
}

/// Describes something by as much as can be read.
pub fn brief(what: &impl fmt::Debug, most: usize) -> String {
    format!("{what:?}").chars().take(most).collect()
}

/// Whether two entries are alike but for the names that lead to them.
fn is_alike(one: &TreeEntry, other: &TreeEntry) -> bool {
    (&one.content, &one.attributes, one.modified) == (&other.content, &other.attributes, other.modified)
}

/// Whether seekless made it for a moment, or for a journal.
fn is_temporary(path: &Path) -> bool {
    path.iter().any(|name| name.to_string_lossy().contains(".seekless-"))
}

#[cfg(test)]
mod tests;
