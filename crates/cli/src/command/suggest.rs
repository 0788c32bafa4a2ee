//! `seekless suggest` completes a command line. The scripts of `seekless generate completions` call it.
//!
//! It writes no file, prints nothing on standard error, and waits for no disk longer than [`PATIENCE`]: the shell itself lists
//! files and directories, and another process lists the store.

use std::ffi::{OsStr, OsString};
use std::io::{LineWriter, Read, Write};
use std::path::PathBuf;
use std::process::{self, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use clap::{Arg, Args, Command, CommandFactory};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, complete};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use seekless_engine::method::{MECHANISMS, Value};
use seekless_engine::{Method, Operation};
use seekless_lab::experiment::Experiment;
use seekless_lab::store::IMPORTED;
use seekless_results::Origin;
#[cfg(all(target_os = "linux", feature = "sim"))]
use seekless_sim::device::{DeviceName, devices};
use seekless_tools::dupes::act::rules::RULES;

use super::Cli;
#[cfg(all(target_os = "linux", feature = "sim"))]
use super::sim;
use super::update::names::{SHORT_NAMES, written_out};
use crate::{call, config};

/// The longest time to wait for the list of runs.
const PATIENCE: Duration = Duration::from_millis(100);

/// The words of a command line.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The shell that asks
    shell: String,
    /// The command line up to the cursor; the last word is to be completed
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Prints a line for each value that fits: the value and, after a tab, a description. `:files`, `:files .SUFFIX` and
/// `:directories` stand for paths, which the shell lists.
pub(super) fn run(arguments: &Arguments) -> std::io::Result<()> {
    let (words, joined) = match arguments.shell.as_str() {
        "bash" => joined(&arguments.words),
        _ => (arguments.words.clone(), 0),
    };
    let last = words.last().cloned().unwrap_or_default();
    let at = words.len() - 1;
    let mut command = offering(Cli::command(), &words);
    let candidates = complete(&mut command, words, at, None).unwrap_or_default();
    let is_option = |word: &OsStr| word.as_encoded_bytes().starts_with(b"-");
    let mut out = LineWriter::new(call::output());
    for candidate in candidates {
        // Options are offered only if the word starts with `-`.
        if is_option(candidate.get_value()) && !is_option(&last) {
            continue;
        }
        let value = candidate.get_value().to_string_lossy();
        let value = match value.find(PATHS) {
            Some(path) => &value[path..],
            None => value.get(joined..).unwrap_or_default(),
        };
        if value.is_empty() {
            continue;
        }
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().unwrap_or_default();
        let tab = if help.is_empty() { "" } else { "\t" };
        writeln!(out, "{value}{tab}{help}")?;
    }
    Ok(())
}

/// Joins the words that bash split at `=` and `:`. Also returns how many bytes of the last word bash counts to earlier words.
fn joined(split: &[OsString]) -> (Vec<OsString>, usize) {
    let is_between = |word: &OsString| word == "=" || word == ":";
    let mut words: Vec<OsString> = Vec::new();
    let mut before = 0;
    for (at, part) in split.iter().enumerate() {
        let is_joined = at > 1 && (is_between(part) || is_between(&split[at - 1]));
        if let Some(word) = words.last_mut().filter(|_| is_joined) {
            before = word.len() + if is_between(part) { part.len() } else { 0 };
            word.push(part);
        } else {
            before = 0;
            words.push(part.clone());
        }
    }
    (words, before)
}

/// Starts a line for paths; no value contains it.
const PATHS: char = ':';

/// A value, and its description.
type Suggestion = (String, String);

/// Values without descriptions.
fn bare<T: ToString>(values: impl IntoIterator<Item = T>) -> Vec<Suggestion> {
    let values = values.into_iter();
    values.map(|value| (value.to_string(), String::new())).collect()
}

