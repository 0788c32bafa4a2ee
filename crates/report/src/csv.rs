//! All samples as CSV: a row for each trial, invalid ones included. Units are in the columns' names; an unknown figure
//! is an empty field.

use seekless_record::Run;
use serde_json::{Value, json};

/// The columns from left to right, a line for those with one form of name: that form, the part of the run that has their values, and
/// the fields in it. First the conditions, then the results of a trial.
const COLUMNS: &str = "\
{} run: run
{} contest: experiment
{} trial: contest
{} places: storage
{} contest: operation size_bytes files cache target kernel work_ns_per_kib differ
{} places: other_storage
{} contest: read_ahead_kib
update_{} updates: bytes every_bytes draw
{} contest: layout memory_bytes shared_blocks holes_skipped durability
{} entry: method label
{} trial: round phase valid
{}_because trial: invalid
{} trial: at_seconds seconds fsync_seconds setup_seconds user_seconds system_seconds
{} trial: voluntary_switches involuntary_switches minor_faults major_faults peak_memory_bytes
{} trial: calls bytes hole_bytes source_bytes sink_bytes
device_{} device: reads read_bytes read_merges writes write_bytes reliable
system_{}_part system: user system idle wait stolen
system_{} system: switches_per_second interrupts_per_second blocks_in_kib_per_second cache_growth_bytes
{}_part trial: resident_before resident_after
{} trial: extents
{} updated: writes requested_bytes written_bytes
{} trial: planned predicted_seconds
random_{} random: block_bytes depth
{} latency: requests
latency_{} latency: mean_ns p50_ns p90_ns p99_ns p99_9_ns max_ns
{} contest: sustained
{} trial: segment_seconds
random_{} random: reads_percent
read_latency_{} read_latency: mean_ns p50_ns p90_ns p99_ns p99_9_ns max_ns";

/// The form of the name, the part and the field of each column.
fn columns() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let rows = COLUMNS.lines().filter_map(|line| line.split_once(": "));
    rows.flat_map(|(head, fields)| {
        let (form, part) = head.split_once(' ').unwrap_or(("{}", head));
        fields.split(' ').map(move |field| (form, part, field))
    })
}

/// All trials of a run, in the order they happened, under a line of column names. A damaged document may lack the contest, its
/// storage or the entry of a trial; their fields are then empty.
///
/// # Errors
/// None in practice: writing to memory does not fail.
pub fn to_csv(run: &Run) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns().map(|(form, _, field)| form.replace("{}", field)))?;
    let contests: Vec<Value> = run.contests.iter().map(|contest| json!(contest)).collect();
    for trial in &run.trials {
        let contest = run.contests.get(trial.contest);
        let path = |index: usize| run.storages.get(index).map(|storage| &storage.path);
        let entry = contest.and_then(|contest| contest.entries.get(trial.entry));
        let own = json!({
            "run": { "run": run.id },
            "places": {
                "storage": contest.and_then(|contest| path(contest.storage)),
                "other_storage": contest.and_then(|contest| path(contest.other_storage?)),
            },
            "entry": { "method": entry.map(|entry| entry.name()), "label": entry.map(|entry| &entry.label) },
            "trial": trial,
        });
        let contest = contests.get(trial.contest).unwrap_or(&Value::Null);
        let part = |part| match part {
            "contest" => contest,
            "updates" | "random" => &contest[part],
            "run" | "places" | "entry" | "trial" => &own[part],
            of_trial => &own["trial"][of_trial],
        };
        writer.write_record(columns().map(|(_, of, field)| field_text(&part(of)[field])))?;
    }
    text(writer)
}

/// The text that was written.
pub(crate) fn text(writer: csv::Writer<Vec<u8>>) -> Result<String, csv::Error> {
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of a field; items of a list are separated by spaces.
fn field_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(field_text).collect::<Vec<_>>().join(" "),
        // Without the `.0` of whole numbers in JSON.
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or(f64::NAN).to_string(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use seekless_results::simulation;

    use super::*;

    /// Fields by their names.
    type Row = std::collections::HashMap<String, String>;

    fn rows(run: &Run) -> Vec<Row> {
        let text = to_csv(run).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        reader.deserialize().map(Result::unwrap).collect()
    }

    #[test]
    fn each_trial_is_a_row_that_reads_back() {
        let mut run = simulation::run(&[("read/sync,block=128K", 1.5), ("read/mmap", 2.0)], 3);
        run.trials[1].valid = false;
        run.trials[1].invalid = Some("60 % resident, \"cold\" was claimed".to_owned());
        run.trials[2].contest = 7;
        let rows = rows(&run);
        assert_eq!(rows.len(), 6);
        for (row, name, field) in [
            (0, "method", "read/sync,block=128K"),
            (0, "seconds", "1.5"),
            (0, "cache", "cold"),
            (0, "phase", "screening"),
            (1, "method", "read/mmap"),
            (1, "valid", "false"),
            (1, "invalid_because", "60 % resident, \"cold\" was claimed"),
            (2, "method", ""),
            (2, "extents", ""),
        ] {
            assert_eq!(rows[row][name], field, "{name} of {row}");
        }
    }

    #[test]
    fn what_an_update_wrote_stands_in_its_row() {
        let run = seekless_record::from_json(simulation::FULL.as_bytes()).unwrap();
        let rows = rows(&run);
        let is_planned = |row: &&Row| row["method"] == "update/planned,write-through";
        let planned = rows.iter().find(is_planned).unwrap();
        for (name, field) in [
            ("update_draw", "shuffled"),
            ("writes", "1"),
            ("requested_bytes", "40000"),
            ("written_bytes", "3998800"),
            ("planned", "update/sync,block=8M,write-through,gap=512"),
            ("predicted_seconds", "0.006"),
        ] {
            assert_eq!(planned[name], field, "{name}");
        }
        let mut read = rows.iter().filter(|row| row["operation"] == "read");
        assert!(read.any(|row| row["writes"].is_empty()));
    }
}
