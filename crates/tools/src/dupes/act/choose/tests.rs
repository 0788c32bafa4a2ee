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
        is_again: false,
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
        own_bytes: 4096,
        fixed: None,
        file_system: 1,
        is_read_only: false,
    }
}

/// What stays of three files: `path why`, in the order of the paths.
fn kept(copies: &[Copy], texts: &[&str]) -> Vec<String> {
    let choice = choose(copies, &rules(texts), false);
    let each = |kept: &KeptCopy| -> Vec<String> {
        let names = kept.paths.iter();
        names.map(|path| format!("{} {}", path.display(), kept.why)).collect()
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

/// Fails unless these stay by these rules, and why; both are separated by commas.
fn stay(copies: &[Copy], texts: &str, expected: &str) {
    let texts: Vec<&str> = texts.split(", ").filter(|text| !text.is_empty()).collect();
    let expected: Vec<String> = expected.split(", ").map(|kept| format!("/work/{kept}")).collect();
    assert_eq!(kept(copies, &texts), expected, "{texts:?}");
}

#[test]
fn rules_say_which_files_stay_and_why() {
    for (texts, expected) in [
        // An order keeps its first file.
        ("newest", "a/x.raw newest"),
        ("oldest", "c oldest"),
        ("shortest", "c shortest"),
        ("longest", "b/long-name longest"),
        ("first", "a/x.raw first"),
        // Every file that a rule protects stays.
        ("name:*.raw", "a/x.raw name:*.raw"),
        ("path:b/*", "b/long-name path:b/*"),
        ("path:./b/*", "b/long-name path:./b/*"),
        ("path:/work/*", "c path:/work/*"),
        ("path:/work/*/*", "a/x.raw path:/work/*/*, b/long-name path:/work/*/*"),
        ("not-under:/work/b", "a/x.raw not-under:/work/b, c not-under:/work/b"),
        ("under:/work/b", "b/long-name under:/work/b"),
        ("not-under /work", "a/x.raw last copy"),
        ("at-least:2, path:**", "a/x.raw path:**, b/long-name path:**, c path:**"),
        // An order after a pattern decides only where the pattern matches nothing.
        ("name:*.raw, oldest", "a/x.raw name:*.raw"),
        ("oldest, name:*.raw", "a/x.raw name:*.raw, c oldest"),
        ("name:*.jpg, oldest", "c oldest"),
        ("path:b, oldest, name:*.raw", "a/x.raw name:*.raw, b/long-name path:b"),
        ("at-least:2, path:b, oldest", "b/long-name path:b, c at-least:2"),
        ("at-least 2, oldest", "b/long-name at-least:2, c oldest"),
        ("newest, under:/work/b", "a/x.raw newest, b/long-name under:/work/b"),
        (
            "not-under:/work/c, newest",
            "a/x.raw not-under:/work/c, b/long-name not-under:/work/c",
        ),
        (
            "under:/work/c, newest, under:/work/b",
            "b/long-name under:/work/b, c under:/work/c",
        ),
    ] {
        stay(&three(), texts, expected);
    }
    // The others rely on the one that the first rule prefers.
    let choice = choose(&three(), &rules(&["path:b", "path:a"]), false);
    assert_eq!(choice.steps[0].keep.path, Path::new("/work/b/long-name"));
    let mut copies = three();
    copies[1].names[0].root = 1;
    assert_eq!(kept(&copies, &["first"]), ["/work/b/long-name first"]);
}

#[test]
fn a_directory_is_no_prefix_of_another_with_a_longer_name() {
    let copies = [copy(1, 1, &["/work/b/x"]), copy(2, 1, &["/work/bb/x"])];
    assert_eq!(kept(&copies, &["not-under:/work/b"]), ["/work/bb/x not-under:/work/b"]);
    assert_eq!(kept(&copies, &["under:/work/b"]), ["/work/b/x under:/work/b"]);
}

#[test]
fn ties_references_and_copies_that_do_not_count_decide_what_stays() {
    type Change = fn(&mut Copy);
    let tied: Change = |copy| copy.state.modified_ns = 7;
    let referred: Change = |copy| copy.fixed = Some(KeepReason::Reference);
    let poor: Change = |copy| copy.names[0].is_poor = true;
    let all_tied = [(0, tied), (1, tied), (2, tied)];
    for (changes, texts, expected) in [
        // Ties are decided by the next rule, then by what stays anyway, then by path.
        (&all_tied[..], "newest, shortest", "c newest"),
        (&all_tied, "newest", "a/x.raw newest"),
        (&all_tied, "newest, name:c", "c name:c"),
        (
            &[all_tied[0], all_tied[1], all_tied[2], (2, referred)],
            "newest",
            "c reference",
        ),
        // A reference is enough.
        (&[(2, referred)], "", "c reference"),
        (&[(2, referred)], "newest", "a/x.raw newest, c reference"),
        (&[(2, referred), (2, poor)], "", "a/x.raw last copy, c reference"),
        // A copy that does not count is not the last.
        (&[(1, poor)], "newest", "a/x.raw newest, b/long-name last copy"),
        (&[(0, poor), (1, poor), (2, poor)], "newest", "a/x.raw newest"),
    ] {
        let mut copies = three();
        for (number, change) in changes {
            change(&mut copies[*number]);
        }
        stay(&copies, texts, expected);
    }
    // The others rely on the one that counts.
    let mut copies = three();
    poor(&mut copies[1]);
    let choice = choose(&copies, &rules(&["newest"]), false);
    assert_eq!(choice.steps[0].keep.path, Path::new("/work/b/long-name"));
}

#[test]
fn links_need_a_copy_on_each_file_system() {
    let mut copies = three();
    copies[2].file_system = 2;
    let choice = choose(&copies, &rules(&["oldest"]), true);
    let kept: Vec<_> = choice.kept.iter().map(|kept| kept.why.to_string()).collect();
    assert_eq!(kept, ["oldest", "last copy on this file system"]);
    assert_eq!(choice.steps.len(), 1);
    assert_eq!(choice.steps[0].keep.path, Path::new("/work/b/long-name"));
    assert_eq!(choice.apart_bytes, 4096);
    assert_eq!(choose(&copies, &rules(&["oldest"]), false).steps.len(), 2);
}

#[test]
fn a_copy_that_cannot_be_changed_is_the_one_whose_blocks_the_others_share() {
    let mut copies = three();
    copies[1].is_read_only = true;
    assert_eq!(kept(&copies, &["oldest"]), ["/work/a/x.raw read-only"]);
    assert_eq!(
        kept(&copies, &["under:/work/c"]),
        ["/work/a/x.raw read-only", "/work/c under:/work/c"]
    );
}

fn some_rule() -> impl Strategy<Value = Rule> {
    let all = "newest oldest shortest longest first name:a* path:/d0/** under:/d2 not-under:/d1 at-least:2 at-least:3";
    prop::sample::select(rules(&all.split(' ').collect::<Vec<_>>()))
}

fn some_copies() -> impl Strategy<Value = Vec<Copy>> {
    let name = (0..3_u32, "[ab]{1,3}", prop::bool::weighted(0.3));
    let copy = (
        prop::collection::vec(name, 1..3),
        1..3_u64,
        0..3_i64,
        prop_oneof![4 => Just(None), 1 => Just(Some(KeepReason::Reference)), 1 => Just(Some(KeepReason::Link))],
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
                    is_again: false,
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
                    own_bytes: 1,
                    fixed,
                    file_system: device,
                    is_read_only: false,
                }
            });
        copies.collect()
    })
}

