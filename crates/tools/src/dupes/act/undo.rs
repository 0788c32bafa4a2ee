//! Undoing what a journal says, and the list of journals.
//!
//! What the names lead to now decides what is left to do, so undo may be killed and run again.
//!
//! Not here: writing journals, and settling those of killed runs.

use std::ffi::OsStr;
use std::fs::{File, FileTimes};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::FileType;
use seekless::files::read_full;
use seekless::plan::usual;
use seekless::update::{StepKind, Watch};
use seekless::{Copier, Destination, Operation, Part};
use seekless_sys::{self as sys, Support, name_file};
use serde_json::json;

use super::change::{required, time, unmake};
use super::check::require_changeable;
use super::held::digest_of;
use super::journal::{self, Came, Entry, Journal as Open, Kind, Lines, Name, Written, before, device_of};
use super::place::{Directories, Place};
use super::settle::{exchange_back, settle};
use super::twin::Known;
use super::{BATCH, BATCH_BYTES, Error, Unwatched};
use crate::Stop;
use crate::visible::visible_path;
use crate::walk::Facts;

/// What a journal says of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// The file.
    pub path: PathBuf,
    /// When the run began.
    pub started: SystemTime,
    /// The word for the action: `remove`, `hardlink`, `symlink`, `reflink`, `move`.
    pub action: String,
    /// Names that were acted on.
    pub steps: u64,
    /// Those of them that were undone.
    pub undone: u64,
    /// The space that the run freed.
    pub gained_bytes: u64,
    /// Whether the run is at work.
    pub is_running: bool,
    /// Whether the run ended; else it was killed.
    pub is_complete: bool,
    /// Whether undoing it failed, and restored nothing, the last time.
    pub is_tried: bool,
}

/// The outcome of undoing a step for one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It is what it was.
    Restored,
    /// Its content is back, but as a file of its own: the old one had names that the search did not see.
    Apart {
        /// How many.
        names: u64,
    },
    /// There is nothing to undo, and why.
    Nothing {
        /// Why.
        why: String,
    },
    /// It could not be restored.
    Failed {
        /// Why, and where the content still is.
        why: String,
    },
}

/// Receives the outcome for each name.
pub type TellUndone<'a> = &'a dyn Fn(&Path, &Undone);

/// How much of a file that a power cut may have torn is compared at a time.
const TORN_BLOCK_BYTES: usize = 64 << 10;

/// Journals are kept for 90 days.
const KEPT: Duration = Duration::from_hours(90 * 24);
/// The newest are kept in any case: the clock may have been set forward.
const NEWEST_KEPT: usize = if cfg!(test) { 0 } else { 20 };

/// The journals, and why others cannot be trusted, each the newest first.
///
/// # Errors
/// If the directory cannot be read; one that does not exist has none.
pub fn list(state_directory: &Path) -> Result<(Vec<Journal>, Vec<Error>), Error> {
    let (mut found, mut untrusted) = (Vec::new(), Vec::new());
    for path in journal::all(&journal::directory(state_directory))? {
        // The journal of a run at work is locked, but can be read.
        let (lines, is_running) = match Open::open(&path) {
            Ok(Some(open)) => (open.read(), false),
            Ok(None) => (Open::read_only(&path).and_then(|open| open.read()), true),
            Err(error) => (Err(error), false),
        };
        let lines = match lines {
            Ok(lines) => lines,
            Err(error) => {
                if error.source.kind() == io::ErrorKind::PermissionDenied {
                    untrusted.push(error);
                }
                continue;
            }
        };
        let names = |steps: &dyn Fn(&Entry) -> bool| -> u64 {
            let chosen = lines.entries.iter().filter(|entry| steps(entry));
            chosen.map(|entry| entry.names.len() as u64).sum()
        };
        found.push(Journal {
            path,
            started: lines.started,
            action: lines.kind.name().to_owned(),
            steps: names(&|entry| matches!(lines.came.get(&entry.step), Some(Came::Acted { .. }))),
            undone: names(&|entry| lines.undone.get(&entry.step) == Some(&true)),
            gained_bytes: lines.gained_bytes(),
            is_running,
            is_complete: lines.is_complete,
            is_tried: lines.is_tried,
        });
    }
    found.reverse();
    untrusted.reverse();
    Ok((found, untrusted))
}

