//! Moving whole directories, and undoing it: nothing is ever half moved, replaced or lost.

use super::super::directory::Tree as Listed;
use super::*;

/// A change that another program makes, and a part of the reason for which the directory is left alone then.
type Edit = (&'static str, fn(&Tree), &'static str);

fn seen_directory(path: &Path) -> Seen {
    Listed::of(path).unwrap().seen()
}

fn directory_step(path: &Path, keep: &Path) -> Step {
    Step {
        paths: vec![path.to_owned()],
        seen: seen_directory(path),
        keep: keep.to_owned(),
        keep_seen: seen_directory(keep),
        why: "first".into(),
    }
}

fn to_moved(tree: &Tree) -> Action {
    Action::Move { to: tree.path("moved") }
}

/// Equal directories `keep`, `deep/one` and `two`.
fn write_directories(tree: &Tree) {
    if tree.root().exists() {
        fs::remove_dir_all(tree.root()).unwrap();
    }
    fs::create_dir_all(tree.path("moved")).unwrap();
    for directory in ["keep", "deep/one", "two"] {
        let at = tree.path(directory);
        tree.write(at.join("a"), b"content of a");
        tree.write(at.join("sub/b"), &vec![7; 100_000]);
        tree.write(at.join("sub/c"), b"");
        fs::create_dir(at.join("empty")).unwrap();
        for file in ["a", "sub/b"] {
            age(&at.join(file), 7);
        }
    }
    tree.write("deep/other", b"precious");
}

pub(super) fn directory_steps(tree: &Tree) -> Vec<Step> {
    let keep = tree.path("keep");
    ["deep/one", "two"]
        .map(|one| directory_step(&tree.path(one), &keep))
        .into()
}

/// Does something before each rename, and expects that nothing is removed.
struct AtRename<F: Fn() + Sync>(F);

impl<F: Fn() + Sync> Watch for AtRename<F> {
    fn before(&self, step: &Watched<'_>) -> io::Result<()> {
        assert_ne!(step.kind, StepKind::Remove);
        if step.kind == StepKind::Rename {
            self.0();
        }
        Ok(())
    }
}

fn moved_to(tree: &Tree, path: &Path) -> PathBuf {
    tree.path("moved").join(path.strip_prefix("/").unwrap())
}

#[test]
fn a_directory_moves_by_one_rename_and_comes_back() {
    for tree in trees() {
        write_directories(&tree);
        let before = tree.snapshot();
        let steps = directory_steps(&tree);
        let renames = AtomicU64::new(0);
        let count = AtRename(|| {
            renames.fetch_add(1, Ordering::Relaxed);
        });
        let options = tree.options();
        assert_eq!(check(&to_moved(&tree), &steps, &options), []);
        let outcomes = tree.run_with(&to_moved(&tree), &steps, &options, &count).unwrap();
        assert!(outcomes.iter().all(is_done), "{outcomes:?}");
        assert_eq!(renames.load(Ordering::Relaxed), 2);
        for step in &steps {
            let there = moved_to(&tree, &step.paths[0]);
            assert!(!step.paths[0].exists());
            assert_eq!(seen_directory(&there), step.seen);
            // What is used meanwhile comes back, too.
            fs::write(there.join("new"), "new").unwrap();
        }
        let [journal] = &tree.journals()[..] else { panic!() };
        assert_eq!((journal.steps, journal.undone, journal.is_complete), (2, 0, true));
        let undone = tree.undo();
        assert!(
            undone.len() == 2 && undone.iter().all(|(_, undone)| *undone == Undone::Restored),
            "{undone:?}"
        );
        for step in &steps {
            fs::remove_file(step.paths[0].join("new")).unwrap();
        }
        assert_eq!(tree.snapshot(), before);
        assert_eq!(tree.undo(), [], "undone twice");
    }
}

/// Fails unless each directory is whole, in one of its places.
fn require_whole(tree: &Tree, seen: &[Seen; 3]) {
    for (name, seen) in ["keep", "deep/one", "two"].iter().zip(seen) {
        let path = tree.path(name);
        let places = [path.clone(), moved_to(tree, &path)];
        let found: Vec<&PathBuf> = places.iter().filter(|path| path.exists()).collect();
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(seen_directory(found[0]), *seen, "{name}");
    }
    assert!(tree.path("keep").exists());
}

