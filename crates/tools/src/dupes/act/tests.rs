//! Acting and undoing, also with a kill before each change, and with other programs at work between them.
//!
//! They run in a temporary directory, or in each of the directories of `SEEKLESS_TEST_DIRS` (separated by colons).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::Write;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use rustix::fs::XattrFlags;
use seekless_engine::files::{RecordForm, RecordReader, RecordWriter};
use seekless_engine::update::{StepKind, Watch, WatchedStep};
use seekless_sys::{self as sys, Support};
use tempfile::TempDir;

use super::journal::RunJournal;
use super::record::{FORM, moved_to};
use super::run::run_watched;
use super::undo::{UndoOutcome, UndoWatch, UndoneStep, undo_watched};
use super::*;
use crate::testing::{Mounted, cases, is_long, long_or, mounts, naive_walk};
use crate::walk::StatFacts;
use crate::{ClosureWatch, Stop};

mod emptied;
mod moved_apart;
mod names;
mod volumes;

/// A tree of files below one directory, and a state directory beside it.
struct Tree {
    /// The directory of both; removed in the end, unless another process owns it.
    directory: PathBuf,
    _owned: Option<TempDir>,
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
    let made = directories.into_iter().map(|owned| {
        let directory = owned.path().canonicalize().unwrap();
        fs::create_dir(directory.join("tree")).unwrap();
        Tree {
            directory,
            _owned: Some(owned),
        }
    });
    made.collect()
}

fn tree() -> Tree {
    trees().swap_remove(0)
}

/// Moments between changes, from before the first of them to after the last: all of them in a long test; else the first, the last
/// or one between, by the seed.
fn moments(changes: u64, seed: u64) -> Vec<u64> {
    if is_long() {
        return (0..=changes).collect();
    }
    let between = fastrand::Rng::with_seed(seed).u64(..=changes);
    vec![[between, 0, changes.saturating_sub(1)][seed as usize % 3]]
}

/// [`moments`] of several seeds.
fn some_moments(changes: u64) -> BTreeSet<u64> {
    (0..5).flat_map(|seed| moments(changes, seed)).collect()
}

/// How many changes are watched.
fn changes_of<T>(run: impl FnOnce(&dyn Watch) -> T) -> u64 {
    let met = AtomicU64::new(0);
    run(&meanwhile_always(|_| _ = met.fetch_add(1, Ordering::Relaxed)));
    met.into_inner()
}

impl Tree {
    fn root(&self) -> PathBuf {
        self.directory.join("tree")
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root().join(name)
    }

    /// Removes all files.
    fn clear(&self) {
        if self.root().exists() {
            fs::remove_dir_all(self.root()).unwrap();
        }
    }

    fn write(&self, name: impl AsRef<Path>, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn options(&self) -> ActingOptions {
        ActingOptions {
            without_leases: false,
            unsafe_owner: false,
            is_fresh: false,
            state_directory: self.directory.join("state"),
        }
    }

    /// The options, changed.
    fn with(&self, change: impl FnOnce(&mut ActingOptions)) -> ActingOptions {
        let mut options = self.options();
        change(&mut options);
        options
    }

    /// The options of a run that trusts owners.
    fn trusting(&self) -> ActingOptions {
        self.with(|options| options.unsafe_owner = true)
    }

    fn run(&self, action: &Action, steps: &[Step]) -> Vec<StepOutcome> {
        self.run_by(action, steps, &self.options())
    }

    fn run_by(&self, action: &Action, steps: &[Step], options: &ActingOptions) -> Vec<StepOutcome> {
        self.run_with(action, steps, options, &Unwatched).unwrap()
    }

    fn run_while(&self, action: &Action, steps: &[Step], watch: &dyn Watch) -> Vec<StepOutcome> {
        self.run_with(action, steps, &self.options(), watch).unwrap()
    }

    #[allow(clippy::unused_self, reason = "its options name the tree")]
    fn run_with(
        &self,
        action: &Action,
        steps: &[Step],
        options: &ActingOptions,
        watch: &dyn Watch,
    ) -> Result<Vec<StepOutcome>, Error> {
        let (stop, mut told) = (Stop::default(), BTreeMap::new());
        let tell = |event: RunEvent<'_>| {
            if let RunEvent::Step(number, outcome) = event {
                assert_eq!(told.insert(number, outcome.clone()), None);
            }
            ControlFlow::Continue(())
        };
        let ran = run_watched(action, steps, options, &ClosureWatch::new(&stop, |_| (), tell), watch)?;
        let outcomes: Vec<_> = told.into_values().collect();
        assert_eq!(outcomes.len(), steps.len());
        assert_eq!(ran.done + ran.left + ran.needless + ran.failed, steps.len() as u64);
        Ok(outcomes)
    }

    /// Runs steps, of which each is done.
    fn does(&self, action: &Action, steps: &[Step]) {
        let outcomes = self.run(action, steps);
        assert!(outcomes.iter().all(is_done), "{action:?}: {outcomes:?}");
    }

    /// Runs steps, of which none is done, each for this reason; nothing changes.
    fn refuses(&self, action: &Action, steps: &[Step], reason: &str) {
        let before = self.snapshot();
        let outcomes = self.run(action, steps);
        let is_told = |outcome: &StepOutcome| why(outcome).contains(reason);
        assert!(outcomes.iter().all(is_told), "{action:?}: {outcomes:?}");
        assert_eq!(self.snapshot(), before, "{action:?}");
    }

    /// Undoes the last run, after which all is as it was before, and forgets it.
    fn undoes(&self, before: &Snapshot, case: &str) -> Vec<(PathBuf, UndoOutcome)> {
        let undone = self.undo();
        require_same(self, before, &format!("{case}: {undone:?}"));
        forget_all(self);
        undone
    }

    /// Runs nothing, and gives what is told of runs that were killed.
    fn settle(&self) -> Vec<(PathBuf, RecoveredAct)> {
        let (stop, mut told) = (Stop::default(), Vec::new());
        let tell = |event: RunEvent<'_>| {
            let RunEvent::Recovered(path, settled) = event else {
                panic!()
            };
            told.push((path.to_owned(), settled.clone()));
            ControlFlow::Continue(())
        };
        let watch = ClosureWatch::new(&stop, |_| (), tell);
        run(&Action::Remove, &[], &self.options(), &watch).unwrap();
        told
    }

    /// Undoes the last run, as it was foreseen.
    fn undo(&self) -> Vec<(PathBuf, UndoOutcome)> {
        let foreseen = self.foresee();
        // What is put back after a kill is not told.
        let is_interrupted = self.journals().first().is_some_and(|journal| journal.is_interrupted);
        let undone = self.undo_with(&Unwatched);
        let kinds = |all: &[(PathBuf, UndoOutcome)]| -> Vec<_> {
            all.iter()
                .map(|(path, undone)| (path.clone(), std::mem::discriminant(undone)))
                .collect()
        };
        assert!(
            is_interrupted || kinds(&foreseen) == kinds(&undone),
            "{foreseen:?} {undone:?}"
        );
        undone
    }

    /// What undoing would do; nothing is changed.
    fn foresee(&self) -> Vec<(PathBuf, UndoOutcome)> {
        let before = self.snapshot();
        let last = self.journals().into_iter().next();
        let told = last.map(|last| outcomes_by(|watch| undo::undo_preview(&last.path, watch).unwrap()));
        assert!(self.snapshot() == before);
        told.unwrap_or_default()
    }

    fn undo_with(&self, seam: &dyn Watch) -> Vec<(PathBuf, UndoOutcome)> {
        let last = self.journals().into_iter().next();
        let told = last.map(|last| outcomes_by(|watch| undo_watched(&last.path, watch, seam).unwrap()));
        told.unwrap_or_default()
    }

    fn journals(&self) -> Vec<journal::PastRun> {
        journal::list(&self.options().state_directory).unwrap().0
    }

    fn snapshot(&self) -> Snapshot {
        let mut first = BTreeMap::new();
        let found = naive_walk(&self.root()).into_iter().skip(1);
        let found = found.map(|(path, (metadata, bytes))| {
            let first = first.entry((metadata.dev(), metadata.ino())).or_insert(path.clone());
            let mut attributes = Vec::new();
            if metadata.is_file() {
                let file = File::open(&path).unwrap();
                if let Support::Available(all) = sys::extended_attributes(file.as_fd()).unwrap() {
                    attributes = all.iter().map(|pair| format!("{pair:?}")).collect();
                }
            }
            let modified = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
            let modified = if metadata.is_symlink() { 0 } else { modified };
            let found = (bytes, metadata.mode(), modified, attributes, first.clone());
            (path, found)
        });
        found.collect()
    }
}

/// What an undo tells of each name.
fn outcomes_by(undo: impl FnOnce(UndoWatch<'_>)) -> Vec<(PathBuf, UndoOutcome)> {
    let (stop, mut told) = (Stop::default(), Vec::new());
    let watch = ClosureWatch::new(
        &stop,
        |_| (),
        |step: UndoneStep<'_>| {
            let names = step.names();
            told.extend(names.map(|(path, undone)| (path.to_owned(), undone.clone())));
            ControlFlow::Continue(())
        },
    );
    undo(&watch);
    told
}

fn seen(path: &Path) -> FileState {
    FileState::of(&fs::symlink_metadata(path).unwrap())
}

fn step<P: AsRef<Path>>(paths: &[P], keep: &Path) -> Step {
    Step {
        file: ActedOn {
            paths: paths.iter().map(|path| path.as_ref().to_owned()).collect(),
            state: seen(paths[0].as_ref()),
            is_directory: false,
        },
        keep: KeptFile {
            path: keep.to_owned(),
            state: seen(keep),
        },
        why: KeepReason::Rule("first".into()),
        own_bytes: 0,
    }
}

fn age(path: &Path, seconds: u64) {
    let time = UNIX_EPOCH + Duration::new(1_000_000_000 + seconds, 123_456_789);
    let times = FileTimes::new().set_modified(time).set_accessed(time);
    File::open(path).unwrap().set_times(times).unwrap();
}

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Makes another user the owner of a file.
fn give_away(path: impl AsRef<Path>) {
    std::os::unix::fs::chown(path, Some(1234), None).unwrap();
}

/// Changes a flag of a file, as in `+i`; whether it could.
fn is_flagged(flag: &str, path: &Path) -> bool {
    let mut command = Command::new("chattr");
    let changed = command.arg(flag).arg(path).stderr(Stdio::null()).status();
    changed.is_ok_and(|status| status.success())
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

/// Tests each action, by its number, in each directory, and forgets its runs.
fn each_action(test: impl Fn(&Tree, usize, &Action)) {
    for tree in trees() {
        for (number, action) in actions(&tree).iter().enumerate() {
            test(&tree, number, action);
            forget_all(&tree);
        }
    }
}

/// Whether an outcome says that the file system lacks what an action needs.
fn is_lacking(outcomes: &[StepOutcome]) -> bool {
    let lacks = outcomes.iter().any(|outcome| match outcome {
        StepOutcome::Left { why } => why.to_string().contains("cannot share blocks"),
        _ => false,
    });
    if lacks {
        println!("skipped: {:?}", outcomes[0]);
    }
    lacks
}

/// What is said beforehand, in words.
fn check(action: &Action, steps: &[Step], options: &ActingOptions) -> Vec<(usize, String)> {
    let found = super::check(action, steps, options).into_iter();
    found.map(|(number, outcome)| (number, why(&outcome))).collect()
}

/// Whether all names were restored.
fn are_restored(undone: &[(PathBuf, UndoOutcome)]) -> bool {
    undone.iter().all(|(_, undone)| *undone == UndoOutcome::Restored)
}

/// Whether one name was acted on, and is not restored.
fn is_unrestored(undone: &[(PathBuf, UndoOutcome)]) -> bool {
    matches!(undone, [(_, UndoOutcome::Failed { .. })])
}

fn is_done(outcome: &StepOutcome) -> bool {
    matches!(outcome, StepOutcome::Done { .. })
}

fn why(outcome: &StepOutcome) -> String {
    outcome.why().expect("it was not done").to_string()
}

/// What a journal says, a line for each record.
fn lines_of(journal: &Path) -> String {
    let records = RecordReader::new(&FORM, File::open(journal).unwrap()).unwrap();
    let lines = records.map(|record| String::from_utf8(record.unwrap().unwrap()).unwrap() + "\n");
    lines.collect()
}

/// Makes a journal say something else.
fn write_lines(journal: &Path, lines: &str) {
    let writer = RecordWriter::begin(File::create(journal).unwrap(), &FORM);
    for line in lines.lines() {
        writer.add(line.as_bytes());
    }
    writer.write(|| Ok(())).unwrap();
}

/// The temporary name of the first name of a step in a journal.
fn temporary(journal: &str, step: usize) -> String {
    let line: serde_json::Value = serde_json::from_str(journal.lines().nth(1 + step).unwrap()).unwrap();
    line["names"][0]["temporary"].as_str().unwrap().to_owned()
}

/// Writes a file that is kept, and several that equal it, with times and attributes of their own.
fn write_sample(tree: &Tree) {
    tree.clear();
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    fs::create_dir_all(tree.path("moved")).unwrap();
    let keep = tree.write("keep", &bytes);
    let one = tree.write("deep/er/one", &bytes);
    let odd = tree.write(odd(), &bytes);
    let two = tree.write("two", &bytes);
    fs::hard_link(&two, tree.path("deep/two")).unwrap();
    tree.write("deep/other", b"precious");
    for (seconds, path) in [&keep, &one, &odd, &two].into_iter().enumerate() {
        set_attribute(path, "same");
        age(path, seconds as u64);
    }
    for (seconds, name) in ["moved", "deep/er", "deep"].into_iter().enumerate() {
        age(&tree.path(name), seconds as u64);
    }
}

fn odd() -> &'static OsStr {
    OsStr::from_bytes(b"deep/\xff odd\n")
}

