//! What `seekless update` says, as text and as JSON.

use std::io::Write;

use seekless::update::{Look, Recovered, UpdateCost, UpdatePlan, Updated, Updates, naive};
use seekless_results::bytes;
use serde_json::{Value, json};

use super::{Arguments, SafetyName, Times};
use crate::show::{Json, Width, insert_path, seconds, visible_path, wrapped};

fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// As wide as the terminal.
fn sentence(out: &mut dyn Write, text: &str) -> std::io::Result<()> {
    writeln!(out, "{}", wrapped(0, text, Width::of_stdout()))
}

pub fn show(
    out: &mut dyn Write,
    arguments: &Arguments,
    updates: &Updates,
    look: &Look,
    chosen: &UpdatePlan,
    done: Option<&Updated>,
) -> anyhow::Result<()> {
    let file = visible_path(&arguments.file);
    let requested = bytes(updates.requested_bytes() as f64);
    if done.is_none() {
        let durability = chosen.method.options().durability();
        let (_, one_by_one) = naive(updates, &look.facts, durability)?;
        let given = counted(updates.given(), "update");
        sentence(
            out,
            &format!("{given} of {file} name {requested}; nothing was changed."),
        )?;
        writeln!(
            out,
            "{:<12}{:>12}{:>12}{:>12}{:>12}",
            "", "writes", "read", "written", "predicted"
        )?;
        for (name, cost) in [("one by one", &one_by_one), ("planned", &chosen.cost)] {
            let written_bytes = cost.written_bytes + cost.safety_bytes;
            let (read, written) = (bytes(cost.read_bytes as f64), bytes(written_bytes as f64));
            let predicted = seconds(cost.predicted.as_secs_f64());
            writeln!(
                out,
                "{name:<12}{:>12}{read:>12}{written:>12}{predicted:>12}",
                cost.writes
            )?;
        }
        let beside = bytes(chosen.cost.safety_bytes as f64);
        match arguments.safety {
            SafetyName::Journal => writeln!(out, "Of what is written, the journal takes {beside}.")?,
            SafetyName::Replace => writeln!(
                out,
                "Of what is written, the copy that takes the name takes at most {beside}."
            )?,
            SafetyName::InPlace => {}
        }
    }
    if let Some(done) = done {
        let written = bytes(done.written_bytes as f64);
        let beside = match (done.journal_bytes, done.copied_bytes) {
            (0, 0) => String::new(),
            (0, copied) => format!(", after a copy of {}", bytes(copied as f64)),
            (journal, _) => format!(", after a journal of {}", bytes(journal as f64)),
        };
        let text = format!(
            "{file}: {}, {requested}, in {} of {written}{beside} ({:.1} bytes for each that changes).",
            counted(updates.given(), "update"),
            counted(done.writes, "write"),
            done.amplification()
        );
        sentence(out, &text)?;
    }
    if arguments.explain || done.is_none() {
        sentence(out, &format!("{}: {}.", chosen.method, chosen.why))?;
        if let Some(spilled) = updates.spilled_bytes() {
            let spilled = bytes(spilled as f64);
            let text =
                format!("The updates did not fit into memory (--memory) and were sorted on the disk: {spilled}.");
            sentence(out, &text)?;
        }
    }
    Ok(())
}

pub fn in_json(
    arguments: &Arguments,
    updates: &Updates,
    look: &Look,
    chosen: &UpdatePlan,
    done: Option<&Updated>,
    times: &Times,
) -> anyhow::Result<Value> {
    let told = |cost: &UpdateCost| {
        json!({
            "writes": cost.writes, "reads": cost.reads, "written_bytes": cost.written_bytes,
            "safety_bytes": cost.safety_bytes, "read_bytes": cost.read_bytes, "amplification": cost.amplification(),
            "predicted_seconds": look.is_measured.then_some(cost.predicted.as_secs_f64()),
        })
    };
    let (_, one_by_one) = naive(updates, &look.facts, chosen.method.options().durability())?;
    let mut told = json!({
        "updates": updates.given(), "requested_bytes": updates.requested_bytes(),
        "spilled_bytes": updates.spilled_bytes(),
        "method": chosen.method.to_string(), "why": chosen.why,
        "one_by_one": told(&one_by_one), "planned": told(&chosen.cost),
        "done": done.map(|done| json!({
            "writes": done.writes, "written_bytes": done.written_bytes, "journal_bytes": done.journal_bytes,
            "copied_bytes": done.copied_bytes, "amplification": done.amplification(), "calls": done.calls,
        })),
        "seconds": { "read": times.read, "facts": times.facts, "plan": times.plan, "write": times.write },
    });
    if let Some(object) = told.as_object_mut() {
        insert_path(object, "path", &arguments.file);
    }
    Ok(told)
}

pub fn show_recovered(out: &mut dyn Write, arguments: &Arguments, recovered: Recovered) -> anyhow::Result<()> {
    let (word, updates) = match recovered {
        Recovered::Nothing => ("nothing", 0),
        Recovered::Undone => ("undone", 0),
        Recovered::Finished(updates) => ("finished", updates),
    };
    if arguments.json {
        writeln!(out, "{:#}", Json(json!({ "recovered": word, "records": updates })))?;
        return Ok(());
    }
    let file = visible_path(&arguments.file);
    let text = match recovered {
        Recovered::Nothing => format!("{file}: no update was interrupted; there is nothing to recover."),
        Recovered::Undone => format!("{file}: the update had not begun, and is undone: the file is as before."),
        Recovered::Finished(updates) => {
            format!("{file}: the update is finished: {updates} pieces are in it and on the device.")
        }
    };
    Ok(sentence(out, &text)?)
}
