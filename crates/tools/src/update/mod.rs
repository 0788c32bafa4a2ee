//! Reading updates: JSON lines for people and scripts, a compact binary form for programs.
//!
//! What is read goes into a [`Batch`] at once, so that ten million updates of four bytes take some 200 MB. The engine
//! writes them to the file.

use std::io::{self, BufRead, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use seekless_engine::full_text;
use seekless_engine::update::Batch;
use serde::Deserialize;

/// The start of the binary form; its version follows, in four little-endian bytes.
pub const MAGIC: &[u8; 8] = b"SKLSUPDT";
/// The version of the binary form.
pub const VERSION: u32 = 1;

const HEADER_BYTES: usize = MAGIC.len() + 4;

/// The byte order mark that editors may put before UTF-8; it is ignored.
const UTF_8_MARK: &[u8] = b"\xef\xbb\xbf";
/// The byte order marks of UTF-16.
const UTF_16_MARKS: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// The longest line of JSON: a file of updates without line ends asks for no more memory than this.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// Why updates were refused.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// They could not be read.
    #[error("cannot read the updates")]
    System(#[from] io::Error),
    /// A line is not a valid update.
    #[error("line {line} of the updates: {reason}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// An update of the binary form is not valid.
    #[error("update {number}, at byte {at} of the input: {reason}")]
    Record {
        /// The update, from 1.
        number: u64,
        /// Where it begins.
        at: u64,
        /// What is wrong.
        reason: String,
    },
    /// The binary form ends within its header.
    #[error(
        "the header of the updates is truncated: the binary form starts with {HEADER_BYTES} bytes of magic and version"
    )]
    Header,
    /// They are UTF-16.
    #[error("the updates are UTF-16, but JSON lines must be UTF-8: convert them (iconv -f UTF-16 -t UTF-8)")]
    Utf16,
    /// The binary form is of another version.
    #[error("the updates have version {0} of the binary form, but this seekless reads version {VERSION}")]
    Version(u32),
}

/// Reads updates in whichever form they are, and adds them to a batch.
///
/// # Errors
/// [`ReadError`], with the line or number of the first invalid update.
pub fn read_updates(from: &mut dyn BufRead, batch: Batch) -> Result<Batch, ReadError> {
    // The first bytes may come one at a time, as from a terminal.
    let mut first = Vec::new();
    from.take(MAGIC.len() as u64).read_to_end(&mut first)?;
    if first == MAGIC {
        return read_binary(from, batch);
    }
    if UTF_16_MARKS.iter().any(|mark| first.starts_with(mark)) {
        return Err(ReadError::Utf16);
    }
    let text = first.strip_prefix(UTF_8_MARK).unwrap_or(&first);
    read_lines(&mut text.chain(from), batch)
}

/// One line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    offset: u64,
    hex: Option<String>,
    base64: Option<String>,
    text: Option<String>,
}

impl Line {
    fn bytes(self) -> Result<Vec<u8>, String> {
        match (self.hex, self.base64, self.text) {
            (Some(hex), None, None) => from_hex(&hex),
            (None, Some(base64), None) => STANDARD.decode(base64).map_err(|error| format!("base64: {error}")),
            (None, None, Some(text)) => Ok(text.into_bytes()),
            _ => Err("an update needs an offset and one of hex, base64 and text".to_owned()),
        }
    }
}

fn from_hex(hex: &str) -> Result<Vec<u8>, String> {
    let digit = |byte: u8| {
        let digit = char::from(byte).to_digit(16);
        digit.ok_or_else(|| format!("hex: `{}` is not a hex digit", byte.escape_ascii()))
    };
    if !hex.len().is_multiple_of(2) {
        return Err("hex: odd number of hex digits".to_owned());
    }
    let pairs = hex.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| Ok((digit(pair[0])? * 16 + digit(pair[1])?) as u8))
        .collect()
}

fn read_lines(from: &mut dyn BufRead, mut batch: Batch) -> Result<Batch, ReadError> {
    let mut text = Vec::new();
    for line in 1.. {
        let wrong = |reason: String| ReadError::Line { line, reason };
        text.clear();
        let read = from.take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut text)?;
        if read == 0 {
            break;
        }
        if read as u64 > LINE_BYTES_MAX {
            return Err(wrong("is longer than 256 MiB".to_owned()));
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        if !text.trim_ascii_start().starts_with(b"{") {
            let object = r#"an update is a JSON object on a line of its own, as in {"offset": 0, "text": "x"}"#;
            let is_array = text.trim_ascii_start().starts_with(b"[");
            let advice = if is_array {
                " (`jq -c '.[]'` makes lines of an array)"
            } else {
                ""
            };
            return Err(wrong(format!("{object}{advice}")));
        }
        let update: Line = serde_json::from_slice(&text).map_err(|error| wrong(in_line(&error)))?;
        let offset = update.offset;
        let bytes = update.bytes().map_err(wrong)?;
        batch.push(offset, &bytes).map_err(|error| wrong(full_text(&error)))?;
    }
    Ok(batch)
}

/// The reason without its position, because each text is only one line.
fn in_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    format!("{} (column {})", &text[..end], error.column())
}

