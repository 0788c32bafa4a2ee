//! What must hold after a trial, whatever disturbed it: for each path its bytes, mode, owner, time, attributes and links. No I/O.
//!
//! Not here: reading the files (`files`), and where their bytes come from (`contents`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::contents::{TracedContents, UpdatesPresent, is_in_mark};
use super::disturb::{InjectedFault, Injection};
use super::disturber::{Act, Interference};
use super::files::{FilesByPath, FoundEntry, FoundFile, Properties, file, files};
use super::job::{DupesCommand, FileCommand, MOVED, Promise, TRASH, TrialCommand};
use super::plan::TrialPlan;
use super::site::Fault;
use super::world::{DECOYS, RENAMED, YARD};

/// What a trial is judged by.
pub struct TrialModel<'a> {
    pub plan: &'a TrialPlan,
    pub before: &'a FilesByPath,
    pub acts: &'a [Act],
    /// What all runs of seekless said.
    pub told: &'a str,
    /// The directory of the trial.
    pub directory: &'a Path,
    /// The run ended with success.
    pub is_done: bool,
    /// Which of the updates the first content has.
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

/// What of a file may differ from what it was.
#[derive(Clone, Copy, Default)]
struct MayDiffer {
    inode: bool,
    bytes: bool,
    modified: bool,
}

