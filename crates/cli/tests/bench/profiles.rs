//! What `bench` measured is what commands plan by.

use std::fs;

use seekless_record::{Cache, EntryVerdict};
use serde_json::{Value, json};

use crate::common::place::{Ended, Place, Words, assert_contains, assert_lacks};

fn bench(place: &Place) {
    let methods = "--methods read/mmap --methods read/sync,block=1M";
    let how = "bench read --size 64K --size 1M --rounds 3 --quiet";
    place.succeeds(&format!("{how} {methods}"));
}

/// Advice by the profile that the environment names.
fn advised_by(place: &Place, profile: &str) -> Ended {
    let mut command = place.command();
    command.env("SEEKLESS_PROFILE", profile);
    Ended::by(command.args("advise read . --size 512K".split(' '))).succeeded()
}

fn json(place: &Place, words: impl Words) -> Value {
    place.succeeds(words).json()
}

#[test]
fn bench_regret_tells_what_earlier_plans_cost() {
    let place = Place::new();
    let how = "bench read --methods read/mmap --methods read/sync,block=1M --size 64K --size 128K";
    let bench = |rounds| {
        let more = "--cache warm --quiet --regret --rounds";
        place.succeeds((how, more, rounds)).stdout
    };
    let first = bench("6");
    assert_contains(&first, &["Regret  unknown: no earlier sitting"]);
    let saved = place.saved().remove(0);
    let path = place.path(format!("../data/seekless/runs/{}.json", saved.id));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(&saved.started, "2026-01-01T00:00:00Z")).unwrap();
    let second = bench("8");
    let told = second.contains("% slower than the best") || second.contains("Regret  unknown");
    assert!(told, "{second}");
}

#[test]
fn profile_has_what_bench_measured_and_advise_uses_it() {
    let place = Place::new();
    place.fails(2, "profile").warns("nothing was measured on this storage");
    let before = place.succeeds("advise read . --size 512K").stdout;
    assert_contains(
        &before,
        &[
            "Profile  none: nothing was measured",
            "Next     seekless bench read --dir . --size 512K",
            "How sure no profile covers this case",
        ],
    );
    bench(&place);
    let profile = place.succeeds("profile").stdout;
    assert_contains(&profile, &["1 sitting", "\nread, warm\n  from 64.0 KiB"]);
    let to_file = place.succeeds("profile show --report profile.html");
    assert_eq!(to_file.stdout, "");
    let page = place.text("profile.html");
    assert_contains(&page, &["Read, warm", "<title>read/mmap"]);
    let advice = place.succeeds("advise read . --size 512K --warm").stdout;
    assert_contains(&advice, &["by 1 sitting on this storage", "Others"]);
    let found = json(&place, "advise read . --size 512K --warm --json");
    assert_eq!(found["bytes"], 512 << 10, "{found}");
    assert_eq!(found["profile"]["sittings"], 1, "{found}");
    let measured = found["measured"].as_array().unwrap();
    assert!(measured.iter().any(|one| one["method"] == "read/mmap"), "{found}");
    let times = measured.iter().map(|one| one["predicted"]["seconds"].as_f64().unwrap());
    assert!(times.is_sorted() && measured.len() >= 2, "{found}");
    // What was not measured is planned as before.
    let write = json(&place, "advise write . --size 512K --json");
    assert_eq!(write["measured"], Value::Array(Vec::new()));
    advised_by(&place, "").says("Profile  none: profiles are turned off");
    // With another size of memory, what was measured in the page cache is left out.
    let (shown, list) = (json(&place, "profile show --json"), json(&place, "profile list --json"));
    let file = list[0]["file"].as_str().unwrap();
    let field = |bytes: &str| format!("\"memory_bytes\":{bytes}");
    let text = fs::read_to_string(file).unwrap();
    let other = text.replace(&field(&shown["memory_bytes"].to_string()), &field("1000000000"));
    assert_ne!(text, other);
    fs::write(file, other).unwrap();
    let told = "Left out figures of cached files in the profile: measured with another size of memory";
    place.succeeds("advise read . --size 512K --warm").says(told);
}

#[test]
fn profile_of_many_machines_is_used_where_none_was_measured() {
    let (place, other) = (Place::new(), Place::new());
    bench(&place);
    let profile = place.succeeds(&["profile", "export"]).stdout;
    for machines in [2, 12] {
        let of_many = profile.replacen('{', &format!("{{\"machines\":{machines},"), 1);
        let name = format!("of-{machines}.json");
        other.file(&name, of_many.as_bytes());
        other.succeeds(&["profile", "import", &name]);
    }
    let advice = other.succeeds(&["advise", "read", ".", "--size", "512K"]).stdout;
    assert!(
        advice.contains("not measured here") && advice.contains("by 12 machines of this kind"),
        "{advice}"
    );
}

