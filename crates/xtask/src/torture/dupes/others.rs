//! Other processes at the files of a tree while seekless acts on them. Each writes contents that are found nowhere else, and
//! keeps account of what it did and what the system answered.
//!
//! Two kinds of removing and of saving exist. One takes what had the name to a directory of its own, by one call, so that it
//! is known which file that was; the other destroys it, as programs do, and it is not known what that was.
//!
//! Not here: what may be lost by that (`verdict`).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;
use rustix::fs::{CWD, OFlags, RenameFlags, XattrFlags, renameat_with, setxattr};

use super::plan::{Made, Other, Tree};
use crate::torture::trial::Site;

/// What is done with a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Appends a mark.
    Append,
    /// The same, and puts back the times.
    AppendInSecret,
    /// Writes a mark over bytes.
    Overwrite,
    /// A new file takes the name, and what had it is taken away, by one call.
    Save,
    /// A new file takes the name, as editors do; what had it is destroyed.
    SaveOver,
    /// A copy takes the name of the file, as `cp` and `mv` do: a name that was linked is parted from the others.
    Copy,
    /// Empties the file and writes to it, as shells do; the bytes that it had are destroyed.
    Rewrite,
    /// What has the name is taken away.
    TakeAway,
    Unlink,
    Mode,
    Times,
    Attribute,
    /// Makes another name, and removes it.
    Link,
    /// Renames a directory, and renames it back.
    RenameDirectory,
    /// Puts a symbolic link to a directory with files of the same names and bytes in the place of a directory, and puts the
    /// directory back.
    ReplaceDirectory,
}

/// Destroying is rarer: what it may destroy is not looked for.
pub const KINDS: [Kind; 24] = [
    Kind::Append,
    Kind::Append,
    Kind::AppendInSecret,
    Kind::AppendInSecret,
    Kind::Overwrite,
    Kind::Overwrite,
    Kind::Save,
    Kind::Save,
    Kind::Save,
    Kind::SaveOver,
    Kind::Copy,
    Kind::Copy,
    Kind::Rewrite,
    Kind::TakeAway,
    Kind::TakeAway,
    Kind::Unlink,
    Kind::Mode,
    Kind::Times,
    Kind::Attribute,
    Kind::Link,
    Kind::RenameDirectory,
    Kind::RenameDirectory,
    Kind::ReplaceDirectory,
    Kind::ReplaceDirectory,
];

/// What parts the names that seekless linked, and writes to one of them: what was written has one name then.
pub const PARTING: [Kind; 7] = [
    Kind::Copy,
    Kind::Copy,
    Kind::SaveOver,
    Kind::Unlink,
    Kind::Append,
    Kind::AppendInSecret,
    Kind::Overwrite,
];

/// One of them did this.
pub struct Act {
    pub kind: Kind,
    /// The number of the entry; that of the directory, if it is one.
    pub number: usize,
    /// What it wrote, as far as it was written: bytes that are found nowhere else.
    pub wrote: Vec<u8>,
    /// When it began and ended, as a count of what all of them did.
    pub begun: u64,
    pub ended: u64,
    pub answer: Result<(), String>,
}

impl Act {
    /// Whether it gives a directory another name, or another directory the name.
    pub fn moves_directory(&self) -> bool {
        matches!(self.kind, Kind::RenameDirectory | Kind::ReplaceDirectory)
    }
}

impl fmt::Debug for Act {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.wrote[..self.wrote.len().min(MARK_BYTES)].escape_ascii();
        let Self {
            kind,
            begun,
            ended,
            answer,
            ..
        } = self;
        write!(
            out,
            "{begun} to {ended}: {kind:?}, {} B {start}: {answer:?}",
            self.wrote.len()
        )
    }
}

/// The bytes that a mark has. No content has a zero byte.
pub const MARK_BYTES: usize = 16;

fn mark(id: u64) -> [u8; MARK_BYTES] {
    let mut mark = [0; MARK_BYTES];
    mark[..4].copy_from_slice(b"\0id ");
    mark[4..].copy_from_slice(format!("{id:012}").as_bytes());
    mark
}

