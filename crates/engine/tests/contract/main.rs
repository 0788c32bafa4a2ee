//! One contract for every mechanism: the bytes arrive unchanged, whatever the size, the block, the options and the file
//! system. The oracle is plain reading and writing by std.
//!
//! Runs in a temporary directory, or in each of the directories of `SEEKLESS_TEST_DIRS` (separated by colons).

mod changing;
mod comparing;
mod consumers;
mod copying;
mod crashing;
mod front_door;
mod marks;
mod others;
mod pairs;
mod parts;
mod planning;
mod reading;
mod recovering;
mod refusing;
mod replacing;
mod scanning;
mod sparse;
mod updating;
mod visiting;

mod watches;
mod writing;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard};

use seekless_engine::method::{CachePolicy, Durability, Hint, MECHANISMS, Operation};
use seekless_engine::{Availability, Choice, Method, Probe};
use tempfile::TempDir;

/// A directory for each file system under test, removed at the end.
fn directories() -> Vec<TempDir> {
    seekless_engine::allow_mapping().expect("the handler can be installed");
    match std::env::var_os("SEEKLESS_TEST_DIRS") {
        None => vec![tempfile::tempdir().expect("a temporary directory")],
        Some(list) => std::env::split_paths(&list)
            .map(|directory| tempfile::tempdir_in(directory).expect("a directory on the file system under test"))
            .collect(),
    }
}

/// The methods of an operation that a directory's storage supports, each mechanism in [`pairs::chosen`] combinations of its
/// options. Says which are not available and why.
fn methods(operation: Operation, directory: &Path) -> Vec<Method> {
    let mechanisms = MECHANISMS.iter().filter(|mechanism| mechanism.operation == operation);
    let mut tried = Tried::in_directory(directory);
    let choose = |mechanism| pairs::chosen(mechanism, |method| tried.is_available(method));
    let found: Vec<_> = mechanisms.flat_map(choose).collect();
    tried.tell_missing();
    let place = directory.display();
    assert!(!found.is_empty(), "nothing of {operation} is available in {place}");
    found
}

/// Each directory with each of the methods of an operation, as [`methods`] gives them.
fn each_method(operation: Operation) -> impl Iterator<Item = (Rc<TempDir>, Method)> {
    let directories = directories().into_iter().map(Rc::new);
    directories.flat_map(move |directory| {
        let methods = methods(operation, directory.path());
        methods.into_iter().map(move |method| (directory.clone(), method))
    })
}

/// Those of some methods that work in a directory. Says which do not and why.
fn available(directory: &Path, methods: impl IntoIterator<Item = Method>) -> Vec<Method> {
    let mut tried = Tried::in_directory(directory);
    let found = methods
        .into_iter()
        .filter(|method| tried.is_available(method))
        .collect();
    tried.tell_missing();
    found
}

/// Whether a method works in a directory; prints why if it does not.
fn is_available(method: &Method, directory: &Path) -> bool {
    !available(directory, [*method]).is_empty()
}

/// The methods of a text with spaces between them that work in a directory, and its plans.
fn of_these<'a>(methods: &'a str, directory: &Path) -> impl Iterator<Item = &'a str> {
    methods.split(' ').filter(|text| {
        let choice: Choice = text.parse().unwrap();
        choice.method().is_none_or(|method| is_available(method, directory))
    })
}

/// Whether a method works in a parent directory, which is on the same file system, by its path and the method's text.
type Known = BTreeMap<(PathBuf, String), Availability>;

/// Which methods work in a directory. Each is tried once for all tests.
struct Tried<'a> {
    directory: &'a Path,
    known: MutexGuard<'static, Known>,
    probe: Option<Probe>,
    missing: BTreeMap<String, Vec<Method>>,
}

impl<'a> Tried<'a> {
    fn in_directory(directory: &'a Path) -> Self {
        static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
        Self {
            directory,
            known: KNOWN.lock().expect("no probe panics"),
            probe: None,
            missing: BTreeMap::new(),
        }
    }

