//! The words of a contest: its title, what is special about its files, and its unit.

use std::hash::Hash;

use crate::units::{bytes, chosen_size, files, rate, requests_in, seconds, thousands};
use seekless_method::{Durability, Operation, parse_size};
use seekless_record::{Cache, Contest, Differ, Entry, ExitCode, RandomAccess, Run, Target};

/// What is compared, in a few words, as in `read 64 MiB, cold` and `read /usr, 131,375 files, 4.94 GiB, warm`.
#[must_use]
pub fn title(contest: &Contest) -> String {
    let has_durability =
        has_target(contest) && contest.durability != Durability::None && contest.target != Target::Append;
    let all_bytes = contest.size_bytes.saturating_mul(u64::from(contest.files));
    let read = match &contest.tree {
        // It cannot be measured.
        Some(tree) if contest.size_bytes == 0 => tree.clone(),
        Some(tree) => format!("{tree}, {}, {}", files(contest.files.into()), bytes(all_bytes)),
        None if let Some(whole) = contest.part_of_bytes => {
            format!("{} of {}", chosen_size(contest.size_bytes), bytes(whole))
        }
        None if contest.target == Target::Append => {
            let count = contest.random.map_or(0, |random| random.requests);
            format!("{} appends", thousands(count.into()))
        }
        None if contest.files > 1 => format!("{} x {}", contest.files, chosen_size(contest.size_bytes)),
        None => chosen_size(contest.size_bytes),
    };
    let words = [
        contest
            .sustained
            .then(|| format!("{} sustained in ", chosen_size(all_bytes))),
        Some(read),
        Some(format!(", {}", state_words(contest.cache, contest.target))),
        contest.cold_metadata.then(|| " with their metadata".to_owned()),
        Some(pair_words(contest)),
        has_durability.then(|| format!(", {}", durability_words(contest))),
        contest.shared_blocks.then(|| ", sharing blocks".to_owned()),
        (contest.work_ns_per_kib > 0).then(|| format!(", work {} ns/KiB", contest.work_ns_per_kib)),
    ];
    let words: String = words.into_iter().flatten().collect();
    format!("{} {words}", contest.operation)
}

/// When what a contest writes is durable.
fn durability_words(contest: &Contest) -> String {
    let is_at_end = contest.durability == Durability::Fsync;
    match contest.random.filter(|_| is_at_end) {
        Some(random) => {
            let writes = u64::from(random.requests).min(contest.size_bytes.div_ceil(random.block_bytes.max(1)));
            let what = if random.reads_percent > 0 { "requests" } else { "writes" };
            format!("one fsync after {} {what}", thousands(writes))
        }
        None => contest.durability.to_string(),
    }
}

/// The same, with the storage if the run has several.
pub(crate) fn title_in(run: &Run, contest: &Contest) -> String {
    let to = contest.other_storage.filter(|_| contest.operation == Operation::Copy);
    let to = to.and_then(|to| place(run, to)).map(|to| format!(" to {to}"));
    let place = place(run, contest.storage).map(|place| format!(", {place}"));
    format!(
        "{}{}{}",
        title(contest),
        place.unwrap_or_default(),
        to.unwrap_or_default()
    )
}

/// The path of a storage, if the run has several.
pub(crate) fn place(run: &Run, storage: usize) -> Option<&str> {
    let storage = run.storages.get(storage).filter(|_| run.storages.len() > 1);
    storage.map(|storage| storage.path.as_str())
}

/// The state that the files of a trial are in.
#[must_use]
pub fn state_words(cache: Cache, target: Target) -> &'static str {
    match (cache, target) {
        (Cache::Cold, _) => "cold",
        (Cache::Warm, _) => "warm",
        (Cache::Over, _) => "more than the memory allowed",
        (Cache::FirstTouch, _) => "first touch",
        (Cache::None, Target::Fresh) => "new file",
        (Cache::None, Target::Overwrite) => "written over",
        (Cache::None, Target::Append) => "each durable",
    }
}

/// The operations of a run, each once, in the order of their contests.
#[must_use]
pub fn operations(run: &Run) -> Vec<Operation> {
    let mut operations = Vec::new();
    for contest in &run.contests {
        if !operations.contains(&contest.operation) {
            operations.push(contest.operation);
        }
    }
    operations
}

