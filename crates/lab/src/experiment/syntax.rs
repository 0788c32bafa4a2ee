//! What the TOML parser finds wrong, in words that say what to write.

use std::ops::Range;

use seekless_engine::method::did_you_mean;

use super::error::nearest;

/// Each key with a value that it takes.
const EXAMPLES: [&str; 38] = [
    "name = \"mine\"",
    "about = \"what it finds out\"",
    "[[contest]]",
    "operation = \"read\"",
    "methods = [\"*/mmap*\"]",
    "blocks = [\"64K\", \"1M\"]",
    "sizes = [\"64M\"]",
    "files = 100",
    "tree = \"/usr\"",
    "cache = [\"cold\", \"warm\"]",
    "layout = [\"fragmented\"]",
    "memory = \"512M\"",
    "differ = [\"none\", \"last\"]",
    "read-ahead-kib = [0, 128]",
    "updates = { bytes = 4, every = 400, draw = \"shuffled\" }",
    "bytes = 4",
    "every = 400",
    "draw = \"shuffled\"",
    "sustained = true",
    "target = \"overwrite\"",
    "kernel = \"lines\"",
    "work = 100",
    "[[contest.command]]",
    "argv = [\"cat\", \"{file}\"]",
    "before = [\"cp\", \"{file}\", \"{target}\"]",
    "exit-code = \"verdict\"",
    "same-output = true",
    "optional = true",
    "note = \"what to know about it\"",
    "[[published]]",
    "source = \"title, author, year\"",
    "machine = \"what it was measured on\"",
    "[[published.finding]]",
    "[[column]]",
    // Of the user's configuration.
    "budget = \"2m\"",
    "runs = \"/data/seekless\"",
    "color = \"never\"",
    "hub = \"https://hub.example.org\"",
];

fn key_of(example: &str) -> &str {
    let key = example.trim_matches(['[', ']']).split(" = ").next().unwrap_or(example);
    key.rsplit('.').next().unwrap_or(key)
}

fn example(key: &str) -> Option<&'static str> {
    EXAMPLES.into_iter().find(|example| key_of(example) == key)
}

/// The parser's message about a span of a text.
pub(super) fn explained(text: &str, span: Range<usize>, message: &str) -> String {
    let quoted = |from: &str| from.split('`').nth(1).unwrap_or_default().to_owned();
    let such_as =
        |key: &str| example(key).map_or_else(String::new, |example| format!("; write, for example, `{example}`"));
    if let Some((_, keys)) = message
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split_once("`, expected "))
    {
        let (given, keys): (_, Vec<&str>) = (quoted(message), keys.split('`').skip(1).step_by(2).collect());
        let nearest = did_you_mean(&nearest(&given, keys.iter().copied()));
        return format!("unknown key `{given}`{nearest}; the keys are {}", keys.join(", "));
    }
    if message.starts_with("missing field") {
        let key = quoted(message);
        return format!("the key `{key}` is missing{}", such_as(&key));
    }
    let wrong = ["invalid type: ", "invalid value: "];
    let wrong = wrong.iter().find_map(|start| message.strip_prefix(start));
    match (
        wrong.and_then(|wrong| wrong.split_once(", expected ")),
        key_at(text, span),
    ) {
        (Some((given, _)), Some(key)) if example(key).is_some() => format!("`{key}` cannot be {given}{}", such_as(key)),
        _ => message.replace('\n', "; "),
    }
}

/// The key of the value at a span: the text before the last `=` that comes before it, or the name of a table.
fn key_at(text: &str, span: Range<usize>) -> Option<&str> {
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let at = text.get(span.start..)?;
    if at.starts_with('[') && text[..span.start].ends_with(['\n']) {
        return Some(key_of(at.lines().next()?.trim()));
    }
    let before = text.get(..span.start)?.rsplit_once('=')?.0.trim_end();
    before.rsplit(|c| !is_of_key(c)).next()
}
