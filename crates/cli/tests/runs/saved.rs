//! Saved runs: listed, shown, compared, exported, ranked and removed.

use std::fs;
use std::path::PathBuf;

use seekless_record::{Run, Subject};

use crate::common::place::{Place, assert_contains};

/// A run with every field filled.
const FULL: &[u8] = include_bytes!("../../../record/testdata/full-run.json");

fn full() -> Run {
    seekless_record::from_json(FULL).unwrap()
}

/// Puts a run into the store, as if it had been measured.
fn kept(place: &Place, run: &Run) -> PathBuf {
    let directory = place.directory().join("../data/seekless/runs");
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(format!("{}.json", run.id));
    fs::write(&path, seekless_record::to_json(run).unwrap()).unwrap();
    path
}

/// The same run at another time, under another kernel, with other seconds.
fn later(id: &str, kernel: &str, factor: f64) -> Run {
    let mut run = full();
    id.clone_into(&mut run.id);
    "2026-11-21T09:00:00Z".clone_into(&mut run.started);
    kernel.clone_into(&mut run.machine.kernel);
    for trial in &mut run.trials {
        trial.seconds *= factor;
    }
    run
}

fn two(place: &Place) {
    kept(place, &full());
    kept(place, &later("2026-11-21T09-00-00-read+write", "7.0.1", 2.0));
}

#[test]
fn runs_list_has_the_newest_first_with_answers() {
    let place = Place::new();
    assert_contains(&place.call("runs").succeeded().stdout, &["No runs yet"]);
    two(&place);
    let list = place.call("runs").succeeded().stdout;
    let first = list.find("2026-11-21T09-00-00-read+write  ").unwrap();
    let second = list.find("2026-11-20T14-03-22-read+write  ").unwrap();
    assert!(first < second, "{list}");
    assert_contains(
        &list,
        &[
            "read, write, compare, saving: ext4 on nvme dm-0; Linux 7.0.1",
            "2 runs; ",
            "(best, one run of ",
        ],
    );
    let json = place.call("runs --json").succeeded().json();
    assert_eq!(json[0]["id"], "2026-11-21T09-00-00-read+write");
    assert_eq!(json[1]["storages"][0]["device_kind"], "nvme");
}

#[test]
fn runs_compare_tells_what_a_new_kernel_changed() {
    let place = Place::new();
    two(&place);
    let told = place.call("runs compare 2026-11-20 latest").succeeded().stdout;
    let first = told.lines().next().unwrap();
    assert!(first.starts_with("The second run takes "), "{first}");
    assert_contains(
        &told,
        &[
            "First    2026-11-20T14-03-22-read+write\n",
            "Changed  kernel: 6.18.44-7-amd64, now 7.0.1\n",
            "2.00x slower (",
            "vs reference",
            "Recommended: as before",
        ],
    );
    let json = place.call("runs compare 2026-11-20 latest --json").succeeded().json();
    let method = &json["comparison"]["contests"][0]["methods"][0];
    assert!(
        (method["time"]["median"].as_f64().unwrap() - 2.0).abs() < 1e-9,
        "{method}"
    );
    let page = place.path("page.html");
    let arguments = "runs compare 2026-11-20 latest --report page.html";
    assert_eq!(place.call(arguments).succeeded().stdout, told);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("<h1>{}", &first[..30])), "{page}");
    assert_contains(&page, &["2.00x slower (", "6.18.44-7-amd64, now 7.0.1"]);
}

#[test]
fn runs_compare_of_other_machines_needs_anyway() {
    let place = Place::new();
    let mut other = later("other", "7.0.1", 1.0);
    other.machine.host = Some("elsewhere".to_owned());
    other.storages[0].file_system = "xfs".to_owned();
    kept(&place, &full());
    kept(&place, &other);
    place.refuses(
        "runs compare 2026 other",
        &[
            "another host (example-host; elsewhere)",
            "another file system (ext4; xfs)",
            "--anyway",
        ],
    );
    let told = place.call("runs compare --anyway 2026 other").succeeded();
    assert_contains(&told.stdout, &["Differs  another host"]);
}

#[test]
fn runs_compare_refuses_runs_with_nothing_in_common() {
    let place = Place::new();
    let mut other = later("other", "7.0.1", 1.0);
    for contest in &mut other.contests {
        contest.size_bytes *= 2;
    }
    kept(&place, &full());
    kept(&place, &other);
    place.refuses("runs compare 2026 other", &["no contest in common", "--size"]);
    place.refuses("runs compare other latest", &["named twice"]);
}

