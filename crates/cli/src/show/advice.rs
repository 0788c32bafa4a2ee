//! Advice on a terminal and as JSON, and profiles.

use std::io::{self, Write};
use std::path::Path;

use seekless_engine::advice::{FileAdvice, Question};
use seekless_engine::method::format_size;
use seekless_engine::method::{Durability, Method, Operation};
use seekless_engine::plan::{FILES_OF_SCAN, NamedFact, Plan, Predicted, SizeTimes, Source, shared_gap_bytes};
use seekless_engine::profile::StorageProfile;
use seekless_record::{Cache, Conditions, Target, UseSummary};
use seekless_report::{ProfilePlot, profile_to_html};
use seekless_results::{bytes, counted, thousands, times, visible};
use serde_json::{Value, json};

use super::curve::show_curve;
use super::escape::{shortened, visible_path, with_path};
use super::page::Page;
use super::table::{aligned, widths_of};
use super::units::seconds;
use super::wrap::columns_of;
use super::{BOLD, DIM, GOOD, PLAIN, WARNING};

/// Set-up is shown if it is at least this part of the time.
const SETUP_TOLD: f64 = 0.01;
/// How many other methods are shown.
const OTHERS_SHOWN: usize = 4;

/// Shows the answer: the method, its time, why, and what else there is. `languages` have a program for the method.
pub fn show_advice(
    page: &mut Page<'_>,
    asked: &Question<'_>,
    advice: &FileAdvice,
    languages: &[&str],
) -> io::Result<()> {
    let method = advice.plan.method;
    page.say(DIM, &title(asked, advice))?;
    page.labelled(GOOD, "Use", 9, &method.to_string())?;
    let setup = advice.setup.as_secs_f64();
    let is_told = setup >= SETUP_TOLD * advice.plan.predicted.value.as_secs_f64();
    let setup = if is_told && setup > 0.0 {
        format!(", of that {} set-up", seconds(setup))
    } else {
        String::new()
    };
    page.labelled(
        BOLD,
        "Takes",
        9,
        &format!("{}{setup}", time_with_bounds(&advice.plan.predicted)),
    )?;
    if let Some(method) = advice.for_many {
        let about = format!("{method}, if prepared once for many files: --many");
        page.labelled(BOLD, "Or", 9, &about)?;
    }
    page.labelled(BOLD, "Because", 9, &visible(&advice.plan.reason.to_string()))?;
    show_others(page, method, advice)?;
    if SizeTimes::changes(&advice.curve).nth(1).is_some() {
        show_curve(page, 9, &advice.curve, advice.bytes)?;
    }
    let about = method.mechanism().about;
    let program = match languages {
        [] => String::new(),
        [one] => format!("; print a program: --code {one}"),
        [first @ .., last] => format!("; print a program: --code {} or {last}", first.join(", ")),
    };
    page.labelled(BOLD, "By hand", 9, &format!("{about}{program}"))?;
    show_basis(page, asked, advice)
}

/// What is done to what, as in `read big.iso, 1.00 GiB, not in the page cache`.
fn title(asked: &Question<'_>, advice: &FileAdvice) -> String {
    let state = match asked.operation {
        Operation::Write => String::new(),
        _ if advice.resident <= 0.0 => ", not in the page cache".to_owned(),
        _ => format!(", {:.0} % in the page cache", 100.0 * advice.resident),
    };
    let updates = asked.updates.map_or_else(String::new, |(count, each)| {
        format!(", {} of {}", counted(count, "update"), bytes(each))
    });
    let many = match asked.files {
        ..=1 => String::new(),
        files => format!("{} files of ", thousands(files)),
    };
    let (operation, path, size) = (asked.operation, visible_path(asked.path), bytes(advice.bytes));
    format!("{operation} {path}, {many}{size}{state}{updates}")
}

