//! The rule on real runs: each sitting is left out in turn, the others decide, and it says what that decision cost in it.

use std::path::Path;

use anyhow::{Context, Result};
use seekless_record::{Contest, Run, Verdict};
use seekless_results::statistics::median;
use seekless_results::{View, Visible, pool};

use super::{leader, percent, to_use};

/// What came of the contests of left-out sittings.
#[derive(Debug, Default)]
struct Replay {
    contests: u32,
    decided: u32,
    /// The sitting alone has the same method to use.
    same: u32,
    /// The time of the method to use over that of the one that led the left-out sitting, less one: no less than its regret.
    over_leader: Vec<f64>,
    /// Contests in which the method to use was slower in the left-out sitting for certain.
    beaten: u32,
    /// Claims that a method is slower, and those that the left-out sitting contradicts.
    claims: u32,
    contradicted: u32,
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
        if own.contests > 0 {
            println!("{}", line(&run.id, &sittings.to_string(), &own));
        }
        all.add(own);
    }
    println!("{}", line("all", "", &all));
    Ok(())
}

/// The documents of a directory; what is no run is named and left out.
fn read(directory: &Path) -> Result<Vec<Run>> {
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
    let beyond = own.over_leader.iter().filter(|&&over| over > 0.10).count();
    let cells = [
        sittings.to_owned(),
        own.contests.to_string(),
        percent(own.decided, own.contests),
        percent(own.same, own.contests),
        median(&own.over_leader).map_or_else(|| "-".to_owned(), |over| format!("{:.1} %", over * 100.0)),
        percent(beyond as u32, own.over_leader.len() as u32),
        percent(own.beaten, own.contests),
        own.claims.to_string(),
        percent(own.contradicted, own.claims),
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
        let count = contest.conclusion.as_ref().and_then(|conclusion| conclusion.sittings);
        let count = count.map_or(0, |sittings| sittings.count);
        let Some((entry, _)) = to_use(contest).filter(|_| count > 0) else {
            continue;
        };
        sittings = sittings.max(count);
        found.contests += 1;
        let is_decided = contest
            .conclusion
            .as_ref()
            .is_some_and(|found| found.recommended.is_some());
        found.decided += u32::from(is_decided);
        found.same += u32::from(to_use(own.contest).is_some_and(|(own, _)| own == entry));
        if let Some(standing) = &own.contest.entries[entry].standing {
            found.over_leader.push(standing.ratio.median - 1.0);
            found.beaten += u32::from(standing.verdict == Verdict::Slower);
        }
        for (slower, faster) in claims(contest) {
            // What the sitting dropped early has the range of three rounds for an interval: that contradicts too easily
            // rather than not.
            if let Some(compared) = own.compare(&slower, &faster).filter(|compared| compared.pairs > 2) {
                found.claims += 1;
                found.contradicted += u32::from(compared.ratio.high < 1.0);
            }
        }
    }
    (found, sittings)
}

/// The methods that are said to be slower, each with the one that leads.
fn claims(contest: &Contest) -> Vec<(String, String)> {
    let Some(leader) = leader(contest) else {
        return Vec::new();
    };
    let slower = (0..contest.entries.len()).filter(|&entry| super::is_said_slower(contest, entry));
    let name = |entry: usize| contest.entries[entry].name().into_owned();
    slower.map(|entry| (name(entry), name(leader))).collect()
}

impl Replay {
    fn add(&mut self, other: Self) {
        self.contests += other.contests;
        self.decided += other.decided;
        self.same += other.same;
        self.over_leader.extend(other.over_leader);
        self.beaten += other.beaten;
        self.claims += other.claims;
        self.contradicted += other.contradicted;
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
        assert_eq!((sittings, same.contests, same.contradicted), (2, 8, 0));
        assert!(same.decided >= 7 && same.claims > 20, "{same:?}");
        assert!(same.over_leader.iter().all(|&over| over < 0.06), "{same:?}");
        // Of one other alone, too, and not of what the sitting left out says itself.
        let (own, sittings) = replay(&runs[0], &runs[1..2]);
        assert_eq!((sittings, own.contests), (1, 8));
        assert!(own.over_leader.iter().any(|&over| over > 0.0), "{own:?}");
        // One in which what was slow is fast.
        let inverse: Truth = (truth.iter())
            .map(|methods| methods.iter().map(|seconds| 1e-3 / seconds).collect())
            .collect();
        runs[0] = as_sitting(scenario.sit(&inverse, 9), 0);
        let (other, _) = replay(&runs[0], &runs[1..]);
        assert!(other.beaten == 8 && other.contradicted > 20, "{other:?}");
        assert_eq!(replay(&runs[0], &[]).0.contests, 0, "nobody decides");
    }
}
