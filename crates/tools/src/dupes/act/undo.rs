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
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seekless::files::make_new;
use seekless::update::{StepKind, Watch};
use seekless::{Destination, FileRange, IoOptions};
use seekless_sys::{self as sys, Access, Support};

use super::change::unmake;
use super::dir_handle::{DirEntryHandle, Directories};
use super::journal::{self, Ending, RunJournal, Written, own};
use super::name_state::{MovedFile, NameState, Names, WantedName};
use super::prove::{require_changeable_directory, require_undoable};
use super::record::{JournalLine, KnownFile, OldFile, RunRecord, StepName, StepRecord, digest_of};
use super::refusal::unless_stopped;
use super::{
    ActedOn, Action, BATCH, BATCH_BYTES, Error, Ran, RecoveredAct, RefusalReason, StepOutcome, Unwatched, cannot,
    of_kept,
};
use crate::Stop;
use crate::visible::visible_path;
use crate::walk::StatFacts;

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

/// A step that was undone, or would be.
#[derive(Debug)]
pub struct UndoneStep<'a> {
    /// What was acted on.
    pub file: &'a ActedOn,
    /// The outcome of each name; `None` if it was undone before.
    pub outcomes: &'a [Option<UndoOutcome>],
    /// How many steps there are to undo.
    pub of: u64,
}

impl UndoneStep<'_> {
    /// The names with an outcome.
    pub fn names(&self) -> impl Iterator<Item = (&Path, &UndoOutcome)> {
        let names = self.file.paths.iter().zip(self.outcomes);
        names.filter_map(|(path, undone)| Some((path.as_path(), undone.as_ref()?)))
    }
}

/// Receives the outcome of each step.
pub type TellUndone<'a> = &'a dyn Fn(&UndoneStep<'_>);

/// Receives how a file or a journal was recovered.
pub(super) type TellRecovered<'a> = &'a dyn Fn(&Path, &RecoveredAct);

fn failed(why: RefusalReason) -> UndoOutcome {
    UndoOutcome::Failed { why }
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
    let (journal, mut lines) = opened(path)?;
    if !lines.is_complete {
        recover(&journal, &lines, stop, &|_, _| (), watch)?;
        lines = journal.read()?;
    }
    undo_steps(&journal, &lines, &|_| true, stop, tell, watch)
}

/// Tells what undoing would do with each step, in its order. Nothing is changed. Sizes and times decide whether a kept file is what it
/// was; undoing compares bytes.
///
/// # Errors
/// If the journal cannot be read, or its run is still at work.
pub fn undo_preview(journal: &Path, stop: &Stop, tell: TellUndone<'_>) -> Result<(), Error> {
    let (_locked, lines) = opened(journal)?;
    let directories = Directories::default();
    let names = Names::of(&lines, &directories, stop, &Unwatched);
    let mut remade = HashSet::new();
    let of = lines.undoable().count() as u64;
    for entry in lines.undoable() {
        let outcome = |name| preview(&names, &lines, entry, name, &mut remade);
        let outcomes: Vec<_> = entry.names.iter().map(outcome).collect();
        if stop.is_stopped() {
            break;
        }
        tell(&UndoneStep {
            file: &entry.step.file,
            outcomes: &outcomes,
            of,
        });
        directories.close_many();
    }
    Ok(())
}

/// Opens a journal that this machine may undo.
fn opened(path: &Path) -> Result<(RunJournal, RunRecord), Error> {
    let journal = own(path)?;
    let lines = journal.read()?;
    let failed = |source| Error {
        path: path.to_owned(),
        action: "cannot undo",
        source,
    };
    lines.require_own().map_err(failed)?;
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
        let ending = journal.ending();
        if ending == Ending::Whole {
            continue;
        }
        match journal.read() {
            // Its paths lead elsewhere on another machine, which may share the directory of journals.
            Ok(lines) if lines.require_own().is_err() => {}
            Ok(lines) if ending == Ending::KilledUndo => {
                let told = |step: &UndoneStep<'_>| {
                    for (path, undone) in step.names() {
                        match undone {
                            UndoOutcome::Failed { why } => tell(path, &RecoveredAct::Failed { why: why.clone() }),
                            _ => tell(path, &RecoveredAct::PutBack),
                        }
                    }
                };
                let is_begun =
                    |entry: &StepRecord| lines.restored.contains_key(&entry.number) && !lines.is_undone(entry);
                undo_steps(&journal, &lines, &is_begun, stop, &told, watch)?;
            }
            Ok(lines) => recover(&journal, &lines, stop, tell, watch)?,
            Err(error) if error.source.kind() == io::ErrorKind::Unsupported => {
                let why = RefusalReason::Told(error.source.to_string().into());
                tell(&path, &RecoveredAct::Failed { why });
            }
            Err(_) => {}
        }
    }
    Ok(())
}

