//! Who may read what `seekless cp` makes, also while it is made.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, OFlags, XattrFlags, mknodat};

use super::copies::{below, make_tree};
use crate::common::disks::{attribute, disk, list_with_mask};
use crate::common::place::{Place, is_root, set_mode};
use crate::common::unprivileged::{Common, NOBODY};

/// The rights that others have at the moment: reading for anybody but the owner, or searching.
fn is_open_to_others(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink() && found.mode() & 0o077 != 0)
}

/// Runs a copy while a thread looks at everything below `copy`. Returns what `is_wrong` found, and the number of looks.
fn watched(
    place: &Place,
    words: &[&str],
    copy: &Path,
    is_wrong: impl Fn(&Path) -> bool + Sync,
) -> (BTreeSet<PathBuf>, u64) {
    let (is_over, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut wrong = BTreeSet::new();
            while !is_over.load(Ordering::Relaxed) {
                let all = below(copy);
                looks.fetch_add(all.len() as u64, Ordering::Relaxed);
                wrong.extend(all.into_iter().filter(|path| is_wrong(path)));
            }
            wrong
        });
        let ended = place.run(words);
        is_over.store(true, Ordering::Relaxed);
        let wrong = watcher.join().unwrap();
        ended.succeeded();
        (wrong, looks.load(Ordering::Relaxed))
    })
}

#[test]
fn cp_never_opens_private_files_to_others() {
    let place = Place::new();
    make_tree(&place.path("tree"), 30, 40, [0o700, 0o600]);
    fs::set_permissions(place.path("tree"), Permissions::from_mode(0o700)).unwrap();
    place.directories("into");
    for words in [
        &["cp", "tree", "into"][..],
        &["cp", "-T", "--fsync", "tree", "into/again"],
    ] {
        let (wrong, looks) = watched(&place, words, &place.path("into"), is_open_to_others);
        assert!(wrong.is_empty(), "{wrong:?}");
        assert!(looks > 1000, "looked too seldom: {looks}");
    }
    // The watch sees files that are open.
    make_tree(&place.path("open"), 10, 40, [0o700, 0o644]);
    let (open, _) = watched(
        &place,
        &["cp", "--fsync", "open", "into"],
        &place.path("into"),
        is_open_to_others,
    );
    let directories = 1 + 10;
    assert!(open.len() > directories, "it sees files: {open:?}");
}

/// The rights of user 77 by a list: those of the entry, less those that the mask lacks.
fn rights_of_77(path: &Path) -> u16 {
    let mut list = vec![0; 1024];
    let length = rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut list).unwrap_or(0);
    let entries = list[..length].get(4..).unwrap_or_default().chunks_exact(8);
    let (mut of_77, mut mask) = (0, 7);
    for entry in entries {
        let [tag, rights] = [0, 2].map(|at| u16::from_le_bytes([entry[at], entry[at + 1]]));
        match (tag, entry[4..8] == 77_u32.to_le_bytes()) {
            (2, true) => of_77 = rights,
            (16, _) => mask = rights,
            _ => {}
        }
    }
    of_77 & mask
}

/// A tree with entries of all kinds, which the group may use, and a target directory whose list lets user 77 read new files.
fn with_default_list() -> Option<Place> {
    let place = Place::new();
    make_tree(&place.path("tree"), 20, 30, [0o750, 0o640]);
    for (name, kind) in [("fifo", FileType::Fifo), ("socket", FileType::Socket)] {
        let path = place.path("tree").join(name);
        mknodat(CWD, &path, kind, Mode::RUSR, 0).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o660)).unwrap();
    }
    place.directories("into");
    let is_set = attribute(&place.path("into"), "system.posix_acl_default", &list_with_mask(7));
    is_set.then_some(place)
}

#[test]
fn cp_gives_no_rights_by_a_default_list_of_the_target() {
    let Some(place) = with_default_list() else { return };
    // The watch can see such rights.
    place.file("into/own", b"");
    fs::set_permissions(place.path("into/own"), Permissions::from_mode(0o640)).unwrap();
    assert_eq!(rights_of_77(&place.path("into/own")), 4);
    fs::remove_file(place.path("into/own")).unwrap();
    let words = ["cp", "--fsync", "tree", "into"];
    let (wrong, looks) = watched(&place, &words, &place.path("into"), |path| rights_of_77(path) & 4 != 0);
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(looks > 1000, "looked too seldom: {looks}");
    let listed: Vec<_> = below(&place.path("into"))
        .into_iter()
        .filter(|path| ["access", "default"].iter().any(|kind| has_list(path, kind)))
        .collect();
    assert!(listed.is_empty(), "{listed:?}");
}