/// What contests have in common that differ in the size of their files alone, with the place of their storage.
#[must_use]
pub fn series_title(contest: &Contest, place: Option<&str>) -> String {
    let is_over = contest.target == Target::Overwrite && contest.cache != Cache::None;
    let pair = pair_words(contest);
    let words = [
        Some(contest.operation.name()),
        Some(state_words(contest.cache, contest.target)),
        is_over.then_some("overwriting"),
        pair.strip_prefix(", "),
        place,
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Whether a trial of a contest covers many small files, or a directory that may have them: then their metadata counts.
#[must_use]
pub fn has_small_files(contest: &Contest) -> bool {
    contest.files > FEW_FILES || contest.tree.is_some()
}

/// A trial has this many files of 1 MiB; of smaller files it has more.
const FEW_FILES: u32 = 8;

/// Whether trials of a contest write a file.
#[must_use]
pub fn has_target(contest: &Contest) -> bool {
    matches!(
        contest.operation,
        Operation::Write | Operation::Copy | Operation::Update
    )
}

/// Special properties of the files of a contest: the second ones of a comparison, requests at random places, how the files
/// are laid out, the updates, and the read-ahead window and the memory they are read with. Empty, or beginning with a comma.
#[must_use]
pub fn pair_words(contest: &Contest) -> String {
    let differ = match contest.differ {
        Differ::None => (contest.operation == Operation::Compare).then_some("equal"),
        Differ::First => Some("differing in the first byte"),
        Differ::Early => Some("differing early"),
        Differ::Middle => Some("differing in the middle"),
        Differ::Last => Some("differing in the last byte"),
        Differ::Itself => Some("with itself"),
    };
    let updated = contest.updates.map(|updates| {
        let (bytes, every_bytes) = (updates.bytes, updates.every_bytes);
        format!("{bytes} of every {every_bytes} bytes, {}", updates.draw.name())
    });
    let random = contest.random.map(|random| {
        let block = chosen_size(random.block_bytes);
        match (contest.target, random.depth) {
            (Target::Append, 1) => format!("{block} by 1 writer"),
            (Target::Append, writers) => format!("{block} by {writers} writers"),
            (_, depth) if random.reads_percent > 0 => {
                format!("{block} at random, {} % reads, depth {depth}", random.reads_percent)
            }
            (_, depth) => format!("{block} at random, depth {depth}"),
        }
    });
    let words = [
        differ.map(str::to_owned),
        random,
        contest.other_storage.map(|_| across(contest).to_owned()),
        contest.layout.clone(),
        updated,
        contest.holes_skipped.then(|| "holes skipped".to_owned()),
        contest.read_ahead_kib.map(|kib| format!("read-ahead {kib} KiB")),
        contest.memory_bytes.map(|bytes| format!("in {}", chosen_size(bytes))),
    ];
    words.iter().flatten().flat_map(|words| [", ", words]).collect()
}

fn across(contest: &Contest) -> &'static str {
    if contest.operation == Operation::Copy {
        "to another storage"
    } else {
        "on two storages"
    }
}

/// Whether a method need not read the whole files, because they differ or have holes, or a command need not, because it gives no
/// verdict on the files of a tree: a rate over their size would be meaningless.
#[must_use]
pub fn ends_early(contest: &Contest) -> bool {
    contest.holes_skipped || may_read_less(contest)
}

/// Whether a method or command may be done before it has read all data.
#[must_use]
pub fn may_read_less(contest: &Contest) -> bool {
    let mut commands = contest.entries.iter().filter_map(Entry::command);
    matches!(contest.differ, Differ::First | Differ::Early | Differ::Middle)
        || commands.any(|command| command.takes_tree() && command.exit_code == ExitCode::Success)
}

/// Whether a contest shows times: a rate over the files' size is meaningless if the answer comes early, or if little of them is
/// written.
#[must_use]
pub fn is_told_in_times(contest: &Contest) -> bool {
    ends_early(contest) || contest.updates.is_some()
}

/// A rate in the unit of a contest: requests per second for random access, commits for appends, else bytes per second.
#[must_use]
pub fn rate_in(contest: &Contest, bytes_per_second: f64) -> String {
    match contest.random {
        Some(random) => requests_in(contest.target, bytes_per_second / random.block_bytes as f64),
        None => rate(bytes_per_second),
    }
}

/// A rate in the unit of a contest, or the time of a trial at that rate, if the contest shows times.
#[must_use]
pub fn speed_in(contest: &Contest, bytes_per_second: f64) -> String {
    if is_told_in_times(contest) {
        seconds(contest.size_bytes as f64 * f64::from(contest.files) / bytes_per_second)
    } else {
        rate_in(contest, bytes_per_second)
    }
}

/// The published name of a method, or else the method without what the contest's title says: its operation and durability, and
/// for random access the size and depth.
#[must_use]
pub fn short_name(method: &str, contest: &Contest) -> String {
    let mut entries = contest.entries.iter();
    let label = entries
        .find(|entry| entry.name() == method)
        .and_then(|entry| entry.label.clone());
    label.unwrap_or_else(|| without(method, |option| is_in_title(option, contest)))
}

/// A method without its block and durability: the same for all its blocks.
#[must_use]
pub fn family(method: &str, contest: &Contest) -> String {
    without(method, |option| {
        is_in_title(option, contest) || option.starts_with("block=")
    })
}

fn is_in_title(option: &str, contest: &Contest) -> bool {
    let is_of_random = |random: RandomAccess| match option.split_once('=') {
        Some(("access" | "reads", _)) => true,
        Some(("block", size)) => parse_size(size) == Ok(random.block_bytes),
        Some(("depth", depth)) => depth.parse() == Ok(random.depth),
        _ => false,
    };
    // The ways in which appends become durable are what is compared.
    let is_durability = option == contest.durability.name() && contest.target != Target::Append;
    is_durability || contest.random.is_some_and(is_of_random)
}

fn without(method: &str, is_left_out: impl Fn(&str) -> bool) -> String {
    let name = method.split_once('/').map_or(method, |(_, name)| name);
    let mut parts = name.split(',');
    let mechanism = parts.next().unwrap_or_default();
    let options: Vec<&str> = parts.filter(|option| !is_left_out(option)).collect();
    format!("{mechanism} {}", options.join(",")).trim_end().to_owned()
}

/// What is measured, except for the size of the files and the state of the page cache.
#[must_use]
pub fn task(contest: &Contest) -> impl PartialEq {
    (
        (&contest.experiment, contest.operation, contest.storage, contest.target),
        (
            &contest.tree,
            &contest.kernel,
            contest.durability,
            contest.work_ns_per_kib,
        ),
        (contest.shared_blocks, contest.sustained, pair_words(contest)),
    )
}

/// What a contest measures: contests for which it is equal can share rounds. Storage, shared blocks and skipped holes
/// do not count.
#[must_use]
pub fn description(contest: &Contest) -> impl Eq + Hash {
    (
        (
            &contest.experiment,
            contest.operation,
            &contest.tree,
            contest.size_bytes,
            contest.files,
        ),
        (contest.cache, contest.cold_metadata, contest.target, &contest.kernel),
        (
            contest.work_ns_per_kib,
            contest.durability,
            contest.updates,
            contest.sustained,
        ),
        (contest.differ, contest.read_ahead_kib, contest.other_storage.is_some()),
        (&contest.layout, contest.memory_bytes, contest.random),
    )
}

#[cfg(test)]
mod tests {
    use seekless_record::Subject;

    use super::*;

    #[test]
    fn a_method_is_named_without_what_its_heading_says() {
        let mut contest = crate::simulation::contest(1 << 20, Vec::new());
        contest.durability = Durability::Fsync;
        let method = "write/sync,direct,block=4M,fsync";
        assert_eq!(short_name(method, &contest), "sync direct,block=4M");
        assert_eq!(family(method, &contest), "sync direct");
        let random = RandomAccess {
            block_bytes: 4096,
            depth: 32,
            requests: 1000,
            reads_percent: 0,
        };
        contest.random = Some(random);
        let method = "write/io_uring,depth=32,direct,block=4K,access=random,fsync";
        assert_eq!(short_name(method, &contest), "io_uring direct");
        assert_eq!(title(&contest), "read 1 MiB, cold, 4 KiB at random, depth 32");
    }

    #[test]
    fn words_name_an_existing_directory_with_its_files() {
        let mut contest = crate::simulation::run(&[("command/cat", 1.0)], 1).contests.remove(0);
        (contest.tree, contest.files, contest.size_bytes) = (Some("/usr".to_owned()), 131_375, 43_210);
        contest.cold_metadata = true;
        let title = title(&contest);
        assert_eq!(title, "read /usr, 131,375 files, 5.29 GiB, cold with their metadata");
        assert!(has_small_files(&contest) && !is_told_in_times(&contest));
        let Subject::Command(command) = &mut contest.entries[0].subject else {
            panic!("it is a command");
        };
        command.argv.push("{tree}".to_owned());
        assert!(is_told_in_times(&contest), "it need not read everything");
        contest.files = 1;
        assert!(super::title(&contest).starts_with("read /usr, 1 file, 42.2 KiB"));
        contest.size_bytes = 0;
        assert!(super::title(&contest).starts_with("read /usr, cold"));
    }
}
