use std::time::Duration;

use rustix::process::Signal;

use super::*;
use crate::filesystems::TestFileSystem;
use crate::torture::command::TrialCommand;
use crate::torture::disturb::Disturbance;
use crate::torture::draw::Patch;
use crate::torture::plan::Recovery;

const NAMES: [&str; 3] = ["tree/r0/f0_", "tree/r0/f1_", "tree/r1/.Trash-0/f2_"];
const CONTENT: &[u8] = b"forty bytes of which half may be marked.";
const MARK: &[u8] = b"\0id 000000000007";

fn plan(label: &str, words: &str, files: &[&str], patches: Vec<Patch>) -> TrialPlan {
    TrialPlan {
        file_system: TestFileSystem::Ext4,
        tree: FileTree::new(),
        is_sparse: false,
        files: files.iter().map(PathBuf::from).collect(),
        patches,
        command: TrialCommand {
            label: label.to_owned(),
            search: None,
            run: words.to_owned(),
            at_once: words.to_owned(),
        },
        disturbance: Disturbance {
            injections: Vec::new(),
            timed: None,
            free_bytes: None,
        },
        disturbers: Vec::new(),
        disturbers_stay: false,
        early: None,
        between: None,
        recovery: Recovery::Again,
        recovery_injection: None,
        power: None,
    }
}

/// Three files with one content, the last in the trash.
fn dupes(action: &str) -> TrialPlan {
    plan(&format!("dupes {action}"), "dupes --keep at-least:2", &[], Vec::new())
}

fn found(inode: u64, bytes: &[u8]) -> TreeEntry {
    TreeEntry::File(TreeFile {
        inode,
        bytes: bytes.into(),
        properties: Properties::default(),
        modified: None,
    })
}

fn all<const N: usize>(files: [(&str, TreeEntry); N]) -> FileTree {
    files.map(|(path, found)| (PathBuf::from(path), found)).into()
}

fn before() -> FileTree {
    let number = |path: &&str| NAMES.iter().position(|name| name == path).unwrap_or(0) as u64;
    all(NAMES.map(|path| (path, found(number(&path), CONTENT))))
}

fn act(kind: Interference, path: &str, offset: usize, wrote: &[u8]) -> Act {
    Act {
        kind,
        path: path.into(),
        wrote: wrote.to_vec(),
        offset,
        set: 0,
        answer: Ok(()),
    }
}

fn kinds(faults: Vec<Fault>) -> Vec<&'static str> {
    faults.into_iter().map(|fault| fault.kind).collect()
}

fn judged(plan: &TrialPlan, before: FileTree, acts: Vec<Act>, updated: UpdatesPresent) -> Evidence<'_> {
    Evidence {
        plan,
        directory: Path::new("/trial"),
        before,
        acts,
        told: "told of .seekless-dupes-1".to_owned(),
        is_done: true,
        updated,
        slack: 0,
    }
}

/// The kinds of faults after files were removed, and others acted.
fn removed(acts: impl Into<Vec<Act>>, now: &FileTree) -> Vec<&'static str> {
    kinds(judged(&dupes("remove"), before(), acts.into(), UpdatesPresent::All).check(now))
}

#[test]
fn a_content_must_have_a_name_outside_of_the_trash_unless_others_rename_that_for_a_moment_and_of_where_files_are_moved()
{
    assert!(removed(&[], &all([(NAMES[1], found(1, CONTENT))])).is_empty());
    assert_eq!(removed(&[], &FileTree::new()), ["lost content"]);
    let in_trash = all([(NAMES[2], found(2, CONTENT))]);
    assert_eq!(removed(&[], &in_trash), ["last copy in the trash"]);
    let mixed = found(1, &[CONTENT, b"x"].concat());
    let mixed = all([(NAMES[0], found(0, CONTENT)), (NAMES[1], mixed)]);
    assert_eq!(removed(&[], &mixed), ["foreign bytes"]);
    let now = all([(NAMES[2], found(2, CONTENT))]);
    for (directory, faults) in [("tree/r0", 1), ("tree/r1/.Trash-0", 0)] {
        let acts = [act(Interference::RenameDirectory, directory, 0, b"")];
        assert_eq!(removed(&acts, &now).len(), faults);
    }
}

