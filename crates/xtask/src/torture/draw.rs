//! Draws a trial from its seed: the files, the command, what it meets, who else is at the files, and what a user does afterwards.
//!
//! Not here: what other processes do, which is drawn while they do it (`others`).

use std::fmt::Write as _;
use std::mem::swap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fastrand::Rng;

use super::harm::Harm;
use super::power::{ON_DISKS, PowerCut};
use super::tree::{
    ACL, COPY, Content, DATA, FileAttributes, FileTree, MOVED, Patch, TREE, TreeEntry, YARD, files, patched,
};
use crate::filesystems::TestFileSystem::{self, Btrfs, Ext4, Overlay, Tmpfs, Xfs};

/// The file systems that trials run on.
pub const FILE_SYSTEMS: [TestFileSystem; 5] = [Ext4, Xfs, Btrfs, Tmpfs, Overlay];

/// What a trial is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TrialSubject {
    /// Updating a file
    Update,
    /// Digging, filling and punching holes
    Holes,
    /// Acting on duplicates
    Dupes,
    /// Copying a tree
    Cp,
}

/// One trial.
#[derive(Debug)]
pub struct TrialPlan {
    /// The file system, and perhaps that of another disk, which has the journals of actions and loses power, too.
    pub on: Vec<TestFileSystem>,
    pub subject: TrialSubject,
    /// The row of the table that it counts in: the command and its kind.
    pub label: String,
    /// The command. `FILE` stands for the target, `UPDATES` for the document with the patches.
    pub words: String,
    /// Blocks of zeros are holes.
    pub is_sparse: bool,
    /// The file that a command on one file changes.
    pub target: Option<PathBuf>,
    pub has_one_name: bool,
    pub harm: Harm,
    /// The seed of what another process does.
    pub others: Option<u64>,
    /// It goes on while a user recovers.
    pub stays: bool,
    /// What was done is undone this many times, and otherwise done again.
    pub undo_times: usize,
    /// The first recovery meets this. It is run again, however it ends.
    pub recovery_harm: Option<Harm>,
    /// What the command writes to the target.
    pub patches: Vec<Patch>,
    /// The files before the trial. Paths are relative to the directory of the trial.
    pub tree: FileTree,
}

