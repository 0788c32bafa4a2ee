//! Undoing what a journal says, telling what that would do, and recovering the journals of runs that were killed: each step that was
//! begun and not done is put back, and what an undo was restoring is restored.
//!
//! What the names lead to now decides what is left to do, so all of this may be killed and run again.
//!
//! Not here: writing journals, and listing them (`journal`); what a name leads to (`name_state`).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::io::ErrorKind::{CrossesDevices, Interrupted};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seekless_engine::files::make_new;
use seekless_engine::update::{StepKind, Watch};
use seekless_engine::{Destination, FileRange, IoOptions};
use seekless_sys::{self as sys, Access, Support};

use super::change::unmake;
use super::dir_handle::{DirEntryHandle, Directories};
use super::journal::{self, RunJournal, Written, own};
use super::name_state::{Inverse, NameState, Names};
use super::prove::{require_changeable_directory, require_undoable};
use super::record::{
    JournalLine, KnownFile, NameChange, NewPlace, OldFile, RunRecord, StepName, StepRecord, digest_of,
};
use super::refusal::unless_stopped;
use super::{
    ActedOn, Action, BATCH, BATCH_BYTES, Error, Ran, RecoveredAct, RefusalReason, StepOutcome, Unwatched, cannot,
    of_kept,
};
use crate::Stop;
use crate::visible::visible_path;
use crate::walk::StatFacts;
use crate::watch::{ClosureWatch, JobCounters, JobProgress, JobWatch, report};

/// The outcome of undoing a step for one name, the better first: they compare by that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UndoOutcome {
    /// It is what it was.
    Restored,
    /// Its content is back, but as a file of its own: the old one had names that the search did not see.
    Apart {
        /// How many.
        names: u64,
    },
    /// There is nothing to undo: files that share blocks have their own bytes and metadata.
    Nothing,
    /// It could not be restored.
    Failed {
        /// Why, and where the content still is.
        why: RefusalReason,
    },
}

/// An event of an undo: a step was undone, or would be.
#[derive(Clone, Copy, Debug)]
pub struct UndoneStep<'a> {
    /// What was acted on.
    pub file: &'a ActedOn,
    /// The outcome of each name; `None` if it was undone before.
    pub outcomes: &'a [Option<UndoOutcome>],
}

impl UndoneStep<'_> {
    /// The names with an outcome.
    pub fn names(&self) -> impl Iterator<Item = (&Path, &UndoOutcome)> {
        let names = self.file.paths.iter().zip(self.outcomes);
        names.filter_map(|(path, undone)| Some((path.as_path(), undone.as_ref()?)))
    }
}

/// Receives the outcome of each step.
pub(super) type UndoWatch<'a> = &'a dyn for<'e> JobWatch<UndoneStep<'e>>;

/// Receives how a file or a journal was recovered.
pub(super) type TellRecovered<'a> = &'a (dyn Fn(&Path, &RecoveredAct) + Sync);

fn failed(why: RefusalReason) -> UndoOutcome {
    UndoOutcome::Failed { why }
}

/// Undoes what a journal says, the newest step first. What was undone is written in the journal: a later undo continues.
///
/// # Errors
/// If the journal cannot be read or written, or its run is still at work.
pub fn undo(journal: &Path, watch: UndoWatch<'_>) -> Result<(), Error> {
    undo_watched(journal, watch, &Unwatched)
}

/// The same; `seam` is called before each step.
pub(crate) fn undo_watched(path: &Path, watch: UndoWatch<'_>, seam: &dyn Watch) -> Result<(), Error> {
    let (journal, mut lines) = opened(path)?;
    if !lines.is_complete {
        recover(&journal, &lines, watch.stop(), &|_, _| (), seam)?;
        lines = journal.read()?;
    }
    undo_steps(&journal, &lines, &|_| true, watch, seam)
}

/// Tells what undoing would do with each step, in its order. Nothing is changed. Sizes and times decide whether a kept file is what it
/// was; undoing compares bytes.
///
/// # Errors
/// If the journal cannot be read, or its run is still at work.
pub fn undo_preview(journal: &Path, watch: UndoWatch<'_>) -> Result<(), Error> {
    let (_locked, lines) = opened(journal)?;
    let stop = watch.stop();
    let directories = Directories::default();
    let names = Names::of(&lines, &directories, stop, &Unwatched);
    let mut remade = HashSet::new();
    let counters = JobCounters::of_entries(lines.undoable().count());
    for entry in lines.undoable() {
        let outcome = |name| preview(&names, entry, name, &mut remade);
        let outcomes: Vec<_> = entry.names.iter().map(outcome).collect();
        if stop.is_stopped() {
            break;
        }
        watch.progress(&counters.add(1, 0));
        let (file, outcomes) = (&entry.step.file, &outcomes[..]);
        report(watch, UndoneStep { file, outcomes });
        directories.close_many();
    }
    Ok(())
}