#[test]
fn what_others_wrote_must_be_found_where_they_wrote_it() {
    let appended = [CONTENT, MARK].concat();
    let over = [MARK, &CONTENT[16..]].concat();
    for (offset, marked) in [(40, appended), (0, over)] {
        let now = all([(NAMES[0], found(0, &marked))]);
        assert!(removed(&[act(Interference::Append, NAMES[1], offset, MARK)], &now).is_empty());
        // Nobody wrote it, or elsewhere.
        assert_eq!(removed(&[], &now), ["foreign bytes", "lost content"]);
        let elsewhere = removed(&[act(Interference::Append, NAMES[1], offset + 1, MARK)], &now);
        assert_eq!(elsewhere, ["foreign bytes", "lost content", "lost write"]);
    }
    let now = all([(NAMES[0], found(0, CONTENT))]);
    for (kind, offset) in [(Interference::Append, 40), (Interference::Save, 0)] {
        assert_eq!(removed(&[act(kind, NAMES[1], offset, MARK)], &now), ["lost write"]);
    }
    let taken = all([("yard/1", found(0, CONTENT))]);
    assert!(removed(&[act(Interference::TakeAway, NAMES[0], 0, b"")], &taken).is_empty());
}

#[test]
fn a_write_to_a_file_that_outlasts_the_lease_may_be_lost_and_a_save_may_not() {
    let mut plan = dupes("remove");
    plan.disturbance.timed = Some((Duration::ZERO, Signal::STOP));
    let now = all([(NAMES[0], found(0, CONTENT))]);
    for (kind, fault) in [(Interference::Append, KNOWN_LIMIT), (Interference::Save, "lost write")] {
        let acts = vec![act(kind, NAMES[1], 40, MARK)];
        let faults = judged(&plan, before(), acts, UpdatesPresent::All).check(&now);
        assert_eq!(kinds(faults), [fault]);
    }
}

#[test]
fn names_that_seekless_made_are_told_of_or_left_behind() {
    let with = |name| {
        let mut now = before();
        now.insert(PathBuf::from(name), found(7, CONTENT));
        removed(&[], &now)
    };
    assert!(with("tree/r0/.seekless-dupes-1").is_empty());
    assert_eq!(with("tree/r0/.seekless-dupes-2"), ["left behind"]);
    assert_eq!(with("tree/r0/f9_"), ["unknown name"]);
}

#[test]
fn undisturbed_acting_changes_what_was_asked_for_and_nothing_else() {
    let faults = |action, now: &FileTree| {
        kinds(judged(&dupes(action), before(), Vec::new(), UpdatesPresent::All).check_acted(now))
    };
    assert!(faults("remove", &before()).is_empty());
    let mut now = before();
    now.remove(Path::new(NAMES[2]));
    assert!(faults("remove", &now).is_empty());
    assert_eq!(faults("hardlink", &now), ["wrong result"]);
    assert_eq!(faults("move", &now), ["wrong result"]);
    now.insert(PathBuf::from("to/trial/tree/r1/.Trash-0/f2_"), found(2, CONTENT));
    assert!(faults("move", &now).is_empty());
    let mut now = before();
    now.remove(Path::new(NAMES[1]));
    assert_eq!(faults("remove", &now), ["too few stay"]);
    now.insert(PathBuf::from(NAMES[1]), found(0, CONTENT));
    assert_eq!(faults("hardlink", &now), ["too few stay"]);
    now.insert(PathBuf::from(NAMES[1]), found(9, CONTENT));
    assert_eq!(faults("hardlink", &now), ["wrong result"]);
    now.insert(PathBuf::from(NAMES[1]), found(1, MARK));
    assert!(faults("remove", &now).contains(&"wrong result"));
}

#[test]
fn undoing_brings_back_all_but_inode_numbers() {
    let faults = |path: &str, one: TreeEntry| {
        let mut now = before();
        now.insert(PathBuf::from(path), one);
        kinds(judged(&dupes("remove"), before(), Vec::new(), UpdatesPresent::All).check_restored(&now))
    };
    assert!(faults(NAMES[1], found(9, CONTENT)).is_empty());
    assert_eq!(faults(NAMES[1], found(0, CONTENT)), ["other hard links"]);
    assert_eq!(faults(NAMES[1], found(9, MARK)), ["not restored"]);
    assert_eq!(faults("to/trial", TreeEntry::Directory), ["left by undo"]);
}

/// A file that gets `AB` at 2 and `C` at 7.
fn update() -> TrialPlan {
    let patch = |offset, bytes: &[u8]| Patch {
        offset,
        bytes: bytes.to_vec(),
    };
    let patches = vec![patch(2, b"AB"), patch(7, b"C")];
    plan("update in-place", "update", &NAMES[..1], patches)
}

/// The kinds of faults of the file, after it was updated and others acted.
fn updated(updated: UpdatesPresent, acts: impl Into<Vec<Act>>, now: &[u8]) -> Vec<&'static str> {
    let before = all([(NAMES[0], found(0, b"0123456789"))]);
    let mut faults = kinds(judged(&update(), before, acts.into(), updated).check(&all([(NAMES[0], found(0, now))])));
    faults.retain(|kind| *kind != "lost content");
    faults
}