/// Where the journal with a name is, if there is one.
#[must_use]
pub fn path_of(state_directory: &Path, name: &Path) -> PathBuf {
    let mut file = name.as_os_str().to_owned();
    if name.extension().is_none_or(|extension| extension != "jsonl") {
        file.push(".jsonl");
    }
    journal::directory(state_directory).join(file)
}

/// Undoes what a journal says, the newest step first. What was undone is written in the journal: a later undo continues.
///
/// # Errors
/// If the journal cannot be read or written, or its run is still at work.
pub fn undo(journal: &Path, stop: &Stop, tell: TellUndone<'_>) -> Result<(), Error> {
    undo_watched(journal, stop, tell, &Unwatched)
}

/// The same; `watch` is called before each step.
pub(crate) fn undo_watched(path: &Path, stop: &Stop, tell: TellUndone<'_>, watch: &dyn Watch) -> Result<(), Error> {
    let mut journal = own(path)?;
    let mut lines = journal.read()?;
    let failed = |source| Error {
        path: path.to_owned(),
        action: "cannot undo",
        source,
    };
    lines.require_own().map_err(failed)?;
    if !lines.is_complete {
        settle(&mut journal, &lines, &|_, _| (), watch)?;
        lines = journal.read()?;
    }
    let mut undoing = Undoing {
        kind: lines.kind,
        journal,
        directories: Directories::default(),
        block: Vec::new(),
        watch,
        written: Written::default(),
        has_restored: false,
        has_failed: false,
    };
    let mut entries = lines.entries.iter().rev();
    let mut named = Vec::new();
    loop {
        // New files are durable before they have names, and names before the record of them: one sync serves both.
        let batch = undoing.make_all(&mut entries, &lines, stop);
        undoing.record(std::mem::take(&mut named))?;
        if batch.is_empty() {
            break;
        }
        named.extend(batch.into_iter().map(|restoring| undoing.finish(restoring, tell)));
        undoing.directories.close();
    }
    if undoing.has_failed && !undoing.has_restored {
        undoing.journal.add(&json!({"kind": "tried"}));
    }
    undoing.journal.sync(watch)
}

/// Opens a journal that is not at work.
fn own(path: &Path) -> Result<Open, Error> {
    Open::open(path)?.ok_or_else(|| Error {
        path: path.to_owned(),
        action: "cannot lock the journal",
        source: io::Error::new(io::ErrorKind::WouldBlock, "its run, or an undo of it, is still running"),
    })
}

/// Removes a journal: what it says can no longer be undone.
///
/// # Errors
/// The system's, or that its run is still at work.
pub fn forget(journal: &Path) -> Result<(), Error> {
    let open = own(journal)?;
    // A file without a header is not a journal.
    open.read()?;
    std::fs::remove_file(journal).map_err(|source| Error {
        path: journal.to_owned(),
        action: "cannot remove the journal",
        source,
    })
}

/// Removes journals that are older than 90 days, but for the newest; returns how many.
///
/// # Errors
/// If the directory cannot be read.
pub(super) fn expire(state_directory: &Path, now: SystemTime) -> Result<u64, Error> {
    let mut count = 0;
    let mut all = journal::all(&journal::directory(state_directory))?;
    all.truncate(all.len().saturating_sub(NEWEST_KEPT));
    for path in all {
        let Ok(Some(open)) = Open::open(&path) else { continue };
        let Ok(started) = open.started() else { continue };
        let age = now.duration_since(started).unwrap_or_default();
        if age > KEPT && std::fs::remove_file(&path).is_ok() {
            count += 1;
        }
    }
    Ok(count)
}

/// An undo at work.
struct Undoing<'a> {
    kind: Kind,
    journal: Open,
    directories: Directories,
    block: Vec<u8>,
    watch: &'a dyn Watch,
    written: Written,
    has_restored: bool,
    has_failed: bool,
}

/// What a name leads to.
enum Now {
    /// The file that it led to before, or the one that was made for it.
    Restored(Place),
    /// What the run made of it.
    Acted(Place),
    /// The file that was made for it, without its bytes: the power was cut before they were on the device.
    Torn(Place, File),
    /// Something else.
    Other(String),
}

