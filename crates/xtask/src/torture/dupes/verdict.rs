//! What must hold after duplicates were acted on, whatever disturbed it. No I/O.
//!
//! Not here: reading the files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use super::contents::Contents;
use super::others::{Act, DECOYS, Kind, MARK_BYTES, RENAMED, YARD};
use super::plan::{Action, MOVED, Rule, TRASH, TrialPlan};
use crate::torture::disturb::{Injection, What};
use crate::torture::trial::{Fault, Properties};

/// The files in the directory of a trial, by their paths in it.
pub type Files = BTreeMap<PathBuf, Found>;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    File(FoundFile),
    Symlink {
        target: PathBuf,
        /// The path that it leads to, if that is in the directory of the trial.
        leads_to: Option<PathBuf>,
    },
    Directory,
}

/// Whether a link, or one that it leads to, names a directory as others had renamed it.
fn leads_through_renamed(now: &Files, path: &Path) -> bool {
    let mut at = path;
    // A link of a later run may replace the file that one of an earlier run leads to.
    for _ in 0..now.len() {
        let Some(Found::Symlink { target, .. }) = now.get(at) else {
            break;
        };
        if target.to_string_lossy().contains(&format!("{RENAMED}/")) {
            return true;
        }
        let mut full = PathBuf::new();
        for part in at.parent().unwrap_or(at).join(target).components() {
            if part == Component::ParentDir {
                full.pop();
            } else {
                full.push(part);
            }
        }
        let Some(next) = now.keys().find(|name| full.ends_with(name)) else {
            break;
        };
        at = next;
    }
    false
}

impl Found {
    /// What belongs to it: whether a link leads anywhere does not.
    fn own(&self) -> Self {
        match self {
            Self::Symlink { target, .. } => Self::Symlink {
                target: target.clone(),
                leads_to: None,
            },
            own => own.clone(),
        }
    }
}

#[derive(Clone, PartialEq)]
pub struct FoundFile {
    pub inode: u64,
    pub bytes: Vec<u8>,
    pub properties: Properties,
    /// Seconds and ns since 1970.
    pub modified: (i64, i64),
}

impl std::fmt::Debug for FoundFile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = self.bytes[..self.bytes.len().min(6 * MARK_BYTES)].escape_ascii();
        let Self {
            inode,
            bytes,
            properties,
            modified,
        } = self;
        write!(
            out,
            "inode {inode}, {} B {start}, {properties:?}, {modified:?}",
            bytes.len()
        )
    }
}

/// What a trial is judged by.
pub struct Model<'a> {
    pub plan: &'a TrialPlan,
    pub before: &'a Files,
    pub acts: &'a [Act],
    /// What all runs of seekless said.
    pub told: &'a str,
    /// The directory of the trial.
    pub directory: &'a Path,
}

/// The kind of a name that does not lead to what it did before, although all was undone.
pub const NOT_RESTORED: &str = "not restored";
/// Names that seekless makes.
const TEMPORARY: &str = ".seekless-dupes-";

