//! A run document: whatever is read can be written, made anonymous, shown, exported, compared and ranked.
//!
//! An input is a document, or, where it does not begin as one, a list of changes to a document that is good: random bytes
//! seldom make a run, and changed ones often do.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use seekless_cli::{Page, RunParts, Width, show_comparison, show_rankings, show_run};
use seekless_lab::experiment::KNOWN;
use seekless_record::{Run, from_json, to_json};
use seekless_report::{to_csv, to_html, to_markdown};
use seekless_results::{Origin, anonymous, compare, objections, table};
use serde_json::{Value, json};

fuzz_target!(|bytes: &[u8]| {
    let read = if bytes.starts_with(b"{") {
        from_json(bytes)
    } else {
        from_json(changed(bytes).to_string().as_bytes())
    };
    if let Ok(run) = read {
        use_all(&run);
    }
});

fn use_all(run: &Run) {
    let text = to_json(run).expect("a run that was read can be written");
    assert_eq!(from_json(text.as_bytes()).expect("and read again"), *run);

    let nameless = anonymous(run, &KNOWN);
    let text = to_json(&nameless).expect("an anonymous run can be written");
    assert_eq!(from_json(text.as_bytes()).expect("and read"), nameless);

    let mut shown = Vec::new();
    let mut page = Page::new(&mut shown, Width::default());
    show_run(
        &mut page,
        run,
        RunParts {
            all: true,
            notes: true,
            ..RunParts::default()
        },
    )
    .expect("memory takes it");
    if let Ok(comparison) = compare(run, &nameless) {
        let objections = objections(run, &nameless);
        show_comparison(&mut page, &comparison, &objections, true).expect("memory takes it");
    }
    let rankings = table(&[(Origin::Own, run), (Origin::Imported, &nameless)]);
    show_rankings(&mut page, &rankings, true).expect("memory takes it");
    drop(page);
    // The styles are escapes of our own.
    let plain = anstream::adapter::strip_bytes(&shown).into_vec();
    let plain = String::from_utf8(plain).expect("what is shown is text");
    assert!(!plain.chars().any(|c| c.is_control() && c != '\n'), "{plain:?}");

    to_csv(run).expect("a run has a table");
    to_html(run, run, &[]).expect("a run has a page");
    let _ = to_markdown(run);
}

static GOOD: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../crates/record/testdata/full-run.json")).expect("it is JSON")
});

/// The places in the document: leaves first by chance as often as what holds them.
static PLACES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut found = Vec::new();
    walk(&GOOD, "", &mut found);
    found
});

fn walk(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
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
        _ => {}
    }
}

/// More would make a large document rather than an odd one.
const MOST_CHANGES: usize = 64;

/// The good document with a change for every four bytes: a place, and what to put there.
fn changed(bytes: &[u8]) -> Value {
    let mut document = GOOD.clone();
    for change in bytes.chunks_exact(4).take(MOST_CHANGES) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % PLACES.len();
        // A change before may have taken the place away.
        if let Some(value) = document.pointer_mut(&PLACES[place]) {
            change_one(value, change[2], change[3]);
        }
    }
    document
}

/// Longer texts are refused in any case.
const LONGEST: usize = 64 << 10;

fn change_one(value: &mut Value, what: u8, how: u8) {
    let number = f64::from(how);
    match (what % 16, &mut *value) {
        (0, _) => *value = Value::Null,
        (1, Value::Array(items)) => items.truncate(usize::from(how)),
        (2, Value::Array(items)) if !items.is_empty() => {
            let item = items[usize::from(how) % items.len()].clone();
            items.push(item);
        }
        (3, Value::Array(items)) if !items.is_empty() => {
            items.remove(usize::from(how) % items.len());
        }
        (4, Value::String(text)) => text.push(char::from(how)),
        (5, Value::String(text)) => text.clear(),
        (6, Value::String(text)) if text.len() < LONGEST => *text = text.repeat(usize::from(how)),
        (7, Value::String(text)) => text.extend(char::from_u32(0x2000 + u32::from(how))),
        (8, Value::Bool(flag)) => *flag = !*flag,
        (9, _) => *value = json!(how),
        (10, Value::Number(figure)) => {
            let figure = figure.as_f64().unwrap_or(0.0);
            *value = json!(figure * number / 16.0);
        }
        (11, _) => *value = json!(number / 255.0),
        (12, _) => *value = json!(1_u64 << (how % 64)),
        (13, _) => *value = json!(10_f64.powf(number - 127.0)),
        (14, _) => *value = json!(-number),
        (15, _) => *value = json!(0),
        _ => {}
    }
}
