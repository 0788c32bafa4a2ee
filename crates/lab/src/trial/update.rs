//! The child's side of updating: batches made before the clock, sorted and written inside it.

use std::path::Path;
use std::time::Duration;

use seekless_engine::method::{CachePolicy, Choice, UpdateOrder};
use seekless_engine::update::{
    Batch, Commit, PlanLimits, Safety, UpdateEstimate, Updated, Updater, Updates, commit, cost,
};
use seekless_engine::{Method, Transfer};
use seekless_record::{UpdateAccount, UpdatePattern};

use super::error::TrialError;
use super::{TrialPaths, TrialRequest};
use crate::updates;

/// The updates of a file. For a method that writes in the given order, they are resolved before the trial, because the
/// program that it represents does not sort.
enum Given {
    Batch(Batch),
    Resolved(Updates),
}

/// A prepared method of updating, and its updates.
pub(super) struct Updating {
    choice: Choice,
    /// `None` if the method is planned during the trial.
    prepared: Option<Updater>,
    look: Option<UpdateEstimate>,
    /// In reverse order: the updates of the next file are last.
    given: Vec<Given>,
    /// Kept until the end, because freeing them is not part of the method.
    done: Vec<Updates>,
    account: UpdateAccount,
    planned: Option<String>,
    predicted_seconds: Option<f64>,
}

impl Updating {
    /// Prepares the batches, buffers and rings.
    pub fn prepare(choice: &Choice, pattern: &UpdatePattern, spec: &TrialRequest) -> Result<Self, TrialError> {
        let longest = spec.jobs.iter().map(|job| job.bytes).max().unwrap_or(0);
        let method = choice.method();
        let prepared = method.map(|method| Updater::prepare_for(method, longest)).transpose()?;
        let is_sorted = method.is_some_and(|method| method.options().update_order() == UpdateOrder::AsGiven);
        let batches = (0..).zip(&spec.jobs).map(|(index, job)| {
            let batch =
                updates::batch(pattern, job.bytes, updates_seed(spec.seed, index)).map_err(TrialError::Updates)?;
            Ok(if is_sorted {
                Given::Resolved(batch.resolve())
            } else {
                Given::Batch(batch)
            })
        });
        let mut given = batches.collect::<Result<Vec<_>, TrialError>>()?;
        given.reverse();
        Ok(Self {
            choice: *choice,
            prepared,
            look: None,
            done: Vec::with_capacity(given.len()),
            given,
            account: UpdateAccount::default(),
            planned: None,
            predicted_seconds: None,
        })
    }

    /// Measures the costs of writing, just before the clock starts, when the files are in their cache state.
    pub fn estimate(&mut self, jobs: &[TrialPaths]) {
        self.look = jobs
            .first()
            .and_then(|job| UpdateEstimate::measured(Path::new(&job.target), &self.limits()).ok());
    }

    fn limits(&self) -> PlanLimits {
        PlanLimits {
            durability: self.choice.durability(),
            amplification_max: None,
            is_exact: false,
            safety: Safety::InPlace,
        }
    }

    /// Whether the method is planned.
    pub fn plans(&self) -> bool {
        self.prepared.is_none()
    }

    pub fn run(&mut self, job: &TrialPaths) -> Result<Transfer, TrialError> {
        let updates = match self.given.pop() {
            Some(Given::Batch(batch)) => batch.resolve(),
            Some(Given::Resolved(updates)) => updates,
            None => return Err(TrialError::Updates("its updates were already written".to_owned())),
        };
        let done = match &mut self.prepared {
            Some(prepared) => prepared.update(Path::new(&job.target), &updates)?,
            None => self.by_plan(job, &updates)?,
        };
        self.account.writes += done.writes;
        self.account.requested_bytes += done.requested_bytes;
        self.account.written_bytes += done.written_bytes;
        self.done.push(updates);
        let mut transfer = Transfer::default();
        (transfer.bytes, transfer.calls, transfer.fsync) = (job.bytes, done.calls, done.fsync);
        Ok(transfer)
    }

    /// Planning and allocating buffers are timed.
    fn by_plan(&mut self, job: &TrialPaths, updates: &Updates) -> Result<Updated, TrialError> {
        let limits = self.limits();
        let plan = match &self.look {
            Some(look) => look.plan(updates, &limits),
            None => UpdateEstimate::assuming(Path::new(&job.target), &limits)?.plan(updates, &limits),
        };
        self.planned.get_or_insert_with(|| plan.plan.method.to_string());
        *self.predicted_seconds.get_or_insert_default() += plan.cost.predicted.value.as_secs_f64();
        let how = Commit::by(plan.plan.method);
        Ok(commit(Path::new(&job.target), updates, &how)?)
    }

    /// The account of the writes.
    pub fn account(&self) -> UpdateAccount {
        self.account
    }

    /// The planned method, and the seconds predicted by the planner's model for it or for the named method.
    pub fn planned(&self) -> (Option<String>, Option<f64>) {
        let method = self.choice.method().filter(|method| is_modelled(method));
        let look = self.look.as_ref().filter(|look| look.is_measured());
        let predicted = look.zip(method).and_then(|(look, method)| {
            let cost = |updates| cost(updates, &look.facts, method, Safety::InPlace);
            let each = self.done.iter().map(|updates| Some(cost(updates).predicted.value));
            Some(each.sum::<Option<Duration>>()?.as_secs_f64())
        });
        (self.planned.clone(), self.predicted_seconds.or(predicted))
    }
}

/// Whether the planner's model covers a method: one write after the other, through the page cache.
fn is_modelled(method: &Method) -> bool {
    method.mechanism().name == "sync" && method.options().cache() == CachePolicy::Cached
}

/// The seed by which the updates of a file are drawn.
pub(crate) fn updates_seed(seed: u64, index: u64) -> u64 {
    seed.wrapping_add(index)
}