impl TrialModel<'_> {
    /// What must hold whatever happened: no content is lost, none is mixed with another, and no file got foreign bytes.
    pub fn check(&self, now: &FilesByPath) -> Vec<Fault> {
        let mut faults = self.check_names(now);
        let contents = TracedContents::of(&self.plan.tree, self.acts, self.updated, self.slack);
        let mut places: HashMap<usize, Vec<&Path>> = HashMap::new();
        let mut marks = HashSet::new();
        for (path, file) in files(now).filter(|(path, _)| !path.starts_with(DECOYS)) {
            let Some(derived) = contents.derive(&file.bytes) else {
                let mut entries = (0..self.plan.tree.entries.len()).filter(|&number| self.path(number) == path);
                let content = entries.find_map(|number| self.plan.tree.content(number)).unwrap_or(0);
                let at = contents.first_wrong(content, &file.bytes).unwrap_or_default();
                let is_lost_mark = self.may_lose_writes() && self.acts.iter().any(|act| is_in_mark(act, at));
                if is_lost_mark {
                    places.entry(content).or_default().push(path);
                }
                let kind = if is_lost_mark { KNOWN_LIMIT } else { "foreign bytes" };
                faults.push(Fault::new(kind, format!("byte {at} of {}: {file:?}", path.display())));
                continue;
            };
            for content in derived.contents {
                places.entry(content).or_default().push(path);
            }
            marks.extend(derived.marks);
        }
        self.check_base(&places, &mut faults);
        self.check_written(&contents, &places, &marks, &mut faults);
        self.check_paths(&contents, now, &mut faults);
        if self.plan.job.file().is_some() && !self.told.contains(KEPT_BOTH) {
            faults.extend(self.check_properties(now));
        }
        for (path, found) in self.before.iter().filter(|(path, _)| path.starts_with(DECOYS)) {
            if now.get(path) != Some(found) {
                faults.push(Fault::new("other directory", format!("{}", path.display())));
            }
        }
        faults
    }

    /// Each content that was there before has a name still; one that had names outside of trash has one of these.
    fn check_base(&self, places: &HashMap<usize, Vec<&Path>>, faults: &mut Vec<Fault>) {
        for number in 0..self.plan.tree.contents.len() {
            let found = places.get(&number).map_or(&[][..], Vec::as_slice);
            let counts = |path: &Path| !is_in_trash(path) && !path.starts_with(MOVED);
            // What others took away may have been the one that was kept.
            let is_taken = found.iter().any(|path| path.starts_with(YARD));
            if found.is_empty() {
                faults.push(Fault::new("lost content", self.describe(number)));
            } else if self.names(number).any(counts)
                && !is_taken
                && !self.is_trash_renamed()
                && !found.iter().any(|path| counts(path))
            {
                faults.push(Fault::new("last copy in the trash", self.describe(number)));
            }
        }
    }

    /// What others wrote is there.
    fn check_written(
        &self,
        contents: &TracedContents<'_>,
        places: &HashMap<usize, Vec<&Path>>,
        marks: &HashSet<usize>,
        faults: &mut Vec<Fault>,
    ) {
        for (number, act) in self.acts.iter().enumerate() {
            if act.wrote.is_empty() || act.answer.is_err() {
                continue;
            }
            let is_there = match contents.numbers.get(&number) {
                Some(content) => places.contains_key(content),
                None => marks.contains(&number),
            };
            if !is_there {
                // What they save as new files does not go with the file.
                let may_be_lost = act.kind != Interference::Save && self.may_lose_writes();
                let path = &self.plan.tree.entries[act.number].path;
                let kind = if may_be_lost { KNOWN_LIMIT } else { "lost write" };
                faults.push(Fault::new(kind, format!("{path}: {act:?}")));
            }
        }
    }

    /// A process that was stopped for longer than its lease lasts removes, or writes to, a file that was opened since; and --busy
    /// asks for no lease. What others write to such a file is lost.
    fn may_lose_writes(&self) -> bool {
        let replaces = self.plan.job.label() == "update replace";
        self.plan.disturbance.outlasts_lease() && !replaces || self.plan.job.is_busy()
    }

    /// Names that others neither gave nor took lead to the bytes that they had, or to none where that was asked for.
    fn check_paths(&self, contents: &TracedContents<'_>, now: &FilesByPath, faults: &mut Vec<Fault>) {
        for (number, entry) in self.plan.tree.entries.iter().enumerate() {
            let path = Path::new(&entry.path);
            let Some(content) = self.plan.tree.content(number) else {
                if now.get(path).map(FoundEntry::own) != self.before.get(path).map(FoundEntry::own) {
                    faults.push(Fault::new("changed link", entry.path.clone()));
                }
                continue;
            };
            let gives_name = |(_, act): &(usize, &Act)| act.gives_name() && act.number == number;
            let content = match self.acts.iter().enumerate().rfind(gives_name) {
                None => content,
                // Of several disturbers, it is not known which was the last.
                Some(_) if self.action().is_some() || self.told.contains(KEPT_BOTH) => continue,
                Some((save, _)) => contents.numbers[&save],
            };
            let (is_link, found) = match now.get(path) {
                Some(FoundEntry::Symlink { leads_to, .. }) => {
                    (true, leads_to.as_ref().and_then(|path| file(now, path)))
                }
                _ => (false, file(now, path)),
            };
            // Others may have taken away or replaced the file that a link leads to.
            let is_cut = |act: &Act| act.gives_name() && self.content_of(act) == Some(content);
            // So may the directory have been, by another name that it had when the link was made.
            if is_link && (self.acts.iter().any(Act::moves_directory) || self.acts.iter().any(is_cut)) {
                continue;
            }
            let may_be_gone = matches!(self.action(), Some("remove" | "move"));
            match found {
                Some(file) => {
                    let derived = contents.derive(&file.bytes);
                    if derived.is_some_and(|derived| !derived.contents.contains(&content)) {
                        faults.push(Fault::new("wrong bytes", format!("{}: {file:?}", entry.path)));
                    }
                }
                None if may_be_gone || self.action().is_some() && self.tells_of(&entry.path) => {}
                None => faults.push(Fault::new("lost name", entry.path.clone())),
            }
        }
    }

    /// No name is new but those of files that were moved, and none is left that is not told of.
    fn check_names(&self, now: &FilesByPath) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (path, found) in now {
            if path.starts_with(YARD) || path.starts_with(DECOYS) || self.before.contains_key(path) {
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if is_temporary(&name) {
                if !says_kept(self.told, &name) {
                    faults.push(Fault::new("left behind", format!("{}: {found:?}", path.display())));
                }
            } else if let Some(from) = self.moved_from(path) {
                let is_from =
                    |known: &PathBuf| known == &from || *found == FoundEntry::Directory && known.starts_with(&from);
                if self.action() != Some("move") || !self.before.keys().any(is_from) {
                    faults.push(Fault::new("unknown name", path.display().to_string()));
                }
            } else if !self.is_given(path) {
                faults.push(Fault::new("unknown name", path.display().to_string()));
            }
        }
        faults
    }

    /// Owner, mode and extended attributes of the file that a command is run on are what they were, or what others set last.
    fn check_properties(&self, now: &FilesByPath) -> Option<Fault> {
        // A save parts the names of a file.
        let has_parted = self.names(0).count() > 1 && self.acts.iter().any(Act::gives_name);
        let (mut wanted, mut may_lose) = (file(self.before, self.path(0))?.properties.clone(), 0);
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
        let found = &file(now, self.path(0))?.properties;
        let is_mode = found.mode & !wanted.mode == 0 && (found.mode ^ wanted.mode) & !may_lose == 0;
        let is_it = is_mode && found.owner == wanted.owner && found.attributes == wanted.attributes;
        (!is_it && !has_parted).then(|| Fault::new("wrong properties", format!("{found:?}, not {wanted:?}")))
    }

    /// What must hold where nobody else did anything, and the run, or a second one, ended by itself.
    pub fn check_acted(&self, now: &FilesByPath) -> Vec<Fault> {
        match &self.plan.job {
            TrialCommand::File(command) => self.check_file_command(command, now),
            TrialCommand::Dupes(command) => self.check_dupes(command, now),
        }
    }

    /// A command on a file changes no other one, and of that one only what it is for.
    fn check_file_command(&self, command: &FileCommand, now: &FilesByPath) -> Vec<Fault> {
        let target = file(self.before, self.path(0)).map(|file| file.inode);
        let is_updated = command.promise != Promise::Unchanged;
        let may = MayDiffer {
            inode: command.label == "update replace",
            bytes: is_updated,
            modified: is_updated || !self.is_done,
        };
        let may_differ = |was: &FoundEntry| match was {
            FoundEntry::File(file) if Some(file.inode) == target => may,
            _ => MayDiffer::default(),
        };
        self.check_same("changed", now, may_differ)
    }

    fn check_same(
        &self,
        kind: &'static str,
        now: &FilesByPath,
        may_differ: impl Fn(&FoundEntry) -> MayDiffer,
    ) -> Vec<Fault> {
        let is_changed = |(path, was): &(&PathBuf, &FoundEntry)| !is_same(was, now.get(*path), may_differ(was));
        tree(self.before)
            .filter(is_changed)
            .map(|(path, was)| Fault::new(kind, format!("{}: {was:?}, now {:?}", path.display(), now.get(path))))
            .collect()
    }

    fn check_dupes(&self, command: &DupesCommand, now: &FilesByPath) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (path, was) in tree(self.before) {
            let here = now.get(path);
            let fault = |kind| Fault::new(kind, format!("{}: {was:?}, now {here:?}", path.display()));
            let FoundEntry::File(file_before) = was else {
                if here.map(FoundEntry::own) != Some(was.own()) {
                    faults.push(fault("changed link or directory"));
                }
                continue;
            };
            let is_same = |found: &FoundFile| found == file_before;
            match (command.action, here) {
                (_, Some(FoundEntry::File(found))) if found.inode == file_before.inode => {
                    if !is_same(found) {
                        faults.push(fault("changed file"));
                    }
                    continue;
                }
                ("hardlink", Some(FoundEntry::File(found))) => {
                    let kept = files(self.before).find(|(_, known)| known.inode == found.inode);
                    if found.bytes != file_before.bytes || kept.is_none_or(|(_, kept)| kept != found) {
                        faults.push(fault("wrong link"));
                    }
                }
                ("symlink", Some(FoundEntry::Symlink { target, leads_to })) => {
                    let kept = leads_to.as_ref().and_then(|path| file(now, path));
                    let is_right = kept.is_some_and(|kept| kept.bytes == file_before.bytes)
                        && target.is_absolute() == command.options.contains("--absolute");
                    if !is_right {
                        faults.push(fault("wrong link"));
                    }
                }
                ("remove", None) => {}
                ("move", None) => {
                    if !file(now, &self.moved_to(path)).is_some_and(is_same) {
                        faults.push(fault("not moved"));
                    }
                }
                _ => faults.push(fault("wrong action")),
            }
            if command.keeps(&path.to_string_lossy()) {
                faults.push(fault("acted against a rule"));
            }
        }
        for (path, _) in files(now).filter(|(path, _)| path.starts_with(MOVED)) {
            let from = self.moved_from(path);
            if from.is_none_or(|from| now.contains_key(&from)) {
                faults.push(Fault::new("moved, and still there", path.display().to_string()));
            }
        }
        faults.extend(self.check_least(command, now));
        faults
    }

    /// As many files of each content stay as were asked for, or as there were; those in the trash do not count.
    fn check_least(&self, command: &DupesCommand, now: &FilesByPath) -> Vec<Fault> {
        let count = |among: &FilesByPath, content: &[u8]| {
            let inodes = files(among)
                .filter(|(path, file)| path.starts_with("tree") && !is_in_trash(path) && file.bytes == content);
            inodes.map(|(_, file)| file.inode).collect::<BTreeSet<_>>().len()
        };
        let contents = self.plan.tree.contents.iter().enumerate();
        let is_wrong = |content: &[u8]| count(now, content) < count(self.before, content).min(command.least());
        contents
            .filter(|(_, content)| is_wrong(&content.bytes))
            .map(|(number, _)| Fault::new("too few stay", self.describe(number)))
            .collect()
    }

    /// What must hold where nobody else did anything, and all was undone.
    pub fn check_restored(&self, command: &DupesCommand, now: &FilesByPath) -> Vec<Fault> {
        // A copy is another file.
        let may = MayDiffer {
            inode: true,
            ..MayDiffer::default()
        };
        let mut faults = self.check_same(NOT_RESTORED, now, |_| may);
        for path in now.keys().filter(|path| !self.before.contains_key(*path)) {
            faults.push(Fault::new("left by undo", path.display().to_string()));
        }
        // A search that met an error did not find all names of a file.
        let is_error = |one: &Injection| matches!(one.what, InjectedFault::Error(_) | InjectedFault::Errors(_));
        if !faults.is_empty() || self.plan.disturbance.injections.iter().any(is_error) {
            return faults;
        }
        let together = |among: &FilesByPath| {
            let mut names: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
            // A name that was not searched keeps the file that it had, and the others get another.
            let is_searched = |path: &Path| !is_in_trash(path) || command.search.contains("--all");
            for (path, file) in files(among).filter(|(path, _)| path.starts_with("tree") && is_searched(path)) {
                names.entry(file.inode).or_default().push(path.to_owned());
            }
            names.into_values().collect::<BTreeSet<_>>()
        };
        if together(self.before) != together(now) {
            faults.push(Fault::new("other hard links", String::new()));
        }
        faults
    }

    fn action(&self) -> Option<&str> {
        self.plan.job.dupes().map(|command| command.action)
    }

    fn path(&self, number: usize) -> &Path {
        Path::new(&self.plan.tree.entries[number].path)
    }

    fn describe(&self, content: usize) -> String {
        let names: Vec<_> = self.names(content).map(|path| path.display().to_string()).collect();
        format!(
            "content {content}, {} B, of {}",
            self.plan.tree.contents[content].bytes.len(),
            names.join(", ")
        )
    }

    fn names(&self, content: usize) -> impl Iterator<Item = &Path> {
        let entries = self.plan.tree.entries.iter().enumerate();
        entries
            .filter(move |(number, _)| self.plan.tree.content(*number) == Some(content))
            .map(|(_, entry)| Path::new(entry.path.as_str()))
    }

    /// The content that the name had which others came to.
    fn content_of(&self, act: &Act) -> Option<usize> {
        let is_file = !act.moves_directory();
        is_file.then(|| self.plan.tree.content(act.number)).flatten()
    }

    /// Whether others gave the trash another name for a moment, by which it is no trash.
    fn is_trash_renamed(&self) -> bool {
        let is_trash =
            |act: &Act| (self.plan.tree.directories.get(act.number)).is_some_and(|path| is_in_trash(Path::new(path)));
        self.acts.iter().any(|act| act.moves_directory() && is_trash(act))
    }

    /// A name that others gave, after it was taken or removed.
    fn is_given(&self, path: &Path) -> bool {
        let entries = self.plan.tree.entries.iter();
        entries.into_iter().any(|entry| Path::new(&entry.path) == path)
    }

    /// Whether seekless said what became of a file.
    fn tells_of(&self, path: &str) -> bool {
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        let plain = name.split_inclusive('_').next().unwrap_or(name);
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

/// Whether a path leads to what it did, but for what may differ.
fn is_same(was: &FoundEntry, here: Option<&FoundEntry>, may: MayDiffer) -> bool {
    let (FoundEntry::File(was), Some(FoundEntry::File(here))) = (was, here) else {
        return here == Some(was);
    };
    (may.inode || was.inode == here.inode)
        && (may.bytes || was.bytes == here.bytes)
        && (may.modified || was.modified == here.modified)
        && was.properties == here.properties
}

fn tree(among: &FilesByPath) -> impl Iterator<Item = (&PathBuf, &FoundEntry)> {
    among.iter().filter(|(path, _)| path.starts_with("tree"))
}

/// Whether seekless said that a file stays under a name of its own. A journal never stays.
pub fn says_kept(told: &str, name: &str) -> bool {
    told.contains(name) && !name.contains("journal")
}

/// Whether seekless makes such names, for a moment or for a journal.
fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.contains("seekless")
}

