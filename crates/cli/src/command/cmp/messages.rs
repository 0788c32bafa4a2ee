//! The messages of cmp: GNU's for results that GNU cmp has, FreeBSD's and our own for the others.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use seekless_results::visible;
use seekless_tools::cmp::{ByteDifference, CmpOutcome, CmpVerdict, End, Error, visible_byte};
use serde_json::json;

use super::options::{Arguments, Flag};
use crate::show::{counted, explained, json_line, with_path};

/// The message for a result, on standard output. `is_seen` is whether anybody reads it.
pub(super) fn words(arguments: &Arguments, outcome: &CmpOutcome, is_seen: bool) -> Vec<u8> {
    let names = arguments.request.names.each_ref().map(|name| shown(name.as_bytes()));
    match &outcome.verdict {
        _ if arguments.has(Flag::Silent) => outcome.rows.clone(),
        CmpVerdict::SizesDiffer => line(&[&names[0], b" ", &names[1], b" differ: size"]),
        CmpVerdict::Differ(difference) if is_seen => {
            let place = differ(difference, arguments.has(Flag::PrintBytes));
            line(&[&names[0], b" ", &names[1], &place])
        }
        _ => outcome.rows.clone(),
    }
}

/// A text without control characters. Like GNU cmp, it keeps bytes that are not UTF-8, except those that some terminals
/// obey.
pub(super) fn shown(text: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        shown.extend(visible(chunk.valid()).bytes());
        for &byte in chunk.invalid() {
            match byte {
                0x80..0xa0 => shown.extend(format!("\\x{byte:02x}").bytes()),
                _ => shown.push(byte),
            }
        }
    }
    shown
}

fn line(parts: &[&[u8]]) -> Vec<u8> {
    let mut line = parts.concat();
    line.push(b'\n');
    line
}

fn differ(difference: &ByteDifference, print_bytes: bool) -> Vec<u8> {
    let unit = if print_bytes { "byte" } else { unit() };
    let line_number = difference.line.unwrap_or(1);
    let mut text = format!(" differ: {unit} {}, line {line_number}", difference.offset + 1).into_bytes();
    if print_bytes {
        let shown = |byte| format!(" {byte:>3o} {}", visible_byte(byte));
        let [one, other] = difference.bytes.map(shown);
        text.extend(format!(" is{one}{other}").bytes());
    }
    text
}

/// GNU cmp says `char` in the POSIX locale and `byte` in all others.
fn unit() -> &'static str {
    let set = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter();
    let locale: Option<OsString> = set.filter_map(std::env::var_os).find(|name| !name.is_empty());
    match locale {
        Some(name) if name != "C" && name != "POSIX" => "byte",
        _ => "char",
    }
}

/// The message for the end of the shorter file.
pub(super) fn ended(names: &[OsString; 2], end: &End, prefix: &OsStr) -> Vec<u8> {
    let name = names[end.side as usize].as_bytes();
    let place = match (end.offset, end.newlines) {
        (0, _) => " which is empty".to_owned(),
        (bytes, None) => format!(" after byte {bytes}"),
        (bytes, Some(newlines)) if end.is_within_line => format!(" after byte {bytes}, in line {}", newlines + 1),
        (bytes, Some(newlines)) => format!(" after byte {bytes}, line {newlines}"),
    };
    line(&[prefix.as_bytes(), b": EOF on ", name, place.as_bytes()])
}

/// How they were compared.
pub(super) fn explanation(outcome: &CmpOutcome, prefix: &OsStr) -> Vec<u8> {
    let unread = match outcome.unread_bytes {
        0 => String::new(),
        unread => format!(", {unread} of them unread"),
    };
    let way = &outcome.way;
    let compared = counted(outcome.compared_bytes, "byte");
    let why = format!("{}; {compared} compared{unread}", way.why);
    let (plan, took) = way.planned.as_ref().map(|(plan, took)| (plan, *took)).unzip();
    let text = explained(&way.method, &why, plan, took);
    [prefix.as_bytes(), b": ", text.as_bytes()].concat()
}

/// The result as JSON.
pub(super) fn object(arguments: &Arguments, result: Result<&CmpOutcome, &Error>, exit_code: u8) -> Vec<u8> {
    let mut object = match result {
        Ok(outcome) => json!(outcome),
        Err(error) => json!({"verdict": "failed", "reason": error.to_string()}),
    };
    object["exit_code"] = exit_code.into();
    for (key, name) in ["one", "other"].into_iter().zip(&arguments.request.names) {
        object = with_path(object, key, Some(name.as_ref()));
    }
    line(&[json_line(&object).as_bytes()])
}
