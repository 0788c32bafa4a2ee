//! The files of a trial as other processes see them: what each of them does there, and the account of it.
//!
//! Not here: which of them there are, and what they draw from (`disturb`).

use std::collections::HashSet;
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;
use rustix::fs::{CWD, OFlags, RenameFlags, XattrFlags, renameat_with, setxattr};
use seekless::files::hexadecimal;

use super::disturb::{Act, Disturber, Injection, Interference, MARK_BYTES};
use super::plan::TrialPlan;
use super::site::Site;
use super::tree::{DECOYS, TREE, TreeEntry, YARD, files};

/// Bytes that are found nowhere else.
fn mark(id: u64) -> Vec<u8> {
    format!("\0id {id:012}").into_bytes()
}

/// Writes through a mapping to a file that is closed: path, offset, the bytes expected there and the bytes to write, in hex.
const WRITE_MAPPED: &str = "
import mmap, os, sys, time
path, offset, wanted, mark = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3]), bytes.fromhex(sys.argv[4])
file = open(path, 'r+b')
assert os.fstat(file.fileno()).st_nlink > 0
mapping = mmap.mmap(file.fileno(), 0)
file.close()
assert mapping[offset:offset + len(wanted)] == wanted
time.sleep(0.005)
mapping[offset:offset + len(mark)] = mark
mapping.flush()
";

/// A directory that is renamed has this behind its name.
pub const RENAMED: &str = "~";

/// The files that they share, and their account.
pub struct World<'a> {
    site: &'a Site<'a>,
    plan: &'a TrialPlan,
    /// Names of files, and their contents.
    names: Vec<(&'a Path, &'a [u8])>,
    /// Directories that are renamed. Those that are searched keep their names.
    directories: Vec<&'a Path>,
    /// Given to what each writes.
    count: AtomicU64,
    is_over: AtomicBool,
    /// Held for writing by what takes several calls: while a file is copied, what others write or save is lost by that; and nobody but
    /// seekless may come to the directory that stands in for another.
    alone: RwLock<()>,
    /// Lengths of contents, and places in them that were overwritten.
    overwritten: Mutex<HashSet<(usize, usize)>>,
    acts: Mutex<Vec<Act>>,
}

impl<'a> World<'a> {
    pub fn new(site: &'a Site<'a>, plan: &'a TrialPlan) -> Self {
        let below = plan.tree.iter().filter(|(path, entry)| {
            let is_moved = path.starts_with(TREE) && path.iter().count() > 2;
            **entry == TreeEntry::Directory && is_moved
        });
        Self {
            site,
            plan,
            names: files(&plan.tree, TREE)
                .map(|(path, file)| (path, &file.bytes[..]))
                .collect(),
            directories: below.map(|(path, _)| path.as_path()).collect(),
            count: AtomicU64::new(1),
            is_over: AtomicBool::new(false),
            alone: RwLock::default(),
            overwritten: Mutex::default(),
            acts: Mutex::default(),
        }
    }

    /// Tells all to stop, or those who come now that they may go on.
    pub fn end(&self, is_over: bool) {
        self.is_over.store(is_over, Ordering::SeqCst);
    }