/// A step that is being undone.
struct Restoring<'e> {
    entry: &'e Entry,
    /// Whether a journal says that it is undone.
    was_undone: bool,
    /// The outcome of each name, as far as it is known.
    told: Vec<Option<Undone>>,
    /// The names that the file gets, by number; and the file without its bytes that has the name now.
    wanted: Vec<(usize, Place, Option<File>)>,
    file: Option<File>,
    /// Whether the file already has a temporary name.
    is_named: bool,
}

impl Undoing<'_> {
    /// Begins undoing steps: makes the files that are to get names, and writes in the journal which they are.
    fn make_all<'e>(
        &mut self,
        entries: &mut dyn Iterator<Item = &'e Entry>,
        lines: &Lines,
        stop: &Stop,
    ) -> Vec<Restoring<'e>> {
        let open_max = (sys::open_files_max() / 4).max(1);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH && bytes < BATCH_BYTES && batch.len() + self.directories.len() < open_max {
            let Some(entry) = entries.next().filter(|_| !stop.is_stopped()) else {
                break;
            };
            bytes = entry.seen.bytes.saturating_add(bytes);
            batch.extend(self.make(entry, lines));
        }
        batch
    }

    fn make<'e>(&mut self, entry: &'e Entry, lines: &Lines) -> Option<Restoring<'e>> {
        let came = lines.came.get(&entry.step);
        if came == Some(&Came::Left) {
            return None;
        }
        let mut restoring = Restoring {
            entry,
            was_undone: lines.undone.get(&entry.step) == Some(&true),
            told: vec![None; entry.names.len()],
            wanted: Vec::new(),
            file: None,
            is_named: false,
        };
        if came.is_none() {
            let why = |temporary: &str| {
                format!(
                    "the run was killed in this step, and its directory cannot be opened now; if the file is there as \
                     {temporary}, the next run puts it back"
                )
            };
            let failed = |name: &Name| {
                Some(Undone::Failed {
                    why: why(&name.temporary),
                })
            };
            restoring.told = entry.names.iter().map(failed).collect();
            return Some(restoring);
        }
        match self.kind {
            Kind::Reflink | Kind::Move if restoring.was_undone && !self.is_moved(entry) => return None,
            Kind::Reflink => {
                let why = "it shares blocks with the kept file, but has its own bytes and metadata".to_owned();
                restoring.told.fill(Some(Undone::Nothing { why }));
            }
            Kind::Move => {}
            Kind::Remove | Kind::Hardlink | Kind::Symlink => self.restore(&mut restoring, lines),
        }
        Some(restoring)
    }

    /// Gives names to what was made for a step. Returns its number, and whether nothing is left to undo.
    fn finish(&mut self, mut restoring: Restoring<'_>, tell: TellUndone<'_>) -> (u64, bool) {
        let entry = restoring.entry;
        if self.kind == Kind::Move {
            let moved = entry.names.iter().map(|name| Some(self.move_back(entry, name)));
            restoring.told = moved.collect();
        }
        self.give_names(&mut restoring);
        let mut is_undone = true;
        for (name, undone) in entry.names.iter().zip(&restoring.told) {
            let Some(undone) = undone else { continue };
            match undone {
                Undone::Failed { .. } => is_undone = false,
                Undone::Restored | Undone::Apart { .. } => {
                    if let Ok(place) = self.directories.place(&name.path) {
                        self.written.note(&place, device_of(&place));
                    }
                    self.has_restored = true;
                }
                Undone::Nothing { .. } => {}
            }
            tell(&name.path, undone);
        }
        self.has_failed |= !is_undone;
        (entry.step, is_undone)
    }

    /// Syncs what was made and named, then writes in the journal which steps are undone.
    fn record(&mut self, named: Vec<(u64, bool)>) -> Result<(), Error> {
        self.journal.commit(&self.written, self.watch, |journal| {
            for (step, is_undone) in named {
                journal.add(&json!({"kind": "undone", "step": step, "is_undone": is_undone}));
            }
        })
    }

    /// Removes the directories that were made for a file that is back.
    fn unmake(&self, name: &Name) -> Undone {
        match unmake(name, &self.directories) {
            Ok(()) => Undone::Restored,
            Err(error) => Undone::Failed {
                why: format!(
                    "moved back, but a directory that was made for {} cannot be removed: {error}; run undo again to retry",
                    visible_path(name.moved_to.as_deref().unwrap_or(Path::new("/")))
                ),
            },
        }
    }

    /// Whether something is where the run moved it.
    fn is_moved(&self, entry: &Entry) -> bool {
        let moved_to = entry.names.iter().filter_map(|name| name.moved_to.as_deref());
        let mut places = moved_to.filter_map(|to| self.directories.place(to).ok());
        places.any(|there| entry.is_at(&there, &there.name))
    }

    fn move_back(&self, entry: &Entry, name: &Name) -> Undone {
        let failed = |why: String| Undone::Failed { why };
        let to = name.moved_to.as_deref().unwrap_or(Path::new("/"));
        let place = match self.directories.place(&name.path) {
            Ok(place) => place,
            Err(error) => return failed(format!("cannot open its directory: {error}")),
        };
        let is_target = |place: &Place| entry.is_at(place, &place.name);
        // A killed undo may have removed the directory.
        let there = self.directories.place(to);
        let there = match there {
            Ok(there) if is_target(&there) => there,
            _ if is_target(&place) => {
                return self.unmake(name);
            }
            Ok(_) => {
                let why = "is not what was moved there, or has changed since";
                return failed(format!("{} {why}", visible_path(to)));
            }
            Err(error) => return failed(format!("cannot open the directory of {}: {error}", visible_path(to))),
        };
        let back = before(self.watch, StepKind::Rename, to)
            .and_then(|()| required(there.directory.rename_new(&there.name, &place.directory, &place.name)));
        match back {
            Ok(()) => self.unmake(name),
            Err(error) => failed(format!("cannot move it back from {}: {error}", visible_path(to))),
        }
    }

    /// Makes a file whose names were removed or replaced by links, unless one of its names still leads to it.
    fn restore(&mut self, restoring: &mut Restoring<'_>, lines: &Lines) {
        let entry = restoring.entry;
        let made = lines.restored.get(&entry.step).map_or(&[][..], Vec::as_slice);
        for (at, name) in entry.names.iter().enumerate() {
            let failed = |why| Some(Undone::Failed { why });
            restoring.told[at] = match self.now(entry, name, made) {
                Ok(Now::Restored(place)) => {
                    restoring.file = restoring.file.take().or_else(|| place.open().ok());
                    Some(Undone::Restored).filter(|_| !restoring.was_undone)
                }
                Ok(Now::Acted(place)) => {
                    restoring.wanted.push((at, place, None));
                    None
                }
                Ok(Now::Torn(place, torn)) => {
                    restoring.wanted.push((at, place, Some(torn)));
                    None
                }
                // It was restored, and is another program's now.
                Ok(Now::Other(_)) | Err(_) if restoring.was_undone => None,
                Ok(Now::Other(why)) => failed(why),
                Err(error) => failed(format!("cannot open its directory: {error}")),
            };
        }
        let (None, Some((at, place, _))) = (&restoring.file, restoring.wanted.first()) else {
            return;
        };
        match self.copy(entry, place, &entry.names[*at]) {
            Ok(copy) => {
                self.written.note(place, device_of(place));
                restoring.is_named = copy.is_named;
                restoring.file = Some(copy.file);
            }
            Err(why) => {
                for (at, _, _) in restoring.wanted.drain(..) {
                    restoring.told[at] = Some(Undone::Failed { why: why.clone() });
                }
            }
        }
    }

    /// Gives a file its names: they become names of one file again.
    fn give_names(&self, restoring: &mut Restoring<'_>) {
        let (entry, Some(file)) = (restoring.entry, &restoring.file) else {
            return;
        };
        let names = entry.links.saturating_sub(entry.names.len() as u64);
        let restored = if names == 0 || entry.acted_on().is_open(file) {
            Undone::Restored
        } else {
            Undone::Apart { names }
        };
        for (at, place, torn) in restoring.wanted.drain(..) {
            let is_named = std::mem::take(&mut restoring.is_named);
            let given = self.give_name((entry, &entry.names[at]), &place, file, is_named, torn.as_ref());
            restoring.told[at] = Some(match given {
                Ok(()) => Undone::Restored,
                Err(why) => Undone::Failed { why },
            });
        }
        for told in &mut restoring.told {
            if *told == Some(Undone::Restored) {
                *told = Some(restored.clone());
            }
        }
    }

    /// What a name leads to. First cleans up what a killed undo left under the temporary name.
    fn now(&self, entry: &Entry, name: &Name, made: &[Known]) -> io::Result<Now> {
        let place = self.directories.place(&name.path)?;
        let temporary = OsStr::new(&name.temporary);
        let is_made = |called: &OsStr| made.iter().any(|made| made.is_at(&place, called));
        let is_restored = |found: &Facts| entry.seen.is_as_old(found) && entry.acted_on().is_at(&place, &place.name);
        let has_temporary = place.facts_of(temporary)?.is_some();
        // In an append-only directory, links can be made, but not removed again.
        let above = name.path.parent().unwrap_or(Path::new("/"));
        let is_changed = self.kind != Kind::Remove || has_temporary;
        if is_changed && let Err(why) = require_changeable(above) {
            return Ok(Now::Other(format!("its directory: {why}")));
        }
        if has_temporary {
            let aside = place.beside(temporary);
            let is_surplus =
                || self.kind != Kind::Remove && entry.is_surplus(name, &place, temporary, &self.directories);
            if is_made(temporary) || is_surplus() {
                before(self.watch, StepKind::Remove, &aside)?;
                place.directory.remove_file(temporary)?;
            } else if !entry.is_at(&place, temporary) {
                return Ok(Now::Other(format!("there is an unknown file {}", visible_path(&aside))));
            } else if place.facts()?.is_none() {
                before(self.watch, StepKind::Rename, &aside)?;
                required(place.directory.rename_new(temporary, &place.directory, &place.name))?;
            } else if self.kind != Kind::Remove && entry.is_link(name, &place, &place.name, &self.directories) {
                // A killed undo had given it another of its names.
                if let Err(why) = exchange_back(entry, name, &place, &self.directories, self.watch)? {
                    return Ok(Now::Other(why));
                }
            } else {
                let why = "another file has its name now; what was there before is";
                return Ok(Now::Other(format!("{why} {}", visible_path(&aside))));
            }
        }
        Ok(match (place.facts()?, self.kind) {
            (Some(found), _) if is_restored(&found) => Now::Restored(place),
            (Some(found), _) if is_made(&place.name) => {
                let file = place.open()?;
                match () {
                    () if entry.has_digest(&found, &file) => Now::Restored(place),
                    () if self.is_torn(entry, &file)? => Now::Torn(place, file),
                    () => Now::Other("it was restored, and has changed since".into()),
                }
            }
            (None, Kind::Remove) => Now::Acted(place),
            (None, _) => Now::Other("it is gone; the link that took its place was removed or renamed".into()),
            (Some(_), Kind::Hardlink | Kind::Symlink)
                if entry.is_link(name, &place, &place.name, &self.directories) =>
            {
                Now::Acted(place)
            }
            (Some(_), Kind::Hardlink) if entry.kept().is_at(&place, &place.name) => {
                Now::Other("the file that it was linked to has changed since".into())
            }
            (Some(_), _) => Now::Other("another file has its name now".into()),
        })
    }

    /// Opens the kept file.
    fn kept(&self, entry: &Entry) -> io::Result<File> {
        let kept = self.directories.place(&entry.keep)?;
        // Opening a device may have effects.
        let is_file = kept.facts()?.is_none_or(|found| found.kind == FileType::RegularFile);
        is_file
            .then(|| kept.open())
            .ok_or_else(|| io::Error::other("not a regular file"))?
    }

    /// Whether a file is the beginning of the kept one but for zeros: there is nothing in it to lose.
    fn is_torn(&self, entry: &Entry, file: &File) -> io::Result<bool> {
        let kept = self.kept(entry)?;
        let (mut own, mut theirs) = (vec![0; TORN_BLOCK_BYTES], vec![0; TORN_BLOCK_BYTES]);
        for at in (0..).step_by(TORN_BLOCK_BYTES) {
            let read = read_full(file, &mut own, at)?;
            let wanted = read_full(&kept, &mut theirs, at)?;
            let is_like = |(own, theirs): (&u8, &u8)| *own == 0 || own == theirs;
            if read > wanted || !own[..read].iter().zip(&theirs).all(is_like) {
                return Ok(false);
            }
            if read < TORN_BLOCK_BYTES {
                break;
            }
        }
        Ok(true)
    }

    /// Makes a copy of the kept file with the metadata of the one that was removed.
    fn copy(&mut self, entry: &Entry, place: &Place, name: &Name) -> Result<Copy, String> {
        let keep = visible_path(&entry.keep);
        let kept = self.kept(entry);
        let kept = kept.map_err(|error| format!("cannot open the kept file {keep}: {error}"))?;
        let changed = || format!("the kept file {keep} has changed since: its bytes differ from those of the file");
        let metadata = kept
            .metadata()
            .map_err(|error| format!("cannot stat {keep}: {error}"))?;
        if !metadata.is_file() || metadata.len() != entry.seen.bytes {
            return Err(changed());
        }
        let aside = place.beside(OsStr::new(&name.temporary));
        let failed = |action: &'static str| move |error: io::Error| format!("cannot {action}: {error}");
        before(self.watch, StepKind::Make, &aside).map_err(failed("make a new file"))?;
        let made = match sys::unnamed_file(&place.directory).map_err(failed("make a new file"))? {
            Support::Available((file, _)) => (file, None),
            Support::Unavailable(_) => {
                let file = place.directory.create_file(OsStr::new(&name.temporary), 0o600);
                (file.map_err(failed("make a new file"))?, Some((place, name)))
            }
        };
        let (file, named) = made;
        let filled = self
            .write_down(entry, &file)
            .and_then(|()| self.fill(entry, &kept, &file));
        match filled.and_then(|is_equal| if is_equal { Ok(()) } else { Err(changed()) }) {
            Ok(()) => Ok(Copy {
                file,
                is_named: named.is_some(),
            }),
            Err(why) => {
                if let Some((place, name)) = named {
                    let _ = place.directory.remove_file(OsStr::new(&name.temporary));
                }
                Err(why)
            }
        }
    }

    /// Writes in the journal which file is made to undo a step, before it has a name.
    fn write_down(&mut self, entry: &Entry, new: &File) -> Result<(), String> {
        let made = Known::of(new).map_err(|error| format!("cannot stat the new file: {error}"))?;
        self.journal.add(&json!({
            "kind": "restoring",
            "step": entry.step,
            "device": made.device,
            "inode": made.inode,
            "born_ns": made.born_ns,
        }));
        self.journal.write(self.watch).map_err(|error| error.to_string())
    }

    /// Fills a new file; returns whether its bytes are those of the removed file.
    fn fill(&mut self, entry: &Entry, kept: &File, new: &File) -> Result<bool, String> {
        let failed = |action: &'static str| move |error: io::Error| format!("cannot {action}: {error}");
        entry.give_flags(new)?;
        if !matches!(sys::clone_file(kept, new), Ok(Support::Available(()))) {
            let from = Part::of_file(kept);
            let copied = Copier::prepare(&usual(Operation::Copy))
                .and_then(|mut copier| copier.copy(from, Part::of_file(new), Destination::Overwrite));
            copied.map_err(|error| format!("cannot copy: {}", seekless::full_text(&error)))?;
        }
        let length = new.metadata().map_err(failed("stat the new file"))?.len();
        let digest = digest_of(new, length, &mut self.block, &|| true).map_err(failed("read the new file"))?;
        if (length, &digest) != (entry.seen.bytes, &entry.digest) {
            return Ok(false);
        }
        entry.give_attributes(new)?;
        Ok(true)
    }

    /// Gives a file a name that leads to nothing, to the link that the run made, or to a torn file. `is_temporary` says that the file
    /// already has the temporary name.
    fn give_name(
        &self,
        (entry, name): (&Entry, &Name),
        place: &Place,
        file: &File,
        is_temporary: bool,
        torn: Option<&File>,
    ) -> Result<(), String> {
        let temporary = OsStr::new(&name.temporary);
        let aside = place.beside(temporary);
        let failed = |action: &'static str| move |error: io::Error| format!("cannot {action}: {error}");
        let link = |called: &OsStr| {
            let path =
                sys::descriptor_path(file).ok_or_else(|| io::Error::other("this system does not link open files"))?;
            name_file(&path, &place.directory, called)
        };
        if self.kind == Kind::Remove && torn.is_none() {
            let told = before(self.watch, StepKind::Make, &place.path);
            let named = told.and_then(|()| {
                if is_temporary {
                    required(place.directory.rename_new(temporary, &place.directory, &place.name))
                } else {
                    link(&place.name)
                }
            });
            return named.map_err(failed("give it its name"));
        }
        if !is_temporary {
            let named = before(self.watch, StepKind::Make, &aside).and_then(|()| link(temporary));
            named.map_err(failed("give the new file a name"))?;
        }
        let exchange = || {
            before(self.watch, StepKind::Rename, &place.path)?;
            required(place.directory.exchange(temporary, &place.name))
        };
        let discard = |why: String| {
            // After exchanging twice it may be what another program saved in between.
            let is_ours = |found: &Facts| Facts::of(file).is_ok_and(|own| own.id() == found.id());
            match place.facts_of(temporary) {
                Ok(Some(found)) if is_ours(&found) => {}
                Ok(None) => return why,
                _ => return format!("{why}; what another program saved is {}", visible_path(&aside)),
            }
            let removed =
                before(self.watch, StepKind::Remove, &aside).and_then(|()| place.directory.remove_file(temporary));
            match removed {
                Ok(()) => why,
                Err(error) => format!("{why}; cannot remove {}: {error}", visible_path(&aside)),
            }
        };
        exchange().map_err(|error| discard(format!("cannot exchange names with the link: {error}")))?;
        let is_expected = match torn {
            Some(torn) => Known::of(torn).is_ok_and(|torn| torn.is_at(place, temporary)),
            None => entry.is_link(name, place, temporary, &self.directories),
        };
        if !is_expected {
            let why = "another program replaced the link at that moment".to_owned();
            return Err(match exchange() {
                Ok(()) => discard(why),
                Err(error) => format!("{why}; what it saved is {} ({error})", visible_path(&aside)),
            });
        }
        let removed =
            before(self.watch, StepKind::Remove, &aside).and_then(|()| place.directory.remove_file(temporary));
        removed.map_err(|error| format!("restored, but cannot remove the link {}: {error}", visible_path(&aside)))
    }
}

