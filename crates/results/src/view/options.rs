//! A table over all contests: what each option gained or cost.

use std::collections::BTreeMap;

use seekless_method::Operation;
use seekless_record::OptionEffect;

use super::View;
use crate::compare::Change;
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
        let mut sheet = Sheet::new("What each option gained or cost alone");
        for ((operation, option), effects) in options {
            let counts = counted.map(|change| {
                let alike = effects.iter().filter(|effect| Change::of(&effect.ratio) == change);
                let count = SheetCell::figure(Some(alike.count() as f64), |count| count.to_string());
                (change.word(), count)
            });
            let mut ratios: Vec<f64> = effects.iter().filter_map(|effect| sound(effect.ratio.median)).collect();
            ratios.sort_by(f64::total_cmp);
            let end = |ratio: Option<&f64>| SheetCell::figure(ratio.copied(), three_digits);
            let names = [
                ("task", SheetCell::words(operation.name())),
                ("option", SheetCell::method(option)),
            ];
            let figures = [
                ("median ratio", SheetCell::figure(median(&ratios), times)),
                ("from", end(ratios.first())),
                ("to", end(ratios.last())),
            ];
            sheet.push(None, names.into_iter().chain(counts).chain(figures));
        }
        sheet
    }
}
