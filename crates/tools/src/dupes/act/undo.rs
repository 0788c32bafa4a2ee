//! Undoing what a journal says.
//!
//! What the names lead to now decides what is left to do, so undo may be killed and run again.
//!
//! Not here: writing journals, listing them (`past`), and settling those of killed runs.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use seekless::files::make_new;
use seekless::update::{StepKind, Watch};
use seekless::{Destination, Job, Part};
use seekless_sys::{self as sys, Support};

use super::change::unmake;
use super::directory::{make_again, name_again, unfollow};
use super::held::digest_of;
use super::journal::{RunJournal, Written};
use super::name_state::{NameState, Names, WantedName};
use super::past::own;
use super::place::{Directories, ExaminedName};
use super::prepare::{require_changeable_directory, require_undoable};
use super::record::{NameOf, OldFile, StepRecord};
use super::refusal::unless_stopped;
use super::run_record::{JournalLine, RunRecord};
use super::settle::settle;
use super::twin::KnownFile;
use super::undone::failed;
pub use super::undone::{TellUndone, Undone, UndoneStep};
use super::{Action, BATCH, BATCH_BYTES, Error, RefusalReason, Unwatched, cannot, of_kept};
use crate::Stop;
use crate::visible::visible_path;

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
        settle(&journal, &lines, stop, &|_, _| (), watch)?;
        lines = journal.read()?;
    }
    undo_steps(journal, &lines, &|_| true, stop, tell, watch)
}

/// Opens a journal that this machine may undo.
pub(super) fn opened(path: &Path) -> Result<(RunJournal, RunRecord), Error> {
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

/// Restores the files that a killed undo was restoring.
pub(super) fn finish_undo(
    journal: RunJournal,
    lines: &RunRecord,
    stop: &Stop,
    tell: TellUndone<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let is_begun = |entry: &StepRecord| {
        lines.restored.contains_key(&entry.number) && lines.undone.get(&entry.number) != Some(&true)
    };
    undo_steps(journal, lines, &is_begun, stop, tell, watch)
}

fn undo_steps(
    journal: RunJournal,
    lines: &RunRecord,
    is_meant: &dyn Fn(&StepRecord) -> bool,
    stop: &Stop,
    tell: TellUndone<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let mut undoing = Undoing {
        action: &lines.header.action,
        journal,
        directories: Directories::default(),
        block: Vec::new(),
        stop,
        watch,
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
        let batch = undoing.make_all(&mut entries, lines);
        undoing.record(std::mem::take(&mut named))?;
        if batch.is_empty() {
            break;
        }
        named.extend(batch.into_iter().map(|restoring| undoing.finish(restoring, of, tell)));
        undoing.directories.close();
    }
    undoing.finish_directories();
    if undoing.has_failed && !undoing.has_restored {
        undoing.journal.add(&JournalLine::Tried);
    }
    undoing.journal.sync(watch)
}

/// An undo at work.
struct Undoing<'a> {
    action: &'a Action,
    journal: RunJournal,
    directories: Directories,
    block: Vec<u8>,
    stop: &'a Stop,
    watch: &'a dyn Watch,
    written: Written,
    /// Directories that are there again, and what those that were made get when their files are back.
    made_directories: Vec<(NameOf, Option<(KnownFile, OldFile)>)>,
    has_restored: bool,
    has_failed: bool,
}

/// A step that is being undone.
struct Restoring<'e> {
    entry: &'e StepRecord,
    /// Whether a journal says that it is undone.
    was_undone: bool,
    /// The outcome of each name, as far as it is known.
    told: Vec<Option<Undone>>,
    wanted: Vec<WantedName>,
    file: Option<Arc<File>>,
    /// Whether the file already has a temporary name.
    is_named: bool,
}

impl Restoring<'_> {
    /// Whether a stop came before the outcome of a name was known.
    fn is_stopped(&self) -> bool {
        let is_stopped = |told: &Option<Undone>| matches!(told, Some(Undone::Failed { why }) if why.is_stopped());
        self.told.iter().any(is_stopped)
    }
}

