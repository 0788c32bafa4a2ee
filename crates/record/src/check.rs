//! Whether a document can be: indices that lead somewhere, figures that a measurement can have, texts of bounded length.
//!
//! A document may come from a stranger. Whoever reads one relies on these bounds, so they are kept in one place.

mod bounds;

use bounds::{
    Checked, LEAST_TIMED, MOST_COUNT, MOST_EFFECTS, MOST_ITEMS, MOST_RATIO, MOST_SECONDS, MOST_TRIALS, count, figure,
    for_some, index, interval, length, name, part, problem, seconds, short, system, texts,
};

use crate::{Conclusion, Contest, Entry, Run, Status, Storage, Summary, Trial};

/// The first thing found that no run can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Problem {
    /// The field, as in `trials[3].seconds`.
    pub field: String,
    /// What is wrong with it.
    pub why: String,
}

/// Checks all of a run.
pub(crate) fn check(run: &Run) -> Checked {
    named(run)?;
    seconds("elapsed_seconds", run.elapsed_seconds)?;
    for_some(run.budget_seconds, |budget| seconds("budget_seconds", budget))?;
    length("storages", run.storages.len(), MOST_ITEMS)?;
    for (index, one) in run.storages.iter().enumerate() {
        storage(&format!("storages[{index}]"), one)?;
    }
    length("contests", run.contests.len(), MOST_ITEMS)?;
    for (index, one) in run.contests.iter().enumerate() {
        contest(&format!("contests[{index}]"), one, run)?;
    }
    length("trials", run.trials.len(), MOST_TRIALS)?;
    for (index, one) in run.trials.iter().enumerate() {
        trial(one, run).map_err(|problem| within(&format!("trials[{index}]"), problem))?;
    }
    conditions(run)
}

fn within(outer: &str, problem: Problem) -> Problem {
    Problem {
        field: format!("{outer}.{}", problem.field),
        ..problem
    }
}

/// What names the run, its machine and what others published.
fn named(run: &Run) -> Checked {
    if run.id.is_empty() {
        return problem("id", "is empty");
    }
    let machine = &run.machine;
    for (field, text) in [
        ("id", Some(&run.id)),
        ("seekless", Some(&run.seekless)),
        ("started", Some(&run.started)),
        ("drop", Some(&run.drop)),
        ("machine.host", machine.host.as_ref()),
        ("machine.system", Some(&machine.system)),
        ("machine.kernel", Some(&machine.kernel)),
        ("machine.architecture", Some(&machine.architecture)),
        ("machine.processor", machine.processor.as_ref()),
        ("machine.hypervisor", machine.hypervisor.as_ref()),
        ("machine.governor", machine.governor.as_ref()),
    ] {
        for_some(text, |text| short(field, text))?;
    }
    for (field, value) in [
        ("machine.memory_bytes", machine.memory_bytes),
        ("machine.memory_available_bytes", machine.memory_available_bytes),
        ("machine.level_1_cache_bytes", machine.level_1_cache_bytes),
        ("machine.level_2_cache_bytes", machine.level_2_cache_bytes),
    ] {
        for_some(value, |value| count(field, value))?;
    }
    texts("experiments", &run.experiments)?;
    texts("choices", &run.choices)?;
    texts("warnings", &run.warnings)?;
    length("published", run.published.len(), MOST_ITEMS)?;
    for (index, published) in run.published.iter().enumerate() {
        let at = format!("published[{index}]");
        for text in [&published.experiment, &published.source, &published.machine] {
            short(&at, text)?;
        }
        length(&at, published.findings.len(), MOST_ITEMS)?;
        for finding in &published.findings {
            for text in [
                Some(&finding.operation),
                Some(&finding.method),
                finding.block.as_ref(),
                finding.durability.as_ref(),
                finding.layout.as_ref(),
            ] {
                for_some(text, |text| short(&at, text))?;
            }
            for_some(finding.system.as_ref(), |value| system(&at, value))?;
            for_some(finding.seconds, |value| seconds(&at, value))?;
            for_some(finding.cpu_seconds, |value| seconds(&at, value))?;
            for_some(finding.bytes_per_second, |value| figure(&at, value, 0.0, MOST_RATIO))?;
        }
    }
    length("columns", run.columns.len(), MOST_ITEMS)?;
    for column in &run.columns {
        for text in [&column.experiment, &column.name, &column.operation, &column.methods] {
            name("columns", text)?;
        }
    }
    Ok(())
}

