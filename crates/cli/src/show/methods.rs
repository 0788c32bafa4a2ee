//! All methods: as a list for this machine, as JSON, and as the page of the documentation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use anstyle::Style;
use seekless_engine::method::{ALIASES, Alias, MECHANISMS, Mechanism, Operation, variants};
use seekless_engine::{Availability, Method, Probe};
use serde_json::{Value, json};

use super::page::Page;
use super::wrap::{columns_of, wrapped};
use super::{BOLD, DIM, GOOD, PLAIN, WARNING};

/// A mechanism's methods with one option each, and whether they are available; the plain one first.
fn tried(mechanism: &'static Mechanism, probe: &mut Probe) -> Vec<(Method, Availability)> {
    let single = variants(mechanism).filter(|method| single_option(method).is_some());
    single.map(|method| (method, probe.availability(&method))).collect()
}

/// The text of the one option in which a method differs from the plain method of its mechanism; empty for the plain
/// one.
fn single_option(method: &Method) -> Option<String> {
    let plain = Method::plain(method.mechanism());
    let (text, plain_text) = (method.to_string(), plain.to_string());
    let is_own = |option: &&str| !plain_text.split(',').any(|other| other == *option);
    match seekless_engine::method::differing_options(&plain, method).len() {
        0 => Some(String::new()),
        1 => text.split(',').find(is_own).map(str::to_owned),
        _ => None,
    }
}

fn platforms(mechanism: &Mechanism) -> Vec<&'static str> {
    mechanism.platforms.iter().map(|platform| platform.name()).collect()
}

fn mechanisms_of(operation: Operation) -> impl Iterator<Item = &'static Mechanism> {
    let mechanisms = MECHANISMS.iter();
    mechanisms.filter(move |mechanism| mechanism.operation == operation)
}

/// The names of the 2014 document, with the methods they stand for.
fn aliases() -> impl Iterator<Item = (&'static Alias, Method)> {
    let aliases = ALIASES.iter();
    aliases.filter_map(|alias| Some((alias, alias.method.parse().ok()?)))
}

/// Lists the mechanisms of the operations, which of their options work here, and the names of 2014.
pub fn list_methods(page: &mut Page<'_>, operations: &[Operation], probe: &mut Probe) -> io::Result<()> {
    let head = "A method is OPERATION/MECHANISM[,OPTION...]; + works in this directory, - does not.";
    page.say(DIM, head)?;
    for &operation in operations {
        writeln!(page)?;
        for mechanism in mechanisms_of(operation) {
            list_mechanism(page, mechanism, probe)?;
        }
    }
    writeln!(page, "\n{BOLD}Names of the 2014 document{BOLD:#}")?;
    for (alias, method) in aliases().filter(|(_, method)| operations.contains(&method.operation())) {
        let availability = probe.availability(&method);
        list_method(page, alias.name, &method, &availability)?;
    }
    Ok(())
}

/// Lists a method by a name, which may be an old one.
pub fn list_method(page: &mut Page<'_>, name: &str, method: &Method, availability: &Availability) -> io::Result<()> {
    let (style, mark) = mark(availability);
    let method = Some(method.to_string()).filter(|method| method != name);
    let method = method.as_deref().unwrap_or_default();
    if NAMES + columns_of(method) <= page.width().columns() || method.is_empty() {
        let line = format!("{name:<width$}  {method}", width = NAMES - 4);
        writeln!(page, "{style}{mark}{style:#} {}", line.trim_end())?;
    } else {
        writeln!(page, "{style}{mark}{style:#} {name}")?;
        page.indented(DIM, "    ", 4, method)?;
    }
    match availability.reason() {
        Some(reason) => page.indented(DIM, "    ", 4, &format!("not available here: {reason}")),
        None => Ok(()),
    }
}

/// The column of the methods behind old names.
const NAMES: usize = 44;

