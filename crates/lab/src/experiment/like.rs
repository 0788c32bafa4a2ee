//! The experiments of a run, made of the run alone, so that the same is measured again.

use seekless::method::Durability;
use seekless_record::{Contest, Run, Subject};

use super::{ContestPlan, Experiment, ExperimentError, Size};
use crate::kernel::Kernel;
use crate::layout::Layout;

impl Experiment {
    /// What a run measured: its experiments with its sizes, cache states, methods and commands.
    ///
    /// # Errors
    /// [`ExperimentError::NotInThisVersion`] where this version has no such method, kernel or layout.
    pub fn like(run: &Run) -> Result<Vec<Self>, ExperimentError> {
        let mut alike: Vec<(Contest, ContestPlan)> = Vec::new();
        for contest in &run.contests {
            let description = described(contest);
            let known = alike.iter().position(|(other, _)| *other == description);
            let at = known.unwrap_or(alike.len());
            if known.is_none() {
                alike.push((description, plan(contest)?));
            }
            add_entries(&mut alike[at].1, contest)?;
        }
        let mut experiments: Vec<Self> = Vec::new();
        for (contest, plan) in alike {
            match experiments.iter_mut().find(|found| found.name == contest.experiment) {
                Some(found) => found.contests.push(plan),
                None => experiments.push(Self {
                    name: contest.experiment,
                    about: format!("as in {}", run.id),
                    contests: vec![plan],
                    published: Vec::new(),
                    columns: Vec::new(),
                }),
            }
        }
        if let Some(first) = experiments.first_mut() {
            first.published.clone_from(&run.published);
            first.columns.clone_from(&run.columns);
        }
        Ok(experiments)
    }
}

/// What contests of one plan have in common, on every storage: which methods are ranked apart is found out again.
fn described(contest: &Contest) -> Contest {
    Contest {
        storage: 0,
        other_storage: None,
        files: 0,
        cold_metadata: false,
        mode: None,
        shared_blocks: false,
        holes_skipped: false,
        durability: Durability::None,
        random: None,
        entries: Vec::new(),
        conclusion: None,
        ..contest.clone()
    }
}

fn plan(contest: &Contest) -> Result<ContestPlan, ExperimentError> {
    let unknown = |what: &str| ExperimentError::NotInThisVersion(what.to_owned());
    let layout = match &contest.layout {
        Some(text) => text.parse().map_err(|_| unknown(text))?,
        None => Layout::Dense,
    };
    Ok(ContestPlan {
        caches: vec![contest.cache],
        differs: vec![contest.differ],
        read_ahead_kib: vec![contest.read_ahead_kib],
        updates: contest.updates,
        layouts: vec![layout],
        memory_bytes: contest.memory_bytes,
        target: contest.target,
        sustained: contest.sustained,
        kernel: Kernel::named(&contest.kernel).ok_or_else(|| unknown(&contest.kernel))?,
        work_ns_per_kib: contest.work_ns_per_kib,
        ..ContestPlan::of(contest.operation, Vec::new(), Size::Bytes(size(contest)))
    })
}

/// The size that an experiment gives for a contest: of each of its files, or of a sustained write in all.
fn size(contest: &Contest) -> u64 {
    if contest.sustained {
        contest.size_bytes.saturating_mul(u64::from(contest.files))
    } else {
        contest.size_bytes
    }
}

/// Adds what a contest measured, each once.
fn add_entries(plan: &mut ContestPlan, contest: &Contest) -> Result<(), ExperimentError> {
    for entry in &contest.entries {
        if let Subject::Command(command) = &entry.subject {
            if !plan.commands.contains(command) {
                plan.commands.push(command.clone());
            }
            continue;
        }
        let unknown = || ExperimentError::NotInThisVersion(entry.name().into_owned());
        let choice = entry.choice().ok_or_else(unknown)?;
        if plan.methods.contains(&choice) {
            continue;
        }
        plan.methods.push(choice);
        plan.labels.extend(choice.method().copied().zip(entry.label.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use seekless_results::simulation;

    use super::*;

    #[test]
    fn contests_of_one_plan_are_one_again_and_nothing_is_twice() {
        let mut run = simulation::run(
            &[("copy/reflink", 0.1), ("copy/sync", 0.1), ("copy/sync,fsync", 0.1)],
            1,
        );
        let mut apart = run.contests[0].clone();
        apart.entries.truncate(1);
        apart.shared_blocks = true;
        let other = Contest {
            size_bytes: 5 << 20,
            storage: 1,
            ..run.contests[0].clone()
        };
        run.contests.extend([apart, other]);
        let experiments = Experiment::like(&run).unwrap();
        assert_eq!(experiments.len(), 1);
        let plans = &experiments[0].contests;
        let methods: Vec<String> = plans[0].methods.iter().map(ToString::to_string).collect();
        assert_eq!(methods[0], "copy/reflink");
        assert_eq!((methods.len(), plans.len()), (3, 2));
        assert_eq!(plans[1].sizes, [Size::Bytes(5 << 20)]);
    }

    #[test]
    fn a_sustained_write_is_as_large_again() {
        let mut run = simulation::run(&[("write/sync", 0.1)], 1);
        (run.contests[0].sustained, run.contests[0].files) = (true, 64);
        let plan = &Experiment::like(&run).unwrap()[0].contests[0];
        assert!(plan.sustained);
        assert_eq!(plan.sizes, [Size::Bytes(4 << 30)]);
    }

    #[test]
    fn a_method_of_another_version_is_named() {
        let mut run = simulation::run(&[("read/mmap", 0.1)], 1);
        run.contests[0].entries[0].subject = Subject::Method("read/telepathy".to_owned());
        let error = Experiment::like(&run).unwrap_err().to_string();
        assert!(error.starts_with("read/telepathy: "), "{error}");
    }
}