#[test]
fn profile_costs_plan_updates() {
    let place = Place::new();
    place.file("file", &vec![1; 4_000_000]);
    // At distances at which the cost of a write decides whether they share one.
    let updates: String = (0..40).fold(String::new(), |lines, n| {
        format!("{lines}{{\"offset\": {}, \"hex\": \"2a\"}}\n", n * 100_000)
    });
    place.file("updates", updates.as_bytes());
    let explained = |method: &str| {
        let how = "update file --from updates --durability through --explain --method";
        place.succeeds((how, method)).stderr
    };
    for method in ["auto", "update/planned"] {
        let before = explained(method);
        assert_contains(&before, &[": a write costs "]);
        // Assumed costs are 2 microseconds and a flush of a millisecond.
        assert_lacks(&before, &["sitting", " 1002.0 "]);
    }
    bench(&place);
    let profile = json(&place, "profile show --json");
    if profile["costs"].is_null() {
        return; // The file system has no direct I/O.
    }
    let shown = place.succeeds("profile").stdout;
    assert_contains(&shown, &["\nUpdates  with fsync, those up to "]);
    let by_profile = explained("auto");
    let start = "by 1 sitting on this storage, ";
    assert_contains(&by_profile, &[start, " old: a write costs ", "byte, from the profile"]);
    assert_lacks(&by_profile, &["measured"]);
    let advice = json(&place, "advise update file --count 100 --json");
    assert_eq!(advice["profile"]["sittings"], 1, "{advice}");
    let words = place.succeeds("advise update file --count 100").stdout;
    assert_contains(
        &words,
        &["Because  by 1 sitting on this storage", "from the costs in the profile"],
    );
}

#[test]
fn advise_without_profile_names_the_bench_that_settles_it() {
    let place = Place::new();
    place.file("file", &vec![7; 8 << 20]);
    for (words, next, all) in [
        (
            "read file",
            "read --dir . --size 8M --budget 1m",
            "  (measures all methods",
        ),
        (
            "compare file",
            "compare --dir . --size 8M --budget 1m",
            "  (measures all methods",
        ),
        (
            "write . --durability fsync",
            "write --dir . --size 64M --budget 1m",
            "  (measures all methods",
        ),
        (
            "copy file",
            "copy --dir . --size 8M --budget 1m",
            "  (measures with fsync",
        ),
        ("update file", "update --dir . --budget 1m", ""),
    ] {
        let advice = place.succeeds(("advise", words)).stdout;
        let next = format!("\nNext     seekless bench {next}{all}");
        assert_contains(&advice, &["\nHow sure ", &next]);
    }
}

#[test]
fn advise_update_plans_by_number_and_size_of_updates() {
    let place = Place::new();
    place.file("file", &vec![7; 8 << 20]);
    let advice = |words: &str| json(&place, ("advise update file --warm --json", words));
    // Every byte of the file, and hardly any.
    let all = advice("--count 2048 --size 4K");
    let few = advice("--count 2 --size 1");
    assert_eq!(few["method"], "update/sync,block=1M,fsync,gap=0", "{few}");
    assert_eq!(all["updates"]["count"], 2048, "{all}");
    let [all_seconds, few_seconds] = [&all, &few].map(|one| one["predicted"]["seconds"].as_f64().unwrap());
    // Each is predicted from costs that its own process measured, on a machine that does other work.
    assert!(all_seconds > 0.0 && few_seconds > 0.0, "{all} {few}");
    let mut considered = few["considered"].as_array().unwrap().iter();
    let rewrite = "update/sync,block=1M,fsync,order=rewrite";
    assert!(considered.any(|one| one["method"] == rewrite), "{few}");
    for (words, told) in [
        ("update file --count 2049", "do not fit into 8.00 MiB"),
        ("update .", "is a directory"),
        ("update file --many", "--many is only for reads"),
        ("scan . --durability fsync", "--durability is only for writes"),
        ("raed .", "the operations are read, write"),
        ("gone --settings", "gone: cannot stat"),
        ("read", "<PATH>"),
    ] {
        place.run(("advise", words)).warns(told);
    }
}