impl Model<'_> {
    /// What must hold whatever happened: no content is lost, none is mixed with another, and no file got foreign bytes.
    /// Also whether something was lost that is lost by nature.
    pub fn check(&self, now: &Files) -> (Vec<Fault>, bool) {
        let mut faults = self.check_names(now);
        let contents = Contents::of(&self.plan.tree, self.acts);
        let mut places: HashMap<usize, Vec<&Path>> = HashMap::new();
        let mut marks = HashSet::new();
        for (path, file) in files(now).filter(|(path, _)| !path.starts_with(DECOYS)) {
            let Some(derived) = contents.derive(&file.bytes) else {
                faults.push(Fault::new("foreign bytes", format!("{}: {file:?}", path.display())));
                continue;
            };
            for content in derived.contents {
                places.entry(content).or_default().push(path);
            }
            marks.extend(derived.marks);
        }
        self.check_base(&places, &mut faults);
        let is_known = self.check_written(&contents, &places, &marks, &mut faults);
        self.check_paths(&contents, now, &mut faults);
        for (path, found) in self.before.iter().filter(|(path, _)| path.starts_with(DECOYS)) {
            if now.get(path) != Some(found) {
                faults.push(Fault::new("other directory", format!("{}", path.display())));
            }
        }
        (faults, is_known)
    }

    /// Each content that was there before has a name still; one that had names outside of trash has one of these.
    fn check_base(&self, places: &HashMap<usize, Vec<&Path>>, faults: &mut Vec<Fault>) {
        for number in 0..self.plan.tree.contents.len() {
            // Only one of several contents may have been destroyed by others, and it is not known which, where they
            // destroyed what had the name of one.
            if self.is_destroyed(number, 0) {
                continue;
            }
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

    /// What others wrote, and did not destroy themselves, is there.
    fn check_written(
        &self,
        contents: &Contents<'_>,
        places: &HashMap<usize, Vec<&Path>>,
        marks: &HashSet<usize>,
        faults: &mut Vec<Fault>,
    ) -> bool {
        let mut is_known = false;
        for (number, act) in self.acts.iter().enumerate() {
            if act.wrote.is_empty() {
                continue;
            }
            let is_there = match contents.numbers.get(&number) {
                Some(content) => places.contains_key(content),
                None => marks.contains(&number),
            };
            if is_there || self.may_be_destroyed(act) {
                continue;
            }
            let is_in_place = !matches!(act.kind, Kind::Save | Kind::SaveOver);
            // A process that was stopped for longer than its lease lasts removes a file that was opened since, and --busy
            // asks for no lease: what others write to such a file goes with it. What they save as new files does not.
            if is_in_place && (self.plan.disturbance.outlasts_lease() || self.plan.command.is_busy()) {
                is_known = true;
                continue;
            }
            let path = &self.plan.tree.entries[act.number].path;
            faults.push(Fault::new("lost write", format!("{path}: {act:?}")));
        }
        is_known
    }

    /// Names that others neither gave nor took lead to the bytes that they had, or to none where that was asked for.
    fn check_paths(&self, contents: &Contents<'_>, now: &Files, faults: &mut Vec<Fault>) {
        for (number, entry) in self.plan.tree.entries.iter().enumerate() {
            let path = Path::new(&entry.path);
            let Some(content) = self.plan.tree.content(number) else {
                if now.get(path).map(Found::own) != self.before.get(path).map(Found::own) {
                    faults.push(Fault::new("changed link", entry.path.clone()));
                }
                continue;
            };
            if self.is_renamed(number) {
                continue;
            }
            let (is_link, found) = match now.get(path) {
                Some(Found::Symlink { leads_to, .. }) => (true, leads_to.as_ref().and_then(|path| file(now, path))),
                _ => (false, file(now, path)),
            };
            // Others may have taken away or replaced the file that a link leads to.
            let is_cut = |act: &Act| act.gives_name() && self.content_of(act) == Some(content);
            // So may the directory have been, by another name that it had when the link was made.
            if is_link && (leads_through_renamed(now, path) || self.acts.iter().any(is_cut)) {
                continue;
            }
            let rewrites = |act: &Act| act.kind == Kind::Rewrite && self.content_of(act) == Some(content);
            let is_it = |number: &usize| *number == content || contents.writer(*number).is_some_and(rewrites);
            let may_be_gone = matches!(self.plan.command.action, Action::Remove | Action::Move);
            match found {
                Some(file) => {
                    let derived = contents.derive(&file.bytes);
                    if derived.is_some_and(|derived| !derived.contents.iter().any(is_it)) {
                        faults.push(Fault::new("wrong bytes", format!("{}: {file:?}", entry.path)));
                    }
                }
                None if may_be_gone || self.tells_of(&entry.path) => {}
                None => faults.push(Fault::new("lost name", entry.path.clone())),
            }
        }
    }

    /// No name is new but those of files that were moved, and none is left that is not told of.
    fn check_names(&self, now: &Files) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (path, found) in now {
            if path.starts_with(YARD) || path.starts_with(DECOYS) || self.before.contains_key(path) {
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(TEMPORARY) {
                if !self.told.contains(name.as_ref()) {
                    faults.push(Fault::new("left behind", format!("{}: {found:?}", path.display())));
                }
            } else if let Some(from) = self.moved_from(path) {
                let is_from =
                    |known: &PathBuf| known == &from || *found == Found::Directory && known.starts_with(&from);
                if self.plan.command.action != Action::Move || !self.before.keys().any(is_from) {
                    faults.push(Fault::new("unknown name", path.display().to_string()));
                }
            } else if !self.is_given(path) {
                faults.push(Fault::new("unknown name", path.display().to_string()));
            }
        }
        faults
    }

    /// What must hold where nobody else did anything, and the run, or a second one, ended by itself.
    pub fn check_acted(&self, now: &Files) -> Vec<Fault> {
        let mut faults = Vec::new();
        let action = self.plan.command.action;
        for (path, was) in tree(self.before) {
            let here = now.get(path);
            let fault = |kind| Fault::new(kind, format!("{}: {was:?}, now {here:?}", path.display()));
            let Found::File(file_before) = was else {
                if here.map(Found::own) != Some(was.own()) {
                    faults.push(fault("changed link or directory"));
                }
                continue;
            };
            let is_same = |found: &FoundFile| found == file_before;
            match (action, here) {
                (_, Some(Found::File(found))) if found.inode == file_before.inode => {
                    if !is_same(found) {
                        faults.push(fault("changed file"));
                    }
                    continue;
                }
                (Action::Hardlink, Some(Found::File(found))) => {
                    let kept = files(self.before).find(|(_, known)| known.inode == found.inode);
                    if found.bytes != file_before.bytes || kept.is_none_or(|(_, kept)| kept != found) {
                        faults.push(fault("wrong link"));
                    }
                }
                (Action::Symlink, Some(Found::Symlink { target, leads_to })) => {
                    let kept = leads_to.as_ref().and_then(|path| file(now, path));
                    let is_right = kept.is_some_and(|kept| kept.bytes == file_before.bytes)
                        && target.is_absolute() == self.plan.command.options.contains(&"--absolute");
                    if !is_right {
                        faults.push(fault("wrong link"));
                    }
                }
                (Action::Remove, None) => {}
                (Action::Move, None) => {
                    if !file(now, &self.moved_to(path)).is_some_and(is_same) {
                        faults.push(fault("not moved"));
                    }
                }
                _ => faults.push(fault("wrong action")),
            }
            let is_kept = |rule: &Rule| rule.keeps(&path.to_string_lossy());
            if self.plan.command.rules.iter().any(is_kept) {
                faults.push(fault("acted against a rule"));
            }
        }
        for (path, _) in files(now).filter(|(path, _)| path.starts_with(MOVED)) {
            let from = self.moved_from(path);
            if from.is_none_or(|from| now.contains_key(&from)) {
                faults.push(Fault::new("moved, and still there", path.display().to_string()));
            }
        }
        faults.extend(self.check_least(now));
        faults
    }

    /// As many files of each content stay as were asked for, or as there were; those in the trash do not count.
    fn check_least(&self, now: &Files) -> Vec<Fault> {
        let least = |rule: &Rule| match rule {
            Rule::AtLeast(number) => Some(*number),
            _ => None,
        };
        let least = self.plan.command.rules.iter().filter_map(least).max().unwrap_or(1);
        let count = |among: &Files, content: &[u8]| {
            let inodes = files(among)
                .filter(|(path, file)| path.starts_with("tree") && !is_in_trash(path) && file.bytes == content);
            inodes.map(|(_, file)| file.inode).collect::<BTreeSet<_>>().len()
        };
        let contents = self.plan.tree.contents.iter().enumerate();
        let is_wrong = |content: &[u8]| count(now, content) < count(self.before, content).min(least);
        contents
            .filter(|(_, content)| is_wrong(&content.0))
            .map(|(number, _)| Fault::new("too few stay", self.describe(number)))
            .collect()
    }

    /// What must hold where nobody else did anything, and all was undone.
    pub fn check_restored(&self, now: &Files) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (path, was) in tree(self.before) {
            let here = now.get(path);
            // A copy is another file.
            let is_same = match (was, here) {
                (Found::File(was), Some(Found::File(here))) => {
                    *was == FoundFile {
                        inode: was.inode,
                        ..here.clone()
                    }
                }
                (was, here) => here == Some(was),
            };
            if !is_same {
                let details = format!("{}: {was:?}, now {here:?}", path.display());
                faults.push(Fault::new(NOT_RESTORED, details));
            }
        }
        for path in now.keys().filter(|path| !self.before.contains_key(*path)) {
            faults.push(Fault::new("left by undo", path.display().to_string()));
        }
        // A search that met an error did not find all names of a file.
        let is_error = |one: &Injection| matches!(one.what, What::Error(_) | What::Errors(_));
        if !faults.is_empty() || self.plan.disturbance.injections.iter().any(is_error) {
            return faults;
        }
        let together = |among: &Files| {
            let mut names: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
            // A name that was not searched keeps the file that it had, and the others get another.
            let is_searched =
                |path: &Path| !is_in_trash(path) || self.plan.command.search.iter().any(|word| word == "--all");
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

    fn describe(&self, content: usize) -> String {
        let names: Vec<_> = self.names(content).map(|path| path.display().to_string()).collect();
        format!(
            "content {content}, {} B, of {}",
            self.plan.tree.contents[content].0.len(),
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

    /// Whether others destroyed a file that had one of the names of a content, and ended after a moment. seekless may have
    /// made all its names lead to that file.
    fn is_destroyed(&self, content: usize, since: u64) -> bool {
        self.acts
            .iter()
            .any(|act| act.destroys() && act.ended > since && self.content_of(act) == Some(content))
    }

    /// Whether others may have destroyed what one of them wrote: it was in a file that had a name of this content.
    fn may_be_destroyed(&self, act: &Act) -> bool {
        let is_later = |other: &&Act| other.destroys() && other.ended > act.begun && other.begun != act.begun;
        // A new file has one name only: seekless does not link it, since it equals no other. Symbolic links that were made
        // before may lead to it, and emptying follows them.
        let is_new = matches!(act.kind, Kind::Save | Kind::SaveOver);
        let follows = |other: &Act| other.kind == Kind::Rewrite && self.plan.command.action == Action::Symlink;
        self.acts.iter().filter(is_later).any(|other| {
            let may_meet = !is_new || follows(other);
            other.number == act.number || may_meet && self.content_of(other) == self.content_of(act)
        })
    }

    /// Whether others gave a name to a file of theirs, or took it.
    fn is_renamed(&self, number: usize) -> bool {
        self.acts.iter().any(|act| act.gives_name() && act.number == number)
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

impl Act {
    /// It destroyed a file, or its bytes, that had a name.
    fn destroys(&self) -> bool {
        self.answer.is_ok() && matches!(self.kind, Kind::SaveOver | Kind::Unlink | Kind::Rewrite)
    }

    /// It gave a name of the tree to another file, or took it.
    fn gives_name(&self) -> bool {
        let kinds = [Kind::Save, Kind::SaveOver, Kind::Copy, Kind::TakeAway, Kind::Unlink];
        self.answer.is_ok() && kinds.contains(&self.kind)
    }
}

fn files(among: &Files) -> impl Iterator<Item = (&Path, &FoundFile)> {
    among.iter().filter_map(|(path, found)| match found {
        Found::File(file) => Some((path.as_path(), file)),
        _ => None,
    })
}

fn tree(among: &Files) -> impl Iterator<Item = (&PathBuf, &Found)> {
    among.iter().filter(|(path, _)| path.starts_with("tree"))
}

fn file<'f>(among: &'f Files, path: &Path) -> Option<&'f FoundFile> {
    match among.get(path) {
        Some(Found::File(file)) => Some(file),
        _ => None,
    }
}

fn is_in_trash(path: &Path) -> bool {
    path.iter().any(|name| name == TRASH)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::plan::{Attributes, Entry, Invocation, Made, Recovery, Route, Tree};
    use super::*;
    use crate::filesystems::FileSystem;
    use crate::torture::disturb::{Bytes, Disturbance, Interruption};

    const NAMES: [&str; 3] = ["tree/r0/f0_", "tree/r0/f1_", "tree/r1/.Trash-0/f2_"];
    const CONTENT: &[u8] = b"forty bytes of which half may be marked.";
    const MARK: &[u8] = b"\0id 000000000007";

    /// Three files with one content, the last in the trash.
    fn plan(action: Action) -> TrialPlan {
        let attributes = Attributes {
            mode: 0o600,
            owner: 0,
            modified: None,
            extended: None,
        };
        let entry = |path: &str| Entry {
            path: path.to_owned(),
            made: Made::File {
                content: 0,
                attributes: attributes.clone(),
            },
        };
        TrialPlan {
            file_system: FileSystem::Tmpfs,
            tree: Tree {
                contents: vec![Bytes(CONTENT.to_vec())],
                directories: Vec::new(),
                entries: NAMES.map(entry).into(),
            },
            command: Invocation {
                action,
                rules: vec![Rule::AtLeast(2)],
                route: Route::AtOnce,
                search: Vec::new(),
                options: Vec::new(),
            },
            disturbance: Disturbance {
                injections: Vec::new(),
                timed: None,
                free_bytes: None,
            },
            others: Vec::new(),
            others_stay: false,
            between: None,
            recovery: Recovery::Again,
            recovery_injection: None,
        }
    }

    fn found(inode: u64, bytes: &[u8]) -> Found {
        Found::File(FoundFile {
            inode,
            bytes: bytes.to_vec(),
            properties: Properties::default(),
            modified: (0, 0),
        })
    }

    fn all<const N: usize>(files: [(&str, Found); N]) -> Files {
        files.map(|(path, found)| (PathBuf::from(path), found)).into()
    }

    fn before() -> Files {
        let number = |path: &&str| NAMES.iter().position(|name| name == path).unwrap_or(0) as u64;
        all(NAMES.map(|path| (path, found(number(&path), CONTENT))))
    }

    fn act(kind: Kind, number: usize, begun: u64, wrote: &[u8]) -> Act {
        Act {
            kind,
            number,
            wrote: wrote.to_vec(),
            begun,
            ended: begun + 1,
            answer: Ok(()),
        }
    }

    fn judge<T>(plan: &TrialPlan, acts: &[Act], told: &str, judge: impl FnOnce(&Model<'_>) -> T) -> T {
        judge(&Model {
            plan,
            before: &before(),
            acts,
            told,
            directory: Path::new("/trial"),
        })
    }

    /// The kinds of faults after files were removed, and others acted.
    fn kinds(acts: &[Act], now: &Files) -> Vec<&'static str> {
        let (faults, _) = judge(&plan(Action::Remove), acts, "told of .seekless-dupes-1", |model| {
            model.check(now)
        });
        faults.into_iter().map(|fault| fault.kind).collect()
    }

    #[test]
    fn a_content_must_have_a_name_outside_of_the_trash_and_of_where_files_are_moved() {
        assert!(kinds(&[], &all([(NAMES[1], found(1, CONTENT))])).is_empty());
        assert_eq!(kinds(&[], &Files::new()), ["lost content"]);
        assert_eq!(
            kinds(&[], &all([(NAMES[2], found(2, CONTENT))])),
            ["last copy in the trash"]
        );
        let mixed = [CONTENT, b"x"].concat();
        assert_eq!(
            kinds(&[], &all([(NAMES[0], found(0, CONTENT)), (NAMES[1], found(1, &mixed))])),
            ["foreign bytes"]
        );
    }

    #[test]
    fn a_trash_that_others_rename_for_a_moment_may_hold_the_last_copy() {
        let mut plan = plan(Action::Remove);
        plan.tree.directories = vec!["tree/r0".to_owned(), "tree/r1/.Trash-0".to_owned()];
        let now = all([(NAMES[2], found(2, CONTENT))]);
        for (directory, faults) in [(0, 1), (1, 0)] {
            let acts = [act(Kind::RenameDirectory, directory, 1, b"")];
            assert_eq!(judge(&plan, &acts, "", |model| model.check(&now)).0.len(), faults);
        }
    }

    #[test]
    fn what_others_wrote_must_be_found() {
        let appended = [CONTENT, MARK].concat();
        let over = [MARK, &CONTENT[16..]].concat();
        for marked in [appended, over] {
            let now = all([(NAMES[0], found(0, &marked))]);
            assert!(kinds(&[act(Kind::Append, 1, 1, MARK)], &now).is_empty());
            // Nobody wrote it.
            assert_eq!(kinds(&[], &now), ["foreign bytes", "lost content"]);
        }
        let now = all([(NAMES[0], found(0, CONTENT))]);
        assert_eq!(kinds(&[act(Kind::Append, 1, 1, MARK)], &now), ["lost write"]);
        assert_eq!(kinds(&[act(Kind::Save, 1, 1, MARK)], &now), ["lost write"]);
    }

    #[test]
    fn what_others_destroyed_themselves_may_be_gone() {
        let unlinked = |begun| act(Kind::Unlink, 0, begun, b"");
        assert!(kinds(&[unlinked(1)], &Files::new()).is_empty());
        let now = all([(NAMES[1], found(1, CONTENT))]);
        assert!(kinds(&[act(Kind::Append, 1, 1, MARK), unlinked(3)], &now).is_empty());
        // It was written after that.
        assert_eq!(
            kinds(&[unlinked(1), act(Kind::Append, 1, 3, MARK)], &now),
            ["lost write"]
        );
        // A new file has one name, which was not the one that was unlinked.
        assert_eq!(kinds(&[act(Kind::Save, 1, 1, MARK), unlinked(3)], &now), ["lost write"]);
        let taken = all([("yard/1", found(0, CONTENT))]);
        assert!(kinds(&[act(Kind::TakeAway, 0, 1, b"")], &taken).is_empty());
    }

    #[test]
    fn a_write_to_a_file_that_outlasts_the_lease_may_be_lost_and_a_save_may_not() {
        let mut plan = plan(Action::Remove);
        plan.disturbance.timed = Some((Duration::ZERO, Interruption::Stop(Duration::ZERO)));
        let now = all([(NAMES[0], found(0, CONTENT))]);
        for (kind, is_known) in [(Kind::Append, true), (Kind::Save, false)] {
            let acts = [act(kind, 1, 1, MARK)];
            let (faults, found) = judge(&plan, &acts, "", |model| model.check(&now));
            assert_eq!((faults.is_empty(), found), (is_known, is_known));
        }
    }

    #[test]
    fn names_that_seekless_made_are_told_of_or_left_behind() {
        let with = |name| {
            let mut now = before();
            now.insert(PathBuf::from(name), found(7, CONTENT));
            kinds(&[], &now)
        };
        assert!(with("tree/r0/.seekless-dupes-1").is_empty());
        assert_eq!(with("tree/r0/.seekless-dupes-2"), ["left behind"]);
        assert_eq!(with("tree/r0/f9_"), ["unknown name"]);
    }

    #[test]
    fn undisturbed_acting_changes_what_was_asked_for_and_nothing_else() {
        let faults = |action, now: &Files| -> Vec<_> {
            let faults = judge(&plan(action), &[], "", |model| model.check_acted(now));
            faults.into_iter().map(|fault| fault.kind).collect()
        };
        assert!(faults(Action::Remove, &before()).is_empty());
        let mut now = before();
        now.remove(Path::new(NAMES[2]));
        assert!(faults(Action::Remove, &now).is_empty());
        assert_eq!(faults(Action::Hardlink, &now), ["wrong action"]);
        assert_eq!(faults(Action::Move, &now), ["not moved"]);
        now.insert(PathBuf::from("to/trial/tree/r1/.Trash-0/f2_"), found(2, CONTENT));
        assert!(faults(Action::Move, &now).is_empty());
        let mut now = before();
        now.remove(Path::new(NAMES[1]));
        assert_eq!(faults(Action::Remove, &now), ["too few stay"]);
        now.insert(PathBuf::from(NAMES[1]), found(0, CONTENT));
        assert_eq!(faults(Action::Hardlink, &now), ["too few stay"]);
        now.insert(PathBuf::from(NAMES[1]), found(9, CONTENT));
        assert_eq!(faults(Action::Hardlink, &now), ["wrong link"]);
        now.insert(PathBuf::from(NAMES[1]), found(1, MARK));
        assert!(faults(Action::Remove, &now).contains(&"changed file"));
    }

    #[test]
    fn undoing_brings_back_all_but_inode_numbers() {
        let faults = |now: &Files| -> Vec<_> {
            let faults = judge(&plan(Action::Remove), &[], "", |model| model.check_restored(now));
            faults.into_iter().map(|fault| fault.kind).collect()
        };
        let with = |path: &str, one: Found| {
            let mut now = before();
            now.insert(PathBuf::from(path), one);
            now
        };
        assert!(faults(&with(NAMES[1], found(9, CONTENT))).is_empty());
        assert_eq!(faults(&with(NAMES[1], found(0, CONTENT))), ["other hard links"]);
        assert_eq!(faults(&with(NAMES[1], found(9, MARK))), ["not restored"]);
        assert_eq!(faults(&with("to/trial", Found::Directory)), ["left by undo"]);
    }

    #[test]
    fn a_link_to_a_link_through_a_renamed_directory_leads_there_and_others_do_not() {
        let link = |target: &str| Found::Symlink {
            target: target.into(),
            leads_to: None,
        };
        let now = all([
            ("tree/r0/a", link("/trial/tree/r1/0~/f")),
            ("tree/r0/b", link("/trial/tree/r0/a")),
            ("tree/r1/c", link("../r0/./b")),
            ("tree/r1/d", link("e")),
            ("tree/r1/e", link("d")),
            ("tree/r1/f", link("/trial/tree/r1/0/f")),
        ]);
        let leads = |path: &str| leads_through_renamed(&now, Path::new(path));
        assert!(["tree/r0/a", "tree/r0/b", "tree/r1/c"].into_iter().all(leads));
        assert!(!["tree/r1/d", "tree/r1/e", "tree/r1/f"].into_iter().any(leads));
    }
}
