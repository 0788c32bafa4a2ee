//! What another read-ahead window gains, by a run that measured several.

use seekless_method::{CachePolicy, Choice, Method};
use seekless_record::{Cache, Contest, Interval, Run};
use serde::Serialize;

/// The best of the windows that a run measured, beside the one that the device has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowGain {
    /// The best window, in KiB.
    #[serde(rename = "read_ahead_kib")]
    pub kib: u64,
    /// Its time over that with the present window.
    #[serde(rename = "time_ratio")]
    pub ratio: f64,
    /// Whether the bounds of both times do not meet.
    pub is_shown: bool,
    /// The size of the file, in bytes.
    pub bytes: u64,
    /// When the run began.
    pub started: String,
}

/// What the best window gains for reading a cold file once, by the fastest of the methods that read ahead; of several sizes, the
/// largest. `None` if the run did not compare the present window with another one.
#[must_use]
pub fn window_gain(run: &Run, present_kib: u64) -> Option<WindowGain> {
    let is_read = |contest: &&Contest| {
        contest.operation == seekless_method::Operation::Read
            && contest.cache == Cache::Cold
            && contest.random.is_none()
    };
    let window = |contest: &Contest| {
        let own = run
            .storages
            .get(contest.storage)
            .and_then(|storage| storage.id.as_ref()?.read_ahead_kib);
        contest.read_ahead_kib.or(own)
    };
    let reads = || run.contests.iter().filter(is_read);
    let compared = |bytes: u64| {
        let of_size = reads().filter(move |contest| contest.size_bytes == bytes);
        of_size.filter_map(|contest| Some((window(contest)?, fastest(contest)?)))
    };
    let mut sizes: Vec<u64> = reads()
        .filter(|contest| contest.read_ahead_kib.is_some())
        .map(|contest| contest.size_bytes)
        .collect();
    sizes.sort_unstable();
    sizes.into_iter().rev().find_map(|bytes| {
        let (_, present) = compared(bytes).find(|(kib, _)| *kib == present_kib)?;
        let others = compared(bytes).filter(|(kib, _)| *kib != present_kib);
        let (kib, best) = others.min_by(|(_, one), (_, other)| one.median.total_cmp(&other.median))?;
        Some(WindowGain {
            kib,
            ratio: best.median / present.median,
            is_shown: best.high < present.low,
            bytes,
            started: run.started.clone(),
        })
    })
}

/// The seconds of the fastest method that reads through the page cache.
fn fastest(contest: &Contest) -> Option<Interval> {
    let is_ahead = |method: &Method| method.options().cache() != CachePolicy::Direct;
    let entries = contest.entries.iter();
    let times = entries.filter_map(|entry| match entry.choice() {
        Some(Choice::Method(method)) if is_ahead(&method) => Some(entry.summary.as_ref()?.seconds),
        _ => None,
    });
    times
        .filter(|seconds| seconds.median > 0.0)
        .min_by(|one, other| one.median.total_cmp(&other.median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation;

    #[test]
    fn the_best_window_is_compared_with_the_present_one() {
        let mut run: Run = seekless_record::from_json(simulation::FULL.as_bytes()).unwrap();
        let mut template = run.contests[0].clone();
        (template.operation, template.cache, template.random) = (seekless_method::Operation::Read, Cache::Cold, None);
        template.entries.truncate(1);
        template.entries[0].subject = seekless_record::Subject::Method("read/sync,block=1M".to_owned());
        let with = |kib: Option<u64>, seconds: f64| {
            let mut contest = template.clone();
            contest.read_ahead_kib = kib;
            contest.entries[0].summary.as_mut().unwrap().seconds = Interval::around(seconds, 1.05, Some(0.95));
            contest
        };
        run.contests = vec![with(Some(128), 2.0), with(Some(1024), 1.0), with(Some(8192), 1.9)];
        let gain = window_gain(&run, 128).unwrap();
        assert_eq!((gain.kib, gain.ratio, gain.is_shown), (1024, 0.5, true));
        let at_best = window_gain(&run, 1024).unwrap();
        assert_eq!((at_best.kib, at_best.ratio, at_best.is_shown), (8192, 1.9, false));
        assert_eq!(window_gain(&run, 256), None, "this window was not measured");
        run.contests.truncate(1);
        assert_eq!(window_gain(&run, 128), None);
        run.contests.clear();
        assert_eq!(window_gain(&run, 128), None);
    }
}