impl TrialPlan {
    /// Draws a trial, in which the power fails if `loses_power`.
    pub fn draw(seed: u64, loses_power: bool) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let subjects = [TrialSubject::Update, TrialSubject::Dupes, TrialSubject::Cp];
        let subject = subjects
            .get(rng.usize(..10) / 3)
            .copied()
            .unwrap_or(TrialSubject::Holes);
        let on = if loses_power { &ON_DISKS[..] } else { &FILE_SYSTEMS };
        let [file_system, other] = [(); 2].map(|()| on[rng.usize(..on.len())]);
        let mut tree = draw_tree(rng);
        let (path, bytes) = files(&tree, TREE).nth(rng.usize(..files(&tree, TREE).count())).unzip();
        let (target, bytes) = (path.map(Path::to_owned), bytes.map_or(0, <[u8]>::len));
        let (label, words, patches) = match subject {
            TrialSubject::Update => draw_update(rng, bytes),
            TrialSubject::Holes => draw_holes(rng, bytes),
            TrialSubject::Dupes => draw_dupes(rng, file_system),
            TrialSubject::Cp => draw_cp(rng, &mut tree),
        };
        let is_dupes = subject == TrialSubject::Dupes;
        let target = target.filter(|_| words.contains("FILE"));
        let names = |target: &PathBuf| tree.values().filter(|entry| entry.first == tree[target].first).count();
        let has_one_name = target.as_ref().is_none_or(|target| names(target) == 1);
        let is_met = !loses_power && has_one_name && rng.u8(..3) > 0;
        let mut harm = Harm::draw(rng);
        let mut recovery_harm = (rng.u8(..5) < 2).then(|| Harm::draw(rng));
        // An overlay lies on the machine's own disk, a tmpfs in its memory. On a full one, directories may not get their names back.
        if ON_DISKS.contains(&file_system) && !loses_power && !(is_dupes && is_met) && rng.u8(..8) == 0 {
            harm.free_bytes = Some(rng.u64(0..8) * rng.u64(0..16) * 4096);
        }
        if loses_power {
            let other = recovery_harm.get_or_insert_default();
            *other = Harm::of_power(PowerCut::draw(rng));
            if rng.bool() {
                swap(&mut harm, other);
            }
        }
        let mut on = vec![file_system];
        on.extend(Some(other).filter(|_| loses_power && is_dupes && other != file_system));
        Self {
            on,
            subject,
            label,
            words,
            is_sparse: rng.bool(),
            target,
            has_one_name,
            patches,
            harm,
            others: is_met.then(|| rng.u64(..)),
            stays: is_dupes && rng.u8(..3) == 0,
            undo_times: if is_dupes { rng.usize(..3) } else { 0 },
            recovery_harm,
            tree,
        }
    }

    /// What is done with duplicates: `remove`, `hardlink`, `symlink`, `reflink`, `move` or `trash`.
    pub fn action(&self) -> Option<&str> {
        self.label.strip_prefix("dupes ")
    }

    pub fn has(&self, option: &str) -> bool {
        self.words.split(' ').any(|word| word == option)
    }

    pub fn loses_power(&self) -> bool {
        let recovery = self.recovery_harm.as_ref();
        self.harm.power.is_some() || recovery.is_some_and(|harm| harm.power.is_some())
    }

    /// Whether all that a command wrote is on the device when it ends with success.
    pub fn is_durable(&self) -> bool {
        match &self.label[..] {
            "update in-place" if self.has("--method") => {
                self.words.contains(",fsync") || self.words.contains("-through")
            }
            "update in-place" => !self.has("none"),
            label if label.starts_with("cp") => self.has("--durable") || self.has("--fsync"),
            _ => true,
        }
    }

    /// The files as they are when the command has done all its work. What becomes of duplicates is not among it.
    pub fn wanted(&self, now: &FileTree) -> FileTree {
        let mut wanted = now.clone();
        let target = self.target.as_ref().and_then(|target| now.get(target));
        for entry in wanted
            .values_mut()
            .filter(|entry| Some(&entry.first) == target.map(|target| &target.first))
        {
            entry.content = Content::File(patched(entry.bytes().unwrap_or_default(), &self.patches).into());
        }
        let copied = |path: &Path| Some(Path::new(COPY).join(path.strip_prefix(TREE).ok()?));
        for (path, entry) in now.iter().filter(|_| self.subject == TrialSubject::Cp) {
            if let (Some(path), Some(first)) = (copied(path), copied(&entry.first)) {
                wanted.insert(path, TreeEntry { first, ..entry.clone() });
            }
        }
        wanted
    }
}

/// The row of the table, the words, and what is written to the target.
type DrawnCommand = (String, String, Vec<Patch>);

/// Methods of updates. A journal takes no direct one.
const METHODS: &str = "sync,block=4K,order=rewrite sync,block=64K,fsync,gap=4K sync,order=as-given,write-through \
                       sync,block=1M,gap=64K,preallocate=truncate,fsync io_uring,block=4K,fsync mmap,block=64K,fsync \
                       io_uring,block=64K,gap=64K,preallocate=both sync,block=64K,direct,gap=4K \
                       sync,block=4K,direct,preallocate=allocate,fsync io_uring,block=64K,direct,fsync";

fn draw_update(rng: &mut Rng, bytes: usize) -> DrawnCommand {
    let safety = ["in-place", "journal", "replace"][rng.usize(..3)];
    let grows = bytes == 0 || rng.u8(..4) == 0;
    let end = bytes + if grows { rng.usize(1..100_000) } else { 0 };
    let mut patches = Vec::new();
    for _ in 0..[1, rng.usize(1..=200)][rng.usize(..2)] {
        let longest = if rng.u8(..8) == 0 { 20_000 } else { 40 };
        let length = rng.usize(1..=longest).min(end);
        // Many are close together, as records are.
        let offset = rng.usize(..=end - length) / [1, 8][rng.usize(..2)];
        let bytes = random(rng, length);
        patches.push(Patch { offset, bytes });
    }
    let mut words = format!("update FILE --from UPDATES --safety {safety}");
    let methods: Vec<_> = METHODS
        .split(' ')
        .filter(|method| safety != "journal" || !method.contains("direct"))
        .collect();
    let _ = match rng.u8(..6) {
        0 => Ok(()),
        1 => write!(words, " --durability {}", ["none", "fsync", "through"][rng.usize(..3)]),
        _ => write!(words, " --method update/{}", methods[rng.usize(..methods.len())]),
    };
    if patches.iter().any(|patch| patch.end() > bytes) {
        words += " --grow";
    }
    (format!("update {safety}"), words, patches)
}

