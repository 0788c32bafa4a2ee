//! A run from outside, made harmless: every text of it, one by one.

use std::borrow::Cow;

use seekless_record::{Contest, Entry, Run, Status, Storage};

use super::visible::visible;

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
        if let Some(updated) = &mut trial.updated {
            updated.planned.iter_mut().for_each(&mut *visit);
        }
    }
    for published in &mut run.published {
        for text in [&mut published.experiment, &mut published.source, &mut published.machine] {
            visit(text);
        }
        for finding in &mut published.findings {
            visit(&mut finding.operation);
            visit(&mut finding.method);
            finding.block.iter_mut().for_each(&mut *visit);
            finding.layout.iter_mut().for_each(&mut *visit);
            finding.durability.iter_mut().for_each(&mut *visit);
        }
    }
    for column in &mut run.columns {
        for text in [
            &mut column.experiment,
            &mut column.name,
            &mut column.operation,
            &mut column.methods,
        ] {
            visit(text);
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
    contest.layout.iter_mut().for_each(&mut *visit);
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
    if let Some(summary) = &mut entry.summary {
        summary.planned.iter_mut().for_each(&mut *visit);
    }
    entry.label.iter_mut().for_each(&mut *visit);
    if let Some(command) = &mut entry.command {
        visit(&mut command.name);
        command.argv.iter_mut().for_each(&mut *visit);
        command.before.iter_mut().for_each(&mut *visit);
        command.note.iter_mut().for_each(&mut *visit);
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
