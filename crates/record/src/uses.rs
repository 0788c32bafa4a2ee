//! What plans predicted and what was then measured: a line of JSON for each use of a plan, and summaries of them.
//!
//! Where they are kept is said in `seekless_engine::profile`. They are no results: the cache state of a use is not controlled.

use crate::check;
use crate::versions::DocumentError;
use crate::visit::Field;
use crate::{Bounds, Conditions, Interval, Text};

documents! {
    /// A planned operation that was done.
    pub struct PlanUse {
        /// When it ended, in seconds since 1970.
        pub unix_seconds: u64 => Bounds::COUNT,
        /// What was done, and how much of it was in the page cache.
        pub conditions: Conditions,
        /// The bytes that were read, written, copied, or compared of each file.
        pub bytes: u64 => Bounds::COUNT,
        /// The method.
        pub method: String => Text::Method,
        /// The seconds that the plan predicted.
        pub predicted_seconds: f64 => Bounds::SECONDS,
        /// The seconds that it took.
        pub actual_seconds: f64 => Bounds::SECONDS,
        /// When the newest sitting of the profile began that the plan rests on, in seconds since 1970; `None` for a plan without a
        /// profile.
        pub sitting_unix_seconds: Option<u64> => Bounds::COUNT,
    }

    /// The newest uses under the same conditions whose plans rest on the same sitting.
    pub struct UseSummary {
        /// The conditions.
        pub conditions: Conditions,
        /// How many uses.
        pub uses: u64 => Bounds::COUNT,
        /// The median of the actual over the predicted time.
        pub median: f64 => Bounds::RATIO,
        /// The ratio that a tenth of the uses is below.
        pub low: f64 => Bounds::RATIO,
        /// The ratio that a tenth of the uses is above.
        pub high: f64 => Bounds::RATIO,
        /// When the newest sitting of the profile began that the plans rest on, in seconds since 1970; `None` for plans without a
        /// profile.
        pub sitting_unix_seconds: Option<u64> => Bounds::COUNT,
    }
}

documents! {
    /// Costs of a storage that were measured together for plans, in nanoseconds.
    pub struct PlanFacts {
        /// What was measured.
        pub group: String => Text::Private,
        /// When, in seconds since 1970.
        pub unix_seconds: u64 => Bounds::COUNT,
        /// The costs, with the smallest and the largest measurement.
        pub costs: Vec<Interval> => Bounds::NANOSECONDS,
    }
}

/// Reads a line, which is checked as a run is.
fn from_line<T: Field<()> + serde::de::DeserializeOwned>(line: &[u8]) -> Result<T, DocumentError> {
    let mut read: T = serde_json::from_slice(line)?;
    check::fields(|fields| Field::visit(&mut read, &mut String::new(), (), fields))?;
    Ok(read)
}

fn to_line(document: &impl serde::Serialize) -> String {
    // Neither has keys that are not text.
    serde_json::to_string(document).unwrap_or_default() + "\n"
}

/// Fewer uses say nothing.
const FEWEST_USES: usize = 8;
/// Only so many of the newest uses are summed up.
const NEWEST_USES: usize = 40;
/// A plan is off if its uses take this many times as long or as short as predicted.
const OFF: f64 = 1.5;

impl PlanUse {
    /// Reads the line of a use.
    ///
    /// # Errors
    /// [`DocumentError`] for a damaged line.
    pub fn from_line(line: &[u8]) -> Result<Self, DocumentError> {
        from_line(line)
    }

    /// Its line, with a line feed.
    #[must_use]
    pub fn to_line(&self) -> String {
        to_line(self)
    }
}

impl PlanFacts {
    /// Reads the line of a group.
    ///
    /// # Errors
    /// [`DocumentError`] for a damaged line.
    pub fn from_line(line: &[u8]) -> Result<Self, DocumentError> {
        from_line(line)
    }

    /// Its line, with a line feed.
    #[must_use]
    pub fn to_line(&self) -> String {
        to_line(self)
    }
}

impl UseSummary {
    /// Reads the line of a summary.
    ///
    /// # Errors
    /// [`DocumentError`] for a damaged line.
    pub fn from_line(line: &[u8]) -> Result<Self, DocumentError> {
        from_line(line)
    }

    /// Its line, with a line feed.
    #[must_use]
    pub fn to_line(&self) -> String {
        to_line(self)
    }

