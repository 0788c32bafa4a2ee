//! The options of cmp: one table for parsing (as GNU's `getopt_long(3)` does), help, man page and completions.
//!
//! clap does not parse them: it takes longer to start than comparing two small files, and its messages differ from
//! GNU's.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::color;
use lexopt::{Arg, Parser};
use seekless_engine::Method;
use seekless_tools::cmp::{CmpRequest, RowStyle, WantedDifferences, parse_amount};

/// What an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flag {
    PrintBytes,
    IgnoreInitial,
    Verbose,
    Limit,
    Silent,
    Hexadecimal,
    SizesFirst,
    Links,
    Explain,
    NoProfile,
    Method,
    Json,
    Color,
    Version,
    Help,
}

/// An option.
#[derive(Clone, Copy)]
pub(super) struct OptionEntry {
    pub(super) short: Option<char>,
    pub(super) long: Option<&'static str>,
    /// The name of its value, if it takes one.
    pub(super) value: Option<&'static str>,
    /// Its help; other names of an option have none and are not shown.
    pub(super) help: Option<&'static str>,
    flag: Flag,
    /// Whether GNU cmp has it. Abbreviated long options match these first, so that scripts that abbreviate them keep
    /// working.
    is_gnu: bool,
}

const GNU: bool = true;
const OWN: bool = false;

/// A row for each option: GNU's or our own, its letter, name and value, what it does, and its help.
macro_rules! table {
    ($($is_gnu:ident $short:expr, $long:expr, $value:expr, $flag:ident, $help:expr;)*) => {
        &[$(OptionEntry { short: $short, long: $long, value: $value, help: $help, flag: Flag::$flag, is_gnu: $is_gnu }),*]
    };
}

/// All options. GNU's are in the order in which it lists them for an ambiguous abbreviation.
pub(super) const TABLE: &[OptionEntry] = table! {
    GNU Some('b'), Some("print-bytes"), None, PrintBytes, Some("Print the bytes that differ, also as characters");
    GNU Some('c'), Some("print-chars"), None, PrintBytes, None;
    GNU Some('i'), Some("ignore-initial"), Some("SKIP[:SKIP]"), IgnoreInitial,
        Some("Skip the first bytes of both files, or of each");
    GNU Some('l'), Some("verbose"), None, Verbose,
        Some("Print each byte that differs: its number, and its values in octal");
    GNU Some('n'), Some("bytes"), Some("LIMIT"), Limit, Some("Compare at most LIMIT bytes");
    GNU Some('s'), Some("silent"), None, Silent, None;
    GNU None, Some("quiet"), None, Silent, Some("Print nothing; only set the exit code");
    OWN Some('x'), None, None, Hexadecimal, Some("Like -l, but in hexadecimal, counted from zero");
    OWN Some('z'), None, None, SizesFirst, Some("Compare sizes first: regular files of different sizes differ");
    OWN Some('h'), None, None, Links,
        Some("Do not follow symbolic links: compare their targets; without a FILE, print this help");
    OWN None, Some("explain"), None, Explain, Some("Explain on standard error how the files were compared, and why");
    OWN None, Some("method"), Some("METHOD"), Method, Some("Compare regular files by METHOD, whatever their size");
    OWN None, Some("json"), None, Json, Some("Print the result as one JSON document, even with -s");
    OWN None, Some("no-profile"), None, NoProfile, Some("Do not use the profile of the storage");
    OWN None, Some("color"), Some("WHEN"), Color, Some("When to use colors");
    GNU Some('v'), Some("version"), None, Version, Some("Print the version");
    GNU None, Some("help"), None, Help, Some("Print this help");
};

/// What the command line asks for.
pub(super) enum CmpCommand {
    Help,
    Version,
    Compare(Box<Arguments>),
}

/// What to compare, and how to report the result.
pub(super) struct Arguments {
    pub(super) request: CmpRequest,
    /// The options without a value, in their order.
    given: Vec<Flag>,
}

/// An error in the arguments. The text may contain bytes from the command line.
pub(super) struct Misused(pub(super) Vec<u8>);

fn misused(before: &str, written: &[u8], after: &str) -> Misused {
    Misused([before.as_bytes(), written, after.as_bytes()].concat())
}

