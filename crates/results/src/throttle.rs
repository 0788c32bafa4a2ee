//! Whether the speed of a disk is a limit that somebody set: the limits of bytes and of requests per second are round numbers.

use seekless_method::{CachePolicy, Choice, Operation};
use seekless_record::{Cache, Contest, Entry, Run, Trial};

use crate::samples::sorted;
use crate::statistics::{median, percentile};
use crate::units;

/// How far the ratio of two limits may be from a power of two, and a rate from its median: throttles are that exact, and disks are not.
const EXACT: f64 = 0.01;
const STEADY: f64 = 0.03;
/// With fewer trials, no limit is reported.
const FEWEST_TRIALS: usize = 3;
/// A file of at least this size is read at the rate of the disk.
const LARGE_BYTES: u64 = 64 << 20;

/// The ratio of the limits of bytes and of requests per second, if it is a power of two (in bytes).
#[must_use]
pub fn throttle(bytes_per_second: f64, requests_per_second: f64) -> Option<u64> {
    let ratio = bytes_per_second / requests_per_second;
    let mut powers = (12..=24).map(|power| 1_u64 << power);
    powers.find(|&power| (ratio / power as f64 - 1.0).abs() < EXACT)
}

/// What to say if cold direct reads of a storage are throttled.
#[must_use]
pub fn throttled(run: &Run) -> Option<String> {
    let contests: Vec<_> = run.contests.iter().zip(sorted(run)).collect();
    (0..run.storages.len()).find_map(|storage| {
        let best = |of: fn(&Contest, &Trial) -> Option<f64>| {
            let here = contests.iter().filter(|(contest, _)| {
                contest.storage == storage && contest.operation == Operation::Read && contest.cache == Cache::Cold
            });
            let entries = here.flat_map(|(contest, trials)| contest.entries.iter().zip(trials).map(move |one| (contest, one)));
            let rates = entries.filter(|(_, (entry, _))| is_direct(entry)).filter_map(|(contest, (_, trials))| {
                let valid = trials.iter().filter(|trial| trial.valid);
                steady(&valid.filter_map(|trial| of(contest, trial)).collect::<Vec<_>>())
            });
            rates.reduce(f64::max)
        };
        let bytes = best(|contest, trial| {
            let is_large = contest.random.is_none() && contest.size_bytes >= LARGE_BYTES;
            is_large.then(|| trial.bytes as f64 / trial.seconds)
        })?;
        let requests = best(|contest, trial| {
            contest.random?;
            Some(trial.latency?.requests as f64 / trial.seconds)
        })?;
        let power = throttle(bytes, requests)?;
        Some(format!(
            "Reading seems throttled: {} divided by {requests:.0} requests per second is {}, a power of two, within 1 %. Limits that a \
             cloud provider, a container or a host sets have such ratios; a disk seldom has one. The limits may change.",
            units::rate(bytes),
            units::bytes(power)
        ))
    })
}

fn is_direct(entry: &Entry) -> bool {
    matches!(entry.choice(), Some(Choice::Method(method)) if method.options().cache() == CachePolicy::Direct)
}

/// The median of rates, if they hardly differ.
fn steady(rates: &[f64]) -> Option<f64> {
    let middle = median(rates).filter(|_| rates.len() >= FEWEST_TRIALS)?;
    let is_near = |percent| percentile(rates, percent).is_some_and(|rate| (rate / middle - 1.0).abs() <= STEADY);
    (is_near(25) && is_near(75)).then_some(middle)
}

#[cfg(test)]
mod tests {
    use seekless_record::{Latency, RandomAccess};

    use super::*;
    use crate::simulation;

    /// A run that reads 64 MiB in these seconds, and makes 1,000 requests in others.
    fn run(seconds: f64, of_requests: f64) -> Run {
        let text = "read/sync,direct,block=4M";
        let mut run = simulation::run(&[(text, seconds)], 5);
        let mut random = simulation::run(&[("read/io_uring,depth=32,direct,block=4K", of_requests)], 5);
        random.contests[0].random = Some(RandomAccess {
            block_bytes: 4096,
            depth: 32,
            requests: 1000,
            reads_percent: 0,
        });
        for mut trial in random.trials {
            trial.contest = 1;
            trial.latency = Latency::of(vec![1; 1000]);
            run.trials.push(trial);
        }
        run.contests.push(random.contests.remove(0));
        run
    }

    #[test]
    fn throttle_tells_limits_by_ratios_of_powers_of_two() {
        // 128 MiB/s and 2,000 or 2,048 requests per second.
        for (of_requests, is_told) in [(1000.0 / 2048.0, true), (0.5, false)] {
            let found = throttled(&run(0.5, of_requests));
            assert_eq!(found.is_some(), is_told, "{found:?}");
            if let Some(found) = found {
                let words = "134 MB/s divided by 2048 requests per second is 64.0 KiB, a power of two, within 1 %";
                assert!(found.contains(words), "{found}");
            }
        }
        assert_eq!(throttle(256.0 * 1024.0 * 3000.0, 3000.0), Some(256 << 10));
        assert_eq!(throttle(125e6, 3000.0), None);
        for impossible in [0.0, f64::INFINITY, f64::NAN] {
            assert_eq!(throttle(impossible, 3000.0), None);
            assert_eq!(throttle(1e9, impossible), None);
        }
        let mut run = run(0.5, 1000.0 / 2048.0);
        for trial in run.trials.iter_mut().filter(|trial| trial.round % 2 > 0) {
            trial.seconds *= 1.2;
        }
        assert_eq!(throttled(&run), None);
    }
}
