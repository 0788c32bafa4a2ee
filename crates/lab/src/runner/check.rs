//! Holding a trial against what must have come out of it, outside any clock.

use seekless::method::CachePolicy;
use seekless::{Kernel, Method};
use seekless_record::{Cache, Contest, Entry, Target, Trial};

use super::Runner;
use super::trial::Files;
use crate::cache_state;
use crate::testfile::{check_copy, check_stream};
use crate::trial::Report;
use crate::trial::account::{self, Expected};

impl Runner<'_> {
    /// Holds a trial against what must have come out of it. Tells whether the copies share blocks with their source.
    pub(super) fn check(
        &self,
        contest: &Contest,
        entry: &Entry,
        files: &Files,
        report: &Report,
        trial: &mut Trial,
    ) -> bool {
        let place = &self.places[contest.storage];
        let method: Option<Method> = entry.method.parse().ok();
        let summary = match files.targets.first().or(files.sources.first().map(|file| &file.path)) {
            Some(path) => seekless::extents(path).ok().flatten(),
            None => None,
        };
        let shared = contest.operation == "copy" && summary.is_some_and(|extents| extents.shared_bytes > 0);
        trial.extents = summary.map(|extents| extents.count);
        let is_write = contest.operation == "write";
        let looked_at = if is_write {
            files.held(Target::Overwrite)
        } else {
            files.held(contest.target)
        };
        trial.resident_after = cache_state::resident(looked_at).unwrap_or(None);
        let allocated: Option<u64> = files
            .sources
            .iter()
            .map(|file| file.allocated_bytes.or(Some(file.bytes)))
            .sum();
        let expected = Expected {
            device_bytes: allocated.filter(|_| place.tells_source() && contest.operation != "write"),
            cache: contest.cache,
            shared,
        };
        let wrong = self
            .wrong_result(contest, files, report)
            .map(|why| format!("{WRONG}: {why}"))
            .or_else(|| trial.invalid.take())
            .or_else(|| account::wrong_source(report, method.as_ref(), expected))
            .or_else(|| used_cache(method.as_ref(), contest, trial.resident_after));
        trial.valid = wrong.is_none();
        trial.invalid = wrong;
        shared
    }

    /// What is wrong with what a trial found or made.
    fn wrong_result(&self, contest: &Contest, files: &Files, report: &Report) -> Option<String> {
        let unreadable = |error: std::io::Error| Some(format!("it could not be checked: {error}"));
        match contest.operation.as_str() {
            "read" => {
                let kernel: Kernel = contest.kernel.parse().ok()?;
                let is_command = report.calls.is_none();
                if !is_command && report.answers.len() != files.sources.len() {
                    return Some("not every file gave an answer".to_owned());
                }
                let answers = report.answers.iter().zip(&files.sources);
                let mut wrong = answers.filter(|(found, file)| file.answer(kernel) != Some(*found));
                let bytes: u64 = files.sources.iter().map(|file| file.bytes).sum();
                if report.bytes != bytes {
                    return Some(format!("{} bytes were read instead of {bytes}", report.bytes));
                }
                wrong
                    .next()
                    .map(|(found, file)| format!("{kernel} found {found:?} in {}", file.path.display()))
            }
            "write" => files.targets.iter().find_map(|path| {
                check_stream(path, contest.size_bytes, self.bench.seed).map_or_else(unreadable, Result::err)
            }),
            _ => files
                .targets
                .iter()
                .zip(&files.sources)
                .find_map(|(path, source)| check_copy(path, &source.path).map_or_else(unreadable, Result::err)),
        }
    }
}

/// How a wrong answer is told from a wrong state: it ends the entry.
pub(super) const WRONG: &str = "wrong result";

/// Of a file read past the page cache at most this part may be resident afterwards.
pub(super) const STRAY_PART: f64 = 0.01;

/// Whether a method that goes past the page cache left the file in it.
fn used_cache(method: Option<&Method>, contest: &Contest, resident_after: Option<f64>) -> Option<String> {
    let direct = method.is_some_and(|method| method.options().cache == CachePolicy::Direct);
    let stayed = resident_after.is_some_and(|part| part > STRAY_PART);
    let is_looked_at = contest.cache == Cache::Cold || contest.operation == "write";
    (direct && stayed && is_looked_at).then(|| "direct I/O left the file in the page cache".to_owned())
}
