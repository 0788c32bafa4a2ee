//! The rule on real runs: each sitting is left out in turn, the others decide, and it says what that decision cost in it.

use std::path::Path;

use anyhow::{Context, Result};
use seekless_record::{Run, Verdict};
use seekless_results::statistics::median;
use seekless_results::{View, Visible, pool};

use super::{Rate, leader, recommended, said_slower, to_use};

/// What came of the contests of left-out sittings.
#[derive(Debug, Default)]
struct Replay {
    /// Of the contests.
    decided: Rate,
    /// The sitting alone has the same method to use.
    same: Rate,
    /// The time of the method to use over that of the one that led the left-out sitting, less one: no less than its regret.
    over_leader: Vec<f64>,
    /// Contests in which the method to use was slower in the left-out sitting for certain.
    beaten: Rate,
    /// Claims that a method is slower, and those that the left-out sitting contradicts.
    contradicted: Rate,
}

/// Prints a line of Markdown for each sitting that is left out, and one for all.
pub fn run(directory: &Path) -> Result<()> {
    let runs = read(directory)?;
    println!(
        "| left out | sittings | contests | decided | same alone | over the leader, median | > 10 % | clearly beaten | claims \
         | contradicted |\n|---|{}",
        "---:|".repeat(9)
    );
    let mut all = Replay::default();
    for run in &runs {
        // It is not among its own others.
        let (own, sittings) = replay(run, &runs);
        if own.decided.of > 0 {
            println!("{}", line(&run.id, &sittings.to_string(), &own));
        }
        all.add(own);
    }
    println!("{}", line("all", "", &all));
    Ok(())
}

/// The documents of a directory; what is no run is named and left out.
pub fn read(directory: &Path) -> Result<Vec<Run>> {
    let entries = std::fs::read_dir(directory).with_context(|| format!("{}: cannot list", directory.display()))?;
    let mut runs = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        match seekless_record::from_json(&std::fs::read(&path)?) {
            Ok(run) => runs.push(run),
            Err(error) => eprintln!("{}: left out: {error}", path.display()),
        }
    }
    runs.sort_by(|one: &Run, other| one.started.cmp(&other.started));
    Ok(runs)
}

fn line(name: &str, sittings: &str, own: &Replay) -> String {
    let mut beyond = Rate::default();
    for over in &own.over_leader {
        beyond.count(*over > 0.10);
    }
    let cells = [
        sittings.to_owned(),
        own.decided.of.to_string(),
        own.decided.to_string(),
        own.same.to_string(),
        median(&own.over_leader).map_or_else(|| "-".to_owned(), |over| format!("{:.1} %", over * 100.0)),
        beyond.to_string(),
        own.beaten.to_string(),
        own.contradicted.of.to_string(),
        own.contradicted.to_string(),
    ];
    format!("| {name} | {} |", cells.join(" | "))
}

/// What the others conclude for the contests of a run, scored on it; and how many sittings they are.
fn replay(run: &Run, others: &[Run]) -> (Replay, u32) {
    let mut unmeasured = run.clone();
    unmeasured.trials.clear();
    let decided = pool(&unmeasured, others);
    let (mut found, mut sittings) = (Replay::default(), 0);
    let shown = Visible::of(run);
    for (contest, own) in decided.contests.iter().zip(&View::of(&shown).contests) {
        let of_sittings = contest
            .conclusion
            .as_ref()
            .and_then(|conclusion| conclusion.sittings.as_ref());
        let count = of_sittings.map_or(0, |sittings| sittings.count);
        let Some((entry, _)) = to_use(contest).filter(|_| count > 0) else {
            continue;
        };
        sittings = sittings.max(count);
        found.decided.count(recommended(contest).is_some());
        found
            .same
            .count(to_use(own.contest).is_some_and(|(own, _)| own == entry));
        let standing = own.contest.entries[entry].standing.as_ref();
        found
            .over_leader
            .extend(standing.map(|standing| standing.ratio.median - 1.0));
        found
            .beaten
            .count(standing.is_some_and(|standing| standing.verdict == Verdict::Slower));
        let name = |entry: usize| contest.entries[entry].name().into_owned();
        for slower in said_slower(contest) {
            // What the sitting dropped early has the range of three rounds for an interval: that contradicts too easily
            // rather than not.
            let compared = leader(contest).and_then(|leader| own.compare(&name(slower), &name(leader)));
            if let Some(compared) = compared.filter(|compared| compared.pairs > 2) {
                found.contradicted.count(compared.ratio.high < 1.0);
            }
        }
    }
    (found, sittings)
}

impl Replay {
    fn add(&mut self, other: Self) {
        self.decided.add(other.decided);
        self.same.add(other.same);
        self.over_leader.extend(other.over_leader);
        self.beaten.add(other.beaten);
        self.contradicted.add(other.contradicted);
    }
}

#[cfg(test)]
mod tests {
    use super::super::world::{Chance, SCENARIOS};
    use super::super::{Truth, as_sitting};
    use super::*;

    #[test]
    fn sittings_that_agree_decide_for_each_other_and_one_that_differs_contradicts() {
        let scenario = &SCENARIOS[0];
        let truth = scenario.truth(&mut Chance::new(1));
        let mut runs: Vec<Run> = (0..3)
            .map(|at| as_sitting(scenario.sit(&truth, 7 + u64::from(at)), at))
            .collect();
        let (same, sittings) = replay(&runs[0], &runs[1..]);
        assert_eq!((sittings, same.decided.of, same.contradicted.part), (2, 8, 0));
        assert!(same.decided.part >= 7 && same.contradicted.of > 20, "{same:?}");
        assert!(same.over_leader.iter().all(|&over| over < 0.06), "{same:?}");
        // Of one other alone, too, and not of what the sitting left out says itself.
        let (own, sittings) = replay(&runs[0], &runs[1..2]);
        assert_eq!((sittings, own.decided.of), (1, 8));
        assert!(own.over_leader.iter().any(|&over| over > 0.0), "{own:?}");
        // One in which what was slow is fast.
        let inverse: Truth = (truth.iter())
            .map(|methods| methods.iter().map(|seconds| 1e-3 / seconds).collect())
            .collect();
        runs[0] = as_sitting(scenario.sit(&inverse, 9), 0);
        let (other, _) = replay(&runs[0], &runs[1..]);
        assert!(other.beaten.part == 8 && other.contradicted.part > 20, "{other:?}");
        assert_eq!(replay(&runs[0], &[]).0.decided.of, 0, "nobody decides");
    }
}
