//! Advice on a task that need not be at hand: a file of a size, in the page cache or not.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use seekless_method::{Durability, Method, Operation};
use seekless_record::UseSummary;

use crate::error::{Error, Result, UpdateErrorKind};
use crate::facts::{Facts, ProcessFacts, shares_blocks};
use crate::files::{directory_of, require_regular};
use crate::plan::{self, Gaps, Plan, PlanLimits, Predicted, Safety, SizeTimes, Task};
use crate::profile::{ProfileMismatch, Profiles, StorageProfile, StorageUses};
use crate::update::UpdateEstimate;

/// What is asked about a file, or about a file in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What is to be done.
    pub operation: Operation,
    /// The file or directory.
    pub path: &'a Path,
    /// The size in bytes; `None` for that of the file.
    pub bytes: Option<u64>,
    /// The part that is in the page cache, 0 to 1; `None` for that of the file, and 0 for no file.
    pub resident: Option<f64>,
    /// What must be on the device at the end.
    pub durability: Durability,
    /// How many files of that size: one, except for scans.
    pub files: u64,
    /// How many such files, or scans, are handled by one method that is prepared once: the set-up is divided among them.
    pub prepared_for: u64,
    /// How many updates at equal distances, and the bytes of each; only for updates.
    pub updates: Option<(u64, u64)>,
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
    /// The part of the predicted time that is set-up, if the plan rests on a profile.
    pub setup: Duration,
    /// The method to use if set-up does not count, if that is another one.
    pub for_many: Option<Method>,
    /// All measured methods that can be used, with their times, the fastest first; of a plan that rests on costs, those that it chose
    /// from.
    pub alternatives: Vec<(Method, Predicted)>,
    /// Whether the profile covers the task.
    pub is_measured: bool,
    /// The methods to use for other sizes.
    pub curve: Vec<SizeTimes>,
    /// The profile that it rests on, or why it rests on none.
    pub profile: std::result::Result<&'static StorageProfile, ProfileMismatch>,
    /// What plans on the storage predicted, and what their uses then took.
    pub uses: Vec<UseSummary>,
}

/// Plans a task on a file that exists, or that is imagined. Without a profile, it measures for at most 100 ms.
///
/// # Errors
/// The system's, if the path cannot be examined; [`Error::NotRegular`] for what is neither a file nor a directory, and, of updates, for
/// what is not a file; [`UpdateErrorKind::PastEnd`] if the updates do not fit into the file.
pub fn advise(question: &Question<'_>) -> Result<FileAdvice> {
    let Question {
        operation,
        path,
        durability,
        ..
    } = *question;
    if let Some(updates) = question.updates {
        return advise_updates(question, updates);
    }
    let failed = |error| Error::system(path, "stat", error);
    let metadata = path.metadata().map_err(failed)?;
    let directory = if metadata.is_dir() { path } else { directory_of(path) };
    if !metadata.is_dir() {
        require_regular(path, &metadata)?;
    }
    let file = metadata.is_file().then(|| File::open(path)).transpose();
    let file = file.map_err(|error| Error::system(path, "open", error))?;
    let mut facts = facts_of(question, directory, file.as_ref(), &metadata)?;
    let (bytes, resident) = (facts.files[0].bytes, facts.files[0].resident.unwrap_or(0.0));
    let task = Task {
        files: question.files,
        bytes,
        durability,
    };
    facts.can_share =
        operation == Operation::Copy && plan::depends_on_sharing(&task, &facts) && shares_blocks(directory);
    let mut alternatives = plan::alternatives(operation, &task, &facts);
    let is_measured = alternatives.len() > 1;
    if !is_measured {
        measure(&mut facts, question, &task, file);
    }
    let read = StorageProfile::of;
    // A plan ignores curves with a damaged line: if it has none, they may be why.
    let damage = facts.profile.filter(|_| !is_measured).and_then(|_| read(path).err());
    let profile = match (facts.profile, damage) {
        (Some(profile), None) => Ok(profile),
        (_, damage) => Err(damage.or_else(|| read(path).err()).unwrap_or(ProfileMismatch::Missing)),
    };
    let measured = profile.as_ref().ok().filter(|_| is_measured);
    let curve = match measured {
        Some(profile) => plan::curve(profile, operation, durability, resident),
        None => by_costs(operation, question.files, durability, &facts),
    };
    if !is_measured {
        alternatives = plan::considered(operation, &task, &facts);
        alternatives.sort_by_key(|(_, predicted)| predicted.value);
    }
    let plan = plan::plan(operation, &task, &facts);
    let (setup, for_many) = if is_measured {
        without_setup(operation, &task, &facts, &plan, &alternatives)
    } else {
        (Duration::ZERO, None)
    };
    Ok(FileAdvice {
        bytes,
        resident,
        setup,
        for_many,
        plan,
        alternatives,
        is_measured,
        curve,
        profile,
        uses: StorageUses::summaries_at(directory),
    })
}

