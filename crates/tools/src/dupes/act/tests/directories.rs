//! Acting on equal directories: their files move, those that are empty then follow, and undo brings all of it back.

use super::super::directory::steps_of;
use super::*;

pub(super) fn to_moved(tree: &Tree) -> Action {
    Action::Move { to: tree.path("moved") }
}

/// Equal directories `keep`, `deep/one` and `two`.
pub(super) fn write_directories(tree: &Tree) {
    tree.clear();
    fs::create_dir_all(tree.path("moved")).unwrap();
    for directory in ["keep", "deep/one", "two"] {
        let at = tree.path(directory);
        tree.write(at.join("a"), b"content of a");
        tree.write(at.join("sub/b"), &vec![7; 100_000]);
        tree.write(at.join("sub/c"), b"");
        fs::create_dir(at.join("empty")).unwrap();
        fs::set_permissions(at.join("empty"), Permissions::from_mode(0o750)).unwrap();
        for name in ["a", "sub/b", "sub", "empty", ""] {
            age(&at.join(name), 7);
        }
    }
    tree.write("deep/other", b"precious");
}

fn steps(tree: &Tree, path: &str) -> Result<Vec<Step>, RefusalReason> {
    steps_of(
        &tree.path(path),
        &tree.path("keep"),
        &KeepReason::LastCopy,
        &to_moved(tree),
    )
}

pub(super) fn directory_steps(tree: &Tree) -> Vec<Step> {
    ["deep/one", "two"]
        .iter()
        .flat_map(|path| steps(tree, path).unwrap())
        .collect()
}

fn modified(path: &Path) -> SystemTime {
    path.metadata().unwrap().modified().unwrap()
}

#[test]
fn files_move_with_the_directories_that_are_empty_then_and_come_back() {
    for tree in trees() {
        write_directories(&tree);
        let before = tree.snapshot();
        let steps = directory_steps(&tree);
        assert_eq!(steps.len(), 12);
        assert_eq!(check(&to_moved(&tree), &steps, &tree.options()), []);
        tree.does(&to_moved(&tree), &steps);
        for directory in ["deep/one", "two"] {
            let path = tree.path(directory);
            assert!(!path.exists());
            let there = moved_to(&tree.path("moved"), &path);
            for name in ["a", "sub/b", "sub/c"] {
                assert_eq!(
                    fs::read(there.join(name)).unwrap(),
                    fs::read(tree.path("keep").join(name)).unwrap()
                );
            }
            let empty = there.join("empty");
            assert_eq!(empty.metadata().unwrap().mode() & 0o777, 0o750);
            assert_eq!(modified(&there), modified(&tree.path("keep")));
        }
        let undone = tree.undo();
        assert!(undone.len() == 12 && are_restored(&undone), "{undone:?}");
        require_same(&tree, &before, "undone");
        for directory in ["two", "two/sub", "two/empty", "deep/one"] {
            assert_eq!(
                modified(&tree.path(directory)),
                modified(&tree.path("keep")),
                "{directory}"
            );
        }
        assert_eq!(tree.undo(), [], "undone twice");
    }
}

/// Fails unless each file is in one of its places.
fn require_once(tree: &Tree, before: &Snapshot) {
    for (path, (bytes, ..)) in before {
        if !path.starts_with(tree.path("moved")) && !bytes.is_empty() {
            let places = [path.clone(), moved_to(&tree.path("moved"), path)];
            let found: Vec<&PathBuf> = places.iter().filter(|path| path.exists()).collect();
            assert_eq!(found.len(), 1, "{}", path.display());
            assert_eq!(fs::read(found[0]).unwrap(), *bytes);
        }
    }
    assert!(tree.path("keep/sub/b").exists());
}

#[test]
fn a_kill_at_any_step_leaves_each_file_in_one_place_and_undo_brings_it_back() {
    each_kill_is_undone("directories", 0, |tree, _, before| require_once(tree, before));
}

#[test]
fn a_directory_that_is_not_empty_by_then_stays_with_what_is_in_it() {
    type Edit = fn(&Tree);
    let edits: [(Edit, &str); 4] = [
        (|tree| drop(tree.write("two/sub/new", b"new")), "two/sub/new"),
        (|tree| fs::create_dir(tree.path("two/new")).unwrap(), "two/new"),
        (|tree| fs::write(tree.path("two/a"), "changed").unwrap(), "two/a"),
        (|tree| symlink("a", tree.path("two/link")).unwrap(), "two/link"),
    ];
    for tree in trees() {
        for (edit, stays) in edits {
            write_directories(&tree);
            let steps = steps(&tree, "two").unwrap();
            edit(&tree);
            let before = tree.snapshot();
            let outcomes = tree.run(&to_moved(&tree), &steps);
            let left = outcomes.iter().filter(|outcome| !is_done(outcome));
            let reasons: Vec<String> = left.map(why).collect();
            assert!(reasons.contains(&"it is not empty".to_owned()), "{stays}: {reasons:?}");
            assert!(tree.path(stays).symlink_metadata().is_ok(), "{stays}");
            tree.undoes(&before, stays);
        }
    }
}

