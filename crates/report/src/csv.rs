//! All samples as CSV: a row for each trial, invalid ones included. Units stand in the columns' names; a figure that
//! could not be had is an empty field.

use seekless_record::{Contest, Run, SystemUse, Trial, UpdateAccount};

use super::word;

/// One trial with what it belongs to. A damaged document may lack the contest.
struct Row<'a> {
    run: &'a Run,
    contest: Option<&'a Contest>,
    trial: &'a Trial,
}

impl Row<'_> {
    fn of_contest(&self, figure: impl Fn(&Contest) -> String) -> String {
        self.contest.map(figure).unwrap_or_default()
    }
}

type Column = (&'static str, fn(&Row<'_>) -> String);

/// What was measured under which conditions.
const CONDITIONS: &[Column] = &[
    ("run", |row| row.run.id.clone()),
    ("experiment", |row| row.of_contest(|contest| contest.experiment.clone())),
    ("contest", |row| row.trial.contest.to_string()),
    ("storage", |row| row.of_contest(|contest| storage(row.run, contest))),
    ("operation", |row| row.of_contest(|contest| contest.operation.clone())),
    ("size_bytes", |row| {
        row.of_contest(|contest| contest.size_bytes.to_string())
    }),
    ("files", |row| row.of_contest(|contest| contest.files.to_string())),
    ("cache", |row| row.of_contest(|contest| word(contest.cache))),
    ("target", |row| row.of_contest(|contest| word(contest.target))),
    ("kernel", |row| row.of_contest(|contest| contest.kernel.clone())),
    ("work_ns_per_kib", |row| {
        row.of_contest(|contest| contest.work_ns_per_kib.to_string())
    }),
    ("differ", |row| row.of_contest(|contest| word(contest.differ))),
    ("other_storage", |row| {
        row.of_contest(|contest| {
            contest
                .other_storage
                .map_or_else(String::new, |index| path_of(row.run, index))
        })
    }),
    ("read_ahead_kib", |row| {
        row.of_contest(|contest| or_empty(contest.read_ahead_kib))
    }),
    ("update_bytes", |row| {
        row.of_contest(|contest| or_empty(contest.updates.map(|updates| updates.bytes)))
    }),
    ("update_every_bytes", |row| {
        row.of_contest(|contest| or_empty(contest.updates.map(|updates| updates.every_bytes)))
    }),
    ("update_draw", |row| {
        row.of_contest(|contest| or_empty(contest.updates.map(|updates| updates.draw.name())))
    }),
    ("layout", |row| {
        row.of_contest(|contest| contest.layout.clone().unwrap_or_default())
    }),
    ("memory_bytes", |row| {
        row.of_contest(|contest| or_empty(contest.memory_bytes))
    }),
    ("shared_blocks", |row| {
        row.of_contest(|contest| contest.shared_blocks.to_string())
    }),
    ("holes_skipped", |row| {
        row.of_contest(|contest| contest.holes_skipped.to_string())
    }),
    ("durability", |row| row.of_contest(|contest| contest.durability.clone())),
    ("method", |row| {
        row.of_contest(|contest| {
            contest
                .entries
                .get(row.trial.entry)
                .map(|entry| entry.method.clone())
                .unwrap_or_default()
        })
    }),
    ("label", |row| {
        row.of_contest(|contest| {
            let entry = contest.entries.get(row.trial.entry);
            entry.and_then(|entry| entry.label.clone()).unwrap_or_default()
        })
    }),
];