#[test]
fn advise_code_prints_the_program_of_its_method_or_why_not() {
    let place = Place::new();
    place.file("file", b"bytes");
    let program = place.succeeds("advise read file --code python").stdout;
    let of_method = place.succeeds("methods read/sync,block=128K --code python").stdout;
    assert_eq!(program, of_method);
    // A plan for a copy skips holes.
    for language in ["c", "python", "rust"] {
        let copying = place.succeeds(("advise copy file --code", language));
        copying.says("holes=skip. This program does not skip holes");
    }
    place.refuses("advise compare file --code c", &["read, write or copy"]);
}

#[test]
fn advise_settings_name_what_measures_them() {
    let place = Place::new();
    let settings = json(&place, "advise . --settings --json");
    let settings = settings.as_array().unwrap();
    assert!(
        settings.iter().all(|setting| setting["gain"].is_null()),
        "nothing was measured: {settings:?}"
    );
    let shown = place.succeeds("advise read . --settings").stdout;
    let has_window = settings.iter().any(|setting| setting["setting"] == "read-ahead");
    assert!(
        !has_window || shown.contains("not measured") && shown.contains("bench read-ahead --dir ."),
        "{shown}"
    );
}

#[test]
fn profile_goes_with_its_runs_or_by_its_name() {
    let place = Place::new();
    bench(&place);
    let list = json(&place, "profile list --json");
    let file = list[0]["file"].as_str().unwrap().to_owned();
    let exported = place.succeeds("profile export").stdout;
    let exported: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    assert!(exported["storage"]["uuid"].is_null() && exported["mount_point"].is_null());
    let before = fs::read_to_string(&file).unwrap();
    let refused = place.run(&["profile", "export", "-o", &file]);
    refused.failed_with(2, &["is the same file as"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    let head: Value = serde_json::from_str(before.lines().next().unwrap()).unwrap();
    let newest = format!("\"newest_unix_seconds\":{}", head["newest_unix_seconds"]);
    fs::write(&file, before.replace(&newest, "\"newest_unix_seconds\":9000000000")).unwrap();
    let future = place.succeeds("profile").stdout;
    assert_contains(&future, &["1 sitting, dated in the future"]);
    let advice = place.succeeds("advise read . --size 512K --warm").stdout;
    assert_contains(&advice, &["this storage, dated in the future"]);
    let removed = place.succeeds("profile remove .").stdout;
    assert!(removed.contains(&file) && !fs::exists(&file).unwrap(), "{removed}");
    bench(&place);
    assert!(fs::exists(&file).unwrap());
    place.succeeds("runs remove --down-to 0");
    assert!(!fs::exists(&file).unwrap(), "no run is left");
    // Other files are not profiles of ours.
    fs::write(place.path("mine.json"), "{}").unwrap();
    place
        .fails(2, "profile remove mine.json")
        .warns("not a profile that seekless made");
    assert!(fs::exists(place.path("mine.json")).unwrap());
}

#[test]
fn profile_import_is_borrowed_by_a_storage_of_the_same_kind() {
    let (place, other) = (Place::new(), Place::new());
    bench(&place);
    place.succeeds("profile export -o lent.json");
    let lent = place.path("lent.json");
    let lent = lent.to_str().unwrap();
    let words = "advise read . --size 512K --warm";
    let own = json(&place, (words, "--json"));
    let import = || other.succeeds(&["profile", "import", lent]).stdout;
    assert!(import().starts_with("Imported  ") && import().starts_with("Exists    "));
    let borrowed = json(&other, (words, "--json"));
    let from = borrowed["profile"]["borrowed_from"].as_str().unwrap();
    assert!(from.starts_with("lent ("), "{from}");
    let width = |advice: &Value| {
        let bound = |name: &str| advice["predicted"][name].as_f64().unwrap();
        bound("high_seconds") / bound("low_seconds")
    };
    assert!(width(&borrowed) > width(&own), "{borrowed} {own}");
    let advice = other.succeeds(words).stdout;
    assert_contains(
        &advice,
        &[
            "borrowed from a profile of lent (",
            "not measured here",
            "\nHow sure the times were measured on another storage",
        ],
    );
    let shown = other.succeeds("profile").stdout;
    assert_contains(&shown, &["\nBorrowed from a profile of lent ("]);
    // Its own is used as soon as there is one.
    bench(&other);
    let own = json(&other, (words, "--json"));
    assert_eq!(own["profile"]["borrowed_from"], Value::Null);
    fs::write(place.path("lent.json"), "{}").unwrap();
    let refused = other.run(&["profile", "import", lent]);
    refused.failed_with(2, &["lent.json"]);
    let list = json(&other, "profile list --json");
    let mut files = list.as_array().unwrap().iter().map(|one| one["file"].as_str().unwrap());
    let imported = files.find(|file| file.contains("/borrowed/")).unwrap();
    other.succeeds(&["profile", "remove", imported]);
    assert!(!fs::exists(imported).unwrap());
}

#[test]
fn profile_that_is_damaged_is_named_and_left_alone() {
    let place = Place::new();
    bench(&place);
    let list = json(&place, "profile list --json");
    let file = list[0]["file"].as_str().unwrap().to_owned();
    let whole = fs::read_to_string(&file).unwrap();
    for text in [&whole.replace("\"points\"", "\"points"), "{"] {
        fs::write(&file, text).unwrap();
        let advice = place.succeeds("advise read . --size 512K").stdout;
        assert_contains(&advice, &["Profile  none:", "the document is damaged"]);
    }
    let words = "bench read --size 64K --methods read/mmap --rounds 1 --quiet";
    let again = place.succeeds(words);
    assert_contains(&again.stderr, &["cannot update the profile of the storage"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "{");
    let list = place.run("profile list");
    list.failed_with(2, &[&file]);
    assert_eq!(list.stdout, "", "there is one");
    advised_by(&place, "gone").says("Profile  none: gone: No such file or directory");
    place.succeeds(&["profile", "remove", &file]);
    assert!(!fs::exists(&file).unwrap());
}

#[test]
fn profile_is_named_by_cmp_explain() {
    let place = Place::new();
    let methods = "--methods compare/sync,block=1M --methods compare/mmap";
    let how = "bench compare --size 16M --cache cold --rounds 1 --quiet";
    place.succeeds(&format!("{how} {methods}"));
    for name in ["one", "other"] {
        fs::write(place.path(name), vec![7; 16 << 20]).unwrap();
    }
    let explained = |flag: &str| {
        place.succeeds("cache drop one other");
        place.succeeds(&["cmp", "--explain", flag, "one", "other"]).stderr
    };
    let by_profile = explained("-s");
    assert_contains(&by_profile, &["by 1 sitting on this storage"]);
    let without = explained("--no-profile");
    assert!(!without.contains("sitting"), "{without}");
}

#[test]
fn profile_says_which_uses_it_no_longer_predicts() {
    // Longer than the shortest use that is noted, on fast machines, too.
    const BYTES: usize = 500 << 20;
    let place = Place::new();
    let bench = "bench compare --size 64M --cache warm --rounds 3 --quiet --methods */mmap --methods */sync,block=128K";
    place.succeeds(bench);
    let bytes = vec![7; BYTES];
    place.file("one", &bytes);
    place.file("other", &bytes);
    let uses = place.path("../data/seekless/uses");
    place.succeeds("cmp --no-profile one other");
    place.succeeds("cmp one other --method compare/sync");
    assert!(!uses.exists(), "neither used the profile");
    place.succeeds("cmp one other");
    let Some(file) = fs::read_dir(&uses).ok().and_then(|mut files| files.next()) else {
        println!("skipped: comparing took less than 20 ms, or the files did not stay in the page cache");
        return;
    };
    let file = file.unwrap().path();
    let line = fs::read_to_string(&file).unwrap();
    let noted: Value = serde_json::from_str(&line).unwrap();
    assert!(
        noted["bytes"]
            .as_u64()
            .is_some_and(|bytes| bytes > BYTES as u64 * 9 / 10),
        "{noted}"
    );
    assert_eq!(noted["conditions"]["cache"], "warm", "{noted}");
    assert!(noted["sitting_unix_seconds"].is_u64(), "{noted}");
    let mut slow = noted;
    slow["actual_seconds"] = (2.0 * slow["predicted_seconds"].as_f64().unwrap()).into();
    fs::write(&file, format!("{slow}\n").repeat(10)).unwrap();
    let profile = place.succeeds("profile").stdout;
    assert_contains(
        &profile,
        &[
            "In use: actual / predicted",
            "compare, warm  last 10 uses  2.00  2.00 to 2.00",
            "no longer predicts",
        ],
    );
    let advice = place.succeeds("advise compare . --size 64M --warm").stdout;
    let about = "In use   the profile no longer predicts: the last 10 uses (compare, warm) took 2.0 times as long";
    assert_contains(&advice, &[about, "Next     seekless bench compare"]);
    assert_lacks(
        &place.succeeds("advise compare . --size 64M --cold").stdout,
        &["In use"],
    );
    // Plans rest on what was summed up at a use.
    let high = |advice: Value| advice["predicted"]["high_seconds"].as_f64().unwrap();
    let before = high(json(&place, "advise compare . --size 64M --warm --json"));
    (0..5).for_each(|_| _ = place.succeeds("cmp one other"));
    let after = high(json(&place, "advise compare . --size 64M --warm --json"));
    assert!(after > 1.5 * before, "{before} {after}");
    place.succeeds(bench);
    let run = place.saved().into_iter().map(|run| run.id).max().unwrap();
    let choices = place.succeeds(&["runs", "show", "--notes", &run]).stdout;
    assert_contains(&choices, &["Contests come first"]);
    // Their sitting is newer than all uses.
    assert_lacks(
        &place.succeeds("advise compare . --size 64M --warm").stdout,
        &["In use"],
    );
}

#[test]
fn advise_for_many_files_names_the_method_of_bench_or_one_that_bench_calls_tied() {
    let place = Place::new();
    let methods = [
        "sync,block=16K",
        "sync,block=1M",
        "sync,block=1M,direct",
        "io_uring,depth=8,block=512K,direct",
        "mmap",
    ];
    let methods: Vec<String> = methods
        .iter()
        .map(|method| format!("--methods read/{method}"))
        .collect();
    let bench = format!(
        "bench read --size 64K --size 1M --size 8M --rounds 9 --quiet {}",
        methods.join(" ")
    );
    place.succeeds(&bench);
    let id = place.saved().remove(0).id;
    let run = place.succeeds(&["runs", "show", "--json", &id]).stdout;
    let run = seekless_record::from_json(run.as_bytes()).unwrap();
    let mut asked = 0;
    for contest in &run.contests {
        let cache = if contest.cache == Cache::Cold {
            "--cold"
        } else {
            "--warm"
        };
        let advise = |more: &str| {
            json(
                &place,
                &format!("advise read . --size {} {cache} {more} --json", contest.size_bytes),
            )
        };
        let (many, one) = (advise("--many"), advise(""));
        let named = |advice: &Value| {
            let entries = contest.entries.iter();
            entries
                .filter(|entry| advice["method"] == *entry.name())
                .map(|entry| entry.verdict.clone())
                .next()
        };
        let why = format!(
            "{} {cache}: {} ({:?})",
            contest.size_bytes,
            many["method"],
            named(&many)
        );
        assert!(
            matches!(named(&many), Some(EntryVerdict::Best(_) | EntryVerdict::Tie(_))),
            "{why}"
        );
        assert_eq!(many["setup_seconds"], 0.0, "{many}");
        // For one file, another method is named with the one for many.
        if one["method"] != many["method"] {
            assert_eq!(one["for_many"], many["method"], "{one}");
        }
        asked += 1;
    }
    assert!(asked >= 3, "{asked} contests");
    let told = place.succeeds("advise read . --size 8M --cold --count 1000").stdout;
    assert_contains(&told, &["Takes"]);
    place.fails(2, "advise scan . --many").warns("--many is only for");
}

#[test]
fn costs_of_a_storage_are_measured_once_a_day_and_not_kept_without_a_profile() {
    let place = Place::new();
    place.file("file", &vec![7; 16 << 20]);
    let facts = place.path("../home/.cache/seekless/facts");
    let command = "advise read file --json";
    place.succeeds(command);
    assert!(!facts.exists(), "there is no home");
    fs::create_dir(place.path("../home")).unwrap();
    place.succeeds(&format!("--no-profile {command}"));
    assert!(!facts.exists(), "profiles are turned off");
    place.succeeds(command);
    let kept: Vec<_> = fs::read_dir(&facts).unwrap().map(|file| file.unwrap().path()).collect();
    let [kept] = kept.as_slice() else {
        panic!("one storage: {kept:?}");
    };
    let lines = fs::read_to_string(kept).unwrap();
    let groups = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    let groups: Vec<Value> = groups.collect();
    assert!(groups.iter().any(|group| group["group"] == "opening"), "{lines}");
    // A day in which opening takes a second.
    let opening = |line: &str, seconds_ago: u64| {
        let mut group: Value = serde_json::from_str(line).unwrap();
        if group["group"] == "opening" {
            group["costs"] = json!([{"low": 1e9, "median": 1e9, "high": 1e9, "coverage": null}]);
        }
        group["unix_seconds"] = (group["unix_seconds"].as_u64().unwrap() - seconds_ago).into();
        format!("{group}\n")
    };
    for (seconds_ago, is_read) in [(0, true), (100_000, false)] {
        let changed: String = lines.lines().map(|line| opening(line, seconds_ago)).collect();
        fs::write(kept, changed).unwrap();
        let advice: Value = serde_json::from_str(&place.succeeds(command).stdout).unwrap();
        let seconds = advice["considered"][0]["predicted"]["seconds"].as_f64().unwrap();
        assert_eq!(seconds > 0.9, is_read, "{advice}");
    }
}
