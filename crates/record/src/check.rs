//! Checks whether a document is possible: valid indices, plausible figures, texts of limited length.
//!
//! A document may come from a stranger. All readers rely on these bounds.

use seekless_method::Operation;

use crate::visit::{Bounds, Text, Visitor};
use crate::{Contest, Run, Trial};

/// The longest text, in bytes.
const LONGEST_TEXT: usize = 64 << 10;
/// The longest name of an entry, in bytes: a table makes all lines as wide as the widest.
const LONGEST_NAME: usize = 4 << 10;
/// The shortest time of a trial, in seconds: clocks tick in nanoseconds.
const LEAST_TIMED: f64 = 1e-10;

/// The first impossible value that was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Problem {
    /// The field, as in `trials[3].seconds`.
    pub field: String,
    /// What is wrong with it.
    pub why: String,
}

type Checked = Result<(), Problem>;

fn problem(field: &str, why: impl Into<String>) -> Checked {
    Err(Problem {
        field: field.to_string(),
        why: why.into(),
    })
}

/// Checks a run, without changing it.
pub(crate) fn check(run: &mut Run) -> Checked {
    fields(|fields| run.visit(fields))?;
    if run.id.is_empty() {
        return problem("id", "is empty");
    }
    each("contests", &run.contests, |one| contest(one, run))?;
    each("trials", &run.trials, |one| trial(one, run))
}

/// Checks all fields that `visit` passes to the visitor.
pub(crate) fn fields<T>(visit: impl FnOnce(&mut dyn Visitor) -> T) -> Checked {
    let mut fields = Fields(Ok(()));
    visit(&mut fields);
    fields.0
}

fn each<T>(list: &str, items: &[T], check: impl Fn(&T) -> Checked) -> Checked {
    let mut items = items.iter().enumerate();
    items.try_for_each(|(index, item)| {
        check(item).map_err(|Problem { field, why }| Problem {
            field: format!("{list}[{index}].{field}"),
            why,
        })
    })
}

/// Checks fields one by one, up to the first problem.
struct Fields(Checked);

impl Fields {
    fn at_most(&mut self, place: &str, found: usize, most: usize, what: &str) {
        if found > most && self.0.is_ok() {
            self.0 = problem(place, format!("has {found} {what}; at most {most} are allowed"));
        }
    }
}

impl Visitor for Fields {
    fn text(&mut self, place: &str, about: Text, text: &mut String) -> bool {
        let is_name = matches!(about, Text::Method | Text::CommandName | Text::Label | Text::Layout);
        let most = if is_name { LONGEST_NAME } else { LONGEST_TEXT };
        self.at_most(place, text.len(), most, "bytes of text");
        true
    }

    fn figure(&mut self, place: &str, Bounds { least, most }: Bounds, figure: f64) {
        if !(least..=most).contains(&figure) && self.0.is_ok() {
            self.0 = problem(place, format!("is {figure:e}; it must be from {least:e} to {most:e}"));
        }
    }

    fn list(&mut self, place: &str, items: usize) {
        let most = match place.rsplit('.').next().unwrap_or(place) {
            "trials" => 1_000_000,
            // Effects are of pairs of methods that differ in one option.
            "effects" => 100_000,
            "segment_seconds" => 1_000,
            // Lists that are processed item by item: experiments, storages, contests, entries, warnings, facts.
            _ => 10_000,
        };
        self.at_most(place, items, most, "items");
    }
}

fn index(field: &str, index: usize, count: usize, of: &str) -> Checked {
    if index >= count {
        return problem(field, format!("is {index}, but there are {count} {of}"));
    }
    Ok(())
}

fn contest(contest: &Contest, run: &Run) -> Checked {
    index("storage", contest.storage, run.storages.len(), "storages")?;
    if let Some(other) = contest.other_storage {
        index("other_storage", other, run.storages.len(), "storages")?;
    }
    if contest.updates.is_some() != (contest.operation == Operation::Update) {
        return problem("updates", "must be present for the operation `update`, and only for it");
    }
    if contest.random.is_some() && !matches!(contest.operation, Operation::Read | Operation::Write) {
        return problem("random", "is allowed only for the operations `read` and `write`");
    }
    if contest.tree.is_some() && contest.operation != Operation::Read {
        return problem("tree", "is allowed only for the operation `read`");
    }
    if contest.sustained && contest.operation != Operation::Write {
        return problem("sustained", "is allowed only for the operation `write`");
    }
    match contest.updates {
        Some(updates) if updates.bytes == 0 || updates.every_bytes < updates.bytes => {
            problem("updates", "must not be empty or overlap")
        }
        _ => Ok(()),
    }
}

fn trial(trial: &Trial, run: &Run) -> Checked {
    index("contest", trial.contest, run.contests.len(), "contests")?;
    let entries = run.contests[trial.contest].entries.len();
    index("entry", trial.entry, entries, "entries of its contest")?;
    // So that ratios of it stay finite.
    if trial.seconds != 0.0 && trial.seconds < LEAST_TIMED {
        return problem("seconds", format!("is {:e}, too short to be measured", trial.seconds));
    }
    if trial.segment_seconds.is_some() && !run.contests[trial.contest].sustained {
        return problem("segment_seconds", "is allowed only in a sustained contest");
    }
    if trial.valid == trial.invalid.is_some() {
        return problem("valid", "must be false if `invalid` has a reason, and true otherwise");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
