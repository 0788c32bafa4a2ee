use std::time::UNIX_EPOCH;

use super::*;
use crate::filesystems::TestFileSystem;
use crate::torture::harm::Harm;
use crate::torture::tree::Patch;

const NAMES: [&str; 3] = ["tree/r0/f0_", "tree/r0/f1_", "tree/r1/f2_"];
const OLD: &[u8] = b"forty bytes of which half may be marked.";
const MARK: &[u8] = b"\0id 000000000007";

/// A plan of a command. An update writes `AB` at 2 and `C` at 7 of the first file.
fn plan(label: &str) -> TrialPlan {
    let is_of_file = label.starts_with("update");
    let patch = |offset, bytes: &[u8]| Patch {
        offset,
        bytes: bytes.to_vec(),
    };
    let patches = vec![patch(2, b"AB"), patch(7, b"C")];
    TrialPlan {
        on: vec![TestFileSystem::Ext4],
        subject: match label {
            "cp" => TrialSubject::Cp,
            _ if is_of_file => TrialSubject::Update,
            _ => TrialSubject::Dupes,
        },
        label: label.to_owned(),
        words: String::new(),
        is_sparse: false,
        target: is_of_file.then(|| NAMES[0].into()),
        has_one_name: true,
        harm: Harm::default(),
        others: None,
        stays: false,
        undo_times: 0,
        recovery_harm: None,
        patches: if is_of_file { patches } else { Vec::new() },
        tree: FileTree::new(),
    }
}

fn file(bytes: &[u8], first: &str, mode: u32) -> TreeEntry {
    TreeEntry {
        attributes: FileAttributes {
            mode,
            ..FileAttributes::default()
        },
        modified: UNIX_EPOCH,
        first: first.into(),
        content: Content::File(bytes.into()),
    }
}

fn tree(files: &[(&str, &[u8])]) -> FileTree {
    let entry = |(name, bytes): &(&str, &[u8])| (PathBuf::from(name), file(bytes, name, 0o600));
    files.iter().map(entry).collect()
}

/// Three files with one content.
fn three() -> FileTree {
    tree(&NAMES.map(|name| (name, OLD)))
}

fn act(kind: Interference, path: &str, offset: usize, wrote: &[u8]) -> Act {
    Act {
        kind,
        path: path.into(),
        wrote: wrote.to_vec(),
        offset,
        mode: 0o600,
        answer: Ok(()),
    }
}

fn evidence(plan: &TrialPlan, before: FileTree, acts: Vec<Act>) -> Evidence<'_> {
    let mut evidence = Evidence::new(plan, Path::new("/trial"), before);
    evidence.others_did(acts);
    evidence
}

fn kinds(faults: &[String]) -> Vec<&str> {
    let kinds = faults.iter().map(|fault| fault.split_once(':').unwrap().0);
    kinds.collect()
}

/// The kinds of faults after a command on three equal files, and acts of others.
fn checked(label: &str, acts: Vec<Act>, now: &FileTree) -> String {
    let plan = plan(label);
    let faults = evidence(&plan, three(), acts).check(now, Promise::OldOrNew);
    kinds(&faults).join(", ")
}

#[test]
fn oracle_needs_a_name_of_each_content_outside_of_the_trash() {
    assert_eq!(checked("dupes remove", vec![], &tree(&[(NAMES[1], OLD)])), "");
    let lost = ["lost content"; 3].join(", ");
    assert_eq!(checked("dupes remove", vec![], &FileTree::new()), lost);
    for moved in ["to/trial/tree/r0/f0_", "data/Trash/files/f0_"] {
        assert_eq!(checked("dupes move", vec![], &tree(&[(moved, OLD)])), lost);
    }
    let lost_name = checked("dupes hardlink", vec![], &tree(&[(NAMES[0], OLD), (NAMES[1], OLD)]));
    assert_eq!(lost_name, "lost name");
}

#[test]
fn oracle_finds_bytes_of_others_and_what_they_wrote() {
    let appended = [OLD, MARK].concat();
    let over = [MARK, &OLD[16..]].concat();
    for (kind, offset, marked) in [
        (Interference::Append, 40, &appended),
        (Interference::Overwrite, 0, &over),
    ] {
        let now = tree(&[(NAMES[0], marked), (NAMES[1], OLD)]);
        let wrote = || vec![act(kind, NAMES[0], offset, MARK)];
        assert_eq!(checked("dupes remove", wrote(), &now), "");
        assert_eq!(checked("dupes remove", vec![], &now), "foreign bytes");
        let without = tree(&[(NAMES[1], OLD)]);
        assert_eq!(checked("dupes remove", wrote(), &without), "lost write");
    }
    let saved = || vec![act(Interference::Save, NAMES[0], 0, b"saved")];
    let now = tree(&[(NAMES[0], b"saved"), (NAMES[1], OLD), ("yard/0", OLD)]);
    assert_eq!(checked("dupes remove", saved(), &now), "");
    assert_eq!(checked("dupes remove", saved(), &three()), "lost content");
}