/// Opens a journal that this machine may undo.
fn opened(path: &Path) -> Result<(RunJournal, RunRecord), Error> {
    let journal = own(path)?;
    let lines = journal.read()?;
    lines.require_own().map_err(journal::failed(path, "cannot undo"))?;
    Ok((journal, lines))
}

/// Recovers all journals of killed runs in a directory, as far as that can be done now.
pub(super) fn recover_all(
    directory: &Path,
    stop: &Stop,
    tell: TellRecovered<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    for path in journal::all(directory)? {
        if stop.is_stopped() {
            break;
        }
        // A journal that cannot be read must not keep others from being recovered, or this run from starting.
        let Ok(Some(journal)) = RunJournal::open(&path) else {
            continue;
        };
        if journal.has_end() {
            continue;
        }
        match journal.read() {
            // Its paths lead elsewhere on another machine, which may share the directory of journals.
            Ok(lines) if lines.require_own().is_err() => {}
            Ok(lines) if !lines.is_complete => recover(&journal, &lines, stop, tell, watch)?,
            Ok(lines) if lines.is_restoring => {
                let told = |step: UndoneStep<'_>| {
                    for (path, undone) in step.names() {
                        match undone {
                            UndoOutcome::Failed { why } => tell(path, &RecoveredAct::Failed { why: why.clone() }),
                            _ => tell(path, &RecoveredAct::PutBack),
                        }
                    }
                    ControlFlow::Continue(())
                };
                let told = ClosureWatch::new(stop, |_: &JobProgress| (), told);
                let is_begun = |entry: &StepRecord| !entry.restored.is_empty() && !entry.is_undone;
                undo_steps(&journal, &lines, &is_begun, &told, watch)?;
            }
            Err(error) if error.source.kind() == io::ErrorKind::Unsupported => {
                let why = RefusalReason::Told(error.source.to_string().into());
                tell(&path, &RecoveredAct::Failed { why });
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

fn undo_steps(
    journal: &RunJournal,
    lines: &RunRecord,
    is_meant: &dyn Fn(&StepRecord) -> bool,
    watch: UndoWatch<'_>,
    seam: &dyn Watch,
) -> Result<(), Error> {
    let directories = Directories::default();
    let meant = || lines.undoable().filter(|entry| is_meant(entry));
    let mut undoing = Undoing {
        names: Names::of(lines, &directories, watch.stop(), seam),
        journal,
        watch,
        counters: JobCounters::of_entries(meant().count()),
        block: Vec::new(),
        written: Written::default(),
        made_directories: Vec::new(),
        has_restored: false,
        has_failed: false,
    };
    let (mut entries, mut named) = (meant(), Vec::new());
    loop {
        // New files are durable before they have names, and names before the record of them: one sync serves both.
        let batch = undoing.make_all(&mut entries);
        journal.commit(&undoing.written, seam, |journal| {
            for (step, is_undone) in named.drain(..) {
                journal.add(&JournalLine::Undone { step, is_undone });
            }
        })?;
        if batch.is_empty() {
            break;
        }
        named.extend(batch.into_iter().map(|restoring| undoing.finish(restoring)));
        directories.close();
    }
    undoing.finish_directories();
    if undoing.has_failed && !undoing.has_restored {
        journal.add(&JournalLine::Tried);
    }
    journal.sync(seam)
}

/// An undo at work.
struct Undoing<'a> {
    names: Names<'a>,
    journal: &'a RunJournal,
    watch: UndoWatch<'a>,
    counters: JobCounters,
    block: Vec<u8>,
    written: Written,
    /// Directories that were made, and what they get when their files are back.
    made_directories: Vec<(PathBuf, KnownFile, OldFile)>,
    has_restored: bool,
    has_failed: bool,
}

/// A step that is being undone.
struct Restoring<'e> {
    entry: &'e StepRecord,
    /// The outcome of each name, as far as it is known.
    told: Vec<Option<UndoOutcome>>,
    /// The numbers of names that are to be given back, where they are, and how.
    wanted: Vec<(usize, DirEntryHandle, Inverse)>,
    file: Option<Arc<File>>,
    /// Whether the file already has a temporary name.
    is_named: bool,
}

impl Restoring<'_> {
    /// Whether a stop came before the outcome of a name was known.
    fn is_stopped(&self) -> bool {
        let mut told = self.told.iter().flatten();
        told.any(|told| matches!(told, UndoOutcome::Failed { why } if why.is_stopped()))
    }
}

