//! The values of an option that a mechanism accepts.

use crate::options::{OptionId, Value};

/// An option that a mechanism accepts.
#[derive(Debug)]
pub struct Accepted {
    /// The option.
    pub option: OptionId,
    /// Its values; the first is the default. If one is a number, any number is accepted. If there are none, any number
    /// is accepted, and there is no default.
    pub values: &'static [Value],
}

impl Accepted {
    pub(crate) fn default(&self) -> Option<Value> {
        let row = self.option.row();
        // A single word is a switch, which is off unless it is given.
        let is_switch = row.number.is_none() && row.words.len() == 1;
        self.values.first().copied().filter(|_| !is_switch)
    }

    pub(crate) fn takes(&self, value: Value) -> bool {
        match (value, &self.option.row().number) {
            (Value::Word(_), _) => self.values.contains(&value),
            (Value::Number(given), Some(number)) => {
                let is_among = |value: &Value| matches!(value, Value::Number(_));
                (self.values.is_empty() || self.values.iter().any(is_among))
                    && (number.min..=number.max).contains(&given)
            }
            (Value::Number(_), None) => false,
        }
    }

    /// Its entries in a list of options: words as they are written, and placeholders for numbers.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let row = self.option.row();
        let words = self.values.iter().filter(|value| Some(**value) != row.plain);
        let words = words.filter_map(|value| match (*value, &row.number) {
            (Value::Word(at), _) => Some(row.words[usize::from(at)]),
            (Value::Number(_), number) => number.as_ref()?.word.map(|(word, _)| word),
        });
        let words: Vec<_> = words.collect();
        let mut list: Vec<String> = match (row.is_bare, words.is_empty()) {
            (_, true) => Vec::new(),
            (true, false) => words.iter().map(|word| (*word).to_owned()).collect(),
            (false, false) => vec![format!("{}={}", row.key, words.join("|"))],
        };
        if let Some(number) = &row.number
            && self.takes(Value::Number(number.max))
        {
            list.push(format!("{}={}", number.key, if number.is_size { "SIZE" } else { "N" }));
        }
        list
    }
}