/// The command with a completer for each argument, chosen by the name of the argument's value.
fn offering(command: Command, words: &[OsString]) -> Command {
    let operations = match command.get_name() {
        "bench" => measured(words),
        "cmp" => vec![Operation::Compare],
        "update" => vec![Operation::Update],
        _ => Operation::ALL.to_vec(),
    };
    let command = command.mut_args(|arg| {
        if !arg.get_action().takes_values() || !arg.get_possible_values().is_empty() {
            return arg;
        }
        let names = value_name(&arg);
        let operations = operations.clone();
        arg.add(ArgValueCompleter::new(move |current: &OsStr| {
            let current = current.to_string_lossy();
            let names = names.split('|');
            let values = names.flat_map(|name| values(name, &current, &operations));
            let fitting = values.filter(|(value, _)| {
                let is_paths = value.starts_with(PATHS) && !current.starts_with('-');
                is_paths || value.starts_with(&*current)
            });
            let candidate = |(value, help): Suggestion| CompletionCandidate::new(value).help(Some(help.into()));
            fitting.map(candidate).collect()
        }))
    });
    command.mut_subcommands(|inner| offering(inner, words))
}

/// The name of an argument's value; `|` separates several kinds of values.
fn value_name(arg: &Arg) -> String {
    let first = arg.get_value_names().and_then(|names| names.first());
    first.map_or_else(|| arg.get_id().to_string(), ToString::to_string)
}

/// The values of a name. Values that do not begin with `current` may be among them.
fn values(name: &str, current: &str, operations: &[Operation]) -> Vec<Suggestion> {
    let files = |suffix: &str| bare([format!("{PATHS}files{suffix}")]);
    match name {
        "EXPERIMENT" => experiments(),
        "ID" => runs(),
        "RUN" | "FIRST" | "SECOND" => [runs(), files(" .json")].concat(),
        "OPERATION" => bare(Operation::ALL),
        "METHOD" | "GLOB" => methods(current, operations),
        // A rule as far as it is the same for all values.
        "RULE" => bare(RULES.split(", ").filter_map(|rule| rule.split_inclusive(':').next())),
        "DISK" => disks(),
        "DIR" | "TREE" => bare([format!("{PATHS}directories")]),
        "PATH" | "SOURCE" | "REF" | "JOURNAL" | "UPDATES" | "FILE" | "FILE1" | "FILE2" => files(""),
        _ => name
            .strip_prefix("FILE")
            .map_or_else(Vec::new, |suffix| files(&format!(" {suffix}"))),
    }
}

fn experiments() -> Vec<Suggestion> {
    let builtin = Experiment::builtin_names().into_iter().flat_map(Experiment::builtin);
    builtin.map(|experiment| (experiment.name, experiment.about)).collect()
}

/// The operations of the experiments that a line names, or all if it names none.
fn measured(words: &[OsString]) -> Vec<Operation> {
    let named = words.iter().filter_map(|word| Experiment::builtin(word.to_str()?).ok());
    let contests = named.flat_map(|experiment| experiment.contests);
    let operations: Vec<_> = contests.map(|contest| contest.common.operation).collect();
    if operations.is_empty() {
        return Operation::ALL.to_vec();
    }
    operations
}

