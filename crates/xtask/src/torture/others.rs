//! Another process at the files of a trial. It writes bytes that are found nowhere else, and keeps account of what it did.
//!
//! It destroys nothing that was there: what loses its name is moved to a directory of its own, by the same call, or was copied. So
//! each byte that it wrote, and each content that was there before, must be found afterwards (`oracle`).

use std::fs::{self, FileTimes, OpenOptions, Permissions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};

use super::draw::TrialPlan;
use super::harm::moment;
use super::tree::{Content, Patch, TREE, YARD, files};

/// The bytes that a mark has.
const MARK_BYTES: usize = 16;
/// How long files are kept open, and directories are away, at most.
const HELD: Duration = Duration::from_millis(4);

/// What is done with a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interference {
    /// Appends a mark; perhaps puts back the times.
    Append,
    /// Writes a mark over bytes; perhaps puts back the times.
    Overwrite,
    /// A new file takes the name, as editors save; what had the name is moved away, by one call.
    Save,
    /// A copy takes the name, as `cp` and `mv` do: a name that was linked is parted from the others.
    Copy,
    Mode,
    /// Renames a directory, and renames it back.
    RenameDirectory,
}

/// It did this.
#[derive(Debug)]
pub struct Act {
    pub kind: Interference,
    /// The file, or the directory if it is one, in the directory of the trial.
    pub path: PathBuf,
    /// What it wrote, as far as it was written: bytes that are found nowhere else. If the act failed, they may be in the file.
    pub wrote: Vec<u8>,
    /// Where, if it is a mark.
    pub offset: usize,
    /// The mode that it set.
    pub mode: u32,
    pub answer: io::Result<()>,
}

impl Act {
    /// It gave a name of the tree to another file.
    pub fn gives_name(&self) -> bool {
        self.answer.is_ok() && [Interference::Save, Interference::Copy].contains(&self.kind)
    }

    /// Whether this byte may be of its mark.
    pub fn may_be(&self, at: usize, byte: u8) -> bool {
        self.kind != Interference::Save && at >= self.offset && self.wrote.get(at - self.offset) == Some(&byte)
    }

    fn act(&mut self, plan: &TrialPlan, directory: &Path, number: usize, rng: &mut Rng) -> io::Result<()> {
        let path = &directory.join(&self.path);
        let aside = &directory.join(YARD).join(number.to_string());
        let mark = format!("\0id {number:012}").into_bytes();
        let new_file = |bytes: &[u8], mode| {
            fs::write(aside, bytes)?;
            fs::set_permissions(aside, Permissions::from_mode(mode))
        };
        let done = match self.kind {
            Interference::Append | Interference::Overwrite => return self.write_mark(plan, path, &mark, rng),
            Interference::Save => {
                self.wrote = [mark, vec![b'.'; rng.usize(..5000)]].concat();
                let saved = new_file(&self.wrote, self.mode);
                saved.and_then(|()| Ok(renameat_with(CWD, aside, CWD, path, RenameFlags::EXCHANGE)?))
            }
            Interference::Copy => new_file(&fs::read(path)?, self.mode).and_then(|()| fs::rename(aside, path)),
            Interference::Mode => return fs::set_permissions(path, Permissions::from_mode(self.mode)),
            Interference::RenameDirectory => {
                let renamed = path.with_added_extension("away");
                fs::rename(path, &renamed)?;
                sleep(HELD.mul_f64(2.0 * rng.f64()));
                return fs::rename(renamed, path);
            }
        };
        done.or_else(|error| fs::remove_file(aside).and(Err(error)))
    }

