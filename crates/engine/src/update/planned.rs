//! The method that will be fastest by what writing costs beside the file, chosen when the updates are known.

use std::path::Path;

use super::commit::{Safety, refuse_second};
use super::facts::{assumed_facts, call_facts, copied_bytes, update_facts};
use super::place::Place;
use super::plan::{PlanLimits, UpdateFacts, UpdatePlan, certain_choice, certain_plan, plan};
use super::resolved::Updates;
use crate::error::{Result, full_text};
use seekless_method::{Durability, Method};

/// What a plan is made of.
#[derive(Clone, Debug)]
pub struct Look {
    /// What the file is like, and what calls cost, by which times are predicted.
    pub facts: UpdateFacts,
    /// Whether all costs are measured, those too that decide nothing: then the predicted time is one.
    pub is_measured: bool,
    /// Why costs are assumed.
    pub doubt: Option<String>,
    /// What decides: the same whether a time is to be predicted or not.
    deciding: UpdateFacts,
}

impl Look {
    /// Looks at a file, and measures beside it what calls cost where that decides for these updates, or where a time is to
    /// be predicted. Where it cannot be measured, because the folder takes no file or the disk is full, it is assumed.
    ///
    /// # Errors
    /// As of [`Self::assuming`].
    pub fn at(path: &Path, updates: &Updates, limits: &PlanLimits, is_predicted: bool) -> Result<Self> {
        let mut look = Self::assuming(path, limits)?;
        if certain_choice(updates, &look.facts, limits)?.is_none() {
            look.measure_deciding(path, limits);
        }
        if is_predicted {
            look.measure_all(path, limits);
        }
        Ok(look)
    }

    /// Looks at a file, and measures all that calls cost beside it, for updates that are not known yet: what decides is the
    /// same as with [`Self::at`].
    ///
    /// # Errors
    /// As of [`Self::assuming`].
    pub fn measured(path: &Path, limits: &PlanLimits) -> Result<Self> {
        let mut look = Self::assuming(path, limits)?;
        look.measure_deciding(path, limits);
        look.measure_all(path, limits);
        Ok(look)
    }

    fn measure_deciding(&mut self, path: &Path, limits: &PlanLimits) {
        let is_through = limits.durability == Durability::WriteThrough;
        let found = if is_through {
            update_facts(path, limits.durability)
        } else {
            call_facts(path)
        };
        if self.take(found) {
            self.deciding = self.facts;
            self.is_measured = is_through;
        }
    }

    fn measure_all(&mut self, path: &Path, limits: &PlanLimits) {
        if !self.is_measured && self.doubt.is_none() {
            self.is_measured = self.take(update_facts(path, limits.durability));
        }
    }

    /// Takes what was measured, and tells whether it could be.
    fn take(&mut self, found: Result<UpdateFacts>) -> bool {
        match found {
            Ok(facts) => {
                let copied_bytes = self.facts.copied_bytes;
                self.facts = UpdateFacts { copied_bytes, ..facts };
            }
            Err(error) => self.doubt = Some(full_text(&error)),
        }
        self.doubt.is_none()
    }

    /// Looks at a file, and assumes what calls cost.
    ///
    /// # Errors
    /// The system's; [`crate::error::UpdateErrorKind::Running`] where an update of the file is going on, whose lease a look would end.
    pub fn assuming(path: &Path, limits: &PlanLimits) -> Result<Self> {
        refuse_second(&Place::of(path)?)?;
        let mut facts = assumed_facts(path)?;
        if limits.safety == Safety::Replace {
            facts.copied_bytes = copied_bytes(path)?;
        }
        Ok(Self {
            facts,
            is_measured: false,
            doubt: None,
            deciding: facts,
        })
    }

    /// The plan that follows.
    ///
    /// # Errors
    /// As of [`Updates::visit`].
    pub fn plan(&self, updates: &Updates, limits: &PlanLimits) -> Result<UpdatePlan> {
        let mut planned = match certain_plan(updates, &self.deciding, limits)? {
            Some(certain) => certain,
            None => plan(updates, &self.deciding, limits)?,
        };
        planned.cost.predict(&self.facts, &planned.method, limits.safety);
        Ok(planned)
    }
}

/// The method that a plan chooses.
pub(super) fn planned(path: &Path, updates: &Updates, limits: &PlanLimits) -> Result<Method> {
    let look = Look::at(path, updates, limits, false)?;
    if let Some(doubt) = &look.doubt {
        tracing::debug!(path = %path.display(), doubt, "what writing costs is assumed");
    }
    Ok(look.plan(updates, limits)?.method)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::Batch;

    #[test]
    fn what_is_measured_to_predict_a_time_changes_no_plan() {
        let mut batch = Batch::new();
        for n in 0..10_000 {
            batch.push(n * 400, &[1; 4]).unwrap();
        }
        let updates = batch.resolve().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![0; 4_000_000]).unwrap();
        for durability in [Durability::Fsync, Durability::WriteThrough] {
            let limits = PlanLimits {
                durability,
                amplification_max: None,
                is_exact: false,
                safety: Safety::InPlace,
            };
            let plain = Look::at(&path, &updates, &limits, false).unwrap();
            let told = Look::at(&path, &updates, &limits, true).unwrap();
            assert_eq!((plain.is_measured, told.is_measured), (false, true));
            let slow = Look {
                facts: UpdateFacts {
                    write_byte_ns: 1e4,
                    read_call_ns: 1e9,
                    ..told.facts
                },
                ..told.clone()
            };
            let [plain, told, slow] = [plain, told, slow].map(|look| look.plan(&updates, &limits).unwrap());
            assert_eq!(plain.method, told.method);
            assert_eq!((told.method, &told.why), (slow.method, &slow.why));
            assert!(slow.cost.predicted > told.cost.predicted);
        }
    }
}
