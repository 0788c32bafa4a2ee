//! `seekless cmp`, and this program under the name `cmp`: compares two files, with the messages of GNU cmp.
//!
//! It runs before clap, logging and other set-up, which would take longer than comparing two small files. With `-r`,
//! `tree` compares trees after that set-up.

mod messages;
mod options;
mod tree;

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use anstream::ColorChoice;
use clap::builder::{Resettable, ValueParser};
use clap::{Arg, ArgAction, Args, Command, CommandFactory, ValueHint};
use seekless_tools::cmp::{CmpProblem, CmpVerdict, Error, WantedDifferences, compare, reason};
use seekless_tools::{JobProgress, JobWatch, Stop};
use signal_hook::consts::SIGPIPE;

use options::{CmpCommand, Flag, TABLE, parse};

use super::Failure;
use crate::show::{Amount, Cleared, PROGRESS, visible_path};
use crate::signals::number;
use crate::{call, color, config};
use messages::{ended, explanation, object, shown, words};

const EXIT_DIFFERENT: u8 = 1;
const EXIT_TROUBLE: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  seekless cmp one other             # where do they differ first?
  seekless cmp -s one other          # do they differ? see the exit code
  seekless cmp -lb one other | less  # all differences, with characters
  seekless cmp -i 1K:0 disk.img -    # skip 1 KiB of the first; compare stdin
  seekless cmp --explain one other   # which method was used, and why
  seekless cmp -r photos backup      # what differs in two trees
  seekless cmp -rq photos backup     # the lines of diff -rq
  ln -s \"$(command -v seekless)\" ~/bin/cmp
                                     # the cmp of your scripts";

/// Compares two files and returns the exit code, if the program was called for that. If it was called to compare trees,
/// returns the arguments for [`compare_trees`].
pub fn called(words: &[OsString]) -> ControlFlow<u8, Option<Vec<OsString>>> {
    let mut words = words.iter().cloned();
    let mut program = words.next().unwrap_or_default();
    if Path::new(&program).file_name() != Some(OsStr::new("cmp")) {
        if color::pass(&mut words).is_none_or(|command| command != "cmp") {
            return ControlFlow::Continue(None);
        }
        program = OsString::from("seekless cmp");
    }
    let words: Vec<_> = words.collect();
    let mut options = words.iter().take_while(|word| *word != "--");
    if options.any(|word| is_for_trees(word)) {
        return ControlFlow::Continue(Some(words));
    }
    ControlFlow::Break(run(&program, words))
}

/// Whether an option selects trees: `-r`, or `-N`, which cmp lacks, alone or with other letters that trees accept.
fn is_for_trees(word: &OsStr) -> bool {
    let word = word.as_bytes();
    // What follows `x` or `X` is its value.
    let letters = word.strip_prefix(b"-");
    let letters = letters.and_then(|letters| letters.split(|letter| b"xX".contains(letter)).next());
    let letters = letters.filter(|letters| letters.iter().any(|letter| b"rN".contains(letter)));
    word == b"--recursive"
        || word == b"--new-file"
        || word.starts_with(b"--same-size")
        || letters.is_some_and(|letters| letters.iter().all(|letter| b"rsqNh0".contains(letter)))
}

/// Compares trees, as the arguments say.
pub fn compare_trees(words: Vec<OsString>, configured: anyhow::Result<()>) -> Result<u8, Failure> {
    let words: Vec<_> = [OsString::from("seekless cmp")].into_iter().chain(words).collect();
    let arguments = super::parsed(tree::Arguments::command(), &words).map_err(|error| crate::refuse(&error))?;
    super::warn_unless(configured);
    tree::run(&arguments)
}

/// Whether the arguments after `cmp` are valid.
#[cfg(test)]
pub fn is_understood(words: Vec<OsString>) -> bool {
    use clap::Parser;

    if words.iter().any(|word| is_for_trees(word)) {
        let all = [OsString::from("seekless cmp")].into_iter().chain(words);
        return tree::Arguments::try_parse_from(all).is_ok();
    }
    parse(words, OsStr::new("")).is_ok()
}

/// The definition of the command with -r.
pub fn command_of_trees() -> Command {
    tree::Arguments::command()
}

