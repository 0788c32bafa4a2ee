//! All samples as CSV: a row for each trial, invalid ones included. Units stand in the columns' names; a figure that
//! could not be had is an empty field.

use seekless_record::{self as record, DeviceUse, SystemUse, UpdateAccount};

/// What a column is about, and how it is written.
enum Of {
    Run(fn(&record::Run) -> String),
    /// A damaged document may lack the contest, its storage or the entry: the field is empty then.
    Contest(fn(&record::Contest) -> String),
    /// The path of a storage, by its index.
    Storage(fn(&record::Contest) -> Option<usize>),
    Entry(fn(&record::Entry) -> String),
    Trial(fn(&record::Trial) -> String),
    Device(fn(DeviceUse) -> Option<u64>),
    System(fn(SystemUse) -> Option<f64>),
    Update(fn(&UpdateAccount) -> String),
}

use Of::{Contest, Device, Entry, Run, Storage, System, Trial, Update};

const COLUMNS: &[(&str, Of)] = &[
    // What was measured under which conditions.
    ("run", Run(|run| run.id.clone())),
    ("experiment", Contest(|c| c.experiment.clone())),
    ("contest", Trial(|t| t.contest.to_string())),
    ("storage", Storage(|c| Some(c.storage))),
    ("operation", Contest(|c| c.operation.to_string())),
    ("size_bytes", Contest(|c| c.size_bytes.to_string())),
    ("files", Contest(|c| c.files.to_string())),
    ("cache", Contest(|c| c.cache.name().to_owned())),
    ("target", Contest(|c| c.target.name().to_owned())),
    ("kernel", Contest(|c| c.kernel.clone())),
    ("work_ns_per_kib", Contest(|c| c.work_ns_per_kib.to_string())),
    ("differ", Contest(|c| c.differ.name().to_owned())),
    ("other_storage", Storage(|c| c.other_storage)),
    ("read_ahead_kib", Contest(|c| or_empty(c.read_ahead_kib))),
    ("update_bytes", Contest(|c| or_empty(c.updates.map(|u| u.bytes)))),
    (
        "update_every_bytes",
        Contest(|c| or_empty(c.updates.map(|u| u.every_bytes))),
    ),
    ("update_draw", Contest(|c| or_empty(c.updates.map(|u| u.draw.name())))),
    ("layout", Contest(|c| or_empty(c.layout.as_ref()))),
    ("memory_bytes", Contest(|c| or_empty(c.memory_bytes))),
    ("shared_blocks", Contest(|c| c.shared_blocks.to_string())),
    ("holes_skipped", Contest(|c| c.holes_skipped.to_string())),
    ("durability", Contest(|c| c.durability.to_string())),
    ("method", Entry(|entry| entry.name().into_owned())),
    ("label", Entry(|entry| or_empty(entry.label.as_ref()))),
    // What came out.
    ("round", Trial(|t| t.round.to_string())),
    ("phase", Trial(|t| t.phase.name().to_owned())),
    ("valid", Trial(|t| t.valid.to_string())),
    ("invalid_because", Trial(|t| or_empty(t.invalid.as_ref()))),
    ("at_seconds", Trial(|t| t.at_seconds.to_string())),
    ("seconds", Trial(|t| t.seconds.to_string())),
    ("fsync_seconds", Trial(|t| t.fsync_seconds.to_string())),
    ("setup_seconds", Trial(|t| t.setup_seconds.to_string())),
    ("user_seconds", Trial(|t| t.user_seconds.to_string())),
    ("system_seconds", Trial(|t| t.system_seconds.to_string())),
    ("voluntary_switches", Trial(|t| t.voluntary_switches.to_string())),
    ("involuntary_switches", Trial(|t| t.involuntary_switches.to_string())),
    ("minor_faults", Trial(|t| t.minor_faults.to_string())),
    ("major_faults", Trial(|t| t.major_faults.to_string())),
    ("peak_memory_bytes", Trial(|t| t.peak_memory_bytes.to_string())),
    ("calls", Trial(|t| or_empty(t.calls))),
    ("bytes", Trial(|t| t.bytes.to_string())),
    ("hole_bytes", Trial(|t| or_empty(t.hole_bytes))),
    ("source_bytes", Trial(|t| or_empty(t.source_bytes))),
    ("sink_bytes", Trial(|t| or_empty(t.sink_bytes))),
    ("device_reads", Device(|d| Some(d.reads))),
    ("device_read_bytes", Device(|d| Some(d.read_bytes))),
    ("device_read_merges", Device(|d| d.read_merges)),
    ("device_writes", Device(|d| Some(d.writes))),
    ("device_write_bytes", Device(|d| Some(d.write_bytes))),
    ("device_reliable", Trial(|t| or_empty(t.device.map(|d| d.reliable)))),
    ("system_user_part", System(|s| s.user)),
    ("system_system_part", System(|s| s.system)),
    ("system_idle_part", System(|s| s.idle)),
    ("system_wait_part", System(|s| s.wait)),
    ("system_stolen_part", System(|s| s.stolen)),
    ("system_switches_per_second", System(|s| s.switches_per_second)),
    ("system_interrupts_per_second", System(|s| s.interrupts_per_second)),
    (
        "system_blocks_in_kib_per_second",
        System(|s| s.blocks_in_kib_per_second),
    ),
    (
        "system_cache_growth_bytes",
        Trial(|t| or_empty(t.system.and_then(|s| s.cache_growth_bytes))),
    ),
    ("resident_before_part", Trial(|t| or_empty(t.resident_before))),
    ("resident_after_part", Trial(|t| or_empty(t.resident_after))),
    ("extents", Trial(|t| or_empty(t.extents))),
    ("writes", Update(|u| u.writes.to_string())),
    ("requested_bytes", Update(|u| u.requested_bytes.to_string())),
    ("written_bytes", Update(|u| u.written_bytes.to_string())),
    ("planned", Update(|u| or_empty(u.planned.as_ref()))),
    ("predicted_seconds", Update(|u| or_empty(u.predicted_seconds))),
];

/// All trials of a run, in the order they happened, under a line of column names.
///
/// # Errors
/// None in practice: writing to memory does not fail.
pub fn to_csv(run: &record::Run) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS.iter().map(|(name, _)| *name))?;
    for trial in &run.trials {
        writer.write_record(COLUMNS.iter().map(|(_, of)| of.field(run, trial)))?;
    }
    text(writer)
}

/// What was written.
pub(crate) fn text(writer: csv::Writer<Vec<u8>>) -> Result<String, csv::Error> {
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Of {
    /// The column's field in the row of a trial.
    fn field(&self, run: &record::Run, trial: &record::Trial) -> String {
        let contest = run.contests.get(trial.contest);
        let entry = contest.and_then(|contest| contest.entries.get(trial.entry));
        match self {
            Self::Run(figure) => figure(run),
            Self::Contest(figure) => or_empty(contest.map(figure)),
            Self::Storage(index) => {
                let storage = contest.and_then(index).and_then(|index| run.storages.get(index));
                or_empty(storage.map(|storage| &storage.path))
            }
            Self::Entry(figure) => or_empty(entry.map(figure)),
            Self::Trial(figure) => figure(trial),
            Self::Device(figure) => or_empty(trial.device.and_then(figure)),
            Self::System(figure) => or_empty(trial.system.and_then(figure)),
            Self::Update(figure) => or_empty(trial.updated.as_ref().map(figure)),
        }
    }
}

fn or_empty(figure: Option<impl ToString>) -> String {
    figure.map_or_else(String::new, |figure| figure.to_string())
}

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
