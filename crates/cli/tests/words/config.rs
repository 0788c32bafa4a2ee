//! Defaults from the user's configuration file.

use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;

use crate::common::place::{Ended, Place, assert_contains, set_mode};

fn write(place: &Place, text: &str) -> PathBuf {
    place.file("../config/seekless/config.toml", text.as_bytes())
}

#[test]
fn config_gives_defaults_that_options_override() {
    let place = Place::new();
    let runs = place.path("elsewhere");
    // The last key is one of the program `seekless-hub`.
    let hub = "hub = \"https://hub.example.org\"";
    write(
        &place,
        &format!("budget = \"7m\"\nruns = \"{}\"\n{hub}\n", runs.display()),
    );
    let help = place.call("bench --help").succeeded().stdout;
    assert_contains(&help, &["[default: 7m]"]);
    place.bench("--name first").succeeded();
    assert_eq!(place.saved().len(), 0);
    let saved = fs::read_dir(runs.join("runs")).unwrap();
    assert_eq!(saved.count(), 2, "the run and its report");
    assert_contains(&place.call("runs").succeeded().stdout, &["-read-first"]);
    place.call("report latest").succeeded();
    // An option comes first.
    let ended = place.bench("--budget 0");
    assert!(ended.refused().contains("'--budget <TIME>'"));
}

#[test]
fn config_mistakes_name_place_and_what_to_write() {
    let place = Place::new();
    let long = format!("budget = \"{}\"", "s".repeat(1_000_000));
    for (text, told) in [
        ("budget = \"2m\"\nbudgett = \"2m\"\n", [":2:1: ", "budget"]),
        ("\nbudget = 90\n", [":2:10: ", "`budget = \"2m\"`"]),
        ("budget = \"soon\"", [":1:10: `soon` is not a budget: ", "as in 90s"]),
        ("budget = \"0\"", [":1:10: ", "1 second to 7 days"]),
        ("runs = \"seekless\"", [":1:8: ", "`runs = \"/data/seekless\"`"]),
        ("runs = \"/data\\u0000\"", [":1:8: ", "without zero bytes"]),
        (&long, [":1:10: `", "as in 90s"]),
        ("runs = [\"/data\"]", [":1:8: ", "`runs = \"/data/seekless\"`"]),
        ("color = \"sometimes\"", [":1:9: ", "auto, always, never"]),
        ("color = true", [":1:9: ", "`color = \"never\"`"]),
        ("budget: 2m", [":1:", "config.toml"]),
    ] {
        let path = write(&place, text);
        place.file("one", b"one");
        for arguments in ["runs", "bench --list", "report latest"] {
            let sentence = place.call(arguments).refused();
            assert!(sentence.starts_with("seekless: "), "{sentence}");
            assert!(sentence.len() < 3000, "{sentence}");
            assert_contains(&sentence, &told);
        }
        for arguments in [
            "cmp -r . .",
            "cache show one",
            "holes show one",
            "update one --recover",
            "dupes .",
        ] {
            let warning = place.call(arguments).succeeded().stderr;
            assert!(warning.starts_with(" WARN ") && warning.len() < 3000, "{warning}");
            assert_contains(&warning, &told);
            assert!(warning.ends_with("; it is ignored here\n"), "{warning}");
        }
        // Those who look for help get it, and two files are compared without it.
        place.call("--help").succeeded();
        place.call("cmp one one").succeeded();
        let suggested = place.call("suggest bash seekless ru").succeeded().stdout;
        assert_eq!(suggested.split('\t').next(), Some("runs"));
        fs::remove_file(path).unwrap();
    }
    assert_eq!(place.content().len(), 1);
}

#[test]
fn config_that_another_user_may_have_written_is_refused() {
    let place = Place::new();
    let path = write(&place, "budget = \"2m\"\n");
    set_mode(&path, 0o646);
    place.refuses("runs", &["(mode 0646; chmod go-w)"]);
    set_mode(&path, 0o644);
    place.call("runs").succeeded();
    let directory = path.parent().unwrap();
    set_mode(directory, 0o777);
    place.refuses("runs", &["(mode 0777; chmod go-w)"]);
    set_mode(directory, 0o755);
    if chown(&path, None, Some(12_345)).is_ok() {
        set_mode(&path, 0o664);
        place.refuses("runs", &["other users may write"]);
        set_mode(&path, 0o644);
    }
    if chown(&path, Some(12_345), None).is_ok() {
        place.refuses("runs", &["belongs to another user"]);
        // sudo keeps the directories of those who use it.
        Ended::by(place.command().arg("runs").env("SUDO_UID", "12345")).succeeded();
    } else {
        println!("skipped: giving a file to another user needs root");
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    place.refuses("runs", &["not a regular file"]);
}