fn run(prefix: &OsStr, arguments: Vec<OsString>) -> u8 {
    let last = arguments.last().cloned().unwrap_or_else(|| prefix.to_owned());
    match parse(arguments, &last) {
        Ok(CmpCommand::Compare(arguments)) => run_comparison(&arguments, prefix),
        Ok(CmpCommand::Help) => print(&help(prefix), prefix).unwrap_or(0),
        Ok(CmpCommand::Version) => {
            let text = format!("cmp (seekless) {}\n", env!("CARGO_PKG_VERSION"));
            print(text.as_bytes(), prefix).unwrap_or(0)
        }
        Err(misused) => {
            let prefix = prefix.as_bytes();
            let hint = [b": Try '", prefix, b" --help' for more information.\n"].concat();
            print_messages(&[prefix, b": ", &misused.0, b"\n", prefix, &hint].concat());
            EXIT_TROUBLE
        }
    }
}

fn run_comparison(arguments: &options::Arguments, prefix: &OsStr) -> u8 {
    let mut request = arguments.request.clone();
    let is_seen = arguments.has(Flag::Silent) || arguments.has(Flag::Json) || !output_is_null_device();
    if !is_seen {
        request.wanted = WantedDifferences::Offset;
    }
    request.standard_input = || Ok(call::open_input()?.as_fd().try_clone_to_owned()?.into());
    if call::is_process() {
        // Allows methods that map files. If the signal handler cannot be installed, none of them is chosen.
        request.before_method = || drop(seekless_engine::allow_mapping());
    }
    request.is_predicted = arguments.has(Flag::Explain);
    if arguments.has(Flag::NoProfile) {
        seekless_engine::profile::without_profiles(true);
    }
    let watch = CmpProgress {
        names: (!arguments.has(Flag::Silent)).then_some(&request.names),
        is_shown: OnceLock::new(),
        stop: Stop::default(),
    };
    let mut out = Cleared(call::output());
    let result = compare(&request, &mut out, &watch);
    PROGRESS.end();
    let exit_code = match &result {
        Ok(outcome) if outcome.verdict == CmpVerdict::Equal => 0,
        Ok(_) => EXIT_DIFFERENT,
        Err(_) => EXIT_TROUBLE,
    };
    let mut output = Vec::new();
    match &result {
        Ok(outcome) => {
            if arguments.has(Flag::Explain) {
                print_messages(&explanation(outcome, prefix));
            }
            if !arguments.has(Flag::Json) {
                output = words(arguments, outcome, is_seen);
                if let (CmpVerdict::Ended(end), false) = (&outcome.verdict, arguments.has(Flag::Silent)) {
                    print_messages(&ended(&request.names, end, prefix));
                }
            }
        }
        Err(Error::File {
            problem: CmpProblem::Open(_),
            ..
        }) if arguments.has(Flag::Silent) => {}
        Err(error) => {
            if let Error::Write { source, end } = error {
                if source.kind() == ErrorKind::BrokenPipe {
                    return end_by_closed_pipe();
                }
                print_messages(&end.map_or_else(Vec::new, |end| ended(&request.names, &end, prefix)));
            }
            print_messages(&[prefix.as_bytes(), b": ", &error.to_bytes(), b"\n"].concat());
        }
    }
    if arguments.has(Flag::Json) {
        output = object(arguments, result.as_ref(), exit_code);
    }
    print(&output, prefix).unwrap_or(exit_code)
}

/// Begins the progress line when there is something to show in it, if standard error is a terminal.
struct CmpProgress<'a> {
    /// The files; `None` if nothing is shown.
    names: Option<&'a [OsString; 2]>,
    is_shown: OnceLock<bool>,
    stop: Stop,
}

impl JobWatch for CmpProgress<'_> {
    fn wants_progress(&self) -> bool {
        let begin = |names: &[OsString; 2]| {
            let name = names.iter().find(|name| *name != "-");
            let name = name.map_or_else(String::new, |name| visible_path(name.as_ref()));
            PROGRESS.begin(true, "comparing", name, Amount::Bytes(None))
        };
        *self.is_shown.get_or_init(|| self.names.is_some_and(begin))
    }

    fn progress(&self, progress: &JobProgress) {
        PROGRESS.report(progress);
    }

    fn stop(&self) -> &Stop {
        &self.stop
    }
}

/// Whether standard output is /dev/null; then the first difference suffices.
fn output_is_null_device() -> bool {
    let identity = |stat: rustix::io::Result<rustix::fs::Stat>| stat.map(|stat| (stat.st_dev, stat.st_ino)).ok();
    let output = identity(rustix::fs::fstat(call::output()));
    output.is_some() && output == identity(rustix::fs::stat("/dev/null"))
}

