//! All samples as CSV: a row for each trial, invalid ones included. Units are in the columns' names; an unknown figure
//! is an empty field.

use seekless_method::{Durability, Operation};
use seekless_record::{
    Contest, DeviceUse, Entry, Latency, RandomAccess, Run, Storage, SystemUse, Trial, UpdateAccount,
};

/// The source of a row. A damaged document may lack the contest, its storage or the entry; their fields are then empty.
struct Row<'a> {
    run: Option<&'a Run>,
    contest: Option<&'a Contest>,
    storage: Option<&'a Storage>,
    other_storage: Option<&'a Storage>,
    entry: Option<&'a Entry>,
    trial: Option<&'a Trial>,
    device: Option<DeviceUse>,
    system: Option<SystemUse>,
    updated: Option<&'a UpdateAccount>,
    random: Option<RandomAccess>,
    latency: Option<Latency>,
}

/// A name, and its field in a row.
type Column = (&'static str, fn(&Row<'_>) -> String);

/// A column with its own name, or columns named after fields, with a prefix and a suffix.
macro_rules! columns {
    ($part:ident $name:literal = $($figure:tt)+) => {
        &[($name, |row| row.$part.map_or_else(String::new, |part| part.$($figure)+.text()))]
    };
    ($part:ident: $($field:ident)+) => { columns!($part "" "": $($field)+) };
    ($part:ident $before:literal $behind:literal: $($field:ident)+) => {
        &[$((
            concat!($before, stringify!($field), $behind),
            |row| row.$part.map_or_else(String::new, |part| part.$field.text()),
        )),+]
    };
}

const COLUMNS: &[&[Column]] = &[
    // The conditions.
    columns!(run "run" = id),
    columns!(contest: experiment),
    columns!(trial: contest),
    columns!(storage "storage" = path),
    columns!(contest: operation size_bytes files),
    columns!(contest "cache" = cache.name()),
    columns!(contest "target" = target.name()),
    columns!(contest: kernel work_ns_per_kib),
    columns!(contest "differ" = differ.name()),
    columns!(other_storage "other_storage" = path),
    columns!(contest: read_ahead_kib),
    columns!(contest "update_bytes" = updates.map(|updates| updates.bytes)),
    columns!(contest "update_every_bytes" = updates.map(|updates| updates.every_bytes)),
    columns!(contest "update_draw" = updates.map(|updates| updates.draw.name())),
    columns!(contest: layout memory_bytes shared_blocks holes_skipped durability),
    columns!(entry "method" = name().as_ref()),
    columns!(entry: label),
    // The results.
    columns!(trial: round),
    columns!(trial "phase" = phase.name()),
    columns!(trial: valid),
    columns!(trial "invalid_because" = invalid),
    columns!(trial: at_seconds seconds fsync_seconds setup_seconds user_seconds system_seconds),
    columns!(trial: voluntary_switches involuntary_switches minor_faults major_faults peak_memory_bytes),
    columns!(trial: calls bytes hole_bytes source_bytes sink_bytes),
    columns!(device "device_" "": reads read_bytes read_merges writes write_bytes reliable),
    columns!(system "system_" "_part": user system idle wait stolen),
    columns!(system "system_" "": switches_per_second interrupts_per_second blocks_in_kib_per_second cache_growth_bytes),
    columns!(trial "" "_part": resident_before resident_after),
    columns!(trial: extents),
    columns!(updated: writes requested_bytes written_bytes),
    columns!(trial: planned predicted_seconds),
    columns!(random "random_" "": block_bytes depth),
    columns!(latency "" "": requests),
    columns!(latency "latency_" "": mean_ns p50_ns p90_ns p99_ns p99_9_ns max_ns),
    columns!(contest: sustained),
    columns!(trial: segment_seconds),
];

