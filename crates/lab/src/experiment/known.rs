//! The words of a run that only the lab knows: making a run anonymous keeps them.

use crate::kernel::Kernel;
use seekless_results::Known;

use super::Experiment;
use crate::layout::Layout;

/// Built-in experiments, kernels and layouts.
pub const KNOWN: Known = Known {
    experiment: |name| {
        let found = Experiment::builtin(name).ok()?;
        Some((found.published, found.columns))
    },
    is_kernel: |name| Kernel::named(name).is_some(),
    layout: |text| Some(text.parse::<Layout>().ok()?.to_string()),
};

#[cfg(test)]
mod tests {
    use seekless_record::Contest;
    use seekless_results::{anonymous, fingerprint, simulation::FULL};
    use serde_json::{Value, json};

    use super::*;

    const MARKER: &str = "Marker-7f3a";

    /// Puts the marker into one field after another, before, behind and inside its text.
    #[test]
    fn what_stands_in_any_field_does_not_get_out() {
        let document: Value = serde_json::from_str(FULL).unwrap();
        let mut planted = 0;
        // In the short run, one field of five, with each text in turn.
        let is_long = crate::is_long();
        let places = string_places(&document).into_iter().enumerate();
        for (number, place) in places.step_by(if is_long { 1 } else { 5 }) {
            let before = document.pointer(&place).unwrap().as_str().unwrap();
            let texts = [
                MARKER.to_owned(),
                format!("{before}{MARKER}"),
                format!("{before} {MARKER}"),
                format!("{before},{MARKER}"),
                format!("{before}-{MARKER}"),
                format!("/{MARKER}/{before}"),
            ];
            let texts = texts.into_iter().enumerate();
            for (_, text) in texts.filter(|(at, _)| is_long || number % 6 == *at) {
                let mut changed = document.clone();
                *changed.pointer_mut(&place).unwrap() = json!(text);
                // A field that takes only certain words takes no other.
                let Ok(run) = seekless_record::from_json(changed.to_string().as_bytes()) else {
                    continue;
                };
                planted += 1;
                let out = seekless_record::to_json(&anonymous(&run, &KNOWN)).unwrap();
                let is_of_maker = (place.ends_with("/processor") || place.ends_with("/model")) && text != MARKER;
                assert!(is_of_maker || !out.contains(MARKER), "{place}, from {text}: it got out");
            }
        }
        assert!(planted > if is_long { 200 } else { 10 }, "{planted}");
    }

    #[test]
    fn what_was_measured_stays_and_concludes_the_same() {
        let run = seekless_record::from_json(FULL.as_bytes()).unwrap();
        let anonymous = anonymous(&run, &KNOWN);
        let text = seekless_record::to_json(&anonymous).unwrap();
        assert_eq!(seekless_record::from_json(text.as_bytes()).unwrap(), anonymous);
        assert_eq!(anonymous.trials.len(), run.trials.len());
        assert_eq!(fingerprint(&anonymous), fingerprint(&run));
        assert_eq!(anonymous.machine.kernel, "6.18.44");
        assert_eq!(anonymous.machine.processor, run.machine.processor);
        let options = anonymous.storages[0].mount_options.as_deref();
        assert_eq!(options, Some("rw,relatime,discard"));
        for (anonymous, own) in anonymous.contests.iter().zip(&run.contests) {
            let methods = |contest: &Contest| {
                let all = contest.entries.iter().filter(|entry| entry.command().is_none());
                all.map(|entry| entry.name().into_owned()).collect::<Vec<_>>()
            };
            assert_eq!(methods(anonymous), methods(own));
        }
        let again = seekless_results::anonymous(&anonymous, &KNOWN);
        assert_eq!(again, anonymous, "once is enough");
    }

    #[test]
    fn anonymous_run_keeps_pseudonym_and_disk_model_only() {
        let mut run = seekless_record::from_json(FULL.as_bytes()).unwrap();
        for (host, stays) in [
            ("machine-0123456789abcdef", true),
            ("machine-0123456789abcdeF", false),
            ("laptop", false),
        ] {
            run.machine.host = Some(host.to_owned());
            assert_eq!(anonymous(&run, &KNOWN).machine.host.is_some(), stays, "{host}");
        }
        for (model, stays) in [
            ("Samsung SSD 980 PRO 1TB", true),
            ("Samsung <b>", false),
            ("my disk", false),
        ] {
            run.storages[0].device.as_mut().unwrap().model = Some(model.to_owned());
            let device = anonymous(&run, &KNOWN).storages[0].device.clone().unwrap();
            assert_eq!(device.model.is_some(), stays, "{model}");
        }
        run.storages[0].facts.insert(MARKER.to_owned(), String::new());
        run.contests[0].tree = Some(MARKER.to_owned());
        let out = seekless_record::to_json(&anonymous(&run, &KNOWN)).unwrap();
        assert!(!out.contains(MARKER));
    }

    #[test]
    fn runs_that_earlier_builds_wrote_are_anonymous_after_once() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/testdata/runs");
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let run = seekless_record::from_json(&std::fs::read(&path).unwrap()).unwrap();
            let once = anonymous(&run, &KNOWN);
            assert_eq!(anonymous(&once, &KNOWN), once, "{}", path.display());
        }
    }

    /// The places of all texts.
    fn string_places(value: &Value) -> Vec<String> {
        fn walk(value: &Value, at: &str, found: &mut Vec<String>) {
            match value {
                Value::String(_) => found.push(at.to_owned()),
                Value::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        walk(item, &format!("{at}/{index}"), found);
                    }
                }
                Value::Object(fields) => {
                    for (name, field) in fields {
                        let name = name.replace('~', "~0").replace('/', "~1");
                        walk(field, &format!("{at}/{name}"), found);
                    }
                }
                _ => {}
            }
        }
        let mut found = Vec::new();
        walk(value, "", &mut found);
        found
    }
}
