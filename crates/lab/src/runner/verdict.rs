//! What the trials so far say: who is dropped, whether a group is settled, and what is concluded at the end.

use std::hash::Hash;

use seekless::method::format_size;
use seekless_record::{Cache, Contest, Differ, Run, Status, Target, Trial, UpdatePattern, Verdict};

use super::group::Group;
use super::prediction::mispredicted;
use super::{DECIDING_ROUNDS, Runner};
use crate::ranking::{self, Samples};

/// What is compared, in a few words, as in `read 64M, cold`.
#[must_use]
pub fn title(contest: &Contest) -> String {
    let files = if contest.files > 1 {
        format!("{} x ", contest.files)
    } else {
        String::new()
    };
    let state = match (contest.cache, contest.target) {
        (Cache::Cold, _) => ", cold",
        (Cache::Warm, _) => ", warm",
        (Cache::Over, _) => ", more than the memory allowed",
        (Cache::None, Target::Fresh) => ", new file",
        (Cache::None, Target::Overwrite) => ", written over",
    };
    let durability = if !has_target(contest) || contest.durability == "none" {
        String::new()
    } else {
        format!(", {}", contest.durability)
    };
    let shared = if contest.shared_blocks { ", sharing blocks" } else { "" };
    let work = if contest.work_ns_per_kib > 0 {
        format!(", work {} ns/KiB", contest.work_ns_per_kib)
    } else {
        String::new()
    };
    let pair = pair_words(contest);
    format!(
        "{} {files}{}{state}{pair}{durability}{shared}{work}",
        contest.operation,
        format_size(contest.size_bytes)
    )
}

/// Whether trials of a contest write a file.
pub(crate) fn has_target(contest: &Contest) -> bool {
    matches!(contest.operation.as_str(), "write" | "copy" | "update")
}

/// What is special about the files of a contest: the second ones of a comparison, how they are laid out, the updates, and
/// the read-ahead window and the memory they are read with. Empty, or beginning with a comma.
pub(crate) fn pair_words(contest: &Contest) -> String {
    let apart = if contest.other_storage.is_some() {
        ", on two storages"
    } else {
        ""
    };
    let ahead = contest
        .read_ahead_kib
        .map_or_else(String::new, |kib| format!(", read-ahead {kib} KiB"));
    let layout = contest
        .layout
        .as_ref()
        .map_or_else(String::new, |layout| format!(", {layout}"));
    let memory = contest
        .memory_bytes
        .map_or_else(String::new, |bytes| format!(", in {}", format_size(bytes)));
    let skipped = if contest.holes_skipped {
        ", holes passed over"
    } else {
        ""
    };
    let updates = update_words(contest);
    format!(
        "{}{apart}{layout}{updates}{skipped}{ahead}{memory}",
        differ_words(contest)
    )
}

/// What is updated, as in `, 4 of every 400 bytes, shuffled`.
fn update_words(contest: &Contest) -> String {
    contest.updates.map_or_else(String::new, |updates| {
        let UpdatePattern {
            bytes,
            every_bytes,
            draw,
        } = updates;
        format!(", {bytes} of every {every_bytes} bytes, {}", draw.name())
    })
}

/// Whether the answer comes before all of the files was read, at a difference or past holes, so that a rate over their size
/// tells nothing.
#[must_use]
pub fn ends_early(contest: &Contest) -> bool {
    contest.holes_skipped || matches!(contest.differ, Differ::First | Differ::Early | Differ::Middle)
}

/// Whether a contest is told in times: a rate over the files' size tells nothing where the answer comes early, or where
/// little of them is written.
#[must_use]
pub fn is_told_in_times(contest: &Contest) -> bool {
    ends_early(contest) || contest.updates.is_some()
}

/// The name under which a document published a method of a contest.
#[must_use]
pub fn label_of<'a>(contest: &'a Contest, method: &str) -> Option<&'a str> {
    let mut entries = contest.entries.iter();
    entries.find(|entry| entry.method == method)?.label.as_deref()
}

/// What the second file of a comparison is.
fn differ_words(contest: &Contest) -> &'static str {
    match contest.differ {
        Differ::None if contest.operation == "compare" => ", equal",
        Differ::None => "",
        Differ::First => ", differing in the first byte",
        Differ::Early => ", differing early",
        Differ::Middle => ", differing in the middle",
        Differ::Last => ", differing in the last byte",
        Differ::Itself => ", with itself",
    }
}

/// What a contest measures: contests for which it is equal can share rounds. Storage, shared blocks and skipped holes apart.
pub(crate) fn description(contest: &Contest) -> impl Eq + Hash {
    (
        (
            &contest.experiment,
            &contest.operation,
            contest.size_bytes,
            contest.files,
        ),
        (contest.cache, contest.target, &contest.kernel),
        (contest.work_ns_per_kib, &contest.durability, contest.updates),
        (contest.differ, contest.read_ahead_kib, contest.other_storage.is_some()),
        (&contest.layout, contest.memory_bytes),
    )
}