fn sample_steps(tree: &Tree) -> Vec<Step> {
    let keep = tree.path("keep");
    vec![
        step(&[tree.path("deep/er/one")], &keep),
        step(&[tree.path(odd())], &keep),
        step(&[tree.path("two"), tree.path("deep/two")], &keep),
    ]
}

fn sample(tree: &Tree) -> Vec<Step> {
    write_sample(tree);
    sample_steps(tree)
}

#[test]
fn each_action_does_what_it_says_and_is_undone() {
    each_action(|tree, _, action| {
        let steps = sample(tree);
        let before = tree.snapshot();
        let outcomes = tree.run(action, &steps);
        if is_lacking(&outcomes) {
            return assert_eq!(tree.snapshot(), before);
        }
        assert!(outcomes.iter().all(is_done), "{action:?}: {outcomes:?}");
        let keep = tree.path("keep");
        for path in steps.iter().flat_map(|step| &step.file.paths) {
            let found = path.symlink_metadata();
            match action {
                Action::Remove => assert!(found.is_err()),
                Action::Hardlink => assert_eq!(found.unwrap().ino(), keep.metadata().unwrap().ino()),
                Action::Symlink { is_absolute } => {
                    assert_eq!(path.canonicalize().unwrap(), keep);
                    assert_eq!(fs::read_link(path).unwrap().is_absolute(), *is_absolute);
                }
                Action::Reflink => assert!(tree.snapshot() == before),
                Action::Move { to } => {
                    assert!(found.is_err());
                    assert_eq!(fs::read(moved_to(to, path)).unwrap(), fs::read(&keep).unwrap());
                }
                Action::Names | Action::Trash { .. } | Action::Quarantine => panic!("it has tests of its own"),
            }
        }
        let [journal] = &tree.journals()[..] else { panic!() };
        assert_eq!((journal.files, journal.undone), (3, 0));
        assert!(!journal.is_interrupted && !journal.is_running);
        let undone = tree.undo();
        assert_eq!(undone.len(), 4);
        let is_restored = |(_, undone): &(PathBuf, UndoOutcome)| match action {
            Action::Reflink => matches!(undone, UndoOutcome::Nothing),
            _ => *undone == UndoOutcome::Restored,
        };
        assert!(undone.iter().all(is_restored), "{action:?}: {undone:?}");
        assert_eq!(tree.snapshot(), before, "{action:?}");
        assert_eq!(tree.undo(), [], "undone twice");
        assert_eq!(tree.journals()[0].undone, 3);
        journal::forget(&tree.journals()[0].path).unwrap();
        assert_eq!(tree.journals(), []);
    });
}

#[test]
fn what_is_gained_is_the_space_of_files_whose_last_name_is_gone() {
    let tree = tree();
    let keep = tree.write("keep", &vec![1; 100_000]);
    let one = tree.write("one", &vec![1; 100_000]);
    let two = tree.write("two", &vec![1; 100_000]);
    fs::hard_link(&two, tree.path("elsewhere")).unwrap();
    sys::sync_file_system(&File::open(&keep).unwrap()).unwrap();
    let outcomes = tree.run(&Action::Remove, &[step(&[one], &keep), step(&[two], &keep)]);
    assert!(
        matches!(outcomes[0], StepOutcome::Done { gained_bytes } if gained_bytes >= 100_000),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[1], StepOutcome::Done { gained_bytes: 0 });
}

const CHILD: &str = "SEEKLESS_TEST_ACT";

/// Writes anew what a job is about, and gives its state.
fn write_of(tree: &Tree, job: &str) -> Snapshot {
    match job {
        "run" => write_sample(tree),
        "many" => write_many(tree),
        "names" => names::write_names(tree),
        "apart" => moved_apart::write(tree),
        _ => emptied::write_nested(tree),
    }
    tree.snapshot()
}

/// The action with a number, the steps and the options of a job.
fn job_of(tree: &Tree, job: &str, number: usize) -> (Action, Vec<Step>, ActingOptions) {
    let action = || actions(tree)[number].clone();
    let (action, steps) = match job {
        "run" => (action(), sample_steps(tree)),
        "many" => (action(), many_steps(tree)),
        "names" => (Action::Names, names::steps(tree)),
        "apart" => return moved_apart::job(tree, number),
        "emptied" => emptied::steps(tree, number),
        _ => (Action::Remove, Vec::new()),
    };
    (action, steps, tree.options())
}

fn run_job(tree: &Tree, job: &str, number: usize, watch: &dyn Watch) -> Vec<StepOutcome> {
    let (action, steps, options) = job_of(tree, job, number);
    tree.run_with(&action, &steps, &options, watch).unwrap()
}

/// Not a test of its own: what the child of the tests below does.
#[test]
fn child_that_is_killed() {
    let Ok(words) = std::env::var(CHILD) else { return };
    let words: Vec<&str> = words.split('\t').collect();
    let [root, number, job, left] = words[..] else { panic!() };
    let (number, left) = (number.parse().unwrap(), left.parse().unwrap());
    let tree = Tree {
        directory: root.into(),
        _owned: None,
    };
    let killing = meanwhile(left, |_| std::process::abort());
    match job {
        "stop" => {
            let (action, steps, _) = job_of(&tree, "run", number);
            let outcomes = tree.run_while(&action, &steps[..1], &stopping(&tree, left));
            let words = outcomes[0].why().map_or_else(String::new, String::from);
            let outcome = format!("{:?} {words}", outcomes[0]);
            fs::write(tree.directory.join("outcome"), outcome).unwrap();
        }
        "undo" => {
            for journal in tree.journals() {
                undo_watched(&journal.path, &Stop::default(), &killing).unwrap();
            }
        }
        _ => drop(run_job(&tree, job, number, &killing)),
    }
}

/// Stops the process before a change, until another continues it.
fn stopping(tree: &Tree, left: u64) -> impl Watch {
    let (goes_on, left) = (tree.directory.join("continued"), AtomicU64::new(left));
    meanwhile_always(move |step| {
        // The lease is taken before all of them.
        let is_meant = matches!(step.kind, StepKind::Rename | StepKind::Remove) || is_long();
        if is_meant && left.fetch_sub(1, Ordering::Relaxed) == 0 {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP).unwrap();
            // Another thread may have got the signal, and this one go on for a moment.
            while !goes_on.exists() {
                thread::sleep(Duration::from_millis(1));
            }
        }
    })
}

/// A child that does a job.
fn child(tree: &Tree, action: usize, job: &str, left: u64) -> Command {
    let words = format!("{}\t{action}\t{job}\t{left}", tree.directory.display());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "dupes::act::tests::child_that_is_killed"]);
    command.env(CHILD, words).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs a child; whether it was killed before it was done.
fn is_killed(tree: &Tree, action: usize, job: &str, left: u64) -> bool {
    let status = child(tree, action, job, left).status().unwrap();
    let is_killed = std::os::unix::process::ExitStatusExt::signal(&status).is_some();
    assert!(status.success() || is_killed, "{action} {job} {left}: {status}");
    is_killed
}

/// Whether all that a killed run left is a state before or after each of its steps: no path has wrong bytes, and none is left
/// over.
fn require_settled(tree: &Tree, before: &Snapshot, action: &Action) {
    let now = tree.snapshot();
    let moved = tree.path("moved");
    for (path, (bytes, ..)) in &now {
        let name = path.file_name().unwrap();
        assert!(!name.as_bytes().starts_with(b".seekless"), "{}", path.display());
        if let Some((was, ..)) = before.get(path) {
            let is_link = path.is_symlink();
            assert!(is_link || bytes == was, "{}", path.display());
            assert!(!is_link || fs::read(path).unwrap() == *was);
        } else {
            assert!(path.starts_with(&moved), "{}", path.display());
        }
    }
    require_together(tree, &now, action);
    for (path, (was, ..)) in before {
        if !now.contains_key(path) {
            assert!(
                matches!(action, Action::Remove | Action::Move { .. }),
                "{} is gone",
                path.display()
            );
            let elsewhere = now.values().any(|(bytes, ..)| bytes == was);
            assert!(elsewhere, "the bytes of {} are gone", path.display());
        }
    }
}

/// All names of one file are acted on, or none; a file moves name by name.
fn require_together(tree: &Tree, now: &Snapshot, action: &Action) {
    let [one, other] = ["two", "deep/two"].map(|name| now.get(&tree.path(name)));
    if let (Some(one), Some(other)) = (one, other) {
        let is_link = |mode: u32| mode & 0o170_000 == 0o120_000;
        assert_eq!(is_link(one.1), is_link(other.1), "{action:?}");
        assert!(is_link(one.1) || one.4 == other.4, "{action:?}: two files");
    } else if !matches!(action, Action::Move { .. }) {
        assert!(one.is_none() && other.is_none(), "{action:?}: half gone");
    }
}

fn forget_all(tree: &Tree) {
    for journal in tree.journals() {
        journal::forget(&journal.path).unwrap();
    }
}

/// Kills a job, also one whose kill is settled by the next run, and an undo, before changes of each; undoing brings all back,
/// also as after a restart, which gives devices other numbers.
///
/// `check` looks at the tree when the job is `killed`, `settled` by the next run, or `restored` by it; it is told the state before.
fn each_kill_is_undone(job: &str, action: usize, check: impl Fn(&Tree, &str, &Snapshot)) {
    for tree in trees() {
        write_of(&tree, job);
        let of_run = changes_of(|watch| run_job(&tree, job, action, watch));
        let of_undo = changes_of(|watch| tree.undo_with(watch));
        forget_all(&tree);
        for (kind, changes) in [("run", of_run), ("settle", of_run), ("undo", of_undo)] {
            let seed = (kind.len() + job.len() + action) as u64;
            for left in moments(changes, seed) {
                let before = write_of(&tree, job);
                if kind == "undo" {
                    run_job(&tree, job, action, &Unwatched);
                    is_killed(&tree, action, "undo", left);
                } else {
                    is_killed(&tree, action, job, left);
                }
                check(&tree, "killed", &before);
                if kind == "settle" {
                    // Settling is killed as well, before one of its first changes.
                    is_killed(&tree, 0, "settle", left % 3);
                    check(&tree, "killed", &before);
                }
                if kind == "settle" || kind == "undo" && left % 3 == 2 {
                    // The next run settles a run, and completes what was being restored.
                    tree.run(&Action::Remove, &[]);
                    check(&tree, if kind == "settle" { "settled" } else { "restored" }, &before);
                }
                if (left + seed) % 2 == 1 {
                    renumber_devices(&tree);
                }
                let at = format!("{kind} of {job} {action}, killed before change {left} of {changes}");
                let told = tree.undoes(&before, &at);
                let is_failed = |(_, undone): &(PathBuf, UndoOutcome)| matches!(undone, UndoOutcome::Failed { .. });
                assert!(!told.iter().any(is_failed), "{at}: {told:?}");
            }
        }
    }
}