fn is_in_trash(path: &Path) -> bool {
    path.iter().any(|name| name == TRASH)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::filesystems::TestFileSystem;
    use crate::torture::disturb::{Disturbance, Interruption};
    use crate::torture::job::Route;
    use crate::torture::plan::{Content, FileTree, Given, Made, Patch, Recovery, TreeEntry};

    const NAMES: [&str; 3] = ["tree/r0/f0_", "tree/r0/f1_", "tree/r1/.Trash-0/f2_"];
    const CONTENT: &[u8] = b"forty bytes of which half may be marked.";
    const MARK: &[u8] = b"\0id 000000000007";

    fn plan(job: TrialCommand, names: &[&str], content: Content) -> TrialPlan {
        let given = Given {
            mode: 0o600,
            owner: 0,
            modified: None,
            extended: None,
        };
        let made = Made::File { content: 0, given };
        let entry = |path: &&str| TreeEntry {
            path: (*path).to_owned(),
            made: made.clone(),
        };
        TrialPlan {
            file_system: TestFileSystem::Ext4,
            tree: FileTree {
                contents: vec![content],
                directories: vec!["tree/r0".to_owned(), "tree/r1/.Trash-0".to_owned()],
                entries: names.iter().map(entry).collect(),
                is_sparse: false,
            },
            job,
            disturbance: Disturbance {
                injections: Vec::new(),
                timed: None,
                free_bytes: None,
            },
            disturbers: Vec::new(),
            disturbers_stay: false,
            early: None,
            between: None,
            recovery: Recovery::Again,
            recovery_injection: None,
            power: None,
        }
    }

    /// Three files with one content, the last in the trash.
    fn dupes(action: &'static str) -> TrialPlan {
        let command = DupesCommand {
            action,
            rules: vec!["at-least:2".to_owned()],
            route: Route::AtOnce,
            search: String::new(),
            options: String::new(),
        };
        plan(TrialCommand::Dupes(command), &NAMES, Content::of(CONTENT.to_vec()))
    }

    fn found(inode: u64, bytes: &[u8]) -> FoundEntry {
        FoundEntry::File(FoundFile {
            inode,
            bytes: bytes.to_vec(),
            properties: Properties::default(),
            modified: (0, 0),
        })
    }

    fn all<const N: usize>(files: [(&str, FoundEntry); N]) -> FilesByPath {
        files.map(|(path, found)| (PathBuf::from(path), found)).into()
    }

    fn before() -> FilesByPath {
        let number = |path: &&str| NAMES.iter().position(|name| name == path).unwrap_or(0) as u64;
        all(NAMES.map(|path| (path, found(number(&path), CONTENT))))
    }

    fn act(kind: Interference, number: usize, offset: usize, wrote: &[u8]) -> Act {
        Act {
            kind,
            number,
            wrote: wrote.to_vec(),
            offset,
            set: 0,
            begun: 1,
            ended: 2,
            answer: Ok(()),
        }
    }

    fn kinds(faults: Vec<Fault>) -> Vec<&'static str> {
        faults.into_iter().map(|fault| fault.kind).collect()
    }

    fn judge<T>(plan: &TrialPlan, acts: &[Act], judge: impl FnOnce(&TrialModel<'_>) -> T) -> T {
        judge(&TrialModel {
            plan,
            before: &before(),
            acts,
            told: "told of .seekless-dupes-1",
            directory: Path::new("/trial"),
            is_done: true,
            updated: UpdatesPresent::No,
            slack: 0,
        })
    }

    /// The kinds of faults after files were removed, and others acted.
    fn removed(acts: &[Act], now: &FilesByPath) -> Vec<&'static str> {
        kinds(judge(&dupes("remove"), acts, |model| model.check(now)))
    }

    #[test]
    fn a_content_must_have_a_name_outside_of_the_trash_and_of_where_files_are_moved() {
        assert!(removed(&[], &all([(NAMES[1], found(1, CONTENT))])).is_empty());
        assert_eq!(removed(&[], &FilesByPath::new()), ["lost content"]);
        let in_trash = all([(NAMES[2], found(2, CONTENT))]);
        assert_eq!(removed(&[], &in_trash), ["last copy in the trash"]);
        let mixed = found(1, &[CONTENT, b"x"].concat());
        assert_eq!(
            removed(&[], &all([(NAMES[0], found(0, CONTENT)), (NAMES[1], mixed)])),
            ["foreign bytes"]
        );
    }

    #[test]
    fn a_trash_that_others_rename_for_a_moment_may_hold_the_last_copy() {
        let now = all([(NAMES[2], found(2, CONTENT))]);
        for (directory, faults) in [(0, 1), (1, 0)] {
            let acts = [act(Interference::RenameDirectory, directory, 0, b"")];
            assert_eq!(removed(&acts, &now).len(), faults);
        }
    }

    #[test]
    fn what_others_wrote_must_be_found_where_they_wrote_it() {
        let appended = [CONTENT, MARK].concat();
        let over = [MARK, &CONTENT[16..]].concat();
        for (offset, marked) in [(40, appended), (0, over)] {
            let now = all([(NAMES[0], found(0, &marked))]);
            assert!(removed(&[act(Interference::Append, 1, offset, MARK)], &now).is_empty());
            // Nobody wrote it, or elsewhere.
            assert_eq!(removed(&[], &now), ["foreign bytes", "lost content"]);
            let elsewhere = removed(&[act(Interference::Append, 1, offset + 1, MARK)], &now);
            assert_eq!(elsewhere, ["foreign bytes", "lost content", "lost write"]);
        }
        let now = all([(NAMES[0], found(0, CONTENT))]);
        assert_eq!(removed(&[act(Interference::Append, 1, 40, MARK)], &now), ["lost write"]);
        assert_eq!(removed(&[act(Interference::Save, 1, 0, MARK)], &now), ["lost write"]);
        let taken = all([("yard/1", found(0, CONTENT))]);
        assert!(removed(&[act(Interference::TakeAway, 0, 0, b"")], &taken).is_empty());
    }

    #[test]
    fn a_write_to_a_file_that_outlasts_the_lease_may_be_lost_and_a_save_may_not() {
        let mut plan = dupes("remove");
        plan.disturbance.timed = Some((Duration::ZERO, Interruption::Stop(Duration::ZERO)));
        let now = all([(NAMES[0], found(0, CONTENT))]);
        for (kind, fault) in [(Interference::Append, KNOWN_LIMIT), (Interference::Save, "lost write")] {
            let faults = judge(&plan, &[act(kind, 1, 40, MARK)], |model| model.check(&now));
            assert_eq!(kinds(faults), [fault]);
        }
    }

    #[test]
    fn names_that_seekless_made_are_told_of_or_left_behind() {
        let with = |name| {
            let mut now = before();
            now.insert(PathBuf::from(name), found(7, CONTENT));
            removed(&[], &now)
        };
        assert!(with("tree/r0/.seekless-dupes-1").is_empty());
        assert_eq!(with("tree/r0/.seekless-dupes-2"), ["left behind"]);
        assert_eq!(with("tree/r0/f9_"), ["unknown name"]);
    }

    #[test]
    fn undisturbed_acting_changes_what_was_asked_for_and_nothing_else() {
        let faults = |action, now: &FilesByPath| kinds(judge(&dupes(action), &[], |model| model.check_acted(now)));
        assert!(faults("remove", &before()).is_empty());
        let mut now = before();
        now.remove(Path::new(NAMES[2]));
        assert!(faults("remove", &now).is_empty());
        assert_eq!(faults("hardlink", &now), ["wrong action"]);
        assert_eq!(faults("move", &now), ["not moved"]);
        now.insert(PathBuf::from("to/trial/tree/r1/.Trash-0/f2_"), found(2, CONTENT));
        assert!(faults("move", &now).is_empty());
        let mut now = before();
        now.remove(Path::new(NAMES[1]));
        assert_eq!(faults("remove", &now), ["too few stay"]);
        now.insert(PathBuf::from(NAMES[1]), found(0, CONTENT));
        assert_eq!(faults("hardlink", &now), ["too few stay"]);
        now.insert(PathBuf::from(NAMES[1]), found(9, CONTENT));
        assert_eq!(faults("hardlink", &now), ["wrong link"]);
        now.insert(PathBuf::from(NAMES[1]), found(1, MARK));
        assert!(faults("remove", &now).contains(&"changed file"));
    }

    #[test]
    fn undoing_brings_back_all_but_inode_numbers() {
        let faults = |path: &str, one: FoundEntry| {
            let plan = dupes("remove");
            let mut now = before();
            now.insert(PathBuf::from(path), one);
            kinds(judge(&plan, &[], |model| {
                model.check_restored(plan.job.dupes().unwrap(), &now)
            }))
        };
        assert!(faults(NAMES[1], found(9, CONTENT)).is_empty());
        assert_eq!(faults(NAMES[1], found(0, CONTENT)), ["other hard links"]);
        assert_eq!(faults(NAMES[1], found(9, MARK)), ["not restored"]);
        assert_eq!(faults("to/trial", FoundEntry::Directory), ["left by undo"]);
    }

    /// A file that gets `AB` at 2 and `C` at 7.
    fn update() -> TrialPlan {
        let patch = |offset, bytes: &[u8]| Patch {
            offset,
            bytes: bytes.to_vec(),
        };
        let command = FileCommand {
            label: "update in-place",
            words: String::new(),
            promise: Promise::EachByte,
            must_succeed: true,
        };
        let content = Content {
            bytes: b"0123456789".to_vec(),
            patches: vec![patch(2, b"AB"), patch(7, b"C")],
        };
        plan(TrialCommand::File(command), &NAMES[..1], content)
    }

    /// The kinds of faults of the file, after it was updated and others acted.
    fn updated(updated: UpdatesPresent, acts: &[Act], now: &[u8]) -> Vec<&'static str> {
        let before = all([(NAMES[0], found(0, b"0123456789"))]);
        let model = TrialModel {
            plan: &update(),
            before: &before,
            acts,
            told: "",
            directory: Path::new("/trial"),
            is_done: true,
            updated,
            slack: 0,
        };
        let mut faults = kinds(model.check(&all([(NAMES[0], found(0, now))])));
        faults.retain(|kind| *kind != "lost content");
        faults
    }

    #[test]
    fn success_means_all_updates_and_nothing_else() {
        assert!(updated(UpdatesPresent::Yes, &[], b"01AB456C89").is_empty());
        for wrong in [b"01AB456789", b"01AB456C8x"] {
            assert_eq!(updated(UpdatesPresent::Yes, &[], wrong), ["foreign bytes"]);
        }
        assert_eq!(updated(UpdatesPresent::Yes, &[], b"01AB456C8"), ["foreign bytes"]);
        assert_eq!(updated(UpdatesPresent::Yes, &[], b"01AB456C89\0"), ["foreign bytes"]);
    }

    #[test]
    fn an_early_end_is_held_to_the_promise() {
        assert!(updated(UpdatesPresent::EachByte, &[], b"01A3456C89").is_empty());
        assert_eq!(updated(UpdatesPresent::EachByte, &[], b"01x3456C89"), ["foreign bytes"]);
        assert!(updated(UpdatesPresent::AllOrNone, &[], b"01AB456C89").is_empty());
        assert!(updated(UpdatesPresent::AllOrNone, &[], b"0123456789").is_empty());
        assert_eq!(
            updated(UpdatesPresent::AllOrNone, &[], b"0123456C89"),
            ["foreign bytes"]
        );
    }

    #[test]
    fn what_others_wrote_to_an_updated_file_must_stay() {
        let appended = [act(Interference::Append, 0, 10, b"line\n")];
        for content in [b"01AB456C89", b"0123456789"] {
            let faults = |tail: &[u8]| updated(UpdatesPresent::AllOrNone, &appended, &[content, tail].concat());
            assert!(faults(b"line\n").is_empty());
            assert_eq!(faults(b"\0\0\0\0\0"), ["foreign bytes", "lost write"]);
            assert_eq!(faults(b"lin"), ["foreign bytes", "lost write"]);
            assert_eq!(faults(b""), ["lost write"]);
        }
        let between = [act(Interference::Overwrite, 0, 5, b"x")];
        assert!(updated(UpdatesPresent::Yes, &between, b"01AB4x6C89").is_empty());
        assert_eq!(updated(UpdatesPresent::Yes, &between, b"01AB456C89"), ["lost write"]);
        // Where both write, either may be the last.
        let same = [act(Interference::Overwrite, 0, 3, b"x")];
        assert!(updated(UpdatesPresent::Yes, &same, b"01AB456C89").is_empty());
        assert!(updated(UpdatesPresent::Yes, &same, b"01Ax456C89").is_empty());
        assert_eq!(
            updated(UpdatesPresent::Yes, &same, b"01Ay456C89"),
            ["foreign bytes", "lost write"]
        );
    }

    #[test]
    fn a_saved_file_must_stay_with_or_without_updates() {
        let saved = [act(Interference::Save, 0, 0, b"abcdefghij")];
        assert!(updated(UpdatesPresent::Yes, &saved, b"abcdefghij").is_empty());
        assert!(updated(UpdatesPresent::Yes, &saved, b"abABefgCij").is_empty());
        assert_eq!(
            updated(UpdatesPresent::Yes, &saved, b"01AB456C89"),
            ["lost write", "wrong bytes"]
        );
        assert_eq!(
            updated(UpdatesPresent::Yes, &saved, b"0123456789"),
            ["lost write", "wrong bytes"]
        );
    }

    #[test]
    fn properties_are_those_before_or_those_that_others_set_last() {
        let with = |owner, mode| {
            let attributes = BTreeMap::from([("user.ours".to_owned(), b"kept".to_vec())]);
            let mut file = found(0, b"");
            if let FoundEntry::File(file) = &mut file {
                file.properties = Properties {
                    owner,
                    mode,
                    attributes,
                };
            }
            all([(NAMES[0], file)])
        };
        let (plan, before) = (update(), with(0, 0o4755));
        let faults = |acts: &[Act], now: &FilesByPath| {
            let told = "";
            let directory = Path::new("/trial");
            let (is_done, updated, slack) = (true, UpdatesPresent::Yes, 0);
            let (plan, before) = (&plan, &before);
            let model = TrialModel {
                plan,
                before,
                acts,
                told,
                directory,
                is_done,
                updated,
                slack,
            };
            usize::from(model.check_properties(now).is_some())
        };
        assert_eq!(faults(&[], &before), 0);
        for wrong in [
            with(0, 0o4757),
            with(0, 0o755),
            with(1, 0o4755),
            all([(NAMES[0], found(0, b""))]),
        ] {
            assert_eq!(faults(&[], &wrong), 1);
        }
        let set = |kind, set| Act {
            set,
            ..act(kind, 0, 0, b"")
        };
        let narrowed = [set(Interference::Mode, 0o755), set(Interference::Mode, 0o600)];
        assert_eq!(faults(&narrowed, &with(0, 0o600)), 0);
        assert_eq!(faults(&narrowed, &before), 1);
        let given = [set(Interference::Owner, 1)];
        assert_eq!(faults(&given, &with(1, 0o755)), 0);
        assert_eq!(faults(&given, &before), 1);
    }
}
