//! Where exports go: a file is replaced as a whole, a link stays a link, and anything else is written to and stays.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};

use crate::common::place::{Place, assert_contains, prepared, set_mode};

fn is_run(bytes: &[u8]) -> bool {
    seekless_record::from_json(bytes).is_ok()
}

#[test]
fn export_replaces_a_file_and_readers_keep_the_old_one() {
    let place = Place::new();
    let path = place.file("run.json", b"old");
    set_mode(&path, 0o640);
    let mut reader = File::open(&path).unwrap();
    place.bench("--export-json run.json").succeeded();
    let mut old = String::new();
    reader.read_to_string(&mut old).unwrap();
    assert_eq!(old, "old");
    assert!(is_run(&fs::read(&path).unwrap()));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    assert_eq!(place.content().len(), 1, "something was left beside it");
}

#[test]
fn export_writes_to_a_device_that_stays_one() {
    let place = Place::new();
    // A null device of our own, so that a failure does no harm.
    if !place.device("device", "c 1 3") {
        return;
    }
    place.bench("--export-json device --export-csv device").succeeded();
    place.succeeds("runs export --anonymous latest -o device");
    assert!(fs::metadata(place.path("device")).unwrap().file_type().is_char_device());
    assert_eq!(place.content().len(), 1);
}

#[test]
fn export_to_a_fifo_needs_a_reader() {
    let place = Place::new();
    let fifo = place.path("fifo");
    assert!(prepared("mkfifo", &[fifo.as_os_str()]));
    place
        .bench("--export-json fifo")
        .refused_with(&["fifo: the FIFO has no reader"]);
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read(fifo).unwrap()
    });
    // The reader opens the FIFO when a writer does, and only then is it seen as one.
    let writer = loop {
        let opened = File::options().write(true).open(&fifo);
        if let Ok(writer) = opened {
            break writer;
        }
    };
    place.bench("--export-json fifo").succeeded();
    drop(writer);
    assert!(is_run(&reader.join().unwrap()));
    assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
}

#[test]
fn export_to_dash_is_all_of_standard_output() {
    let place = Place::new();
    for (option, begins) in [
        ("--export-json", "{"),
        ("--export-csv", "run,"),
        ("--export-markdown", "# "),
        ("--report", "<!DOCTYPE html>"),
    ] {
        let ended = place.bench(&[option, "-"]).succeeded();
        assert!(ended.stdout.starts_with(begins), "{option}: {}", ended.stdout);
        assert!(!ended.stdout.contains("Saved   "), "{option}: {}", ended.stdout);
        assert_contains(&ended.stderr, &["Saved   ", "1 MiB, cold"]);
        assert!(option != "--export-json" || is_run(ended.stdout.as_bytes()));
    }
    let page = place.call("report latest -o -").succeeded().stdout;
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"),
        "{page}"
    );
    let run = place.call("runs export latest -o -").succeeded().stdout;
    assert!(is_run(run.as_bytes()));
    place.file("run.json", run.as_bytes());
    let compared = "runs compare --anyway run.json latest --report -";
    let ended = place.call(compared).succeeded();
    assert!(ended.stdout.starts_with("<!DOCTYPE html>"), "{}", ended.stdout);
    assert_contains(&ended.stderr, &["First    "]);
    assert_eq!(place.content().len(), 1, "no file has the name -");
}

#[test]
fn export_json_is_a_run_that_runs_show_takes() {
    let place = Place::new();
    let measured = place.bench("--json --quiet").succeeded();
    assert_eq!(measured.stderr, "");
    let shown = place.call("runs show --json latest").succeeded();
    for (name, text) in [("measured.json", measured.stdout), ("shown.json", shown.stdout)] {
        assert!(is_run(text.as_bytes()), "{text}");
        place.file(name, text.as_bytes());
        place.call(&["runs", "show", name]).succeeded();
    }
    assert_eq!(place.saved().len(), 1, "it is saved, too");
}

#[test]
fn exports_that_conflict_are_refused_before_measuring() {
    let place = Place::new();
    place.file("big", &vec![7; 1 << 20]);
    symlink("big", place.path("link")).unwrap();
    // No driver has these numbers: opening the device by mistake does no harm.
    let has_device = place.device("device", "b 239 255");
    let before = place.content();
    for (words, told) in [
        ("--export-json out --export-csv ./out", "is named twice"),
        ("--report out --export-json out", "is named twice"),
        ("--export-json - --export-csv -", "standard output: is named twice"),
        ("--report - --json", "standard output: is named twice"),
        ("--file big --export-json ./big", "is the same file as big"),
        ("--file link --export-csv big", "is the same file as link"),
        ("--export-markdown gone/run.md", "gone/run.md"),
        ("--export-json device", "is a block device"),
    ] {
        if has_device || !words.ends_with("device") {
            let start = std::time::Instant::now();
            place.refuses(&format!("bench read --budget 60s {words}"), &[told]);
            assert!(start.elapsed().as_secs() < 5, "{words}");
        }
    }
    assert!(place.content() == before);
    place.bench("--export-json run.json").succeeded();
    let compare = "runs compare --anyway run.json latest --json --report -";
    place.refuses(compare, &["standard output: is named twice"]);
}
