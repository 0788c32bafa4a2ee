//! `seekless update` and `seekless holes` on file systems that are served by programs, have no holes, or show another
//! file system.
//!
//! The result is right, or a refusal that changes nothing. File systems that cannot be mounted here are skipped.

use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use seekless_engine::update::{Batch, Commit, Safety, StepKind, Watch, WatchedStep, commit_watched, journal_path};
use seekless_engine::{Copier, Destination};

use crate::common::place::{Mount, Place, assert_lacks, prepared};

const KINDS: [&str; 4] = ["bindfs", "fuse2fs", "exfat", "overlay"];
const IMAGE_BYTES: u64 = 48 << 20;

/// A place with a file system mounted on its directory `mount`.
struct Foreign {
    kind: &'static str,
    // Before `place`, because fields are dropped in this order.
    mount: Option<Mount>,
    place: Place,
}

impl Foreign {
    fn new(kind: &'static str) -> Option<Self> {
        let place = Place::new();
        place.directories("mount source upper work");
        let image = place.sparse("image", IMAGE_BYTES);
        let made = match kind {
            "fuse2fs" => prepared("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), image.as_os_str()]),
            "exfat" => prepared("mkfs.exfat", &[image.as_os_str()]),
            _ => true,
        };
        if !made {
            println!("skipped: there is no program to make {kind}");
            return None;
        }
        let mut foreign = Self {
            kind,
            mount: None,
            place,
        };
        foreign.mount();
        foreign.mount.is_some().then_some(foreign)
    }

    fn mount(&mut self) {
        let path = |name| self.place.path(name);
        let (directory, source, image) = (path("mount"), path("source"), path("image"));
        self.mount = match self.kind {
            "bindfs" => Mount::bindfs(&source, &directory, &[]),
            "fuse2fs" => Mount::fuse2fs(&image, &directory),
            "exfat" => Mount::exfat(&image, &directory),
            _ => Mount::overlay([&source, &path("upper"), &path("work")], &directory),
        };
    }

    /// Mounts it again. A program of FUSE holds its image a moment longer than it is mounted.
    fn mount_again(&mut self) {
        self.mount = None;
        let until = Instant::now() + Duration::from_secs(20);
        while self.mount.is_none() && Instant::now() < until {
            self.mount();
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(self.mount.is_some(), "{} is mounted again", self.kind);
    }

    /// A file in it.
    fn file(&self, bytes: &[u8]) -> PathBuf {
        self.place.file("mount/file", bytes)
    }

    fn names(&self) -> usize {
        fs::read_dir(self.place.path("mount")).unwrap().count()
    }
}

fn foreign() -> impl Iterator<Item = Foreign> {
    KINDS.into_iter().filter_map(Foreign::new)
}

/// Whether a command says that no lease keeps others out there, or that mappings on an overlay cannot be seen.
fn is_unkept(said: &str) -> bool {
    said.contains("a lease is not known to keep out all writers") || said.contains("a lease does not show mappings")
}

fn allocated(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Data, zeros, and data again.
fn with_zeros() -> Vec<u8> {
    let mut bytes = vec![7; 400_001];
    bytes[100_000..300_000].fill(0);
    bytes
}

/// Makes a file with its zeros as a hole, if there are holes.
fn make_sparse(path: &Path, bytes: &[u8]) {
    let file = File::create(path).unwrap();
    file.write_all_at(&bytes[..100_000], 0).unwrap();
    file.write_all_at(&bytes[300_000..], 300_000).unwrap();
}

/// Hundreds of updates from byte 0 to one far behind the end of a file, and what they make of it.
fn changes(before: &[u8]) -> (Vec<(u64, Vec<u8>)>, Vec<u8>) {
    let mut random = fastrand::Rng::with_seed(1);
    let mut after = before.to_vec();
    let updates = (0..300_u64).map(|_| {
        let offset = random.usize(..before.len() + 100_000);
        let bytes = vec![random.u8(1..); random.usize(1..1000)];
        after.resize(after.len().max(offset + bytes.len()), 0);
        after[offset..offset + bytes.len()].copy_from_slice(&bytes);
        (offset as u64, bytes)
    });
    let updates = updates.collect();
    (updates, after)
}

fn lines(updates: &[(u64, Vec<u8>)]) -> String {
    let mut lines = String::new();
    for (offset, bytes) in updates {
        write!(lines, "{{\"offset\": {offset}, \"hex\": \"").unwrap();
        for byte in bytes {
            write!(lines, "{byte:02x}").unwrap();
        }
        lines += "\"}\n";
    }
    lines
}

#[test]
fn update_is_right_or_refused_on_fuse_exfat_and_overlay() {
    for foreign in foreign() {
        let (kind, place) = (foreign.kind, &foreign.place);
        let before = with_zeros();
        let (updates, after) = changes(&before);
        place.file("changes", lines(&updates).as_bytes());
        let path = foreign.file(b"");
        let names = foreign.names();
        for (method, is_everywhere) in [
            ("auto", true),
            ("update/sync,gap=64K", true),
            ("update/sync,order=as-given", true),
            ("update/mmap", true),
            ("update/io_uring", false),
            ("update/sync,direct", false),
            ("update/sync,preallocate=allocate", false),
        ] {
            for safety in ["in-place", "journal", "replace"] {
                make_sparse(&path, &before);
                let words = "update mount/file --grow --from changes --method";
                let ended = place.run((words, method, ("--safety", safety)));
                let found = fs::read(&path).unwrap();
                let said = &ended.stderr;
                if ended.code == Some(0) {
                    assert!(found == after, "{kind} {method} {safety}");
                    assert_eq!(said, "", "{kind} {method} {safety}");
                } else {
                    println!("{kind}: {said}");
                    // Elsewhere a file does not grow before it is mapped, and two names cannot be exchanged.
                    let cannot_replace = safety == "replace" && said.contains("cannot exchange two names");
                    let cannot_fill = is_unkept(said);
                    let is_known = cannot_replace || cannot_fill;
                    let is_everywhere = is_everywhere && method != "update/mmap";
                    let case = format!("{kind} {method} {safety}: {said}");
                    assert!((is_known || !is_everywhere) && ended.code == Some(2), "{case}");
                    assert!(is_known || said.contains("is not available here"), "{case}");
                    assert_lacks(&case, &["may be applied in part"]);
                    assert!(found == before, "{case}");
                }
                assert_eq!(foreign.names(), names, "{kind} {method} {safety}");
            }
        }
    }
}

#[test]
fn update_plan_fills_no_hole_where_none_are_reported() {
    for foreign in foreign() {
        let changes: Vec<_> = (0..100_u64).map(|n| (n * 20_000, vec![1; 7])).collect();
        foreign.place.file("changes", lines(&changes).as_bytes());
        let path = foreign.place.sparse("mount/file", 4_000_000);
        if allocated(&path) > 0 {
            println!("skipped: {} has no holes", foreign.kind);
            continue;
        }
        let arguments = "update mount/file --grow --from changes --durability through";
        foreign.place.succeeds(arguments);
        let taken = allocated(&path);
        assert!(taken <= 100 * 3 * 4096, "{}: {taken} bytes", foreign.kind);
    }
}

#[test]
fn update_of_a_file_that_cannot_be_mapped_keeps_its_size() {
    let place = Place::new();
    place.directories("source mount");
    let (source, directory) = (place.path("source"), place.path("mount"));
    // Without the page cache there is nothing to map.
    let Some(_mount) = Mount::bindfs(&source, &directory, &["-o", "direct_io"]) else {
        return;
    };
    let path = place.file("mount/file", b"precious");
    place.file("changes", b"{\"offset\": 9999, \"text\": \"x\"}\n");
    for safety in ["in-place", "journal", "replace"] {
        let words = "update mount/file --grow --from changes --method update/mmap --safety";
        let ended = place.run((words, safety));
        if ended.code == Some(0) {
            println!("skipped: files that are read past the page cache can be mapped here");
            return;
        }
        let sentence = ended.refused();
        assert!(
            (sentence.contains("map at byte 0") || sentence.contains("is not available here") || is_unkept(&sentence))
                && !sentence.contains("of 1 writes"),
            "{safety}: {sentence}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"precious", "{safety}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "{safety}");
    }
}

/// Keeps a file and its journal as they are before one of its writes.
struct Snapshot {
    path: PathBuf,
    writes_left: Mutex<u32>,
    kept: Mutex<Vec<Vec<u8>>>,
}

impl Watch for Snapshot {
    fn before(&self, step: &WatchedStep<'_>) -> io::Result<()> {
        let mut left = self.writes_left.lock().unwrap();
        if step.kind == StepKind::Write && *left > 0 {
            *left -= 1;
            if *left == 0 {
                *self.kept.lock().unwrap() = vec![fs::read(&self.path)?, fs::read(journal_path(&self.path))?];
            }
        }
        Ok(())
    }
}

#[test]
fn update_recovers_after_the_file_system_is_mounted_again() {
    for mut foreign in foreign() {
        let before = with_zeros();
        let (updates, after) = changes(&before);
        // Without it, the file gets another inode if the mount numbers them.
        foreign.place.file("mount/first", b"");
        let path = foreign.file(&before);
        let snapshot = Snapshot {
            path: path.clone(),
            writes_left: 50.into(),
            kept: Mutex::default(),
        };
        let mut batch = Batch::new();
        for (offset, bytes) in &updates {
            batch.push(*offset, bytes).unwrap();
        }
        let how = Commit::by("update/sync,gap=0".parse::<seekless_engine::Choice>().unwrap())
            .safety(Safety::Journal)
            .growing();
        commit_watched(&path, &batch.resolve(), &how, &snapshot).unwrap();
        let kept = snapshot.kept.into_inner().unwrap();
        assert!(kept[0] != before && kept[0] != after, "{}", foreign.kind);
        let journal = journal_path(&path);
        fs::write(&path, &kept[0]).unwrap();
        let made = File::options().write(true).create_new(true).mode(0o600).open(&journal);
        made.unwrap().write_all_at(&kept[1], 0).unwrap();
        fs::remove_file(foreign.place.path("mount/first")).unwrap();
        foreign.mount_again();
        println!("{}", foreign.kind);
        foreign
            .place
            .run("update mount/file --from /dev/null")
            .warns("--recover");
        foreign
            .place
            .succeeds("update mount/file --recover")
            .says("the update is finished");
        assert!(fs::read(&path).unwrap() == after, "{}", foreign.kind);
        assert!(!journal.exists(), "{}", foreign.kind);
    }
}

#[test]
fn holes_are_dug_or_refused_on_fuse_exfat_and_overlay() {
    for foreign in foreign() {
        let (kind, place) = (foreign.kind, &foreign.place);
        // fuse2fs writes its image at any time.
        let content = || {
            let mut content = place.content();
            content.remove(&place.path("image"));
            content
        };
        for words in [&["dig"][..], &["dig", "--verify"], &["fill"], &["punch"]] {
            let mut bytes = with_zeros();
            let path = foreign.file(&bytes);
            let before = content();
            let range: &[&str] = if words == ["punch"] {
                &["50000", "100000", "--yes"]
            } else {
                &[]
            };
            let ended = place.run(&[&["holes"], words, &["mount/file"], range].concat());
            if ended.code == Some(0) {
                // On FUSE a lease does not keep out those who write behind the mount.
                assert_eq!(kind, "overlay", "{words:?}: {}", ended.stdout);
                if words == ["punch"] {
                    bytes[50_000..150_000].fill(0);
                }
                let is_smaller = allocated(&path) < 400_000 - 90_000;
                assert_eq!(is_smaller, words != ["fill"], "{kind} {words:?}: {}", ended.stdout);
                assert!(fs::read(&path).unwrap() == bytes, "{kind} {words:?}");
            } else {
                let sentence = ended.refused();
                assert!(sentence.contains("nothing was changed"), "{kind} {words:?}: {sentence}");
                assert!(content() == before, "{kind} {words:?}: {sentence}");
            }
        }
    }
}

#[test]
fn holes_show_denies_no_holes_where_there_are_some() {
    for foreign in foreign() {
        let path = foreign.file(b"");
        make_sparse(&path, &with_zeros());
        let shown = foreign.place.succeeds("holes show mount/file").stdout;
        let has_holes = allocated(&path) < 300_000;
        assert_eq!(has_holes, foreign.kind != "exfat", "{}", foreign.kind);
        assert_eq!(!has_holes, shown.contains("no holes"), "{}: {shown}", foreign.kind);
    }
}

#[test]
fn copy_skipping_holes_clears_what_the_target_had() {
    for foreign in foreign() {
        let bytes = with_zeros();
        let (source, target) = (foreign.file(b""), foreign.place.path("mount/target"));
        // Holes are shown although the file system reports none.
        let sparse = foreign.place.path("sparse");
        for source in [source, sparse] {
            make_sparse(&source, &bytes);
            fs::write(&target, vec![9; 500_000]).unwrap();
            let method = "copy/sync,holes=skip".parse().unwrap();
            let copied = Copier::prepare(&method)
                .unwrap()
                .copy(&source, &target, Destination::Overwrite);
            copied.unwrap();
            assert!(
                fs::read(&target).unwrap() == bytes,
                "{}: {}",
                foreign.kind,
                source.display()
            );
        }
    }
}

#[test]
fn update_and_holes_leave_the_file_below_an_overlay() {
    let Some(foreign) = Foreign::new("overlay") else {
        return;
    };
    let place = &foreign.place;
    let bytes = with_zeros();
    let (updates, after) = changes(&bytes);
    place.file("changes", lines(&updates).as_bytes());
    for safety in ["in-place", "journal", "replace"] {
        let below = place.file(format!("source/{safety}"), &bytes);
        let above = place.path(format!("mount/{safety}"));
        let words = format!("update mount/{safety} --grow --from changes --safety {safety}");
        let ended = place.run(&words);
        if is_unkept(&ended.stderr) {
            println!("skipped: {}", ended.stderr);
            continue;
        }
        ended.succeeded();
        assert!(fs::read(above).unwrap() == after, "{safety}");
        assert!(fs::read(below).unwrap() == bytes, "{safety}");
    }
    let below = place.file("source/dug", &bytes);
    let taken = allocated(&below);
    let ended = place.run("holes dig mount/dug");
    if is_unkept(&ended.stderr) {
        return println!("skipped: {}", ended.stderr);
    }
    ended.succeeded();
    assert!(place.read("mount/dug") == bytes);
    assert!(allocated(&place.path("mount/dug")) < taken - 150_000);
    assert_eq!(allocated(&below), taken);
}
