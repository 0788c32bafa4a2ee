//! Which files, or directories, of a group stay, why, and what is done with the others.
//!
//! The rules are one order of preference, the first rule first: a pattern prefers the files that it matches. The best file stays,
//! and so does every file that a pattern matches, wherever the pattern stands. At least one file stays in any case.
//!
//! Not here: what rules are (`rules`), finding out what a file is (`copies`), and acting.

use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use seekless::files::FileState;
use serde::{Deserialize, Serialize};

use super::agreed::Agreed;
use super::copies::CopyPlaces;
use super::directory::steps_of;
use super::origin::SearchOrigin;
use super::report::RefusedPart;
use super::rules::{CopyName, KeepOrder, Rule};
use super::{ActedOn, Action, KeptFile, RefusalReason, Step};
use crate::dupes::EqualFiles;

/// A file of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// All names that are known.
    pub names: Vec<CopyName>,
    /// What it was.
    pub state: FileState,
    /// The files in it, if it is a directory.
    pub files: Option<u64>,
    /// The space that is free if all names are removed.
    pub own_bytes: u64,
    /// Why it is not acted on, whatever the rules are.
    pub fixed: Option<Fixed>,
    /// A number that copies have in common that may be linked.
    pub file_system: u64,
    /// Whether others can share its blocks, and it cannot share theirs.
    pub is_read_only: bool,
}

/// Why a file is not acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixed {
    /// It is in a reference.
    Reference,
    /// A symbolic link led to it.
    Link,
    /// It is where files are moved to.
    Moved,
    /// It is in a directory that is kept, as a whole, for an equal one.
    Whole,
    /// It is a directory that holds the one that files are moved to.
    Target,
}

/// Why a file stays. Reports and journals have the words, which no program reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum KeepReason {
    /// It is not acted on at all.
    Fixed(Fixed),
    /// A rule, as it was written; or what a journal that was read says.
    Rule(String),
    /// A plan says so.
    Planned,
    /// No other rule keeps a copy that counts.
    LastCopy,
    /// No other copy stays on its file system, and links cannot cross file systems.
    LastThere,
    /// Others can share its blocks, and it cannot share theirs.
    ReadOnly,
    /// It is the directory above one that acting leaves empty.
    Emptied,
}

impl fmt::Display for KeepReason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Fixed(Fixed::Reference) => "reference",
            Self::Fixed(Fixed::Link) => "behind a symbolic link",
            Self::Fixed(Fixed::Moved) => "moved already",
            Self::Fixed(Fixed::Whole) => "in a directory that stays",
            Self::Fixed(Fixed::Target) => "holds the directory to move to",
            Self::Rule(rule) => rule,
            Self::Planned => "as planned",
            Self::LastCopy => "last copy",
            Self::LastThere => "last copy on this file system",
            Self::ReadOnly => "read-only",
            Self::Emptied => "left empty",
        })
    }
}

impl From<KeepReason> for String {
    fn from(reason: KeepReason) -> Self {
        reason.to_string()
    }
}

impl From<String> for KeepReason {
    fn from(words: String) -> Self {
        Self::Rule(words)
    }
}

/// A file, or a directory, that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCopy {
    /// All its names.
    pub paths: Vec<PathBuf>,
    /// What it was.
    pub state: FileState,
    /// Why it stays.
    pub why: KeepReason,
    /// Whether it stays whatever the rules are.
    pub is_fixed: bool,
}

/// What is done with a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChoice {
    /// The size of each file.
    pub bytes: u64,
    /// The files in each, if they are directories.
    pub files: Option<u64>,
    /// Files that stay, those that others rely on first.
    pub kept: Vec<KeptCopy>,
    /// Directories that do not stay as they are, and why one is left alone.
    pub directories: Vec<(PathBuf, Option<RefusalReason>)>,
    /// The steps, those for the files of directories included.
    pub steps: Vec<Step>,
    /// The space of files that stay because links cannot cross file systems.
    pub apart_bytes: u64,
}

