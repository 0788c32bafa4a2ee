//! What is done with duplicates: the plan, what came of it, and the journals by which it can be undone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use seekless_results::{bytes, visible};
use seekless_tools::dupes::act::choose::{ActPlan, GroupChoice, RefusedPart};
use seekless_tools::dupes::act::{Action, NothingToGain, Ran, RecoveredAct, RefusalReason, Step, StepOutcome};
use seekless_tools::dupes::links_elsewhere;
use seekless_tools::json::written;
use serde_json::{Value, json};

use super::dupes::{linked_elsewhere, say};
use super::escape::{object, visible_path, with_path};
use super::objects::{JsonForm, Objects};
use super::page::Page;
use super::progress::buffered_stdout;
use super::units::{and_also, files, subjects};
use super::wrap::Width;
use super::{BOLD, DIM, PLAIN, WARNING};

/// Writes a plan, and what came of its steps.
pub struct ActReport {
    objects: Objects,
    action: Action,
    directory: PathBuf,
    /// Files, and directories, that will be acted on.
    planned: [u64; 2],
    planned_bytes: u64,
    /// Directories that were acted on.
    directories_done: u64,
    refused: u64,
    left: u64,
    /// Space that files left alone keep: those that the plan leaves alone, and others.
    left_bytes: [u64; 2],
    /// Steps that would gain nothing, by the reason.
    needless: BTreeMap<NothingToGain, u64>,
    failed: u64,
    ran: Option<Ran>,
}

/// The block that most file systems allocate.
const BLOCK_BYTES: u64 = 4096;
/// The width of the column before the paths.
const WORD: usize = 8;

impl ActReport {
    /// Nothing is written yet.
    pub fn new(action: &Action, json: Option<JsonForm>) -> Self {
        Self {
            objects: Objects::new(json, "results"),
            action: action.clone(),
            directory: std::env::current_dir().unwrap_or_default(),
            planned: [0; 2],
            planned_bytes: 0,
            directories_done: 0,
            refused: 0,
            left: 0,
            left_bytes: [0; 2],
            needless: BTreeMap::new(),
            failed: 0,
            ran: None,
        }
    }

    /// Whether a step failed.
    pub fn has_failed(&self) -> bool {
        self.failed > 0
    }

    /// Whether a file was left alone that was to be acted on.
    pub fn has_left(&self) -> bool {
        self.left > 0
    }

    /// Whether a file was left out because nothing would be gained.
    pub fn has_needless(&self) -> bool {
        !self.needless.is_empty()
    }

    /// A path, relative to the working directory if it is below it.
    fn shown(&self, path: &Path) -> String {
        visible_path(path.strip_prefix(&self.directory).unwrap_or(path))
    }

    /// Writes a line of a plan, or a file, that is refused, to standard error, too.
    pub fn refused(&mut self, refused: &RefusedPart) -> io::Result<()> {
        self.refused += 1;
        let path = refused.path.as_deref().map(|path| self.shown(path));
        let place = (!refused.place.is_empty()).then(|| refused.place.clone());
        let words: Vec<String> = [place, path].into_iter().flatten().collect();
        let why = refused.why.to_string();
        say(&format!("refused: {}: {}", words.join(", "), visible(&why)));
        let json = json!({"place": refused.place, "reason": why});
        self.object(&object("refused", json, refused.path.as_deref()))
    }

