//! Updates as lines of JSON: each line that is not blank is one, or the first that is none is named by its number.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekless_engine::update::Batch;
use seekless_tools::update::{MAGIC, ReadError, read_updates};
use serde_json::Value;

fuzz_target!(|text: &[u8]| {
    // The binary form has a target of its own.
    if text.starts_with(MAGIC) {
        return;
    }
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let is_json = |line: &[u8]| serde_json::from_slice::<Value>(line).is_ok_and(|line| line["offset"].is_u64());
    let is_blank = |line: &[u8]| line.trim_ascii().is_empty();
    match read_updates(&mut &text[..], Batch::new()) {
        Ok(_) => {
            let first = lines[0].strip_prefix(b"\xef\xbb\xbf").unwrap_or(lines[0]);
            let mut lines = std::iter::once(first).chain(lines[1..].iter().copied());
            assert!(lines.all(|line| is_blank(line) || is_json(line)));
        }
        Err(ReadError::Line { line, reason }) => {
            assert!(!reason.is_empty());
            let at = usize::try_from(line).expect("a number of a line") - 1;
            assert!(!is_blank(lines[at]), "line {line} is blank");
        }
        Err(ReadError::Utf16) => assert!(text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff")),
        Err(error) => panic!("{error}"),
    }
});