/// Where what is taken away goes.
pub const YARD: &str = "yard";
/// Directories that stand in for others.
pub const DECOYS: &str = "decoys";
/// A directory that is renamed has this behind its name.
pub const RENAMED: &str = "~";

/// The files that they share, and their account.
pub struct World<'a> {
    site: &'a Site<'a>,
    tree: &'a Tree,
    /// The entries that are names of files, and the numbers of their contents.
    names: Vec<(usize, usize)>,
    count: AtomicU64,
    is_over: AtomicBool,
    /// Held for writing while a directory is replaced: nobody but seekless may come to the one that stands in for it.
    replacing: RwLock<()>,
    /// Held for writing while a file is rewritten or copied, which takes several calls: what others write or save meanwhile is
    /// destroyed by that.
    rewriting: RwLock<()>,
    /// Held while a directory has another name.
    renaming: Mutex<()>,
    /// The next place of each content that is not overwritten yet.
    places: Mutex<HashMap<usize, usize>>,
    acts: Mutex<Vec<Act>>,
}

impl<'a> World<'a> {
    pub fn new(site: &'a Site<'a>, tree: &'a Tree) -> Self {
        let names = (0..tree.entries.len()).filter_map(|number| Some((number, tree.content(number)?)));
        Self {
            site,
            tree,
            names: names.collect(),
            count: AtomicU64::new(1),
            is_over: AtomicBool::new(false),
            replacing: RwLock::default(),
            rewriting: RwLock::default(),
            renaming: Mutex::default(),
            places: Mutex::default(),
            acts: Mutex::default(),
        }
    }

    /// Tells all to stop, or those who come now that they may go on.
    pub fn end(&self, is_over: bool) {
        self.is_over.store(is_over, Ordering::SeqCst);
    }

