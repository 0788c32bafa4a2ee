//! The options of cmp: one table, from which arguments are parsed as GNU's `getopt_long(3)` does, and from which come
//! help, man page and completions.
//!
//! clap does not parse here: starting it takes longer than comparing two small files, and its messages are its own.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use lexopt::{Arg, Parser};
use seekless::Method;
use seekless_tools::cmp::{Request, RowStyle, Wanted, parse_amount};

/// What an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flag {
    PrintBytes,
    IgnoreInitial,
    Verbose,
    Limit,
    Silent,
    Hexadecimal,
    SizesFirst,
    Links,
    Explain,
    Method,
    Json,
    Version,
    Help,
}

/// An option.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) short: Option<char>,
    pub(super) long: Option<&'static str>,
    /// The name of its value, where it takes one.
    pub(super) value: Option<&'static str>,
    /// What the help says; other names of an option are not shown.
    pub(super) help: Option<&'static str>,
    flag: Flag,
    /// Whether it is GNU's: only these are matched first where a long option is abbreviated, so that scripts which
    /// abbreviate them go on to work.
    is_gnu: bool,
}

const fn gnu(short: Option<char>, long: &'static str, help: Option<&'static str>, flag: Flag) -> Entry {
    Entry {
        short,
        long: Some(long),
        value: None,
        help,
        flag,
        is_gnu: true,
    }
}

const fn own(short: Option<char>, long: Option<&'static str>, help: &'static str, flag: Flag) -> Entry {
    Entry {
        short,
        long,
        value: None,
        help: Some(help),
        flag,
        is_gnu: false,
    }
}

const fn taking(value: &'static str, entry: Entry) -> Entry {
    Entry {
        value: Some(value),
        ..entry
    }
}

/// All options, GNU's in the order in which it names them where an abbreviation is ambiguous.
pub(super) const TABLE: &[Entry] = &[
    gnu(
        Some('b'),
        "print-bytes",
        Some("Print the bytes that differ, as characters too"),
        Flag::PrintBytes,
    ),
    gnu(Some('c'), "print-chars", None, Flag::PrintBytes),
    taking(
        "SKIP[:SKIP]",
        gnu(
            Some('i'),
            "ignore-initial",
            Some("Pass over the first bytes of both, or of each"),
            Flag::IgnoreInitial,
        ),
    ),
    gnu(
        Some('l'),
        "verbose",
        Some("A row for each difference: number of the byte, values in octal"),
        Flag::Verbose,
    ),
    taking(
        "LIMIT",
        gnu(Some('n'), "bytes", Some("Compare at most so many bytes"), Flag::Limit),
    ),
    gnu(Some('s'), "silent", None, Flag::Silent),
    gnu(None, "quiet", Some("Print nothing: the exit code tells"), Flag::Silent),
    own(
        Some('x'),
        None,
        "As -l, in hexadecimal and counted from zero",
        Flag::Hexadecimal,
    ),
    own(
        Some('z'),
        None,
        "Look at sizes first: regular files of different sizes differ",
        Flag::SizesFirst,
    ),
    own(
        Some('h'),
        None,
        "Follow no symbolic links: compare the texts of two links",
        Flag::Links,
    ),
    own(
        None,
        Some("explain"),
        "Say on standard error how they were compared, and why so",
        Flag::Explain,
    ),
    taking(
        "METHOD",
        own(
            None,
            Some("method"),
            "Compare regular files by this method, whatever their size",
            Flag::Method,
        ),
    ),
    own(
        None,
        Some("json"),
        "Tell the result as one JSON object, with -s too",
        Flag::Json,
    ),
    gnu(Some('v'), "version", Some("Print the version"), Flag::Version),
    gnu(None, "help", Some("Print this help"), Flag::Help),
];

/// What was asked for.
pub(super) enum Asked {
    Help,
    Version,
    Compare(Box<Arguments>),
}

/// What to compare, and how to tell the result.
pub(super) struct Arguments {
    pub(super) request: Request,
    pub(super) print_bytes: bool,
    pub(super) is_silent: bool,
    pub(super) explain: bool,
    pub(super) json: bool,
}