impl Undoing<'_> {
    /// Begins undoing steps: makes the files that are to get names, and writes in the journal which they are.
    fn make_all<'e>(&mut self, entries: &mut dyn Iterator<Item = &'e StepRecord>) -> Vec<Restoring<'e>> {
        let open_max = (sys::open_files_max() / 4).max(1);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH && bytes < BATCH_BYTES && batch.len() + self.names.directories.len() < open_max {
            let Some(entry) = entries.next().filter(|_| !self.names.stop.is_stopped()) else {
                break;
            };
            bytes = entry.step.file.state.bytes.saturating_add(bytes);
            batch.extend(self.make(entry));
        }
        batch
    }

    fn make<'e>(&mut self, entry: &'e StepRecord) -> Option<Restoring<'e>> {
        let action = self.names.action();
        let mut restoring = Restoring {
            entry,
            told: vec![None; entry.names.len()],
            wanted: Vec::new(),
            file: None,
            is_named: false,
        };
        if entry.outcome.is_none() {
            let why = |name: &StepName| RefusalReason::KilledInStep(name.temporary.clone());
            restoring.told = entry.names.iter().map(|name| Some(failed(why(name)))).collect();
        } else if entry.step.file.is_directory || *action == Action::Reflink {
            if entry.is_undone {
                return None;
            }
            let told = match action {
                Action::Reflink => Ok(UndoOutcome::Nothing),
                _ => self.restore_directory(entry).map(|()| UndoOutcome::Restored),
            };
            restoring.told.fill(Some(told.unwrap_or_else(failed)));
        } else if !action.moves() {
            self.find_names(&mut restoring);
            self.make_file(&mut restoring);
        }
        Some(restoring)
    }

    /// Gives back the names of a step. Returns its number, and whether nothing is left to undo. Of a step in which it was stopped,
    /// nothing is told.
    fn finish(&mut self, mut restoring: Restoring<'_>) -> (u64, bool) {
        let entry = restoring.entry;
        if self.names.action().moves() && !entry.step.file.is_directory {
            self.find_names(&mut restoring);
        }
        let has_changed = !restoring.wanted.is_empty() || entry.step.file.is_directory;
        if !restoring.is_stopped() {
            self.give_names(&mut restoring);
        }
        if restoring.is_stopped() {
            return (entry.number, false);
        }
        let mut is_undone = true;
        for (name, undone) in entry.names.iter().zip(&restoring.told) {
            match undone {
                Some(UndoOutcome::Failed { .. }) => is_undone = false,
                Some(UndoOutcome::Restored | UndoOutcome::Apart { .. }) => {
                    if let Ok(place) = entry.place(&name.path, self.names.directories) {
                        self.written.note(&place, false);
                    }
                    self.has_restored |= has_changed;
                }
                Some(UndoOutcome::Nothing) | None => {}
            }
        }
        self.watch.progress(&self.counters.add(1, 0));
        let (file, outcomes) = (&entry.step.file, &restoring.told[..]);
        report(self.watch, UndoneStep { file, outcomes });
        self.has_failed |= !is_undone;
        (entry.number, is_undone)
    }

    /// Makes a directory again that was removed. Another one that has its name stays.
    fn restore_directory(&mut self, entry: &StepRecord) -> Result<(), RefusalReason> {
        let (path, failed) = (&entry.names[0].path, cannot("make the directory"));
        let place = entry
            .place(path, self.names.directories)
            .map_err(cannot("open its directory"))?;
        let mut made = entry.restored.clone();
        if place.facts().map_err(cannot("stat"))?.is_none() {
            require_changeable_directory(path)?;
            let (temporary, watch) = (OsStr::new(&entry.names[0].temporary), self.names.watch);
            // A killed undo may have left it.
            let _ = place.change(|above| above.remove_directory(temporary));
            let told = watch.announce(StepKind::Make, &place.beside(temporary));
            let made_now = told.and_then(|()| place.change(|above| above.create_directory(temporary, 0o700)));
            let file = made_now.and_then(|made| made.open_plain(OsStr::new("."), Access::Read));
            let file = file.map_err(failed)?;
            entry.old.give_flags(&file)?;
            entry.old.give_attributes(&file)?;
            made.push(self.write_down(entry, &file)?);
            let named = place.rename(temporary, &place, &place.name, watch);
            named.map_err(cannot("give the directory its name"))?;
        }
        let ours = made.into_iter().find(|made| made.is_at(&place, &place.name));
        self.made_directories
            .extend(ours.map(|made| (path.clone(), made, entry.old.clone())));
        Ok(())
    }

    /// Gives directories their times, which changed when their files came back.
    fn finish_directories(&self) {
        for (path, made, old) in self.made_directories.iter().rev() {
            let directory = self.names.directories.place(path).and_then(|place| place.open());
            if let Some(directory) = directory.ok().filter(|directory| made.is_open(directory)) {
                // A time that cannot be set is no reason to undo again.
                let _ = old.give_times(&directory);
            }
        }
    }

    /// Finds out what the names of a step lead to, and so which are to be given back.
    fn find_names(&self, restoring: &mut Restoring<'_>) {
        let entry = restoring.entry;
        let restored = || Some(UndoOutcome::Restored).filter(|_| !entry.is_undone);
        for (at, name) in entry.names.iter().enumerate() {
            let known = entry
                .place(&name.path, self.names.directories)
                .and_then(|place| Ok((undoable(&self.names, entry, name, Some(&place), true)?, place)));
            restoring.told[at] = match known {
                Ok((NameState::Old, place)) => {
                    restoring.file = restoring.file.take().or_else(|| place.open().ok().map(Arc::new));
                    restored()
                }
                Ok((NameState::Restored(file), _)) => {
                    restoring.file.get_or_insert(file);
                    restored()
                }
                Ok((NameState::Acted(inverse), place)) => {
                    restoring.wanted.push((at, place, inverse));
                    None
                }
                // It was restored, and is another program's now.
                _ if entry.is_undone => None,
                Ok((NameState::Other(why) | NameState::Aside(why) | NameState::Lost(why), _)) => Some(failed(why)),
                Err(error) => Some(failed(unless_stopped("open its directory")(error))),
            };
        }
    }

    /// Makes a file whose names were removed or replaced by links, unless one of its names still leads to it.
    fn make_file(&mut self, restoring: &mut Restoring<'_>) {
        let (entry, None, Some((at, place, _))) = (restoring.entry, &restoring.file, restoring.wanted.first()) else {
            return;
        };
        let made = match self.names.action() {
            Action::Names => self.names.kept_itself(entry).map(|file| (file, false)),
            _ => self.copy(entry, place, &entry.names[*at]),
        };
        match made {
            Ok((file, is_named)) => {
                self.written.note(place, false);
                restoring.is_named = is_named;
                restoring.file = Some(Arc::new(file));
            }
            Err(why) => {
                for (at, ..) in restoring.wanted.drain(..) {
                    restoring.told[at] = Some(failed(why.clone()));
                }
            }
        }
    }

    /// Gives a file its names back: they become names of one file again, or it is moved back name by name.
    fn give_names(&self, restoring: &mut Restoring<'_>) {
        let entry = restoring.entry;
        for (at, place, inverse) in restoring.wanted.drain(..) {
            let given = match (&inverse, &restoring.file) {
                (Inverse::MoveBack(there, new), _) => self.move_back(&place, there, new),
                (_, Some(file)) => {
                    let is_named = std::mem::take(&mut restoring.is_named);
                    let name = &entry.names[at];
                    self.names.at(entry, name, &place).give(&inverse, file, is_named)
                }
                (_, None) => continue,
            };
            restoring.told[at] = Some(given.map_or_else(failed, |()| UndoOutcome::Restored));
        }
        let names = entry.links_elsewhere();
        let is_another = |file: &Arc<File>| !entry.acted_on().is_open(file);
        if names > 0 && restoring.file.as_ref().is_some_and(is_another) {
            let told = restoring.told.iter_mut();
            let restored = told.filter(|told| **told == Some(UndoOutcome::Restored));
            restored.for_each(|told| *told = Some(UndoOutcome::Apart { names }));
        }
    }

    /// Moves a file back, and removes the directories that were made for it.
    fn move_back(&self, place: &DirEntryHandle, there: &DirEntryHandle, new: &NewPlace) -> Result<(), RefusalReason> {
        let moved = there.rename(&there.name, place, &place.name, self.names.watch);
        moved.map_err(cannot(format!("move it back from {}", visible_path(&new.to))))?;
        let unmade = cannot("remove the directories that were made for it (undo again to retry)");
        let of_moved = |why: RefusalReason| RefusalReason::Of(new.to.clone(), why.into());
        unmake(new, self.names.directories).map_err(unmade).map_err(of_moved)
    }

    /// Makes a copy of the kept file with the metadata of the one that was removed. Returns whether it has the temporary name.
    fn copy(
        &mut self,
        entry: &StepRecord,
        place: &DirEntryHandle,
        name: &StepName,
    ) -> Result<(File, bool), RefusalReason> {
        let keep = &entry.step.keep.path;
        let kept = self.names.kept(entry).map_err(cannot("open")).map_err(of_kept(keep))?;
        let metadata = kept.metadata().map_err(cannot("stat")).map_err(of_kept(keep))?;
        if !metadata.is_file() || metadata.len() != entry.step.file.state.bytes {
            return Err(of_kept(keep)(RefusalReason::ChangedSince));
        }
        let (temporary, unmade) = (OsStr::new(&name.temporary), cannot("make a new file"));
        let told = self.names.watch.announce(StepKind::Make, &place.beside(temporary));
        told.map_err(&unmade)?;
        let made = place.change(|directory| make_new(directory, temporary));
        let (file, unnamed) = made.map_err(&unmade)?;
        let is_named = unnamed.is_none();
        let filled = self.fill(entry, &kept, &file);
        if filled.is_err() && is_named {
            let _ = place.change(|directory| directory.remove_file(temporary));
        }
        filled.map(|()| (file, is_named))
    }

    /// Writes in the journal which file or directory is made to undo a step, before it has its name, and returns that.
    fn write_down(&self, entry: &StepRecord, new: &File) -> Result<KnownFile, RefusalReason> {
        let file = KnownFile::of(new).map_err(cannot("stat the new file"))?;
        let step = entry.number;
        self.journal.add(&JournalLine::Restoring { step, file });
        let written = self.journal.write(self.names.watch);
        written.map_err(|error| RefusalReason::Told(error.to_string().into()))?;
        Ok(file)
    }

    /// Fills a new file, after the journal says which it is. Fails if its bytes are not those of the removed file.
    fn fill(&mut self, entry: &StepRecord, kept: &File, new: &File) -> Result<(), RefusalReason> {
        let stop = self.names.stop;
        self.write_down(entry, new)?;
        entry.old.give_flags(new)?;
        if !matches!(sys::clone_file(kept, new), Ok(Support::Available(()))) {
            let goes_on = |_, _| stop.go_on();
            let planned = IoOptions::new().destination(Destination::Overwrite).progress(&goes_on);
            let done = planned.copy(FileRange::of_file(kept), FileRange::of_file(new));
            done.map_err(|error| match error {
                seekless_engine::Error::Stopped { .. } => RefusalReason::Stopped,
                error => cannot("copy")(seekless_engine::full_text(&error)),
            })?;
        }
        let length = new.metadata().map_err(cannot("stat the new file"))?.len();
        let digest = digest_of(new, length, &mut self.block, &|| !stop.is_stopped());
        let digest = digest.map_err(unless_stopped("read the new file"))?;
        if (length, &digest) != (entry.step.file.state.bytes, &entry.digest) {
            return Err(of_kept(&entry.step.keep.path)(RefusalReason::ChangedSince));
        }
        entry.old.give_attributes(new)
    }
}

