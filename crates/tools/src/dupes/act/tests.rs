//! Acting and undoing, also with a kill before each change, and with other programs at work between them.
//!
//! They run in a temporary directory, or in each of the directories of `SEEKLESS_TEST_DIRS` (separated by colons).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use rustix::fs::XattrFlags;
use tempfile::TempDir;

use super::undo::{Undone, undo, undo_watched};
use super::*;

/// A tree of files below one directory, and a state directory beside it.
struct Tree {
    directory: TempDir,
}

/// What a path leads to: its kind and bytes, mode, time, attributes, and the first path of the same file.
type Snapshot = BTreeMap<PathBuf, (Vec<u8>, u32, i64, Vec<String>, PathBuf)>;

fn trees() -> Vec<Tree> {
    let directories = match std::env::var_os("SEEKLESS_TEST_DIRS") {
        None => vec![tempfile::tempdir().unwrap()],
        Some(list) => std::env::split_paths(&list)
            .map(|directory| tempfile::tempdir_in(directory).unwrap())
            .collect(),
    };
    let made = directories.into_iter().map(|directory| {
        fs::create_dir(directory.path().join("tree")).unwrap();
        Tree { directory }
    });
    made.collect()
}

fn tree() -> Tree {
    trees().swap_remove(0)
}

impl Tree {
    fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("tree")
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root().join(name)
    }

    fn write(&self, name: impl AsRef<Path>, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn options(&self) -> Options {
        Options {
            is_busy: false,
            unsafe_owner: false,
            ignore_metadata: false,
            state_directory: self.directory.path().join("state"),
        }
    }

    fn run(&self, action: &Action, steps: &[Step]) -> Vec<Outcome> {
        self.run_with(action, steps, &self.options(), &Unwatched).unwrap()
    }

    fn run_with(
        &self,
        action: &Action,
        steps: &[Step],
        options: &Options,
        watch: &dyn Watch,
    ) -> Result<Vec<Outcome>, Error> {
        let told = Mutex::new(BTreeMap::new());
        let tell = |number: usize, outcome: &Outcome| {
            assert_eq!(told.lock().unwrap().insert(number, outcome.clone()), None);
        };
        let ran = run_watched(action, steps, options, &Stop::default(), &tell, watch)?;
        let outcomes: Vec<_> = told.into_inner().unwrap().into_values().collect();
        assert_eq!(outcomes.len(), steps.len());
        assert_eq!(ran.done + ran.left + ran.failed, steps.len() as u64);
        Ok(outcomes)
    }

    fn undo(&self) -> Vec<(PathBuf, Undone)> {
        self.undo_with(&Unwatched)
    }

    fn undo_with(&self, watch: &dyn Watch) -> Vec<(PathBuf, Undone)> {
        let told = Mutex::new(Vec::new());
        let tell = |path: &Path, undone: &Undone| told.lock().unwrap().push((path.to_owned(), undone.clone()));
        if let Some(journal) = self.journals().first() {
            undo_watched(&journal.path, &Stop::default(), &tell, watch).unwrap();
        }
        told.into_inner().unwrap()
    }

    fn journals(&self) -> Vec<undo::Journal> {
        undo::list(&self.options().state_directory).unwrap()
    }

    fn snapshot(&self) -> Snapshot {
        let mut found = Snapshot::new();
        let mut first = BTreeMap::new();
        let mut directories = vec![self.root()];
        let mut paths = BTreeSet::new();
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if path.symlink_metadata().unwrap().is_dir() {
                    directories.push(path.clone());
                }
                paths.insert(path);
            }
        }
        for path in paths {
            let metadata = path.symlink_metadata().unwrap();
            let first = first.entry((metadata.dev(), metadata.ino())).or_insert(path.clone());
            let first = first.clone();
            let (mut bytes, mut attributes) = (Vec::new(), Vec::new());
            if metadata.is_symlink() {
                bytes = fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes();
            } else if metadata.is_file() {
                bytes = fs::read(&path).unwrap();
                let file = File::open(&path).unwrap();
                if let Support::Available(all) = sys::extended_attributes(file.as_fd()).unwrap() {
                    attributes = all.iter().map(|pair| format!("{pair:?}")).collect();
                }
            }
            let modified = if metadata.is_file() {
                metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec()
            } else {
                0
            };
            found.insert(path, (bytes, metadata.mode(), modified, attributes, first));
        }
        found
    }
}