/// Why the arguments make no sense; the text, which may have bytes of the user's.
pub(super) struct Misused(pub(super) Vec<u8>);

fn misused(parts: &[&[u8]]) -> Misused {
    Misused(parts.concat())
}

#[derive(Default)]
struct Parsed {
    operands: Vec<OsString>,
    skip_bytes: [u64; 2],
    limit_bytes: Option<u64>,
    print_bytes: bool,
    lists: Option<&'static [u8]>,
    is_hexadecimal: bool,
    is_silent: bool,
    sizes_first: bool,
    links: bool,
    explain: bool,
    json: bool,
    method: Option<Method>,
}

/// Parses what stands behind the command's name; `last` is the last word of the whole command line.
pub(super) fn parse(words: Vec<OsString>, last: &OsStr) -> Result<Asked, Misused> {
    let mut parser = Parser::from_args(words);
    parser.set_short_equals(false);
    // POSIX ends the options at the first operand; GNU looks for them behind it, too.
    let permutes = std::env::var_os("POSIXLY_CORRECT").is_none();
    let mut parsed = Parsed::default();
    loop {
        let argument = parser.next().map_err(|error| Misused(error.to_string().into_bytes()))?;
        let entry = match argument {
            None => break,
            Some(Arg::Value(operand)) => {
                parsed.operands.push(operand);
                if !permutes {
                    parsed.operands.extend(parser.raw_args().into_iter().flatten());
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
            Flag::Help => return Ok(Asked::Help),
            Flag::Version => return Ok(Asked::Version),
            _ => parsed.take(entry, &mut parser)?,
        }
    }
    parsed.finish(last).map(|arguments| Asked::Compare(Box::new(arguments)))
}

fn short(letter: char) -> Result<&'static Entry, Misused> {
    let found = TABLE.iter().find(|entry| entry.short == Some(letter));
    // getopt knows bytes only: it complains about the first one of a longer letter.
    let first = letter.to_string().as_bytes()[0];
    found.ok_or_else(|| misused(&[b"invalid option -- '", &[first], b"'"]))
}

/// The option of that name, or of the only one that begins so.
fn long(name: &str, parser: &mut Parser) -> Result<&'static Entry, Misused> {
    let matching = |wanted: &dyn Fn(&str) -> bool, gnu: bool| -> Vec<&'static Entry> {
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
                Err(misused(&[
                    b"option '--",
                    name.as_bytes(),
                    b"' doesn't allow an argument",
                ]))
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
                return Err(misused(&[b"unrecognized option '--", &written, b"'"]));
            }
            let mut possible = String::new();
            for long in none_or_many.iter().filter_map(|entry| entry.long) {
                let _ = write!(possible, " '--{long}'");
            }
            Err(misused(&[
                b"option '--",
                &written,
                b"' is ambiguous; possibilities:",
                possible.as_bytes(),
            ]))
        }
    }
}

impl Parsed {
    fn take(&mut self, entry: &Entry, parser: &mut Parser) -> Result<(), Misused> {
        let value = if entry.value.is_some() {
            value(entry, parser)?
        } else {
            OsString::new()
        };
        match entry.flag {
            Flag::PrintBytes => self.print_bytes = true,
            Flag::IgnoreInitial => self.ignore_initial(value.as_bytes())?,
            Flag::Verbose => self.list(b"-l")?,
            Flag::Hexadecimal => {
                self.is_hexadecimal = true;
                self.list(b"-x")?;
            }
            Flag::Limit => {
                let limit = parse_amount(value.as_bytes());
                let limit = limit.ok_or_else(|| misused(&[b"invalid --bytes value '", value.as_bytes(), b"'"]))?;
                self.limit_bytes = Some(self.limit_bytes.map_or(limit, |before| before.min(limit)));
            }
            Flag::Silent => {
                self.is_silent = true;
                self.check_output()?;
            }
            Flag::SizesFirst => self.sizes_first = true,
            Flag::Links => self.links = true,
            Flag::Explain => self.explain = true,
            Flag::Json => self.json = true,
            Flag::Method => {
                let text = value.to_string_lossy();
                let method = text.parse::<Method>();
                self.method = Some(method.map_err(|error| Misused(error.to_string().into_bytes()))?);
            }
            Flag::Help | Flag::Version => {}
        }
        Ok(())
    }

