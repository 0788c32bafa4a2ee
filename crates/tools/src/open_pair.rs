//! Comparing two open files by a method of the engine: by path if the method opens them again, otherwise by descriptor.

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;

use seekless::method::CachePolicy;
use seekless::plan::Plan;
use seekless::{Comparer, Comparison, Method, Part, Progress, Result};

/// A range of an open file, with a path for opening it again, which direct methods need.
pub(crate) struct OpenRange<'a> {
    pub file: &'a File,
    pub path: PathBuf,
    pub range: Range<u64>,
}

impl OpenRange<'_> {
    fn part(&self, by_path: bool) -> Part<'_> {
        let part = if by_path {
            Part::whole(&self.path)
        } else {
            Part::of_file(self.file).named(&self.path)
        };
        part.range(self.range.clone())
    }
}

/// Plans comparing two ranges. A file that cannot be opened again is read through the page cache.
pub(crate) fn plan_pair(pair: [&OpenRange<'_>; 2], is_predicted: bool) -> Result<Plan> {
    let plan_by = |by_path: bool| {
        let [one, other] = pair.map(|range| range.part(by_path));
        Comparer::plan(one, other, is_predicted)
    };
    plan_by(true).or_else(|_| plan_by(false))
}

/// Compares two ranges by a method that is prepared. An open descriptor reads through the page cache.
pub(crate) fn compare_pair(
    pair: [&OpenRange<'_>; 2],
    method: &Method,
    comparer: &mut Comparer,
    progress: Option<&dyn Progress>,
) -> Result<Comparison> {
    let by_path = method.options().cache() != CachePolicy::Cached;
    let [one, other] = pair.map(|range| range.part(by_path));
    comparer.compare_told(&one, &other, progress)
}
