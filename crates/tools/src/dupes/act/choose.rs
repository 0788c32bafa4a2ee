//! Which files, or directories, of a group stay, why, and what is done with the others.
//!
//! A file stays if any rule says so. At least one stays in any case.
//!
//! Not here: what rules are (`rules`), finding out what a file is (`copies`), and acting.

use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use seekless::files::FileState;

use super::copies::CopyPlaces;
use super::directory::steps_of;
use super::origin::SearchOrigin;
use super::plan::Agreed;
use super::report::RefusedPart;
use super::rules::{CopyName, KeepOrder, Rule};
use super::{ActedOn, Action, KeptFile, Refused, Step};
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

/// Why a file stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is not acted on at all.
    Fixed(Fixed),
    /// A rule, as it was written.
    Rule(String),
    /// No other rule keeps a copy that counts.
    LastCopy,
    /// No other copy stays on its file system, and links cannot cross file systems.
    LastThere,
}

impl fmt::Display for Reason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Fixed(Fixed::Reference) => "reference",
            Self::Fixed(Fixed::Link) => "behind a symbolic link",
            Self::Fixed(Fixed::Moved) => "moved already",
            Self::Fixed(Fixed::Whole) => "in a directory that stays",
            Self::Fixed(Fixed::Target) => "holds the directory to move to",
            Self::Rule(rule) => rule,
            Self::LastCopy => "last copy",
            Self::LastThere => "last copy on this file system",
        })
    }
}

/// What is done with a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChoice {
    /// The size of each file.
    pub bytes: u64,
    /// The files in each, if they are directories.
    pub files: Option<u64>,
    /// Files that stay, by all their names, and why.
    pub kept: Vec<(Vec<PathBuf>, String)>,
    /// Directories that do not stay as they are, and why one is left alone.
    pub directories: Vec<(PathBuf, Option<Refused>)>,
    /// The steps, those for the files of directories included.
    pub steps: Vec<Step>,
}

/// What is to be done with all groups.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// What is done with groups in which not every file stays.
    pub choices: Vec<GroupChoice>,
    /// Groups in which every file stays.
    pub whole: u64,
    /// Files that cannot be acted on.
    pub refused: Vec<RefusedPart>,
    /// Rules that keep none of these files, perhaps because they are mistyped.
    pub unmatched: Vec<Rule>,
}

impl Chosen {
    /// Decides for each group.
    #[must_use]
    pub fn of_groups(action: &Action, rules: &[Rule], origin: &SearchOrigin, groups: &[EqualFiles]) -> Self {
        let mut groups: Vec<&EqualFiles> = groups.iter().collect();
        // A directory comes before the files and directories in it.
        let nodes = |group: &EqualFiles| {
            let contents = group.files.first().and_then(|first| first.contents);
            contents.map_or(0, |contents| contents.files.saturating_add(contents.directories))
        };
        groups.sort_by_key(|group| Reverse(nodes(group)));
        let mut chosen = Self::default();
        let (mut going, mut staying) = (HashSet::new(), HashSet::new());
        let (mut places, mut agreed) = (CopyPlaces::new(origin), Agreed::default());
        let mut unmatched: Vec<&Rule> = rules.iter().filter(|rule| rule.is_pattern()).collect();
        for group in &groups {
            let (mut copies, gone) = places.copies(group);
            unmatched.retain(|rule| !copies.iter().any(|copy| rule.protects(&copy.names)));
            if let Action::Move { to } = action {
                for copy in &mut copies {
                    copy.stay_below(to);
                }
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
                staying.extend(choice.kept.iter().map(|(paths, _)| paths[0].clone()));
                choice.spread(action);
            }
            choice.steps.retain(|step| {
                let added = agreed.add(step);
                added.map_err(|why| chosen.refuse(&step.file.paths[0], why)).is_ok()
            });
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

    /// The steps of a plan that was read back.
    #[must_use]
    pub fn of_steps(steps: &[Step], refused: Vec<RefusedPart>) -> Self {
        let by_keep = steps.chunk_by(|one, other| {
            one.file.is_directory == other.file.is_directory
                && (one.file.is_directory || one.keep.path == other.keep.path)
        });
        let choice = |steps: &[Step]| {
            let first = steps.first().filter(|step| !step.file.is_directory);
            let kept = first.map(|first| (vec![first.keep.path.clone()], first.why.clone()));
            GroupChoice {
                bytes: first.map_or(0, |first| first.file.state.bytes),
                kept: kept.into_iter().collect(),
                steps: steps.to_vec(),
                ..GroupChoice::default()
            }
        };
        Self {
            choices: by_keep.map(choice).collect(),
            refused,
            ..Self::default()
        }
    }

    /// All steps.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.choices.iter().flat_map(|choice| &choice.steps)
    }

    fn refuse(&mut self, path: &Path, why: Refused) {
        self.refused.push(RefusedPart {
            place: String::new(),
            path: Some(path.to_owned()),
            why,
        });
    }
}

impl GroupChoice {
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

