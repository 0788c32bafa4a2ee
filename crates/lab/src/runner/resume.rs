//! Resuming a run: whether that is possible here, and what is left to measure.
//!
//! What was measured stays as it is. Methods that were dropped, failed or unavailable stay so; methods that were not measured
//! are measured now.

use seekless_engine::Operation;
use seekless_record::{Cache, Contest, Ended, Machine, Run, Storage};

use super::storage::MeasuredStorage;
use super::{Bench, BenchError};
use crate::layout::Layout;

/// Why a run cannot be resumed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Another version of seekless measured it.
    #[error("seekless {before} measured it, and this is seekless {now}: start a new run")]
    Version {
        /// That version.
        before: String,
        /// This one.
        now: &'static str,
    },
    /// The way of measuring trials, or of moving bytes, has changed since.
    #[error("the way of measuring has changed since: start a new run")]
    Revision,
    /// Another machine measured it, or another kernel.
    #[error("{what} was {before} and is now {now}: start a new run and compare the two runs")]
    Machine {
        /// What has changed, as in `the kernel`.
        what: &'static str,
        /// What it was.
        before: String,
        /// What it is now.
        now: String,
    },
    /// It measured another number of storages.
    #[error("it measured {0} storage{s}: give as many directories", s = if *.0 == 1 { "" } else { "s" })]
    Storages(usize),
    /// A directory is on another storage.
    #[error("it measured another storage: {file_system}{}", device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default())]
    Storage {
        /// The file system that it measured.
        file_system: String,
        /// The name of its device.
        device: Option<String>,
    },
    /// It did not read the given file, which has this many bytes.
    #[error("the file has changed: no contest of the run reads a file of {0} bytes")]
    File(u64),
    /// An earlier version of seekless read each of its files once.
    #[error("it reads each file only once: start a new run")]
    ReadOnce,
    /// A layout of its files is not valid.
    #[error("`{0}` is not a layout for files of this size: start a new run")]
    Layout(String),
}

/// The state from which a resumed run continues.
///
/// # Errors
/// [`BenchError::CannotResume`] if the machine, kernel, storage or version is not the one that measured before.
pub(super) fn resumed(run: &Run, measured: &[MeasuredStorage], bench: &Bench) -> Result<Run, BenchError> {
    let storages: Vec<Storage> = measured.iter().map(MeasuredStorage::record).collect();
    let given = measured.iter().find_map(MeasuredStorage::given_file);
    if let Some(source) = obstacle(run, &storages, given.map(|file| file.bytes)) {
        let id = run.id.clone();
        return Err(BenchError::CannotResume { id, source });
    }
    let mut resumed = run.clone();
    for (storage, now) in resumed.storages.iter_mut().zip(storages) {
        storage.free_bytes = now.free_bytes;
    }
    resumed.ended = Ended::Complete;
    resumed.resumed_at_seconds.push(run.elapsed_seconds);
    resumed.budget_seconds = Some(run.budget_seconds.unwrap_or(run.elapsed_seconds) + bench.budget.as_secs_f64());
    resumed.warnings.clear();
    Ok(resumed)
}

/// Why a run cannot be resumed on the storages as they are now, or with a given file of this size.
fn obstacle(run: &Run, storages: &[Storage], given_bytes: Option<u64>) -> Option<Obstacle> {
    let (before, now) = (&run.seekless, env!("CARGO_PKG_VERSION"));
    let version = || Obstacle::Version {
        before: before.clone(),
        now,
    };
    let mut both = run.storages.iter().zip(storages);
    let other_storage = both.find(|(before, now)| !is_same_storage(before, now));
    let storage = |(before, _): (&Storage, &Storage)| Obstacle::Storage {
        file_system: before.file_system.clone(),
        device: before.device.as_ref().map(|device| device.name.clone()),
    };
    let mut contests = run.contests.iter();
    let is_read_once = contests.clone().any(|contest| contest.cache == Cache::FirstTouch);
    let reads = |contest: &Contest, bytes| {
        let whole = contest.part_of_bytes.unwrap_or(contest.size_bytes);
        (contest.operation, whole) == (Operation::Read, bytes)
    };
    let other_file = given_bytes.filter(|&bytes| !contests.clone().all(|contest| reads(contest, bytes)));
    let obstacles = [
        (before != now).then(version),
        (run.revision != Some(super::REVISION)).then_some(Obstacle::Revision),
        other_machine(&run.machine, &crate::machine::machine()),
        (run.storages.len() != storages.len()).then_some(Obstacle::Storages(run.storages.len())),
        other_storage.map(storage),
        is_read_once.then_some(Obstacle::ReadOnce),
        other_file.map(Obstacle::File),
        contests
            .find_map(wrong_layout)
            .map(|layout| Obstacle::Layout(layout.to_owned())),
    ];
    obstacles.into_iter().flatten().next()
}