impl Undoing<'_> {
    fn names(&self) -> Names<'_> {
        Names {
            action: self.action,
            directories: &self.directories,
            stop: self.stop,
            watch: self.watch,
        }
    }

    /// Begins undoing steps: makes the files that are to get names, and writes in the journal which they are.
    fn make_all<'e>(
        &mut self,
        entries: &mut dyn Iterator<Item = &'e StepRecord>,
        lines: &RunRecord,
    ) -> Vec<Restoring<'e>> {
        let open_max = (sys::open_files_max() / 4).max(1);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH && bytes < BATCH_BYTES && batch.len() + self.directories.len() < open_max {
            let Some(entry) = entries.next().filter(|_| !self.stop.is_stopped()) else {
                break;
            };
            bytes = entry.step.file.state.bytes.saturating_add(bytes);
            batch.extend(self.make(entry, lines));
        }
        batch
    }

    fn make<'e>(&mut self, entry: &'e StepRecord, lines: &RunRecord) -> Option<Restoring<'e>> {
        let mut restoring = Restoring {
            entry,
            was_undone: lines.undone.get(&entry.number) == Some(&true),
            told: vec![None; entry.names.len()],
            wanted: Vec::new(),
            file: None,
            is_named: false,
        };
        if !lines.outcomes.contains_key(&entry.number) {
            let why = |name: &NameOf| RefusalReason::KilledInStep(name.temporary.clone());
            restoring.told = entry.names.iter().map(|name| Some(failed(why(name)))).collect();
            return Some(restoring);
        }
        match self.action {
            _ if entry.step.file.is_directory => {
                if restoring.was_undone {
                    return None;
                }
                let restored = self.restore_directory(entry, lines);
                restoring.told = vec![Some(restored.map_or_else(failed, |()| Undone::Restored))];
            }
            action
                if restoring.was_undone && (action.moves() || *action == Action::Reflink) && !self.is_moved(entry) =>
            {
                return None;
            }
            Action::Reflink => {
                restoring.told.fill(Some(Undone::Nothing));
            }
            Action::Move { .. } | Action::Trash { .. } | Action::Aside => {}
            Action::Remove | Action::Names | Action::Hardlink | Action::Symlink { .. } => {
                self.restore(&mut restoring, lines);
            }
        }
        Some(restoring)
    }

    /// Gives names to what was made for a step. Returns its number, and whether nothing is left to undo. Of a step in which it was
    /// stopped, nothing is told.
    fn finish(&mut self, mut restoring: Restoring<'_>, of: u64, tell: TellUndone<'_>) -> (u64, bool) {
        let entry = restoring.entry;
        let is_moved = self.action.moves();
        if is_moved && !entry.step.file.is_directory {
            let moved = entry.names.iter().map(|name| Some(self.move_back(entry, name)));
            restoring.told = moved.collect();
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
            let Some(undone) = undone else { continue };
            match undone {
                Undone::Failed { .. } => is_undone = false,
                Undone::Restored | Undone::Apart { .. } => {
                    if let Ok(place) = entry.place(&name.path, &self.directories) {
                        self.written.note(&place);
                    }
                    self.has_restored |= has_changed;
                }
                Undone::Nothing => {}
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

    /// Syncs what was made and named, then writes in the journal which steps are undone.
    fn record(&mut self, named: Vec<(u64, bool)>) -> Result<(), Error> {
        self.journal.commit(&self.written, self.watch, |journal| {
            for (step, is_undone) in named {
                journal.add(&JournalLine::Undone { step, is_undone });
            }
        })
    }

    /// Makes a directory again that was removed. Another one that has its name stays.
    fn restore_directory(&mut self, entry: &StepRecord, lines: &RunRecord) -> Result<(), RefusalReason> {
        let name = &entry.names[0];
        let place = entry
            .place(&name.path, &self.directories)
            .map_err(cannot("open its directory"))?;
        let mut made = lines.restored.get(&entry.number).cloned().unwrap_or_default();
        if place.facts().map_err(cannot("stat"))?.is_none() {
            require_changeable_directory(&name.path)?;
            let directory = make_again(entry, &place, self.watch)?;
            made.push(self.write_down(entry, &directory)?);
            name_again(entry, &place, self.watch)?;
        }
        let ours = made.into_iter().find(|made| made.is_at(&place, &place.name));
        self.made_directories
            .push((name.clone(), ours.map(|made| (made, entry.old.clone()))));
        Ok(())
    }

    /// Gives directories their times, which changed when their files came back, and removes those that the files were moved to.
    fn finish_directories(&self) {
        for (name, ours) in self.made_directories.iter().rev() {
            unfollow(name, &self.directories);
            let Some((made, old)) = ours else { continue };
            let directory = self.directories.place(&name.path).and_then(|place| place.open());
            if let Some(directory) = directory.ok().filter(|directory| made.is_open(directory)) {
                // A time that cannot be set is no reason to undo again.
                let _ = old.give_times(&directory);
            }
        }
    }

    /// Removes the directories that were made for a file that is back.
    fn unmake(&self, name: &NameOf) -> Undone {
        let to = name.moved_to.as_deref().unwrap_or(Path::new("/"));
        match unmake(name, &self.directories) {
            Ok(()) => Undone::Restored,
            Err(error) => failed(RefusalReason::DirectoryStays(to.to_owned(), error.to_string())),
        }
    }

    /// Whether something is where the run moved it.
    fn is_moved(&self, entry: &StepRecord) -> bool {
        let moved_to = entry.names.iter().filter_map(|name| name.moved_to.as_deref());
        let mut places = moved_to.filter_map(|to| entry.place(to, &self.directories).ok());
        // If it was stopped, moving it back says so.
        places.any(|there| entry.is_moved_to(self.action, &there, self.stop).unwrap_or(true))
    }

    fn move_back(&self, entry: &StepRecord, name: &NameOf) -> Undone {
        let to = name.moved_to.as_deref().unwrap_or(Path::new("/"));
        let shown = visible_path(to);
        let place = match entry.place(&name.path, &self.directories) {
            Ok(place) => place,
            Err(error) => return failed(cannot("open its directory")(error)),
        };
        let there = match self.moved_place(entry, to, &place) {
            Ok(Some(there)) => there,
            Ok(None) => return self.unmake(name),
            Err(why) => return failed(why),
        };
        if let Err(why) = require_undoable(self.action, name) {
            return failed(why);
        }
        match there.rename(&there.name, &place, &place.name, self.watch) {
            Ok(()) => self.unmake(name),
            Err(error) => failed(cannot(format!("move it back from {shown}"))(error)),
        }
    }

    /// The place that a file was moved to; `None` if the file is back at its old place.
    fn moved_place(
        &self,
        entry: &StepRecord,
        to: &Path,
        old: &ExaminedName,
    ) -> Result<Option<ExaminedName>, RefusalReason> {
        let stopped = unless_stopped("compare");
        let missing = match entry.place(to, &self.directories) {
            Ok(there) => {
                if entry.is_moved_to(self.action, &there, self.stop).map_err(&stopped)? {
                    return Ok(Some(there));
                }
                RefusalReason::NotMoved(to.to_owned())
            }
            // A killed undo may have removed the directory.
            Err(error) => cannot(format!("open the directory of {}", visible_path(to)))(error),
        };
        let is_back = entry.is_at(old, &old.name, self.stop).map_err(stopped)?;
        if is_back { Ok(None) } else { Err(missing) }
    }

    /// Makes a file whose names were removed or replaced by links, unless one of its names still leads to it.
    fn restore(&mut self, restoring: &mut Restoring<'_>, lines: &RunRecord) {
        let entry = restoring.entry;
        let made = lines.restored.get(&entry.number).map_or(&[][..], Vec::as_slice);
        for (at, name) in entry.names.iter().enumerate() {
            let known = entry.place(&name.path, &self.directories).and_then(|place| {
                let state = self.now(entry, name, &place, made)?;
                Ok((place, state))
            });
            let mut want = |place, torn| {
                restoring.wanted.push(WantedName { at, place, torn });
                None
            };
            restoring.told[at] = match known {
                Ok((place, NameState::Old)) => {
                    restoring.file = restoring.file.take().or_else(|| place.open().ok().map(Arc::new));
                    Some(Undone::Restored).filter(|_| !restoring.was_undone)
                }
                Ok((_, NameState::Restored(file))) => {
                    restoring.file.get_or_insert(file);
                    Some(Undone::Restored).filter(|_| !restoring.was_undone)
                }
                Ok((place, NameState::Acted)) => want(place, None),
                Ok((place, NameState::Torn(torn))) => want(place, Some(torn)),
                // It was restored, and is another program's now.
                Ok((_, NameState::Other(_) | NameState::Aside(_))) | Err(_) if restoring.was_undone => None,
                Ok((_, NameState::Other(why) | NameState::Aside(why))) => Some(failed(why)),
                Err(error) => Some(failed(unless_stopped("open its directory")(error))),
            };
        }
        let (None, Some(WantedName { at, place, .. })) = (&restoring.file, restoring.wanted.first()) else {
            return;
        };
        let made = match self.action {
            Action::Names => self.names().kept_itself(entry).map(|file| (file, false)),
            _ => self.copy(entry, place, &entry.names[*at]),
        };
        match made {
            Ok((file, is_named)) => {
                self.written.note(place);
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
    fn now(
        &self,
        entry: &StepRecord,
        name: &NameOf,
        place: &ExaminedName,
        made: &[KnownFile],
    ) -> io::Result<NameState> {
        // In an append-only directory, links can be made, but not removed again.
        if self.action.makes_links()
            && let Err(why) = require_changeable_directory(&name.path)
        {
            return Ok(NameState::Other(why));
        }
        let state = self.names().state(entry, name, place, made)?.0;
        if matches!(state, NameState::Acted | NameState::Torn(_))
            && let Err(why) = require_undoable(self.action, name)
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
            let given = self.names().give_name(entry, &wanted, file, is_named);
            restoring.told[wanted.at] = Some(given.map_or_else(failed, |()| Undone::Restored));
        }
        if names > 0 && !entry.acted_on().is_open(file) {
            for told in &mut restoring.told {
                if *told == Some(Undone::Restored) {
                    *told = Some(Undone::Apart { names });
                }
            }
        }
    }

    /// Makes a copy of the kept file with the metadata of the one that was removed. Returns whether it has the temporary name.
    fn copy(&mut self, entry: &StepRecord, place: &ExaminedName, name: &NameOf) -> Result<(File, bool), RefusalReason> {
        let keep = &entry.step.keep.path;
        let kept = self.names().kept(entry);
        let kept = kept.map_err(|error| of_kept(keep)(cannot("open")(error)))?;
        let changed = || RefusalReason::KeptChanged(keep.clone());
        let metadata = kept.metadata().map_err(|error| of_kept(keep)(cannot("stat")(error)))?;
        if !metadata.is_file() || metadata.len() != entry.step.file.state.bytes {
            return Err(changed());
        }
        let (temporary, unmade) = (OsStr::new(&name.temporary), cannot("make a new file"));
        let told = self.watch.announce(StepKind::Make, &place.beside(temporary));
        told.map_err(&unmade)?;
        let made = place.change(|directory| make_new(directory, temporary));
        let (file, unnamed) = made.map_err(&unmade)?;
        let is_named = unnamed.is_none();
        let filled = self.fill(entry, &kept, &file);
        match filled.and_then(|is_equal| if is_equal { Ok(()) } else { Err(changed()) }) {
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
    fn write_down(&mut self, entry: &StepRecord, new: &File) -> Result<KnownFile, RefusalReason> {
        let made = KnownFile::of(new).map_err(cannot("stat the new file"))?;
        self.journal.add(&JournalLine::Restoring {
            step: entry.number,
            file: made,
        });
        let written = self.journal.write(self.watch);
        written.map_err(|error| RefusalReason::Journal(error.to_string()))?;
        Ok(made)
    }

    /// Fills a new file, after the journal says which it is; returns whether its bytes are those of the removed file.
    fn fill(&mut self, entry: &StepRecord, kept: &File, new: &File) -> Result<bool, RefusalReason> {
        self.write_down(entry, new)?;
        entry.old.give_flags(new)?;
        if !matches!(sys::clone_file(kept, new), Ok(Support::Available(()))) {
            let goes_on = |_, _| self.stop.go_on();
            let planned = Job::new().over(Destination::Overwrite).telling(&goes_on);
            let done = planned.copy(Part::of_file(kept), Part::of_file(new));
            done.map_err(|error| match error {
                seekless::Error::Stopped { .. } => RefusalReason::Stopped,
                error => cannot("copy")(seekless::full_text(&error)),
            })?;
        }
        let length = new.metadata().map_err(cannot("stat the new file"))?.len();
        let digest = digest_of(new, length, &mut self.block, &|| !self.stop.is_stopped());
        let digest = digest.map_err(unless_stopped("read the new file"))?;
        if (length, &digest) != (entry.step.file.state.bytes, &entry.digest) {
            return Ok(false);
        }
        entry.old.give_attributes(new)?;
        Ok(true)
    }
}
