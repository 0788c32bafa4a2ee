//! What `bench` measured is what commands plan by.

use std::fs;

use serde_json::Value;

use super::place::{Ended, Place};

fn bench(place: &Place) {
    let methods = ["--methods", "read/mmap", "--methods", "read/sync,block=1M"];
    let how = [
        "bench", "read", "--size", "64K", "--size", "1M", "--rounds", "3", "--quiet",
    ];
    place.run(&[&how[..], &methods].concat()).succeeded();
}

fn json(place: &Place, words: &[&str]) -> Value {
    serde_json::from_str(&place.run(words).succeeded().stdout).unwrap()
}

#[test]
fn what_bench_measures_is_in_the_profile_and_advice_rests_on_it() {
    let place = Place::new();
    let missing = place.run(&["profile"]);
    assert_eq!(missing.code, Some(2));
    assert!(
        missing.stderr.contains("nothing was measured on this storage"),
        "{}",
        missing.stderr
    );
    let before = place.run(&["advise", "read", ".", "--size", "512K"]).succeeded().stdout;
    assert!(before.contains("Profile  none: nothing was measured"), "{before}");
    assert!(before.contains("Next     seekless bench read"), "{before}");
    bench(&place);
    let profile = place.run(&["profile"]).succeeded().stdout;
    assert!(
        profile.contains("1 sitting") && profile.contains("\nread, warm\n  from 64.0 KiB"),
        "{profile}"
    );
    let advice = place
        .run(&["advise", "read", ".", "--size", "512K", "--warm"])
        .succeeded()
        .stdout;
    assert!(
        advice.contains("by 1 sitting on this storage") && advice.contains("Others"),
        "{advice}"
    );
    let found = json(&place, &["advise", "read", ".", "--size", "512K", "--warm", "--json"]);
    assert_eq!(
        (&found["bytes"], &found["profile"]["sittings"]),
        (&(512 << 10).into(), &1.into()),
        "{found}"
    );
    let measured = found["measured"].as_array().unwrap();
    assert!(measured.iter().any(|one| one["method"] == "read/mmap"), "{found}");
    let times: Vec<f64> = measured
        .iter()
        .map(|one| one["predicted"]["seconds"].as_f64().unwrap())
        .collect();
    assert!(times.is_sorted() && times.len() >= 2, "{found}");
    // What was not measured is planned as before.
    let write = json(&place, &["advise", "write", ".", "--size", "512K", "--json"]);
    assert_eq!(write["measured"], Value::Array(Vec::new()));
    let mut unwanted = place.command();
    unwanted
        .env("SEEKLESS_PROFILE", "")
        .args(["advise", "read", ".", "--size", "512K"]);
    let unwanted = Ended::of(unwanted.spawn().unwrap()).succeeded().stdout;
    assert!(
        unwanted.contains("Profile  none: profiles are turned off"),
        "{unwanted}"
    );
}

#[test]
fn a_profile_goes_with_its_runs_and_by_its_name() {
    let place = Place::new();
    bench(&place);
    let list = json(&place, &["profile", "list", "--json"]);
    let file = list[0]["file"].as_str().unwrap().to_owned();
    let exported = place.run(&["profile", "export"]).succeeded().stdout;
    let exported: Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(
        (&exported["storage"]["uuid"], &exported["mount_point"]),
        (&Value::Null, &Value::Null)
    );
    let removed = place.run(&["profile", "remove", "."]).succeeded().stdout;
    assert!(removed.contains(&file) && !fs::exists(&file).unwrap(), "{removed}");
    bench(&place);
    assert!(fs::exists(&file).unwrap());
    place.run(&["runs", "remove", "--down-to", "0"]).succeeded();
    assert!(!fs::exists(&file).unwrap(), "no run is left");
    // Other files are not profiles of ours.
    fs::write(place.path("mine.json"), "{}").unwrap();
    let refused = place.run(&["profile", "remove", "mine.json"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("not a profile that seekless made"),
        "{}",
        refused.stderr
    );
    assert!(fs::exists(place.path("mine.json")).unwrap());
}

#[test]
fn a_damaged_profile_is_named_left_alone_and_planned_without() {
    let place = Place::new();
    bench(&place);
    let list = json(&place, &["profile", "list", "--json"]);
    let file = list[0]["file"].as_str().unwrap().to_owned();
    fs::write(&file, "{").unwrap();
    let advice = place.run(&["advise", "read", ".", "--size", "512K"]).succeeded().stdout;
    assert!(
        advice.contains("Profile  none:") && advice.contains("the document is damaged"),
        "{advice}"
    );
    let words = [
        "bench",
        "read",
        "--size",
        "64K",
        "--methods",
        "read/mmap",
        "--rounds",
        "1",
        "--quiet",
    ];
    let again = place.run(&words).succeeded();
    assert!(
        again.stderr.contains("cannot update the profile of the storage"),
        "{}",
        again.stderr
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "{");
    let list = place.run(&["profile", "list"]);
    assert!(list.code == Some(2) && list.stderr.contains(&file), "{}", list.stderr);
    place.run(&["profile", "remove", &file]).succeeded();
    assert!(!fs::exists(&file).unwrap());
}

#[test]
fn a_comparison_says_by_what_it_was_planned() {
    let place = Place::new();
    let methods = ["--methods", "compare/sync,block=1M", "--methods", "compare/mmap"];
    let how = [
        "bench", "compare", "--size", "16M", "--cache", "cold", "--rounds", "1", "--quiet",
    ];
    place.run(&[&how[..], &methods].concat()).succeeded();
    for name in ["one", "other"] {
        fs::write(place.path(name), vec![7; 16 << 20]).unwrap();
    }
    let explained = |flag: &str| {
        place.run(&["cache", "drop", "one", "other"]).succeeded();
        place
            .run(&["cmp", "--explain", flag, "one", "other"])
            .succeeded()
            .stderr
    };
    let by_profile = explained("-s");
    assert!(by_profile.contains("by 1 sitting on this storage"), "{by_profile}");
    let without = explained("--no-profile");
    assert!(!without.contains("sitting"), "{without}");
}