fn undo_steps(
    journal: &RunJournal,
    lines: &RunRecord,
    is_meant: &dyn Fn(&StepRecord) -> bool,
    stop: &Stop,
    tell: TellUndone<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let directories = Directories::default();
    let mut undoing = Undoing {
        names: Names::of(lines, &directories, stop, watch),
        lines,
        journal,
        block: Vec::new(),
        written: Written::default(),
        made_directories: Vec::new(),
        has_restored: false,
        has_failed: false,
    };
    let meant = || lines.undoable().filter(|entry| is_meant(entry));
    let (mut entries, of) = (meant(), meant().count() as u64);
    let mut named = Vec::new();
    loop {
        // New files are durable before they have names, and names before the record of them: one sync serves both.
        let batch = undoing.make_all(&mut entries);
        journal.commit(&undoing.written, watch, |journal| {
            for (step, is_undone) in named.drain(..) {
                journal.add(&JournalLine::Undone { step, is_undone });
            }
        })?;
        if batch.is_empty() {
            break;
        }
        named.extend(batch.into_iter().map(|restoring| undoing.finish(restoring, of, tell)));
        directories.close();
    }
    undoing.finish_directories();
    if undoing.has_failed && !undoing.has_restored {
        journal.add(&JournalLine::Tried);
    }
    journal.sync(watch)
}

/// An undo at work.
struct Undoing<'a> {
    names: Names<'a>,
    lines: &'a RunRecord,
    journal: &'a RunJournal,
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
    /// Whether a journal says that it is undone.
    was_undone: bool,
    /// The outcome of each name, as far as it is known.
    told: Vec<Option<UndoOutcome>>,
    wanted: Vec<WantedName>,
    file: Option<Arc<File>>,
    /// Whether the file already has a temporary name.
    is_named: bool,
}

