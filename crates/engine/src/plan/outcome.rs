//! Doing an operation by the plan or by a named method, and what was done.

use std::ops::Deref;

use seekless_method::{Choice, Durability, Method, Operation};

use super::uses::PlanClock;
use super::{Plan, Reason};
use crate::error::{Error, Result};

/// What was done, by which method, and why by this method.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome<T> {
    /// What was done.
    pub what: T,
    /// The method that did it.
    pub method: Method,
    /// The reason for the method.
    pub reason: Reason,
}

impl<T> Deref for Outcome<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.what
    }
}

/// What is called after a plan was followed: with the clock that was started before, the plan, and what was done.
pub(crate) type NoteUse<'a, T> = dyn Fn(PlanClock, &Plan, &T) + 'a;

impl<T> Outcome<T> {
    /// Does an operation by a method, or by the plan, whose other method is used where the first is unavailable. `note` gets the plan
    /// that was followed, with its clock.
    pub(crate) fn by_choice(
        asked: Choice,
        operation: Operation,
        plan: impl FnOnce(Durability) -> Result<Plan>,
        by: impl Fn(&Method) -> Result<T>,
        note: Option<&NoteUse<'_, T>>,
    ) -> Result<Self> {
        let durability = match asked {
            Choice::Method(method) => {
                let reason = Reason::Asked;
                return by(&method).map(|what| Self { what, method, reason });
            }
            Choice::Plan(plan) if plan.operation != operation => {
                return Err(Error::WrongOperation {
                    asked,
                    wanted: operation.name(),
                });
            }
            Choice::Plan(plan) => plan.durability,
        };
        let plan = plan(durability)?;
        let clock = note.map(|note| (note, PlanClock::start()));
        match by(&plan.method) {
            Err(error) if error.is_unavailable() && plan.method != plan.otherwise => {
                by(&plan.otherwise).map(|what| Self {
                    what,
                    method: plan.otherwise,
                    reason: Reason::Unavailable {
                        planned: plan.method,
                        error: error.to_string(),
                    },
                })
            }
            done => done.map(|what| {
                if let Some((note, clock)) = clock {
                    note(clock, &plan, &what);
                }
                let Plan { method, reason, .. } = plan;
                Self { what, method, reason }
            }),
        }
    }
}