fn read_binary(from: &mut dyn BufRead, mut batch: Batch) -> Result<Batch, ReadError> {
    let mut version = Vec::with_capacity(4);
    from.take(4).read_to_end(&mut version)?;
    match version.first_chunk().map(|version| u32::from_le_bytes(*version)) {
        Some(VERSION) => {}
        Some(other) => return Err(ReadError::Version(other)),
        None => return Err(ReadError::Header),
    }
    let (mut at, mut bytes) = (HEADER_BYTES as u64, Vec::new());
    for number in 1.. {
        let wrong = |reason: &str| ReadError::Record {
            number,
            at,
            reason: reason.to_owned(),
        };
        let mut head = Vec::with_capacity(12);
        from.take(12).read_to_end(&mut head)?;
        if head.is_empty() {
            break;
        }
        let (Some(offset), Some(length)) = (head.first_chunk(), head.last_chunk().filter(|_| head.len() == 12)) else {
            return Err(wrong("the input ends within this update"));
        };
        let (offset, length) = (u64::from_le_bytes(*offset), u32::from_le_bytes(*length));
        bytes.clear();
        // Memory grows with the bytes read, so that a wrong length allocates nothing.
        from.take(u64::from(length)).read_to_end(&mut bytes)?;
        if bytes.len() < length as usize {
            return Err(wrong("the input ends within this update"));
        }
        batch.push(offset, &bytes).map_err(|error| wrong(&full_text(&error)))?;
        at += 12 + u64::from(length);
    }
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, String> {
        let batch = read_updates(&mut &*bytes, Batch::new()).map_err(|error| full_text(&error))?;
        let updates = batch.resolve();
        Ok(updates.iter().map(|(offset, bytes)| (offset, bytes.to_vec())).collect())
    }

    #[test]
    fn update_lines_say_their_bytes_in_three_ways() {
        let text = br#"{"offset": 4000, "hex": "00fF"}

{"base64": "aGk=", "offset": 10}
{"offset":0,"text":"\u00e4"}"#;
        let expected = vec![(0, "ä".into()), (10, b"hi".to_vec()), (4000, vec![0, 255])];
        assert_eq!(read(text), Ok(expected));
        assert_eq!(read(b""), Ok(Vec::new()));
        let line = "{\"offset\": 1, \"text\": \"a\"}";
        let expected = Ok(vec![(1, b"a".to_vec())]);
        assert_eq!(read(format!("\u{feff}{line}").as_bytes()), expected);
        assert_eq!(read("\u{feff}".as_bytes()), Ok(Vec::new()));
        for unit in [u16::to_le_bytes, u16::to_be_bytes] {
            let text: Vec<u8> = format!("\u{feff}{line}").encode_utf16().flat_map(unit).collect();
            assert!(read(&text).unwrap_err().contains("UTF-16"));
        }
    }

    #[test]
    fn what_is_no_update_is_refused_with_its_line() {
        let table: [(&str, &str); 10] = [
            (r#"{"offset": -4, "hex": "00"}"#, "integer `-4`"),
            (r#"{"offset": 4}"#, "one of hex"),
            (r#"{"offset": 4, "hex": "0"}"#, "odd number"),
            (r#"{"offset": 4, "hex": "0g"}"#, "`g` is not a hex digit"),
            (r#"{"offset": 4, "base64": "!"}"#, "base64"),
            (r#"{"offset": 4, "hex": "00", "text": ""}"#, "one of hex"),
            (
                r#"{"offset": 9223372036854775807, "hex": "00"}"#,
                "the largest file size",
            ),
            (r#"{"ofset": 4, "hex": "00"}"#, "unknown field"),
            ("offset", "a JSON object on a line"),
            (r#"[1, "41", null, null]"#, "jq -c"),
        ];
        for (line, reason) in table {
            let error = read(format!("{{\"offset\":1,\"text\":\"\"}}\n{line}\n").as_bytes()).unwrap_err();
            assert!(
                error.starts_with("line 2 ") && error.contains(reason),
                "{line}: {error}"
            );
        }
    }

    fn binary(updates: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        for (offset, update) in updates {
            bytes.extend_from_slice(&offset.to_le_bytes());
            bytes.extend_from_slice(&(update.len() as u32).to_le_bytes());
            bytes.extend_from_slice(update);
        }
        bytes
    }

    #[test]
    fn update_binary_form_is_refused_if_it_ends_within_an_update() {
        let updates = vec![(3, b"abc".to_vec()), (100, b"d".to_vec())];
        let bytes = binary(&updates);
        assert_eq!(read(&bytes), Ok(updates));
        for end in 8..12 {
            assert!(
                read(&bytes[..end])
                    .unwrap_err()
                    .contains("header of the updates is truncated"),
                "{end}"
            );
        }
        for end in [13, 28, bytes.len() - 1] {
            assert!(read(&bytes[..end]).unwrap_err().contains("ends within"), "{end}");
        }
        let mut newer = bytes;
        newer[8] = 2;
        assert!(read(&newer).unwrap_err().contains("version 2"));
        let huge = [binary(&[]), vec![0; 8], vec![255; 4], b"few".to_vec()].concat();
        assert!(read(&huge).unwrap_err().contains("update 1"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), is_binary in any::<bool>()) {
            let bytes = if is_binary { [binary(&[]), bytes].concat() } else { bytes };
            let _ = read(&bytes);
        }
    }
}