/// All methods with at most one option, and those with old names, by their names.
pub fn tried_methods() -> impl Iterator<Item = (String, Method)> {
    let single = MECHANISMS.iter().flat_map(variants);
    let single = single.filter(|method| single_option(method).is_some());
    let named = single.map(|method| (method.to_string(), method));
    named.chain(aliases().map(|(alias, method)| (alias.name.to_owned(), method)))
}

/// Lists what works on one screen: for each operation the names of its mechanisms, and their options.
pub fn summarize_methods(page: &mut Page<'_>, probe: &mut Probe) -> io::Result<()> {
    let head = "Works in this directory, as OPERATION/MECHANISM[,OPTION...]; most take block=SIZE, too.";
    page.say(DIM, head)?;
    for operation in Operation::ALL {
        let (mut names, mut missing) = (Vec::new(), Vec::new());
        let mut options = Vec::<(String, Vec<String>)>::new();
        for mechanism in mechanisms_of(operation) {
            let tried = tried(mechanism, probe);
            let works = |(_, availability): &&(Method, Availability)| availability.reason().is_none();
            if tried.first().as_ref().is_some_and(works) {
                names.push(mechanism.name);
            } else {
                missing.push(mechanism.name);
            }
            for (method, _) in tried.iter().skip(1).filter(works) {
                add_option(&mut options, &single_option(method).unwrap_or_default());
            }
        }
        page.labelled(BOLD, &format!("{operation}/"), SUMMARY_AT, &names.join(" "))?;
        let words = options.into_iter().map(|(key, values)| {
            let equals = if values.is_empty() { "" } else { "=" };
            format!("{key}{equals}{}", values.join("|"))
        });
        page.labelled(GOOD, "  with", SUMMARY_AT, &words.collect::<Vec<_>>().join(" "))?;
        if !missing.is_empty() {
            page.labelled(WARNING, "  not", SUMMARY_AT, &missing.join(" "))?;
        }
    }
    writeln!(page)?;
    let all = "each mechanism with its options, and what is missing";
    page.labelled(PLAIN, "seekless methods --all", 28, all)?;
    page.labelled(PLAIN, "seekless methods --direct", 28, "the methods with an option")?;
    page.labelled(PLAIN, "seekless methods read/mmap", 28, "one method")
}

/// The column in which names and options begin.
const SUMMARY_AT: usize = 9;

/// Adds an option once, with the other values of its key.
fn add_option(options: &mut Vec<(String, Vec<String>)>, option: &str) {
    let (key, value) = option.split_once('=').unwrap_or((option, ""));
    let at = options.iter().position(|(known, _)| known == key).unwrap_or_else(|| {
        options.push((key.to_owned(), Vec::new()));
        options.len() - 1
    });
    let values = &mut options[at].1;
    if !value.is_empty() && !values.iter().any(|known| known == value) {
        values.push(value.to_owned());
    }
}

/// A sign for available or not.
pub fn mark(availability: &Availability) -> (Style, &'static str) {
    match availability {
        Availability::Available => (GOOD, "+"),
        Availability::Unavailable(_) => (WARNING, "-"),
    }
}

/// The column of a mechanism's description, and the indent of the lines below its name.
const ABOUT_AT: usize = 25;
const DETAILS_AT: usize = 12;

