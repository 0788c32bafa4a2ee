//! Plans without carrying them out.

use std::path::Path;
use std::time::Duration;

use seekless_engine::update::UpdateEstimate;
use seekless_engine::{self as engine, plan::PlanLimits};

use crate::{Batch, Error, FileRange, Method, Operation, Options, Reason, Result};

/// What to plan. What must be on the device at the end is an option ([`Options::durability`]).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PlanRequest<'a> {
    /// Reading a file from start to end.
    Read(FileRange<'a>),
    /// Writing this many bytes to a file, which need not exist.
    Write(FileRange<'a>, u64),
    /// Copying the first to the second.
    Copy(FileRange<'a>, FileRange<'a>),
    /// Comparing two files.
    Compare(FileRange<'a>, FileRange<'a>),
    /// Making changes in the file at a path.
    Update(&'a Path, &'a Batch),
}

impl PlanRequest<'_> {
    fn operation(&self) -> Operation {
        match self {
            Self::Read(_) => Operation::Read,
            Self::Write(..) => Operation::Write,
            Self::Copy(..) => Operation::Copy,
            Self::Compare(..) => Operation::Compare,
            Self::Update(..) => Operation::Update,
        }
    }
}

/// A method, the time that it is predicted to take, and why this method.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The method.
    pub method: Method,
    /// Why this method.
    pub reason: Reason,
    /// The time that it most likely takes.
    pub predicted: Duration,
    /// The least and the longest time that are plausible.
    pub bounds: (Duration, Duration),
}

impl Options<'_> {
    /// Plans an operation and predicts its time, but does not carry it out. It measures for at most 100 ms, and reads at most
    /// 8 MiB for that, which stay in the page cache. See [`plan`](crate::plan()).
    ///
    /// # Errors
    /// [`ErrorKind::System`](crate::ErrorKind::System) if a file or its directory cannot be opened or examined.
    pub fn plan(&self, request: &PlanRequest<'_>) -> Result<Plan> {
        let planner = self.planner();
        let durability = self.choice(request.operation())?.durability();
        let plan = match request {
            PlanRequest::Read(from) => engine::Reader::plan_with(from.engine(), true, planner),
            PlanRequest::Write(to, bytes) => engine::Writer::plan_with(to.engine(), *bytes, durability, true, planner),
            PlanRequest::Copy(from, to) => {
                engine::Copier::plan_with(from.engine(), to.engine(), durability, true, planner)
            }
            PlanRequest::Compare(one, other) => {
                engine::Comparer::plan_with([one.engine(), other.engine()], true, planner)
            }
            PlanRequest::Update(path, batch) => {
                let (updates, limits) = (
                    batch.0.clone().resolve(),
                    PlanLimits::new(durability, self.safety.engine()),
                );
                UpdateEstimate::with(path, &updates, &limits, true, planner)
                    .map(|estimate| estimate.plan(&updates, &limits).plan)
            }
        };
        let plan = plan.map_err(Error::of)?;
        Ok(Plan {
            method: Method(plan.method),
            predicted: plan.predicted.value,
            bounds: (plan.predicted.low, plan.predicted.high),
            reason: Reason(plan.reason),
        })
    }
}
