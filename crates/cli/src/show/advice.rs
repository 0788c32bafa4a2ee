//! Advice on a terminal and as JSON, and profiles.

use std::io::{self, Write};
use std::path::Path;

use seekless::advice::{FileAdvice, Question};
use seekless::method::{Durability, Method, Operation};
use seekless::plan::{Predicted, SizeChoice};
use seekless::profile::StorageProfile;
use seekless_results::{bytes, times, visible};
use serde_json::{Value, json};

use super::page::{Page, columns_of};
use super::table::{aligned, widths_of};
use super::units::seconds;
use super::visible::{shortened, with_path};
use super::{BOLD, DIM, GOOD, PLAIN};

/// How many other methods are shown.
const OTHERS_SHOWN: usize = 4;

/// Shows the answer: the method, its time, why, and what else there is.
pub fn show_advice(page: &mut Page<'_>, asked: &Question<'_>, advice: &FileAdvice, can_print: bool) -> io::Result<()> {
    let method = advice.plan.method;
    let state = match asked.operation {
        Operation::Write => String::new(),
        _ if advice.resident <= 0.0 => ", not in the page cache".to_owned(),
        _ => format!(", {:.0} % in the page cache", 100.0 * advice.resident),
    };
    let path = visible(&asked.path.display().to_string()).into_owned();
    let title = format!("{} {path}, {}{state}", asked.operation, bytes(advice.bytes));
    page.say(DIM, &title)?;
    page.labelled(GOOD, "Use", 9, &method.to_string())?;
    page.labelled(BOLD, "Takes", 9, &time_with_bounds(&advice.plan.predicted))?;
    page.labelled(BOLD, "Because", 9, &visible(&advice.plan.why))?;
    show_others(page, method, advice)?;
    if advice.choices.len() > 1 {
        page.labelled(BOLD, "Sizes", 9, &sizes_in_words(&advice.choices))?;
    }
    let about = method.mechanism().about;
    let program = if can_print {
        format!("; a program: seekless methods {method} --code python")
    } else {
        String::new()
    };
    page.labelled(BOLD, "By hand", 9, &format!("{about}{program}"))?;
    if let Err(why) = &advice.profile {
        page.labelled(
            BOLD,
            "Profile",
            9,
            &format!("none: {}", visible(&shortened(&why.to_string()))),
        )?;
    }
    // The built-in experiments write and copy with fsync.
    let is_measured =
        asked.durability == Durability::Fsync || !matches!(asked.operation, Operation::Write | Operation::Copy);
    if advice.alternatives.len() < 2 && is_measured {
        let directory = if asked.path.is_dir() {
            Some(asked.path)
        } else {
            asked.path.parent()
        };
        let directory = directory
            .filter(|path| !path.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let directory = visible(&directory.display().to_string()).into_owned();
        let measured = format!("seekless bench {} --dir {directory} --budget 1m", asked.operation);
        page.labelled(BOLD, "Next", 9, &format!("{measured}  (measures this operation here)"))?;
    }
    Ok(())
}

fn show_others(page: &mut Page<'_>, method: Method, advice: &FileAdvice) -> io::Result<()> {
    // As it is used, it may have an option more than it was measured with.
    let others = advice.alternatives.iter().filter(|(other, _)| *other != method);
    let line = |(other, predicted): &(Method, Predicted)| vec![other.to_string(), time_with_bounds(predicted)];
    let lines: Vec<Vec<String>> = others.take(OTHERS_SHOWN).map(line).collect();
    let widths = widths_of(&lines);
    for (index, line) in lines.iter().enumerate() {
        let label = if index == 0 { "Others" } else { "" };
        page.labelled(BOLD, label, 9, aligned(line, &widths, |_| true).trim_end())?;
    }
    Ok(())
}

/// A time, as in `1.2 s (1.0 to 1.5)`.
fn time_with_bounds(predicted: &Predicted) -> String {
    let [low, value, high] = [predicted.low, predicted.value, predicted.high].map(|time| seconds(time.as_secs_f64()));
    format!("{value} ({low} to {high})")
}

/// Which method is used from which size on.
fn sizes_in_words(choices: &[SizeChoice]) -> String {
    let words = choices.iter().enumerate().map(|(index, choice)| {
        let from = match choices.get(index + 1).filter(|_| index == 0) {
            Some(next) => format!("below {}", bytes(next.from_bytes)),
            None => format!("from {}", bytes(choice.from_bytes)),
        };
        format!("{from} {}", choice.method)
    });
    words.collect::<Vec<_>>().join("; ")
}

/// The answer as JSON: times in seconds, sizes in bytes.
pub fn advice_json(asked: &Question<'_>, advice: &FileAdvice) -> Value {
    let time = |predicted: &Predicted| {
        json!({
            "low_seconds": predicted.low.as_secs_f64(),
            "seconds": predicted.value.as_secs_f64(),
            "high_seconds": predicted.high.as_secs_f64(),
        })
    };
    let others = advice
        .alternatives
        .iter()
        .map(|(method, predicted)| json!({ "method": method.to_string(), "predicted": time(predicted) }));
    let sizes = advice.choices.iter().map(|choice| {
        json!({ "from_bytes": choice.from_bytes, "method": choice.method.to_string(), "over_plain": choice.over_plain })
    });
    let object = json!({
        "operation": asked.operation.name(),
        "bytes": advice.bytes,
        "resident": advice.resident,
        "method": advice.plan.method.to_string(),
        "otherwise": advice.plan.otherwise.to_string(),
        "predicted": time(&advice.plan.predicted),
        "because": advice.plan.why,
        "measured": others.collect::<Value>(),
        "sizes": sizes.collect::<Value>(),
        "profile": advice.profile.as_ref().ok().map(|found| profile_json(found)),
        "no_profile": advice.profile.as_ref().err().map(|why| shortened(&why.to_string()).into_owned()),
    });
    with_path(object, "path", Some(asked.path))
}

/// What a profile rests on, as JSON.
pub fn profile_json(found: &StorageProfile) -> Value {
    let object = json!({
        "sittings": found.profile.sittings,
        "age_seconds": found.age().as_secs(),
        "kernel": found.profile.storage.kernel,
        "curve_count": found.profile.curves.len(),
    });
    with_path(object, "file", Some(&found.path))
}

/// Shows what a profile says: for each subject, which methods win from which size on.
pub fn show_profile(page: &mut Page<'_>, found: &StorageProfile) -> io::Result<()> {
    let profile = &found.profile;
    let names: Vec<&str> = (profile.storage.devices.iter())
        .map(|device| device.model.as_ref().unwrap_or(&device.name).as_str())
        .collect();
    let counted = seekless_results::plural(profile.sittings.into(), "sitting", "sittings");
    let days = found.age().as_secs() / 86400;
    let age = if days == 0 {
        "today".to_owned()
    } else {
        format!("{} ago", seekless_results::plural(days, "day", "days"))
    };
    let storage = [vec![profile.storage.file_system.as_str()], names]
        .concat()
        .join(" on ");
    let storage = format!("{storage}; Linux {}", profile.storage.kernel);
    page.labelled(BOLD, "Storage", 9, &visible(&storage))?;
    page.labelled(
        BOLD,
        "Measured",
        9,
        &format!("{counted}, the newest {age}, {} curves", profile.curves.len()),
    )?;
    page.labelled(BOLD, "File", 9, &visible(&found.path.display().to_string()))?;
    if let Some(why) = found.without_warm {
        page.labelled(BOLD, "Left out", 9, &format!("figures of cached files: {why}"))?;
    }
    for subject in subjects(found) {
        writeln!(page)?;
        page.say(BOLD, &subject.title)?;
        let line = |choice: &SizeChoice| {
            let from = format!("from {}", bytes(choice.from_bytes));
            vec![from, time_with_bounds(&choice.predicted), times(choice.over_plain)]
        };
        let lines: Vec<Vec<String>> = subject.choices.iter().map(line).collect();
        let widths = widths_of(&lines);
        for (choice, line) in subject.choices.iter().zip(&lines) {
            let head = format!("  {}", aligned(line, &widths, |column| column != 2));
            page.indented(PLAIN, &head, columns_of(&head), &choice.method.to_string())?;
        }
    }
    Ok(())
}

/// What is asked of a profile, with the methods that win.
struct ProfileSubject {
    title: String,
    choices: Vec<SizeChoice>,
}

fn subjects(found: &StorageProfile) -> Vec<ProfileSubject> {
    let mut subjects = Vec::new();
    for operation in [Operation::Read, Operation::Write, Operation::Copy, Operation::Compare] {
        for durability in Durability::ALL {
            for (part, state) in [(0.0, "cold"), (1.0, "warm")] {
                let is_write = operation == Operation::Write;
                if is_write && part > 0.0 {
                    continue;
                }
                let choices = seekless::plan::choices(found, operation, durability, part);
                let state = if is_write { "new file" } else { state };
                let promise = if durability == Durability::None {
                    String::new()
                } else {
                    format!(", {durability}")
                };
                let title = format!("{operation}, {state}{promise}");
                if !choices.is_empty() {
                    subjects.push(ProfileSubject { title, choices });
                }
            }
        }
    }
    subjects
}