impl Restoring<'_> {
    /// Whether a stop came before the outcome of a name was known.
    fn is_stopped(&self) -> bool {
        let is_stopped =
            |told: &Option<UndoOutcome>| matches!(told, Some(UndoOutcome::Failed { why }) if why.is_stopped());
        self.told.iter().any(is_stopped)
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
        let action = self.names.action;
        let mut restoring = Restoring {
            entry,
            was_undone: self.lines.is_undone(entry),
            told: vec![None; entry.names.len()],
            wanted: Vec::new(),
            file: None,
            is_named: false,
        };
        if !self.lines.outcomes.contains_key(&entry.number) {
            let why = |name: &StepName| RefusalReason::KilledInStep(name.temporary.clone());
            restoring.told = entry.names.iter().map(|name| Some(failed(why(name)))).collect();
        } else if entry.step.file.is_directory {
            if restoring.was_undone {
                return None;
            }
            let restored = self.restore_directory(entry);
            restoring.told = vec![Some(restored.map_or_else(failed, |()| UndoOutcome::Restored))];
        } else if action.moves() || *action == Action::Reflink {
            // If it was stopped, moving it back says so.
            let is_there = |name| !matches!(self.names.moved(entry, name, None), Ok(MovedFile::Lost(_)));
            if restoring.was_undone && !(action.moves() && entry.names.iter().any(is_there)) {
                return None;
            }
            if *action == Action::Reflink {
                restoring.told.fill(Some(UndoOutcome::Nothing));
            }
        } else {
            self.restore(&mut restoring);
        }
        Some(restoring)
    }

    /// Gives names to what was made for a step. Returns its number, and whether nothing is left to undo. Of a step in which it was
    /// stopped, nothing is told.
    fn finish(&mut self, mut restoring: Restoring<'_>, of: u64, tell: TellUndone<'_>) -> (u64, bool) {
        let entry = restoring.entry;
        let is_moved = self.names.action.moves();
        if is_moved && !entry.step.file.is_directory {
            let back = |name| {
                Some(
                    self.move_back(entry, name)
                        .map_or_else(failed, |()| UndoOutcome::Restored),
                )
            };
            restoring.told = entry.names.iter().map(back).collect();
        }
        if restoring.is_stopped() {
            return (entry.number, false);
        }
        let has_changed = !restoring.wanted.is_empty() || is_moved || entry.step.file.is_directory;
        self.give_names(&mut restoring);
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
        tell(&UndoneStep {
            file: &entry.step.file,
            outcomes: &restoring.told,
            of,
        });
        self.has_failed |= !is_undone;
        (entry.number, is_undone)
    }

    /// Makes a directory again that was removed. Another one that has its name stays.
    fn restore_directory(&mut self, entry: &StepRecord) -> Result<(), RefusalReason> {
        let (path, failed) = (&entry.names[0].path, cannot("make the directory"));
        let place = entry
            .place(path, self.names.directories)
            .map_err(cannot("open its directory"))?;
        let mut made = self.lines.restored_for(entry).to_vec();
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

    /// Moves a file back, and removes the directories that were made for it.
    fn move_back(&self, entry: &StepRecord, name: &StepName) -> Result<(), RefusalReason> {
        let to = name.moved_to.as_deref().unwrap_or(Path::new("/"));
        let place = entry
            .place(&name.path, self.names.directories)
            .map_err(cannot("open its directory"))?;
        match self
            .names
            .moved(entry, name, Some(&place))
            .map_err(unless_stopped("compare"))?
        {
            MovedFile::There(there) => {
                require_undoable(self.names.action, name)?;
                let moved = there.rename(&there.name, &place, &place.name, self.names.watch);
                moved.map_err(cannot(format!("move it back from {}", visible_path(to))))?;
            }
            MovedFile::Back => {}
            MovedFile::Lost(why) => return Err(why),
        }
        let unmade = cannot("remove the directories that were made for it (undo again to retry)");
        let of_moved = |why: RefusalReason| RefusalReason::Of(to.to_owned(), why.into());
        unmake(name, self.names.directories).map_err(unmade).map_err(of_moved)
    }

    /// Makes a file whose names were removed or replaced by links, unless one of its names still leads to it.
    fn restore(&mut self, restoring: &mut Restoring<'_>) {
        let (entry, was_undone) = (restoring.entry, restoring.was_undone);
        let restored = || Some(UndoOutcome::Restored).filter(|_| !was_undone);
        for (at, name) in entry.names.iter().enumerate() {
            let known = entry
                .place(&name.path, self.names.directories)
                .and_then(|place| Ok((self.now(entry, name, &place)?, place)));
            restoring.told[at] = match known {
                Ok((NameState::Old, place)) => {
                    restoring.file = restoring.file.take().or_else(|| place.open().ok().map(Arc::new));
                    restored()
                }
                Ok((NameState::Restored(file), _)) => {
                    restoring.file.get_or_insert(file);
                    restored()
                }
                Ok((NameState::Acted(torn), place)) => {
                    restoring.wanted.push(WantedName { at, place, torn });
                    None
                }
                // It was restored, and is another program's now.
                Ok((NameState::Other(_) | NameState::Aside(_), _)) | Err(_) if was_undone => None,
                Ok((NameState::Other(why) | NameState::Aside(why), _)) => Some(failed(why)),
                Err(error) => Some(failed(unless_stopped("open its directory")(error))),
            };
        }
        let (None, Some(WantedName { at, place, .. })) = (&restoring.file, restoring.wanted.first()) else {
            return;
        };
        let made = match self.names.action {
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
                for wanted in restoring.wanted.drain(..) {
                    restoring.told[wanted.at] = Some(failed(why.clone()));
                }
            }
        }
    }

    /// What a name leads to.
    fn now(&self, entry: &StepRecord, name: &StepName, place: &DirEntryHandle) -> io::Result<NameState> {
        // In an append-only directory, links can be made, but not removed again.
        if self.names.action.makes_links()
            && let Err(why) = require_changeable_directory(&name.path)
        {
            return Ok(NameState::Other(why));
        }
        let state = self.names.state(entry, name, place, self.lines.restored_for(entry))?.0;
        if matches!(state, NameState::Acted(_))
            && let Err(why) = require_undoable(self.names.action, name)
        {
            return Ok(NameState::Other(why));
        }
        Ok(state)
    }

    /// Gives a file its names: they become names of one file again.
    fn give_names(&self, restoring: &mut Restoring<'_>) {
        let (entry, Some(file)) = (restoring.entry, &restoring.file) else {
            return;
        };
        let names = entry.old.links.saturating_sub(entry.names.len() as u64);
        for wanted in restoring.wanted.drain(..) {
            let is_named = std::mem::take(&mut restoring.is_named);
            let given = self.names.give_name(entry, &wanted, file, is_named);
            restoring.told[wanted.at] = Some(given.map_or_else(failed, |()| UndoOutcome::Restored));
        }
        if names > 0 && !entry.acted_on().is_open(file) {
            let restored = restoring
                .told
                .iter_mut()
                .filter(|told| **told == Some(UndoOutcome::Restored));
            restored.for_each(|told| *told = Some(UndoOutcome::Apart { names }));
        }
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
        let changed = || of_kept(keep)(RefusalReason::ChangedSince);
        let metadata = kept.metadata().map_err(cannot("stat")).map_err(of_kept(keep))?;
        if !metadata.is_file() || metadata.len() != entry.step.file.state.bytes {
            return Err(changed());
        }
        let (temporary, unmade) = (OsStr::new(&name.temporary), cannot("make a new file"));
        let told = self.names.watch.announce(StepKind::Make, &place.beside(temporary));
        told.map_err(&unmade)?;
        let made = place.change(|directory| make_new(directory, temporary));
        let (file, unnamed) = made.map_err(&unmade)?;
        let is_named = unnamed.is_none();
        let filled = self.fill(entry, &kept, &file);
        match filled.and_then(|is_equal| is_equal.then_some(()).ok_or_else(changed)) {
            Ok(()) => Ok((file, is_named)),
            Err(why) => {
                if is_named {
                    let _ = place.change(|directory| directory.remove_file(temporary));
                }
                Err(why)
            }
        }
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

    /// Fills a new file, after the journal says which it is; returns whether its bytes are those of the removed file.
    fn fill(&mut self, entry: &StepRecord, kept: &File, new: &File) -> Result<bool, RefusalReason> {
        let stop = self.names.stop;
        self.write_down(entry, new)?;
        entry.old.give_flags(new)?;
        if !matches!(sys::clone_file(kept, new), Ok(Support::Available(()))) {
            let goes_on = |_, _| stop.go_on();
            let planned = IoOptions::new().destination(Destination::Overwrite).progress(&goes_on);
            let done = planned.copy(FileRange::of_file(kept), FileRange::of_file(new));
            done.map_err(|error| match error {
                seekless::Error::Stopped { .. } => RefusalReason::Stopped,
                error => cannot("copy")(seekless::full_text(&error)),
            })?;
        }
        let length = new.metadata().map_err(cannot("stat the new file"))?.len();
        let digest = digest_of(new, length, &mut self.block, &|| !stop.is_stopped());
        let digest = digest.map_err(unless_stopped("read the new file"))?;
        if (length, &digest) != (entry.step.file.state.bytes, &entry.digest) {
            return Ok(false);
        }
        entry.old.give_attributes(new)?;
        Ok(true)
    }
}