    /// Sums up uses, the oldest first: for each of their conditions, the newest 40 whose plans rest on the same sitting as the newest
    /// one. The conditions that were used last come first.
    #[must_use]
    pub fn of(uses: &[PlanUse]) -> Vec<Self> {
        let mut summaries: Vec<Self> = Vec::new();
        for newest in uses.iter().rev() {
            let (conditions, sitting_unix_seconds) = (newest.conditions, newest.sitting_unix_seconds);
            if summaries.iter().any(|summary| summary.conditions == conditions) {
                continue;
            }
            let alike = |other: &&PlanUse| {
                (other.conditions, other.sitting_unix_seconds) == (conditions, sitting_unix_seconds)
                    && other.predicted_seconds > 0.0
            };
            let alike = uses.iter().rev().filter(alike).take(NEWEST_USES);
            let mut ratios: Vec<f64> = alike.map(|one| one.actual_seconds / one.predicted_seconds).collect();
            ratios.sort_by(f64::total_cmp);
            let Some(last) = ratios.len().checked_sub(1) else {
                continue;
            };
            summaries.push(Self {
                conditions,
                uses: ratios.len() as u64,
                median: ratios[last / 2].midpoint(ratios[ratios.len() / 2]),
                low: ratios[last / 10],
                high: ratios[last - last / 10],
                sitting_unix_seconds,
            });
        }
        summaries
    }

    /// Whether a profile no longer predicts these uses: there are at least 8, and half of them took more than 1.5 times as long, or
    /// less than the 1.5th part.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.sitting_unix_seconds.is_some()
            && self.uses >= FEWEST_USES as u64
            && !(1.0 / OFF..=OFF).contains(&self.median)
    }
}

#[cfg(test)]
mod tests {
    use seekless_method::Operation;

    use super::*;
    use crate::Cache;

    fn plan_use(operation: Operation, ratio: f64, sitting_unix_seconds: Option<u64>) -> PlanUse {
        PlanUse {
            unix_seconds: 1,
            conditions: Conditions {
                operation,
                cache: Cache::Cold,
                ..Conditions::default()
            },
            bytes: 1 << 20,
            method: "read/mmap".to_owned(),
            predicted_seconds: 2.0,
            actual_seconds: 2.0 * ratio,
            sitting_unix_seconds,
        }
    }

    #[test]
    fn uses_are_read_as_they_were_written_and_damaged_ones_are_not() {
        let one = plan_use(Operation::Copy, 1.0, Some(7));
        let line = one.to_line();
        assert_eq!(PlanUse::from_line(line.as_bytes()).unwrap(), one);
        for damaged in [
            &line[1..],
            &line.replace("2.0", "-2.0"),
            &line.replace("copy", "move"),
            "{}",
        ] {
            assert!(PlanUse::from_line(damaged.as_bytes()).is_err(), "{damaged}");
        }
        let summary = UseSummary::of(&[one]).remove(0);
        assert_eq!(UseSummary::from_line(summary.to_line().as_bytes()).unwrap(), summary);
    }

    #[test]
    fn uses_are_summed_up_by_their_conditions_for_the_newest_sitting() {
        let ratios = (1..=100).map(f64::from);
        let mut uses: Vec<PlanUse> = ratios.map(|ratio| plan_use(Operation::Read, ratio, Some(1))).collect();
        uses.push(plan_use(Operation::Copy, 3.0, Some(1)));
        uses.push(plan_use(Operation::Copy, 5.0, Some(2)));
        uses.push(plan_use(Operation::Copy, 7.0, Some(2)));
        let [copies, reads] = &UseSummary::of(&uses)[..] else {
            panic!("two conditions");
        };
        assert_eq!((copies.uses, copies.median), (2, 6.0));
        assert_eq!((copies.low, copies.high, copies.is_off()), (5.0, 7.0, false));
        // Of 61 to 100.
        assert_eq!(
            (reads.uses, reads.median, reads.low, reads.high),
            (40, 80.5, 64.0, 97.0)
        );
        assert!(reads.is_off());
    }

    #[test]
    fn a_profile_is_off_with_8_uses_by_a_factor_of_more_than_one_and_a_half() {
        let is_off = |count: usize, ratio, sitting| {
            let uses = vec![plan_use(Operation::Read, ratio, sitting); count];
            UseSummary::of(&uses)[0].is_off()
        };
        assert_eq!(
            [1.4, 1.6, 0.7, 0.6].map(|ratio| is_off(8, ratio, Some(1))),
            [false, true, false, true]
        );
        assert!(!is_off(7, 2.0, Some(1)));
        assert!(!is_off(8, 2.0, None), "no profile predicted these");
    }
}
