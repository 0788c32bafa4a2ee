//! The words of a contest: its title, what is special about its files, and how its figures are told.

use std::hash::Hash;

use seekless_method::{Durability, Operation, format_size};
use seekless_record::{Cache, Contest, Differ, Target, UpdatePattern};

/// What is compared, in a few words, as in `read 64M, cold`.
#[must_use]
pub fn title(contest: &Contest) -> String {
    let files = if contest.files > 1 {
        format!("{} x ", contest.files)
    } else {
        String::new()
    };
    let state = state_words(contest.cache, contest.target);
    let durability = if !has_target(contest) || contest.durability == Durability::None {
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
        "{} {files}{}, {state}{pair}{durability}{shared}{work}",
        contest.operation,
        format_size(contest.size_bytes)
    )
}

/// The state that the files of a trial are in.
#[must_use]
pub fn state_words(cache: Cache, target: Target) -> &'static str {
    match (cache, target) {
        (Cache::Cold, _) => "cold",
        (Cache::Warm, _) => "warm",
        (Cache::Over, _) => "more than the memory allowed",
        (Cache::None, Target::Fresh) => "new file",
        (Cache::None, Target::Overwrite) => "written over",
    }
}

/// Whether trials of a contest write a file.
#[must_use]
pub fn has_target(contest: &Contest) -> bool {
    matches!(
        contest.operation,
        Operation::Write | Operation::Copy | Operation::Update
    )
}

/// What is special about the files of a contest: the second ones of a comparison, how they are laid out, the updates, and
/// the read-ahead window and the memory they are read with. Empty, or beginning with a comma.
#[must_use]
pub fn pair_words(contest: &Contest) -> String {
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

/// The name under which a document published a method of a contest, or the method without what the contest's title says:
/// its operation and its durability.
#[must_use]
pub fn short_name(method: &str, contest: &Contest) -> String {
    let mut entries = contest.entries.iter();
    let label = entries
        .find(|entry| entry.name() == method)
        .and_then(|entry| entry.label.clone());
    label.unwrap_or_else(|| without(method, |option| option == contest.durability.name()))
}

/// A method without its block and durability: what it has in common with the same method of another block.
#[must_use]
pub fn family(method: &str, contest: &Contest) -> String {
    without(method, |option| {
        option == contest.durability.name() || option.starts_with("block=")
    })
}

fn without(method: &str, is_left_out: impl Fn(&str) -> bool) -> String {
    let name = method.split_once('/').map_or(method, |(_, name)| name);
    let mut parts = name.split(',');
    let mechanism = parts.next().unwrap_or_default();
    let options: Vec<&str> = parts.filter(|option| !is_left_out(option)).collect();
    format!("{mechanism} {}", options.join(",")).trim_end().to_owned()
}

/// What the second file of a comparison is.
fn differ_words(contest: &Contest) -> &'static str {
    match contest.differ {
        Differ::None if contest.operation == Operation::Compare => ", equal",
        Differ::None => "",
        Differ::First => ", differing in the first byte",
        Differ::Early => ", differing early",
        Differ::Middle => ", differing in the middle",
        Differ::Last => ", differing in the last byte",
        Differ::Itself => ", with itself",
    }
}

/// What a contest measures: contests for which it is equal can share rounds. Storage, shared blocks and skipped holes apart.
#[must_use]
pub fn description(contest: &Contest) -> impl Eq + Hash {
    (
        (
            &contest.experiment,
            contest.operation,
            contest.size_bytes,
            contest.files,
        ),
        (contest.cache, contest.target, &contest.kernel),
        (contest.work_ns_per_kib, contest.durability, contest.updates),
        (contest.differ, contest.read_ahead_kib, contest.other_storage.is_some()),
        (&contest.layout, contest.memory_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_named_without_what_its_heading_says() {
        let contest = Contest {
            durability: Durability::Fsync,
            ..crate::simulation::contest(1 << 20, Vec::new())
        };
        let method = "write/sync,direct,block=4M,fsync";
        assert_eq!(short_name(method, &contest), "sync direct,block=4M");
        assert_eq!(family(method, &contest), "sync direct");
    }
}