/// The files that the rules prefer, the best first: of those that are left, each rule drops those that it does not prefer.
fn ranked<'a>(copies: &'a [Copy], rules: &[Rule]) -> Vec<&'a Copy> {
    let mut rest: Vec<&Copy> = copies.iter().collect();
    let mut ranked = Vec::new();
    while !rest.is_empty() {
        let mut best = rest.clone();
        let mut narrow = |is_preferred: &dyn Fn(&Copy) -> bool| {
            if best.iter().any(|copy| is_preferred(copy)) {
                best.retain(|copy| is_preferred(copy));
            }
            best.clone()
        };
        for rule in rules {
            let left = narrow(&|_| true);
            let lengths =
                |copy: &Copy| -> Vec<usize> { copy.names.iter().map(|name| name.path.as_os_str().len()).collect() };
            let first = |copy: &Copy| copy.names.iter().map(|name| (name.root, name.path.clone())).min();
            let is_better: &dyn Fn(&Copy, &Copy) -> bool = match rule {
                Rule::AtLeast(_) => continue,
                Rule::Order(KeepOrder::Newest) => &|one, other| one.state.modified_ns > other.state.modified_ns,
                Rule::Order(KeepOrder::Oldest) => &|one, other| one.state.modified_ns < other.state.modified_ns,
                Rule::Order(KeepOrder::Shortest) => {
                    &|one, other| lengths(one).iter().min() < lengths(other).iter().min()
                }
                Rule::Order(KeepOrder::Longest) => {
                    &|one, other| lengths(one).iter().max() > lengths(other).iter().max()
                }
                Rule::Order(KeepOrder::First) => &|one, other| first(one) < first(other),
                pattern => &|one, other| pattern.protects(&one.names) && !pattern.protects(&other.names),
            };
            narrow(&|copy| !left.iter().any(|other| is_better(other, copy)));
        }
        let is_safe = |copy: &Copy| copy.fixed.is_some() || rules.iter().any(|rule| rule.protects(&copy.names));
        narrow(&is_safe);
        let path = |copy: &&Copy| copy.names.iter().map(|name| name.path.as_os_str().to_owned()).min();
        let chosen = best.into_iter().min_by_key(path).unwrap();
        rest.retain(|copy| copy.state != chosen.state);
        ranked.push(chosen);
    }
    ranked
}