fn list_mechanism(page: &mut Page<'_>, mechanism: &'static Mechanism, probe: &mut Probe) -> io::Result<()> {
    let tried = tried(mechanism, probe);
    let Some((plain, availability)) = tried.first() else {
        return Ok(());
    };
    let (style, sign) = mark(availability);
    let name = format!("{}/{}", mechanism.operation, mechanism.name);
    let about = wrapped(ABOUT_AT, mechanism.about, page.width());
    writeln!(page, "{style}{sign}{style:#} {BOLD}{name:<22}{BOLD:#} {about}")?;
    let mut detail = |style: Style, word: &str, text: &str| {
        let text = wrapped(DETAILS_AT, text, page.width());
        writeln!(page, "    {style}{word:<7}{style:#} {text}")
    };
    if let Some(reason) = availability.reason() {
        return detail(WARNING, "because", reason);
    }
    let default = format!("{plain} ({})", platforms(mechanism).join(", "));
    detail(DIM, "default", &default)?;
    let mut works = Vec::new();
    let mut missing = BTreeMap::<&str, Vec<String>>::new();
    for (method, availability) in &tried[1..] {
        let option = single_option(method).unwrap_or_default();
        match availability.reason() {
            None => works.push(option),
            Some(reason) => missing.entry(reason).or_default().push(option),
        }
    }
    if mechanism.operation == Operation::Compare {
        // `identity` and `holes` of comparisons need no test: they only switch off a default.
        works.extend(["holes=ignore", "identity=ignore"].map(str::to_owned));
    }
    if !works.is_empty() {
        detail(GOOD, "with", &works.join(" "))?;
    }
    let mut missing = missing.into_iter();
    missing.try_for_each(|(reason, options)| detail(WARNING, "without", &format!("{}: {reason}", options.join(" "))))
}

/// A method and its availability, as JSON.
pub fn method_json(method: &Method, availability: &Availability) -> Value {
    let reason = availability.reason();
    json!({"method": method.to_string(), "available": reason.is_none(), "reason": reason})
}

/// The same as JSON: every mechanism, with its tested methods.
pub fn methods_json(operations: &[Operation], probe: &mut Probe) -> Value {
    let listed = |mechanism| {
        let aliases = aliases().filter(|(_, method)| method.mechanism() == mechanism);
        let tried = tried(mechanism, probe);
        json!({
            "mechanism": format!("{}/{}", mechanism.operation, mechanism.name),
            "about": mechanism.about,
            "platforms": platforms(mechanism),
            "options": mechanism.options_in_words(),
            "overlapping": mechanism.overlapping,
            "aliases": aliases.map(|(alias, _)| alias.name).collect::<Vec<_>>(),
            "methods": tried.iter().map(|(method, tried)| method_json(method, tried)).collect::<Vec<_>>(),
        })
    };
    let asked = |mechanism: &&Mechanism| operations.contains(&mechanism.operation);
    MECHANISMS.iter().filter(asked).map(listed).collect()
}

/// The documentation page on methods, from the same tables.
pub fn methods_page() -> String {
    let mut page = include_str!("methods-head.md").to_owned();
    for operation in Operation::ALL {
        let _ = writeln!(page, "\n## {operation}\n");
        page.push_str(
            "| mechanism | what it does | options | default | overlaps | where |\n|---|---|---|---|---|---|\n",
        );
        for mechanism in mechanisms_of(operation) {
            let default = Method::plain(mechanism);
            let _ = writeln!(
                page,
                "| `{operation}/{}` | {} | {} | `{}` | {} | {} |",
                mechanism.name,
                mechanism.about,
                mechanism.options_in_words().replace('|', "\\|"),
                default,
                if mechanism.overlapping { "yes" } else { "no" },
                platforms(mechanism).join(", "),
            );
        }
    }
    page.push_str(include_str!("methods-options.md"));
    page.push_str("\n| name | year | list | here | note |\n|---|---|---|---|---|\n");
    for alias in ALIASES {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | `{}` | {} |",
            alias.name, alias.document, alias.listed, alias.method, alias.note
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_documentation_is_the_one_generated() {
        let kept = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/methods.md"));
        assert!(
            kept == methods_page(),
            "run `cargo run -- generate methods > docs/methods.md`"
        );
    }

    #[test]
    fn options_are_told_from_the_plain_method() {
        let option = |text: &str| single_option(&text.parse().unwrap());
        assert_eq!(option("read/sync"), Some(String::new()));
        assert_eq!(option("read/sync,direct"), Some("direct".to_owned()));
        assert_eq!(
            option("write/mmap,preallocate=both"),
            Some("preallocate=both".to_owned())
        );
        assert_eq!(option("read/sync,direct,hint=sequential"), None);
    }
}