    pub fn acts(&self) -> MutexGuard<'_, Vec<Act>> {
        held(self.acts.lock())
    }

    /// Acts until all is over, after a while or at a call that is delayed.
    pub fn disturb(&self, disturber: &Disturber, delay: Option<&Injection>, started: Instant) {
        let opened = self.names.first().filter(|_| disturber.opens_first);
        let opened = opened.and_then(|(path, _)| OpenOptions::new().append(true).open(self.whole(path)).ok());
        self.site
            .wait_for(delay.filter(|_| disturber.at_delay), disturber.after, started);
        self.act_often(disturber, opened);
    }

    pub fn act_often(&self, disturber: &Disturber, mut opened: Option<File>) {
        let rng = &mut Rng::with_seed(disturber.seed);
        let mut names = self.names.clone();
        if let Some((_, one)) = rng.choice(&self.names).filter(|_| disturber.is_at_one) {
            names.retain(|(_, content)| content == one);
        }
        for _ in 0..disturber.most_acts {
            if self.is_over.load(Ordering::SeqCst) || names.is_empty() {
                break;
            }
            let kind = disturber.kinds[rng.usize(..disturber.kinds.len())];
            let (file, content) = names[rng.usize(..names.len())];
            let path = match rng.choice(&self.directories) {
                Some(directory) if kind.moves_directory() => *directory,
                _ => file,
            };
            let mut act = Act {
                kind,
                path: path.to_owned(),
                wrote: Vec::new(),
                offset: 0,
                set: 0,
                answer: Ok(()),
            };
            act.answer = self
                .act(&mut act, content, &mut opened, rng)
                .map_err(|error| error.to_string());
            self.acts().push(act);
            rest(rng, disturber.pause);
        }
    }

    fn whole(&self, path: &Path) -> PathBuf {
        self.site.directory.join(path)
    }

    fn act(&self, act: &mut Act, content: &[u8], opened: &mut Option<File>, rng: &mut Rng) -> io::Result<()> {
        let is_alone = act.kind == Interference::Copy || act.kind.moves_directory();
        let _alone = is_alone.then(|| held(self.alone.write()));
        let _beside = (!is_alone).then(|| held(self.alone.read()));
        let path = self.whole(&act.path);
        let id = self.count.fetch_add(1, Ordering::SeqCst);
        let aside = self.whole(&Path::new(YARD).join(id.to_string()));
        match act.kind {
            Interference::Append | Interference::AppendInSecret => {
                // The file that was opened first may have lost the name.
                let inode = fs::metadata(&path)?.ino();
                let is_it = |file: &&mut File| file.metadata().is_ok_and(|metadata| metadata.ino() == inode);
                let mut fresh = None;
                let file = match opened.as_mut().filter(is_it) {
                    Some(file) => file,
                    None => fresh.insert(open(OpenOptions::new().append(true), &path, rng)?),
                };
                let times = file.metadata()?;
                let mark = mark(id);
                let written = file.write(&mark)?;
                act.wrote = mark[..written].to_vec();
                act.offset = file.stream_position()? as usize - written;
                if act.kind == Interference::AppendInSecret {
                    put_back(file, &times)?;
                }
                rest(rng, HELD_OPEN);
                Ok(())
            }
            Interference::Overwrite | Interference::OverwriteMapped | Interference::Update => {
                self.overwrite(act, content, &mark(id), rng)
            }
            Interference::Save => {
                let mut content = mark(id);
                content.resize(MARK_BYTES + rng.usize(..5000), b'.');
                act.set = [0o600, 0o640][rng.usize(..2)];
                let mode = Permissions::from_mode(act.set);
                let saved = fs::write(&aside, &content)
                    .and_then(|()| fs::set_permissions(&aside, mode))
                    .and_then(|()| Ok(renameat_with(CWD, &aside, CWD, &path, RenameFlags::EXCHANGE)?));
                match saved {
                    Ok(()) => act.wrote = content,
                    Err(_) => fs::remove_file(&aside)?,
                }
                saved
            }
            Interference::Copy => {
                let copied = fs::read(&path).and_then(|content| fs::write(&aside, content));
                let copied = copied.and_then(|()| fs::rename(&aside, &path));
                if copied.is_err() {
                    let _ = fs::remove_file(&aside);
                }
                copied
            }
            Interference::TakeAway => fs::rename(&path, &aside),
            Interference::Mode => {
                act.set = [0o600, 0o640, 0o644, 0o755][rng.usize(..4)];
                fs::set_permissions(&path, Permissions::from_mode(act.set))
            }
            Interference::Owner => {
                act.set = rng.u32(..2);
                chown(&path, Some(act.set), None)
            }
            Interference::Times => {
                let file = File::open(&path)?;
                let modified = SystemTime::now() - Duration::from_secs(rng.u64(..100_000_000));
                file.set_times(FileTimes::new().set_modified(modified))
            }
            Interference::Attribute => {
                act.set = rng.u32(..256);
                Ok(setxattr(&path, "user.others", &[act.set as u8], XattrFlags::empty())?)
            }
            Interference::Link => {
                fs::hard_link(&path, &aside)?;
                rest(rng, HELD_OPEN);
                fs::remove_file(&aside)
            }
            Interference::RenameDirectory | Interference::ReplaceDirectory => self.move_directory(act, rng),
        }
    }

    /// Writes a mark over bytes of the file that were there before the trial. In a file that took its place, marks may be there.
    fn overwrite(&self, act: &mut Act, content: &[u8], mark: &[u8], rng: &mut Rng) -> io::Result<()> {
        let path = &self.whole(&act.path);
        let offset = self.next_place(content, rng).ok_or(io::ErrorKind::InvalidInput)?;
        let wanted = &content[offset..offset + MARK_BYTES];
        act.offset = offset;
        let has_wanted = |file: &File| {
            let mut now = [0; MARK_BYTES];
            file.read_exact_at(&mut now, offset as u64)?;
            let is_it = now == wanted;
            is_it.then_some(()).ok_or(io::Error::from(io::ErrorKind::InvalidInput))
        };
        if act.kind == Interference::Overwrite {
            let file = open(OpenOptions::new().read(true).write(true), path, rng)?;
            let times = file.metadata()?;
            has_wanted(&file)?;
            let written = file.write_at(mark, offset as u64)?;
            act.wrote = mark[..written].to_vec();
            if rng.bool() {
                put_back(&file, &times)?;
            }
            rest(rng, HELD_OPEN);
            return Ok(());
        }
        let mut command = if act.kind == Interference::Update {
            has_wanted(&File::open(path)?)?;
            let updates = self.site.aside.join("second");
            fs::write(&updates, update_line(offset, mark))?;
            let safety = ["in-place", "journal", "replace"][rng.usize(..3)];
            let mut update = self.site.seekless(&[]);
            update
                .args(["update", "--safety", safety, "--from"])
                .arg(updates)
                .arg(path);
            update
        } else {
            let mut python = Command::new("python3");
            python.args(["-c", WRITE_MAPPED]).arg(path);
            python.args([offset.to_string(), hexadecimal(wanted), hexadecimal(mark)]);
            python
        };
        act.wrote = mark.to_vec();
        let status = command.stdin(Stdio::null()).stderr(Stdio::null()).status()?;
        status.success().then_some(()).ok_or(io::ErrorKind::Other.into())
    }

    /// An offset in the first half of a content. It is not overwritten twice: the second mark would destroy the first. Where contents
    /// differ in one byte, they do so in the last quarter.
    fn next_place(&self, content: &[u8], rng: &mut Rng) -> Option<usize> {
        let places = content.len() / 2 / MARK_BYTES;
        let place = (places > 0).then(|| rng.usize(..places) * MARK_BYTES)?;
        // If an update names the same bytes, either value is right.
        let is_anywhere = rng.u8(..8) == 0;
        let mut patches = self.plan.patches.iter();
        let is_named = patches.any(|patch| patch.offset < place + MARK_BYTES && place < patch.end());
        let is_new = held(self.overwritten.lock()).insert((content.len(), place));
        (is_new && (is_anywhere || !is_named)).then_some(place)
    }

    fn move_directory(&self, act: &Act, rng: &mut Rng) -> io::Result<()> {
        let (path, aside) = (self.whole(&act.path), self.renamed(&act.path));
        fs::rename(&path, &aside)?;
        let mut replaced = Ok(());
        if act.kind == Interference::ReplaceDirectory {
            replaced = symlink(self.whole(&Path::new(DECOYS).join(&act.path)), &path);
        }
        rest(rng, AWAY);
        if act.kind == Interference::ReplaceDirectory && replaced.is_ok() {
            replaced = fs::remove_file(&path);
        }
        fs::rename(&aside, &path).and(replaced)
    }

    /// The path of a directory while it is renamed.
    fn renamed(&self, directory: &Path) -> PathBuf {
        let mut path = self.whole(directory).into_os_string();
        path.push(RENAMED);
        path.into()
    }

    /// Gives directories back the names that they could not get on a full disk.
    pub fn repair(&self) -> io::Result<()> {
        for directory in &self.directories {
            let (path, aside) = (self.whole(directory), self.renamed(directory));
            if fs::exists(&aside)? {
                if path.is_symlink() {
                    fs::remove_file(&path)?;
                }
                fs::rename(&aside, &path)?;
            }
        }
        Ok(())
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

/// What a lock guards: a disturber that panicked ends the trial elsewhere.
fn held<G>(locked: Result<G, PoisonError<G>>) -> G {
    locked.unwrap_or_else(PoisonError::into_inner)
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

/// A line of the text form of updates.
pub fn update_line(offset: usize, bytes: &[u8]) -> String {
    format!("{{\"offset\": {offset}, \"hex\": \"{}\"}}\n", hexadecimal(bytes))
}