    pub fn into_acts(self) -> Vec<Act> {
        self.acts.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acts until all is over.
    pub fn disturb(&self, other: &Other, call: Option<(&str, usize)>, started: Instant) {
        self.site
            .wait_for(call.filter(|_| other.at_delay), other.after, started);
        self.act_often(other);
    }

    /// Acts as often as it should, or until all is over.
    pub fn act_often(&self, other: &Other) {
        let rng = &mut Rng::with_seed(other.seed);
        let (_, content) = self.names[rng.usize(..self.names.len())];
        let is_wanted = |name: &(usize, usize)| !other.is_at_one || name.1 == content;
        let names: Vec<_> = self.names.iter().copied().filter(is_wanted).collect();
        for _ in 0..other.most_acts {
            if self.is_over.load(Ordering::SeqCst) {
                break;
            }
            let kind = other.kinds[rng.usize(..other.kinds.len())];
            let begun = self.next();
            let number = match kind {
                // Those that are searched keep their names.
                Kind::RenameDirectory | Kind::ReplaceDirectory => rng.usize(3..self.tree.directories.len()),
                _ => names[rng.usize(..names.len())].0,
            };
            let mut wrote = Vec::new();
            let answer = self.act(kind, number, &mut wrote, rng);
            let act = Act {
                kind,
                number,
                wrote,
                begun,
                ended: self.next(),
                answer: answer.map_err(|error| error.to_string()),
            };
            let mut acts = self.acts.lock().unwrap_or_else(PoisonError::into_inner);
            acts.push(act);
            drop(acts);
            rest(rng, other.pause);
        }
    }

    fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::SeqCst)
    }

    fn act(&self, kind: Kind, number: usize, wrote: &mut Vec<u8>, rng: &mut Rng) -> io::Result<()> {
        if matches!(kind, Kind::RenameDirectory | Kind::ReplaceDirectory) {
            return self.rename_directory(kind, number, rng);
        }
        let _reading = self.replacing.read().unwrap_or_else(PoisonError::into_inner);
        let (_alone, _beside) = match kind {
            Kind::Rewrite | Kind::Copy => (
                Some(self.rewriting.write().unwrap_or_else(PoisonError::into_inner)),
                None,
            ),
            _ => (
                None,
                Some(self.rewriting.read().unwrap_or_else(PoisonError::into_inner)),
            ),
        };
        let path = self.site.directory.join(&self.tree.entries[number].path);
        let id = self.next();
        let aside = self.site.directory.join(YARD).join(id.to_string());
        match kind {
            Kind::Append | Kind::AppendInSecret => {
                let mut file = open(OpenOptions::new().append(true), &path, rng)?;
                let times = file.metadata()?;
                let mark = mark(id);
                let written = file.write(&mark)?;
                *wrote = mark[..written].to_vec();
                if kind == Kind::AppendInSecret {
                    put_back(&file, &times)?;
                }
                rest(rng, HELD_OPEN);
                Ok(())
            }
            Kind::Overwrite => {
                let (place, wanted) = self.next_place(number).ok_or(io::ErrorKind::InvalidInput)?;
                let file = open(OpenOptions::new().read(true).write(true), &path, rng)?;
                let times = file.metadata()?;
                let mut now = [0; MARK_BYTES];
                file.read_exact_at(&mut now, place as u64)?;
                // In a file that took its place, marks may be there.
                if now != wanted {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                let mark = mark(id);
                let written = file.write_at(&mark, place as u64)?;
                *wrote = mark[..written].to_vec();
                if rng.bool() {
                    put_back(&file, &times)?;
                }
                rest(rng, HELD_OPEN);
                Ok(())
            }
            Kind::Rewrite => {
                let mut file = open(OpenOptions::new().write(true).truncate(true), &path, rng)?;
                let content = content(id, rng);
                // It is empty now, whatever comes of this.
                let written = file.write(&content).unwrap_or(0);
                *wrote = content[..written].to_vec();
                rest(rng, HELD_OPEN);
                Ok(())
            }
            Kind::Save | Kind::SaveOver => {
                let content = content(id, rng);
                let saved = fs::write(&aside, &content).and_then(|()| match kind {
                    Kind::Save => Ok(renameat_with(CWD, &aside, CWD, &path, RenameFlags::EXCHANGE)?),
                    _ => fs::rename(&aside, &path),
                });
                match saved {
                    Ok(()) => *wrote = content,
                    Err(_) => fs::remove_file(&aside)?,
                }
                saved
            }
            Kind::Copy => {
                let copied = fs::read(&path).and_then(|content| fs::write(&aside, content));
                let copied = copied.and_then(|()| fs::rename(&aside, &path));
                if copied.is_err() {
                    let _ = fs::remove_file(&aside);
                }
                copied
            }
            Kind::TakeAway => fs::rename(&path, &aside),
            Kind::Unlink => fs::remove_file(&path),
            Kind::Mode => {
                let mode = [0o600, 0o640, 0o644, 0o755][rng.usize(..4)];
                fs::set_permissions(&path, Permissions::from_mode(mode))
            }
            Kind::Times => {
                let file = File::open(&path)?;
                let modified = SystemTime::now() - Duration::from_secs(rng.u64(..100_000_000));
                file.set_times(FileTimes::new().set_modified(modified))
            }
            Kind::Attribute => Ok(setxattr(&path, "user.others", &[rng.u8(..)], XattrFlags::empty())?),
            Kind::Link => {
                fs::hard_link(&path, &aside)?;
                rest(rng, HELD_OPEN);
                fs::remove_file(&aside)
            }
            Kind::RenameDirectory | Kind::ReplaceDirectory => Ok(()),
        }
    }

    /// An offset in the first half of a content, and the bytes there. It is not overwritten twice: the second mark would destroy
    /// the first. Where contents differ in one byte, they do so in the last quarter.
    fn next_place(&self, number: usize) -> Option<(usize, &[u8])> {
        let number = self.tree.content(number)?;
        let content = &self.tree.contents[number].0;
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.entry(number).or_default();
        let found = *place;
        *place += MARK_BYTES;
        let half = &content[..content.len() / 2];
        Some((found, half.get(found..found + MARK_BYTES)?))
    }

    fn rename_directory(&self, kind: Kind, number: usize, rng: &mut Rng) -> io::Result<()> {
        let _renaming = self.renaming.lock().unwrap_or_else(PoisonError::into_inner);
        let _writing =
            (kind == Kind::ReplaceDirectory).then(|| self.replacing.write().unwrap_or_else(PoisonError::into_inner));
        let path = self.site.directory.join(&self.tree.directories[number]);
        let mut aside = path.clone().into_os_string();
        aside.push(RENAMED);
        fs::rename(&path, &aside)?;
        if kind == Kind::ReplaceDirectory {
            let replaced = symlink(self.decoy(number), &path).and_then(|()| {
                rest(rng, AWAY);
                fs::remove_file(&path)
            });
            return fs::rename(&aside, &path).and(replaced);
        }
        rest(rng, AWAY);
        fs::rename(&aside, &path)
    }

    /// Gives directories back the names that they could not get on a full disk.
    pub fn repair(&self) -> io::Result<()> {
        for name in &self.tree.directories {
            let path = self.site.directory.join(name);
            let mut aside = path.clone().into_os_string();
            aside.push(RENAMED);
            if fs::exists(&aside)? {
                if path.is_symlink() {
                    fs::remove_file(&path)?;
                }
                fs::rename(&aside, &path)?;
            }
        }
        Ok(())
    }

    /// The directory that stands in for another.
    fn decoy(&self, number: usize) -> PathBuf {
        self.site.directory.join(DECOYS).join(number.to_string())
    }

    /// Makes directories that stand in for those of the tree: with a file of the same bytes for each of theirs.
    pub fn make_decoys(&self) -> io::Result<()> {
        for number in 3..self.tree.directories.len() {
            fs::create_dir(self.decoy(number))?;
        }
        for &(number, content) in &self.names {
            let path = Path::new(&self.tree.entries[number].path);
            let above = self
                .tree
                .directories
                .iter()
                .position(|one| path.parent() == Some(Path::new(one)));
            if let Some(above) = above.filter(|above| *above >= 3) {
                let name = path.file_name().unwrap_or(OsStr::new(""));
                fs::write(self.decoy(above).join(name), &self.tree.contents[content].0)?;
            }
        }
        Ok(())
    }
}