/// How quiet the machine was, what measuring cost, and when the run was taken up again.
fn conditions(run: &Run) -> Checked {
    let cost = &run.lab_cost;
    length("lab_cost.null_seconds", cost.null_seconds.len(), MOST_ITEMS)?;
    for &null in &cost.null_seconds {
        seconds("lab_cost.null_seconds", null)?;
    }
    for (field, value) in [
        ("lab_cost.producer_bytes_per_second", cost.producer_bytes_per_second),
        (
            "lab_cost.first_touch_bytes_per_second",
            cost.first_touch_bytes_per_second,
        ),
        (
            "lab_cost.second_touch_bytes_per_second",
            cost.second_touch_bytes_per_second,
        ),
    ] {
        for_some(value, |value| figure(field, value, 0.0, MOST_RATIO))?;
    }
    for_some(run.noise.stolen, |value| part("noise.stolen", value))?;
    for_some(run.noise.other_io, |value| part("noise.other_io", value))?;
    length("resumed_at_seconds", run.resumed_at_seconds.len(), MOST_ITEMS)?;
    for &at in &run.resumed_at_seconds {
        seconds("resumed_at_seconds", at)?;
    }
    Ok(())
}

fn storage(at: &str, storage: &Storage) -> Checked {
    for text in [
        Some(&storage.path),
        Some(&storage.file_system),
        storage.mount_options.as_ref(),
        storage.mount_point.as_ref(),
    ] {
        for_some(text, |text| short(at, text))?;
    }
    for_some(storage.block_bytes, |value| count(&format!("{at}.block_bytes"), value))?;
    for_some(storage.free_bytes, |value| count(&format!("{at}.free_bytes"), value))?;
    for_some(storage.alternating_ns, |value| {
        figure(
            &format!("{at}.alternating_ns"),
            value,
            -MOST_SECONDS * 1e9,
            MOST_SECONDS * 1e9,
        )
    })?;
    length(&format!("{at}.facts"), storage.facts.len(), MOST_ITEMS)?;
    for (name, value) in &storage.facts {
        short(&format!("{at}.facts"), name)?;
        short(&format!("{at}.facts"), value)?;
    }
    let Some(device) = &storage.device else { return Ok(()) };
    let at = format!("{at}.device");
    texts(&format!("{at}.below"), &device.below)?;
    for text in [
        Some(&device.name),
        device.model.as_ref(),
        device.scheduler.as_ref(),
        device.write_cache.as_ref(),
    ] {
        for_some(text, |text| short(&at, text))?;
    }
    for (field, value) in [
        ("read_ahead_kib", device.read_ahead_kib),
        ("logical_block_bytes", device.logical_block_bytes),
        ("max_request_kib", device.max_request_kib),
    ] {
        for_some(value, |value| count(&format!("{at}.{field}"), value))?;
    }
    Ok(())
}