#[test]
fn a_kill_at_any_step_leaves_whole_directories_which_undo_puts_back() {
    for tree in trees() {
        for job in ["run", "settle", "undo"] {
            for left in 0.. {
                write_directories(&tree);
                let seen = ["keep", "deep/one", "two"].map(|name| seen_directory(&tree.path(name)));
                let before = tree.snapshot();
                let was_killed = if job == "undo" {
                    tree.run(&to_moved(&tree), &directory_steps(&tree));
                    is_killed(&tree, 0, "undo", left)
                } else {
                    is_killed(&tree, 0, "directories", left)
                };
                require_whole(&tree, &seen);
                if job == "settle" {
                    is_killed(&tree, 0, "settle", left % 3);
                    require_whole(&tree, &seen);
                    tree.run(&Action::Remove, &[]);
                    require_whole(&tree, &seen);
                }
                if left % 2 == 1 {
                    renumber_devices(&tree);
                }
                tree.undo();
                assert_eq!(tree.snapshot(), before, "{job}, killed before change {left}");
                forget_all(&tree);
                if !was_killed {
                    println!("{job}: {left} changes");
                    break;
                }
            }
        }
    }
}

#[test]
fn a_second_run_completes_what_a_kill_left() {
    let tree = tree();
    for left in 0.. {
        write_directories(&tree);
        let was_killed = is_killed(&tree, 0, "directories", left);
        let rest = ["deep/one", "two"].map(|name| tree.path(name));
        let rest = rest.iter().filter(|path| path.exists());
        let steps: Vec<Step> = rest.map(|path| directory_step(path, &tree.path("keep"))).collect();
        let outcomes = tree.run(&to_moved(&tree), &steps);
        assert!(outcomes.iter().all(is_done), "{outcomes:?}");
        for name in ["deep/one", "two"] {
            assert!(moved_to(&tree, &tree.path(name)).join("sub/b").exists());
        }
        forget_all(&tree);
        if !was_killed {
            break;
        }
    }
}

#[test]
fn more_directories_than_a_batch_has_are_moved_and_come_back() {
    let tree = tree();
    fs::create_dir(tree.path("moved")).unwrap();
    for number in 0..50 {
        tree.write(format!("{number}/file"), b"same");
    }
    let before = tree.snapshot();
    let steps: Vec<Step> = (1..50)
        .map(|number| directory_step(&tree.path(number.to_string()), &tree.path("0")))
        .collect();
    let outcomes = tree.run(&to_moved(&tree), &steps);
    assert!(outcomes.iter().all(is_done), "{outcomes:?}");
    assert!(
        steps
            .iter()
            .all(|step| moved_to(&tree, &step.paths[0]).join("file").exists())
    );
    tree.undo();
    assert_eq!(tree.snapshot(), before);
}

/// What another program may have done since the search.
const EDITS: [Edit; 14] = [
    (
        "a file with its times put back",
        |tree| {
            fs::write(tree.path("two/a"), "Content of a").unwrap();
            age(&tree.path("two/a"), 7);
        },
        "added, removed or changed",
    ),
    ("a new file", |tree| drop(tree.write("two/sub/new", b"new")), "added"),
    ("an empty new file", |tree| drop(tree.write("two/new", b"")), "added"),
    (
        "a new directory",
        |tree| fs::create_dir(tree.path("two/new")).unwrap(),
        "added",
    ),
    (
        "a removed file",
        |tree| fs::remove_file(tree.path("two/a")).unwrap(),
        "removed",
    ),
    (
        "a renamed file",
        |tree| fs::rename(tree.path("two/a"), tree.path("two/aa")).unwrap(),
        "added, removed",
    ),
    (
        "an empty file that got bytes",
        |tree| fs::write(tree.path("two/sub/c"), "x").unwrap(),
        "changed",
    ),
    (
        "a link for a file",
        |tree| {
            fs::remove_file(tree.path("two/a")).unwrap();
            symlink("../keep/a", tree.path("two/a")).unwrap();
        },
        "is a symbolic link",
    ),
    (
        "a link for a directory in it",
        |tree| {
            fs::rename(tree.path("two/sub"), tree.path("elsewhere")).unwrap();
            symlink("../elsewhere", tree.path("two/sub")).unwrap();
        },
        "is a symbolic link",
    ),
    (
        "a link for the directory",
        |tree| {
            fs::rename(tree.path("two"), tree.path("elsewhere")).unwrap();
            symlink("elsewhere", tree.path("two")).unwrap();
        },
        "no longer a directory",
    ),
    (
        "a FIFO",
        |tree| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, tree.path("two/fifo"), kind, mode, 0).unwrap();
        },
        "is a FIFO",
    ),
    (
        "another directory with the same files",
        |tree| {
            fs::rename(tree.path("two"), tree.path("elsewhere")).unwrap();
            fs::create_dir(tree.path("two")).unwrap();
        },
        "not the directory that was searched",
    ),
    (
        "a file of the kept directory",
        |tree| fs::write(tree.path("keep/a"), "Content of a").unwrap(),
        "the kept directory",
    ),
    (
        "its name taken",
        |tree| drop(tree.write(moved_to(tree, &tree.path("two")), b"taken")),
        "exists",
    ),
];