/// What would become of a name; `None` if it is as before: undone, or of a step in which the run was killed. `remade` are directories
/// that would be made again.
fn preview(
    names: &Names<'_>,
    lines: &RunRecord,
    entry: &StepRecord,
    name: &StepName,
    remade: &mut HashSet<PathBuf>,
) -> Option<UndoOutcome> {
    let was_undone = lines.is_undone(entry);
    // Undoing does not look at them.
    if *names.action == Action::Reflink {
        return (!was_undone).then_some(UndoOutcome::Nothing);
    }
    let is_remade = name.path.parent().is_some_and(|above| remade.contains(above));
    let place = match entry.place(&name.path, names.directories) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_remade => Ok(None),
        place => place.map(Some).map_err(cannot("open its directory")),
    };
    let outcome = place.and_then(|place| preview_at(names, lines, entry, name, place.as_ref()));
    if entry.step.file.is_directory && outcome.is_ok() {
        remade.insert(name.path.clone());
    }
    let may_be_old = was_undone || !lines.outcomes.contains_key(&entry.number);
    match outcome {
        Err(_) | Ok(None) if may_be_old => None,
        outcome => Some(outcome.map_or_else(failed, |undone| undone.unwrap_or(UndoOutcome::Restored))),
    }
}

/// What undoing would do for a name in a directory, which may have to be made again; `None` if nothing.
fn preview_at(
    names: &Names<'_>,
    lines: &RunRecord,
    entry: &StepRecord,
    name: &StepName,
    place: Option<&DirEntryHandle>,
) -> Result<Option<UndoOutcome>, RefusalReason> {
    let (action, keep) = (names.action, &entry.step.keep);
    let is_there = || place.is_some_and(|place| matches!(place.facts(), Ok(Some(_))));
    if entry.step.file.is_directory {
        if is_there() {
            return Ok(None);
        }
        return require_changeable_directory(&name.path).map(|()| Some(UndoOutcome::Restored));
    }
    if action.moves() {
        let to = name.moved_to.as_deref().unwrap_or(Path::new("/"));
        return match names.moved(entry, name, place).map_err(cannot("compare"))? {
            MovedFile::Back => Ok(None),
            MovedFile::Lost(why) => Err(why),
            MovedFile::There(_) if is_there() => Err(RefusalReason::Several(vec![
                RefusalReason::NameTaken,
                RefusalReason::NowAt(to.to_owned()),
            ])),
            MovedFile::There(_) => require_undoable(action, name).map(|()| Some(UndoOutcome::Restored)),
        };
    }
    if action.makes_links() {
        require_changeable_directory(&name.path)?;
    }
    if let Some(place) = place {
        let state = names.state_now(entry, name, place, lines.restored_for(entry));
        match state.map_err(cannot("stat"))? {
            NameState::Old | NameState::Restored(_) => return Ok(None),
            NameState::Other(why) | NameState::Aside(why) => return Err(why),
            NameState::Acted(_) => require_undoable(action, name)?,
        }
    }
    if *action == Action::Names {
        return names.kept_itself(entry).map(|_| Some(UndoOutcome::Restored));
    }
    let of_kept = of_kept(&keep.path);
    let kept = names.kept(entry).map_err(cannot("open")).map_err(&of_kept)?;
    let found = StatFacts::of(&kept).map_err(cannot("stat")).map_err(&of_kept)?;
    let is_as_old = (found.bytes, found.modified_ns) == (keep.state.bytes, keep.state.modified_ns);
    let has_digest = || entry.has_digest(&found, &kept, names.stop);
    if !is_as_old && !has_digest().map_err(cannot("compare"))? {
        return Err(of_kept(RefusalReason::ChangedSince));
    }
    Ok(Some(match entry.old.links.saturating_sub(entry.names.len() as u64) {
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
        lines,
        written: Written::default(),
        tell,
    };
    let mut ran = Ran::default();
    let (mut waiting, mut changed) = (Vec::new(), Vec::new());
    for entry in &lines.entries {
        // Before the end of a journal, an outcome may be of a change that a power cut lost.
        let told = lines.outcomes.get(&entry.number);
        let outcome = match recovering.step(entry, told) {
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
    lines: &'a RunRecord,
    written: Written,
    tell: TellRecovered<'a>,
}

impl Recovering<'_> {
    /// Recovers a step, which has an outcome unless the run was killed in it.
    fn step(&mut self, entry: &StepRecord, told: Option<&StepOutcome>) -> io::Result<StepOutcome> {
        let mut is_done = *self.names.action == Action::Reflink;
        let (mut old, mut acted, mut troubles) = (None, Vec::new(), Vec::new());
        for (at, name) in entry.names.iter().enumerate() {
            match self.name(entry, name, told)? {
                (_, true) => {
                    (self.tell)(&name.path, &RecoveredAct::PutBack);
                    old.get_or_insert(at);
                }
                (NameState::Old, false) => _ = old.get_or_insert(at),
                (NameState::Acted(None), false) => acted.push(at),
                (NameState::Aside(why), false) => {
                    (self.tell)(&name.path, &RecoveredAct::Failed { why: why.clone() });
                    troubles.push(why);
                }
                _ => is_done = true,
            }
        }
        let is_partly_meant = matches!(told, Some(StepOutcome::Failed { .. }));
        match old {
            // All names of a file are acted on, or none.
            Some(old) if self.names.action.is_undone_by_copying() && !is_partly_meant && !acted.is_empty() => {
                let directories = self.names.directories;
                let file = entry.place(&entry.names[old].path, directories)?.open()?;
                for at in acted {
                    let path = &entry.names[at].path;
                    let place = entry.place(path, directories)?;
                    let wanted = WantedName { at, place, torn: None };
                    match self.names.give_name(entry, &wanted, &file, false) {
                        Ok(()) => (self.tell)(path, &RecoveredAct::PutBack),
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

    /// Whether the run may have removed the directory of a path once that was empty.
    fn is_emptied(&self, path: &Path) -> bool {
        let emptied = self.lines.entries.iter().filter(|entry| entry.step.file.is_directory);
        let mut directories = emptied.flat_map(|entry| &entry.step.file.paths);
        directories.any(|directory| path.starts_with(directory))
    }

    /// What a name leads to, and whether that was just put back.
    fn name(
        &mut self,
        entry: &StepRecord,
        name: &StepName,
        told: Option<&StepOutcome>,
    ) -> io::Result<(NameState, bool)> {
        const ACTED: (NameState, bool) = (NameState::Acted(None), false);
        let (action, directories, stop) = (self.names.action, self.names.directories, self.names.stop);
        let found = |path: &Path| match entry.place(path, directories) {
            // A run that was killed may have removed the directory, too, or not yet made it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            place => place.map(Some),
        };
        if let Some(to) = &name.moved_to {
            // It may have been moved on since.
            let is_at = |place: &DirEntryHandle| entry.acted_on().is_at(place, &place.name);
            let is_moved = |place: &DirEntryHandle| Ok(is_at(place) || entry.is_moved_to(action, place, stop)?);
            if found(to)?.as_ref().map_or(io::Result::Ok(false), is_moved)?
                || told.is_some() && !found(&name.path)?.as_ref().is_some_and(is_at)
            {
                return Ok(ACTED);
            }
            // They are empty: nothing is lost if they stay.
            let _ = unmake(name, directories);
        }
        let place = match found(&name.path)? {
            Some(place) => place,
            None if entry.step.file.is_directory || self.is_emptied(&name.path) => return Ok(ACTED),
            None => entry.place(&name.path, directories)?,
        };
        self.written.note(&place, false);
        if entry.step.file.is_directory && place.facts()?.is_none() {
            return Ok(ACTED);
        }
        if entry.step.file.is_directory || action.moves() {
            return Ok((NameState::Old, false));
        }
        self.names.state(entry, name, &place, &[])
    }
}

/// The outcome of a step that was recovered.
fn outcome(told: Option<&StepOutcome>, is_done: bool) -> StepOutcome {
    match told {
        Some(StepOutcome::Done { gained_bytes }) if is_done => StepOutcome::Done {
            gained_bytes: *gained_bytes,
        },
        Some(StepOutcome::Failed { .. }) | None if is_done => StepOutcome::Done { gained_bytes: 0 },
        _ => RefusalReason::Killed.into(),
    }
}
