//! Which of several storages is faster, each with its fastest method, in the rounds that they share.

use seekless_record::{Interval, Storage};

use super::ContestView;
use crate::compare::Change;
use crate::same::subject;

/// How long each storage takes beside the first one of the same contest, in words: `/mnt2 takes 0.61x as long as /d1 to copy
/// 64 MiB, cold (0.55 to 0.66)`. With fewer than 6 shared rounds, there is no answer.
pub(super) fn storages(contests: &[ContestView<'_>], storages: &[Storage]) -> Vec<String> {
    let mut firsts: Vec<&ContestView<'_>> = Vec::new();
    let mut sentences = Vec::new();
    for view in contests {
        let Some(first) = firsts.iter().find(|first| does_the_same(first, view)) else {
            firsts.push(view);
            continue;
        };
        let paths = [view, first].map(|view| storages.get(view.contest.storage));
        if let ([Some(own), Some(other)], Some(ratio)) = (paths, view.over(first)) {
            sentences.extend(sentence([&own.path, &other.path], &view.name, &ratio));
        }
    }
    sentences
}

/// Whether two contests do equal work: copies that share blocks and reads that skip holes do less.
fn does_the_same(one: &ContestView<'_>, other: &ContestView<'_>) -> bool {
    let (one, other) = (one.contest, other.contest);
    one.storage != other.storage && subject(0, one) == subject(0, other)
}

fn sentence([own, other]: [&str; 2], task: &str, ratio: &Interval) -> Option<String> {
    let Interval { low, median, high, .. } = ratio;
    let takes = format!("{own} takes {median:.2}x as long as {other} to {task} ({low:.2} to {high:.2})");
    match Change::of(ratio) {
        Change::TooFewRounds => None,
        Change::NoneShown => Some(format!("No difference is shown: {takes}")),
        Change::Faster | Change::Slower => Some(takes),
    }
}

#[cfg(test)]
mod tests {
    use seekless_record::{Run, Storage, Trial};

    use crate::simulation::{concluded, run, trial};
    use crate::view::{View, Visible};

    /// Two storages, of which the second's methods take this many times as long; all of a round are slowed down together.
    fn on_two(times: f64, rounds: u32) -> Run {
        let mut all = run(&[("read/mmap", 1.0), ("read/sync,block=1M", 1.3)], 0);
        all.storages.push(Storage {
            path: "/other".to_owned(),
            ..Storage::default()
        });
        let mut second = all.contests[0].clone();
        second.storage = 1;
        all.contests.push(second);
        for (contest, times) in [(0, 1.0), (1, times)] {
            for (round, entry) in (0..rounds).flat_map(|round| [(round, 0), (round, 1)]) {
                let seconds = times * [1.0, 1.3][entry] * f64::from(1 + round % 3);
                let trial = trial(entry, round, seconds);
                all.trials.push(Trial { contest, ..trial });
            }
        }
        concluded(all)
    }

    fn told(run: &Run) -> Vec<String> {
        View::of(&Visible::of(run)).storages
    }

    #[test]
    fn storages_compare_by_fastest_methods_of_the_same_work() {
        let expected = ["/other takes 0.60x as long as /data to read 64 MiB, cold (0.60 to 0.60)"];
        assert_eq!(told(&on_two(0.6, 8)), expected);
        assert!(told(&on_two(1.0, 8))[0].starts_with("No difference is shown: "));
        assert!(told(&on_two(0.6, 5)).is_empty(), "5 rounds show nothing");
        let mut run = on_two(0.6, 8);
        run.contests[1].shared_blocks = true;
        assert!(told(&run).is_empty());
        run.contests[1].shared_blocks = false;
        run.contests[1].size_bytes += 1;
        assert!(told(&run).is_empty());
    }
}
