//! Moving files to the trash, and to directories beside them where no lease keeps other processes out.

use super::*;

/// Removing where there are no leases, and the trash of the user.
fn actions(tree: &Tree) -> [Action; 2] {
    let home = tree.path("home/Trash");
    [Action::Quarantine, Action::Trash { home }]
}

fn options(tree: &Tree, action: &Action) -> ActingOptions {
    tree.with(|options| options.without_leases = *action == Action::Quarantine)
}

pub(super) fn job(tree: &Tree, number: usize) -> (Action, Vec<Step>, ActingOptions) {
    let action = actions(tree)[number].clone();
    let options = options(tree, &action);
    (action, sample_steps(tree), options)
}

pub(super) fn write(tree: &Tree) {
    write_sample(tree);
    fs::create_dir(tree.path("home")).unwrap();
    age(&tree.path("home"), 5);
}

/// The files in the trash that say where others were.
fn described(tree: &Tree) -> Vec<PathBuf> {
    let found = fs::read_dir(tree.path("home/Trash/info")).into_iter().flatten();
    found.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn files_are_moved_apart_and_come_back_also_if_they_were_written_to_there() {
    for tree in trees() {
        for action in actions(&tree) {
            let before = write_of(&tree, "apart");
            let (steps, options) = (sample_steps(&tree), options(&tree, &action));
            assert_eq!(check(&action, &steps, &options), []);
            let outcomes = tree.run_by(&action, &steps, &options);
            assert!(outcomes.iter().all(is_done), "{outcomes:?}");
            assert!(
                steps
                    .iter()
                    .flat_map(|step| &step.file.paths)
                    .all(|path| !path.exists())
            );
            let is_trash = matches!(action, Action::Trash { .. });
            assert_eq!(described(&tree).len(), if is_trash { 4 } else { 0 });
            // A process that had it open.
            let (now, name) = (tree.snapshot(), OsStr::new("one"));
            let mut apart = now
                .keys()
                .filter(|path| path.file_name().unwrap().as_bytes().ends_with(name.as_bytes()));
            let one = apart.next().unwrap();
            fs::write(one, "written meanwhile").unwrap();
            let undone = tree.undo();
            assert!(are_restored(&undone), "{undone:?}");
            assert_eq!(fs::read(tree.path("deep/er/one")).unwrap(), b"written meanwhile");
            let mut after = tree.snapshot();
            after.insert(tree.path("deep/er/one"), before[&tree.path("deep/er/one")].clone());
            assert_eq!(after, before, "{action:?}");
            forget_all(&tree);
        }
    }
}

#[test]
fn a_kill_at_any_step_of_moving_apart_is_settled_and_undone() {
    for number in 0..2 {
        each_kill_is_undone("apart", number, |tree, now, _| {
            assert!(has_content(tree, &fs::read(tree.path("keep")).unwrap()));
            let files = fs::read_dir(tree.path("home/Trash/files")).map_or(0, Iterator::count);
            assert!(now != "settled" || described(tree).len() == files);
        });
    }
}

#[test]
fn without_leases_what_others_do_at_any_moment_is_not_lost() {
    // Whether it was done.
    type Disturb = fn(&Tree) -> bool;
    let append: Disturb = |tree| {
        let file = File::options().append(true).open(tree.path("two"));
        file.and_then(|mut file| file.write_all(b"more")).is_ok()
    };
    let save: Disturb = |tree| {
        fs::write(tree.path("new"), "saved").unwrap();
        fs::rename(tree.path("new"), tree.path("two")).is_ok()
    };
    let edit_kept: Disturb = |tree| fs::write(tree.path("keep"), "edited").is_ok();
    let remove_kept: Disturb = |tree| fs::remove_file(tree.path("keep")).is_ok();
    for tree in trees() {
        let run = |watch: &dyn Watch| {
            write(&tree);
            run_job(&tree, "apart", 0, watch);
        };
        let changes = changes_of(run);
        forget_all(&tree);
        for (disturb, end) in [(append, "more"), (save, "saved"), (edit_kept, ""), (remove_kept, "")] {
            for left in some_moments(changes) {
                write(&tree);
                let bytes = fs::read(tree.path("keep")).unwrap();
                let was_done = Mutex::new(false);
                run(&meanwhile(left, |_| *was_done.lock().unwrap() = disturb(&tree)));
                assert!(has_content(&tree, &bytes), "{left}: the bytes of all");
                let was_done = *was_done.lock().unwrap();
                let is_kept = || {
                    let mut found = naive_walk(&tree.root()).into_values();
                    found.any(|(_, bytes)| bytes.ends_with(end.as_bytes()))
                };
                assert!(!was_done || is_kept(), "{left}: {end} is lost");
                tree.undo_with(&Unwatched);
                assert!(has_content(&tree, &bytes), "{left}: undone");
                assert!(!was_done || is_kept(), "{left}: {end} is lost by undo");
                forget_all(&tree);
            }
        }
    }
}

#[test]
fn the_trash_is_on_the_file_system_of_the_file_and_the_one_of_all_users_only_if_it_is_safe() {
    let tree = tree();
    let mounted = tree.path("m");
    let Some(_mounted) = Mounted::tmpfs(mounted.clone(), "mode=755") else {
        return;
    };
    let action = Action::Trash {
        home: tree.path("home/Trash"),
    };
    for (number, (prepare, expected)) in [
        ((|_: &Path| ()) as fn(&Path), ".Trash-0"),
        (|shared| fs::create_dir(shared).unwrap(), ".Trash-0"),
        (|shared| set_mode(shared, 0o1777), ".Trash/0"),
        (
            |shared| {
                fs::rename(shared, shared.with_file_name("real")).unwrap();
                symlink("real", shared).unwrap();
            },
            ".Trash-0",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        prepare(&mounted.join(".Trash"));
        let (keep, file) = (tree.write("m/keep", b"x"), tree.write(format!("m/d {number}/f"), b"x"));
        tree.does(&action, &[step(&[&file], &keep)]);
        let info = fs::read_dir(mounted.join(expected).join("info"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let text = fs::read_to_string(info.path()).unwrap();
        assert!(
            text.starts_with(&format!("[Trash Info]\nPath=d%20{number}/f\nDeletionDate=2")),
            "{text}"
        );
        tree.undo();
        assert!(
            file.exists() && fs::read_dir(mounted.join(expected)).is_err(),
            "{expected}"
        );
        forget_all(&tree);
    }
}
