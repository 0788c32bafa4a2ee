//! What words and lists in an experiment say, whatever their keys (words of a set, names, sizes, distinct values), and what is
//! wrong with them.

use std::ops::Range;

use seekless_engine::Operation;
use seekless_engine::method::{did_you_mean, parse_size};
use toml::Spanned;

use super::error::nearest;

/// A list of words, each with its place in the text.
pub(super) type Words = Spanned<Vec<Spanned<String>>>;

/// What is wrong with a TOML text, and where.
pub struct FormatProblem {
    /// Where, in bytes.
    pub span: Range<usize>,
    /// What.
    pub message: String,
}

/// A value, or what is wrong with its text.
pub type Checked<T> = Result<T, FormatProblem>;

/// A message about a value.
pub fn problem<T, U>(at: &Spanned<T>, message: impl Into<String>) -> Checked<U> {
    Err(FormatProblem {
        span: at.span(),
        message: message.into(),
    })
}

/// Refuses a key that is given although it must not be.
pub(super) fn refuse<T>(key: Option<&Spanned<T>>, is_wrong: bool, message: impl Into<String>) -> Checked<()> {
    match key.filter(|_| is_wrong) {
        Some(key) => problem(key, message),
        None => Ok(()),
    }
}

pub(super) fn operation(word: &Spanned<String>) -> Checked<Operation> {
    one_of(word, "operation", &Operation::ALL.map(|known| (known.name(), known)))
}

/// A name that a line of text can show.
pub(super) fn visible<'a>(name: &'a Spanned<String>, of: &str) -> Checked<&'a String> {
    let text = name.get_ref();
    let is_invisible = text.trim().is_empty() || text.chars().any(char::is_control);
    let must = format!("the name of a {of} must have visible characters only");
    refuse(Some(name), is_invisible, must)?;
    Ok(text)
}

/// The value of a word, or an error with the words there are.
pub fn one_of<T: Copy>(word: &Spanned<String>, what: &str, known: &[(&str, T)]) -> Checked<T> {
    let given = word.get_ref();
    if let Some((_, value)) = known.iter().find(|(name, _)| name == given) {
        return Ok(*value);
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let nearest = did_you_mean(&nearest(given, names.iter().copied()));
    let names = names.join(", ");
    problem(word, format!("invalid {what} `{given}`{nearest}; valid here: {names}"))
}

pub(super) fn push_distinct<T: PartialEq>(list: &mut Vec<T>, items: impl IntoIterator<Item = T>) {
    for item in items {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

pub(super) fn size_of(text: &Spanned<String>, what: &str) -> Checked<u64> {
    match parse_size(text.get_ref()) {
        Ok(0) => problem(text, format!("a {what} must have at least one byte")),
        Ok(bytes) => Ok(bytes),
        Err(message) => problem(text, message),
    }
}

/// The distinct values of a list that has at least one.
pub(super) fn distinct<V, T: PartialEq>(
    list: &Spanned<Vec<Spanned<V>>>,
    what: &str,
    read: impl Fn(&Spanned<V>) -> Checked<T>,
) -> Checked<Vec<T>> {
    let is_empty = list.get_ref().is_empty();
    refuse(
        Some(list),
        is_empty,
        format!("give at least one {what}, or omit the key"),
    )?;
    let mut values = Vec::new();
    for item in list.get_ref() {
        push_distinct(&mut values, [read(item)?]);
    }
    Ok(values)
}