impl Tree {
    /// The number of the content that an entry has, if it is a file.
    pub fn content(&self, number: usize) -> Option<usize> {
        match &self.entries[number].made {
            Made::File { content, .. } => Some(*content),
            Made::Name(first) => self.content(*first),
            Made::Symlink(_) => None,
        }
    }
}

/// How long files are kept open, and directories are away, at most.
const HELD_OPEN: Duration = Duration::from_millis(2);
const AWAY: Duration = Duration::from_millis(8);

fn rest(rng: &mut Rng, most: Duration) {
    if !most.is_zero() {
        thread::sleep(most.mul_f64(rng.f64()));
    }
}

/// Opens a file for writing. One that has no name any more was removed between finding and opening it: its writer would lose
/// what it writes whoever removed it.
fn open(options: &mut OpenOptions, path: &Path, rng: &mut Rng) -> io::Result<File> {
    if rng.u8(..4) == 0 {
        // A lease makes this one fail instead of waiting.
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path)?;
    if file.metadata()?.nlink() == 0 {
        return Err(io::Error::other("it was removed while it was opened"));
    }
    Ok(file)
}

fn put_back(file: &File, times: &fs::Metadata) -> io::Result<()> {
    let times = FileTimes::new()
        .set_modified(times.modified()?)
        .set_accessed(times.accessed()?);
    file.set_times(times)
}

/// A content that is found nowhere else.
fn content(id: u64, rng: &mut Rng) -> Vec<u8> {
    let mut content = mark(id).to_vec();
    content.resize(MARK_BYTES + rng.usize(..5000), b'.');
    content
}