    /// Writes what stays, why, and what will be done, except for steps with an outcome in `left`.
    pub fn plan(&mut self, chosen: &ActPlan, left: &[Option<StepOutcome>], is_dry_run: bool) -> io::Result<()> {
        let (mut rest, mut page) = (left, page());
        for choice in &chosen.choices {
            let (outcomes, more) = rest.split_at(choice.steps.len());
            rest = more;
            self.count(choice, outcomes);
            if !self.objects.are_wanted() {
                self.choice(choice, outcomes, &mut page)?;
                continue;
            }
            for (step, outcome) in choice.steps.iter().zip(outcomes) {
                if outcome.is_some() || is_dry_run {
                    self.object(&self.step_json(step, outcome.as_ref()))?;
                }
            }
        }
        if self.objects.are_wanted() {
            return Ok(());
        }
        let mut words = self.to_do();
        if self.planned != [0, 0] && !self.action.moves() {
            // Blocks past the end of a file are not shared.
            let most = if self.action == Action::Reflink { "up to " } else { "" };
            let _ = write!(words, ", {most}{} to gain", bytes(self.planned_bytes));
        }
        page.say(PLAIN, &(words + "."))?;
        let alone = left_alone(self.left_bytes[0]);
        page.left_out(&[
            (
                chosen.whole,
                "group in which every file stays",
                "groups in which every file stays",
            ),
            (self.left, &format!("file {alone}"), &format!("files {alone}")),
            (self.refused, "refused entry", "refused entries"),
        ])?;
        if chosen.apart_bytes > 0 {
            let apart = bytes(chosen.apart_bytes);
            let why = "they are on several file systems, which hard links and shared blocks cannot cross";
            page.say(DIM, &format!("{apart} of equal files stay: {why}."))?;
        }
        page.flush()?;
        self.needless()
    }

    /// What the action does with files, as in `move files`.
    pub fn wish(&self) -> String {
        let [verb, _, how] = self.words();
        format!("{verb} files{how}")
    }

    /// What is to be done with how many files.
    fn to_do(&self) -> String {
        let [verb, _, how] = self.words();
        match self.planned {
            [0, 0] => "Nothing to do".to_owned(),
            [files, directories] => format!("{} to {verb}{how}", subjects(files, directories)),
        }
    }

    /// The verb of the action, what is said of what was done, and what follows both.
    fn words(&self) -> [&'static str; 3] {
        match self.action {
            Action::Remove => ["remove", "removed", ""],
            Action::Names => ["reduce", "reduced", " to fewer names"],
            Action::Hardlink => ["replace", "replaced", " with hard links"],
            Action::Symlink { .. } => ["replace", "replaced", " with symbolic links"],
            Action::Reflink if self.ran.as_ref().is_some_and(|ran| ran.done == 1) => {
                ["reflink", "now shares blocks", ""]
            }
            Action::Reflink => ["reflink", "now share blocks", ""],
            Action::Move { .. } => ["move", "moved", ""],
            Action::Trash { .. } => ["move", "moved", " to the trash"],
            Action::Quarantine => ["move", "moved", " to .seekless-trash-… beside them"],
        }
    }

    fn count(&mut self, choice: &GroupChoice, outcomes: &[Option<StepOutcome>]) {
        for (step, outcome) in choice.steps.iter().zip(outcomes) {
            match outcome {
                Some(StepOutcome::Needless { why }) => *self.needless.entry(*why).or_default() += 1,
                Some(_) => {
                    self.left += 1;
                    self.left_bytes[0] += step.own_bytes;
                }
                None => {
                    self.planned[usize::from(step.file.is_directory)] += 1;
                    self.planned_bytes += match self.action {
                        // Names that the search did not see do not keep blocks from being shared.
                        Action::Reflink if step.own_bytes == 0 => step.file.state.bytes.next_multiple_of(BLOCK_BYTES),
                        _ => step.own_bytes,
                    };
                }
            }
        }
    }

    /// Whether a file gets another mtime.
    fn loses_time(&self, step: &Step) -> bool {
        self.action == Action::Hardlink && step.file.state.modified_ns != step.keep.state.modified_ns
    }

    /// What else is to be known of a file that is acted on.
    fn note(&self, step: &Step) -> Option<String> {
        let path = step.file.paths.first()?;
        let links = match self.action {
            Action::Names => 0,
            _ => links_elsewhere(path, step.file.paths.len(), step.own_bytes),
        };
        let time = self.loses_time(step).then(|| "loses its mtime".to_owned());
        let links = (links > 0 && !step.file.is_directory).then(|| linked_elsewhere(links));
        let notes: Vec<String> = [time, links].into_iter().flatten().collect();
        (!notes.is_empty()).then(|| notes.join(", "))
    }

