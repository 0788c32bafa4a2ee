//! The output of `seekless update`, as text and as JSON.

use std::io::{self, Write};

use seekless_engine::update::{Recovered, Safety, UpdateCost, UpdatePlan, Updated, naive};
use seekless_results::bytes;
use serde_json::{Value, json};

use super::{Arguments, Job, Times};
use crate::show::{PLAIN, Page, counted, seconds, visible_path, with_path};

pub fn show(page: &mut Page<'_>, job: &Job<'_>, chosen: &UpdatePlan, done: Option<&Updated>) -> io::Result<()> {
    let (arguments, updates) = (job.arguments, &job.updates);
    let file = visible_path(&arguments.file);
    let given = counted(updates.given(), "update");
    let requested = bytes(updates.requested_bytes());
    if let Some(done) = done {
        let (writes, written) = (counted(done.writes, "write"), bytes(done.written_bytes));
        let amplification = amplification_words(done.amplification(), &chosen.cost);
        let beside = match (done.journal_bytes, done.copied_bytes) {
            (0, 0) => String::new(),
            (0, copied) => format!(", after a copy of {}", bytes(copied)),
            (journal, _) => format!(", after a journal of {}", bytes(journal)),
        };
        let text = format!("{file}: {given} of {requested} in {writes} of {written}{beside}; {amplification}.");
        page.say(PLAIN, &text)?;
    } else {
        let cover = if updates.given() == 1 { "covers" } else { "cover" };
        let text = format!("{file}: {given} {cover} {requested}; nothing was changed.");
        page.say(PLAIN, &text)?;
        show_costs(page, job, chosen)?;
        let written = bytes(chosen.cost.work.written_bytes + chosen.cost.safety_bytes);
        let amplification = amplification_words(chosen.cost.amplification(), &chosen.cost);
        page.say(PLAIN, &format!("Planned: {written} written; {amplification}."))?;
        let beside = bytes(chosen.cost.safety_bytes);
        let what = match arguments.safety {
            Safety::Journal => Some(("", "the journal")),
            Safety::Replace => Some(("at most ", "the copy that takes the name")),
            Safety::InPlace => None,
        };
        if let Some((bound, what)) = what {
            writeln!(page, "The planned bytes include {bound}{beside} for {what}.")?;
        }
        page.say(PLAIN, &format!("{}: {}.", chosen.plan.method, chosen.plan.reason))?;
    }
    Ok(())
}

/// Bytes written for each byte that changes, and in blocks, which are what wears a device.
fn amplification_words(amplification: f64, cost: &UpdateCost) -> String {
    let blocks = cost.block_amplification();
    format!("write amplification {amplification:.1}, {blocks:.1} times the 4 KiB blocks that change")
}

/// Shows the cost of the updates one by one and as planned.
fn show_costs(page: &mut Page<'_>, job: &Job<'_>, chosen: &UpdatePlan) -> io::Result<()> {
    let (_, one_by_one) = naive(
        &job.updates,
        &job.estimate.facts,
        chosen.plan.method.options().durability(),
    );
    let mut line = |name: &str, [writes, read, written, predicted]: [&str; 4]| {
        writeln!(page, "{name:<12}{writes:>12}{read:>12}{written:>12}{predicted:>12}")
    };
    line("", ["writes", "read", "written", "predicted"])?;
    for (name, cost) in [("one by one", &one_by_one), ("planned", &chosen.cost)] {
        let (read, written) = (cost.work.read_bytes, cost.work.written_bytes + cost.safety_bytes);
        let predicted = seconds(cost.predicted.value.as_secs_f64());
        let (writes, read, written) = (cost.work.writes.to_string(), bytes(read), bytes(written));
        line(name, [&writes, &read, &written, &predicted])?;
    }
    Ok(())
}

pub fn in_json(job: &Job<'_>, chosen: &UpdatePlan, done: Option<&Updated>, times: &Times) -> Value {
    let (updates, look) = (&job.updates, &job.estimate);
    let told = |cost: &UpdateCost| {
        json!({
            "writes": cost.work.writes, "reads": cost.work.reads, "written_bytes": cost.work.written_bytes,
            "safety_bytes": cost.safety_bytes, "read_bytes": cost.work.read_bytes, "amplification": cost.amplification(),
            "block_amplification": cost.block_amplification(),
            "predicted_seconds": look.is_measured().then_some(cost.predicted.value.as_secs_f64()),
        })
    };
    let (_, one_by_one) = naive(updates, &look.facts, chosen.plan.method.options().durability());
    let object = json!({
        "updates": updates.given(), "requested_bytes": updates.requested_bytes(),
        "method": chosen.plan.method.to_string(), "why": chosen.plan.reason.to_string(),
        "one_by_one": told(&one_by_one), "planned": told(&chosen.cost),
        "done": done.map(|done| json!({
            "writes": done.writes, "written_bytes": done.written_bytes, "journal_bytes": done.journal_bytes,
            "copied_bytes": done.copied_bytes, "amplification": done.amplification(), "calls": done.calls,
        })),
        "seconds": times,
    });
    with_path(object, "path", Some(&job.arguments.file))
}

pub fn show_recovered(page: &mut Page<'_>, arguments: &Arguments, recovered: Recovered) -> io::Result<()> {
    let (word, updates) = match recovered {
        Recovered::Nothing => ("nothing", 0),
        Recovered::Undone => ("undone", 0),
        Recovered::Finished(updates) => ("finished", updates),
    };
    if arguments.json {
        let object = json!({ "recovered": word, "records": updates });
        return page.json(&object);
    }
    let what = match recovered {
        Recovered::Nothing => "no update was interrupted; there is nothing to recover.",
        Recovered::Undone => "the update had not started; the file is unchanged.",
        Recovered::Finished(_) => {
            &format!("the update is finished: {updates} pieces are in the file and on the device.")
        }
    };
    page.say(PLAIN, &format!("{}: {what}", visible_path(&arguments.file)))
}