/// What a name leads to for undo: [`NameState::Other`] if flags keep the name from being given back. With `is_meant`, puts back
/// first what was left half done.
fn undoable(
    names: &Names<'_>,
    entry: &StepRecord,
    name: &StepName,
    place: Option<&DirEntryHandle>,
    is_meant: bool,
) -> io::Result<NameState> {
    let is_flagged = |flagged: Result<(), RefusalReason>| flagged.err().map(NameState::Other);
    // In an append-only directory, links can be made, but not removed again.
    if names.action().makes_links()
        && let Some(other) = is_flagged(require_changeable_directory(&name.path))
    {
        return Ok(other);
    }
    let state = if is_meant {
        names.recovered(entry, name, place)?.0
    } else {
        names.state(entry, name, place)?
    };
    let other = match state {
        NameState::Acted(_) if entry.step.file.is_directory => is_flagged(require_changeable_directory(&name.path)),
        NameState::Acted(_) => is_flagged(require_undoable(names.action(), name)),
        _ => None,
    };
    Ok(other.unwrap_or(state))
}

/// What would become of a name; `None` if it is as before: undone, or of a step in which the run was killed. `remade` are directories
/// that would be made again.
fn preview(
    names: &Names<'_>,
    entry: &StepRecord,
    name: &StepName,
    remade: &mut HashSet<PathBuf>,
) -> Option<UndoOutcome> {
    // Undoing does not look at them.
    if *names.action() == Action::Reflink {
        return (!entry.is_undone).then_some(UndoOutcome::Nothing);
    }
    let outcome = preview_at(names, entry, name, remade);
    if entry.step.file.is_directory && outcome.is_ok() {
        remade.insert(name.path.clone());
    }
    let may_be_old = entry.is_undone || entry.outcome.is_none();
    match outcome {
        Err(_) | Ok(None) if may_be_old => None,
        outcome => Some(outcome.map_or_else(failed, |undone| undone.unwrap_or(UndoOutcome::Restored))),
    }
}

