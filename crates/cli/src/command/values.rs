//! Values of options: one of a few words, or a size.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use seekless::method::parse_size;

/// A word, what the help says of it, and what it stands for.
pub type Word<T> = (&'static str, &'static str, T);

/// Takes one of these words.
pub fn one_of<T: Clone + Send + Sync + 'static>(
    words: impl IntoIterator<Item = Word<T>>,
) -> impl TypedValueParser<Value = T> {
    let words: Vec<Word<T>> = words.into_iter().collect();
    let values = words
        .iter()
        .map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(values.collect::<Vec<_>>()).try_map(move |given| {
        let found = words.iter().find(|(word, ..)| *word == given);
        found.map(|(.., meant)| meant.clone()).ok_or("no such word")
    })
}

/// A size; what to say where it is less than `least`.
pub fn size_of_at_least(least: u64, too_little: &str, text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    (size >= least).then_some(size).ok_or_else(|| too_little.to_owned())
}
