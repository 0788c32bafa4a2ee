//! The files of a run: layouts, sizes, number, the memory that they exceed, and making them.

use std::time::Duration;

use seekless::method::format_size;
use seekless_record::{Contest, Run};
use seekless_results::contending_time;

use super::place::TestFiles;
use super::size::{SUSTAINED_BYTES, Speeds, choose_size, choose_sustained, group_cost};
use super::{Bench, BenchError, Event, Runner};
use crate::cgroup;
use crate::experiment::{ContestPlan, Layout, Size};

impl Runner<'_> {
    /// The sizes of each plan's files: those it names, or the size that the lab chooses by the budget.
    pub(super) fn choose_sizes(&mut self, plans: &[ContestPlan], speeds: &Speeds) -> Vec<Vec<(Layout, u64)>> {
        let mut fixed = Duration::ZERO;
        let mut open = 0;
        for plan in plans {
            for cache in self.caches_of(plan) {
                for (_, bytes) in laid_out(plan) {
                    match bytes {
                        Some(bytes) => fixed += group_cost(plan, cache, bytes, speeds),
                        None => open += 1,
                    }
                }
            }
        }
        let left = contending_time(self.bench.budget).saturating_sub(fixed);
        let share = self.bench.rounds.is_none().then(|| left / open.max(1));
        let mut sizes = Vec::new();
        for plan in plans {
            let laid_out = laid_out(plan);
            let caches = self.caches_of(plan);
            let (auto, choice) = if plan.common.sustained {
                let (auto, most) = (choose_sustained(share, speeds), format_size(SUSTAINED_BYTES));
                let why = format!("as much as the budget and a quarter of the free space allow, up to {most}");
                (auto, format!("writes at most {}, {why}", format_size(auto)))
            } else {
                let known = known_size(self.bench, plan).filter(|bytes| (1..=speeds.limit_bytes).contains(bytes));
                let auto = known.unwrap_or_else(|| choose_size(plan, &caches, share, speeds));
                let why = match known {
                    Some(_) => "as in the first run on this storage, so that results can be combined",
                    None => "the largest size that the budget, and a quarter of the free space and memory, allow",
                };
                (auto, format!("files of {}, {why}", format_size(auto)))
            };
            if laid_out.iter().any(|(_, bytes)| bytes.is_none()) {
                self.run.choices.push(format!("{}: {choice}", plan.common.experiment));
            }
            let chosen = laid_out
                .into_iter()
                .map(|(layout, bytes)| (layout, bytes.unwrap_or(auto)));
            sizes.push(chosen.collect());
        }
        sizes
    }

    /// Makes the test files of contests.
    pub(super) fn make_files(&mut self, contests: &[usize]) -> Result<(), BenchError> {
        for &contest in contests {
            let contest = &self.run.contests[contest];
            let wanted: Vec<_> = TestFiles::of(contest).collect();
            if wanted.is_empty() || self.places[contest.storage].given().is_some() || self.stop.is_requested() {
                continue;
            }
            self.watch.event(&Event::Making {
                bytes: wanted.iter().map(|(_, files)| files.written_bytes()).sum(),
            });
            for (storage, files) in wanted {
                match self.places[storage].files(&files, self.bench.seed, self.stop) {
                    // Each of its entries gets the reason.
                    Ok(_) | Err(BenchError::Layout { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

/// The layouts and sizes of a plan's files; `None` if the lab chooses the size.
pub(super) fn laid_out(plan: &ContestPlan) -> Vec<(Layout, Option<u64>)> {
    let mut found: Vec<(Layout, Option<u64>)> = Vec::new();
    for layout in &plan.layouts {
        for size in &plan.sizes {
            let laid_out = match size {
                Size::Bytes(bytes) => {
                    let (layout, bytes) = layout.of_size(*bytes);
                    (layout, Some(bytes))
                }
                Size::Auto => (layout.clone(), layout.own_bytes()),
            };
            if !found.contains(&laid_out) {
                found.push(laid_out);
            }
        }
    }
    found
}

/// The size that the lab chose for a plan in the first earlier run with no larger budget than this one.
fn known_size(bench: &Bench, plan: &ContestPlan) -> Option<u64> {
    let budget = bench.rounds.is_none().then_some(bench.budget.as_secs_f64());
    let had_no_more = |run: &&Run| match (run.budget_seconds, budget) {
        (Some(had), Some(has)) => had <= has,
        (had, has) => had.is_none() && has.is_none(),
    };
    let mut runs: Vec<&Run> = bench.earlier.iter().filter(had_no_more).collect();
    runs.sort_by(|one, other| one.started.cmp(&other.started));
    let mut contests = runs.into_iter().flat_map(|run| &run.contests);
    let is_of_plan = |contest: &&Contest| {
        let of = |contest: &Contest| (contest.experiment.clone(), contest.operation, contest.target);
        contest.size_chosen && of(contest) == of(&plan.common)
    };
    contests.find(is_of_plan).map(|contest| contest.size_bytes)
}

/// The memory of a plan whose files get other sizes: the same part of the largest size.
pub(super) fn memory_for(plan: &ContestPlan, sizes: &[Size]) -> Option<u64> {
    let largest = |plan: &ContestPlan| laid_out(plan).into_iter().filter_map(|(_, bytes)| bytes).max();
    let other = ContestPlan {
        sizes: sizes.to_owned(),
        ..plan.clone()
    };
    let (own, other) = (largest(plan)?, largest(&other)?);
    let scaled = u128::from(plan.common.memory_bytes?) * u128::from(other) / u128::from(own);
    // Rounded to whole MiB.
    Some((scaled as u64 >> 20 << 20).max(cgroup::LEAST_BYTES))
}