    /// Writes what is done with a group.
    fn choice(&self, choice: &GroupChoice, outcomes: &[Option<StepOutcome>], page: &mut Page<'_>) -> io::Result<()> {
        let is_needless = |outcome: &Option<StepOutcome>| matches!(outcome, Some(StepOutcome::Needless { .. }));
        if outcomes.iter().all(is_needless) {
            return Ok(());
        }
        if choice.kept.is_empty() {
            writeln!(page, "{BOLD}Directories to remove if left empty{BOLD:#}")?;
        } else {
            writeln!(page, "{BOLD}Equal files of {}{BOLD:#}", bytes(choice.bytes))?;
        }
        let mut line = |word: &str, path: &Path, is_directory: bool, notes: [Option<&str>; 2]| {
            let (path, end) = (self.shown(path), if is_directory { "/" } else { "" });
            let style = if word == "leave" { WARNING } else { PLAIN };
            write!(page, "  {style}{word:WORD$}{style:#}  {path}{end}")?;
            for note in notes.into_iter().flatten() {
                write!(page, "{DIM}  ({}){DIM:#}", visible(note))?;
            }
            writeln!(page)
        };
        let same = |index: usize| (index > 0).then_some("same file");
        for kept in &choice.kept {
            for (index, path) in kept.paths.iter().enumerate() {
                let why = same(index).map_or_else(|| kept.why.to_string(), str::to_owned);
                line("keep", path, false, [Some(&why), None])?;
            }
        }
        for (step, outcome) in choice.steps.iter().zip(outcomes) {
            let why = outcome.as_ref().and_then(StepOutcome::why).map(String::from);
            if is_needless(outcome) {
                continue;
            }
            let note = why.clone().or_else(|| self.note(step));
            let (why, note) = (why.as_deref(), note.as_deref());
            for (index, path) in step.file.paths.iter().enumerate() {
                let word = match why {
                    Some(_) => "leave",
                    None if step.file.is_directory => "remove",
                    None => self.action.word(),
                };
                line(word, path, step.file.is_directory, [same(index), note])?;
            }
        }
        writeln!(page)
    }

    /// Says how many files are left out because nothing would be gained: a line for each reason.
    pub fn needless(&self) -> io::Result<()> {
        let mut told = self.needless.iter().filter(|_| !self.objects.are_wanted());
        told.try_for_each(|(needless, count)| tell(&format!("{} left out: {needless}.", files(*count))))
    }

    /// Writes what came of a step: to standard error if it was not done.
    pub fn outcome(&mut self, step: &Step, outcome: &StepOutcome) -> io::Result<()> {
        let tell = |told: &str, why: &RefusalReason| {
            let shown = self.shown(&step.file.paths[0]);
            say(&format!("{shown}: {told}: {}", visible(&why.to_string())));
        };
        match outcome {
            StepOutcome::Done { .. } => self.directories_done += u64::from(step.file.is_directory),
            StepOutcome::Needless { why } => *self.needless.entry(*why).or_default() += 1,
            StepOutcome::Left { why } => {
                tell("left alone", why);
                self.left += 1;
                self.left_bytes[1] += step.own_bytes;
            }
            StepOutcome::Failed { why } => {
                tell("failed", why);
                self.failed += 1;
            }
        }
        self.object(&self.step_json(step, Some(outcome)))
    }

    /// Says what became of a file, or of the journal, of a run that was killed before, on standard error.
    pub fn recovered(&self, path: &Path, recovered: &RecoveredAct) {
        let words = match recovered {
            RecoveredAct::Run { done, left, failed } => {
                let (done, failed) = (files(*done), and_also(*failed, "not settled"));
                format!("earlier run was killed: {done} done, {left} put back or not begun{failed}")
            }
            RecoveredAct::PutBack => "put back after an earlier run was killed".to_owned(),
            RecoveredAct::Failed { why } => format!(
                "not settled after an earlier run was killed: {}",
                visible(&why.to_string())
            ),
        };
        say(&format!("{}: {words}", self.shown(path)));
    }

    /// Counts a step that was not begun.
    pub fn skip(&mut self) {
        self.left += 1;
    }

    /// Notes what a run did.
    pub fn ran(&mut self, ran: Ran) {
        self.ran = Some(ran);
    }

    /// Says that the answer was no.
    pub fn nothing_done(&mut self) -> io::Result<()> {
        self.left += self.planned.iter().sum::<u64>();
        tell("Nothing was done.")
    }