#[test]
fn a_directory_that_is_not_what_was_searched_is_left_alone() {
    for tree in trees() {
        for (what, edit, reason) in EDITS {
            write_directories(&tree);
            let steps = directory_steps(&tree);
            edit(&tree);
            let before = tree.snapshot();
            let outcomes = tree.run(&to_moved(&tree), &steps[1..]);
            let checked = check(&to_moved(&tree), &steps[1..], &tree.options());
            for why in [why(&outcomes[0]), &checked[0].1] {
                assert!(why.contains(reason), "{what}: {why}");
            }
            assert_eq!(tree.snapshot(), before, "{what}");
            assert_eq!(tree.journals(), []);
        }
    }
}

#[test]
fn directories_that_differ_are_left_alone_whatever_the_plan_says() {
    let tree = tree();
    let others: [Edit; 4] = [
        (
            "other bytes",
            |tree| drop(tree.write("two/a", b"Content of a")),
            "differs from the kept file at byte 0",
        ),
        (
            "a longer file",
            |tree| drop(tree.write("two/a", b"longer than a is")),
            "does not equal",
        ),
        (
            "one more",
            |tree| drop(tree.write("two/sub/more", b"more")),
            "does not equal",
        ),
        (
            "one less",
            |tree| fs::remove_dir(tree.path("two/empty")).unwrap(),
            "does not equal",
        ),
    ];
    for (what, edit, reason) in others {
        write_directories(&tree);
        edit(&tree);
        let before = tree.snapshot();
        let outcomes = tree.run(&to_moved(&tree), &directory_steps(&tree)[1..]);
        assert!(why(&outcomes[0]).contains(reason), "{what}: {outcomes:?}");
        assert_eq!(tree.snapshot(), before);
    }
    // One in the other, hard links of one file, and other actions.
    write_directories(&tree);
    let keep = tree.path("keep");
    let mut inside = directory_step(&tree.path("keep/sub"), &keep);
    let around = directory_step(&tree.path("deep"), &tree.path("deep/one"));
    let outcomes = tree.run(&to_moved(&tree), &[inside.clone(), around]);
    assert!(
        outcomes.iter().all(|outcome| why(outcome).contains("kept directory")),
        "{outcomes:?}"
    );
    (inside.paths, inside.seen) = (vec![tree.path("two")], seen_directory(&tree.path("two")));
    inside.keep_seen = seen_directory(&keep);
    for action in &actions(&tree)[..5] {
        assert!(
            matches!(tree.run(action, &[inside.clone()])[0], Outcome::Left { .. }),
            "{action:?}"
        );
    }
    fs::remove_file(tree.path("two/a")).unwrap();
    fs::hard_link(tree.path("keep/a"), tree.path("two/a")).unwrap();
    let before = tree.snapshot();
    let outcomes = tree.run(&to_moved(&tree), &[directory_step(&tree.path("two"), &keep)]);
    assert!(why(&outcomes[0]).contains("another name of it"), "{outcomes:?}");
    let to = tree.path("two/to");
    let outcomes = tree.run(&Action::Move { to }, &[directory_step(&tree.path("two"), &keep)]);
    assert!(why(&outcomes[0]).contains("it holds"), "{outcomes:?}");
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn what_changes_at_the_moment_of_the_rename_is_put_back_whole() {
    type Meanwhiles = [(&'static str, fn(&Tree)); 5];
    let edits: Meanwhiles = [
        ("written", |tree| {
            fs::write(tree.path("two/a"), "written meanwhile").unwrap();
        }),
        ("added", |tree| drop(tree.write("two/sub/added", b"added"))),
        ("kept", |tree| fs::remove_file(tree.path("keep/a")).unwrap()),
        ("replaced", |tree| {
            fs::rename(tree.path("two"), tree.path("aside")).unwrap();
            tree.write("two/precious", b"precious");
        }),
        ("linked", |tree| {
            fs::rename(tree.path("two"), tree.path("aside")).unwrap();
            symlink("aside", tree.path("two")).unwrap();
        }),
    ];
    for tree in trees() {
        for (what, edit) in edits {
            write_directories(&tree);
            let steps = directory_steps(&tree);
            let after = Mutex::new(None);
            let watch = AtRename(|| {
                let mut after = after.lock().unwrap();
                if after.is_none() {
                    edit(&tree);
                    *after = Some(tree.snapshot());
                }
            });
            let outcomes = tree
                .run_with(&to_moved(&tree), &steps[1..], &tree.options(), &watch)
                .unwrap();
            assert!(matches!(outcomes[0], Outcome::Left { .. }), "{what}: {outcomes:?}");
            let mut after = after.into_inner().unwrap().unwrap();
            // The directories that were made for it are gone again.
            after.retain(|path, _| !path.starts_with(tree.path("moved")) || *path == tree.path("moved"));
            assert_eq!(tree.snapshot(), after, "{what}");
            forget_all(&tree);
        }
    }
}

#[test]
fn undo_replaces_nothing_and_takes_no_other_directory() {
    let tree = tree();
    for is_other in [false, true] {
        write_directories(&tree);
        tree.run(&to_moved(&tree), &directory_steps(&tree)[1..]);
        let two = tree.path("two");
        if is_other {
            fs::rename(moved_to(&tree, &two), tree.path("aside")).unwrap();
            tree.write(moved_to(&tree, &two).join("precious"), b"precious");
        } else {
            tree.write("two/precious", b"precious");
        }
        let before = tree.snapshot();
        let undone = tree.undo();
        assert!(matches!(undone[..], [(_, Undone::Failed { .. })]), "{undone:?}");
        assert_eq!(tree.snapshot(), before);
        forget_all(&tree);
    }
}

#[test]
fn a_directory_with_a_mount_in_it_is_left_alone() {
    let tree = tree();
    for (from, on) in [
        ("two/empty", "two/empty"),
        ("deep", "two/sub"),
        ("deep/other", "two/a"),
        ("two", "two"),
    ] {
        write_directories(&tree);
        tree.write("deep/other", b"content of a");
        let before = tree.snapshot();
        let (from, on) = (tree.path(from), tree.path(on));
        let steps = directory_steps(&tree);
        if !mounts("mount", &["--bind".as_ref(), from.as_ref(), on.as_ref()]) {
            return;
        }
        let mounted = Mounted(on.clone());
        let mut outcomes = tree.run(&to_moved(&tree), &steps[1..]);
        if on.is_file() {
            // As a search sees it that began after the mount.
            outcomes.extend(tree.run(&to_moved(&tree), &directory_steps(&tree)[1..]));
        }
        drop(mounted);
        let is_told = |outcome: &Outcome| {
            ["is a mount point", "added, removed"]
                .iter()
                .any(|words| why(outcome).contains(words))
        };
        assert!(outcomes.iter().all(is_told), "{outcomes:?}");
        assert_eq!(tree.snapshot(), before);
    }
}

#[test]
fn root_moves_no_directory_with_something_of_another_user() {
    if sys::effective_user() != 0 {
        return println!("skipped: not root");
    }
    let tree = tree();
    for owned in ["two", "two/sub", "two/a", "keep", "keep/sub/b"] {
        write_directories(&tree);
        std::os::unix::fs::chown(tree.path(owned), Some(1234), None).unwrap();
        let steps = &directory_steps(&tree)[1..];
        let before = tree.snapshot();
        let outcomes = tree.run(&to_moved(&tree), steps);
        assert!(why(&outcomes[0]).contains("belongs to another user"), "{outcomes:?}");
        assert_eq!(tree.snapshot(), before);
        let options = Options {
            unsafe_owner: true,
            ..tree.options()
        };
        let outcomes = tree.run_with(&to_moved(&tree), steps, &options, &Unwatched).unwrap();
        assert!(is_done(&outcomes[0]), "{outcomes:?}");
        tree.undo();
        assert_eq!(tree.snapshot(), before);
        forget_all(&tree);
    }
}

#[test]
fn a_program_that_has_a_file_of_it_open_keeps_its_file() {
    let tree = tree();
    write_directories(&tree);
    let steps = &directory_steps(&tree)[1..];
    let mut open = File::options().append(true).open(tree.path("two/a")).unwrap();
    assert!(is_done(&tree.run(&to_moved(&tree), steps)[0]));
    open.write_all(b", and more").unwrap();
    let there = moved_to(&tree, &tree.path("two"));
    assert_eq!(fs::read(there.join("a")).unwrap(), b"content of a, and more");
    tree.undo();
    assert_eq!(fs::read(tree.path("two/a")).unwrap(), b"content of a, and more");
}

#[test]
fn the_files_of_a_directory_are_steps_with_their_twins() {
    let tree = tree();
    write_directories(&tree);
    fs::hard_link(tree.path("two/sub/b"), tree.path("two/sub/bb")).unwrap();
    tree.write("keep/sub/bb", &vec![7; 100_000]);
    let steps = files_of(&directory_step(&tree.path("two"), &tree.path("keep"))).unwrap();
    let paths: Vec<_> = steps
        .iter()
        .map(|(step, _)| (step.paths.clone(), step.keep.clone()))
        .collect();
    assert_eq!(
        paths,
        [
            (vec![tree.path("two/a")], tree.path("keep/a")),
            (
                vec![tree.path("two/sub/b"), tree.path("two/sub/bb")],
                tree.path("keep/sub/b")
            ),
        ]
    );
    let step = directory_step(&tree.path("two"), &tree.path("keep"));
    tree.write("keep/new", b"new");
    assert!(files_of(&step).unwrap_err().contains("the kept directory"));
}