#[test]
fn runs_show_suggests_the_nearest_run() {
    let place = Place::new();
    place.refuses("runs show latest", &["seekless bench"]);
    two(&place);
    place.refuses(
        "runs show 2026-11-20T14-03-22-raed+write",
        &["the nearest are `2026-11-20T14-03-22-read+write`"],
    );
    place.refuses("runs show 2026", &["ambiguous: it matches 2 runs"]);
    place.refuses("runs show ./gone.json", &["gone.json", "No such file"]);
    place.refuses("runs show ./", &["not a regular file"]);
}

#[test]
fn runs_skip_damaged_and_newer_documents_and_name_them() {
    let place = Place::new();
    let good = kept(&place, &full());
    let newer = good.with_file_name("newer.json");
    let damaged = good.with_file_name("damaged.json");
    fs::write(&newer, "{\"version\": 99}").unwrap();
    fs::write(&damaged, &FULL[..FULL.len() / 2]).unwrap();
    let foreign = good.with_file_name("foreign.json");
    fs::write(&foreign, "{\"temperature\": 21}").unwrap();
    for arguments in ["runs", "runs --json", "runs table"] {
        let ended = place.call(arguments);
        let newer = "newer.json: the document has version 99";
        ended.failed_with(2, &[newer, "damaged.json: the document is damaged", "foreign.json: "]);
        assert_eq!(ended.stderr.matches("skipped").count(), 3, "{}", ended.stderr);
        assert_contains(&ended.stdout, &["read"]);
    }
    // A bench goes on without them.
    place.bench("").succeeded();
    assert_eq!(place.run("runs --json").json().as_array().unwrap().len(), 2);
    place.refuses("runs show damaged", &["damaged.json"]);
    assert_eq!(fs::read(&damaged).unwrap(), &FULL[..FULL.len() / 2]);
    place.call("runs remove damaged foreign newer").succeeded();
    place.call("runs").succeeded();
}

#[test]
fn runs_export_anonymous_tells_no_names_and_imports_apart() {
    let place = Place::new();
    let mut run = full();
    run.machine.host = Some("SECRETHOST".to_owned());
    run.storages[0].path = "/home/SECRETUSER".to_owned();
    run.warnings.push("/home/SECRETUSER: is full".to_owned());
    kept(&place, &run);
    kept(&place, &later("2026-11-21T09-00-00-read", "7.0.1", 2.0));
    place
        .call("runs export --anonymous 2026-11-20 latest -o out.json")
        .succeeded();
    let text = place.text("out.json");
    assert!(!text.contains("SECRET") && !text.contains("14-03"), "{text}");
    let other = Place::new();
    fs::write(other.path("in.json"), &text).unwrap();
    let imported = other.call("runs import in.json").succeeded().stdout;
    assert_eq!(
        imported.matches("Imported  imported-2026-11-2").count(),
        2,
        "{imported}"
    );
    let again = other.call("runs import in.json").succeeded().stdout;
    assert_eq!(again.matches("Exists").count(), 2, "{again}");
    let list = other.call("runs").succeeded().stdout;
    assert_contains(&list, &[", imported", "2 of them imported"]);
    assert!(other.saved().is_empty(), "own and imported are apart");
    other.refuses("runs show latest", &["no run"]);
    let told = other
        .call("runs compare imported-2026-11-20 imported-2026-11-21")
        .succeeded();
    assert_eq!(
        told.stdout.matches("imported: measured by others").count(),
        2,
        "{}",
        told.stdout
    );
}

#[test]
fn runs_export_with_names_says_so() {
    let place = Place::new();
    kept(&place, &full());
    let ended = place.call("runs export latest").succeeded();
    assert_contains(&ended.stderr, &["--anonymous"]);
    assert_eq!(seekless_record::from_json(ended.stdout.as_bytes()).unwrap(), full());
}