/// All trials of a run, in the order they happened, under a line of column names.
///
/// # Errors
/// None in practice: writing to memory does not fail.
pub fn to_csv(run: &Run) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let columns = || COLUMNS.iter().copied().flatten();
    writer.write_record(columns().map(|(name, _)| *name))?;
    for trial in &run.trials {
        let contest = run.contests.get(trial.contest);
        let storage = |index: usize| run.storages.get(index);
        let row = Row {
            run: Some(run),
            contest,
            storage: contest.and_then(|contest| storage(contest.storage)),
            other_storage: contest.and_then(|contest| storage(contest.other_storage?)),
            entry: contest.and_then(|contest| contest.entries.get(trial.entry)),
            trial: Some(trial),
            device: trial.device,
            system: trial.system,
            updated: trial.updated.as_ref(),
            random: contest.and_then(|contest| contest.random),
            latency: trial.latency,
        };
        writer.write_record(columns().map(|(_, figure)| figure(&row)))?;
    }
    text(writer)
}

/// The text that was written.
pub(crate) fn text(writer: csv::Writer<Vec<u8>>) -> Result<String, csv::Error> {
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of a field.
trait Figure {
    fn text(&self) -> String;
}

impl<T: Figure> Figure for Option<T> {
    fn text(&self) -> String {
        self.as_ref().map_or_else(String::new, T::text)
    }
}

/// A list, separated by spaces.
impl Figure for Vec<f64> {
    fn text(&self) -> String {
        self.iter().map(Figure::text).collect::<Vec<_>>().join(" ")
    }
}

macro_rules! figures {
    ($($type:ty)*) => { $(impl Figure for $type { fn text(&self) -> String { self.to_string() } })* };
}

figures!(bool f64 i64 u32 u64 usize str &str String Operation Durability);

#[cfg(test)]
mod tests {
    use seekless_results::simulation;

    use super::*;

    #[test]
    fn each_trial_is_a_row_that_reads_back() {
        let mut run = simulation::run(&[("read/sync,block=128K", 1.5), ("read/mmap", 2.0)], 3);
        run.trials[1].valid = false;
        run.trials[1].invalid = Some("60 % resident, \"cold\" was claimed".to_owned());
        run.trials[2].contest = 7;
        let text = to_csv(&run).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let field =
            |row: usize, name: &str| rows[row][names.iter().position(|known| known == name).unwrap()].to_owned();
        assert_eq!(rows.len(), 6);
        assert_eq!(
            (field(0, "method"), field(0, "seconds")),
            ("read/sync,block=128K".to_owned(), "1.5".to_owned())
        );
        assert_eq!(
            (field(1, "method"), field(1, "valid")),
            ("read/mmap".to_owned(), "false".to_owned())
        );
        assert_eq!(field(1, "invalid_because"), "60 % resident, \"cold\" was claimed");
        assert_eq!(
            (field(0, "cache"), field(0, "phase")),
            ("cold".to_owned(), "screening".to_owned())
        );
        assert_eq!(
            (field(2, "method"), field(2, "extents")),
            (String::new(), String::new())
        );
    }
    #[test]
    fn what_an_update_wrote_stands_in_its_row() {
        let run = seekless_record::from_json(simulation::FULL.as_bytes()).unwrap();
        let text = to_csv(&run).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let index = |name: &str| names.iter().position(|known| known == name).unwrap();
        let planned = rows
            .iter()
            .find(|row| &row[index("method")] == "update/planned,write-through");
        let field = |name: &str| planned.unwrap()[index(name)].to_owned();
        assert_eq!(
            [
                "update_draw",
                "writes",
                "requested_bytes",
                "written_bytes",
                "planned",
                "predicted_seconds"
            ]
            .map(field),
            [
                "shuffled",
                "1",
                "40000",
                "3998800",
                "update/sync,block=8M,write-through,gap=512",
                "0.006"
            ]
        );
        assert!(
            rows.iter()
                .any(|row| &row[index("operation")] == "read" && row[index("writes")].is_empty())
        );
    }
}
