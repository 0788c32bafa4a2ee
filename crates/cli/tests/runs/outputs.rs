//! Where exports go: a file is replaced as a whole, a link stays a link, and anything else is written to and stays.

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

use crate::common::place::{Place, assert_contains, prepared};

fn is_run(bytes: &[u8]) -> bool {
    seekless_record::from_json(bytes).is_ok()
}

#[test]
fn a_regular_file_is_replaced_and_whoever_reads_the_old_one_keeps_it() {
    let place = Place::new();
    let path = place.file("run.json", b"old");
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
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
fn a_link_stays_a_link_whether_its_target_is_there_or_not() {
    let place = Place::new();
    place.directories("elsewhere");
    symlink("elsewhere/run.json", place.path("link")).unwrap();
    for _ in 0..2 {
        place.bench("--export-json link").succeeded();
        assert!(fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
        assert!(is_run(&fs::read(place.path("elsewhere/run.json")).unwrap()));
    }
}

#[test]
fn a_device_is_written_to_and_stays_a_device() {
    let place = Place::new();
    let device = place.path("device");
    // A null device of our own, so that a failure does no harm.
    if !prepared("mknod", &[device.as_os_str(), "c".as_ref(), "1".as_ref(), "3".as_ref()]) {
        println!("skipped: making a device needs root");
        return;
    }
    place.bench("--export-json device --export-csv device").succeeded();
    assert!(fs::metadata(&device).unwrap().file_type().is_char_device());
    assert_eq!(place.content().len(), 1);
}

#[test]
fn a_fifo_is_written_to_where_somebody_reads_it_and_refused_where_nobody_does() {
    let place = Place::new();
    let fifo = place.path("fifo");
    assert!(prepared("mkfifo", &[fifo.as_os_str()]));
    let sentence = place.bench("--export-json fifo").refused();
    assert_contains(&sentence, &["fifo: the FIFO has no reader"]);
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
    let child = place
        .command()
        .args(["bench", "read", "--size", "1M", "--rounds", "1"])
        .args(["--methods", "*/sync*"])
        .args(["--export-json", "fifo"])
        .spawn()
        .unwrap();
    crate::common::place::Ended::of(child).succeeded();
    drop(writer);
    assert!(is_run(&reader.join().unwrap()));
    assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
}

#[test]
fn a_block_device_is_refused() {
    let place = Place::new();
    let device = place.path("device");
    // No driver has these numbers: opening the device by mistake does no harm.
    if !prepared(
        "mknod",
        &[device.as_os_str(), "b".as_ref(), "239".as_ref(), "255".as_ref()],
    ) {
        println!("skipped: making a device needs root");
        return;
    }
    let sentence = place.bench("--export-json device").refused();
    assert_contains(&sentence, &["is a block device"]);
}

#[test]
fn standard_output_may_be_named() {
    let place = Place::new();
    let out = File::create(place.path("out")).unwrap();
    let mut command = place.command();
    command.args(["bench", "read", "--size", "1M", "--rounds", "1", "--methods", "*/sync*"]);
    command.args(["--export-json", "/dev/stdout"]).stdout(out);
    crate::common::place::Ended::of(command.spawn().unwrap()).succeeded();
    let text = fs::read_to_string(place.path("out")).unwrap();
    assert_contains(&text, &["\"trials\": ["]);
}

#[test]
fn a_dash_is_standard_output_and_nothing_else_goes_there() {
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
fn a_run_in_json_is_a_run_that_can_be_shown_and_compared() {
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
fn standard_output_is_taken_by_one_output() {
    let place = Place::new();
    for arguments in ["--export-json - --export-csv -", "--report - --json"] {
        let sentence = place.bench(arguments).refused();
        assert_contains(&sentence, &["standard output: is named twice"]);
    }
    place.bench("").succeeded();
    let run = place.call("runs export latest").succeeded().stdout;
    place.file("run.json", run.as_bytes());
    let words = "runs compare --anyway run.json latest --json --report -";
    let sentence = place.call(words).refused();
    assert_contains(&sentence, &["is named twice"]);
}

#[test]
fn what_a_run_reads_is_not_written_over() {
    let place = Place::new();
    let bytes = vec![7; 1 << 20];
    place.file("big", &bytes);
    symlink("big", place.path("link")).unwrap();
    for arguments in [
        ["--file", "big", "--export-json", "./big"],
        ["--file", "link", "--export-csv", "big"],
    ] {
        let sentence = place.call(("bench read", &arguments)).refused();
        assert_contains(&sentence, &["this run reads it"]);
    }
    assert_eq!(fs::read(place.path("big")).unwrap(), bytes);
}

#[test]
fn two_exports_to_one_file_are_refused() {
    let place = Place::new();
    let sentence = place.bench("--export-json out --export-csv ./out").refused();
    assert_contains(&sentence, &["is named twice"]);
    assert!(place.content().is_empty());
}

#[test]
fn outputs_are_checked_before_anything_is_measured() {
    let place = Place::new();
    let start = std::time::Instant::now();
    let sentence = place.call("bench --budget 60s --export-markdown gone/run.md").refused();
    assert_contains(&sentence, &["gone/run.md"]);
    assert!(start.elapsed().as_secs() < 5);
}
