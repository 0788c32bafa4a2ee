//! Which files of a group stay, why, and what is done with the others; and with the directories that this leaves empty.
//!
//! The rules are one order of preference, the first rule first: a pattern prefers the files that it matches. The best file stays,
//! and so does every file that a pattern matches, wherever the pattern stands. At least one file stays in any case.
//!
//! Not here: what rules are (`rules`), finding out what a file is (`copies`), and acting.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use seekless_engine::files::{FileId, FileState};
use seekless_sys::Directory;

use super::copies::{Copy, CopyPlaces, SearchOrigin};
use super::rules::{CopyName, KeepOrder, Rule};
use super::{ActedOn, Action, KeepReason, KeptFile, RefusalReason, Step, of_kept};
use crate::dupes::EqualFiles;

/// A file that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCopy {
    /// All its names.
    pub paths: Vec<PathBuf>,
    /// Why it stays.
    pub why: KeepReason,
}

/// What is done with a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChoice {
    /// The size of each file.
    pub bytes: u64,
    /// Files that stay, those that others rely on first.
    pub kept: Vec<KeptCopy>,
    /// The steps.
    pub steps: Vec<Step>,
    /// The space of files that stay because links cannot cross file systems.
    pub apart_bytes: u64,
}

/// A file, or a line of a plan, that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPart {
    /// Where a plan has it, as in `line 3`; else empty.
    pub place: String,
    /// The file, if the line names one.
    pub path: Option<PathBuf>,
    /// Why.
    pub why: RefusalReason,
}