/// What is to be done with all groups.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// What is done with groups in which not every file stays.
    pub choices: Vec<GroupChoice>,
    /// Groups in which every file stays.
    pub whole: u64,
    /// The space of files that stay because links cannot cross file systems.
    pub apart_bytes: u64,
    /// Files that cannot be acted on.
    pub refused: Vec<RefusedPart>,
    /// Rules that keep none of these files, perhaps because they are mistyped.
    pub unmatched: Vec<Rule>,
}

impl Chosen {
    /// Decides for each group.
    #[must_use]
    pub fn of_groups(action: &Action, rules: &[Rule], origin: &SearchOrigin, groups: &[EqualFiles]) -> Self {
        let of_names: Vec<EqualFiles>;
        let mut groups: Vec<&EqualFiles> = if *action == Action::Names {
            of_names = groups.iter().flat_map(EqualFiles::names_apart).collect();
            of_names.iter().collect()
        } else {
            groups.iter().collect()
        };
        // A directory comes before the files and directories in it.
        let nodes = |group: &EqualFiles| {
            let contents = group.files.first().and_then(|first| first.contents);
            contents.map_or(0, |contents| contents.files.saturating_add(contents.directories))
        };
        groups.sort_by_key(|group| Reverse(nodes(group)));
        let mut chosen = Self::default();
        let (mut going, mut staying) = (HashSet::new(), HashSet::new());
        let (mut places, mut agreed) = (CopyPlaces::new(origin, action), Agreed::of(action));
        let mut unmatched: Vec<&Rule> = rules.iter().filter(|rule| rule.is_pattern()).collect();
        for group in &groups {
            let (mut copies, gone) = places.copies(group);
            unmatched.retain(|rule| !copies.iter().any(|copy| rule.protects(&copy.names)));
            if let Action::Move { to } | Action::Trash { home: to } = action {
                for copy in &mut copies {
                    copy.stay_below(to);
                }
            }
            if *action == Action::Names {
                // Two paths of one directory entry are one name.
                let mut met = HashSet::new();
                copies.retain(|copy| {
                    let met_before = met.len();
                    met.extend(copy.names.iter().map(|name| name.path.clone()));
                    met.len() == met_before + copy.names.len()
                });
            }
            copies.retain(|copy| !copy.is_in(&going));
            for copy in copies.iter_mut().filter(|copy| copy.is_in(&staying)) {
                copy.fixed.get_or_insert(Fixed::Whole);
            }
            for (path, why) in gone {
                chosen.refuse(&path, why);
            }
            let mut choice = choose(&copies, rules, action.is_on_one_file_system());
            if choice.files.is_some() && !choice.steps.is_empty() {
                going.extend(choice.steps.iter().map(|step| step.file.paths[0].clone()));
                staying.extend(choice.kept.iter().map(|kept| kept.paths[0].clone()));
                choice.spread(action);
            }
            if *action == Action::Names {
                choice.join();
            }
            choice.steps.retain(|step| {
                let added = agreed.add(step);
                added.map_err(|why| chosen.refuse(&step.file.paths[0], why)).is_ok()
            });
            chosen.apart_bytes += choice.apart_bytes;
            if choice.steps.is_empty() && choice.directories.is_empty() {
                chosen.whole += 1;
            } else {
                chosen.choices.push(choice);
            }
        }
        if !groups.is_empty() {
            chosen.unmatched = unmatched.into_iter().cloned().collect();
        }
        chosen
    }

    /// All steps.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.choices.iter().flat_map(|choice| &choice.steps)
    }

    fn refuse(&mut self, path: &Path, why: RefusalReason) {
        self.refused.push(RefusedPart {
            place: String::new(),
            path: Some(path.to_owned()),
            why,
        });
    }
}