fn has_list(path: &Path, kind: &str) -> bool {
    has_attribute(path, &format!("system.posix_acl_{kind}"))
}

#[test]
fn cp_without_lists_does_not_open_files_to_the_group() {
    let place = Place::new();
    let listed = place.file("listed", b"for 77");
    fs::set_permissions(&listed, Permissions::from_mode(0o600)).unwrap();
    if !attribute(&listed, "system.posix_acl_access", &list_with_mask(6)) {
        return;
    }
    assert_eq!(fs::metadata(&listed).unwrap().mode() & 0o070, 0o060, "the mask");
    for word in ["--no-preserve=xattr", "--preserve=mode"] {
        place.run(&["cp", word, "listed", "copy"]);
        let copy = place.path("copy");
        let is_group_open = fs::metadata(&copy).unwrap().mode() & 0o070 != 0 && !has_list(&copy, "access");
        assert!(
            !is_group_open,
            "{word}: the group may read the copy, but not its source"
        );
        fs::remove_file(&copy).unwrap();
    }
}

#[test]
fn cp_closes_existing_directories_before_files_come() {
    let place = Place::new();
    make_tree(&place.path("tree"), 10, 60, [0o700, 0o644]);
    make_tree(&place.path("copy"), 10, 0, [0o755, 0o644]);
    let words = ["cp", "-T", "--fsync", "tree", "copy"];
    let is_reachable = |path: &Path| path.is_file() && path.parent().is_some_and(is_open_to_others);
    let (wrong, _) = watched(&place, &words, &place.path("copy"), is_reachable);
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Whether user 77, who is in group 77, may list or search a directory.
fn is_open_to_77(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| {
        let rights = found.mode() >> if found.gid() == 77 { 3 } else { 0 };
        found.uid() == 77 || rights & 5 != 0 || rights_of_77(path) != 0
    })
}