/// What is to be done with all groups.
#[derive(Clone, Debug, Default)]
pub struct ActPlan {
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

impl ActPlan {
    /// Decides for each group.
    #[must_use]
    pub fn of_groups(action: &Action, rules: &[Rule], origin: &SearchOrigin, groups: &[EqualFiles]) -> Self {
        let of_names: Vec<EqualFiles>;
        let groups = if *action == Action::Names {
            of_names = groups.iter().flat_map(EqualFiles::names_apart).collect();
            &of_names
        } else {
            groups
        };
        let mut chosen = Self::default();
        let (mut places, mut conflicts) = (CopyPlaces::new(origin, action), Conflicts::default());
        let mut unmatched: Vec<&Rule> = rules.iter().filter(|rule| rule.is_pattern()).collect();
        for group in groups {
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
            for (path, why) in gone {
                chosen.refuse(&path, why);
            }
            let mut choice = choose(&copies, rules, action.is_on_one_file_system());
            if *action == Action::Names {
                choice.join();
            }
            choice.steps.retain(|step| {
                let added = conflicts.add(action, step);
                added.map_err(|why| chosen.refuse(&step.file.paths[0], why)).is_ok()
            });
            chosen.apart_bytes += choice.apart_bytes;
            if choice.steps.is_empty() {
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
}

/// Decides which of several equal files stay. With `is_linked`, a file and the one kept for it are on the same file system.
#[must_use]
pub fn choose(copies: &[Copy], rules: &[Rule], is_linked: bool) -> GroupChoice {
    let (order, mut reasons) = staying(copies, rules);
    // The copy that the others rely on: the best of all, or of each file system.
    let device = |number: usize| if is_linked { copies[number].file_system } else { 0 };
    let mut keepers = HashMap::new();
    for among in [false, true].map(|is_poor| order.iter().filter(move |number| copies[**number].is_poor() == is_poor)) {
        for &number in among.clone().filter(|number| reasons[**number].is_some()) {
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
                why: reason.clone(),
            });
            continue;
        }
        let kept = keepers.get(&device(number)).and_then(|&keeper| {
            let reason = reasons[keeper].as_ref()?;
            Some((&copies[keeper], copies[keeper].best_name()?, reason))
        });
        choice.steps.extend(kept.map(|(kept, name, reason)| Step {
            file: ActedOn {
                paths: copy.paths(),
                state: copy.state,
                is_directory: false,
            },
            keep: KeptFile {
                path: name.path.clone(),
                state: kept.state,
            },
            why: reason.clone(),
            own_bytes: copy.own_bytes,
        }));
    }
    choice.steps.sort_by(|one, other| one.file.paths.cmp(&other.file.paths));
    choice
}

/// The numbers of copies, those that count and those that others are to rely on first; and why some stay, wherever they are.
fn staying(copies: &[Copy], rules: &[Rule]) -> (Vec<usize>, Vec<Option<KeepReason>>) {
    let protected = |copy: &Copy| {
        let rule = rules.iter().find(|rule| rule.protects(&copy.names));
        let fixed = copy.fixed.clone();
        fixed.or_else(|| rule.map(|rule| KeepReason::Rule(rule.to_string())))
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
    let first = rules.iter().find(|rule| matches!(rule, Rule::Order(_)));
    if let Some(&best) = order.first() {
        let read_only = copies[best].is_read_only.then_some(KeepReason::ReadOnly);
        let why = read_only.or_else(|| first.map(|first| KeepReason::Rule(first.to_string())));
        reasons[best] = reasons[best].take().or(why);
    }
    let least = rules.iter().filter_map(Rule::at_least).max().unwrap_or(1);
    // Copies that count come first. The others are taken only if there are too few of those.
    order.sort_by_key(|number| copies[*number].is_poor());
    let poor = order.partition_point(|number| !copies[*number].is_poor());
    for among in [&order[..poor], &order[..]] {
        let staying = among.iter().filter(|number| reasons[**number].is_some()).count();
        let mut missing = least.saturating_sub(staying);
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
    (order, reasons)
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

/// Steps that do not contradict each other.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    acted_on: HashSet<FileId>,
    kept: HashSet<FileId>,
    /// Paths that are acted on, or kept.
    paths: HashMap<PathBuf, FileId>,
}

impl Conflicts {
    /// Adds a step.
    ///
    /// # Errors
    /// How it contradicts an earlier one. It is not added.
    pub fn add(&mut self, action: &Action, step: &Step) -> Result<(), RefusalReason> {
        let (file, keep) = (step.file.state.id(), step.keep.state.id());
        let paths = step.file.paths.iter().map(|path| (path, file));
        let named = paths.chain([(&step.keep.path, keep)]);
        let is_other = |(path, id): (&PathBuf, FileId)| self.paths.get(path).is_some_and(|known| *known != id);
        // Of names that are removed, the file stays by another.
        let keeps_itself = match action {
            Action::Names => file != keep || step.file.paths.contains(&step.keep.path),
            _ => file == keep,
        };
        let why = if keeps_itself {
            RefusalReason::IsKept(step.keep.path.clone())
        } else if self.acted_on.contains(&file) {
            RefusalReason::Already("acted on")
        } else if self.kept.contains(&file) {
            RefusalReason::Already("kept")
        } else if self.acted_on.contains(&keep) {
            of_kept(&step.keep.path)(RefusalReason::Already("acted on"))
        } else if named.clone().any(is_other) {
            RefusalReason::OtherFile
        } else {
            self.acted_on.insert(file);
            self.kept.insert(keep);
            self.paths.extend(named.map(|(path, id)| (path.clone(), id)));
            return Ok(());
        };
        Err(why)
    }
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
            emptied.push(Step {
                file: ActedOn {
                    paths: vec![path],
                    state: own,
                    is_directory: true,
                },
                keep: KeptFile {
                    path: keep,
                    state: kept,
                },
                why: KeepReason::Emptied,
                own_bytes: 0,
            });
        }
    }
    emptied
}

/// Whether a directory can be read, and has no other entries.
fn has_only(directory: &Path, paths: &HashSet<PathBuf>) -> bool {
    let names = Directory::open(directory).and_then(|open| open.names());
    names.is_ok_and(|names| names.iter().all(|name| paths.contains(&directory.join(name))))
}

#[cfg(test)]
mod tests;
