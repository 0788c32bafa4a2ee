//! Processing all files below a path: several small ones at a time, reported in the order of the walk, in bounded
//! memory.

use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::path::PathBuf;

use seekless_engine::Scanner;
use seekless_engine::batch::Threads;
use seekless_engine::facts::ProcessFacts;
use seekless_engine::plan::{self, FEWEST_TO_ASK, FILES_AHEAD, Scan};
use seekless_engine::walk::{FileAt, Walk};

use super::Left;
use super::selection::SelectionRules;

/// How a file is processed.
pub(crate) enum FileClass {
    /// Together with others.
    Small,
    /// Alone, by all threads.
    Large,
    /// Not at all, because it is another hard link of a processed file.
    Repeated,
}

/// Threads for the small files of a job: for many, as many as the plan for reading them says.
pub(crate) struct SmallFiles {
    process: ProcessFacts,
    few: Threads,
    many: OnceCell<Threads>,
}

impl SmallFiles {
    pub fn new() -> Self {
        // Each thread works on one file at a time.
        let process = ProcessFacts::without_rings();
        Self {
            few: Threads::new(plan::batch(&process).threads),
            many: OnceCell::new(),
            process,
        }
    }

    fn map<T: Send>(&self, files: &[FileAt], one: impl Fn(&FileAt) -> T + Sync) -> Vec<T> {
        let planned = || {
            let many = Scan::of_unknown(files.len());
            Threads::new(Scanner::batch_plan(files[0].path(), &many, &self.process).threads)
        };
        let are_few = files.len() < FEWEST_TO_ASK as usize;
        let threads = if are_few {
            &self.few
        } else {
            self.many.get_or_init(planned)
        };
        threads.map(files, one)
    }
}

/// The result of a file, or a path that could not be listed, and why.
pub(crate) type FileResult<'a, T> = Result<(&'a FileAt, T), (PathBuf, String)>;

/// Receives the results; `Break` ends the job.
pub(crate) type Tell<'a, T> = &'a mut dyn FnMut(&mut Left, FileResult<'_, T>) -> ControlFlow<()>;

/// Processes each file as `look` says, and reports its result. If the job is stopped, finished files are still
/// reported.
pub(crate) fn each_file<T: Send>(
    walk: &mut Walk<SelectionRules<'_>>,
    threads: &SmallFiles,
    look: &mut dyn FnMut(&FileAt) -> FileClass,
    work: &(dyn Fn(&FileAt) -> T + Sync),
    tell: Tell<'_, T>,
) -> ControlFlow<()> {
    let stop = walk.rules.stop;
    let work_on = |files: &mut Vec<FileAt>, left: &mut Left, tell: Tell<'_, T>| {
        let done = threads.map(files, |file| (!stop.is_stopped()).then(|| work(file)));
        for (file, done) in files.iter().zip(done) {
            if let Some(done) = done {
                tell(left, Ok((file, done)))?;
            }
        }
        files.clear();
        ControlFlow::Continue(())
    };
    let mut waiting = Vec::new();
    while let Some(found) = walk.next() {
        let file = match found {
            Ok(file) => file,
            Err(unlisted) => {
                tell(&mut walk.rules.left, Err(unlisted))?;
                continue;
            }
        };
        match look(&file) {
            FileClass::Small => waiting.push(file),
            FileClass::Large => {
                work_on(&mut waiting, &mut walk.rules.left, tell)?;
                work_on(&mut vec![file], &mut walk.rules.left, tell)?;
            }
            FileClass::Repeated => walk.rules.left.repeated += 1,
        }
        if waiting.len() == FILES_AHEAD {
            work_on(&mut waiting, &mut walk.rules.left, tell)?;
        }
    }
    work_on(&mut waiting, &mut walk.rules.left, tell)?;
    stop.go_on()
}
