//! What the whole system did while each entry ran, in the columns of vmstat(8), beside published figures of this kind: one table
//! for terminals, Markdown and HTML.

use seekless_record::{Contest, Finding, Mode, Published, Run, SystemUse, Trial};

use super::ContestView;
use super::published::short_machine;
use crate::labels::short_name;
use crate::sheet::{Sheet, SheetCell};
use crate::statistics::median;
use crate::units::{counted, part};
use crate::verdict::ShownVerdict;

/// Whether the contest's experiment quotes published figures of this kind.
pub(super) fn asks_for_system(run: &Run, contest: &Contest) -> bool {
    let mut sources = run.published.iter();
    sources.any(|source| {
        source.experiment == contest.experiment && source.findings.iter().any(|finding| finding.system.is_some())
    })
}

/// The table of a contest: medians over each entry's valid trials, then what was published of the same files, which has no
/// verdict. Without rows where nothing was measured.
pub(super) fn system(view: &ContestView<'_>, findings: &[(&Published, &Finding)]) -> Sheet {
    let mut sheet = Sheet::new("The whole system meanwhile");
    for (entry, trials) in view.contest.entries.iter().zip(&view.trials) {
        let Some(system) = entry.summary.as_ref().and_then(|summary| summary.system) else {
            continue;
        };
        let part = |of: fn(&Trial) -> Option<f64>| {
            let valid = trials.iter().filter(|trial| trial.valid);
            median(&valid.filter_map(|trial| of(trial)).collect::<Vec<_>>())
        };
        let resident = [part(|trial| trial.resident_before), part(|trial| trial.resident_after)];
        let name = short_name(&entry.name(), view.contest);
        sheet.push(
            Some(ShownVerdict::of(entry, view.contest)),
            cells(name, &system, resident),
        );
    }
    if !sheet.rows.is_empty() {
        for (source, finding) in findings {
            if let Some(system) = &finding.system {
                let name = format!("{}, {}", short_machine(source), finding.method);
                sheet.push(None, cells(name, system, [None; 2]));
            }
        }
    }
    sheet
}

/// The most frequent byte of the files.
#[must_use]
pub fn mode_words(mode: Mode) -> String {
    let times = counted(mode.count, "time");
    format!("most frequent byte {}, {times}", mode.byte)
}

/// Parts of all processors' time; figures per second of the trial; the growth of the page cache; the residency of the files before and
/// after the trial.
fn cells(name: String, system: &SystemUse, resident: [Option<f64>; 2]) -> [(&'static str, SheetCell); 12] {
    let part = |figure| SheetCell::figure(figure, part);
    let count = |figure| SheetCell::figure(figure, |rate| format!("{rate:.0}"));
    let bytes = system.cache_growth_bytes;
    let growth = SheetCell::figure(bytes.map(|bytes| bytes as f64), |_| growth(bytes.unwrap_or(0)));
    [
        ("method", SheetCell::method(name)),
        ("user", part(system.user)),
        ("system", part(system.system)),
        ("idle", part(system.idle)),
        ("wait", part(system.wait)),
        ("steal", part(system.stolen)),
        ("switches/s", count(system.switches_per_second)),
        ("interrupts/s", count(system.interrupts_per_second)),
        ("KiB in/s", count(system.blocks_in_kib_per_second)),
        ("cache growth", growth),
        ("resident before", part(resident[0])),
        ("after", part(resident[1])),
    ]
}

/// A change in bytes, in MiB, or in KiB if it is small.
fn growth(bytes: i64) -> String {
    const MIB: i64 = 1 << 20;
    match bytes {
        0 => "0".to_owned(),
        few if few.unsigned_abs() < 10 << 20 => format!("{:+}K", few / 1024),
        many => format!("{:+}M", many / MIB),
    }
}

#[cfg(test)]
mod tests {
    use seekless_record::Cache;

    use super::*;
    use crate::sheet::SheetRow;
    use crate::simulation;
    use crate::view::{View, Visible};

    fn measured(user: f64, growth: i64) -> SystemUse {
        SystemUse {
            user: Some(user),
            switches_per_second: Some(40.4),
            cache_growth_bytes: Some(growth),
            ..SystemUse::default()
        }
    }

    fn run() -> Run {
        let mut run = simulation::run(&[("read/sync,block=4K", 1.0), ("read/mmap", 2.0)], 3);
        let used = [(0.6, 4096), (0.9, 64 << 20), (0.62, 12 << 20)];
        let trials = run.trials.iter_mut().filter(|trial| trial.entry == 0);
        for (trial, (user, growth)) in trials.zip(used) {
            trial.system = Some(measured(user, growth));
            trial.resident_after = Some(1.0);
        }
        // Of what is not what it claims to be nothing is shown.
        let mut invalid = run.trials[0].clone();
        (invalid.valid, invalid.round, invalid.system) = (false, 3, Some(measured(0.0, -1)));
        run.trials.push(invalid);
        let finding = Finding {
            method: "read/sync,block=4K".to_owned(),
            cache: Some(Cache::Cold),
            system: Some(measured(0.62, 0)),
            ..Finding::default()
        };
        let mut warm = finding.clone();
        warm.cache = Some(Cache::Warm);
        run.published = vec![Published {
            experiment: "read".to_owned(),
            source: "a mail".to_owned(),
            machine: "2003: an Athlon".to_owned(),
            findings: vec![finding, warm],
        }];
        simulation::concluded(run)
    }

    #[test]
    fn system_medians_stand_beside_published_ones() {
        let run = run();
        let shown = Visible::of(&run);
        let sheet = &View::of(&shown).contests[0].system;
        let rows = &sheet.rows;
        // The other method's trials told nothing, the other finding is about warm files.
        assert_eq!(rows.len(), 2);
        let texts = |row: &SheetRow| {
            let texts = row.cells.iter().map(|cell| cell.text.clone());
            texts.filter(|text| !text.is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(texts(&rows[0]), ["sync block=4K", "62 %", "40", "+12M", "0 %", "100 %"]);
        assert_eq!(texts(&rows[1]), ["2003, read/sync,block=4K", "62 %", "40", "0"]);
        assert_eq!(rows[1].verdict, None);
        assert!(rows.iter().all(|row| row.cells.len() == sheet.columns.len()));
        assert!(asks_for_system(&run, &run.contests[0]));
    }

    #[test]
    fn a_finding_about_another_layout_is_not_about_these_files() {
        let mut run = run();
        let rows = |run: &Run| View::of(&Visible::of(run)).contests[0].published.rows.len();
        assert_eq!(rows(&run), 1);
        run.contests[0].layout = Some("63M hole, 1M data".to_owned());
        assert_eq!(rows(&run), 0);
    }

    #[test]
    fn growth_has_its_sign() {
        let grown = [0, -8192, 4096, 1 << 30, i64::MIN].map(growth);
        assert_eq!(grown, ["0", "-8K", "+4K", "+1024M", "-8796093022208M"]);
    }
}