/// What stays, by inode: what is protected, the best if there is an order, and as many more as there must be, first of those that
/// count.
fn staying(copies: &[Copy], rules: &[Rule]) -> HashSet<u64> {
    let ranked = ranked(copies, rules);
    let is_best =
        |copy: &Copy| rules.iter().any(|rule| matches!(rule, Rule::Order(_))) && copy.state == ranked[0].state;
    let stays =
        |copy: &&&Copy| copy.fixed.is_some() || is_best(copy) || rules.iter().any(|rule| rule.protects(&copy.names));
    let mut staying: HashSet<u64> = ranked.iter().filter(stays).map(|copy| copy.state.inode).collect();
    let least = rules.iter().filter_map(Rule::at_least).max().unwrap_or(1);
    for counts in [true, false] {
        let among = ranked.iter().filter(|copy| !counts || !copy.is_poor());
        let among: Vec<u64> = among.map(|copy| copy.state.inode).collect();
        for inode in &among {
            if among.iter().filter(|inode| staying.contains(inode)).count() < least {
                staying.insert(*inode);
            }
        }
    }
    staying
}

proptest! {
    #[test]
    fn whatever_the_rules_a_copy_that_counts_stays_and_each_step_relies_on_one_that_stays(
        copies in some_copies(),
        rules in prop::collection::vec(some_rule(), 0..4),
        is_linked: bool,
    ) {
        let choice = choose(&copies, &rules, is_linked);
        let kept: HashSet<&Path> = choice.kept.iter().flat_map(|kept| &kept.paths).map(PathBuf::as_path).collect();
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
        if !is_linked {
            let expected = staying(&copies, &rules);
            let inodes: HashSet<u64> = copies.iter().filter(|copy| stays(copy)).map(|copy| copy.state.inode).collect();
            prop_assert_eq!(inodes, expected);
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

/// A step for a file, by inode numbers.
fn step(file: u64, keep: u64) -> Step {
    let state = |inode| FileState {
        device: 1,
        inode,
        bytes: 1,
        modified_ns: 0,
        changed_ns: 0,
    };
    Step {
        file: ActedOn {
            paths: vec![format!("/{file}").into()],
            state: state(file),
            is_directory: false,
        },
        keep: KeptFile {
            path: format!("/{keep}").into(),
            state: state(keep),
        },
        why: KeepReason::LastCopy,
        own_bytes: 9,
    }
}

#[test]
fn no_file_is_acted_on_twice_or_kept_and_acted_on() {
    let mut conflicts = Conflicts::default();
    assert_eq!(conflicts.add(&Action::Remove, &step(1, 2)), Ok(()));
    assert_eq!(conflicts.add(&Action::Remove, &step(3, 2)), Ok(()));
    for (file, keep, why) in [
        (4, 4, "it is the kept file"),
        (1, 5, "already acted on"),
        (2, 5, "already kept"),
        (2, 1, "already kept"),
        (4, 3, "the kept file /3: it is already acted on"),
    ] {
        let refused = conflicts
            .add(&Action::Remove, &step(file, keep))
            .unwrap_err()
            .to_string();
        assert!(refused.contains(why), "{file} {keep}: {refused}");
    }
    let mut other = step(6, 2);
    other.file.paths = vec!["/1".into()];
    assert!(conflicts.add(&Action::Remove, &other).is_err());
    assert_eq!(conflicts.add(&Action::Remove, &step(4, 5)), Ok(()));
}
