//! The options that a mechanism accepts: checking, completing, listing and combining them.

use crate::accepted::Accepted;
use crate::error::ParseError;
use crate::options::{
    AccessPattern, CachePolicy, Differ, Hint, OPTIONS, OptionId, OptionRow, Options, Order, Preallocate, Setting,
    Tried, Value,
};
use crate::{Mechanism, Method, Operation};

impl Mechanism {
    /// The options that it accepts, as text.
    #[must_use]
    pub fn options_in_words(&self) -> String {
        // The number of threads of `read/threads` is part of its name.
        let listed = self
            .accepts
            .iter()
            .filter(|accepted| !self.is_named_with(accepted.option));
        let words: Vec<_> = listed.flat_map(Accepted::in_words).collect();
        if words.is_empty() {
            "no options".to_owned()
        } else {
            words.join(", ")
        }
    }

    /// Whether an option is written directly after the name, as in `read/threads=2`.
    pub(crate) fn is_named_with(&self, option: OptionId) -> bool {
        self.name == option.row().key
    }

    /// Checks options and fills in the defaults.
    pub(crate) fn complete(&'static self, given: Options) -> Result<Options, ParseError> {
        let mut options = given;
        if self.operation == Operation::Compare {
            // That is its default behaviour.
            options.set(OptionId::HolesSkipped, None);
        }
        for row in OPTIONS {
            let value = options.get(row.id);
            let Some(accepted) = self.accepts(row.id) else {
                if let Some(value) = value {
                    return Err(self.refusal(row.text(value)));
                }
                continue;
            };
            if let Some(value) = value.filter(|value| !accepted.takes(*value)) {
                return Err(match (value, &row.number) {
                    (Value::Number(_), Some(number)) if accepted.takes(Value::Number(number.min)) => {
                        ParseError::out_of_bounds(row.text(value), number)
                    }
                    _ => self.refusal(row.text(value)),
                });
            }
            options.set(row.id, value.or(accepted.default()));
        }
        self.check_together(&mut options)?;
        Ok(options)
    }

    /// Checks what depends on several options.
    fn check_together(&self, options: &mut Options) -> Result<(), ParseError> {
        let text = |option: OptionId| {
            options
                .get(option)
                .map_or_else(String::new, |value| option.row().text(value))
        };
        let clash = |one: OptionId, other: OptionId| Err(self.refusal(format!("{} with {}", text(one), text(other))));
        if options.holes_skipped() && matches!(options.preallocate(), Preallocate::Allocate | Preallocate::Both) {
            return clash(OptionId::HolesSkipped, OptionId::Preallocate);
        }
        if options.reads_percent() > 0 && options.access() != AccessPattern::Random {
            return Err(self.refusal(format!("{} without access=random", text(OptionId::Reads))));
        }
        if options.access() == AccessPattern::Random {
            // Both are for sequential reading.
            if options.hint() != Hint::None {
                return clash(OptionId::Access, OptionId::Hint);
            }
            if options.holes_skipped() {
                return clash(OptionId::Access, OptionId::HolesSkipped);
            }
        }
        if options.order().preloads() && options.cache() != CachePolicy::Cached {
            return clash(OptionId::Order, OptionId::Cache);
        }
        if self.operation == Operation::Compare && options.threads() > 1 {
            if options.differ() == Differ::Linewise {
                return clash(OptionId::Threads, OptionId::Differ);
            }
            if options.order() == Order::Parallel {
                return clash(OptionId::Threads, OptionId::Order);
            }
            if options.block_bytes().is_none() {
                // Threads take windows in turn, and a file that is mapped as a whole has none.
                *options = options.with(Setting::block_bytes(8 << 20));
            }
        }
        Ok(())
    }

    pub(crate) fn refusal(&self, option: String) -> ParseError {
        ParseError::NotTaken {
            mechanism: format!("{self:?}"),
            option,
            taken: self.options_in_words(),
        }
    }

    /// Whether a value is what the mechanism does by default.
    pub(crate) fn is_implied(&self, row: &OptionRow, value: Value) -> bool {
        row.plain.is_none()
            && row.number.is_none()
            && self
                .accepts(row.id)
                .is_some_and(|accepted| accepted.default() == Some(value))
    }
}

/// All methods of a mechanism with the default block, depth and number of threads: each combination of cache policy,
/// hint, preallocation and durability that it accepts, and each value of the other options by itself.
pub fn variants(mechanism: &'static Mechanism) -> impl Iterator<Item = Method> {
    let tried = |tried: Tried| {
        let accepts = mechanism.accepts.iter();
        accepts.filter(move |accepted| accepted.option.row().tried == tried)
    };
    let mut alone: Vec<_> = tried(Tried::Alone).collect();
    let mut combined = vec![Options::default()];
    for accepted in tried(Tried::Combined) {
        let with = |options: Options| {
            let values = accepted.values.iter();
            values.map(move |value| options.with(Setting(accepted.option, Some(*value))))
        };
        combined = combined.into_iter().flat_map(with).collect();
    }
    let others = |accepted: &'static Accepted| {
        let others = accepted
            .values
            .iter()
            .filter(|value| Some(**value) != accepted.default());
        others.map(|value| Options::default().with(Setting(accepted.option, Some(*value))))
    };
    // Words before numbers.
    alone.sort_by_key(|accepted| accepted.option.row().words.is_empty());
    let alone: Vec<_> = alone.into_iter().flat_map(others).collect();
    combined
        .into_iter()
        .chain(alone)
        .filter_map(move |options| Method::new(mechanism, options).ok())
}
