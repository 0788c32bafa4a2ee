//! Undoing and settling where the volume of a run is not mounted, or another one is.

use super::*;

/// Runs steps to the end, or is killed once a name has changed.
fn do_some(tree: &Tree, number: usize, action: &Action, is_killed_run: bool) -> Snapshot {
    for left in 0..99 {
        forget_all(tree);
        write_sample(tree);
        let before = tree.snapshot();
        if !is_killed_run {
            tree.does(action, &sample_steps(tree));
            return before;
        }
        if is_killed(tree, number, "run", left) && tree.snapshot().keys().ne(before.keys()) {
            return before;
        }
    }
    panic!("no kill came in time");
}

fn is_unmounted(why: &RefusalReason) -> bool {
    why.to_string().contains("which is not mounted there now")
}

#[test]
fn while_another_volume_is_where_files_were_nothing_is_undone_or_settled_and_the_journal_stays() {
    let tree = tree();
    let actions = actions(&tree).into_iter().enumerate();
    for (number, action) in actions.filter(|(_, action)| *action != Action::Reflink) {
        for is_killed_run in [false, true] {
            let before = do_some(&tree, number, &action, is_killed_run);
            let after = tree.snapshot();
            let Some(other) = Mounted::tmpfs(tree.root(), "mode=700") else {
                return;
            };
            for has_directories in [false, true] {
                if has_directories {
                    fs::create_dir_all(tree.path("deep/er")).unwrap();
                    fs::create_dir(tree.path("moved")).unwrap();
                    tree.write("keep", b"of another volume");
                }
                let below = tree.snapshot();
                if is_killed_run {
                    let settled = tree.settle();
                    let [(_, RecoveredAct::Failed { why })] = &settled[..] else {
                        panic!("{settled:?}")
                    };
                    assert!(is_unmounted(why), "{why}");
                } else {
                    let undone = tree.undo();
                    assert_eq!(undone.len(), 4);
                    let is_left = |(_, undone): &(PathBuf, UndoOutcome)| matches!(undone, UndoOutcome::Failed { why } if is_unmounted(why));
                    assert!(undone.iter().all(is_left), "{action:?}: {undone:?}");
                }
                assert_eq!(tree.snapshot(), below, "{action:?}");
            }
            drop(other);
            assert_eq!(tree.snapshot(), after, "{action:?}");
            tree.undoes(&before, &format!("{action:?} {is_killed_run}"));
        }
    }
}

#[test]
fn a_kept_file_of_another_volume_restores_nothing() {
    let tree = tree();
    let steps = sample(&tree);
    let before = tree.snapshot();
    tree.does(&Action::Remove, &steps);
    edit_journal(&tree.journals()[0].path, |line| {
        let is_step = line["kind"] == "step";
        if is_step {
            line["keep_volume"] = "ext4 0123456789abcdef on /somewhere".into();
        }
        true
    });
    let undone = tree.undo();
    assert!(
        undone
            .iter()
            .all(|(_, undone)| matches!(undone, UndoOutcome::Failed { why } if is_unmounted(why)))
    );
    edit_journal(&tree.journals()[0].path, |line| {
        if line["kind"] == "step" {
            line["keep_volume"] = line["volume"].take();
            line["volume"] = line["keep_volume"].clone();
        }
        true
    });
    tree.undoes(&before, "on its volume");
}

#[test]
fn what_was_removed_through_a_bind_mount_is_not_restored_below_its_mount_point() {
    let tree = tree();
    write_sample(&tree);
    let before = tree.snapshot();
    let (root, shown) = (tree.root(), tree.directory.join("shown"));
    fs::create_dir_all(shown.join("deep/er")).unwrap();
    let bind = || mounts("mount", &["--bind".as_ref(), root.as_ref(), shown.as_ref()]).then(|| Mounted(shown.clone()));
    let Some(mounted) = bind() else { return };
    let path = |name: &str| shown.join(name);
    tree.does(&Action::Remove, &[step(&[path("deep/er/one")], &path("keep"))]);
    drop(mounted);
    let undone = tree.undo();
    assert!(is_unrestored(&undone), "{undone:?}");
    assert_eq!(fs::read_dir(path("deep/er")).unwrap().count(), 0);
    let _mounted = bind();
    tree.undoes(&before, "mounted again");
}
