//! Pages of words: about, the API, errors, and the form that compares.

use maud::{Markup, PreEscaped, html};
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
    PreEscaped(include_str!("about.html").to_owned())
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

/// A text of the description, with code between backticks.
fn text(value: &Value) -> Markup {
    let parts = value.as_str().unwrap_or_default().split('`').enumerate();
    html! { @for (at, part) in parts { @if at % 2 == 1 { code { (part) } } @else { (part) } } }
}
