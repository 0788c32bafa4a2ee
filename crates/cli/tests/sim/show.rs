//! `sim show`: the models, and what a list of requests takes on them.

use serde_json::Value;

use crate::common::place::{Place, assert_contains};

/// Alternating reads of two places, recorded on a fast device.
fn trace(place: &Place) {
    let line = |index: u64| {
        let offset_bytes = (index % 2) * 100_000_000 / 4096 * 4096 + index / 2 * 131_072;
        let [start, end] = [index * 100_000, (index + 1) * 100_000];
        format!("{start} read {offset_bytes} 131072 {end}\n")
    };
    let lines: String = (0..100).map(line).collect();
    place.file("trace", format!("# a comment\n\n{lines}").as_bytes());
}

#[test]
fn sim_show_has_sources_and_published_figures() {
    let place = Place::new();
    let list = place.call("sim show").succeeded().stdout;
    assert_eq!(list.lines().count(), 13, "{list}");
    let shown = place.call("sim show hdd-2009 null").succeeded().stdout;
    assert_contains(
        &shown,
        &[
            "rotations       7,200 rpm",
            "fitted to block-compare-100M",
            "block-compare-4k                    17.38 s",
            "Note  not reproduced: compare-with-extra-read:",
            "No published figures are known for this disk.",
        ],
    );
    let json = |words: &str| -> Value { place.call(words).succeeded().json() };
    let one = json("sim show hdd-2009 --json")["models"][0].take();
    let named = |list: &Value, key: &str, name: &str| {
        let item = list.as_array().unwrap().iter().find(|item| item[key] == name);
        item.cloned().unwrap()
    };
    let rotations = named(&one["parameters"], "name", "rotations_per_minute");
    assert!(rotations["value"] == 7200 && rotations["unit"] == "rpm", "{rotations}");
    let block = named(&one["published"][0]["figures"], "program", "block-compare-4k");
    assert_eq!(block["seconds"], 17.38);
    assert!(block["simulated_seconds"].as_f64().unwrap() > 10.0 && block["not_reproduced"].is_null());
    let all = json("sim show --json");
    assert_eq!(all["models"].as_array().unwrap().len(), 13);
    place.refuses("sim show hdd-1999", &["hdd-2009"]);
}

#[test]
fn sim_show_virtual_replays_a_trace_and_draws_it() {
    let place = Place::new();
    trace(&place);
    let all = place.call("sim show --virtual trace").succeeded().stdout;
    let title = "100 requests, 12.5 MiB, recorded in 10.0 ms\n";
    assert!(all.starts_with(title), "{all}");
    assert_eq!(all.lines().count(), 15, "{all}");
    let picture = "sim show --virtual trace hdd-2009 --picture head.svg";
    let one = place.call(picture).succeeded().stdout;
    // 99 changes of the place: a seek of 2 ms and half a turn on the average, and 12.5 MiB at 32.6 MB/s.
    let row: Vec<&str> = one.lines().last().unwrap().split_whitespace().collect();
    let seconds: f64 = row[1].parse().unwrap();
    assert_eq!((row[0], row[2]), ("hdd-2009", "s"), "{one}");
    assert!((0.8..1.4).contains(&seconds), "{one}");
    let whole = place.text("head.svg");
    assert!(whole.starts_with("<svg "), "{whole}");
    assert_contains(&whole, &["trace, hdd-2009"]);
    place.call(&format!("{picture} --seconds 0.1")).succeeded();
    assert!(place.text("head.svg").len() < whole.len() / 2);
    let drawn = place.call("sim show --virtual trace --picture -").succeeded().stdout;
    assert!(drawn.starts_with("<svg ") && drawn.contains("as recorded"), "{drawn}");
}

#[test]
fn sim_show_virtual_names_the_line_of_a_bad_trace() {
    let place = Place::new();
    trace(&place);
    place.file("wrong", b"# seekless trace 1\n0 raed 0 4096\n");
    place.file("empty", b"# seekless trace 1\n");
    for (words, part) in [
        (
            "wrong",
            "wrong: cannot read the trace: line 2: not a kind of request: \"raed\"",
        ),
        ("empty", "empty: has no requests"),
        ("missing", "missing: cannot read the trace: No such file"),
        ("trace hdd-2009 null --picture a.svg", "a picture shows one disk"),
        ("trace --picture trace", "is the same file as trace, which is read"),
        (
            "trace --picture a.svg --seconds 0",
            "a number of seconds greater than 0",
        ),
    ] {
        place.refuses(("sim show --virtual", words), &[part]);
    }
    assert!(!place.path("a.svg").exists());
}
