//! A run document: whatever is read can be written, made anonymous, shown, exported, compared and ranked.

#![no_main]

#[path = "../../crates/cli/src/show/mod.rs"]
#[allow(dead_code, unused_imports)]
mod show;

use libfuzzer_sys::fuzz_target;
use seekless_lab::export::{to_csv, to_markdown};
use seekless_lab::runs::{Origin, anonymous, compare, objections, table};
use seekless_record::{from_json, to_json};

fuzz_target!(|bytes: &[u8]| {
    let Ok(run) = from_json(bytes) else { return };
    let text = to_json(&run).expect("a run that was read can be written");
    assert_eq!(from_json(text.as_bytes()).expect("and read again"), run);

    let nameless = anonymous(&run);
    let text = to_json(&nameless).expect("an anonymous run can be written");
    assert_eq!(from_json(text.as_bytes()).expect("and read"), nameless);

    let mut shown = Vec::new();
    show::show_run(&mut shown, &run, true, show::Width::default()).expect("memory takes it");
    if let Ok(comparison) = compare(&run, &nameless) {
        let objections = objections(&run, &nameless);
        show::show_comparison(&mut shown, &comparison, &objections, true, show::Width::default())
            .expect("memory takes it");
    }
    let rankings = table(&[(Origin::Own, &run), (Origin::Imported, &nameless)]);
    show::show_rankings(&mut shown, &rankings, true, show::Width::default()).expect("memory takes it");
    // The styles are escapes of our own.
    let plain = anstream::adapter::strip_bytes(&shown).into_vec();
    let plain = String::from_utf8(plain).expect("what is shown is text");
    assert!(!plain.chars().any(|c| c.is_control() && c != '\n'), "{plain:?}");

    to_csv(&run).expect("a run has a table");
    let _ = to_markdown(&run);
});