impl Entry {
    /// Gives an empty file the flags of the one that was removed, some of which only an empty file takes.
    pub(super) fn give_flags(&self, new: &File) -> Result<(), String> {
        if let Some(flags) = self.flags {
            let given = sys::set_inode_flags(new, flags);
            given.map_err(|error| format!("cannot restore its flags (lsattr): {error}"))?;
        }
        if let Some(flags) = self.extended_flags {
            let given = sys::set_extended_flags(new, flags);
            given.map_err(|error| format!("cannot restore its project or extent size (xfs_io): {error}"))?;
        }
        Ok(())
    }

    /// Gives a file the owner, mode, attributes and times of the one that was removed.
    pub(super) fn give_attributes(&self, new: &File) -> Result<(), String> {
        let given = self.attributes.give(new);
        given.map_err(|(attribute, error)| format!("cannot restore its {attribute}: {error}"))?;
        let (Some(modified), Some(accessed)) = (time(self.modified), time(self.accessed)) else {
            return Err("cannot restore its times: those in the journal are not valid".into());
        };
        let times = FileTimes::new().set_modified(modified).set_accessed(accessed);
        let given = new.set_times(times);
        given.map_err(|error| format!("cannot restore its times: {error}"))
    }
}

/// A new file with the bytes and metadata of one that was removed.
struct Copy {
    file: File,
    /// Whether it has the temporary name; else it has none.
    is_named: bool,
}