/// Fails with the paths that are not what they were.
fn require_same(tree: &Tree, before: &Snapshot, when: &str) {
    let now = tree.snapshot();
    let paths: BTreeSet<&PathBuf> = before.keys().chain(now.keys()).collect();
    let is_other = |path: &&PathBuf| before.get(*path) != now.get(*path);
    let others: Vec<_> = paths.into_iter().filter(is_other).collect();
    assert!(others.is_empty(), "{when}: {others:?}");
}

#[test]
fn a_kill_before_any_change_of_acting_settling_or_undoing_is_undone() {
    // The others also make links.
    for number in long_or(&[0, 1, 2, 3, 4, 5][..], &[0, 1, 5]) {
        each_kill_is_undone("run", *number, |tree, now, before| {
            let action = &actions(tree)[*number];
            match now {
                "settled" => require_settled(tree, before, action),
                "restored" => require_together(tree, &tree.snapshot(), action),
                _ => {}
            }
        });
    }
}

/// Makes a journal one of file systems that had other device numbers, as before a restart; not where no time says when a file was
/// made.
fn renumber_devices(tree: &Tree) {
    let has_times = tree.root().metadata().unwrap().created().is_ok();
    for journal in tree.journals().iter().filter(|_| has_times) {
        let text = lines_of(&journal.path);
        let own = format!("\"device\":{}", tree.root().metadata().unwrap().dev());
        write_lines(&journal.path, &text.replace(&own, "\"device\":123456"));
    }
}

/// Whether a file of the tree has these bytes.
fn has_content(tree: &Tree, bytes: &[u8]) -> bool {
    let found = naive_walk(&tree.root()).into_values();
    found
        .into_iter()
        .any(|(metadata, found)| metadata.is_file() && found == bytes)
}

#[test]
fn what_a_killed_undo_copied_stays_if_the_kept_file_is_changed_and_removed_then() {
    let tree = tree();
    let mut kills_with_a_copy = 0;
    for (number, action) in actions(&tree).iter().enumerate() {
        if !action.makes_links() {
            continue;
        }
        tree.run(action, &sample(&tree));
        let changes = changes_of(|watch| tree.undo_with(watch));
        forget_all(&tree);
        for left in some_moments(changes) {
            let steps = sample(&tree);
            let kept = tree.path("keep");
            let bytes = fs::read(&kept).unwrap();
            tree.run(action, &steps);
            let was_killed = is_killed(&tree, number, "undo", left);
            fs::write(&kept, "changed").unwrap();
            fs::remove_file(&kept).unwrap();
            let had_content = has_content(&tree, &bytes);
            kills_with_a_copy += u64::from(had_content && was_killed);
            tree.undo_with(&Unwatched);
            assert!(
                has_content(&tree, &bytes) || !had_content,
                "{action:?}, killed before change {left}"
            );
            forget_all(&tree);
        }
    }
    assert!(kills_with_a_copy > long_or(3, 0));
}

#[test]
fn a_killed_undo_of_a_killed_run_is_completed_by_the_next() {
    let tree = tree();
    for number in [1, 2] {
        let action = &actions(&tree)[number];
        let changes = changes_of(|watch| tree.run_while(action, &sample(&tree), watch));
        forget_all(&tree);
        // Between the two names of a file, mostly.
        for left in moments(changes / 3, number as u64) {
            for more in some_moments(7) {
                write_sample(&tree);
                let before = tree.snapshot();
                is_killed(&tree, number, "run", left * 3);
                is_killed(&tree, number, "undo", more);
                let told = tree.undo();
                let at = format!("{action:?}, killed before changes {} and {more}: {told:?}", left * 3);
                require_same(&tree, &before, &at);
                forget_all(&tree);
            }
        }
    }
}

/// Changes the lines of a journal, and removes those for which `edit` is false.
fn edit_journal(journal: &Path, edit: impl Fn(&mut serde_json::Value) -> bool) {
    let text = lines_of(journal);
    let lines = text.lines().filter_map(|line| {
        let mut line = serde_json::from_str(line).unwrap();
        edit(&mut line).then(|| line.to_string() + "\n")
    });
    write_lines(journal, &lines.collect::<String>());
}

#[test]
fn times_that_do_not_fit_into_nanoseconds_are_restored_and_those_that_no_file_has_are_not() {
    let tree = tree();
    sample(&tree);
    let one = tree.path("deep/er/one");
    let time = UNIX_EPOCH + Duration::new(13_000_000_000, 5);
    let times = FileTimes::new().set_modified(time).set_accessed(time);
    File::open(&one).unwrap().set_times(times).unwrap();
    let both = || {
        let found = one.metadata().unwrap();
        (found.modified().unwrap(), found.accessed().unwrap())
    };
    let before = both();
    let steps = [step(&[&one], &tree.path("keep"))];
    tree.does(&Action::Remove, &steps);
    assert!(are_restored(&tree.undo()));
    assert_eq!(both(), before);
    tree.run(&Action::Remove, &sample_steps(&tree));
    let journal = &tree.journals()[0].path;
    edit_journal(journal, |line| {
        if line["kind"] == "step" {
            line["old"]["modified"] = serde_json::json!([i64::MAX, u32::MAX]);
        }
        true
    });
    let told = tree.undo_with(&Unwatched);
    let is_failed = |(_, undone): &(PathBuf, UndoOutcome)| matches!(undone, UndoOutcome::Failed { why } if why.to_string().contains("times"));
    assert!(!told.is_empty() && told.iter().all(is_failed), "{told:?}");
}

