//! Runs whose texts are made harmless.
//!
//! Not here: which characters are shown as escapes (`method`).

use std::borrow::Cow;

pub use seekless_method::visible;
use seekless_record::{Run, Text, Visitor};

/// Longer texts of a run are clipped: its document has them whole.
const LONGEST_TEXT: usize = 1200;

/// A run whose texts can all be shown.
#[derive(Clone, Debug)]
pub struct Visible(Run);

impl Visible {
    /// All of a run.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        Self::first_contests(run, usize::MAX)
    }

    /// A run with at most the first `most` of its contests.
    #[must_use]
    pub fn first_contests(run: &Run, most: usize) -> Self {
        let mut run = run.clone();
        run.contests.truncate(most);
        run.visit(&mut MakeVisible);
        Self(run)
    }

    /// The run.
    pub(super) fn run(&self) -> &Run {
        &self.0
    }
}

struct MakeVisible;

impl Visitor for MakeVisible {
    fn text(&mut self, _place: &str, _about: Text, text: &mut String) -> bool {
        if let Cow::Owned(escaped) = visible(text) {
            *text = escaped;
        }
        if let Some((end, _)) = text.char_indices().nth(LONGEST_TEXT) {
            text.truncate(end);
            text.push('…');
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Every text of a document, found without knowing its form.
    fn texts(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
        match value {
            Value::String(text) => visit(text),
            Value::Array(items) => items.iter_mut().for_each(|item| texts(item, visit)),
            Value::Object(fields) => fields.values_mut().for_each(|field| texts(field, visit)),
            _ => {}
        }
    }

    #[test]
    fn long_texts_are_clipped() {
        let mut run = crate::simulation::run(&[], 0);
        run.id = "\u{1b}".repeat(9999);
        assert_eq!(Visible::of(&run).run().id.chars().count(), LONGEST_TEXT + 1);
    }

    #[test]
    fn no_text_of_a_run_keeps_a_control_character() {
        let mut document: Value = serde_json::from_str(crate::simulation::FULL).unwrap();
        let count = |document: &mut Value| {
            let mut count = 0;
            texts(document, &mut |_| count += 1);
            count
        };
        // One text after the other, since words that the form prescribes take no other; one of three in the short run.
        for index in (0..count(&mut document)).step_by(if crate::is_long() { 1 } else { 3 }) {
            let (mut changed, mut at) = (document.clone(), 0);
            texts(&mut changed, &mut |text| {
                if at == index {
                    text.push('\u{1b}');
                }
                at += 1;
            });
            let Ok(run) = seekless_record::from_json(changed.to_string().as_bytes()) else {
                continue;
            };
            let shown = serde_json::to_string(Visible::of(&run).run()).unwrap();
            assert!(!shown.contains("\\u001b"), "text {index} of {changed}");
        }
    }
}