#[test]
fn oracle_holds_an_update_to_its_promise() {
    let plan = plan("update in-place");
    let before = || tree(&[(NAMES[0], b"0123456789")]);
    for (promise, right, wrong) in [
        (
            Promise::New,
            &["01AB456C89"][..],
            &["01AB456789", "01AB456C8", "01AB456C8x"][..],
        ),
        (
            Promise::OldOrNew,
            &["01AB456C89", "0123456789"],
            &["0123456C89", "01AB456C8"],
        ),
        (
            Promise::EachByte,
            &["01A3456C89", "0123456789\0\0"],
            &["01x3456C89", "0123"],
        ),
    ] {
        let faults = |now: &str| evidence(&plan, before(), vec![]).check(&tree(&[(NAMES[0], now.as_bytes())]), promise);
        assert!(right.iter().all(|now| faults(now).is_empty()), "{promise:?}");
        assert!(
            wrong.iter().all(|now| kinds(&faults(now)).contains(&"foreign bytes")),
            "{promise:?}"
        );
    }
}

#[test]
fn oracle_finds_wider_rights_and_owners() {
    let plan = plan("update replace");
    let of_mode = |mode| FileTree::from([(NAMES[0].into(), file(b"01AB456C89", NAMES[0], mode))]);
    let mut before = tree(&[(NAMES[0], b"0123456789")]);
    before.get_mut(Path::new(NAMES[0])).unwrap().attributes.mode = 0o640;
    let check = |acts, now: &FileTree| evidence(&plan, before.clone(), acts).check(now, Promise::New);
    assert_eq!(check(vec![], &of_mode(0o640)), [""; 0]);
    assert_eq!(kinds(&check(vec![], &of_mode(0o644))), ["wider"]);
    let narrowed = || vec![act(Interference::Mode, NAMES[0], 0, b"")];
    assert_eq!(check(narrowed(), &of_mode(0o600)), [""; 0]);
    assert_eq!(kinds(&check(narrowed(), &of_mode(0o640))), ["wider"]);
    let mut of_another = of_mode(0o640);
    of_another.get_mut(Path::new(NAMES[0])).unwrap().attributes.owner = 1;
    assert_eq!(kinds(&check(vec![], &of_another)), ["wider"]);
}

#[test]
fn oracle_finds_names_that_seekless_left_behind() {
    let plan = plan("dupes remove");
    let mut evidence = evidence(&plan, three(), vec![]);
    evidence.told = "told of .seekless-dupes-1".to_owned();
    let left = |name| kinds(&evidence.check_left(&tree(&[(name, OLD)]))).len();
    assert_eq!(left("tree/r0/.seekless-dupes-1"), 0);
    assert_eq!(left("tree/r0/.seekless-dupes-2"), 1);
    let new = tree(&[(NAMES[0], OLD), ("tree/r0/new", OLD)]);
    assert_eq!(kinds(&evidence.check(&new, Promise::New)), ["unknown name"]);
}

#[test]
fn oracle_success_is_all_done_and_undo_brings_all_back() {
    let plan_of = |action: &str| plan(&format!("dupes {action}"));
    let (remove, hardlink) = (plan_of("remove"), plan_of("hardlink"));
    let removed = evidence(&remove, three(), vec![]);
    assert_eq!(kinds(&removed.check_acted(&three(), true)).len(), 2);
    assert_eq!(removed.check_acted(&three(), false), [""; 0]);
    assert_eq!(removed.check_acted(&tree(&[(NAMES[2], OLD)]), true), [""; 0]);
    let linked: FileTree = NAMES.map(|name| (name.into(), file(OLD, NAMES[0], 0o600))).into();
    assert_eq!(evidence(&hardlink, three(), vec![]).check_acted(&linked, true), [""; 0]);
    let other = tree(&[(NAMES[0], OLD), (NAMES[1], MARK)]);
    assert_eq!(kinds(&removed.check_acted(&other, true)), ["wrong result"]);
    assert_eq!(removed.check_restored(&three(), true), [""; 0]);
    assert_eq!(kinds(&removed.check_restored(&linked, true)).len(), 2);
    assert_eq!(kinds(&removed.check_restored(&tree(&[(NAMES[0], OLD)]), true)).len(), 2);
}

#[test]
fn oracle_copy_is_its_source_or_what_was_there() {
    let plan = plan("cp");
    let mut before = tree(&[(NAMES[0], OLD)]);
    before.extend(tree(&[("copy/r0/f0_", b"older")]));
    let with = |copy: &[u8]| {
        let mut now = tree(&[(NAMES[0], OLD)]);
        now.extend(tree(&[("copy/r0/f0_", copy)]));
        now
    };
    let copied = evidence(&plan, before, vec![]);
    for right in [OLD, b"older"] {
        assert_eq!(copied.check(&with(right), Promise::OldOrNew), [""; 0]);
    }
    assert_eq!(
        kinds(&copied.check(&with(b"forty"), Promise::OldOrNew)),
        ["foreign bytes"]
    );
    assert_eq!(copied.check_done(&with(OLD), true), [""; 0]);
    assert_eq!(kinds(&copied.check_done(&with(b"older"), true)), ["not copied"]);
}