/// The mechanisms of the operations, with the short names of methods of updating; after a comma, the options that the method
/// before it can take as well.
fn methods(current: &str, operations: &[Operation]) -> Vec<Suggestion> {
    let Some((before, _)) = current.rsplit_once(',') else {
        let here = MECHANISMS
            .iter()
            .filter(|row| row.is_here() && operations.contains(&row.operation));
        let here = here.map(|row| (format!("{row:?}"), row.about.to_owned()));
        let short = SHORT_NAMES.iter().filter(|_| operations == [Operation::Update]);
        let short = short.map(|(short, long)| ((*short).to_owned(), format!("short for {long}")));
        return here.chain(short).collect();
    };
    let Ok(method) = written_out(before).parse::<Method>() else {
        return Vec::new();
    };
    let mut texts = Vec::new();
    for accepted in method.mechanism().accepts {
        let row = accepted.option.row();
        let words = accepted.values.iter().filter(|value| matches!(value, Value::Word(_)));
        texts.extend(words.map(|value| row.text(*value)));
        let takes_number = accepted.values.iter().all(|value| matches!(value, Value::Number(_)));
        let number = row
            .number
            .as_ref()
            .filter(|number| method.mechanism().name != number.key);
        texts.extend(number.filter(|_| takes_number).map(|number| format!("{}=", number.key)));
    }
    let is_new = |text: &String| {
        let given = format!("{before},{text}");
        let changed = written_out(&given).parse::<Method>();
        text.ends_with('=') && !before.contains(&format!(",{text}")) || changed.is_ok_and(|changed| changed != method)
    };
    let new = texts.into_iter().filter(is_new);
    bare(new.map(|text| format!("{before},{text}")))
}

/// The simulated disks, which only root can see.
fn disks() -> Vec<Suggestion> {
    #[cfg(all(target_os = "linux", feature = "sim"))]
    {
        let about = |name: &DeviceName| name.state().map(|state| sim::place(&state)).unwrap_or_default();
        let described = |name: DeviceName| (name.as_str().to_owned(), about(&name));
        devices().unwrap_or_default().into_iter().map(described).collect()
    }
    #[cfg(not(all(target_os = "linux", feature = "sim")))]
    Vec::new()
}

/// The runs of the store: own runs, the newest first, then imported runs.
fn runs() -> Vec<Suggestion> {
    let Ok(store) = config::store() else { return Vec::new() };
    let mut ids = listed(&[Origin::Own, Origin::Imported].map(|origin| store.directory_of(origin)));
    ids.sort_unstable_by(|one, other| other.cmp(one));
    let (imported, own): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| id.starts_with(IMPORTED));
    let latest = own.first().map(|newest| ("latest".to_owned(), newest.clone()));
    let described = own.into_iter().chain(imported).map(|id| {
        let about = about(&id).unwrap_or_default();
        (id, about)
    });
    latest.into_iter().chain(described).collect()
}

/// What an ID says: the start of the run, in local time, and its experiments.
fn about(id: &str) -> Option<String> {
    const TIME: usize = "2026-11-20T14-03-22".len();
    let (is_imported, id) = id.strip_prefix(IMPORTED).map_or((false, id), |id| (true, id));
    let started = DateTime::strptime("%Y-%m-%dT%H-%M-%S", id.get(..TIME)?).ok()?;
    let started = started.to_zoned(TimeZone::UTC).ok()?.with_time_zone(TimeZone::system());
    let experiment = id[TIME..].trim_start_matches('-');
    let whose = if is_imported { ", imported" } else { "" };
    Some(format!("{}, {experiment}{whose}", started.strftime("%Y-%m-%d %H:%M")))
}

/// The names of the documents in directories. Another process lists them: a process that waits for a dead disk cannot end.
fn listed(directories: &[PathBuf]) -> Vec<String> {
    let mut list = process::Command::new("ls");
    let list = list.arg("--").args(directories).stdin(Stdio::null());
    let Ok(mut child) = list.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        return Vec::new();
    };
    let (told, names) = mpsc::channel();
    let mut out = child.stdout.take();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let is_whole = out.as_mut().is_some_and(|out| out.read_to_end(&mut text).is_ok());
        // After [`PATIENCE`] nobody receives it.
        let _ = told.send(if is_whole { text } else { Vec::new() });
    });
    let Ok(text) = names.recv_timeout(PATIENCE) else {
        let _ = child.kill();
        return Vec::new();
    };
    let is_plain = |id: &&str| id.chars().all(|c| c.is_ascii_alphanumeric() || "-_+.".contains(c));
    let text = String::from_utf8_lossy(&text);
    let ids = text.lines().filter_map(|line| line.strip_suffix(".json"));
    ids.filter(is_plain).map(str::to_owned).collect()
}