    fn above(&self) -> &'a Path {
        self.directory.parent().expect("a directory of a test is in another")
    }

    fn is_available(&mut self, method: &Method) -> bool {
        let key = (self.above().to_owned(), method.to_string());
        let availability = self.known.entry(key).or_insert_with(|| {
            let probe = self
                .probe
                .get_or_insert_with(|| Probe::new(self.directory).expect("a probe"));
            probe.availability(method)
        });
        if let Availability::Unavailable(reason) = availability {
            self.missing.entry(reason.clone()).or_default().push(*method);
        }
        *availability == Availability::Available
    }

    fn tell_missing(self) {
        for (reason, methods) in &self.missing {
            let more = match methods.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            println!("skipped: {}{more} in {}: {reason}", methods[0], self.above().display());
        }
    }
}

const BLOCKS: [u64; 3] = [4 << 10, 12 << 10, 64 << 10];

/// The sizes and blocks that a method is tried with: sizes around every edge of a block, and blocks in turn. A method with
/// at most one option is tried with each size of each block; one that waits for the device with one size of three, but
/// for the long run.
fn cases(method: &Method) -> Vec<(Method, usize)> {
    let options = method.options();
    let departures = usize::from(options.cache() != CachePolicy::Cached)
        + usize::from(options.hint() != Hint::None)
        + usize::from(options.preallocate() != Method::plain(method.mechanism()).options().preallocate())
        + usize::from(options.durability() != Durability::None);
    let is_fast = options.durability() == Durability::None && departures <= 1;
    let blocks: Vec<Method> = BLOCKS.iter().filter_map(|&block| with_block(method, block)).collect();
    let mut cases = Vec::new();
    for (at, method) in blocks.iter().enumerate() {
        let block = method.options().block_bytes().unwrap_or(4096);
        let all = sizes(block).into_iter().enumerate();
        let is_tried_with_all = is_fast || pairs::is_long() && departures <= 1;
        let sizes = all.filter(|(size, _)| is_tried_with_all || size % blocks.len() == at);
        cases.extend(sizes.map(|(_, size)| (*method, size as usize)));
    }
    if cases.is_empty() {
        cases.extend(sizes(4096).into_iter().map(|size| (*method, size as usize)));
    }
    // The block of the mechanism, or the whole file.
    cases.push((*method, 300_000));
    cases
}

/// A method with another block, if it takes one.
fn with_block(method: &Method, block_bytes: u64) -> Option<Method> {
    method
        .with(seekless_engine::method::Setting::block_bytes(block_bytes))
        .ok()
}

/// Bytes without a pattern; a shorter sample is the beginning of a longer one.
fn sample(bytes: usize) -> Vec<u8> {
    let mut sample = vec![0; bytes];
    fastrand::Rng::with_seed(42).fill(&mut sample);
    sample
}

fn file_of(directory: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).expect("a test file");
    path
}

/// A file system that is mounted in a directory of its own until this is dropped.
struct Mounted {
    directory: TempDir,
}

impl Mounted {
    fn path(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.path()).status();
    }
}

/// A setting of the kernel, restored when this is dropped; `None` if only root may set it.
struct Setting {
    path: &'static str,
    before: String,
}

impl Setting {
    fn of(path: &'static str, value: &str) -> Option<Self> {
        let before = std::fs::read_to_string(path).ok()?;
        std::fs::write(path, value).ok()?;
        Some(Self { path, before })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::write(self.path, &self.before);
    }
}

/// Sizes around every edge of a block.
fn sizes(block_bytes: u64) -> Vec<u64> {
    let block = block_bytes;
    let mut sizes = vec![0, 1, 511, 512, 513, 4095, 4096, 4097];
    sizes.extend([block - 1, block, block + 1, 2 * block, 3 * block - 1, 5 * block + 17]);
    sizes
}

/// Waits until no process has a file open: a child that another test starts has all files of this process open until it
/// runs its own program.
fn wait_until_closed(path: &Path) {
    let started = std::time::Instant::now();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let leased = || seekless_sys::take_lease(&file, seekless_sys::LeaseKind::Exclusive);
    while matches!(leased(), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock) {
        assert!(started.elapsed().as_secs() < 20, "{} stays open", path.display());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