/// What undoing would do for a name, whose directory may have to be made again; `None` if nothing.
fn preview_at(
    names: &Names<'_>,
    entry: &StepRecord,
    name: &StepName,
    remade: &HashSet<PathBuf>,
) -> Result<Option<UndoOutcome>, RefusalReason> {
    let is_remade = name.path.parent().is_some_and(|above| remade.contains(above));
    let place = match entry.place(&name.path, names.directories) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_remade => None,
        place => Some(place.map_err(cannot("open its directory"))?),
    };
    let state = undoable(names, entry, name, place.as_ref(), false);
    match state.map_err(cannot("stat"))? {
        NameState::Old | NameState::Restored(_) => return Ok(None),
        NameState::Other(why) | NameState::Aside(why) | NameState::Lost(why) => return Err(why),
        NameState::Acted(Inverse::MoveBack(..)) => return Ok(Some(UndoOutcome::Restored)),
        NameState::Acted(_) if entry.step.file.is_directory => return Ok(Some(UndoOutcome::Restored)),
        NameState::Acted(_) if *names.action() == Action::Names => {
            return names.kept_itself(entry).map(|_| Some(UndoOutcome::Restored));
        }
        NameState::Acted(_) => {}
    }
    let was = &entry.step.keep.state;
    let of_kept = of_kept(&entry.step.keep.path);
    let kept = names.kept(entry).map_err(cannot("open")).map_err(&of_kept)?;
    let found = StatFacts::of(&kept).map_err(cannot("stat")).map_err(&of_kept)?;
    let is_as_old = (found.bytes, found.modified_ns) == (was.bytes, was.modified_ns);
    let has_digest = || entry.has_digest(&found, &kept, names.stop);
    if !is_as_old && !has_digest().map_err(cannot("compare"))? {
        return Err(of_kept(RefusalReason::ChangedSince));
    }
    Ok(Some(match entry.links_elsewhere() {
        0 => UndoOutcome::Restored,
        names => UndoOutcome::Apart { names },
    }))
}