/// Writes the rest of the output; returns the exit code if that fails.
fn print(text: &[u8], prefix: &OsStr) -> Option<u8> {
    let error = call::output().write_all(text).err()?;
    if error.kind() == ErrorKind::BrokenPipe {
        return Some(end_by_closed_pipe());
    }
    let reason = format!(": standard output: {}\n", reason(&error));
    print_messages(&[prefix.as_bytes(), reason.as_bytes()].concat());
    Some(EXIT_TROUBLE)
}

/// Ends the program by SIGPIPE, which Rust ignores at the start; another call ends with the code that shells show for that.
fn end_by_closed_pipe() -> u8 {
    if call::is_process() {
        let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
    }
    128 + number(SIGPIPE)
}

/// Writes lines to standard error, with escapes for control characters of names and arguments.
fn print_messages(lines: &[u8]) {
    let shown: Vec<_> = lines.split(|byte| *byte == b'\n').map(shown).collect();
    // If this fails, there is nowhere to report it.
    let _ = call::error().write_all(&shown.join(&b'\n'));
}

fn help(prefix: &OsStr) -> Vec<u8> {
    let name = prefix.to_string_lossy().into_owned();
    let command = Arguments::augment_args(Command::new("cmp").bin_name(name)).max_term_width(100);
    let command = super::as_wide_as_the_terminal(command);
    let about = command.get_long_about().cloned().unwrap_or_default();
    let help = command.about(about).render_help();
    // Help is printed even if the configuration has a mistake.
    let _ = config::load();
    color::choose(&call::arguments(), config::get().color);
    match call::output().choice() {
        ColorChoice::Never => help.to_string().into_bytes(),
        _ => help.ansi().to_string().into_bytes(),
    }
}

/// Compare two files byte by byte, with the options, output and exit codes of GNU cmp, and the options of FreeBSD cmp
/// that GNU lacks. With -r, compare two trees (`seekless cmp -r --help`).
///
/// `-`, or an omitted FILE, is standard input. SKIP and LIMIT are numbers of bytes and may have suffixes: kB is 1000
/// and K 1024, MB is 1,000,000 and M 1,048,576, and so on for G, T, P and E.
///
/// Exit code: 0 equal, 1 different, 2 error. Called through a link named `cmp`, seekless is this command.
// The command as clap knows it, for help, man pages and completions. [`called`] parses its arguments.
#[derive(Debug, Args)]
#[command(about = "Compare two files byte by byte, or two trees: a faster cmp", after_help = EXAMPLES, disable_help_flag = true,
    disable_version_flag = true, args = operands(), args = options(), args = options_of_trees())]
pub struct Arguments;

fn operands() -> [Arg; 4] {
    let operand = |name: &'static str, help: &'static str| {
        let is_file = name.starts_with("FILE");
        let hint = if is_file { ValueHint::FilePath } else { ValueHint::Other };
        Arg::new(name).help(help).required(name == "FILE1").value_hint(hint)
    };
    [
        operand("FILE1", "A file, or - for standard input"),
        operand("FILE2", "The other file; standard input if omitted"),
        operand("SKIP1", "Skip this many bytes of FILE1"),
        operand("SKIP2", "Skip this many bytes of FILE2"),
    ]
}

fn options() -> impl Iterator<Item = Arg> {
    TABLE.iter().filter_map(|entry| {
        let id = entry.long.map_or_else(|| format!("-{:?}", entry.short), str::to_owned);
        let option = Arg::new(id).help(entry.help?).long(entry.long).short(entry.short);
        let option = match entry.long {
            // An option with two long names: the help shows the first with the letter, and the other as an alias.
            Some("quiet") => option.short('s').visible_alias("silent"),
            Some("color") => option.value_parser(color::CHOICES),
            _ => option,
        };
        Some(match entry.value {
            Some(value) => option.value_name(value),
            None => option.action(ArgAction::SetTrue),
        })
    })
}

/// The options that only trees have, without their relations to other options.
fn options_of_trees() -> Vec<Arg> {
    let command = tree::Arguments::command();
    let is_own = |option: &&Arg| {
        let long = option.get_long();
        long.is_some() && !TABLE.iter().any(|entry| entry.long == long)
    };
    let alone = |option: &Arg| {
        let option = option.clone().help_heading("Trees");
        // Without -r, the letter means something else.
        let is_taken = |letter: &char| TABLE.iter().any(|entry| entry.short == Some(*letter));
        let own = option.get_short().filter(|letter| !is_taken(letter));
        let option = option.short(own);
        let option = option
            .display_order(Resettable::Reset)
            .conflicts_with(Resettable::Reset);
        match option.get_action() {
            ArgAction::Set => option.value_parser(ValueParser::string()),
            _ => option,
        }
    };
    command.get_arguments().filter(is_own).map(alone).collect()
}