    fn list(&mut self, written: &'static [u8]) -> Result<(), Misused> {
        self.lists = Some(written);
        self.check_output()
    }

    fn check_output(&self) -> Result<(), Misused> {
        match self.lists {
            Some(written) if self.is_silent => Err(misused(&[b"options ", written, b" and -s are incompatible"])),
            _ => Ok(()),
        }
    }

    /// `SKIP` for both, or `SKIP:SKIP`; the greatest counts where there are several.
    fn ignore_initial(&mut self, text: &[u8]) -> Result<(), Misused> {
        match text.iter().position(|&byte| byte == b':') {
            None => {
                // The second is never less than the first, which an earlier `SKIP:SKIP` may have set.
                self.skip(0, skip(text, text)?);
                self.skip(1, self.skip_bytes[0]);
            }
            Some(colon) => {
                let first = skip(&text[..colon], text)?;
                self.skip(0, first);
                let rest = &text[colon + 1..];
                self.skip(1, skip(rest, rest)?);
            }
        }
        Ok(())
    }

    fn skip(&mut self, side: usize, bytes: u64) {
        self.skip_bytes[side] = self.skip_bytes[side].max(bytes);
    }

    fn finish(mut self, last: &OsStr) -> Result<Arguments, Misused> {
        let mut operands = std::mem::take(&mut self.operands).into_iter();
        let Some(one) = operands.next() else {
            return Err(misused(&[b"missing operand after '", last.as_bytes(), b"'"]));
        };
        let other = operands.next().unwrap_or_else(|| "-".into());
        for (side, text) in operands.by_ref().take(2).enumerate() {
            let text = text.as_bytes();
            self.skip(side, skip(text, text)?);
        }
        if let Some(extra) = operands.next() {
            return Err(misused(&[b"extra operand '", extra.as_bytes(), b"'"]));
        }
        if let (Some(written), true) = (self.lists, self.json) {
            return Err(misused(&[b"options ", written, b" and --json are incompatible"]));
        }
        let wanted = match (self.lists, self.is_silent) {
            (Some(_), _) if self.is_hexadecimal => Wanted::Every(RowStyle::Hexadecimal),
            (Some(_), _) if self.print_bytes => Wanted::Every(RowStyle::OctalAndCharacters),
            (Some(_), _) => Wanted::Every(RowStyle::Octal),
            (None, true) => Wanted::Verdict,
            (None, false) => Wanted::Difference,
        };
        Ok(Arguments {
            request: Request {
                skip_bytes: self.skip_bytes,
                limit_bytes: self.limit_bytes,
                sizes_first: self.sizes_first,
                follow_links: !self.links,
                method: self.method,
                ..Request::new([one, other], wanted)
            },
            print_bytes: self.print_bytes,
            is_silent: self.is_silent,
            explain: self.explain,
            json: self.json,
        })
    }
}

/// The value of an option that needs one.
fn value(entry: &Entry, parser: &mut Parser) -> Result<OsString, Misused> {
    parser.value().map_err(|error| match (error, entry.long, entry.short) {
        (lexopt::Error::MissingValue { option: Some(option) }, _, Some(letter)) if !option.starts_with("--") => {
            misused(&[b"option requires an argument -- '", letter.to_string().as_bytes(), b"'"])
        }
        (_, Some(long), _) => misused(&[b"option '--", long.as_bytes(), b"' requires an argument"]),
        (error, ..) => Misused(error.to_string().into_bytes()),
    })
}

fn skip(text: &[u8], shown: &[u8]) -> Result<u64, Misused> {
    parse_amount(text).ok_or_else(|| misused(&[b"invalid --ignore-initial value '", shown, b"'"]))
}
