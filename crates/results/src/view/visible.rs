//! Text from outside, made harmless: what would move a cursor or turn a line round is shown as an escape instead.

use std::borrow::Cow;
use std::collections::BTreeMap;

use seekless_record::{
    Column, Command, Conclusion, Contest, Device, Entry, Finding, Machine, OptionEffect, Published, Run, Status,
    Storage, Summary, Trial, UpdateAccount,
};

/// Longer texts of a run are clipped: its document has them whole.
const LONGEST_TEXT: usize = 1200;

/// The text with its control characters shown as escapes, `\u{1b}` for one.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Control characters, and the formatting ones that reorder or hide what stands beside them.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

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
        run.each_text(&mut |text| {
            if let Cow::Owned(escaped) = visible(text) {
                *text = escaped;
            }
            if let Some((end, _)) = text.char_indices().nth(LONGEST_TEXT) {
                text.truncate(end);
                text.push('…');
            }
        });
        Self(run)
    }

    /// The run.
    pub(super) fn run(&self) -> &Run {
        &self.0
    }
}

type Visit<'a> = dyn FnMut(&mut String) + 'a;

/// What has texts.
trait Texts {
    /// Hands over each text.
    fn each_text(&mut self, visit: &mut Visit<'_>);
}

impl Texts for String {
    fn each_text(&mut self, visit: &mut Visit<'_>) {
        visit(self);
    }
}

impl<T: Texts> Texts for Option<T> {
    fn each_text(&mut self, visit: &mut Visit<'_>) {
        if let Some(item) = self {
            item.each_text(visit);
        }
    }
}

impl<T: Texts> Texts for Vec<T> {
    fn each_text(&mut self, visit: &mut Visit<'_>) {
        for item in self {
            item.each_text(visit);
        }
    }
}

impl Texts for BTreeMap<String, String> {
    fn each_text(&mut self, visit: &mut Visit<'_>) {
        let changed = std::mem::take(self).into_iter().map(|(mut name, mut value)| {
            visit(&mut name);
            visit(&mut value);
            (name, value)
        });
        *self = changed.collect();
    }
}

impl Texts for Status {
    fn each_text(&mut self, visit: &mut Visit<'_>) {
        match self {
            Self::Measured => {}
            Self::Unavailable(why) | Self::Dropped(why) | Self::Failed(why) | Self::Unmeasured(why) => visit(why),
        }
    }
}

/// The fields of a document that have texts.
macro_rules! texts {
    ($($document:ident: $($field:ident)*;)*) => {
        $(impl Texts for $document {
            fn each_text(&mut self, visit: &mut Visit<'_>) {
                $(self.$field.each_text(visit);)*
            }
        })*
    };
}

texts! {
    Run: id seekless started drop machine experiments choices warnings storages contests trials published columns;
    Machine: system kernel architecture host processor hypervisor governor;
    Storage: path file_system mount_options mount_point facts device;
    Device: name below model scheduler write_cache;
    Contest: experiment operation kernel durability layout entries conclusion;
    Entry: method summary label command status;
    Summary: planned;
    Command: name argv before note;
    Conclusion: sentence recommended best best_synchronous best_overlapping effects;
    OptionEffect: option without with;
    Trial: invalid updated;
    UpdateAccount: planned;
    Published: experiment source machine findings;
    Finding: operation method block layout durability;
    Column: experiment name operation methods;
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
    fn control_characters_become_escapes_and_all_else_stays() {
        assert_eq!(
            visible("/data/Bücher 日本, größe 1 µs"),
            "/data/Bücher 日本, größe 1 µs"
        );
        assert_eq!(visible("a\u{1b}[2J\n\r\u{9b}b"), "a\\u{1b}[2J\\n\\r\\u{9b}b");
        assert_eq!(visible("txt.\u{202e}exe\u{61c}"), "txt.\\u{202e}exe\\u{61c}");
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
        // One text after the other, since words that the form prescribes take no other.
        for index in 0..count(&mut document) {
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
