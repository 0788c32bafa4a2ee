//! Pages of words: about, the API, errors, and the form that compares.

use maud::{Markup, html};
use serde_json::Value;

use crate::api::Pair;
use crate::problem::Problem;

/// The page of an error.
pub fn problem(problem: &Problem) -> Markup {
    html! {
        header { h1 { (problem.title) } }
        main { p { "Error " (problem.status) ": " (problem.detail) "." } p { a href="/" { "To the start" } } }
    }
}

/// The form that asks for two runs.
pub fn compare_form(asked: &Pair) -> Markup {
    html! {
        header { h1 { "Compare two runs" } p { "What changed from one to the other: both need contests in common." } }
        main {
            form.filter action="/compare" method="get" {
                @for (name, about, value) in [("a", "the earlier run", &asked.a), ("b", "the later run", &asked.b)] {
                    label { (about) input name=(name) value=(value) required pattern="[0-9a-f]{32}" maxlength="32" size="34"
                        title="The ID of a run: 32 hexadecimal digits"; }
                }
                button type="submit" { "Compare" }
            }
            p { "IDs are in the list of " a href="/runs" { "runs" } "." }
        }
    }
}

/// What counts, what is kept apart and why, privacy, withdrawal.
pub fn about() -> Markup {
    let section = |id: &str, title: &str, sentences: &[&str]| {
        html! { section id=(id) { h2 { (title) } @for sentence in sentences { p { (sentence) } } } }
    };
    html! {
        header { h1 { "About this hub" } p { "Results of file I/O, measured by seekless on many machines, with every sample." } }
        main {
            (section("counts", "What counts", &[
                "A run counts if it is complete and nothing speaks against it. Its verdicts are computed again from its samples.",
                "Methods are compared within a run only: same machine, storage, file and rounds. Over machines, the median of each machine \
                 is taken first, so many runs of one machine count as one.",
                "The method in a cell of the heat map is the one with the smallest median ratio to the best, of those that at least half as \
                 many machines measured as any. Figures of fewer than three machines are shown and marked: they are no trend.",
                "A sitting is a day of a machine. A revision is that of the trials and of the methods: figures of different revisions are \
                 not mixed, and the newest is shown unless another is chosen.",
                "A new winner by size needs the old one to be more than 3 % slower. Ranges are the middle half of the machines.",
            ]))
            section id="apart" {
                h2 { "What is kept apart" }
                p { "Such runs can be read and compared, but are in no figure of other pages:" }
                dl.apart {
                    @for (mark, why) in [
                        ("busy", "other processes used the machine"),
                        ("unfinished", "it ended before each method had its rounds"),
                        ("throttled", "the device's speed was limited by somebody, as that of virtual disks is"),
                        ("copied samples", "the same times occur again, in this run or in another"),
                        ("faster than memory", "more bytes per second than the machine's memory takes"),
                        ("verdicts differ", "its verdicts do not follow from its samples"),
                        ("simulated", "the disk does not exist; it is shown if the kind is chosen, never among others"),
                    ] { div { dt { (mark) } dd { (why) } } }
                }
            }
            (section("privacy", "Privacy", &[
                "A run is refused unless it is anonymous: no names of hosts, users, paths or programs, no serial numbers, and the day instead \
                 of the time. It has figures, methods, the file system, the kernel's version, and the processor's and the disk's model if \
                 their makers are known.",
                "A machine is told apart by a pseudonym that is made for this hub alone. There are no accounts and no cookies.",
            ]))
            section id="share" {
                h2 { "Sharing and withdrawing" }
                p { code { "seekless runs share" } " shows what would be sent, and asks. It keeps a receipt with a secret, by which "
                    code { "seekless runs share --withdraw" } " removes the run from this hub." }
                p { "All data can be had by the " a href="/api" { "API" } ", also as a whole." }
            }
        }
    }
}

/// The page of an API by its description, an `OpenAPI` document, with examples for a hub at `url`.
pub fn api(document: &Value, url: &str) -> Markup {
    let operations = document["paths"]
        .as_object()
        .into_iter()
        .flatten()
        .flat_map(|(path, methods)| {
            methods
                .as_object()
                .into_iter()
                .flatten()
                .map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
        });
    html! {
        header { h1 { "API" } p { (text(&document["info"]["description"])) " " a href="/api/v1/openapi.json" { "OpenAPI" } } }
        main { @for (path, method, operation) in operations { (described(path, method, operation, url)) } }
    }
}

fn described(path: &str, method: &str, operation: &Value, url: &str) -> Markup {
    let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
    html! {
        section id={(method) (path.replace(|c: char| !c.is_ascii_alphanumeric(), "-"))} {
            h2 { span.m { (method.to_uppercase()) " " (path) } }
            p { (text(&operation["summary"])) " " (text(&operation["description"])) }
            pre { code { (example(path, method, url)) } }
            @if !parameters.is_empty() {
                h3 { "Parameters" }
                dl.apart { @for of in parameters { div { dt { (text(&of["name"])) " (" (text(&of["in"])) ")" } dd { (text(&of["description"])) } } } }
            }
            h3 { "Answers" }
            dl.apart {
                @for (status, answer) in operation["responses"].as_object().into_iter().flatten() {
                    @let kinds: Vec<&str> = answer["content"].as_object().into_iter().flatten().map(|(kind, _)| kind.as_str()).collect();
                    div { dt { (status) } dd { (text(&answer["description"])) @if !kinds.is_empty() { " (" (kinds.join(", ")) ")" } } }
                }
            }
        }
    }
}

fn example(path: &str, method: &str, url: &str) -> String {
    let path = path.replace("{id}", "ID").replace("{kind}", "nvme");
    match method {
        "post" => format!("seekless runs export --anonymous latest | curl --json @- {url}{path}"),
        "delete" => format!("curl -X DELETE -H 'Authorization: Bearer SECRET' {url}{path}"),
        _ if path.ends_with("/compare") => format!("curl '{url}{path}?a=ID&b=ID'"),
        _ => format!("curl --compressed {url}{path}"),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
