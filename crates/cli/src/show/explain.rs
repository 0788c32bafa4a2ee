//! The explanation that `--explain` prints, in the same form for every command.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use seekless_engine::facts::{Fact, ProcessFacts, Source};
use seekless_engine::plan::{BatchPlan, Plan, Predicted, Reason, Scan, Unit};
use seekless_engine::{Method, Scanner};

use super::{files, seconds, stderr, visible_lines};

/// The method (or a word if none was needed) and the reason; the predicted and the actual time; the facts, each with
/// its source.
#[must_use]
pub fn explained(method: &str, why: &str, plan: Option<&Plan>, took: Option<Duration>) -> String {
    let shown = |time: Duration| seconds(time.as_secs_f64());
    let predicted = plan.map(|plan| {
        let Predicted { low, value, high } = plan.predicted;
        format!("predicted {} ({} to {})", shown(value), shown(low), shown(high))
    });
    let took = took.map(|took| format!("took {}", shown(took)));
    let times: Vec<String> = predicted.into_iter().chain(took).collect();
    let mut lines = vec![format!("{method}: {why}")];
    lines.extend((!times.is_empty()).then(|| times.join(", ")));
    let facts = plan.into_iter().flat_map(|plan| &plan.facts);
    lines.extend(facts.map(|known| format!("{}: {}", known.name, fact_text(known.unit, &known.fact))));
    lines.join("\n  ") + "\n"
}

/// Writes an explanation to standard error.
pub fn tell_why(command: &str, explanation: &str) {
    // If this fails, there is nowhere to report it.
    let explanation = visible_lines(explanation.trim_end());
    let _ = writeln!(stderr(), "seekless {command}: {explanation}");
}

/// Explains a job on the files at or below a path, each of which a thread processes.
pub fn tell_scan(command: &str, path: &Path, scan: &Scan, [method, why]: [&str; 2], took: Duration) {
    let plan = Scanner::plan(path, scan, &ProcessFacts::without_rings()).ok();
    let parts = [
        Some(why.to_owned()),
        plan.as_ref().map(|plan| {
            if plan.is_certain {
                why_batches(&plan.method, &plan.reason)
            } else {
                plan.reason.to_string()
            }
        }),
        (scan.files > 1).then(|| files(scan.files)),
    ];
    let why = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    tell_why(command, &explained(method, &why, plan.as_ref(), Some(took)));
}

/// The same as a further clause, if the method was chosen by what was measured.
#[must_use]
pub fn planned_batches(batch: &BatchPlan) -> String {
    let reason = batch.reason.as_ref();
    reason.map_or_else(String::new, |reason| {
        format!("; {}", why_batches(&batch.method, reason))
    })
}

/// Why small files are read by a method.
fn why_batches(method: &Method, reason: &Reason) -> String {
    format!("small files outside the page cache: {method}, {reason}")
}

/// A fact, with its bounds if it has any, and its source.
fn fact_text(unit: Unit, fact: &Fact) -> String {
    let shown = |value: f64| match unit {
        Unit::Nanoseconds => seconds(value / 1e9),
        Unit::NanosecondsPerByte => format!("{value:.3}"),
        Unit::Part => format!("{:.0}", value * 100.0),
        _ => format!("{value:.1}"),
    };
    let unit = match unit {
        Unit::NanosecondsPerByte => " ns per byte",
        Unit::Part => " %",
        _ => "",
    };
    let bounds = (fact.low < fact.high).then(|| format!(" ({} to {})", shown(fact.low), shown(fact.high)));
    let bounds = bounds.unwrap_or_default();
    let source = match fact.source {
        Source::Measured(at) => format!("measured {} ago", seconds(at.elapsed().as_secs_f64())),
        Source::Profile => "from the profile".to_owned(),
        Source::Claimed => "from the system".to_owned(),
        Source::Assumed => "assumed".to_owned(),
    };
    format!("{}{bounds}{unit}, {source}", shown(fact.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_have_bounds_units_and_sources() {
        let milliseconds = Duration::from_millis;
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut plan = seekless_engine::Reader::plan(file.path(), false).unwrap();
        plan.predicted = Predicted {
            low: milliseconds(1),
            value: milliseconds(2),
            high: milliseconds(3000),
        };
        let mut known = plan.facts[0];
        plan.facts = [
            ("part of the file in the page cache", Unit::Part, Fact::claimed(0.5)),
            (
                "reading from the device",
                Unit::NanosecondsPerByte,
                Fact::assumed(0.05, 2.0, 20.0),
            ),
            ("flushing the device", Unit::Nanoseconds, Fact::measured(1.5e6)),
        ]
        .map(|fact| {
            (known.name, known.unit, known.fact) = fact;
            known
        })
        .to_vec();
        let text = explained("some/method", "it is the fastest", Some(&plan), Some(milliseconds(4)));
        let (text, age) = text.split_once("measured ").unwrap();
        assert_eq!(
            text,
            "some/method: it is the fastest\n  predicted 2.0 ms (1.0 ms to 3.00 s), took 4.0 ms\n  part of the file in the \
             page cache: 50 %, from the system\n  reading from the device: 2.000 (0.050 to 20.000) ns per byte, assumed\n  flushing the device: 1.5 ms, "
        );
        assert!(age.ends_with(" ago\n"), "{age}");
        assert_eq!(explained("identity", "one file", None, None), "identity: one file\n");
    }
}