    /// The question whether to do it.
    pub fn question(&self) -> String {
        let [files, directories] = self.planned;
        let subjects = subjects(files, directories);
        let [verb, _, how] = self.words();
        let more = match &self.action {
            Action::Reflink => return format!("Let {subjects} share blocks?"),
            Action::Move { to } => format!(" to {}", self.shown(to)),
            Action::Quarantine => ", with what other programs write to them meanwhile".to_owned(),
            _ => String::new(),
        };
        format!("{}{} {subjects}{how}{more}?", verb[..1].to_uppercase(), &verb[1..])
    }

    /// Says where a plan is, and what it does.
    pub fn plan_written(&mut self, file: &Path, planned: u64) -> io::Result<()> {
        self.planned = [planned, 0];
        let (shown, to_do) = (visible_path(file), self.to_do());
        tell(&format!(
            "{to_do}; the plan is {shown}. To act: seekless dupes act --plan {shown}"
        ))
    }

    /// Writes the sum of what was done.
    pub fn finish(&mut self) -> io::Result<()> {
        let ran = self.ran.clone().unwrap_or_default();
        if self.objects.are_wanted() {
            let summary = json!({
                "action": self.action.word(),
                "planned": self.planned.iter().sum::<u64>(),
                "planned_bytes": self.planned_bytes,
                "done": ran.done,
                "gained_bytes": ran.gained_bytes,
                "left": self.left,
                "left_bytes": self.left_bytes.iter().sum::<u64>(),
                "needless": self.needless.values().sum::<u64>(),
                "failed": self.failed,
                "refused": self.refused,
                "stopped": ran.is_stopped,
                "kind": "summary",
            });
            let (mut page, journal) = (page(), ran.journal.as_deref());
            self.objects
                .finish(&mut page, &with_path(summary, "journal", journal))?;
            return page.flush();
        }
        if self.ran.is_none() {
            return Ok(());
        }
        let [_, word, how] = self.words();
        let done = subjects(ran.done.saturating_sub(self.directories_done), self.directories_done);
        let gained = (!self.action.moves()).then(|| format!(", {} gained", bytes(ran.gained_bytes)));
        let needless = (ran.needless, "with nothing to gain");
        let left = left_alone(self.left_bytes[1]);
        let counts = [needless, (ran.left, &left), (ran.failed, "failed")];
        let counts = counts.map(|(number, what)| and_also(number, what)).concat();
        let gained = gained.unwrap_or_default();
        let stopped = if ran.is_stopped { "; stopped before the end" } else { "" };
        let undo = match &ran.journal {
            _ if ran.is_journal_lost => " It cannot be undone: another program removed or renamed the journal",
            Some(_) if ran.done > 0 && self.action != Action::Reflink => " To undo: seekless dupes undo",
            _ => "",
        };
        tell(&format!("{done} {word}{how}{gained}{counts}{stopped}.{undo}"))
    }

    fn object(&mut self, object: &Value) -> io::Result<()> {
        if !self.objects.are_wanted() {
            return Ok(());
        }
        let mut page = page();
        self.objects.write(&mut page, object)?;
        page.flush()
    }

    /// A step, planned or with its outcome.
    fn step_json(&self, step: &Step, outcome: Option<&StepOutcome>) -> Value {
        let mut json = written(step);
        json.as_object_mut().map(|fields| fields.remove("own_bytes"));
        json["kind"] = "step".into();
        json["action"] = self.action.word().into();
        json["outcome"] = outcome.map_or("planned".into(), |outcome| json!(outcome)["outcome"].take());
        json["reason"] = outcome.and_then(StepOutcome::why).map(String::from).into();
        if let Some(StepOutcome::Done { gained_bytes }) = outcome {
            json["gained_bytes"] = (*gained_bytes).into();
        }
        json
    }
}

/// What is said of files that were left alone, and of the space that they keep.
fn left_alone(kept_bytes: u64) -> String {
    let space = (kept_bytes > 0).then(|| format!(" ({})", bytes(kept_bytes)));
    "left alone".to_owned() + &space.unwrap_or_default()
}

fn page() -> Page<'static> {
    Page::new(buffered_stdout(), Width::of_stdout())
}

/// Writes a line of words.
fn tell(words: &str) -> io::Result<()> {
    let mut page = page();
    page.say(PLAIN, words)?;
    page.flush()
}