fn draw_holes(rng: &mut Rng, bytes: usize) -> DrawnCommand {
    let kinds = [("dig", ""), ("dig", " --verify"), ("fill", ""), ("punch", " --yes")];
    let (kind, option) = kinds[rng.usize(..if bytes == 0 { 3 } else { 4 })];
    let (mut words, mut patches) = (format!("holes {kind}{option} FILE"), Vec::new());
    if kind == "punch" {
        let offset = rng.usize(..bytes);
        let length = rng.usize(1..=bytes - offset);
        let _ = write!(words, " {offset} {length}");
        let bytes = vec![0; length];
        patches.push(Patch { offset, bytes });
    }
    (format!("holes {kind}"), words, patches)
}

fn draw_dupes(rng: &mut Rng, file_system: TestFileSystem) -> DrawnCommand {
    let actions = ["remove", "hardlink", "symlink", "move", "trash", "reflink"];
    let action = actions[rng.usize(..if [Xfs, Btrfs].contains(&file_system) { 6 } else { 5 })];
    let rule = ["newest", "oldest", "shortest", "longest", "first"][rng.usize(..5)];
    let own = match action {
        "symlink" => ["", " --absolute"],
        "move" => [" --to to", " --to to --prune"],
        "remove" | "trash" => ["", " --prune"],
        _ => ["", ""],
    };
    let (own, more) = (own[rng.usize(..2)], ["", "", " --min-size 0"][rng.usize(..3)]);
    let roots = ["tree", "tree/r0 tree/r1", "tree/r1 tree/r0"][rng.usize(..3)];
    let words = format!("dupes --action {action} --keep {rule} --quiet --yes{own}{more} {roots}");
    (format!("dupes {action}"), words, Vec::new())
}

/// Copying to a new place, or over an older copy, which is added to the tree.
fn draw_cp(rng: &mut Rng, tree: &mut FileTree) -> DrawnCommand {
    let options = " --durable --fsync --verify --reflink=never --sparse=always";
    let option = options.split(' ').nth(rng.usize(..6)).unwrap_or_default();
    let is_over = rng.bool();
    for (path, mut older) in tree.clone() {
        let Some(inside) = path.strip_prefix(TREE).ok().filter(|_| is_over) else {
            continue;
        };
        older.first = Path::new(COPY).join(inside);
        if older.bytes().is_some() {
            let length = rng.usize(..9000);
            older.content = Content::File(random(rng, length).into());
            older.attributes.mode &= 0o700;
        }
        if older.content == Content::Directory || rng.u8(..3) > 0 {
            tree.insert(older.first.clone(), older);
        }
    }
    let label = ["cp new", "cp over"][usize::from(is_over)].to_owned();
    (label, format!("cp -T {option} {TREE} {COPY}"), Vec::new())
}

/// Draws groups of equal files, and links, in directories.
fn draw_tree(rng: &mut Rng) -> FileTree {
    let (mut tree, mut directories) = (FileTree::new(), vec!["tree/r0".to_owned(), "tree/r1".to_owned()]);
    for number in 0..rng.usize(1..7) {
        let above = &directories[rng.usize(..directories.len())];
        let name = ["d", "d d", "dé"][rng.usize(..3)];
        directories.push(format!("{above}/{number}{name}"));
    }
    for path in [TREE, YARD, MOVED, DATA].map(str::to_owned).iter().chain(&directories) {
        tree.insert(path.into(), draw_entry(rng, Content::Directory));
    }
    for _ in 0..rng.usize(1..8) {
        draw_group(rng, &directories, &mut tree);
    }
    for _ in 0..rng.usize(..3) {
        let target = tree.keys().nth(rng.usize(..tree.len()));
        let target = target.and_then(|path| path.file_name());
        let link = draw_entry(rng, Content::Symlink(target.unwrap_or_default().into()));
        tree.insert(draw_path(rng, &directories, tree.len()), link);
    }
    tree
}