impl Runner<'_> {
    fn samples(&self, contest: usize) -> Vec<Samples> {
        let of_entry = |entry: usize| {
            let trials = self
                .run
                .trials
                .iter()
                .filter(move |trial| (trial.contest, trial.entry) == (contest, entry));
            Samples::of(trials)
        };
        (0..self.run.contests[contest].entries.len()).map(of_entry).collect()
    }

    /// Takes what is clearly beaten out of the running.
    pub(super) fn drop_beaten(&mut self, group: &mut Group) {
        for contest in group.contests.clone() {
            let samples = self.samples(contest);
            let active: Vec<bool> = (0..samples.len())
                .map(|entry| group.active.contains(&(contest, entry)))
                .collect();
            for (entry, why) in ranking::clearly_beaten(&samples, &active, self.reference(contest)) {
                self.run.contests[contest].entries[entry].status = Status::Dropped(why);
                group.active.retain(|&other| other != (contest, entry));
            }
        }
    }

    /// The entry that runs in every round, so that drift shows: the first that is measured.
    fn reference(&self, contest: usize) -> Option<usize> {
        let entries = &self.run.contests[contest].entries;
        entries
            .iter()
            .position(|entry| entry.status == Status::Measured && entry.command.is_none())
    }

    /// Whether more rounds of a group would tell nothing new: every contest has a recommendation, and each entry still
    /// in it is known to tie. The reference runs in any case.
    pub(super) fn is_settled(&self, group: &Group) -> bool {
        group.rounds >= DECIDING_ROUNDS
            && group
                .contests
                .iter()
                .all(|&contest| self.is_contest_settled(group, contest))
    }

    fn is_contest_settled(&self, group: &Group, contest: usize) -> bool {
        let active: Vec<usize> = group
            .active
            .iter()
            .filter(|&&(of, _)| of == contest)
            .map(|&(_, entry)| entry)
            .collect();
        if active.is_empty() {
            return true;
        }
        let (judgements, conclusion) = ranking::conclude(contest, &self.run.contests[contest], &self.run.trials);
        let reference = self.reference(contest);
        let is_known = |entry: usize| {
            let standing = judgements[entry].1.as_ref();
            standing.is_none_or(|standing| {
                standing.verdict == Verdict::Slower || standing.ratio.high <= ranking::RECOMMENDED_RATIO
            })
        };
        conclusion.recommended.is_some()
            && active
                .into_iter()
                .all(|entry| Some(entry) == reference || is_known(entry))
    }

    /// The entries to measure again: the best, the recommended and the reference of each contest.
    pub(super) fn winners(&self, group: &Group) -> Vec<(usize, usize)> {
        let mut winners = Vec::new();
        for &contest in &group.contests {
            let description = &self.run.contests[contest];
            let (_, conclusion) = ranking::conclude(contest, description, &self.run.trials);
            let Some(best) = conclusion.best else { continue };
            let names = [Some(best), conclusion.recommended];
            let entries = description.entries.iter().enumerate().filter(|(entry, description)| {
                names.iter().flatten().any(|name| *name == description.method)
                    || self.reference(contest) == Some(*entry)
            });
            winners.extend(entries.map(|(entry, _)| (contest, entry)));
        }
        winners
    }

    /// Writes down the figures, the standings and what follows.
    pub(super) fn conclude(&mut self) {
        for index in 0..self.run.contests.len() {
            let (judgements, conclusion) = ranking::conclude(index, &self.run.contests[index], &self.run.trials);
            let measured: Vec<bool> = (0..judgements.len())
                .map(|entry| {
                    self.run
                        .trials
                        .iter()
                        .any(|trial| (trial.contest, trial.entry) == (index, entry))
                })
                .collect();
            let contest = &mut self.run.contests[index];
            for ((entry, (summary, standing)), measured) in contest.entries.iter_mut().zip(judgements).zip(measured) {
                if entry.status == Status::Measured && !measured {
                    entry.status = Status::Unmeasured("the run ended before its turn came".to_owned());
                }
                (entry.summary, entry.standing) = (summary, standing);
            }
            contest.conclusion = Some(conclusion);
        }
    }
}

/// The part of the bytes read from devices during trials that was not the trials' own; none where they read nothing
/// themselves, as when all is in memory.
pub(super) fn other_io(trials: &[Trial]) -> Option<f64> {
    let (mut all, mut other) = (0, 0);
    for trial in trials {
        let Some((device, read)) = trial.device.zip(trial.source_bytes) else {
            continue;
        };
        // What is written may be written later; only reads can be told apart.
        all += device.read_bytes;
        other += device.read_bytes.saturating_sub(read);
    }
    (other < all).then(|| other as f64 / all as f64)
}

/// A drift of the reference method beyond this is worth a warning.
const DRIFT: f64 = 1.25;
/// So much reading by others is worth a warning.
const OTHER_IO: f64 = 0.05;
/// So much stolen time is worth a warning.
const STOLEN: f64 = 0.02;