/// Shows what the answer rests on, if that is less than figures of this storage, and what to measure next.
fn show_basis(page: &mut Page<'_>, asked: &Question<'_>, advice: &FileAdvice) -> io::Result<()> {
    if let Err(why) = &advice.profile {
        let why = format!("none: {}", visible(&shortened(&why.to_string())));
        page.labelled(BOLD, "Profile", 9, &why)?;
    }
    let found = advice.profile.as_ref().ok();
    let is_uncovered = !advice.is_measured && advice.resident > 0.0;
    if let Some(why) = found.filter(|_| is_uncovered).and_then(|found| found.without_warm) {
        let why = format!("figures of cached files in the profile: {why}");
        page.labelled(BOLD, "Left out", 9, &why)?;
    }
    let borrowed = found.is_some_and(|found| found.is_borrowed());
    let is_off =
        |uses: &&UseSummary| found.is_some_and(|found| found.is_off(uses)) && predicts(uses.conditions, asked, advice);
    if let Some(off) = advice.uses.iter().find(is_off) {
        let (uses, title) = (counted(off.uses, "use"), subject_title(off.conditions));
        let about = format!(
            "the profile no longer predicts: the last {uses} ({title}) took {:.1} times as long as predicted ({:.1} to {:.1}), so \
             the bounds are wider",
            off.median, off.low, off.high
        );
        page.labelled(WARNING, "In use", 9, &about)?;
        return page.labelled(BOLD, "Next", 9, &next_bench(asked, advice.bytes));
    }
    if advice.is_measured && !borrowed {
        return Ok(());
    }
    let certainty = if advice.is_measured {
        "the times were measured on another storage, so their bounds are wider".to_owned()
    } else {
        certainty(&advice.plan, &advice.alternatives)
    };
    page.labelled(BOLD, "How sure", 9, &certainty)?;
    page.labelled(BOLD, "Next", 9, &next_bench(asked, advice.bytes))
}

/// Whether a plan for a question has these conditions, and rests on the profile.
fn predicts(conditions: Conditions, asked: &Question<'_>, advice: &FileAdvice) -> bool {
    let is_alike = conditions.operation == asked.operation && advice.plan.reason.sittings().is_some();
    match asked.operation {
        Operation::Update => is_alike,
        Operation::Write => is_alike && conditions.durability == asked.durability,
        _ => {
            let cache = if advice.resident >= 0.5 {
                Cache::Warm
            } else {
                Cache::Cold
            };
            is_alike && (conditions.cache, conditions.durability) == (cache, asked.durability)
        }
    }
}

/// How sure a plan is that rests on costs. `considered` are the methods that it chose from, the fastest first.
fn certainty(plan: &Plan, considered: &[(Method, Predicted)]) -> String {
    let fastest = considered.first().map_or(plan.predicted, |(_, predicted)| *predicted);
    let is_fastest = plan.predicted.value <= fastest.value;
    let method = match considered.len() {
        _ if !is_fastest && plan.method.operation() == Operation::Update => {
            "the method may not be the fastest of these: writing more only to save a little time wears the device, and counts against a method"
        }
        0 | 1 => "no profile covers this case; without one, only this method is considered here",
        _ if plan.is_certain => "the method would be the same at every plausible cost",
        _ if !is_fastest => "the method is simpler than the fastest of these, and takes hardly longer",
        _ => "the method is the best of these by the costs here",
    };
    let is_known = |known: &NamedFact| known.fact.source != Source::Assumed;
    let is_of_profile = |known: &NamedFact| known.fact.source == Source::Profile;
    let time = if plan.facts.iter().any(is_of_profile) {
        "the time is computed from the costs in the profile"
    } else if plan.facts.iter().all(is_known) {
        "the time is computed from costs that were measured here within a day"
    } else {
        "the time is only an order of magnitude, as not all costs were measured"
    };
    format!("{method}; {time}")
}

/// The directory of a file, or the directory itself.
pub fn directory_of(path: &Path) -> &Path {
    let directory = if path.is_dir() { Some(path) } else { path.parent() };
    let named = directory.filter(|path| !path.as_os_str().is_empty());
    named.unwrap_or(Path::new("."))
}