impl GroupChoice {
    /// Makes the steps for names of one file a single step.
    fn join(&mut self) {
        let paths = self.steps.iter().flat_map(|step| step.file.paths.clone()).collect();
        self.steps.truncate(1);
        if let Some(step) = self.steps.first_mut() {
            step.file.paths = paths;
            step.own_bytes = 0;
        }
    }

    /// Replaces steps for whole directories with those for what is in them.
    fn spread(&mut self, action: &Action) {
        for step in std::mem::take(&mut self.steps) {
            let path = &step.file.paths[0];
            let steps = steps_of(path, &step.keep.path, &step.why, action);
            let why = steps.map(|steps| self.steps.extend(steps)).err();
            self.directories.push((path.clone(), why));
        }
    }
}

impl Copy {
    /// Makes a file below this directory stay, and not count. A directory that holds this one stays, too.
    pub fn stay_below(&mut self, directory: &Path) {
        for name in self.names.iter_mut().filter(|name| name.path.starts_with(directory)) {
            name.is_poor = true;
            self.fixed.get_or_insert(Fixed::Moved);
        }
        if self.names.iter().any(|name| directory.starts_with(&name.path)) {
            self.fixed.get_or_insert(Fixed::Target);
        }
    }

    /// Whether one of its names is in one of these directories.
    #[must_use]
    pub fn is_in(&self, directories: &HashSet<PathBuf>) -> bool {
        let mut above = self.names.iter().flat_map(|name| name.path.ancestors().skip(1));
        above.any(|directory| directories.contains(directory))
    }

    fn is_poor(&self) -> bool {
        self.names.iter().all(|name| name.is_poor)
    }

    /// The paths of its names, a path for each directory entry.
    fn paths(&self) -> Vec<PathBuf> {
        let names = self.names.iter().filter(|name| !name.is_again);
        let mut paths: Vec<_> = names.map(|name| name.path.clone()).collect();
        paths.sort();
        paths
    }

    /// The name to rely on.
    fn best_name(&self) -> Option<&CopyName> {
        let names = self.names.iter().filter(|name| !name.is_again);
        names.min_by_key(|name| (name.is_poor, &name.path))
    }

    fn least<T: Ord>(&self, key: impl Fn(&CopyName) -> T) -> Option<T> {
        self.names.iter().map(key).min()
    }
}