/// What came out.
const FIGURES: &[Column] = &[
    ("round", |row| row.trial.round.to_string()),
    ("phase", |row| word(row.trial.phase)),
    ("valid", |row| row.trial.valid.to_string()),
    ("invalid_because", |row| row.trial.invalid.clone().unwrap_or_default()),
    ("at_seconds", |row| row.trial.at_seconds.to_string()),
    ("seconds", |row| row.trial.seconds.to_string()),
    ("fsync_seconds", |row| row.trial.fsync_seconds.to_string()),
    ("setup_seconds", |row| row.trial.setup_seconds.to_string()),
    ("user_seconds", |row| row.trial.user_seconds.to_string()),
    ("system_seconds", |row| row.trial.system_seconds.to_string()),
    ("voluntary_switches", |row| row.trial.voluntary_switches.to_string()),
    ("involuntary_switches", |row| row.trial.involuntary_switches.to_string()),
    ("minor_faults", |row| row.trial.minor_faults.to_string()),
    ("major_faults", |row| row.trial.major_faults.to_string()),
    ("peak_memory_bytes", |row| row.trial.peak_memory_bytes.to_string()),
    ("calls", |row| or_empty(row.trial.calls)),
    ("bytes", |row| row.trial.bytes.to_string()),
    ("hole_bytes", |row| or_empty(row.trial.hole_bytes)),
    ("source_bytes", |row| or_empty(row.trial.source_bytes)),
    ("sink_bytes", |row| or_empty(row.trial.sink_bytes)),
    ("device_reads", |row| {
        or_empty(row.trial.device.map(|device| device.reads))
    }),
    ("device_read_bytes", |row| {
        or_empty(row.trial.device.map(|device| device.read_bytes))
    }),
    ("device_read_merges", |row| {
        or_empty(row.trial.device.and_then(|device| device.read_merges))
    }),
    ("device_writes", |row| {
        or_empty(row.trial.device.map(|device| device.writes))
    }),
    ("device_write_bytes", |row| {
        or_empty(row.trial.device.map(|device| device.write_bytes))
    }),
    ("device_reliable", |row| {
        or_empty(row.trial.device.map(|device| device.reliable))
    }),
    ("system_user_part", |row| of_system(row, |system| system.user)),
    ("system_system_part", |row| of_system(row, |system| system.system)),
    ("system_idle_part", |row| of_system(row, |system| system.idle)),
    ("system_wait_part", |row| of_system(row, |system| system.wait)),
    ("system_stolen_part", |row| of_system(row, |system| system.stolen)),
    ("system_switches_per_second", |row| {
        of_system(row, |system| system.switches_per_second)
    }),
    ("system_interrupts_per_second", |row| {
        of_system(row, |system| system.interrupts_per_second)
    }),
    ("system_blocks_in_kib_per_second", |row| {
        of_system(row, |system| system.blocks_in_kib_per_second)
    }),
    ("system_cache_growth_bytes", |row| {
        or_empty(row.trial.system.and_then(|system| system.cache_growth_bytes))
    }),
    ("resident_before_part", |row| or_empty(row.trial.resident_before)),
    ("resident_after_part", |row| or_empty(row.trial.resident_after)),
    ("extents", |row| or_empty(row.trial.extents)),
    ("writes", |row| of_update(row, |updated| updated.writes)),
    ("requested_bytes", |row| {
        of_update(row, |updated| updated.requested_bytes)
    }),
    ("written_bytes", |row| of_update(row, |updated| updated.written_bytes)),
    ("planned", |row| {
        let updated = row.trial.updated.as_ref();
        or_empty(updated.and_then(|updated| updated.planned.as_ref()))
    }),
    ("predicted_seconds", |row| {
        or_empty(row.trial.updated.as_ref().and_then(|updated| updated.predicted_seconds))
    }),
];

/// All trials of a run, in the order they happened, under a line of column names.
///
/// # Errors
/// None in practice: writing to memory does not fail.
pub fn to_csv(run: &Run) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let columns = || CONDITIONS.iter().chain(FIGURES);
    writer.write_record(columns().map(|(name, _)| *name))?;
    for trial in &run.trials {
        let row = Row {
            run,
            contest: run.contests.get(trial.contest),
            trial,
        };
        writer.write_record(columns().map(|(_, figure)| figure(&row)))?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn of_system(row: &Row<'_>, figure: fn(SystemUse) -> Option<f64>) -> String {
    or_empty(row.trial.system.and_then(figure))
}

fn storage(run: &Run, contest: &Contest) -> String {
    path_of(run, contest.storage)
}

fn path_of(run: &Run, index: usize) -> String {
    run.storages
        .get(index)
        .map(|storage| storage.path.clone())
        .unwrap_or_default()
}

fn of_update(row: &Row<'_>, figure: fn(&UpdateAccount) -> u64) -> String {
    or_empty(row.trial.updated.as_ref().map(figure))
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
