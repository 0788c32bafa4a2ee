//! Text from outside, made harmless: what would move a cursor or turn a line round is shown as an escape instead.

use std::borrow::Cow;
use std::fmt::Write;

use seekless_record::{Contest, Entry, Run, Status, Storage};
use serde::Serialize;

/// The text with its control characters shown as escapes, `\u{1b}` for one.
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

/// The same of a text that may have several lines.
pub fn visible_lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
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

/// A value as JSON in ASCII, with a newline at its end: escapes take the place of all else, so that it may go to a
/// terminal.
pub fn json_text(value: &impl Serialize) -> serde_json::Result<String> {
    let mut ascii = String::new();
    // What is not ASCII stands in texts only.
    for character in serde_json::to_string_pretty(value)?.chars() {
        if character.is_ascii() && character != '\u{7f}' {
            ascii.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(ascii, "\\u{unit:04x}");
        }
    }
    ascii.push('\n');
    Ok(ascii)
}

/// A run whose texts can all be shown.
pub fn visible_run(run: &Run) -> Cow<'_, Run> {
    let mut shown = run.clone();
    let mut is_changed = false;
    each_text(&mut shown, &mut |text| {
        if let Cow::Owned(escaped) = visible(text) {
            *text = escaped;
            is_changed = true;
        }
    });
    if is_changed {
        Cow::Owned(shown)
    } else {
        Cow::Borrowed(run)
    }
}

type Visit<'a> = dyn FnMut(&mut String) + 'a;

fn each_text(run: &mut Run, visit: &mut Visit<'_>) {
    for text in [&mut run.id, &mut run.seekless, &mut run.started, &mut run.drop] {
        visit(text);
    }
    let machine = &mut run.machine;
    for text in [&mut machine.system, &mut machine.kernel, &mut machine.architecture] {
        visit(text);
    }
    for text in [
        &mut machine.host,
        &mut machine.processor,
        &mut machine.hypervisor,
        &mut machine.governor,
    ] {
        text.iter_mut().for_each(&mut *visit);
    }
    for texts in [&mut run.experiments, &mut run.choices, &mut run.warnings] {
        texts.iter_mut().for_each(&mut *visit);
    }
    for storage in &mut run.storages {
        each_text_of_storage(storage, visit);
    }
    for contest in &mut run.contests {
        each_text_of_contest(contest, visit);
    }
    for trial in &mut run.trials {
        trial.invalid.iter_mut().for_each(&mut *visit);
    }
    for published in &mut run.published {
        for text in [&mut published.experiment, &mut published.source, &mut published.machine] {
            visit(text);
        }
        for finding in &mut published.findings {
            visit(&mut finding.operation);
            visit(&mut finding.method);
            finding.block.iter_mut().for_each(&mut *visit);
        }
    }
}

fn each_text_of_storage(storage: &mut Storage, visit: &mut Visit<'_>) {
    visit(&mut storage.path);
    visit(&mut storage.file_system);
    storage.mount_options.iter_mut().for_each(&mut *visit);
    storage.mount_point.iter_mut().for_each(&mut *visit);
    storage.facts = std::mem::take(&mut storage.facts)
        .into_iter()
        .map(|(mut name, mut value)| {
            visit(&mut name);
            visit(&mut value);
            (name, value)
        })
        .collect();
    if let Some(device) = &mut storage.device {
        visit(&mut device.name);
        device.below.iter_mut().for_each(&mut *visit);
        for text in [&mut device.model, &mut device.scheduler, &mut device.write_cache] {
            text.iter_mut().for_each(&mut *visit);
        }
    }
}

fn each_text_of_contest(contest: &mut Contest, visit: &mut Visit<'_>) {
    for text in [
        &mut contest.experiment,
        &mut contest.operation,
        &mut contest.kernel,
        &mut contest.durability,
    ] {
        visit(text);
    }
    for entry in &mut contest.entries {
        each_text_of_entry(entry, visit);
    }
    let Some(conclusion) = &mut contest.conclusion else {
        return;
    };
    visit(&mut conclusion.sentence);
    for text in [
        &mut conclusion.recommended,
        &mut conclusion.best,
        &mut conclusion.best_synchronous,
        &mut conclusion.best_overlapping,
    ] {
        text.iter_mut().for_each(&mut *visit);
    }
    for effect in &mut conclusion.effects {
        for text in [&mut effect.option, &mut effect.without, &mut effect.with] {
            visit(text);
        }
    }
}

fn each_text_of_entry(entry: &mut Entry, visit: &mut Visit<'_>) {
    visit(&mut entry.method);
    if let Some(command) = &mut entry.command {
        visit(&mut command.name);
        command.argv.iter_mut().for_each(&mut *visit);
    }
    match &mut entry.status {
        Status::Measured => {}
        Status::Unavailable(why) | Status::Dropped(why) | Status::Failed(why) | Status::Unmeasured(why) => visit(why),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn control_characters_become_escapes_and_all_else_stays() {
        assert_eq!(visible("/data/Bücher 日本"), "/data/Bücher 日本");
        assert_eq!(visible("a\u{1b}[2J\n\r\u{9b}b"), "a\\u{1b}[2J\\n\\r\\u{9b}b");
        assert_eq!(visible("txt.\u{202e}exe"), "txt.\\u{202e}exe");
        assert_eq!(visible_lines("one\x07\ntwo"), "one\\u{7}\ntwo");
    }

    #[test]
    fn json_for_a_terminal_is_ascii_and_reads_the_same() {
        let text = "é\u{9b}日\u{1f600}\u{1b}\u{7f}";
        let json = json_text(&text).unwrap();
        assert!(json.trim_end().chars().all(|c| c.is_ascii_graphic()), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

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
    fn no_text_of_a_run_keeps_a_control_character() {
        let mut document: Value = serde_json::from_str(include_str!("../../../record/testdata/full-run.json")).unwrap();
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
            let shown = serde_json::to_string(&*visible_run(&run)).unwrap();
            assert!(!shown.contains("\\u001b"), "text {index} of {changed}");
        }
    }
}
