//! Invalid documents, and the names in their errors.

use std::error::Error;

use serde_json::{Value, json};

use crate::{from_json, to_json};

/// A document with every field filled.
const FULL: &str = include_str!("../../testdata/full-run.json");

/// Whether tests try everything, however long it takes.
fn is_long() -> bool {
    std::env::var_os("SEEKLESS_TEST_LONG").is_some()
}

/// The places of all values below one.
fn places(value: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    walk(item, &format!("{at}/{index}"), found);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    walk(field, &format!("{at}/{name}"), found);
                }
            }
            _ => found.push(at.to_owned()),
        }
    }
    let mut found = Vec::new();
    walk(value, "", &mut found);
    found
}

fn with(document: &Value, place: &str, value: Value) -> String {
    let mut changed = document.clone();
    *changed.pointer_mut(place).unwrap() = value;
    changed.to_string()
}

fn problem(document: &Value, place: &str, value: Value) -> String {
    let error = from_json(with(document, place, value).as_bytes()).unwrap_err();
    error.source().expect("what is wrong").to_string()
}

#[test]
fn check_of_a_full_document_reads_back_the_same() {
    let run = from_json(FULL.as_bytes()).unwrap();
    assert_eq!(from_json(to_json(&run).unwrap().as_bytes()).unwrap(), run);
}

#[test]
fn check_refuses_an_absurd_number_anywhere() {
    let document: Value = serde_json::from_str(FULL).unwrap();
    let numbers: Vec<String> = places(&document)
        .into_iter()
        .filter(|place| document.pointer(place).unwrap().is_number())
        .collect();
    assert!(numbers.len() > 1000);
    // In the short run, one of each twelve.
    let numbers = numbers.iter().step_by(if is_long() { 1 } else { 12 });
    for place in numbers.clone() {
        let absurd = json!(1e308);
        assert!(from_json(with(&document, place, absurd).as_bytes()).is_err(), "{place}");
    }
    for place in numbers.filter(|place| {
        let may_be_negative = ["/alternating_ns", "/cpu_seconds_difference"];
        !may_be_negative.iter().any(|name| place.ends_with(name))
    }) {
        let negative = with(&document, place, json!(-0.001));
        assert!(from_json(negative.as_bytes()).is_err(), "{place}");
    }
}

#[test]
fn check_refuses_a_text_without_end_anywhere() {
    let document: Value = serde_json::from_str(FULL).unwrap();
    let long = json!("x".repeat((64 << 10) + 1));
    let mut texts = places(&document);
    texts.retain(|place| document.pointer(place).unwrap().is_string());
    for place in texts.iter().step_by(if is_long() { 1 } else { 5 }) {
        let changed = with(&document, place, long.clone());
        assert!(from_json(changed.as_bytes()).is_err(), "{place}");
    }
}

#[test]
fn check_names_the_field_that_is_wrong() {
    let document: Value = serde_json::from_str(FULL).unwrap();
    // The place by its numbers and names, the value, and what is wrong there.
    let long = json!("m".repeat(5000));
    for (place, value, words) in [
        ("trials[7].seconds", json!(-1.0), "is -1e0"),
        ("trials[7].contest", json!(9), "is 9, but there are 6"),
        ("trials[0].entry", json!(99), "is 99"),
        ("contests[1].storage", json!(1), "is 1"),
        ("contests[0].files", json!(0), "is 0"),
        ("contests[0].entries[0].summary.seconds.low", json!(1e5), "is 1e5"),
        ("contests[0].entries[0].method", long, "has 5000 bytes of text"),
        ("noise.stolen", json!(1.5), "is 1.5"),
        ("contests[3].updates", json!(null), "must be present for"),
        ("contests[4].random.depth", json!(0), "is 0"),
        ("trials[0].valid", json!(false), ""),
        ("id", json!(""), "is empty"),
    ] {
        let pointer = format!("/{}", place.replace(['.', '['], "/").replace(']', ""));
        let problem = problem(&document, &pointer, value);
        assert!(problem.contains(&format!("{place}: {words}")), "{problem}");
    }
    let of_write = "contests[5].sustained: is allowed only for the operation `write`";
    let in_sustained = "segment_seconds: is allowed only in a sustained contest";
    let missing = "contests[3].updates: must be present for";
    let overlapping = "contests[3].updates: must not be empty or overlap";
    for (place, value, words) in [
        ("3/operation", json!("compare"), missing),
        ("3/updates/every_bytes", json!(3), overlapping),
        ("4/operation", json!("copy"), "contests[4].random: is allowed only for"),
        ("5/operation", json!("read"), of_write),
        ("5/sustained", json!(false), in_sustained),
    ] {
        let problem = problem(&document, &format!("/contests/{place}"), value);
        assert!(problem.contains(words), "{problem}");
    }
    let mut contest = document["contests"][1].clone();
    contest["tree"] = json!("/usr");
    let problem = problem(&document, "/contests/1", contest);
    assert!(problem.contains("contests[1].tree: is allowed only for"), "{problem}");
}

#[test]
fn check_refuses_a_document_nested_without_end() {
    let nested = format!("{{\"version\": 1, \"facts\": {}", "[".repeat(1 << 20));
    assert!(from_json(nested.as_bytes()).is_err());
}