/// The part of a plan's time that is set-up, and the method to use if set-up does not count, if that is another one.
fn without_setup(
    operation: Operation,
    task: &Task,
    facts: &Facts<'_>,
    plan: &Plan,
    alternatives: &[(Method, Predicted)],
) -> (Duration, Option<Method>) {
    let mut prepared = *facts;
    prepared.process.files_of_a_plan = u64::MAX;
    let time_in = |all: &[(Method, Predicted)]| {
        let found = all.iter().find(|(method, _)| *method == plan.method);
        found.map_or(Duration::ZERO, |(_, predicted)| predicted.value)
    };
    let rest = time_in(&plan::alternatives(operation, task, &prepared));
    let for_many = plan::plan(operation, task, &prepared).method;
    (
        time_in(alternatives).saturating_sub(rest),
        (for_many != plan.method).then_some(for_many),
    )
}

/// The facts of the file, or of a new one in the directory, with the size and the residency that
/// are asked about.
fn facts_of(
    question: &Question<'_>,
    directory: &Path,
    file: Option<&File>,
    metadata: &Metadata,
) -> Result<Facts<'static>> {
    let new = Facts::of_new_file(directory)?;
    let mut facts = match file {
        Some(file) => Facts::of(question.path, file, metadata),
        None => new,
    };
    let found = &mut facts.files[0];
    let bytes = question.bytes.unwrap_or(found.bytes);
    if file.is_none() || bytes != found.bytes {
        found.allocated_bytes = bytes;
    }
    found.bytes = bytes;
    found.resident = Some(question.resident.or(found.resident).unwrap_or(0.0));
    found.direct_alignment = found.direct_alignment.or(new.files[0].direct_alignment);
    facts.files[1] = match question.operation {
        Operation::Compare => facts.files[0],
        _ => new.files[0],
    };
    facts.free_bytes = new.free_bytes;
    facts.profile = Profiles::of_process().of_device(directory, new.files[0].device);
    if question.operation == Operation::Scan {
        facts.process = ProcessFacts::here();
    }
    facts.process.files_of_a_plan = question.prepared_for;
    Ok(facts)
}

/// Measures what the plan depends on if no method was measured.
fn measure(facts: &mut Facts<'_>, question: &Question<'_>, task: &Task, file: Option<File>) {
    let Question { operation, path, .. } = *question;
    if matches!(operation, Operation::Write | Operation::Copy) {
        facts.measure_writing(&crate::FileRange::whole(path), task.durability);
    }
    if operation == Operation::Scan {
        facts.measure_opening(path);
    }
    if let Some(file) = file.filter(|_| !matches!(operation, Operation::Write | Operation::Scan)) {
        facts.measure_reading(path, &file);
    }
}

/// The same for updates, by the costs of the profile, or else of writing in the directory of the file.
fn advise_updates(question: &Question<'_>, (count, bytes): (u64, u64)) -> Result<FileAdvice> {
    let Question { path, durability, .. } = *question;
    let metadata = path.metadata().map_err(|error| Error::system(path, "stat", error))?;
    require_regular(path, &metadata)?;
    let limits = PlanLimits::new(durability, Safety::InPlace);
    let mut estimate = UpdateEstimate::measured(path, &limits)?;
    let facts = &mut estimate.facts;
    let resident = question.resident.unwrap_or(1.0 - facts.absent_part);
    facts.absent_part = 1.0 - resident;
    let gaps = Gaps::spread(count, bytes, facts.file_bytes).ok_or_else(|| {
        let (end, file_bytes) = (count.saturating_mul(bytes), facts.file_bytes);
        UpdateErrorKind::PastEnd { end, file_bytes }.at(path)
    })?;
    let mut alternatives = plan::extremes(&gaps, facts, &limits);
    alternatives.sort_by_key(|(_, predicted)| predicted.value);
    Ok(FileAdvice {
        bytes: estimate.facts.file_bytes,
        resident,
        setup: Duration::ZERO,
        for_many: None,
        plan: estimate.plan_of(&gaps, &limits),
        alternatives,
        is_measured: false,
        curve: Vec::new(),
        profile: Profiles::of_process()
            .of_device(path, metadata.dev())
            .filter(|_| estimate.basis.is_some())
            .ok_or_else(|| StorageProfile::of(path).err().unwrap_or(ProfileMismatch::WithoutCosts)),
        uses: StorageUses::summaries_at(path),
    })
}

/// The methods to use for files of 16 KiB to 1 GiB by the costs.
fn by_costs(operation: Operation, files: u64, durability: Durability, facts: &Facts) -> Vec<SizeTimes> {
    let at = |bytes| {
        let mut facts = Facts {
            profile: None,
            ..*facts
        };
        for file in &mut facts.files {
            (file.bytes, file.allocated_bytes) = (bytes, bytes);
        }
        let task = Task {
            files,
            bytes,
            durability,
        };
        let plan = plan::plan(operation, &task, &facts);
        let all = plan::considered(operation, &task, &facts);
        let simplest = all[0].1.value.as_secs_f64().max(f64::MIN_POSITIVE);
        let over_plain = all
            .iter()
            .map(|(method, time)| (*method, time.value.as_secs_f64() / simplest));
        SizeTimes {
            bytes,
            method: plan.method,
            predicted: plan.predicted,
            over_plain: over_plain.collect(),
        }
    };
    plan::sizes(14..31)
        .take_while(|bytes| *bytes <= 1 << 30)
        .map(at)
        .collect()
}