/// The command that measures the methods, and what that is.
fn next_bench(asked: &Question<'_>, size_bytes: u64) -> String {
    let directory = visible_path(directory_of(asked.path));
    let operation = asked.operation;
    // The built-in experiments write and copy with fsync.
    let is_measured = match operation {
        Operation::Write | Operation::Copy => asked.durability == Durability::Fsync,
        Operation::Update => {
            return format!("seekless bench update --dir {directory} --budget 1m  (compares update methods)");
        }
        Operation::Read | Operation::Compare | Operation::Scan => true,
    };
    let size = format_size(size_bytes);
    let measure = format!("seekless bench {operation} --dir {directory} --size {size} --budget 1m");
    if is_measured {
        format!("{measure}  (measures all methods on this storage)")
    } else {
        format!("{measure}  (measures with fsync only; the result answers only --durability fsync)")
    }
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

/// The answer as JSON: times in seconds, sizes in bytes.
pub fn advice_json(asked: &Question<'_>, advice: &FileAdvice) -> Value {
    let time = |predicted: &Predicted| {
        json!({
            "low_seconds": predicted.low.as_secs_f64(),
            "seconds": predicted.value.as_secs_f64(),
            "high_seconds": predicted.high.as_secs_f64(),
        })
    };
    let others = advice.alternatives.iter();
    let others =
        others.map(|(method, predicted)| json!({ "method": method.to_string(), "predicted": time(predicted) }));
    let (measured, considered) = others.partition::<Vec<Value>, _>(|_| advice.is_measured);
    let changes = SizeTimes::changes(&advice.curve);
    let sizes = changes.map(|size| {
        json!({ "from_bytes": size.bytes, "method": size.method.to_string(), "over_plain": size.of(&size.method) })
    });
    let used: Vec<Method> = SizeTimes::changes(&advice.curve).map(|size| size.method).collect();
    let curve = advice.curve.iter().map(|size| {
        let ratios = size.over_plain.iter().filter(|(method, _)| used.contains(method));
        let ratios = ratios.map(|(method, ratio)| (method.to_string(), json!(ratio)));
        json!({ "bytes": size.bytes, "over_plain": ratios.collect::<serde_json::Map<_, _>>() })
    });
    let object = json!({
        "operation": asked.operation.name(),
        "files": asked.files,
        "bytes": advice.bytes,
        "resident": advice.resident,
        "method": advice.plan.method.to_string(),
        "otherwise": advice.plan.otherwise.to_string(),
        "predicted": time(&advice.plan.predicted),
        "setup_seconds": advice.setup.as_secs_f64(),
        "for_many": advice.for_many.map(|method| method.to_string()),
        "because": advice.plan.reason.to_string(),
        "measured": measured,
        "considered": considered,
        "updates": asked.updates.map(|(count, bytes)| json!({ "count": count, "bytes": bytes })),
        "sizes": sizes.collect::<Value>(),
        "curve": curve.collect::<Value>(),
        "profile": advice.profile.as_ref().ok().map(|found| profile_json(found)),
        "uses": advice.uses,
        "no_profile": advice.profile.as_ref().err().map(|why| shortened(&why.to_string()).into_owned()),
    });
    with_path(object, "path", Some(asked.path))
}

/// What a profile rests on, as JSON.
pub fn profile_json(found: &StorageProfile) -> Value {
    let object = json!({
        "sittings": found.head.sittings,
        "age_seconds": found.age().map(|age| age.as_secs()),
        "kernel": found.head.storage.kernel,
        "borrowed_from": found.borrowed_from(),
        "curve_count": found.profile().curves.len(),
    });
    with_path(object, "file", Some(&found.path))
}

/// Shows what a profile says: for each subject, which methods win from which size on.
pub fn show_profile(page: &mut Page<'_>, found: &StorageProfile, uses: &[UseSummary]) -> io::Result<()> {
    for (name, fact) in profile_facts(found) {
        page.labelled(BOLD, name, 9, &visible(&fact))?;
    }
    let line = |size: &SizeTimes| {
        let ratio = size.of(&size.method).map_or_else(String::new, times);
        let from = format!("from {}", bytes(size.bytes));
        vec![from, time_with_bounds(&size.predicted), ratio]
    };
    let subjects = subjects(found);
    let all = subjects.iter().flat_map(|subject| SizeTimes::changes(&subject.curve));
    let heads = ["File size", "Time (95 % bounds)", "vs simplest"]
        .map(str::to_owned)
        .to_vec();
    let lines: Vec<Vec<String>> = all.map(line).collect();
    let widths = widths_of(lines.iter().chain([&heads]));
    let columns = |cells: &[String]| format!("  {}", aligned(cells, &widths, |column| column != 2));
    if !subjects.is_empty() {
        writeln!(page)?;
        page.say(BOLD, &format!("{}Method", columns(&heads)))?;
    }
    let mut lines = lines.iter();
    for (index, subject) in subjects.iter().enumerate() {
        if index > 0 {
            writeln!(page)?;
        }
        page.say(BOLD, &subject.title)?;
        for (choice, line) in SizeTimes::changes(&subject.curve).zip(&mut lines) {
            let head = columns(line);
            page.indented(PLAIN, &head, columns_of(&head), &choice.method.to_string())?;
        }
    }
    show_uses(page, found, uses)
}

/// Shows what plans predicted and what their uses took.
fn show_uses(page: &mut Page<'_>, found: &StorageProfile, uses: &[UseSummary]) -> io::Result<()> {
    if uses.is_empty() {
        return Ok(());
    }
    let line = |summary: &UseSummary| {
        let title = subject_title(summary.conditions);
        let basis = if summary.sitting_unix_seconds.is_none() {
            " (planned without the profile)"
        } else {
            ""
        };
        let range = format!("{:.2} to {:.2}", summary.low, summary.high);
        let count = format!("last {}", counted(summary.uses, "use"));
        vec![
            title,
            count,
            format!("{:.2}", summary.median),
            format!("{range}{basis}"),
        ]
    };
    let lines: Vec<Vec<String>> = uses.iter().map(line).collect();
    let widths = widths_of(&lines);
    writeln!(page)?;
    page.say(BOLD, "In use: actual / predicted time, median and middle 80 %")?;
    for (summary, line) in uses.iter().zip(&lines) {
        let style = if found.is_off(summary) { WARNING } else { PLAIN };
        page.say(
            style,
            &format!("  {}", aligned(line, &widths, |column| column != 2).trim_end()),
        )?;
    }
    if uses.iter().any(|summary| found.is_off(summary)) {
        page.say(
            WARNING,
            "The profile no longer predicts some uses; `seekless bench` measures these first.",
        )?;
    }
    Ok(())
}

/// What a profile is of, and what it rests on.
fn profile_facts(found: &StorageProfile) -> Vec<(&'static str, String)> {
    let profile = &found.head;
    let names: Vec<&str> = (profile.storage.devices.iter())
        .map(|device| device.model.as_ref().unwrap_or(&device.name).as_str())
        .collect();
    let sittings = counted(profile.sittings.into(), "sitting");
    let age = match found.age().map(|age| age.as_secs() / 86400) {
        None => "dated in the future".to_owned(),
        Some(0) => "today".to_owned(),
        Some(days) => format!("{} ago", counted(days, "day")),
    };
    let storage = [vec![profile.storage.file_system.as_str()], names].concat();
    let storage = storage.join(" on ");
    let storage = format!("{storage}; Linux {}", profile.storage.kernel);
    let newest = if profile.sittings == 1 { "" } else { "the newest " };
    let curves = counted(found.profile().curves.len() as u64, "curve");
    let measured = format!("{sittings}, {newest}{age}, {curves}");
    let mut facts = vec![
        ("Storage", storage),
        ("Measured", measured),
        ("File", found.path.display().to_string()),
    ];
    let shared = [(1.0, "cold"), (0.0, "warm")].map(|(absent, state)| {
        let gap_bytes = shared_gap_bytes(found, Durability::Fsync, absent)?;
        Some(format!("{} ({state})", bytes(gap_bytes)))
    });
    if let [Some(cold), Some(warm)] = shared {
        let words =
            format!("with fsync, those up to {cold} or {warm} apart share a write; those further apart take one each");
        facts.push(("Updates", words));
    }
    facts.extend(found.borrowed_from().map(|name| {
        let about = format!("from a profile of {name}, for storages of this kind without one; bounds are wider");
        ("Borrowed", about)
    }));
    let left_out = |why| ("Left out", format!("figures of cached files: {why}"));
    facts.extend(found.without_warm.map(left_out));
    facts
}

/// What is asked of a profile, with the methods that win.
struct ProfileSubject {
    title: String,
    conditions: Conditions,
    curve: Vec<SizeTimes>,
}

/// Conditions in words, as in `read, cold`.
fn subject_title(conditions: Conditions) -> String {
    let Conditions {
        operation,
        cache,
        durability,
        ..
    } = conditions;
    let of_files = match operation {
        Operation::Scan => format!(" of {} files", thousands(FILES_OF_SCAN)),
        _ => String::new(),
    };
    let state = match cache {
        Cache::Cold => ", cold",
        Cache::None if operation == Operation::Write => ", new file",
        Cache::None => "",
        _ => ", warm",
    };
    let promise = match durability {
        Durability::None => String::new(),
        _ => format!(", {durability}"),
    };
    format!("{operation}{of_files}{state}{promise}")
}

fn subjects(found: &StorageProfile) -> Vec<ProfileSubject> {
    let mut subjects = Vec::new();
    for operation in Operation::ALL {
        let is_write = operation == Operation::Write;
        let states: &[_] = if is_write {
            &[(0.0, Cache::None)]
        } else {
            &[(0.0, Cache::Cold), (1.0, Cache::Warm)]
        };
        for durability in Durability::ALL {
            for &(part, cache) in states {
                let curve = seekless_engine::plan::curve(found, operation, durability, part);
                let conditions = Conditions {
                    operation,
                    cache,
                    target: Target::Fresh,
                    durability,
                };
                if !curve.is_empty() {
                    subjects.push(ProfileSubject {
                        title: subject_title(conditions),
                        conditions,
                        curve,
                    });
                }
            }
        }
    }
    subjects
}

/// The page of a profile with its curves.
pub fn profile_page(found: &StorageProfile) -> String {
    let profile = found.profile();
    let plots = subjects(found).into_iter().map(|subject| {
        let used = SizeTimes::changes(&subject.curve).map(|size| (size.bytes, size.method.to_string()));
        ProfilePlot {
            used: used.collect(),
            title: subject.title,
            conditions: subject.conditions,
        }
    });
    profile_to_html(&profile, &profile_facts(found), &plots.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seekless_engine::facts::{Facts, FileFacts, ProcessFacts};
    use seekless_engine::plan::Task;

    use super::*;

    #[test]
    fn how_sure_a_plan_is_depends_on_the_methods_that_were_compared_and_on_their_times() {
        let facts = Facts::assumed([FileFacts::default(); 2], ProcessFacts::without_rings());
        let task = Task {
            bytes: 1 << 30,
            files: 1,
            durability: Durability::None,
        };
        let mut plan = seekless_engine::plan::plan(Operation::Read, &task, &facts);
        plan.is_certain = false;
        let others = |methods: &[&str], milliseconds: u64| -> Vec<(Method, Predicted)> {
            let value = plan.predicted.value + Duration::from_millis(milliseconds);
            let predicted = Predicted {
                value,
                ..plan.predicted
            };
            methods.iter().map(|text| (text.parse().unwrap(), predicted)).collect()
        };
        let only = certainty(&plan, &others(&["read/sync"], 0));
        assert!(
            only.starts_with("no profile covers this case") && only.ends_with("not all costs were measured"),
            "{only}"
        );
        let best = certainty(&plan, &others(&["read/sync", "read/mmap"], 1));
        assert!(best.starts_with("the method is the best of these"), "{best}");
        let mut slower = plan.clone();
        slower.predicted.value *= 2;
        let behind = others(&["read/sync", "read/mmap"], 0);
        assert!(certainty(&slower, &behind).starts_with("the method is simpler than the fastest"));
        slower.method = "update/sync".parse().unwrap();
        assert!(certainty(&slower, &behind).starts_with("the method may not be the fastest"));
        slower.is_certain = true;
        slower.predicted = plan.predicted;
        assert!(certainty(&slower, &behind).starts_with("the method would be the same"));
    }
}