fn contest(at: &str, contest: &Contest, run: &Run) -> Checked {
    index(
        &format!("{at}.storage"),
        contest.storage,
        run.storages.len(),
        "storages",
    )?;
    for_some(contest.other_storage, |other| {
        index(&format!("{at}.other_storage"), other, run.storages.len(), "storages")
    })?;
    for_some(contest.read_ahead_kib, |value| {
        count(&format!("{at}.read_ahead_kib"), value)
    })?;
    for_some(contest.updates, |updates| {
        count(&format!("{at}.updates.bytes"), updates.bytes)?;
        count(&format!("{at}.updates.every_bytes"), updates.every_bytes)?;
        if updates.bytes == 0 || updates.every_bytes < updates.bytes {
            return problem(format!("{at}.updates"), "they are empty or overlap");
        }
        Ok(())
    })?;
    if contest.updates.is_some() != (contest.operation == "update") {
        return problem(
            format!("{at}.updates"),
            "what updates says what it updates, and nothing else does",
        );
    }
    count(&format!("{at}.size_bytes"), contest.size_bytes)?;
    for_some(contest.memory_bytes, |value| {
        count(&format!("{at}.memory_bytes"), value)
    })?;
    for_some(contest.mode, |mode| count(&format!("{at}.mode.count"), mode.count))?;
    for_some(contest.layout.as_ref(), |layout| name(&format!("{at}.layout"), layout))?;
    if !(1..=1_000_000).contains(&contest.files) {
        return problem(
            format!("{at}.files"),
            format!("is {}, not from 1 to a million", contest.files),
        );
    }
    count(&format!("{at}.work_ns_per_kib"), contest.work_ns_per_kib)?;
    for text in [
        &contest.experiment,
        &contest.operation,
        &contest.kernel,
        &contest.durability,
    ] {
        short(at, text)?;
    }
    length(&format!("{at}.entries"), contest.entries.len(), MOST_ITEMS)?;
    for (index, one) in contest.entries.iter().enumerate() {
        entry(one).map_err(|problem| within(&format!("{at}.entries[{index}]"), problem))?;
    }
    match &contest.conclusion {
        None => Ok(()),
        Some(one) => conclusion(one).map_err(|problem| within(&format!("{at}.conclusion"), problem)),
    }
}

fn entry(entry: &Entry) -> Checked {
    name("method", &entry.method)?;
    if let Some(command) = &entry.command {
        short("command.name", &command.name)?;
        texts("command.argv", &command.argv)?;
        texts("command.before", &command.before)?;
        for_some(command.note.as_ref(), |note| short("command.note", note))?;
    }
    for_some(entry.label.as_ref(), |label| name("label", label))?;
    match &entry.status {
        Status::Measured => {}
        Status::Unavailable(why) | Status::Dropped(why) | Status::Failed(why) | Status::Unmeasured(why) => {
            short("status.why", why)?;
        }
    }
    for_some(entry.summary.as_ref(), summary)?;
    for_some(entry.standing.as_ref(), |standing| {
        interval("standing.ratio", &standing.ratio, MOST_RATIO)
    })
}

fn summary(summary: &Summary) -> Checked {
    interval("summary.seconds", &summary.seconds, MOST_SECONDS)?;
    figure("summary.bytes_per_second", summary.bytes_per_second, 0.0, MOST_RATIO)?;
    for_some(summary.deviation_seconds, |value| {
        seconds("summary.deviation_seconds", value)
    })?;
    seconds("summary.mean_seconds", summary.mean_seconds)?;
    seconds("summary.cpu_seconds", summary.cpu_seconds)?;
    seconds("summary.fsync_seconds", summary.fsync_seconds)?;
    seconds("summary.setup_seconds", summary.setup_seconds)?;
    for_some(summary.user_seconds, |value| seconds("summary.user_seconds", value))?;
    for_some(summary.system_seconds, |value| seconds("summary.system_seconds", value))?;
    for_some(summary.predicted_seconds, |value| {
        seconds("summary.predicted_seconds", value)
    })?;
    for_some(summary.planned.as_ref(), |method| name("summary.planned", method))?;
    for_some(summary.system.as_ref(), |value| system("summary.system", value))?;
    for (field, value) in [
        ("summary.calls", summary.calls),
        ("summary.device_reads", summary.device_reads),
        ("summary.device_request_bytes", summary.device_request_bytes),
        ("summary.amplification", summary.amplification),
    ] {
        for_some(value, |value| figure(field, value, 0.0, MOST_COUNT as f64))?;
    }
    Ok(())
}