/// Parses the arguments after the command's name; `last` is the last word of the whole command line.
pub(super) fn parse(words: Vec<OsString>, last: &OsStr) -> Result<CmpCommand, Misused> {
    let mut parser = Parser::from_args(words);
    parser.set_short_equals(false);
    // POSIX ends the options at the first operand; GNU also accepts them after it.
    let permutes = std::env::var_os("POSIXLY_CORRECT").is_none();
    let mut operands = Vec::new();
    let mut arguments = Box::new(Arguments {
        request: CmpRequest::new(["-".into(), "-".into()], WantedDifferences::Difference),
        given: Vec::new(),
    });
    loop {
        let argument = parser.next().map_err(|error| Misused(error.to_string().into_bytes()))?;
        let entry = match argument {
            None => break,
            Some(Arg::Value(operand)) => {
                operands.push(operand);
                if !permutes {
                    operands.extend(parser.raw_args().into_iter().flatten());
                }
                continue;
            }
            Some(Arg::Short(letter)) => short(letter)?,
            Some(Arg::Long(name)) => {
                let name = name.to_owned();
                long(&name, &mut parser)?
            }
        };
        match entry.flag {
            Flag::Help => return Ok(CmpCommand::Help),
            Flag::Version => return Ok(CmpCommand::Version),
            _ => arguments.take(entry, &mut parser)?,
        }
    }
    if operands.is_empty() && arguments.given == [Flag::Links] {
        return Ok(CmpCommand::Help);
    }
    arguments.finish(operands, last)?;
    Ok(CmpCommand::Compare(arguments))
}

fn short(letter: char) -> Result<&'static OptionEntry, Misused> {
    let found = TABLE.iter().find(|entry| entry.short == Some(letter));
    // getopt works on bytes: it reports the first byte of a multi-byte letter.
    let first = letter.to_string().as_bytes()[0];
    found.ok_or_else(|| misused("invalid option -- '", &[first], "'"))
}

/// The option with this name, or the only one whose name begins with it.
fn long(name: &str, parser: &mut Parser) -> Result<&'static OptionEntry, Misused> {
    let matching = |wanted: &dyn Fn(&str) -> bool, gnu: bool| -> Vec<&'static OptionEntry> {
        let entries = TABLE.iter().filter(|entry| !gnu || entry.is_gnu);
        entries.filter(|entry| entry.long.is_some_and(wanted)).collect()
    };
    let mut found = matching(&|long| long == name, false);
    for gnu in [true, false] {
        if found.is_empty() {
            found = matching(&|long| long.starts_with(name), gnu);
        }
    }
    match found.as_slice() {
        [entry] if entry.value.is_some() => Ok(entry),
        [entry] => match parser.optional_value() {
            Some(_) => {
                let name = entry.long.unwrap_or_default();
                Err(misused("option '--", name.as_bytes(), "' doesn't allow an argument"))
            }
            None => Ok(entry),
        },
        none_or_many => {
            let mut written = name.as_bytes().to_vec();
            if let Some(value) = parser.optional_value() {
                written.push(b'=');
                written.extend(value.into_vec());
            }
            if none_or_many.is_empty() {
                return Err(misused("unrecognized option '--", &written, "'"));
            }
            let mut after = "' is ambiguous; possibilities:".to_owned();
            for long in none_or_many.iter().filter_map(|entry| entry.long) {
                let _ = write!(after, " '--{long}'");
            }
            Err(misused("option '--", &written, &after))
        }
    }
}

impl Arguments {
    /// Whether an option was given.
    pub(super) fn has(&self, flag: Flag) -> bool {
        self.given.contains(&flag)
    }