#[test]
fn directories_that_are_not_equal_or_cannot_move_have_no_steps() {
    type Edit = fn(&Tree);
    let edits: [(Edit, &str); 7] = [
        (|tree| drop(tree.write("two/a", b"longer than a is")), "not equal to"),
        (|tree| drop(tree.write("two/sub/more", b"more")), "not equal to"),
        (|tree| fs::remove_dir(tree.path("two/empty")).unwrap(), "not equal to"),
        (
            |tree| ["two", "keep"].map(|path| symlink("a", tree.path(path).join("link")).unwrap())[0],
            "is a symbolic link",
        ),
        (
            |tree| {
                fs::remove_file(tree.path("two/a")).unwrap();
                fs::hard_link(tree.path("keep/a"), tree.path("two/a")).unwrap();
            },
            "another name of it",
        ),
        (
            |tree| {
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                let kind = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(rustix::fs::CWD, tree.path("two/fifo"), kind, mode, 0).unwrap();
            },
            "is a FIFO",
        ),
        (
            |tree| fs::rename(tree.path("two"), tree.path("gone")).unwrap(),
            "No such file",
        ),
    ];
    let tree = tree();
    for (edit, reason) in edits {
        write_directories(&tree);
        edit(&tree);
        let refused = steps(&tree, "two").unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
    // Equal in size only: the file stays, and its directory.
    write_directories(&tree);
    tree.write("two/a", b"Content of a");
    let outcomes = tree.run(&to_moved(&tree), &steps(&tree, "two").unwrap());
    assert!(
        why(&outcomes[0]).contains("differs from the kept file at byte 0"),
        "{outcomes:?}"
    );
    assert!(tree.path("two/a").exists() && !tree.path("two/sub").exists());
}

#[test]
fn undo_replaces_no_directory_and_no_file_that_has_a_name_by_then() {
    let tree = tree();
    write_directories(&tree);
    tree.run(&to_moved(&tree), &steps(&tree, "two").unwrap());
    tree.write("two/a", b"precious");
    age(&tree.path("two"), 9);
    let time = modified(&tree.path("two"));
    let undone = tree.undo();
    let failed = undone
        .iter()
        .filter(|(_, undone)| matches!(undone, Undone::Failed { .. }));
    assert_eq!(failed.count(), 1, "{undone:?}");
    assert_eq!(fs::read(tree.path("two/a")).unwrap(), b"precious");
    assert!(tree.path("two/sub/b").exists() && moved_to(&tree.path("moved"), &tree.path("two/a")).exists());
    assert_ne!(
        modified(&tree.path("two")),
        modified(&tree.path("keep")),
        "it is not ours: {time:?}"
    );
}

#[test]
fn a_directory_with_a_mount_in_it_stays() {
    let tree = tree();
    for (from, on) in [("two/empty", "two/empty"), ("deep", "two/sub"), ("two", "two")] {
        write_directories(&tree);
        let before = tree.snapshot();
        let (from, on) = (tree.path(from), tree.path(on));
        let steps = steps(&tree, "two").unwrap();
        if !mounts("mount", &["--bind".as_ref(), from.as_ref(), on.as_ref()]) {
            return;
        }
        let mounted = Mounted(on.clone());
        let outcomes = tree.run(&to_moved(&tree), &steps);
        drop(mounted);
        assert!(outcomes.iter().any(|outcome| !is_done(outcome)), "{outcomes:?}");
        assert!(tree.path("two").exists());
        tree.undoes(&before, "undone");
    }
}

#[test]
fn root_moves_nothing_of_another_user() {
    if sys::effective_user() != 0 {
        return println!("skipped: not root");
    }
    let tree = tree();
    for owned in ["two/sub", "two/a", "keep/sub/b"] {
        write_directories(&tree);
        give_away(tree.path(owned));
        let steps = steps(&tree, "two").unwrap();
        let before = tree.snapshot();
        let outcomes = tree.run(&to_moved(&tree), &steps);
        let mut left = outcomes.iter().filter(|outcome| !is_done(outcome));
        assert!(
            left.any(|outcome| why(outcome).contains("another user")),
            "{outcomes:?}"
        );
        tree.undoes(&before, "undone");
        let options = tree.with(|options| options.unsafe_owner = true);
        let outcomes = tree.run_by(&to_moved(&tree), &steps, &options);
        assert!(outcomes.iter().any(is_done), "{outcomes:?}");
        tree.undoes(&before, "undone");
    }
}

#[test]
fn the_files_of_a_directory_are_steps_with_their_twins() {
    let tree = tree();
    write_directories(&tree);
    fs::hard_link(tree.path("two/sub/b"), tree.path("two/sub/bb")).unwrap();
    tree.write("keep/sub/bb", &vec![7; 100_000]);
    let of = |action| steps_of(&tree.path("two"), &tree.path("keep"), &KeepReason::LastCopy, action).unwrap();
    let paths: Vec<_> = of(&Action::Reflink)
        .into_iter()
        .map(|step| (step.file.paths, step.keep.path))
        .collect();
    let both = vec![tree.path("two/sub/b"), tree.path("two/sub/bb")];
    assert_eq!(
        paths,
        [
            (vec![tree.path("two/a")], tree.path("keep/a")),
            (both, tree.path("keep/sub/b")),
        ]
    );
    let emptied = of(&to_moved(&tree)).into_iter().filter(|step| step.file.is_directory);
    let emptied: Vec<PathBuf> = emptied.map(|step| step.file.paths[0].clone()).collect();
    assert_eq!(emptied, ["two/sub", "two/empty", "two"].map(|path| tree.path(path)));
}