/// Recovers the steps of a journal whose run was killed. Ends the journal, unless a step could not be recovered.
fn recover(
    journal: &RunJournal,
    lines: &RunRecord,
    stop: &Stop,
    tell: TellRecovered<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let directories = Directories::default();
    let mut recovering = Recovering {
        names: Names::of(lines, &directories, stop, watch),
        written: Written::default(),
        tell,
    };
    let mut ran = Ran::default();
    let (mut waiting, mut changed) = (Vec::new(), Vec::new());
    for entry in lines.entries.values() {
        // Before the end of a journal, an outcome may be of a change that a power cut lost.
        let told = entry.outcome.as_ref();
        let outcome = match recovering.step(entry) {
            Ok(outcome) => outcome,
            // Perhaps its directory was removed since.
            Err(error) if told.is_some() && ![CrossesDevices, Interrupted].contains(&error.kind()) => {
                outcome(told, true)
            }
            Err(error) => {
                // Its file system may be mounted again later.
                waiting.push((entry, error));
                continue;
            }
        };
        ran.count(&outcome);
        let is_known = |told: &StepOutcome| told.has_acted() == outcome.has_acted();
        if !told.is_some_and(is_known) {
            changed.push((entry.number, outcome));
        }
        directories.close();
    }
    journal.commit(&recovering.written, watch, |journal| {
        for (step, outcome) in changed {
            journal.add(&JournalLine::Outcome { step, outcome });
        }
        if waiting.is_empty() {
            journal.add(&JournalLine::End {
                ran: ran.clone(),
                was_killed: true,
            });
        }
    })?;
    if let [(entry, error), more @ ..] = &waiting[..] {
        let path = entry.names.first().map_or(journal.path.as_path(), |name| &name.path);
        let why = RefusalReason::NotRecovered(error.to_string(), more.len());
        tell(path, &RecoveredAct::Failed { why });
        return Ok(());
    }
    let (done, left, failed) = (ran.done, ran.left + ran.needless, ran.failed);
    tell(&journal.path, &RecoveredAct::Run { done, left, failed });
    Ok(())
}