    fn write_mark(&mut self, plan: &TrialPlan, path: &Path, mark: &[u8], rng: &mut Rng) -> io::Result<()> {
        let before = plan.tree[&self.path].bytes().unwrap_or_default();
        let appends = self.kind == Interference::Append;
        // A mark is written over bytes of before: in the first half of a file, because contents differ in the last quarter, and not
        // where the command writes.
        let range = self.offset..self.offset + MARK_BYTES;
        let is_apart = |patch: &Patch| patch.end() <= range.start || range.end <= patch.offset;
        let is_in_half = range.end <= before.len() / 2 && plan.patches.iter().all(is_apart);
        let is_free = is_in_half && fs::read(path)?.get(range.clone()) == before.get(range);
        // A lease makes a part of these fail instead of waiting.
        let flags = [OFlags::NONBLOCK, OFlags::empty(), OFlags::empty()][rng.usize(..3)];
        let mut options = OpenOptions::new();
        options.write(!appends).append(appends);
        options.custom_flags(flags.bits().cast_signed());
        let mut file = options.open(path)?;
        let times = file.metadata()?;
        // One that has no name any more was removed between finding and opening it: its writer would lose what it writes whoever
        // removed it.
        if times.nlink() == 0 || !appends && !is_free {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !appends {
            file.seek(SeekFrom::Start(self.offset as u64))?;
        }
        let written = file.write(mark)?;
        self.offset = file.stream_position()? as usize - written;
        self.wrote = mark[..written].to_vec();
        if rng.bool() {
            let modified = FileTimes::new().set_modified(times.modified()?);
            file.set_times(modified.set_accessed(times.accessed()?))?;
        }
        sleep(HELD.mul_f64(rng.f64()));
        Ok(())
    }
}

/// Acts at random in the directory of a trial until all is over.
pub fn act_often(plan: &TrialPlan, directory: &Path, seed: u64, is_over: &AtomicBool) -> Vec<Act> {
    use Interference::{Append, Copy, Mode, Overwrite, RenameDirectory, Save};
    let (rng, mut acts) = (&mut Rng::with_seed(seed), Vec::<Act>::new());
    // It comes to the target, or to all files; where duplicates are acted on, also to directories below those that are searched.
    let tree = &plan.tree;
    let all = files(tree, TREE).filter(|(path, _)| plan.target.as_ref().is_none_or(|target| target == path));
    let mut names: Vec<_> = all.collect();
    let mut directories: Vec<_> = tree.keys().filter(|path| path.starts_with(TREE)).collect();
    directories.retain(|path| tree[*path].content == Content::Directory && path.iter().count() > 2);
    let mut kinds = vec![Append, Append, Overwrite, Overwrite, Save, Save, Mode];
    if plan.action().is_some() {
        kinds.extend([Copy, Copy, RenameDirectory, RenameDirectory]);
    }
    if rng.bool() {
        kinds = vec![kinds[rng.usize(..kinds.len())]];
    }
    if rng.bool() {
        // It comes to the names of one content.
        let (_, one) = names[rng.usize(..names.len())];
        names.retain(|(_, bytes)| *bytes == one);
    }
    let pause = Duration::from_micros([0, 200, 1000, 5000][rng.usize(..4)]);
    let most = [rng.usize(1..8), rng.usize(8..80), 2000][rng.usize(..3)];
    sleep([Duration::ZERO, moment(rng)][rng.usize(..2)]);
    while acts.len() < most && !is_over.load(Ordering::SeqCst) {
        let (path, _) = names[rng.usize(..names.len())];
        let kind = kinds[rng.usize(..kinds.len())];
        let renamed = rng.choice(&directories).filter(|_| kind == RenameDirectory);
        let mut act = Act {
            kind,
            path: renamed.map_or(path, |renamed| renamed).to_owned(),
            wrote: Vec::new(),
            offset: MARK_BYTES * acts.iter().filter(|act| act.kind == Overwrite).count(),
            mode: [0o600, 0o640, 0o644, 0o755][rng.usize(..4)],
            answer: Ok(()),
        };
        act.answer = act.act(plan, directory, acts.len(), rng);
        acts.push(act);
        sleep(pause.mul_f64(rng.f64()));
    }
    acts
}