fn seen(path: &Path) -> Seen {
    Seen::of(&Facts::at(rustix::fs::CWD, path).unwrap())
}

fn step<P: AsRef<Path>>(paths: &[P], keep: &Path) -> Step {
    Step {
        paths: paths.iter().map(|path| path.as_ref().to_owned()).collect(),
        seen: seen(paths[0].as_ref()),
        keep: keep.to_owned(),
        keep_seen: seen(keep),
        why: "first".into(),
    }
}

fn age(path: &Path, seconds: u64) {
    let time = UNIX_EPOCH + Duration::new(1_000_000_000 + seconds, 123_456_789);
    let times = FileTimes::new().set_modified(time).set_accessed(time);
    File::open(path).unwrap().set_times(times).unwrap();
}

fn set_attribute(path: &Path, value: &str) {
    let set = rustix::fs::setxattr(path, "user.note", value.as_bytes(), XattrFlags::empty());
    if let Err(error) = set {
        println!("no extended attributes here: {error}");
    }
}

fn actions(tree: &Tree) -> [Action; 6] {
    [
        Action::Remove,
        Action::Hardlink,
        Action::Symlink { is_absolute: false },
        Action::Symlink { is_absolute: true },
        Action::Reflink,
        Action::Move { to: tree.path("moved") },
    ]
}

/// Whether an outcome says that the file system lacks what an action needs.
fn is_lacking(outcomes: &[Outcome]) -> bool {
    let lacks = outcomes.iter().any(|outcome| match outcome {
        Outcome::Left { why } => why.contains("cannot share blocks"),
        _ => false,
    });
    if lacks {
        println!("skipped: {outcomes:?}");
    }
    lacks
}

fn is_done(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done { .. })
}

fn why(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Done { .. } => panic!("it was done"),
        Outcome::Left { why } | Outcome::Failed { why } => why,
    }
}

/// A tree with a file that is kept, and several that equal it, with times and attributes of their own; and the steps.
fn sample(tree: &Tree) -> Vec<Step> {
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    fs::create_dir_all(tree.path("moved")).unwrap();
    let keep = tree.write("keep", &bytes);
    let one = tree.write("deep/er/one", &bytes);
    let odd = tree.write(OsStr::from_bytes(b"deep/\xff odd\n"), &bytes);
    let two = tree.write("two", &bytes);
    fs::hard_link(&two, tree.path("deep/two")).unwrap();
    tree.write("deep/other", b"precious");
    for (seconds, path) in [&keep, &one, &odd, &two].into_iter().enumerate() {
        set_attribute(path, "same");
        age(path, seconds as u64);
    }
    vec![
        step(&[one], &keep),
        step(&[odd], &keep),
        step(&[two, tree.path("deep/two")], &keep),
    ]
}

