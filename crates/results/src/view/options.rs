//! A table over all contests: what each option gained or cost.

use std::collections::BTreeMap;

use seekless_method::Operation;
use seekless_record::OptionEffect;

use super::View;
use crate::compare::Change;
use crate::sheet::ColumnKind::{Figure, Method, Words};
use crate::sheet::{Sheet, SheetCell};
use crate::statistics::median;
use crate::units::{sound, three_digits, times};

impl View<'_> {
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