    /// The last option that asks for a list of all differences, as it was written.
    fn lists(&self) -> Option<&'static [u8]> {
        self.given.iter().rev().find_map(|flag| match flag {
            Flag::Verbose => Some(b"-l".as_slice()),
            Flag::Hexadecimal => Some(b"-x"),
            _ => None,
        })
    }

    fn take(&mut self, entry: &OptionEntry, parser: &mut Parser) -> Result<(), Misused> {
        if entry.value.is_none() {
            self.given.push(entry.flag);
            return match self.lists() {
                Some(written) if self.has(Flag::Silent) => {
                    Err(misused("options ", written, " and -s are incompatible"))
                }
                _ => Ok(()),
            };
        }
        let value = value(entry, parser)?;
        match entry.flag {
            Flag::IgnoreInitial => self.ignore_initial(value.as_bytes())?,
            Flag::Limit => {
                let limit = parse_amount(value.as_bytes());
                let limit = limit.ok_or_else(|| misused("invalid --bytes value '", value.as_bytes(), "'"))?;
                let before = self.request.limit_bytes;
                self.request.limit_bytes = Some(before.map_or(limit, |before| before.min(limit)));
            }
            // The value was used before, when colors were chosen.
            Flag::Color if value.to_str().and_then(color::parse).is_none() => {
                return Err(misused("invalid --color value '", value.as_bytes(), "'"));
            }
            Flag::Color => {}
            _ => {
                let method = value.to_string_lossy().parse::<Method>();
                self.request.method = Some(method.map_err(|error| Misused(error.to_string().into_bytes()))?);
            }
        }
        Ok(())
    }

    /// Parses `SKIP` for both, or `SKIP:SKIP`. Of several, the largest counts.
    fn ignore_initial(&mut self, text: &[u8]) -> Result<(), Misused> {
        let mut parts = text.splitn(2, |&byte| byte == b':');
        let first = parts.next().unwrap_or_default();
        self.skip(0, skip(first, text)?);
        match parts.next() {
            Some(second) => self.skip(1, skip(second, second)?),
            // The second is never less than the first, which an earlier `SKIP:SKIP` may have set.
            None => self.skip(1, self.request.skip_bytes[0]),
        }
        Ok(())
    }

    fn skip(&mut self, side: usize, bytes: u64) {
        let before = &mut self.request.skip_bytes[side];
        *before = bytes.max(*before);
    }

    fn finish(&mut self, operands: Vec<OsString>, last: &OsStr) -> Result<(), Misused> {
        let mut operands = operands.into_iter();
        let Some(one) = operands.next() else {
            return Err(misused("missing operand after '", last.as_bytes(), "'"));
        };
        let other = operands.next().unwrap_or_else(|| "-".into());
        for (side, text) in operands.by_ref().take(2).enumerate() {
            let text = text.as_bytes();
            self.skip(side, skip(text, text)?);
        }
        if let Some(extra) = operands.next() {
            return Err(misused("extra operand '", extra.as_bytes(), "'"));
        }
        let wanted = match self.lists() {
            Some(written) if self.has(Flag::Json) => {
                return Err(misused("options ", written, " and --json are incompatible"));
            }
            Some(_) if self.has(Flag::Hexadecimal) => WantedDifferences::Every(RowStyle::Hexadecimal),
            Some(_) if self.has(Flag::PrintBytes) => WantedDifferences::Every(RowStyle::OctalAndCharacters),
            Some(_) => WantedDifferences::Every(RowStyle::Octal),
            None if self.has(Flag::Silent) => WantedDifferences::Verdict,
            None => WantedDifferences::Difference,
        };
        self.request.names = [one, other];
        self.request.wanted = wanted;
        self.request.sizes_first = self.has(Flag::SizesFirst);
        self.request.follow_links = !self.has(Flag::Links);
        Ok(())
    }
}

/// The value of an option that requires one.
fn value(entry: &OptionEntry, parser: &mut Parser) -> Result<OsString, Misused> {
    parser.value().map_err(|error| match (error, entry.long, entry.short) {
        (lexopt::Error::MissingValue { option: Some(option) }, _, Some(letter)) if !option.starts_with("--") => {
            misused("option requires an argument -- '", letter.to_string().as_bytes(), "'")
        }
        (_, Some(long), _) => misused("option '--", long.as_bytes(), "' requires an argument"),
        (error, ..) => Misused(error.to_string().into_bytes()),
    })
}

fn skip(text: &[u8], shown: &[u8]) -> Result<u64, Misused> {
    parse_amount(text).ok_or_else(|| misused("invalid --ignore-initial value '", shown, "'"))
}
