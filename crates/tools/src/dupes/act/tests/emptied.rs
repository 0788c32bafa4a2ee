//! Directories that acting leaves empty are removed, and undo makes them again.

use super::*;

/// A kept file, and equal ones in directories that hold nothing else, an empty directory, or another file.
pub(super) fn write_nested(tree: &Tree) {
    tree.clear();
    tree.write("keep/f", b"content");
    for name in ["a/b/c/f", "a/b/g", "beside/empty/f", "other/f"] {
        tree.write(name, b"content");
    }
    fs::create_dir(tree.path("beside/was-empty")).unwrap();
    tree.write("other/more", b"precious");
    fs::create_dir(tree.path("moved")).unwrap();
    set_attribute(&tree.path("a/b"), "of a directory");
    set_mode(tree.path("a/b/c"), 0o2750);
    for name in ["a/b/c", "a/b", "a", "beside/empty", "beside", "other", "moved"] {
        age(&tree.path(name), 7);
    }
}

pub(super) fn steps(tree: &Tree, action: usize) -> (Action, Vec<Step>) {
    let keep = tree.path("keep/f");
    let files = ["a/b/c/f", "a/b/g", "beside/empty/f", "other/f"];
    let mut steps: Vec<Step> = files.iter().map(|name| step(&[tree.path(name)], &keep)).collect();
    steps.extend(emptied(steps.clone().iter(), &[tree.root()]));
    (actions(tree)[action].clone(), steps)
}

fn directories(steps: &[Step]) -> Vec<&Path> {
    let directories = steps.iter().filter(|step| step.file.is_directory);
    directories.map(|step| step.file.paths[0].as_path()).collect()
}

/// The numbers of removing and moving.
const EMPTYING: [usize; 2] = [0, 5];

fn attributes(path: &Path) -> (u32, Option<Vec<u8>>) {
    let mut value = [0; 64];
    let length = rustix::fs::getxattr(path, "user.note", &mut value);
    (
        path.metadata().unwrap().mode(),
        length.ok().map(|length| value[..length].to_vec()),
    )
}

#[test]
fn a_directory_that_is_swapped_for_a_link_while_it_is_made_again_changes_no_other() {
    let tree = tree();
    let prepare = || {
        forget_all(&tree);
        write_nested(&tree);
        let theirs = tree.write("theirs/f", b"precious").with_file_name("");
        age(&theirs, 1);
        let (action, steps) = steps(&tree, 0);
        tree.does(&action, &steps);
        fs::metadata(theirs).unwrap().modified().unwrap()
    };
    prepare();
    let changes = changes_of(|watch| tree.undo_with(watch));
    for left in some_moments(changes) {
        let before = prepare();
        let swap = |_: &WatchedStep<'_>| {
            if fs::rename(tree.path("a"), tree.path("aside")).is_ok() {
                symlink("theirs", tree.path("a")).unwrap();
            }
        };
        tree.undo_with(&meanwhile(left, swap));
        let now = fs::metadata(tree.path("theirs")).unwrap().modified().unwrap();
        assert_eq!(now, before, "{left}");
        assert_eq!(fs::read_dir(tree.path("theirs")).unwrap().count(), 1, "{left}");
    }
    forget_all(&tree);
}

#[test]
fn only_directories_that_acting_leaves_empty_go_and_never_those_that_were_named() {
    for tree in trees() {
        for number in EMPTYING {
            write_nested(&tree);
            let (before, attributes_before) = (tree.snapshot(), attributes(&tree.path("a/b")));
            let (action, steps) = steps(&tree, number);
            let expected = ["a/b/c", "a/b", "beside/empty", "a"].map(|name| tree.path(name));
            assert_eq!(
                BTreeSet::from_iter(directories(&steps)),
                expected.iter().map(PathBuf::as_path).collect()
            );
            assert_eq!(check(&action, &steps, &tree.options()), []);
            tree.does(&action, &steps);
            for name in ["a", "beside/empty"] {
                assert!(!tree.path(name).exists(), "{name}");
            }
            for name in ["beside/was-empty", "other/more", "keep/f"] {
                assert!(tree.path(name).exists(), "{name}");
            }
            let undone = tree.undo();
            assert!(are_restored(&undone), "{undone:?}");
            assert_eq!(tree.snapshot(), before, "{action:?}");
            assert_eq!(attributes(&tree.path("a/b")), attributes_before);
            forget_all(&tree);
        }
    }
    let tree = tree();
    write_nested(&tree);
    let files: Vec<Step> = steps(&tree, 0)
        .1
        .into_iter()
        .filter(|step| !step.file.is_directory)
        .collect();
    let named = |names: &[&str]| {
        let roots: Vec<PathBuf> = names.iter().map(|name| tree.path(name)).collect();
        emptied(files.iter(), &roots).len()
    };
    assert_eq!(named(&["a"]), 2);
    assert_eq!(named(&["a", "a/b/c"]), 0);
    assert_eq!(named(&["a/b/c/f", "beside"]), 1);
}

#[test]
fn a_directory_in_which_another_process_makes_a_file_meanwhile_stays() {
    for tree in trees() {
        for number in EMPTYING {
            write_nested(&tree);
            let (action, of_tree) = steps(&tree, number);
            let changes = changes_of(|watch| tree.run_while(&action, &of_tree, watch));
            forget_all(&tree);
            for left in some_moments(changes) {
                write_nested(&tree);
                let (action, steps) = steps(&tree, number);
                let new = tree.path("a/b/c/new");
                let was_made = Mutex::new(false);
                let making = meanwhile(left, |_| *was_made.lock().unwrap() = fs::write(&new, "theirs").is_ok());
                tree.run_while(&action, &steps, &making);
                let was_made = *was_made.lock().unwrap();
                assert_eq!(was_made, new.exists(), "{left}");
                tree.undo();
                assert_eq!(was_made, new.exists(), "{left}");
                assert_eq!(fs::read(tree.path("a/b/c/f")).unwrap(), b"content", "{left}");
                forget_all(&tree);
            }
        }
    }
}

#[test]
fn a_kill_at_any_step_is_settled_and_undone_with_all_directories() {
    for number in EMPTYING {
        each_kill_is_undone("emptied", number, |_, _, _| ());
    }
}