/// Adds equal files, and perhaps others that differ from them in one byte. Some have several names.
fn draw_group(rng: &mut Rng, directories: &[String], tree: &mut FileTree) {
    let most = [3_000_000, 300_000, 300_000, 20_000][rng.usize(..4)] >> rng.u32(..14);
    let length = rng.usize(..=most);
    let mut bytes = random(rng, length);
    let has_zeros = rng.bool();
    for block in bytes.chunks_mut(4096) {
        if has_zeros && rng.bool() {
            block.fill(0);
        }
    }
    let mut differing = bytes.clone();
    if length > 200 && rng.bool() {
        differing[rng.usize(length * 3 / 4..length)] ^= 2;
    }
    let usual = draw_entry(rng, Content::Directory);
    let [one, other]: [Arc<[u8]>; 2] = [bytes.into(), differing.into()];
    for _ in 0..[1, rng.usize(2..6), rng.usize(2..14)][rng.usize(..3)] {
        let content = Content::File(if rng.u8(..4) == 0 { other.clone() } else { one.clone() });
        let mut file = draw_entry(rng, content);
        if rng.u8(..4) > 0 {
            (file.attributes, file.modified) = (usual.attributes.clone(), usual.modified);
        }
        file.first = draw_path(rng, directories, tree.len());
        let mut path = file.first.clone();
        while tree.insert(path, file.clone()).is_none() && rng.u8(..8) == 0 {
            path = draw_path(rng, directories, tree.len());
        }
    }
}

/// Draws a name, which the number makes one that nothing else has or begins with.
fn draw_path(rng: &mut Rng, directories: &[String], number: usize) -> PathBuf {
    let tails = [" \x1b[31m", "é\n", "'\"\\"];
    let tail = tails.get(rng.usize(..20)).copied().unwrap_or_default();
    let long = if rng.u8(..40) == 0 { 180 } else { 0 };
    let above = &directories[rng.usize(..directories.len())];
    format!("{above}/{}f{number}_{tail}", "x".repeat(long)).into()
}

fn draw_entry(rng: &mut Rng, content: Content) -> TreeEntry {
    let mut attributes = FileAttributes {
        owner: if rng.u8(..12) == 0 { 1000 } else { 0 },
        mode: [0o600, 0o644, 0o644, 0o444, 0o4755][rng.usize(..5)],
        ..FileAttributes::default()
    };
    for (name, value) in [("user.ours", &[rng.u8(..3)][..]), (ACL, &ACL_FOR_A_USER)] {
        if rng.u8(..5) == 0 {
            attributes.extended.insert(name.to_owned(), value.to_vec());
        }
    }
    // A day of 1955, of 2001, and any since 1970.
    let since = [0, 1_450_000_000, rng.u64(450_000_000..2_150_000_000)][rng.usize(..3)];
    let since = Duration::new(since, rng.u32(..1_000_000_000));
    TreeEntry {
        attributes,
        modified: UNIX_EPOCH - Duration::from_hours(125_000) + since,
        first: PathBuf::new(),
        content,
    }
}

/// An access control list by which user 1000 may read, in the form of `linux/posix_acl_xattr.h`: the version, and of each entry its
/// kind, rights and user.
#[rustfmt::skip]
const ACL_FOR_A_USER: [u8; 44] = [
    2, 0, 0, 0,
    1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 232, 3, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255,
    16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
];

/// Bytes none of which is zero, so that missing ones are seen.
fn random(rng: &mut Rng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rng.fill(&mut bytes);
    for byte in &mut bytes {
        *byte |= 1;
    }
    bytes
}
