//! The file sizes at which the winner changes.

use seekless_record::Storage;

use super::ContestView;
use crate::labels::{series_title, task};
use crate::ranking::PairedRatio;
use crate::samples::is_slower;
use crate::units::chosen_size;

/// Where the winner of one size is slower at the next, in words: `read, cold, /data: read/mmap up to 64 MiB,
/// read/sync,block=1M from 128 MiB (where read/mmap takes 1.21x as long)`. The storages are given by their paths.
///
/// The winners are the recommended methods. Undecided sizes are skipped. A winner remains the winner until it is slower than the
/// winner of a larger size, by the rule by which methods are dropped: two ties are no change.
pub(super) fn crossovers(contests: &[ContestView<'_>], storages: &[Storage]) -> Vec<String> {
    let mut sentences = Vec::new();
    for series in series(&contests.iter().collect::<Vec<_>>()) {
        let mut reigning: Option<(&str, u64)> = None;
        for view in series {
            let contest = view.contest;
            let Some(winner) = view.recommended() else {
                continue;
            };
            let (champion, up_to) = reigning.unwrap_or((winner, contest.size_bytes));
            let comparison = view.compare(champion, winner);
            let beaten = comparison.filter(|comparison| is_slower(&comparison.ratio));
            let storage = storages.get(contest.storage).map(|storage| storage.path.as_str());
            sentences.extend(beaten.map(|PairedRatio { ratio, .. }| {
                format!(
                    "{}: {champion} up to {}, {winner} from {} (where {champion} takes {:.2}x as long)",
                    series_title(contest, storage),
                    chosen_size(up_to),
                    chosen_size(contest.size_bytes),
                    ratio.median
                )
            }));
            let holds = comparison.is_some() && beaten.is_none();
            reigning = Some((if holds { champion } else { winner }, contest.size_bytes));
        }
    }
    sentences
}

/// The contests that differ in the file's size alone, by size.
#[must_use]
pub fn series<'v, 'a>(contests: &[&'v ContestView<'a>]) -> Vec<Vec<&'v ContestView<'a>>> {
    let mut all: Vec<(_, Vec<&'v ContestView<'a>>)> = Vec::new();
    for contest in contests {
        let key = (task(contest.contest), contest.contest.cache);
        match all.iter_mut().find(|(known, _)| *known == key) {
            Some((_, series)) => series.push(*contest),
            None => all.push((key, vec![*contest])),
        }
    }
    let by_size = |(_, mut series): (_, Vec<&'v ContestView<'a>>)| {
        series.sort_by_key(|contest| contest.contest.size_bytes);
        series
    };
    all.into_iter().map(by_size).collect()
}

#[cfg(test)]
mod tests {
    use seekless_record::{Run, Trial};

    use crate::simulation::{concluded, contest, run, trial};
    use crate::view::{View, Visible};

    fn crossovers_of(run: &Run) -> Vec<String> {
        View::of(&Visible::of(run)).crossovers
    }

    /// Sizes of 8, 16, 32 and 64 MiB at which mmap and sync take these seconds.
    fn series(seconds: [(f64, f64); 4]) -> Run {
        let mut all = run(&[("read/mmap", 1.0), ("read/sync,block=1M", 1.0)], 0);
        let entries = all.contests[0].entries.clone();
        all.contests = (0..4).map(|step| contest(8 << 20 << step, entries.clone())).collect();
        for (index, (mmap, sync)) in seconds.into_iter().enumerate() {
            let trials = (0..8).flat_map(|round| [trial(0, round, mmap), trial(1, round, sync)]);
            all.trials.extend(trials.map(|trial| Trial {
                contest: index,
                ..trial
            }));
        }
        concluded(all)
    }

    #[test]
    fn crossover_is_where_the_next_size_beats_the_winner() {
        let run = series([(1.0, 1.2), (1.0, 1.1), (1.2, 1.0), (1.3, 1.0)]);
        let expected = [
            "read, cold, /data: read/mmap up to 16 MiB, read/sync,block=1M from 32 MiB (where read/mmap takes 1.20x as long)",
        ];
        assert_eq!(crossovers_of(&run), expected);
        let undecided_between = {
            let mut run = run.clone();
            run.contests[2].conclusion.as_mut().unwrap().recommended = None;
            run
        };
        assert!(crossovers_of(&undecided_between)[0].contains("up to 16 MiB, read/sync,block=1M from 64 MiB"));
        // At 32M sync is recommended, being simpler, but mmap still ties.
        assert!(crossovers_of(&series([(1.0, 1.2), (1.0, 1.2), (1.0, 1.01), (1.0, 1.2)])).is_empty());
        assert!(crossovers_of(&series([(1.2, 1.0); 4])).is_empty());
    }
}
