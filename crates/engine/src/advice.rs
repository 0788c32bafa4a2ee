//! Advice on a task that need not be at hand: a file of a size, in the page cache or not.

use std::fs::File;
use std::path::Path;

use seekless_method::{Durability, Method, Operation};

use crate::error::{Error, Result};
use crate::facts::{Facts, Seeks, shares_blocks};
use crate::files::{directory_of, require_regular};
use crate::plan::{self, Plan, Predicted, SizeChoice, Task};
use crate::profile::{StorageProfile, Unfit};

/// What is asked about a file, or about a file in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What is to be done: read, write, copy or compare.
    pub operation: Operation,
    /// The file or directory.
    pub path: &'a Path,
    /// The size in bytes; `None` for that of the file.
    pub bytes: Option<u64>,
    /// The part that is in the page cache, 0 to 1; `None` for that of the file, and 0 for no file.
    pub resident: Option<f64>,
    /// What must be on the device at the end.
    pub durability: Durability,
}

/// The answer.
#[derive(Debug)]
pub struct FileAdvice {
    /// The size asked about, in bytes.
    pub bytes: u64,
    /// The part that is in the page cache.
    pub resident: f64,
    /// The plan.
    pub plan: Plan,
    /// All measured methods that can be used, with their times, the fastest first; empty without a profile.
    pub alternatives: Vec<(Method, Predicted)>,
    /// The methods to use for other sizes.
    pub choices: Vec<SizeChoice>,
    /// The profile that it rests on, or why it rests on none.
    pub profile: std::result::Result<&'static StorageProfile, Unfit>,
}

/// Plans a task on a file that exists, or that is imagined. Without a profile, it measures for at most 100 ms.
///
/// # Errors
/// The system's, if the path cannot be examined; [`Error::NotRegular`] for what is neither a file nor a directory.
pub fn advise(question: &Question<'_>) -> Result<FileAdvice> {
    let Question {
        operation,
        path,
        durability,
        ..
    } = *question;
    let failed = |error| Error::system(path, "stat", error);
    let metadata = path.metadata().map_err(failed)?;
    let directory = if metadata.is_dir() { path } else { directory_of(path) };
    if !metadata.is_dir() {
        require_regular(path, &metadata)?;
    }
    let file = metadata.is_file().then(|| File::open(path)).transpose();
    let file = file.map_err(|error| Error::system(path, "open", error))?;
    let new = Facts::of_new_file(directory)?;
    let mut facts = match &file {
        Some(file) => Facts::of(path, file, &metadata),
        None => new,
    };
    let bytes = question.bytes.unwrap_or(facts.files[0].bytes);
    let resident = question.resident.or(facts.files[0].resident).unwrap_or(0.0);
    if file.is_none() || bytes != facts.files[0].bytes {
        facts.files[0].allocated_bytes = bytes;
    }
    facts.files[0].bytes = bytes;
    facts.files[0].resident = Some(resident);
    facts.files[0].direct_alignment = facts.files[0].direct_alignment.or(new.files[0].direct_alignment);
    facts.files[1] = if operation == Operation::Compare {
        facts.files[0]
    } else {
        new.files[0]
    };
    facts.free_bytes = new.free_bytes;
    let task = Task { bytes, durability };
    facts.can_share =
        operation == Operation::Copy && plan::depends_on_sharing(&task, &facts) && shares_blocks(directory);
    let planned = |facts: &Facts| match operation {
        Operation::Write => plan::write(&task, facts),
        Operation::Copy => plan::copy(&task, facts),
        Operation::Compare => plan::compare(&task, facts),
        Operation::Read | Operation::Update => plan::read(&task, facts),
    };
    let alternatives = plan::alternatives(operation, &task, &facts);
    if alternatives.len() < 2 {
        let part = crate::Part::whole(&path);
        if matches!(operation, Operation::Write | Operation::Copy) {
            facts.measure_writing(&part);
        }
        if let Some(file) = file.filter(|_| operation != Operation::Write) {
            facts.measure_reading(path, &file);
            if plan::depends_on_seeks(&task, &facts) && operation == Operation::Compare {
                facts.seeks = Seeks::between([(path, 0), (path, bytes / 2)], bytes / 2);
            }
        }
    }
    let missing = || StorageProfile::of(path).err().unwrap_or(Unfit::Missing);
    let profile = facts.profile.ok_or_else(missing);
    let choices = profile
        .as_ref()
        .map(|profile| plan::choices(profile, operation, durability, resident));
    Ok(FileAdvice {
        bytes,
        resident,
        plan: planned(&facts),
        alternatives,
        choices: choices.unwrap_or_default(),
        profile,
    })
}