/// Does something before one of the changes.
fn meanwhile(left: u64, act: impl Fn(&WatchedStep<'_>) + Sync) -> impl Watch {
    let left = AtomicU64::new(left);
    meanwhile_always(move |step| {
        if left.fetch_sub(1, Ordering::Relaxed) == 0 {
            act(step);
        }
    })
}

/// Does something before each change.
fn meanwhile_always(act: impl Fn(&WatchedStep<'_>) + Sync) -> impl Watch {
    struct Always<F>(F);
    impl<F: Fn(&WatchedStep<'_>) + Sync> Watch for Always<F> {
        fn before(&self, step: &WatchedStep<'_>) -> io::Result<()> {
            (self.0)(step);
            Ok(())
        }
    }
    Always(act)
}

#[test]
fn directories_keep_their_times_unless_another_process_changes_them_meanwhile() {
    each_action(|tree, _, action| {
        let times = || {
            ["deep", "deep/er", "moved", ""].map(|name| {
                let found = tree.path(name).metadata().unwrap();
                (found.modified().unwrap(), found.accessed().unwrap())
            })
        };
        let steps = sample(tree);
        age(&tree.root(), 5);
        let before = times();
        if is_lacking(&tree.run(action, &steps)) {
            return;
        }
        assert_eq!(times(), before, "{action:?}");
        tree.undo_with(&Unwatched);
        assert_eq!(times(), before, "{action:?}, undone");
        for kind in [StepKind::Rename, StepKind::Remove] {
            let (steps, made) = (sample(tree), tree.path("deep/er/theirs"));
            let making = meanwhile_always(|step| {
                if step.kind == kind && step.path.starts_with(tree.path("deep/er")) {
                    let _ = File::create_new(&made);
                }
            });
            tree.run_while(action, &steps, &making);
            let [others, theirs, ..] = times();
            assert_eq!(others, before[0], "{action:?}");
            assert_eq!(theirs.0 == before[1].0, !made.exists(), "{action:?}");
        }
    });
}

/// A run that was disturbed, when it has ended or is undone.
struct Disturbed {
    outcomes: Vec<StepOutcome>,
    /// Whether it had not ended before it was to be disturbed.
    came: bool,
    is_undone: bool,
    case: String,
}

/// Does each action with the sample and what `prepare` adds, disturbs it before changes of it, and undoes it.
fn each_disturbed(
    prepare: &dyn Fn(&Tree),
    disturb: &(dyn Fn(&Tree) + Sync),
    undo: &dyn Fn(&Tree),
    check: &dyn Fn(&Tree, &Disturbed),
) {
    each_action(|tree, number, action| {
        let changes = changes_of(|watch| tree.run_while(action, &sample(tree), watch));
        forget_all(tree);
        for left in moments(changes, number as u64) {
            let steps = sample(tree);
            prepare(tree);
            let came = AtomicBool::new(false);
            let disturbing = meanwhile(left, |_| {
                came.store(true, Ordering::Relaxed);
                disturb(tree);
            });
            let outcomes = tree.run_while(action, &steps, &disturbing);
            let mut disturbed = Disturbed {
                outcomes,
                came: came.load(Ordering::Relaxed),
                is_undone: false,
                case: format!("{action:?}, before change {left}"),
            };
            check(tree, &disturbed);
            disturbed.is_undone = true;
            undo(tree);
            check(tree, &disturbed);
            forget_all(tree);
        }
    });
}

#[test]
fn what_another_program_saves_by_renaming_is_never_lost() {
    each_disturbed(
        &|tree| drop(tree.write("deep/er/saved", b"saved meanwhile")),
        &|tree| fs::rename(tree.path("deep/er/saved"), tree.path("deep/er/one")).unwrap(),
        &|tree| drop(tree.undo()),
        &|tree, run| {
            if run.came {
                let found = fs::read(tree.path("deep/er/one")).unwrap();
                assert_eq!(found, b"saved meanwhile", "{}", run.case);
            }
            // Undoing touches nothing that is not its own.
            assert_eq!(fs::read(tree.path("deep/other")).unwrap(), b"precious");
        },
    );
}

#[test]
fn what_another_program_saves_twice_while_it_is_undone_is_never_lost() {
    each_action(|tree, number, action| {
        if is_lacking(&tree.run(action, &sample(tree)[..1])) {
            return;
        }
        let changes = changes_of(|watch| tree.undo_with(watch));
        forget_all(tree);
        for first in moments(changes, number as u64) {
            tree.run(action, &sample(tree)[..1]);
            let target = tree.path("deep/er/one");
            let (met, saved) = (AtomicU64::new(0), AtomicU64::new(0));
            let save = meanwhile_always(|_| {
                let now = met.fetch_add(1, Ordering::Relaxed);
                if now == first || now == first + 1 {
                    let number = saved.fetch_add(1, Ordering::Relaxed) + 1;
                    fs::write(tree.path("new"), format!("saved {number}")).unwrap();
                    fs::rename(tree.path("new"), &target).unwrap();
                }
            });
            let told = tree.undo_with(&save);
            let saved = saved.load(Ordering::Relaxed);
            let newest = format!("saved {saved}").into_bytes();
            let now = tree.snapshot();
            let is_told = |path: &PathBuf| *path == target || format!("{told:?}").contains(&visible_path(path));
            let mut with_newest = now.iter().filter(|(_, found)| found.0 == newest);
            assert!(
                saved == 0 || with_newest.any(|(path, _)| is_told(path)),
                "{action:?}, before change {first}: {told:?}"
            );
            forget_all(tree);
        }
    });
}

#[test]
fn a_file_that_changed_since_the_search_is_left_alone_even_if_its_times_were_put_back() {
    let one = OsStr::new("deep/er/one");
    // Reasons show paths with escapes.
    let of_kept = "deep/\\xff odd\\n: changed since the search";
    each_action(|tree, _, action| {
        for (name, change) in [(one, b'x'), (odd(), b'x'), (one, 0), (odd(), 0)] {
            sample(tree);
            let steps = [step(&[tree.path(one)], &tree.path(odd()))];
            let path = tree.path(name);
            let metadata = path.metadata().unwrap();
            let mut bytes = fs::read(&path).unwrap();
            bytes[1000] = change.max(bytes[1000]);
            fs::write(&path, &bytes).unwrap();
            let times = FileTimes::new().set_modified(metadata.modified().unwrap());
            File::open(&path).unwrap().set_times(times).unwrap();
            let reason = if name == one {
                "changed since the search"
            } else {
                of_kept
            };
            tree.refuses(action, &steps, reason);
            assert_eq!(tree.journals(), []);
        }
    });
}

#[test]
fn files_that_differ_are_left_alone_whatever_the_search_said() {
    each_action(|tree, number, action| {
        for bytes in [10_u32, 300_000, long_or(9 << 20, 9 << (4 * number))] {
            write_sample(tree);
            let mut content = vec![1; bytes as usize];
            let keep = tree.write("keep", &content);
            content[bytes as usize - 1] = 2;
            let other = tree.write("deep/er/one", &content);
            tree.refuses(action, &[step(&[other], &keep)], "differs from the kept file at byte");
        }
    });
}

#[test]
fn another_name_or_another_path_of_the_kept_file_is_left_alone() {
    let tree = tree();
    for action in actions(&tree) {
        sample(&tree);
        let keep = tree.path("keep");
        fs::hard_link(&keep, tree.path("link")).unwrap();
        symlink("deep", tree.path("linked")).unwrap();
        symlink("keep", tree.path("symlink")).unwrap();
        tree.refuses(&action, &[step(&[tree.path("link")], &keep)], "another name of it");
        // Through a link, a link itself, with dots, and none of a file.
        let paths = ["linked/er/one", "symlink", "deep/../deep/er/one", "missing/file", "/"];
        for path in paths.map(|path| tree.path(path)).into_iter().chain(["file".into()]) {
            let mut step = step(&[tree.path("deep/er/one")], &keep);
            step.file.paths = vec![path];
            tree.refuses(&action, &[step], "");
        }
    }
}

#[test]
fn what_a_bind_mount_or_an_overlay_shows_again_is_left_alone() {
    let tree = tree();
    write_sample(&tree);
    let one = tree.path("deep/er/one");
    let [shown, work, upper] = ["shown", "work", "upper"].map(|name| tree.directory.join(name));
    for directory in [&shown, &work, &upper] {
        fs::create_dir(directory).unwrap();
    }
    let again = shown.join("deep/er/one");
    let root = tree.root();
    let bind: [&OsStr; 3] = ["--bind".as_ref(), root.as_ref(), shown.as_ref()];
    let layers = format!(
        "lowerdir={0}/tree,upperdir={0}/upper,workdir={0}/work",
        tree.directory.display()
    );
    let overlay = ["-t", "overlay", "overlay", "-o", &layers].map(OsStr::new);
    for mount in [&bind[..], &[&overlay[..], &[shown.as_os_str()]].concat()] {
        if !mounts("mount", mount) {
            return;
        }
        let _mounted = Mounted(shown.clone());
        let before = tree.snapshot();
        for action in actions(&tree) {
            let outcomes = tree.run(&action, &[step(&[&again], &one)]);
            let why = why(&outcomes[0]);
            assert!(why.contains("the kept file") || why.contains("an overlay"), "{why}");
            assert_eq!(tree.snapshot(), before);
        }
        if mount == bind {
            for action in [Action::Remove, Action::Hardlink, Action::Symlink { is_absolute: true }] {
                tree.refuses(
                    &action,
                    &[step(&[&one, &again], &tree.path("keep"))],
                    "on another mount",
                );
            }
        }
    }
}

#[test]
fn a_directory_that_is_swapped_for_a_link_leads_nowhere_else() {
    each_disturbed(
        &|tree| drop(tree.write("theirs/one", b"precious")),
        &|tree| {
            fs::rename(tree.path("deep/er"), tree.path("deep/moved")).unwrap();
            symlink(tree.path("theirs"), tree.path("deep/er")).unwrap();
        },
        &|tree| drop(tree.undo()),
        &|tree, run| {
            assert_eq!(fs::read(tree.path("theirs/one")).unwrap(), b"precious", "{}", run.case);
            assert_eq!(fs::read_dir(tree.path("theirs")).unwrap().count(), 1, "{}", run.case);
        },
    );
}

#[test]
fn what_is_changed_by_chmod_meanwhile_is_not_lost() {
    each_disturbed(
        &|_| (),
        // Opening it for writing would wait for the lease of this very process.
        &|tree| {
            let _ = fs::set_permissions(tree.path("deep/er/one"), Permissions::from_mode(0o640));
        },
        &|tree| drop(tree.undo()),
        &|tree, run| {
            let target = tree.path("deep/er/one");
            if run.is_undone {
                assert!(target.exists(), "{}", run.case);
            } else if run.came && matches!(run.outcomes[0], StepOutcome::Left { .. }) {
                assert_eq!(target.metadata().unwrap().mode() & 0o777, 0o640, "{}", run.case);
            }
        },
    );
}

#[test]
fn a_file_that_another_process_opens_for_writing_meanwhile_keeps_its_name_and_what_is_written() {
    let writer = Mutex::new(None);
    each_disturbed(
        &|_| (),
        &|tree| {
            // It waits until the lease ends.
            let mut shell = Command::new("sh");
            shell
                .args(["-c", "printf appended >> \"$0\""])
                .arg(tree.path("deep/er/one"));
            *writer.lock().unwrap() = Some(shell.spawn().unwrap());
            thread::sleep(Duration::from_millis(60));
        },
        &|_| (),
        &|tree, run| {
            // The file, or, if it was acted on by then, what has its name.
            if let Some(mut writer) = writer.lock().unwrap().take() {
                assert!(writer.wait().unwrap().success());
                let found = fs::read(tree.path("deep/er/one")).unwrap();
                assert!(found.ends_with(b"appended"), "{}", run.case);
            }
        },
    );
}

#[test]
fn a_file_that_is_open_for_writing_or_locked_is_in_use() {
    let tree = tree();
    for action in actions(&tree).into_iter().step_by(long_or(1, 5)) {
        let steps = sample(&tree);
        let before = tree.snapshot();
        let writer = File::options().append(true).open(tree.path("deep/er/one")).unwrap();
        let locked = File::open(tree.path(odd())).unwrap();
        locked.lock().unwrap();
        let outcomes = tree.run(&action, &steps[..2]);
        for outcome in &outcomes {
            assert!(why(outcome).starts_with("in use"), "{outcomes:?}");
        }
        assert_eq!(tree.snapshot(), before);
        drop((writer, locked));
    }
    // What is written meanwhile is in the moved file.
    let steps = sample(&tree);
    let before = tree.snapshot();
    let _writer = File::options().append(true).open(tree.path("deep/er/one")).unwrap();
    let options = tree.with(|options| options.without_leases = true);
    let outcomes = tree.run_by(&Action::Quarantine, &steps[..1], &options);
    assert!(is_done(&outcomes[0]), "{outcomes:?}");
    tree.undoes(&before, "undone");
}

#[test]
fn nothing_is_done_that_the_journal_cannot_hold() {
    let tree = tree();
    let small = tree.directory.join("state");
    fs::create_dir(&small).unwrap();
    let mount = |options: &str| {
        let arguments = ["-t", "tmpfs", "-o", options, "tmpfs"].into_iter().map(OsStr::new);
        mounts("mount", &arguments.chain([small.as_os_str()]).collect::<Vec<_>>())
    };
    // The first holds no batch, the second some.
    for size in ["size=8k", "size=32k"] {
        for action in actions(&tree).into_iter().step_by(long_or(1, 4)) {
            if !mount(size) {
                return;
            }
            let _mounted = Mounted(small.clone());
            write_sample(&tree);
            let content = fs::read(tree.path("keep")).unwrap();
            let keep = tree.write("many/keep", &content);
            let steps: Vec<Step> = (0..100)
                .map(|number| step(&[tree.write(format!("many/{number}"), &content)], &keep))
                .collect();
            let before = tree.snapshot();
            let ran = tree.run_with(&action, &steps, &tree.options(), &Unwatched);
            let error = match ran {
                Ok(outcomes) if is_lacking(&outcomes) => continue,
                ran => ran.unwrap_err(),
            };
            assert_eq!(error.source.kind(), io::ErrorKind::StorageFull, "{error}");
            let is_changed = tree.snapshot() != before;
            assert!(
                is_changed == (size == "size=32k" && action != Action::Reflink),
                "{action:?} {size}"
            );
            // Undoing needs the journal, too: without space for it, nothing is undone.
            for journal in tree.journals() {
                let _ = undo::undo(&journal.path, &Stop::default());
            }
            assert!(mount("remount,size=10m"));
            tree.undo();
            assert!(tree.snapshot() == before, "{action:?} {size}");
        }
    }
}

/// An access control list with one more user (acl(5)): `user::rw-`, `user:1234:r--`, `group::r--`, `mask::r--`, `other::---`.
fn access_list() -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in [
        (1_u16, 6_u16, u32::MAX),
        (2, 4, 1234),
        (4, 4, u32::MAX),
        (16, 4, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&rights.to_le_bytes());
        list.extend_from_slice(&id.to_le_bytes());
    }
    list
}

fn set_access_list(path: &Path) {
    let set = rustix::fs::setxattr(path, "system.posix_acl_access", &access_list(), XattrFlags::empty());
    if let Err(error) = set {
        println!("no access control lists here: {error}");
    }
}

#[test]
fn metadata_of_what_was_removed_is_restored() {
    each_action(|tree, _, action| {
        sample(tree);
        let (path, keep) = (tree.path("deep/er/one"), tree.path("keep"));
        // A link is only made if the kept file has the same.
        for path in [&path, &keep] {
            if sys::effective_user() == 0 {
                std::os::unix::fs::chown(path, Some(1234), Some(4321)).unwrap();
            }
            set_mode(path, 0o4751);
            set_attribute(path, "its own");
            set_access_list(path);
        }
        is_flagged("+d", &path);
        age(&path, 7);
        let steps = [step(&[&path], &keep)];
        let before = tree.snapshot();
        let others = || {
            let (found, file) = (path.metadata().unwrap(), File::open(&path).unwrap());
            (
                found.uid(),
                found.gid(),
                found.atime_nsec(),
                sys::inode_flags(&file).unwrap(),
            )
        };
        let wanted = others();
        let options = tree.trusting();
        let outcomes = tree.run_by(action, &steps, &options);
        assert!(is_lacking(&outcomes) || is_done(&outcomes[0]), "{outcomes:?}");
        tree.undo_with(&Unwatched);
        // The snapshot reads the file, which may change its time of access.
        assert_eq!(others(), wanted, "{action:?}");
        assert_eq!(tree.snapshot(), before, "{action:?}");
    });
}

#[test]
fn undoing_restores_nothing_wrong() {
    for tree in trees() {
        let links = [Action::Hardlink, Action::Symlink { is_absolute: false }];
        let moving = Action::Move { to: tree.path("moved") };
        for action in [&[Action::Remove], &links[..], &[moving]].concat() {
            let changes = match action {
                // What was moved needs no kept file.
                Action::Move { .. } => &["number"][..],
                Action::Hardlink => &["bytes", "size", "gone", "taken", "edited", "number"],
                _ => &["bytes", "size", "gone", "taken", "edited"],
            };
            for changed in changes {
                let steps = sample(&tree);
                tree.does(&action, &steps[..1]);
                let (keep, path) = (tree.path("keep"), tree.path("deep/er/one"));
                match *changed {
                    "bytes" => {
                        let mut bytes = fs::read(&keep).unwrap();
                        bytes[100_000] ^= 1;
                        fs::write(&keep, bytes).unwrap();
                    }
                    "size" => fs::write(&keep, "short").unwrap(),
                    "gone" => fs::rename(&keep, tree.path("kept elsewhere")).unwrap(),
                    "edited" => save_anew_and_edit(&tree),
                    "number" => {
                        let shown = match &action {
                            Action::Move { to } => moved_to(to, &path),
                            _ => path,
                        };
                        let used = shown.metadata().unwrap().ino();
                        fs::copy(&keep, tree.path("saved")).unwrap();
                        fs::remove_file(&keep).unwrap();
                        fs::remove_file(&shown).unwrap();
                        fs::write(&shown, "precious").unwrap();
                        fs::rename(tree.path("saved"), &keep).unwrap();
                        println!("the number is used again: {}", used == shown.metadata().unwrap().ino());
                    }
                    _ => {
                        fs::write(tree.path("saved"), "saved").unwrap();
                        fs::rename(tree.path("saved"), &path).unwrap();
                    }
                }
                let before = tree.snapshot();
                let undone = tree.undoes(&before, &format!("{action:?} {changed}"));
                assert!(is_unrestored(&undone), "{action:?} {changed}: {undone:?}");
            }
        }
    }
}

#[test]
fn a_stopped_run_says_so_of_all_that_is_left() {
    let tree = tree();
    let steps = sample(&tree);
    let before = tree.snapshot();
    let stop = Stop::default();
    let mut told = 0;
    let seam = meanwhile(5, |_| stop.stop());
    let tell = |event: RunEvent<'_>| {
        told += u64::from(matches!(event, RunEvent::Step(..)));
        ControlFlow::Continue(())
    };
    let watch = ClosureWatch::new(&stop, |_| (), tell);
    let ran = run_watched(&Action::Remove, &steps, &tree.options(), &watch, &seam).unwrap();
    assert!(ran.is_stopped && ran.left > 0, "{ran:?}");
    assert_eq!(told, 3);
    tree.undo();
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn an_undo_that_is_stopped_at_any_moment_leaves_nothing_half_done_and_goes_on_later() {
    let tree = tree();
    for action in actions(&tree).into_iter().filter(|action| *action != Action::Reflink) {
        let prepare = || {
            forget_all(&tree);
            let steps = sample(&tree);
            let before = tree.snapshot();
            tree.does(&action, &steps);
            before
        };
        prepare();
        let changes = changes_of(|watch| tree.undo_with(watch));
        for left in some_moments(changes) {
            let before = prepare();
            let stop = Stop::default();
            let stopping = meanwhile(left, |_| stop.stop());
            let journal = tree.journals()[0].path.clone();
            undo_watched(&journal, &stop, &stopping).unwrap();
            assert_eq!(tree.settle(), [], "{action:?} {left}");
            require_nothing_left_over(&tree);
            tree.undo_with(&Unwatched);
            require_same(&tree, &before, &format!("{action:?} {left}"));
        }
    }
    forget_all(&tree);
}

#[test]
fn a_long_file_is_not_read_to_its_end_once_undo_or_settling_is_stopped() {
    let tree = tree();
    let steps = sample(&tree);
    tree.does(&Action::Remove, &steps);
    let lines = RunJournal::read_only(&tree.journals()[0].path).unwrap().read().unwrap();
    let entry = lines.entries.values().next().unwrap();
    let file = File::open(tree.path("keep")).unwrap();
    let found = StatFacts::of(&file).unwrap();
    let stop = Stop::default();
    assert!(entry.has_digest(&found, &file, &stop).unwrap());
    stop.stop();
    let stopped = entry.has_digest(&found, &file, &stop).unwrap_err();
    assert_eq!(stopped.kind(), io::ErrorKind::Interrupted);
}

#[test]
fn journals_go_after_90_days_also_of_killed_runs_and_are_private() {
    let tree = tree();
    let day = Duration::from_hours(24);
    for (days, is_complete) in [(89, true), (89, false), (91, true), (91, false)] {
        tree.run(&Action::Remove, &sample(&tree)[..1]);
        let (state, journal) = (tree.options().state_directory, tree.journals()[0].clone());
        assert_eq!(journal.path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(state.join("dupes").metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(journal::expire(&state, journal.started + 89 * day).unwrap(), 0);
        // Nothing is left to be settled.
        fs::remove_dir_all(tree.root()).unwrap();
        let started = (SystemTime::now() - days * day).duration_since(UNIX_EPOCH).unwrap();
        edit_journal(&journal.path, |line| {
            if line["started_ns"].is_u64() {
                line["started_ns"] = (started.as_nanos() as u64).into();
            }
            is_complete || line["kind"] != "end" && line["kind"] != "outcome"
        });
        // A run removes old ones.
        run(&Action::Remove, &[], &tree.options(), &Stop::default()).unwrap();
        assert_eq!(journal.path.exists(), days < 90, "{days} {is_complete}");
        let _ = fs::remove_file(journal.path);
    }
}

#[test]
fn nothing_is_done_if_another_user_could_remove_the_journal() {
    let tree = tree();
    let state = tree.options().state_directory;
    let is_root = sys::effective_user() == 0;
    for at in [state.clone(), state.join("dupes")] {
        for change in ["mode", "owner", "none"] {
            let steps = sample(&tree);
            fs::create_dir_all(state.join("dupes")).unwrap();
            match change {
                "mode" => set_mode(&at, 0o777),
                "owner" if is_root => give_away(&at),
                _ => {}
            }
            let before = tree.snapshot();
            let ran = tree.run_with(&Action::Remove, &steps, &tree.options(), &Unwatched);
            if change == "none" || change == "owner" && !is_root {
                assert!(ran.unwrap().iter().all(is_done));
            } else {
                let error = ran.unwrap_err().to_string();
                assert!(
                    error.contains("other user") && error.contains("XDG_STATE_HOME"),
                    "{error}"
                );
                assert_eq!(tree.snapshot(), before);
            }
            fs::remove_dir_all(&state).unwrap();
        }
    }
}

#[test]
fn the_last_run_is_the_newest_even_if_the_clock_was_set_back() {
    let tree = tree();
    let steps = sample(&tree);
    let mut made = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        tree.run(&Action::Remove, std::slice::from_ref(step));
        let mut path = tree.journals()[0].path.clone();
        if number == 0 {
            let future = path.with_file_name("20401231T235959.999999Z-7.jsonl");
            fs::rename(path, &future).unwrap();
            path = future;
            fs::write(path.with_file_name("zzz.jsonl"), "").unwrap();
            fs::write(path.with_file_name("99999999T000000.000000Z-7.jsonl"), "").unwrap();
        }
        made.insert(0, path);
        let listed: Vec<PathBuf> = tree.journals().into_iter().map(|journal| journal.path).collect();
        assert_eq!(listed, made);
    }
    // A clock beyond the year 9999 is no clock.
    let directory = journal::directory(&tree.options().state_directory);
    let late = UNIX_EPOCH + Duration::from_hours(24 * 365 * 9000);
    let [first, next] = [SystemTime::now(), late].map(|now| journal::after_all(&directory, now).unwrap());
    assert_eq!(
        (first.as_str(), next.as_str()),
        ("20410101T000000.000002Z", "20410101T000000.000002Z")
    );
    let began = tree.journals()[0].started;
    assert!(SystemTime::now().duration_since(began).unwrap() < Duration::from_hours(1));
}

/// [`Tree::undo`] asserts that each was foreseen.
#[test]
fn what_flags_keep_from_being_undone_is_foreseen_and_stays() {
    let tree = tree();
    let elsewhere = tree.path("moved");
    let of_name = tree.path("deep/er/one");
    let moved = moved_to(&elsewhere, &of_name);
    let [above, moved_above] = [&of_name, &moved].map(|path| path.parent().unwrap());
    let [remove, hardlink, symlink, .., moving] = &actions(&tree);
    for (action, flags, path) in [
        (remove, "ia", above),
        (hardlink, "ia", of_name.as_path()),
        (hardlink, "ia", above),
        (symlink, "ia", above),
        (moving, "ia", moved.as_path()),
        (moving, "ia", moved_above),
        (moving, "i", above),
    ] {
        for flag in flags.chars() {
            let steps = sample(&tree);
            let before = tree.snapshot();
            tree.run(action, &steps[..1]);
            let acted = tree.snapshot();
            if !is_flagged(&format!("+{flag}"), path) {
                return println!("skipped: no flags here");
            }
            let undone = [tree.undo(), tree.undo()];
            let mut left = tree.snapshot();
            is_flagged(&format!("-{flag}"), path);
            if flag == 'a' && path == above {
                // The time of such a directory cannot be set.
                left.insert(path.to_owned(), before[path].clone());
                age(path, 1);
            }
            if *action == Action::Remove && flag == 'a' {
                // A name can be made there.
                assert_eq!(left, before);
            } else {
                let word = if flag == 'i' { "immutable" } else { "append-only" };
                for (_, undone) in undone.iter().flatten() {
                    let is_told = matches!(undone, UndoOutcome::Failed { why } if why.to_string().contains(word));
                    assert!(is_told, "{action:?} {flag}: {undone:?}");
                }
                assert!(undone.iter().all(|undone| !undone.is_empty()));
                assert_eq!(left, acted, "{action:?} {flag}");
            }
            tree.undoes(&before, &format!("{action:?} {flag}"));
        }
    }
}

#[test]
fn what_cannot_be_done_is_said_beforehand() {
    let tree = tree();
    let said = |action: &Action, steps: &[Step]| check(action, steps, &tree.options());
    for action in actions(&tree) {
        let steps = sample(&tree);
        let found = said(&action, &steps);
        if action == Action::Reflink && !found.is_empty() {
            assert!(
                found.iter().all(|(_, why)| why.contains("cannot share blocks")),
                "{found:?}"
            );
            continue;
        }
        assert_eq!(found, [], "{action:?}");
        fs::write(tree.path("two"), "changed").unwrap();
        let found = said(&action, &steps);
        assert!(
            matches!(&found[..], [(2, why)] if why.contains("changed since")),
            "{found:?}"
        );
    }
    let steps = sample(&tree);
    let flagged = |flag: &str| is_flagged(flag, &steps[0].file.paths[0]);
    if flagged("+i") {
        let immutable = [step(&steps[0].file.paths, &steps[0].keep.path)];
        let found = said(&Action::Remove, &immutable);
        let outcomes = tree.run(&Action::Remove, &immutable);
        flagged("-i");
        assert!(found[0].1.contains("immutable"), "{found:?}");
        assert!(matches!(outcomes[0], StepOutcome::Left { .. }), "{outcomes:?}");
    }
    let other = tree.directory.join("other");
    let Some(_mounted) = Mounted::tmpfs(other.clone(), "mode=755") else {
        return;
    };
    let keep = other.join("keep");
    fs::copy(tree.path("keep"), &keep).unwrap();
    let crossing = [step(&steps[0].file.paths, &keep)];
    for action in [Action::Hardlink, Action::Reflink, Action::Move { to: other.clone() }] {
        let found = said(&action, &crossing);
        assert!(found[0].1.contains("file system"), "{found:?}");
        let outcomes = tree.run(&action, &crossing);
        assert!(why(&outcomes[0]).contains("on another file system"), "{outcomes:?}");
    }
    let backwards = [step(&[&keep], &steps[0].keep.path)];
    if mounts("mount", &["-o".as_ref(), "remount,ro".as_ref(), other.as_os_str()]) {
        let found = said(&Action::Remove, &backwards);
        assert!(found[0].1.contains("read-only"), "{found:?}");
        assert!(matches!(
            tree.run(&Action::Remove, &backwards)[0],
            StepOutcome::Left { .. }
        ));
        mounts("mount", &["-o".as_ref(), "remount,rw".as_ref(), other.as_os_str()]);
    }
    let before = tree.snapshot();
    tree.does(&Action::Remove, &crossing);
    tree.undo();
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn a_journal_of_another_user_or_machine_or_of_nothing_is_refused() {
    let tree = tree();
    let steps = sample(&tree);
    tree.run(&Action::Remove, &steps);
    let before = tree.snapshot();
    let path = tree.journals()[0].path.clone();
    let (bytes, text) = (fs::read(&path).unwrap(), lines_of(&path));
    edit_journal(&path, |line| {
        if line["kind"] == "journal" {
            line["machine"] = "another".into();
        }
        true
    });
    for bytes in [&fs::read(&path).unwrap()[..], b"", b"{}\n", b"seekless"] {
        fs::write(&path, bytes).unwrap();
        undo::undo(&path, &Stop::default()).unwrap_err();
        assert_eq!(tree.snapshot(), before);
    }
    // What has a temporary name is in the directory of the file.
    write_lines(&path, &text.replace(r#""temporary":""#, r#""temporary":"../"#));
    assert_eq!(tree.undo(), []);
    assert_eq!(tree.snapshot(), before);
    // A line that is cut off says of a step that was not begun.
    fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
    tree.undo();
    let [two, keep] = ["two", "keep"].map(|name| fs::read(tree.path(name)).unwrap());
    assert!(two == keep);
    if sys::effective_user() != 0 {
        return println!("skipped: not root");
    }
    give_away(&path);
    let error = undo::undo(&path, &Stop::default()).unwrap_err();
    assert!(error.to_string().contains("belongs to another user"), "{error}");
    journal::forget(&path).unwrap_err();
}

const MANY: usize = 2 * BATCH + 5;

/// More equal files than two batches have.
fn write_many(tree: &Tree) {
    write_sample(tree);
    tree.write("kept", b"small");
    for number in 0..MANY {
        tree.write(format!("many/{}/{number}", number % 3), b"small");
    }
}

fn many_steps(tree: &Tree) -> Vec<Step> {
    let path = |number: usize| tree.path(format!("many/{}/{number}", number % 3));
    (0..MANY)
        .map(|number| step(&[path(number)], &tree.path("kept")))
        .collect()
}

#[test]
fn more_steps_than_a_batch_has_are_done_and_undone() {
    each_action(|tree, number, action| {
        if !is_long() && number % 2 == 1 {
            return;
        }
        let before = write_of(tree, "many");
        let outcomes = tree.run(action, &many_steps(tree));
        // Small files may be stored where blocks cannot be shared.
        let is_right = *action == Action::Reflink || outcomes.iter().all(is_done);
        assert!(is_right, "{outcomes:?}");
        tree.undoes(&before, "undone");
    });
}

#[test]
fn a_kill_while_one_batch_is_done_and_the_next_is_written_down_is_settled() {
    let tree = tree();
    // The kill may come right before the other thread puts the time of a directory back.
    let but_for_directories = |mut snapshot: Snapshot| {
        let directories = snapshot
            .values_mut()
            .filter(|(_, mode, ..)| mode & 0o170_000 == 0o040_000);
        directories.for_each(|(_, _, modified, ..)| *modified = 0);
        snapshot
    };
    for (number, action) in actions(&tree).iter().enumerate().step_by(long_or(1, 2)) {
        write_many(&tree);
        let changes = changes_of(|watch| run_job(&tree, "many", number, watch));
        forget_all(&tree);
        for left in moments(changes / 7, 3 * number as u64).iter().map(|left| left * 7) {
            let before = write_of(&tree, "many");
            is_killed(&tree, number, "many", left);
            tree.run(&Action::Remove, &[]);
            require_settled(&tree, &before, action);
            tree.undo();
            let [after, before] = [tree.snapshot(), before].map(but_for_directories);
            assert_eq!(after, before, "{action:?}, killed before change {left}");
            forget_all(&tree);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(32) })]
    #[test]
    fn whatever_is_done_to_a_tree_is_undone(
        files in prop::collection::vec((0..3_u8, 0..3_u8, 0..4_usize, any::<bool>()), 2..12),
        pairs in prop::collection::vec((0..12_usize, 0..12_usize), 1..8),
        action in 0..6_usize,
        of_first_run in 0..9_usize,
        stops_at in 0..200_u64,
    ) {
        let tree = tree();
        fs::create_dir(tree.path("moved")).unwrap();
        let mut paths: Vec<PathBuf> = Vec::new();
        for (number, (content, directory, size, is_link)) in files.into_iter().enumerate() {
            let name = format!("{directory}/{number}");
            let size = [0, 5, 5000, 200_000][size];
            if is_link && let Some(first) = paths.last() {
                fs::create_dir_all(tree.path(&name).parent().unwrap()).unwrap();
                fs::hard_link(first, tree.path(&name)).unwrap();
                paths.push(tree.path(&name));
            } else {
                paths.push(tree.write(&name, &vec![content; size]));
            }
        }
        let of = |number: usize| &paths[number % paths.len()];
        let steps: Vec<Step> = pairs.into_iter().map(|(one, other)| step(&[of(one)], of(other))).collect();
        let action = &actions(&tree)[action];
        let before = tree.snapshot();
        let (first, second) = steps.split_at(of_first_run.min(steps.len()));
        for steps in [first, second] {
            let stop = Stop::default();
            let watch = meanwhile(stops_at, |_| stop.stop());
            run_watched(action, steps, &tree.options(), &stop, &watch).unwrap();
        }
        let contents = |snapshot: &Snapshot| -> BTreeSet<Vec<u8>> {
            let files = snapshot.iter().filter(|(path, _)| path.is_file() && !path.is_symlink());
            files.map(|(_, (bytes, ..))| bytes.clone()).collect()
        };
        let now = contents(&tree.snapshot());
        prop_assert!(before.values().all(|(bytes, mode, ..)| mode & 0o170_000 != 0o100_000 || now.contains(bytes)));
        while !tree.journals().is_empty() {
            tree.undo();
            journal::forget(&tree.journals()[0].path).unwrap();
        }
        let mut after = tree.snapshot();
        // Names of one file that were not given together are files of their own then.
        let mut wanted = before;
        for found in after.values_mut().chain(wanted.values_mut()) {
            found.4 = PathBuf::new();
        }
        prop_assert_eq!(after, wanted);
    }
}

/// Makes an edit of a file that has the name of a link, after the kept file was saved anew: its inode is the last with it.
fn save_anew_and_edit(tree: &Tree) {
    let (keep, path) = (tree.path("keep"), tree.path("deep/er/one"));
    fs::copy(&keep, tree.path("new")).unwrap();
    fs::rename(tree.path("new"), &keep).unwrap();
    fs::write(&path, "precious").unwrap();
}

#[test]
fn settling_a_killed_run_leaves_what_was_written_to_a_link_since() {
    for tree in trees() {
        let changes = changes_of(|watch| tree.run_while(&Action::Hardlink, &sample(&tree), watch));
        forget_all(&tree);
        for left in some_moments(changes) {
            let steps = sample(&tree);
            is_killed(&tree, 1, "run", left);
            if tree.path("deep/er/one").metadata().unwrap().ino() == steps[0].keep.state.inode {
                save_anew_and_edit(&tree);
                let other = [tree.write("v/1", b"x"), tree.write("v/2", b"x")];
                tree.run(&Action::Remove, &[step(&other[1..], &other[0])]);
                let found = fs::read(tree.path("deep/er/one")).unwrap();
                assert_eq!(found, b"precious", "killed before change {left}");
            }
            forget_all(&tree);
        }
    }
}

#[test]
fn two_runs_are_undone_one_after_the_other() {
    for tree in trees() {
        for first in [Action::Hardlink, Action::Move { to: tree.path("moved") }] {
            let steps = sample(&tree);
            let other = tree.write("other", &fs::read(tree.path("keep")).unwrap());
            age(&other, 9);
            let before = tree.snapshot();
            tree.does(&first, &steps[..1]);
            let one = tree.path("deep/er/one");
            let gone = match &first {
                Action::Move { to } => vec![to.join(one.strip_prefix("/").unwrap())],
                _ => vec![tree.path("keep"), one],
            };
            tree.does(&Action::Remove, &[step(&gone, &other)]);
            tree.undo();
            let journals = tree.journals();
            let told = outcomes_by(|watch| undo::undo(&journals[1].path, watch).unwrap());
            assert!(matches!(&told[..], [(_, UndoOutcome::Restored)]), "{first:?}");
            assert_eq!(tree.snapshot(), before, "{first:?}");
            forget_all(&tree);
        }
    }
}

#[test]
fn a_symbolic_link_that_would_not_lead_to_the_kept_file_is_not_left() {
    for tree in trees() {
        for is_absolute in [false, true] {
            let action = Action::Symlink { is_absolute };
            let changes = changes_of(|watch| tree.run_while(&action, &sample(&tree)[..1], watch));
            for left in some_moments(changes) {
                fs::remove_dir_all(tree.root()).unwrap();
                forget_all(&tree);
                sample(&tree);
                let keep = tree.write("k/keep", &fs::read(tree.path("keep")).unwrap());
                let one = tree.path("deep/er/one");
                let bytes = fs::read(&one).unwrap();
                let is_over = AtomicU64::new(1);
                let swap = meanwhile(left, |_| {
                    let is_alone = fs::read_dir(tree.path("deep/er")).unwrap().count() == 1;
                    if one.is_symlink() && is_alone {
                        // All is done but for the journal.
                        return;
                    }
                    is_over.store(0, Ordering::Relaxed);
                    fs::rename(tree.path("k"), tree.path("l")).unwrap();
                    tree.write("k/keep", b"different");
                });
                let outcomes = tree.run_while(&action, &[step(&[&one], &keep)], &swap);
                if is_over.load(Ordering::Relaxed) == 1 {
                    assert!(is_done(&outcomes[0]), "{outcomes:?}");
                } else {
                    let is_left = matches!(&outcomes[0], StepOutcome::Left { .. });
                    assert!(is_left, "before change {left}: {outcomes:?}");
                    assert_eq!(fs::read(&one).unwrap(), bytes);
                    assert!(!one.is_symlink());
                }
            }
        }
    }
}

/// What files of equal content may differ in.
#[derive(Clone, Copy, Default)]
struct Rights {
    mode: u32,
    owner: Option<u32>,
    group: Option<u32>,
    is_listed: bool,
    is_noted: bool,
}

impl Rights {
    fn give(self, path: &Path) {
        if self.owner.or(self.group).is_some() {
            std::os::unix::fs::chown(path, self.owner, self.group).unwrap();
        }
        set_mode(path, self.mode);
        if self.is_listed {
            set_access_list(path);
        }
        if self.is_noted {
            set_attribute(path, "its own");
        }
    }
}

#[test]
fn a_link_changes_no_metadata_and_gives_nobody_more_rights() {
    let tree = tree();
    let link = &Action::Symlink { is_absolute: false };
    let (hardlink, only_one) = (&Action::Hardlink, "hard links have only one");
    let of = |mode| Rights {
        mode,
        ..Rights::default()
    };
    let mut listed = of(0o644);
    listed.is_listed = true;
    let mut noted = of(0o644);
    noted.is_noted = true;
    let mut owned = of(0o644);
    owned.owner = Some(1234);
    let grouped = |mode| Rights {
        group: Some(1234),
        ..of(mode)
    };
    let options = tree.trusting();
    for (number, (action, own, kept, reason)) in [
        (link, of(0o644), of(0o644), ""),
        (link, of(0o644), of(0o600), ""),
        (link, of(0o666), of(0o444), ""),
        (link, of(0o644), of(0o666), "mode"),
        (link, of(0o600), of(0o604), "mode"),
        (link, of(0o444), of(0o644), "mode"),
        (link, of(0o755), of(0o4755), "mode"),
        (link, of(0o644), listed, "access control list"),
        (link, listed, listed, ""),
        (link, of(0o644), owned, "owner"),
        (link, of(0o644), grouped(0o644), ""),
        (link, of(0o664), grouped(0o664), "mode"),
        (hardlink, of(0o600), of(0o644), only_one),
        (hardlink, noted, of(0o644), only_one),
        (hardlink, listed, of(0o644), only_one),
    ]
    .into_iter()
    .enumerate()
    {
        if kept.owner.or(kept.group).is_some() && sys::effective_user() != 0 {
            continue;
        }
        sample(&tree);
        let (one, keep) = (tree.path("deep/er/one"), tree.path("keep"));
        own.give(&one);
        kept.give(&keep);
        let steps = [step(&[&one], &keep)];
        let before = tree.snapshot();
        let outcomes = tree.run_by(action, &steps, &options);
        if reason.is_empty() {
            assert!(is_done(&outcomes[0]), "{number}: {outcomes:?}");
            assert_eq!(check(action, &steps, &options).len(), 1, "it is done");
        } else {
            assert!(why(&outcomes[0]).contains(reason), "{number}: {outcomes:?}");
            assert_eq!(tree.snapshot(), before);
            // Access control lists and attributes are seen when the files are open.
            if ["mode", "owner"].contains(&reason) {
                let found = check(action, &steps, &options);
                assert!(matches!(&found[..], [(0, why)] if why.contains(reason)), "{found:?}");
            }
        }
        forget_all(&tree);
    }
}

/// Lets another user, who owns all of the sample but what `change` changes, act on the first step of it; for a `reason`, it is left.
fn require_by_user(tree: &Tree, action: usize, change: &dyn Fn(), reason: &str) {
    use std::os::unix::fs::chown;
    use std::os::unix::process::CommandExt;
    write_sample(tree);
    chown(&tree.directory, Some(1234), Some(1234)).unwrap();
    for path in tree.snapshot().into_keys().chain([tree.root()]) {
        chown(path, Some(1234), Some(1234)).unwrap();
    }
    change();
    let mut child = child(tree, action, "stop", u64::MAX);
    assert!(child.uid(1234).gid(1234).status().unwrap().success());
    let outcome = fs::read_to_string(tree.directory.join("outcome")).unwrap();
    let _ = fs::remove_dir_all(tree.options().state_directory);
    let is_right = if reason.is_empty() {
        outcome.starts_with("Done") || outcome.contains("cannot share")
    } else {
        outcome.starts_with("Left") && outcome.contains(reason)
    };
    assert!(is_right, "action {action}, {reason}: {outcome}");
}

#[test]
fn a_user_removes_no_file_that_he_could_not_restore_and_links_through_no_directory_of_others() {
    if sys::effective_user() != 0 {
        return println!("skipped: not root");
    }
    let tree = tree();
    let (one, keep) = (tree.path("deep/er/one"), tree.path("keep"));
    let give = |owner, group| {
        for path in [&one, &keep] {
            std::os::unix::fs::chown(path, Some(owner), Some(group)).unwrap();
            set_mode(path, 0o666);
        }
    };
    let allow = || {
        let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for path in [&one, &keep] {
            rustix::fs::setxattr(path, "security.capability", &capability, XattrFlags::empty()).unwrap();
        }
    };
    for (number, action) in actions(&tree).iter().enumerate() {
        let is_copied = !matches!(action, Action::Reflink | Action::Move { .. });
        let of_copied = |reason| if is_copied { reason } else { "" };
        require_by_user(&tree, number, &|| (), "");
        require_by_user(
            &tree,
            number,
            &|| give(1234, 4321),
            of_copied("restore its group (ID 4321)"),
        );
        require_by_user(&tree, number, &allow, of_copied("restore its extended attribute"));
    }
    // The lease for that needs its owner.
    require_by_user(&tree, 0, &|| give(4321, 1234), "keep other processes out");
    let root = tree.root();
    let mode = |mode| set_mode(&root, mode);
    let own = |owner, group| std::os::unix::fs::chown(&root, Some(owner), Some(group)).unwrap();
    let changes: [(&dyn Fn(), &str); 6] = [
        (&|| mode(0o777), "other users may write to"),
        (&|| mode(0o1777), ""),
        // A group of this user alone.
        (&|| mode(0o775), ""),
        (
            &|| {
                own(1234, 4321);
                mode(0o775);
            },
            "other users may write to",
        ),
        (&|| own(4321, 1234), "belongs to another user (ID 4321)"),
        (&|| own(0, 0), ""),
    ];
    for (number, action) in actions(&tree).iter().enumerate() {
        for (at, (change, reason)) in changes.into_iter().enumerate() {
            if !is_long() && at != number && number != 2 {
                continue;
            }
            let change = || {
                set_mode(tree.path("keep"), 0o644);
                change();
            };
            let is_link = matches!(action, Action::Symlink { .. });
            require_by_user(&tree, number, &change, if is_link { reason } else { "" });
        }
    }
}

/// Fails unless a step is left because of a `part` of a path, as is said beforehand, and done if owners are trusted.
fn require_distrusted(tree: &Tree, action: &Action, steps: &[Step], reason: &str, part: &str) {
    let before = tree.snapshot();
    let found = check(action, steps, &tree.options());
    let outcomes = tree.run(action, steps);
    if is_lacking(&outcomes) {
        return;
    }
    for why in [why(&outcomes[0]), found[0].1.clone()] {
        assert!(why.contains(reason) && why.contains(part), "{action:?} {part}: {why}");
    }
    assert_eq!(tree.snapshot(), before);
    let trusting = tree.trusting();
    let outcomes = tree.run_by(action, steps, &trusting);
    // A link of a file of another owner gives other rights.
    let is_other = || action.makes_links() && why(&outcomes[0]).contains("owner");
    assert!(
        is_lacking(&outcomes) || is_done(&outcomes[0]) || is_other(),
        "{outcomes:?}"
    );
    forget_all(tree);
}

#[test]
fn root_relies_on_no_file_of_others_and_no_path_that_leads_or_moves_something_through_their_directories() {
    if sys::effective_user() != 0 {
        return println!("skipped: not root");
    }
    let tree = tree();
    let [foreign, shared, grouped, sticky]: [fn(&Path); 4] = [
        |path| give_away(path),
        |path| set_mode(path, 0o777),
        |path| set_mode(path, 0o775),
        |path| set_mode(path, 0o1777),
    ];
    let changes = [
        (foreign, "belongs to another user (ID 1234)"),
        (shared, "other users may write to"),
        (grouped, "other users may write to"),
        (sticky, ""),
    ];
    let directories = ["a", "a/b", "a/b/c", "k", "k/b", "k/b/c"];
    let of_directories = directories
        .iter()
        .flat_map(|name| changes.map(|change| (*name, change)));
    let of_files = ["a/b/c/one", "k/b/c/keep"].map(|name| (name, changes[0]));
    let cases: Vec<_> = of_directories.chain(of_files).collect();
    let all = actions(&tree)
        .into_iter()
        .flat_map(|action| cases.iter().map(move |case| (action.clone(), *case)));
    for (action, (name, (change, reason))) in all.step_by(long_or(1, 11)) {
        sample(&tree);
        let bytes = fs::read(tree.path("keep")).unwrap();
        let (one, keep) = (tree.write("a/b/c/one", &bytes), tree.write("k/b/c/keep", &bytes));
        change(&tree.path(name));
        let steps = [step(&[&one], &keep)];
        // A reflink relies on nothing: the bytes are its own.
        if reason.is_empty() || action == Action::Reflink && name.starts_with('k') {
            let found = check(&action, &steps, &tree.options());
            let outcomes = tree.run(&action, &steps);
            assert!(
                is_lacking(&outcomes) || found.is_empty() && is_done(&outcomes[0]),
                "{found:?}"
            );
            forget_all(&tree);
        } else {
            let part = if directories.contains(&name) { name } else { "" };
            require_distrusted(&tree, &action, &steps, reason, part);
        }
    }
    let to = tree.path("to");
    let action = Action::Move { to: to.clone() };
    let moved = moved_to(&to, &tree.path("deep/er/one"));
    let there = moved.parent().unwrap();
    let make_theirs = || {
        fs::create_dir_all(there).unwrap();
        give_away(there);
    };
    let changes: [&dyn Fn(); 4] = [
        &|| give_away(&to),
        &|| set_mode(&to, 0o777),
        // Made by the other in a directory with the sticky bit.
        &|| {
            set_mode(&to, 0o1777);
            make_theirs();
        },
        &|| set_mode(&to, 0o1777),
    ];
    for (number, change) in changes.iter().enumerate() {
        write_sample(&tree);
        fs::create_dir(&to).unwrap();
        change();
        let steps = &sample_steps(&tree)[..1];
        if number < 3 {
            require_distrusted(&tree, &action, steps, "other user", "/to");
            continue;
        }
        // The other makes one at the last moment.
        assert_eq!(check(&action, steps, &tree.options()), []);
        let late = meanwhile_always(|step| {
            if step.kind == StepKind::Make {
                make_theirs();
            }
        });
        let outcomes = tree.run_while(&action, steps, &late);
        assert!(why(&outcomes[0]).contains("belongs to another user"), "{outcomes:?}");
        assert!(steps[0].file.paths[0].exists());
    }
}

#[test]
fn a_file_with_names_outside_of_the_search_is_restored_apart_and_that_is_said() {
    for tree in trees() {
        for action in [Action::Remove, Action::Hardlink, Action::Symlink { is_absolute: false }] {
            let steps = sample(&tree);
            let path = tree.path("two");
            fs::hard_link(&path, tree.path("elsewhere")).unwrap();
            let steps = [step(&steps[2].file.paths, &steps[2].keep.path)];
            tree.does(&action, &steps);
            let undone = tree.undo();
            let apart = |(_, undone): &(PathBuf, UndoOutcome)| *undone == UndoOutcome::Apart { names: 1 };
            assert!(undone.len() == 2 && undone.iter().all(apart), "{action:?}: {undone:?}");
            let inode = |name| tree.path(name).metadata().unwrap().ino();
            assert_eq!(inode("two"), inode("deep/two"));
            assert_ne!(inode("two"), inode("elsewhere"));
            forget_all(&tree);
        }
    }
}

/// Kills a run when its first file is renamed and not removed yet.
fn kill_in_first_step(tree: &Tree) {
    let is_begun = |left| {
        forget_all(tree);
        write_sample(tree);
        is_killed(tree, 0, "run", left) && !tree.path("deep/er/one").exists()
    };
    assert!((0..99).any(is_begun));
}

#[test]
fn what_is_settled_of_a_killed_run_is_told_and_what_cannot_be() {
    let tree = tree();
    kill_in_first_step(&tree);
    let told = tree.settle();
    let journal = tree.journals()[0].path.clone();
    let sum = (
        journal.clone(),
        RecoveredAct::Run {
            done: 0,
            left: 3,
            failed: 0,
        },
    );
    assert_eq!(told, [(tree.path("deep/er/one"), RecoveredAct::PutBack), sum]);
    assert_eq!(tree.settle(), []);

    kill_in_first_step(&tree);
    tree.write("deep/er/one", b"saved meanwhile");
    let told = tree.settle();
    let [
        (path, RecoveredAct::Failed { why }),
        (_, RecoveredAct::Run { failed: 1, .. }),
    ] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!(*path, tree.path("deep/er/one"));
    let why = why.to_string();
    assert!(why.contains("it is now") && why.contains(".seekless-dupes-"), "{why}");
    assert_eq!(tree.settle(), []);

    // A directory that cannot be opened now may be there again later.
    kill_in_first_step(&tree);
    fs::rename(tree.path("deep"), tree.path("away")).unwrap();
    for _ in 0..2 {
        let told = tree.settle();
        let [(path, RecoveredAct::Failed { why })] = &told[..] else {
            panic!("{told:?}")
        };
        assert_eq!(*path, tree.path("deep/er/one"));
        assert!(why.to_string().contains("2 more of that run"), "{why}");
    }
    fs::rename(tree.path("away"), tree.path("deep")).unwrap();
    assert_eq!(tree.settle().len(), 2);
}

#[test]
fn a_run_whose_journal_is_removed_says_that_it_cannot_be_undone_and_goes_no_further() {
    let tree = tree();
    let (mut failed, mut lost) = (0, 0);
    let run = |watch: &dyn Watch| {
        write_many(&tree);
        let steps = many_steps(&tree);
        let options = tree.options();
        run_watched(&Action::Remove, &steps, &options, &Stop::default(), watch)
    };
    let changes = changes_of(run);
    forget_all(&tree);
    // In the last changes, everything is written down, and with the last one, the journal is complete.
    let at_the_end = changes.saturating_sub(3)..changes;
    let evenly = (0..=changes).step_by(long_or(1, changes as usize / 6));
    for left in evenly.chain(at_the_end) {
        let remove = meanwhile(left, |_| drop(fs::remove_dir_all(tree.options().state_directory)));
        let ran = run(&remove);
        let gone = many_steps_gone(&tree);
        match ran {
            Err(error) => {
                failed += 1;
                let text = error.to_string();
                let is_told = text.contains("cannot be undone") || text.contains("directory of journals");
                assert!(is_told && gone < MANY, "{text}");
            }
            Ok(ran) if ran.is_journal_lost => {
                lost += 1;
                assert!(ran.journal.is_none() && ran.done > 0);
            }
            Ok(ran) => assert!(ran.journal.unwrap().exists(), "removed before change {left}"),
        }
        forget_all(&tree);
    }
    assert!(failed > 0 && lost > 0, "{failed} {lost}");
}

fn many_steps_gone(tree: &Tree) -> usize {
    let is_gone = |number: &usize| !tree.path(format!("many/{}/{number}", number % 3)).exists();
    (0..MANY).filter(is_gone).count()
}

/// Lines as an earlier version wrote them.
fn without_sums(text: &str, version: &str) -> String {
    text.replacen(
        "\"kind\":\"journal\"",
        &format!("\"kind\":\"journal\",\"version\":{version}"),
        1,
    )
}

#[test]
fn a_journal_of_lines_without_sums_is_settled_and_undone() {
    let tree = tree();
    for is_killed in [false, true] {
        let steps = sample(&tree);
        let before = tree.snapshot();
        tree.does(&Action::Remove, &steps);
        let path = tree.journals()[0].path.clone();
        let mut text = without_sums(&lines_of(&path), "2");
        if is_killed {
            text.truncate(text.rfind("\"kind\":\"end\"").unwrap());
        }
        fs::write(&path, text).unwrap();
        assert_eq!(tree.settle().is_empty(), !is_killed);
        let undone = tree.undo();
        require_same(&tree, &before, &format!("{undone:?}"));
        let [journal] = &tree.journals()[..] else { panic!() };
        assert!(journal.is_undone());
        forget_all(&tree);
    }
}

#[test]
fn a_journal_of_another_version_is_refused_and_neither_settled_nor_removed() {
    let tree = tree();
    kill_in_first_step(&tree);
    let path = tree.journals()[0].path.clone();
    let text = lines_of(&path);
    for version in ["1", "0", "\"2\"", "null", "4"] {
        if version == "4" {
            let form = RecordForm { version: 4, ..FORM };
            let newer = RecordWriter::begin(File::create(&path).unwrap(), &form);
            newer.add(text.as_bytes());
            newer.write(|| Ok(())).unwrap();
        } else {
            fs::write(&path, without_sums(&text, version)).unwrap();
        }
        let bytes = fs::read(&path).unwrap();
        let before = tree.snapshot();
        let told = tree.settle();
        let [(of, RecoveredAct::Failed { why })] = &told[..] else {
            panic!("{told:?}")
        };
        assert_eq!(*of, path);
        let why = why.to_string();
        assert!(
            why.contains(&format!("it has version {version}; this program reads version 3")),
            "{why}"
        );
        for error in [
            undo::undo(&path, &Stop::default()).unwrap_err(),
            journal::forget(&path).unwrap_err(),
        ] {
            assert!(error.to_string().contains(&why), "{error}");
        }
        let state = tree.options().state_directory;
        let in_a_year = SystemTime::now() + Duration::from_hours(24 * 365);
        assert_eq!(journal::expire(&state, in_a_year).unwrap(), 0);
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(tree.snapshot(), before);
    }
}

/// The kernel breaks leases after a second, until the end.
struct ShortLeases(String);

const LEASE_BREAK_TIME: &str = "/proc/sys/fs/lease-break-time";

impl ShortLeases {
    fn begin() -> Option<Self> {
        let before = fs::read_to_string(LEASE_BREAK_TIME).ok()?;
        fs::write(LEASE_BREAK_TIME, "1").ok()?;
        Some(Self(before))
    }
}

impl Drop for ShortLeases {
    fn drop(&mut self) {
        // Another test that runs meanwhile may have set it, and puts it back.
        if self.0.trim() != "1" {
            let _ = fs::write(LEASE_BREAK_TIME, &self.0);
        }
    }
}

#[test]
fn what_others_wrote_while_a_run_was_stopped_for_longer_than_its_lease_stays() {
    let Some(_time) = ShortLeases::begin() else {
        return println!("skipped: setting the time of leases needs root on Linux");
    };
    for tree in trees() {
        for (number, action) in actions(&tree).iter().enumerate() {
            if *action == Action::Reflink {
                continue;
            }
            // The least time after which the kernel breaks a lease is a second.
            if !is_long() && *action != Action::Hardlink {
                continue;
            }
            for (left, is_kept) in (0..)
                .flat_map(|left| [(left, false), (left, true)])
                .take(long_or(usize::MAX, 1))
            {
                if is_kept && matches!(action, Action::Move { .. }) {
                    continue;
                }
                write_sample(&tree);
                let outcome = tree.directory.join("outcome");
                let goes_on = tree.directory.join("continued");
                for left_over in [&outcome, &goes_on] {
                    let _ = fs::remove_file(left_over);
                }
                let [one, keep] = ["deep/er/one", "keep"].map(|name| tree.path(name));
                let content = fs::read(&one).unwrap();
                // It is written to by another program that found it before.
                let files = [&one, &keep].map(|path| File::open(path).unwrap());
                let mut child = child(&tree, number, "stop", left).spawn().unwrap();
                let pid = rustix::process::Pid::from_child(&child);
                let status = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED);
                let (_, status) = status.unwrap().unwrap();
                if !status.stopped() {
                    assert_eq!(status.exit_status(), Some(0));
                    break;
                }
                let [own, kept] = files.each_ref().map(|file| file.metadata().unwrap());
                let is_moved = matches!(action, Action::Move { .. }) && !one.exists();
                // What has the name is the link.
                let is_linked = one.metadata().is_ok_and(|found| found.ino() == kept.ino());
                let is_over = own.nlink() == 0 || is_moved || is_kept && is_linked;
                let path = sys::descriptor_path(&files[usize::from(is_kept)]).unwrap();
                File::options()
                    .append(true)
                    .open(&path)
                    .unwrap()
                    .write_all(b"precious")
                    .unwrap();
                fs::write(goes_on, "").unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
                assert!(child.wait().unwrap().success());
                let outcome = fs::read_to_string(&outcome).unwrap();
                let case = format!("{action:?}, stopped before {left}, {is_kept}: {outcome}");
                if !is_over {
                    assert!(outcome.starts_with("Left") && outcome.contains("changed"), "{case}");
                    let written = [&content[..], b"precious"].concat();
                    let [other, written_to] = if is_kept { [&one, &keep] } else { [&keep, &one] };
                    assert!(fs::read(written_to).unwrap() == written, "{case}");
                    assert!(fs::read(other).unwrap() == content, "{case}");
                    assert!(!one.is_symlink());
                    assert_ne!(one.metadata().unwrap().ino(), keep.metadata().unwrap().ino());
                }
                require_nothing_left_over(&tree);
                forget_all(&tree);
            }
        }
    }
}

fn require_nothing_left_over(tree: &Tree) {
    let is_ours = |path: &PathBuf| path.file_name().unwrap().as_bytes().starts_with(b".seekless");
    assert!(!tree.snapshot().keys().any(is_ours));
}

#[test]
fn undo_syncs_new_files_names_and_the_record_in_this_order_and_what_a_power_cut_took_is_restored_again() {
    let tree = tree();
    for action in &actions(&tree)[..3] {
        let steps = sample(&tree);
        tree.does(action, &steps);
        let journal = tree.journals()[0].path.clone();
        let told: Mutex<Vec<(StepKind, bool, u64)>> = Mutex::default();
        let watch = meanwhile_always(|step: &WatchedStep<'_>| {
            let is_journal = step.path == journal;
            let lines = lines_of(&journal);
            let records = lines.matches(r#""kind":"undone""#).count() as u64;
            told.lock().unwrap().push((step.kind, is_journal, records));
        });
        assert_eq!(tree.undo_with(&watch).len(), 4);
        let told = std::mem::take(&mut *told.lock().unwrap());
        let syncs: Vec<usize> = (0..told.len())
            .filter(|&at| (told[at].0, told[at].1) == (StepKind::Sync, false))
            .collect();
        let [bytes, names] = syncs[..] else { panic!("{told:?}") };
        // What is made before the first sync has no name.
        let makes = |range: &[(StepKind, bool, u64)]| range.iter().filter(|(kind, ..)| *kind == StepKind::Make).count();
        assert_eq!((makes(&told[..bytes]), makes(&told[bytes..names])), (3, 4), "{told:?}");
        let changes = |(kind, is_journal, _): &&(StepKind, bool, u64)| !is_journal && *kind != StepKind::Sync;
        assert_eq!(told[names..].iter().filter(changes).count(), 0, "{told:?}");
        assert!(told[..=names].iter().all(|(.., records)| *records == 0), "{told:?}");
        journal::forget(&journal).unwrap();
        let steps = sample(&tree);
        let before = tree.snapshot();
        tree.run(action, &steps);
        tree.undo();
        assert_eq!(tree.journals()[0].undone, 3);
        // A new file that lost its bytes, one that lost its end, and a name that was lost.
        let [zeros, cut, gone] = [tree.path("deep/er/one"), tree.path(odd()), tree.path("two")];
        for (path, length) in [(&zeros, 200_000), (&cut, 70_000)] {
            let (bytes, time) = (fs::read(path).unwrap(), fs::metadata(path).unwrap().modified().unwrap());
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(if path == &zeros { 0 } else { length }).unwrap();
            file.set_len(length).unwrap();
            assert_ne!(fs::read(path).unwrap(), bytes);
            file.set_times(FileTimes::new().set_modified(time)).unwrap();
        }
        let is_lost = *action == Action::Remove;
        if is_lost {
            fs::remove_file(&gone).unwrap();
        }
        let undone = tree.undo();
        assert_eq!(undone.len(), if is_lost { 3 } else { 2 }, "{undone:?}");
        assert_eq!(tree.snapshot(), before, "{action:?}");
        // What others wrote since, and what they replaced, stays.
        fs::write(&zeros, "theirs").unwrap();
        fs::remove_file(&cut).unwrap();
        fs::write(&cut, "new").unwrap();
        let theirs = tree.snapshot();
        assert_eq!(tree.undo(), []);
        assert_eq!(tree.snapshot(), theirs);
        journal::forget(&tree.journals()[0].path).unwrap();
    }
}

#[test]
fn a_journal_without_an_end_is_settled_with_all_its_steps() {
    let tree = tree();
    let steps = sample(&tree);
    tree.does(&Action::Remove, &steps);
    let journal = tree.journals()[0].path.clone();
    let lines = lines_of(&journal);
    let temporary = temporary(&lines, 0);
    // The power was cut when only the first of two names had been removed, and the outcomes were in the journal.
    edit_journal(&journal, |line| line["kind"] != "end");
    let aside = tree.path("deep/er").join(temporary);
    fs::copy(tree.path("keep"), &aside).unwrap();
    let settled = tree.settle();
    assert!(matches!(settled[0], (_, RecoveredAct::PutBack)), "{settled:?}");
    let sum = RecoveredAct::Run {
        done: 2,
        left: 1,
        failed: 0,
    };
    assert_eq!(settled[1].1, sum);
    assert!(!aside.exists() && tree.path("deep/er/one").exists());
    let [journal] = &tree.journals()[..] else { panic!() };
    assert!(journal.is_interrupted && !journal.is_undone());
    assert_eq!(journal.files, 2);
}

#[test]
fn a_file_that_was_moved_on_since_counts_as_moved_when_a_run_without_an_end_is_settled() {
    let tree = tree();
    let (steps, to) = (sample(&tree), tree.path("moved"));
    tree.does(&Action::Move { to: to.clone() }, &steps[..1]);
    let journal = tree.journals()[0].path.clone();
    edit_journal(&journal, |line| line["kind"] != "end");
    fs::rename(moved_to(&to, &steps[0].file.paths[0]), tree.path("moved/on")).unwrap();
    let sum = RecoveredAct::Run {
        done: 1,
        left: 0,
        failed: 0,
    };
    assert_eq!(tree.settle(), [(journal, sum)]);
    assert!(is_unrestored(&tree.undo()));
}
