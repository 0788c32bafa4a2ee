//! Undoing what was done with duplicates: what comes of each file, and the journals by which it can be undone.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use seekless_results::{bytes, visible};
use seekless_tools::dupes::act::journal::PastRun;
use seekless_tools::dupes::act::undo::{UndoOutcome, UndoneStep};
use serde_json::{Value, json};

use super::PLAIN;
use super::dupes::{linked_elsewhere, say};
use super::escape::{visible_path, with_path};
use super::page::Page;
use super::table::{TableRow, TextTable};
use super::units::{and_also, files, subjects};

/// What comes of files whose steps are undone, or would be. A file counts once, whatever its names.
#[derive(Debug, Default)]
pub struct UndoneFiles {
    /// Files, and directories.
    restored: [u64; 2],
    nothing: u64,
    failed: u64,
}

impl UndoneFiles {
    /// Whether a file could not be restored.
    pub fn has_failed(&self) -> bool {
        self.failed > 0
    }

    /// Counts a step. What is not as before is told on standard error; `page` gets what would be restored.
    pub fn add(&mut self, step: &UndoneStep<'_>, mut page: Option<&mut Page<'_>>) -> io::Result<()> {
        *match step.names().map(|(_, undone)| undone).max() {
            Some(UndoOutcome::Failed { .. }) => &mut self.failed,
            Some(UndoOutcome::Nothing) => &mut self.nothing,
            Some(_) => &mut self.restored[usize::from(step.file.is_directory)],
            None => return Ok(()),
        } += 1;
        let end = if step.file.is_directory { "/" } else { "" };
        let [would, not] = if page.is_some() {
            ["would be ", "would not be "]
        } else {
            ["", "not "]
        };
        for (path, undone) in step.names() {
            let shown = visible_path(path) + end;
            match undone {
                UndoOutcome::Restored => {}
                UndoOutcome::Nothing => continue,
                UndoOutcome::Apart { names } => {
                    let why = linked_elsewhere(*names);
                    say(&format!("{shown}: {would}restored as a file of its own: it had {why}"));
                }
                UndoOutcome::Failed { why } => {
                    let why = why.to_string();
                    say(&format!("{shown}: {not}restored: {}", visible(&why)));
                    continue;
                }
            }
            if let Some(page) = &mut page {
                writeln!(page, "  restore  {shown}")?;
            }
        }
        Ok(())
    }

    /// Writes how many files are, or would be, restored.
    pub fn finish(&self, page: &mut Page<'_>, is_dry_run: bool) -> io::Result<()> {
        let [restored, directories] = self.restored;
        let subjects = subjects(restored, directories);
        let not = if is_dry_run {
            "that would not be restored"
        } else {
            "not restored"
        };
        let mut words = match (is_dry_run, restored + directories) {
            (false, _) => format!("{subjects} restored"),
            (true, 0) => "Nothing to restore".to_owned(),
            (true, _) => format!("{subjects} to restore"),
        };
        words += &and_also(self.failed, not);
        if self.nothing > 0 {
            let why = "files that share blocks have their own bytes and metadata";
            let count = files(self.nothing);
            let _ = write!(words, ", {count} with nothing to undo: {why}");
        }
        page.say(PLAIN, &(words + "."))?;
        page.flush()
    }
}

/// Writes a table of journals.
pub fn list_journals(
    page: &mut Page<'_>,
    journals: &[PastRun],
    started: &dyn Fn(&PastRun) -> String,
) -> io::Result<()> {
    if journals.is_empty() {
        return page.say(PLAIN, "No journals.");
    }
    let row = |journal: &PastRun| {
        let (action, state) = (journal.action.word().to_owned(), state_of(journal).to_owned());
        let (files, gained) = (journal.files.to_string(), bytes(journal.gained_bytes));
        TableRow::new(name_of(journal), vec![started(journal), action, files, gained, state])
    };
    let heads = ["started", "action", "files", "gained", ""];
    TextTable::new(Some("Journals"), &heads, journals.iter().map(row)).print(page, &[3, 0])
}

/// A journal as an object.
pub fn journal_json(journal: &PastRun, started: &str) -> Value {
    let object = json!({
        "name": name_of(journal),
        "started": started,
        "action": journal.action.word(),
        "files": journal.files,
        "directories": journal.directories,
        "undone": journal.undone,
        "gained_bytes": journal.gained_bytes,
        "state": state_of(journal),
    });
    with_path(object, "path", Some(&journal.path))
}

/// The name by which people name a journal.
pub fn name_of(journal: &PastRun) -> String {
    let name = journal.path.file_stem();
    name.map_or_else(String::new, |name| visible_path(Path::new(name)))
}

fn state_of(journal: &PastRun) -> &'static str {
    match journal {
        PastRun { is_running: true, .. } => "running",
        journal if journal.is_undone() => "undone",
        PastRun { is_tried: true, .. } => "undo failed",
        PastRun { undone: 1.., .. } => "partly undone",
        _ if journal.is_interrupted => "interrupted",
        _ => "done",
    }
}