    /// The name to rely on.
    fn best_name(&self) -> Option<&CopyName> {
        self.names.iter().min_by_key(|name| (name.is_poor, &name.path))
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
            .map(Reason::Fixed)
            .or_else(|| rule.map(|rule| Reason::Rule(rule.to_string())))
    };
    let mut reasons: Vec<Option<Reason>> = copies.iter().map(protected).collect();
    let orders: Vec<KeepOrder> = rules.iter().filter_map(Rule::order).collect();
    let mut order: Vec<usize> = (0..copies.len()).collect();
    order.sort_by(|&one, &other| {
        by_orders(&orders, &copies[one], &copies[other])
            .then_with(|| reasons[one].is_none().cmp(&reasons[other].is_none()))
            .then_with(|| by_path(&copies[one], &copies[other]))
    });
    if let (Some(first), Some(&best)) = (orders.first(), order.first()) {
        reasons[best].get_or_insert_with(|| Reason::Rule(first.name().to_owned()));
    }
    let least = rules.iter().filter_map(Rule::at_least).max().unwrap_or(1);
    // Copies that count come first. The others are taken only if there are too few of those.
    order.sort_by_key(|number| copies[*number].is_poor());
    let poor = order.partition_point(|number| !copies[*number].is_poor());
    let staying = |reasons: &[Option<Reason>], among: &[usize]| {
        let stays = |number: &&usize| reasons[**number].is_some();
        among.iter().filter(stays).count()
    };
    for among in [&order[..poor], &order[..]] {
        let mut missing = least.saturating_sub(staying(&reasons, among));
        for &number in among {
            if missing > 0 && reasons[number].is_none() {
                missing -= 1;
                reasons[number] = Some(match least {
                    1 => Reason::LastCopy,
                    least => Reason::Rule(Rule::AtLeast(least).to_string()),
                });
            }
        }
    }
    // The copy that the others rely on: the best of all, or of each file system.
    let device = |number: usize| if is_linked { copies[number].state.device } else { 0 };
    let mut keepers = HashMap::new();
    for among in [&order[..poor], &order[poor..]] {
        for &number in among.iter().filter(|number| reasons[**number].is_some()) {
            keepers.entry(device(number)).or_insert(number);
        }
        for &number in among {
            keepers.entry(device(number)).or_insert_with(|| {
                reasons[number] = Some(Reason::LastThere);
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
            let mut paths: Vec<_> = copy.names.iter().map(|name| name.path.clone()).collect();
            paths.sort();
            choice.kept.push((paths, reason.to_string()));
            continue;
        }
        let kept = keepers.get(&device(number)).and_then(|&keeper| {
            let reason = reasons[keeper].as_ref()?;
            Some((&copies[keeper], copies[keeper].best_name()?, reason))
        });
        if let Some((kept, name, reason)) = kept {
            let mut paths: Vec<_> = copy.names.iter().map(|name| name.path.clone()).collect();
            paths.sort();
            choice.steps.push(Step {
                file: ActedOn {
                    paths,
                    state: copy.state,
                    is_directory: copy.files.is_some(),
                },
                keep: KeptFile {
                    path: name.path.clone(),
                    state: kept.state,
                },
                why: reason.to_string(),
                own_bytes: copy.own_bytes,
            });
        }
    }
    choice.steps.sort_by(|one, other| one.file.paths.cmp(&other.file.paths));
    choice
}

fn by_orders(orders: &[KeepOrder], one: &Copy, other: &Copy) -> Ordering {
    let by = |order: &KeepOrder| {
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
    };
    orders
        .iter()
        .map(by)
        .find(|found| found.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn by_path(one: &Copy, other: &Copy) -> Ordering {
    let path = |copy: &Copy| copy.least(|name| bytes_of(&name.path).to_vec());
    path(one).cmp(&path(other))
}

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;

    fn rule(text: &str) -> Rule {
        Rule::parse(text.as_ref()).unwrap()
    }

    fn rules(texts: &[&str]) -> Vec<Rule> {
        texts.iter().map(|text| rule(text)).collect()
    }

    fn copy(inode: u64, modified_ns: i64, paths: &[&str]) -> Copy {
        let name = |path: &&str| CopyName {
            path: path.into(),
            given: Path::new(path).strip_prefix("/work").unwrap_or(Path::new(path)).into(),
            root: 0,
            is_poor: false,
        };
        Copy {
            names: paths.iter().map(name).collect(),
            state: FileState {
                device: 1,
                inode,
                bytes: 5,
                modified_ns,
                changed_ns: modified_ns,
            },
            files: None,
            own_bytes: 4096,
            fixed: None,
        }
    }

    /// What stays of three files: `path why`, in the order of the paths.
    fn kept(copies: &[Copy], texts: &[&str]) -> Vec<String> {
        let choice = choose(copies, &rules(texts), false);
        let each = |(paths, why): &(Vec<PathBuf>, String)| -> Vec<String> {
            paths.iter().map(|path| format!("{} {why}", path.display())).collect()
        };
        let mut kept: Vec<_> = choice.kept.iter().flat_map(each).collect();
        kept.sort();
        kept
    }

    fn three() -> Vec<Copy> {
        vec![
            copy(1, 20, &["/work/b/long-name"]),
            copy(2, 30, &["/work/a/x.raw"]),
            copy(3, 10, &["/work/c"]),
        ]
    }

    #[test]
    fn an_order_keeps_its_first_file() {
        for (text, path) in [
            ("newest", "/work/a/x.raw"),
            ("oldest", "/work/c"),
            ("shortest", "/work/c"),
            ("longest", "/work/b/long-name"),
            ("first", "/work/a/x.raw"),
        ] {
            assert_eq!(kept(&three(), &[text]), [format!("{path} {text}")]);
        }
        let mut copies = three();
        copies[1].names[0].root = 1;
        assert_eq!(kept(&copies, &["first"]), ["/work/b/long-name first"]);
    }

    #[test]
    fn ties_are_decided_by_the_next_order_then_by_what_stays_anyway_then_by_path() {
        let mut copies = three();
        for copy in &mut copies {
            copy.state.modified_ns = 7;
        }
        assert_eq!(kept(&copies, &["newest", "shortest"]), ["/work/c newest"]);
        assert_eq!(kept(&copies, &["newest"]), ["/work/a/x.raw newest"]);
        assert_eq!(kept(&copies, &["newest", "name:c"]), ["/work/c name:c"]);
    }

    #[test]
    fn every_file_that_a_rule_protects_stays() {
        for (texts, expected) in [
            (&["name:*.raw"][..], &["/work/a/x.raw name:*.raw"][..]),
            (&["path:b/*"], &["/work/b/long-name path:b/*"]),
            (&["path:./b/*"], &["/work/b/long-name path:./b/*"]),
            (&["path:/work/*"], &["/work/c path:/work/*"]),
            (
                &["path:/work/*/*"],
                &["/work/a/x.raw path:/work/*/*", "/work/b/long-name path:/work/*/*"],
            ),
            (
                &["not-under:/work/b"],
                &["/work/a/x.raw not-under:/work/b", "/work/c not-under:/work/b"],
            ),
            (&["not-under /work"], &["/work/a/x.raw last copy"]),
            (
                &["oldest", "name:*.raw"],
                &["/work/a/x.raw name:*.raw", "/work/c oldest"],
            ),
            (
                &["at-least 2", "oldest"],
                &["/work/b/long-name at-least:2", "/work/c oldest"],
            ),
            (
                &["at-least:2", "path:**"],
                &["/work/a/x.raw path:**", "/work/b/long-name path:**", "/work/c path:**"],
            ),
        ] {
            assert_eq!(kept(&three(), texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn a_directory_is_no_prefix_of_another_with_a_longer_name() {
        let copies = [copy(1, 1, &["/work/b/x"]), copy(2, 1, &["/work/bb/x"])];
        assert_eq!(kept(&copies, &["not-under:/work/b"]), ["/work/bb/x not-under:/work/b"]);
    }

    #[test]
    fn names_of_one_file_stay_or_go_together() {
        let copies = [
            copy(1, 1, &["/work/a", "/work/z.raw"]),
            copy(2, 2, &["/work/b", "/work/c"]),
        ];
        assert_eq!(
            kept(&copies, &["name:*.raw"]),
            ["/work/a name:*.raw", "/work/z.raw name:*.raw"]
        );
        let choice = choose(&copies, &rules(&["newest"]), true);
        assert_eq!(choice.steps.len(), 1);
        assert_eq!(
            choice.steps[0].file.paths,
            [Path::new("/work/a"), Path::new("/work/z.raw")]
        );
        assert_eq!(choice.steps[0].keep.path, Path::new("/work/b"));
    }

    #[test]
    fn a_copy_that_does_not_count_is_not_the_last() {
        let mut copies = three();
        copies[1].names[0].is_poor = true;
        assert_eq!(
            kept(&copies, &["newest"]),
            ["/work/a/x.raw newest", "/work/b/long-name last copy"]
        );
        // The others rely on the one that counts.
        let choice = choose(&copies, &rules(&["newest"]), false);
        assert_eq!(choice.steps[0].keep.path, Path::new("/work/b/long-name"));
        for copy in &mut copies {
            copy.names[0].is_poor = true;
        }
        assert_eq!(kept(&copies, &["newest"]), ["/work/a/x.raw newest"]);
    }

    #[test]
    fn a_reference_stays_and_is_enough() {
        let mut copies = three();
        copies[2].fixed = Some(Fixed::Reference);
        assert_eq!(kept(&copies, &[]), ["/work/c reference"]);
        assert_eq!(
            kept(&copies, &["newest"]),
            ["/work/a/x.raw newest", "/work/c reference"]
        );
        copies[2].names[0].is_poor = true;
        assert_eq!(kept(&copies, &[]), ["/work/a/x.raw last copy", "/work/c reference"]);
    }

    #[test]
    fn links_need_a_copy_on_each_file_system() {
        let mut copies = three();
        copies[2].state.device = 2;
        let choice = choose(&copies, &rules(&["oldest"]), true);
        let kept: Vec<_> = choice.kept.iter().map(|(_, why)| why.as_str()).collect();
        assert_eq!(kept, ["oldest", "last copy on this file system"]);
        assert_eq!(choice.steps.len(), 1);
        assert_eq!(choice.steps[0].keep.path, Path::new("/work/b/long-name"));
        assert_eq!(choose(&copies, &rules(&["oldest"]), false).steps.len(), 2);
    }

    fn some_rule() -> impl Strategy<Value = Rule> {
        prop_oneof![
            Just("newest"),
            Just("oldest"),
            Just("shortest"),
            Just("longest"),
            Just("first"),
            Just("name:a*"),
            Just("path:/d0/**"),
            Just("not-under:/d1"),
            Just("at-least:2"),
            Just("at-least:3"),
        ]
        .prop_map(|text| Rule::parse(text.as_ref()).unwrap())
    }

    fn some_copies() -> impl Strategy<Value = Vec<Copy>> {
        let name = (0..3_u32, "[ab]{1,3}", prop::bool::weighted(0.3));
        let copy = (
            prop::collection::vec(name, 1..3),
            1..3_u64,
            0..3_i64,
            prop_oneof![4 => Just(None), 1 => Just(Some(Fixed::Reference)), 1 => Just(Some(Fixed::Link))],
        );
        prop::collection::vec(copy, 1..6).prop_map(|all| {
            let copies = all
                .into_iter()
                .enumerate()
                .map(|(number, (names, device, modified_ns, fixed))| {
                    let name = |(at, (root, name, is_poor)): (usize, (u32, String, bool))| CopyName {
                        path: format!("/d{root}/{name}{number}{at}").into(),
                        given: format!("d{root}/{name}{number}{at}").into(),
                        root,
                        is_poor,
                    };
                    Copy {
                        names: names.into_iter().enumerate().map(name).collect(),
                        state: FileState {
                            device,
                            inode: number as u64,
                            bytes: 3,
                            modified_ns,
                            changed_ns: 0,
                        },
                        files: None,
                        own_bytes: 1,
                        fixed,
                    }
                });
            copies.collect()
        })
    }

    proptest! {
        #[test]
        fn whatever_the_rules_a_copy_that_counts_stays_and_each_step_relies_on_one_that_stays(
            copies in some_copies(),
            rules in prop::collection::vec(some_rule(), 0..4),
            is_linked: bool,
        ) {
            let choice = choose(&copies, &rules, is_linked);
            let kept: HashSet<&Path> = choice.kept.iter().flat_map(|(paths, _)| paths).map(PathBuf::as_path).collect();
            let stays = |copy: &Copy| copy.names.iter().all(|name| kept.contains(name.path.as_path()));
            let goes = |copy: &Copy| copy.names.iter().all(|name| !kept.contains(name.path.as_path()));
            let least = rules.iter().filter_map(Rule::at_least).max().unwrap_or(1);
            let count = |test: &dyn Fn(&Copy) -> bool| copies.iter().filter(|copy| test(copy)).count();
            prop_assert!(count(&|copy| stays(copy) && !copy.is_poor()) >= least.min(count(&|copy| !copy.is_poor())));
            prop_assert!(count(&stays) >= least.min(copies.len()));
            for copy in &copies {
                prop_assert!(stays(copy) || goes(copy));
                let is_protected = copy.fixed.is_some() || rules.iter().any(|rule| rule.protects(&copy.names));
                prop_assert!(!is_protected || stays(copy));
            }
            if let Some(order) = rules.iter().find_map(Rule::order) {
                let best = copies.iter().min_by(|one, other| by_orders(&[order], one, other)).unwrap();
                let is_as_good = |copy: &Copy| by_orders(&[order], best, copy).is_eq() && stays(copy);
                prop_assert!(copies.iter().any(is_as_good));
            }
            prop_assert_eq!(choice.steps.len(), count(&goes));
            for step in &choice.steps {
                let target = copies.iter().find(|copy| copy.state == step.file.state).unwrap();
                let keeper = copies.iter().find(|copy| copy.state == step.keep.state).unwrap();
                prop_assert!(goes(target) && stays(keeper));
                prop_assert!(keeper.names.iter().any(|name| name.path == step.keep.path));
                prop_assert!(!is_linked || keeper.state.device == target.state.device);
                let counts = |copy: &Copy| stays(copy) && !copy.is_poor();
                let is_there = |copy: &Copy| !is_linked || copy.state.device == target.state.device;
                prop_assert!(!keeper.is_poor() || (target.is_poor() && !copies.iter().any(|copy| counts(copy) && is_there(copy))));
            }
            let mut turned = copies.clone();
            turned.reverse();
            prop_assert_eq!(choose(&turned, &rules, is_linked), choice);
        }
    }
}