struct Recovering<'a> {
    names: Names<'a>,
    written: Written,
    tell: TellRecovered<'a>,
}

impl Recovering<'_> {
    /// Recovers a step, which has an outcome unless the run was killed in it.
    fn step(&mut self, entry: &StepRecord) -> io::Result<StepOutcome> {
        let told = entry.outcome.as_ref();
        let mut is_done = *self.names.action() == Action::Reflink;
        let (mut old, mut acted, mut troubles) = (None, Vec::new(), Vec::new());
        for (at, name) in entry.names.iter().enumerate() {
            match self.name(entry, name)? {
                (_, true) => {
                    (self.tell)(&name.path, &RecoveredAct::PutBack);
                    old.get_or_insert(at);
                }
                (NameState::Old, false) => _ = old.get_or_insert(at),
                (NameState::Acted(Inverse::Name), false) => acted.push(at),
                (NameState::Aside(why), false) => {
                    (self.tell)(&name.path, &RecoveredAct::Failed { why: why.clone() });
                    troubles.push(why);
                }
                // It may have been moved on since.
                (NameState::Lost(_), false) => is_done |= told.is_some(),
                _ => is_done = true,
            }
        }
        let is_partly_meant = matches!(told, Some(StepOutcome::Failed { .. }));
        match old {
            // All names of a file are acted on, or none.
            Some(old) if self.names.action().is_undone_by_copying() && !is_partly_meant && !acted.is_empty() => {
                let directories = self.names.directories;
                let file = entry.place(&entry.names[old].path, directories)?.open()?;
                for name in acted.into_iter().map(|at| &entry.names[at]) {
                    let place = entry.place(&name.path, directories)?;
                    match self.names.at(entry, name, &place).give(&Inverse::Name, &file, false) {
                        Ok(()) => (self.tell)(&name.path, &RecoveredAct::PutBack),
                        Err(why) => troubles.push(why),
                    }
                }
            }
            _ => is_done |= !acted.is_empty(),
        }
        if troubles.is_empty() {
            return Ok(outcome(told, is_done));
        }
        let why = RefusalReason::Several(troubles);
        Ok(StepOutcome::Failed { why })
    }

    /// What a name leads to, and whether that was just put back.
    fn name(&mut self, entry: &StepRecord, name: &StepName) -> io::Result<(NameState, bool)> {
        let may_be_gone = || matches!(name.change, NameChange::Moved(_)) || self.is_emptied(&name.path);
        let place = match entry.place(&name.path, self.names.directories) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && may_be_gone() => None,
            place => Some(place?),
        };
        if let Some(place) = &place {
            self.written.note(place, false);
        }
        self.names.recovered(entry, name, place.as_ref())
    }

    /// Whether the run may have removed a directory, or that of a path, once it was empty.
    fn is_emptied(&self, path: &Path) -> bool {
        let mut steps = self.names.lines.entries.values().map(|entry| &entry.step.file);
        steps.any(|file| file.is_directory && file.paths.iter().any(|directory| path.starts_with(directory)))
    }
}

/// The outcome of a step that was recovered.
fn outcome(told: Option<&StepOutcome>, is_done: bool) -> StepOutcome {
    match told {
        Some(done @ StepOutcome::Done { .. }) if is_done => done.clone(),
        Some(StepOutcome::Failed { .. }) | None if is_done => StepOutcome::Done { gained_bytes: 0 },
        _ => RefusalReason::Killed.into(),
    }
}
