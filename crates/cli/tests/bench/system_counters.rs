//! What the whole system did beside each trial, and the most frequent byte.

use seekless_record::Run;

use crate::common::place::{Place, assert_contains};

const MAIL: &str = r#"
name = "mail"
about = "As a mail had it"

[[contest]]
operation = "read"
methods = ["read/sync,block=64K"]
kernel = "histogram"
cache = ["warm"]
layout = ["7M hole, 1M data"]

[[published]]
source = "a mail"
machine = "2003: an Athlon"

[[published.finding]]
operation = "read"
method = "read/sync,block=4K"
layout = "7M hole, 1M data"
bytes-per-second = 195e6
vmstat = { us = 46.5, sy = 48, id = 6, wa = 0, cs = 3155, in = 163, bi = 218.5 }
"#;

fn bench(work_ns_per_kib: &str) -> (String, Run, String, String) {
    let place = Place::new();
    let exports = "--export-csv run.csv --export-markdown run.md --report run.html --rounds 1 --work";
    let (ended, run) = place.measured(MAIL, (exports, work_ns_per_kib));
    let page = place.text("run.html");
    assert!(page.contains("The whole system meanwhile"), "no table in the report");
    (ended.stdout, run, place.text("run.csv"), place.text("run.md"))
}

#[test]
fn vmstat_columns_stand_beside_published_ones() {
    // 0.2 s, of which each is spent in the program.
    let (stdout, run, csv, page) = bench("25000");
    if !cfg!(target_os = "linux") {
        println!("skipped: /proc tells nothing here");
        return;
    }
    for trial in &run.trials {
        let system = trial.system.expect("the columns");
        let parts = [system.user, system.system, system.idle, system.wait, system.stolen];
        let all: f64 = parts.iter().map(|part| part.expect("a part")).sum();
        assert!((all - 1.0).abs() < 1e-6, "{system:?}");
        assert!(system.user > Some(0.0), "it spins for 0.2 s: {system:?}");
        assert!(system.switches_per_second.is_some() && system.cache_growth_bytes.is_some());
    }
    for text in [&stdout, &page] {
        let published = text.lines().find(|line| line.contains("2003, read/sync"));
        assert_contains(published.expect("a row"), &["48 %", "3155"]);
    }
    assert_contains(&stdout, &["The whole system meanwhile"]);
    assert_contains(&csv, &["system_switches_per_second"]);
    let mode = run.contests[0].mode.expect("a mode");
    assert!(mode.byte == 0 && mode.count >= 7 << 20, "{mode:?}");
    let count = seekless_results::thousands(mode.count);
    let words = format!("most frequent byte 0, {count} times");
    assert!(stdout.contains(&words) && page.contains(&words), "{stdout}\n{page}");
}

#[test]
fn vmstat_columns_are_omitted_for_short_trials() {
    let (stdout, run, ..) = bench("0");
    for trial in run.trials.iter().filter(|trial| trial.seconds < 0.1) {
        let system = trial.system.unwrap_or_default();
        assert_eq!((system.user, system.switches_per_second), (None, None));
    }
    if cfg!(target_os = "linux") && run.trials.iter().all(|trial| trial.seconds < 0.1) {
        assert_contains(&stdout, &["too short for the system's clock"]);
    }
}
