//! Removing names of one file: one stays, and undo links the others again.

use super::*;

/// A file `a/one` with the names `b/two` and `b/three`, and another file.
pub(super) fn write_names(tree: &Tree) {
    tree.clear();
    let one = tree.write("a/one", b"content");
    tree.write("b/other", b"precious");
    for name in ["b/two", "b/three"] {
        fs::hard_link(&one, tree.path(name)).unwrap();
    }
    for name in ["a/one", "a", "b"] {
        age(&tree.path(name), 7);
    }
}

pub(super) fn steps(tree: &Tree) -> Vec<Step> {
    vec![step(&[tree.path("b/two"), tree.path("b/three")], &tree.path("a/one"))]
}

fn sample(tree: &Tree) -> (Vec<Step>, Snapshot) {
    let before = write_of(tree, "names");
    (steps(tree), before)
}

fn links(tree: &Tree) -> u64 {
    tree.path("a/one").metadata().unwrap().nlink()
}

#[test]
fn names_are_removed_and_undo_links_them_again_whatever_was_written_since() {
    for tree in trees() {
        let (steps, before) = sample(&tree);
        assert_eq!(check(&Action::Names, &steps, &tree.options()), []);
        tree.does(&Action::Names, &steps);
        assert_eq!(links(&tree), 1);
        assert!(are_restored(&tree.undo()));
        assert_eq!(tree.snapshot(), before);
        let (steps, _) = sample(&tree);
        tree.run(&Action::Names, &steps);
        fs::write(tree.path("a/one"), "longer than before").unwrap();
        assert!(are_restored(&tree.undo()));
        assert_eq!(fs::read(tree.path("b/three")).unwrap(), b"longer than before");
        assert_eq!(links(&tree), 3);
    }
}

#[test]
fn a_kill_at_any_step_loses_no_name() {
    each_kill_is_undone("names", 0, |tree, _, _| {
        assert_eq!(fs::read(tree.path("a/one")).unwrap(), b"content");
    });
}

#[test]
fn the_last_name_stays_if_another_program_takes_the_others_meanwhile() {
    for tree in trees() {
        for number in 0.. {
            let (steps, _) = sample(&tree);
            let (kept, left) = (tree.path("a/one"), AtomicU64::new(number));
            let taking = meanwhile_always(|step| {
                let is_change = matches!(step.kind, StepKind::Rename | StepKind::Remove);
                if is_change && left.fetch_sub(1, Ordering::Relaxed) == 0 {
                    fs::remove_file(&kept).unwrap();
                }
            });
            tree.run_while(&Action::Names, &steps, &taking);
            let found = ["a/one", "b/two", "b/three"]
                .iter()
                .filter(|name| tree.path(name).exists());
            assert!(found.count() > 0, "before change {number}");
            forget_all(&tree);
            if kept.exists() {
                assert!(number > 3, "{number}");
                break;
            }
        }
    }
}

#[test]
fn a_step_that_would_leave_no_name_is_refused() {
    let tree = tree();
    let (mut steps, before) = sample(&tree);
    steps[0].file.paths.push(tree.path("a/one"));
    let mut all = choose::Conflicts::default();
    assert_eq!(
        all.add(&Action::Names, &steps[0]),
        Err(RefusalReason::IsKept(steps[0].keep.path.clone()))
    );
    assert_eq!(why(&tree.run(&Action::Names, &steps)[0]), "it has no other name");
    let (mut steps, _) = sample(&tree);
    steps[0].keep = step(&[tree.path("b/other")], &tree.path("b/other")).keep;
    assert!(why(&tree.run(&Action::Names, &steps)[0]).contains("another inode number"));
    assert_eq!(tree.snapshot().len(), before.len());
}
