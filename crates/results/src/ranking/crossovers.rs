//! The file sizes at which the winner changes.

use seekless_method::{Durability, Operation, format_size};
use seekless_record::{Cache, Contest, Run, Target};

use super::conclude::Judged;
use crate::words::pair_words;

/// One series of sizes: contests that are alike in everything else.
type Series<'a> = (
    &'a str,
    Operation,
    usize,
    Cache,
    Target,
    &'a str,
    u64,
    bool,
    Durability,
    String,
);

/// Where the winner of one size is slower at the next, in words: `read, cold, /data: read/mmap up to 64M, read/sync,block=1M
/// from 128M on (there read/mmap takes 1.21x its time)`.
///
/// The winners are the recommended methods. Sizes at which it is undecided are passed over, and a winner stays one while
/// it is not slower than the next size's, by the rule by which methods are dropped: two ties are no change.
#[must_use]
pub fn crossovers(run: &Run) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut series: Vec<Series<'_>> = Vec::new();
    for contest in &run.contests {
        let key = series_of(contest);
        if !series.contains(&key) {
            sentences.extend(changes(run, &key));
            series.push(key);
        }
    }
    sentences
}

fn series_of(contest: &Contest) -> Series<'_> {
    (
        &contest.experiment,
        contest.operation,
        contest.storage,
        contest.cache,
        contest.target,
        &contest.kernel,
        contest.work_ns_per_kib,
        contest.shared_blocks,
        contest.durability,
        pair_words(contest),
    )
}

/// The changes of winner along one series.
fn changes(run: &Run, series: &Series<'_>) -> Vec<String> {
    let mut contests: Vec<(usize, &Contest, &str)> = run
        .contests
        .iter()
        .enumerate()
        .filter(|(_, contest)| series_of(contest) == *series)
        .filter_map(|(index, contest)| Some((index, contest, contest.conclusion.as_ref()?.recommended.as_deref()?)))
        .collect();
    contests.sort_by_key(|(_, contest, _)| contest.size_bytes);
    let mut sentences = Vec::new();
    let mut reigning: Option<(&str, u64)> = None;
    for (index, contest, winner) in contests {
        let (champion, up_to) = match reigning {
            Some(reign) => reign,
            None => (winner, contest.size_bytes),
        };
        let outcome = outcome(run, index, contest, champion, winner);
        if let Outcome::Beaten(ratio) = outcome {
            sentences.push(format!(
                "{}: {champion} up to {}, {winner} from {} on (there {champion} takes {ratio:.2}x its time)",
                describe(run, contest),
                format_size(up_to),
                format_size(contest.size_bytes),
            ));
        }
        let heir = if matches!(outcome, Outcome::Holds) {
            champion
        } else {
            winner
        };
        reigning = Some((heir, contest.size_bytes));
    }
    sentences
}

/// How the earlier winner does at a later size.
enum Outcome {
    Holds,
    /// It takes so many times as long as the winner there.
    Beaten(f64),
    /// It was not measured there.
    Unknown,
}

fn outcome(run: &Run, index: usize, contest: &Contest, champion: &str, winner: &str) -> Outcome {
    if champion == winner {
        return Outcome::Holds;
    }
    let judged = Judged::new(index, contest, &run.trials);
    let place = |method: &str| contest.entries.iter().position(|entry| entry.name() == method);
    let comparison = place(champion)
        .zip(place(winner))
        .and_then(|(one, other)| judged.compare(one, other));
    match comparison {
        None => Outcome::Unknown,
        Some(comparison) if comparison.is_slower() => Outcome::Beaten(comparison.ratio.median),
        Some(_) => Outcome::Holds,
    }
}

fn describe(run: &Run, contest: &Contest) -> String {
    let mut words = vec![contest.operation.to_string()];
    match contest.cache {
        Cache::Cold => words.push("cold".to_owned()),
        Cache::Warm => words.push("warm".to_owned()),
        Cache::Over => words.push("larger than memory".to_owned()),
        Cache::None => {}
    }
    if contest.target == Target::Overwrite {
        words.push("overwriting".to_owned());
    }
    let pair = pair_words(contest);
    words.extend(pair.strip_prefix(", ").map(str::to_owned));
    words.extend(run.storages.get(contest.storage).map(|storage| storage.path.clone()));
    words.join(", ")
}
