//! Why a text is not a method.

use crate::options::Number;
use crate::size::format_size;

/// Why a text is not a method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// It names no mechanism.
    #[error("`{text}` is not a method{}", did_you_mean(.nearest))]
    UnknownMethod {
        /// The text.
        text: String,
        /// The names that look like it.
        nearest: Vec<String>,
    },
    /// It has an option that no mechanism has.
    #[error("`{option}` in `{text}` is not an option{}; {mechanism} takes {taken}", did_you_mean(.nearest))]
    UnknownOption {
        /// The text.
        text: String,
        /// The option in it.
        option: String,
        /// The options that look like it.
        nearest: Vec<String>,
        /// The mechanism.
        mechanism: String,
        /// The options that the mechanism takes.
        taken: String,
    },
    /// The mechanism does not take an option, its value, or two options together.
    #[error("{mechanism} does not take {option}; it takes {taken}")]
    NotTaken {
        /// The mechanism.
        mechanism: String,
        /// The option.
        option: String,
        /// The options that the mechanism takes.
        taken: String,
    },
    /// A number is not one, or too small or too large.
    #[error("`{text}`: {reason}")]
    BadNumber {
        /// The option.
        text: String,
        /// What is wrong.
        reason: String,
    },
}

impl ParseError {
    pub(crate) fn out_of_bounds(text: String, number: &Number) -> Self {
        let show = |value: u64| {
            if number.is_size {
                format_size(value)
            } else {
                value.to_string()
            }
        };
        let reason = format!(
            "{} must be between {} and {}",
            number.key,
            show(number.min),
            show(number.max)
        );
        Self::BadNumber { text, reason }
    }
}

/// A question about the names that look like the one given, in brackets, or nothing.
#[must_use]
pub fn did_you_mean(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        nearest => format!(" (did you mean `{}`?)", nearest.join("` or `")),
    }
}

#[cfg(feature = "suggestions")]
use strsim::jaro_winkler as likeness;

#[cfg(not(feature = "suggestions"))]
fn likeness(_: &str, _: &str) -> f64 {
    0.0
}

/// Up to three names that look like `given`, the most alike first.
pub fn nearest(given: &str, names: impl IntoIterator<Item: Into<String>>) -> Vec<String> {
    let names = names.into_iter().map(Into::<String>::into);
    let scored = names.map(|name| (likeness(given, &name), name));
    let mut scored: Vec<(f64, String)> = scored.filter(|(score, _)| *score > 0.8).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}