#[test]
fn each_action_does_what_it_says_and_is_undone() {
    for tree in trees() {
        for action in actions(&tree) {
            let steps = sample(&tree);
            let before = tree.snapshot();
            let outcomes = tree.run(&action, &steps);
            if is_lacking(&outcomes) {
                assert_eq!(tree.snapshot(), before);
                continue;
            }
            assert!(outcomes.iter().all(is_done), "{action:?}: {outcomes:?}");
            let keep = tree.path("keep");
            for path in steps.iter().flat_map(|step| &step.paths) {
                let found = path.symlink_metadata();
                match &action {
                    Action::Remove => assert!(found.is_err()),
                    Action::Hardlink => assert_eq!(found.unwrap().ino(), keep.metadata().unwrap().ino()),
                    Action::Symlink { is_absolute } => {
                        assert_eq!(path.canonicalize().unwrap(), keep);
                        assert_eq!(fs::read_link(path).unwrap().is_absolute(), *is_absolute);
                    }
                    Action::Reflink => assert!(tree.snapshot() == before),
                    Action::Move { to } => {
                        assert!(found.is_err());
                        let moved = to.join(path.strip_prefix("/").unwrap());
                        assert_eq!(fs::read(moved).unwrap(), fs::read(&keep).unwrap());
                    }
                }
            }
            let [journal] = &tree.journals()[..] else { panic!() };
            assert_eq!((journal.steps, journal.undone), (4, 0));
            assert!(journal.is_complete && !journal.is_running);
            let undone = tree.undo();
            assert_eq!(undone.len(), 4);
            let is_restored = |(_, undone): &(PathBuf, Undone)| match action {
                Action::Reflink => matches!(undone, Undone::Nothing { .. }),
                _ => *undone == Undone::Restored,
            };
            assert!(undone.iter().all(is_restored), "{action:?}: {undone:?}");
            assert_eq!(tree.snapshot(), before, "{action:?}");
            assert_eq!(tree.undo(), [], "undone twice");
            assert_eq!(tree.journals()[0].undone, 4);
            undo::forget(&tree.journals()[0].path).unwrap();
            assert_eq!(tree.journals(), []);
            fs::remove_dir_all(tree.root()).unwrap();
            fs::create_dir(tree.root()).unwrap();
        }
    }
}

#[test]
fn what_is_gained_is_the_space_of_files_whose_last_name_is_gone() {
    let tree = tree();
    let keep = tree.write("keep", &[1; 100_000]);
    let one = tree.write("one", &[1; 100_000]);
    let two = tree.write("two", &[1; 100_000]);
    fs::hard_link(&two, tree.path("elsewhere")).unwrap();
    sys::sync_file_system(&File::open(&keep).unwrap()).unwrap();
    let outcomes = tree.run(&Action::Remove, &[step(&[one], &keep), step(&[two], &keep)]);
    assert!(matches!(outcomes[0], Outcome::Done { gained_bytes } if gained_bytes >= 100_000), "{outcomes:?}");
    assert_eq!(outcomes[1], Outcome::Done { gained_bytes: 0 });
}

/// Kills the process before a change.
struct Killing {
    left: AtomicU64,
}

impl Watch for Killing {
    fn before(&self, _step: &Watched<'_>) -> io::Result<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            std::process::abort();
        }
        Ok(())
    }
}

const CHILD: &str = "SEEKLESS_TEST_ACT";

/// Not a test of its own: what the child of the tests below does.
#[test]
fn child_that_is_killed() {
    let Ok(words) = std::env::var(CHILD) else { return };
    let words: Vec<&str> = words.split('\t').collect();
    let [root, number, job, left] = words[..] else { panic!() };
    let killing = Killing {
        left: left.parse::<u64>().unwrap().into(),
    };
    let directory = tempfile::Builder::new().tempdir_in(root).unwrap();
    let directory = {
        // The tree of the parent, which removes it.
        let _ = directory.keep().as_path().metadata().map(|_| ());
        PathBuf::from(root)
    };
    for entry in fs::read_dir(&directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().as_bytes().starts_with(b".tmp") {
            fs::remove_dir(entry.path()).unwrap();
        }
    }
    let tree = std::mem::ManuallyDrop::new(Borrowed(directory));
    let options = tree.options();
    match job {
        "run" => {
            let action = &tree.actions()[number.parse::<usize>().unwrap()];
            let steps = tree.steps();
            run_watched(action, &steps, &options, &Stop::default(), &|_, _| (), &killing).unwrap();
        }
        "settle" => {
            run_watched(&Action::Remove, &[], &options, &Stop::default(), &|_, _| (), &killing).unwrap();
        }
        _ => {
            let journals = undo::list(&options.state_directory).unwrap();
            undo_watched(&journals[0].path, &Stop::default(), &|_, _| (), &killing).unwrap();
        }
    }
}