/// The text of a contest's layout, if it is not valid for its files.
fn wrong_layout(contest: &Contest) -> Option<&str> {
    let text = contest.layout.as_deref()?;
    let layout: Option<Layout> = text.parse().ok();
    let is_right = layout.is_some_and(|layout| layout.own_bytes().is_none_or(|bytes| bytes == contest.size_bytes));
    (!is_right).then_some(text)
}

/// The change of the machine that prevents resuming, if there is one.
fn other_machine(before: &Machine, now: &Machine) -> Option<Obstacle> {
    let words = |machine: &Machine| {
        let told = |text: &Option<String>| text.clone().unwrap_or_default();
        [
            ("the host", told(&machine.host)),
            ("the processor", told(&machine.processor)),
            ("the kernel", machine.kernel.clone()),
            ("the number of processors", machine.processors.to_string()),
        ]
    };
    let mut both = words(before).into_iter().zip(words(now));
    let ((what, before), (_, now)) = both.find(|(before, now)| before != now)?;
    Some(Obstacle::Machine { what, before, now })
}

fn is_same_storage(before: &Storage, now: &Storage) -> bool {
    let device = |storage: &Storage| storage.device.as_ref().map(|device| device.name.clone());
    let uuid = |storage: &Storage| storage.id.as_ref().and_then(|id| id.uuid.clone());
    (&before.file_system, &before.mount_point, device(before), uuid(before))
        == (&now.file_system, &now.mount_point, device(now), uuid(now))
}

/// The mean of a part that was measured over two spans of time, each given with its seconds.
pub(super) fn over_time(before: Option<(f64, f64)>, now: Option<(f64, f64)>) -> Option<f64> {
    match (before, now) {
        (Some((before, seconds_before)), Some((now, seconds))) if seconds_before + seconds > 0.0 => {
            Some((before * seconds_before + now * seconds) / (seconds_before + seconds))
        }
        (one, other) => other.or(one).map(|(part, _)| part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_kernel_is_another_machine() {
        let machine = Machine {
            host: Some("a".to_owned()),
            kernel: "6.1".to_owned(),
            processors: 2,
            ..Machine::default()
        };
        assert_eq!(other_machine(&machine, &machine.clone()), None);
        let mut newer = machine.clone();
        newer.kernel = "6.2".to_owned();
        let why = other_machine(&machine, &newer).unwrap().to_string();
        assert!(why.contains("the kernel was 6.1") && why.contains("6.2"), "{why}");
    }

    #[test]
    fn a_layout_that_does_not_make_up_the_size_is_found() {
        let contest = |layout: &str| Contest {
            layout: Some(layout.to_owned()),
            ..seekless_results::simulation::contest(8192, Vec::new())
        };
        assert_eq!(wrong_layout(&contest("4K hole, 4K data")), None);
        assert_eq!(wrong_layout(&contest("4K hole, 8K data")), Some("4K hole, 8K data"));
        assert_eq!(wrong_layout(&contest("4K gap")), Some("4K gap"));
        let dense = seekless_results::simulation::contest(8192, Vec::new());
        assert_eq!(wrong_layout(&dense), None);
    }

    #[test]
    fn a_part_over_two_spans_is_weighed_by_their_length() {
        assert_eq!(over_time(Some((0.1, 30.0)), Some((0.4, 10.0))), Some(0.175));
        assert_eq!(over_time(None, Some((0.4, 10.0))), Some(0.4));
        assert_eq!(over_time(Some((0.1, 0.0)), Some((0.4, 0.0))), Some(0.4));
    }
}