fn conclusion(conclusion: &Conclusion) -> Checked {
    short("sentence", &conclusion.sentence)?;
    for text in [
        &conclusion.recommended,
        &conclusion.best,
        &conclusion.best_synchronous,
        &conclusion.best_overlapping,
    ] {
        for_some(text.as_ref(), |text| short("best", text))?;
    }
    for_some(conclusion.confirmed_bytes_per_second.as_ref(), |confirmed| {
        interval("confirmed_bytes_per_second", confirmed, MOST_RATIO)
    })?;
    length("effects", conclusion.effects.len(), MOST_EFFECTS)?;
    for effect in &conclusion.effects {
        for text in [&effect.option, &effect.without, &effect.with] {
            short("effects", text)?;
        }
        interval("effects.ratio", &effect.ratio, MOST_RATIO)?;
        let difference = effect.cpu_seconds_difference;
        figure(
            "effects.cpu_seconds_difference",
            difference,
            -MOST_SECONDS,
            MOST_SECONDS,
        )?;
    }
    Ok(())
}

fn trial(trial: &Trial, run: &Run) -> Checked {
    index("contest", trial.contest, run.contests.len(), "contests")?;
    let entries = run.contests[trial.contest].entries.len();
    index("entry", trial.entry, entries, "entries of its contest")?;
    for (field, value) in [
        ("at_seconds", trial.at_seconds),
        ("seconds", trial.seconds),
        ("fsync_seconds", trial.fsync_seconds),
        ("setup_seconds", trial.setup_seconds),
        ("user_seconds", trial.user_seconds),
        ("system_seconds", trial.system_seconds),
    ] {
        seconds(field, value)?;
    }
    if trial.seconds != 0.0 {
        // Ratios of it stay numbers that can be written.
        figure("seconds", trial.seconds, LEAST_TIMED, MOST_SECONDS)?;
    }
    for (field, value) in [
        ("bytes", Some(trial.bytes)),
        ("calls", trial.calls),
        ("hole_bytes", trial.hole_bytes),
        ("source_bytes", trial.source_bytes),
        ("sink_bytes", trial.sink_bytes),
        ("extents", trial.extents),
        ("peak_memory_bytes", Some(trial.peak_memory_bytes)),
        ("voluntary_switches", Some(trial.voluntary_switches)),
        ("involuntary_switches", Some(trial.involuntary_switches)),
        ("minor_faults", Some(trial.minor_faults)),
        ("major_faults", Some(trial.major_faults)),
    ] {
        for_some(value, |value| count(field, value))?;
    }
    for_some(trial.device, |device| {
        let merges = device.read_merges.unwrap_or(0);
        [
            device.reads,
            device.read_bytes,
            merges,
            device.writes,
            device.write_bytes,
        ]
        .into_iter()
        .try_for_each(|value| count("device", value))
    })?;
    for_some(trial.system.as_ref(), |value| system("system", value))?;
    for_some(trial.resident_before, |value| part("resident_before", value))?;
    for_some(trial.resident_after, |value| part("resident_after", value))?;
    for_some(trial.updated.as_ref(), |updated| {
        for value in [updated.writes, updated.requested_bytes, updated.written_bytes] {
            count("updated", value)?;
        }
        for_some(updated.planned.as_ref(), |method| name("updated.planned", method))?;
        for_some(updated.predicted_seconds, |value| {
            seconds("updated.predicted_seconds", value)
        })
    })?;
    for_some(trial.invalid.as_ref(), |why| short("invalid", why))?;
    if trial.valid == trial.invalid.is_some() {
        return problem(
            "valid",
            "a trial has a reason in `invalid` where it is not valid, and only there",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