/// Decides which of several equal files stay. With `is_linked`, a file and the one kept for it are on the same file system.
#[must_use]
pub fn choose(copies: &[Copy], rules: &[Rule], is_linked: bool) -> GroupChoice {
    let protected = |copy: &Copy| {
        let rule = rules.iter().find(|rule| rule.protects(&copy.names));
        copy.fixed
            .map(KeepReason::Fixed)
            .or_else(|| rule.map(|rule| KeepReason::Rule(rule.to_string())))
    };
    let mut reasons: Vec<Option<KeepReason>> = copies.iter().map(protected).collect();
    let mut order: Vec<usize> = (0..copies.len()).collect();
    order.sort_by(|&one, &other| {
        let is_first = copies[other].is_read_only.cmp(&copies[one].is_read_only);
        is_first
            .then_with(|| by_rules(rules, &copies[one], &copies[other]))
            .then_with(|| reasons[one].is_none().cmp(&reasons[other].is_none()))
            .then_with(|| by_path(&copies[one], &copies[other]))
    });
    if let Some(&best) = order.first().filter(|best| copies[**best].is_read_only) {
        reasons[best].get_or_insert(KeepReason::ReadOnly);
    }
    let first = rules.iter().find(|rule| matches!(rule, Rule::Order(_)));
    if let (Some(first), Some(&best)) = (first, order.first()) {
        reasons[best].get_or_insert_with(|| KeepReason::Rule(first.to_string()));
    }
    let least = rules.iter().filter_map(Rule::at_least).max().unwrap_or(1);
    // Copies that count come first. The others are taken only if there are too few of those.
    order.sort_by_key(|number| copies[*number].is_poor());
    let poor = order.partition_point(|number| !copies[*number].is_poor());
    let staying = |reasons: &[Option<KeepReason>], among: &[usize]| {
        let stays = |number: &&usize| reasons[**number].is_some();
        among.iter().filter(stays).count()
    };
    for among in [&order[..poor], &order[..]] {
        let mut missing = least.saturating_sub(staying(&reasons, among));
        for &number in among {
            if missing > 0 && reasons[number].is_none() {
                missing -= 1;
                reasons[number] = Some(match least {
                    1 => KeepReason::LastCopy,
                    least => KeepReason::Rule(Rule::AtLeast(least).to_string()),
                });
            }
        }
    }
    // The copy that the others rely on: the best of all, or of each file system.
    let device = |number: usize| if is_linked { copies[number].file_system } else { 0 };
    let mut keepers = HashMap::new();
    for among in [&order[..poor], &order[poor..]] {
        for &number in among.iter().filter(|number| reasons[**number].is_some()) {
            keepers.entry(device(number)).or_insert(number);
        }
        for &number in among {
            keepers.entry(device(number)).or_insert_with(|| {
                reasons[number] = Some(KeepReason::LastThere);
                number
            });
        }
    }
    let mut choice = GroupChoice {
        bytes: copies.first().map_or(0, |copy| copy.state.bytes),
        files: copies.first().and_then(|copy| copy.files),
        ..GroupChoice::default()
    };
    for &number in &order {
        let copy = &copies[number];
        if let Some(reason) = &reasons[number] {
            if *reason == KeepReason::LastThere {
                choice.apart_bytes += copy.own_bytes;
            }
            choice.kept.push(KeptCopy {
                paths: copy.paths(),
                state: copy.state,
                why: reason.clone(),
                is_fixed: copy.fixed.is_some(),
            });
            continue;
        }
        let kept = keepers.get(&device(number)).and_then(|&keeper| {
            let reason = reasons[keeper].as_ref()?;
            Some((&copies[keeper], copies[keeper].best_name()?, reason))
        });
        if let Some((kept, name, reason)) = kept {
            choice.steps.push(Step {
                file: ActedOn {
                    paths: copy.paths(),
                    state: copy.state,
                    is_directory: copy.files.is_some(),
                },
                keep: KeptFile {
                    path: name.path.clone(),
                    state: kept.state,
                },
                why: reason.clone(),
                own_bytes: copy.own_bytes,
            });
        }
    }
    choice.steps.sort_by(|one, other| one.file.paths.cmp(&other.file.paths));
    choice
}

/// Which of two files the first rule prefers that does not treat them alike.
fn by_rules(rules: &[Rule], one: &Copy, other: &Copy) -> Ordering {
    let by = |rule: &Rule| match rule {
        Rule::Order(order) => by_order(*order, one, other),
        // False for both if it is a number.
        _ => rule.protects(&other.names).cmp(&rule.protects(&one.names)),
    };
    let found = rules.iter().map(by).find(|found| found.is_ne());
    found.unwrap_or(Ordering::Equal)
}

fn by_order(order: KeepOrder, one: &Copy, other: &Copy) -> Ordering {
    let modified = one.state.modified_ns.cmp(&other.state.modified_ns);
    let length = |name: &CopyName| name.path.as_os_str().len();
    match order {
        KeepOrder::Oldest => modified,
        KeepOrder::Newest => modified.reverse(),
        KeepOrder::Shortest => one.least(length).cmp(&other.least(length)),
        KeepOrder::Longest => {
            let longest = |name: &CopyName| Reverse(length(name));
            one.least(longest).cmp(&other.least(longest))
        }
        KeepOrder::First => {
            let first = |copy: &Copy| copy.least(|name| (name.root, name.path.clone()));
            first(one).cmp(&first(other))
        }
    }
}

fn by_path(one: &Copy, other: &Copy) -> Ordering {
    let path = |copy: &Copy| copy.least(|name| bytes_of(&name.path).to_vec());
    path(one).cmp(&path(other))
}

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

#[cfg(test)]
mod tests;
