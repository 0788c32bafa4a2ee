//! Tables over all contests: the best methods of each task, and what each option gained or cost.

use std::collections::BTreeMap;

use seekless_method::{Operation, format_size};
use seekless_record::OptionEffect;

use super::{ContestView, View, rate_of};
use crate::compare::Change;
use crate::sheet::ColumnKind::{Figure, Method, Words};
use crate::sheet::{Sheet, SheetCell};
use crate::statistics::median;
use crate::units::{sound, three_digits, times, times_with_bounds};
use crate::words::short_name;

impl View<'_> {
    /// The best synchronous and the best overlapping method of each contest.
    #[must_use]
    pub fn best(&self) -> Sheet {
        let heads = [
            ("task", Words),
            ("file", Figure),
            ("best synchronous", Method),
            ("rate", Figure),
            ("best overlapping", Method),
            ("rate", Figure),
            ("overlapping takes", Figure),
        ];
        let mut sheet = Sheet::new("The best method by task, kind and size", heads);
        for contest in &self.contests {
            let Some(conclusion) = &contest.contest.conclusion else {
                continue;
            };
            let both = [&conclusion.best_synchronous, &conclusion.best_overlapping].map(Option::as_deref);
            if both == [None, None] {
                continue;
            }
            let [synchronous, overlapping] = both;
            let ratio = overlapping.zip(synchronous);
            let ratio = ratio.and_then(|(one, other)| Some(contest.compare(one, other)?.ratio));
            let size_bytes = contest.contest.size_bytes;
            let task = [
                SheetCell::words(&contest.title),
                SheetCell::figure(Some(size_bytes as f64), |_| format_size(size_bytes)),
            ];
            let methods = both.into_iter().flat_map(|method| method_and_rate(contest, method));
            let median = ratio.map(|ratio| ratio.median);
            let gain = SheetCell::figure(median, |_| ratio.as_ref().map_or_else(String::new, times_with_bounds));
            sheet.push(None, task.into_iter().chain(methods).chain([gain]));
        }
        sheet
    }

    /// The effect of each option, over all pairs of methods that differ in it alone.
    #[must_use]
    pub fn options(&self) -> Sheet {
        let mut options: BTreeMap<(Operation, &str), Vec<&OptionEffect>> = BTreeMap::new();
        for contest in &self.contests {
            for effect in contest.effects_recorded() {
                let effects = options.entry((contest.contest.operation, &effect.option));
                effects.or_default().push(effect);
            }
        }
        let counted = [Change::Faster, Change::Slower, Change::NoneShown, Change::TooFewRounds];
        let heads = [("task", Words), ("option", Method)].into_iter();
        let heads = heads.chain(counted.map(|change| (change.word(), Figure)));
        let heads = heads.chain(["median ratio", "from", "to"].map(|head| (head, Figure)));
        let mut sheet = Sheet::new("What each option gained or cost alone", heads);
        for ((operation, option), effects) in options {
            let count = |change| {
                effects
                    .iter()
                    .filter(|effect| Change::of(&effect.ratio) == change)
                    .count()
            };
            let counts = counted.map(|change| SheetCell::figure(Some(count(change) as f64), |count| count.to_string()));
            let ratios: Vec<f64> = effects.iter().filter_map(|effect| sound(effect.ratio.median)).collect();
            let ends = [
                ratios.iter().copied().reduce(f64::min),
                ratios.iter().copied().reduce(f64::max),
            ];
            let names = [operation.name(), option].map(SheetCell::words).into_iter();
            let ratio = [SheetCell::figure(median(&ratios), times)];
            let ends = ends.map(|end| SheetCell::figure(end, three_digits));
            sheet.push(None, names.chain(counts).chain(ratio).chain(ends));
        }
        sheet
    }
}

/// Two cells: a method and its rate.
fn method_and_rate(contest: &ContestView<'_>, method: Option<&str>) -> [SheetCell; 2] {
    let rate = method.and_then(|method| rate_of(contest.entry(method)?));
    let name = method.map(|method| short_name(method, contest.contest));
    [
        SheetCell::words(name.unwrap_or_default()),
        SheetCell::figure(rate, |rate| contest.speed(rate)),
    ]
}
