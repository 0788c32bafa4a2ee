//! The experiments of a run, from the run alone, to measure the same again.

use seekless_engine::method::Durability;
use seekless_record::{Contest, Run};

use super::{ContestPlan, Experiment, ExperimentError, Size, entry};
use crate::kernel::Kernel;
use crate::layout::Layout;

impl Experiment {
    /// What a run measured: its experiments with its sizes, cache states, methods and commands.
    ///
    /// # Errors
    /// [`ExperimentError::NotInThisVersion`] where this version has no such method, kernel or layout.
    pub fn like(run: &Run) -> Result<Vec<Self>, ExperimentError> {
        let mut plans: Vec<ContestPlan> = Vec::new();
        for contest in &run.contests {
            let common = common(contest);
            let is_alike = |plan: &ContestPlan| {
                let entries = Vec::new();
                let known = plan.common.clone();
                Contest { entries, ..known } == common
            };
            let at = plans.iter().position(is_alike).unwrap_or(plans.len());
            if at == plans.len() {
                plans.push(plan(contest, common)?);
            }
            add_entries(&mut plans[at], contest)?;
        }
        let mut experiments: Vec<Self> = Vec::new();
        for plan in plans {
            let name = &plan.common.experiment;
            match experiments.iter_mut().find(|found| found.name == *name) {
                Some(found) => found.contests.push(plan),
                None => experiments.push(Self {
                    name: name.clone(),
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

/// What contests of one plan have in common, on every storage: which methods are ranked apart is determined again.
fn common(contest: &Contest) -> Contest {
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

fn plan(contest: &Contest, common: Contest) -> Result<ContestPlan, ExperimentError> {
    let unknown = |what: &str| ExperimentError::NotInThisVersion(what.to_owned());
    let layout = match &contest.layout {
        Some(text) => text.parse().map_err(|_| unknown(text))?,
        None => Layout::Dense,
    };
    Kernel::named(&contest.kernel).ok_or_else(|| unknown(&contest.kernel))?;
    let has_commands_alone = contest.entries.iter().all(|entry| entry.command().is_some());
    Ok(ContestPlan {
        common,
        sizes: vec![Size::Bytes(size(contest))],
        files: has_commands_alone.then_some(contest.files),
        caches: vec![contest.cache],
        differs: vec![contest.differ],
        read_ahead_kib: vec![contest.read_ahead_kib],
        layouts: vec![layout],
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
    for measured in &contest.entries {
        let is_known = measured.choice().is_some() || measured.command().is_some();
        if !is_known {
            return Err(ExperimentError::NotInThisVersion(measured.name().into_owned()));
        }
        let entries = &mut plan.common.entries;
        if entries.iter().all(|entry| entry.subject != measured.subject) {
            entries.push(entry(measured.subject.clone(), measured.label.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use seekless_record::Subject;
    use seekless_results::simulation;

    use super::*;

    #[test]
    fn contests_of_one_plan_are_one_again_and_nothing_is_twice() {
        let methods = ["copy/reflink", "copy/sync", "copy/sync,fsync"].map(|method| (method, 0.1));
        let mut run = simulation::run(&methods, 1);
        let mut apart = run.contests[0].clone();
        apart.entries.truncate(1);
        apart.shared_blocks = true;
        let mut other = run.contests[0].clone();
        other.size_bytes = 5 << 20;
        other.storage = 1;
        run.contests.extend([apart, other]);
        let experiments = Experiment::like(&run).unwrap();
        assert_eq!(experiments.len(), 1);
        let plans = &experiments[0].contests;
        let methods: Vec<String> = plans[0].methods().map(|choice| choice.to_string()).collect();
        assert_eq!(methods[0], "copy/reflink");
        assert_eq!((methods.len(), plans.len()), (3, 2));
        assert_eq!(plans[1].sizes, [Size::Bytes(5 << 20)]);
    }

    #[test]
    fn a_sustained_write_is_as_large_again() {
        let mut run = simulation::run(&[("write/sync", 0.1)], 1);
        (run.contests[0].sustained, run.contests[0].files) = (true, 64);
        let plan = &Experiment::like(&run).unwrap()[0].contests[0];
        assert!(plan.common.sustained);
        assert_eq!(plan.sizes, [Size::Bytes(4 << 30)]);
    }

    #[test]
    fn a_method_of_another_version_is_named() {
        let mut run = simulation::run(&[("read/mmap", 0.1)], 1);
        run.contests[0].entries[0].subject = Subject::Method("read/telepathy".to_owned());
        let error = Experiment::like(&run).unwrap_err().to_string();
        assert!(error.ends_with("does not have read/telepathy"), "{error}");
    }
}
