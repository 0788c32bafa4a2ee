//! Values of options (words and sizes), and options that several commands share.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use seekless_engine::method::parse_size;

use crate::show::JsonForm;

/// The JSON options of a command whose results are a list.
#[derive(Debug, Args)]
pub struct JsonOptions {
    /// Print one JSON document: `results`, a list of objects, and `summary`
    #[arg(long)]
    json: bool,
    /// Print JSON lines: each object as soon as it is known, and the summary last
    #[arg(long, conflicts_with = "json")]
    jsonl: bool,
}

impl JsonOptions {
    /// The form of JSON that was requested, if any.
    pub fn form(&self) -> Option<JsonForm> {
        match (self.json, self.jsonl) {
            (true, _) => Some(JsonForm::Document),
            (_, true) => Some(JsonForm::Lines),
            _ => None,
        }
    }
}

/// A word, its help, and its value.
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

/// Parses a size; `too_little` is the error for less than `least`.
pub fn size_of_at_least(least: u64, too_little: &str, text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    (size >= least).then_some(size).ok_or_else(|| too_little.to_owned())
}