#[test]
fn runs_import_refuses_bad_fields_and_keeps_other_documents() {
    let place = Place::new();
    place.file("good.json", FULL);
    let text = String::from_utf8(FULL.to_vec()).unwrap();
    place.file(
        "absurd.json",
        text.replacen("\"seed\": ", "\"seed\": 1e308", 1).as_bytes(),
    );
    let mut run = full();
    run.trials[2].seconds = -1.0;
    place.file("negative.json", seekless_record::to_json(&run).unwrap().as_bytes());
    run.trials[2].seconds = 1.0;
    run.trials[5].contest = 77;
    place.file("index.json", seekless_record::to_json(&run).unwrap().as_bytes());
    let ended = place.call("runs import negative.json good.json index.json absurd.json gone.json");
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    for word in [
        "negative.json: the document is damaged: trials[2].seconds: is -1e0",
        "index.json: the document is damaged: trials[5].contest: is 77",
        "absurd.json",
        "gone.json: cannot stat: No such file",
    ] {
        assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
    }
    assert!(
        ended
            .stdout
            .contains("Imported  imported-2026-11-20T14-03-22-read+write\n"),
        "{}",
        ended.stdout
    );
    place.refuses("runs import negative.json index.json", &["negative.json", "index.json"]);
}

#[test]
fn runs_of_strangers_send_nothing_to_the_terminal() {
    let place = Place::new();
    let mut run = full();
    let hostile = "\u{1b}[2J\u{202e}evil";
    run.id = format!("{hostile}/../x");
    run.started = hostile.to_owned();
    run.machine.kernel = hostile.to_owned();
    run.storages[0].path = hostile.to_owned();
    run.contests[0].entries[0].subject = Subject::Method(format!("read/{hostile}"));
    run.contests[0].experiment = hostile.to_owned();
    run.warnings = vec![hostile.to_owned()];
    place.file("hostile.json", seekless_record::to_json(&run).unwrap().as_bytes());
    place.file("full.json", FULL);
    place.call("runs import hostile.json").succeeded();
    for arguments in [
        &["runs"][..],
        &["runs", "--json"],
        &["runs", "show", "--all", "hostile.json"],
        &["runs", "compare", "--anyway", "--all", "full.json", "hostile.json"],
        &["runs", "compare", "full.json", "hostile.json"],
        &[
            "runs",
            "compare",
            "--anyway",
            "full.json",
            "hostile.json",
            "--report",
            "/dev/stdout",
        ],
        &["runs", "table"],
        &["runs", "export", "hostile.json"],
        &["runs", "show", "\u{1b}[2J"],
        &["runs", "show", "\u{1b}[2J.json"],
    ] {
        let ended = place.call(arguments);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        let is_harmless = said.chars().all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}'));
        assert!(is_harmless && !said.is_empty(), "{arguments:?}: {said:?}");
    }
}

#[test]
fn runs_table_ranks_own_and_imported_runs() {
    let place = Place::new();
    assert_contains(&place.call("runs table").succeeded().stdout, &["nothing to rank"]);
    two(&place);
    let mut theirs = later("theirs", "6.18.3", 1.5);
    theirs.machine.processors = 64;
    place.file("theirs.json", seekless_record::to_json(&theirs).unwrap().as_bytes());
    place.call("runs import theirs.json").succeeded();
    let table = place.call("runs table").succeeded().stdout;
    assert_contains(
        &table,
        &[
            "cold, count, 63M hole, 1M data, holes skipped, in 32 MiB; nvme, ext4, Linux 6.18\n",
            "Linux 7.0\n",
            "2 machines, 2 runs (1 imported)",
        ],
    );
    let json = place.call("runs table --json").succeeded().json();
    assert_eq!(json[0]["place"]["device"], "nvme");
    assert_eq!(json[0]["methods"][0]["ratio"], 1.0);
}

#[test]
fn runs_remove_takes_only_named_runs_or_none() {
    let place = Place::new();
    two(&place);
    let file = place.file("full.json", FULL);
    place.refuses("runs remove latest nothing", &["`nothing` is not a run"]);
    place.refuses("runs remove ./full.json", &["is a file, not an ID"]);
    assert_eq!((place.saved().len(), file.exists()), (2, true));
    place.call("runs remove").refused();
    let told = place.call("runs remove 2026-11-20 2026-11-20T14").succeeded().stdout;
    assert_contains(&told, &["Removed  2026-11-20T14-03-22-read+write", "1 left"]);
    let told = place.call("runs remove --down-to 0").succeeded().stdout;
    assert!(told.contains("0 left") && place.saved().is_empty(), "{told}");
}