#[test]
fn success_means_all_updates_and_nothing_else_and_an_early_end_is_held_to_the_promise() {
    assert!(updated(UpdatesPresent::All, &[], b"01AB456C89").is_empty());
    for wrong in ["01AB456789", "01AB456C8x", "01AB456C8", "01AB456C89\0"] {
        let faults = updated(UpdatesPresent::All, &[], wrong.as_bytes());
        assert_eq!(faults, ["foreign bytes"], "{wrong}");
    }
    for (promise, now, faults) in [
        (UpdatesPresent::EachByte, b"01A3456C89", &[][..]),
        (UpdatesPresent::EachByte, b"01x3456C89", &["foreign bytes"]),
        (UpdatesPresent::AllOrNone, b"01AB456C89", &[]),
        (UpdatesPresent::AllOrNone, b"0123456789", &[]),
        (UpdatesPresent::AllOrNone, b"0123456C89", &["foreign bytes"]),
    ] {
        assert_eq!(updated(promise, &[], now), faults);
    }
}

#[test]
fn what_others_wrote_to_an_updated_file_must_stay() {
    let appended = [act(Interference::Append, NAMES[0], 10, b"line\n")];
    for content in [b"01AB456C89", b"0123456789"] {
        let faults = |tail: &[u8]| updated(UpdatesPresent::AllOrNone, &appended, &[content, tail].concat());
        assert!(faults(b"line\n").is_empty());
        assert_eq!(faults(b"\0\0\0\0\0"), ["foreign bytes", "lost write"]);
        assert_eq!(faults(b"lin"), ["foreign bytes", "lost write"]);
        assert_eq!(faults(b""), ["lost write"]);
    }
    let between = [act(Interference::Overwrite, NAMES[0], 5, b"x")];
    assert!(updated(UpdatesPresent::All, &between, b"01AB4x6C89").is_empty());
    assert_eq!(updated(UpdatesPresent::All, &between, b"01AB456C89"), ["lost write"]);
    // Where both write, either may be the last.
    let same = [act(Interference::Overwrite, NAMES[0], 3, b"x")];
    let faults = |now: &[u8]| updated(UpdatesPresent::All, &same, now);
    assert!(faults(b"01AB456C89").is_empty() && faults(b"01Ax456C89").is_empty());
    assert_eq!(faults(b"01Ay456C89"), ["foreign bytes", "lost write"]);
}

#[test]
fn a_saved_file_must_stay_with_or_without_updates() {
    let saved = [act(Interference::Save, NAMES[0], 0, b"abcdefghij")];
    for right in [b"abcdefghij", b"abABefgCij"] {
        assert!(updated(UpdatesPresent::All, &saved, right).is_empty());
    }
    for wrong in [b"01AB456C89", b"0123456789"] {
        let faults = updated(UpdatesPresent::All, &saved, wrong);
        assert_eq!(faults, ["lost write", "wrong bytes"]);
    }
}

#[test]
fn properties_are_those_before_or_those_that_others_set_last() {
    let with = |owner, mode| {
        let attributes = BTreeMap::from([("user.ours".to_owned(), b"kept".to_vec())]);
        let mut file = found(0, b"");
        if let TreeEntry::File(file) = &mut file {
            file.properties = Properties {
                owner,
                mode,
                attributes,
            };
        }
        all([(NAMES[0], file)])
    };
    let (plan, before) = (update(), with(0, 0o4755));
    let faults = |acts: &[Act], now: &FileTree| {
        let evidence = judged(&plan, before.clone(), acts.into(), UpdatesPresent::All);
        usize::from(evidence.check_properties(now).is_some())
    };
    assert_eq!(faults(&[], &before), 0);
    let nothing = all([(NAMES[0], found(0, b""))]);
    for wrong in [with(0, 0o4757), with(0, 0o755), with(1, 0o4755), nothing] {
        assert_eq!(faults(&[], &wrong), 1);
    }
    let set = |kind, set| Act {
        set,
        ..act(kind, NAMES[0], 0, b"")
    };
    let narrowed = [set(Interference::Mode, 0o755), set(Interference::Mode, 0o600)];
    assert_eq!(faults(&narrowed, &with(0, 0o600)), 0);
    assert_eq!(faults(&narrowed, &before), 1);
    let given = [set(Interference::Owner, 1)];
    assert_eq!(faults(&given, &with(1, 0o755)), 0);
    assert_eq!(faults(&given, &before), 1);
}