/// What a reader should know before believing the figures, with what to do next.
pub(super) fn warnings(run: &Run) -> Vec<String> {
    let mut warnings = Vec::new();
    if run.storages.iter().any(|storage| {
        storage
            .device
            .as_ref()
            .is_some_and(|device| device.is_virtual == Some(true))
    }) {
        warnings.push(
            "The disk is virtual: \"cold\" means cold for this guest, and the host may cache what it serves. Compare \
             methods, not absolute rates; repeat the run at another hour."
                .to_owned(),
        );
    }
    let stolen = run.noise.stolen.unwrap_or(0.0);
    if stolen > STOLEN {
        warnings.push(format!(
            "The host took away {:.1} % of the processors' time: repeat the run when the machine is quieter.",
            stolen * 100.0
        ));
    }
    warnings.extend(mispredicted(run));
    let mut devices = run.storages.iter().filter_map(|storage| storage.device.as_ref());
    if let Some(device) = devices.find(|device| device.name.starts_with("loop")) {
        warnings.push(format!(
            "{} is a loop: what is read comes from a file on another file system, which was dropped from the page cache \
             as well. Figures are those of both together; measure the disk below for its own.",
            device.name
        ));
    }
    let other_io = run.noise.other_io.unwrap_or(0.0);
    if other_io > OTHER_IO {
        warnings.push(format!(
            "{:.0} % of what the device read during trials was read by others: close them, and repeat the run.",
            other_io * 100.0
        ));
    }
    let unverified = run
        .trials
        .iter()
        .filter(|trial| trial.valid && trial.resident_before.is_none());
    let unverified = unverified
        .filter(|trial| run.contests[trial.contest].cache == Cache::Cold)
        .count();
    if unverified > 0 {
        warnings.push(format!(
            "{unverified} cold trials could not be verified: the system does not tell what is in the page cache here. \
             As root, --drop system empties it for certain."
        ));
    }
    let invalid = run.trials.iter().filter(|trial| !trial.valid).count();
    if invalid > 0 {
        let first = run
            .trials
            .iter()
            .find_map(|trial| trial.invalid.as_deref())
            .unwrap_or_default();
        warnings.push(format!(
            "{invalid} of {} trials were not what they claim and are left out (the first: {first}). More of them than \
             a few: close what else reads or writes here.",
            run.trials.len()
        ));
    }
    if matches!(run.machine.governor.as_deref(), Some("powersave" | "conservative")) {
        warnings
            .push("The processors' governor saves power: set it to performance before measuring CPU time.".to_owned());
    }
    if run.machine.on_battery == Some(true) {
        warnings.push("The machine runs on battery: plug it in, and measure again.".to_owned());
    }
    warnings.extend((0..run.contests.len()).filter_map(|contest| drift(run, contest)));
    warnings
}

/// Whether the reference of a contest, which runs in every round, became faster or slower meanwhile.
fn drift(run: &Run, contest: usize) -> Option<String> {
    let of_contest = |entry: usize| {
        let trials = run
            .trials
            .iter()
            .filter(move |trial| (trial.contest, trial.entry) == (contest, entry));
        trials
            .filter(|trial| trial.valid)
            .map(|trial| trial.seconds)
            .collect::<Vec<f64>>()
    };
    let entries = 0..run.contests[contest].entries.len();
    let seconds = entries.map(of_contest).max_by_key(Vec::len)?;
    if seconds.len() < 6 {
        return None;
    }
    let third = seconds.len() / 3;
    let early = crate::statistics::median(&seconds[..third])?;
    let late = crate::statistics::median(&seconds[seconds.len() - third..])?;
    let ratio = late / early;
    let name = title(&run.contests[contest]);
    if ratio > DRIFT {
        return Some(format!(
            "{name}: it became {ratio:.2}x slower during the run (throttling, a full cache, or others on the device). \
             Verdicts are paired by round and hold; rates do not. Let it rest and repeat."
        ));
    }
    (ratio < 1.0 / DRIFT).then(|| {
        format!(
            "{name}: it became {:.2}x faster during the run (a cache below this system is filling). Verdicts are \
             paired by round and hold; rates do not. Repeat with a larger --size.",
            1.0 / ratio
        )
    })
}

#[cfg(test)]
mod tests {
    use seekless_record::DeviceUse;

    use super::other_io;
    use crate::simulation::trial;

    #[test]
    fn what_others_read_is_told_beside_what_was_read_here_only() {
        let reading = |ours, all| {
            let mut trial = trial(0, 0, 1.0);
            trial.source_bytes = Some(ours);
            trial.device = Some(DeviceUse {
                reads: 1,
                read_bytes: all,
                read_merges: None,
                writes: 0,
                write_bytes: 0,
                reliable: false,
            });
            trial
        };
        assert_eq!(other_io(&[reading(0, 0), reading(0, 4096)]), None);
        assert_eq!(other_io(&[reading(300, 400), reading(0, 0)]), Some(0.25));
    }
}