#[test]
fn cp_closes_existing_directories_to_other_groups_and_owners() {
    let Some(place) = Place::of_root() else { return };
    make_tree(&place.path("tree"), 10, 20, [0o750, 0o644]);
    for case in ["group", "list", "owner"] {
        make_tree(&place.path(case), 10, 0, [0o750, 0o644]);
        for number in 0..10 {
            let directory = place.path(format!("{case}/{number}"));
            match case {
                "group" => chown(&directory, None, Some(77)).unwrap(),
                "list" => drop(attribute(&directory, "system.posix_acl_access", &list_with_mask(7))),
                _ => chown(&directory, Some(77), None).unwrap(),
            }
            assert!(is_open_to_77(&directory) || !has_list(&directory, "access"), "{case}");
        }
        let words = ["cp", "-T", "--fsync", "tree", case];
        let is_reachable = |path: &Path| path.is_file() && path.parent().is_some_and(is_open_to_77);
        let (wrong, looks) = watched(&place, &words, &place.path(case), is_reachable);
        assert!(wrong.is_empty() && looks > 1000, "{case}, {looks} looks: {wrong:?}");
    }
    // Rights that all have before and after stay.
    make_tree(&place.path("open"), 10, 20, [0o755, 0o644]);
    make_tree(&place.path("copy"), 10, 0, [0o775, 0o644]);
    for number in 0..10 {
        chown(place.path(format!("copy/{number}")), Some(77), Some(77)).unwrap();
    }
    let words = ["cp", "-T", "--fsync", "open", "copy"];
    let is_closed = |path: &Path| fs::metadata(path).is_ok_and(|found| found.is_dir() && found.mode() & 0o055 != 0o055);
    let (wrong, _) = watched(&place, &words, &place.path("copy"), is_closed);
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn cp_makes_room_for_attributes_by_removing_inherited_lists() {
    for has_own_list in [false, true] {
        let place = Place::new();
        // One block, and what is left in the inode.
        let Some(_mount) = disk(&place, "ext4 -I 256") else {
            return;
        };
        let source = place.file("disk/source", b"");
        let set = |name: &str, value: &[u8]| rustix::fs::lsetxattr(&source, name, value, XattrFlags::empty()).is_ok();
        let mut names = Vec::new();
        // In the order of their names, because ext4 fills both places in the order of the calls.
        for (letter, bytes) in [("a", 1000), ("b", 100), ("c", 10), ("d", 0)] {
            let all = (0..).map(|number| format!("user.{letter}{number:02}"));
            names.extend(all.take_while(|name| set(name, &vec![7; bytes])));
        }
        assert!(names.len() > 4, "{names:?}");
        while has_own_list && !set("system.posix_acl_access", &list_with_mask(4)) {
            rustix::fs::lremovexattr(&source, names.pop().unwrap()).unwrap();
        }
        place.directories("disk/into");
        assert!(attribute(
            &place.path("disk/into"),
            "system.posix_acl_default",
            &list_with_mask(7)
        ));
        place.succeeds("cp disk/source disk/into");
        let copy = place.path("disk/into/source");
        names.retain(|name| !has_attribute(&copy, name));
        assert!(names.is_empty(), "{names:?}");
        assert_eq!(has_list(&copy, "access"), has_own_list);
    }
}

#[test]
fn cp_writes_nothing_to_a_planted_fifo() {
    let Some(place) = Place::of_root() else { return };
    place.file("secret", b"secret");
    place.directories("open");
    let (open, fifo) = (place.path("open"), place.path("open/fifo"));
    set_mode(&open, 0o1777);
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let mut reader = File::from(rustix::fs::open(&fifo, flags, Mode::empty()).unwrap());
    for (above, owner, read) in [(0, NOBODY, ""), (NOBODY, NOBODY, "secret"), (NOBODY, 0, "secret")] {
        chown(&open, Some(above), None).unwrap();
        chown(&fifo, Some(owner), None).unwrap();
        let ended = place.run("cp secret open/fifo");
        assert_eq!(
            ended.code,
            Some(i32::from(read.is_empty())),
            "{above} {owner}: {}",
            ended.stderr
        );
        let mut bytes = String::new();
        reader.read_to_string(&mut bytes).unwrap();
        assert_eq!(bytes, read, "{above} {owner}");
    }
}

fn has_attribute(path: &Path, name: &str) -> bool {
    rustix::fs::lgetxattr(path, name, &mut [0_u8; 0]).is_ok()
}

#[test]
fn cp_drops_set_id_bits_with_the_owner_or_group() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let program = place.file("program", b"#!");
    for (owner, group) in [(77, 0), (0, 77), (77, 77)] {
        chown(&program, Some(owner), Some(group)).unwrap();
        set_mode(&program, 0o6755);
        let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        attribute(&program, "security.capability", &capability);
        place.succeeds("cp --no-preserve=ownership program copy");
        let copy = place.path("copy");
        assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o7777, 0o755, "{owner}:{group}");
        assert!(!has_attribute(&copy, "security.capability"), "{owner}:{group}");
    }
}

#[test]
fn cp_copies_xfs_access_lists_in_one_form() {
    let place = Place::new();
    let Some(_mount) = disk(&place, "xfs") else { return };
    let listed = place.file("disk/tree/listed", b"for 77");
    if !attribute(&listed, "system.posix_acl_access", &list_with_mask(4)) {
        return;
    }
    place.succeeds("cp disk/tree .");
    place.succeeds("cmp -r --metadata disk/tree tree");
    let copy = place.path("tree/listed");
    assert!(!has_attribute(&copy, "trusted.SGI_ACL_FILE"));
    rustix::fs::removexattr(&copy, "system.posix_acl_access").unwrap();
    set_mode(&copy, 0o600);
    mknodat(CWD, place.path("tree/fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    place.directories("disk/into");
    attribute(&place.path("disk/into"), "system.posix_acl_default", &list_with_mask(7));
    place.succeeds("cp tree disk/into");
    place.succeeds("cp -a tree/fifo disk/into");
    for name in ["tree/listed", "tree/fifo", "fifo"] {
        let back = place.path("disk/into").join(name);
        assert!(!has_list(&back, "access"), "{name}");
    }
}

#[test]
fn cp_dry_run_removes_no_directory_that_it_cannot_open() {
    let common = Common::new();
    fs::create_dir_all(common.directory().join("open/tree/shut")).unwrap();
    for name in ["open/tree/shut", "open/tree"] {
        let path = common.directory().join(name);
        set_mode(&path, if name.ends_with("shut") { 0 } else { 0o755 });
        if is_root() {
            chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    common.run("cp --dry-run open/tree open/copy").ended_with(1);
    assert!(common.directory().join("open/tree/shut").exists());
}
